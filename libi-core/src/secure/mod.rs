//! Direct links: how the two ends authenticate each other, and how the bytes are encrypted.
//!
//! A direct link is a TCP connection that a child makes to its parent. A stranger can connect to
//! the same address, and read or change what passes. The ticket that the child got through a
//! protected channel contains what a stranger does not know: the session's [`Secret`], and the
//! [`Terms`] of this one link. A [`LinkKey`] is derived from both; a Noise handshake proves to each
//! side that the other has it. Bytes and randomness are passed in, bytes are returned: nothing here
//! reads a clock, a socket or a random device.
//!
//! # The bytes
//!
//! The child connects and is the initiator of `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`. It speaks
//! first. Every message of the handshake has one possible length.
//!
//! ```text
//! opening, 65 bytes             child to parent
//!  0..16   key id               names the ticket, see below
//! 16..65   Noise message 1      psk, e: a public key (32), the child's offer of ciphers (1) and
//!                               its tag (16)
//!
//! reply, 49 bytes               parent to child
//!  0..49   Noise message 2      e, ee: a public key (32), the cipher that the parent chose (1) and
//!                               its tag (16)
//!
//! proof, 16 bytes               child to parent, followed at once by the child's first records
//!  0..16   tag of no payload    the child's first message under the chosen cipher, nonce 0
//!
//! record, 2 bytes and the rest  both ways, after the proof, on an encrypted link
//!  0..2    length of the rest   u16 little-endian, 17 to 16400
//!  2..     ciphertext           1 to 16384 bytes and their tag (16), under the next nonce
//!
//! cipher                        bit of the offer, number in the reply
//!  0       ChaCha20-Poly1305    a record is a Noise transport message
//!  1       AEGIS-128L           key: BLAKE2s(key: Noise's key, "libi aegis-128l"), first 16 bytes;
//!                               nonce: 8 zeros and Noise's number
//!
//! prologue, 28 bytes            not sent: both sides derive it from their ticket
//!  0..8    "libilink"
//!  8..10   protocol version     u16, as all numbers little-endian
//! 10       mode                 1 encrypted, 2 authenticated
//! 11       kind of parent       0 front end, 1 host
//! 12..16   session              u32
//! 16..20   host                 u32, the child's
//! 20..24   attempt              u32
//! 24..28   parent               u32, 0 for the front end
//!
//! psk                           BLAKE2s(key: secret, "libi psk" prologue), 32 bytes
//! key id                        BLAKE2s(key: secret, "libi id " prologue), first 16 of 32 bytes
//! ```
//!
//! Inside the records, or unencrypted after the proof on an authenticated link, the frame stream of
//! the channel continues behind the channel's goodbye; see [`wire`](crate::wire). Records and
//! frames are independent of each other: a record may hold many frames, or a part of one.
//!
//! # Security properties
//!
//! - **Authentication.** No tag can be made without the psk, hence not without the secret and the
//!   same terms: a ticket for another session, host, attempt, parent, mode or version fails at the
//!   first message. The reply covers the child's fresh key, so it was made for this connection:
//!   after it the child may trust the parent. The opening covers nothing fresh from the parent;
//!   only the proof does, so before it the parent trusts no peer. All members of a session hold its
//!   secret: links keep strangers out, they do not protect members from one another.
//! - **Replay.** A replayed opening is genuine and is answered, but the reply cannot be read
//!   without the child's private key, so no proof follows. The cost is two multiplications on the
//!   curve and one connection slot until its timeout. A ticket is therefore invalidated by the
//!   proof, never by an opening; otherwise a peer that replays an opening could lock the child out.
//!   Several connections may be in progress for one ticket, as when a child tries all addresses of
//!   its parent; the first proof wins.
//! - **Key id.** The key id names the ticket in the clear, since one listener serves many tickets,
//!   and trying all of them would let a stranger choose the amount of computation. It is the output
//!   of a keyed hash: it reveals nothing about session, host or attempt, and the ids of two tickets
//!   have no visible relation. An observer sees an id twice only if the child tries twice with one
//!   ticket. It is no secret; a peer that replays it still lacks the psk.
//! - **No oracle.** Whatever is wrong with an opening, the connection closes without a byte.
//!   [`Opening::answer`] does the same work for an unknown id as for a known one with a wrong tag:
//!   a few short hashes and one empty decryption, no multiplication. Errors differ only in this
//!   side's reports.
//! - **Memory.** A stranger occupies one [`AwaitOpening`], less than 100 bytes, and a peer that
//!   replays an opening one [`AwaitProof`], less than 200. The caller limits the number and the
//!   duration of connections.
//! - **Forward secrecy.** The record keys also depend on both ephemeral keys: a later disclosure of
//!   the secret does not reveal recorded traffic.
//! - **Ciphers.** Offer and choice are sealed with the psk and enter the handshake's hash, so only
//!   a holder of the secret could have a link use another cipher than the best of both ends.
//! - **Records** are numbered on both sides, and the number enters the tag: a record that is
//!   changed, left out, repeated or moved does not authenticate, and the direction fails
//!   permanently. A cut between records looks like an end of the stream at this layer; the goodbye
//!   frame inside tells an orderly end. Lengths and times of records are visible.
//! - **No rekeying.** One key serves for as many records as there are nonces, 2^64 - 1; then
//!   sealing fails with [`RecordFault::Exhausted`]. A forger has one try per link.
//! - **Wiping.** [`Secret`], [`LinkKey`], [`Entropy`], [`Sealer`] and [`Opener`] overwrite
//!   themselves when dropped. Where a secret is read and where keys are derived from it, the stack
//!   is overwritten. Elsewhere the cryptographic crates do not clear it behind them, and `snow`
//!   leaves in freed memory what it needed for one handshake: the psk, the private key, and the keys
//!   derived from them. Hence a psk for each link: `snow` never gets the session's secret itself.
//!
//! # Both ends at once
//!
//! ```
//! use libi_core::ids::{HostIndex, SessionId};
//! use libi_core::secure::*;
//! use libi_core::wire::Version;
//!
//! # let random = |byte| Entropy::new(&mut [byte; 32]);
//! let secret = Secret::new(random(1)); // from the operating system, as every `random` here
//! let (version, session, host) = (Version(1), SessionId(1), HostIndex(17));
//! let (parent, mode) = (Parent::FrontEnd, LinkSecurity::Encrypted);
//! let terms = Terms { version, session, host, attempt: 1, parent, mode };
//! let key = LinkKey::derive(&secret, &terms); // on both sides
//!
//! let offer = CipherOffer::PORTABLE; // more, on a processor with instructions for AES
//! let (child, opening) = AwaitReply::begin(&key, offer, random(2));
//! let claim = AwaitOpening::new().step(&mut &opening[..]);
//! let HandshakeStep::Done(claim) = claim else { unreachable!() };
//! let found = (claim.key_id() == key.id()).then_some(&key);
//! let (parent, reply) = claim.answer(found, offer, random(3))?;
//! let HandshakeStep::Done((child, proof)) = child.step(&mut &reply[..])? else { unreachable!() };
//! let HandshakeStep::Done(parent) = parent.step(&mut &proof[..])? else { unreachable!() };
//!
//! use SecuredLink::Encrypted;
//! if let (Encrypted { mut seal, .. }, Encrypted { mut open, .. }) = (child, parent) {
//!     let mut wire = Vec::new();
//!     seal.seal(&[b"header", b" and payload"], &mut wire)?;
//!     let mut input = &mut wire[..];
//!     assert_eq!(open.step(&mut input)?, Some(&b"header and payload"[..]));
//!     assert_eq!(open.step(&mut input)?, None);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cipher;
pub mod digest;
mod fault;
mod handshake;
mod noise;
mod record;
mod secret;
mod terms;

#[cfg(test)]
mod tests;

pub use cipher::{CipherOffer, RecordCipher};
pub use fault::{HandshakeFault, HandshakeMessage, RecordFault};
pub use handshake::{
    AwaitOpening, AwaitProof, AwaitReply, HandshakeStep, OPENING_LEN, Opening, PROOF_LEN, REPLY_LEN,
    SecuredLink,
};
pub use record::{MAX_CIPHERTEXT, MAX_PLAINTEXT, Opener, Sealer};
pub use secret::{Entropy, Secret, in_ticket};
pub use terms::{KeyId, LinkKey, LinkSecurity, Parent, Terms};
