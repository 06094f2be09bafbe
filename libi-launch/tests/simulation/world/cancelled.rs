//! Jobs of Slurm that are cancelled: `srun` says that all programs are ended, these are killed one
//! after the other, and why is said before, between or after that, or never. That a time limit will
//! be reached may be said at any time.

use std::time::Duration;

use libi_core::join::MemberRole;
use libi_core::plan::late::Attempt;
use libi_core::sim::Agenda;
use libi_core::time::Instant;
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, LinkId, StartId};

use super::bulk::BulkEvent;
use super::srun::SrunEvent;
use super::{Cluster, Happening};

/// What `srun` prints when all programs are ended.
pub(super) const ABORTED: &str = "srun: Job step aborted: Waiting up to 2 seconds for job step to finish.";
/// What `srun` prints of a time limit.
const LIMITED: &str = "srun: job time limit to be reached at noon";
/// What a daemon of Slurm prints about the reason.
pub(super) const CANCELLED: &str = "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT noon ***";

/// A cancelled start.
#[derive(Debug)]
pub(crate) struct Cancelled {
    /// When it was said, if it was.
    pub(crate) said: Option<Instant>,
    pub(crate) hosts: Vec<(MemberRole, Attempt)>,
    /// Whether it is said that a time limit will be reached.
    limit: LimitIsSaid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitIsSaid {
    Never,
    /// Before it is said that all programs are ended.
    Before,
    /// After that, if the starter lives as long.
    After,
}

impl Cancelled {
    /// Whether hosts that are told no other reason may be told this.
    pub(super) fn is_told(&self, why: &str) -> bool {
        let Some(more) = why.strip_prefix("ended from outside: ").and_then(|it| it.strip_prefix(ABORTED))
        else {
            return false;
        };
        match more.strip_prefix("; ") {
            Some(more) => more == LIMITED && self.limit != LimitIsSaid::Never,
            None => more.is_empty() && self.limit != LimitIsSaid::Before,
        }
    }
}

/// A step in the end of a start that was cancelled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CancelStep {
    /// All programs are to end.
    Begins,
    /// That is said.
    IsSaid,
    /// That a time limit will be reached is said.
    LimitIsSaid,
    /// A program is killed.
    Kills(LinkId),
    /// The reason is said.
    SaysWhy,
}

impl Cluster {
    /// Plans that a start is cancelled while its hosts arrive.
    pub(super) fn plan_cancel(&mut self, start: StartId, after: Duration, agenda: &mut Agenda<Self>) {
        let after = after + Duration::from_millis(self.rng.below(3_000));
        self.plan_step(start, after, CancelStep::Begins, agenda);
    }

    fn plan_step(&self, start: StartId, after: Duration, step: CancelStep, agenda: &mut Agenda<Self>) {
        let event = BulkEvent::Srun(start, SrunEvent::Cancel(step));
        agenda.plan(agenda.now() + after, Happening::Bulk(event));
    }

    pub(super) fn on_cancel_step(&mut self, start: StartId, step: CancelStep, agenda: &mut Agenda<Self>) {
        match step {
            CancelStep::Begins => self.begins_to_cancel(start, agenda),
            CancelStep::IsSaid => self.says_it_ends_all(start, agenda),
            CancelStep::LimitIsSaid => {
                let says = Event::StarterWillEndAll(start, format!("{LIMITED}\n").into_bytes());
                self.starter_says(start, says, agenda);
            }
            CancelStep::Kills(link) => self.kills_one(start, link, agenda),
            CancelStep::SaysWhy => {
                let why = format!("{CANCELLED}\n").into_bytes();
                self.starter_says(start, Event::StarterRefused(start, why), agenda);
            }
        }
    }

    fn begins_to_cancel(&mut self, start: StartId, agenda: &mut Agenda<Self>) {
        let now = agenda.now();
        let Some(starter) = self.bulk.starters.get_mut(&start) else { return };
        // What already ends for another reason is not cancelled.
        if starter.ends_all || starter.asked || starter.open.is_empty() {
            return;
        }
        starter.ends_all = true;
        // No further program arrives.
        starter.gone.extend(starter.open.iter().copied());
        let open: Vec<LinkId> = starter.open.iter().copied().collect();
        let hosts = open.iter().filter_map(|link| starter.hosts.get(link));
        let hosts = hosts.map(|spec| (MemberRole::Leader(spec.host), spec.attempt)).collect();
        let limit = match self.rng.below(4) {
            0 => LimitIsSaid::Before,
            1 => LimitIsSaid::After,
            _ => LimitIsSaid::Never,
        };
        self.bulk.srun.cancelled.insert(start, Cancelled { said: None, hosts, limit });
        self.last_fault = now;
        // The first ends may be told before that of all.
        let is_late = self.rng.chance(0.3);
        let after = Duration::from_millis(if is_late { self.rng.below(200) } else { 0 });
        match limit {
            LimitIsSaid::Before => self.on_cancel_step(start, CancelStep::LimitIsSaid, agenda),
            LimitIsSaid::After => {
                let later = after + Duration::from_millis(1 + self.rng.below(900));
                self.plan_step(start, later, CancelStep::LimitIsSaid, agenda);
            }
            LimitIsSaid::Never => {}
        }
        self.plan_step(start, after, CancelStep::IsSaid, agenda);
        let is_slow = self.rng.chance(0.2);
        let most = if is_slow { 6_000 } else { 900 };
        let mut last = Duration::ZERO;
        for link in open {
            let after = Duration::from_millis(self.rng.below(most));
            last = last.max(after);
            self.plan_step(start, after, CancelStep::Kills(link), agenda);
        }
        if self.rng.chance(0.8) {
            let after = Duration::from_millis(self.rng.below(most + 200));
            self.plan_step(start, after, CancelStep::SaysWhy, agenda);
        }
        let exits = Happening::Bulk(BulkEvent::Exits(start, Exit::Code(143)));
        let last = last.max(after) + Duration::from_millis(1 + self.rng.below(500));
        agenda.plan(now + last, exits);
    }

    fn says_it_ends_all(&mut self, start: StartId, agenda: &mut Agenda<Self>) {
        let Some(starter) = self.bulk.starters.get(&start).filter(|starter| starter.running) else { return };
        // If it was asked to end, because all its hosts had ended, that is not the end of all.
        let is_of_all = !starter.asked;
        if let Some(cancelled) = self.bulk.srun.cancelled.get_mut(&start).filter(|_| is_of_all) {
            cancelled.said = Some(agenda.now());
        }
        let says = Event::StarterEndsAll(start, format!("{ABORTED}\n").into_bytes());
        self.starter_says(start, says, agenda);
    }

    /// A starter was asked to end. What it has said before, and is not heard yet, may follow from that.
    pub(super) fn asked_before_it_is_heard(&mut self, start: StartId, now: Instant) {
        let way = self.scenario.latency * 2 + Duration::from_millis(1);
        if let Some(cancelled) = self.bulk.srun.cancelled.get_mut(&start) {
            cancelled.said.take_if(|said| now < *said + way);
        }
    }

    pub(super) fn kills_one(&mut self, start: StartId, link: LinkId, agenda: &mut Agenda<Self>) {
        let starter = self.bulk.starters.get_mut(&start).filter(|it| it.running || it.killed);
        let Some(starter) = starter else { return };
        starter.gone.insert(link);
        let Some(spec) = starter.hosts.get(&link).cloned().filter(|_| starter.open.remove(&link)) else {
            return;
        };
        self.last_fault = agenda.now();
        let is_own = self.bulk.start_of(link) == Some(start);
        match self.process_of(start, link).filter(|_| is_own) {
            Some(id) => {
                // What a session loses by that when it is up, or in the moment, it loses as by any fault.
                self.was_cut = true;
                self.end(id, Exit::Signal(15), agenda);
            }
            None => {
                let ended = Event::HostEnded(start, spec.name, Exit::Signal(15));
                self.starter_says(start, ended, agenda);
            }
        }
    }
}
