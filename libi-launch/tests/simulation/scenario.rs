//! Scenarios: the number of hosts, costs, faults. Everything follows from the seed.

mod fate;
mod plan;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use libi_core::join::MemberRole;
use libi_core::plan::late::Attempt;
use libi_core::plan::{Shape, Strategy};
use libi_core::sim::MachineId as Id;
use libi_core::sim::rng::Rng;
use libi_launch::machine::{LinkId, LinkPolicy, Policy, Rules};

pub(crate) use self::fate::Fate;
use crate::actions::Action;
use crate::agents::AgentTrouble;
use crate::blocked_launchers::BlockedLaunchers;
use crate::commands::CommandAction;
use crate::feeding::Feed;
use crate::folding::Folds;
use crate::srun_starts::SrunTrouble;
use crate::staging::StagingTrouble;
use crate::world::BulkTrouble;

/// How long actions happen after the session is up.
pub(crate) const UP_TIME: Duration = Duration::from_secs(6);

/// Trouble with certain hosts, in every attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Nothing,
    /// This host comes up each time, and its link breaks after this many bytes.
    Breaks(u32, usize),
    /// Every third host hangs, up to this number of hosts.
    Hang(u32),
    /// This percentage of hosts, never the first, denies all logins.
    DenyAll(u32),
    /// This percentage of hosts, never the first, refuses the first attempt.
    RefuseOnce(u32),
    /// This percentage of hosts, never the first, never answers.
    Dead(u32),
    /// The first host does not answer its first launch.
    FirstHangsOnce,
}

/// What the launches of one launcher wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// The start itself takes SEQ.
    Start,
    /// A start returns at once, and its SEQ begins when one of so many places is free, in the order
    /// of the starts, as with remote shells that take a lock. A launch that is ended while it waits
    /// takes no place.
    Places(usize),
    /// A start returns at once, and then shares the launcher's processor.
    Share,
}

/// One run.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) seed: u64,
    pub(crate) hosts: u32,
    pub(crate) members: u32,
    pub(crate) latency: Duration,
    pub(crate) turns: Turns,
    pub(crate) seq: Duration,
    /// By which fraction SEQ may be shorter or longer.
    pub(crate) seq_spread: f64,
    pub(crate) rem: Duration,
    /// The fraction of starts that fail.
    pub(crate) bad: f64,
    pub(crate) policy: Policy,
    pub(crate) rules: Rules,
    /// The settle time; [`Duration::MAX`] waits for all verdicts.
    pub(crate) settle: Option<Duration>,
    pub(crate) deadline: Duration,
    pub(crate) deaths: Vec<(Duration, Option<u64>)>,
    pub(crate) freezes: Vec<(Duration, u64)>,
    /// Deaths so soon after the session is up that not all nodes know of it.
    pub(crate) deaths_after_up: Vec<(Duration, u64)>,
    pub(crate) ends: Duration,
    pub(crate) spares: u32,
    pub(crate) strategy: Strategy,
    /// How many launches the front end may have in flight.
    pub(crate) limit: Option<NonZeroU32>,
    pub(crate) trouble: Trouble,
    /// Hosts that cannot launch others.
    pub(crate) blocked_launchers: Option<BlockedLaunchers>,
    /// How launches of the front end fail, but for that of the first host.
    pub(crate) far: Option<Fate>,
    /// Whether some hosts print a banner at each login.
    pub(crate) has_banners: bool,
    /// How many launched hosts a node has resources for.
    pub(crate) capacity: Option<usize>,
    pub(crate) links: LinkPolicy,
    /// The fraction of direct connections that fail, and the fraction of the others whose proof is
    /// lost.
    pub(crate) unreachable: f64,
    /// Whether hosts that have lost their parent can connect to no other, so that they need helpers.
    pub(crate) orphans_are_walled: bool,
    /// Whether no host can connect to the front end directly.
    pub(crate) front_is_behind: bool,
    pub(crate) lost_proofs: f64,
    pub(crate) no_listeners: bool,
    pub(crate) direct_latency: Duration,
    /// Direct connections that break after the session is up.
    pub(crate) severs: Vec<(Duration, u64)>,
    /// Whether calls go on without lost members, and hosts that lose their parent find another one.
    pub(crate) reconnects: bool,
    /// Whether the session outlives its first host.
    pub(crate) replace_master: bool,
    /// How often agents restart a member by themselves.
    pub(crate) restarts: u32,
    /// Actions after the session is up.
    pub(crate) actions: Vec<(Duration, Action)>,
    /// The time until the user consumes output; `None` if it never does.
    pub(crate) reads: Option<Duration>,
    /// What may go wrong with bulk starts, if the back-end makes them.
    pub(crate) bulk: Option<BulkTrouble>,
    /// The relays of bulk starts, if they are not as many as the planner says.
    pub(crate) relays: Option<NonZeroU32>,
    /// The fraction of hosts that cannot reach their relay.
    pub(crate) relays_unreachable: f64,
    pub(crate) hosts_per_start: u32,
    /// What may go wrong with `srun`, if that makes the bulk starts.
    pub(crate) srun: Option<SrunTrouble>,
    /// What the user does with commands after the session is up.
    pub(crate) commands: Vec<(Duration, CommandAction)>,
    /// What the programs may be, if agents lead the hosts.
    pub(crate) agents: Option<AgentTrouble>,
    /// What programs print that have much in common, and how it is merged.
    pub(crate) folds: Option<Folds>,
    /// The standard input of all programs, if there is any.
    pub(crate) feed: Option<Feed>,
    /// What may go wrong with staged files, if there are any.
    pub(crate) staging: Option<StagingTrouble>,
    /// Events for programs that are not up yet.
    pub(crate) pending: BTreeMap<(Id, LinkId), Vec<Vec<u8>>>,
}

impl Scenario {
    /// The base scenario of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(7);
        let millis = Duration::from_millis;
        let most = [1, 4, 20, 100, 400, 400, 2_000][rng.below(7) as usize];
        let hosts = 1 + rng.below(most) as u32;
        let bad = [0.0, 0.0, 0.01, 0.1, 0.3, 0.9][rng.below(6) as usize];
        let policy = match rng.below(3) {
            0 => Policy::All,
            1 => Policy::AtLeast(1),
            _ => Policy::AtLeast(hosts.div_ceil(2)),
        };
        let rules = Rules { attempts: 1 + rng.below(4) as u16, ..Rules::default() };
        let deadline = millis([2_000, 60_000, 300_000][rng.below(3) as usize]);
        let moment = |rng: &mut Rng| {
            let latest = if rng.chance(0.5) { 2_000 } else { 60_000 };
            millis(rng.below(latest))
        };
        let count = [0, 0, 1, 1, 5][rng.below(5) as usize];
        let deaths = (0..count).map(|_| (moment(&mut rng), Some(rng.bits()))).collect::<Vec<_>>();
        let front_dies = rng.chance(0.15).then(|| (moment(&mut rng), None));
        let count = [0, 0, 0, 1, 3][rng.below(5) as usize];
        let freezes = (0..count).map(|_| (moment(&mut rng), rng.bits())).collect();
        // Drawn from a separate stream, so that recorded seeds keep their meaning.
        let mut later = Rng::new(seed).fork(8);
        let count = [0, 0, 0, 0, 0, 0, 1, 4][later.below(8) as usize];
        let soon = |rng: &mut Rng| (millis(rng.below(100)), rng.bits());
        let deaths_after_up = (0..count).map(|_| soon(&mut later)).collect();
        let turns = [Turns::Start, Turns::Places(1), Turns::Places(1), Turns::Share];
        let turns = turns[Rng::new(seed).fork(10).below(4) as usize];
        Self {
            seed,
            hosts,
            turns,
            members: 1 + rng.below(3) as u32,
            latency: millis([0, 1, 90][rng.below(3) as usize]),
            seq: millis(rng.below(20)),
            seq_spread: 0.0,
            rem: millis(rng.below(500)),
            bad,
            policy,
            rules,
            settle: Some(Duration::MAX),
            deadline,
            deaths: deaths.into_iter().chain(front_dies).collect(),
            freezes,
            deaths_after_up,
            ends: deadline + millis(20_000 + rng.below(60_000)),
            spares: 0,
            strategy: Strategy::Late,
            limit: None,
            trouble: Trouble::Nothing,
            blocked_launchers: None,
            far: None,
            capacity: None,
            has_banners: true,
            links: LinkPolicy::Channel,
            unreachable: 0.0,
            orphans_are_walled: false,
            front_is_behind: false,
            lost_proofs: 0.0,
            no_listeners: false,
            direct_latency: Duration::ZERO,
            severs: Vec::new(),
            reconnects: false,
            replace_master: false,
            restarts: 0,
            actions: Vec::new(),
            reads: Some(Duration::ZERO),
            bulk: None,
            relays: None,
            relays_unreachable: 0.0,
            hosts_per_start: 0,
            srun: None,
            commands: Vec::new(),
            agents: None,
            folds: None,
            feed: None,
            staging: None,
            pending: BTreeMap::new(),
        }
    }

    /// The scenario of a seed with policies. Drawn from a separate stream.
    pub(crate) fn with_policies(seed: u64) -> Self {
        let mut scenario = Self::new(seed);
        let mut rng = Rng::new(seed).fork(9);
        let seconds = Duration::from_secs;
        scenario.spares = [0, 0, 0, 1, 3, 20][rng.below(6) as usize];
        scenario.rules.failure_linger = seconds([2, 2, 0, 10, 1_000][rng.below(5) as usize]);
        scenario.rules.back_off_max = seconds([5, 5, 1, 60][rng.below(4) as usize]);
        if rng.chance(0.1) {
            scenario.rules.attempts = u16::MAX;
        }
        if rng.chance(0.3) {
            let arity = NonZeroU32::new(2 + rng.below(30) as u32).unwrap();
            let shapes = [Shape::Flat, Shape::Kary(arity), Shape::Binomial, Shape::Rdc, Shape::Greedy];
            let mut shape = shapes[rng.below(5) as usize];
            if scenario.hosts < 30 && rng.chance(0.3) {
                shape = Shape::Chain;
            }
            scenario.strategy = Strategy::Static(shape);
        }
        let trouble = rng.below(10);
        if trouble == 0 {
            // Enough bytes for a hello, and often for more.
            let host = rng.below(u64::from(scenario.hosts.min(5))) as u32;
            scenario.trouble = Trouble::Breaks(host, 60 + rng.below(80) as usize);
        } else if trouble == 1 {
            // The window stays narrow.
            (scenario.seq, scenario.rem) = (Duration::from_millis(20), Duration::from_millis(10));
            scenario.rules.attempts = 1;
            scenario.trouble = Trouble::Hang(12);
        }
        if scenario.trouble != Trouble::Nothing {
            // Most checks need to know that nothing else is wrong.
            scenario.deaths.clear();
            scenario.freezes.clear();
            scenario.deaths_after_up.clear();
        }
        scenario
    }

    /// The scenario of a seed with direct links and actions. Drawn from a separate stream.
    pub(crate) fn with_links(seed: u64) -> Self {
        let mut scenario = Self::with_policies(seed);
        let mut rng = Rng::new(seed).fork(11);
        let millis = Duration::from_millis;
        scenario.links = [LinkPolicy::Auto, LinkPolicy::Auto, LinkPolicy::Direct, LinkPolicy::Channel]
            [rng.below(4) as usize];
        scenario.unreachable = [0.0, 0.0, 0.1, 1.0][rng.below(4) as usize];
        scenario.lost_proofs = [0.0, 0.0, 0.0, 0.2][rng.below(4) as usize];
        scenario.no_listeners = rng.chance(0.05);
        scenario.direct_latency = millis([0, 1, 30, 200][rng.below(4) as usize]);
        if scenario.trouble == Trouble::Nothing {
            let count = [0, 0, 0, 0, 1, 5][rng.below(6) as usize];
            scenario.severs = (0..count).map(|_| (millis(rng.below(3_000)), rng.bits())).collect();
        }
        let moment = |rng: &mut Rng| Duration::from_micros(rng.below(UP_TIME.as_micros() as u64));
        let long = [100, 1_000, 19_000][rng.below(3) as usize];
        for _ in 0..[0, 20, 300][rng.below(3) as usize] {
            let length = 1 + rng.below(long) as usize;
            scenario.actions.push((moment(&mut rng), Action::Print(rng.bits(), length)));
        }
        for _ in 0..[0, 0, 1, 5, 50][rng.below(5) as usize] {
            scenario.actions.push((moment(&mut rng), Action::Detach(rng.bits())));
        }
        for _ in 0..rng.below(3) {
            scenario.actions.push((moment(&mut rng), Action::Signal));
        }
        scenario.reads = [Some(0), Some(1), Some(20), None][rng.below(4) as usize].map(millis);
        scenario
    }

    /// Whether a live process may be taken for silent.
    pub(crate) fn may_be_silent(&self) -> bool {
        !self.freezes.is_empty() || !self.severs.is_empty()
    }

    /// Whether no link can break while it moves.
    pub(crate) fn links_are_sure(&self) -> bool {
        self.links == LinkPolicy::Channel || self.lost_proofs == 0.0
    }

    /// Whether a host may fail because it cannot connect directly.
    pub(crate) fn may_be_unreachable(&self) -> bool {
        let fails = self.unreachable > 0.0 || self.lost_proofs > 0.0 || self.no_listeners;
        self.links == LinkPolicy::Direct && fails
    }

    /// SEQ and REM of one launch.
    pub(crate) fn costs(&self, rng: &mut Rng) -> (Duration, Duration) {
        let factor = 0.5 + rng.unit();
        let seq = if self.seq_spread > 0.0 { 1.0 + self.seq_spread * (2.0 * rng.unit() - 1.0) } else { 1.0 };
        (self.seq.mul_f64(seq), self.rem.mul_f64(factor))
    }

    /// The fate of this attempt at this place, regardless of launcher and time.
    pub(crate) fn fate(&self, place: MemberRole, attempt: Attempt, name: &str) -> Fate {
        match (self.trouble, name.strip_prefix("node").and_then(|number| number.parse::<u32>().ok())) {
            (Trouble::Breaks(host, after), Some(number)) if number == host => {
                return Fate::Joins { banner: false, cut: Some(after) };
            }
            (Trouble::Hang(most), Some(number)) if number % 3 == 2 && number / 3 < most => {
                return Fate::Hangs;
            }
            (Trouble::DenyAll(..), Some(number)) if self.denies_all(number) => return Fate::Denied,
            (Trouble::Dead(percent), Some(number)) if self.is_selected(number, percent) => {
                return Fate::Hangs;
            }
            (Trouble::RefuseOnce(..), Some(number))
                if self.refuses_once(number) && attempt == Attempt::default() =>
            {
                return Fate::Refused;
            }
            (Trouble::FirstHangsOnce, Some(0)) if attempt == Attempt::default() => return Fate::Hangs,
            _ => {}
        }
        let number = match place {
            MemberRole::Leader(host) => u64::from(host.0),
            // A further member fails rarely; otherwise no host with several members would join.
            MemberRole::Local(rank) => u64::from(rank.0) | 1 << 32,
        };
        let counted = u64::from(attempt.lost) << 16 | u64::from(attempt.failed);
        let attempt = u64::from(attempt.withdrawn) << 32 | counted;
        let mut rng = Rng::new(self.seed).fork(number).fork(attempt);
        let bad = if number >> 32 == 0 { self.bad } else { self.bad / 10.0 };
        if !rng.chance(bad) {
            return Fate::Joins { banner: rng.chance(0.2) && self.has_banners, cut: None };
        }
        match rng.below(13) {
            10 => Fate::Stale,
            11 => Fate::ClosesOnly,
            12 => Fate::ExitsOpen,
            0 => Fate::NotStarted,
            1 | 2 => Fate::Refused,
            3 => Fate::NotFound,
            4 => Fate::ExitsEarly,
            5 => Fate::Crashes,
            6 => Fate::Hangs,
            7 => Fate::HangsWithBanner,
            8 => Fate::Garbage,
            _ if rng.chance(0.5) => Fate::Echoes,
            _ => Fate::Joins { banner: true, cut: Some(rng.below(200) as usize) },
        }
    }

    /// Whether no host has trouble of its own.
    pub(crate) fn hosts_are_well(&self) -> bool {
        self.bad == 0.0
            && self.trouble == Trouble::Nothing
            && !self.may_lack_programs()
            && !self.may_lack_files()
    }

    /// Whether processes are killed or frozen from outside, connections cut, or hosts unreachable.
    pub(crate) fn has_faults(&self) -> bool {
        let by_processes =
            !self.deaths.is_empty() || !self.freezes.is_empty() || !self.deaths_after_up.is_empty();
        by_processes || !self.severs.is_empty() || self.may_be_unreachable()
    }
}
