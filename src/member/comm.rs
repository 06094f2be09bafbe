//! What a member can say to others. See [`talk`](crate::talk) for what all of this has in common.

use libi_comm::fold::Fold;
use libi_comm::{Address, Bytes, Call, KeyScope, Op, Outcome, RingPlace};
use libi_core::ids::Rank;
use libi_core::ranks::Ranks;

use super::Member;
use crate::CommError;
use crate::talk::{FRONT_TAG, Number, Pending};
use crate::talk::{bytes_of, data, done, found, numbers_in, parts, place};

/// Collective calls: all members make them, in the same order.
impl Member {
    /// Comes back when all members have called it.
    pub fn barrier(&self) -> Pending<()> {
        self.runtime.call("the barrier", Call::Barrier, Box::new(done))
    }

    /// Has everybody get what the root has. The root gives its data; what others give is not looked at, so that every member
    /// may make the same call.
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
    /// [`CommError::NothingGiven`] if the root gives nothing.
    pub fn broadcast(&self, root: Rank, data: Option<Bytes>) -> Pending<Bytes> {
        let data = data.filter(|_| root == self.rank());
        self.runtime.call("the broadcast", Call::Broadcast { root, data, length: None }, Box::new(self::data))
    }

    /// Has the root get everybody's data, of whatever lengths: in the order of ranks there, nothing elsewhere. Of members that are
    /// [absent](Self::absent) it gets no bytes.
    pub fn gather(&self, root: Rank, data: impl Into<Bytes>) -> Pending<Option<Vec<Bytes>>> {
        self.gather_of(root, data.into(), false)
    }

    /// As [`gather`](Self::gather), of data that are equally long everywhere.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if they are not.
    pub fn gather_equal(&self, root: Rank, data: impl Into<Bytes>) -> Pending<Option<Vec<Bytes>>> {
        self.gather_of(root, data.into(), true)
    }

    fn gather_of(&self, root: Rank, data: Bytes, equal: bool) -> Pending<Option<Vec<Bytes>>> {
        let mine = root == self.rank();
        let every = self.parts_by_rank();
        let read = move |outcome| if mine { every.parts(outcome).map(Some) } else { Ok(None) };
        self.runtime.call("the gather", Call::Gather { root, data, equal }, Box::new(read))
    }

    /// Has everybody get his part of what the root has: a part of any length for each rank, also for those that are
    /// [absent](Self::absent). What others than the root give is not looked at.
    ///
    /// # Errors
    /// [`CommError::NothingGiven`] or [`CommError::WrongParts`] if the root has not a part for every rank.
    pub fn scatter(&self, root: Rank, parts: Option<Vec<Bytes>>) -> Pending<Bytes> {
        let parts = parts.filter(|_| root == self.rank());
        self.runtime.call("the scatter", Call::Scatter { root, parts, length: None }, Box::new(data))
    }

    /// Has everybody get everybody's data, of whatever lengths, in the order of ranks. Of members that are [absent](Self::absent) they get
    /// no bytes.
    pub fn allgather(&self, data: impl Into<Bytes>) -> Pending<Vec<Bytes>> {
        self.allgather_of(data.into(), false)
    }

    /// As [`allgather`](Self::allgather), of data that are equally long everywhere.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if they are not.
    pub fn allgather_equal(&self, data: impl Into<Bytes>) -> Pending<Vec<Bytes>> {
        self.allgather_of(data.into(), true)
    }

    fn allgather_of(&self, data: Bytes, equal: bool) -> Pending<Vec<Bytes>> {
        let every = self.parts_by_rank();
        let read = move |outcome| every.parts(outcome);
        self.runtime.call("the allgather", Call::AllGather { data, equal }, Box::new(read))
    }

    /// As [`allgather`](Self::allgather), of text.
    ///
    /// # Errors
    /// [`CommError::Protocol`] if another member has given bytes that are no text.
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

    /// Has everybody get one part of every member: this one gives the `n`-th of its parts to rank `n`, and gets what rank `n` has
    /// for it in the `n`-th place. All parts of all members are equally long.
    ///
    /// # Errors
    /// [`CommError::WrongParts`] if there is not a part for every rank, [`CommError::Unequal`] or [`CommError::Mismatch`] if their
    /// lengths differ.
    pub fn alltoall(&self, parts: Vec<Bytes>) -> Pending<Vec<Bytes>> {
        self.alltoall_of(parts, true)
    }

    /// As [`alltoall`](Self::alltoall), with parts of any lengths.
    ///
    /// # Errors
    /// [`CommError::WrongParts`] if there is not a part for every rank.
    pub fn alltoallv(&self, parts: Vec<Bytes>) -> Pending<Vec<Bytes>> {
        self.alltoall_of(parts, false)
    }

    fn alltoall_of(&self, parts: Vec<Bytes>, equal: bool) -> Pending<Vec<Bytes>> {
        let every = self.parts_by_rank();
        let read = move |outcome| every.parts(outcome);
        self.runtime.call("the alltoall", Call::AllToAll { parts, equal }, Box::new(read))
    }

    /// Has the root get everybody's arrays, combined element by element inside the tree; nothing comes of it elsewhere. A sum
    /// of floating-point numbers may differ in its last bits from one run to the next.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if arrays or operations differ.
    pub fn reduce<T: Number>(&self, root: Rank, numbers: &[T], op: Op) -> Pending<Option<Vec<T>>> {
        let call =
            Call::Reduce { to: Some(root), data: bytes_of(numbers), fold: Fold::Elements(op, T::ELEMENT) };
        let mine = root == self.rank();
        let read = move |outcome| if mine { numbers_in(&data(outcome)?).map(Some) } else { Ok(None) };
        self.runtime.call("the reduction", call, Box::new(read))
    }

    /// As [`reduce`](Self::reduce), with the result for everybody.
    ///
    /// # Errors
    /// [`CommError::Mismatch`] if arrays or operations differ.
    pub fn allreduce<T: Number>(&self, numbers: &[T], op: Op) -> Pending<Vec<T>> {
        let call = Call::Reduce { to: None, data: bytes_of(numbers), fold: Fold::Elements(op, T::ELEMENT) };
        self.runtime.call("the reduction", call, Box::new(|outcome| numbers_in(&data(outcome)?)))
    }

    /// Has the root get everybody's values, combined by a function that is the same at all members: it is given the value of some
    /// ranks, which it makes into that of more, and the value of those that follow them. It has to be associative; what it works
    /// on may be of any length.
    ///
    /// The function runs in whatever thread turns libi's engine, and others wait for it. One that panics aborts the process: half a
    /// value would be wrong everywhere.
    pub fn reduce_by(
        &self,
        root: Rank,
        value: impl Into<Bytes>,
        function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static,
    ) -> Pending<Option<Bytes>> {
        let mine = root == self.rank();
        let call = Call::Reduce { to: Some(root), data: value.into(), fold: guarded(function) };
        let read = move |outcome| if mine { data(outcome).map(Some) } else { Ok(None) };
        self.runtime.call("the reduction", call, Box::new(read))
    }

    /// As [`reduce_by`](Self::reduce_by), with the result for everybody.
    pub fn allreduce_by(
        &self,
        value: impl Into<Bytes>,
        function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static,
    ) -> Pending<Bytes> {
        let call = Call::Reduce { to: None, data: value.into(), fold: guarded(function) };
        self.runtime.call("the reduction", call, Box::new(data))
    }

    /// Finds this member's place in a ring of all, in which the members of a host are neighbours: what all before it count for
    /// together, and what its neighbours have for it.
    pub fn ring(&self, count: u64, left: impl Into<Bytes>, right: impl Into<Bytes>) -> Pending<RingPlace> {
        let call = Call::Ring { count, left: left.into(), right: right.into() };
        self.runtime.call("the ring", call, Box::new(place))
    }

    /// Makes what was [put](Self::put) before by anybody visible to everybody who comes back from this.
    pub fn fence(&self) -> Pending<()> {
        self.runtime.call("the fence", Call::Fence, Box::new(done))
    }

    fn parts_by_rank(&self) -> PartsByRank {
        PartsByRank { size: self.size(), absent: self.absent.clone() }
    }
}

/// Between two, and with keys: nobody else has to do anything.
impl Member {
    /// Sends a member a message, about whatever the two of them mean by the tag. Messages with the same tag arrive in their order.
    /// It is over when this member need not hold the message any more, which says nothing of whether it was received.
    ///
    /// # Errors
    /// [`CommError::NoSuchPeer`], [`CommError::Absent`], [`CommError::PeerLost`]: there is nobody to receive it.
    pub fn send_to(&self, to: Rank, tag: u32, message: impl Into<Bytes>) -> Pending<()> {
        let call = Call::Send { to: Address::Rank(to), tag, data: message.into() };
        self.runtime.call("sending to a member", call, Box::new(done))
    }

    /// Receives the next message that a member has sent to this one with this tag.
    ///
    /// # Errors
    /// [`CommError::NoSuchPeer`], [`CommError::Absent`], [`CommError::PeerLost`]: there is nobody to send it.
    pub fn recv_from(&self, from: Rank, tag: u32) -> Pending<Bytes> {
        let call = Call::Receive { from: Address::Rank(from), tag };
        self.runtime.call("receiving from a member", call, Box::new(data))
    }

    /// Sends the front end a message, which gets it by [`Session::recv`](crate::Session::recv). Only the master does; that
    /// others make the same call has no effect, so that all members may run the same program.
    ///
    /// # Errors
    /// [`CommError::FrontEndLost`].
    pub fn send(&self, message: impl Into<Bytes>) -> Pending<()> {
        const WHAT: &str = "sending to the front end";
        if !self.is_master() {
            return Pending::over(WHAT, Ok(()));
        }
        let call = Call::Send { to: Address::FrontEnd, tag: FRONT_TAG, data: message.into() };
        self.runtime.call(WHAT, call, Box::new(done))
    }

    /// Receives the next message that the front end has [sent](crate::Session::send). Only the master does; others who make the same
    /// call get no bytes, at once. What they need to know the master may [broadcast](Self::broadcast).
    ///
    /// # Errors
    /// [`CommError::FrontEndLost`].
    pub fn recv(&self) -> Pending<Bytes> {
        const WHAT: &str = "receiving from the front end";
        if !self.is_master() {
            return Pending::over(WHAT, Ok(Bytes::new()));
        }
        let call = Call::Receive { from: Address::FrontEnd, tag: FRONT_TAG };
        self.runtime.call(WHAT, call, Box::new(data))
    }

    /// Puts a value under a key. Others are certain to see it after the next [`fence`](Self::fence).
    ///
    /// A [sparse](KeyScope::Local) value is kept by the first member of this one's host, and goes with it: who asks later gets
    /// [`CommError::PeerLost`], naming that member. Put what has to outlive a host as [`KeyScope::Replicated`].
    pub fn put(&self, key: impl Into<String>, value: impl Into<Bytes>, spread: KeyScope) -> Pending<()> {
        let call = Call::Put { key: key.into(), value: value.into(), spread };
        self.runtime.call("putting a key", call, Box::new(done))
    }

    /// The value of a key. If there is none, waits until somebody puts one.
    pub fn get(&self, key: impl Into<String>) -> Pending<Bytes> {
        let read = |outcome| found(outcome)?.ok_or(CommError::Protocol("a key without a value"));
        self.runtime.call("a key", Call::Get { key: key.into(), wait: true }, Box::new(read))
    }

    /// The value of a key, if there is one.
    pub fn find(&self, key: impl Into<String>) -> Pending<Option<Bytes>> {
        self.runtime.call("looking for a key", Call::Get { key: key.into(), wait: false }, Box::new(found))
    }
}

/// A function of the program's own, of which nothing is left if it panics.
fn guarded(function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static) -> Fold {
    /// Is dropped only by a panic.
    struct Abort;
    impl Drop for Abort {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    Fold::by(move |into, other| {
        let abort = Abort;
        function(into, other);
        std::mem::forget(abort);
    })
}

/// Whose data come where everybody's do.
struct PartsByRank {
    size: u32,
    absent: Ranks,
}

impl PartsByRank {
    /// A part for every rank: nothing comes of those that are absent.
    fn parts(&self, outcome: Outcome) -> Result<Vec<Bytes>, CommError> {
        let parts = parts(outcome)?;
        if self.absent.is_empty() || parts.len() == self.size as usize {
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
