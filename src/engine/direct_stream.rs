//! A direct connection after the proof: bytes in, sealed bytes out, and the other way round.

use std::io;
use std::os::fd::AsFd;

use libi_core::secure::{Opener, SecuredLink};

use super::link_io::WRITE_LIMIT;
use super::send_queue::{Flushed, SendQueue};
use super::stream::Stream;
use super::sys::unacknowledged;

/// How much is sealed at a time. What is sealed cannot be overtaken any more.
const MAX_RECORD: usize = 64 << 10;
/// How much room for what is sealed is kept when nothing is.
const KEPT_CAPACITY: usize = 4 << 10;

/// A proven connection.
pub(super) struct DirectStream {
    pub(super) stream: Stream,
    secured: SecuredLink,
    /// What waits to be written.
    pub(super) send_queue: SendQueue,
    /// What is sealed, and how much of it is written.
    out: Vec<u8>,
    written: usize,
    /// What came right behind the handshake.
    early: Vec<u8>,
}

impl DirectStream {
    pub(super) fn new(stream: Stream, secured: SecuredLink, early: Vec<u8>) -> Self {
        Self { stream, secured, send_queue: SendQueue::default(), out: Vec::new(), written: 0, early }
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.written < self.out.len() || !self.send_queue.is_empty()
    }

    /// Whether frames of the communication half wait. What is sealed may be some.
    pub(super) fn has_frames(&self) -> bool {
        self.written < self.out.len() || self.send_queue.has_frames()
    }

    /// Writes what can be written now.
    pub(super) fn flush(&mut self) -> Flushed {
        let SecuredLink::Encrypted { seal, .. } = &mut self.secured else {
            return self.send_queue.flush(&self.stream, WRITE_LIMIT);
        };
        let mut room = WRITE_LIMIT;
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
            if room == 0 {
                return Flushed::Partly;
            }
            let next = self.send_queue.next(MAX_RECORD.min(room));
            let length = next.iter().map(|piece| piece.len()).sum();
            // What cannot be sealed any more cannot be sent.
            if seal.seal(&next, &mut self.out).is_err() {
                return Flushed::Broken;
            }
            self.send_queue.advance(length);
            room -= length;
        }
    }

    /// Whether what it carries comes as it is, so that it can be read to wherever it belongs.
    pub(super) fn is_plaintext(&self) -> bool {
        matches!(self.secured, SecuredLink::Authenticated) && self.early.is_empty()
    }

    /// Whether everything that was written has arrived at the other host, as far as the system knows. What has not is
    /// lost if this process ends with something unread.
    pub(super) fn is_acknowledged(&self) -> bool {
        !self.has_unsent() && unacknowledged(self.stream.as_fd()) == 0
    }

    /// Whether the peer has ended the connection, and had sent nothing: to be asked as long as nothing is read.
    pub(super) fn has_ended(&self) -> bool {
        self.early.is_empty() && self.stream.has_ended()
    }

    /// Reads what there is into `bytes`, through `buffer`: true if there may be more, false if one has to wait for it. An
    /// end may be there `to_the_end` of which nobody says more.
    ///
    /// # Errors
    /// The connection has ended, or what came over it is not the peer's.
    pub(super) fn read(
        &mut self,
        buffer: &mut [u8],
        bytes: &mut Vec<u8>,
        to_the_end: bool,
    ) -> io::Result<bool> {
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
