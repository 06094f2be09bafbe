//! Hosts that the front end launches from the first moment, and moves to the members' tree.
//!
//! The front end is a launcher as leaders are, so that the first login delays no other. But the calls of
//! members must not pass through it: a tool may drive it seldom. So a host that it has launched becomes
//! a child of the first host's leader as soon as both have said hello:
//!
//! ```text
//!   host                     front end                      leader of the first host
//!     | Hello (channel) -------> |                              |
//!     |                          | Adopt: the host -----------> |  awaits it
//!     |                          | <------------------- Adopted |
//!     | <- Move: config, addresses                              |
//!     | <===== handshake: both prove the session's secret ====> |
//!     |                          | <---------------- Link: direct
//!     | <---------------------------------------------- Share   |  a link like any other
//! ```
//!
//! From the `Adopt` on the host is one of the leader's, which launches it again if it fails. The front
//! end keeps the process that leads to the host (see `moved_processes.rs`).
//!
//! | connections to the leader | event | next | hosts that have said hello |
//! |---|---|---|---|
//! | `Untried` | a host has connected | `Work` | [`PROBES`] move, others are held |
//! | | a host cannot connect | `Fail` | |
//! | | a host fails before it has connected | another may try | |
//! | | the leader is lost | [`PROBES`] may try again | |
//! | `Work` | | | move, but those that could not connect before |
//! | any | the leader does not listen | `Fail` | |
//! | `Fail`, or no host moves | | | stay: children of the front end, as where it replaces a leader |
//!
//! Unless moves fail, all are held until that leader listens, and when it is lost until the next one does.
//! A host that is held for too long stays. One that cannot connect ends, and the leader launches it again.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use libi_core::ids::{HostIndex, LinkId};
use libi_core::time::Instant;

use super::message::SessionConfig;

/// How many hosts move before one has connected to the leader.
const PROBES: usize = 2;

/// Which hosts the front end moves. At a host that moves: its config.
#[derive(Debug, Default)]
pub(super) struct Moves {
    connections: Connections,
    /// The leader of the first host, while it listens.
    target: Option<Target>,
    /// Children that have said hello, and wait, with the time of that.
    held: BTreeMap<LinkId, Instant>,
    /// Hosts that could not connect to the leader.
    stranded: BTreeSet<HostIndex>,
    /// The config that takes effect when this host has connected to its new parent.
    config: Option<Box<SessionConfig>>,
}

/// Whether hosts can connect to the leader of the first host.
#[derive(Debug, Default)]
enum Connections {
    /// So many more may try.
    Untried(usize),
    Work,
    /// They cannot, or no host moves in this session.
    #[default]
    Fail,
}

/// Where hosts move to.
#[derive(Debug)]
struct Target {
    /// The link to the leader of the first host.
    link: LinkId,
    addresses: Vec<SocketAddr>,
}

/// What becomes of a host that has said hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// It is a child of this node.
    Stays,
    /// It waits.
    Held,
    /// It moves to the leader at this link.
    Moves(LinkId),
}

/// At the front end.
impl Moves {
    /// Hosts move in this session.
    pub(super) fn switch_on(&mut self) {
        self.connections = Connections::Untried(PROBES);
    }

    /// Whether hosts may still move.
    pub(super) fn are_on(&self) -> bool {
        !matches!(self.connections, Connections::Fail)
    }

    /// Decides what becomes of a host that has said hello. `is_up`: whether the leader to which it may
    /// move is up.
    pub(super) fn place(&mut self, link: LinkId, host: HostIndex, is_up: bool, now: Instant) -> Placement {
        let greeted = self.held.remove(&link).unwrap_or(now);
        let target = self.target().filter(|_| is_up);
        let placement = match (&mut self.connections, target) {
            (Connections::Fail, _) => Placement::Stays,
            _ if self.stranded.contains(&host) => Placement::Stays,
            (Connections::Work, Some(target)) => Placement::Moves(target),
            (Connections::Untried(left), Some(target)) if *left > 0 => {
                *left -= 1;
                Placement::Moves(target)
            }
            (Connections::Untried(_) | Connections::Work, _) => Placement::Held,
        };
        if placement == Placement::Held {
            self.held.insert(link, greeted);
        }
        placement
    }

    /// When a child that waits has said hello; `None` if it does not wait.
    pub(super) fn greeted(&self, link: LinkId) -> Option<Instant> {
        self.held.get(&link).copied()
    }

    /// A child does not wait any more.
    pub(super) fn release(&mut self, link: LinkId) {
        self.held.remove(&link);
    }

    /// The children that wait.
    pub(super) fn held(&self) -> impl ExactSizeIterator<Item = LinkId> + '_ {
        self.held.keys().copied()
    }

    /// The leader of the first host listens at these addresses, if there are any.
    pub(super) fn target_listens(&mut self, link: LinkId, addresses: Vec<SocketAddr>) {
        if addresses.is_empty() {
            self.connections = Connections::Fail;
        } else {
            self.target = Some(Target { link, addresses });
        }
    }

    /// A host has connected to the leader. Returns whether it is the first.
    pub(super) fn reached(&mut self) -> bool {
        let is_first = matches!(self.connections, Connections::Untried(_));
        if is_first {
            self.connections = Connections::Work;
        }
        is_first
    }

    /// A host cannot connect to the leader: it does not try again.
    pub(super) fn not_reached(&mut self, host: HostIndex) {
        self.stranded.insert(host);
        if matches!(self.connections, Connections::Untried(_)) {
            self.connections = Connections::Fail;
        }
    }

    /// So many hosts have failed before they had connected. Returns whether others may try for that.
    pub(super) fn failed_to_try(&mut self, hosts: usize) -> bool {
        match &mut self.connections {
            Connections::Untried(left) => {
                *left = (*left + hosts).min(PROBES);
                hosts > 0
            }
            Connections::Work | Connections::Fail => false,
        }
    }

    /// A child is gone, which may be the leader of the first host.
    pub(super) fn child_gone(&mut self, link: LinkId) {
        self.held.remove(&link);
        if self.target.take_if(|target| target.link == link).is_some()
            && let Connections::Untried(left) = &mut self.connections
        {
            *left = PROBES; // those that have tried may have failed for that
        }
    }

    /// The link to the leader to which hosts move.
    pub(super) fn target(&self) -> Option<LinkId> {
        self.target.as_ref().map(|target| target.link)
    }

    /// The addresses of that leader.
    pub(super) fn addresses(&self) -> Option<&[SocketAddr]> {
        self.target.as_ref().map(|target| target.addresses.as_slice())
    }
}

/// At a host that moves.
impl Moves {
    pub(super) fn set_config(&mut self, config: Box<SessionConfig>) {
        self.config = Some(config);
    }

    pub(super) fn take_config(&mut self) -> Option<SessionConfig> {
        self.config.take().map(|config| *config)
    }
}

#[cfg(test)]
mod tests;
