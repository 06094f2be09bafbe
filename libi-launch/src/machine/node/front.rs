//! The front end's side of a node: its ledger, its deadline, its decisions.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::ids::HostIndex;
use libi_core::plan::late::Attempt;
use libi_core::plan::{Shape, Strategy};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::leaving::TERMINATE;
use super::roster::Roster;
use super::{Effect, Node, Notice, Plan, Role, Stage};
use crate::failure::{Cause, Failure, LaunchTiming, Phase};
use crate::machine::ledger::{Decision, Known, Ledger, Replaced};
use crate::machine::message::{ChildMessage, Ending, ParentMessage, Spare};

/// What a front end's node keeps beside what every node keeps.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) ledger: Ledger,
    allowed: Duration,
    /// Who has launched each host, and when.
    trips: Vec<LaunchTiming>,
    /// Whether the link of each host is direct, once that is known.
    links: Vec<Option<bool>>,
    /// How many of them are, and how many are not.
    tally: (u32, u32),
    roster: Roster,
    /// When no verdict may be open any more.
    deadline: Instant,
    /// If too many have failed: until when the launch goes on all the same.
    gather: Instant,
    /// If nothing is launched any more: why, and when what was asked for must be reported.
    concluding: Option<(Cause, Instant)>,
    /// The static tree that was asked for, if one was, and the costs that it is laid out for.
    pub(super) shape: Option<Shape>,
    pub(super) cost: Cost,
    pub(super) spares: VecDeque<Spare>,
    pub(super) replaced: Vec<Replaced>,
    /// Hosts that were lost just when the session came up, and by what, as long as it is open whether they are back by then.
    in_doubt: BTreeMap<HostIndex, Box<Failure>>,
    /// If everything is launched from here: the leader that could not launch others, and its first failure.
    pub(super) flat: Option<Box<(HostIndex, Failure)>>,
}

/// What is to be noted instead of some news.
enum Doubt {
    /// Nothing else.
    None,
    /// Nothing, until more is known.
    Open,
    Settled(ChildMessage),
}

impl Front {
    pub(super) fn new(plan: &Plan) -> Self {
        let ledger = Ledger::new(plan.hosts.len() as u32, plan.policy);
        let (deadline, gather) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
        let shape = match plan.strategy {
            Strategy::Late => None,
            Strategy::Static(shape) => Some(shape),
        };
        Self {
            ledger,
            allowed: plan.deadline,
            trips: vec![LaunchTiming::default(); plan.hosts.len()],
            links: vec![None; plan.hosts.len()],
            tally: (0, 0),
            roster: Roster::new(plan.size),
            deadline,
            gather,
            concluding: None,
            shape,
            cost: plan.cost,
            spares: plan.spares.clone().into(),
            replaced: Vec::new(),
            in_doubt: BTreeMap::new(),
            flat: None,
        }
    }

    /// Notes what is said of a host's link; one that is lost, or launched again, has none.
    fn note_link(&mut self, news: &ChildMessage) {
        let (host, direct) = match news {
            ChildMessage::Link(host, direct) => (host, Some(*direct)),
            ChildMessage::Again(host, ..) | ChildMessage::Failed(host, ..) => (host, None),
            _ => return,
        };
        let Some(known) = self.links.get_mut(host.0 as usize) else { return };
        let before = std::mem::replace(known, direct);
        for (is, count) in [(true, &mut self.tally.0), (false, &mut self.tally.1)] {
            *count = *count + u32::from(direct == Some(is)) - u32::from(before == Some(is));
        }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.deadline = now + self.allowed;
    }

    /// Whether a host is given up, or was lost after the session was up.
    pub(super) fn has_given_up(&self, host: HostIndex) -> bool {
        matches!(self.ledger.at(host), Some((_, Known::Failed(_))))
    }

    /// Whether what is said of this attempt at a host does not hold any more.
    pub(super) fn is_out_of_date(&self, host: HostIndex, attempt: Attempt) -> bool {
        self.ledger
            .at(host)
            .is_none_or(|(latest, known)| attempt < *latest || matches!(known, Known::Failed(_)))
    }

    /// When it has to be woken, if the session is so far.
    pub(super) fn deadline(&self, stage: Stage) -> Option<Instant> {
        let next = self.concluding.as_ref().map_or(self.deadline.min(self.gather), |(_, by)| *by);
        (stage < Stage::Up).then_some(next)
    }

    /// Whether enough can still join, as far as was known when that was last looked at.
    pub(super) fn has_hope(&self) -> bool {
        self.gather == Instant::FAR_FUTURE
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

    /// How often the launch of each host has been begun, in the order of their indices; nothing at other nodes.
    pub fn attempts(&self) -> impl Iterator<Item = u32> {
        let attempts = match &self.role {
            Role::Front(front) => Some(front.ledger.attempts()),
            Role::Member(_) => None,
        };
        attempts.into_iter().flatten()
    }

    /// How many hosts have joined, have failed, and are still waited for, as far as it is known at the front end.
    #[must_use]
    pub fn progress(&self) -> (u32, u32, u32) {
        match &self.role {
            Role::Front(front) => front.ledger.progress(),
            Role::Member(_) => (0, 0, 0),
        }
    }

    /// Who has launched each host, and when, as far as it is known at the front end.
    #[must_use]
    pub fn trips(&self) -> &[LaunchTiming] {
        match &self.role {
            Role::Front(front) => &front.trips,
            Role::Member(_) => &[],
        }
    }

    /// Whether the link between each host and who has launched it is direct, once that is known at the front end; nothing of
    /// hosts that were not asked to try.
    #[must_use]
    pub fn links(&self) -> &[Option<bool>] {
        match &self.role {
            Role::Front(front) => &front.links,
            Role::Member(_) => &[],
        }
    }

    /// How many of these links are direct, and how many were to be and are not.
    #[must_use]
    pub fn link_tally(&self) -> (u32, u32) {
        match &self.role {
            Role::Front(front) => front.tally,
            Role::Member(_) => (0, 0),
        }
    }

    /// Takes news into the ledger, and does what follows from it.
    pub(super) fn decide(&mut self, news: &[ChildMessage], now: Instant, out: &mut Vec<Effect>) {
        let elapsed = now.since(self.began);
        for news in news {
            // Who joins a session that was given up is asked to end like everybody else.
            if self.stage >= Stage::Ending && !self.was_up && matches!(news, ChildMessage::Joined(..)) {
                continue;
            }
            let replaced = self.replace(news, now, out);
            let Role::Front(front) = &mut self.role else { return };
            front.note_link(news);
            match news {
                ChildMessage::Exited(rank, exit) => {
                    front.roster.leaves(*rank);
                    out.push(Effect::Tell(Notice::Exited(*rank, *exit)));
                }
                ChildMessage::InputTaken(bytes) => out.push(Effect::Tell(Notice::InputTaken(*bytes))),
                ChildMessage::Released(rank) => {
                    front.roster.leaves(*rank);
                    out.push(Effect::Tell(Notice::Released(*rank)));
                }
                ChildMessage::Joined(host, _, timing)
                | ChildMessage::Failed(host, _, Failure { timing, .. }) => {
                    if let Some(known) = front.trips.get_mut(host.0 as usize)
                        && (timing.hello.is_some() || known.hello.is_none())
                    {
                        *known = *timing;
                    }
                }
                ChildMessage::Again(..)
                | ChildMessage::Link(..)
                | ChildMessage::Alone
                | ChildMessage::NotDirect => {}
                ChildMessage::Unable(..) | ChildMessage::Back(..) => {}
            }
            let instead = match self.doubt(news, now, out) {
                Doubt::None => replaced,
                Doubt::Open => continue,
                Doubt::Settled(instead) => Some(instead),
            };
            let Role::Front(front) = &mut self.role else { return };
            let news = instead.as_ref().unwrap_or(news);
            let was_lost = front.ledger.note(news);
            if let ChildMessage::Failed(host, _, failure) = news
                && was_lost
                && self.stage == Stage::Up
            {
                let blocks = self.tasks.get(host).map_or(&[][..], |task| &task.blocks);
                // Of those who had left before, nothing is lost.
                if front.roster.any_left(blocks) {
                    front.roster.lose(blocks);
                    let mut failure = failure.clone();
                    if matches!(failure.cause, Cause::LauncherLost(_)) {
                        // Whoever says so may not have known that it was up.
                        failure.phase = Phase::Joined;
                    }
                    out.push(Effect::Tell(Notice::Lost(*host, failure)));
                }
            }
        }
        let Role::Front(front) = &mut self.role else { return };
        if self.stage >= Stage::Up {
            if self.stage == Stage::Up && front.roster.is_done() {
                out.push(Effect::Tell(Notice::Done));
            }
            return;
        }
        let decision = front.ledger.decide();
        front.gather = match decision {
            Decision::Hopeless => front.gather.min(now + self.rules.failure_linger),
            _ => Instant::FAR_FUTURE,
        };
        let late = front.deadline(self.stage).is_some_and(|by| now >= by);
        match (decision, &front.concluding) {
            (Decision::Go, _) => self.go(now, out),
            (Decision::GiveUp, _) => self.give_up(now, out),
            (Decision::Wait | Decision::Hopeless, None) if late => {
                let why = if now >= front.deadline { Cause::TimedOut } else { Cause::Cancelled };
                front.concluding = Some((why.clone(), now + self.rules.kill_grace.saturating_mul(2)));
                self.conclude(&why, now, out);
                self.report(now, out);
            }
            (Decision::Wait | Decision::Hopeless, Some((why, _))) if late => {
                let failure = Failure::without_evidence(Phase::Waiting, why.clone(), elapsed);
                front.ledger.close(&failure);
                self.decide(&[], now, out);
            }
            (Decision::Wait | Decision::Hopeless, _) => {}
        }
    }

    /// A host that is lost just when the session comes up, below somebody who does not know that yet, is launched again until he
    /// does; then he says what has become of it. If it is not back by then, it is lost by what it was lost by.
    fn doubt(&mut self, news: &ChildMessage, now: Instant, out: &mut Vec<Effect>) -> Doubt {
        let Role::Front(front) = &mut self.role else { return Doubt::None };
        match news {
            ChildMessage::Again(host, attempt, lost) if self.stage >= Stage::Up => {
                if let Some(lost) = lost {
                    front.in_doubt.insert(*host, lost.clone());
                }
                if front.in_doubt.contains_key(host) {
                    return Doubt::Open;
                }
                // It had not been up.
                let elapsed = now.since(self.began);
                let abandoned = Failure::without_evidence(Phase::Waiting, Cause::Cancelled, elapsed);
                Doubt::Settled(ChildMessage::Failed(*host, *attempt, abandoned))
            }
            ChildMessage::Joined(host, ..) => {
                front.in_doubt.remove(host);
                Doubt::None
            }
            ChildMessage::Failed(host, attempt, failure) => match front.in_doubt.remove(host) {
                Some(lost) if failure.cause == Cause::Cancelled => {
                    let leader = self.tasks.get(host).and_then(|task| task.blocks.first());
                    if let (Some(block), Cause::Exited(exit)) = (leader, &lost.cause) {
                        front.roster.leaves(block.first);
                        out.push(Effect::Tell(Notice::Exited(block.first, *exit)));
                    }
                    Doubt::Settled(ChildMessage::Failed(*host, *attempt, *lost))
                }
                _ => Doubt::None,
            },
            _ => Doubt::None,
        }
    }

    fn go(&mut self, now: Instant, out: &mut Vec<Effect>) {
        (self.stage, self.was_up) = (Stage::Up, true);
        self.direct.forget_secret();
        let (mut absent, mut present) = (Ranks::new(), Ranks::first(self.size));
        if let Role::Front(front) = &mut self.role {
            let hosts = front.ledger.hosts().zip(self.tasks.values());
            for (_, task) in hosts.filter(|(known, _)| matches!(known, Known::Failed(_))) {
                front.roster.lose(&task.blocks);
                task.blocks.iter().for_each(|block| absent.add_run(block.first.0, block.count));
            }
        }
        present.remove_all(&absent);
        // Who did not join, and has not ended when that was asked of it, has no place.
        self.end_those_before(Phase::Joined, &Cause::Cancelled, now, out);
        self.rise(absent, present, None, now, out);
        out.push(Effect::Tell(Notice::Up));
    }

    fn give_up(&mut self, now: Instant, out: &mut Vec<Effect>) {
        out.push(Effect::Tell(Notice::GivenUp));
        self.end(Ending { signal: TERMINATE, grace: self.rules.kill_grace }, now, out);
    }

    /// What is still waited for is not launched any more.
    pub(super) fn close_ledger(&mut self, now: Instant) {
        let elapsed = now.since(self.began);
        if let Role::Front(front) = &mut self.role {
            front.ledger.close(&Failure::without_evidence(Phase::Waiting, Cause::Cancelled, elapsed));
        }
    }

    /// Sends this to every child that is up.
    pub(super) fn pass_down(&mut self, message: &ParentMessage, out: &mut Vec<Effect>) {
        for (&link, _) in self.children.iter().filter(|(_, child)| child.is_up()) {
            Self::send(link, Kind::Control, message, out);
        }
    }
}
