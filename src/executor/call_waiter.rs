//! Calls: how they are started, waited for, and given up.

use std::time::{Duration, Instant as Clock};

use libi_comm::{Call, CallId, CommError};

use super::shared::RunToken;
use super::{CallRequest, CallResult, Executor, GroupId, Reactor, WaitOn};

/// What a [`Pending`](crate::Pending) needs of works, whatever they are.
pub(crate) trait CallWaiter: Send + Sync {
    /// Waits until a call is over, for so long at most, and takes what came of it.
    fn wait(&self, id: CallId, timeout: Duration) -> Option<CallResult>;

    /// Takes what came of a call if it is over. If nobody else drives, the machinery has one turn before.
    fn poll(&self, id: CallId) -> Option<CallResult>;

    /// Cancels a call for which nobody waits any longer, unless it is over by then: what has come is not lost.
    fn cancel_and_take(&self, id: CallId) -> Option<CallResult>;

    /// Cancels a call.
    fn cancel(&self, id: CallId);

    /// Nobody wants to know what comes of a call.
    fn forget(&self, id: CallId);
}

impl<M: Reactor> Executor<M> {
    /// Starts a call.
    pub(crate) fn start(&self, group: GroupId, call: Call) -> CallId {
        let mut locked = self.shared.lock();
        let id = locked.pending_calls.open(group);
        if locked.run_token == RunToken::Closed {
            locked.pending_calls.finish(id, Err(CommError::Ended));
        } else {
            self.push(&mut locked, CallRequest::Call(group, id, call).into());
            self.process_commands(locked);
        }
        id
    }
}

impl<M: Reactor> CallWaiter for Executor<M> {
    fn wait(&self, id: CallId, timeout: Duration) -> Option<CallResult> {
        let deadline = Clock::now().checked_add(timeout);
        self.wait_on(WaitOn::Call(id), deadline, &mut |locked| locked.pending_calls.take(id))
    }

    fn poll(&self, id: CallId) -> Option<CallResult> {
        let mut locked = self.shared.lock();
        let answer = locked.pending_calls.take(id);
        if answer.is_some() || !locked.caller_may_acquire() {
            return answer;
        }
        self.drive(locked, Some(Clock::now()), &mut |locked| locked.pending_calls.take(id))
            .1
            .unwrap_or_default()
    }

    fn cancel_and_take(&self, id: CallId) -> Option<CallResult> {
        self.cancel(id);
        // Whoever drives obeys before his next turn, and takes down that it is over.
        let answer = self.wait(id, Duration::from_secs(1));
        self.forget(id);
        answer
    }

    fn cancel(&self, id: CallId) {
        let mut locked = self.shared.lock();
        if let Some(group) = locked.pending_calls.group(id) {
            self.push(&mut locked, CallRequest::Cancel(group, id).into());
            self.process_commands(locked);
        }
    }

    fn forget(&self, id: CallId) {
        self.shared.lock().pending_calls.forget(id);
    }
}
