//! Processes in a tree whose links deliver in any order relative to each other.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use libi_core::sim::rng::Rng;

use crate::contract::{Address, CallId, Effect, Outcome};
use crate::error::CommError;
use crate::group::GroupView;
use crate::group::p2p::receive_queue::WINDOW;
use crate::group::p2p::send_queue::{EAGER_LIMIT, cost};
use crate::group::p2p::{Envelope, P2pMessage, PointToPoint};
use crate::message::Message;
use crate::{Branch, Topology};

pub(super) type CallResult = Result<Outcome, CommError>;

pub(super) struct Cluster {
    pub(super) rng: Rng,
    pub(super) nodes: Vec<Node>,
    pub(super) ended: BTreeMap<CallId, CallResult>,
    pub(super) calls: u64,
    /// By sender and receiver.
    links: BTreeMap<(usize, usize), VecDeque<Item>>,
    /// Bytes that are on their way: eager ones by sender and receiver, others by message.
    ahead: BTreeMap<(Address, Address), u64>,
    pulled: BTreeMap<(Address, Address, u64), u64>,
}

pub(super) struct Node {
    pub(super) p2p: PointToPoint,
    pub(super) view: GroupView,
    pub(super) alive: bool,
    parent: usize,
    neighbours: BTreeMap<LinkId, usize>,
}

enum Item {
    Frame(Bytes),
    /// These ranks are lost. `cut`: the sender of this is lost itself; otherwise it reports the
    /// loss.
    Lost {
        ranks: Ranks,
        cut: bool,
    },
}

impl Cluster {
    /// Node 0 is the front end. Parents and ranks are those of nodes 1 and up.
    pub(super) fn of(seed: u64, parents: &[usize], ranks: &[u32]) -> Self {
        let size = parents.len();
        let parents: Vec<usize> = [0].into_iter().chain(parents.iter().copied()).collect();
        let mut below: Vec<Ranks> = vec![Ranks::new(); size + 1];
        for node in (1..=size).rev() {
            below[node].add(Rank(ranks[node - 1]));
            let all = below[node].clone();
            below[parents[node]].add_all(&all);
        }
        let nodes = (0..=size).map(|node| {
            let children: Vec<usize> =
                (1..=size).filter(|child| *child != node && parents[*child] == node).collect();
            let link = |nth: usize| LinkId(nth as u32 + 1);
            let branch =
                |(nth, &child)| Branch { link: link(nth), ranks: Ranks::clone(&below[child]), local: false };
            let topology = Topology {
                me: node.checked_sub(1).map(|at| Rank(ranks[at])),
                size: size as u32,
                absent: Ranks::new(),
                has_parent: node > 0,
                top: node == 0,
                local: false,
                branches: children.iter().enumerate().map(branch).collect(),
                lost: Ranks::new(),
                joins: false,
            };
            let mut neighbours: BTreeMap<LinkId, usize> =
                children.iter().enumerate().map(|(nth, &child)| (link(nth), child)).collect();
            if node > 0 {
                neighbours.insert(LinkId::PARENT, parents[node]);
            }
            let view = GroupView::new(topology);
            Node { p2p: PointToPoint::default(), view, alive: true, parent: parents[node], neighbours }
        });
        Self {
            nodes: nodes.collect(),
            rng: Rng::new(seed),
            ended: BTreeMap::new(),
            calls: 0,
            links: BTreeMap::new(),
            ahead: BTreeMap::new(),
            pulled: BTreeMap::new(),
        }
    }

    /// A chain, a star, or anything in between, with ranks in random order.
    pub(super) fn random(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(1);
        let size = 2 + rng.below(7);
        let shape = rng.below(3);
        let parents: Vec<usize> = (0..size)
            .map(|above| match shape {
                0 => above as usize,
                1 => 0,
                _ => rng.below(above + 1) as usize,
            })
            .collect();
        let mut ranks: Vec<u32> = (0..size as u32).collect();
        for at in (1..ranks.len()).rev() {
            ranks.swap(at, rng.below(at as u64 + 1) as usize);
        }
        Self::of(seed, &parents, &ranks)
    }

    pub(super) fn address(&self, node: usize) -> Address {
        self.nodes[node].view.me()
    }

    /// A random number below this one.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound as u64) as usize
    }

    pub(super) fn send(&mut self, from: usize, to: usize, tag: u32, data: impl Into<Bytes>) -> CallId {
        self.send_to(from, self.address(to), tag, data.into())
    }

    pub(super) fn send_to(&mut self, from: usize, to: Address, tag: u32, data: Bytes) -> CallId {
        self.call(from, |node, call, out| node.p2p.send(call, to, tag, data, &node.view, out))
    }

    pub(super) fn receive(&mut self, at: usize, from: usize, tag: u32) -> CallId {
        let from = self.address(from);
        self.call(at, |node, call, out| node.p2p.receive(call, from, tag, &node.view, out))
    }

    pub(super) fn cancel(&mut self, at: usize, call: CallId) -> bool {
        let mut out = Vec::new();
        let node = &mut self.nodes[at];
        let ours = node.p2p.cancel(call, &node.view, &mut out);
        self.effects(at, out);
        ours
    }

    fn call(&mut self, at: usize, make: impl FnOnce(&mut Node, CallId, &mut Vec<Effect>)) -> CallId {
        self.calls += 1;
        let call = CallId(self.calls);
        let mut out = Vec::new();
        make(&mut self.nodes[at], call, &mut out);
        self.effects(at, out);
        call
    }

    /// The result of a call, which must have one.
    pub(super) fn outcome(&self, call: CallId) -> CallResult {
        self.ended.get(&call).cloned().expect("the call has ended")
    }

    pub(super) fn data(&self, call: CallId) -> Bytes {
        match self.outcome(call) {
            Ok(Outcome::Data(data)) => data,
            other => panic!("no data, but {other:?}"),
        }
    }

    /// Delivers something, if anything is on its way.
    pub(super) fn step(&mut self) -> bool {
        let busy: Vec<(usize, usize)> = self.links.keys().copied().collect();
        if busy.is_empty() {
            return false;
        }
        let (from, to) = busy[self.below(busy.len())];
        self.arrive(from, to);
        true
    }

    /// Delivers the next item between two nodes.
    pub(super) fn arrive(&mut self, from: usize, to: usize) {
        let queue = self.links.get_mut(&(from, to)).expect("something on its way");
        let item = queue.pop_front().expect("empty queues are removed");
        if queue.is_empty() {
            self.links.remove(&(from, to));
        }
        let node = &mut self.nodes[to];
        let link = *node.neighbours.iter().find(|(_, at)| **at == from).expect("a neighbour").0;
        let mut out = Vec::new();
        match item {
            Item::Frame(frame) => {
                let (envelope, payload) = decode(&frame);
                self.weigh(&envelope, payload.len(), false);
                let node = &mut self.nodes[to];
                node.p2p.on_frame(link, envelope, payload, &node.view, &mut out);
            }
            Item::Lost { ranks, cut } => {
                node.view.lost.add_all(&ranks);
                if cut {
                    node.view.routes.cut(link);
                }
                node.p2p.lost(&ranks, &node.view, &mut out);
                let others: Vec<usize> =
                    node.neighbours.values().copied().filter(|other| *other != from).collect();
                for other in others.into_iter().filter(|other| self.nodes[*other].alive) {
                    self.links
                        .entry((to, other))
                        .or_default()
                        .push_back(Item::Lost { ranks: ranks.clone(), cut: false });
                }
            }
        }
        self.effects(to, out);
    }

    /// Delivers everything.
    pub(super) fn settle(&mut self) {
        while self.step() {}
    }

    /// Kills a node and all below it, which loses some of the last frames that it has sent.
    pub(super) fn kill(&mut self, node: usize) {
        let mut ranks = Ranks::new();
        let mut below = vec![false; self.nodes.len()];
        for (at, me) in self.nodes.iter_mut().enumerate().skip(node) {
            below[at] = at == node || below[me.parent];
            if below[at] {
                me.alive = false;
                ranks.add(me.view.topology.me.expect("a member"));
            }
        }
        let parent = self.nodes[node].parent;
        let peers_lost: Vec<(usize, usize)> =
            self.links.keys().copied().filter(|link| below[link.0] || below[link.1]).collect();
        for link in peers_lost {
            let mut queue = self.links.remove(&link).unwrap_or_default();
            let left = if link == (node, parent) { self.below(queue.len() + 1) } else { 0 };
            for item in queue.split_off(left) {
                if let Item::Frame(frame) = item {
                    let (envelope, payload) = decode(&frame);
                    self.weigh(&envelope, payload.len(), false);
                }
            }
            if left > 0 {
                self.links.insert(link, queue);
            }
        }
        self.links.entry((node, parent)).or_default().push_back(Item::Lost { ranks, cut: true });
    }

    /// Delivers a message that its sender has not sent; both are neighbors.
    pub(super) fn forge(&mut self, from: usize, to: usize, message: P2pMessage, payload: Bytes) {
        self.forge_as(from, from, to, message, payload);
    }

    /// The same, in the name of another node.
    pub(super) fn forge_as(
        &mut self,
        name: usize,
        from: usize,
        to: usize,
        message: P2pMessage,
        payload: Bytes,
    ) {
        let envelope = Envelope { from: self.address(name), to: self.address(to), message };
        let node = &mut self.nodes[to];
        let link = *node.neighbours.iter().find(|(_, at)| **at == from).expect("a neighbour").0;
        let mut out = Vec::new();
        node.p2p.on_frame(link, envelope, payload, &node.view, &mut out);
        self.effects(to, out);
    }

    /// Whether anything is on its way between two nodes.
    pub(super) fn is_busy(&self, from: usize, to: usize) -> bool {
        self.links.contains_key(&(from, to))
    }

    /// How many bytes are on their way.
    pub(super) fn weight(&self) -> usize {
        let weigh = |item: &Item| if let Item::Frame(frame) = item { frame.len() } else { 0 };
        self.links.values().flatten().map(weigh).sum()
    }

    fn effects(&mut self, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(link, frame) => {
                    let to = self.nodes[at].neighbours[&link];
                    let frame = frame.concat();
                    assert!(frame.len() <= 128 << 10, "a frame of {} bytes", frame.len());
                    if self.nodes[to].alive {
                        let (envelope, payload) = decode(&frame);
                        self.weigh(&envelope, payload.len(), true);
                        self.links.entry((at, to)).or_default().push_back(Item::Frame(frame));
                    }
                }
                Effect::Finish(call, result) => {
                    assert!(self.ended.insert(call, result).is_none(), "{call:?} has ended twice");
                }
                effect => panic!("messages are no reason for {effect:?}"),
            }
        }
        assert!(self.nodes[at].p2p.receives.counts_right());
        for (node, from) in (0..self.nodes.len()).map(|node| (node, self.address(node))) {
            let p2p = &self.nodes[at].p2p;
            let ahead = self.ahead.get(&(from, self.address(at))).copied().unwrap_or(0);
            assert!(
                ahead + p2p.receives.buffered(from) <= EAGER_LIMIT,
                "too much unasked from {node} to {at}"
            );
        }
    }

    /// Counts bytes that are sent or delivered.
    fn weigh(&mut self, envelope: &Envelope, bytes: usize, on: bool) {
        let (weight, add) = match envelope.message {
            P2pMessage::Eager { .. } => {
                (self.ahead.entry((envelope.from, envelope.to)).or_default(), cost(bytes))
            }
            P2pMessage::Chunk { id, .. } => {
                (self.pulled.entry((envelope.from, envelope.to, id)).or_default(), bytes as u64)
            }
            _ => return,
        };
        *weight = if on { *weight + add } else { *weight - add };
        assert!(*weight <= WINDOW, "{weight} bytes are on their way");
    }
}

fn decode(frame: &Bytes) -> (Envelope, Bytes) {
    match Message::decode(frame.clone()) {
        Some((Message::P2p(envelope), payload)) => (envelope, payload),
        other => panic!("a frame of {other:?}"),
    }
}
