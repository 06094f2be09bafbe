//! Decides where the value of a key is stored, and how lookups find it.
//!
//! - **Servers and clients.** The leader of a host stores what is put there. The other members of
//!   the host put and look up through it, and the front end through the top.
//! - **Local values** stay where they were put. Every node between there and the top knows behind
//!   which link they are. A lookup goes up until a node knows the key, and from there down to the
//!   value. The top holds lookups that wait for a value until there is one.
//! - **Caching.** A node has one query in progress per key, however many lookups wait for it, and
//!   keeps the value. A host therefore sends one query and gets one value.
//! - **Order.** Of two values of a key, the one with the higher [`Version`] is the later one,
//!   everywhere. What a node knows may be old, but never older than the last fence: a fence names
//!   the keys that were put again, and nodes forget what is older. Puts of the same key between two
//!   fences, on hosts that do not know of each other's, are not ordered; one of them wins, the same
//!   for all members.

mod chunks;
mod fence;
mod lookup;
mod moves;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::GroupView;
use crate::contract::{CallId, Effect, KeyScope, Outcome};
use crate::error::CommError;
use crate::message::kvs::{KvsMessage, Query, Version};
use chunks::PartialValues;
use lookup::{PendingLookup, Requester};
use moves::MovingKeys;

/// The longest key in bytes.
const MAX_KEY: usize = 64 << 10;

/// What a node knows of a key.
#[derive(Clone, Debug)]
struct KeyEntry {
    version: Version,
    at: ValueLocation,
    /// Whether it is known above from this node, though the value is here: a copy of one below.
    is_copy_of_below: bool,
}

impl KeyEntry {
    const fn new(version: Version, at: ValueLocation) -> Self {
        Self { version, at, is_copy_of_below: false }
    }
}

/// Where a value is.
#[derive(Clone, Debug)]
enum ValueLocation {
    /// On this node: it was put on this host, came with a fence, or was looked up.
    Here(Bytes),
    /// Behind this link.
    Below(LinkId),
    /// It was below and is lost. Only the top remembers that.
    Gone,
}

/// Where a process stores and looks up keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KvsRole {
    /// In its own store.
    Server,
    /// In the store at the other end of this link.
    Client(Option<LinkId>),
}

fn kvs_role(view: &GroupView) -> KvsRole {
    let topology = &view.topology;
    if topology.local {
        KvsRole::Client(Some(LinkId::PARENT))
    } else if topology.is_front_end() && !topology.top {
        KvsRole::Client(topology.branches.first().map(|branch| branch.link))
    } else {
        KvsRole::Server
    }
}

/// The keys that a process knows.
#[derive(Debug, Default)]
pub(crate) struct KeyStore {
    entries: BTreeMap<String, KeyEntry>,
    /// Lookups in progress: first those that do not wait for a value, then those that do.
    lookups: [BTreeMap<String, PendingLookup>; 2],
    /// Queries that have overtaken a fence.
    early_queries: Vec<(LinkId, Query)>,
    /// How many queries have been sent from here.
    queries: u64,
    partial: PartialValues,
    /// How many fences have been passed here.
    fences: u64,
    /// The highest number of fences and the highest count of all versions seen.
    seen: (u64, u64),
    fence: fence::FenceState,
    /// The ranks that have stood for this host in versions.
    leaders: BTreeSet<Option<Rank>>,
    moving: Vec<MovingKeys>,
    /// The error of calls after the server has been lost.
    server_lost: Option<CommError>,
}

/// How many fences a process has passed, and the highest number of fences and the highest count of all
/// versions that it has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fences {
    passed: u64,
    seen: (u64, u64),
}

impl Fences {
    #[cfg(test)]
    pub(crate) const fn passed(&self) -> u64 {
        self.passed
    }
}

impl KeyStore {
    /// What a new process has to know.
    pub(crate) const fn fences(&self) -> Fences {
        Fences { passed: self.fences, seen: self.seen }
    }

    /// This process is new: the one above has come so far.
    pub(crate) fn begin_at(&mut self, Fences { passed, seen }: Fences) {
        (self.fences, self.seen) = (passed, seen);
    }

    /// Values leave the process as they are put, so it need not stay for them.
    #[allow(clippy::unused_self, reason = "the parts of a group have the same interface")]
    pub(crate) const fn is_idle(&self) -> bool {
        true
    }

    pub(crate) fn put(
        &mut self,
        id: CallId,
        key: String,
        value: Bytes,
        scope: KeyScope,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        let done = match (check_key(&key), kvs_role(view)) {
            (Err(error), _) => Err(error),
            (Ok(()), KvsRole::Server) => {
                self.store_value(key, value, scope, view, out);
                Ok(Outcome::Done)
            }
            (Ok(()), KvsRole::Client(Some(link))) if self.server_lost.is_none() => {
                let length = value.len() as u64;
                let put = KvsMessage::Put { key: key.clone(), scope, length };
                chunks::send(link, put, value, out);
                // Replies to earlier queries may have an older value.
                self.restart_query(&key, view, out);
                Ok(Outcome::Done)
            }
            (Ok(()), KvsRole::Client(_)) => Err(self.server_lost()),
        };
        out.push(Effect::Finish(id, done));
    }

    #[allow(clippy::needless_pass_by_value, reason = "calls own their keys")]
    pub(crate) fn get(
        &mut self,
        id: CallId,
        key: String,
        wait: bool,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        match check_key(&key) {
            Err(error) => out.push(Effect::Finish(id, Err(error))),
            Ok(()) => self.join(&key, wait, Requester::Call(id), view, out),
        }
    }

    /// Cancels a lookup. True if it is one of these.
    pub(crate) fn cancel(&mut self, id: CallId, _: &GroupView, out: &mut Vec<Effect>) -> bool {
        for wait in [false, true] {
            let mut open = self.lookups[usize::from(wait)].iter();
            let found = open.find(|(_, lookup)| lookup.requesters.contains(&Requester::Call(id)));
            if let Some(key) = found.map(|(key, _)| key.clone()) {
                self.cancel_query(&key, wait, Requester::Call(id), out);
                return true;
            }
        }
        false
    }

    pub(crate) fn on_frame(
        &mut self,
        link: LinkId,
        message: KvsMessage,
        payload: Bytes,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        let Some((message, value)) = self.partial.join(link, message, payload) else { return };
        if let KvsMessage::Reply { to, fences, reply, .. } = message {
            return self.on_reply(link, &to, fences, reply, &value, view, out);
        }
        if kvs_role(view) != KvsRole::Server {
            return;
        }
        // The front end asks the top from above, as members of a host ask their leader from below.
        let from_above = link == LinkId::PARENT && !view.topology.top;
        match message {
            KvsMessage::Put { key, scope, .. } if !from_above => {
                self.store_value(key, value, scope, view, out);
            }
            KvsMessage::Announce { key, version } if link != LinkId::PARENT => {
                self.announced(link, key, version, view, out);
            }
            KvsMessage::AnnounceAgain { key, version } if link != LinkId::PARENT => {
                self.announced_again(link, key, version, view, out);
            }
            KvsMessage::AnnouncedAll if link != LinkId::PARENT => self.announced_all(link, view, out),
            KvsMessage::Query(query) => self.on_query(link, query, view, out),
            KvsMessage::CancelQuery { key, wait } => {
                self.early_queries
                    .retain(|(from, early)| (*from, &early.key, early.wait) != (link, &key, wait));
                self.cancel_query(&key, wait, Requester::Link(link, 0), out);
            }
            KvsMessage::ValueLost { key, version } if link != LinkId::PARENT => {
                let at = self.entries.get(&key).filter(|entry| entry.version <= version);
                if at.is_some_and(|entry| entry.at == ValueLocation::Below(link)) {
                    self.value_lost(&key, view, out);
                    self.resolve(&key, view, out);
                }
            }
            KvsMessage::RaiseVersion { key, over } if from_above => self.raise_version(key, over, view, out),
            _ => {}
        }
    }

    /// A link is closed, and these ranks are lost with it.
    pub(crate) fn cut(&mut self, link: LinkId, ranks: &Ranks, view: &GroupView, out: &mut Vec<Effect>) {
        let way_up = match kvs_role(view) {
            KvsRole::Server if view.topology.top => None,
            KvsRole::Server => Some(LinkId::PARENT),
            KvsRole::Client(server) => server,
        };
        if way_up == Some(link) {
            self.server_lost =
                Some(if ranks.is_empty() { CommError::FrontEndLost } else { CommError::lost(ranks.clone()) });
        }
        self.partial.cut(link);
        self.early_queries.retain(|(from, ..)| *from != link);
        let behind = self.entries.iter().filter(|(_, entry)| entry.at == ValueLocation::Below(link));
        for key in behind.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.value_lost(&key, view, out);
        }
        self.link_lost(link, view, out);
        self.announced_all(link, view, out);
    }

    /// A value was put on this host.
    fn store_value(
        &mut self,
        key: String,
        value: Bytes,
        scope: KeyScope,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        let version = self.next_version(view);
        match scope {
            KeyScope::Replicated => self.fence.put(key.clone(), version, value.clone()),
            KeyScope::Local => self.fence.supersede(&key),
        }
        // Queries that this answers are cancelled before the announcement, so that none of them
        // returns from above.
        self.record(&key, version, ValueLocation::Here(value), view);
        self.resolve(&key, view, out);
        if scope == KeyScope::Local {
            self.notify_parent(KvsMessage::Announce { key, version }, view, out);
        }
    }

    fn announced(
        &mut self,
        link: LinkId,
        key: String,
        version: Version,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        if let Some(&KeyEntry { version: over, at: ValueLocation::Gone, .. }) = self.entries.get(&key) {
            // This host never saw the lost value, but a put after a loss must take effect.
            if version < over {
                chunks::send(link, KvsMessage::RaiseVersion { key, over }, Bytes::new(), out);
                return;
            }
        }
        self.record(&key, version, ValueLocation::Below(link), view);
        self.resolve(&key, view, out);
        self.notify_parent(KvsMessage::Announce { key, version }, view, out);
    }

    fn raise_version(&mut self, key: String, over: Version, view: &GroupView, out: &mut Vec<Effect>) {
        self.observe(over);
        let version = self.next_version(view);
        match self.entries.get_mut(&key) {
            Some(KeyEntry { at: ValueLocation::Below(link), .. }) => {
                chunks::send(*link, KvsMessage::RaiseVersion { key, over }, Bytes::new(), out);
            }
            Some(entry) if entry.version < over => {
                entry.version = version;
                self.notify_parent(KvsMessage::Announce { key, version }, view, out);
            }
            _ => {}
        }
    }

    /// A value below is lost.
    fn value_lost(&mut self, key: &str, view: &GroupView, out: &mut Vec<Effect>) {
        if view.topology.top {
            if let Some(entry) = self.entries.get_mut(key) {
                entry.at = ValueLocation::Gone;
            }
        } else if let Some((key, KeyEntry { version, .. })) = self.entries.remove_entry(key) {
            self.notify_parent(KvsMessage::ValueLost { key, version }, view, out);
        }
    }

    /// A value was put here or below.
    fn record(&mut self, key: &str, version: Version, at: ValueLocation, view: &GroupView) {
        self.observe(version);
        let before = self.entries.get(key);
        if view.topology.top && before.is_some() {
            self.fence.put_again(key);
        }
        if before.is_none_or(|entry| entry.version < version) {
            self.entries.insert(key.to_owned(), KeyEntry::new(version, at));
        }
    }

    fn observe(&mut self, version: Version) {
        self.seen = (self.seen.0.max(version.fences), self.seen.1.max(version.count));
    }

    fn next_version(&mut self, view: &GroupView) -> Version {
        self.seen = (self.seen.0.max(self.fences), self.seen.1.saturating_add(1));
        let leader = view.topology.host_rank();
        self.leaders.insert(leader);
        Version { fences: self.seen.0, count: self.seen.1, leader }
    }

    fn notify_parent(&self, message: KvsMessage, view: &GroupView, out: &mut Vec<Effect>) {
        if !view.topology.top && self.server_lost.is_none() {
            chunks::send(LinkId::PARENT, message, Bytes::new(), out);
        }
    }

    fn server_lost(&self) -> CommError {
        self.server_lost.clone().unwrap_or(CommError::FrontEndLost)
    }
}

impl PartialEq for ValueLocation {
    /// Whether both are the same place; values are not compared.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Below(one), Self::Below(other)) => one == other,
            (Self::Here(_), Self::Here(_)) | (Self::Gone, Self::Gone) => true,
            _ => false,
        }
    }
}

fn check_key(key: &str) -> Result<(), CommError> {
    let length = key.len();
    if length > MAX_KEY { Err(CommError::KeyTooLong { length, limit: MAX_KEY }) } else { Ok(()) }
}
