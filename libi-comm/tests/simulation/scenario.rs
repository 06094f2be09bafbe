//! What a run consists of: the session, its program, and its faults. All of it follows from the
//! seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_comm::reduce::{Element, Op};
use libi_comm::{Address, Completion, KeyScope};
use libi_core::ids::Rank;
use libi_core::sim::rng::Rng;

use libi_cases::Session;
use libi_cases::data::{Formula, Lengths};
use libi_cases::shape::{Placement, Shape, Tree};
use libi_cases::step::{CustomFn, KeyOwner, ReduceBy, Step};
use libi_cases::transfers::Pattern;

/// The default timeout of a call: longer than anything takes that ends at all.
pub(crate) const LONG: Duration = Duration::from_secs(3_600);

/// A process that dies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Victim {
    Process(Address),
    /// The agent of this member's host, with all below it.
    AgentOf(Address),
    /// The process that leads this member's host, with all of this host.
    HostOf(Address),
}

/// One run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) completion: Completion,
    pub(crate) latency: Duration,
    /// The longest pause of a member between steps.
    pub(crate) think: Duration,
    /// Which process dies, and when.
    pub(crate) kills: Vec<(Duration, Victim)>,
    /// Processes that end when their program is over, if they have no children.
    pub(crate) leavers: BTreeSet<Address>,
    /// Whether other processes take the places of members that end beside the leader of their host.
    pub(crate) restarts: bool,
    /// Whether the members of lost hosts come back with others.
    pub(crate) host_returns: bool,
    /// Whether orphans come back as soon as the process above has noticed.
    pub(crate) hasty: bool,
    /// When the session grows.
    pub(crate) growths: Vec<Duration>,
    /// Extra pauses before a step.
    pub(crate) slow: BTreeMap<(Address, u32), Duration>,
    /// Processes that stop calling at a step.
    pub(crate) stalls: BTreeMap<Address, u32>,
    /// Processes that do something else at a step.
    pub(crate) mistakes: BTreeMap<(Address, u32), Step>,
    /// Processes that name a root that does not exist, instead of a collective step.
    pub(crate) bad_roots: BTreeSet<(Address, u32)>,
    /// Processes with a short timeout at a step.
    pub(crate) timeouts: BTreeMap<(Address, u32), Duration>,
}

impl Scenario {
    /// A run without faults.
    pub(crate) fn healthy(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(5);
        let micros = |rng: &mut Rng, most| Duration::from_micros(rng.below(most));
        let (latency, think) = (micros(&mut rng, 500), micros(&mut rng, 2_000));
        Self { seed, completion: completion(seed), latency, think, ..Self::default() }
    }

    /// The timeout of a process at a step.
    pub(crate) fn timeout(&self, who: Address, step: u32) -> Duration {
        self.timeouts.get(&(who, step)).copied().unwrap_or(LONG)
    }

    /// Approximately the duration of the run.
    pub(crate) fn duration(&self, session: &Session) -> Duration {
        (self.latency * 6 + self.think / 2) * session.steps.len() as u32
    }

    /// Whether a process dies or leaves.
    pub(crate) fn has_losses(&self) -> bool {
        !self.kills.is_empty() || !self.leavers.is_empty()
    }

    /// A session with any program and any faults.
    pub(crate) fn drawn(seed: u64) -> (Session, Self) {
        let mut rng = Rng::new(seed);
        let mut session = session(seed, &mut rng);
        let mut scenario = Self::healthy(seed);
        let who: Vec<Address> = session.present.iter().copied().map(Address::Rank).collect();
        let steps = session.steps.len() as u64;
        let duration = scenario.duration(&session);
        let mut faults = rng.fork(1);
        let any = |rng: &mut Rng| who[rng.below(who.len() as u64) as usize];
        let step = |rng: &mut Rng| rng.below(steps) as u32;
        let part = |rng: &mut Rng| up_to(rng, duration);
        let kinds = faults.bits() & faults.bits();
        for kind in (0..6).filter(|kind| kinds >> kind & 1 == 1) {
            for _ in 0..=faults.below(2) {
                let (victim, at) = (any(&mut faults), step(&mut faults));
                match kind {
                    0 if faults.chance(0.05) => {
                        scenario.kills.push((part(&mut faults), Victim::Process(Address::FrontEnd)));
                    }
                    0 if session.shape.agents && faults.chance(0.3) => {
                        scenario.kills.push((part(&mut faults), Victim::AgentOf(victim)));
                    }
                    0 => scenario.kills.push((part(&mut faults), Victim::Process(victim))),
                    1 => scenario.leavers.extend(who.iter().copied().filter(|_| faults.chance(0.3))),
                    2 => drop(scenario.slow.insert((victim, at), part(&mut faults) * 2)),
                    3 => drop(scenario.stalls.insert(victim, at)),
                    4 if session.steps[at as usize].is_collective() && faults.chance(0.2) => {
                        scenario.bad_roots.insert((victim, at));
                    }
                    4 => scenario.mistake(&session, victim, at, &mut faults),
                    _ => {
                        // If one of several messages is withdrawn, the next is received in its
                        // place.
                        if let Some(Step::P2p { count, .. }) = session.steps.get_mut(at as usize) {
                            *count = 1;
                        }
                        scenario.timeouts.insert((victim, at), part(&mut faults) / 4);
                    }
                }
            }
        }
        (session, scenario)
    }

    /// A session with any faults that goes on without the members that are lost.
    pub(crate) fn drawn_and_surviving(seed: u64) -> (Session, Self) {
        let (session, mut scenario) = Self::drawn(seed);
        scenario.completion.continues = true;
        (session, scenario)
    }

    /// The same, and orphans find a new parent.
    pub(crate) fn drawn_and_recovering(seed: u64) -> (Session, Self) {
        let (session, mut scenario) = Self::drawn_and_surviving(seed);
        scenario.completion.reconnects = true;
        (session, scenario)
    }

    /// A session that goes on without members that die, and in which orphans find a new parent.
    pub(crate) fn recovering(seed: u64) -> (Session, Self) {
        let mut rng = Rng::new(seed).fork(8);
        let shape = Shape {
            size: 3 + rng.below(30) as u32,
            per_host: [1, 1, 2, 3][rng.below(4) as usize],
            tree: [Tree::Chain, Tree::Binary, Tree::Late, Tree::Late][rng.below(4) as usize],
            placement: if rng.chance(0.7) { Placement::Blocks } else { Placement::Cyclic },
            absent: rng.chance(0.2),
            agents: rng.chance(0.5),
            seed,
        };
        let mut session = session_of(shape, |rng| 4 + rng.below(16), &mut rng);
        let mut scenario = Self::healthy(seed);
        (scenario.completion.continues, scenario.completion.reconnects) = (true, true);
        without_waiting(&mut session);
        let duration = scenario.duration(&session);
        // Hosts with others below them, mostly; some while others are back, or on their way.
        let who: Vec<Address> = session.present.iter().copied().map(Address::Rank).collect();
        let mut at = up_to(&mut rng, duration);
        for _ in 0..1 + rng.below(6) {
            let victim = who[rng.below(who.len() as u64) as usize];
            let is_agent = session.shape.agents && rng.chance(0.8);
            let victim = if is_agent { Victim::AgentOf(victim) } else { Victim::Process(victim) };
            scenario.kills.push((at, victim));
            at = if rng.chance(0.7) {
                at + up_to(&mut rng, scenario.latency * 12)
            } else {
                up_to(&mut rng, duration)
            };
        }
        if rng.chance(0.3) {
            scenario.leavers.extend(who.iter().copied().filter(|_| rng.chance(0.2)));
        }
        (session, scenario)
    }

    /// Whether members do nothing wrong, but some are lost.
    pub(crate) fn has_only_losses(&self) -> bool {
        let Self { stalls, mistakes, bad_roots, timeouts, .. } = self;
        stalls.is_empty() && mistakes.is_empty() && bad_roots.is_empty() && timeouts.is_empty()
    }

    /// A session that goes on without the members that are lost.
    pub(crate) fn surviving(seed: u64) -> (Session, Self) {
        let mut rng = Rng::new(seed).fork(7);
        let mut session = session(seed, &mut rng);
        let mut scenario = Self::healthy(seed);
        scenario.completion.continues = true;
        let who: Vec<Address> = session.present.iter().copied().map(Address::Rank).collect();
        for _ in 0..rng.below(8) {
            add_steps(&mut session, &mut rng);
        }
        without_waiting(&mut session);
        let duration = scenario.duration(&session);
        // Some are lost while calls go on without others.
        let (first, at_once) = (up_to(&mut rng, duration), rng.chance(0.5));
        for nth in 0..rng.below(5) {
            let victim = who[rng.below(who.len() as u64) as usize];
            let after = match nth {
                0 => first,
                _ if at_once => first + up_to(&mut rng, scenario.latency * 10),
                _ => up_to(&mut rng, duration),
            };
            let is_agent = session.shape.agents && rng.chance(0.3);
            let victim = if is_agent { Victim::AgentOf(victim) } else { Victim::Process(victim) };
            scenario.kills.push((after, victim));
        }
        for _ in 0..rng.below(3) {
            let (slow, step) =
                (who[rng.below(who.len() as u64) as usize], rng.below(session.steps.len() as u64));
            scenario.slow.insert((slow, step as u32), duration / 4);
        }
        if rng.chance(0.5) {
            scenario.leavers.extend(who.iter().copied().filter(|_| rng.chance(0.3)));
        }
        (session, scenario)
    }

    /// A session in which members die during large transfers; others forward these, and must get
    /// rid of them.
    pub(crate) fn with_losses(seed: u64) -> (Session, Self) {
        let mut rng = Rng::new(seed).fork(6);
        let shape = Shape {
            size: 2 + rng.below(12) as u32,
            per_host: [1, 2, 4][rng.below(3) as usize],
            tree: [Tree::Star, Tree::Chain, Tree::Binary, Tree::Late][rng.below(4) as usize],
            placement: Placement::Blocks,
            absent: false,
            agents: has_agents(seed),
            seed,
        };
        let mut session = Session::new(format!("seed {seed}"), shape, [1, 3][rng.below(2) as usize]);
        for _ in 0..1 + rng.below(3) {
            let root = session.present[rng.below(session.present.len() as u64) as usize];
            let lengths = Lengths::Equal([9_000, 70_000][rng.below(2) as usize]);
            let to = [None, Some(root)][rng.below(2) as usize];
            session.steps.push(match rng.below(7) {
                0 => Step::Gather { root, lengths },
                1 => Step::Scatter { root, lengths, known: true },
                2 => Step::AllGather { lengths },
                3 => Step::AllToAll { lengths },
                4 => Step::Broadcast { root, lengths, known: true },
                5 => {
                    let by = ReduceBy::Elements(Op::Sum, Element::F64);
                    Step::Scan { inclusive: to.is_none(), by, count: 20_000 }
                }
                _ => Step::Reduce { to, by: ReduceBy::Elements(Op::Sum, Element::F64), count: 20_000 },
            });
        }
        let mut scenario = Self::healthy(seed);
        // Approximately the duration of the run.
        let duration = (scenario.latency * 12 + scenario.think / 2) * session.steps.len() as u32;
        for _ in 0..=rng.below(2) {
            let victim = session.present[rng.below(session.present.len() as u64) as usize];
            let at = up_to(&mut rng, duration);
            scenario.kills.push((at, Victim::Process(Address::Rank(victim))));
        }
        (session, scenario)
    }

    /// A process calls something else at a step.
    fn mistake(&mut self, session: &Session, who: Address, step: u32, rng: &mut Rng) {
        let meant = &session.steps[step as usize];
        let mistaken = self.mistakes.keys().filter(|(_, at)| *at == step).count();
        // At least one process does what all were to do.
        if !meant.is_collective() || mistaken + 2 > session.present.len() {
            return;
        }
        let mistakes = match (meant, rng.below(3)) {
            (Step::Gather { root, lengths }, 0) => {
                Step::Gather { root: session.next(*root).unwrap_or(*root), lengths: *lengths }
            }
            (Step::Broadcast { root, lengths, known }, 0) => Step::Broadcast {
                root: session.next(*root).unwrap_or(*root),
                lengths: *lengths,
                known: *known,
            },
            (Step::Reduce { to: Some(_), by, count }, 0) => Step::Reduce { to: None, by: *by, count: *count },
            // The operands of custom functions may differ in length.
            (Step::Reduce { to, by: by @ ReduceBy::Elements(..), count }, 1) => {
                Step::Reduce { to: *to, by: *by, count: count + 1 }
            }
            (Step::Scan { inclusive, by, count }, 0) => {
                Step::Scan { inclusive: !inclusive, by: *by, count: *count }
            }
            (Step::Scan { inclusive, by: by @ ReduceBy::Elements(..), count }, 1) => {
                Step::Scan { inclusive: *inclusive, by: *by, count: count + 1 }
            }
            (Step::AllGather { .. }, 1) => Step::AllGather { lengths: Lengths::Equal(77) },
            (Step::Gather { root, .. }, 1) => Step::Gather { root: *root, lengths: Lengths::Equal(77) },
            (Step::Barrier, _) => Step::Fence,
            _ => Step::Barrier,
        };
        self.mistakes.insert((who, step), mistakes);
    }
}

/// When calls complete; of no influence on what else is drawn.
fn completion(seed: u64) -> Completion {
    let mut rng = Rng::new(seed).fork(11);
    let lead = [2, 3, 8, 128][rng.below(4) as usize];
    let (strict, lead_bytes) = (rng.chance(0.4), [1_000, 20_000, 4 << 20][rng.below(3) as usize]);
    Completion { strict, lead, lead_bytes, ..Completion::default() }
}

/// Whether agents lead the hosts; of no influence on what else is drawn.
fn has_agents(seed: u64) -> bool {
    Rng::new(seed).fork(9).chance(0.3)
}

fn session(seed: u64, rng: &mut Rng) -> Session {
    let size = match rng.below(10) {
        0..=3 => 1 + rng.below(6),
        4..=7 => 1 + rng.below(24),
        _ => 1 + rng.below(64),
    } as u32;
    let trees = [Tree::Flat, Tree::Star, Tree::Chain, Tree::Binary, Tree::Late, Tree::Late];
    let shape = Shape {
        size,
        per_host: [1, 1, 2, 4, 16][rng.below(5) as usize],
        tree: trees[rng.below(6) as usize],
        placement: if rng.chance(0.7) { Placement::Blocks } else { Placement::Cyclic },
        absent: rng.chance(0.2),
        agents: has_agents(seed),
        seed,
    };
    session_of(shape, |rng| 1 + rng.below(12), rng)
}

pub(crate) fn session_of(shape: Shape, steps: fn(&mut Rng) -> u64, rng: &mut Rng) -> Session {
    let flight = [1, 1, 2, 4, 9][rng.below(5) as usize];
    let mut session = Session::new(format!("seed {}", shape.seed), shape, flight);
    for _ in 0..steps(rng) {
        add_steps(&mut session, rng);
    }
    session
}

/// A time until this one.
pub(crate) fn up_to(rng: &mut Rng, most: Duration) -> Duration {
    Duration::from_nanos(rng.below(most.as_nanos() as u64 + 1))
}

/// A key of a lost member would be waited for until the timeout.
pub(crate) fn without_waiting(session: &mut Session) {
    for step in session.steps.iter_mut().filter(|step| matches!(step, Step::Get { wait: true, .. })) {
        *step = Step::Barrier;
    }
}

fn add_steps(session: &mut Session, rng: &mut Rng) {
    let few = session.present.len() <= 8;
    let long = few && rng.chance(0.1);
    let lengths = match rng.below(7) {
        _ if long => Lengths::Equal([9_000, 70_000, 300_000][rng.below(3) as usize]),
        0 => Lengths::By(Formula::Rising),
        1 => Lengths::By(Formula::Few),
        2 if few => Lengths::By(Formula::Edges),
        3 if few && rng.chance(0.3) => Lengths::By(Formula::Lone),
        _ => Lengths::Equal([0, 1, 8, 33, 1_000][rng.below(5) as usize]),
    };
    let root: Rank = session.present[rng.below(session.present.len() as u64) as usize];
    let known = rng.chance(0.5);
    let step = match rng.below(15) {
        0 => Step::Barrier,
        1 | 2 => Step::Broadcast { root, lengths, known },
        3 => Step::Gather { root, lengths },
        4 => Step::Scatter { root, lengths, known },
        5 => Step::AllGather { lengths },
        6 => Step::AllToAll { lengths },
        7..=9 => {
            let to = if rng.chance(0.5) { Some(root) } else { None };
            let own =
                [CustomFn::Concat, CustomFn::Matrix, CustomFn::Left, CustomFn::Right][rng.below(4) as usize];
            let elements = [Element::U8, Element::I32, Element::F64][rng.below(3) as usize];
            let op = [Op::Sum, Op::Min, Op::Max][rng.below(3) as usize];
            let by = if rng.chance(0.4) { ReduceBy::CustomFn(own) } else { ReduceBy::Elements(op, elements) };
            let count = lengths.equal().unwrap_or(5);
            if rng.chance(0.4) {
                Step::Scan { inclusive: to.is_none(), by, count }
            } else {
                Step::Reduce { to, by, count }
            }
        }
        10 => Step::Ring { lengths },
        11 => Step::Fence,
        12 | 13 => {
            use Pattern::{All, FromFront, FromLast, Mirror, Next, ToFirst, ToFront, ToSelf};
            let who = [Next, Mirror, ToSelf, ToFirst, FromLast, ToFront, FromFront, All];
            let who = who[rng.below(if few { 8 } else { 7 }) as usize];
            // Each step has its own tags, so that a late message of one is not received in the
            // next.
            let tag = session.steps.len() as u32 * 2;
            let tags = if rng.chance(0.7) { vec![tag] } else { vec![tag + 1, tag] };
            Step::P2p { who, tags, count: 1 + rng.below(3) as u32, lengths }
        }
        _ => return add_kvs(session, lengths, rng),
    };
    session.steps.push(step);
}

fn add_kvs(session: &mut Session, lengths: Lengths, rng: &mut Rng) {
    let scope = if rng.chance(0.5) { KeyScope::Replicated } else { KeyScope::Local };
    let owner = [KeyOwner::Next, KeyOwner::Own, KeyOwner::First, KeyOwner::All, KeyOwner::Missing];
    let owner = owner[rng.below(5) as usize];
    let early = session.flight > 1 && owner != KeyOwner::Missing && rng.chance(0.5);
    let of = session.steps.len() as u32 + u32::from(early);
    session.steps.extend(early.then_some(Step::Get { of, owner, wait: true }));
    session.steps.push(Step::Put { scope, count: 1 + rng.below(2) as u32, lengths });
    session.steps.push(Step::Fence);
    session.steps.push(Step::Get { of, owner, wait: owner != KeyOwner::Missing && rng.chance(0.3) });
}
