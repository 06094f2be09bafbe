//! Holding the run token.

use super::primitives::Primitives;
use super::run_state::RunToken;
use super::{Executor, Guard, Reactor};

/// Holds the run token. Dropping it without a release, by a panic, closes the executor, so that no
/// other thread waits in vain.
pub(super) struct RunGuard<'a, M: Reactor, P: Primitives> {
    executor: &'a Executor<M, P>,
    reactor: Option<P::Guard<'a, M>>,
    released: bool,
}

impl<'a, M: Reactor, P: Primitives> RunGuard<'a, M, P> {
    /// Acquires the token, which must be free.
    pub(super) fn acquire(
        executor: &'a Executor<M, P>,
        locked: &mut Guard<'_, M, P>,
        token: RunToken,
    ) -> Self {
        locked.run.acquire(token);
        Self { executor, reactor: None, released: false }
    }

    pub(super) fn reactor(&mut self) -> &mut M {
        // Cannot block: the previous holder has unlocked the reactor before it released the token.
        self.reactor.get_or_insert_with(|| P::lock(&self.executor.reactor))
    }

    pub(super) fn release(mut self, locked: &mut Guard<'_, M, P>) {
        (self.reactor, self.released) = (None, true);
        self.executor.shared.release(locked);
    }
}

impl<M: Reactor, P: Primitives> Drop for RunGuard<'_, M, P> {
    fn drop(&mut self) {
        // The reactor may be inconsistent after a panic and is not turned again.
        if !self.released {
            self.reactor = None;
            let mut locked = self.executor.shared.lock();
            locked.run.fail();
            self.executor.shared.release(&mut locked);
            drop(locked);
            // With a thread, the thread closes the executor.
            if !self.executor.threaded {
                self.executor.shared.end();
            }
        }
    }
}
