//! A direct connection after the proof: bytes in, sealed bytes out, and the other way round.

use std::io;
use std::os::fd::AsFd;

use libi_core::link::{Open, Seal, Secured};

use super::stream::Stream;
use super::sys::unacknowledged;

/// How much room for what is to be written is kept when nothing is.
const SPARE: usize = 64 << 10;

/// A proven connection.
pub(super) struct Sealed {
    pub(super) stream: Stream,
    secured: Secured,
    out: Vec<u8>,
    written: usize,
    /// What came right behind the handshake.
    early: Vec<u8>,
}

impl Sealed {
    pub(super) fn new(stream: Stream, secured: Secured, early: Vec<u8>) -> Self {
        Self { stream, secured, out: Vec::new(), written: 0, early }
    }

    /// Takes bytes to be sent.
    pub(super) fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.compact();
        match &mut self.secured {
            Secured::Authenticated => self.out.extend_from_slice(bytes),
            Secured::Encrypted { seal, .. } => seal_into(seal, bytes, &mut self.out)?,
        }
        Ok(())
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.written < self.out.len()
    }

    /// Writes what can be written now. True if that was everything.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.out.shrink_to(SPARE);
        self.written = 0;
        Ok(true)
    }

    /// Forgets what is written, of what is not written altogether.
    fn compact(&mut self) {
        if self.written > SPARE && self.written > self.out.len() / 2 {
            self.out.drain(..self.written);
            self.written = 0;
        }
    }

    /// Whether everything that was written has arrived at the other host, as far as the system knows. What has not is
    /// lost if this process ends with something unread.
    pub(super) fn has_arrived(&self) -> bool {
        !self.has_unsent() && unacknowledged(self.stream.as_fd()) == 0
    }

    /// Whether the peer has ended the connection, and had sent nothing: to be asked as long as nothing is read.
    pub(super) fn has_ended(&self) -> bool {
        self.early.is_empty() && self.stream.has_ended()
    }

    /// Reads what there is into `bytes`, through `buffer`: true if there may be more, false if one has to wait for it.
    ///
    /// # Errors
    /// The connection has ended, or what came over it is not the peer's.
    pub(super) fn read(&mut self, buffer: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<bool> {
        if !self.early.is_empty() {
            let mut early = std::mem::take(&mut self.early);
            open_into(&mut self.secured, &mut early, bytes)?;
            return Ok(true);
        }
        match self.stream.read(buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                open_into(&mut self.secured, &mut buffer[..count], bytes)?;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn seal_into(seal: &mut Seal, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    seal.seal(&[bytes], out).map_err(io::Error::other)
}

fn open_into(secured: &mut Secured, input: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<()> {
    match secured {
        Secured::Authenticated => bytes.extend_from_slice(input),
        Secured::Encrypted { open, .. } => open_records(open, input, bytes)?,
    }
    Ok(())
}

fn open_records(open: &mut Open, mut input: &mut [u8], bytes: &mut Vec<u8>) -> io::Result<()> {
    while let Some(piece) = open.step(&mut input).map_err(io::Error::other)? {
        bytes.extend_from_slice(piece);
    }
    Ok(())
}
