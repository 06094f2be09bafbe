//! Decides what the bytes on a link are.
//!
//! A link is a byte stream in each direction: the pipes of a remote shell, a socketpair, a TCP
//! connection. Nothing here reads or writes one. Bytes come in as slices and go out as arrays, vectors
//! and slices of what came in; whoever owns the socket owns the buffer. An encrypted link carries the
//! same bytes inside its records.
//!
//! # The protocol
//!
//! Each side opens with one [`Preamble`] and then sends frames until its [`Kind::Goodbye`]. A stream that
//! ends without one was cut. All numbers are little-endian; postcard's own rules hold inside messages.
//!
//! ```text
//! preamble, 16 bytes            in front of it: any text, which is nobody's protocol
//!  0..8    magic                FF 'l' 'i' 'b' 'i' 00 0D 0A
//!  8..10   oldest version       u16
//! 10..12   newest version       u16, not below the oldest
//! 12..16   check                bytes 8..12, every bit inverted
//!
//! frame, 8 bytes and the payload
//!  0..4    length of payload    u32
//!  4       kind                 u8, see below
//!  5       flags                u8, bit 0: MORE; all others 0
//!  6..8    channel              u16
//!  8..     payload
//!
//! kind          payload      limit     MORE  channel
//! 0             (never used: a run of zeros is not a stream of frames)
//! 1 ticket      message      control   no    0       parent to child, its first frame
//! 2 hello       message      control   no    0       child to parent, its first frame
//! 3 control     message      control   no    any     everything said between libi's own machines
//! 4 stdio       raw bytes    payload   no    any     what went into or came out of a standard stream
//! 5 data        raw bytes    payload   yes   any     what the communication halves say; or a chunk of it
//! 6 heartbeat   none         0         no    0       the sender is alive
//! 7 goodbye     none         0         no    0       the sender's last frame
//! ```
//!
//! - The **magic** cannot occur in text: `FF` is in no UTF-8, `00` in no text at all. The `0D 0A` is there to
//!   be damaged: a terminal between the two ends, which would corrupt frames now and then, spoils the
//!   preamble always. The preamble keeps its form in every version, or versions could not be compared.
//! - The **version** in force is the newest in both preambles' ranges ([`VersionRange::agree`]); both sides
//!   compute it alike, so it is not sent. Kinds and flag bits are never reused. Any change of bytes
//!   needs a new version; golden files in the tests notice one.
//! - A **channel** says to which conversation on this link a frame belongs; what its number stands for is
//!   agreed in control messages. Channel 0 is the link itself. Data on channel 1 are what the communication half of
//!   one process says to that of the other, each frame a message of its own, without MORE; nobody else sends data.
//! - **Order** is kept on a link. A data message longer than one frame travels in chunks, MORE on all but
//!   the last, and may be of any length: no field holds the total. On its channel no other data comes
//!   between them; any frame of another channel or kind may. So a sender holds a control message back
//!   for the rest of one chunk at most, never for a whole payload.
//! - **Limits** are checked when the eight header bytes are in, before a byte is set aside for the payload.
//!   They depend on what the peer has proven, see [`Limits`]; the ones for proven peers are part of the
//!   version.
//! - A wrong header is the end of a link: there is no telling where the next one would start.
//!
//! # Which part to use
//!
//! [`PreambleScanner`] finds the start. Then either [`parse`], for whoever keeps whole frames in one
//! buffer, or [`Decoder`], which hands out a payload as it arrives; both give the same frames. Messages
//! go through [`encode_control`] and [`decode_control`]. Raw bytes go through nothing: write
//! [`Header::encode`] and the bytes, as one gathered write, to as many links as are to have them.

mod control;
mod decoder;
mod frame;
mod header;
mod kind;
mod preamble;
mod version;

#[cfg(test)]
mod tests;

pub use control::{DecodeError, EncodeError, decode_control, encode_control};
pub use decoder::{Decoder, FramePart};
pub use frame::{Frame, Parsed, parse};
pub use header::{FrameError, Header, Limits};
pub use kind::{Content, Flags, Kind};
pub use preamble::{HeldBytes, Preamble, PreambleScanner, ProtocolStart, Scan};
pub use version::{PROTOCOL, Version, VersionMismatch, VersionRange};
