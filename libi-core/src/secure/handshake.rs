//! The handshake of a direct link: when each end may trust the other.
//!
//! Each state is a type that waits for one message of known length:
//!
//! ```text
//! child    AwaitReply::begin > opening ...... reply > AwaitReply::step > proof, SecuredLink
//! parent   opening > AwaitOpening::step > Opening::answer > reply ...... proof > AwaitProof::step
//!          > SecuredLink
//! ```
//!
//! A step consumes a state and returns the next one or an error.

use core::fmt;

use super::cipher::{CipherOffer, DirectionKey, RecordCipher, TAG_LEN};
use super::noise::{Handshake, MESSAGE_LEN, NotAuthentic, TransportKeys};
use super::{Entropy, HandshakeFault, HandshakeMessage, KeyId, LinkKey, LinkSecurity, Opener, Sealer};

/// Bytes of the child's first message.
pub const OPENING_LEN: usize = KeyId::LEN + MESSAGE_LEN;
/// Bytes of the parent's answer.
pub const REPLY_LEN: usize = MESSAGE_LEN;
/// Bytes of the child's second message.
pub const PROOF_LEN: usize = TAG_LEN;

/// The result of a step.
#[derive(Debug)]
pub enum HandshakeStep<S, T> {
    /// All input is used up, and more is needed.
    Wait(S),
    /// The message is complete. Bytes behind it are still in the input.
    Done(T),
}

/// A link on which both sides are authenticated.
#[derive(Debug)]
pub enum SecuredLink {
    /// All further bytes travel in records, in both directions.
    Encrypted {
        /// The cipher that both ends agreed on.
        cipher: RecordCipher,
        /// Encrypts outgoing bytes.
        seal: Sealer,
        /// Decrypts incoming records.
        open: Opener,
    },
    /// All further bytes travel unencrypted.
    Authenticated,
}

/// The child has sent its opening.
pub struct AwaitReply {
    handshake: Handshake,
    mode: LinkSecurity,
    offer: CipherOffer,
    reply: PartialMessage<REPLY_LEN>,
}

/// The parent has accepted a connection from an unknown peer.
#[derive(Debug, Default)]
pub struct AwaitOpening {
    opening: PartialMessage<OPENING_LEN>,
}

/// A complete opening, not yet checked: the key with its key id decides.
#[derive(Debug)]
pub struct Opening {
    bytes: [u8; OPENING_LEN],
}

/// The parent has replied to an opening that is genuine, but may be replayed.
pub struct AwaitProof {
    key_id: KeyId,
    mode: LinkSecurity,
    cipher: RecordCipher,
    send: DirectionKey,
    receive: DirectionKey,
    proof: PartialMessage<PROOF_LEN>,
}

impl AwaitReply {
    /// Begins a handshake as the connecting side, which is fast with the ciphers of `offer`:
    /// returns the state, and the opening to send.
    #[must_use]
    pub fn begin(key: &LinkKey, offer: CipherOffer, entropy: Entropy) -> (Self, [u8; OPENING_LEN]) {
        let mut handshake = Handshake::initiator(key, entropy);
        let mut opening = [0; OPENING_LEN];
        opening[..KeyId::LEN].copy_from_slice(&key.id().0);
        opening[KeyId::LEN..].copy_from_slice(&handshake.write(offer.to_wire()));
        (Self { handshake, mode: key.mode(), offer, reply: PartialMessage::default() }, opening)
    }

    /// Takes the reply, or a part of it, off the front of `input`. Once it is complete, the link is
    /// secured, and the proof has to be sent before anything else.
    ///
    /// # Errors
    /// The reply was not made with the key, or chooses a cipher that was not offered.
    pub fn step(
        mut self,
        input: &mut &[u8],
    ) -> Result<HandshakeStep<Self, (SecuredLink, [u8; PROOF_LEN])>, HandshakeFault> {
        let fault = HandshakeFault::NotAuthentic { awaited: HandshakeMessage::Reply };
        let Some(reply) = self.reply.fill(input) else {
            return Ok(HandshakeStep::Wait(self));
        };
        let chosen = self.handshake.read(reply).map_err(|NotAuthentic| fault)?;
        let cipher = self.offer.chosen(chosen).ok_or(fault)?;
        let TransportKeys { mut send, receive } = self.handshake.finish(cipher);
        // The first message under a new key, so there is a number left for it.
        let proof = send.seal(&mut []).map_err(|_| fault)?;
        Ok(HandshakeStep::Done((SecuredLink::new(self.mode, cipher, send, receive), proof)))
    }

    /// The stream has ended.
    #[must_use]
    pub fn end(self) -> HandshakeFault {
        HandshakeFault::Cut { awaited: HandshakeMessage::Reply, have: self.reply.have }
    }
}

impl AwaitOpening {
    /// Begins a handshake as the listening side.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the opening, or a part of it, off the front of `input`.
    #[must_use]
    pub fn step(mut self, input: &mut &[u8]) -> HandshakeStep<Self, Opening> {
        match self.opening.fill(input) {
            Some(&bytes) => HandshakeStep::Done(Opening { bytes }),
            None => HandshakeStep::Wait(self),
        }
    }

    /// The stream has ended.
    #[must_use]
    pub fn end(self) -> HandshakeFault {
        HandshakeFault::Cut { awaited: HandshakeMessage::Opening, have: self.opening.have }
    }
}

impl Opening {
    /// The key id in the opening, under which the caller looks for the key.
    #[must_use]
    pub fn key_id(&self) -> KeyId {
        let (id, _) = self.parts();
        KeyId(*id)
    }

    /// Replies with the key found under [`Opening::key_id`], as a side that is fast with the
    /// ciphers of `offer`. Without a key, does equivalent work, so that both cases take the same
    /// time. Returns the next state and the reply to send.
    ///
    /// The ticket stays valid, see [`AwaitProof::step`].
    ///
    /// # Errors
    /// There is no key, or the opening was not made with it. The caller has to close the connection
    /// without sending anything.
    pub fn answer(
        self,
        key: Option<&LinkKey>,
        offer: CipherOffer,
        entropy: Entropy,
    ) -> Result<(AwaitProof, [u8; REPLY_LEN]), HandshakeFault> {
        let decoy = LinkKey::decoy();
        let known = key.filter(|key| key.id() == self.key_id());
        let (_, message) = self.parts();
        let mut handshake = Handshake::responder(known.unwrap_or(&decoy), entropy);
        let read = handshake.read(message);
        // In this order, because any peer can make an opening for the decoy.
        let key = known.ok_or(HandshakeFault::UnknownKey)?;
        let fault = HandshakeFault::NotAuthentic { awaited: HandshakeMessage::Opening };
        let theirs = read.map_err(|NotAuthentic| fault)?;
        let cipher = offer.best(CipherOffer::from_wire(theirs));
        let reply = handshake.write(cipher.number());
        let TransportKeys { send, receive } = handshake.finish(cipher);
        let proof = PartialMessage::default();
        Ok((AwaitProof { key_id: key.id(), mode: key.mode(), cipher, send, receive, proof }, reply))
    }

    fn parts(&self) -> (&[u8; KeyId::LEN], &[u8; MESSAGE_LEN]) {
        let (id, message) = self.bytes.split_first_chunk().expect("an opening begins with an id");
        (id, message.first_chunk().expect("the rest of an opening is a message"))
    }
}

impl AwaitProof {
    /// The key id of the link.
    #[must_use]
    pub const fn key_id(&self) -> KeyId {
        self.key_id
    }

    /// Takes the proof, or a part of it, off the front of `input`. Once it is complete, the link is
    /// secured, and the caller has to invalidate its ticket: a later proof for the same link is
    /// rejected.
    ///
    /// # Errors
    /// The proof was not made with the key, or not for this connection.
    pub fn step(mut self, input: &mut &[u8]) -> Result<HandshakeStep<Self, SecuredLink>, HandshakeFault> {
        let Some(&proof) = self.proof.fill(input) else {
            return Ok(HandshakeStep::Wait(self));
        };
        let fault = HandshakeFault::NotAuthentic { awaited: HandshakeMessage::Proof };
        self.receive.open(&mut { proof }).map_err(|_| fault)?;
        Ok(HandshakeStep::Done(SecuredLink::new(self.mode, self.cipher, self.send, self.receive)))
    }

    /// The stream has ended.
    #[must_use]
    pub fn end(self) -> HandshakeFault {
        HandshakeFault::Cut { awaited: HandshakeMessage::Proof, have: self.proof.have }
    }
}

impl SecuredLink {
    fn new(mode: LinkSecurity, cipher: RecordCipher, send: DirectionKey, receive: DirectionKey) -> Self {
        match mode {
            LinkSecurity::Encrypted => {
                Self::Encrypted { cipher, seal: Sealer::new(send), open: Opener::new(receive) }
            }
            LinkSecurity::Authenticated => Self::Authenticated,
        }
    }
}

impl fmt::Debug for AwaitReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitReply").field("reply", &self.reply).finish_non_exhaustive()
    }
}

impl fmt::Debug for AwaitProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AwaitProof")
            .field("key_id", &self.key_id)
            .field("proof", &self.proof)
            .finish_non_exhaustive()
    }
}

/// The part of a message that has arrived.
struct PartialMessage<const N: usize> {
    bytes: [u8; N],
    have: usize,
}

impl<const N: usize> PartialMessage<N> {
    /// Moves bytes from the front of `input` until the message is complete.
    fn fill(&mut self, input: &mut &[u8]) -> Option<&[u8; N]> {
        let front = input.split_off(..input.len().min(N - self.have)).unwrap_or_default();
        self.bytes[self.have..self.have + front.len()].copy_from_slice(front);
        self.have += front.len();
        (self.have == N).then_some(&self.bytes)
    }
}

impl<const N: usize> Default for PartialMessage<N> {
    fn default() -> Self {
        Self { bytes: [0; N], have: 0 }
    }
}

impl<const N: usize> fmt::Debug for PartialMessage<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {N} bytes", self.have)
    }
}

#[cfg(test)]
mod tests;
