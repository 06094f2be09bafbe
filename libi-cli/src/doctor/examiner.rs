//! Examines all hosts: starts a bounded number of examinations at a time and drives them with
//! `poll`.
//!
//! There is one thread. A host that has sent nothing for [`IDLE_AFTER`] only waits, as a dead host
//! does, and does not count towards the limit. Each started program has a process group of its own,
//! is killed by the kernel when this thread ends, and is killed when its examination is finished.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use libi::Backend;
use libi::hosts::{HostList, HostRef};
use libi_core::time::Instant;
use libi_launch::backend::SpawnSpec;
use libi_launch::exit_trailer::ExitTrailer;
use libi_launch::process::{Child, Environment, Signal as ProcessSignal, Start};
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use super::callback::CallbackListener;
use super::exam::{Effect, Exam, ExamOptions};
use super::finding::{Finding, Problem};
use super::{probe, remote_shell};

/// How long a host may send nothing before it no longer counts towards the limit.
const IDLE_AFTER: Duration = Duration::from_millis(500);
/// The most hosts examined at a time, including idle ones. Each takes four file descriptors.
pub(super) const MAX_CONCURRENT: usize = 200;
/// How many bytes one read takes.
const READ_SIZE: usize = 16 << 10;

/// See the [module](self).
pub(super) struct Examiner {
    pub(super) at_once: usize,
    pub(super) timeout: Duration,
    signals: SignalFd,
    origin: std::time::Instant,
    epoch_ns: i128,
    /// The signal that ended the examination early.
    interrupted: Option<i32>,
}

/// A host that is being examined.
struct ActiveHost {
    index: usize,
    exam: Exam,
    child: Child,
    input: Option<File>,
    unsent: Vec<u8>,
    /// Filters out the exit trailer, for remote shells that do not pass on an exit status.
    trailer: Option<ExitTrailer>,
    closing: bool,
    stdout: Option<File>,
    stderr: Option<File>,
}

impl Examiner {
    /// Blocks the signals that end this program; from now on [`Examiner::examine`] handles them.
    pub(super) fn new(at_once: usize, timeout: Duration) -> io::Result<Self> {
        let mut signal_set = SigSet::empty();
        [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP]
            .into_iter()
            .for_each(|signal| signal_set.add(signal));
        signal_set.thread_block()?;
        let signals = SignalFd::with_flags(&signal_set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
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

    /// The number of the signal that ended the examination early.
    pub(super) fn interrupted(&self) -> Option<i32> {
        self.interrupted
    }

    /// Examines these hosts and returns their findings in the same order.
    pub(super) fn examine(
        &mut self,
        hosts: &HostList,
        backend: &Backend,
        mut options: ExamOptions,
        mut callbacks: Option<CallbackListener>,
        mut progress: impl FnMut(usize),
    ) -> io::Result<Vec<Finding>> {
        options.epoch_ns = self.epoch_ns;
        options.addresses = callbacks.as_ref().map_or(Vec::new(), |callbacks| callbacks.addresses().to_vec());
        let (options, script) = (Rc::new(options), probe::script());
        let mut findings: Vec<Option<Finding>> = vec![None; hosts.len()];
        let mut waiting = hosts.iter().enumerate();
        let mut active: Vec<ActiveHost> = Vec::new();
        let mut done = 0;
        loop {
            while self.interrupted.is_none() && self.may_start(&active) {
                let Some((index, host)) = waiting.next() else { break };
                let tokens =
                    callbacks.as_mut().map_or(Ok(Vec::new()), |callbacks| callbacks.issue_tokens(index))?;
                let exam = Exam::begin(Rc::clone(&options), tokens, self.now(), self.timeout);
                match start_exam(index, host, backend, &script, exam) {
                    Ok(host) => active.push(host),
                    Err(why) => {
                        let problem = Some((Problem::NotStarted, why));
                        findings[index] = Some(Finding { problem, ..Finding::empty() });
                        done += 1;
                    }
                }
            }
            if active.is_empty() {
                break;
            }
            self.wait(&active, callbacks.as_ref(), waiting.len() > 0)?;
            let now = self.now();
            for (index, address) in
                callbacks.as_mut().map_or(Vec::new(), |callbacks| callbacks.handle_ready(now))
            {
                if let Some(host) = active.iter_mut().find(|host| host.index == index) {
                    let mut effects = Vec::new();
                    host.exam.on_callback(address, now, &mut effects);
                    host.carry_out(effects);
                }
            }
            for host in &mut active {
                host.handle_ready(now, self.interrupted.is_some());
            }
            for mut host in active.extract_if(.., |host| host.exam.is_finished()) {
                host.end();
                findings[host.index] = Some(host.exam.finding());
                done += 1;
            }
            progress(done);
        }
        let never = Finding { problem: Some((Problem::Interrupted, String::new())), ..Finding::empty() };
        Ok(findings.into_iter().map(|finding| finding.unwrap_or_else(|| never.clone())).collect())
    }

    pub(super) fn now(&self) -> Instant {
        Instant::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    fn may_start(&self, active: &[ActiveHost]) -> bool {
        let now = self.now();
        let busy = active.iter().filter(|host| now.since(host.exam.last_activity()) < IDLE_AFTER).count();
        busy < self.at_once && active.len() < MAX_CONCURRENT.max(self.at_once)
    }

    /// Waits for input, output, a signal or the next deadline.
    fn wait(
        &mut self,
        active: &[ActiveHost],
        callbacks: Option<&CallbackListener>,
        more: bool,
    ) -> io::Result<()> {
        let now = self.now();
        let mut until = active.iter().map(|host| host.exam.deadline()).min();
        until = until.into_iter().chain(callbacks.and_then(CallbackListener::deadline)).min();
        if more {
            let quiet =
                active.iter().map(|host| host.exam.last_activity() + IDLE_AFTER).filter(|at| *at > now);
            until = until.into_iter().chain(quiet.min()).min();
        }
        let timeout = until.map_or(Duration::from_secs(1), |until| until.since(now));
        let mut fds = Vec::new();
        for host in active {
            host.add_to(&mut fds);
        }
        if let Some(callbacks) = callbacks {
            fds.extend(callbacks.descriptors().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        }
        self.poll(fds, timeout)
    }

    /// Waits for these descriptors or a signal.
    pub(super) fn poll<'a>(&'a mut self, mut fds: Vec<PollFd<'a>>, timeout: Duration) -> io::Result<()> {
        fds.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        // Rounded up: a poll that returns just before the deadline would spin.
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

/// Starts the examination of a host, or returns why the remote shell could not be started.
fn start_exam(
    index: usize,
    host: HostRef<'_>,
    backend: &Backend,
    script: &str,
    exam: Exam,
) -> Result<ActiveHost, String> {
    let spec = remote_shell::spawn_spec(backend, host, script).map_err(|refused| refused.to_string())?;
    let (unsent, trailer) = (spec.initial_input.clone(), spec.trailer.map(ExitTrailer::new));
    let Piped { child, input, stdout, stderr } = start_piped(spec, ProcessSignal::KILL)?;
    Ok(ActiveHost { index, exam, child, input, unsent, trailer, closing: false, stdout, stderr })
}

/// A process, and the other ends of its standard streams, which do not block.
pub(super) struct Piped {
    pub(super) child: Child,
    pub(super) input: Option<File>,
    pub(super) stdout: Option<File>,
    pub(super) stderr: Option<File>,
}

/// Starts a process that gets this signal when this thread ends, or returns why it could not be started.
pub(super) fn start_piped(spec: SpawnSpec, death_signal: ProcessSignal) -> Result<Piped, String> {
    let pipes = || -> io::Result<_> { Ok([io::pipe()?, io::pipe()?, io::pipe()?]) };
    let [(theirs, input), (out, their_out), (err, their_err)] = pipes().map_err(|error| error.to_string())?;
    let mut start = Start::new(spec.program, Environment::inherited().with(spec.env));
    start.args = spec.args;
    start.cwd = spec.cwd;
    start.parent_death_signal = Some(death_signal);
    let start = start.fd(0, theirs.as_fd()).fd(1, their_out.as_fd()).fd(2, their_err.as_fd());
    let child = start.start().map_err(|error| error.to_string())?;
    let nonblocking = |fd: OwnedFd| -> io::Result<File> {
        fcntl(&fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok(File::from(fd))
    };
    let set_up = || -> io::Result<_> {
        Ok((nonblocking(input.into())?, nonblocking(out.into())?, nonblocking(err.into())?))
    };
    let (input, out, err) = set_up().map_err(|error| error.to_string())?;
    Ok(Piped { child, input: Some(input), stdout: Some(out), stderr: Some(err) })
}

impl ActiveHost {
    /// Adds the file descriptors to poll.
    fn add_to<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let reads: [Option<BorrowedFd<'_>>; 3] = [
            Some(self.child.as_fd()),
            self.stdout.as_ref().map(AsFd::as_fd),
            self.stderr.as_ref().map(AsFd::as_fd),
        ];
        fds.extend(reads.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        if let Some(input) = self.input.as_ref().filter(|_| !self.unsent.is_empty()) {
            fds.push(PollFd::new(input.as_fd(), PollFlags::POLLOUT));
        }
    }

    /// Reads available input, handles an exit or expired timers, and writes output.
    fn handle_ready(&mut self, now: Instant, interrupted: bool) {
        let mut effects = Vec::new();
        if interrupted {
            self.exam.interrupt(now, &mut effects);
            return self.carry_out(effects);
        }
        let exit = self.child.peek();
        // Output that precedes the exit is read first, up to a bound: a descendant may keep
        // writing.
        let pieces = if exit.is_some() { 64 } else { 1 };
        let exam = &mut self.exam;
        read(&mut self.stderr, pieces, |bytes| exam.on_stderr(bytes, now));
        let trailer = &mut self.trailer;
        read(&mut self.stdout, pieces, |bytes| {
            let mut bytes = bytes.to_vec();
            if let Some(trailer) = trailer {
                trailer.filter(&mut bytes);
            }
            exam.on_stdout(&bytes, now, &mut effects);
        });
        if self.trailer.as_ref().is_some_and(|trailer| trailer.exit().is_some()) {
            // The remote script waits for the end of its input after the trailer.
            self.input = None;
        }
        match exit {
            Some(exit) => exam.on_exit(exit, now, &mut effects),
            None => exam.on_tick(now, &mut effects),
        }
        self.carry_out(effects);
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(text) => self.unsent.extend_from_slice(text.as_bytes()),
                Effect::CloseInput => self.closing = true,
                // The main loop checks `Exam::is_finished`.
                Effect::End => {}
            }
        }
        if let Some(input) = self.input.as_mut().filter(|_| !self.unsent.is_empty()) {
            match input.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    // The reader is gone; the exit or the timeout will show it.
                    self.unsent.clear();
                    self.input = None;
                }
            }
        }
        if self.closing && self.unsent.is_empty() {
            self.input = None;
        }
    }

    /// Kills the remaining processes.
    fn end(&mut self) {
        // A failure means that the group is already empty. Dropping the child reaps it.
        let _ = self.child.signal_group(ProcessSignal::KILL);
    }
}

/// Reads at most this many pieces; closes the file at its end.
pub(super) fn read(file: &mut Option<File>, pieces: usize, mut on_bytes: impl FnMut(&[u8])) {
    let mut buffer = [0; READ_SIZE];
    for _ in 0..pieces {
        let Some(open) = file else { return };
        match open.read(&mut buffer) {
            Ok(0) => *file = None,
            Ok(count) => on_bytes(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(_) => *file = None,
        }
    }
}
