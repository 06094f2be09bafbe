//! Decides which thread runs the engine of a front end or a member, and how other threads wait
//! meanwhile.
//!
//! An [`Executor`] owns the [`Reactor`] (an engine and the sink of its events) and the [`Shared`]
//! state in which results are stored. [`run_state`] decides which thread drives and which one a
//! change wakes: its head has the table of transitions and the invariants. The files beside it
//! lock, turn the reactor and sleep. The tests in `model` check all of them together.
//!
//! - **Waiting callers drive.** A caller that finds the run token free turns the reactor until its
//!   result is there, so that neither its request nor the result crosses threads. A caller that
//!   sends a command without waiting flushes it.
//! - **The thread** ([`Progress::Thread`]) drives while no caller does. It blocks in a turn. A
//!   caller that wants to wait wakes it once and sleeps; at the end of the turn the thread releases
//!   the token to a waiter and rests.
//! - **The idle timer** ([`idle_timer`]) brings the thread back when the token has been free for
//!   [`IDLE_TIMEOUT`](idle_timer::IDLE_TIMEOUT). A caller that releases the token arms the timer
//!   unless it is armed; when it expires, the thread checks how long the token has been free. While
//!   callers come and go the interval doubles up to 8 ms, so that a sequence of calls rarely wakes
//!   the thread. If the timer has expired while a caller was driving, the next caller that may
//!   block disarms it until it releases the token. Consequence: while all callers compute, pending
//!   work waits up to `IDLE_TIMEOUT`, after many calls up to 8 ms.
//! - **Starting processes is reserved for the thread**, because processes are bound to the thread
//!   that has started them and are killed when it ends. While the reactor may start processes,
//!   [`Reactor::callers_may_drive`] is false; a command that leads to it
//!   ([`Reactor::requires_thread`]) reserves the token as well.
//! - **Without a thread** ([`Progress::Manual`]) the token is free unless a caller waits or
//!   dispatches.
//!
//! Each of these refinements stays because `cargo bench --bench talk` (`small`, `barrier`) loses
//! without it: a flush that does not poll saves 1 µs of a ping's 14; the timer, its doubling and
//! its disarming save context switches in sessions with many members on a host; a condition
//! variable for each call saves them in processes with many callers.
//!
//! # Invariants
//! - The run state, the results, the commands and the waiters are protected by one lock, that of
//!   [`Shared`]. The lock of the reactor is never acquired while that lock is held.
//! - A completed call wakes its waiter; a changed state wakes all watchers.
//! - A reactor that has panicked or failed is not turned again, and every waiter is woken.
//!
//! [`Progress::Thread`]: crate::Progress::Thread
//! [`Progress::Manual`]: crate::Progress::Manual

mod call_waiter;
mod idle_timer;
#[cfg(test)]
mod model;
mod pending_calls;
mod primitives;
mod progress;
mod ready_fd;
mod run_guard;
mod run_state;
mod shared;
mod thread;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use libi_comm::{Call, CallId, CommError, Outcome};
use libi_core::ranks::Ranks;

use crate::engine::sys::combine_readable;
pub(crate) use call_waiter::CallWaiter;
use primitives::{Primitives, Std};
pub use progress::Progress;
pub(crate) use ready_fd::ReadyFd;
use run_guard::RunGuard;
use run_state::{Next, RunToken, WakeUp};
pub(crate) use shared::Shared;
use shared::SharedState;

/// How many times in a row callers may flush commands without polling for events.
const MAX_UNPOLLED: u32 = 16;

/// The result of a call.
pub(crate) type CallResult = Result<Completed, CommError>;

/// What a call has given.
#[derive(Debug, PartialEq)]
pub(crate) struct Completed {
    pub(crate) outcome: Outcome,
    /// The lost members without which it has completed.
    pub(crate) missing: Ranks,
}

impl From<Outcome> for Completed {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, missing: Ranks::new() }
    }
}

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

    /// Executes commands in order. Those that are left are dropped.
    fn execute(&mut self, commands: &mut VecDeque<Self::Command>);

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
pub(crate) struct Executor<M: Reactor, P: Primitives = Std> {
    shared: Arc<Shared<M::State, M::Command, P>>,
    reactor: P::Mutex<M>,
    /// Makes a turn return soon. May be called from any thread.
    wake: Box<dyn Fn() + Send + Sync>,
    threaded: bool,
}

type Guard<'a, M, P> =
    <P as Primitives>::Guard<'a, SharedState<<M as Reactor>::State, <M as Reactor>::Command, P>>;

/// What a waiter is woken by.
#[derive(Clone, Copy)]
enum WaitOn {
    /// This call completes.
    Call(CallId),
    /// The shared state changes.
    Change,
}

impl<M: Reactor, P: Primitives> Executor<M, P> {
    pub(crate) fn new(
        shared: Arc<Shared<M::State, M::Command, P>>,
        reactor: M,
        wake: impl Fn() + Send + Sync + 'static,
        progress: Progress,
    ) -> Arc<Self> {
        let threaded = progress == Progress::Thread;
        Arc::new(Self { shared, reactor: P::mutex(reactor), wake: Box::new(wake), threaded })
    }

    pub(crate) fn shared(&self) -> &Shared<M::State, M::Command, P> {
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

    fn push(&self, locked: &mut Guard<'_, M, P>, command: M::Command) -> u64 {
        // A closed executor drops commands.
        if !locked.run.is_closed() {
            locked.run.command_added(M::requires_thread(&command));
            locked.commands.push_back(command);
        }
        locked.sent += 1;
        locked.sent
    }

    /// Has added commands executed.
    fn process_commands<'a>(&'a self, mut locked: Guard<'a, M, P>) {
        match locked.run.send() {
            Next::Drive => drop(self.drive(locked, Some(P::now()), &mut |_| None::<()>)),
            Next::Wake(WakeUp::Poll) => {
                drop(locked);
                (self.wake)();
            }
            Next::Wake(wake_up) => self.shared.wake(&mut locked, wake_up),
        }
    }

    /// Waits at most `timeout` until `ready` returns a value.
    pub(crate) fn wait_until<T>(
        &self,
        timeout: Duration,
        mut ready: impl FnMut(&mut M::State) -> Option<T>,
    ) -> Option<T> {
        let deadline = P::now().checked_add(timeout);
        self.wait_on(WaitOn::Change, deadline, &mut |locked| ready(&mut locked.state))
    }

    fn wait_on<T>(
        &self,
        on: WaitOn,
        deadline: Option<Clock>,
        ready: &mut impl FnMut(&mut SharedState<M::State, M::Command, P>) -> Option<T>,
    ) -> Option<T> {
        let mut locked = self.shared.lock();
        loop {
            let found = ready(&mut locked);
            let left = left::<P>(deadline);
            if found.is_some() || left == Some(Duration::ZERO) || locked.run.is_closed() {
                let wake_up = locked.run.leave();
                self.shared.wake(&mut locked, wake_up);
                return found;
            }
            if let Next::Wake(wake_up) = locked.run.wait() {
                if wake_up == WakeUp::Poll {
                    (self.wake)();
                }
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
    fn sleep<'a>(
        &'a self,
        mut locked: Guard<'a, M, P>,
        on: WaitOn,
        left: Option<Duration>,
    ) -> Guard<'a, M, P> {
        let mut own = None;
        if let WaitOn::Call(id) = on {
            own = locked.pending_calls.add_waiter(id);
        }
        if own.is_none() {
            locked.watchers += 1;
        }
        locked = P::wait(own.as_deref().unwrap_or(&self.shared.changed), locked, left);
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
        mut locked: Guard<'a, M, P>,
        deadline: Option<Clock>,
        ready: &mut impl FnMut(&mut SharedState<M::State, M::Command, P>) -> Option<T>,
    ) -> (Guard<'a, M, P>, io::Result<Option<T>>) {
        let mut run = RunGuard::acquire(self, &mut locked, RunToken::Caller);
        let result = loop {
            let mut commands = locked.begin_turn();
            let (executes, unpolled) = (!commands.is_empty(), locked.unpolled);
            let (mut max_wait, mut found) = (left::<P>(deadline), None);
            if max_wait != Some(Duration::ZERO) {
                self.shared.disarm_timer(&mut locked);
            }
            drop(locked);
            if executes {
                run.reactor().execute(&mut commands);
                commands.clear();
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
            let callers_may_drive = run.reactor().callers_may_drive();
            locked = self.shared.lock();
            locked.run.end_turn(callers_may_drive);
            locked.reuse(commands);
            locked.unpolled = if flush_only { unpolled + 1 } else { 0 };
            let found = found.or_else(|| ready(&mut locked));
            match turned {
                Err(error) => break Err(error),
                Ok(()) if found.is_some() || left::<P>(deadline) == Some(Duration::ZERO) => break Ok(found),
                Ok(()) if locked.run.is_reserved() => break Ok(None),
                Ok(()) => {}
            }
        };
        if self.threaded && result.is_err() {
            locked.run.fail();
        }
        run.release(&mut locked);
        (locked, result)
    }

    /// Without a thread: does what is due and does not wait. No-op if another caller drives.
    pub(crate) fn dispatch(&self) -> io::Result<()> {
        let locked = self.shared.lock();
        if self.threaded || !locked.run.caller_may_acquire() {
            return Ok(());
        }
        self.drive(locked, Some(P::now()), &mut |_| None::<()>).1.map(drop)
    }

    /// Without a thread: the time until the next deadline, unless another caller drives.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        let mut locked = self.shared.lock();
        if self.threaded || !locked.run.caller_may_acquire() {
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
        match locked.run.stop() {
            WakeUp::Poll => (self.wake)(),
            wake_up => self.shared.wake(&mut locked, wake_up),
        }
        if self.threaded {
            return;
        }
        while locked.run.token() == RunToken::Caller {
            locked.watchers += 1;
            locked = P::wait(&self.shared.changed, locked, None);
            locked.watchers -= 1;
        }
        drop(locked);
        self.close();
    }

    /// Ends all sessions. The token is free; nothing acquires it afterwards.
    fn close(&self) {
        P::lock(&self.reactor).close();
        self.shared.end();
    }
}

/// The time until a deadline.
fn left<P: Primitives>(deadline: Option<Clock>) -> Option<Duration> {
    deadline.map(|deadline| deadline.saturating_duration_since(P::now()))
}
