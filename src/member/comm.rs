//! The collective operations of a member. See [`talk`](crate::talk) for their common rules.

use libi_comm::reduce::Reducer;
use libi_comm::{Bytes, Call, Op, Outcome, RingPosition};
use libi_core::ids::Rank;
use libi_core::ranks::Ranks;

use super::Member;
use super::runtime::MemberCommand;
use crate::CommError;
use crate::executor::Completed;
use crate::talk::{Number, Pending};
use crate::talk::{bytes_of, data, done, numbers_in, parts, place};

/// Collective operations: all members call them, in the same order.
impl Member {
    /// Completes when all members have called it.
    pub fn barrier(&self) -> Pending<()> {
        self.runtime.call("the barrier", Call::Barrier, Box::new(done))
    }

    /// Completes when all members that are left have called it, and gives these: those that were up, without
    /// those that are [missing](Pending::missing). It is the same at all of them. Ranks stay as they are;
    /// [`Ranks::below`] numbers those that are left from 0.
    ///
    /// ```no_run
    /// # use libi::Member; use std::time::Duration;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let member = Member::init()?;
    /// let left = member.survivors().wait(Duration::from_secs(10))?;
    /// println!("{} of {}", left.below(member.rank()), left.len());
    /// # Ok(()) }
    /// ```
    pub fn survivors(&self) -> Pending<Ranks> {
        let mut left = self.present();
        let read = move |Completed { outcome, missing }| {
            done(outcome)?;
            left.remove_all(&missing);
            Ok((left, missing))
        };
        self.runtime.call_with_missing("the survivors", Call::Barrier, Box::new(read))
    }

    /// Sends the root's data to all members. Only the root's `data` is used, so all members may
    /// make the same call.
    ///
    /// ```no_run
    /// # use libi::{Member, Rank}; use std::time::Duration;
    /// # fn f(member: &Member) -> Result<(), libi::CommError> {
    /// let config = member.is_master().then(|| "of the master".into());
    /// let config = member.broadcast(Rank(0), config).wait(Duration::from_secs(5))?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CommError::MissingRootData`] if the root passes `None`.
    pub fn broadcast(&self, root: Rank, data: Option<Bytes>) -> Pending<Bytes> {
        let data = data.filter(|_| root == self.rank());
        self.runtime.call("the broadcast", Call::Broadcast { root, data, length: None }, Box::new(self::data))
    }

    /// Collects the data of all members at the root, in rank order; other members get `None`.
    /// Lengths may differ. The data of [absent](Self::absent) members is empty.
    pub fn gather(&self, root: Rank, data: impl Into<Bytes>) -> Pending<Option<Vec<Bytes>>> {
        self.gather_of(root, data.into(), false)
    }

    /// As [`gather`](Self::gather), for data of equal length.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if lengths differ.
    pub fn gather_equal(&self, root: Rank, data: impl Into<Bytes>) -> Pending<Option<Vec<Bytes>>> {
        self.gather_of(root, data.into(), true)
    }

    fn gather_of(&self, root: Rank, data: Bytes, equal: bool) -> Pending<Option<Vec<Bytes>>> {
        let mine = root == self.rank();
        let every = self.parts_by_rank();
        let read = move |outcome| if mine { every.parts(outcome).map(Some) } else { Ok(None) };
        self.runtime.call("the gather", Call::Gather { root, data, equal }, Box::new(read))
    }

    /// Sends each member its part of the root's data. The root passes one part per rank, of any
    /// length, also for [absent](Self::absent) members. Only the root's `parts` are used.
    ///
    /// # Errors
    /// [`CommError::MissingRootData`] or [`CommError::WrongPartCount`] if the root does not pass one part
    /// per rank.
    pub fn scatter(&self, root: Rank, parts: Option<Vec<Bytes>>) -> Pending<Bytes> {
        let parts = parts.filter(|_| root == self.rank());
        self.runtime.call("the scatter", Call::Scatter { root, parts, length: None }, Box::new(data))
    }

    /// Collects the data of all members at all members, in rank order. Lengths may differ. The data
    /// of [absent](Self::absent) members is empty.
    pub fn allgather(&self, data: impl Into<Bytes>) -> Pending<Vec<Bytes>> {
        self.allgather_of(data.into(), false)
    }

    /// As [`allgather`](Self::allgather), for data of equal length.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if lengths differ.
    pub fn allgather_equal(&self, data: impl Into<Bytes>) -> Pending<Vec<Bytes>> {
        self.allgather_of(data.into(), true)
    }

    fn allgather_of(&self, data: Bytes, equal: bool) -> Pending<Vec<Bytes>> {
        let every = self.parts_by_rank();
        let read = move |outcome| every.parts(outcome);
        self.runtime.call("the allgather", Call::AllGather { data, equal }, Box::new(read))
    }

    /// As [`allgather`](Self::allgather), for text.
    ///
    /// # Errors
    /// [`CommError::Protocol`] if the data of another member is not UTF-8.
    pub fn allgather_str(&self, text: &str) -> Pending<Vec<String>> {
        let every = self.parts_by_rank();
        let text_of = |part: Bytes| String::from_utf8(part.into());
        let read = move |outcome| {
            let texts = every.parts(outcome)?.into_iter().map(text_of).collect::<Result<_, _>>();
            texts.map_err(|_| CommError::Protocol("a member's text is not UTF-8"))
        };
        let data = Bytes::copy_from_slice(text.as_bytes());
        self.runtime.call("the allgather", Call::AllGather { data, equal: false }, Box::new(read))
    }

    /// Sends part `n` to rank `n`, and returns the part from each rank, in rank order. All parts of
    /// all members have equal length.
    ///
    /// # Errors
    /// [`CommError::WrongPartCount`] if there is not one part per rank; [`CommError::UnequalLengths`] or
    /// [`CommError::Mismatch`] if lengths differ.
    pub fn alltoall(&self, parts: Vec<Bytes>) -> Pending<Vec<Bytes>> {
        self.alltoall_of(parts, true)
    }

    /// As [`alltoall`](Self::alltoall), for parts of any length.
    ///
    /// # Errors
    /// [`CommError::WrongPartCount`] if there is not one part per rank.
    pub fn alltoallv(&self, parts: Vec<Bytes>) -> Pending<Vec<Bytes>> {
        self.alltoall_of(parts, false)
    }

    fn alltoall_of(&self, parts: Vec<Bytes>, equal: bool) -> Pending<Vec<Bytes>> {
        let every = self.parts_by_rank();
        let read = move |outcome| every.parts(outcome);
        self.runtime.call("the alltoall", Call::AllToAll { parts, equal }, Box::new(read))
    }

    /// Combines the arrays of all members element by element, inside the tree; the root gets the
    /// result and other members get `None`. A sum of floating-point numbers may differ in its last
    /// bits from one run to the next.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if array lengths, types or operations differ.
    pub fn reduce<T: Number>(&self, root: Rank, numbers: &[T], op: Op) -> Pending<Option<Vec<T>>> {
        let call = Call::Reduce {
            to: Some(root),
            data: bytes_of(numbers),
            reducer: Reducer::Elements(op, T::ELEMENT),
        };
        let mine = root == self.rank();
        let read = move |outcome| if mine { numbers_in(&data(outcome)?).map(Some) } else { Ok(None) };
        self.runtime.call("the reduction", call, Box::new(read))
    }

    /// As [`reduce`](Self::reduce), with the result at all members.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if array lengths, types or operations differ.
    pub fn allreduce<T: Number>(&self, numbers: &[T], op: Op) -> Pending<Vec<T>> {
        let call =
            Call::Reduce { to: None, data: bytes_of(numbers), reducer: Reducer::Elements(op, T::ELEMENT) };
        self.runtime.call("the reduction", call, Box::new(|outcome| numbers_in(&data(outcome)?)))
    }

    /// Combines the values of all members with a function, which must be the same at all members.
    /// It gets the value of some consecutive ranks, to be updated in place, and the value of the
    /// ranks that follow them. It has to be associative. Values may have any length.
    ///
    /// The function runs in the thread that drives the runtime, and delays other operations. If it
    /// panics, the process aborts: a partial value would be wrong at all members.
    pub fn reduce_by(
        &self,
        root: Rank,
        value: impl Into<Bytes>,
        function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static,
    ) -> Pending<Option<Bytes>> {
        let mine = root == self.rank();
        let call = Call::Reduce { to: Some(root), data: value.into(), reducer: guarded(function) };
        let read = move |outcome| if mine { data(outcome).map(Some) } else { Ok(None) };
        self.runtime.call("the reduction", call, Box::new(read))
    }

    /// As [`reduce_by`](Self::reduce_by), with the result at all members.
    pub fn allreduce_by(
        &self,
        value: impl Into<Bytes>,
        function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static,
    ) -> Pending<Bytes> {
        let call = Call::Reduce { to: None, data: value.into(), reducer: guarded(function) };
        self.runtime.call("the reduction", call, Box::new(data))
    }

    /// As [`allreduce`](Self::allreduce), of the arrays of this member and of all members of lower
    /// rank (an inclusive prefix reduction).
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if array lengths, types or operations differ.
    pub fn scan<T: Number>(&self, numbers: &[T], op: Op) -> Pending<Vec<T>> {
        let call = scan(true, bytes_of(numbers), Reducer::Elements(op, T::ELEMENT));
        self.runtime.call("the scan", call, Box::new(|outcome| numbers_in(&data(outcome)?)))
    }

    /// As [`scan`](Self::scan), without the array of this member (an exclusive prefix reduction). The
    /// first member, before which there is none, gets `None`: the lowest rank that is not
    /// [absent](Self::absent).
    ///
    /// ```no_run
    /// # use libi::{Member, Op}; use std::time::Duration;
    /// # fn f(member: &Member, lines: &[String]) -> Result<(), libi::CommError> {
    /// let before = member.exscan(&[lines.len() as u64], Op::Sum).wait(Duration::from_secs(5))?;
    /// let first_line = before.map_or(0, |before| before[0]);
    /// # let _ = first_line; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if array lengths, types or operations differ.
    pub fn exscan<T: Number>(&self, numbers: &[T], op: Op) -> Pending<Option<Vec<T>>> {
        let call = scan(false, bytes_of(numbers), Reducer::Elements(op, T::ELEMENT));
        let read = |outcome| maybe_data(outcome)?.map(|data| numbers_in(&data)).transpose();
        self.runtime.call("the scan", call, Box::new(read))
    }

    /// As [`allreduce_by`](Self::allreduce_by), of the values of this member and of all members of
    /// lower rank.
    pub fn scan_by(
        &self,
        value: impl Into<Bytes>,
        function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static,
    ) -> Pending<Bytes> {
        self.runtime.call("the scan", scan(true, value.into(), guarded(function)), Box::new(data))
    }

    /// As [`scan_by`](Self::scan_by), without the value of this member. The first member gets `None`,
    /// as in [`exscan`](Self::exscan).
    pub fn exscan_by(
        &self,
        value: impl Into<Bytes>,
        function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static,
    ) -> Pending<Option<Bytes>> {
        self.runtime.call("the scan", scan(false, value.into(), guarded(function)), Box::new(maybe_data))
    }

    /// Finds this member's position in a ring of all members, in which the members of a host are
    /// adjacent: the sum of the counts of all members before it, and what its neighbours pass to
    /// it.
    pub fn ring(&self, count: u64, left: impl Into<Bytes>, right: impl Into<Bytes>) -> Pending<RingPosition> {
        let call = Call::Ring { count, left: left.into(), right: right.into() };
        self.runtime.call("the ring", call, Box::new(place))
    }

    /// Makes all values that members [put](Self::put) before it visible to all members that return
    /// from it.
    pub fn fence(&self) -> Pending<()> {
        self.runtime.call("the fence", Call::Fence, Box::new(done))
    }

    /// Receives at all members what the front end [broadcasts](crate::Session::broadcast). Like
    /// other collective operations, all members call it, in the same order; those that follow wait
    /// until the data arrive.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn f(session: &libi::Session, member: &libi::Member) -> Result<(), libi::CommError> {
    /// # let timeout = Duration::from_secs(10);
    /// // In the front end:
    /// session.broadcast("configuration").wait(timeout)?;
    /// let answers = session.gather().wait(timeout)?; // one for each rank
    /// // In every member:
    /// let configuration = member.broadcast_from_front().wait(timeout)?;
    /// member.gather_to_front(configuration).wait(timeout)?;
    /// # let _ = answers; Ok(()) }
    /// ```
    ///
    /// # Errors
    /// At the master [`CommError::FrontEndLost`] if the front end is gone, or
    /// [`CommError::TimedOut`]; then [`CommError::Cancelled`] at all other members.
    pub fn broadcast_from_front(&self) -> Pending<Bytes> {
        const WHAT: &str = "the broadcast of the front end";
        self.runtime.call_by(WHAT, MemberCommand::BroadcastFromFront, Box::new(data))
    }

    /// Collects the data of all members, of any lengths, at the front end, which receives them with
    /// [`Session::gather`](crate::Session::gather). All members call it, in the same order as other
    /// collective operations. It completes when this member's data no longer need to be buffered
    /// here.
    ///
    /// # Errors
    /// [`CommError::FrontEndLost`] at the master if the front end is gone.
    pub fn gather_to_front(&self, data: impl Into<Bytes>) -> Pending<()> {
        const WHAT: &str = "the gather to the front end";
        let (data, parts) = (data.into(), self.parts_by_rank());
        let command = move |id| MemberCommand::GatherToFront(id, data, parts);
        self.runtime.call_by(WHAT, command, Box::new(|_| Ok(())))
    }

    fn parts_by_rank(&self) -> PartsByRank {
        let (size, absent) = self.extent();
        PartsByRank { size, absent }
    }
}

const fn scan(inclusive: bool, data: Bytes, reducer: Reducer) -> Call {
    Call::Scan { inclusive, data, reducer }
}

/// Reads an outcome that has data unless nothing comes before this member.
fn maybe_data(outcome: Outcome) -> Result<Option<Bytes>, CommError> {
    if outcome == Outcome::Done { Ok(None) } else { data(outcome).map(Some) }
}

/// Wraps a function of the program: a panic in it aborts the process.
fn guarded(function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static) -> Reducer {
    /// Dropped only on a panic.
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    Reducer::by(move |into, other| {
        let abort = Abort;
        function(into, other);
        std::mem::forget(abort);
    })
}

/// Assigns the parts of an outcome to ranks.
#[derive(Debug)]
pub(super) struct PartsByRank {
    pub(super) size: u32,
    pub(super) absent: Ranks,
}

impl PartsByRank {
    /// One part per rank; the parts of absent members are empty.
    pub(super) fn parts(&self, outcome: Outcome) -> Result<Vec<Bytes>, CommError> {
        let parts = parts(outcome)?;
        // The session may have grown since.
        if self.absent.is_empty() || parts.len() >= self.size as usize {
            return Ok(parts);
        }
        let mut present = parts.into_iter();
        let of = |rank| if self.absent.contains(Rank(rank)) { None } else { present.next() };
        Ok((0..self.size).map(of).map(Option::unwrap_or_default).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_rank_even_if_somebody_is_absent() {
        let every = PartsByRank { size: 4, absent: [Rank(1), Rank(3)].into_iter().collect() };
        let part = |text: &'static str| Bytes::from_static(text.as_bytes());
        let parts = every.parts(Outcome::Parts(vec![part("a"), part("c")]));
        assert_eq!(parts, Ok(vec![part("a"), part(""), part("c"), part("")]));
    }
}
