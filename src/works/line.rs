//! Calls: how they are started, waited for, and given up.

use std::time::{Duration, Instant as Clock};

use libi_comm::{Call, CallId, CommError};

use super::board::Wheel;
use super::{Answer, Machinery, Party, Seat, Talk, Works};

/// What a [`Pending`](crate::Pending) needs of works, whatever they are.
pub(crate) trait Line: Send + Sync {
    /// Waits until a call is over, for so long at most, and takes what came of it.
    fn wait(&self, id: CallId, timeout: Duration) -> Option<Answer>;

    /// Takes what came of a call if it is over. If nobody else drives, the machinery has one turn before.
    fn poll(&self, id: CallId) -> Option<Answer>;

    /// Cancels a call for which nobody waits any longer, unless it is over by then: what has come is not lost.
    fn give_up(&self, id: CallId) -> Option<Answer>;

    /// Cancels a call.
    fn cancel(&self, id: CallId);

    /// Nobody wants to know what comes of a call.
    fn forget(&self, id: CallId);
}

impl<M: Machinery> Works<M> {
    /// Starts a call.
    pub(crate) fn start(&self, party: Party, call: Call) -> CallId {
        let mut inner = self.board.lock();
        let id = inner.calls.open(party);
        if inner.wheel == Wheel::Gone {
            inner.calls.finish(id, Err(CommError::Ended));
        } else {
            self.push(&mut inner, Talk::Call(party, id, call).into());
            self.nudge(inner);
        }
        id
    }
}

impl<M: Machinery> Line for Works<M> {
    fn wait(&self, id: CallId, timeout: Duration) -> Option<Answer> {
        let deadline = Clock::now().checked_add(timeout);
        self.wait_at(Seat::Call(id), deadline, &mut |inner| inner.calls.take(id))
    }

    fn poll(&self, id: CallId) -> Option<Answer> {
        let mut inner = self.board.lock();
        let answer = inner.calls.take(id);
        if answer.is_some() || !inner.may_be_taken() {
            return answer;
        }
        self.drive(inner, Some(Clock::now()), &mut |inner| inner.calls.take(id)).1.unwrap_or_default()
    }

    fn give_up(&self, id: CallId) -> Option<Answer> {
        self.cancel(id);
        // Whoever drives obeys before his next turn, and takes down that it is over.
        let answer = self.wait(id, Duration::from_secs(1));
        self.forget(id);
        answer
    }

    fn cancel(&self, id: CallId) {
        let mut inner = self.board.lock();
        if let Some(party) = inner.calls.party(id) {
            self.push(&mut inner, Talk::Cancel(party, id).into());
            self.nudge(inner);
        }
    }

    fn forget(&self, id: CallId) {
        self.board.lock().calls.forget(id);
    }
}
