//! How many frames and bytes one collective call sends over each link.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, VecDeque};

use libi_comm::reduce::{Element, Op};
use libi_comm::{Address, Bytes, Call, CallId, Effect, Event, Group, KeyScope, Reducer};
use libi_core::ids::{LinkId, Rank};
use libi_core::machine::Machine;
use libi_core::time::Instant;

use libi_cases::heap::Heap;
use libi_cases::shape::{Process, Shape, Tree};

/// The processes of a session, and what is on its way between them.
struct Wires {
    groups: Vec<Group>,
    processes: Vec<Process>,
    under_way: VecDeque<(usize, LinkId, Bytes)>,
    /// The processes that were lent memory.
    lent: BTreeMap<usize, u32>,
    /// The lengths of the frames by sender and receiver.
    sent: BTreeMap<(usize, usize), Vec<usize>>,
    open: usize,
    calls: u64,
}

impl Wires {
    fn new(size: u32, per_host: u32, tree: Tree) -> Self {
        Self::of(&Shape::plain(size, per_host, tree, 3), Group::new)
    }

    fn of(shape: &Shape, group: impl Fn() -> Group) -> Self {
        let processes = shape.processes();
        let groups = processes.iter().map(|_| group()).collect();
        let (under_way, lent, sent) = Default::default();
        let mut wires = Self { groups, processes, under_way, lent, sent, open: 0, calls: 0 };
        for at in 0..wires.processes.len() {
            let up = Event::Up(wires.processes[at].topology.clone());
            wires.tell(at, up);
        }
        wires
    }

    fn tell(&mut self, who: usize, event: Event) {
        let mut effects = Vec::new();
        self.groups[who].on(event, Instant::ZERO, &mut effects);
        for effect in effects {
            match effect {
                Effect::SendRegion(link, frame, lent) => {
                    let (to, at) = self.other_end(who, link);
                    *self.lent.entry(to).or_default() += 1;
                    self.tell(to, Event::Region(at, lent.bytes));
                    self.under_way.push_back((to, at, frame.concat()));
                }
                Effect::Send(link, frame) => {
                    let (to, at) = self.other_end(who, link);
                    self.sent.entry((who, to)).or_default().push(frame.len());
                    self.under_way.push_back((to, at, frame.concat()));
                }
                Effect::Finish(_, result) => {
                    assert!(result.is_ok(), "{result:?}");
                    self.open -= 1;
                }
                Effect::WakeAt(_) | Effect::Confirmed(_) => {}
                Effect::Lost(..)
                | Effect::Missing(..)
                | Effect::Grown { .. }
                | Effect::Joined(..)
                | Effect::Master(_)
                | Effect::Begins(_) => panic!("{effect:?}"),
            }
        }
    }

    fn other_end(&self, who: usize, link: LinkId) -> (usize, LinkId) {
        let process = &self.processes[who];
        let child = process.links.get(&link).map(|child| (*child, LinkId::PARENT));
        child.or(process.parent).unwrap()
    }

    /// These members call, and everything is delivered. Returns what was sent.
    fn all(&mut self, mut call: impl FnMut(u32) -> Option<Call>) -> BTreeMap<(usize, usize), Vec<usize>> {
        self.sent.clear();
        for at in 0..self.processes.len() {
            let Some(Address::Rank(me)) = self.processes[at].address else { continue };
            if let Some(call) = call(me.0) {
                self.calls += 1;
                self.open += 1;
                self.tell(at, Event::Call(CallId(self.calls), call));
            }
        }
        while let Some((to, link, frame)) = self.under_way.pop_front() {
            self.tell(to, Event::Frame(link, frame));
        }
        assert_eq!(self.open, 0, "a member waits");
        std::mem::take(&mut self.sent)
    }

    /// The number of members in the subtree of a process.
    fn below(&self, at: usize) -> usize {
        self.processes[at].ranks().len()
    }

    /// The links that collective calls use: parent and child.
    fn links(&self) -> impl Iterator<Item = (usize, usize)> {
        let alone = self.processes[0].links.len() == 1;
        let all = self.processes.iter().enumerate();
        let links = all.filter_map(|(child, process)| Some((process.parent?.0, child)));
        links.filter(move |(parent, _)| !alone || *parent != 0)
    }
}

const TREES: [Tree; 5] = [Tree::Flat, Tree::Star, Tree::Chain, Tree::Binary, Tree::Late];

/// One frame up and one down on each link, and none elsewhere.
fn assert_one_each_way(wires: &Wires, sent: &BTreeMap<(usize, usize), Vec<usize>>, what: &str) {
    for (above, below) in wires.links() {
        for way in [(above, below), (below, above)] {
            assert_eq!(sent.get(&way).map(Vec::len), Some(1), "{what}: from process {} to {}", way.0, way.1);
        }
    }
    assert_eq!(sent.len(), 2 * wires.links().count(), "{what}");
}

#[test]
fn a_barrier_is_one_frame_up_and_one_down_on_each_link() {
    for tree in TREES {
        let mut wires = Wires::new(65, 4, tree);
        let sent = wires.all(|_| Some(Call::Barrier));
        assert_one_each_way(&wires, &sent, &format!("{tree:?}"));
    }
}

#[test]
fn a_fence_with_replicated_keys_is_one_frame_up_and_one_down_on_each_link() {
    for tree in TREES {
        let mut wires = Wires::new(65, 4, tree);
        wires.all(|me| {
            let (key, value) = (format!("key {me}"), Bytes::from(vec![7; 50]));
            Some(Call::Put { key, value, scope: KeyScope::Replicated })
        });
        let sent = wires.all(|_| Some(Call::Fence));
        assert_one_each_way(&wires, &sent, &format!("{tree:?}"));
    }
}

#[test]
fn a_ring_is_one_frame_up_and_one_down_on_each_link() {
    for tree in TREES {
        let mut wires = Wires::new(65, 4, tree);
        let address = || Bytes::from_static(b"10.0.0.1:1234");
        let sent = wires.all(|_| Some(Call::Ring { count: 1, left: address(), right: address() }));
        assert_one_each_way(&wires, &sent, &format!("{tree:?}"));
    }
}

#[test]
fn a_short_scan_is_one_frame_up_and_at_most_one_down_on_each_link() {
    for tree in TREES {
        let mut wires = Wires::new(65, 4, tree);
        let reducer = || Reducer::Elements(Op::Sum, Element::U64);
        let value = || Bytes::from(vec![7; 8]);
        let scan = |_| Some(Call::Scan { inclusive: true, data: value(), reducer: reducer() });
        let sent = wires.all(scan);
        for (above, below) in wires.links() {
            assert_eq!(sent[&(below, above)].len(), 1, "{tree:?}: from process {below} to {above}");
            // Rank 0 needs nothing from above.
            let down = sent.get(&(above, below)).map_or(0, Vec::len);
            let least = usize::from(!wires.processes[below].ranks().contains(Rank(0)));
            assert!((least..=1).contains(&down), "{tree:?}: {down} frames from process {above} to {below}");
        }
    }
}

#[test]
fn calls_with_a_root_are_one_frame_on_each_link_in_one_direction() {
    let data = || Bytes::from(vec![7; 64]);
    let reducer = || Reducer::Elements(Op::Sum, Element::U64);
    type Calls<'a> = &'a dyn Fn(Rank, Rank) -> Call;
    let broadcast = |root, me| Call::Broadcast { root, data: (me == root).then(data), length: None };
    let scatter =
        |root, me| Call::Scatter { root, parts: (me == root).then(|| vec![data(); 65]), length: None };
    let gather = |root, _| Call::Gather { root, data: data(), equal: true };
    let reduce = |root, _| Call::Reduce { to: Some(root), data: data(), reducer: reducer() };
    let (down, up): ([Calls<'_>; 2], [Calls<'_>; 2]) = ([&broadcast, &scatter], [&gather, &reduce]);
    for tree in TREES {
        let mut wires = Wires::new(65, 4, tree);
        let root = Rank(0);
        for (call, goes_down) in down.map(|call| (call, true)).into_iter().chain(up.map(|call| (call, false)))
        {
            let sent = wires.all(|me| Some(call(root, Rank(me))));
            for (above, below) in wires.links() {
                let at_root = wires.processes[below].ranks().contains(root);
                let way = if goes_down == at_root { (below, above) } else { (above, below) };
                // The values of a reduction meet at the top, and the result goes down to the root.
                let frames = |way| sent.get(&way).map_or(0, Vec::len);
                let what = call(root, root);
                let least = usize::from(!matches!(what, Call::Reduce { .. }) || !at_root);
                assert!((least..=1).contains(&frames(way)), "{tree:?}, {what:?}: {way:?} {sent:?}");
                assert!(at_root || frames((way.1, way.0)) == 0, "{tree:?}, {what:?}: {way:?} {sent:?}");
            }
        }
    }
}

#[test]
fn every_alltoall_item_passes_each_link_of_its_route_once() {
    for tree in TREES {
        for (size, length) in [(64, 8), (17, 1_000), (8, 70_000)] {
            let mut wires = Wires::new(size, 4, tree);
            let part = Bytes::from(vec![7; length]);
            let parts = vec![part; size as usize];
            let sent = wires.all(|_| Some(Call::AllToAll { parts: parts.clone(), equal: true }));
            for (above, below) in wires.links() {
                let items = wires.below(below) * (size as usize - wires.below(below));
                for way in [(above, below), (below, above)] {
                    let bytes: usize = sent[&way].iter().sum();
                    // Each piece and each frame has a head; a grant is a frame as well.
                    let least = items * length;
                    let most = least + (items + bytes / 1_000) * 40 + sent[&way].len() * 60;
                    assert!(
                        (least..=most).contains(&bytes),
                        "{tree:?}: {items} items of {length} bytes took {bytes}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_small_alltoall_is_few_frames_on_each_link_and_one_from_each_member_to_its_leader() {
    for tree in TREES {
        let mut wires = Wires::new(64, 4, tree);
        let parts = vec![Bytes::from_static(b"8 bytes."); 64];
        // A leader's data exceed the initial credit: in the first call they take two frames, and a
        // grant comes back. Both ends of each link say then that they accept more at once.
        for (leaders, to_member) in [(5, 3), (2, 2)] {
            let sent = wires.all(|_| Some(Call::AllToAll { parts: parts.clone(), equal: true }));
            for (above, below) in wires.links() {
                let [up, down] = if wires.below(below) == 1 { [1, to_member] } else { [leaders; 2] };
                for (way, most) in [((below, above), up), ((above, below), down)] {
                    assert!(
                        sent[&way].len() <= most,
                        "{tree:?}, from process {} to {}: {:?}",
                        way.0,
                        way.1,
                        sent[&way]
                    );
                }
            }
        }
    }
}

#[test]
fn a_host_queries_a_local_key_once_for_all_its_members() {
    let mut wires = Wires::new(64, 16, Tree::Star);
    let put = || Call::Put { key: "key".into(), value: "value".into(), scope: KeyScope::Local };
    wires.all(|me| (me == 20).then(put));
    wires.all(|_| Some(Call::Fence));
    let leader = |host: usize| 1 + host * 16;
    let sent = wires.all(|me| (me >= 48).then(|| Call::Get { key: "key".into(), wait: false }));
    for hop in
        [(leader(3), leader(0)), (leader(0), leader(1)), (leader(1), leader(0)), (leader(0), leader(3))]
    {
        assert_eq!(sent.get(&hop).map(Vec::len), Some(1), "{hop:?}");
    }
    let beside =
        sent.keys().filter(|(from, to)| !(leader(3)..).contains(from) && !(leader(3)..).contains(to));
    assert_eq!(beside.count(), 2, "no other node is asked");
    // The value is cached there now.
    let again = wires.all(|me| (me >= 48).then(|| Call::Get { key: "key".into(), wait: false }));
    assert!(!again.contains_key(&(leader(3), leader(0))));
}

#[test]
fn every_member_of_a_host_is_lent_a_long_broadcast_whether_a_member_or_an_agent_leads_it() {
    for (agents, borrowers) in [(false, 4 * 3), (true, 4 * 4 - 1)] {
        let shape = Shape { agents, ..Shape::plain(16, 4, Tree::Binary, 3) };
        let mut wires = Wires::of(&shape, || Group::with_memory(Box::new(Heap)));
        let data = Bytes::from(vec![7; 1 << 20]);
        wires.all(|rank| {
            let data = (rank == 0).then(|| data.clone());
            Some(Call::Broadcast { root: Rank(0), data, length: None })
        });
        assert_eq!(wires.lent.len(), borrowers, "agents: {agents}");
        assert!(wires.lent.values().all(|times| *times == 1));
    }
}
