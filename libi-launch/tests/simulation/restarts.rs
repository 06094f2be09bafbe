//! Members that end, or are killed, and are started again on their hosts, while hosts die and find
//! other parents.
//!
//! The user asks at random moments for random ranks, also for those that run. New processes cannot
//! be started, end before they join, hang, or join. If the host of a rank is lost, another one returns in its
//! place, or cannot be launched. What must hold:
//!
//! - Each request has one answer.
//! - Each process of a rank ends at most once, and only a rank that has ended, or was lost, is restarted.
//! - The front end knows which ranks live, once all is quiet.
//! - No process is left when the session is over.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::{HostIndex, Rank};
use libi_core::join::MemberRole;
use libi_core::ranks::Ranks;
use libi_core::sim::rng::Rng;
use libi_core::sim::{MachineId as Id, Sim, StopReason};
use libi_core::time::Instant;
use libi_core::topology::Topology;
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, LinkId, Notice, Program, RestartError, Spare, StartRequest};

use crate::agents::AgentTrouble;
use crate::many::begun;
use crate::scenario::{Fate, Scenario};
use crate::seeds::{check_all, seeds};
use crate::world::{Cluster, FRONT, Happening, Pick};

/// The restarts of a session, as they really are.
#[derive(Debug, Default)]
pub(crate) struct RestartRecord {
    /// The numbers of the attempts at each rank, in order.
    started: BTreeMap<Rank, Vec<u32>>,
    /// The links of new processes, before they carry data, before their groups know, and from then
    /// on.
    links: BTreeMap<(Id, LinkId), (Rank, Progress)>,
    /// The ranks of each host that was launched, and whether it returns.
    pub(crate) hosts: BTreeMap<HostIndex, (Ranks, bool)>,
    pub(crate) wrong: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Started,
    Carries,
    Joined,
}

impl Scenario {
    /// A cluster in which all hosts are up, and all members have joined or do soon.
    fn with_restarts(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(60);
        let mut scenario = Self::with_orphans(seed);
        scenario.hosts = 1 + rng.below(12) as u32;
        scenario.agents = Some(AgentTrouble::joining(rng.chance(0.3)));
        scenario.rules.hello_timeout = Duration::from_secs(3);
        scenario.rules.join_timeout = Duration::from_secs(3);
        scenario.restarts = [0, 0, 0, 1, 3][rng.below(5) as usize];
        scenario.rules.attempts = 1 + rng.below(3) as u16;
        scenario.spares = [0, 0, 2, 6][rng.below(4) as usize];
        scenario
    }
}

impl Cluster {
    /// What becomes of a process that is started in the place of a lost member; `None` for all
    /// others.
    pub(crate) fn restart_fate(&mut self, from: Id, request: &StartRequest) -> Option<Fate> {
        if let StartRequest::Host(_, spec, _) = request {
            let ranks = spec.blocks.iter().flat_map(|block| block.ranks()).collect();
            self.restarts.hosts.insert(spec.host, (ranks, spec.restarts > 0));
            return None;
        }
        let StartRequest::Member(link, rank, program) = request else { return None };
        if !self.is_restart(from, program) {
            return None;
        }
        let number = restarts(program)?;
        let started = self.restarts.started.entry(*rank).or_default();
        if started.last().is_some_and(|last| *last >= number) {
            self.restarts.wrong = Some(format!("{rank} is started as {number}, after {started:?}"));
        }
        started.push(number);
        self.restarts.links.insert((from, *link), (*rank, Progress::Started));
        let mut rng = Rng::new(self.scenario.seed).fork(61).fork(rank.0.into()).fork(number.into());
        let fates = [Fate::NotStarted, Fate::NotFound, Fate::Crashes, Fate::Hangs, Fate::ExitsOpen];
        let fate = fates[rng.below(5) as usize];
        Some(if rng.chance(0.3) { fate } else { Fate::Joins { banner: rng.chance(0.2), cut: None } })
    }

    /// Whether a member is started again on its host. Those of a host that returns come with it.
    pub(crate) fn is_restart(&self, from: Id, program: &Program) -> bool {
        restarts(program).is_some() && self.processes[from.0 as usize].told_up
    }

    /// A link carries data.
    pub(crate) fn note_carried(&mut self, from: Id, link: LinkId) {
        if let Some((_, progress)) = self.restarts.links.get_mut(&(from, link)) {
            *progress = Progress::Carries;
        }
    }

    /// The group of an agent hears of a new process.
    pub(crate) fn on_joins(&mut self, from: Id, link: LinkId, ranks: &Ranks) {
        let known = self.restarts.links.get_mut(&(from, link));
        match known {
            Some((rank, progress))
                if *progress == Progress::Carries && *ranks == [*rank].into_iter().collect() =>
            {
                *progress = Progress::Joined;
            }
            other => self.restarts.wrong = Some(format!("{link} of {from:?} joins with {ranks}: {other:?}")),
        }
    }

    /// A process has its tree: it says so if it takes the place of another.
    pub(crate) fn check_joins(&mut self, id: Id, tree: &Topology) {
        let origin = self.processes[id.0 as usize].origin;
        let known = origin.and_then(|origin| self.restarts.links.get(&origin));
        let is_right = match known {
            Some((rank, progress)) => {
                let is_member = (tree.me, tree.local, tree.has_parent) == (Some(*rank), true, true);
                tree.joins && is_member && tree.branches.is_empty() && *progress == Progress::Joined
            }
            None => !tree.joins || self.is_new(id),
        };
        if !is_right {
            self.restarts.wrong = Some(format!("{id:?}, {known:?}, has {tree:?}"));
        }
    }
}

/// How often a member was started again, as its program is told.
pub(crate) fn restarts(program: &Program) -> Option<u32> {
    let variable = program.env.iter().find(|variable| variable.name().as_bytes() == b"LIBI_RESTARTS")?;
    variable.value().to_string().parse().ok()
}

/// The processes that are this rank.
fn members(sim: &Sim<Cluster>, rank: Rank) -> Vec<Id> {
    let place = Some(MemberRole::Local(rank));
    sim.world.alive().filter(|(_, process)| process.place == place).map(|(id, _)| id).collect()
}

/// What the user knows of a session.
#[derive(Debug, Default)]
struct Known {
    /// How often each rank was reported as restarted and not restarted.
    restarted: BTreeMap<Rank, u32>,
    refused: BTreeMap<Rank, u32>,
    /// The ranks that have ended, or were lost with their hosts.
    gone: Ranks,
    /// The ranks of hosts that have returned, with the hosts.
    homes: BTreeMap<Rank, HostIndex>,
    /// How many lost hosts have returned, or were to.
    returns: u32,
    is_done: bool,
}

impl Known {
    fn lives(&self, rank: Rank) -> bool {
        !self.gone.contains(rank)
    }

    fn host_of(&self, rank: Rank, scenario: &Scenario) -> HostIndex {
        self.homes.get(&rank).copied().unwrap_or(HostIndex(rank.0 / scenario.members))
    }

    fn read(&mut self, notice: &Notice, scenario: &Scenario) -> Result<(), String> {
        let all = || (0..scenario.hosts * scenario.members).map(Rank);
        match notice {
            Notice::Exited(rank, ..) if !self.lives(*rank) => return Err(format!("{rank} ends again")),
            Notice::Exited(rank, ..) => self.gone.add(*rank),
            Notice::Restarted(rank) if self.lives(*rank) || self.is_done => {
                return Err(format!("{rank} is restarted; done: {}", self.is_done));
            }
            Notice::Restarted(rank) => {
                self.gone.remove_all(&[*rank].into_iter().collect());
                *self.restarted.entry(*rank).or_default() += 1;
            }
            Notice::NotRestarted(rank, _) => *self.refused.entry(*rank).or_default() += 1,
            Notice::Lost(host, _) => {
                let those: Ranks = all().filter(|rank| self.host_of(*rank, scenario) == *host).collect();
                self.gone.add_all(&those);
            }
            Notice::Returned { lost, host, blocks, .. } => {
                self.returns += 1;
                for rank in blocks.iter().flat_map(|block| block.ranks()) {
                    if self.lives(rank) || self.host_of(rank, scenario) != *lost {
                        return Err(format!("{rank} returns with {host}, of {lost}"));
                    }
                    self.homes.insert(rank, *host);
                }
            }
            Notice::Done => self.is_done = true,
            _ => {}
        }
        let living = all().find(|rank| self.is_done && self.lives(*rank));
        living.map_or(Ok(()), |rank| Err(format!("all is done, and {rank} lives")))
    }
}

/// Reads the notices in their order.
fn known(scenario: &Scenario, sim: &Sim<Cluster>) -> Result<Known, String> {
    let mut known = Known::default();
    for (at, notice) in &sim.world.notices {
        known.read(notice, scenario).map_err(|wrong| format!("at {at}: {wrong}"))?;
    }
    Ok(known)
}

/// Plays a scenario; returns how many members were restarted, and how many lost hosts have returned.
fn play(scenario: &Scenario) -> Result<[usize; 2], String> {
    let mut rng = Rng::new(scenario.seed).fork(62);
    let mut sim = begun(scenario);
    let steps = 400_000 + 40_000 * u64::from(scenario.hosts);
    let mut now = Instant::ZERO;
    while !sim.world.notices.iter().any(|(_, notice)| *notice == Notice::Up) {
        now += Duration::from_millis(50);
        if sim.run(now, steps) == StopReason::StepLimit || now > Instant::ZERO + scenario.deadline {
            return Err("is not up".to_owned());
        }
    }
    let size = u64::from(scenario.hosts * scenario.members);
    let mut asked: BTreeMap<Rank, u32> = BTreeMap::new();
    now += Duration::from_secs(5);
    // Hosts that return may not come up.
    sim.world.scenario.bad = if rng.chance(0.4) { rng.unit() * 0.5 } else { 0.0 };
    let hosts_die = rng.chance(0.4);
    for _ in 0..10 + rng.below(60) {
        let most = if rng.chance(0.7) { 200 } else { 5_000 };
        now += Duration::from_millis(rng.below(most));
        if sim.run(now, steps) == StopReason::StepLimit {
            return Err("something spins".to_owned());
        }
        let any = Rank(rng.below(size) as u32);
        match rng.below(20) {
            // A member ends, or is killed.
            0..8 => {
                let exit = [Exit::Code(0), Exit::Code(3), Exit::Signal(9)][rng.below(3) as usize];
                if let Some(id) = members(&sim, any).first() {
                    sim.world.end(*id, exit, &mut sim.agenda);
                }
            }
            8 if rng.chance(if hosts_die { 1.0 } else { 0.3 }) => {
                let hosts = sim.agenda.machine(FRONT).unwrap().host_states().count();
                let host = rng.below(hosts as u64) as u32;
                let place = Some(MemberRole::Leader(HostIndex(host)));
                let leader = sim.world.alive().find(|(_, process)| process.place == place);
                if let Some((id, _)) = leader {
                    sim.agenda.plan(now, Happening::Dies(Pick::This(id)));
                }
            }
            // Most requests are for a rank that has ended.
            number => {
                let known = known(scenario, &sim)?;
                let dead: Vec<_> = (0..size as u32).map(Rank).filter(|rank| !known.lives(*rank)).collect();
                let rank = match dead.get(rng.below(dead.len().max(1) as u64) as usize) {
                    Some(dead) if number > 9 => *dead,
                    _ => any,
                };
                for _ in 0..1 + rng.below(2) {
                    *asked.entry(rank).or_default() += 1;
                    let place = || Spare { name: "elsewhere".to_owned(), user: None, port: None };
                    let is_here = rng.chance(0.7);
                    let event = if is_here { Event::Restart(rank) } else { Event::RestartOn(rank, place()) };
                    sim.agenda.tell(now, FRONT, event.into());
                }
            }
        }
    }
    // Hosts that have lost their way to the front end may find out one below the other.
    let search = scenario.rules.peer_timeout * scenario.hosts;
    let quiet = Duration::from_secs(90) + search;
    now += if rng.chance(0.8) { quiet } else { Duration::ZERO };
    let is_quiet = now > sim.agenda.now() + Duration::from_secs(80);
    // As many steps for each 90 s as elsewhere.
    if sim.run(now, steps * 10 * quiet.as_secs().div_ceil(90)) == StopReason::StepLimit {
        return Err("something spins".to_owned());
    }
    if is_quiet {
        all_are_known(scenario, &sim)?;
        all_are_answered(scenario, &known(scenario, &sim)?, &asked)?;
    }
    // A request just before the end, and one after it.
    for after in [Duration::ZERO, Duration::from_millis(1)] {
        let rank = Rank(rng.below(size) as u32);
        *asked.entry(rank).or_default() += 1;
        sim.agenda.tell(now + after, FRONT, Event::Restart(rank).into());
    }
    sim.agenda.plan(now, Happening::Ends);
    if sim.run(now + Duration::from_secs(60) + search, steps * 10) == StopReason::StepLimit {
        return Err("something spins at the end".to_owned());
    }
    let left: Vec<_> = sim.world.alive().filter(|(id, _)| *id != FRONT).collect();
    if !left.is_empty() || sim.world.has_programs() {
        return Err(format!("left running: {left:?}"));
    }
    if !sim.world.notices.iter().any(|(_, notice)| *notice == Notice::Over) {
        return Err("is not over".to_owned());
    }
    if let Some(wrong) = &sim.world.restarts.wrong {
        return Err(wrong.clone());
    }
    let known = known(scenario, &sim)?;
    all_are_answered(scenario, &known, &asked)?;
    let hosts: BTreeSet<HostIndex> = known.homes.into_values().collect();
    Ok([known.restarted.values().sum::<u32>() as usize, hosts.len()])
}

/// Each rank that lives, as far as the user knows, is one process, and no other is there.
fn all_are_known(scenario: &Scenario, sim: &Sim<Cluster>) -> Result<(), String> {
    let known = known(scenario, sim)?;
    for rank in (0..scenario.hosts * scenario.members).map(Rank) {
        let (there, lives) = (members(sim, rank).len(), known.lives(rank));
        if there != usize::from(lives) {
            return Err(format!("{there} processes are {rank}; it lives: {lives}"));
        }
    }
    Ok(())
}

/// Each request has one answer. Automatic restarts have answers, too.
fn all_are_answered(scenario: &Scenario, known: &Known, asked: &BTreeMap<Rank, u32>) -> Result<(), String> {
    for rank in (0..scenario.hosts * scenario.members).map(Rank) {
        let count = |of: &BTreeMap<Rank, u32>| of.get(&rank).copied().unwrap_or(0);
        let (asked, answered) = (count(asked), count(&known.restarted) + count(&known.refused));
        // Members that were lost with another one return with it.
        let most = asked + scenario.restarts + known.returns + 1;
        if !(asked..=most).contains(&answered) {
            return Err(format!("{asked} requests for {rank} have {answered} answers"));
        }
    }
    Ok(())
}

#[test]
fn each_restart_has_one_answer_and_each_process_one_end() {
    let counts = std::cell::Cell::new([0; 2]);
    check_all(seeds().map(Scenario::with_restarts), |scenario| {
        let ([members, hosts], [more, returned]) = (counts.get(), play(scenario)?);
        counts.set([members + more, hosts + returned]);
        Ok(())
    });
    let [members, hosts] = counts.get();
    println!("{members} members were restarted, and {hosts} lost hosts have returned");
    assert!(members > 0 && hosts > 0);
}

/// A session of one host with two members: one of them is killed and restarted so often.
fn restarted_again_and_again(times: u32) {
    let mut scenario = Scenario::with_restarts(1);
    (scenario.hosts, scenario.members, scenario.restarts) = (1, 2, 0);
    let mut sim = begun(&scenario);
    let mut now = Instant::ZERO + Duration::from_secs(20);
    sim.run(now, 1_000_000);
    for nth in 0..times {
        let [id] = members(&sim, Rank(1))[..] else { panic!("there is one") };
        sim.world.end(id, Exit::Signal(11), &mut sim.agenda);
        // An attempt may fail.
        for _ in 0..20 {
            sim.agenda.tell(now + Duration::from_secs(2), FRONT, Event::Restart(Rank(1)).into());
            now += Duration::from_secs(10);
            sim.run(now, 1_000_000);
            if members(&sim, Rank(1)).len() == 1 {
                break;
            }
        }
        let restarted =
            sim.world.notices.iter().filter(|(_, notice)| *notice == Notice::Restarted(Rank(1))).count();
        assert_eq!(restarted as u32, nth + 1);
    }
    assert_eq!(sim.world.restarts.wrong, None);
    let refused = Notice::NotRestarted(Rank(0), RestartError::StillRunning);
    sim.agenda.tell(now, FRONT, Event::Restart(Rank(0)).into());
    sim.run(now + Duration::from_secs(1), 1_000_000);
    assert!(sim.world.notices.iter().any(|(_, notice)| *notice == refused));
}

#[test]
fn a_member_is_restarted_ten_times() {
    restarted_again_and_again(10);
}
