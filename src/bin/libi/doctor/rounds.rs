//! The round that is made of all hosts: calls them, so many at a time, waits for what they say, and ends what is left.
//!
//! One thread, one `poll`. A host that has said nothing for [`QUIET`] only waits, as dead ones do: it does not keep others
//! from their turn. Whatever was started is in a group of its own, ends with this thread, and is killed when its
//! examination is over.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use libi::Backend;
use libi::hosts::{HostList, HostRef};
use libi::time::Instant;
use libi_launch::exit_trailer::ExitTrailer;
use libi_launch::process::{Child, Environment, Signal as Kill, Start};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::door::Door;
use super::exam::{Effect, Exam, Wanted};
use super::finding::{Finding, Problem};
use super::{call, probe};

/// After how long without a word a host is taken for one that only waits.
const QUIET: Duration = Duration::from_millis(500);
/// How many hosts are called at a time at most, those that only wait among them. Each takes four descriptors.
pub(super) const MOST: usize = 200;
/// How much of what a host says is read at a time.
const PIECE: usize = 16 << 10;

/// Makes rounds; see the [module](self).
pub(super) struct Rounds {
    pub(super) at_once: usize,
    pub(super) timeout: Duration,
    signals: SignalFd,
    origin: std::time::Instant,
    epoch_ns: i128,
    /// What has ended us.
    interrupted: Option<i32>,
}

/// A host that is being examined.
struct Patient {
    host: usize,
    exam: Exam,
    child: Child,
    input: Option<File>,
    unsent: Vec<u8>,
    /// What tells the last line, where how a program ends is said by its host.
    trailer: Option<ExitTrailer>,
    closing: bool,
    out: Option<File>,
    err: Option<File>,
}

impl Rounds {
    /// From now on the signals that end this program are for the rounds alone.
    pub(super) fn new(at_once: usize, timeout: Duration) -> io::Result<Self> {
        let mut ours = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| ours.add(signal));
        ours.thread_block()?;
        let signals = SignalFd::with_flags(&ours, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        let epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        Ok(Self {
            at_once,
            timeout,
            signals,
            origin: std::time::Instant::now(),
            epoch_ns: epoch.as_nanos() as i128, // fits for some 10^21 years
            interrupted: None,
        })
    }

    /// The number of the signal that has ended the last round early.
    pub(super) fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    /// Examines all of these hosts: what was found of each, in their order.
    pub(super) fn examine(
        &mut self,
        hosts: &HostList,
        backend: &Backend,
        mut wanted: Wanted,
        mut door: Option<Door>,
        mut progress: impl FnMut(usize),
    ) -> io::Result<Vec<Finding>> {
        wanted.epoch_ns = self.epoch_ns;
        wanted.addresses = door.as_ref().map_or(Vec::new(), |door| door.addresses().to_vec());
        let (wanted, script) = (Rc::new(wanted), probe::script());
        let mut findings: Vec<Option<Finding>> = vec![None; hosts.len()];
        let mut waiting = hosts.iter().enumerate();
        let mut patients: Vec<Patient> = Vec::new();
        let mut done = 0;
        loop {
            while self.interrupted.is_none() && self.has_room(&patients) {
                let Some((number, host)) = waiting.next() else { break };
                let tokens = door.as_mut().map_or(Ok(Vec::new()), |door| door.admit(number))?;
                let exam = Exam::begin(Rc::clone(&wanted), tokens, self.now(), self.timeout);
                match call(number, host, backend, &script, exam) {
                    Ok(patient) => patients.push(patient),
                    Err(why) => {
                        let problem = Some((Problem::NotStarted, why));
                        findings[number] = Some(Finding { problem, ..Finding::nothing() });
                        done += 1;
                    }
                }
            }
            if patients.is_empty() {
                break;
            }
            self.wait(&patients, door.as_ref(), waiting.len() > 0)?;
            let now = self.now();
            for (host, address) in door.as_mut().map_or(Vec::new(), |door| door.attend(now)) {
                if let Some(patient) = patients.iter_mut().find(|patient| patient.host == host) {
                    let mut effects = Vec::new();
                    patient.exam.guest(address, now, &mut effects);
                    patient.carry_out(effects);
                }
            }
            for patient in &mut patients {
                patient.attend(now, self.interrupted.is_some());
            }
            for mut patient in patients.extract_if(.., |patient| patient.exam.is_over()) {
                patient.end();
                findings[patient.host] = Some(patient.exam.finding());
                done += 1;
            }
            progress(done);
        }
        let never = Finding { problem: Some((Problem::Interrupted, String::new())), ..Finding::nothing() };
        Ok(findings.into_iter().map(|finding| finding.unwrap_or_else(|| never.clone())).collect())
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    fn has_room(&self, patients: &[Patient]) -> bool {
        let now = self.now();
        let busy = patients.iter().filter(|patient| now.since(patient.exam.heard()) < QUIET).count();
        busy < self.at_once && patients.len() < MOST.max(self.at_once)
    }

    /// Waits until something happens, or somebody's time is over.
    fn wait(&mut self, patients: &[Patient], door: Option<&Door>, more: bool) -> io::Result<()> {
        let now = self.now();
        let mut until = patients.iter().map(|patient| patient.exam.deadline()).min();
        until = until.into_iter().chain(door.and_then(Door::deadline)).min();
        if more {
            let quiet = patients.iter().map(|patient| patient.exam.heard() + QUIET).filter(|at| *at > now);
            until = until.into_iter().chain(quiet.min()).min();
        }
        let timeout = until.map_or(Duration::from_secs(1), |until| until.since(now));
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        for patient in patients {
            patient.add_to(&mut fds);
        }
        if let Some(door) = door {
            fds.extend(door.descriptors().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        }
        // Rounded up: a wait that ends a little early would turn round again and again.
        let millis = u16::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        match poll(&mut fds, PollTimeout::from(millis)) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let Ok(Some(signal)) = self.signals.read_signal() {
            self.interrupted = i32::try_from(signal.ssi_signo).ok();
        }
        Ok(())
    }
}

/// Calls a host; otherwise why it cannot be called.
fn call(
    number: usize,
    host: HostRef<'_>,
    backend: &Backend,
    script: &str,
    exam: Exam,
) -> Result<Patient, String> {
    let spec = call::spawn_spec(backend, host, script).map_err(|refused| refused.to_string())?;
    let pipes = || -> io::Result<_> { Ok([io::pipe()?, io::pipe()?, io::pipe()?]) };
    let [(theirs, input), (out, their_out), (err, their_err)] = pipes().map_err(|error| error.to_string())?;
    let mut start = Start::new(spec.program, Environment::inherited().with(spec.env));
    start.args = spec.args;
    start.cwd = spec.cwd;
    start.parent_death_signal = Some(Kill::KILL);
    let start = start.fd(0, theirs.as_fd()).fd(1, their_out.as_fd()).fd(2, their_err.as_fd());
    let child = start.start().map_err(|error| error.to_string())?;
    let ours = |fd: OwnedFd| -> io::Result<File> {
        fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(File::from(fd))
    };
    let ours = || -> io::Result<_> { Ok((ours(input.into())?, ours(out.into())?, ours(err.into())?)) };
    let (input, out, err) = ours().map_err(|error| error.to_string())?;
    Ok(Patient {
        host: number,
        exam,
        child,
        input: Some(input),
        unsent: spec.initial_input,
        trailer: spec.trailer.map(ExitTrailer::new),
        closing: false,
        out: Some(out),
        err: Some(err),
    })
}

impl Patient {
    /// What is to be waited for.
    fn add_to<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let reads: [Option<BorrowedFd<'_>>; 3] = [
            Some(self.child.as_fd()),
            self.out.as_ref().map(AsFd::as_fd),
            self.err.as_ref().map(AsFd::as_fd),
        ];
        fds.extend(reads.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        if let Some(input) = self.input.as_ref().filter(|_| !self.unsent.is_empty()) {
            fds.push(PollFd::new(input.as_fd(), PollFlags::POLLOUT));
        }
    }

    /// Hears what there is, and says what is to be said.
    fn attend(&mut self, now: Instant, interrupted: bool) {
        let mut effects = Vec::new();
        if interrupted {
            self.exam.interrupt(now, &mut effects);
            return self.carry_out(effects);
        }
        let exit = self.child.peek();
        // What it has said before it ended comes first, as far as there is an end to it.
        let pieces = if exit.is_some() { 64 } else { 1 };
        let exam = &mut self.exam;
        read(&mut self.err, pieces, |bytes| exam.err(bytes, now));
        let trailer = &mut self.trailer;
        read(&mut self.out, pieces, |bytes| {
            let mut bytes = bytes.to_vec();
            if let Some(trailer) = trailer {
                trailer.filter(&mut bytes);
            }
            exam.out(&bytes, now, &mut effects);
        });
        if self.trailer.as_ref().is_some_and(|trailer| trailer.exit().is_some()) {
            // What has said it waits for that.
            self.input = None;
        }
        match exit {
            Some(exit) => exam.ended(exit, now, &mut effects),
            None => exam.tick(now, &mut effects),
        }
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(text) => self.unsent.extend_from_slice(text.as_bytes()),
                Effect::CloseInput => self.closing = true,
                // It is seen by whoever looks after all of them.
                Effect::End => {}
            }
        }
        if let Some(input) = self.input.as_mut().filter(|_| !self.unsent.is_empty()) {
            match input.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    // Nobody reads it; what follows of that will be seen.
                    self.unsent.clear();
                    self.input = None;
                }
            }
        }
        if self.closing && self.unsent.is_empty() {
            self.input = None;
        }
    }

    /// Ends what is left of it.
    fn end(&mut self) {
        // A failure means that there is nothing left. Dropping it waits for the end.
        let _ = self.child.signal_group(Kill::KILL);
    }
}

/// Reads so many pieces at most; closes what has come to its end.
fn read(file: &mut Option<File>, pieces: usize, mut heard: impl FnMut(&[u8])) {
    let mut buffer = [0; PIECE];
    for _ in 0..pieces {
        let Some(open) = file else { return };
        match open.read(&mut buffer) {
            Ok(0) => *file = None,
            Ok(count) => heard(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => *file = None,
        }
    }
}
