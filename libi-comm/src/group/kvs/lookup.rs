//! Decides where a node looks a key up, and which requesters get the reply.
//!
//! A node has at most one query in progress per key that waits for a value, and one that does not.
//! The reply is for all requesters of this node. Whenever something becomes known of a key, its
//! lookups are resolved again: answered, or redirected to where the value is now.

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::{KeyEntry, KeyStore, KvsRole, ValueLocation, chunks, kvs_role};
use crate::contract::{CallId, Effect, Outcome};
use crate::error::CommError;
use crate::group::GroupView;
use crate::message::kvs::{KvsMessage, Query, Reply};

/// A call or a node that waits for a reply.
#[derive(Clone, Copy, Debug)]
pub(super) enum Requester {
    Call(CallId),
    /// A node, and the number of its query.
    Link(LinkId, u64),
}

impl PartialEq for Requester {
    /// Whether it is the same requester, with any query.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Call(one), Self::Call(other)) => one == other,
            (Self::Link(one, _), Self::Link(other, _)) => one == other,
            _ => false,
        }
    }
}

/// The lookup of a key.
#[derive(Debug, Default)]
pub(super) struct PendingLookup {
    pub(super) requesters: Vec<Requester>,
    /// The node that was asked and has not replied, and the number of the query.
    sent_to: Option<(LinkId, u64)>,
    /// How many fences had been passed here at the last request: an older reply does not count.
    fences: u64,
}

/// How a lookup can continue.
enum Resolution {
    Reply(Reply, Bytes),
    Ask(LinkId),
    /// Wait for a value.
    Wait,
}

impl KeyStore {
    fn resolution(&self, key: &str, wait: bool, view: &GroupView) -> Resolution {
        let up = match kvs_role(view) {
            KvsRole::Client(link) => link,
            KvsRole::Server => match self.entries.get(key) {
                Some(entry) => match &entry.at {
                    ValueLocation::Here(value) if self.fence.is_unfenced(key, entry.version) => {
                        return Resolution::Reply(Reply::Unfenced(entry.version), value.clone());
                    }
                    ValueLocation::Here(value) => {
                        return Resolution::Reply(Reply::Value(entry.version), value.clone());
                    }
                    ValueLocation::Below(link) => return Resolution::Ask(*link),
                    ValueLocation::Gone => {
                        return Resolution::Reply(Reply::Lost(entry.version), Bytes::new());
                    }
                },
                None if !view.topology.top => Some(LinkId::PARENT),
                None if wait => return Resolution::Wait,
                None => return Resolution::Reply(Reply::NotFound, Bytes::new()),
            },
        };
        match up.filter(|_| self.server_lost.is_none()) {
            Some(link) => Resolution::Ask(link),
            None => Resolution::Reply(Reply::Unreachable, Bytes::new()),
        }
    }

    /// A query has arrived over a link.
    pub(super) fn on_query(&mut self, link: LinkId, query: Query, view: &GroupView, out: &mut Vec<Effect>) {
        if query.fences > self.fences {
            self.early_queries.push((link, query));
            return;
        }
        let Query { key, wait, nth, .. } = query;
        // Its sender has announced what it had; if it asks, it has the value no longer.
        self.forget_below(link, &key);
        self.join(&key, wait, Requester::Link(link, nth), view, out);
    }

    pub(super) fn join(
        &mut self,
        key: &str,
        wait: bool,
        requester: Requester,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        let lookup = self.lookups[usize::from(wait)].entry(key.to_owned()).or_default();
        lookup.fences = self.fences;
        match lookup.requesters.iter_mut().find(|one| **one == requester) {
            Some(one) => *one = requester,
            None => lookup.requesters.push(requester),
        }
        self.resolve(key, view, out);
    }

    /// Continues the lookups of this key as far as possible.
    pub(super) fn resolve(&mut self, key: &str, view: &GroupView, out: &mut Vec<Effect>) {
        for wait in [false, true] {
            let Some((key, mut lookup)) = self.lookups[usize::from(wait)].remove_entry(key) else { continue };
            let resolution = self.resolution(&key, wait, view);
            let next = if let Resolution::Ask(link) = resolution { Some(link) } else { None };
            if next == Some(LinkId::PARENT) {
                // The parent has asked because the value was below.
                let parent = lookup
                    .requesters
                    .iter()
                    .position(|&requester| requester == Requester::Link(LinkId::PARENT, 0));
                if let Some(at) = parent {
                    let requester = lookup.requesters.swap_remove(at);
                    self.send_reply(requester, &key, wait, self.fences, Reply::NotFound, &Bytes::new(), out);
                }
            }
            self.redirect(&key, wait, &mut lookup, next, out);
            if let Resolution::Reply(reply, value) = resolution {
                for requester in lookup.requesters {
                    self.send_reply(requester, &key, wait, self.fences, reply, &value, out);
                }
            } else if !lookup.requesters.is_empty() {
                self.lookups[usize::from(wait)].insert(key, lookup);
            }
        }
    }

    /// Sends the query to `next`, and cancels it elsewhere.
    fn redirect(
        &mut self,
        key: &str,
        wait: bool,
        lookup: &mut PendingLookup,
        next: Option<LinkId>,
        out: &mut Vec<Effect>,
    ) {
        let next = next.filter(|_| !lookup.requesters.is_empty());
        let now = lookup.sent_to.map(|(link, _)| link);
        if now == next {
            return;
        }
        if let Some(link) = now {
            chunks::send(link, KvsMessage::CancelQuery { key: key.to_owned(), wait }, Bytes::new(), out);
        }
        lookup.sent_to = next.map(|link| {
            self.queries = self.queries.wrapping_add(1);
            let nth = self.queries;
            let query = Query { key: key.to_owned(), wait, nth, fences: self.fences };
            chunks::send(link, KvsMessage::Query(query), Bytes::new(), out);
            (link, nth)
        });
    }

    /// The keys of which lookups were sent over a link.
    pub(super) fn asked(&self, link: LinkId) -> Vec<String> {
        let sent = |lookup: &PendingLookup| lookup.sent_to.is_some_and(|(to, _)| to == link);
        let open = self.lookups.iter().flatten();
        open.filter(|(_, lookup)| sent(lookup)).map(|(key, _)| key.clone()).collect()
    }

    /// Sends the queries for a key again; replies on their way no longer count.
    pub(super) fn restart_query(&mut self, key: &str, view: &GroupView, out: &mut Vec<Effect>) {
        for open in &mut self.lookups {
            if let Some(lookup) = open.get_mut(key) {
                lookup.sent_to = None;
            }
        }
        self.resolve(key, view, out);
    }

    /// A reply has arrived.
    #[allow(clippy::too_many_arguments, reason = "these are the parts of a reply")]
    pub(super) fn on_reply(
        &mut self,
        link: LinkId,
        query: &Query,
        fences: u64,
        reply: Reply,
        value: &Bytes,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        let Query { key, wait, nth, .. } = query;
        let open = &mut self.lookups[usize::from(*wait)];
        let Some(lookup) = open.get_mut(key).filter(|lookup| lookup.sent_to == Some((link, *nth))) else {
            return;
        };
        lookup.sent_to = None;
        let too_old = fences < lookup.fences;
        let serves = kvs_role(view) == KvsRole::Server;
        let not_there = serves && link != LinkId::PARENT && reply == Reply::NotFound;
        if not_there || too_old {
            if not_there {
                self.forget_below(link, key);
            }
            return self.resolve(key, view, out);
        }
        let requesters = open.remove(key).map(|lookup| lookup.requesters).unwrap_or_default();
        if let Reply::Value(version) | Reply::Unfenced(version) | Reply::Lost(version) = reply {
            self.observe(version);
        }
        if let Reply::Value(version) = reply
            && serves
            && fences >= self.fences
            && self.entries.get(key).is_none_or(|entry| entry.version <= version)
        {
            let mut entry = KeyEntry::new(version, ValueLocation::Here(value.clone()));
            entry.is_copy_of_below = link != LinkId::PARENT;
            self.entries.insert(key.clone(), entry);
        }
        for requester in requesters {
            self.send_reply(requester, key, *wait, fences, reply, value, out);
        }
        self.resolve(key, view, out);
    }

    #[allow(clippy::too_many_arguments, reason = "these are the parts of a reply")]
    fn send_reply(
        &self,
        requester: Requester,
        key: &str,
        wait: bool,
        fences: u64,
        reply: Reply,
        value: &Bytes,
        out: &mut Vec<Effect>,
    ) {
        match requester {
            Requester::Link(link, nth) => {
                let to = Query { key: key.to_owned(), wait, nth, fences };
                let message = KvsMessage::Reply { to, fences, reply, length: value.len() as u64 };
                chunks::send(link, message, value.clone(), out);
            }
            Requester::Call(id) => out.push(Effect::Finish(
                id,
                match reply {
                    Reply::Value(_) | Reply::Unfenced(_) => Ok(Outcome::Found(Some(value.clone()))),
                    Reply::NotFound => Ok(Outcome::Found(None)),
                    Reply::Lost(version) => Err(version.leader.map_or(CommError::FrontEndLost, |rank| {
                        CommError::lost([rank].into_iter().collect())
                    })),
                    Reply::Unreachable => Err(self.server_lost()),
                },
            )),
        }
    }

    fn forget_below(&mut self, link: LinkId, key: &str) {
        if self.entries.get(key).is_some_and(|entry| entry.at == ValueLocation::Below(link)) {
            self.entries.remove(key);
        }
    }

    /// A requester does not need its reply any more.
    pub(super) fn cancel_query(
        &mut self,
        key: &str,
        wait: bool,
        requester: Requester,
        out: &mut Vec<Effect>,
    ) {
        let open = &mut self.lookups[usize::from(wait)];
        let Some(lookup) = open.get_mut(key) else { return };
        lookup.requesters.retain(|&one| one != requester);
        if lookup.requesters.is_empty() {
            if let Some((link, _)) = lookup.sent_to {
                chunks::send(link, KvsMessage::CancelQuery { key: key.to_owned(), wait }, Bytes::new(), out);
            }
            open.remove(key);
        }
    }

    /// The link is closed: no queries and no replies pass over it.
    pub(super) fn link_lost(&mut self, link: LinkId, view: &GroupView, out: &mut Vec<Effect>) {
        let requester = Requester::Link(link, 0);
        let (mut unanswered, mut unasked) = (Vec::new(), Vec::new());
        for (open, wait) in self.lookups.iter_mut().zip([false, true]) {
            for (key, lookup) in open {
                if lookup.sent_to.is_some_and(|(asked, _)| asked == link) {
                    lookup.sent_to = None;
                    unanswered.push(key.clone());
                }
                if lookup.requesters.contains(&requester) {
                    unasked.push((key.clone(), wait));
                }
            }
        }
        for (key, wait) in unasked {
            self.cancel_query(&key, wait, requester, out);
        }
        for key in unanswered {
            self.resolve(&key, view, out);
        }
    }
}
