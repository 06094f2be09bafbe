//! The engine of a member: whoever turns it, and what a session's signals and end do to this process.
//!
//! A signal comes at once if the program handles it; one that would end the process comes only when nobody hangs on it
//! any more, so that what they say of their own ends still gets through, or when that has taken too long.
//!
//! An end comes in two steps: the signal, and SIGKILL when the grace has passed, for everything in the process group that
//! this process leads.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Ending, Event as Input, Node, Notice, Stream as Standard};
use mio::Waker;

use super::MemberError;
use super::stdio::{Streams, redirect};
use crate::engine::driver::Driver;
use crate::engine::stream::Stream;
use crate::engine::sys::{duplicate, is_main_thread, kill_group, signal_self};
use crate::engine::{Engine, Id, Owner};
use crate::front::Progress;

/// How far this member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Joining,
    Up,
    Ending,
}

/// What a member is told of itself.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) rank: Rank,
    pub(super) size: u32,
    pub(super) host: HostIndex,
    pub(super) host_name: String,
}

/// What calls want to know.
pub(super) struct State {
    pub(super) stage: Stage,
    pub(super) place: Option<Place>,
    /// Nobody needs this process any more.
    alone: bool,
    /// Everything that this process had to pass on is with the next.
    quiet: bool,
    /// How many commands the engine has obeyed; what else is said here holds after them.
    obeyed: u64,
    /// How many calls wait for it to be quiet.
    waiting: u32,
}

enum Command {
    Tell(Input),
    Print(Standard, Stream),
}

/// See the [module](self).
pub(super) struct Keeper {
    shared: Arc<Shared>,
    commands: Mutex<(Sender<Command>, u64)>,
    waker: Arc<Waker>,
    manual: Option<Mutex<Works>>,
    descriptor: OwnedFd,
    /// Whether the link is a socket, as for everybody who was started on the machine of his starter.
    socket: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Works {
    engine: Engine,
    id: Id,
    commands: Receiver<Command>,
    desk: Desk,
}

/// Takes down what the node tells.
struct Desk {
    shared: Arc<Shared>,
    fall: Option<Fall>,
    signals: Vec<(Instant, i32)>,
}

/// The end of this process.
struct Fall {
    ending: Ending,
    by: Instant,
    told: bool,
}

/// How long a signal waits until what was to be said before it is said.
const LAST_WORDS: Duration = Duration::from_millis(500);

impl Keeper {
    pub(super) fn new(
        driver: Driver,
        streams: Streams,
        socket: bool,
        progress: Progress,
    ) -> io::Result<Arc<Self>> {
        let mut engine = Engine::new()?;
        let waker = engine.waker();
        let descriptor = duplicate(engine.poll().as_raw_fd())?;
        let (sender, commands) = channel();
        let state =
            State { stage: Stage::Joining, place: None, alone: false, quiet: false, obeyed: 0, waiting: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let mut desk = Desk { shared: Arc::clone(&shared), fall: None, signals: Vec::new() };
        let id = engine.add_connected(driver, streams.input, streams.output, streams.printed, &mut desk)?;
        let mut works = Works { engine, id, commands, desk };
        let mut manual = None;
        match progress {
            Progress::Manual => manual = Some(Mutex::new(works)),
            Progress::Thread => {
                // It ends with the process.
                crate::thread::spawn("libi", move || while works.turn(None).is_ok() {})?;
            }
        }
        Ok(Arc::new(Self { shared, commands: Mutex::new((sender, 0)), waker, manual, descriptor, socket }))
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    pub(super) fn tell(&self, input: Input) {
        self.send(Command::Tell(input));
    }

    /// Sends a command, and gives its number.
    fn send(&self, command: Command) -> u64 {
        let mut commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        commands.1 += 1;
        let _ = commands.0.send(command);
        let _ = self.waker.wake();
        commands.1
    }

    /// Takes this process out of what ends with others.
    pub(super) fn release(&self) -> Result<(), MemberError> {
        if self.state().stage == Stage::Ending {
            return Err(MemberError::Ending);
        }
        let refused = |what| move |why: io::Error| MemberError::System { what, why };
        if self.socket && !is_main_thread() {
            let why = io::Error::other("this is not the thread that the process began with");
            return Err(refused("cannot be released")(why));
        }
        // Whoever reads what is printed now may end before this process.
        let streams = [(Standard::Out, 1), (Standard::Err, 2)];
        for (stream, number) in streams.into_iter().skip(usize::from(!self.socket)) {
            let pipe = redirect(number).map_err(refused("cannot make a pipe for what is printed"))?;
            self.send(Command::Print(stream, pipe));
        }
        if self.socket {
            let none: Option<nix::sys::signal::Signal> = None;
            let cleared = nix::sys::prctl::set_pdeathsig(none).map_err(io::Error::from);
            cleared.map_err(refused("cannot be released"))?;
        }
        Ok(())
    }

    /// Waits until what this process had to pass on is with the next, and, if that is asked for, until nobody needs
    /// it.
    pub(super) fn await_quiet(&self, patience: Duration, alone: bool) -> Result<(), MemberError> {
        // What was said before counts as of now.
        self.state().waiting += 1;
        let asked = self.send(Command::Tell(Input::Woken));
        let is_quiet = |state: &State| state.obeyed >= asked && state.quiet && (state.alone || !alone);
        let quiet = self.wait(patience, |state| {
            if state.stage == Stage::Ending {
                return Some(Err(MemberError::Ending));
            }
            is_quiet(state).then_some(Ok(()))
        });
        if matches!(quiet, Some(Err(_))) {
            // The program is likely to end now: not before what is to be said of the end is said.
            self.wait(patience.min(LAST_WORDS), |state| is_quiet(state).then_some(()));
        }
        self.state().waiting -= 1;
        let what = if alone { "other members" } else { "passing on what was printed" };
        quiet.unwrap_or(Err(MemberError::TimedOut(what)))
    }

    /// Waits until the state is as it should be, for so long at most.
    pub(super) fn wait<T>(
        &self,
        patience: Duration,
        mut ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let deadline = Clock::now().checked_add(patience);
        loop {
            let mut state = self.state();
            if let Some(found) = ready(&mut state) {
                return Some(found);
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Clock::now()));
            if left == Some(Duration::ZERO) {
                return None;
            }
            if self.manual.is_some() {
                drop(state);
                if self.turn(left).is_err() {
                    return ready(&mut self.state());
                }
            } else {
                let left = left.unwrap_or(Duration::from_secs(3_600));
                drop(self.shared.changed.wait_timeout(state, left));
            }
        }
    }

    pub(super) fn turn(&self, most: Option<Duration>) -> io::Result<()> {
        match &self.manual {
            Some(works) => works.lock().unwrap_or_else(PoisonError::into_inner).turn(most),
            None => Ok(()),
        }
    }

    pub(super) fn patience(&self) -> Option<Duration> {
        let works = self.manual.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        [works.engine.patience(), works.own_patience()].into_iter().flatten().min()
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Works {
    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        self.obey();
        let most = [most, self.own_patience()].into_iter().flatten().min();
        self.engine.turn(most, &mut self.desk)?;
        self.obey();
        self.note(0);
        self.fall();
        Ok(())
    }

    /// How long this process has until something is due that the engine does not know of.
    fn own_patience(&self) -> Option<Duration> {
        let now = self.engine.now();
        let by = self.desk.fall.as_ref().map(|fall| fall.by.since(now).min(Duration::from_millis(20)));
        let signals = (!self.desk.signals.is_empty()).then_some(Duration::from_millis(5));
        let driver = self.engine.driver(self.id);
        let waits = self.desk.shared.lock().waiting > 0 && driver.is_some_and(Driver::awaits_arrival);
        let arrival = waits.then_some(Duration::from_millis(2));
        [by, signals, arrival].into_iter().flatten().min()
    }

    fn obey(&mut self) {
        let mut obeyed = 0;
        while let Ok(command) = self.commands.try_recv() {
            obeyed += 1;
            match command {
                Command::Tell(input) => self.engine.tell(self.id, input, &mut self.desk),
                Command::Print(stream, pipe) => {
                    // If it cannot be read, what is printed waits in the pipe.
                    let _ = self.engine.add_printed(self.id, stream, pipe, &mut self.desk);
                }
            }
        }
        if obeyed > 0 {
            self.note(obeyed);
        }
    }

    /// Says what calls may be waiting for, after so many more commands.
    fn note(&mut self, obeyed: u64) {
        let Some(driver) = self.engine.driver(self.id) else { return };
        let (alone, quiet) = (driver.node().is_alone(), driver.has_sent_everything());
        let mut state = self.desk.shared.lock();
        if obeyed > 0 || (state.alone, state.quiet) != (alone, quiet) {
            (state.alone, state.quiet) = (alone, quiet);
            state.obeyed += obeyed;
            drop(state);
            self.desk.shared.changed.notify_all();
        }
    }

    /// Gives this process the signals that are due.
    fn fall(&mut self) {
        let now = self.engine.now();
        let Some(driver) = self.engine.driver(self.id) else { return };
        let (alone, said) = (driver.node().is_alone(), driver.has_sent_everything());
        self.desk.signals.retain(|(since, signal)| {
            let due = said && (alone || !is_fatal(*signal)) || now.since(*since) >= LAST_WORDS;
            if due {
                signal_self(*signal);
            }
            !due
        });
        let Some(fall) = &mut self.desk.fall else { return };
        let (signal, by) = (fall.ending.signal, fall.by);
        if !fall.told && (alone && said || is_handled(signal) || now >= by) {
            fall.told = true;
            signal_self(signal);
        }
        // Those who hang on it end at the same time, and need it to say so; and to have their own groups ended.
        if now >= by && (alone && said) || now >= by + LAST_WORDS {
            kill_group();
        }
    }
}

impl Owner for Desk {
    fn finished(&mut self, _: Id, _: CallId, _: Result<Outcome, CommError>) {}

    fn lost(&mut self, _: Id, _: Ranks) {}

    fn notice(&mut self, _: Id, notice: Notice, node: &Node, now: Instant) {
        let stage = match notice {
            Notice::Up => Stage::Up,
            Notice::End(ending) => {
                let by = now + ending.grace;
                self.fall.get_or_insert(Fall { ending, by, told: false });
                Stage::Ending
            }
            Notice::Signal(signal) => return self.signals.push((now, signal)),
            _ => return,
        };
        let mut state = self.shared.lock();
        state.stage = stage;
        if let (Some(rank), Some((host, name))) = (node.rank(), node.host()) {
            state.place = Some(Place { rank, size: node.size(), host, host_name: name.to_owned() });
        }
        drop(state);
        self.shared.changed.notify_all();
    }
}

/// Whether the program does something of its own at this signal, as far as the system tells.
fn is_handled(signal: i32) -> bool {
    is_among("SigCgt:", signal)
}

/// Whether this signal would end the process.
fn is_fatal(signal: i32) -> bool {
    const HARMLESS: [i32; 8] = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    !HARMLESS.contains(&signal) && !is_handled(signal) && !is_among("SigIgn:", signal)
}

/// Whether a signal is in one of the sets that the system tells of a process.
fn is_among(set: &str, signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix(set));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).contains(&signal) && (mask >> (signal - 1)) & 1 == 1
}
