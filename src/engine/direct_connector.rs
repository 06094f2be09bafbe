//! Connects a member directly to its parent, or to its source of staged files: tries all addresses at
//! once, and takes the first that authenticates itself.
//!
//! An address that accepts a connection and closes it without an answer is tried again: the
//! listener may have had too many peers. See `direct_listener.rs` for the other side.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use libi_core::secure::{AwaitReply, HandshakeStep, LinkKey};
use libi_core::time::Instant;
use libi_launch::machine::LinkId;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

use super::NodeId;
use super::addresses::MAX_ADDRESSES;
use super::ciphers::cipher_offer;
use super::direct_stream::DirectStream;
use super::fd_budget::is_lack_of_fds;
use super::pending_peer::{entropy, write_all};
use super::stream::Stream;
use super::targets::{FdRole, Targets};

/// How long a member tries to reach its parent.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// The delay before an address is tried again.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// How long an address may take to accept a connection before a new one is made; twice as long each
/// time, and up to half as much again. A listener with a full queue drops requests, and the kernel
/// would repeat each after 1, 3 and 7 seconds, together with those of all others.
const DIAL_AGAIN: Duration = Duration::from_millis(400);
const DIAL_AGAIN_MOST: Duration = Duration::from_secs(6);

/// See the [module](self).
pub(super) struct DirectConnector {
    link: LinkId,
    key: LinkKey,
    attempts: BTreeMap<u32, ConnectAttempt>,
    last: u32,
    /// Addresses to be tried, when, and how long they may then take to accept the connection.
    retries: Vec<(Instant, SocketAddr, Duration)>,
    until: Instant,
    /// Whether an address cannot be reached, rather than that nothing listens there.
    is_walled: bool,
}

/// An attempt to open a connection, and the handshake on it.
pub(super) struct ConnectAttempt {
    /// Where; `None` where the connection was open before.
    address: Option<SocketAddr>,
    stream: Stream,
    token: Token,
    state: Option<AwaitReply>,
    out: Vec<u8>,
    /// When it is made again, if it is not connected by then, and how long that had to be.
    again: Option<Instant>,
    limit: Duration,
}

impl DirectConnector {
    /// Starts an attempt for each address, to open a connection for this link.
    pub(super) fn start(
        link: LinkId,
        addresses: &[SocketAddr],
        key: LinkKey,
        timeout: Duration,
        now: Instant,
        at: (&Registry, &mut Targets, NodeId),
    ) -> Self {
        let retries =
            addresses.iter().take(MAX_ADDRESSES).map(|address| (now, *address, DIAL_AGAIN)).collect();
        let mut connector = Self {
            link,
            key,
            attempts: BTreeMap::new(),
            last: 0,
            retries,
            until: now + timeout,
            is_walled: false,
        };
        connector.retry_due(now, at);
        connector
    }

    /// Starts the attempts that are due.
    pub(super) fn retry_due(
        &mut self,
        now: Instant,
        (registry, targets, id): (&Registry, &mut Targets, NodeId),
    ) {
        let slow = |attempt: &ConnectAttempt| attempt.again.is_some_and(|at| at <= now);
        let slow = self.attempts.iter().filter(|(_, attempt)| slow(attempt)).map(|(&number, _)| number);
        for number in slow.collect::<Vec<_>>() {
            let Some(attempt) = self.attempts.remove(&number) else { continue };
            targets.remove(registry, attempt.stream.number(), attempt.token);
            let limit = DIAL_AGAIN_MOST.min(attempt.limit * 2);
            self.retries.extend(attempt.address.map(|address| (now, address, limit)));
        }
        let due: Vec<_> = self.retries.extract_if(.., |(at, ..)| *at <= now).collect();
        for (_, address, limit) in due {
            let stream = match TcpStream::connect(address) {
                Ok(stream) => stream,
                Err(error) if is_lack_of_fds(&error) => {
                    // Attempts that fail free their descriptors.
                    self.retries.push((now + RETRY_DELAY, address, limit));
                    continue;
                }
                Err(_) => {
                    self.is_walled = true;
                    continue;
                }
            };
            let Ok(entropy) = entropy() else { continue };
            let _ = stream.set_nodelay(true);
            let stream = Stream::ours(OwnedFd::from(stream), true);
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.last += 1;
            let at = (id, self.link, FdRole::Connecting(self.last));
            let Ok(token) = targets.add(registry, stream.number(), interest, at) else { continue };
            let (state, opening) = AwaitReply::begin(&self.key, cipher_offer(), entropy);
            let again = Some(now + limit + limit.mul_f64(random() / 2.0));
            let (state, out) = (Some(state), opening.to_vec());
            let address = Some(address);
            let attempt = ConnectAttempt { address, stream, token, state, out, again, limit };
            self.attempts.insert(self.last, attempt);
        }
    }

    /// Whether no attempt can succeed any more.
    pub(super) fn has_failed(&self, now: Instant) -> bool {
        self.attempts.is_empty() && self.retries.is_empty() || self.until <= now
    }

    /// Whether something is in the way, if it has failed: no host answers, or one says that it may not be
    /// reached. Otherwise nothing listens any more.
    pub(super) fn is_walled(&self) -> bool {
        self.is_walled || self.attempts.values().any(|attempt| attempt.again.is_some())
    }

    /// When [`retry_due`](Self::retry_due) or [`has_failed`](Self::has_failed) is to be called even
    /// if nothing happens.
    pub(super) fn deadline(&self) -> Instant {
        let retries = self.retries.iter().map(|(at, ..)| *at);
        let again = self.attempts.values().filter_map(|attempt| attempt.again);
        retries.chain(again).min().unwrap_or(self.until).min(self.until)
    }

    /// Continues an attempt whose descriptor is ready. Returns the connection once it is
    /// authenticated.
    pub(super) fn on_ready(
        &mut self,
        number: u32,
        now: Instant,
        registry: &Registry,
        targets: &mut Targets,
    ) -> Option<DirectStream> {
        let mut attempt = self.attempts.remove(&number)?;
        match attempt.advance() {
            Ok(None) => {
                self.attempts.insert(number, attempt);
                None
            }
            Ok(Some((secured, early))) => {
                targets.remove(registry, attempt.stream.number(), attempt.token);
                Some(DirectStream::new(attempt.stream, secured, early))
            }
            Err(error) => {
                targets.remove(registry, attempt.stream.number(), attempt.token);
                use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
                let is_open = matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof);
                self.is_walled |= !is_open && error.kind() != ConnectionRefused;
                if is_open {
                    let again = |address| (now + RETRY_DELAY, address, attempt.limit);
                    self.retries.extend(attempt.address.map(again));
                }
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

/// A number from 0 to 1; 0 without a source of randomness.
fn random() -> f64 {
    getrandom::u32().map_or(0.0, |bits| f64::from(bits) / f64::from(u32::MAX))
}

impl ConnectAttempt {
    /// The handshake on a connection that is open.
    pub(super) fn over(stream: Stream, token: Token, key: &LinkKey) -> io::Result<Self> {
        let (state, opening) = AwaitReply::begin(key, cipher_offer(), entropy()?);
        let (state, out) = (Some(state), opening.to_vec());
        Ok(Self { address: None, stream, token, state, out, again: None, limit: Duration::ZERO })
    }

    /// The connection, which is not watched any more.
    pub(super) fn into_stream(self, registry: &Registry, targets: &mut Targets) -> Stream {
        targets.remove(registry, self.stream.number(), self.token);
        self.stream
    }

    pub(super) fn advance(&mut self) -> io::Result<Option<(libi_core::secure::SecuredLink, Vec<u8>)>> {
        loop {
            match write_all(&self.stream, &mut self.out) {
                // The connection is not established yet.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(None),
                other => other?,
            }
            if self.out.is_empty() {
                self.again = None;
            }
            let mut buffer = [0; 4096];
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(None),
                Err(error) => return Err(error),
            };
            let mut input = &buffer[..count];
            let Some(state) = self.state.take() else { return Err(io::ErrorKind::InvalidData.into()) };
            match state.step(&mut input).map_err(io::Error::other)? {
                HandshakeStep::Wait(state) => self.state = Some(state),
                HandshakeStep::Done((secured, proof)) => {
                    self.out.extend_from_slice(&proof);
                    // The socket buffer has room: 16 bytes follow 64.
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
