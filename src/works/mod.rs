//! Who turns the engine of a front end or a member, and how others wait meanwhile.
//!
//! [`Works`] are the [`Machinery`] (an engine, and those who take down what it tells), a [`Board`] on which is written
//! what it has told, and a wheel. Whoever is at the wheel has the machinery for himself, and nobody else touches it:
//!
//! ```text
//!                      rest is over, or the thread is summoned
//!             +-------------------------------------------------+
//!             v                                                 |
//!          Thread ---- a caller sleeps who could drive ----> Free ----- stop, or the machinery fails ---> Gone
//!                                                             |  ^
//!                                 a caller waits for something|  |it has come, or his time is up,
//!                                                             v  |or the thread is summoned
//!                                                            Caller
//! ```
//!
//! - **Who waits drives.** A caller that finds the wheel free turns the machinery until what he waits for is on the board: what
//!   he sends and what he gets crosses no thread. One that starts something and does not wait has it sent.
//! - **The thread** ([`Progress::Thread`]) drives when no caller does. It blocks in a turn; a caller wakes it, once, and sleeps; it
//!   leaves the wheel at the end of the turn to whoever sleeps, and rests. It comes back when the wheel has been free for
//!   [`LINGER`](thread::LINGER): whoever leaves the wheel sets an [alarm] unless it is set, and when it rings the thread looks
//!   how long that was ago. While callers come and go it looks less and less often, so that calls one behind the other hardly ever
//!   wake it. When it has rung while somebody drove, who drives silences it until he leaves, unless that is soon. What the machinery
//!   has to do while all callers compute waits for `LINGER`, and after a time of many calls for 8 ms.
//! - **What only the thread may do** is starting processes: they end with the thread that has started them. While the machinery
//!   may do that it is not [anybody's](Machinery::is_anybodys), and commands that lead there [summon](Machinery::is_for_thread) the thread.
//! - **Without a thread** ([`Progress::Manual`]) the wheel is free unless a caller waits or dispatches.
//!
//! # Why nobody sleeps for ever
//! The wheel, what is waited for and who sleeps are under one lock, that of the board.
//!
//! - Whoever drives takes the commands, and forgets that he was woken, under that lock before each turn; whoever adds a command
//!   wakes him unless he was woken since. So a turn that has not seen a command is woken out of its waiting.
//! - The thread looks for sleepers in the same moment. A caller wakes it, or finds it woken, before he sleeps: so the thread looks again.
//! - A result wakes who sleeps for it. Whoever leaves the wheel, and whoever leaves without having driven, wakes one who sleeps
//!   while the wheel is free; so there is never a free wheel with all awake who could take it asleep.
//! - If nobody takes it the thread does.
//! - Nobody takes the lock of the machinery while he has that of the board.
//!
//! [`Progress::Thread`]: crate::Progress::Thread
//! [`Progress::Manual`]: crate::Progress::Manual

mod alarm;
mod bell;
mod board;
mod calls;
mod line;
mod thread;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use libi_comm::{Call, CallId, CommError, Outcome};

use crate::engine::sys::gather;
use crate::front::Progress;
pub(crate) use bell::Bell;
pub(crate) use board::Board;
use board::{Inner, Wheel};
pub(crate) use line::Line;

/// How often in a row callers say something without looking what has happened.
const MOST_UNSEEN: u32 = 16;

/// What came of a call.
pub(crate) type Answer = Result<Outcome, CommError>;

/// Which of the machinery's nodes a call is for.
pub(crate) type Party = u64;

/// An engine, and those who take down on the [`Board`] what it tells.
pub(crate) trait Machinery: Send + 'static {
    /// What is on the board beside calls.
    type State: Send + 'static;
    /// What it can be told.
    type Command: From<Talk> + Send + 'static;

    /// Whether only the thread may carry this out.
    fn is_for_thread(command: &Self::Command) -> bool;

    /// Whether a caller may drive: not while processes may be started.
    fn is_anybodys(&self) -> bool;

    /// Carries out commands.
    fn obey(&mut self, commands: VecDeque<Self::Command>);

    /// Waits until something happens, for so long at most, and does what follows.
    fn turn(&mut self, most: Option<Duration>) -> io::Result<()>;

    /// Has what was just obeyed go out, without looking what has happened.
    fn flush(&mut self) -> io::Result<()> {
        self.turn(Some(Duration::ZERO))
    }

    /// How long nothing has to be done unless something happens.
    fn next_timeout(&self) -> Option<Duration>;

    /// Ends everything.
    fn close(&mut self);
}

/// What the program has to say to others, for any machinery.
#[derive(Debug)]
pub(crate) enum Talk {
    Call(Party, CallId, Call),
    /// Nobody waits for it any more. Whoever obeys takes down that it has timed out, should it not be over.
    Cancel(Party, CallId),
}

/// See the [module](self).
pub(crate) struct Works<M: Machinery> {
    board: Arc<Board<M::State, M::Command>>,
    machinery: Mutex<M>,
    /// Makes a turn return soon, from any thread.
    wake: Box<dyn Fn() + Send + Sync>,
    threaded: bool,
}

type Guard<'a, M> = MutexGuard<'a, Inner<<M as Machinery>::State, <M as Machinery>::Command>>;

/// Where a caller sleeps.
#[derive(Clone, Copy)]
enum Seat {
    /// He is woken when this call is over.
    Call(CallId),
    /// He is woken whenever the board changes.
    Watch,
}

impl<M: Machinery> Works<M> {
    pub(crate) fn new(
        board: Arc<Board<M::State, M::Command>>,
        machinery: M,
        wake: impl Fn() + Send + Sync + 'static,
        progress: Progress,
    ) -> Arc<Self> {
        let threaded = progress == Progress::Thread;
        // Until the thread knows better, what there is to do is its own.
        let mut inner = board.lock();
        (inner.anybodys, inner.summoned) = (!threaded, threaded);
        drop(inner);
        Arc::new(Self { board, machinery: Mutex::new(machinery), wake: Box::new(wake), threaded })
    }

    pub(crate) fn board(&self) -> &Board<M::State, M::Command> {
        &self.board
    }

    /// Makes a descriptor that is readable as long as one of these is, or calls are over of which nobody has heard. There is one of
    /// works.
    pub(crate) fn descriptor(&self, others: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
        let bell = Bell::new()?;
        let all = gather(others.iter().copied().chain([bell.as_fd()]))?;
        self.board.lock().calls.hang(bell);
        Ok(all)
    }

    /// Adds a command, and gives its number. Commands are carried out soon, in their order.
    pub(crate) fn send(&self, command: M::Command) -> u64 {
        let mut inner = self.board.lock();
        let number = self.push(&mut inner, command);
        self.nudge(inner);
        number
    }

    fn push(&self, inner: &mut Guard<'_, M>, command: M::Command) -> u64 {
        // One that is gone has nothing any more that could be told something.
        if inner.wheel != Wheel::Gone {
            inner.for_thread |= self.threaded && M::is_for_thread(&command);
            inner.commands.push_back(command);
        }
        inner.sent += 1;
        inner.sent
    }

    /// Has commands carried out that were added.
    fn nudge(&self, mut inner: Guard<'_, M>) {
        if self.threaded && inner.may_be_taken() {
            let now = Some(Clock::now());
            drop(self.drive(inner, now, &mut |_| None::<()>));
        } else if self.threaded && inner.wheel == Wheel::Free {
            self.board.summon(&mut inner);
        } else if inner.wheel != Wheel::Gone && !std::mem::replace(&mut inner.woken, true) {
            drop(inner);
            (self.wake)();
        }
    }

    /// Waits until the state is as it should be, for so long at most.
    pub(crate) fn watch<T>(
        &self,
        timeout: Duration,
        mut ready: impl FnMut(&mut M::State) -> Option<T>,
    ) -> Option<T> {
        let deadline = Clock::now().checked_add(timeout);
        self.wait_at(Seat::Watch, deadline, &mut |inner| ready(&mut inner.state))
    }

    fn wait_at<T>(
        &self,
        seat: Seat,
        deadline: Option<Clock>,
        ready: &mut impl FnMut(&mut Inner<M::State, M::Command>) -> Option<T>,
    ) -> Option<T> {
        let mut inner = self.board.lock();
        loop {
            let found = ready(&mut inner);
            let left = left(deadline);
            if found.is_some() || left == Some(Duration::ZERO) || inner.wheel == Wheel::Gone {
                self.board.hand_on(&mut inner);
                return found;
            }
            if !inner.may_be_taken() {
                inner = self.sleep(inner, seat, left);
                continue;
            }
            let (guard, found) = self.drive(inner, deadline, ready);
            inner = guard;
            match found {
                Ok(None) => {}
                Ok(found) => return found,
                Err(_) if self.threaded => {} // the thread sees to it that everybody hears of it
                Err(_) => return None,
            }
        }
    }

    /// Sleeps until it is worth while to look again.
    fn sleep<'a>(&'a self, mut inner: Guard<'a, M>, seat: Seat, left: Option<Duration>) -> Guard<'a, M> {
        let asks = inner.wheel == Wheel::Thread && inner.anybodys;
        if asks && !std::mem::replace(&mut inner.woken, true) {
            (self.wake)();
        }
        // A summoned thread leaves the wheel when it sees somebody asleep.
        let left = left.unwrap_or(Duration::from_secs(3_600));
        let mut own = None;
        if let Seat::Call(id) = seat {
            own = inner.calls.sit_down(id);
        }
        if own.is_none() {
            inner.watchers += 1;
        }
        let waited = own.as_deref().unwrap_or(&self.board.changed).wait_timeout(inner, left);
        inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        match seat {
            Seat::Call(id) if own.is_some() => inner.calls.stand_up(id),
            _ => inner.watchers -= 1,
        }
        inner
    }

    /// Turns the machinery until it is ready, or the time is up, or the thread is needed; once at least. The wheel is free before
    /// and after.
    fn drive<'a, T>(
        &'a self,
        mut inner: Guard<'a, M>,
        deadline: Option<Clock>,
        ready: &mut impl FnMut(&mut Inner<M::State, M::Command>) -> Option<T>,
    ) -> (Guard<'a, M>, io::Result<Option<T>>) {
        let mut driver = Driver::take(self, &mut inner, Wheel::Caller);
        let result = loop {
            let commands = inner.take_commands();
            let (obeys, unseen) = (!commands.is_empty(), inner.unseen);
            let (mut most, mut found) = (left(deadline), None);
            if most != Some(Duration::ZERO) {
                self.board.hush_alarm(&mut inner);
            }
            drop(inner);
            if obeys {
                driver.machinery().obey(commands);
                // That may have been all that was waited for, or what only the thread can go on with.
                found = ready(&mut self.board.lock());
                if found.is_some() || self.threaded && !driver.machinery().is_anybodys() {
                    most = Some(Duration::ZERO);
                }
            }
            // Who does not wait has what he said go out; what others say is looked for now and then.
            let brief = self.threaded && obeys && most == Some(Duration::ZERO) && unseen < MOST_UNSEEN;
            let turned = if brief { driver.machinery().flush() } else { driver.machinery().turn(most) };
            let anybodys = !self.threaded || driver.machinery().is_anybodys();
            inner = self.board.lock();
            (inner.anybodys, inner.unseen) = (anybodys, if brief { unseen + 1 } else { 0 });
            let found = found.or_else(|| ready(&mut inner));
            match turned {
                Err(error) => break Err(error),
                Ok(()) if found.is_some() || left(deadline) == Some(Duration::ZERO) => break Ok(found),
                Ok(()) if inner.stopped || !inner.may_be_lent() => break Ok(None),
                Ok(()) => {}
            }
        };
        inner.stopped |= self.threaded && result.is_err();
        driver.leave(&mut inner);
        (inner, result)
    }

    /// Without a thread: does what there is to do, and does not wait. If somebody else drives he does it.
    pub(crate) fn dispatch(&self) -> io::Result<()> {
        let inner = self.board.lock();
        if self.threaded || !inner.may_be_taken() {
            return Ok(());
        }
        self.drive(inner, Some(Clock::now()), &mut |_| None::<()>).1.map(drop)
    }

    /// Without a thread: how long nothing has to be done unless something happens, if nobody else drives.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let mut inner = self.board.lock();
        if self.threaded || !inner.may_be_taken() {
            return None;
        }
        let mut driver = Driver::take(self, &mut inner, Wheel::Caller);
        drop(inner);
        let timeout = driver.machinery().next_timeout();
        driver.leave(&mut self.board.lock());
        timeout
    }

    /// Ends everything, or has the thread end it.
    pub(crate) fn stop(&self) {
        let mut inner = self.board.lock();
        inner.stopped = true;
        (self.wake)();
        if self.threaded {
            return self.board.summon(&mut inner);
        }
        while inner.wheel == Wheel::Caller {
            inner.watchers += 1;
            inner = self.board.changed.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.watchers -= 1;
        }
        drop(inner);
        self.close();
    }

    /// Ends everything. The wheel is free, and nobody takes it any more.
    fn close(&self) {
        self.machinery.lock().unwrap_or_else(PoisonError::into_inner).close();
        self.board.end();
    }
}

/// How long there is to a deadline.
fn left(deadline: Option<Clock>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Clock::now()))
}

/// Somebody at the wheel.
struct Driver<'a, M: Machinery> {
    works: &'a Works<M>,
    machinery: Option<MutexGuard<'a, M>>,
    has_left: bool,
}

impl<'a, M: Machinery> Driver<'a, M> {
    /// Takes the wheel, which is free.
    fn take(works: &'a Works<M>, inner: &mut Guard<'_, M>, wheel: Wheel) -> Self {
        inner.wheel = wheel;
        Self { works, machinery: None, has_left: false }
    }

    fn machinery(&mut self) -> &mut M {
        // Whoever left the wheel has let go of it before.
        let lock = || self.works.machinery.lock().unwrap_or_else(PoisonError::into_inner);
        self.machinery.get_or_insert_with(lock)
    }

    fn leave(mut self, inner: &mut Guard<'_, M>) {
        (self.machinery, self.has_left) = (None, true);
        self.works.board.free(inner);
    }
}

impl<M: Machinery> Drop for Driver<'_, M> {
    fn drop(&mut self) {
        // Machinery in which something has panicked is not turned again.
        if !self.has_left {
            self.machinery = None;
            let mut inner = self.works.board.lock();
            inner.stopped = true;
            self.works.board.free(&mut inner);
        }
    }
}
