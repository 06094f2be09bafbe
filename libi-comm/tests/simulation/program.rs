//! The programs of members: their steps, pauses and timeouts, and what is expected of their calls.

use std::time::Duration;

use libi_comm::{Address, Bytes, Call, CallId, CommError, Completion, Event, Outcome};
use libi_core::ids::Rank;
use libi_core::sim::{Agenda, MachineId as Id};

use libi_cases::Oracle;
use libi_cases::step::Step;

use crate::member::{Ending, Member, Record, call_id};
use crate::restarts::IN_DOUBT;
use crate::world::{Cluster, Happening};

impl Cluster {
    pub(crate) fn think(&mut self, id: Id, step: u32) -> Duration {
        let who = self.members[id.0 as usize].process.address;
        let slow = who.and_then(|who| self.scenario.slow.get(&(who, step))).copied().unwrap_or_default();
        let most = self.scenario.think.as_micros() as u64;
        // Mostly without a pause, so that much happens at the same time.
        let think = if self.rng.chance(0.5) { 0 } else { self.rng.below(most + 1) };
        slow + Duration::from_micros(think)
    }

    /// A member takes as many steps as it may.
    pub(crate) fn act(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        let session = self.session.clone();
        loop {
            let member = &self.members[id.0 as usize];
            let (Some(who), step) = (member.process.address, member.next) else { return };
            let Some(_) = session.steps.get(step as usize).filter(|_| member.alive) else { return };
            if self.scenario.stalls.get(&who).is_some_and(|stalls| step >= *stalls) {
                return;
            }
            let taken = self.step(who, step).clone();
            let most = if taken.runs_alone() { 1 } else { session.flight };
            if member.open.len() >= most {
                return;
            }
            self.member(id).next += 1;
            let version = self.version_at(id, &taken);
            let mut calls = taken.calls(step, self.session_of(version, step), who);
            if self.skips(who, step) {
                calls.clear();
            }
            if self.scenario.bad_roots.contains(&(who, step)) {
                calls = vec![Call::Gather { root: Rank(session.size), data: Bytes::new(), equal: true }];
            }
            if !calls.is_empty() {
                self.member(id).open.insert(step, calls.len());
            }
            let timeout = self.scenario.timeout(who, step);
            for (nth, call) in calls.into_iter().enumerate() {
                let is_in_doubt = self.may_wait_in_vain(id, step, nth);
                let timeout = if is_in_doubt { timeout.min(IN_DOUBT) } else { timeout };
                let (at, until) = (agenda.now(), agenda.now() + timeout);
                let call_id = call_id(step, nth);
                let missing = Vec::new();
                let record = Record { step, nth, version, at, until, ended: None, missing, is_in_doubt };
                self.member(id).calls.insert(call_id, record);
                agenda.tell(at, id, Event::Call(call_id, call));
                agenda.plan(until, Happening::Expires(id, call_id));
            }
            let pause = self.think(id, step + 1);
            if !pause.is_zero() {
                agenda.plan(agenda.now() + pause, Happening::Acts(id));
                return;
            }
        }
    }

    pub(crate) fn finish(&mut self, id: Id, call: CallId, ending: Ending, agenda: &mut Agenda<Self>) {
        let now = agenda.now();
        let member = &mut self.members[id.0 as usize];
        let (Some(who), Some(record)) = (member.process.address, member.calls.get_mut(&call)) else {
            let who = &member.process;
            self.wrong.get_or_insert(format!("{who} is told of a call that it has not made: {call:?}"));
            return;
        };
        if let Some(ended) = &record.ended {
            if ended.1 != Ending::GivenUp || ended.0 != now {
                let wrong = format!("{who} is told twice of {record:?}: {ending:?}");
                self.wrong.get_or_insert(wrong);
            }
            return;
        }
        record.ended = Some((now, ending));
        let step = record.step;
        if let Some(open) = member.open.get_mut(&step) {
            *open -= 1;
            if *open == 0 {
                member.open.remove(&step);
                let pause = self.think(id, self.members[id.0 as usize].next);
                agenda.plan(now + pause, Happening::Acts(id));
            }
        }
        let member = &self.members[id.0 as usize];
        let is_over = member.next as usize == self.session.steps.len() && member.open.is_empty();
        if is_over && self.scenario.leavers.contains(&who) && member.process.links.is_empty() {
            let pause = self.think(id, u32::MAX);
            agenda.plan(now + pause, Happening::Leaves(id));
        }
    }

    pub(crate) fn checked(&mut self, id: Id, call: CallId, result: Result<Outcome, CommError>) -> Ending {
        let member = &self.members[id.0 as usize];
        let Some(record) = member.calls.get(&call) else { return Ending::Right };
        let version = self.version_of(record.version, record.step);
        let oracle = self.oracles.entry((version, record.missing.clone())).or_insert_with(|| {
            let oracle = Oracle::new(self.sessions[version].clone(), self.ring.clone());
            if record.missing.is_empty() { oracle } else { oracle.without(&record.missing) }
        });
        let Some(who) = member.process.address else { return Ending::Right };
        match result {
            Err(error) => Ending::Failed(error),
            Ok(outcome) => match oracle.check(who, record.step, record.nth, &outcome) {
                Ok(()) => Ending::Right,
                Err(_) if outcome == Outcome::Found(None) && self.may_be_missing(member, record) => {
                    Ending::Right
                }
                // What a mistaken call gives is not compared; other members must not rely on it.
                Err(_) if self.is_mistaken(who, record.step) => Ending::Right,
                Err(wrong) => Ending::Wrong(wrong),
            },
        }
    }

    /// Whether a member completes another call locally than the program means at a step.
    fn is_mistaken(&self, who: Address, step: u32) -> bool {
        let Completion { strict, continues, .. } = self.scenario.completion;
        // All that call something else may be lost.
        (!strict || continues) && self.scenario.mistakes.contains_key(&(who, step))
    }

    /// Whether a key may be missing: its put failed, or the fence after it did.
    pub(crate) fn may_be_missing(&self, member: &Member, record: &Record) -> bool {
        let Some(who) = member.process.address else { return false };
        let Some(Step::Get { of, .. }) = self.session.steps.get(record.step as usize) else { return false };
        let session = self.session_of(record.version, record.step);
        let asked = session.steps[record.step as usize].asked(session, who);
        let Some(id) = asked.get(record.nth) else { return false };
        let owner = || self.processes_of(Rank(id.from));
        // Calls go on without a member, and its keys are lost with it.
        let is_gone = self.scenario.completion.continues && owner().any(|owner| owner.lost.is_some());
        is_gone || !owner().any(|owner| owner.did(*of, id.nth)) || !member.did(of + 1, 0)
    }
}
