//! Scenarios in which Slurm's `srun` makes the bulk starts, and what must hold in them.
//!
//! A start may wait in a queue, for longer than the launch may last; it may be refused for good, or
//! fail as a whole without a reason because of one of its hosts; and a host that cannot be started
//! ends all others of its start.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::MemberRole;
use libi_core::plan::late::Attempt;
use libi_core::sim::Sim;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_launch::backend::{SlurmJob, Srun};
use libi_launch::failure::{Cause, Exit, Failure, Phase};
use libi_launch::machine::{HostState, Node, Notice, Policy};

use crate::scenario::{Fate, Scenario, Trouble};
use crate::world::{Cluster, INVALID, NOT_LAUNCHED, QUEUED};

/// The most starts that fail as a whole and are divided, as the machine limits them.
const MOST_DIVISIONS: u32 = 64;

/// How often the machine lets the starts of a host be ended for each attempt at it.
const LOSSES_FOR_AN_ATTEMPT: usize = 32;

/// What may go wrong with `srun`, beside the fates of hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SrunTrouble {
    pub(crate) queue_timeout: Duration,
    /// The fraction of starts that wait in the queue, and how many do at most.
    pub(crate) waits: f64,
    pub(crate) most_waiting: u32,
    /// How often a start waits at most, how long each time, and the fraction of waits without end.
    pub(crate) waits_of_a_start: u32,
    pub(crate) longest_wait: Duration,
    pub(crate) never: f64,
    /// The fraction of starts that are refused for good.
    pub(crate) refused: f64,
    /// The fraction of starters that are killed.
    pub(crate) killed: f64,
    /// The fraction of starts that are cancelled.
    pub(crate) cancelled: f64,
    /// Hosts that cannot be started, which `srun` tells.
    named: Selection,
    /// Hosts for which `srun` refuses all hosts of a start, without naming them.
    silent: Selection,
    /// Hosts that are not of the job.
    outside: Selection,
    has_job: bool,
    /// How much longer than for a start it takes to notice that a host cannot be started.
    pub(crate) notices: Duration,
}

/// Some of the hosts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Selection {
    None,
    One(u64),
    Fraction(f64),
}

/// The trouble that `srun` has with a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HostTrouble {
    Nothing,
    /// It cannot be started, and is named.
    Named,
    /// Starts that contain it fail as a whole.
    Silent,
    /// It is not a node of the job.
    Outside,
}

impl SrunTrouble {
    fn draw(rng: &mut Rng) -> Self {
        let millis = Duration::from_millis;
        let mut fraction = |of: [f64; 6]| of[rng.below(6) as usize];
        let waits = fraction([0.0, 0.0, 0.0, 0.3, 1.0, 1.0]);
        let never = fraction([0.0, 0.0, 0.0, 0.0, 0.2, 1.0]);
        let refused = fraction([0.0, 0.0, 0.0, 0.0, 0.2, 1.0]);
        let killed = fraction([0.0, 0.0, 0.0, 0.0, 0.2, 1.0]);
        let mut select = || match rng.below(8) {
            0 => Selection::One(rng.bits()),
            1 => Selection::Fraction([0.02, 0.1, 0.3][rng.below(3) as usize]),
            _ => Selection::None,
        };
        let (named, silent, outside) = (select(), select(), select());
        Self {
            queue_timeout: millis([0, 1_000, 60_000, 600_000, 1_800_000][rng.below(5) as usize]),
            waits,
            most_waiting: 1 + rng.below(4) as u32,
            waits_of_a_start: 1 + rng.below(3) as u32,
            longest_wait: millis([100, 20_000, 300_000, 1_200_000][rng.below(4) as usize]),
            never,
            refused,
            killed,
            cancelled: 0.0,
            named,
            silent,
            outside,
            has_job: rng.chance(0.5),
            notices: Duration::ZERO,
        }
    }

    /// Whether a host may fail that has met with nothing bad itself.
    pub(crate) fn is_any(&self) -> bool {
        let is_healthy = [self.named, self.silent, self.outside].iter().all(|it| *it == Selection::None);
        !is_healthy || self.may_fail_at_random()
    }

    fn may_fail_at_random(&self) -> bool {
        self.refused > 0.0 || self.killed > 0.0 || self.cancelled > 0.0 || self.may_time_out()
    }

    /// Whether a start may wait for longer than it may.
    fn may_time_out(&self) -> bool {
        let longest = (self.longest_wait + Duration::from_secs(3)) * self.waits_of_a_start;
        self.waits > 0.0 && (self.never > 0.0 || longest >= self.queue_timeout)
    }

    /// The longest time for which all starts together may wait.
    fn longest_queue(&self) -> Duration {
        let one =
            if self.never > 0.0 { self.queue_timeout + Duration::from_secs(10) } else { Duration::ZERO };
        let waits = (self.longest_wait + Duration::from_secs(3)) * self.waits_of_a_start;
        if self.waits > 0.0 { (one + waits) * self.most_waiting } else { Duration::ZERO }
    }
}

impl Scenario {
    /// The scenario of a seed with bulk starts, half of them by `srun`. Drawn from a separate stream.
    pub(crate) fn with_srun(seed: u64) -> Self {
        let mut scenario = Self::with_bulk_starts(seed);
        let mut rng = Rng::new(seed).fork(22);
        if rng.chance(0.5) {
            let mut trouble = SrunTrouble::draw(&mut rng);
            let slow = Rng::new(seed).fork(25).below(3);
            trouble.notices = Duration::from_millis([0, 500, 11_000][slow as usize]);
            let cancelled = Rng::new(seed).fork(27).below(10);
            trouble.cancelled = [0.3, 1.0].get(cancelled as usize).copied().unwrap_or(0.0);
            scenario.hosts_per_start = 65_536;
            scenario.ends += trouble.longest_queue();
            scenario.srun = Some(trouble);
            if let Some(bulk) = &mut scenario.bulk {
                // Most checks need to know that nothing else is wrong.
                let is_alone = rng.chance(0.7);
                (bulk.exits, bulk.not_started) = if is_alone { (0.0, 0.0) } else { (bulk.exits, 0.0) };
            }
            if rng.chance(0.4) {
                (scenario.bad, scenario.trouble) = (0.0, Trouble::Nothing);
                scenario.no_listeners = false;
                scenario.deaths.clear();
                scenario.freezes.clear();
                scenario.deaths_after_up.clear();
            }
        }
        scenario
    }

    /// The back-end, if it is `srun`.
    pub(crate) fn srun(&self) -> Option<Srun> {
        let trouble = self.srun?;
        let names = (0..self.hosts).map(|host| format!("node{host}"));
        let names = names.chain((0..self.spares).map(|spare| format!("spare{spare}")));
        let nodes = names.filter(|name| self.host_trouble(name) != HostTrouble::Outside).collect();
        let job = trouble.has_job.then(|| SlurmJob { id: "7".to_owned(), nodes });
        Some(Srun { queue_timeout: trouble.queue_timeout, job, ..Srun::new() })
    }

    /// The trouble that `srun` has with the host of this name.
    pub(crate) fn host_trouble(&self, name: &str) -> HostTrouble {
        let Some(trouble) = self.srun else { return HostTrouble::Nothing };
        let number = |prefix| name.strip_prefix(prefix).and_then(|number| number.parse::<u64>().ok());
        let (number, is_spare) = match (number("node"), number("spare")) {
            (Some(number), _) => (number, false),
            (_, Some(number)) => (number, true),
            _ => return HostTrouble::Nothing,
        };
        let mut rng = Rng::new(self.seed).fork(24).fork(number << 1 | u64::from(is_spare));
        let mut is_of = |selection| match selection {
            Selection::None => false,
            Selection::One(one) => !is_spare && one % u64::from(self.hosts) == number,
            Selection::Fraction(fraction) => rng.chance(fraction),
        };
        if is_of(trouble.outside) && trouble.has_job {
            HostTrouble::Outside
        } else if is_of(trouble.silent) {
            HostTrouble::Silent
        } else if is_of(trouble.named) {
            HostTrouble::Named
        } else {
            HostTrouble::Nothing
        }
    }

    /// Whether the machine that a host was last launched on can be started by `srun`, if that
    /// starts hosts.
    pub(crate) fn can_start(&self, world: &Cluster, host: HostIndex) -> bool {
        let last = world.starts.iter().rfind(|start| start.host == host);
        last.is_none_or(|start| self.host_trouble(&start.name) == HostTrouble::Nothing)
    }

    /// How much longer it takes to notice that the host of this name cannot be started.
    pub(crate) fn time_to_notice(&self, name: &str) -> Duration {
        let is_named = self.host_trouble(name) == HostTrouble::Named;
        self.srun.filter(|_| is_named).map_or(Duration::ZERO, |srun| srun.notices)
    }

    /// How many hosts and spares `srun` has trouble with.
    fn troubled(&self) -> usize {
        let spares = (0..self.spares).map(|spare| format!("spare{spare}"));
        let names = (0..self.hosts).map(|host| format!("node{host}")).chain(spares);
        names.filter(|name| self.host_trouble(name) != HostTrouble::Nothing).count()
    }
}

/// How long starts have waited for resources.
pub(crate) fn queued(world: &Cluster, now: Instant) -> Duration {
    // The front end hears of it later, each time.
    let news = world.scenario.latency * (2 * world.bulk.srun.waits * 3);
    world.bulk.srun.queued(now) + news
}

/// Whether what happened to the start of this attempt explains a failure.
pub(crate) fn explains(
    scenario: &Scenario,
    world: &Cluster,
    attempt: (MemberRole, Attempt),
    name: &str,
    failure: &Failure,
) -> bool {
    let record = &world.bulk.srun;
    match &failure.cause {
        Cause::NotStarted(why) if why.contains("is not a node of job") => {
            scenario.host_trouble(name) == HostTrouble::Outside && why.starts_with(name)
        }
        Cause::NotStarted(why) if why.starts_with(NOT_LAUNCHED) => {
            let node = why[NOT_LAUNCHED.len()..].split(':').next();
            scenario.host_trouble(name) == HostTrouble::Named && node == Some(name)
        }
        Cause::NotStarted(why) if record.is_told(why) => record.is_cancelled(attempt),
        Cause::NotStarted(why) => why == INVALID && record.refused.contains(&attempt),
        Cause::StarterExited(exit) => {
            let is_silent = scenario.host_trouble(name) == HostTrouble::Silent && *exit == Exit::Code(1);
            is_silent || record.untold.get(&attempt) == Some(&Some(*exit))
        }
        // Its starter has printed something.
        Cause::TimedOut => world.fates.get(&attempt) == Some(&Fate::Hangs) && failure.tail.contains(QUEUED),
        Cause::NotScheduled => record.unscheduled.contains(&attempt),
        Cause::Closed | Cause::Exited(Exit::Signal(9)) if record.ended_with_others.contains(&attempt) => true,
        // A host that had not arrived is told the reason.
        Cause::Closed | Cause::Exited(Exit::Signal(15)) => {
            let had_arrived = failure.phase > Phase::Starting
                || matches!(world.fates.get(&attempt), Some(Fate::ClosesOnly | Fate::ExitsOpen));
            had_arrived && record.is_cancelled(attempt)
        }
        _ => false,
    }
}

/// Whether the starts of a host are said to have been ended too often, because of another host that could
/// not be started, and has failed.
pub(crate) fn blames_another(scenario: &Scenario, front: &Node, failure: &Failure) -> bool {
    let has_failed =
        |host: HostIndex| matches!(front.host_states().nth(host.0 as usize), Some(HostState::Failed(_)));
    matches!(failure.cause, Cause::LaunchFailed(other) if scenario.srun.is_some() && has_failed(other))
}

/// Whether that is so, and they were ended as often as is allowed.
pub(crate) fn is_ended_too_often(
    scenario: &Scenario,
    world: &Cluster,
    front: &Node,
    host: u32,
    known: &HostState,
) -> bool {
    let HostState::Failed(failure) = known else { return false };
    // It may have joined each time, and been ended with others before the session was up.
    let is_said = blames_another(scenario, front, failure);
    let starts = world.starts.iter().filter(|start| start.host == HostIndex(host)).count();
    is_said && starts > usize::from(scenario.rules.attempts) * LOSSES_FOR_AN_ATTEMPT
}

/// What must hold of starts by `srun`.
pub(crate) fn checks(scenario: &Scenario, sim: &Sim<Cluster>, front: &Node) -> Result<(), String> {
    let Some(trouble) = scenario.srun else { return Ok(()) };
    let world = &sim.world;
    let record = &world.bulk.srun;
    if record.parts > 2 * MOST_DIVISIONS {
        return Err(format!("starts were divided again and again: {} parts", record.parts));
    }
    let mut starts = world.starts.iter();
    if let Some(start) = starts.find(|start| scenario.host_trouble(&start.name) == HostTrouble::Outside) {
        return Err(format!("is not of the job, but was started: {start:?}"));
    }
    if scenario.has_faults() {
        return Ok(());
    }
    if let Some(wrong) = &record.up_too_early {
        return Err(wrong.clone());
    }
    let most = trouble.queue_timeout + scenario.rules.kill_grace * 4 + scenario.latency * 8;
    if let Some(long) = record.waited.iter().find(|(_, waited)| **waited > most) {
        return Err(format!("was left in the queue for longer than {most:?}: {long:?}"));
    }
    for (place, attempt) in &record.refused {
        let again = Attempt { failed: attempt.failed + 1, ..*attempt };
        let launch_of = |attempt: Attempt| {
            let mut starts = world.starts.iter();
            starts.find(|start| MemberRole::Leader(start.host) == *place && start.attempt == attempt)
        };
        if let Some(start) = launch_of(again) {
            return Err(format!("was refused for good, but is started again: {start:?}"));
        }
    }
    // What was cancelled is not started again. The news of it takes its way. Starts that fail as a
    // whole are divided until the reason is known.
    let exits = scenario.bulk.is_some_and(|bulk| bulk.exits > 0.0);
    let divides = trouble.silent != Selection::None || trouble.killed > 0.0 || exits;
    let until_known = if divides { scenario.rules.kill_grace } else { Duration::ZERO };
    for said in record.cancelled.values().filter_map(|cancelled| cancelled.said) {
        let heard = said + scenario.latency * 2 + until_known + Duration::from_millis(1);
        if let Some(start) = world.starts.iter().find(|start| start.at > heard) {
            return Err(format!("was cancelled at {said}, but starts: {start:?}"));
        }
    }
    // A session that is up is told that its start is ended.
    let at_of =
        |which: &dyn Fn(&Notice) -> bool| world.notices.iter().find(|(_, it)| which(it)).map(|(at, _)| *at);
    let up = at_of(&|it| *it == Notice::Up);
    let (over, told) = (at_of(&|it| *it == Notice::Over), at_of(&|it| matches!(it, Notice::Revoked(_))));
    for said in record.cancelled.values().filter_map(|cancelled| cancelled.said) {
        let heard = said + scenario.latency * 2 + Duration::from_millis(1);
        let is_up = up.is_some_and(|up| up < said) && Instant::ZERO + scenario.ends > heard;
        if is_up && told.is_none() && over.is_some() {
            return Err(format!("was cancelled at {said} when it was up, and is not told"));
        }
    }
    let known: Vec<&HostState> = front.host_states().collect();
    let verdict = world.notices.iter().find(|(_, notice)| matches!(notice, Notice::Up | Notice::GivenUp));
    let Some((at, verdict)) = verdict else { return Ok(()) };
    let in_time = *at < Instant::ZERO + scenario.deadline + front.queued();
    // What the front end says of its waiting is true.
    let told = front.queued();
    let (least, most) = (record.queued(*at), queued(world, sim.agenda.now()));
    let news = most.saturating_sub(record.queued(sim.agenda.now())) + Duration::from_millis(1);
    // A starter may go on waiting after its hosts were given up, until it is killed.
    let without_hosts = scenario.rules.kill_grace * (2 * record.waits);
    if told > most + news || in_time && *verdict == Notice::Up && told + news + without_hosts < least {
        return Err(format!("has waited for {least:?} to {most:?}, but tells of {told:?}"));
    }
    let replaced: BTreeSet<HostIndex> = front.replaced().iter().map(|replaced| replaced.host).collect();
    let all_else_is_well = scenario.hosts_are_well();
    let starters_are_well = !trouble.may_fail_at_random()
        && scenario.bulk.is_some_and(|bulk| bulk.exits == 0.0 && bulk.not_started == 0.0)
        && !scenario.no_listeners;
    let is_one = scenario.troubled() == 1 && scenario.rules.attempts > 1;
    let spared = all_else_is_well && starters_are_well && (is_one || scenario.troubled() == 0);
    for (host, known) in (0..).map(HostIndex).zip(&known) {
        let HostState::Failed(failure) = known else { continue };
        let name = format!("node{}", host.0);
        let is_sound = scenario.host_trouble(&name) == HostTrouble::Nothing;
        let cut_short = failure.cause.is_cut_short();
        if spared && is_sound && !cut_short && in_time && !replaced.contains(&host) {
            return Err(format!("{host} is sound, but given up: {failure:?}"));
        }
        // Programs that are ended with their starter are launched again, unless the session is up when
        // that is heard.
        let was_up = |killed: Instant| up.is_some_and(|up| up < killed + scenario.latency * 2);
        let mut left =
            record.left_by_killed.iter().filter(|((place, _), _)| *place == MemberRole::Leader(host));
        let is_left = left.any(|(_, killed)| !was_up(*killed));
        let is_ended = failure.cause == Cause::Exited(Exit::Signal(15)) && failure.phase < Phase::Joined;
        if is_left && is_ended && in_time && record.cancelled.is_empty() {
            return Err(format!("{host} was ended with its starter, but given up: {failure:?}"));
        }
        // The reason that the back-end knows without a start is always told.
        let is_outside = scenario.host_trouble(&name) == HostTrouble::Outside && !replaced.contains(&host);
        let is_told =
            explains(scenario, world, (MemberRole::Leader(host), Attempt::default()), &name, failure);
        if is_outside && in_time && !cut_short && !is_told {
            return Err(format!("{host} is not of the job, but: {failure:?}"));
        }
    }
    let first_is_sound = scenario.host_trouble("node0") == HostTrouble::Nothing;
    let enough = match scenario.policy {
        Policy::All => scenario.troubled() == 0,
        Policy::AtLeast(least) => least as usize + scenario.troubled() <= scenario.hosts as usize,
    };
    let long = scenario.deadline > Duration::from_secs(100) && scenario.hosts <= 1_000;
    if spared && first_is_sound && enough && long && *verdict != Notice::Up {
        return Err(format!("enough hosts are sound, but it is {verdict:?} at {at}: {known:?}"));
    }
    Ok(())
}
