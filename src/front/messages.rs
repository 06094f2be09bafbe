//! Messages between a front end and the master of a session.

use libi_comm::{Address, Bytes, Call, CommError};
use libi_core::ids::Rank;

use super::Session;
use super::session::SessionStatus;
use crate::executor::Completed;
use crate::talk::{
    BROADCAST_TAG, FRONT_TAG, GATHER_TAG, Pending, ReadingWithMissing, data, decode_parts, done, with_missing,
};

impl Session {
    /// The master, with which the front end exchanges messages: rank 0, or where a lost one is
    /// [replaced](field@crate::LaunchOptions::replace_master), the next that was left.
    #[must_use]
    pub fn master(&self) -> Rank {
        let heard = |status: &mut SessionStatus| {
            status.known_master = status.master;
            status.master
        };
        self.runtime.with(|state| state.sessions.get_mut(&self.number).map(heard)).unwrap_or(Rank(0))
    }

    /// The master that the caller knows. If another one has taken its place since, what was sent to it may be
    /// lost, and what was asked of it is not answered: one call fails, so that the caller hears of it.
    fn known_master(&self) -> Result<Address, CommError> {
        let known = |status: &mut SessionStatus| {
            let known = std::mem::replace(&mut status.known_master, status.master);
            let lost = || CommError::PeerLost { ranks: [known].into_iter().collect(), why: Vec::new() };
            if known == status.master { Ok(Address::Rank(known)) } else { Err(lost()) }
        };
        let known = self.runtime.with(|state| state.sessions.get_mut(&self.number).map(known));
        known.unwrap_or(Ok(Address::Rank(Rank(0))))
    }

    /// Makes a call to the master.
    fn ask<T>(
        &self,
        what: &'static str,
        call: impl FnOnce(Address) -> Call,
        read: ReadingWithMissing<T>,
    ) -> Pending<T> {
        match self.known_master() {
            Ok(master) => self.runtime.call(self.number, what, call(master), read),
            Err(error) => Pending::over(what, Err(error)),
        }
    }

    /// Sends a message to the master, which receives it with [`Member::recv`](crate::Member::recv).
    /// Messages sent before the session is up are delivered once it is. They arrive in the order in
    /// which they were sent. The operation completes when the message no longer needs to be
    /// buffered here; completion does not mean that it was received.
    ///
    /// # Errors
    /// [`CommError::PeerLost`](crate::CommError::PeerLost) if the master is gone, or was replaced since the
    /// caller has heard of a master, by [`master`](Self::master),
    /// [`Event::MasterReplaced`](crate::Event::MasterReplaced) or an earlier error of this kind: what it has
    /// sent or asked for may be lost with it. Where it is replaced, the operation can be repeated then;
    /// [`CommError::Ended`](crate::CommError::Ended) if the session did not come up (the
    /// [report](Self::report) says why), or is over.
    pub fn send(&self, message: impl Into<Bytes>) -> Pending<()> {
        let call = |to| Call::Send { to, tag: FRONT_TAG, data: message.into() };
        self.ask("sending to the master", call, with_missing(Box::new(done)))
    }

    /// Receives the next message that the master has [sent](crate::Member::send). Several receives
    /// may be pending at a time; they complete in order.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn recv(&self) -> Pending<Bytes> {
        let call = |from| Call::Receive { from, tag: FRONT_TAG };
        self.ask("receiving from the master", call, with_missing(Box::new(data)))
    }

    /// Sends data to all members, which receive them with
    /// [`Member::broadcast_from_front`](crate::Member::broadcast_from_front). The operation
    /// completes when the data no longer need to be buffered here.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn broadcast(&self, message: impl Into<Bytes>) -> Pending<()> {
        let call = |to| Call::Send { to, tag: BROADCAST_TAG, data: message.into() };
        self.ask("the broadcast to all members", call, with_missing(Box::new(done)))
    }

    /// Receives the data that all members pass to
    /// [`Member::gather_to_front`](crate::Member::gather_to_front): one part for each rank. The
    /// parts of members that did not come up are empty, as are those of lost ones, if operations are to
    /// [go on](crate::OnLoss::Continue) without them: [`Pending::missing`] names the latter.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn gather(&self) -> Pending<Vec<Bytes>> {
        let call = |from| Call::Receive { from, tag: GATHER_TAG };
        let read = |Completed { outcome, .. }| decode_parts(data(outcome)?);
        self.ask("the gather of all members", call, Box::new(read))
    }
}
