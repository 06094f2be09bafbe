//! Messages between a front end and the master of a session.

use libi_comm::{Address, Bytes, Call};
use libi_core::ids::Rank;

use super::Session;
use crate::executor::Completed;
use crate::talk::{BROADCAST_TAG, FRONT_TAG, GATHER_TAG, Pending, data, decode_parts, done};

impl Session {
    /// The master, with which the front end exchanges messages: rank 0, or where a lost one is
    /// [replaced](field@crate::LaunchOptions::replace_master), the next that was left.
    #[must_use]
    pub fn master(&self) -> Rank {
        self.status(|status| status.master).unwrap_or(Rank(0))
    }

    fn master_address(&self) -> Address {
        Address::Rank(self.master())
    }

    /// Sends a message to the master, which receives it with [`Member::recv`](crate::Member::recv).
    /// Messages sent before the session is up are delivered once it is. They arrive in the order in
    /// which they were sent. The operation completes when the message no longer needs to be
    /// buffered here; completion does not mean that it was received.
    ///
    /// # Errors
    /// [`CommError::PeerLost`](crate::CommError::PeerLost) if the master is gone; where it is replaced, the
    /// operation can be repeated after [`Event::MasterReplaced`](crate::Event::MasterReplaced);
    /// [`CommError::Ended`](crate::CommError::Ended) if the session did not come up (the
    /// [report](Self::report) says why), or is over.
    pub fn send(&self, message: impl Into<Bytes>) -> Pending<()> {
        let call = Call::Send { to: self.master_address(), tag: FRONT_TAG, data: message.into() };
        self.runtime.call(self.number, "sending to the master", call, Box::new(done))
    }

    /// Receives the next message that the master has [sent](crate::Member::send). Several receives
    /// may be pending at a time; they complete in order.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn recv(&self) -> Pending<Bytes> {
        let call = Call::Receive { from: self.master_address(), tag: FRONT_TAG };
        self.runtime.call(self.number, "receiving from the master", call, Box::new(data))
    }

    /// Sends data to all members, which receive them with
    /// [`Member::broadcast_from_front`](crate::Member::broadcast_from_front). The operation
    /// completes when the data no longer need to be buffered here.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn broadcast(&self, message: impl Into<Bytes>) -> Pending<()> {
        let call = Call::Send { to: self.master_address(), tag: BROADCAST_TAG, data: message.into() };
        self.runtime.call(self.number, "the broadcast to all members", call, Box::new(done))
    }

    /// Receives the data that all members pass to
    /// [`Member::gather_to_front`](crate::Member::gather_to_front): one part for each rank. The
    /// parts of members that did not come up are empty, as are those of lost ones, if operations are to
    /// [go on](crate::OnLoss::Continue) without them: [`Pending::missing`] names the latter.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn gather(&self) -> Pending<Vec<Bytes>> {
        let call = Call::Receive { from: self.master_address(), tag: GATHER_TAG };
        let read = |Completed { outcome, .. }| decode_parts(data(outcome)?);
        self.runtime.call_with_missing(self.number, "the gather of all members", call, Box::new(read))
    }
}
