//! Decides how the two ends of a direct link prove themselves, and how its bytes are kept from others.
//!
//! A direct link is a TCP connection that a child makes to its parent. Anybody else can connect to the same
//! address, and read or change what passes. The ticket that the child got through a protected channel tells
//! both what a stranger does not know: the session's [`Secret`], and the [`Terms`] of this one link. From them
//! comes a [`LinkKey`]; a Noise handshake proves to each side that the other has it. Bytes and
//! randomness are handed in, bytes come out: nothing here reads a clock, a socket or a random device.
//!
//! # The bytes
//!
//! The child, who connects, is the initiator of `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`. It speaks first.
//! Every message of the handshake has one possible length.
//!
//! ```text
//! opening, 64 bytes             child to parent
//!  0..16   link id              which ticket this is about, see below
//! 16..64   Noise message 1      psk, e: a public key (32) and the tag of no payload (16)
//!
//! reply, 48 bytes               parent to child
//!  0..48   Noise message 2      e, ee: a public key (32) and the tag of no payload (16)
//!
//! proof, 16 bytes               child to parent, followed at once by what the child has to say
//!  0..16   tag of no payload    the child's first transport message, nonce 0
//!
//! record, 2 bytes and the box   both ways, after the proof, on an encrypted link
//!  0..2    length of the box    u16 little-endian, 17 to 16400
//!  2..     box                  a Noise transport message: 1 to 16384 bytes and their tag (16)
//!
//! prologue, 28 bytes            not sent: both sides make it from their ticket
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
//! link id                       BLAKE2s(key: secret, "libi id " prologue), the first 16 of 32 bytes
//! ```
//!
//! Inside the records, or bare after the proof on an authenticated link, goes on what went over the channel before: frames, from
//! behind the channel's goodbye; see [`wire`](crate::wire). Records and frames know nothing of each other: a record may hold
//! many frames, or a part of one.
//!
//! # Why it is enough
//!
//! - **Who proves what.** No tag can be made without the psk, hence not without the secret and the same terms:
//!   a ticket for another session, host, attempt, parent, mode or version fails at the first message.
//!   The reply covers the child's fresh key, so it was made for this connection: after it the child may
//!   trust the parent. The opening covers nothing fresh of the parent's; only the proof does, so before it
//!   the parent trusts nobody. All members of a session hold its secret: links keep strangers out, not
//!   members from one another.
//! - **A replayed opening** is answered, for it is genuine, and that is all: the reply cannot be read without
//!   the child's private key, so no proof follows. It has cost us two multiplications on the curve and the
//!   place of one connection until its time is up. A ticket is therefore spent by the proof, never by an
//!   opening: else who can repeat one could lock the child out. Several connections may be under way for one
//!   ticket, as when a child tries all addresses of its parent; the first proof wins.
//! - **Which ticket** a connection is about says the link id, in the clear, since one listener serves many
//!   tickets and trying them all would let a stranger choose how much we compute. The id is the output of a keyed
//!   hash: it tells nothing about session, host or attempt, and the ids of two tickets have no visible
//!   relation. Who sees one sees it twice only if the child tries twice with one ticket. It is no
//!   secret; who repeats it still lacks the psk.
//! - **No oracle.** Whatever is wrong with an opening, the peer sees the connection close and not a byte.
//!   [`Opening::answer`] computes the same for an id nobody knows as for a known one with a wrong tag: a few
//!   short hashes and one empty decryption, no multiplication. Faults differ only for our own report.
//! - **Memory.** A stranger occupies one [`AwaitOpening`], less than 100 bytes, and whoever replays an
//!   opening one [`AwaitProof`], less than 200. How many connections, and for how long, the caller limits.
//! - **Later disclosure.** The records' keys come from both fresh keys as well: who gets the secret afterwards
//!   cannot read what was recorded.
//! - **Records** are numbered on both sides, and the number goes into the tag: one that is changed, left out,
//!   repeated or moved does not open, and the direction is dead from then on. A cut between records
//!   looks like an end here; that a stream has ended as it should says the goodbye frame inside. Lengths
//!   and times of records are visible.
//! - **No rekeying.** ChaCha20-Poly1305 bears as many records as there are nonces, 2^64 - 1, and then
//!   refuses ([`RecordFault::Exhausted`]); a forger has one try per link.
//! - **Wiping.** [`Secret`], [`LinkKey`], [`Entropy`], [`Sealer`] and [`Opener`] overwrite themselves when dropped. The
//!   cryptographic crates do not clear the stack behind them, and `snow` leaves in freed memory what it needed for
//!   one handshake: the psk, the private key, the keys that came of them. Hence a psk for each link:
//!   the session's secret itself is never in `snow`'s hands.
//!
//! # Both ends at once
//!
//! ```
//! use libi_core::ids::{HostIndex, SessionId};
//! use libi_core::link::*;
//! use libi_core::wire::Version;
//!
//! # let random = |byte| Fresh::new(&mut [byte; 32]);
//! let secret = Secret::new(random(1)); // from the operating system, as every `random` here
//! let (version, session, host) = (Version(1), SessionId(1), HostIndex(17));
//! let terms = Terms { version, session, host, attempt: 1, parent: Parent::FrontEnd, mode: Mode::Encrypted };
//! let key = LinkKey::derive(&secret, &terms); // on both sides
//!
//! let (child, opening) = AwaitReply::begin(&key, random(2));
//! let Step::Done(claim) = AwaitOpening::new().step(&mut &opening[..]) else { unreachable!() };
//! let found = (claim.key_id() == key.id()).then_some(&key);
//! let (parent, reply) = claim.answer(found, random(3))?;
//! let Step::Done((child, proof)) = child.step(&mut &reply[..])? else { unreachable!() };
//! let Step::Done(parent) = parent.step(&mut &proof[..])? else { unreachable!() };
//!
//! if let (Secured::Encrypted { mut seal, .. }, Secured::Encrypted { mut open, .. }) = (child, parent) {
//!     let mut wire = Vec::new();
//!     seal.seal(&[b"header", b" and payload"], &mut wire)?;
//!     let mut input = &mut wire[..];
//!     assert_eq!(open.step(&mut input)?, Some(&b"header and payload"[..]));
//!     assert_eq!(open.step(&mut input)?, None);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fault;
mod handshake;
mod noise;
mod record;
mod secret;
mod terms;

#[cfg(test)]
mod tests;

pub use fault::{HandshakeFault, HandshakeMessage, RecordFault};
pub use handshake::{
    AwaitOpening, AwaitProof, AwaitReply, HandshakeStep, OPENING_LEN, Opening, PROOF_LEN, REPLY_LEN,
    SecuredLink,
};
pub use record::{MAX_CIPHERTEXT, MAX_PLAINTEXT, Opener, Sealer};
pub use secret::{Entropy, Secret, in_ticket};
pub use terms::{KeyId, LinkKey, LinkSecurity, Parent, Terms};
