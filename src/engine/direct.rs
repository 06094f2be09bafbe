//! Direct connections until they are proven: those that strangers make to us, and those that we make to a parent.
//!
//! Whoever connects has [`PATIENCE`] to prove himself, and costs a descriptor and some hundred bytes until then. There
//! are never more than [`MOST_GUESTS`] of them: one more sends away the one that has been silent for longest. Whatever is wrong with a guest, he sees
//! the connection close and not a byte. None of this holds up anything else.
//!
//! Who dials tries all addresses at once and takes the first that proves itself.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use libi_core::link::{AwaitOpening, AwaitProof, AwaitReply, Fresh, LinkId as KeyId, LinkKey, Step};
use libi_core::time::Instant;
use libi_launch::machine::LinkId;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use super::Id;
use super::ports::{Part, Targets};
use super::sealed::Sealed;
use super::stream::Stream;

/// How long a stranger has to prove himself.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// How long a member tries to reach its parent.
const DIALLING: Duration = Duration::from_secs(3);
/// How many strangers are looked at at a time.
const MOST_GUESTS: usize = 64;
/// How many addresses are dialled at most.
const MOST_ADDRESSES: usize = 16;

/// Where children connect.
pub(super) struct Door {
    listener: TcpListener,
    token: Token,
    keys: BTreeMap<KeyId, (LinkId, LinkKey)>,
    guests: BTreeMap<u32, Guest>,
    last: u32,
}

struct Guest {
    stream: Stream,
    token: Token,
    until: Instant,
    state: Knock,
    out: Vec<u8>,
}

enum Knock {
    Opening(AwaitOpening),
    Proof(LinkId, KeyId, AwaitProof),
}

impl Door {
    /// Listens, and says under which addresses.
    pub(super) fn open(
        loopback: bool,
        registry: &Registry,
        targets: &mut Targets,
        id: Id,
    ) -> io::Result<(Self, Vec<SocketAddr>)> {
        use std::os::fd::AsRawFd;
        let any = |address: IpAddr| TcpListener::bind(SocketAddr::new(address, 0));
        let listener = if loopback {
            any(Ipv4Addr::LOCALHOST.into())
        } else {
            any(Ipv6Addr::UNSPECIFIED.into()).or_else(|_| any(Ipv4Addr::UNSPECIFIED.into()))
        }?;
        let port = listener.local_addr()?.port();
        let hosts = if loopback { vec![Ipv4Addr::LOCALHOST.into()] } else { own_addresses() };
        let addresses = hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect();
        let at = (id, LinkId::PARENT, Part::Door);
        let token = targets.add(registry, listener.as_raw_fd(), Interest::READABLE, at)?;
        Ok((Self { listener, token, keys: BTreeMap::new(), guests: BTreeMap::new(), last: 0 }, addresses))
    }

    pub(super) fn admit(&mut self, link: LinkId, key: LinkKey) {
        self.keys.insert(key.id(), (link, key));
    }

    pub(super) fn refuse(&mut self, link: LinkId) {
        self.keys.retain(|_, (of, _)| *of != link);
    }

    /// When the next guest has had his time.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.guests.values().map(|guest| guest.until).min()
    }

    /// Somebody has connected, perhaps several. True if there may be more.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        registry: &Registry,
        targets: &mut Targets,
        id: Id,
    ) -> bool {
        for _ in 0..MOST_GUESTS {
            let Ok((stream, _)) = self.listener.accept() else { return false };
            let _ = stream.set_nodelay(true);
            if self.guests.len() >= MOST_GUESTS
                && let Some((&oldest, _)) = self.guests.iter().min_by_key(|(_, guest)| guest.until)
            {
                self.send_away(oldest, registry, targets);
            }
            self.last = self.last.wrapping_add(1);
            let stream = Stream::ours(OwnedFd::from(stream), true);
            let interest = Interest::READABLE | Interest::WRITABLE;
            let at = (id, LinkId::PARENT, Part::Guest(self.last));
            let Ok(token) = targets.add(registry, stream.number(), interest, at) else { continue };
            let state = Knock::Opening(AwaitOpening::new());
            let guest = Guest { stream, token, until: now + PATIENCE, state, out: Vec::new() };
            self.guests.insert(self.last, guest);
        }
        true
    }

    /// A guest may have said something: the link that it is the other end of, if it has proved that.
    pub(super) fn attend(
        &mut self,
        number: u32,
        registry: &Registry,
        targets: &mut Targets,
    ) -> Option<(LinkId, Sealed)> {
        let mut guest = self.guests.remove(&number)?;
        match self.listen_to(&mut guest) {
            Ok(None) => {
                self.guests.insert(number, guest);
                None
            }
            Ok(Some((link, key, secured, early))) => {
                // A ticket is spent by a proof.
                self.keys.remove(&key);
                targets.remove(registry, guest.stream.number(), guest.token);
                Some((link, Sealed::new(guest.stream, secured, early)))
            }
            Err(_) => {
                targets.remove(registry, guest.stream.number(), guest.token);
                None
            }
        }
    }

    #[allow(clippy::type_complexity, reason = "what a proof gives, taken apart at once")]
    fn listen_to(
        &self,
        guest: &mut Guest,
    ) -> io::Result<Option<(LinkId, KeyId, libi_core::link::Secured, Vec<u8>)>> {
        loop {
            write_all(&guest.stream, &mut guest.out)?;
            let mut buffer = [0; 256];
            let count = match guest.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut input = &buffer[..count];
            while !input.is_empty() {
                let state = std::mem::replace(&mut guest.state, Knock::Opening(AwaitOpening::new()));
                match state {
                    Knock::Opening(state) => match state.step(&mut input) {
                        Step::Wait(state) => guest.state = Knock::Opening(state),
                        Step::Done(opening) => {
                            let known = self.keys.get(&opening.link());
                            let id = opening.link();
                            let answer = opening.answer(known.map(|(_, key)| key), fresh()?);
                            let (proof, reply) = answer.map_err(io::Error::other)?;
                            let Some((link, _)) = known else {
                                return Err(io::ErrorKind::PermissionDenied.into());
                            };
                            guest.out.extend_from_slice(&reply);
                            guest.state = Knock::Proof(*link, id, proof);
                        }
                    },
                    Knock::Proof(link, id, state) => {
                        match state.step(&mut input).map_err(io::Error::other)? {
                            Step::Wait(state) => guest.state = Knock::Proof(link, id, state),
                            Step::Done(secured) => {
                                return Ok(Some((link, id, secured, input.to_vec())));
                            }
                        }
                    }
                }
            }
        }
    }

    fn send_away(&mut self, number: u32, registry: &Registry, targets: &mut Targets) {
        if let Some(guest) = self.guests.remove(&number) {
            targets.remove(registry, guest.stream.number(), guest.token);
        }
    }

    /// Sends away those who have had their time.
    pub(super) fn expire(&mut self, now: Instant, registry: &Registry, targets: &mut Targets) {
        let late = self.guests.iter().filter(|(_, guest)| guest.until <= now);
        let late: Vec<_> = late.map(|(&number, _)| number).collect();
        late.into_iter().for_each(|number| self.send_away(number, registry, targets));
    }

    pub(super) fn close(&mut self, registry: &Registry, targets: &mut Targets) {
        use std::os::fd::AsRawFd;
        self.expire(Instant::FAR_FUTURE, registry, targets);
        targets.remove(registry, self.listener.as_raw_fd(), self.token);
    }
}

/// A member's attempts to reach its parent.
pub(super) struct Dialler {
    attempts: BTreeMap<u32, Attempt>,
    pub(super) until: Instant,
}

struct Attempt {
    stream: Stream,
    token: Token,
    state: Option<AwaitReply>,
    out: Vec<u8>,
}

impl Dialler {
    /// Dials all addresses.
    pub(super) fn dial(
        addresses: &[SocketAddr],
        key: &LinkKey,
        now: Instant,
        (registry, targets, id): (&Registry, &mut Targets, Id),
    ) -> Self {
        let mut attempts = BTreeMap::new();
        for (number, address) in (0..).zip(addresses.iter().take(MOST_ADDRESSES)) {
            let (Ok(stream), Ok(fresh)) = (TcpStream::connect(*address), fresh()) else { continue };
            let _ = stream.set_nodelay(true);
            let stream = Stream::ours(OwnedFd::from(stream), true);
            let interest = Interest::READABLE | Interest::WRITABLE;
            let at = (id, LinkId::PARENT, Part::Dial(number));
            let Ok(token) = targets.add(registry, stream.number(), interest, at) else { continue };
            let (state, opening) = AwaitReply::begin(key, fresh);
            attempts.insert(number, Attempt { stream, token, state: Some(state), out: opening.to_vec() });
        }
        Self { attempts, until: now + DIALLING }
    }

    /// Whether nobody can answer any more.
    pub(super) fn is_hopeless(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Something has happened to an attempt: the connection, if it is proven now.
    pub(super) fn attend(
        &mut self,
        number: u32,
        registry: &Registry,
        targets: &mut Targets,
    ) -> Option<Sealed> {
        let mut attempt = self.attempts.remove(&number)?;
        match attempt.go_on() {
            Ok(None) => {
                self.attempts.insert(number, attempt);
                None
            }
            Ok(Some((secured, early))) => {
                targets.remove(registry, attempt.stream.number(), attempt.token);
                Some(Sealed::new(attempt.stream, secured, early))
            }
            Err(_) => {
                targets.remove(registry, attempt.stream.number(), attempt.token);
                None
            }
        }
    }

    pub(super) fn close(&mut self, registry: &Registry, targets: &mut Targets) {
        for attempt in std::mem::take(&mut self.attempts).into_values() {
            targets.remove(registry, attempt.stream.number(), attempt.token);
        }
    }
}

impl Attempt {
    fn go_on(&mut self) -> io::Result<Option<(libi_core::link::Secured, Vec<u8>)>> {
        loop {
            match write_all(&self.stream, &mut self.out) {
                // It is not connected yet.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(None),
                other => other?,
            }
            let mut buffer = [0; 4096];
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut input = &buffer[..count];
            let Some(state) = self.state.take() else { return Err(io::ErrorKind::InvalidData.into()) };
            match state.step(&mut input).map_err(io::Error::other)? {
                Step::Wait(state) => self.state = Some(state),
                Step::Done((secured, proof)) => {
                    self.out.extend_from_slice(&proof);
                    // Sixteen bytes behind sixty-four: there is room.
                    write_all(&self.stream, &mut self.out)?;
                    if !self.out.is_empty() {
                        return Err(io::ErrorKind::WouldBlock.into());
                    }
                    return Ok(Some((secured, input.to_vec())));
                }
            }
        }
    }
}

/// Writes as much as goes now, and keeps the rest.
fn write_all(stream: &Stream, out: &mut Vec<u8>) -> io::Result<()> {
    while !out.is_empty() {
        match stream.write(out) {
            Ok(count) => drop(out.drain(..count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn fresh() -> io::Result<Fresh> {
    let mut bytes = [0; Fresh::LEN];
    getrandom::fill(&mut bytes)?;
    Ok(Fresh::new(&mut bytes))
}

/// The addresses of this machine that others may reach it at.
fn own_addresses() -> Vec<IpAddr> {
    use nix::net::if_::InterfaceFlags;
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let usable = interfaces.filter(|interface| {
        interface.flags.contains(InterfaceFlags::IFF_UP)
            && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    });
    let addresses = usable.filter_map(|interface| {
        let address = interface.address?;
        let four = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        let six = || {
            // An address of one link means nothing on another host.
            let ip = address.as_sockaddr_in6()?.ip();
            (ip.segments()[0] & 0xffc0 != 0xfe80).then_some(IpAddr::V6(ip))
        };
        four.or_else(six)
    });
    let mut addresses: Vec<IpAddr> = addresses.collect();
    addresses.truncate(MOST_ADDRESSES);
    if addresses.is_empty() {
        // A machine without a network: whoever is on it can still be reached.
        addresses.push(Ipv4Addr::LOCALHOST.into());
    }
    addresses
}
