//! A direct connection after authentication: encrypts what is sent and decrypts what is received,
//! as negotiated.

use std::io;
use std::os::fd::AsFd;

use libi_core::secure::{Opener, SecuredLink};

use super::link_io::WRITE_LIMIT;
use super::send_queue::{self, Flushed, SendQueue};
use super::stream::Stream;
use super::sys::unacknowledged;

/// How much is encrypted at a time. Messages cannot overtake encrypted bytes any more.
const MAX_RECORD: usize = 64 << 10;
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
            let next = self.send_queue.next(MAX_RECORD.min(capacity));
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

    /// Reads into `bytes`, through `buffer`. True if there may be more, false if the caller has to
    /// wait. With `to_the_end` a short read does not count as the last: an end may follow that is
    /// not reported.
    ///
    /// # Errors
    /// The connection has ended, or a record is not authentic.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        bytes: &mut Vec<u8>,
        to_the_end: bool,
    ) -> io::Result<bool> {
        if !self.ahead.is_empty() {
            bytes.append(&mut self.ahead);
            return Ok(true);
        }
        if !self.early.is_empty() {
            let mut early = std::mem::take(&mut self.early);
            open_into(&mut self.secured, &mut early, bytes)?;
            return Ok(true);
        }
        match self.stream.read(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                open_into(&mut self.secured, &mut buffer[..count], bytes)?;
                Ok(to_the_end || count == buffer.len())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn open_into(secured: &mut SecuredLink, input: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<()> {
    match secured {
        SecuredLink::Authenticated => bytes.extend_from_slice(input),
        SecuredLink::Encrypted { open, .. } => open_records(open, input, bytes)?,
    }
    Ok(())
}

fn open_records(open: &mut Opener, mut input: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<()> {
    while let Some(piece) = open.step(&mut input).map_err(io::Error::other)? {
        bytes.extend_from_slice(piece);
    }
    Ok(())
}
