//! Decides what is printed for a failure: the words of OpenSSH 9.2, which libi classifies.
//!
//! Lines end with carriage return and line feed, as those of `ssh` do. Text from a server is
//! bounded, and its control characters are printed as octal numbers.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use nix::errno::Errno;
use russh::Error;

/// Text that waits to be printed on standard error.
#[derive(Clone, Default)]
pub(super) struct Notes {
    text: Arc<Mutex<Vec<u8>>>,
    is_quiet: bool,
}

/// More than a server may have printed at a time.
const CAPACITY: usize = 64 * 1024;

impl Notes {
    /// The same notes, for a host whose configuration may ask for silence.
    pub(super) fn of_host(&self, prints: bool) -> Notes {
        Notes { text: Arc::clone(&self.text), is_quiet: !prints }
    }

    /// Adds a line of `ssh`.
    pub(super) fn line(&self, line: &str) {
        self.add(&format!("{}\r\n", printable(line)));
    }

    /// Adds lines of text as the server has sent them.
    pub(super) fn banner(&self, text: &str) {
        self.add(&printable(text));
    }

    fn add(&self, text: &str) {
        let mut held = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_quiet && held.len() + text.len() <= CAPACITY {
            held.extend_from_slice(text.as_bytes());
        }
    }

    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.text.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' | '\t' => printed.push(letter),
            _ if letter.is_control() => printed.push_str(&format!("\\{:03o}", u32::from(letter))),
            _ => printed.push(letter),
        }
    }
    printed
}

/// The other end of a connection, as `ssh` prints it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub(super) Option<SocketAddr>);

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(address) => write!(f, "{} port {}", address.ip(), address.port()),
            // What `ssh` prints for a proxy.
            None => f.write_str("UNKNOWN port 65535"),
        }
    }
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Lost {
    /// The server said so.
    Disconnected {
        code: u32,
        message: String,
    },
    Failed(Error),
}

/// The text of the C library for an error of the system.
pub(super) fn of_system(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(number) => Errno::from_raw(number).desc().to_owned(),
        None if error.kind() == io::ErrorKind::TimedOut => Errno::ETIMEDOUT.desc().to_owned(),
        None => error.to_string(),
    }
}

/// Prints why a connection ended before the command was started.
pub(super) fn lost_before_start(notes: &Notes, peer: Peer, lost: &Lost) {
    match lost {
        Lost::Disconnected { code, message } => {
            notes.line(&format!("Received disconnect from {peer}:{code}: {message}"));
            notes.line(&format!("Disconnected from {peer}"));
        }
        Lost::Failed(error) => match cause(error) {
            Cause::Closed => notes.line(&format!("Connection closed by {peer}")),
            Cause::Reset => notes.line(&format!("Connection reset by {peer}")),
            Cause::Other(text) => {
                notes.line(&format!("ssh_dispatch_run_fatal: Connection to {peer}: {text}"));
            }
        },
    }
}

/// Prints why a connection ended while the command ran.
pub(super) fn lost_in_session(notes: &Notes, host: &str, peer: Peer, lost: &Lost) {
    match lost {
        Lost::Disconnected { .. } => lost_before_start(notes, peer, lost),
        Lost::Failed(Error::KeepaliveTimeout) => {
            notes.line(&format!("Timeout, server {host} not responding."));
        }
        Lost::Failed(error) if is_broken_pipe(error) => {
            notes.line("client_loop: send disconnect: Broken pipe");
        }
        Lost::Failed(error) => match cause(error) {
            Cause::Closed => notes.line(&format!("Connection to {host} closed by remote host.")),
            Cause::Reset => {
                notes.line(&format!("Read from remote host {host}: Connection reset by peer"));
                notes.line("client_loop: send disconnect: Broken pipe");
            }
            Cause::Other(text) => {
                notes.line(&format!("ssh_dispatch_run_fatal: Connection to {peer}: {text}"));
            }
        },
    }
}

enum Cause {
    Closed,
    Reset,
    Other(String),
}

fn is_broken_pipe(error: &Error) -> bool {
    matches!(error, Error::IO(error) if error.kind() == io::ErrorKind::BrokenPipe)
}

fn cause(error: &Error) -> Cause {
    match error {
        Error::Disconnect | Error::HUP | Error::SendError | Error::RecvError => Cause::Closed,
        Error::IO(error) => match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe => Cause::Closed,
            io::ErrorKind::ConnectionReset => Cause::Reset,
            _ => Cause::Other(of_system(error)),
        },
        Error::PacketAuth | Error::DecryptionError | Error::PacketSize(_) => {
            Cause::Other("message authentication code incorrect".into())
        }
        Error::WrongServerSig => Cause::Other("incorrect signature".into()),
        other => Cause::Other(other.to_string()),
    }
}
