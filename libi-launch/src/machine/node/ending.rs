//! How a child of a node ends: by itself, by force, or too late; and what follows.

use libi_core::time::Instant;

use super::{Child, Effect, LinkId, Node, Stage};
use crate::backend::Via;
use crate::machine::child::State;
use crate::machine::message::News;
use crate::verdict::{Cause, Exit, Phase};

impl Node {
    pub(super) fn child_closed(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(&link) else { return };
        child.open = false;
        self.cut(link, out);
        self.ends(link, Cause::Closed, now, out);
    }

    pub(super) fn child_exited(&mut self, link: LinkId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(&link) else { return };
        child.exit = Some(exit);
        self.ends(link, Cause::Exited(exit), now, out);
    }

    /// A child has begun to end by itself: what is still to be known of that has the grace to arrive.
    pub(super) fn ends(&mut self, link: LinkId, cause: Cause, now: Instant, out: &mut Vec<Effect>) {
        let by = now + self.rules.grace;
        let Some(child) = self.children.get_mut(&link) else { return };
        if child.end(cause) {
            self.set_deadline(link, by);
        }
        if self.children.get(&link).is_some_and(Child::is_gone) {
            self.gone(link, now, out);
        }
    }

    /// Ends a child that has forfeited its time to end by itself.
    pub(super) fn end_by_force(&mut self, link: LinkId, cause: Cause, now: Instant, out: &mut Vec<Effect>) {
        let by = now + self.rules.grace;
        let Some(child) = self.children.get_mut(&link) else { return };
        child.end(cause);
        self.force(link, by, out);
        if self.children.get(&link).is_some_and(Child::is_gone) {
            self.gone(link, now, out);
        }
    }

    fn force(&mut self, link: LinkId, by: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(&link) else { return };
        if let State::Ending { forced, .. } = &mut child.state
            && !std::mem::replace(forced, true)
        {
            child.open = false;
            if child.released {
                // It is not ours to kill, and nobody waits for its end.
                child.exit.get_or_insert(Exit::Unknown);
                out.push(Effect::Release(link));
            }
            out.push(Effect::Close(link));
            if child.exit.is_none() {
                out.push(Effect::Kill(link));
            }
            self.cut(link, out);
        }
        self.set_deadline(link, by);
    }

    pub(super) fn set_deadline(&mut self, link: LinkId, by: Instant) {
        let Some(child) = self.children.get_mut(&link) else { return };
        self.deadlines.remove(&(child.by, link));
        child.by = by;
        self.deadlines.insert((by, link));
    }

    /// Does what is due for everybody whose state has lasted too long.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some(&(by, link)) = self.deadlines.first()
            && by <= now
        {
            let greet = self.rules.greet;
            let child = self.children.get(&link).filter(|child| child.by == by);
            // Its time was cut short, when its launcher saw that it cannot launch.
            let had_less = |child: &&Child| child.launch.is_some() && by < child.started + greet;
            match child.map(|child| &child.state) {
                None => {
                    self.deadlines.remove(&(by, link));
                }
                // It could not even be killed, or nobody can say that it was.
                Some(State::Ending { forced: true, .. }) => self.gone(link, now, out),
                Some(State::Ending { forced: false, .. }) => self.force(link, now + self.rules.grace, out),
                Some(State::Starting) if child.filter(had_less).is_some() => {
                    self.end_by_force(link, Cause::Abandoned, now, out);
                }
                Some(_) => self.end_by_force(link, Cause::TimedOut, now, out),
            }
        }
        if self.parent_is_late(now) && self.stage < Stage::Ending {
            self.orphaned(now, out);
        }
    }

    /// All is known of the end of a child that will be: what follows for those it stood for.
    pub(super) fn gone(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        self.cut(link, out);
        let Some(child) = self.children.remove(&link) else { return };
        self.deadlines.remove(&(child.by, link));
        self.started(link, now);
        if child.open {
            out.push(Effect::Close(link));
        }
        let was_up = child.phase() >= Phase::Joining;
        if was_up {
            self.places.forget(link);
        }
        if child.released && child.alone && was_up {
            return; // whatever became of it is none of our business
        }
        let failure = child.failure(child.trip(self.leads, self.began), self.via.has_farewell(), now);
        if self.was_up && was_up && !child.released {
            // What was killed here is only what led there, and says nothing of the program.
            let stands_for_it = child.launch.is_none() || matches!(self.via, Via::Local(_));
            let by_us = !stands_for_it && child.was_forced();
            let is_that = |exit: &Exit| by_us && matches!(exit, Exit::Signal(_) | Exit::Shell(_));
            let exit = child.exit.filter(|exit| !is_that(exit)).unwrap_or(Exit::Unknown);
            self.news.extend(child.rank().map(|rank| News::Exited(rank, exit)));
        }
        match child.launch {
            // The hosts of a node that ends are its parent's to launch again or to give up, not its own.
            _ if self.stage >= Stage::Ending => {}
            // It has ended by itself, and nobody hung on it.
            Some(_) if self.stage == Stage::Up && was_up && child.alone => {}
            Some(launch) if was_up => self.leader_lost(launch, &failure, now),
            Some(launch) => self.launch_failed(launch, failure, now),
            None if self.stage < Stage::Up => self.host_failed(failure, now, out),
            None => {}
        }
    }
}
