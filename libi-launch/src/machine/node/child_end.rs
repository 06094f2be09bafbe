//! The end of a child: by itself, by force, or at a deadline; and its consequences.

use libi_core::plan::late::Launch;
use libi_core::time::Instant;

use super::{Effect, LinkId, Node};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Exit, Failure, Phase};
use crate::machine::child::{Child, ChildState};
use crate::machine::message::ChildMessage;

impl Node {
    pub(super) fn child_closed(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(link) else { return };
        child.close();
        if !self.role.is_front() && child.is_of_bulk_start() && child.is_up() {
            // The front end hears of its exit.
            child.forgo_exit();
        }
        let is_plain = child.is_running();
        let cause = self.or_heartbeat_lost(link, Cause::Closed, now);
        if !is_plain {
            self.ends(link, cause, now, out);
        }
        self.cut_with_reason(link, now, out);
    }

    pub(super) fn child_exited(&mut self, link: LinkId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        if self.process_exited(link, exit) {
            return;
        }
        let Some(child) = self.children.get_mut(link) else { return };
        if child.is_running() {
            // A process that it has left behind may hold the link.
            child.close();
            out.push(Effect::Close(link));
        }
        child.on_exit(exit);
        let cause = self.or_heartbeat_lost(link, Cause::Exited(exit), now);
        self.ends(link, cause, now, out);
    }

    /// The cause of a child's end. A leader that has missed two heartbeats was lost by silence, and
    /// the end of its remote shell only shows that now. It may have ended because it could not hear
    /// this node either.
    fn or_heartbeat_lost(&self, link: LinkId, cause: Cause, now: Instant) -> Cause {
        let is_remote = |child: &&Child| child.is_leader() && !self.options.launch_method().is_local();
        let Some(child) = self.children.get(link).filter(is_remote).filter(|child| child.is_up()) else {
            return cause;
        };
        // Time in which this process was held up itself is not silence of the child.
        let held_up = now.since(self.next_heartbeat);
        let unheard = child.silent_for(now).saturating_sub(held_up);
        if unheard > self.heartbeat_interval() * 2 { Cause::HeartbeatLost } else { cause }
    }

    /// A child has begun to end by itself. Its evidence has `kill_grace` to arrive.
    pub(super) fn ends(&mut self, link: LinkId, cause: Cause, now: Instant, out: &mut Vec<Effect>) {
        self.begins_to_end(link, cause, now);
        if self.children.get(link).is_some_and(Child::is_gone) {
            self.child_gone(link, now, out);
        }
    }

    /// The same, where the link is open and delivers more.
    pub(super) fn begins_to_end(&mut self, link: LinkId, cause: Cause, now: Instant) {
        self.children.end(link, cause, now + self.options.rules.kill_grace);
        let Some(child) = self.children.get_mut(link) else { return };
        if child.is_of_bulk_start() && self.starts.is_ending_all(child.start()) {
            child.note_end_with_others();
        }
    }

    /// Whether a child ends, or has begun to, while its start is ending all programs.
    pub(super) fn ends_with_others(&self, child: &Child) -> bool {
        child.has_ended_with_others() || child.is_of_bulk_start() && self.starts.is_ending_all(child.start())
    }

    /// Kills a child.
    pub(super) fn force_end(&mut self, link: LinkId, cause: Cause, now: Instant, out: &mut Vec<Effect>) {
        let by = now + self.options.rules.kill_grace;
        self.children.end(link, cause, by);
        self.force(link, by, now, out);
        if self.children.get(link).is_some_and(Child::is_gone) {
            self.child_gone(link, now, out);
        }
    }

    /// Kills a child that ends, unless that has been done.
    fn force(&mut self, link: LinkId, by: Instant, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(link) else { return };
        if child.force() {
            child.close();
            if child.is_detached() {
                // A detached process is not killed, and its exit is not awaited.
                child.forgo_exit();
                out.push(Effect::DetachChild(link));
            }
            out.push(Effect::Close(link));
            let has_process = child.has_process();
            if !has_process {
                // There is no process to kill: what runs there ends when it loses its link.
                child.forgo_exit();
            } else if child.exit().is_none() {
                out.push(Effect::Kill(link));
            }
            self.cut(link, now, out);
            if !has_process {
                return self.children.set_deadline(link, Instant::ZERO);
            }
        }
        self.children.set_deadline(link, by);
    }

    /// Handles all expired deadlines.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.expire_reasons(now, out);
        while let Some((link, child, by)) = self.children.expired(now) {
            // The deadline was shortened when this launcher found that it cannot launch. It is shorter
            // as well for a host of a bulk start whose program has ended.
            let had_less = child.is_leader()
                && by < child.started() + self.options.rules.hello_timeout
                && child.exit().is_none();
            match child.state() {
                // The process could not be killed, or its exit was never reported.
                ChildState::Ending { forced: true, .. } => self.child_gone(link, now, out),
                ChildState::Ending { forced: false, .. }
                    if child.awaits_exit_in_tree() && !self.stage.has_begun_to_end() =>
                {
                    self.cut_without_exit(link, now, out);
                }
                ChildState::Ending { forced: false, .. } => {
                    self.force(link, now + self.options.rules.kill_grace, now, out);
                }
                ChildState::Starting if child.is_awaited() && self.starts.waits(child.start()) => {
                    self.force_end(link, Cause::NotScheduled, now, out);
                }
                ChildState::AwaitHello if self.moves.greeted(link).is_some() => self.stays(link, now, out),
                ChildState::Starting if had_less => self.force_end(link, Cause::Cancelled, now, out),
                _ => {
                    // Why all programs of a start were ended was not said in time.
                    let killed = child.exit().filter(|_| child.is_awaited());
                    let killed = killed.map(|exit| self.or_refused(child.start(), Cause::Exited(exit)));
                    let cause = killed.or_else(|| self.staging_overdue(link)).unwrap_or(Cause::TimedOut);
                    self.force_end(link, cause, now, out);
                }
            }
        }
        self.expire_starters(now, out);
        if self.parent_is_late(now) && !self.stage.has_begun_to_end() {
            self.parent_lost(now, out);
        }
    }

    /// Whether nothing follows from the end of a child.
    fn has_left(&self, child: &Child, was_up: bool) -> bool {
        // When a node ends, its parent decides about the hosts below it. A child may end by itself if
        // no process depends on it.
        let is_leader = child.is_leader();
        self.stage.has_begun_to_end()
            || is_leader && self.stage_of(child).is_up() && was_up && child.has_no_dependents()
    }

    /// A host that was launched from here has failed, or is lost.
    pub(super) fn leader_failed(
        &mut self,
        launch: Launch,
        was_up: bool,
        with_others: bool,
        failure: Failure,
        now: Instant,
    ) {
        if with_others && self.is_ended_with_others(&failure) {
            let (launcher, terms, reports) = self.launcher(now);
            launcher.ended_with_others(launch, was_up, &failure, &terms, reports);
        } else if was_up {
            let (launcher, terms, reports) = self.launcher(now);
            launcher.leader_lost(launch, &failure, &terms, reports);
        } else {
            self.launch_failed(launch, failure, now);
        }
    }

    /// No more evidence of a child's end will arrive: reports it, and handles the hosts that
    /// depended on it.
    pub(super) fn child_gone(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        self.launcher_of_new_hosts_is_gone(link, now);
        self.cut(link, now, out);
        self.staged.forget(link);
        let Some(mut child) = self.children.remove(link) else { return };
        self.moves.child_gone(link);
        Self::connect_children(self.direct.turn_is_over(link), out);
        if self.stage.is_ending() && self.moves.target().is_none() {
            self.moved.release_detached(now);
        }
        self.output_ends(link, child.is_leader());
        if child.on_doubt(false) {
            self.launcher.child_doubts(false);
        }
        let start = child.start();
        let with_others = self.ends_with_others(&child);
        self.leave_start(link, &mut child, now, out);
        if child.is_open() {
            out.push(Effect::Close(link));
        }
        let below = self.relay_gone(link, start, out);
        let is_alone = self.orphans.is_alone(link);
        let new_below = self.orphans.take_new(link);
        let was_up = child.phase() >= Phase::Joining;
        if was_up {
            self.routes.remove_link(link);
        }
        if child.is_detached() && child.has_no_dependents() && was_up {
            return;
        }
        let failure = child.failure(
            child.timing(self.leads(), self.began),
            self.options.launch_method().has_exit_trailer(),
            now,
        );
        // A new host is launched again, as before the session was up.
        let was_in_session = self.stage_of(&child).was_up();
        let (ends, leaves) =
            (was_in_session && was_up && !child.is_detached(), self.has_left(&child, was_up));
        if let Some(Launch { host, attempt }) =
            child.launch().filter(|_| !self.is_front() && child.is_of_bulk_start())
        {
            if ends || !leaves {
                let failure = (!leaves).then(|| Box::new(failure));
                self.reports.push(ChildMessage::Dropped(host, attempt, ends, failure));
            }
            return;
        }
        if ends {
            // Only the local shell was killed here, which says nothing about the program.
            let stands_for_it = !child.is_leader() || self.options.launch_method().is_local();
            let by_us = !stands_for_it && child.was_forced();
            let is_that = |exit: &Exit| by_us && matches!(exit, Exit::Signal(_) | Exit::Shell(_));
            let exit = child.exit().filter(|exit| !is_that(exit)).unwrap_or(Exit::Unknown);
            if let Some(rank) = child.rank() {
                let killed = child.killed_for().filter(|_| !by_us).map(Box::new);
                self.member_ends((link, rank), &child, (exit, killed), now, out);
            }
        }
        match child.launch() {
            _ if leaves => {}
            Some(launch) if child.is_moved_here() && !was_up => {
                let (launcher, terms, reports) = self.launcher(now);
                launcher.adopted_failed(launch, failure, &terms, reports);
            }
            Some(launch) if is_alone => {
                let (launcher, terms, reports) = self.launcher(now);
                launcher.lost_alone(launch, &new_below, failure, &terms, reports);
            }
            Some(launch) => {
                self.leader_failed(launch, was_up, with_others, failure, now);
                self.lost_with_relay(launch.host, with_others, below, now);
            }
            None if self.stage.is_before_up() => self.host_failed(failure, now, out),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use libi_core::ids::HostIndex;
    use libi_core::machine::Machine;
    use libi_core::plan::late::{Attempt, Launch};
    use libi_core::wire::{Header, LinkItem};

    use super::super::Role;
    use super::*;
    use crate::backend::{Backend, Local, Rsh};
    use crate::machine::child::{ChildRole, tests as children};
    use crate::machine::contract::Event;

    const LINK: LinkId = LinkId(1);
    const BROKEN: Exit = Exit::Code(255);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// The cause of the loss of a leader that is up and was last heard at 10 s, if a heartbeat is
    /// due at `beat` and these events arrive.
    fn loss_cause(backend: Backend, beat: u64, events: &[(u64, Event)]) -> Cause {
        let mut node = Node::member(0, String::new(), 1);
        node.options.backend = Some(backend);
        node.options.rules.peer_timeout = Duration::from_secs(8);
        node.next_heartbeat = at(beat);
        if let Role::Member(parent) = &mut node.role {
            parent.begin(at(16), Duration::from_secs(100));
        }
        let role = ChildRole::Leader(Launch { host: HostIndex(1), attempt: Attempt::default() });
        let link = node.children.add(children::joined(role, Vec::new(), at(1)), Instant::FAR_FUTURE);
        assert_eq!(link, LINK);
        node.on(Event::Received(LINK, Vec::new()), at(10), &mut Vec::new());
        for (second, event) in events {
            node.on(event.clone(), at(*second), &mut Vec::new());
        }
        let child = node.children.get(LINK).unwrap();
        child.failure(child.timing(None, Instant::ZERO), false, at(100)).cause
    }

    #[test]
    fn data_of_a_child_outside_the_tree_violate_the_protocol() {
        let frame = LinkItem::Frame(Header::session_data(1).unwrap(), b"x".to_vec());
        let cause = loss_cause(Backend::Local(Local), 16, &[(11, Event::Received(LINK, vec![frame]))]);
        assert_eq!(cause, Cause::Protocol("a data where news was awaited".to_owned()));
    }

    #[test]
    fn a_leader_that_missed_two_heartbeats_is_lost_by_silence() {
        let (closed, exited) = (Event::Closed(LINK), Event::Exited(LINK, BROKEN));
        let rsh = || Backend::Rsh(Rsh::new());
        assert_eq!(loss_cause(rsh(), 16, &[(14, exited.clone())]), Cause::Exited(BROKEN), "one may be late");
        assert_eq!(loss_cause(rsh(), 16, &[(15, exited.clone())]), Cause::HeartbeatLost);
        assert_eq!(loss_cause(rsh(), 16, &[(15, closed.clone())]), Cause::HeartbeatLost);
        assert_eq!(loss_cause(rsh(), 16, &[(12, closed)]), Cause::Closed);
        assert_eq!(loss_cause(rsh(), 12, &[(16, exited.clone())]), Cause::Exited(BROKEN), "held up itself");
        assert_eq!(
            loss_cause(Backend::Local(Local), 16, &[(15, exited)]),
            Cause::Exited(BROKEN),
            "it was seen"
        );
    }
}
