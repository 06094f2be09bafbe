//! Passes staged files down the tree; see [`machine::staging`](crate::machine::staging).

use libi_core::time::Instant;

use super::{Effect, Identity, LinkId, Node, Notice, Role};
use crate::failure::{Cause, Failure, Phase};
use crate::machine::child::Child;
use crate::machine::launcher::StagingLoad;
use crate::machine::message::ChildMessage;
use crate::staging::Staging;

/// The front end reports its progress in so many steps.
const STEPS: u64 = 64;

impl Node {
    /// Whether hosts get files before their programs are started.
    pub(super) fn stages_files(&self) -> bool {
        self.options.agent.is_some() && self.options.stage.as_ref().is_some_and(|files| !files.is_empty())
    }

    /// What is sent to children, where any child may launch any host.
    pub(super) fn staging_load(&self) -> Option<StagingLoad> {
        // Where hosts get files from each other, the tree of the launch does not carry them.
        let is_elsewhere = self.direct.files_secret().is_some() && self.direct.children_can_connect();
        let is_free = !self.is_front() && !self.options.is_static();
        let decides = self.stages_files() && is_free && !is_elsewhere;
        let load =
            || StagingLoad { children: self.staged.missing_children(), each: self.staged.time_for_all() };
        decides.then(load)
    }

    /// An agent has its config: makes room for the files.
    pub(super) fn open_stage(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let total = self.options.stage.as_ref().map_or(0, Staging::bytes);
        self.staged.open(total, now);
        out.push(Effect::OpenStage);
    }

    /// A piece has arrived from the parent; `None` if it was not due.
    pub(super) fn staged_piece(
        &mut self,
        payload: Vec<u8>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        if self.stage.has_begun_to_end() {
            return Some(());
        }
        let is_failed = self.staged.is_failed();
        let bytes = self.staged.arrive(payload, now)?;
        if !is_failed {
            out.push(Effect::WriteStaged(bytes));
        }
        Some(())
    }

    /// So many bytes are written on this host, or why that is impossible.
    pub(super) fn on_staged(&mut self, written: Result<u64, String>, now: Instant, out: &mut Vec<Effect>) {
        if self.stage.has_begun_to_end() {
            return;
        }
        match written {
            Ok(count) => {
                self.ask_for_source();
                let was_open = self.staged.is_open();
                let is_complete = self.staged.written(count);
                if was_open && count > 0 {
                    self.reports.push(ChildMessage::Staged(count));
                    self.confirm_to_source(count, is_complete, out);
                }
                for link in self.staged.served() {
                    self.serve_staged(link, now, out);
                }
                if is_complete && was_open {
                    self.start_own(now, out);
                    self.check_joined();
                }
            }
            Err(why) => self.cannot_stage(why, now, out),
        }
    }

    /// This node cannot write its files, or cannot read them for its children.
    fn cannot_stage(&mut self, why: String, now: Instant, out: &mut Vec<Effect>) {
        let cause = Cause::NotStaged(why.clone());
        // Hosts that get the files elsewhere may do without this node.
        let served = self.staged.served();
        self.staged.fail(why);
        if self.is_front() {
            for link in served {
                self.force_end(link, cause.clone(), now, out);
            }
        } else if self.stage.is_before_up() {
            let failure = Failure::without_evidence(Phase::Joining, cause, now.since(self.began));
            self.host_failed(failure, now, out);
        }
    }

    /// A leader has said hello: it gets the files.
    pub(super) fn stage_to_child(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        if self.stages_files() && self.children.get(link).is_some_and(Child::is_leader) {
            if let Some(cause) = self.staged.why_failed() {
                return self.force_end(link, cause, now, out);
            }
            if self.direct.files_secret_of_children().is_some() {
                self.staged.serve_elsewhere(link);
            } else {
                self.staged.serve(link);
            }
            self.serve_staged(link, now, out);
            self.await_confirmation(link, now);
        }
    }

    /// A child has written so many bytes.
    pub(super) fn child_staged(&mut self, link: LinkId, count: u64, now: Instant, out: &mut Vec<Effect>) {
        if !self.children.get(link).is_some_and(Child::is_up) {
            return;
        }
        let (before, _) = self.staged.progress();
        if !self.staged.confirm(link, count) {
            let cause = Cause::Protocol("more staged bytes than were sent".to_owned());
            return self.force_end(link, cause, now, out);
        }
        self.serve_staged(link, now, out);
        self.await_confirmation(link, now);
        let (confirmed, all) = self.staged.progress();
        let step = (self.staged.total() / STEPS).max(1);
        if self.is_front() && (before / step != confirmed / step || confirmed == all) {
            out.push(Effect::Notify(Notice::Staging { sent: confirmed, of: all }));
        }
    }

    /// At the front end: hosts that have joined have all files.
    pub(super) fn report_staging(&self, reports: &[ChildMessage], out: &mut Vec<Effect>) {
        if self.stages_files() && reports.iter().any(|report| matches!(report, ChildMessage::Joined(..))) {
            let (sent, of) = self.staged.progress();
            out.push(Effect::Notify(Notice::Staging { sent, of }));
        }
    }

    /// Sends a child as much as its window allows.
    pub(super) fn serve_staged(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        if !self.children.get(link).is_some_and(Child::is_up) && !self.sources.is_client(link) {
            return;
        }
        let waited = !self.staged.owes(link);
        let mut has_sent = false;
        while let Some((at, length)) = self.staged.next_piece(link) {
            out.push(Effect::SendStaged(link, at, length));
            has_sent = true;
        }
        if waited && has_sent {
            self.await_confirmation(link, now);
        }
    }

    /// A child has some time to confirm what it was sent, or to join when it has everything. One that
    /// waits for this node, or gets files elsewhere, has no deadline: its heartbeats show that it is
    /// alive.
    pub(super) fn await_confirmation(&mut self, link: LinkId, now: Instant) {
        let by = if self.staged.owes(link) { now + self.time_to_join() } else { Instant::FAR_FUTURE };
        self.sources.set_deadline(link, by);
        if self.children.get(link).is_some_and(|child| child.phase() < Phase::Joined) {
            self.children.set_deadline(link, by);
        }
    }

    /// Why a child is too late, if it has not confirmed all files.
    pub(super) fn staging_overdue(&self, link: LinkId) -> Option<Cause> {
        let confirmed = self.staged.missing(link)?;
        Some(Cause::NotStaged(format!(
            "{confirmed} of {} bytes have arrived, and no more within {} s",
            self.staged.total(),
            self.time_to_join().as_secs()
        )))
    }

    /// The node is over: removes what was staged, unless it is kept.
    pub(super) fn remove_staged(&mut self, out: &mut Vec<Effect>) {
        let is_here = self.staged.is_there() && matches!(self.role, Role::Member(_));
        let is_kept = self.staged.is_complete() && self.options.stage.as_ref().is_some_and(Staging::is_kept);
        if is_here && !is_kept {
            out.push(Effect::RemoveStaged);
        }
        self.staged.remove();
    }

    /// Starts the members of this host, or looks for their programs if these may be any.
    pub(super) fn start_own(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if self.options.has_any_programs() {
            return self.find_programs(out);
        }
        if self.options.has_no_programs() {
            return;
        }
        let others = self.identity().into_iter().flat_map(Identity::others);
        for (rank, block) in others.collect::<Vec<_>>() {
            self.start_member(rank, block, now, out);
        }
    }
}
