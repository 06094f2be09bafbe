//! Sessions that grow, again and again, while launches fail and hosts die, also new ones.
//!
//! What must hold:
//!
//! - Each request has one answer, in time.
//! - Where nothing fails, all new hosts join.
//! - A host is in the session if and only if its leader knows that it is up, once all is quiet.
//! - The parent's group hears of new hosts with just the members below, and before these hear of it.
//! - No process is left when the session is over.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::join::MemberRole;
use libi_core::plan::Strategy;
use libi_core::plan::late::Attempt;
use libi_core::ranks::Ranks;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id, Sim, StopReason};
use libi_core::time::Instant;
use libi_core::topology::{Branch, Topology};
use libi_launch::failure::{Cause, Failure};
use libi_launch::machine::{
    Event, GrowthError, GrowthRequest, HostSpec, HostState, LinkId, LinkPolicy, Notice, Policy, Program,
};

use crate::agents::AgentTrouble;
use crate::many::begun;
use crate::scenario::Scenario;
use crate::seeds::{check_all, seeds};
use crate::world::{Cluster, FRONT, Happening, Pick};

/// How a session has grown.
#[derive(Debug, Default)]
pub(crate) struct GrowthRecord {
    /// The numbers of hosts that it has had.
    hosts: BTreeSet<u32>,
    pub(crate) wrong: Option<String>,
}

/// Seeds that have found defects: hosts below one that had said that nothing depended on it, before it launched
/// them; an orphan that claimed hosts which it had handed back; a link that was to move to the parent before
/// the last; new hosts of a node below an orphan, which were launched elsewhere as well; hosts below a lost
/// one, while no more were launched; and hosts that were lost, and came back. The last has found one of the
/// simulation: an orphan took the answer to a connection that it had given up for that to the next.
const FOUND: [u64; 8] = [64, 284, 247, 4_335, 4_913, 5_360, 5_399, 609_971_627_813];

impl Scenario {
    /// A cluster in which all hosts are up, and their members have joined.
    fn with_growth(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(70);
        let mut scenario = Self::with_orphans(seed);
        scenario.hosts = 1 + rng.below(8) as u32;
        scenario.agents = rng.chance(0.7).then(|| AgentTrouble::joining(false));
        let links = [LinkPolicy::Auto, LinkPolicy::Direct, LinkPolicy::Channel];
        scenario.links = links[rng.below(3) as usize];
        scenario.rules.hello_timeout = Duration::from_secs(3);
        scenario.rules.join_timeout = Duration::from_secs(3);
        scenario.rules.attempts = 1 + rng.below(3) as u16;
        scenario
    }

    /// The same, and in some the first host may die as well.
    fn outliving_with_growth(seed: u64) -> Self {
        Self { replace_master: Rng::new(seed).fork(72).chance(0.3), ..Self::with_growth(seed) }
    }

    /// So many hosts more, of which so many have to join.
    fn growth(&self, hosts: u32, policy: Policy, deadline: Duration) -> GrowthRequest {
        let spec = |number: u32| HostSpec {
            host: HostIndex(number),
            attempt: Attempt::default(),
            name: format!("new{number}"),
            user: None,
            port: None,
            below: 0,
            faults: 0,
            restarts: 0,
            blocks: vec![Block { first: Rank(number * self.members), count: self.members, distribution: 0 }],
        };
        let (executable, args, env) = ("tool".try_into().unwrap(), Vec::new(), Vec::new());
        let programs = vec![Program { executable, args, env, cwd: None }];
        let hosts: Vec<_> = (0..hosts).map(spec).collect();
        let size = hosts.len() as u32 * self.members;
        GrowthRequest { hosts, programs, size, policy, deadline }
    }
}

impl Cluster {
    /// Whether a process is of a host by which the session has grown.
    pub(crate) fn is_new(&self, id: Id) -> bool {
        self.host_of(id).is_some_and(|host| host >= self.scenario.hosts)
    }

    /// The host that a process belongs to.
    fn host_of(&self, id: Id) -> Option<u32> {
        let process = &self.processes[id.0 as usize];
        match process.place? {
            MemberRole::Leader(host) => Some(host.0),
            MemberRole::Local(_) => self.host_of(process.origin?.0),
        }
    }

    /// Whether a session may have so many members.
    pub(crate) fn may_have(&self, size: u32) -> bool {
        let mut hosts = self.growth.hosts.iter().copied().chain([self.scenario.hosts]);
        hosts.any(|hosts| hosts * self.scenario.members == size)
    }

    /// The group of a node hears that the session grows.
    pub(crate) fn on_grows(&mut self, id: Id, size: u32, absent: &Ranks) {
        if !self.may_have(size) {
            self.growth.wrong = Some(format!("{id:?} hears of {size} members"));
        }
        if let Some(tree) = self.trees.known(id) {
            (tree.size, tree.absent) = (size, absent.clone());
        }
    }

    /// The group of a node hears of new hosts behind a link.
    pub(crate) fn on_new_hosts(&mut self, id: Id, link: LinkId, ranks: &Ranks, agenda: &mut Agenda<Self>) {
        let child = self.processes[id.0 as usize].started.get(&link).copied();
        let host = child.and_then(|child| self.host_of(child)).unwrap_or(0);
        let is_leader = child.is_some_and(|child| {
            matches!(self.processes[child.0 as usize].place, Some(MemberRole::Leader(_)))
                && self.is_new(child)
        });
        let (own, returns) = self.restarts.hosts.get(&HostIndex(host)).cloned().unwrap_or_default();
        let has_own = !own.is_empty() && own.intersection(ranks).len() == own.len();
        let Some(tree) = self.trees.known(id) else {
            self.growth.wrong = Some(format!("{id:?} has no tree, and hears of {ranks}"));
            return;
        };
        let is_known = tree
            .branches
            .iter()
            .any(|branch| branch.link == link || !returns && !branch.ranks.intersection(ranks).is_empty());
        if !is_leader || !has_own || is_known {
            self.growth.wrong = Some(format!("{ranks} join over {link} of {id:?}: {tree:?}"));
        }
        tree.branches.push(Branch { link, ranks: ranks.clone(), local: false });
        self.send_frame(id, link, agenda);
    }

    /// A process has its tree: it joins a session that is up if it is of a new host.
    pub(crate) fn check_new(&mut self, id: Id, tree: &Topology) {
        if self.is_new(id) && !tree.joins {
            self.growth.wrong = Some(format!("{id:?} is new, and has {tree:?}"));
        }
    }
}

/// The answers so far.
fn answers(sim: &Sim<Cluster>) -> Vec<(Instant, Option<GrowthError>)> {
    let notices = sim.world.notices.iter();
    let answers = notices.filter_map(|(at, notice)| match notice {
        Notice::Grown(_) => Some((*at, None)),
        Notice::NotGrown(why) => Some((*at, Some(why.clone()))),
        _ => None,
    });
    answers.collect()
}

fn run_until(sim: &mut Sim<Cluster>, at: Instant) -> Result<(), String> {
    let hosts = sim.world.growth.hosts.last().copied().unwrap_or(sim.world.scenario.hosts);
    match sim.run(at, 400_000 + 60_000 * u64::from(hosts)) {
        StopReason::StepLimit => Err(format!("something spins by {}", sim.agenda.now())),
        _ => Ok(()),
    }
}

fn up(scenario: &Scenario) -> Result<(Sim<Cluster>, Instant), String> {
    let mut sim = begun(scenario);
    let mut now = Instant::ZERO;
    while !sim.world.notices.iter().any(|(_, notice)| *notice == Notice::Up) {
        now += Duration::from_millis(50);
        run_until(&mut sim, now)?;
        if now > Instant::ZERO + scenario.deadline {
            return Err("is not up".to_owned());
        }
    }
    Ok((sim, now))
}

/// Plays a scenario; returns how many hosts have joined.
fn play(scenario: &Scenario) -> Result<usize, String> {
    let mut rng = Rng::new(scenario.seed).fork(71);
    let (mut sim, mut now) = up(scenario)?;
    let (mut hosts, mut asked) = (scenario.hosts, 0);
    sim.world.growth.hosts.insert(hosts);
    let (is_bad, has_deaths) = (rng.chance(0.5), rng.chance(0.6));
    let first_may_die = rng.chance(0.1);
    let mut expects_all = !is_bad && !has_deaths;
    let mut victims = BTreeSet::new();
    let mut has_time = true;
    for _ in 0..1 + rng.below(4) {
        now += Duration::from_millis(rng.below(8_000));
        run_until(&mut sim, now)?;
        sim.world.scenario.bad = if is_bad { rng.unit() * 0.5 } else { 0.0 };
        let most = if rng.chance(0.2) { 40 } else { 6 };
        let more = 1 + rng.below(most) as u32;
        let policy = if rng.chance(0.4) { Policy::All } else { Policy::AtLeast(rng.below(4) as u32) };
        let deadline = Duration::from_millis(if rng.chance(0.8) { 60_000 } else { rng.below(3_000) });
        let request = Box::new(scenario.growth(more, policy, deadline));
        sim.world.growth.hosts.insert(hosts + more);
        sim.agenda.tell(now, FRONT, Event::Grow(request.clone()).into());
        asked += 1;
        if rng.chance(0.2) {
            // While the first is under way, or at least not later than it.
            sim.agenda.tell(now, FRONT, Event::Grow(request).into());
            asked += 1;
        }
        hosts += more;
        let mut deaths = Vec::new();
        let count = if has_deaths { rng.below(4) } else { 0 };
        for _ in 0..count {
            let latest = if rng.chance(0.5) { 1_000 } else { 20_000 };
            deaths.push(rng.below(latest));
        }
        deaths.sort_unstable();
        let begun = now;
        for after in deaths {
            now = begun + Duration::from_millis(after);
            run_until(&mut sim, now)?;
            let leaders = sim.world.alive().filter(|(id, process)| {
                // With the first host, all others are lost.
                let first = u32::from(!scenario.replace_master && !first_may_die);
                *id != FRONT && matches!(process.place, Some(MemberRole::Leader(host)) if host.0 >= first)
            });
            let leaders: Vec<Id> = leaders.map(|(id, _)| id).collect();
            if let Some(id) = leaders.get(rng.below(leaders.len().max(1) as u64) as usize) {
                victims.extend(sim.world.host_of(*id));
                sim.agenda.plan(now, Happening::Dies(Pick::This(*id)));
            }
        }
        // Lost hosts return, before the next growth or beside it. Some ranks that are asked for are not lost.
        let returns = if has_deaths { rng.below(4) } else { 0 };
        for _ in 0..returns {
            let rank = Rank(rng.below(u64::from(hosts * scenario.members)) as u32);
            let at = now + Duration::from_millis(rng.below(30_000));
            sim.agenda.tell(at, FRONT, Event::Restart(rank).into());
        }
        now = now.max(begun + deadline + scenario.rules.kill_grace * 2 + Duration::from_secs(42));
        run_until(&mut sim, now)?;
        let answers = answers(&sim);
        if answers.len() != asked {
            return Err(format!("{asked} requests by {now} have these answers: {answers:?}"));
        }
        if is_over(&sim) {
            break;
        }
        has_time &= deadline > Duration::from_secs(30);
        expects_all &= has_time;
        if expects_all && matches!(answers.last(), Some((_, Some(why))) if *why != GrowthError::UnderWay) {
            return Err(format!("does not grow: {answers:?}"));
        }
        if expects_all && sim.agenda.machine(FRONT).unwrap().progress() != (hosts, 0, 0) {
            return Err(format!("hosts are missing: {:?}", sim.agenda.machine(FRONT).unwrap().progress()));
        }
    }
    // Orphans have to be back, and silent hosts to be noticed.
    now += Duration::from_secs(60);
    run_until(&mut sim, now)?;
    if !is_over(&sim) {
        all_are_known(&sim)?;
        if !is_bad && has_time && scenario.links != LinkPolicy::Channel {
            only_victims_have_failed(&sim, &victims)?;
        }
    }
    let joined = sim.agenda.machine(FRONT).unwrap().host_states().skip(scenario.hosts as usize);
    let joined = joined.filter(|state| **state == HostState::Joined).count();
    // A request just before the end.
    let late = scenario.growth(3, Policy::All, Duration::from_secs(60));
    sim.world.growth.hosts.insert(hosts + 3);
    sim.agenda.tell(now, FRONT, Event::Grow(Box::new(late)).into());
    now += Duration::from_millis(rng.below(600));
    run_until(&mut sim, now)?;
    sim.agenda.plan(now, Happening::Ends);
    run_until(&mut sim, now + Duration::from_secs(60) + scenario.rules.peer_timeout * hosts)?;
    let left: Vec<_> = sim.world.alive().filter(|(id, _)| *id != FRONT).collect();
    if !left.is_empty() || sim.world.has_programs() {
        return Err(format!("left running: {left:?}"));
    }
    if answers(&sim).len() != asked + 1 {
        return Err("a request just before the end has no answer".to_owned());
    }
    // Frames are not exchanged over the links of orphans that are back.
    let trees = sim.world.trees.wrong.as_ref().filter(|_| !has_deaths && !sim.world.was_cut);
    let wrong = [sim.world.growth.wrong.as_ref(), sim.world.restarts.wrong.as_ref(), trees];
    match wrong.into_iter().flatten().next() {
        Some(wrong) => Err(wrong.clone()),
        None => Ok(joined),
    }
}

/// Whether no member is left: the first host may die as well, and with it all others where links are channels.
fn is_over(sim: &Sim<Cluster>) -> bool {
    sim.world.notices.iter().any(|(_, notice)| *notice == Notice::Done)
}

/// A host is in the session if its leader lives and knows it; its members live, and are its only processes.
fn all_are_known(sim: &Sim<Cluster>) -> Result<(), String> {
    let front = sim.agenda.machine(FRONT).ok_or("no front end")?;
    let more = sim.world.notices.iter().map(|(_, notice)| match notice {
        Notice::Grown(grown) | Notice::NotGrown(GrowthError::TooFew(grown)) => grown.hosts,
        Notice::Returned { .. } => 1,
        _ => 0,
    });
    let hosts = sim.world.scenario.hosts + more.sum::<u32>();
    if front.host_states().count() != hosts as usize {
        return Err(format!("the front end knows {} of {hosts} hosts", front.host_states().count()));
    }
    for (host, state) in (0..).zip(front.host_states()) {
        let place = Some(MemberRole::Leader(HostIndex(host)));
        let leaders: Vec<_> = sim.world.alive().filter(|(_, process)| process.place == place).collect();
        let is_in = matches!(&leaders[..], [(_, leader)] if leader.told_up);
        // A host whose only member has ended is not lost.
        let ranks = sim.world.restarts.hosts.get(&HostIndex(host)).map(|(ranks, _)| ranks.clone());
        let lowest = ranks.and_then(|ranks| ranks.lowest()).unwrap_or(Rank(u32::MAX));
        let has_ended = leaders.is_empty() && has_ended(sim, lowest);
        let is_right = if *state == HostState::Joined { is_in || has_ended } else { leaders.is_empty() };
        if !is_right || *state == HostState::Waiting {
            return Err(format!("host {host} is {state:?}, and led by {leaders:?}"));
        }
        let members = sim.world.alive().filter(|(id, process)| {
            sim.world.host_of(*id) == Some(host) && matches!(process.place, Some(MemberRole::Local(_)))
        });
        let members: Vec<_> = members.collect();
        if *state != HostState::Joined && !members.is_empty()
            || members.iter().any(|(_, member)| !member.told_up)
        {
            return Err(format!("host {host} is {state:?}, with members {members:?}"));
        }
    }
    Ok(())
}

/// Where hosts find another parent, and all launches succeed, one that has failed was killed; or it was ended with
/// others because one that was had no attempts left; or it was lost with its launcher before it had heard that it
/// is in the session.
fn only_victims_have_failed(sim: &Sim<Cluster>, victims: &BTreeSet<u32>) -> Result<(), String> {
    let front = sim.agenda.machine(FRONT).ok_or("no front end")?;
    for (host, state) in (0..).zip(front.host_states()) {
        let HostState::Failed(failure) = state else { continue };
        let is_ended_with = match &failure.cause {
            Cause::Cancelled => true,
            // It is not launched again if there are too few without it.
            Cause::LauncherLost(launcher) if was_given_up(sim, host) => victims.contains(&launcher.0),
            Cause::LaunchFailed(host) => victims.contains(&host.0),
            _ => false,
        };
        let explains = is_ended_with && lost_at(sim, HostIndex(host)).is_none();
        if !victims.contains(&host) && !explains && !is_lost_with_launcher(sim, HostIndex(host), failure) {
            return Err(format!("host {host} has failed, of the victims {victims:?}: {failure:?}"));
        }
    }
    Ok(())
}

/// Whether the session has not grown by this host, because too few have joined.
fn was_given_up(sim: &Sim<Cluster>, host: u32) -> bool {
    let is_it = |why| matches!(why, Some(GrowthError::TooFew(grown)) if grown.host_range().contains(&host));
    answers(sim).into_iter().any(|(_, why)| is_it(why))
}

fn lost_at(sim: &Sim<Cluster>, host: HostIndex) -> Option<Instant> {
    let is_it = |notice: &Notice| matches!(notice, Notice::Lost(of, _) if *of == host);
    sim.world.notices.iter().find(|(_, notice)| is_it(notice)).map(|(at, _)| *at)
}

/// Whether a new host was lost with its launcher, not long after the session had grown.
fn is_lost_with_launcher(sim: &Sim<Cluster>, host: HostIndex, failure: &Failure) -> bool {
    let is_new = host.0 >= sim.world.scenario.hosts
        && matches!(failure.cause, Cause::LauncherLost(_) | Cause::Cancelled);
    let latest = Duration::from_secs(5) + sim.world.scenario.rules.peer_timeout;
    let Some(lost) = lost_at(sim, host).filter(|_| is_new) else { return false };
    let returned = sim.world.notices.iter().filter(|(_, it)| matches!(it, Notice::Returned { .. }));
    let mut admitted = returned.map(|(at, _)| *at).chain(answers(sim).into_iter().map(|(at, _)| at));
    admitted.any(|at| (at..at + latest).contains(&lost))
}

fn has_ended(sim: &Sim<Cluster>, rank: Rank) -> bool {
    let is_it = |notice: &Notice| matches!(notice, Notice::Exited(of, ..) if *of == rank);
    sim.world.notices.iter().any(|(_, notice)| is_it(notice))
}

/// Seeds that have found defects where hosts find other parents: an orphan that waited for one while the node
/// that had launched its host reported that lost, and that was adopted when this node was lost as well; a host
/// that waited at one which was ended with others, and was reported as if that had been lost; and a new host of
/// a launcher that was lost just before the end of the growth, of which no end was reported. Where lost hosts
/// return as well: a launch that waited for children which could not be given any host; a report of an earlier
/// attempt, by which the next one was forgotten; and a host that had joined in vain, and was taken for one of the
/// session as its orphaned launcher came back.
const FOUND_WITH_ORPHANS: [u64; 6] = [950_000_889, 507_219_967_517, 988_738_289_405, 2_659, 1_145, 500_298];

#[test]
fn each_growth_has_one_answer_and_all_that_have_joined_are_up() {
    let joined = std::cell::Cell::new(0);
    let seeds = FOUND_WITH_ORPHANS.into_iter().chain(seeds());
    check_all(seeds.map(Scenario::outliving_with_growth), |scenario| {
        joined.set(joined.get() + play(scenario)?);
        Ok(())
    });
    println!("{} hosts have joined sessions that were up", joined.get());
    assert!(joined.get() > 0);
}

#[test]
fn growth_that_has_found_defects_is_right() {
    check_all(FOUND.into_iter().map(Scenario::with_growth), |scenario| play(scenario).map(drop));
}

/// A session of one host that has grown to 256, in steps, and the launchers of these.
fn grown_in_steps(links: LinkPolicy) -> (Sim<Cluster>, u32) {
    let mut scenario = Scenario::with_growth(1);
    (scenario.hosts, scenario.members, scenario.links, scenario.agents) = (1, 2, links, None);
    scenario.rules.hello_timeout = Duration::from_secs(30);
    (scenario.seq, scenario.rem) = (Duration::from_millis(7), Duration::from_millis(172));
    scenario.strategy = Strategy::Late;
    let (mut sim, mut now) = up(&scenario).unwrap();
    let mut hosts = 1;
    while hosts < 256 {
        sim.world.growth.hosts.insert(2 * hosts);
        let request = scenario.growth(hosts, Policy::All, Duration::from_secs(60));
        sim.agenda.tell(now, FRONT, Event::Grow(Box::new(request)).into());
        now += Duration::from_secs(10);
        run_until(&mut sim, now).unwrap();
        hosts *= 2;
        assert_eq!(sim.agenda.machine(FRONT).unwrap().progress(), (hosts, 0, 0));
    }
    let launchers: BTreeSet<_> = sim.world.starts.iter().map(|start| format!("{:?}", start.by)).collect();
    (sim, launchers.len() as u32)
}

#[test]
fn a_session_grows_from_1_to_256_hosts_which_launch_each_other() {
    for links in [LinkPolicy::Auto, LinkPolicy::Channel] {
        let (sim, launchers) = grown_in_steps(links);
        all_are_known(&sim).unwrap();
        assert_eq!((&sim.world.growth.wrong, &sim.world.trees.wrong), (&None, &None));
        assert!(launchers > 20, "{launchers} nodes have launched hosts");
    }
}

#[test]
fn the_silence_of_the_host_that_launches_others_ends_a_growth_before_its_deadline() {
    let mut scenario = Scenario::with_growth(1);
    (scenario.hosts, scenario.links, scenario.strategy) = (3, LinkPolicy::Auto, Strategy::Late);
    (scenario.seq, scenario.rem) = (Duration::from_millis(7), Duration::from_millis(172));
    let (mut sim, now) = up(&scenario).unwrap();
    sim.world.growth.hosts.insert(9);
    let request = scenario.growth(6, Policy::All, Duration::from_secs(300));
    sim.agenda.tell(now, FRONT, Event::Grow(Box::new(request)).into());
    run_until(&mut sim, now + Duration::from_millis(20)).unwrap();
    let top = Some(MemberRole::Leader(HostIndex(0)));
    let (top, _) = sim.world.alive().find(|(_, process)| process.place == top).unwrap();
    sim.agenda.plan(sim.agenda.now(), Happening::Freezes(Pick::This(top)));
    run_until(&mut sim, now + scenario.rules.peer_timeout * 3).unwrap();
    let known = answers(&sim);
    assert!(matches!(&known[..], [(_, Some(GrowthError::TooFew(_)))]), "{known:?}");
    let front = sim.agenda.machine(FRONT).unwrap();
    let new: Vec<_> = front.host_states().skip(3).collect();
    let is_lost = |state: &&HostState| matches!(state, HostState::Failed(it) if matches!(it.cause, Cause::LauncherLost(_)));
    assert!(new.len() == 6 && new.iter().all(is_lost), "{new:?}");
}
