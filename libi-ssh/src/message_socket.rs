//! A socket that keeps the bounds of messages, in the loop of this process.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libi_launch::ssh_client::{LONGEST_MESSAGE, decode, encode};
use nix::sys::socket::{MsgFlags, send};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::unix::AsyncFd;

use crate::sys::{receive, watched};

/// See the [module](self).
pub(crate) struct MessageSocket(AsyncFd<OwnedFd>);

impl MessageSocket {
    /// Watches the socket.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        watched(socket).map(Self)
    }

    /// The next message, with its descriptors; `None` when the other end is closed. What is no
    /// message is an error.
    pub(crate) async fn next<T: DeserializeOwned>(&self) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.0.readable().await?;
            // Made when there is a message: as a rule, none follows on the socket of a start.
            let mut buffer = vec![0; LONGEST_MESSAGE];
            let Ok(received) = ready.try_io(|fd| receive(fd.as_fd(), &mut buffer)) else { continue };
            return match received? {
                (0, _) => Ok(None),
                (length, fds) => match decode(&buffer[..length]) {
                    Some(message) => Ok(Some((message, fds))),
                    None => Err(io::ErrorKind::InvalidData.into()),
                },
            };
        }
    }

    /// The next message, if it is there.
    pub(crate) fn pending<T: DeserializeOwned>(&self) -> Option<(T, Vec<OwnedFd>)> {
        let mut buffer = vec![0; LONGEST_MESSAGE];
        let (length, fds) = receive(self.0.get_ref().as_fd(), &mut buffer).ok()?;
        decode(&buffer[..length]).map(|message| (message, fds))
    }

    /// Sends a message. The other end reads few, and has space for them.
    pub(crate) fn send<T: Serialize>(&self, message: &T) -> io::Result<()> {
        let bytes = encode(message).ok_or(io::ErrorKind::FileTooLarge)?;
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        send(self.0.as_raw_fd(), &bytes, flags).map(|_| ()).map_err(io::Error::from)
    }
}
