//! How long calls take in sessions of 16 to 100,000 members, in virtual time.
//!
//! `cargo bench -p libi-comm --bench scale` runs the groups of all processes of a session, with 16
//! members on each host and the tree of hosts that a launch makes. A process handles one frame at a
//! time, both as it sends and as it receives. Each frame costs [`FRAME`] plus [`BYTE`] for each of
//! its bytes, and arrives after [`NEAR`] on the same host or [`FAR`] on another. The members' own
//! work, copying and combining, costs nothing; the processor time of the simulation is printed
//! beside.
//!
//! ```text
//! cargo bench -p libi-comm --bench scale -- 4096            up to so many members
//! cargo bench -p libi-comm --bench scale -- 100000 out.svg  and a picture
//! cargo bench -p libi-comm --bench scale -- 4096 - alltoall calls whose names begin so, no picture
//! ```
//!
//! All members have the given number of bytes for each other, or for all. With keys, each member
//! puts one; with local keys it also looks up the next member's. Calls in which every member gets
//! data from every member stop where the memory of this machine would.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::time::Duration;

use libi_comm::reduce::{Element, Op};
use libi_comm::{Address, Bytes, Call, CallId, Effect, Event, Frame, Group, KeyScope, Reducer};
use libi_core::ids::{LinkId, Rank};
use libi_core::sim::{Agenda, MachineId as Id, Sim, StopReason, World};
use libi_core::time::{Instant, Rounded};
use libi_trace::curves::{Curve, Curves};

use libi_cases::shape::{Process, Shape, Tree};

/// What a frame costs its sender and its receiver.
const FRAME: Duration = Duration::from_micros(4);
/// What a byte of it costs, in picoseconds: 1.25 GB/s.
const BYTE: u64 = 800;
/// How long a frame is on its way within a host; [`FAR`] between hosts.
const NEAR: Duration = Duration::from_micros(5);
const FAR: Duration = Duration::from_micros(30);

const SIZES: [u32; 8] = [16, 64, 256, 1_024, 4_096, 16_384, 65_536, 100_000];

/// The calls of all members, and the largest session to measure.
struct Measured {
    label: &'static str,
    most: u32,
    calls: fn(Rank, u32) -> Vec<Call>,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench");
    let most: u32 = arguments.next().map_or(4_096, |most| most.parse().unwrap());
    let picture = arguments.next().filter(|path| path != "-");
    let only = arguments.next().unwrap_or_default();
    let sizes = || SIZES.into_iter().filter(|size| *size <= most);
    print!("{:<26}", "members");
    sizes().for_each(|size| print!("{size:>12}"));
    println!();
    let mut curves = Vec::new();
    for measured in MEASURED.iter().filter(|measured| measured.label.starts_with(&only)) {
        print!("{:<26}", measured.label);
        let mut points = Vec::new();
        let clock = std::time::Instant::now();
        for size in sizes() {
            if size > measured.most {
                print!("{:>12}", "-");
                continue;
            }
            let took = run(size, measured.calls);
            points.push((f64::from(size), took.as_secs_f64() * 1e3));
            print!("{:>12}", Rounded(Duration::from_nanos(took.as_nanos() as u64 / 100 * 100)).to_string());
        }
        println!("   ({:.1} s to find out)", clock.elapsed().as_secs_f64());
        // These take as long as a barrier.
        if ["ring, 16 bytes", "allreduce, 8 bytes"].contains(&measured.label) {
            continue;
        }
        curves.push(Curve { label: measured.label.to_owned(), points });
    }
    if let Some(path) = picture {
        let [title, across, up] =
            ["Calls of all members, in virtual time", "members, 16 on each host", "milliseconds"]
                .map(str::to_owned);
        std::fs::write(path, Curves { title, across, up, curves }.svg()).unwrap();
    }
}

const MEASURED: [Measured; 12] = [
    Measured { label: "barrier", most: u32::MAX, calls: |_, _| vec![Call::Barrier] },
    Measured { label: "broadcast, 8 bytes", most: u32::MAX, calls: |me, _| vec![broadcast(me, 8)] },
    Measured { label: "broadcast, 64 KiB", most: 65_536, calls: |me, _| vec![broadcast(me, 64 << 10)] },
    Measured { label: "broadcast, 1 MiB", most: 4_096, calls: |me, _| vec![broadcast(me, 1 << 20)] },
    Measured {
        label: "gather, 8 bytes",
        most: u32::MAX,
        calls: |_, _| vec![Call::Gather { root: Rank(0), data: zeros(8), equal: true }],
    },
    Measured {
        label: "scatter, 8 bytes",
        most: u32::MAX,
        calls: |me, size| {
            let parts = (me == Rank(0)).then(|| vec![zeros(8); size as usize]);
            vec![Call::Scatter { root: Rank(0), parts, length: Some(8) }]
        },
    },
    Measured {
        label: "allreduce, 8 bytes",
        most: u32::MAX,
        calls: |_, _| {
            vec![Call::Reduce { to: None, data: zeros(8), reducer: Reducer::Elements(Op::Sum, Element::F64) }]
        },
    },
    Measured { label: "ring, 16 bytes", most: u32::MAX, calls: |_, _| vec![ring()] },
    Measured {
        label: "fence, dense keys",
        most: 16_384,
        calls: |me, _| vec![put(me, KeyScope::Replicated), Call::Fence],
    },
    Measured {
        label: "sparse keys",
        most: u32::MAX,
        calls: |me, size| {
            let next = Rank((me.0 + 1) % size);
            vec![put(me, KeyScope::Local), Call::Fence, Call::Get { key: key(next), wait: true }]
        },
    },
    Measured {
        label: "allgather, 8 bytes",
        most: 4_096,
        calls: |_, _| vec![Call::AllGather { data: zeros(8), equal: true }],
    },
    Measured {
        label: "alltoall, 8 bytes",
        most: 4_096,
        calls: |_, size| vec![Call::AllToAll { parts: vec![zeros(8); size as usize], equal: true }],
    },
];

fn zeros(length: usize) -> Bytes {
    vec![0; length].into()
}

fn broadcast(me: Rank, length: usize) -> Call {
    let data = (me == Rank(0)).then(|| zeros(length));
    Call::Broadcast { root: Rank(0), data, length: Some(length as u64) }
}

fn ring() -> Call {
    Call::Ring { count: 1, left: zeros(16), right: zeros(16) }
}

fn key(of: Rank) -> String {
    format!("address of {}", of.0)
}

fn put(me: Rank, scope: KeyScope) -> Call {
    Call::Put { key: key(me), value: zeros(32), scope }
}

/// How long it takes until all calls of all members are over. Each is made when the previous one is
/// over.
fn run(size: u32, calls: fn(Rank, u32) -> Vec<Call>) -> Duration {
    let shape = Shape::plain(size, 16, Tree::Greedy, 1);
    let processes = shape.processes();
    let mut sim = Sim::new(Cluster { members: Vec::new(), size, calls, open: 0 });
    for process in processes {
        let id = sim.agenda.start(Group::new());
        sim.agenda.tell(Instant::ZERO, id, Event::Up(process.topology.clone()));
        sim.world.open += usize::from(process.topology.me.is_some());
        sim.world.members.push(Member { process, busy_until: Instant::ZERO, next: 0 });
    }
    for at in 0..sim.world.members.len() {
        sim.world.go_on(Id(at as u32), &mut sim.agenda);
    }
    assert_eq!(sim.run(Instant::FAR_FUTURE, u64::MAX), StopReason::Quiescent);
    assert_eq!(sim.world.open, 0, "a member waits");
    sim.world.members.iter().map(|member| member.busy_until).max().unwrap().since(Instant::ZERO)
}

struct Member {
    process: Process,
    busy_until: Instant,
    /// How many calls it has made.
    next: usize,
}

struct Cluster {
    members: Vec<Member>,
    size: u32,
    calls: fn(Rank, u32) -> Vec<Call>,
    /// How many members have calls left.
    open: usize,
}

/// A frame arrives at a process over a link.
struct Arrives(Id, LinkId, Bytes);

impl Cluster {
    fn go_on(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let member = &mut self.members[id.0 as usize];
        let Some(Address::Rank(me)) = member.process.address else { return };
        match (self.calls)(me, self.size).into_iter().nth(member.next) {
            Some(call) => {
                member.next += 1;
                agenda.tell(agenda.now(), id, Event::Call(CallId(member.next as u64), call));
            }
            None => self.open -= 1,
        }
    }

    /// A process spends its time on a frame. Returns when it is done.
    fn handle(&mut self, id: Id, length: usize, now: Instant) -> Instant {
        let member = &mut self.members[id.0 as usize];
        let cost = FRAME + Duration::from_nanos(length as u64 * BYTE / 1_000);
        member.busy_until = member.busy_until.max(now) + cost;
        member.busy_until
    }

    fn send(&mut self, from: Id, link: LinkId, frame: &Frame, agenda: &mut Agenda<Self>) {
        let sent = self.handle(from, frame.len(), agenda.now());
        let process = &self.members[from.0 as usize].process;
        let child = process.links.get(&link).map(|child| (*child, LinkId::PARENT));
        let (to, at) = child.or(process.parent).unwrap();
        let near = self.members[to].process.host == process.host;
        let arrives = sent + if near { NEAR } else { FAR };
        agenda.plan(arrives, Arrives(Id(to as u32), at, frame.concat()));
    }
}

impl World for Cluster {
    type Machine = Group;
    type WorldEvent = Arrives;

    fn carry_out(&mut self, from: Id, effect: Effect, agenda: &mut Agenda<Self>) {
        match effect {
            Effect::Send(link, frame) => self.send(from, link, &frame, agenda),
            Effect::Finish(_, result) => {
                assert!(result.is_ok(), "{result:?}");
                self.go_on(from, agenda);
            }
            Effect::WakeAt(_) | Effect::Confirmed(_) => {}
            Effect::SendRegion(..)
            | Effect::Lost(..)
            | Effect::Missing(..)
            | Effect::Grown { .. }
            | Effect::Joined(..)
            | Effect::Master(_)
            | Effect::Begins(_) => panic!("{effect:?}"),
        }
    }

    fn on_world_event(&mut self, Arrives(to, link, frame): Arrives, agenda: &mut Agenda<Self>) {
        let at = self.handle(to, frame.len(), agenda.now());
        agenda.tell(at, to, Event::Frame(link, frame));
    }
}
