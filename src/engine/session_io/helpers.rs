//! Helpers, by which a node above reaches a host that has lost its parent where nothing but the back-end comes
//! through. Both ends:
//!
//! ```text
//!   node above                               host
//!   listener: a peer like any other          orphan: connects like to any other
//!        |                                        |
//!        +--- socket --- ssh … sshd --- helper ---+ a socket with a name in the abstract namespace
//! ```
//!
//! | event | at the orphan |
//! |---|---|
//! | it has lost its parent | it listens; the name follows from the secret of orphans, and only processes of its user are heard |
//! | a helper has connected, and proves the key | the node takes the connection, or it is closed |
//! | it has another parent, or ends | it listens no more |
//!
//! | event | at the node above |
//! |---|---|
//! | the node sends a helper | its process is started, and its streams are those of a peer that has to prove the key |
//! | the host lacks the agent that is to be the helper | it is sent, as for a launch |
//! | the helper says that it has connected | the handshake begins; text of login shells before that is skipped |
//! | the process ends, or cannot be started | the node hears of it, and why; a link that went through it is closed |

mod sent;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use libi_core::secure::LinkKey;
use libi_launch::machine::{Effect, Event, LinkId};
use mio::{Interest, Registry, Token};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use self::sent::SentHelpers;
use super::{SessionIo, Turn};
use crate::engine::direct_connector::ConnectAttempt;
use crate::engine::direct_stream::DirectStream;
use crate::engine::link_io::LinkIo;
use crate::engine::stream::Stream;
use crate::engine::targets::{FdRole, Targets};

/// The most helpers that are heard at a time.
const MAX_PEERS: usize = 8;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Helpers {
    sent: SentHelpers,
    awaited: Option<Awaited>,
}

impl Helpers {
    /// Ends all helpers, and awaits none any more.
    pub(super) fn close(&mut self, registry: &Registry, targets: &mut Targets) {
        if let Some(awaited) = self.awaited.take() {
            awaited.close(registry, targets);
        }
        self.sent.close(registry, targets);
    }
}

/// At an orphan.
struct Awaited {
    listener: UnixListener,
    token: Token,
    key: LinkKey,
    peers: BTreeMap<u32, ConnectAttempt>,
    last: u32,
    /// The one that has proved the key, until the node has taken it.
    proved: Option<DirectStream>,
}

/// The name of the socket at which helpers of this key are awaited.
fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("libi-orphan-{name}"))
}

/// Connects to the orphan that awaits a helper by this name.
pub(crate) fn connect_to_orphan(name: &str) -> io::Result<UnixStream> {
    UnixStream::connect_addr(&address(name)?)
}

impl SessionIo {
    pub(super) fn on_helper_effect(&mut self, effect: Effect, turn: &mut Turn<'_>) {
        match effect {
            // Without it the host is lost when its time is over, as without helpers.
            Effect::AwaitHelper(key) => {
                self.forget_helper(turn.registry, turn.targets);
                self.helpers.awaited = Awaited::new(key, turn).ok();
            }
            Effect::ForgetHelper => self.forget_helper(turn.registry, turn.targets),
            Effect::TakeHelper => self.take_helper(turn),
            Effect::StartHelper(what, key) => {
                let (spec, program) = *what;
                if let Err(why) = self.start_helper(&spec, program, key, turn) {
                    self.helpers.sent.failed(spec.host, why);
                }
            }
            _ => {}
        }
    }

    fn forget_helper(&mut self, registry: &Registry, targets: &mut Targets) {
        if let Some(awaited) = self.helpers.awaited.take() {
            awaited.close(registry, targets);
        }
    }

    /// The connection of the helper is the link to the parent from now on.
    fn take_helper(&mut self, turn: &mut Turn<'_>) {
        let proved = self.helpers.awaited.as_mut().and_then(|awaited| awaited.proved.take());
        self.stop_connecting(LinkId::PARENT, turn);
        if let Some(mut closed) = self.links.insert(LinkId::PARENT, LinkIo::default()) {
            closed.close_all(turn.registry, turn.targets);
        }
        let is_attached = proved.is_some_and(|stream| self.attach_direct(LinkId::PARENT, stream, turn));
        if let Some(link_io) = self.links.get_mut(&LinkId::PARENT).filter(|_| is_attached) {
            link_io.use_direct_only();
        }
    }

    /// A descriptor at an orphan is ready.
    pub(super) fn on_helper_ready(&mut self, number: Option<u32>, turn: &mut Turn<'_>) {
        let Some(awaited) = &mut self.helpers.awaited else { return };
        let numbers = match number {
            Some(number) => vec![number],
            None => awaited.accept(turn),
        };
        for number in numbers {
            let Some(awaited) = &mut self.helpers.awaited else { return };
            if awaited.advance(number, turn) {
                self.tell(Event::Helped, turn);
                if let Some(awaited) = &mut self.helpers.awaited {
                    awaited.proved = None; // it was not taken
                }
            }
        }
    }
}

impl Awaited {
    fn new(key: LinkKey, turn: &mut Turn<'_>) -> io::Result<Self> {
        let listener = UnixListener::bind_addr(&address(&key.id().to_string())?)?;
        listener.set_nonblocking(true)?;
        let at = (turn.id, LinkId::PARENT, FdRole::HelperListener);
        let token = turn.targets.add(turn.registry, listener.as_raw_fd(), Interest::READABLE, at)?;
        Ok(Self { listener, token, key, peers: BTreeMap::new(), last: 0, proved: None })
    }

    /// Accepts helpers of this user, and returns their numbers.
    fn accept(&mut self, turn: &mut Turn<'_>) -> Vec<u32> {
        let own = nix::unistd::geteuid().as_raw();
        let mut numbers = Vec::new();
        while let Ok((stream, _)) = self.listener.accept() {
            let is_own = getsockopt(&stream, PeerCredentials).is_ok_and(|peer| peer.uid() == own);
            if !is_own || self.peers.len() >= MAX_PEERS {
                continue;
            }
            self.last += 1;
            let stream = Stream::ours(OwnedFd::from(stream), true);
            let interest = Interest::READABLE | Interest::WRITABLE;
            let at = (turn.id, LinkId::PARENT, FdRole::HelperPeer(self.last));
            let Ok(token) = turn.targets.add(turn.registry, stream.number(), interest, at) else { continue };
            if let Ok(attempt) = ConnectAttempt::over(stream, token, &self.key) {
                self.peers.insert(self.last, attempt);
                numbers.push(self.last);
            }
        }
        numbers
    }

    /// Continues with a helper. True if it has proved the key.
    fn advance(&mut self, number: u32, turn: &mut Turn<'_>) -> bool {
        let Some(mut attempt) = self.peers.remove(&number) else { return false };
        match attempt.advance() {
            Ok(None) => {
                self.peers.insert(number, attempt);
                false
            }
            Ok(Some((secured, early))) => {
                let stream = attempt.into_stream(turn.registry, turn.targets);
                self.proved = Some(DirectStream::new(stream, secured, early));
                true
            }
            Err(_) => {
                drop(attempt.into_stream(turn.registry, turn.targets));
                false
            }
        }
    }

    fn close(self, registry: &Registry, targets: &mut Targets) {
        targets.remove(registry, self.listener.as_raw_fd(), self.token);
        for attempt in self.peers.into_values() {
            drop(attempt.into_stream(registry, targets));
        }
    }
}
