//! The wire format: the bytes on a link.
//!
//! A link is a byte stream in each direction: the pipes of a remote shell, a socketpair, a TCP
//! connection. Nothing here reads or writes one. Bytes come in as slices and go out as arrays,
//! vectors and slices of the input; the owner of the socket owns the buffer. An encrypted link
//! carries the same bytes inside its records.
//!
//! # The protocol
//!
//! Each side opens with one [`Preamble`] and then sends frames until its [`Kind::Goodbye`]. A
//! stream that ends without one was cut. All numbers are little-endian; postcard's own rules hold
//! inside messages.
//!
//! ```text
//! preamble, 16 bytes            in front of it: any text, which is not part of the protocol
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
//! 3 control     message      control   no    any     messages between libi's own state machines
//! 4 stdio       raw bytes    payload   no    any     data of a standard stream
//! 5 data        raw bytes    payload   yes   any     data of the communication half, or a chunk
//! 6 heartbeat   none         0         no    0       the sender is alive
//! 7 goodbye     none         0         no    0       the sender's last frame
//! ```
//!
//! - The **magic** cannot occur in text: `FF` is not valid in UTF-8, and text contains no `00`. The
//!   `0D 0A` detects a terminal between the two ends: it would corrupt frames now and then, but it
//!   always corrupts the preamble. The preamble keeps its form in every version, so that versions
//!   can be compared.
//! - The **version** in force is the newest in both preambles' ranges ([`VersionRange::agree`]);
//!   both sides compute it alike, so it is not sent. Kinds and flag bits are never reused. Any
//!   change of bytes needs a new version; the golden files of the tests detect one.
//! - A **channel** separates streams of frames on one link; what its number stands for is agreed in
//!   control messages. Channel 0 is the link itself. Data on channel 1 are messages between the
//!   communication halves of two processes, one message per frame, without MORE; no other part of
//!   libi sends data.
//! - **Order** is kept on a link. A data message longer than one frame travels in chunks, MORE on
//!   all but the last, and may be of any length: no field holds the total. On its channel no other
//!   data comes between them; any frame of another channel or kind may. A control message therefore
//!   waits for the rest of one chunk at most, never for a whole payload.
//! - **Limits** are checked when the eight header bytes are complete, before memory is reserved for
//!   the payload. They depend on whether the peer is authenticated, see [`Limits`]; the limits for
//!   authenticated peers are part of the version.
//! - A wrong header ends the link: the position of the next header is unknown.
//!
//! # Which function to use
//!
//! The owner of a link gives received bytes to a [`LinkInput`], which separates data of the session
//! from all else, and queues output in a [`FrameWriter`], which decides its order.
//!
//! A [`LinkInput`] uses a [`FrameReader`], which returns foreign text, the preamble and whole
//! frames. That is made of parts that can be used alone. [`PreambleScanner`] finds the start; then
//! use either [`parse`], if whole frames are kept in one buffer, or [`Decoder`], which returns a
//! payload as it arrives; both find the same frames.
//!
//! Messages go through [`encode_control`] and [`decode_control`]. Raw bytes need no encoding: write
//! [`Header::encode`] and the bytes, as one gathered write, to any number of links, or copy short
//! ones into a frame with [`encode_bytes`].

mod control;
mod decoder;
mod frame;
mod header;
mod kind;
mod link_input;
mod preamble;
mod reader;
mod version;
mod writer;

#[cfg(test)]
mod tests;

pub use control::{DecodeError, EncodeError, decode_control, encode_control};
pub use decoder::{Decoder, FramePart};
pub use frame::{Frame, Parsed, encode_bytes, parse};
pub use header::{FrameError, Header, Limits};
pub use kind::{Content, Flags, Kind};
pub use link_input::{Arrival, LinkInput};
pub use preamble::{HeldBytes, Preamble, PreambleScanner, ProtocolStart, Scan};
pub use reader::{FrameReader, LinkItem, ReadError};
pub use version::{PROTOCOL, Version, VersionMismatch, VersionRange};
pub use writer::FrameWriter;
