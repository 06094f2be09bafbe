//! Sources: from which node a host gets its staged files, and which hosts get theirs from it.
//!
//! In the tree of the launch a node has many children, and to send files to k of them takes k times as
//! long as to one. Where the files are long, each host is sent one copy by another host, and sends one
//! on: the front end puts the hosts into an order (`front_end/source_order.rs`), and the host before
//! is the source of the next.
//!
//! ```text
//!   front end                     parent        host                            source
//!     | <------ WantsSource -------- | <---------- | listens, has room for the files |
//!     | ------- Source ------------> | ----------> |                                |
//!     |                              |             | ==== handshake: both prove ===> |
//!     |                              |             | <-------------- pieces -------- |
//!     |                              | <- Staged - | - Staged ---------------------> |
//! ```
//!
//! | origin of the files | event | effect | next |
//! |---|---|---|---|
//! | `Parent` | the config has a secret for files | listens | `Unasked` |
//! | `Unasked` | there is room for them, and the own addresses are known | `WantsSource` | `Asked` |
//! | `Asked` | `Source` without addresses | `FilesFrom` the place reached, to the parent | `Parent` |
//! | `Asked` | `Source` | `ConnectSource` | `Connecting` |
//! | `Connecting` | `SourceConnected` | preamble, `FilesFrom` the place reached | `Source` |
//! | `Connecting`, `Source` | another `Source`: this one is slow | its link is closed; `ConnectSource` | `Connecting` |
//! | `Connecting`, `Source` | the link is closed, silent, or violates the protocol | `FilesFrom` | `Parent` |
//! | `Source` | all files are complete | the link is closed | `Parent` |
//! | any | the node begins to end | all links of files are closed | |
//!
//! | client, a host that gets files from here | event | effect |
//! |---|---|---|
//! | | `FilesWanted`, while the files are open or complete | it is admitted |
//! | | `FilesWanted`, otherwise | `Refuse` |
//! | admitted | `FilesFrom` | it is served as a child is |
//! | served | it is much slower than this node was | `SlowClient`, once |
//! | served | it confirms what it was not sent, or is late with a confirmation | its link is closed |
//! | served | its link is closed | it is forgotten |
//!
//! Where direct links have failed, a node gives its children no secret for files: they get them from it,
//! and so do all below them.
//!
//! # Why files arrive
//! - A parent asks before the hosts below it: a node holds their requests until its own is sent. The
//!   front end gives each host a source that has asked earlier. So each host gets its files, from its
//!   source or its parent, from a host earlier in that order, and no circle can form.
//! - A source that waits itself shows by heartbeats that it is alive. One that is silent, or is lost, is
//!   given up, and the parent sends the rest.
//! - A slow host would hold up all those behind it. Its source tells the front end, which gives the
//!   clients of the slow host another source, earlier in the order.
//! - The parent knows from the confirmations how far each child is, and has no deadline for it while it
//!   gets its files elsewhere: the sender has, whichever that is.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::time::Instant;

use super::contract::LinkId;
use super::message::ChildMessage;

/// How long files have to be for a way of their own: shorter ones are sent before a source is found.
pub(super) const LEAST: u64 = 2 << 20;

/// Where the files of this host come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Origin {
    #[default]
    Parent,
    Unasked,
    Asked,
    Connecting(LinkId),
    Source(LinkId),
}

/// A host that gets files from here.
#[derive(Debug)]
struct Client {
    /// When it has to have asked, or confirmed what it was sent.
    deadline: Instant,
    /// Its host, once it has told that, until it has proved slow.
    watched: Option<HostIndex>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Sources {
    origin: Origin,
    /// When something was last heard of the source.
    last_heard: Instant,
    clients: BTreeMap<LinkId, Client>,
    /// The links over which hosts below have asked.
    below: BTreeMap<HostIndex, LinkId>,
    /// Requests of hosts below, until this one has asked.
    held: Vec<ChildMessage>,
}

impl Sources {
    /// The config has told that hosts get files from each other.
    pub(super) fn open(&mut self) {
        self.origin = Origin::Unasked;
    }

    pub(super) fn origin(&self) -> Origin {
        self.origin
    }

    /// This host asks now; returns the requests that waited for that.
    pub(super) fn ask(&mut self) -> Vec<ChildMessage> {
        self.origin = Origin::Asked;
        std::mem::take(&mut self.held)
    }

    /// A host below asks over this link; returns the request if it is passed on now.
    pub(super) fn ask_for(
        &mut self,
        link: LinkId,
        host: HostIndex,
        request: ChildMessage,
    ) -> Option<ChildMessage> {
        self.below.insert(host, link);
        if self.origin == Origin::Unasked {
            self.held.push(request);
            return None;
        }
        Some(request)
    }

    /// The link to a host below that has asked.
    pub(super) fn way_to(&self, host: HostIndex) -> Option<LinkId> {
        self.below.get(&host).copied()
    }

    /// The source is reached over this link, once it is connected.
    pub(super) fn connect(&mut self, link: LinkId) {
        self.origin = Origin::Connecting(link);
    }

    /// The connection is open; returns whether this was awaited.
    pub(super) fn connected(&mut self, link: LinkId, now: Instant) -> bool {
        let is_awaited = self.origin == Origin::Connecting(link);
        if is_awaited {
            (self.origin, self.last_heard) = (Origin::Source(link), now);
        }
        is_awaited
    }

    /// The files come from the parent from now on; returns the link to the source, if there is one.
    pub(super) fn leave(&mut self) -> Option<LinkId> {
        let link = self.link();
        self.origin = Origin::Parent;
        link
    }

    /// The link to the source, which may not be open yet.
    fn link(&self) -> Option<LinkId> {
        match self.origin {
            Origin::Connecting(link) | Origin::Source(link) => Some(link),
            Origin::Parent | Origin::Unasked | Origin::Asked => None,
        }
    }

    /// The open link to the source.
    pub(super) fn source(&self) -> Option<LinkId> {
        match self.origin {
            Origin::Source(link) => Some(link),
            Origin::Parent | Origin::Unasked | Origin::Asked | Origin::Connecting(_) => None,
        }
    }

    /// Whether this is a link of files.
    pub(super) fn has(&self, link: LinkId) -> bool {
        self.link() == Some(link) || self.clients.contains_key(&link)
    }

    /// Something has arrived on a link of files.
    pub(super) fn heard(&mut self, link: LinkId, now: Instant) {
        if self.source() == Some(link) {
            self.last_heard = now;
        }
    }

    /// The source, if it has been silent for longer than this.
    pub(super) fn silent_source(&self, limit: Duration, now: Instant) -> Option<LinkId> {
        self.source().filter(|_| now.since(self.last_heard) > limit)
    }

    /// This process was held up itself; the source was not silent.
    pub(super) fn forgive_silence(&mut self, held_up: Duration) {
        self.last_heard += held_up;
    }

    /// A host has connected that has until then to tell which it is.
    pub(super) fn add_client(&mut self, link: LinkId, deadline: Instant) {
        self.clients.insert(link, Client { deadline, watched: None });
    }

    /// A client has told its host.
    pub(super) fn watch(&mut self, link: LinkId, host: HostIndex) {
        if let Some(client) = self.clients.get_mut(&link) {
            client.watched = Some(host);
        }
    }

    /// A client has proved slow; returns its host the first time.
    pub(super) fn proved_slow(&mut self, link: LinkId) -> Option<HostIndex> {
        self.clients.get_mut(&link)?.watched.take()
    }

    /// Whether a host gets files from here over this link.
    pub(super) fn is_client(&self, link: LinkId) -> bool {
        self.clients.contains_key(&link)
    }

    /// A client has until then to confirm what it was sent.
    pub(super) fn set_deadline(&mut self, link: LinkId, by: Instant) {
        if let Some(client) = self.clients.get_mut(&link) {
            client.deadline = by;
        }
    }

    pub(super) fn remove_client(&mut self, link: LinkId) {
        self.clients.remove(&link);
    }

    /// The links of all clients.
    pub(super) fn clients(&self) -> impl Iterator<Item = LinkId> {
        self.clients.keys().copied()
    }

    /// The clients that are late.
    pub(super) fn late_clients(&self, now: Instant) -> Vec<LinkId> {
        self.clients.iter().filter(|(_, client)| client.deadline <= now).map(|(link, _)| *link).collect()
    }

    /// The next deadline of a client.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.clients.values().map(|client| client.deadline).min()
    }

    /// Ends all links of files, and returns them.
    pub(super) fn close(&mut self) -> Vec<LinkId> {
        self.held.clear();
        let clients = std::mem::take(&mut self.clients).into_keys();
        self.leave().into_iter().chain(clients).collect()
    }
}

#[cfg(test)]
mod tests {
    use libi_core::plan::late::Attempt;

    use super::*;

    const SOURCE: LinkId = LinkId(7);
    const CLIENT: LinkId = LinkId(8);

    fn request(host: u32) -> ChildMessage {
        ChildMessage::WantsSource(HostIndex(host), Attempt::default(), Vec::new())
    }

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn requests_of_hosts_below_follow_the_own_one() {
        let mut sources = Sources::default();
        sources.open();
        assert_eq!(sources.ask_for(LinkId(1), HostIndex(4), request(4)), None);
        assert_eq!(sources.ask_for(LinkId(2), HostIndex(5), request(5)), None);
        assert_eq!(sources.ask(), [request(4), request(5)]);
        assert_eq!(sources.ask_for(LinkId(2), HostIndex(6), request(6)), Some(request(6)));
        assert_eq!((sources.way_to(HostIndex(5)), sources.way_to(HostIndex(9))), (Some(LinkId(2)), None));
    }

    #[test]
    fn a_source_counts_from_its_connection_until_it_is_left() {
        let mut sources = Sources::default();
        sources.open();
        sources.ask();
        sources.connect(SOURCE);
        assert!(sources.has(SOURCE) && sources.source().is_none(), "it is not connected yet");
        assert!(!sources.connected(CLIENT, at(1)) && sources.connected(SOURCE, at(1)));
        assert_eq!((sources.source(), sources.connected(SOURCE, at(2))), (Some(SOURCE), false));
        assert_eq!(sources.leave(), Some(SOURCE));
        assert_eq!((sources.origin(), sources.has(SOURCE), sources.leave()), (Origin::Parent, false, None));
    }

    #[test]
    fn a_source_is_silent_when_nothing_was_heard_of_it_for_longer_than_the_limit() {
        let (mut sources, limit) = (Sources::default(), Duration::from_secs(20));
        sources.connect(SOURCE);
        sources.connected(SOURCE, at(5));
        sources.heard(CLIENT, at(20));
        assert_eq!(sources.silent_source(limit, at(25)), None);
        assert_eq!(sources.silent_source(limit, at(26)), Some(SOURCE));
        sources.forgive_silence(Duration::from_secs(1));
        assert_eq!(sources.silent_source(limit, at(26)), None);
        sources.heard(SOURCE, at(30));
        assert_eq!(sources.silent_source(limit, at(50)), None);
    }

    #[test]
    fn clients_are_late_when_their_deadline_has_come() {
        let mut sources = Sources::default();
        sources.add_client(CLIENT, at(30));
        assert_eq!(sources.next_deadline(), Some(at(30)));
        assert_eq!(sources.proved_slow(CLIENT), None, "it has not told its host");
        sources.watch(CLIENT, HostIndex(3));
        assert_eq!((sources.proved_slow(CLIENT), sources.proved_slow(CLIENT)), (Some(HostIndex(3)), None));
        sources.set_deadline(CLIENT, at(9));
        sources.set_deadline(SOURCE, at(1));
        assert_eq!((sources.next_deadline(), sources.late_clients(at(8))), (Some(at(9)), vec![]));
        assert_eq!(sources.late_clients(at(9)), [CLIENT]);
        sources.connect(SOURCE);
        assert_eq!(sources.close(), [SOURCE, CLIENT]);
        assert!(!sources.has(CLIENT) && !sources.has(SOURCE) && sources.next_deadline().is_none());
    }
}
