//! The front end's side of a node: its ledger, its deadline, its decisions.

use std::time::Duration;

use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::leaving::TERMINATE;
use super::roster::Roster;
use super::{Effect, Node, Notice, Plan, Role, Stage};
use crate::machine::ledger::{Decision, Known, Ledger};
use crate::machine::message::{Down, Ending, News};
use crate::verdict::{Cause, Failure, Phase, Trip};

/// What a front end's node keeps beside what every node keeps.
#[derive(Debug)]
pub(super) struct Front {
    ledger: Ledger,
    allowed: Duration,
    /// When no verdict may be open any more; then, when the reports asked for must be in.
    by: Instant,
    /// Who has launched each host, and when.
    trips: Vec<Trip>,
    roster: Roster,
}

impl Front {
    pub(super) fn new(plan: &Plan) -> Self {
        let ledger = Ledger::new(plan.hosts.len() as u32, plan.policy);
        let trips = vec![Trip::default(); plan.hosts.len()];
        let roster = Roster::new(plan.size);
        Self { ledger, allowed: plan.deadline, by: Instant::FAR_FUTURE, trips, roster }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.by = now + self.allowed;
    }

    /// When it has to be woken, if the session is so far.
    pub(super) fn deadline(&self, stage: Stage) -> Option<Instant> {
        (stage < Stage::Up).then_some(self.by)
    }
}

impl Node {
    /// What the front end knows of each host, in the order of their indices; nothing at other nodes.
    pub fn known(&self) -> impl Iterator<Item = &Known> {
        let ledger = match &self.role {
            Role::Front(front) => Some(front.ledger.hosts()),
            Role::Member(_) => None,
        };
        ledger.into_iter().flatten()
    }

    /// How many hosts have joined, have failed, and are still waited for, as far as it is known at the front end.
    #[must_use]
    pub fn tally(&self) -> (u32, u32, u32) {
        match &self.role {
            Role::Front(front) => front.ledger.tally(),
            Role::Member(_) => (0, 0, 0),
        }
    }

    /// Who has launched each host, and when, as far as it is known at the front end.
    #[must_use]
    pub fn trips(&self) -> &[Trip] {
        match &self.role {
            Role::Front(front) => &front.trips,
            Role::Member(_) => &[],
        }
    }

    /// Takes news into the ledger, and does what follows from it.
    pub(super) fn decide(&mut self, news: &[News], now: Instant, out: &mut Vec<Effect>) {
        let elapsed = now.since(self.began);
        let Role::Front(front) = &mut self.role else { return };
        for news in news {
            match news {
                News::Exited(rank, exit) => {
                    front.roster.leaves(*rank);
                    out.push(Effect::Tell(Notice::Exited(*rank, *exit)));
                }
                News::Released(rank) => {
                    front.roster.leaves(*rank);
                    out.push(Effect::Tell(Notice::Released(*rank)));
                }
                News::Joined(host, _, trip) | News::Failed(host, _, Failure { trip, .. }) => {
                    if let Some(known) = front.trips.get_mut(host.0 as usize)
                        && (trip.greeted.is_some() || known.greeted.is_none())
                    {
                        *known = *trip;
                    }
                }
                _ => {}
            }
            let failed = match news {
                // Nobody is launched again in a session that is up.
                News::Again(host, attempt) if self.stage >= Stage::Up => {
                    let failure = Failure::without_evidence(Phase::Waiting, Cause::Abandoned, elapsed);
                    Some(News::Failed(*host, *attempt, failure))
                }
                _ => None,
            };
            let news = failed.as_ref().unwrap_or(news);
            let was_lost = front.ledger.note(news);
            if let News::Failed(host, _, failure) = news
                && was_lost
                && self.stage == Stage::Up
            {
                let blocks = self.tasks.get(host).map_or(&[][..], |task| &task.blocks);
                // Of those who had left before, nothing is lost.
                if front.roster.any_left(blocks) {
                    front.roster.lose(blocks);
                    out.push(Effect::Tell(Notice::Lost(*host, failure.clone())));
                }
            }
        }
        if self.stage >= Stage::Up {
            if self.stage == Stage::Up && front.roster.is_done() {
                out.push(Effect::Tell(Notice::Done));
            }
            return;
        }
        let decision = front.ledger.decide();
        let late = now >= front.by;
        match (decision, self.stage) {
            (Decision::Go, _) => self.go(out),
            (Decision::GiveUp, _) => self.give_up(now, out),
            (Decision::Wait, Stage::Launching) if late => {
                front.by = now + self.rules.grace.saturating_mul(2);
                self.conclude(now, out);
                self.report(now, out);
            }
            (Decision::Wait, _) if late => {
                front.ledger.close(&Failure::without_evidence(Phase::Waiting, Cause::TimedOut, elapsed));
                self.decide(&[], now, out);
            }
            (Decision::Wait, _) => {}
        }
    }

    fn go(&mut self, out: &mut Vec<Effect>) {
        (self.stage, self.was_up) = (Stage::Up, true);
        self.direct.forget_secret();
        if let Role::Front(front) = &mut self.role {
            let absent = front.ledger.hosts().zip(self.tasks.values());
            for (_, task) in absent.filter(|(known, _)| matches!(known, Known::Failed(_))) {
                front.roster.lose(&task.blocks);
            }
        }
        self.pass_down(&Down::Go, out);
        out.push(Effect::Tell(Notice::Up));
    }

    fn give_up(&mut self, now: Instant, out: &mut Vec<Effect>) {
        out.push(Effect::Tell(Notice::GivenUp));
        self.end(Ending { signal: TERMINATE, grace: self.rules.grace }, now, out);
    }

    /// What is still waited for is not launched any more.
    pub(super) fn close_ledger(&mut self, now: Instant) {
        let elapsed = now.since(self.began);
        if let Role::Front(front) = &mut self.role {
            front.ledger.close(&Failure::without_evidence(Phase::Waiting, Cause::Abandoned, elapsed));
        }
    }

    /// Sends this to every child that is up.
    pub(super) fn pass_down(&mut self, message: &Down, out: &mut Vec<Effect>) {
        for (&link, _) in self.children.iter().filter(|(_, child)| child.is_up()) {
            Self::send(link, Kind::Control, message, out);
        }
    }
}
