//! The front end's part of a node: passes reports to [`FrontEndState`], and carries out the step
//! that it decides.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::plan::late::Launch;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::session_end::TERMINATE;
use super::starters::may_be_ended_with_others;
use super::{Effect, Node, Notice, Role};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, LaunchTiming, Phase};
use crate::machine::child::Child;
use crate::machine::front_end::{FrontEndState, NextStep};
use crate::machine::host_table::{HostState, Replacement};
use crate::machine::message::{ChildMessage, Ending, ParentMessage};

impl Node {
    /// What the front end knows; `None` at other nodes.
    pub(super) fn front_end(&self) -> Option<&FrontEndState> {
        match &self.role {
            Role::FrontEnd(front) => Some(front),
            Role::Member(_) => None,
        }
    }

    /// The state of each host, in the order of their indices; empty at other nodes.
    pub fn host_states(&self) -> impl Iterator<Item = &HostState> {
        self.front_end().map(FrontEndState::hosts).into_iter().flatten()
    }

    /// Whether the first launch of each host was withdrawn, which is no attempt; empty at other nodes.
    pub fn withdrawn(&self) -> impl Iterator<Item = bool> {
        self.front_end().map(FrontEndState::withdrawn).into_iter().flatten()
    }

    /// How often the launch of each host has been started; empty at other nodes.
    pub fn attempts(&self) -> impl Iterator<Item = u32> {
        self.front_end().map(FrontEndState::attempts).into_iter().flatten()
    }

    /// The number of hosts that have joined, have failed, and are open, as far as the front end
    /// knows.
    #[must_use]
    pub fn progress(&self) -> (u32, u32, u32) {
        self.front_end().map_or((0, 0, 0), FrontEndState::progress)
    }

    /// The launcher of each host and the times of its launch, as far as the front end knows.
    #[must_use]
    pub fn timings(&self) -> &[LaunchTiming] {
        self.front_end().map_or(&[], FrontEndState::timings)
    }

    /// Whether the link between each host and its launcher is direct. `None` if that is not known,
    /// or if the host was not asked to connect directly.
    #[must_use]
    pub fn links(&self) -> &[Option<bool>] {
        self.front_end().map_or(&[], |front| front.links().known())
    }

    /// How many links are direct, and how many should be but are not.
    #[must_use]
    pub fn link_counts(&self) -> (u32, u32) {
        self.front_end().map_or((0, 0), |front| front.links().counts())
    }

    /// Whether the process that leads this host is its first member.
    #[must_use]
    pub fn is_led_by_member(&self, host: HostIndex) -> bool {
        self.front_end().is_some_and(|front| front.engines().is_in_program(host))
    }

    /// Whether the engine of this host runs in the program of its first member, although it should
    /// run apart.
    #[must_use]
    pub fn is_in_program(&self, host: HostIndex) -> bool {
        self.front_end().is_some_and(|front| front.engines().is_exception(host))
    }

    /// Why ssh has reached this host, and not libi's own client, if that was tried.
    #[must_use]
    pub fn declined_because(&self, host: HostIndex) -> Option<&str> {
        self.front_end()?.declined(host)
    }

    /// How long the launch has waited for resources.
    #[must_use]
    pub fn queued(&self) -> Duration {
        self.front_end().map_or(Duration::ZERO, FrontEndState::queued)
    }

    /// The hosts that spares have replaced, in order; empty at other nodes.
    #[must_use]
    pub fn replaced(&self) -> &[Replacement] {
        self.front_end().map_or(&[], FrontEndState::replaced)
    }

    /// Records reports, and carries out the step that follows.
    pub(super) fn decide(&mut self, reports: &[ChildMessage], now: Instant, out: &mut Vec<Effect>) {
        for report in reports {
            if self.note_command_report(report, out) {
                continue;
            }
            self.note_end_of_moved(report, now, out);
            let instead = self.replace(report, now, out);
            let Role::FrontEnd(front) = &mut self.role else { return };
            let blocks = |host| self.launcher.spec(host).map_or(&[][..], |spec| &spec.blocks);
            let notices = front.record(report, instead, blocks, self.stage, now);
            for notice in &notices {
                if let Notice::Lost(host, _) = notice {
                    self.return_by_itself(*host);
                }
            }
            out.extend(notices.into_iter().map(Effect::Notify));
            self.note_lost_host(report, out);
            self.give_up_restarts_of_lost(report, out);
        }
        if self.stage.is_up() && self.starts.is_any_finishing() {
            return; // it may say why its hosts have ended, which is to be reported before the end
        }
        let fates = self.fates();
        let Role::FrontEnd(front) = &mut self.role else { return };
        match front.next_step(self.stage, fates, &self.options.rules, now) {
            NextStep::Wait => {}
            NextStep::GoUp => self.go(now, out),
            NextStep::GiveUp => self.give_up(now, out),
            NextStep::StopLaunching(why) => {
                self.conclude(&why, now, out);
                self.send_reports(now, out);
            }
            NextStep::GiveUpOpen => {
                self.give_up_open(&Cause::SettleElapsed, now, out);
                self.send_reports(now, out);
            }
            NextStep::Admit => {
                self.admit_new_hosts(now, out);
                self.send_reports(now, out);
            }
            NextStep::Done => out.push(Effect::Notify(Notice::Done)),
        }
    }

    fn go(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.stage.go_up();
        self.direct.forget_secret();
        let Role::FrontEnd(front) = &mut self.role else { return };
        let absent = front.leave_out_failed(self.launcher.specs(..));
        self.growth.settle((self.size, front.hosts().count() as u32), &absent);
        let mut present = Ranks::first(self.size);
        present.remove_all(&absent);
        // A host that has not joined, and has not ended when asked to, has no place in the session.
        self.end_those_before(Phase::Joined, &Cause::Cancelled, now, out);
        self.session_up(absent, present, None, now, out);
        out.push(Effect::Notify(Notice::Up));
    }

    fn give_up(&mut self, now: Instant, out: &mut Vec<Effect>) {
        out.push(Effect::Notify(Notice::GivenUp));
        self.end(Ending { signal: TERMINATE, grace: self.options.rules.kill_grace }, now, out);
    }

    /// Gives all open hosts a verdict: no host is launched any more.
    pub(super) fn close_host_table(&mut self, now: Instant) {
        let Role::FrontEnd(front) = &self.role else { return };
        let why = front.why_given_up();
        let mut tried = self.failures_of_begun(&why, now);
        let before = self.reports.len();
        self.abandon_queue(&why, now);
        tried.extend(self.reports.drain(before..));
        let Role::FrontEnd(front) = &mut self.role else { return };
        front.close(why, &tried, now);
    }

    /// The failures of the hosts whose launches from here have begun and are cut short for this cause.
    /// A host that has failed, and whose evidence has not all arrived, has a cause of its own, unless its
    /// start is ending all hosts.
    fn failures_of_begun(&self, why: &Cause, now: Instant) -> Vec<ChildMessage> {
        let has_trailer = self.options.launch_method().has_exit_trailer();
        let failed = |child: &Child, launch: Launch| {
            let mut failure = child.failure(child.timing(None, self.began), has_trailer, now);
            let with_others = self.ends_with_others(child) && may_be_ended_with_others(&failure.cause);
            if with_others || !child.is_ending() {
                failure.cause = why.clone();
            }
            ChildMessage::Failed(launch.host, launch.attempt, failure)
        };
        let begun = self.children.leaders().filter(|(_, child)| !child.is_up());
        begun.filter_map(|(_, child)| child.launch().map(|launch| failed(child, launch))).collect()
    }

    /// Sends a message to every child that is up.
    pub(super) fn send_to_children(&mut self, message: &ParentMessage, out: &mut Vec<Effect>) {
        for (link, _) in self.children.up() {
            Self::send(link, Kind::Control, message, out);
        }
    }
}
