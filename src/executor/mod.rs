//! Who turns the engine of a front end or a member, and how others wait meanwhile.
//!
//! [`Executor`] are the [`Reactor`] (an engine, and those who take down what it tells), a [`Shared`] on which is written
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
//!   [`IDLE_TIMEOUT`](thread::IDLE_TIMEOUT): whoever leaves the wheel sets an [idle_timer] unless it is set, and when it rings the thread looks
//!   how long that was ago. While callers come and go it looks less and less often, so that calls one behind the other hardly ever
//!   wake it. When it has rung while somebody drove, who drives silences it until he leaves, unless that is soon. What the machinery
//!   has to do while all callers compute waits for `IDLE_TIMEOUT`, and after a time of many calls for 8 ms.
//! - **What only the thread may do** is starting processes: they end with the thread that has started them. While the machinery
//!   may do that it is not [anybody's](Reactor::callers_may_drive), and commands that lead there [request_thread](Reactor::requires_thread) the thread.
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

mod call_waiter;
mod idle_timer;
mod pending_calls;
mod ready_fd;
mod shared;
mod thread;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use libi_comm::{Call, CallId, CommError, Outcome};

use crate::engine::sys::combine_readable;
use crate::front::Progress;
pub(crate) use call_waiter::CallWaiter;
pub(crate) use ready_fd::ReadyFd;
pub(crate) use shared::Shared;
use shared::{RunToken, SharedState};

/// How often in a row callers say something without looking what has happened.
const MAX_UNPOLLED: u32 = 16;

/// What came of a call.
pub(crate) type CallResult = Result<Outcome, CommError>;

/// Which of the machinery's nodes a call is for.
pub(crate) type GroupId = u64;

/// An engine, and those who take down on the [`Shared`] what it tells.
pub(crate) trait Reactor: Send + 'static {
    /// What is on the board beside calls.
    type State: Send + 'static;
    /// What it can be told.
    type Command: From<CallRequest> + Send + 'static;

    /// Whether only the thread may carry this out.
    fn requires_thread(command: &Self::Command) -> bool;

    /// Whether a caller may drive: not while processes may be started.
    fn callers_may_drive(&self) -> bool;

    /// Carries out commands.
    fn execute(&mut self, commands: VecDeque<Self::Command>);

    /// Waits until something happens, for so long at most, and does what follows.
    fn turn(&mut self, max_wait: Option<Duration>) -> io::Result<()>;

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
pub(crate) enum CallRequest {
    Call(GroupId, CallId, Call),
    /// Nobody waits for it any more. Whoever obeys takes down that it has timed out, should it not be over.
    Cancel(GroupId, CallId),
}

/// See the [module](self).
pub(crate) struct Executor<M: Reactor> {
    shared: Arc<Shared<M::State, M::Command>>,
    reactor: Mutex<M>,
    /// Makes a turn return soon, from any thread.
    wake: Box<dyn Fn() + Send + Sync>,
    threaded: bool,
}

type Guard<'a, M> = MutexGuard<'a, SharedState<<M as Reactor>::State, <M as Reactor>::Command>>;

/// Where a caller sleeps.
#[derive(Clone, Copy)]
enum WaitOn {
    /// He is woken when this call is over.
    Call(CallId),
    /// He is woken whenever the board changes.
    Change,
}

impl<M: Reactor> Executor<M> {
    pub(crate) fn new(
        shared: Arc<Shared<M::State, M::Command>>,
        reactor: M,
        wake: impl Fn() + Send + Sync + 'static,
        progress: Progress,
    ) -> Arc<Self> {
        let threaded = progress == Progress::Thread;
        // Until the thread knows better, what there is to do is its own.
        let mut locked = shared.lock();
        (locked.callers_may_drive, locked.thread_requested) = (!threaded, threaded);
        drop(locked);
        Arc::new(Self { shared, reactor: Mutex::new(reactor), wake: Box::new(wake), threaded })
    }

    pub(crate) fn shared(&self) -> &Shared<M::State, M::Command> {
        &self.shared
    }

    /// Makes a descriptor that is readable as long as one of these is, or calls are over of which nobody has heard. There is one of
    /// works.
    pub(crate) fn descriptor(&self, others: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
        let ready_fd = ReadyFd::new()?;
        let all = combine_readable(others.iter().copied().chain([ready_fd.as_fd()]))?;
        self.shared.lock().pending_calls.attach(ready_fd);
        Ok(all)
    }

    /// Adds a command, and gives its number. Commands are carried out soon, in their order.
    pub(crate) fn send(&self, command: M::Command) -> u64 {
        let mut locked = self.shared.lock();
        let number = self.push(&mut locked, command);
        self.process_commands(locked);
        number
    }

    fn push(&self, locked: &mut Guard<'_, M>, command: M::Command) -> u64 {
        // One that is gone has nothing any more that could be told something.
        if locked.run_token != RunToken::Closed {
            locked.has_thread_command |= self.threaded && M::requires_thread(&command);
            locked.commands.push_back(command);
        }
        locked.sent += 1;
        locked.sent
    }

    /// Has commands carried out that were added.
    fn process_commands(&self, mut locked: Guard<'_, M>) {
        if self.threaded && locked.caller_may_acquire() {
            let now = Some(Clock::now());
            drop(self.drive(locked, now, &mut |_| None::<()>));
        } else if self.threaded && locked.run_token == RunToken::Free {
            self.shared.request_thread(&mut locked);
        } else if locked.run_token != RunToken::Closed && !std::mem::replace(&mut locked.woken, true) {
            drop(locked);
            (self.wake)();
        }
    }

    /// Waits until the state is as it should be, for so long at most.
    pub(crate) fn wait_until<T>(
        &self,
        timeout: Duration,
        mut ready: impl FnMut(&mut M::State) -> Option<T>,
    ) -> Option<T> {
        let deadline = Clock::now().checked_add(timeout);
        self.wait_on(WaitOn::Change, deadline, &mut |locked| ready(&mut locked.state))
    }

    fn wait_on<T>(
        &self,
        on: WaitOn,
        deadline: Option<Clock>,
        ready: &mut impl FnMut(&mut SharedState<M::State, M::Command>) -> Option<T>,
    ) -> Option<T> {
        let mut locked = self.shared.lock();
        loop {
            let found = ready(&mut locked);
            let left = left(deadline);
            if found.is_some() || left == Some(Duration::ZERO) || locked.run_token == RunToken::Closed {
                self.shared.wake_waiter(&mut locked);
                return found;
            }
            if !locked.caller_may_acquire() {
                locked = self.sleep(locked, on, left);
                continue;
            }
            let (guard, found) = self.drive(locked, deadline, ready);
            locked = guard;
            match found {
                Ok(None) => {}
                Ok(found) => return found,
                Err(_) if self.threaded => {} // the thread sees to it that everybody hears of it
                Err(_) => return None,
            }
        }
    }

    /// Sleeps until it is worth while to look again.
    fn sleep<'a>(&'a self, mut locked: Guard<'a, M>, on: WaitOn, left: Option<Duration>) -> Guard<'a, M> {
        let asks = locked.run_token == RunToken::Thread && locked.callers_may_drive;
        if asks && !std::mem::replace(&mut locked.woken, true) {
            (self.wake)();
        }
        // A summoned thread leaves the wheel when it sees somebody asleep.
        let left = left.unwrap_or(Duration::from_secs(3_600));
        let mut own = None;
        if let WaitOn::Call(id) = on {
            own = locked.pending_calls.add_waiter(id);
        }
        if own.is_none() {
            locked.watchers += 1;
        }
        let waited = own.as_deref().unwrap_or(&self.shared.changed).wait_timeout(locked, left);
        locked = waited.unwrap_or_else(PoisonError::into_inner).0;
        match on {
            WaitOn::Call(id) if own.is_some() => locked.pending_calls.remove_waiter(id),
            _ => locked.watchers -= 1,
        }
        locked
    }

    /// Turns the machinery until it is ready, or the time is up, or the thread is needed; once at least. The wheel is free before
    /// and after.
    fn drive<'a, T>(
        &'a self,
        mut locked: Guard<'a, M>,
        deadline: Option<Clock>,
        ready: &mut impl FnMut(&mut SharedState<M::State, M::Command>) -> Option<T>,
    ) -> (Guard<'a, M>, io::Result<Option<T>>) {
        let mut run = RunGuard::acquire(self, &mut locked, RunToken::Caller);
        let result = loop {
            let commands = locked.take_commands();
            let (executes, unpolled) = (!commands.is_empty(), locked.unpolled);
            let (mut max_wait, mut found) = (left(deadline), None);
            if max_wait != Some(Duration::ZERO) {
                self.shared.disarm_timer(&mut locked);
            }
            drop(locked);
            if executes {
                run.reactor().execute(commands);
                // That may have been all that was waited for, or what only the thread can go on with.
                found = ready(&mut self.shared.lock());
                if found.is_some() || self.threaded && !run.reactor().callers_may_drive() {
                    max_wait = Some(Duration::ZERO);
                }
            }
            // Who does not wait has what he said go out; what others say is looked for now and then.
            let flush_only =
                self.threaded && executes && max_wait == Some(Duration::ZERO) && unpolled < MAX_UNPOLLED;
            let turned = if flush_only { run.reactor().flush() } else { run.reactor().turn(max_wait) };
            let callers_may_drive = !self.threaded || run.reactor().callers_may_drive();
            locked = self.shared.lock();
            (locked.callers_may_drive, locked.unpolled) =
                (callers_may_drive, if flush_only { unpolled + 1 } else { 0 });
            let found = found.or_else(|| ready(&mut locked));
            match turned {
                Err(error) => break Err(error),
                Ok(()) if found.is_some() || left(deadline) == Some(Duration::ZERO) => break Ok(found),
                Ok(()) if locked.stopped || !locked.caller_may_continue() => break Ok(None),
                Ok(()) => {}
            }
        };
        locked.stopped |= self.threaded && result.is_err();
        run.release(&mut locked);
        (locked, result)
    }

    /// Without a thread: does what there is to do, and does not wait. If somebody else drives he does it.
    pub(crate) fn dispatch(&self) -> io::Result<()> {
        let locked = self.shared.lock();
        if self.threaded || !locked.caller_may_acquire() {
            return Ok(());
        }
        self.drive(locked, Some(Clock::now()), &mut |_| None::<()>).1.map(drop)
    }

    /// Without a thread: how long nothing has to be done unless something happens, if nobody else drives.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let mut locked = self.shared.lock();
        if self.threaded || !locked.caller_may_acquire() {
            return None;
        }
        let mut run = RunGuard::acquire(self, &mut locked, RunToken::Caller);
        drop(locked);
        let timeout = run.reactor().next_timeout();
        run.release(&mut self.shared.lock());
        timeout
    }

    /// Ends everything, or has the thread end it.
    pub(crate) fn stop(&self) {
        let mut locked = self.shared.lock();
        locked.stopped = true;
        (self.wake)();
        if self.threaded {
            return self.shared.request_thread(&mut locked);
        }
        while locked.run_token == RunToken::Caller {
            locked.watchers += 1;
            locked = self.shared.changed.wait(locked).unwrap_or_else(PoisonError::into_inner);
            locked.watchers -= 1;
        }
        drop(locked);
        self.close();
    }

    /// Ends everything. The wheel is free, and nobody takes it any more.
    fn close(&self) {
        self.reactor.lock().unwrap_or_else(PoisonError::into_inner).close();
        self.shared.end();
    }
}

/// How long there is to a deadline.
fn left(deadline: Option<Clock>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Clock::now()))
}

/// Somebody at the wheel.
struct RunGuard<'a, M: Reactor> {
    executor: &'a Executor<M>,
    reactor: Option<MutexGuard<'a, M>>,
    released: bool,
}

impl<'a, M: Reactor> RunGuard<'a, M> {
    /// Takes the wheel, which is free.
    fn acquire(executor: &'a Executor<M>, locked: &mut Guard<'_, M>, run_token: RunToken) -> Self {
        locked.run_token = run_token;
        Self { executor, reactor: None, released: false }
    }

    fn reactor(&mut self) -> &mut M {
        // Whoever left the wheel has let go of it before.
        let lock = || self.executor.reactor.lock().unwrap_or_else(PoisonError::into_inner);
        self.reactor.get_or_insert_with(lock)
    }

    fn release(mut self, locked: &mut Guard<'_, M>) {
        (self.reactor, self.released) = (None, true);
        self.executor.shared.release(locked);
    }
}

impl<M: Reactor> Drop for RunGuard<'_, M> {
    fn drop(&mut self) {
        // Machinery in which something has panicked is not turned again.
        if !self.released {
            self.reactor = None;
            let mut locked = self.executor.shared.lock();
            locked.stopped = true;
            self.executor.shared.release(&mut locked);
        }
    }
}
