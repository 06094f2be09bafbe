//! The thread that turns machinery when no caller does.

use std::time::Duration;

use super::shared::RunToken;
use super::{Executor, Guard, Reactor, RunGuard};

/// For how long nobody drives before the thread does.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_millis(1);

/// For how long at most it does not look, while callers come and go.
const MOST: Duration = IDLE_TIMEOUT.saturating_mul(8);

impl<M: Reactor> Executor<M> {
    /// What the thread does, until the works are stopped or the machinery fails.
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

    /// Drives until somebody sleeps who could.
    fn drive_until_wanted<'a>(&'a self, mut locked: Guard<'a, M>) -> Guard<'a, M> {
        let mut run = RunGuard::acquire(self, &mut locked, RunToken::Thread);
        loop {
            // Sleepers are looked for, and it is forgotten that they have woken us, in one moment.
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

    /// Rests until the wheel is free, and nobody has wanted it for a while or it is the thread that is wanted.
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
            // While somebody drives nothing is to be done: whoever leaves the wheel sets the alarm if it is not set.
            drop(locked);
            self.shared.wait_for_timer();
            locked = self.shared.lock();
            locked.timer_armed = false;
            locked.timer_fired_in_vain |= locked.run_token == RunToken::Caller;
        }
    }
}

/// However the thread ends, nobody waits for it.
struct CloseOnExit<'a, M: Reactor>(&'a Executor<M>);

impl<M: Reactor> Drop for CloseOnExit<'_, M> {
    fn drop(&mut self) {
        self.0.shared.end();
    }
}
