//! Decides which thread runs the engine of a front end or a member, and how other threads wait
//! meanwhile.
//!
//! An [`Executor`] owns the [`Reactor`] (an engine and the sink of its events) and the [`Shared`]
//! state in which results are stored. The run token grants exclusive use of the reactor. Its
//! states:
//!
//! ```text
//!             the idle timeout has passed, or the thread is requested
//!          +----------------------------------------------------+
//!          v                                                    |
//!       Thread ---- a waiter exists that could drive -------> Free ---- stop, failure ---> Closed
//!                                                             |  ^
//!                              a caller waits for a result    |  |  the result is there, a timeout
//!                                                             v  |  passed, the thread is wanted
//!                                                           Caller
//! ```
//!
//! - **Waiting callers drive.** A caller that finds the token free turns the reactor until its
//!   result is there, so that neither its request nor the result crosses threads. A caller that
//!   sends a command without waiting flushes it.
//! - **The thread** ([`Progress::Thread`]) drives while no caller does. It blocks in a turn. A
//!   caller that wants to wait wakes it once and sleeps; at the end of the turn the thread releases
//!   the token to a waiter and rests.
//! - **The idle timer** brings the thread back when the token has been free for
//!   [`IDLE_TIMEOUT`](thread::IDLE_TIMEOUT). A caller that releases the token arms the timer unless
//!   it is armed; when it expires, the thread checks how long the token has been free. While
//!   callers come and go the interval doubles up to 8 ms, so that a sequence of calls rarely wakes
//!   the thread. If the timer has expired while a caller was driving, the next caller that may
//!   block disarms it until it releases the token. Consequence: while all callers compute, pending
//!   work waits up to `IDLE_TIMEOUT`, after many calls up to 8 ms.
//! - **Starting processes is reserved for the thread**, because processes are bound to the thread
//!   that has started them and are killed when it ends. While the reactor may start processes,
//!   [`Reactor::callers_may_drive`] is false; a command that leads to it
//!   ([`Reactor::requires_thread`]) requests the thread.
//! - **Without a thread** ([`Progress::Manual`]) the token is free unless a caller waits or
//!   dispatches.
//!
//! # Invariants
//! The run token, the results, the commands and the waiters are protected by one lock, that of
//! [`Shared`].
//!
//! - While the token is free and a waiter exists that may take it, at least one waiter is awake or
//!   the thread will run. On release, and when a waiter leaves without having driven, one other
//!   waiter is woken; the armed timer covers the rest.
//! - A driver takes all commands and clears `woken` under the lock before each turn. A sender wakes
//!   the driver unless `woken` is set. So no turn blocks while a command waits.
//! - The thread checks for waiters under the same lock. A caller that goes to sleep wakes the
//!   thread first, or finds `woken` set. So no turn of the thread blocks while a waiter could
//!   drive.
//! - A completed call wakes its waiter; a changed state wakes all watchers.
//! - Lock order: the lock of the reactor is never acquired while the lock of `Shared` is held.
//! - A reactor that has panicked or failed is not turned again, and every waiter is woken.
//!
//! [`Progress::Thread`]: crate::Progress::Thread
//! [`Progress::Manual`]: crate::Progress::Manual

mod call_waiter;
mod idle_timer;
mod pending_calls;
mod progress;
mod ready_fd;
mod run_guard;
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
pub(crate) use call_waiter::CallWaiter;
pub use progress::Progress;
pub(crate) use ready_fd::ReadyFd;
use run_guard::RunGuard;
pub(crate) use shared::Shared;
use shared::{RunToken, SharedState};

/// How many times in a row callers may flush commands without polling for events.
const MAX_UNPOLLED: u32 = 16;

/// The result of a call.
pub(crate) type CallResult = Result<Outcome, CommError>;

/// The communication group that a call is for: a session of a front end.
pub(crate) type GroupId = u64;

/// An engine and the sink of its events, which writes results to [`Shared`].
pub(crate) trait Reactor: Send + 'static {
    /// What is shared with callers beside the results of calls.
    type State: Send + 'static;
    /// What the reactor can be told to do.
    type Command: From<CallRequest> + Send + 'static;

    /// Whether only the thread may execute this command.
    fn requires_thread(command: &Self::Command) -> bool;

    /// Whether a caller may drive. False while processes may be started.
    fn callers_may_drive(&self) -> bool;

    /// Executes commands in order.
    fn execute(&mut self, commands: VecDeque<Self::Command>);

    /// Waits at most `max_wait` for events, and handles them.
    fn turn(&mut self, max_wait: Option<Duration>) -> io::Result<()>;

    /// Sends what the last commands have queued, without polling for events.
    fn flush(&mut self) -> io::Result<()> {
        self.turn(Some(Duration::ZERO))
    }

    /// The time until the next deadline; `None` if there is none.
    fn next_timeout(&self) -> Option<Duration>;

    /// Ends all sessions.
    fn close(&mut self);
}

/// Calls of the program, for any reactor.
#[derive(Debug)]
pub(crate) enum CallRequest {
    Call(GroupId, CallId, Call),
    /// The caller does not wait any more. The reactor completes the call with `TimedOut`, unless it
    /// has completed.
    Cancel(GroupId, CallId),
}

/// See the [module](self).
pub(crate) struct Executor<M: Reactor> {
    shared: Arc<Shared<M::State, M::Command>>,
    reactor: Mutex<M>,
    /// Makes a turn return soon. May be called from any thread.
    wake: Box<dyn Fn() + Send + Sync>,
    threaded: bool,
}

type Guard<'a, M> = MutexGuard<'a, SharedState<<M as Reactor>::State, <M as Reactor>::Command>>;

/// What a waiter is woken by.
#[derive(Clone, Copy)]
enum WaitOn {
    /// This call completes.
    Call(CallId),
    /// The shared state changes.
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
        // Until the thread knows better, the reactor is reserved for it.
        let mut locked = shared.lock();
        (locked.callers_may_drive, locked.thread_requested) = (!threaded, threaded);
        drop(locked);
        Arc::new(Self { shared, reactor: Mutex::new(reactor), wake: Box::new(wake), threaded })
    }

    pub(crate) fn shared(&self) -> &Shared<M::State, M::Command> {
        &self.shared
    }

    /// Makes a descriptor that is readable while one of `others` is, or while completed calls have
    /// not been claimed. May be called once.
    pub(crate) fn descriptor(&self, others: &[BorrowedFd<'_>]) -> io::Result<OwnedFd> {
        let ready_fd = ReadyFd::new()?;
        let all = combine_readable(others.iter().copied().chain([ready_fd.as_fd()]))?;
        self.shared.lock().pending_calls.attach(ready_fd);
        Ok(all)
    }

    /// Adds a command and returns its number. Commands are executed soon, in order.
    pub(crate) fn send(&self, command: M::Command) -> u64 {
        let mut locked = self.shared.lock();
        let number = self.push(&mut locked, command);
        self.process_commands(locked);
        number
    }

    fn push(&self, locked: &mut Guard<'_, M>, command: M::Command) -> u64 {
        // A closed executor drops commands.
        if locked.run_token != RunToken::Closed {
            locked.has_thread_command |= self.threaded && M::requires_thread(&command);
            locked.commands.push_back(command);
        }
        locked.sent += 1;
        locked.sent
    }

    /// Has added commands executed.
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

    /// Waits at most `timeout` until `ready` returns a value.
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
                // The thread closes the executor, which wakes all waiters.
                Err(_) if self.threaded => {}
                Err(_) => return None,
            }
        }
    }

    /// Sleeps until the conditions for waiting may have changed.
    fn sleep<'a>(&'a self, mut locked: Guard<'a, M>, on: WaitOn, left: Option<Duration>) -> Guard<'a, M> {
        let asks = locked.run_token == RunToken::Thread && locked.callers_may_drive;
        if asks && !std::mem::replace(&mut locked.woken, true) {
            (self.wake)();
        }
        // The thread releases the token when it sees a waiter.
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

    /// Turns the reactor at least once, until `ready` returns a value, the deadline passes, or the
    /// thread is needed. The token is free before and after.
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
                // The commands may have produced the result, or work that is reserved for the
                // thread.
                found = ready(&mut self.shared.lock());
                if found.is_some() || self.threaded && !run.reactor().callers_may_drive() {
                    max_wait = Some(Duration::ZERO);
                }
            }
            // A caller that does not wait flushes its commands, and polls only every `MAX_UNPOLLED`
            // times.
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

    /// Without a thread: does what is due and does not wait. No-op if another caller drives.
    pub(crate) fn dispatch(&self) -> io::Result<()> {
        let locked = self.shared.lock();
        if self.threaded || !locked.caller_may_acquire() {
            return Ok(());
        }
        self.drive(locked, Some(Clock::now()), &mut |_| None::<()>).1.map(drop)
    }

    /// Without a thread: the time until the next deadline, unless another caller drives.
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

    /// Ends all sessions, or has the thread end them.
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

    /// Ends all sessions. The token is free; nothing acquires it afterwards.
    fn close(&self) {
        self.reactor.lock().unwrap_or_else(PoisonError::into_inner).close();
        self.shared.end();
    }
}

/// The time until a deadline.
fn left(deadline: Option<Clock>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(Clock::now()))
}
