//! Where hosts connect to show that they can.
//!
//! Whoever connects says a token and is sent away. A token is for one host and one address, proves nothing but that bytes
//! have come through, and opens nothing. Strangers cost a descriptor until they have been silent for too long.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use libi::time::Instant;

/// Letters of a token.
const TOKEN: usize = 32;
/// How long somebody may take to say it.
const TIMEOUT: Duration = Duration::from_secs(3);
/// How many may be there at a time; of more the one that has been there for longest goes.
const MOST: usize = 256;

pub(super) struct Door {
    listener: TcpListener,
    addresses: Vec<SocketAddr>,
    known: HashMap<String, (usize, usize)>,
    guests: Vec<Guest>,
}

struct Guest {
    stream: TcpStream,
    said: Vec<u8>,
    until: Instant,
}

impl Door {
    /// Listens at all addresses of this machine.
    pub(super) fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0))
            .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)))?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let addresses = libi::own_addresses().into_iter().map(|ip| SocketAddr::new(ip, port)).collect();
        Ok(Self { listener, addresses, known: HashMap::new(), guests: Vec::new() })
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// A token for each address, by which a host is known.
    pub(super) fn admit(&mut self, host: usize) -> io::Result<Vec<String>> {
        let tokens = (0..self.addresses.len()).map(|_| fresh()).collect::<io::Result<Vec<_>>>()?;
        let known = tokens.iter().enumerate().map(|(address, token)| (token.clone(), (host, address)));
        self.known.extend(known);
        Ok(tokens)
    }

    /// What is to be waited for.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        std::iter::once(self.listener.as_fd()).chain(self.guests.iter().map(|guest| guest.stream.as_fd()))
    }

    /// When somebody has had his time.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.guests.iter().map(|guest| guest.until).min()
    }

    /// Hears whoever is there: which hosts have come to which address.
    pub(super) fn attend(&mut self, now: Instant) -> Vec<(usize, usize)> {
        // One turn takes so many at most; the others are still there for the next.
        for _ in 0..MOST {
            let Ok((stream, _)) = self.listener.accept() else { break };
            if stream.set_nonblocking(true).is_ok() {
                self.guests.push(Guest { stream, said: Vec::new(), until: now + TIMEOUT });
            }
        }
        let mut come = Vec::new();
        self.guests.retain_mut(|guest| {
            let goes_on = guest.listen() && now < guest.until;
            if let Ok(token) = std::str::from_utf8(&guest.said)
                && let Some(host) = self.known.remove(token)
            {
                come.push(host);
                return false;
            }
            goes_on
        });
        let many = self.guests.len().saturating_sub(MOST);
        self.guests.drain(..many);
        come
    }
}

impl Guest {
    /// False when nothing more is to be heard.
    fn listen(&mut self) -> bool {
        let mut buffer = [0; TOKEN];
        while self.said.len() < TOKEN {
            match self.stream.read(&mut buffer[self.said.len()..]) {
                Ok(0) => return false,
                Ok(count) => {
                    let from = self.said.len();
                    self.said.extend_from_slice(&buffer[from..from + count]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
        false
    }
}

fn fresh() -> io::Result<String> {
    let mut bytes = [0; TOKEN / 2];
    getrandom::fill(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::*;

    /// What comes of it when there is something to be heard.
    fn heard(door: &mut Door, now: Instant) -> Vec<(usize, usize)> {
        let mut fds: Vec<_> = door.descriptors().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        assert!(poll(&mut fds, PollTimeout::from(5_000_u16)).unwrap() > 0, "nothing came");
        drop(fds);
        door.attend(now)
    }

    fn connect(door: &Door) -> TcpStream {
        TcpStream::connect((Ipv4Addr::LOCALHOST, door.listener.local_addr().unwrap().port())).unwrap()
    }

    #[test]
    fn a_token_says_once_which_host_and_which_address_it_was() {
        let mut door = Door::open().unwrap();
        let tokens = door.admit(7).unwrap();
        assert_eq!(tokens.len(), door.addresses().len());
        for expected in [vec![(7, 0)], Vec::new()] {
            connect(&door).write_all(tokens[0].as_bytes()).unwrap();
            let mut come = heard(&mut door, Instant::ZERO);
            while come.is_empty() && !door.guests.is_empty() {
                come = heard(&mut door, Instant::ZERO);
            }
            assert_eq!(come, expected);
        }
    }

    #[test]
    fn a_stranger_who_says_nothing_is_sent_away_in_time() {
        let mut door = Door::open().unwrap();
        let _stranger = connect(&door);
        assert!(heard(&mut door, Instant::ZERO).is_empty());
        assert_eq!(door.deadline(), Some(Instant::ZERO + TIMEOUT));
        assert!(door.attend(Instant::ZERO + TIMEOUT).is_empty());
        assert_eq!(door.deadline(), None);
    }
}
