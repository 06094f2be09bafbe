//! Bulk starts by Slurm's `srun`: starts wait in a queue, are refused, and fail as a whole because
//! of one of their hosts; a host that cannot be started ends all others of its start.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::join::MemberRole;
use libi_core::plan::late::Attempt;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, HostSpec, LinkId, Notice, StartId};

use super::bulk::BulkEvent;
use super::cancelled::{ABORTED, CANCELLED, CancelStep, Cancelled};
use super::{Cluster, Happening};
use crate::srun_starts::HostTrouble;

/// What `srun` prints about a host that cannot be started, before the name of the host.
pub(crate) const NOT_LAUNCHED: &str = "srun: error: Task launch for StepId=7.0 failed on node ";
/// What it prints when no start can succeed.
pub(crate) const INVALID: &str = "srun: error: Unable to allocate resources: Invalid account";

/// What it prints when a start waits.
pub(crate) const QUEUED: &str = "srun: job 7 queued and waiting for resources";

/// An event of a start by `srun`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SrunEvent {
    /// It begins to wait for resources.
    Waits,
    /// It has its resources.
    Proceeds,
    /// It tells that no start can succeed, and ends.
    Refuses,
    /// It ends without a reason before anything is started.
    Fails,
    /// It ends all programs and itself, because one could not be started.
    EndsAll,
    /// It is cancelled.
    Cancel(CancelStep),
    /// It is killed, and all its programs are ended after it.
    IsKilled,
    /// A program that it has left is ended, its first further member before it.
    EndsLeft(LinkId),
    EndsMember(LinkId),
}

/// What was seen of all starts by `srun`.
#[derive(Debug, Default)]
pub(crate) struct SrunRecord {
    waiting: BTreeMap<StartId, Instant>,
    /// How long each start has waited.
    pub(crate) waited: BTreeMap<StartId, Duration>,
    since: Instant,
    queued: Duration,
    /// How many starts have waited.
    pub(crate) waits: u32,
    /// The hosts whose start was refused; was ended while it waited; or was ended because another
    /// host of it could not be started.
    pub(crate) refused: BTreeSet<(MemberRole, Attempt)>,
    pub(crate) unscheduled: BTreeSet<(MemberRole, Attempt)>,
    pub(crate) ended_with_others: BTreeSet<(MemberRole, Attempt)>,
    /// Those among the last whose end is not told, and how their starter has ended.
    pub(crate) untold: BTreeMap<(MemberRole, Attempt), Option<Exit>>,
    /// The hosts whose programs are ended because their starter was killed, and when it was.
    pub(crate) left_by_killed: BTreeMap<(MemberRole, Attempt), Instant>,
    /// The starts of hosts that an earlier start with the same attempts was to bring up.
    pub(crate) parts: u32,
    /// The starts that were cancelled.
    pub(crate) cancelled: BTreeMap<StartId, Cancelled>,
    /// A session that was up although the end of its programs was due.
    pub(crate) up_too_early: Option<String>,
}

impl SrunRecord {
    /// Whether the start of this attempt was cancelled.
    pub(crate) fn is_cancelled(&self, attempt: (MemberRole, Attempt)) -> bool {
        self.cancelled.values().any(|cancelled| cancelled.hosts.contains(&attempt))
    }

    /// Whether any start that was cancelled gives this reason.
    pub(crate) fn is_told(&self, why: &str) -> bool {
        why == CANCELLED || self.cancelled.values().any(|cancelled| cancelled.is_told(why))
    }

    /// How long any start has waited until this time.
    pub(crate) fn queued(&self, now: Instant) -> Duration {
        let open = if self.waiting.is_empty() { Duration::ZERO } else { now.since(self.since) };
        self.queued + open
    }

    fn set_waiting(&mut self, start: StartId, waits: bool, now: Instant) {
        let queued = self.queued(now);
        (self.queued, self.since) = (queued, now);
        if waits {
            self.waiting.entry(start).or_insert(now);
        } else if let Some(since) = self.waiting.remove(&start) {
            *self.waited.entry(start).or_default() += now.since(since);
        }
    }
}

impl Cluster {
    /// Plans what happens to a start by `srun`: returns after which time its programs run, or
    /// `None` if they never do.
    pub(super) fn plan_srun(
        &mut self,
        start: StartId,
        hosts: &[(LinkId, HostSpec)],
        agenda: &mut Agenda<Self>,
    ) -> Option<Duration> {
        let Some(trouble) = self.scenario.srun else { return Some(Duration::ZERO) };
        let mut rng = Rng::new(self.scenario.seed).fork(23).fork(u64::from(start.0));
        let now = agenda.now();
        let mut after = super::programs::ASYNC_START;
        let mut plan = |after, event| {
            agenda.plan(now + after, Happening::Bulk(BulkEvent::Srun(start, event)));
        };
        if self.bulk.srun.waits < trouble.most_waiting && rng.chance(trouble.waits) {
            self.bulk.srun.waits += 1;
            for _ in 0..1 + rng.below(u64::from(trouble.waits_of_a_start)) {
                after += Duration::from_millis(rng.below(3_000));
                plan(after, SrunEvent::Waits);
                if rng.chance(trouble.never) {
                    return None;
                }
                after += Duration::from_millis(rng.below(trouble.longest_wait.as_millis() as u64 + 1));
                plan(after, SrunEvent::Proceeds);
            }
        }
        if rng.chance(trouble.refused) {
            plan(after + Duration::from_millis(20), SrunEvent::Refuses);
            return None;
        }
        let is_bad = |spec: &HostSpec| self.scenario.host_trouble(&spec.name) == HostTrouble::Silent;
        if hosts.iter().any(|(_, spec)| is_bad(spec)) {
            plan(after + Duration::from_millis(20 + rng.below(300)), SrunEvent::Fails);
            return None;
        }
        if rng.chance(trouble.killed) {
            let after = after + Duration::from_millis(rng.below(2_000));
            // Nothing ends what it has started, or libi cancels its job.
            let event = match rng.chance(0.5) {
                true => BulkEvent::Exits(start, Exit::Signal(15)),
                false => BulkEvent::Srun(start, SrunEvent::IsKilled),
            };
            agenda.plan(now + after, Happening::Bulk(event));
        }
        if rng.chance(trouble.cancelled) {
            self.plan_cancel(start, after, agenda);
        }
        Some(after)
    }

    pub(super) fn on_srun_event(&mut self, start: StartId, event: SrunEvent, agenda: &mut Agenda<Self>) {
        let Some(starter) = self.bulk.starters.get(&start) else { return };
        let is_of_left = matches!(event, SrunEvent::EndsLeft(_) | SrunEvent::EndsMember(_));
        let may_happen = if starter.killed { is_of_left } else { starter.running };
        if !may_happen {
            return;
        }
        let all: Vec<_> =
            starter.hosts.values().map(|spec| (MemberRole::Leader(spec.host), spec.attempt)).collect();
        match event {
            SrunEvent::Waits => {
                self.bulk.srun.set_waiting(start, true, agenda.now());
                let why = format!("{QUEUED}\n").into_bytes();
                self.starter_says(start, Event::StarterWaits(start, why), agenda);
            }
            SrunEvent::Proceeds => {
                self.waits_no_longer(start, agenda.now());
                self.starter_says(start, Event::StarterProceeds(start), agenda);
            }
            SrunEvent::Refuses => {
                self.bulk.srun.refused.extend(all);
                let why = format!("{INVALID}\n").into_bytes();
                self.starter_says(start, Event::StarterRefused(start, why), agenda);
                self.starter_ends(start, Exit::Code(1), agenda);
            }
            SrunEvent::Fails => {
                let why = b"srun: error: Unable to create step\n".to_vec();
                self.starter_says(start, Event::StarterPrinted(start, why), agenda);
                self.starter_ends(start, Exit::Code(1), agenda);
            }
            SrunEvent::EndsAll => self.end_all(start, agenda),
            SrunEvent::Cancel(step) => self.on_cancel_step(start, step, agenda),
            SrunEvent::IsKilled => self.is_killed(start, agenda),
            SrunEvent::EndsLeft(link) => self.kills_one(start, link, agenda),
            SrunEvent::EndsMember(link) => self.ends_member(start, link, agenda),
        }
    }

    /// A starter exits as it is planned to, unless it has ended before.
    pub(super) fn exits(&mut self, start: StartId, exit: Exit, agenda: &mut Agenda<Self>) {
        let running = self.bulk.starters.get(&start).filter(|starter| starter.running);
        for spec in running.into_iter().flat_map(|starter| starter.hosts.values()) {
            if let Some(told) = self.bulk.srun.untold.get_mut(&(MemberRole::Leader(spec.host), spec.attempt))
            {
                *told = Some(exit);
            }
        }
        self.starter_ends(start, exit, agenda);
    }

    /// A host cannot be started: `srun` tells so, and soon ends all others.
    pub(super) fn host_fails(&mut self, start: StartId, link: LinkId, name: &str, agenda: &mut Agenda<Self>) {
        if !self.bulk.starters.get(&start).is_some_and(|starter| starter.running) {
            return;
        }
        // That all are ended is told before the reason, after it, or not at all.
        let ends_all = Event::StarterEndsAll(start, format!("{ABORTED}\n").into_bytes());
        let (is_said, is_first) = (self.rng.chance(0.5), self.rng.chance(0.5));
        if is_said && is_first {
            self.starter_says(start, ends_all.clone(), agenda);
        }
        let why = format!("{NOT_LAUNCHED}{name}: Communication connection failure\n").into_bytes();
        self.starter_says(start, Event::HostFailed(start, name.to_owned(), why), agenda);
        if is_said && !is_first {
            self.starter_says(start, ends_all, agenda);
        }
        if let Some(starter) = self.bulk.starters.get_mut(&start) {
            starter.open.remove(&link);
            starter.gone.insert(link);
            starter.ends_all = true;
        }
        let after = Duration::from_millis(self.rng.below(300));
        agenda.plan(agenda.now() + after, Happening::Bulk(BulkEvent::Srun(start, SrunEvent::EndsAll)));
    }

    /// `srun` kills all programs of a start, reports that, and ends; or does not report it of programs
    /// that had hardly begun, and waits for them.
    fn end_all(&mut self, start: StartId, agenda: &mut Agenda<Self>) {
        let Some(starter) = self.bulk.starters.get_mut(&start) else { return };
        let open: Vec<_> = std::mem::take(&mut starter.open).into_iter().collect();
        starter.gone.extend(open.iter().copied());
        // At its deadline a launch cannot wait for the fates of hosts any longer.
        let deadline = Instant::ZERO + self.scenario.deadline;
        let is_up = self.notices.iter().any(|(at, notice)| *notice == Notice::Up && *at < deadline);
        self.last_fault = agenda.now();
        let is_slow = self.rng.chance(0.2);
        for link in open {
            let Some(spec) = self.bulk.starters.get(&start).and_then(|it| it.hosts.get(&link)).cloned()
            else {
                continue;
            };
            self.bulk.srun.ended_with_others.insert((MemberRole::Leader(spec.host), spec.attempt));
            // A later start may be responsible for the same link.
            let is_own = self.bulk.start_of(link) == Some(start);
            let process = self.process_of(start, link).filter(|_| is_own);
            match process {
                Some(id) => {
                    if is_up {
                        self.bulk.srun.up_too_early = Some(format!(
                            "up at the wrong time: srun ends {} at {}",
                            spec.name,
                            agenda.now()
                        ));
                    }
                    // What a session that is up loses by that, it loses as by any fault.
                    self.was_cut |= self.notices.iter().any(|(_, notice)| *notice == Notice::Up);
                    self.end(id, Exit::Signal(9), agenda);
                }
                None if is_slow && self.rng.chance(0.5) => {
                    self.bulk.srun.untold.insert((MemberRole::Leader(spec.host), spec.attempt), None);
                }
                None => {
                    let ended = Event::HostEnded(start, spec.name.clone(), Exit::Signal(9));
                    self.starter_says(start, ended, agenda);
                }
            }
        }
        let after = if is_slow { Duration::from_millis(self.rng.below(7_000)) } else { Duration::ZERO };
        agenda.plan(agenda.now() + after, Happening::Bulk(BulkEvent::Exits(start, Exit::Code(1))));
    }

    /// `srun` is killed: what it has started is ended after it, program by program, and that it has
    /// ended is told once this was asked for.
    fn is_killed(&mut self, start: StartId, agenda: &mut Agenda<Self>) {
        self.starter_says(start, Event::StarterKilled(start), agenda);
        let Some(starter) = self.bulk.starters.get_mut(&start) else { return };
        if starter.ends_all || starter.asked {
            // Its programs end already.
            return self.starter_ends(start, Exit::Signal(9), agenda);
        }
        (starter.killed, starter.ends_all) = (true, true);
        // The ends of programs that have not arrived are not told any more.
        self.note_unarrived(start);
        let Some(starter) = self.bulk.starters.get(&start) else { return };
        let open: Vec<LinkId> = starter.open.iter().copied().collect();
        let hosts = open.iter().filter_map(|link| starter.hosts.get(link));
        let now = agenda.now();
        let hosts = hosts.map(|spec| ((MemberRole::Leader(spec.host), spec.attempt), now));
        self.bulk.srun.left_by_killed.extend(hosts);
        self.last_fault = now;
        let plan = |after, event, agenda: &mut Agenda<Self>| {
            let event = Happening::Bulk(BulkEvent::Srun(start, event));
            agenda.plan(agenda.now() + Duration::from_millis(after), event);
        };
        for link in open {
            let after = self.rng.below(900);
            if self.rng.chance(0.5) {
                plan(after, SrunEvent::EndsMember(link), agenda);
            }
            plan(after + self.rng.below(50), SrunEvent::EndsLeft(link), agenda);
        }
        let exits = Happening::Bulk(BulkEvent::Exits(start, Exit::Signal(9)));
        agenda.plan(agenda.now() + Duration::from_millis(self.rng.below(1_200)), exits);
    }

    /// The first further member of a host is ended.
    fn ends_member(&mut self, start: StartId, link: LinkId, agenda: &mut Agenda<Self>) {
        let is_own = self.bulk.start_of(link) == Some(start);
        let Some(leader) = self.process_of(start, link).filter(|_| is_own) else { return };
        let mut members = self.processes[leader.0 as usize].children.values().flatten();
        let is_member = |id: &&Id| matches!(self.processes[id.0 as usize].place, Some(MemberRole::Local(_)));
        if let Some(&member) = members.find(is_member) {
            self.was_cut = true;
            self.end(member, Exit::Signal(15), agenda);
        }
    }

    /// A start has its resources, or has ended: if it has waited for too long, its hosts may have been
    /// given up for that.
    fn waits_no_longer(&mut self, start: StartId, now: Instant) {
        self.bulk.srun.set_waiting(start, false, now);
        let waited = self.bulk.srun.waited.get(&start);
        // The news of each wait takes some time: it may be over when the start is given up for it.
        let least = self.scenario.srun.map_or(Duration::ZERO, |srun| srun.queue_timeout);
        let was_too_long = waited.is_some_and(|waited| *waited + self.scenario.latency * 8 >= least);
        if let Some(starter) = self.bulk.starters.get(&start).filter(|_| was_too_long) {
            let places = starter.hosts.values().map(|spec| (MemberRole::Leader(spec.host), spec.attempt));
            self.bulk.srun.unscheduled.extend(places);
        }
    }

    /// A start has ended: it does not wait, and what has not begun does not run.
    pub(super) fn srun_ended(&mut self, start: StartId, now: Instant) {
        self.waits_no_longer(start, now);
        let Some(starter) = self.bulk.starters.get_mut(&start) else { return };
        if starter.runs_from.is_none_or(|at| now < at) {
            starter.gone.extend(starter.hosts.keys());
        }
    }
}
