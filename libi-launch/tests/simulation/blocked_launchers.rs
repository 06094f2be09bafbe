//! Hosts that cannot launch others: they have no remote shell, are denied all logins, or get no
//! answers.
//!
//! The front end is never blocked. Therefore every working host joins, whatever fraction of the
//! hosts is blocked.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::{MemberRole, SessionKey};
use libi_core::plan::Strategy;
use libi_core::sim::Sim;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_launch::failure::{Cause, Exit, Failure, Phase};
use libi_launch::machine::{HostState, Node, Notice};

use crate::run;
use crate::scenario::{Fate, Scenario, Trouble};
use crate::world::{Cluster, FRONT};

/// The fate of launches from blocked hosts, and the fraction of hosts that are blocked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BlockedLaunchers {
    pub(crate) fate: Fate,
    fraction: f64,
}

/// How many launches a blocked leader may try if refusals come soon.
const FUTILE_LAUNCHES: u128 = 100;
/// How many launches have to be refused before a leader knows.
const REFUSALS: u128 = 8;

impl BlockedLaunchers {
    /// No host can log in to another.
    pub(crate) const ALL_DENIED: Self = Self { fate: Fate::Denied, fraction: 1.0 };

    pub(crate) fn draw(rng: &mut Rng) -> Option<Self> {
        let fate = [Fate::Denied, Fate::Refused, Fate::NotStarted, Fate::Hangs][rng.below(4) as usize];
        let fraction = [1.0, 1.0, 0.1, 0.5, 0.9][rng.below(5) as usize];
        rng.chance(0.3).then_some(Self { fate, fraction })
    }
}

impl Scenario {
    /// The scenario of a seed in which some hosts cannot launch others. Drawn from a separate
    /// stream.
    pub(crate) fn with_blocked_launchers(seed: u64) -> Self {
        let mut scenario = Self::with_links(seed);
        scenario.blocked_launchers = BlockedLaunchers::draw(&mut Rng::new(seed).fork(12));
        scenario
    }

    /// The scenario of a seed in which nodes may have resources for few launches. Drawn from a
    /// separate stream.
    pub(crate) fn with_capacity(seed: u64) -> Self {
        let mut scenario = Self::with_blocked_launchers(seed);
        let mut rng = Rng::new(seed).fork(16);
        scenario.capacity = rng.chance(0.25).then(|| [2, 3, 5, 20][rng.below(4) as usize]);
        scenario
    }

    /// The scenario of a seed with agents, of whose hosts the front end reaches only the first. Drawn
    /// from a separate stream.
    pub(crate) fn with_a_far_front_end(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(45);
        let mut scenario = Self::with_agents(seed);
        let front = Node::front(SessionKey(seed), &scenario.plan(), seed);
        let others_may = scenario.blocked_launchers.is_none() && scenario.capacity.is_none();
        let fate = [Fate::Denied, Fate::Refused, Fate::Hangs][rng.below(3) as usize];
        scenario.far = Some(fate).filter(|_| others_may && front.launches_as_leaders());
        scenario
    }

    /// Whether some hosts may not be reachable for lack of resources. A launcher without resources
    /// passes hosts on, except in static trees or if the others cannot launch.
    pub(crate) fn is_crowded(&self) -> bool {
        self.capacity.is_some() && (self.strategy != Strategy::Late || self.blocked_launchers.is_some())
    }

    /// The fate of launches from this machine, if it is blocked.
    pub(crate) fn blocked_fate(&self, launcher: &str) -> Option<Fate> {
        let blocked_launchers = self.blocked_launchers?;
        let spare = launcher.strip_prefix("spare").map(|number| (1 << 32, number));
        let (kind, number) = spare.or_else(|| Some((0, launcher.strip_prefix("node")?)))?;
        let number: u64 = number.parse().ok()?;
        Rng::new(self.seed)
            .fork(13)
            .fork(kind | number)
            .chance(blocked_launchers.fraction)
            .then_some(blocked_launchers.fate)
    }

    fn is_blocked(&self, host: u32) -> bool {
        self.blocked_fate(&format!("node{host}")).is_some()
    }
}

/// Whether this is the failure of a blocked launcher that was still in doubt when the session settled.
/// It stands, because that came before the launcher could be told from its hosts.
pub(crate) fn stands_in_doubt(scenario: &Scenario, world: &Cluster, front: &Node, failure: &Failure) -> bool {
    let settled = |host: &HostState| matches!(host, HostState::Failed(f) if f.cause == Cause::SettleElapsed);
    let is_blocked = |launcher: HostIndex| {
        let name = world.starts.iter().rev().find(|start| start.host == launcher).map(|start| &start.name);
        name.is_some_and(|name| scenario.blocked_fate(name).is_some())
    };
    front.host_states().any(settled) && failure.timing.launcher.is_some_and(is_blocked)
}

/// Every working host joins, and the report says how.
pub(crate) fn checks(scenario: &Scenario, sim: &Sim<Cluster>, front: &Node) -> Result<(), String> {
    let world = &sim.world;
    let links_fail = world.was_cut || scenario.may_be_unreachable();
    if scenario.starters_fail()
        || scenario.is_crowded()
        || scenario.has_faults()
        || !scenario.hosts_are_well()
        || links_fail
        || scenario.settles()
    {
        return Ok(());
    }
    let verdict = world.notices.iter().find(|(_, notice)| matches!(notice, Notice::Up | Notice::GivenUp));
    let Some((at, verdict)) = verdict else { return Ok(()) };
    if *at >= Instant::ZERO + scenario.deadline {
        return Ok(()); // there was not enough time
    }
    let joined = front.progress().0;
    if *verdict != Notice::Up || joined < scenario.hosts && !has_losses(world) {
        let failed = front.host_states().find(|known| matches!(known, HostState::Failed(_)));
        return Err(format!("{joined} of {} have joined, though all live: {failed:?}", scenario.hosts));
    }
    let flat = front.flat_launch();
    // If the front end launches from the first moment, any of its children may be the first that
    // cannot, and none if all hosts were launched before.
    let expected = match flat {
        _ if !front.launches_as_leaders() => scenario.hosts > 1 && scenario.is_blocked(0),
        Some((leader, _)) => scenario.is_blocked(leader.0),
        None => false,
    };
    match (flat, scenario.blocked_launchers) {
        (None, _) if !expected => {}
        (Some((_, failure)), None)
            if scenario.capacity.is_some() && Fate::OutOfResources.explains(failure) => {}
        (Some((leader, failure)), Some(blocked_launchers))
            if expected && (leader == HostIndex(0) || front.launches_as_leaders()) =>
        {
            let fits = match blocked_launchers.fate {
                Fate::NotStarted => matches!(failure.cause, Cause::NotStarted(_)),
                Fate::Refused => failure.tail.contains("refused"),
                Fate::Denied => {
                    failure.cause == Cause::Exited(Exit::Code(255)) && failure.tail.contains("denied")
                }
                _ => failure.cause == Cause::TimedOut,
            };
            if !fits || failure.phase != Phase::Starting {
                return Err(format!("says why hosts do not launch each other: {failure:?}"));
            }
        }
        _ => return Err(format!("says of hosts that launch each other: {flat:?}")),
    }
    futile_launches(scenario, world)
}

fn has_losses(world: &Cluster) -> bool {
    world.notices.iter().any(|(_, notice)| matches!(notice, Notice::Lost(..) | Notice::Exited(..)))
}

/// A blocked leader notices soon, and retries no host if the cause is clear.
fn futile_launches(scenario: &Scenario, world: &Cluster) -> Result<(), String> {
    let Some(blocked_launchers) = scenario.blocked_launchers else { return Ok(()) };
    // Refusals count in the order of the launches, and each comes after 1.5 REM at most.
    let until_first = scenario.rem.mul_f64(1.5).as_nanos().checked_div(scenario.seq.as_nanos());
    let most = until_first.map_or(FUTILE_LAUNCHES, |first| FUTILE_LAUNCHES.max(first + REFUSALS));
    for host in (0..scenario.hosts).filter(|host| scenario.is_blocked(*host)) {
        let by = Some(MemberRole::Leader(HostIndex(host)));
        let tried: Vec<_> = world.starts.iter().filter(|start| start.by == by).collect();
        let hosts: std::collections::BTreeSet<_> = tried.iter().map(|start| start.host).collect();
        let soon = blocked_launchers.fate != Fate::Hangs;
        let at_once = matches!(blocked_launchers.fate, Fate::Denied | Fate::NotStarted);
        if soon && tried.len() as u128 > most || at_once && tried.len() > hosts.len() {
            return Err(format!("host {host} has launched {} times in vain", tried.len()));
        }
    }
    Ok(())
}

#[test]
fn hosts_that_the_front_end_cannot_reach_wait_for_one_that_is_slow_to_come_up() {
    let mut scenario = Scenario::of_agents(8);
    (scenario.far, scenario.trouble) = (Some(Fate::Refused), Trouble::FirstHangsOnce);
    // All attempts at the others take less time than the first one at the first host.
    (scenario.rules.attempts, scenario.rules.hello_timeout) = (4, Duration::from_secs(12));
    (scenario.deadline, scenario.ends) = (Duration::from_secs(60), Duration::from_secs(70));
    let sim = run(&scenario).unwrap_or_else(|wrong| panic!("{wrong}\n{scenario:#?}"));
    let front = sim.agenda.machine(FRONT).unwrap();
    assert_eq!(front.progress(), (8, 0, 0), "{:#?}", sim.world.starts);
    let of_front =
        |host| sim.world.starts.iter().filter(move |start| start.by.is_none() && start.host == host);
    assert_eq!((1..8).map(|host| of_front(HostIndex(host)).count()).max(), Some(4));
}
