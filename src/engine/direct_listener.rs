//! Accepts direct connections of children, and the streams of helpers, and authenticates them.
//!
//! A connection that has not been authenticated costs a descriptor and some hundred bytes for at
//! most [`TIMEOUT`]. Limits:
//!
//! - At most [`MAX_UNVERIFIED`] peers have not sent a valid opening. One more closes the oldest of
//!   them.
//! - At most [`MAX_VERIFIED`] peers have sent a valid opening and not yet the proof. An opening can
//!   be replayed by an observer, so they are limited as well, but unverified peers never displace
//!   them.
//! - Both limits are higher by the number of hosts that a bulk start has still to bring up, which may
//!   arrive at once.
//!
//! On any error the peer sees the connection close and receives no byte. Nothing here blocks or
//! delays other work.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use libi_core::secure::{KeyId, LinkKey};
use libi_core::time::Instant;
use libi_launch::machine::{LinkId, StartId};
use mio::net::TcpListener;
use mio::{Interest, Registry, Token};

use super::NodeId;
use super::addresses::own_addresses;
use super::direct_stream::DirectStream;
use super::pending_peer::{Greeting, PendingPeer, Proved};
use super::stream::Stream;
use super::targets::{FdRole, Targets};

/// How long a peer has to authenticate itself.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// How much longer, for each host that is expected: their proofs are checked one after the other.
const PROOF_TIME: Duration = Duration::from_millis(1);
/// The most peers without a valid opening.
const MAX_UNVERIFIED: usize = 64;
/// The most peers with a valid opening.
const MAX_VERIFIED: usize = 64;
/// How long accepting pauses when the system has no descriptor.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// See the [module](self).
pub(super) struct DirectListener {
    /// `None` where links stay in the channels, and only helpers are heard.
    listener: Option<(TcpListener, Token)>,
    keys: BTreeMap<KeyId, (Admission, LinkKey)>,
    peers: BTreeMap<u32, PendingPeer>,
    last: u32,
    /// When to accept again after a lack of descriptors. The waiting connection is not reported
    /// again.
    accept_retry_at: Option<Instant>,
}

/// What a proof admits to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// The direct connection of this link, once.
    Link(LinkId),
    /// The rendezvous of this start, for each of its hosts.
    Start(StartId),
    /// The staged files that this host has, for each host of the session.
    Files,
    /// This node as a parent, for each host of the session that has lost its own.
    Orphans,
    /// The session that is kept here, for each front end that has its ticket file.
    FrontEnds,
}

impl DirectListener {
    /// Listens, and returns the addresses.
    pub(super) fn open(
        loopback: bool,
        registry: &Registry,
        targets: &mut Targets,
        id: NodeId,
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
        let at = (id, LinkId::PARENT, FdRole::DirectListener);
        let token = targets.add(registry, listener.as_raw_fd(), Interest::READABLE, at)?;
        let (keys, peers) = Default::default();
        let listener = Some((listener, token));
        Ok((Self { listener, keys, peers, last: 0, accept_retry_at: None }, addresses))
    }

    /// Hears helpers alone, and accepts no connection.
    pub(super) fn for_helpers() -> Self {
        let (keys, peers) = Default::default();
        Self { listener: None, keys, peers, last: 0, accept_retry_at: None }
    }

    pub(super) fn add_key(&mut self, admission: Admission, key: LinkKey) {
        self.keys.insert(key.id(), (admission, key));
    }

    /// The socket on which to accept again, if the pause after a lack of descriptors is over. Resets it.
    pub(super) fn take_due_retry(&mut self, now: Instant) -> Option<Token> {
        self.accept_retry_at.take_if(|at| *at <= now)?;
        self.listener.as_ref().map(|(_, token)| *token)
    }

    pub(super) fn remove_key(&mut self, link: LinkId) {
        self.keys.retain(|_, (of, _)| *of != Admission::Link(link));
    }

    /// The next deadline of a peer, or the end of the pause.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.peers.values().map(|peer| peer.until).chain(self.accept_retry_at).min()
    }

    /// Accepts waiting connections, and adds those that are authenticated at once. `expected` counts
    /// the hosts that a bulk start has still to bring up. True if there may be more.
    pub(super) fn accept(
        &mut self,
        now: Instant,
        (registry, targets, id): (&Registry, &mut Targets, NodeId),
        expected: usize,
        authenticated: &mut Vec<(Admission, DirectStream)>,
    ) -> bool {
        // Hosts that arrive together fill the queue of the kernel, which is shorter than the list of
        // those that are expected. They are accepted at once, and heard later.
        let is_crowded = expected > MAX_UNVERIFIED;
        for _ in 0..MAX_UNVERIFIED.max(expected) {
            let Some((listener, _)) = &self.listener else { return false };
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return false,
                    // This peer is gone; others may wait behind it.
                    io::ErrorKind::Interrupted
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset => continue,
                    // Out of descriptors or memory: no event will report when they are available.
                    _ => {
                        self.accept_retry_at = Some(now + ACCEPT_RETRY);
                        return false;
                    }
                },
            };
            let _ = stream.set_nodelay(true);
            self.evict_oldest(false, MAX_UNVERIFIED, expected, registry, targets);
            self.last = self.last.wrapping_add(1);
            let number = self.last;
            let stream = Stream::ours(OwnedFd::from(stream), true);
            let interest = Interest::READABLE | Interest::WRITABLE;
            let at = (id, LinkId::PARENT, FdRole::PendingPeer(number));
            let Ok(token) = targets.add(registry, stream.number(), interest, at) else { continue };
            let until = now + TIMEOUT + PROOF_TIME.saturating_mul(expected as u32);
            self.peers.insert(number, PendingPeer::new(stream, token, until, None));
            // A valid opening has usually arrived already. Reading it at once protects the peer
            // from being evicted.
            if !is_crowded {
                authenticated.extend(self.on_ready(number, expected, registry, targets));
            }
        }
        true
    }

    /// Adds the streams of a helper, behind which a peer will prove itself by then.
    pub(super) fn add_helper(
        &mut self,
        stream: Stream,
        until: Instant,
        greeting: Greeting,
        (registry, targets, id): (&Registry, &mut Targets, NodeId),
    ) -> io::Result<()> {
        self.last = self.last.wrapping_add(1);
        let interest = Interest::READABLE | Interest::WRITABLE;
        let at = (id, LinkId::PARENT, FdRole::PendingPeer(self.last));
        let token = targets.add(registry, stream.number(), interest, at)?;
        self.peers.insert(self.last, PendingPeer::new(stream, token, until, Some(greeting)));
        Ok(())
    }

    /// Closes the oldest peer that has sent a valid opening, or has not, if there are `limit` of them, and one
    /// more for each host that is expected.
    fn evict_oldest(
        &mut self,
        is_verified: bool,
        limit: usize,
        expected: usize,
        registry: &Registry,
        targets: &mut Targets,
    ) {
        if self.peers.len() < limit + expected {
            return;
        }
        let matching = || self.peers.iter().filter(|(_, peer)| peer.is_verified() == is_verified);
        let count = matching().count();
        if count >= limit + expected
            && let Some((&oldest, _)) = matching().min_by_key(|(_, peer)| peer.until)
        {
            self.drop_peer(oldest, registry, targets);
        }
    }

    /// Continues the handshake of a peer. Returns the connection once it is authenticated,
    /// and what it is admitted to.
    pub(super) fn on_ready(
        &mut self,
        number: u32,
        expected: usize,
        registry: &Registry,
        targets: &mut Targets,
    ) -> Option<(Admission, DirectStream)> {
        let mut peer = self.peers.remove(&number)?;
        match peer.advance(&self.keys) {
            Ok(None) => {
                if peer.is_verified() {
                    self.evict_oldest(true, MAX_VERIFIED, expected, registry, targets);
                }
                self.peers.insert(number, peer);
                None
            }
            Ok(Some(Proved { admission, key, secured, early })) => {
                targets.remove(registry, peer.stream.number(), peer.token);
                // The ticket of a link works once. A second peer with the same ticket, or a revoked
                // ticket, is refused.
                if let Admission::Link(_) = admission {
                    self.keys.remove(&key)?;
                }
                Some((admission, DirectStream::new(peer.stream, secured, early)))
            }
            Err(_) => {
                targets.remove(registry, peer.stream.number(), peer.token);
                None
            }
        }
    }

    fn drop_peer(&mut self, number: u32, registry: &Registry, targets: &mut Targets) {
        if let Some(peer) = self.peers.remove(&number) {
            targets.remove(registry, peer.stream.number(), peer.token);
        }
    }

    /// Closes peers whose deadline has passed.
    pub(super) fn expire(&mut self, now: Instant, registry: &Registry, targets: &mut Targets) {
        let late = self.peers.iter().filter(|(_, peer)| peer.until <= now);
        let late: Vec<_> = late.map(|(&number, _)| number).collect();
        late.into_iter().for_each(|number| self.drop_peer(number, registry, targets));
    }

    pub(super) fn close(&mut self, registry: &Registry, targets: &mut Targets) {
        use std::os::fd::AsRawFd;
        self.expire(Instant::FAR_FUTURE, registry, targets);
        if let Some((listener, token)) = &self.listener {
            targets.remove(registry, listener.as_raw_fd(), *token);
        }
    }
}
