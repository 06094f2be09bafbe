//! What a node does after every event: what has become due, reports, and the next wake-up.

use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, LinkId, Node, Notice, Role};

/// How many reports fit into one message within the limit of message sizes.
const REPORTS_PER_MESSAGE: usize = 200;

impl Node {
    /// Runs after every event: launches, decisions, reports, the next wake-up.
    pub(super) fn after_event(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.expire(now, out);
        self.expire_moves(now, out);
        self.expire_commands(now, out);
        self.expire_file_links(now, out);
        self.expire_orphans(now, out);
        self.expire_restarts(now, out);
        self.send_heartbeats(now, out);
        if let Role::FrontEnd(front) = &mut self.role {
            front.set_queued(self.starts.is_waiting(), now);
        }
        let is_due = self.front_end().is_some_and(|front| {
            !self.reports.is_empty() || front.deadline(self.stage).is_some_and(|due| due <= now)
        });
        if is_due {
            // The end of the launch is decided before hosts are launched, and output of members is
            // passed on before their ends.
            self.relay_output(now, out);
            self.send_reports(now, out);
        }
        self.begin_returns(now, out);
        self.launcher.clear_wake();
        if self.is_launching() {
            self.evaluate_launch_health(now, out);
            self.launch(now, out);
        }
        self.report_no_dependents();
        self.report_input();
        self.relay_output(now, out);
        self.send_reports(now, out);
        let has_ended = self.children.is_empty()
            && self.moved.len() == 0
            && self.starts.is_empty()
            && self.commands.have_ended();
        if has_ended && self.stage.finish() {
            self.close_commands(now, out);
            self.remove_staged(out);
            out.push(Effect::Notify(Notice::Over));
        }
        if !self.stage.is_over() {
            self.request_wake_up(now, out);
        }
    }

    /// Passes reports on to the parent, or to the host table and the user.
    pub(super) fn send_reports(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let reports = std::mem::take(&mut self.reports);
        match &self.role {
            Role::Member(_) if self.orphans.is_orphan() && !self.stage.is_over() => self.reports = reports,
            Role::Member(parent) if self.stage.is_over() || parent.is_lost() => {}
            Role::Member(_) => {
                if self.hosts_reconnect() && self.stage.is_up() {
                    self.orphans.tell(&reports);
                }
                let reports = self.mark_held_output(reports);
                for part in reports.chunks(REPORTS_PER_MESSAGE) {
                    Self::send(LinkId::PARENT, Kind::Control, &part, out);
                }
            }
            Role::FrontEnd(_) => {
                self.decide(&reports, now, out);
                self.report_staging(&reports, out);
            }
        }
    }

    fn request_wake_up(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let deadlines = self.children.next_deadline();
        let own = match &self.role {
            Role::FrontEnd(front) => front.deadline(self.stage),
            Role::Member(parent) => parent.deadline(),
        };
        let starters = self.starts.next_deadline().into_iter().chain(self.relays.next_deadline()).min();
        let launches = if self.is_launching() { self.launcher.next_wake() } else { None };
        let output = self.relay.next_wake(now);
        let commands = self.commands.next_deadline().into_iter().chain(self.moved.next_deadline()).min();
        let (files, orphans) = (self.sources.next_deadline(), self.orphans.next_deadline());
        let here = [Some(self.next_heartbeat), launches, own, output, self.restarts.next_deadline()];
        let times = [deadlines, starters, commands, files, orphans].into_iter().chain(here);
        let Some(next) = times.flatten().min().filter(|&at| at < Instant::FAR_FUTURE) else {
            return;
        };
        if self.wake_requested.is_none_or(|at| next < at) {
            self.wake_requested = Some(next);
            out.push(Effect::WakeAt(next));
        }
    }
}
