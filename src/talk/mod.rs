//! Communication of members with each other and with the front end, over the launch tree.
//!
//! Every method that communicates starts an operation and returns a [`Pending`] at once.
//! [`wait`](Pending::wait) blocks until the operation completes or a timeout elapses;
//! [`poll`](Pending::poll) does not block. Any number of operations may be pending.
//!
//! ```no_run
//! use std::time::Duration;
//! use libi::{Member, Op, Rank};
//!
//! let member = Member::init()?;
//! let timeout = Duration::from_secs(10);
//! let order = member.is_master().then(|| "begin".into());
//! let order = member.broadcast(Rank(0), order).wait(timeout)?;
//! let loads = member.gather(Rank(0), "0.25").wait(timeout)?; // Some at rank 0
//! let total = member.allreduce(&[1_u64], Op::Sum).wait(timeout)?;
//! # let _ = (order, loads, total);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Collective operations
//! Those of [`Member`](crate::Member), from [`barrier`](crate::Member::barrier) to
//! [`gather_to_front`](crate::Member::gather_to_front), are called by all members, in the same
//! order, and complete in that order. [Absent](crate::Member::absent) members are not waited for.
//!
//! An operation completes for a member when the member's own part is done: a broadcast at the root
//! when its data are handed over, elsewhere when they have arrived; a gather the other way round.
//! Only a barrier, a fence and operations with a result from all members wait until all have called.
//! How far a member may be ahead of another is limited, in operations and in bytes, for each level of
//! the tree between them.
//!
//! | failure | result |
//! |---|---|
//! | calls or roots differ between members | [`CommError::Mismatch`] at all, naming two |
//! | a member that is needed is lost | [`CommError::PeerLost`] at all members that need it, naming it |
//! | a wait times out, or is cancelled | [`CommError::TimedOut`] there, [`CommError::Cancelled`] at others |
//! | a process cannot continue a call, or its arguments are invalid | its error there, [`CommError::Failed`] at others |
//! | the session ends | [`CommError::Ended`] |
//!
//! A member whose own part was done when an operation failed gets the error in its next collective
//! operation, which fails with it. After a mismatch, a timeout or a cancellation collective
//! operations work again: all members still count the same operations. With
//! [`strict_calls`](field@crate::LaunchOptions::strict_calls) every operation waits until all members
//! have called it, and fails itself.
//!
//! With [`OnLoss::Continue`](crate::OnLoss::Continue) collective operations go on without members that
//! are lost: [`Pending::missing`] names those without which an operation has completed. Where a missing
//! member's data would be, they are empty. An operation whose root is lost fails with
//! [`CommError::PeerLost`].
//!
//! ```no_run
//! # use libi::{Member, Op}; use std::time::Duration;
//! # fn f(member: &Member) -> Result<(), libi::CommError> {
//! let sum = member.allreduce(&[1_u64], Op::Sum).wait_with_missing(Duration::from_secs(10))?;
//! let (counted, missing) = sum;
//! assert_eq!(counted[0] + missing.len() as u64, u64::from(member.size()));
//! # Ok(()) }
//! ```
//!
//! # Progress
//! With [`Progress::Thread`](crate::Progress::Thread) operations make progress whether or not the
//! program waits. While a thread of the program waits, it drives the runtime itself, so that no
//! data crosses threads. With [`Progress::Manual`](crate::Progress::Manual) operations make
//! progress in calls that wait, in `poll` and in `dispatch`.
//!
//! Dropping a `Pending` abandons its result, not the operation: the result is discarded, even if it
//! is a received message. [`cancel`](Pending::cancel) ends the operation.

mod number;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use libi_comm::{CallId, CommError, Outcome};
use libi_core::ranks::Ranks;

use crate::executor::{CallResult, CallWaiter, Completed};
pub use libi_comm::message::{CallSignature, Kind, Length};
pub use libi_comm::{Address, KeyScope, RingPosition};
pub use number::Number;
pub(crate) use number::{bytes_of, numbers_in};

/// Converts the outcome of a call to its result.
pub(crate) type Reading<T> = Box<dyn FnOnce(Outcome) -> Result<T, CommError> + Send>;

/// The same, with the lost members that are missing in the result.
pub(crate) type ReadingWithMissing<T> = Box<dyn FnOnce(Completed) -> Result<(T, Ranks), CommError> + Send>;

/// A reading of an outcome from which the missing members do not follow.
pub(crate) fn with_missing<T: 'static>(read: Reading<T>) -> ReadingWithMissing<T> {
    Box::new(|Completed { outcome, missing }| Ok((read(outcome)?, missing)))
}

/// A started operation: wait for it, poll it, or cancel it.
///
/// Any thread may wait for it.
#[must_use = "an operation that is not waited for may have failed"]
pub struct Pending<T> {
    what: &'static str,
    state: PendingState<T>,
    /// The lost members that are missing in the result that was taken.
    missing: Ranks,
}

enum PendingState<T> {
    Called(Arc<dyn CallWaiter>, CallId, ReadingWithMissing<T>),
    Done(Result<T, CommError>),
    Taken,
}

impl<T> Pending<T> {
    pub(crate) fn called(
        waiter: Arc<dyn CallWaiter>,
        id: CallId,
        what: &'static str,
        read: ReadingWithMissing<T>,
    ) -> Self {
        Self { what, state: PendingState::Called(waiter, id, read), missing: Ranks::new() }
    }

    /// An operation that is complete from the beginning.
    pub(crate) fn over(what: &'static str, result: Result<T, CommError>) -> Self {
        Self { what, state: PendingState::Done(result), missing: Ranks::new() }
    }

    /// Waits until the operation completes, for at most `timeout`, and cancels it if it does not.
    ///
    /// # Errors
    /// The error of the operation; or [`CommError::TimedOut`], in which case a collective operation
    /// is over for all members.
    pub fn wait(mut self, timeout: Duration) -> Result<T, CommError> {
        self.wait_or_cancel(timeout)
    }

    /// As [`wait`](Self::wait), with the lost members that are [missing](Self::missing).
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn wait_with_missing(mut self, timeout: Duration) -> Result<(T, Ranks), CommError> {
        let result = self.wait_or_cancel(timeout)?;
        Ok((result, std::mem::take(&mut self.missing)))
    }

    fn wait_or_cancel(&mut self, timeout: Duration) -> Result<T, CommError> {
        if let Some(result) = self.wait_for(timeout) {
            return result;
        }
        let given_up = CommError::TimedOut { what: self.what };
        let PendingState::Called(waiter, id, read) = std::mem::replace(&mut self.state, PendingState::Taken)
        else {
            return Err(given_up);
        };
        match waiter.cancel_and_take(id) {
            Some(Ok(completed)) => self.note_missing(read(completed)),
            _ => Err(given_up),
        }
    }

    /// Waits until the operation completes, for at most `timeout`, and does not cancel it. `None`
    /// if it is not complete by then, or if its result was taken before.
    pub fn wait_for(&mut self, timeout: Duration) -> Option<Result<T, CommError>> {
        self.take(|waiter, id| waiter.wait(id, timeout))
    }

    /// The result, if the operation is complete and its result was not taken before. Does not wait.
    /// Where nothing else drives the runtime, as with
    /// [`Progress::Manual`](crate::Progress::Manual), it does the pending work, as `dispatch` does.
    pub fn poll(&mut self) -> Option<Result<T, CommError>> {
        self.take(|waiter, id| waiter.poll(id))
    }

    /// The lost members without which a collective operation has completed, once its result was taken
    /// by [`wait_for`](Self::wait_for) or [`poll`](Self::poll). All members get the same for a barrier,
    /// a fence, an allreduce, an allgather and an alltoall. Of the others, the root of a gather or a
    /// reduction gets those whose data are missing, and each other member those it knew of when its own
    /// part was done. There are none unless collective operations are to [go on](crate::OnLoss::Continue).
    #[must_use]
    pub const fn missing(&self) -> &Ranks {
        &self.missing
    }

    /// Cancels the operation. A collective operation is then over for all members that had not
    /// completed it, with [`CommError::Cancelled`]. A message that was not received stays available
    /// for the next receive; a message that was sent may have arrived.
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
            (PendingState::Called(_, _, read), Some(answer)) => {
                Some(self.note_missing(answer.and_then(read)))
            }
            (PendingState::Done(result), _) => Some(result),
            _ => None,
        }
    }

    fn note_missing(&mut self, read: Result<(T, Ranks), CommError>) -> Result<T, CommError> {
        let (result, missing) = read?;
        self.missing = missing;
        Ok(result)
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

/// The tag of messages between the front end and the master.
pub(crate) const FRONT_TAG: u32 = 0;

/// The tag of broadcasts from the front end, on their way to the master.
pub(crate) const BROADCAST_TAG: u32 = 1;

/// The tag of gathers to the front end, on their way from the master.
pub(crate) const GATHER_TAG: u32 = 2;

/// Encodes the parts of all ranks: each with its length before it, as 8 bytes in little-endian order. The
/// lost members that are missing come first.
pub(crate) fn encode_parts(parts: &[libi_comm::Bytes], missing: &Ranks) -> libi_comm::Bytes {
    // Serializing ranks into a vector cannot fail.
    let mut all = postcard::to_allocvec(missing).unwrap_or_default();
    all.reserve(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        all.extend_from_slice(&(part.len() as u64).to_le_bytes());
        all.extend_from_slice(part);
    }
    all.into()
}

/// Decodes the parts of all ranks, and the members that are missing.
pub(crate) fn decode_parts(mut all: libi_comm::Bytes) -> Result<(Vec<libi_comm::Bytes>, Ranks), CommError> {
    const INVALID: CommError = CommError::Protocol("an invalid message of a gather");
    let (missing, rest) = postcard::take_from_bytes::<Ranks>(&all).map_err(|_| INVALID)?;
    all = all.slice_ref(rest);
    let mut parts = Vec::new();
    while !all.is_empty() {
        let length = *all.first_chunk::<8>().ok_or(INVALID)?;
        let _ = all.split_to(8);
        let length = usize::try_from(u64::from_le_bytes(length)).map_err(|_| INVALID)?;
        if length > all.len() {
            return Err(INVALID);
        }
        parts.push(all.split_to(length));
    }
    Ok((parts, missing))
}

/// The outcome does not belong to the call.
const OTHER: CommError = CommError::Protocol("what came of a call is not what was called for");

/// Reads an outcome without data.
#[allow(clippy::needless_pass_by_value, reason = "all readings take what has come")]
pub(crate) fn done(outcome: Outcome) -> Result<(), CommError> {
    if outcome == Outcome::Done { Ok(()) } else { Err(OTHER) }
}

/// Reads an outcome with data.
pub(crate) fn data(outcome: Outcome) -> Result<libi_comm::Bytes, CommError> {
    if let Outcome::Data(bytes) = outcome { Ok(bytes) } else { Err(OTHER) }
}

/// Reads an outcome with the data of all members.
pub(crate) fn parts(outcome: Outcome) -> Result<Vec<libi_comm::Bytes>, CommError> {
    if let Outcome::Parts(parts) = outcome { Ok(parts) } else { Err(OTHER) }
}

/// Reads a position in a ring.
pub(crate) fn place(outcome: Outcome) -> Result<RingPosition, CommError> {
    if let Outcome::Ring(place) = outcome { Ok(place) } else { Err(OTHER) }
}

/// Reads the result of a lookup.
pub(crate) fn found(outcome: Outcome) -> Result<Option<libi_comm::Bytes>, CommError> {
    if let Outcome::Found(value) = outcome { Ok(value) } else { Err(OTHER) }
}

#[cfg(test)]
mod tests {
    use libi_core::ids::Rank;

    use super::*;

    #[test]
    fn parts_of_a_gather_arrive_as_they_were_and_invalid_messages_are_refused() {
        let parts: Vec<libi_comm::Bytes> = ["one", "", "three"].map(libi_comm::Bytes::from).into();
        let missing: Ranks = [Rank(1)].into_iter().collect();
        let all = encode_parts(&parts, &missing);
        assert_eq!(decode_parts(all.clone()), Ok((parts, missing)));
        assert_eq!(decode_parts(encode_parts(&[], &Ranks::new())), Ok((Vec::new(), Ranks::new())));
        assert!(decode_parts(libi_comm::Bytes::new()).is_err());
        assert!(decode_parts(all.slice(..all.len() - 1)).is_err() && decode_parts(all.slice(..5)).is_err());
        assert!(decode_parts(all.slice(..9)).is_err());
        assert!(decode_parts(vec![0xff; 9].into()).is_err());
    }

    #[test]
    fn what_needs_nothing_is_over_at_once_and_only_once() {
        let mut pending = Pending::over("x", Ok(5));
        assert_eq!(pending.poll(), Some(Ok(5)));
        assert_eq!((pending.poll(), pending.wait_for(Duration::MAX)), (None, None));
        assert_eq!(pending.wait(Duration::MAX), Err(CommError::TimedOut { what: "x" }));
        assert_eq!(Pending::over("x", Ok(5)).wait(Duration::ZERO), Ok(5));
    }
}
