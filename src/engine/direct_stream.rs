//! A direct connection after authentication: encrypts what is sent and decrypts what is received,
//! as negotiated.

use std::io;
use std::os::fd::AsFd;

use libi_core::secure::{MAX_CIPHERTEXT, MAX_PLAINTEXT, Opener, SecuredLink};

use super::link_io::WRITE_LIMIT;
use super::send_queue::{self, Flushed, SendQueue};
use super::stream::Stream;
use super::sys::unacknowledged;

/// How many records are encrypted at a time: room for a frame with 64 KiB. Messages cannot overtake
/// encrypted bytes any more.
const RECORDS: usize = 5;
/// How much is read at a time: as many records, with their lengths.
pub(super) const READ_BUFFER: usize = RECORDS * (2 + MAX_CIPHERTEXT);
/// The capacity of the buffer for encrypted bytes that is kept while it is empty.
const KEPT_CAPACITY: usize = 4 << 10;

/// See the [module](self).
pub(crate) struct DirectStream {
    pub(super) stream: Stream,
    secured: SecuredLink,
    /// What waits to be written.
    pub(super) send_queue: SendQueue,
    /// Encrypted bytes, and how many of them are written.
    out: Vec<u8>,
    written: usize,
    /// Bytes that arrived right behind the handshake.
    early: Vec<u8>,
    /// Bytes that were received and decrypted already.
    ahead: Vec<u8>,
}

impl DirectStream {
    pub(super) fn new(stream: Stream, secured: SecuredLink, early: Vec<u8>) -> Self {
        Self {
            stream,
            secured,
            send_queue: SendQueue::default(),
            out: Vec::new(),
            written: 0,
            early,
            ahead: Vec::new(),
        }
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.written < self.out.len() || !self.send_queue.is_empty()
    }

    /// Whether frames of the communication half wait. Encrypted bytes may contain some.
    pub(super) fn has_frames(&self) -> bool {
        self.written < self.out.len() || self.send_queue.has_frames()
    }

    /// Writes queued output as far as the socket takes it.
    pub(super) fn flush(&mut self) -> Flushed {
        let SecuredLink::Encrypted { seal, .. } = &mut self.secured else {
            return send_queue::flush(&mut self.send_queue, &self.stream, WRITE_LIMIT);
        };
        let mut capacity = WRITE_LIMIT;
        loop {
            while self.written < self.out.len() {
                match self.stream.write(&self.out[self.written..]) {
                    Ok(count) => self.written += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Waits,
                    Err(_) => return Flushed::Broken,
                }
            }
            self.out.clear();
            self.written = 0;
            if self.send_queue.is_empty() {
                self.out.shrink_to(KEPT_CAPACITY);
                return Flushed::Everything;
            }
            if capacity == 0 {
                return Flushed::Partly;
            }
            let next = self.send_queue.next((RECORDS * MAX_PLAINTEXT).min(capacity));
            let length = next.iter().map(|piece| piece.len()).sum();
            // The cipher has reached its limit: nothing more can be sent.
            if seal.seal(&next, &mut self.out).is_err() {
                return Flushed::Broken;
            }
            self.send_queue.advance(length);
            capacity -= length;
        }
    }

    /// Whether the stream is plain text, so that it can be read directly into its destination.
    pub(super) fn is_plaintext(&self) -> bool {
        matches!(self.secured, SecuredLink::Authenticated) && self.early.is_empty() && self.ahead.is_empty()
    }

    /// Whether everything written has been acknowledged by the other host. Unacknowledged bytes are
    /// lost if this process ends with unread input.
    pub(super) fn is_acknowledged(&self) -> bool {
        !self.has_unsent() && unacknowledged(self.stream.as_fd()) == 0
    }

    /// Whether the peer has closed the connection without sending anything. Valid only while
    /// nothing is read.
    pub(super) fn has_ended(&self) -> bool {
        self.early.is_empty() && self.stream.has_ended()
    }

    /// Puts bytes back that were read already: the next read returns them.
    pub(super) fn put_back(&mut self, bytes: Vec<u8>) {
        self.ahead = bytes;
    }

    /// Reads through `buffer`: the first bytes to the end of the frame that lacks them, the others
    /// into `bytes`. True if there may be more, false if the caller has to wait. With `to_the_end`
    /// a short read does not count as the last: an end may follow that is not reported.
    ///
    /// # Errors
    /// The connection has ended, or a record is not authentic.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        frame: Option<(&mut Vec<u8>, usize)>,
        bytes: &mut Vec<u8>,
        to_the_end: bool,
    ) -> io::Result<bool> {
        let mut destination = Destination { frame, bytes };
        if !self.ahead.is_empty() {
            destination.add(&std::mem::take(&mut self.ahead));
            return Ok(true);
        }
        if !self.early.is_empty() {
            let mut early = std::mem::take(&mut self.early);
            open_into(&mut self.secured, &mut early, &mut destination)?;
            return Ok(true);
        }
        match self.stream.read(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                open_into(&mut self.secured, &mut buffer[..count], &mut destination)?;
                Ok(to_the_end || count == buffer.len())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Where received bytes go.
struct Destination<'a> {
    /// The payload of a frame, and how many bytes it lacks.
    frame: Option<(&'a mut Vec<u8>, usize)>,
    /// What is behind that frame.
    bytes: &'a mut Vec<u8>,
}

impl Destination<'_> {
    fn add(&mut self, mut piece: &[u8]) {
        if let Some((payload, missing)) = &mut self.frame {
            let front = piece.split_off(..piece.len().min(*missing)).unwrap_or_default();
            payload.extend_from_slice(front);
            *missing -= front.len();
        }
        self.bytes.extend_from_slice(piece);
    }
}

fn open_into(secured: &mut SecuredLink, input: &mut [u8], destination: &mut Destination) -> io::Result<()> {
    match secured {
        SecuredLink::Authenticated => destination.add(input),
        SecuredLink::Encrypted { open, .. } => open_records(open, input, destination)?,
    }
    Ok(())
}

fn open_records(open: &mut Opener, mut input: &mut [u8], destination: &mut Destination) -> io::Result<()> {
    while let Some(piece) = open.step(&mut input).map_err(io::Error::other)? {
        destination.add(piece);
    }
    Ok(())
}
