//! Holding the run token.

use std::sync::{MutexGuard, PoisonError};

use super::shared::RunToken;
use super::{Executor, Guard, Reactor};

/// Holds the run token. Dropping it without a release, by a panic, closes the executor, so that no
/// other thread waits in vain.
pub(super) struct RunGuard<'a, M: Reactor> {
    executor: &'a Executor<M>,
    reactor: Option<MutexGuard<'a, M>>,
    released: bool,
}

impl<'a, M: Reactor> RunGuard<'a, M> {
    /// Acquires the token, which must be free.
    pub(super) fn acquire(executor: &'a Executor<M>, locked: &mut Guard<'_, M>, run_token: RunToken) -> Self {
        locked.run_token = run_token;
        Self { executor, reactor: None, released: false }
    }

    pub(super) fn reactor(&mut self) -> &mut M {
        // Cannot block: the previous holder has unlocked the reactor before it released the token.
        let lock = || self.executor.reactor.lock().unwrap_or_else(PoisonError::into_inner);
        self.reactor.get_or_insert_with(lock)
    }

    pub(super) fn release(mut self, locked: &mut Guard<'_, M>) {
        (self.reactor, self.released) = (None, true);
        self.executor.shared.release(locked);
    }
}

impl<M: Reactor> Drop for RunGuard<'_, M> {
    fn drop(&mut self) {
        // The reactor may be inconsistent after a panic and is not turned again.
        if !self.released {
            self.reactor = None;
            let mut locked = self.executor.shared.lock();
            locked.stopped = true;
            self.executor.shared.release(&mut locked);
            drop(locked);
            // With a thread, the thread closes the executor.
            if !self.executor.threaded {
                self.executor.shared.end();
            }
        }
    }
}
