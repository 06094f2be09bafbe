//! The streams of a command: pipes that another process has made. A file that is none counts as ended.
//!
//! They are switched to non-blocking, as `ssh` does, which other processes see as well; they are
//! switched back when they are dropped.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytes::Bytes;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::net::unix::pipe::{Receiver, Sender};

/// What was set before on a file that is now non-blocking.
struct Before(Option<OFlag>);

impl Before {
    fn of(file: &OwnedFd) -> Before {
        Before(fcntl(file, FcntlArg::F_GETFL).ok().map(OFlag::from_bits_retain))
    }

    fn do_not_block(&self, file: BorrowedFd<'_>) -> io::Result<()> {
        let flags = self.0.unwrap_or(OFlag::empty()) | OFlag::O_NONBLOCK;
        fcntl(file, FcntlArg::F_SETFL(flags))?;
        Ok(())
    }

    fn restore(&self, file: BorrowedFd<'_>) {
        if let Some(flags) = self.0 {
            let _ = fcntl(file, FcntlArg::F_SETFL(flags));
        }
    }
}

/// Standard input.
pub(super) struct Input {
    pipe: Option<Receiver>,
    before: Before,
}

const CHUNK: usize = 32 * 1024;

impl Input {
    pub(super) fn new(file: OwnedFd) -> Input {
        let before = Before::of(&file);
        Input { pipe: Receiver::from_owned_fd(file).ok(), before }
    }

    /// Returns nothing at the end of the stream. An error ends it, too.
    pub(super) async fn read(&self) -> Bytes {
        loop {
            match self.read_once().await {
                Ok(chunk) => return chunk,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return Bytes::new(),
            }
        }
    }

    async fn read_once(&self) -> io::Result<Bytes> {
        let Some(pipe) = &self.pipe else {
            return Ok(Bytes::new());
        };
        pipe.readable().await?;
        // Only now: a thousand connections wait for input.
        let mut chunk = vec![0; CHUNK];
        let length = pipe.try_read(&mut chunk)?;
        chunk.truncate(length);
        chunk.shrink_to_fit();
        Ok(chunk.into())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        if let Some(pipe) = &self.pipe {
            self.before.restore(pipe.as_fd());
        }
    }
}

/// Standard output or standard error.
pub(super) struct Output {
    pipe: Option<Sender>,
    before: Before,
}

impl Output {
    pub(super) fn new(file: OwnedFd) -> Output {
        let before = Before::of(&file);
        Output { pipe: Sender::from_owned_fd(file).ok(), before }
    }

    /// Closes it: the reader finds the end of the stream.
    pub(super) fn close(&mut self) {
        if let Some(pipe) = self.pipe.take() {
            self.before.restore(pipe.as_fd());
        }
    }

    /// To be called after another stream was closed, which may be the same file.
    pub(super) fn do_not_block(&self) {
        if let Some(pipe) = &self.pipe {
            let _ = self.before.do_not_block(pipe.as_fd());
        }
    }

    /// Waits until something of the waiting chunks is written; returns how much. If the reader is
    /// gone, all is dropped, as `ssh` does.
    pub(super) async fn write(&mut self, waiting: &mut VecDeque<Bytes>) -> usize {
        while let Some(first) = waiting.front_mut() {
            match self.write_once(first).await {
                Ok(length) => {
                    let _ = first.split_to(length);
                    if first.is_empty() {
                        waiting.pop_front();
                    }
                    return length;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => {
                    self.close();
                    return waiting.drain(..).map(|chunk| chunk.len()).sum();
                }
            }
        }
        0
    }

    async fn write_once(&self, bytes: &[u8]) -> io::Result<usize> {
        let pipe = self.pipe.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        pipe.writable().await?;
        pipe.try_write(bytes)
    }

    pub(super) async fn write_all(&mut self, text: &[u8]) {
        let mut waiting = VecDeque::new();
        if !text.is_empty() {
            waiting.push_back(Bytes::copy_from_slice(text));
        }
        while !waiting.is_empty() {
            self.write(&mut waiting).await;
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.close();
    }
}
