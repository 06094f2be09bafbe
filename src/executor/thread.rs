//! The thread that drives the reactor while no caller does.

use super::primitives::Primitives;
use super::run_state::RunToken;
use super::{Executor, Guard, Reactor, RunGuard};

impl<M: Reactor, P: Primitives> Executor<M, P> {
    /// Runs until the executor is stopped or the reactor fails.
    pub(crate) fn run_thread(&self) {
        let _ends = CloseOnExit(self);
        let mut locked = self.shared.lock();
        loop {
            locked = self.wait_until_needed(locked);
            if locked.run.is_stopped() {
                break;
            }
            locked = self.drive_until_wanted(locked);
        }
        drop(locked);
        self.close();
    }

    /// Drives until a waiter exists that could drive.
    fn drive_until_wanted<'a>(&'a self, mut locked: Guard<'a, M, P>) -> Guard<'a, M, P> {
        let mut run = RunGuard::acquire(self, &mut locked, RunToken::Thread);
        loop {
            let has_waiters = locked.has_waiters();
            if locked.run.thread_is_to_release(has_waiters) {
                break;
            }
            let mut commands = locked.begin_turn();
            drop(locked);
            if !commands.is_empty() {
                run.reactor().execute(&mut commands);
                commands.clear();
            }
            let turned = run.reactor().turn(None);
            let callers_may_drive = run.reactor().callers_may_drive();
            locked = self.shared.lock();
            locked.run.end_turn(callers_may_drive);
            locked.reuse(commands);
            if turned.is_err() {
                locked.run.fail();
            }
        }
        run.release(&mut locked);
        locked
    }

    /// Rests until the token is free, and reserved for the thread or idle.
    fn wait_until_needed<'a>(&'a self, mut locked: Guard<'a, M, P>) -> Guard<'a, M, P> {
        loop {
            if locked.run.token() == RunToken::Free {
                if locked.run.is_reserved() || locked.idle.is_idle(P::now()) {
                    locked.idle.reset();
                    return locked;
                }
                self.shared.arm_timer(locked.idle.arm());
            }
            locked.idle.rest();
            // Nothing is due while a caller drives: on release it arms the timer unless it is
            // armed.
            drop(locked);
            locked = self.shared.rest();
        }
    }
}

/// Closes the executor when the thread ends, also by a panic.
struct CloseOnExit<'a, M: Reactor, P: Primitives>(&'a Executor<M, P>);

impl<M: Reactor, P: Primitives> Drop for CloseOnExit<'_, M, P> {
    fn drop(&mut self) {
        self.0.shared.end();
    }
}
