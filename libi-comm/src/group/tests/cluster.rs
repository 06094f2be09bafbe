//! Groups connected by queues.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::machine::Machine;
use libi_core::ranks::Ranks;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;

use crate::contract::{Call, CallId, Completion, Effect, Event, Outcome};
use crate::error::CommError;
use crate::group::Group;
use crate::memory::{Region, SealedRegion, SharedMemory};
use crate::message::Message;
use crate::{Branch, Topology};

/// What is on its way over a link.
pub(super) enum Carried {
    Frame(Bytes),
    Region(Bytes),
}

impl Carried {
    pub(super) fn arrive(self, link: LinkId) -> Event {
        match self {
            Self::Frame(frame) => Event::Frame(link, frame),
            Self::Region(bytes) => Event::Region(link, bytes),
        }
    }
}

/// Members in a tree in which `parent` names each one's parent. The front end is above rank 0.
pub(super) struct Cluster {
    pub(super) groups: Vec<Group>,
    /// What is on its way, by sender and receiver; the front end is the last.
    pub(super) wires: BTreeMap<(usize, usize), VecDeque<Carried>>,
    links: BTreeMap<(usize, LinkId), usize>,
    pub(super) back: BTreeMap<(usize, usize), LinkId>,
    pub(super) results: BTreeMap<CallId, Result<Outcome, CommError>>,
    rng: Rng,
    pub(super) frames: BTreeMap<(usize, usize), usize>,
    calls: u64,
    pub(super) lent: usize,
    /// Which members were told that their parent has everything.
    pub(super) confirmed: Vec<(usize, u64)>,
    now: Instant,
    pub(super) completion: Completion,
    /// When members are to be woken.
    wakes: BTreeMap<usize, Instant>,
}

impl Cluster {
    pub(super) fn new(size: usize, seed: u64, parent: impl Fn(usize) -> usize) -> Self {
        Self::with_hosts(size, seed, parent, |_| false)
    }

    /// The same; `local` says which members are on the host of their parent.
    pub(super) fn with_hosts(
        size: usize,
        seed: u64,
        parent: impl Fn(usize) -> usize,
        local: impl Fn(usize) -> bool,
    ) -> Self {
        Self::with_completion(Completion::default(), size, seed, parent, local)
    }

    pub(super) fn with_completion(
        completion: Completion,
        size: usize,
        seed: u64,
        parent: impl Fn(usize) -> usize,
        local: impl Fn(usize) -> bool,
    ) -> Self {
        let mut below: Vec<Ranks> = (0..size).map(|rank| [Rank(rank as u32)].into_iter().collect()).collect();
        for rank in (1..size).rev() {
            let ranks = below[rank].clone();
            below[parent(rank)].add_all(&ranks);
        }
        let mut cluster = Self {
            groups: (0..=size).map(|_| Group::with_memory(Box::new(Heap))).collect(),
            wires: BTreeMap::new(),
            links: BTreeMap::new(),
            back: BTreeMap::new(),
            results: BTreeMap::new(),
            rng: Rng::new(seed),
            frames: BTreeMap::new(),
            calls: 0,
            lent: 0,
            confirmed: Vec::new(),
            now: Instant::ZERO,
            completion,
            wakes: BTreeMap::new(),
        };
        let mut topologies: Vec<_> = (0..=size)
            .map(|who| Topology {
                me: (who < size).then_some(Rank(who as u32)),
                size: size as u32,
                has_parent: who < size,
                top: who == 0,
                local: who < size && local(who),
                ..Topology::default()
            })
            .collect();
        for (rank, ranks) in below.into_iter().enumerate() {
            let above = if rank == 0 { size } else { parent(rank) };
            let link = LinkId(topologies[above].branches.len() as u32 + 1);
            topologies[above].branches.push(Branch { link, ranks, local: local(rank) });
            cluster.links.extend([((above, link), rank), ((rank, LinkId::PARENT), above)]);
            cluster.back.extend([((above, rank), link), ((rank, above), LinkId::PARENT)]);
        }
        cluster.groups.iter_mut().for_each(|group| group.complete_by(completion));
        for (who, topology) in topologies.into_iter().enumerate() {
            cluster.tell(who, Event::Up(topology));
        }
        cluster
    }

    pub(super) fn tell(&mut self, who: usize, event: Event) {
        let mut effects = Vec::new();
        self.groups[who].on(event, self.now, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send(link, frame) => {
                    let to = self.links[&(who, link)];
                    let frame = frame.concat();
                    // Some messages are of many calls.
                    let message = Message::decode(frame.clone()).map(|(message, _)| message);
                    if !matches!(message, Some(Message::Over { .. } | Message::Eager { .. })) {
                        *self.frames.entry((who, to)).or_default() += 1;
                    }
                    let wire = self.wires.entry((who, to)).or_default();
                    wire.push_back(Carried::Frame(frame));
                }
                Effect::SendRegion(link, frame, lent) => {
                    let to = self.links[&(who, link)];
                    self.lent += 1;
                    let wire = self.wires.entry((who, to)).or_default();
                    wire.extend([Carried::Region(lent.bytes), Carried::Frame(frame.concat())]);
                }
                Effect::Finish(id, result) => {
                    assert!(self.results.insert(id, result).is_none(), "{id:?} is over twice");
                }
                Effect::Lost(..)
                | Effect::Missing(..)
                | Effect::Grown { .. }
                | Effect::Joined(..)
                | Effect::Master(_)
                | Effect::Begins(_) => {}
                Effect::Confirmed(number) => self.confirmed.push((who, number)),
                Effect::WakeAt(at) => drop(self.wakes.insert(who, at)),
            }
        }
    }

    /// Makes a call.
    pub(super) fn call(&mut self, who: usize, call: Call) -> CallId {
        self.calls += 1;
        let id = CallId(self.calls);
        self.tell(who, Event::Call(id, call));
        id
    }

    /// Delivers everything, and lets time pass, until nothing more happens.
    pub(super) fn run(&mut self) {
        loop {
            self.deliver();
            let Some((&who, &at)) = self.wakes.iter().min_by_key(|(_, at)| **at) else { return };
            self.wakes.remove(&who);
            self.now = self.now.max(at);
            self.tell(who, Event::Woken);
        }
    }

    /// Delivers everything, in a random order that keeps that of each link.
    pub(super) fn deliver(&mut self) {
        loop {
            let ready: Vec<_> =
                self.wires.iter().filter(|(_, wire)| !wire.is_empty()).map(|(at, _)| *at).collect();
            if ready.is_empty() {
                return;
            }
            let (from, to) = ready[self.rng.below(ready.len() as u64) as usize];
            let carried = self.wires.get_mut(&(from, to)).and_then(VecDeque::pop_front).unwrap();
            let link = self.back[&(to, from)];
            self.tell(to, carried.arrive(link));
        }
    }

    /// All members call, and everything is delivered.
    pub(super) fn all(
        &mut self,
        size: usize,
        call: impl Fn(usize) -> Call,
    ) -> Vec<Result<Outcome, CommError>> {
        let ids: Vec<_> = (0..size).map(|who| self.call(who, call(who))).collect();
        self.run();
        let result = |id| self.results.remove(id).unwrap_or_else(|| panic!("{id:?} hangs"));
        let results: Vec<_> = ids.iter().map(result).collect();
        if results.iter().all(Result::is_ok) {
            let open = self.groups.iter().map(|group| group.collective.open_calls()).sum::<usize>();
            assert_eq!(open, 0, "calls whose results are complete are not over");
        }
        results
    }
}

/// Memory that is shared within this process.
#[derive(Debug)]
struct Heap;

#[derive(Debug)]
struct Piled(Vec<u8>);

impl SharedMemory for Heap {
    fn region(&mut self, length: usize) -> Option<Box<dyn Region>> {
        Some(Box::new(Piled(Vec::with_capacity(length))))
    }
}

impl Region for Piled {
    fn append(&mut self, bytes: &[u8]) -> bool {
        self.0.extend_from_slice(bytes);
        true
    }

    fn seal(self: Box<Self>) -> Option<SealedRegion> {
        Some(SealedRegion { bytes: self.0.into(), handle: std::sync::Arc::new(()) })
    }
}

type Parent = fn(usize) -> usize;
const SHAPES: [Parent; 4] = [|_| 0, |rank| rank - 1, |rank| (rank - 1) / 2, |rank| rank & (rank - 1)];

pub(super) fn bytes(seed: usize, length: usize) -> Bytes {
    (0..length).map(|at| (seed * 31 + at * 7) as u8).collect()
}

pub(super) fn each(check: impl Fn(usize, &mut Cluster)) {
    for (nth, shape) in SHAPES.into_iter().enumerate() {
        for size in [1, 2, 3, 7, 16, 33] {
            for (strict, lead, lead_bytes) in [(false, 128, 4 << 20), (false, 2, 1_000), (true, 128, 4 << 20)]
            {
                let completion = Completion { strict, lead, lead_bytes, ..Completion::default() };
                let nth = nth as u64;
                check(size, &mut Cluster::with_completion(completion, size, nth, shape, |_| false));
            }
        }
    }
}
