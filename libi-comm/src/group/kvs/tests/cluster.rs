//! A session in memory: the stores of a random tree, links that keep the order of their frames, and
//! fences as a group runs them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;

use crate::contract::{CallId, Effect, Frame, KeyScope, Outcome};
use crate::error::CommError;
use crate::group::GroupView;
use crate::group::kvs::{KeyStore, KvsMessage, KvsRole, kvs_role};
use crate::message::Message;
use crate::routes::Routes;
use crate::{Branch, Topology};

/// Reproducible random numbers.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }

    pub(super) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Runs a test with many seeds from `LIBI_SEED_BASE` on, or with the one in `LIBI_SEEDS`, and prints
/// the seed that fails.
pub(super) fn with_seeds(count: u64, test: impl Fn(u64)) {
    struct Told(u64);
    impl Drop for Told {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("failed with LIBI_SEEDS={}", self.0);
            }
        }
    }
    let number = |variable| std::env::var(variable).ok().and_then(|seed| seed.parse::<u64>().ok());
    let (one, base) = (number("LIBI_SEEDS"), number("LIBI_SEED_BASE").unwrap_or(0));
    for seed in one.map_or(base..base + count, |one| one..one + 1) {
        let told = Told(seed);
        test(seed);
        drop(told);
    }
}

/// Each host's parent by index, and its number of processes. Without a parent: below the front end.
pub(super) type Shape = Vec<(Option<usize>, usize)>;

pub(super) fn random_shape(rng: &mut Rng) -> Shape {
    let hosts = 1 + rng.below(9);
    let under = |host: usize, rng: &mut Rng| {
        (host > 0 && rng.percent(85)).then(|| host.saturating_sub(1 + rng.below(3)))
    };
    (0..hosts).map(|host| (under(host, rng), 1 + rng.below(4))).collect()
}

#[derive(Debug)]
enum Packet {
    Frame(Bytes),
    Up(Bytes),
    ParentMessage(Bytes),
}

pub(super) struct Node {
    pub(super) store: KeyStore,
    pub(super) view: GroupView,
    /// For each link, the node at the other end and the number of the link there; the parent's is
    /// first.
    ends: BTreeMap<LinkId, (usize, LinkId)>,
    entered: bool,
    come: Ranks,
    /// How many fences its program has passed.
    pub(super) passed: u64,
    pub(super) dead: bool,
}

impl Node {
    pub(super) fn is_server(&self) -> bool {
        kvs_role(&self.view) == KvsRole::Server
    }
}

pub(super) struct Cluster {
    pub(super) nodes: Vec<Node>,
    /// What is on its way, by sender and link.
    wires: BTreeMap<(usize, LinkId), VecDeque<Packet>>,
    /// Frames of fences that are held back; frames about keys overtake them.
    held: BTreeMap<(usize, LinkId), VecDeque<Packet>>,
    /// Slow links, by sender.
    slow: BTreeSet<(usize, LinkId)>,
    pub(super) rng: Rng,
    calls: u64,
    pub(super) results: BTreeMap<CallId, Result<Outcome, CommError>>,
    /// What has been sent: sender, receiver, message.
    pub(super) sent: Vec<(usize, usize, KvsMessage)>,
    /// The number of messages of fences, by sender and receiver.
    pub(super) fence_messages: BTreeMap<(usize, usize), usize>,
}

impl Cluster {
    /// The front end is node 0. [`leader`](Self::leader) gives the leader of a host; its members
    /// follow.
    pub(super) fn new(shape: &Shape, seed: u64) -> Self {
        let mut leaders = Vec::new();
        let mut parents = vec![0];
        for &(parent, processes) in shape {
            leaders.push(parents.len());
            let above = parent.map_or(0, |host| leaders[host]);
            parents.push(above);
            parents.extend(std::iter::repeat_n(leaders[leaders.len() - 1], processes - 1));
        }
        let size = parents.len() - 1;
        let below_front_end = (1..=size).filter(|&node| parents[node] == 0).count();
        let mut ranks: Vec<Ranks> = (0..=size)
            .map(|node| node.checked_sub(1).map(|rank| Rank(rank as u32)).into_iter().collect())
            .collect();
        for node in (1..=size).rev() {
            let below = ranks[node].clone();
            ranks[parents[node]].add_all(&below);
        }
        let mut nodes: Vec<Node> = (0..=size)
            .map(|node| {
                let topology = Topology {
                    me: node.checked_sub(1).map(|rank| Rank(rank as u32)),
                    size: size as u32,
                    has_parent: node > 0,
                    local: node > 0 && !leaders.contains(&node),
                    top: if node == 0 { below_front_end > 1 } else { node == 1 && below_front_end == 1 },
                    ..Topology::default()
                };
                Node {
                    store: KeyStore::default(),
                    view: GroupView { topology, ..GroupView::default() },
                    ends: BTreeMap::new(),
                    entered: false,
                    come: Ranks::new(),
                    passed: 0,
                    dead: false,
                }
            })
            .collect();
        for node in 1..=size {
            let parent = parents[node];
            let local = nodes[node].view.topology.local;
            let branches = &mut nodes[parent].view.topology.branches;
            let link = LinkId(branches.len() as u32 + 1);
            branches.push(Branch { link, ranks: ranks[node].clone(), local });
            nodes[parent].ends.insert(link, (node, LinkId::PARENT));
            nodes[node].ends.insert(LinkId::PARENT, (parent, link));
        }
        for node in &mut nodes {
            node.view.routes = Routes::new(&node.view.topology);
        }
        let mut rng = Rng(seed);
        let share = rng.below(60);
        let wires = nodes.iter().enumerate();
        let wires = wires.flat_map(|(at, node)| node.ends.keys().map(move |&link| (at, link)));
        let slow = wires.filter(|_| rng.percent(share)).collect();
        Self {
            nodes,
            wires: BTreeMap::new(),
            held: BTreeMap::new(),
            slow,
            rng,
            calls: 0,
            results: BTreeMap::new(),
            sent: Vec::new(),
            fence_messages: BTreeMap::new(),
        }
    }

    /// All members that are alive, and the front end if it is the top.
    pub(super) fn members(&self) -> Vec<usize> {
        let front_end = usize::from(!self.nodes[0].view.topology.top);
        (front_end..self.nodes.len()).filter(|&node| !self.nodes[node].dead).collect()
    }

    pub(super) fn leader(&self, host: usize) -> usize {
        let leaders = (1..self.nodes.len()).filter(|&node| !self.nodes[node].view.topology.local);
        leaders.collect::<Vec<_>>()[host]
    }

    pub(super) fn put(&mut self, node: usize, key: &str, value: impl Into<Bytes>, scope: KeyScope) {
        let (id, mut out) = (self.call(), Vec::new());
        let Node { store, view, .. } = &mut self.nodes[node];
        store.put(id, key.into(), value.into(), scope, view, &mut out);
        self.carry_out(node, out);
        assert_eq!(self.results.remove(&id), Some(Ok(Outcome::Done)), "a put does not wait");
    }

    pub(super) fn get(&mut self, node: usize, key: &str, wait: bool) -> CallId {
        let (id, mut out) = (self.call(), Vec::new());
        let Node { store, view, .. } = &mut self.nodes[node];
        store.get(id, key.into(), wait, view, &mut out);
        self.carry_out(node, out);
        id
    }

    pub(super) fn cancel(&mut self, node: usize, id: CallId) -> bool {
        let mut out = Vec::new();
        let Node { store, view, .. } = &mut self.nodes[node];
        let entry = store.cancel(id, view, &mut out);
        self.carry_out(node, out);
        entry
    }

    fn call(&mut self) -> CallId {
        self.calls += 1;
        CallId(self.calls)
    }

    /// A member enters a fence.
    pub(super) fn enter(&mut self, node: usize) {
        assert!(!std::mem::replace(&mut self.nodes[node].entered, true));
        self.fence(node);
    }

    pub(super) fn in_fence(&self, node: usize) -> bool {
        self.nodes[node].entered
    }

    /// All members that are alive enter a fence, and pass it.
    pub(super) fn fence_all(&mut self) {
        // Some members may have entered this fence before others have passed the last.
        self.drain();
        for node in self.members() {
            if node > 0 && !self.in_fence(node) {
                self.enter(node);
            }
        }
        self.drain();
        assert!(self.members().iter().all(|&node| !self.in_fence(node)), "a fence is stuck");
    }

    fn fence(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let branches = &node.view.topology.branches;
        let top = node.view.topology.top;
        if (at > 0 && !node.entered) || node.come.len() < branches.len() {
            return;
        }
        node.come = Ranks::new();
        if top {
            let payload = node.store.fence_decided(0);
            self.pass(at, &payload);
        } else {
            let payload = node.store.fence_up(0);
            self.hold(at, LinkId::PARENT, Packet::Up(payload));
        }
    }

    fn pass(&mut self, at: usize, payload: &Bytes) {
        let mut out = Vec::new();
        let node = &mut self.nodes[at];
        node.store.fence_down(0, payload.clone(), &node.view, &mut out).unwrap();
        node.entered = false;
        node.passed += 1;
        for branch in node.view.topology.branches.clone() {
            self.hold(at, branch.link, Packet::ParentMessage(KeyStore::payload_for(branch.local, payload)));
        }
        self.carry_out(at, out);
    }

    fn hold(&mut self, from: usize, link: LinkId, packet: Packet) {
        *self.fence_messages.entry((from, self.nodes[from].ends[&link].0)).or_default() += 1;
        self.held.entry((from, link)).or_default().push_back(packet);
    }

    fn carry_out(&mut self, from: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(link, frame) => self.send(from, link, &frame),
                Effect::Finish(id, result) => {
                    assert!(self.results.insert(id, result).is_none(), "{id:?} has ended twice");
                }
                effect => panic!("keys are no reason for {effect:?}"),
            }
        }
    }

    fn send(&mut self, from: usize, link: LinkId, frame: &Frame) {
        assert!(frame.len() <= 256 << 10, "a frame of {} bytes", frame.len());
        let bytes = frame.concat();
        let Some((Message::Kvs(message), _)) = Message::decode(bytes.clone()) else { panic!("no message") };
        let Some(&(to, _)) = self.nodes[from].ends.get(&link) else { panic!("{message:?} is sent nowhere") };
        self.sent.push((from, to, message));
        if !self.nodes[to].dead {
            self.wires.entry((from, link)).or_default().push_back(Packet::Frame(bytes));
        }
    }

    /// Delivers something. False if nothing is on its way.
    pub(super) fn step(&mut self) -> bool {
        let (wires, held) = (self.wires.len(), self.held.len());
        if wires + held == 0 {
            return false;
        }
        let (mut nth, mut from, mut link) = (0, 0, LinkId::PARENT);
        for _ in 0..20 {
            nth = self.rng.below(wires + held);
            let mut queues = self.wires.keys().chain(self.held.keys());
            let Some(&queue) = queues.nth(nth) else { return false };
            (from, link) = queue;
            if !self.slow.contains(&queue) {
                break;
            }
        }
        let queues = if nth < wires { &mut self.wires } else { &mut self.held };
        let packet = queues.get_mut(&(from, link)).and_then(VecDeque::pop_front);
        queues.retain(|_, queue| !queue.is_empty());
        let Some(packet) = packet else { return true };
        if nth >= wires {
            self.wires.entry((from, link)).or_default().push_back(packet);
            return true;
        }
        let (to, link) = self.nodes[from].ends[&link];
        let mut out = Vec::new();
        let node = &mut self.nodes[to];
        match packet {
            Packet::Frame(frame) => {
                let Some((Message::Kvs(message), payload)) = Message::decode(frame) else {
                    panic!("no message")
                };
                node.store.on_frame(link, message, payload, &node.view, &mut out);
                self.carry_out(to, out);
            }
            Packet::Up(payload) => {
                node.store.fence_from_below(0, payload).unwrap();
                node.come.add(Rank(link.0));
                self.fence(to);
            }
            Packet::ParentMessage(payload) => self.pass(to, &payload),
        }
        true
    }

    pub(super) fn drain(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 1_000_000, "it never ends");
        }
    }

    /// Kills a process and all below it, outside of fences. Its parent sees the loss.
    pub(super) fn kill(&mut self, victim: usize) {
        let (parent, link) = self.nodes[victim].ends[&LinkId::PARENT];
        let mut dead = vec![victim];
        while let Some(node) = dead.pop() {
            self.nodes[node].dead = true;
            let ends = self.nodes[node].ends.clone();
            dead.extend(ends.into_iter().filter(|&(link, _)| link != LinkId::PARENT).map(|(_, (to, _))| to));
        }
        let nodes = &self.nodes;
        self.wires.retain(|&(from, link), _| !nodes[from].dead && !nodes[nodes[from].ends[&link].0].dead);
        let mut out = Vec::new();
        let node = &mut self.nodes[parent];
        let branches = &mut node.view.topology.branches;
        let at = branches.iter().position(|branch| branch.link == link).unwrap();
        let ranks = branches.remove(at).ranks;
        node.view.lost.add_all(&ranks);
        node.ends.remove(&link);
        node.store.cut(link, &ranks, &node.view, &mut out);
        self.carry_out(parent, out);
    }

    pub(super) fn found(&self, id: CallId) -> Option<Bytes> {
        match self.results.get(&id) {
            Some(Ok(Outcome::Found(value))) => value.clone(),
            other => panic!("{id:?} has come to {other:?}"),
        }
    }

    /// No lookup and no query is left anywhere.
    pub(super) fn assert_no_queries(&self) {
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| !node.dead) {
            let store = &node.store;
            assert!(store.lookups.iter().all(BTreeMap::is_empty), "node {at}: {:?}", store.lookups);
            assert!(store.early_queries.is_empty() && store.partial.is_empty(), "node {at}");
            assert!(node.is_server() || store.entries.is_empty(), "node {at} is no keeper");
        }
    }

    pub(super) fn count(&self, from: usize, to: usize, which: impl Fn(&KvsMessage) -> bool) -> usize {
        self.sent.iter().filter(|(a, b, message)| (*a, *b) == (from, to) && which(message)).count()
    }
}
