//! The engine of a member: what it is told to do, and what a session's signals and end do to this process.
//!
//! A signal comes at once if the program handles it; one that would end the process comes only when nobody hangs on it
//! any more, so that what they say of their own ends still gets through, or when that has taken too long.
//!
//! An end comes in two steps: the signal, and SIGKILL when the grace has passed, for everything in the process group that
//! this process leads.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Ending, Node, Notice};

use super::keeper::{Command, PARTY, Place, Stage, State};
use super::signals::{is_fatal, is_handled};
use super::tie::loosen;
use crate::engine::anchor::is_adrift;
use crate::engine::driver::Driver;
use crate::engine::sys::{kill_group, signal_self};
use crate::engine::{Engine, Id, Owner};
use crate::works::{Board, Machinery, Talk};

/// The engine, and who is told.
pub(super) struct Hall {
    engine: Engine,
    id: Id,
    desk: Desk,
}

/// Takes down what the node tells.
pub(super) struct Desk {
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
pub(super) const LAST_WORDS: Duration = Duration::from_millis(500);

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
        let most = [most, self.own_timeout()].into_iter().flatten().min();
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

    fn next_timeout(&self) -> Option<Duration> {
        [self.engine.next_timeout(), self.own_timeout()].into_iter().flatten().min()
    }

    fn close(&mut self) {}
}

impl Desk {
    pub(super) fn new(board: Arc<Board<State, Command>>) -> Self {
        Self { board, absent: Ranks::new(), fall: None, signals: Vec::new() }
    }
}

impl Hall {
    pub(super) fn new(engine: Engine, id: Id, desk: Desk) -> Self {
        Self { engine, id, desk }
    }

    /// How long this process has until something is due that the engine does not know of.
    fn own_timeout(&self) -> Option<Duration> {
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
                let fall = self.fall.get_or_insert(Fall { ending, by, told: false });
                fall.by = fall.by.min(by);
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
