//! The listener that examined hosts connect to, which shows whether direct links are possible.
//!
//! A peer sends a token and the connection is closed. A token stands for one host and one address.
//! It proves that bytes arrived and grants nothing else. A connection without a valid token costs
//! one file descriptor until its deadline.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use libi_core::time::Instant;

/// Length of a token in characters.
const TOKEN_LENGTH: usize = 32;
/// Stands for the number of a host in a token that many hosts get.
pub(super) const TASK: &str = "@TASK@";
/// How long a peer may take to send its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(3);
/// How many connections may be pending. Beyond that the oldest is closed.
const MAX_PENDING: usize = 256;

pub(super) struct CallbackListener {
    listener: TcpListener,
    addresses: Vec<SocketAddr>,
    tokens: HashMap<String, (usize, usize)>,
    pending: Vec<PendingConnection>,
}

struct PendingConnection {
    stream: TcpStream,
    received: Vec<u8>,
    deadline: Instant,
}

impl CallbackListener {
    /// Listens on all addresses of this machine.
    pub(super) fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let addresses = libi::own_addresses().into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        Ok(Self { listener, addresses, tokens: HashMap::new(), pending: Vec::new() })
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns a fresh token for each listening address, all of which identify this host.
    pub(super) fn issue_tokens(&mut self, host: usize) -> io::Result<Vec<String>> {
        let tokens = (0..self.addresses.len()).map(|_| random_token()).collect::<io::Result<Vec<_>>>()?;
        let issued = tokens.iter().enumerate().map(|(address, token)| (token.clone(), (host, address)));
        self.tokens.extend(issued);
        Ok(tokens)
    }

    /// Returns a token for each listening address, for hosts that all get the same text: each puts its
    /// number, in as many digits as [`TASK`] has characters, in place of [`TASK`]. Earlier tokens are
    /// no longer valid.
    pub(super) fn issue_common_tokens(&mut self, hosts: usize) -> io::Result<Vec<String>> {
        let digits = TASK.len();
        self.tokens.clear();
        let mut tokens = Vec::new();
        for address in 0..self.addresses.len() {
            let mut token = random_token()?;
            token.truncate(TOKEN_LENGTH - digits);
            let issued = (0..hosts).map(|host| (format!("{token}{host:0digits$}"), (host, address)));
            self.tokens.extend(issued);
            tokens.push(format!("{token}{TASK}"));
        }
        Ok(tokens)
    }

    /// The file descriptors to poll for input.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd())
            .chain(self.pending.iter().map(|connection| connection.stream.as_fd()))
    }

    /// The earliest deadline of a pending connection.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.pending.iter().map(|connection| connection.deadline).min()
    }

    /// Accepts connections and reads tokens; returns the host and the address of each valid token.
    pub(super) fn handle_ready(&mut self, now: Instant) -> Vec<(usize, usize)> {
        // The number accepted per call is bounded; the rest stay in the backlog until the next.
        for _ in 0..MAX_PENDING {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                self.pending.push(PendingConnection {
                    stream,
                    received: Vec::new(),
                    deadline: now + TOKEN_TIMEOUT,
                });
            }
        }
        let mut arrived = Vec::new();
        self.pending.retain_mut(|connection| {
            let keep = connection.read_token() && now < connection.deadline;
            if let Ok(token) = std::str::from_utf8(&connection.received)
                && let Some(host) = self.tokens.remove(token)
            {
                arrived.push(host);
                return false;
            }
            keep
        });
        let excess = self.pending.len().saturating_sub(MAX_PENDING);
        self.pending.drain(..excess);
        arrived
    }
}

impl PendingConnection {
    /// Reads what has arrived; returns false when nothing more can follow.
    fn read_token(&mut self) -> bool {
        let mut buffer = [0; TOKEN_LENGTH];
        while self.received.len() < TOKEN_LENGTH {
            match self.stream.read(&mut buffer[self.received.len()..]) {
                Ok(0) => return false,
                Ok(count) => {
                    let from = self.received.len();
                    self.received.extend_from_slice(&buffer[from..from + count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        false
    }
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; TOKEN_LENGTH / 2];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    /// Polls until input is ready, then handles it.
    fn connections_after_poll(listener: &mut CallbackListener, now: Instant) -> Vec<(usize, usize)> {
        let mut fds: Vec<_> = listener.descriptors().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        assert!(poll(&mut fds, PollTimeout::from(5_000_u16)).unwrap() > 0, "nothing came");
        drop(fds);
        listener.handle_ready(now)
    }

    fn connect(listener: &CallbackListener) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, listener.listener.local_addr().unwrap().port())).unwrap()
    }

    #[test]
    fn a_token_says_once_which_host_and_which_address_it_was() {
        let mut listener = CallbackListener::open().unwrap();
        let tokens = listener.issue_tokens(7).unwrap();
        assert_eq!(tokens.len(), listener.addresses().len());
        for expected in [vec![(7, 0)], Vec::new()] {
            connect(&listener).write_all(tokens[0].as_bytes()).unwrap();
            let mut arrived = connections_after_poll(&mut listener, Instant::ZERO);
            while arrived.is_empty() && !listener.pending.is_empty() {
                arrived = connections_after_poll(&mut listener, Instant::ZERO);
            }
            assert_eq!(arrived, expected);
        }
    }

    #[test]
    fn a_silent_connection_is_closed_at_its_deadline() {
        let mut listener = CallbackListener::open().unwrap();
        let _stranger = connect(&listener);
        assert!(connections_after_poll(&mut listener, Instant::ZERO).is_empty());
        assert_eq!(listener.deadline(), Some(Instant::ZERO + TOKEN_TIMEOUT));
        assert!(listener.handle_ready(Instant::ZERO + TOKEN_TIMEOUT).is_empty());
        assert_eq!(listener.deadline(), None);
    }
}
