//! The thread that drives the reactor while no caller does.

use std::time::Duration;

use super::shared::RunToken;
use super::{Executor, Guard, Reactor, RunGuard};

/// How long the token stays free before the thread takes it.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_millis(1);

/// The largest interval of the timer while callers come and go.
const MOST: Duration = IDLE_TIMEOUT.saturating_mul(8);

impl<M: Reactor> Executor<M> {
    /// Runs until the executor is stopped or the reactor fails.
    pub(crate) fn run_thread(&self) {
        let _ends = CloseOnExit(self);
        let mut locked = self.shared.lock();
        loop {
            locked = self.wait_until_needed(locked);
            if locked.stopped {
                break;
            }
            locked = self.drive_until_wanted(locked);
        }
        drop(locked);
        self.close();
    }

    /// Drives until a waiter exists that could drive.
    fn drive_until_wanted<'a>(&'a self, mut locked: Guard<'a, M>) -> Guard<'a, M> {
        let mut run = RunGuard::acquire(self, &mut locked, RunToken::Thread);
        loop {
            // Waiters are checked and `woken` is cleared under one lock: see the invariants in the
            // module head.
            if locked.stopped || locked.has_waiters() && locked.caller_may_continue() {
                break;
            }
            let commands = locked.take_commands();
            (locked.has_thread_command, locked.thread_requested) = (false, false);
            drop(locked);
            if !commands.is_empty() {
                run.reactor().execute(commands);
            }
            let turned = run.reactor().turn(None);
            let callers_may_drive = run.reactor().callers_may_drive();
            locked = self.shared.lock();
            locked.callers_may_drive = callers_may_drive;
            locked.stopped |= turned.is_err();
        }
        locked.thread_requested = false;
        run.release(&mut locked);
        locked
    }

    /// Rests until the token is free, and has been free for `IDLE_TIMEOUT` or the thread was
    /// requested.
    fn wait_until_needed<'a>(&'a self, mut locked: Guard<'a, M>) -> Guard<'a, M> {
        loop {
            if locked.run_token == RunToken::Free {
                let idle = locked.released_at.elapsed();
                if locked.thread_requested || locked.stopped || idle >= IDLE_TIMEOUT {
                    locked.timer_interval = IDLE_TIMEOUT;
                    return locked;
                }
                let timer_interval = locked.timer_interval;
                self.shared.arm_timer(&mut locked, timer_interval);
            }
            locked.timer_interval = MOST.min(locked.timer_interval * 2);
            // Nothing is due while a caller drives: on release it arms the timer unless it is
            // armed.
            drop(locked);
            self.shared.wait_for_timer();
            locked = self.shared.lock();
            locked.timer_armed = false;
            locked.timer_fired_in_vain |= locked.run_token == RunToken::Caller;
        }
    }
}

/// Closes the executor when the thread ends, also by a panic.
struct CloseOnExit<'a, M: Reactor>(&'a Executor<M>);

impl<M: Reactor> Drop for CloseOnExit<'_, M> {
    fn drop(&mut self) {
        self.0.shared.end();
    }
}
