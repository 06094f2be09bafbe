//! The streams of a command: file descriptors of another process, pipes or sockets as a rule.
//!
//! They are switched to non-blocking, as `ssh` does, which other processes see as well; they are
//! switched back when they are dropped. Other files (`/dev/null`) are used as they are.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream as Socket;

use bytes::Bytes;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{SFlag, fstat};
use nix::unistd;
use tokio::net::UnixStream;
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

fn is(file: &OwnedFd, kind: SFlag) -> bool {
    fstat(file).is_ok_and(|found| SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT == kind)
}

fn polled_socket(file: OwnedFd, before: &Before) -> io::Result<UnixStream> {
    before.do_not_block(file.as_fd())?;
    UnixStream::from_std(Socket::from(file))
}

/// Standard input.
pub(super) struct Input {
    file: Option<Source>,
    before: Before,
}

enum Source {
    Pipe(Receiver),
    Socket(UnixStream),
    Other(OwnedFd),
}

const CHUNK: usize = 32 * 1024;

impl Input {
    /// A file that cannot be used counts as ended.
    pub(super) fn new(file: OwnedFd) -> Input {
        let before = Before::of(&file);
        let file = if is(&file, SFlag::S_IFIFO) {
            Receiver::from_owned_fd(file).ok().map(Source::Pipe)
        } else if is(&file, SFlag::S_IFSOCK) {
            polled_socket(file, &before).ok().map(Source::Socket)
        } else {
            Some(Source::Other(file))
        };
        Input { file, before }
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
        let Some(file) = &self.file else {
            return Ok(Bytes::new());
        };
        match file {
            Source::Pipe(pipe) => pipe.readable().await?,
            Source::Socket(socket) => socket.readable().await?,
            Source::Other(_) => {}
        }
        // Only now: a thousand connections wait for input.
        let mut chunk = vec![0; CHUNK];
        let length = match file {
            Source::Pipe(pipe) => pipe.try_read(&mut chunk)?,
            Source::Socket(socket) => socket.try_read(&mut chunk)?,
            Source::Other(file) => unistd::read(file, &mut chunk)?,
        };
        chunk.truncate(length);
        chunk.shrink_to_fit();
        Ok(chunk.into())
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        match &self.file {
            Some(Source::Pipe(pipe)) => self.before.restore(pipe.as_fd()),
            Some(Source::Socket(socket)) => self.before.restore(socket.as_fd()),
            Some(Source::Other(_)) | None => {}
        }
    }
}

/// Standard output or standard error.
pub(super) struct Output {
    file: Option<Sink>,
    before: Before,
}

enum Sink {
    Pipe(Sender),
    Socket(UnixStream),
    Other(OwnedFd),
}

impl Output {
    /// What is written to a file that cannot be used is dropped.
    pub(super) fn new(file: OwnedFd) -> Output {
        let before = Before::of(&file);
        let file = if is(&file, SFlag::S_IFIFO) {
            Sender::from_owned_fd(file).ok().map(Sink::Pipe)
        } else if is(&file, SFlag::S_IFSOCK) {
            polled_socket(file, &before).ok().map(Sink::Socket)
        } else {
            Some(Sink::Other(file))
        };
        Output { file, before }
    }

    fn polled(&self) -> Option<BorrowedFd<'_>> {
        match self.file.as_ref()? {
            Sink::Pipe(pipe) => Some(pipe.as_fd()),
            Sink::Socket(socket) => Some(socket.as_fd()),
            Sink::Other(_) => None,
        }
    }

    /// Closes it: the reader finds the end of the stream.
    pub(super) fn close(&mut self) {
        if let Some(file) = self.polled() {
            self.before.restore(file);
        }
        self.file = None;
    }

    /// To be called after another stream was closed, which may be the same file.
    pub(super) fn do_not_block(&self) {
        if let Some(file) = self.polled() {
            let _ = self.before.do_not_block(file);
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
        match self.file.as_ref() {
            Some(Sink::Pipe(pipe)) => {
                pipe.writable().await?;
                pipe.try_write(bytes)
            }
            Some(Sink::Socket(socket)) => {
                socket.writable().await?;
                socket.try_write(bytes)
            }
            Some(Sink::Other(file)) => Ok(unistd::write(file, bytes)?),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
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
