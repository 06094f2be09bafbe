//! The messages of a member, and the keys that it puts and gets. See [`talk`](crate::talk) for the
//! rules of all operations.

use libi_comm::{Address, Bytes, Call, KeyScope};
use libi_core::ids::Rank;

use super::Member;
use crate::CommError;
use crate::talk::{FRONT_TAG, Pending};
use crate::talk::{data, done, found};

/// Point-to-point messages and the key-value store: other members need not take part.
impl Member {
    /// Sends a message to a member. The tag is chosen by the program; messages with the same tag
    /// arrive in order. The operation completes when the message no longer needs to be buffered
    /// here; completion does not mean that it was received.
    ///
    /// # Errors
    /// [`CommError::NoSuchPeer`], [`CommError::Absent`] or [`CommError::PeerLost`] if the member
    /// cannot receive it.
    pub fn send_to(&self, to: Rank, tag: u32, message: impl Into<Bytes>) -> Pending<()> {
        let call = Call::Send { to: Address::Rank(to), tag, data: message.into() };
        self.runtime.call("sending to a member", call, Box::new(done))
    }

    /// Receives the next message with this tag that the member has sent to this one.
    ///
    /// # Errors
    /// [`CommError::NoSuchPeer`], [`CommError::Absent`] or [`CommError::PeerLost`] if the member
    /// cannot send it.
    pub fn recv_from(&self, from: Rank, tag: u32) -> Pending<Bytes> {
        let call = Call::Receive { from: Address::Rank(from), tag };
        self.runtime.call("receiving from a member", call, Box::new(data))
    }

    /// Sends a message to the front end, which receives it with
    /// [`Session::recv`](crate::Session::recv). Only the master does; to send data of all members,
    /// use [`gather_to_front`](Self::gather_to_front).
    ///
    /// # Errors
    /// [`CommError::NotMaster`] at other members, [`CommError::FrontEndLost`].
    pub fn send(&self, message: impl Into<Bytes>) -> Pending<()> {
        const WHAT: &str = "sending to the front end";
        if !self.is_master() {
            return Pending::over(WHAT, Err(CommError::NotMaster(self.rank())));
        }
        let call = Call::Send { to: Address::FrontEnd, tag: FRONT_TAG, data: message.into() };
        self.runtime.call(WHAT, call, Box::new(done))
    }

    /// Receives the next message that the front end has [sent](crate::Session::send). Only the
    /// master does; for data that all members need, use
    /// [`broadcast_from_front`](Self::broadcast_from_front).
    ///
    /// # Errors
    /// [`CommError::NotMaster`] at other members, [`CommError::FrontEndLost`].
    pub fn recv(&self) -> Pending<Bytes> {
        const WHAT: &str = "receiving from the front end";
        if !self.is_master() {
            return Pending::over(WHAT, Err(CommError::NotMaster(self.rank())));
        }
        let call = Call::Receive { from: Address::FrontEnd, tag: FRONT_TAG };
        self.runtime.call(WHAT, call, Box::new(data))
    }

    /// Stores a value under a key. Other members are certain to see it after the next
    /// [`fence`](Self::fence).
    ///
    /// A [local](KeyScope::Local) value is stored by the leader of this host, and is lost with it;
    /// later lookups fail with [`CommError::PeerLost`], which names the leader. Use
    /// [`KeyScope::Replicated`] for values that must outlive a host.
    pub fn put(&self, key: impl Into<String>, value: impl Into<Bytes>, scope: KeyScope) -> Pending<()> {
        let call = Call::Put { key: key.into(), value: value.into(), scope };
        self.runtime.call("putting a key", call, Box::new(done))
    }

    /// The value of a key. Waits until there is one.
    pub fn get(&self, key: impl Into<String>) -> Pending<Bytes> {
        let read = |outcome| found(outcome)?.ok_or(CommError::Protocol("a key without a value"));
        self.runtime.call("waiting for a key", Call::Get { key: key.into(), wait: true }, Box::new(read))
    }

    /// The value of a key, if there is one.
    pub fn find(&self, key: impl Into<String>) -> Pending<Option<Bytes>> {
        self.runtime.call("looking for a key", Call::Get { key: key.into(), wait: false }, Box::new(found))
    }
}
