//! Talking: what members and the front end say to one another over the tree that launched them.
//!
//! Every method that talks starts an operation and comes back at once with a [`Pending`], from which its result is to be
//! had: by [`wait`](Pending::wait), which blocks for as long as there is patience, or by [`poll`](Pending::poll), which
//! does not. Any number may be pending at a time.
//!
//! ```no_run
//! use std::time::Duration;
//! use libi::{Member, Op, Rank};
//!
//! let member = Member::init()?;
//! let soon = Duration::from_secs(10);
//! let order = member.is_master().then(|| "begin".into());
//! let order = member.broadcast(Rank(0), order).wait(soon)?;
//! let loads = member.gather(Rank(0), "0.25").wait(soon)?; // Some at rank 0
//! let total = member.allreduce(&[1_u64], Op::Sum).wait(soon)?;
//! # let _ = (order, loads, total);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Collective calls
//! `barrier`, `broadcast`, `gather`, `scatter`, `allgather`, `alltoall`, `reduce`, `ring`, `fence` and their variants are called by
//! all members, and by all in the same order; their results come in that order. Members that are [absent](crate::Member::absent)
//! are not waited for.
//!
//! | what goes wrong | what comes of it |
//! |---|---|
//! | members call different things, or name different roots | [`CommError::Mismatch`] at all of them, naming two |
//! | a member is lost that is needed | [`CommError::PeerLost`] at all that need it, naming it |
//! | a member does not wait any longer, or cancels | [`CommError::TimedOut`] there, [`CommError::Cancelled`] at all others that had not finished |
//! | the session ends | [`CommError::Ended`] |
//!
//! After a mismatch, a timeout or a cancellation the next collective call is a new chance: all members still count the same calls.
//!
//! # Who makes progress
//! With [`Progress::Thread`](crate::Progress::Thread) operations go on whether anybody waits or not. While a thread of the program waits,
//! it turns libi's engine itself, so that nothing has to cross threads. With [`Progress::Manual`](crate::Progress::Manual) they go on in calls
//! that wait, in `poll` and in `dispatch`.
//!
//! A `Pending` that is dropped is not waited for: the operation goes on, and what comes of it is forgotten, even a message that was
//! received; [`cancel`](Pending::cancel) is for what should not be any more.

mod number;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use libi_comm::{CallId, CommError, Outcome};

use crate::executor::{CallResult, CallWaiter};
pub use libi_comm::message::{CallSignature, Kind, Length};
pub use libi_comm::{Address, KeyScope, RingPlace};
pub use number::Number;
pub(crate) use number::{bytes_of, numbers_in};

/// Makes what was called for of what has come.
pub(crate) type Reading<T> = Box<dyn FnOnce(Outcome) -> Result<T, CommError> + Send>;

/// An operation that was started: wait for it, ask whether it is over, or cancel it.
///
/// It may be waited for from any thread.
#[must_use = "an operation that nobody waits for may have failed"]
pub struct Pending<T> {
    what: &'static str,
    state: PendingState<T>,
}

enum PendingState<T> {
    Called(Arc<dyn CallWaiter>, CallId, Reading<T>),
    Done(Result<T, CommError>),
    Taken,
}

impl<T> Pending<T> {
    pub(crate) fn called(
        waiter: Arc<dyn CallWaiter>,
        id: CallId,
        what: &'static str,
        read: Reading<T>,
    ) -> Self {
        Self { what, state: PendingState::Called(waiter, id, read) }
    }

    /// Something for which nothing has to be done.
    pub(crate) fn over(what: &'static str, result: Result<T, CommError>) -> Self {
        Self { what, state: PendingState::Done(result) }
    }

    /// Waits until it is over. If that takes longer than this, it is cancelled.
    ///
    /// # Errors
    /// What the operation says of itself; or [`CommError::TimedOut`], and a collective call is then over for all members.
    pub fn wait(mut self, timeout: Duration) -> Result<T, CommError> {
        if let Some(result) = self.wait_for(timeout) {
            return result;
        }
        let given_up = CommError::TimedOut { what: self.what };
        let PendingState::Called(waiter, id, read) = std::mem::replace(&mut self.state, PendingState::Taken)
        else {
            return Err(given_up);
        };
        match waiter.cancel_and_take(id) {
            Some(Ok(outcome)) => read(outcome),
            _ => Err(given_up),
        }
    }

    /// Waits until it is over, for so long at most, and does not give it up: nothing if it is not over by then, or if its
    /// result was taken before.
    pub fn wait_for(&mut self, timeout: Duration) -> Option<Result<T, CommError>> {
        self.take(|waiter, id| waiter.wait(id, timeout))
    }

    /// Whether it is over, and with what result; nothing if it is not, or if its result was taken before. Does not wait; where nobody
    /// else does, as with [`Progress::Manual`](crate::Progress::Manual), it does what there is to do, as `dispatch` does.
    pub fn poll(&mut self) -> Option<Result<T, CommError>> {
        self.take(|waiter, id| waiter.poll(id))
    }

    /// Gives it up. A collective call is then over for all members that had not finished it, with [`CommError::Cancelled`]; a message
    /// that was not received is there for the next who asks, and one that was sent may have arrived.
    pub fn cancel(self) {
        if let PendingState::Called(waiter, id, _) = &self.state {
            waiter.cancel(*id);
        }
    }

    fn take(
        &mut self,
        ask: impl FnOnce(&dyn CallWaiter, CallId) -> Option<CallResult>,
    ) -> Option<Result<T, CommError>> {
        let answer = match &self.state {
            PendingState::Called(waiter, id, _) => Some(ask(&**waiter, *id)?),
            PendingState::Done(_) | PendingState::Taken => None,
        };
        match (std::mem::replace(&mut self.state, PendingState::Taken), answer) {
            (PendingState::Called(_, _, read), Some(answer)) => Some(answer.and_then(read)),
            (PendingState::Done(result), _) => Some(result),
            _ => None,
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let PendingState::Called(waiter, id, _) = &self.state {
            waiter.forget(*id);
        }
    }
}

impl<T> fmt::Debug for Pending<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            PendingState::Called(..) => "called",
            PendingState::Done(_) => "done",
            PendingState::Taken => "taken",
        };
        f.debug_struct("Pending").field("what", &self.what).field("state", &state).finish()
    }
}

/// The front end and the master send each other messages with this tag.
pub(crate) const FRONT_TAG: u32 = 0;

/// What came is not what comes of such a call.
const OTHER: CommError = CommError::Protocol("what came of a call is not what was called for");

/// It is done.
#[allow(clippy::needless_pass_by_value, reason = "all readings take what has come")]
pub(crate) fn done(outcome: Outcome) -> Result<(), CommError> {
    if outcome == Outcome::Done { Ok(()) } else { Err(OTHER) }
}

/// Data have come.
pub(crate) fn data(outcome: Outcome) -> Result<libi_comm::Bytes, CommError> {
    if let Outcome::Data(bytes) = outcome { Ok(bytes) } else { Err(OTHER) }
}

/// Everybody's data have come.
pub(crate) fn parts(outcome: Outcome) -> Result<Vec<libi_comm::Bytes>, CommError> {
    if let Outcome::Parts(parts) = outcome { Ok(parts) } else { Err(OTHER) }
}

/// The place in a ring has come.
pub(crate) fn place(outcome: Outcome) -> Result<RingPlace, CommError> {
    if let Outcome::Place(place) = outcome { Ok(place) } else { Err(OTHER) }
}

/// It was found out what is under a key.
pub(crate) fn found(outcome: Outcome) -> Result<Option<libi_comm::Bytes>, CommError> {
    if let Outcome::Found(value) = outcome { Ok(value) } else { Err(OTHER) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_needs_nothing_is_over_at_once_and_only_once() {
        let mut pending = Pending::over("x", Ok(5));
        assert_eq!(pending.poll(), Some(Ok(5)));
        assert_eq!((pending.poll(), pending.wait_for(Duration::MAX)), (None, None));
        assert_eq!(pending.wait(Duration::MAX), Err(CommError::TimedOut { what: "x" }));
        assert_eq!(Pending::over("x", Ok(5)).wait(Duration::ZERO), Ok(5));
    }
}
