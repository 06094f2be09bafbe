//! One store, and what it sends to its neighbors.

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use super::lost;
use crate::contract::{CallId, Effect, KeyScope, Outcome};
use crate::error::CommError;
use crate::group::GroupView;
use crate::group::kvs::{KeyStore, MAX_KEY};
use crate::message::Message;
use crate::message::kvs::{KvsMessage, Query, Reply, Version};
use crate::{Branch, Topology};

use KeyScope::{Local, Replicated};

pub(super) fn view(topology: Topology) -> GroupView {
    GroupView { topology, ..GroupView::default() }
}

fn branch(link: u32, local: bool) -> Branch {
    Branch { link: LinkId(link), ranks: [Rank(link + 10)].into_iter().collect(), local }
}

pub(super) fn member(leader: bool, top: bool) -> Topology {
    let branches = if leader { vec![branch(1, true), branch(2, false)] } else { Vec::new() };
    Topology {
        me: Some(Rank(1)),
        size: 20,
        has_parent: true,
        local: !leader,
        top,
        branches,
        ..Topology::default()
    }
}

const BRANCH: LinkId = LinkId(2);

/// A leader with a member of its host and another host below.
struct Leader {
    store: KeyStore,
    view: GroupView,
}

/// What is sent, and the results of calls.
#[derive(Debug, PartialEq)]
enum Done {
    Sent(LinkId, KvsMessage),
    Found(u64, Option<Bytes>),
    Put(u64),
}

use Done::{Found, Put, Sent};

fn done(out: Vec<Effect>) -> Vec<Done> {
    let each = |effect| match effect {
        Effect::Send(link, frame) => match Message::decode(frame.concat()) {
            Some((Message::Kvs(message), _)) => Sent(link, message),
            other => panic!("{other:?}"),
        },
        Effect::Finish(id, Ok(Outcome::Found(value))) => Found(id.0, value),
        Effect::Finish(id, Ok(Outcome::Done)) => Put(id.0),
        other => panic!("{other:?}"),
    };
    out.into_iter().map(each).collect()
}

impl Leader {
    fn new() -> Self {
        Self { store: KeyStore::default(), view: view(member(true, false)) }
    }

    fn get(&mut self, id: u64) -> Vec<Done> {
        let mut out = Vec::new();
        self.store.get(CallId(id), "k".into(), true, &self.view, &mut out);
        done(out)
    }

    fn put(&mut self, id: u64, value: &'static str) -> Vec<Done> {
        let mut out = Vec::new();
        self.store.put(CallId(id), "k".into(), value.into(), Local, &self.view, &mut out);
        done(out)
    }

    fn receive(&mut self, link: LinkId, message: KvsMessage, payload: &'static str) -> Vec<Done> {
        let mut out = Vec::new();
        self.store.on_frame(link, message, payload.into(), &self.view, &mut out);
        done(out)
    }

    /// A fence that changes nothing.
    fn fence(&mut self) -> Vec<Done> {
        let mut out = Vec::new();
        let payload = Bytes::from(vec![self.store.fences as u8 + 1]);
        self.store.fence_down(0, payload, &self.view, &mut out).unwrap();
        done(out)
    }
}

fn query(nth: u64, fences: u64) -> Query {
    Query { key: "k".into(), wait: true, nth, fences }
}

fn ask(nth: u64, fences: u64) -> KvsMessage {
    KvsMessage::Query(query(nth, fences))
}

fn version(count: u64) -> Version {
    Version { fences: 0, count, leader: Some(Rank(9)) }
}

fn announce(count: u64) -> KvsMessage {
    KvsMessage::Announce { key: "k".into(), version: version(count) }
}

fn reply(nth: u64, fences: u64, reply: Reply, length: u64) -> KvsMessage {
    KvsMessage::Reply { to: query(nth, 0), fences, reply, length }
}

#[test]
fn a_reply_from_before_a_fence_answers_only_earlier_lookups() {
    let mut leader = Leader::new();
    assert_eq!(leader.get(1), [Sent(LinkId::PARENT, ask(1, 0))]);
    assert_eq!(leader.fence(), []);
    let old = reply(1, 0, Reply::Value(version(1)), 3);
    assert_eq!(leader.receive(LinkId::PARENT, old, "old"), [Found(1, Some("old".into()))]);
    assert_eq!(leader.get(2), [Sent(LinkId::PARENT, ask(2, 1))], "it is not kept");
    assert_eq!(leader.fence(), []);
    assert_eq!(leader.get(3), [], "the question is under way");
    let old = reply(2, 1, Reply::Value(version(1)), 3);
    assert_eq!(leader.receive(LinkId::PARENT, old, "old"), [Sent(LinkId::PARENT, ask(3, 2))]);
    let new = reply(3, 2, Reply::Value(version(2)), 3);
    let found = [Found(2, Some("new".into())), Found(3, Some("new".into()))];
    assert_eq!(leader.receive(LinkId::PARENT, new, "new"), found);
    assert_eq!(leader.get(4), [Found(4, Some("new".into()))]);
}

#[test]
fn a_query_that_overtakes_a_fence_waits_for_it() {
    let mut leader = Leader::new();
    leader.put(1, "v");
    assert_eq!(leader.receive(LinkId::PARENT, ask(5, 1), ""), []);
    let told = leader.fence();
    assert!(
        matches!(&told[..], [Sent(LinkId::PARENT, KvsMessage::Reply { to, fences: 1, .. })] if to.nth == 5),
        "{told:?}"
    );
}

#[test]
fn a_query_from_above_for_a_missing_value_is_answered_without_another_query() {
    let mut leader = Leader::new();
    let nothing = KvsMessage::Reply { to: query(5, 0), fences: 0, reply: Reply::NotFound, length: 0 };
    assert_eq!(leader.receive(LinkId::PARENT, ask(5, 0), ""), [Sent(LinkId::PARENT, nothing.clone())]);
    // Nor if the value was below and is lost there.
    leader.receive(BRANCH, announce(1), "");
    assert_eq!(leader.receive(LinkId::PARENT, ask(5, 0), ""), [Sent(BRANCH, ask(1, 0))]);
    assert_eq!(leader.receive(BRANCH, reply(1, 0, Reply::NotFound, 0), ""), [Sent(LinkId::PARENT, nothing)]);
}

#[test]
fn a_value_that_is_no_longer_below_is_looked_up_above() {
    let mut leader = Leader::new();
    leader.receive(BRANCH, announce(1), "");
    assert_eq!(leader.get(1), [Sent(BRANCH, ask(1, 0))]);
    let nothing = reply(1, 0, Reply::NotFound, 0);
    assert_eq!(leader.receive(BRANCH, nothing, ""), [Sent(LinkId::PARENT, ask(2, 0))]);
    leader.receive(BRANCH, KvsMessage::Announce { key: "l".into(), version: version(2) }, "");
    let other = Query { key: "l".into(), ..query(7, 0) };
    let up = Query { key: "l".into(), ..query(3, 0) };
    assert_eq!(
        leader.receive(BRANCH, KvsMessage::Query(other), ""),
        [Sent(LinkId::PARENT, KvsMessage::Query(up))],
        "a node that asks does not have the value"
    );
}

#[test]
fn a_put_is_later_than_all_earlier_announcements() {
    let mut leader = Leader::new();
    leader.receive(BRANCH, announce(1000), "");
    leader.put(1, "mine");
    assert_eq!(leader.get(2), [Found(2, Some("mine".into()))]);
}

#[test]
fn a_query_is_redirected_to_a_new_value_before_the_value_is_announced() {
    let mut leader = Leader::new();
    leader.get(1);
    let cancel_query = KvsMessage::CancelQuery { key: "k".into(), wait: true };
    assert_eq!(
        leader.receive(BRANCH, announce(1), ""),
        [Sent(LinkId::PARENT, cancel_query), Sent(BRANCH, ask(2, 0)), Sent(LinkId::PARENT, announce(1))]
    );
}

#[test]
fn lookups_fail_when_the_server_is_lost() {
    let mut out = Vec::new();
    let view = GroupView { topology: member(false, false), ..GroupView::default() };
    let mut store = KeyStore::default();
    store.get(CallId(1), "k".into(), true, &view, &mut out);
    out.clear();
    store.cut(LinkId::PARENT, &[Rank(7)].into_iter().collect(), &view, &mut out);
    assert!(matches!(&out[..], [Effect::Finish(CallId(1), result)] if *result == lost(7)), "{out:?}");
    out.clear();
    store.get(CallId(2), "k".into(), true, &view, &mut out);
    assert!(matches!(&out[..], [Effect::Finish(CallId(2), result)] if *result == lost(7)), "{out:?}");
}

#[test]
fn a_fence_that_ends_keeps_what_a_later_one_has_sent_upwards() {
    let leader = view(member(true, false));
    let (mut at_top, mut below, mut out) = (KeyStore::default(), KeyStore::default(), Vec::new());
    let top = view(Topology { top: true, branches: vec![branch(1, false)], ..member(true, false) });
    at_top.fence_from_below(1, below.fence_up(1)).unwrap();
    below.put(CallId(1), "k".into(), "v".into(), Replicated, &leader, &mut out);
    let _ = below.fence_up(2);
    below.fence_down(1, at_top.fence_decided(1), &leader, &mut out).unwrap();
    // The second is aborted.
    at_top.fence_from_below(3, below.fence_up(3)).unwrap();
    at_top.fence_decided(3);
    out.clear();
    at_top.get(CallId(2), "k".into(), false, &top, &mut out);
    let found = Ok(Outcome::Found(Some("v".into())));
    assert!(matches!(&out[..], [Effect::Finish(_, result)] if *result == found), "{out:?}");
}

#[test]
fn a_node_that_missed_a_fence_catches_up_with_the_next() {
    let leader = member(true, false);
    let top = Topology { top: true, branches: vec![branch(1, false)], ..member(true, false) };
    let (top, leader) = (view(top), view(leader));
    let (mut at_top, mut below, mut out) = (KeyStore::default(), KeyStore::default(), Vec::new());
    at_top.put(CallId(1), "old".into(), "v".into(), Replicated, &top, &mut out);
    below.put(CallId(1), "mine".into(), "w".into(), Replicated, &leader, &mut out);
    for round in 0..2 {
        out.clear();
        at_top.fence_from_below(0, below.fence_up(0)).unwrap();
        let payload = at_top.fence_decided(0);
        at_top.fence_down(0, payload.clone(), &top, &mut out).unwrap();
        if round == 1 {
            below.fence_down(0, payload, &leader, &mut out).unwrap();
        }
    }
    below.get(CallId(2), "old".into(), false, &leader, &mut out);
    at_top.get(CallId(3), "mine".into(), false, &top, &mut out);
    let found = |value: &'static str| Ok(Outcome::Found(Some(value.into())));
    assert!(
        matches!(&out[..], [Effect::Finish(_, one), Effect::Finish(_, other)]
            if *one == found("v") && *other == found("w")),
        "{out:?}"
    );
}

#[test]
fn a_key_that_is_too_long_is_refused() {
    let mut out = Vec::new();
    let long = "k".repeat(MAX_KEY + 1);
    KeyStore::default().put(CallId(1), long.clone(), Bytes::new(), Local, &GroupView::default(), &mut out);
    KeyStore::default().get(CallId(2), long, true, &GroupView::default(), &mut out);
    let refused = CommError::KeyTooLong { length: MAX_KEY + 1, limit: MAX_KEY };
    for effect in out {
        assert!(matches!(&effect, Effect::Finish(_, Err(error)) if *error == refused), "{effect:?}");
    }
}
