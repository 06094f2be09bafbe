//! What a report changes, and the notice that follows:
//!
//! | report | changes | notice |
//! |---|---|---|
//! | `Joined`, of a session that is up or was given up | nothing | |
//! | `Joined` | table, settle time, times of the launch | |
//! | `Failed` | table, times, link; a [spare](super::Spares) may take the place | |
//! | `Failed` of a host that had joined, in a session that is up | its members are gone | `Lost` |
//! | the same, after all its members had left | table, times; how it was linked is still told | |
//! | `Relaunch` | table, link; if the session is up, see [`LateLosses`](super::LateLosses) | |
//! | `Exited` of the last process of the rank, `Detached` | the member is gone | the same |
//! | `Restarting`, of an attempt that is not answered | it is under way | |
//! | `Restarted`, of the same | the member is back | the same |
//! | `NotRestarted`, of the same | | the same |
//! | `Link` | link | |
//! | `InProgram` | engine | |
//! | `Declined` | why ssh reaches the host | |
//! | `InputTaken` | | the same |
//! | `Failed`, `Relaunch` | the host is no [source](super::SourceOrder) of files any more | |
//! | `NoDependents`, `NotDirect`, `CannotLaunch`, `HandBack`, `InDoubt`, `Listening`, `Dropped`, `Adopted` | nothing: handled by the node | |

use libi_core::dist::layout::Block;
use libi_core::ids::HostIndex;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;

use super::FrontEndState;
use super::late_losses::LateLoss;
use crate::failure::{Cause, Failure, LaunchTiming, Phase};
use crate::machine::contract::Notice;
use crate::machine::message::ChildMessage;
use crate::machine::session_stage::SessionStage;

/// The host whose launch a report is about.
fn concerned(report: &ChildMessage) -> Option<HostIndex> {
    match report {
        ChildMessage::Joined(host, ..)
        | ChildMessage::Failed(host, ..)
        | ChildMessage::Relaunch(host, ..) => Some(*host),
        _ => None,
    }
}

impl FrontEndState {
    /// Records a report, or what a spare makes of it (`instead`); returns the notices that follow.
    /// `blocks` tells the ranks of a host.
    pub(in crate::machine) fn record<'a>(
        &mut self,
        report: &ChildMessage,
        instead: Option<ChildMessage>,
        blocks: impl Fn(HostIndex) -> &'a [Block],
        stage: SessionStage,
        now: Instant,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        let stage = concerned(report).map_or(stage, |host| self.stage_of(host, stage));
        // The session is up without a host that joins now, or was given up: the host is ended.
        if !stage.is_before_up() && matches!(report, ChildMessage::Joined(..)) {
            return notices;
        }
        let has_left = |host: &HostIndex| stage.is_up() && !self.members.any_left(blocks(*host));
        if !matches!(report, ChildMessage::Failed(host, ..) if has_left(host)) {
            self.links.note(report);
        }
        self.engines.note(report);
        match report {
            ChildMessage::Declined(host, why) => drop(self.declined.insert(*host, why.clone())),
            ChildMessage::Relaunch(host, ..) => drop(self.declined.remove(host)),
            _ => {}
        }
        if let ChildMessage::Failed(host, attempt, _) | ChildMessage::Relaunch(host, attempt, _) = report {
            self.source_order.remove(Launch { host: *host, attempt: *attempt });
        }
        match report {
            ChildMessage::Exited(rank, exit, killed, number) => {
                if !self.restarts.is_last(*rank, *number) || !self.members.ends(*rank) {
                    return notices;
                }
                notices.push(Notice::Exited(*rank, *exit, killed.as_deref().cloned()));
            }
            ChildMessage::Restarting(order) => self.restarts.begins(*order),
            ChildMessage::Restarted(order) => {
                if self.restarts.is_up(*order) {
                    self.members.revive(order.rank);
                    notices.push(Notice::Restarted(order.rank));
                }
            }
            ChildMessage::NotRestarted(order, why) => {
                if self.restarts.answers(*order) {
                    notices.push(Notice::NotRestarted(order.rank, why.clone()));
                }
            }
            ChildMessage::InputTaken(bytes) => notices.push(Notice::InputTaken(*bytes)),
            ChildMessage::Detached(rank) => {
                if !self.members.detaches(*rank) {
                    return notices;
                }
                notices.push(Notice::Detached(*rank));
            }
            ChildMessage::Joined(host, _, timing) => {
                self.settle.joined(*host, timing);
                self.note_timing(*host, timing);
            }
            ChildMessage::Failed(host, _, Failure { timing, .. }) => self.note_timing(*host, timing),
            ChildMessage::Relaunch(..)
            | ChildMessage::Link(..)
            | ChildMessage::InProgram(_)
            | ChildMessage::Declined(..)
            | ChildMessage::NoDependents(_)
            | ChildMessage::NotDirect
            | ChildMessage::WantsDirect
            | ChildMessage::CannotLaunch(..)
            | ChildMessage::InDoubt(..)
            | ChildMessage::ParentSilent
            | ChildMessage::Orphan(_)
            | ChildMessage::HandBack(..)
            | ChildMessage::Listening(_)
            | ChildMessage::Staged(_)
            | ChildMessage::WantsSource(..)
            | ChildMessage::FilesFrom(..)
            | ChildMessage::SlowClient(_)
            | ChildMessage::Dropped(..)
            | ChildMessage::Adopted(..)
            | ChildMessage::HoldsOutput(_)
            | ChildMessage::CommandEnded(..) => {}
        }
        let instead = match self.late_losses.resolve(report, stage, now.since(self.began)) {
            LateLoss::Unaffected => instead,
            LateLoss::Pending => return notices,
            LateLoss::Resolved(verdict) => {
                if let ChildMessage::Failed(host, _, Failure { cause: Cause::Exited(exit), .. }) = &verdict
                    && self.engines.is_in_program(*host)
                    && let Some(leader) = blocks(*host).first().map(|block| block.first)
                {
                    self.members.remove(leader);
                    notices.push(Notice::Exited(leader, *exit, None));
                }
                Some(verdict)
            }
        };
        let explained = self.explain(instead.as_ref().unwrap_or(report), stage);
        let report = explained.as_ref().or(instead.as_ref()).unwrap_or(report);
        let was_lost = self.table.note(report);
        if let ChildMessage::Failed(host, _, failure) = report
            && was_lost
            && stage.is_up()
        {
            let blocks = blocks(*host);
            // A host whose members had all left before is not lost.
            if self.members.any_left(blocks) {
                self.members.remove_host(blocks);
                let mut failure = failure.clone();
                if matches!(failure.cause, Cause::LauncherLost(_)) || failure.phase == Phase::Waiting {
                    // The reporting node may not have known that the host was up.
                    failure.phase = Phase::Joined;
                }
                notices.push(Notice::Lost(*host, failure));
            }
        }
        notices
    }

    /// The report of a host that was given up before the session was up, with the reason, if that
    /// lies elsewhere.
    fn explain(&self, report: &ChildMessage, stage: SessionStage) -> Option<ChildMessage> {
        let ChildMessage::Failed(host, attempt, failure) = report else { return None };
        let is_open = failure.cause == Cause::Cancelled && failure.phase == Phase::Waiting;
        let explains = is_open && self.has_stopped() && stage.is_before_up();
        let cause = explains.then(|| self.table.why_given_up(true))?;
        Some(ChildMessage::Failed(*host, *attempt, Failure { cause, ..failure.clone() }))
    }

    /// Records the times of a launch. Times with a hello are not replaced by times without one.
    fn note_timing(&mut self, host: HostIndex, timing: &LaunchTiming) {
        if let Some(known) = self.timings.get_mut(host.0 as usize)
            && (timing.hello.is_some() || known.hello.is_none())
        {
            *known = *timing;
        }
    }
}
