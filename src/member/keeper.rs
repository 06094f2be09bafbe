//! The engine of a member: whoever turns it, and what a session's signals and end do to this process.
//!
//! A signal comes at once if the program handles it; one that would end the process comes only when nobody hangs on it
//! any more, so that what they say of their own ends still gets through, or when that has taken too long.
//!
//! An end comes in two steps: the signal, and SIGKILL when the grace has passed, for everything in the process group that
//! this process leads.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libi_comm::{Call, CallId, CommError, Outcome};
use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Ending, Event as Input, Node, Notice, Stream as Standard};
use nix::errno::Errno;

use super::MemberError;
use super::anchor::{Anchor, Mooring, is_adrift};
use super::signals::{is_fatal, is_handled};
use super::stdio::{Streams, redirect};
use super::tie::{Tie, loosen};
use crate::engine::driver::Driver;
use crate::engine::stream::Stream;
use crate::engine::sys::{duplicate, is_main_thread, kill_group, signal_self};
use crate::engine::{Engine, Id, Owner};
use crate::front::Progress;
use crate::talk::{Pending, Reading};
use crate::works::{Board, Machinery, Talk, Works};

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
    /// Who did not come up.
    pub(super) absent: Ranks,
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
    /// What has come of loosening the tie of the thread.
    loosened: Option<Result<(), Errno>>,
    /// Members that were there and have ended or are lost.
    pub(super) lost: Ranks,
}

pub(super) enum Command {
    Tell(Input),
    Talk(Talk),
    Print(Standard, Stream),
    /// The thread, by which this process is tied to its starter, is not to be any more.
    Loosen,
}

impl From<Talk> for Command {
    fn from(talk: Talk) -> Self {
        Self::Talk(talk)
    }
}

/// See the [module](self).
pub(super) struct Keeper {
    works: Arc<Works<Hall>>,
    /// What says that there is something to do, and what also says that a call is over, once somebody has asked for it.
    has_work: Arc<OwnedFd>,
    descriptor: OnceLock<Arc<OwnedFd>>,
    progress: Progress,
    mooring: Mooring,
    tie: Tie,
    /// How many of the two streams that a program prints to are pipes that are read here.
    own: usize,
}

/// The engine, and who is told.
struct Hall {
    engine: Engine,
    id: Id,
    desk: Desk,
}

/// Takes down what the node tells.
struct Desk {
    board: Arc<Board<State, Command>>,
    /// Who did not come up.
    absent: Ranks,
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

/// How long the thread may take to loosen its tie, which it does as soon as it is there.
const LOOSENING: Duration = Duration::from_secs(10);

/// Of the calls of a member, all are of one party.
const PARTY: u64 = 0;

impl Keeper {
    pub(super) fn new(driver: Driver, streams: Streams, tied: bool, progress: Progress) -> io::Result<Self> {
        let own = streams.printed.len();
        let mut engine = Engine::new()?;
        let waker = engine.waker();
        let has_work = Arc::new(duplicate(engine.poll().as_raw_fd())?);
        let state = State {
            stage: Stage::Joining,
            place: None,
            alone: false,
            quiet: false,
            obeyed: 0,
            waiting: 0,
            loosened: None,
            lost: Ranks::new(),
        };
        let board = Arc::new(Board::new(state, progress)?);
        let mut desk =
            Desk { board: Arc::clone(&board), absent: Ranks::new(), fall: None, signals: Vec::new() };
        let id = engine.add_connected(driver, streams.input, streams.output, streams.printed, &mut desk)?;
        let mooring = engine.mooring();
        let moored = Arc::clone(&mooring);
        let wake = move || {
            if !is_adrift(&moored) {
                drop(waker.wake());
            }
        };
        let works = Works::new(board, Hall { engine, id, desk }, wake, progress);
        let tie = match progress {
            Progress::Manual => Tie::of(tied),
            Progress::Thread => {
                let (works, mooring) = (Arc::clone(&works), Arc::clone(&mooring));
                let work = move || {
                    works.tend();
                    if is_adrift(&mooring) {
                        std::mem::forget(works);
                    }
                };
                Tie::take_over(tied, work)?
            }
        };
        Ok(Self { works, has_work, descriptor: OnceLock::new(), progress, mooring, tie, own })
    }

    /// Looks at the state, or changes it.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut State) -> T) -> T {
        what(&mut self.works.board().lock().state)
    }

    /// Starts a call.
    pub(super) fn call<T>(&self, what: &'static str, call: Call, read: Reading<T>) -> Pending<T> {
        if is_adrift(&self.mooring) {
            return Pending::over(what, Err(CommError::Ended));
        }
        let id = self.works.start(PARTY, call);
        Pending::called(Arc::clone(&self.works) as _, id, what, read)
    }

    pub(super) fn tell(&self, input: Input) {
        self.send(Command::Tell(input));
    }

    /// Sends a command, and gives its number.
    fn send(&self, command: Command) -> u64 {
        self.works.send(command)
    }

    /// Takes this process out of what ends with others.
    pub(super) fn release(&self) -> Result<(), MemberError> {
        if self.with(|state| state.stage) == Stage::Ending {
            return Err(MemberError::Ending);
        }
        let refused = |what| move |why: io::Error| MemberError::System { what, why };
        if self.tie == Tie::Main && !is_main_thread() {
            let why = io::Error::other("this is not the thread that the process began with");
            return Err(refused("cannot be released")(why));
        }
        // Whoever reads what is printed now may end before this process.
        let streams = [(Standard::Out, 1), (Standard::Err, 2)];
        for (stream, number) in streams.into_iter().skip(self.own) {
            let pipe = redirect(number).map_err(refused("cannot make a pipe for what is printed"))?;
            self.send(Command::Print(stream, pipe));
        }
        let cleared = match self.tie {
            Tie::Loose => Ok(()),
            Tie::Main => loosen(),
            Tie::Own => {
                self.send(Command::Loosen);
                self.wait(LOOSENING, |state| state.loosened).unwrap_or(Err(Errno::ETIMEDOUT))
            }
        };
        cleared.map_err(io::Error::from).map_err(refused("cannot be released"))?;
        if self.mooring.get().is_none() {
            let anchor = Anchor::new().map_err(refused("cannot make a pipe"))?;
            // Another thread may have been quicker.
            let _ = self.mooring.set(anchor);
        }
        Ok(())
    }

    /// Waits until what this process had to pass on is with the next, and, if that is asked for, until nobody needs
    /// it.
    pub(super) fn await_quiet(&self, patience: Duration, alone: bool) -> Result<(), MemberError> {
        if is_adrift(&self.mooring) {
            return Ok(());
        }
        // What was said before counts as of now.
        self.with(|state| state.waiting += 1);
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
        self.with(|state| state.waiting -= 1);
        let what = if alone { "other members" } else { "passing on what was printed" };
        quiet.unwrap_or(Err(MemberError::TimedOut(what)))
    }

    /// Waits until the state is as it should be, for so long at most.
    pub(super) fn wait<T>(
        &self,
        patience: Duration,
        ready: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        self.works.watch(patience, ready)
    }

    /// Without a thread: does what there is to do, and does not wait.
    pub(super) fn dispatch(&self) -> io::Result<()> {
        self.works.dispatch()
    }

    /// Without a thread: how long nothing has to be done unless something happens.
    pub(super) fn patience(&self) -> Option<Duration> {
        self.works.patience()
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        let made = self.descriptor.get_or_init(|| {
            // Where there is a thread, what there is to do is its business.
            let others =
                if self.progress == Progress::Thread { &[][..] } else { &[self.has_work.as_fd()][..] };
            // Where descriptors are short there is something to look at all the same.
            self.works.descriptor(others).map_or_else(|_| Arc::clone(&self.has_work), Arc::new)
        });
        made.as_fd()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if is_adrift(&self.mooring) {
            // Nobody closes what are not our descriptors any more.
            std::mem::forget((Arc::clone(&self.works), Arc::clone(&self.has_work), self.descriptor.take()));
        }
    }
}

impl Machinery for Hall {
    type State = State;
    type Command = Command;

    fn is_for_thread(command: &Command) -> bool {
        matches!(command, Command::Loosen)
    }

    fn is_anybodys(&self) -> bool {
        // What is to be started on this host is started before the session is up.
        self.desk.board.lock().state.stage > Stage::Joining
    }

    fn obey(&mut self, commands: VecDeque<Command>) {
        if is_adrift(&self.engine.mooring()) {
            return;
        }
        let obeyed = commands.len() as u64;
        for command in commands {
            match command {
                Command::Tell(input) => self.engine.tell(self.id, input, &mut self.desk),
                Command::Talk(Talk::Call(_, id, call)) => {
                    if self.desk.fall.is_none() {
                        self.engine.call(self.id, id, call, &mut self.desk);
                    } else {
                        self.desk.board.finish(id, Err(CommError::Ended));
                    }
                }
                Command::Talk(Talk::Cancel(_, id)) => {
                    self.engine.cancel(self.id, id, &mut self.desk);
                    self.desk.board.finish(id, Err(CommError::TimedOut { what: "the call" }));
                }
                Command::Loosen => {
                    let mut board = self.desk.board.lock();
                    board.state.loosened = Some(loosen());
                    self.desk.board.announce(board);
                }
                Command::Print(stream, pipe) => {
                    // If it cannot be read, what is printed waits in the pipe.
                    let _ = self.engine.add_printed(self.id, stream, pipe, &mut self.desk);
                }
            }
        }
        self.note(obeyed);
    }

    fn turn(&mut self, most: Option<Duration>) -> io::Result<()> {
        let most = [most, self.own_patience()].into_iter().flatten().min();
        self.engine.turn(most, &mut self.desk)?;
        self.note(0);
        self.fall();
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !is_adrift(&self.engine.mooring()) {
            self.engine.flush(&mut self.desk);
        }
        self.fall();
        Ok(())
    }

    fn patience(&self) -> Option<Duration> {
        [self.engine.patience(), self.own_patience()].into_iter().flatten().min()
    }

    fn close(&mut self) {}
}

impl Hall {
    /// How long this process has until something is due that the engine does not know of.
    fn own_patience(&self) -> Option<Duration> {
        let now = self.engine.now();
        let by = self.desk.fall.as_ref().map(|fall| fall.by.since(now).min(Duration::from_millis(20)));
        let signals = (!self.desk.signals.is_empty()).then_some(Duration::from_millis(5));
        let waits = || self.desk.board.lock().state.waiting > 0;
        let driver = self.engine.driver(self.id);
        let arrival =
            (waits() && driver.is_some_and(Driver::awaits_arrival)).then_some(Duration::from_millis(2));
        [by, signals, arrival].into_iter().flatten().min()
    }

    /// Says what calls may be waiting for, after so many more commands.
    fn note(&mut self, obeyed: u64) {
        let mut board = self.desk.board.lock();
        board.state.obeyed += obeyed;
        let Some(driver) = self.engine.driver(self.id).filter(|_| board.state.waiting > 0) else { return };
        let (alone, quiet) = (driver.node().is_alone(), driver.has_sent_everything());
        if obeyed > 0 || (board.state.alone, board.state.quiet) != (alone, quiet) {
            (board.state.alone, board.state.quiet) = (alone, quiet);
            self.desk.board.announce(board);
        }
    }

    /// Gives this process the signals that are due.
    fn fall(&mut self) {
        if self.desk.fall.is_none() && self.desk.signals.is_empty() {
            return;
        }
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
    fn finished(&mut self, _: Id, call: CallId, result: Result<Outcome, CommError>) {
        self.board.finish(call, result);
    }

    fn absent(&mut self, _: Id, ranks: &Ranks) {
        self.absent.clone_from(ranks);
    }

    fn lost(&mut self, _: Id, ranks: Ranks) {
        let mut board = self.board.lock();
        board.state.lost.add_all(&ranks);
        self.board.announce(board);
    }

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
        let mut board = self.board.lock();
        board.state.stage = stage;
        if let (Some(rank), Some((host, name))) = (node.rank(), node.host()) {
            let (size, host_name, absent) = (node.size(), name.to_owned(), self.absent.clone());
            board.state.place = Some(Place { rank, size, absent, host, host_name });
        }
        self.board.announce(board);
        if stage == Stage::Ending {
            self.board.end_calls_of(PARTY);
        }
    }
}
