//! Calls: starting, waiting, polling, cancelling.

use std::time::Duration;

use libi_comm::{Call, CallId, CommError};

use super::primitives::Primitives;
use super::{CallRequest, CallResult, Executor, GroupId, Reactor, WaitOn};

/// What a [`Pending`](crate::Pending) needs of an executor, whatever its reactor is.
pub(crate) trait CallWaiter: Send + Sync {
    /// Waits at most `timeout` for a call to complete and takes its result.
    fn wait(&self, id: CallId, timeout: Duration) -> Option<CallResult>;

    /// Takes the result of a call if it has completed. If the run token is free, drives the reactor
    /// for one turn first.
    fn poll(&self, id: CallId) -> Option<CallResult>;

    /// Cancels a call and takes its result: `TimedOut`, or the result that arrived first.
    fn cancel_and_take(&self, id: CallId) -> Option<CallResult>;

    /// Requests the cancellation of a call.
    fn cancel(&self, id: CallId);

    /// Discards a call and its result.
    fn forget(&self, id: CallId);
}

impl<M: Reactor, P: Primitives> Executor<M, P> {
    /// Starts a call.
    pub(crate) fn start(&self, group: GroupId, call: Call) -> CallId {
        self.start_by(group, |id| CallRequest::Call(group, id, call).into())
    }

    /// Starts a call by this command.
    pub(crate) fn start_by(&self, group: GroupId, command: impl FnOnce(CallId) -> M::Command) -> CallId {
        let mut locked = self.shared.lock();
        let id = locked.pending_calls.open(group);
        if locked.run.is_closed() {
            locked.pending_calls.finish(id, Err(CommError::Ended));
        } else {
            self.push(&mut locked, command(id));
            self.process_commands(locked);
        }
        id
    }
}

impl<M: Reactor, P: Primitives> CallWaiter for Executor<M, P> {
    fn wait(&self, id: CallId, timeout: Duration) -> Option<CallResult> {
        let deadline = P::now().checked_add(timeout);
        self.wait_on(WaitOn::Call(id), deadline, &mut |locked| locked.pending_calls.take(id))
    }

    fn poll(&self, id: CallId) -> Option<CallResult> {
        let mut locked = self.shared.lock();
        let answer = locked.pending_calls.take(id);
        if answer.is_some() || !locked.run.caller_may_acquire() {
            return answer;
        }
        self.drive(locked, Some(P::now()), &mut |locked| locked.pending_calls.take(id)).1.unwrap_or_default()
    }

    fn cancel_and_take(&self, id: CallId) -> Option<CallResult> {
        self.cancel(id);
        // The driver executes commands before its next turn, and the cancellation completes the
        // call.
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
