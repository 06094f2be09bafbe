//! Hosts that are lost just when the session comes up.
//!
//! A host that is lost below a node which has not heard yet that the session is up is relaunched,
//! until that node hears of it and reports the fate of the host. If the host is not back by then,
//! the first failure is its verdict.
//!
//! | report, once the session is up | the host is | recorded instead |
//! |---|---|---|
//! | `Relaunch` of a host that had been up | awaited, with that failure | nothing |
//! | `Relaunch` of an awaited host | awaited | nothing |
//! | `Relaunch` of any other host | not awaited: it had not been up | `Failed`: cancelled |
//! | `Joined` | not awaited any more | the report |
//! | `Failed` of an awaited host, cut short | not awaited any more | `Failed`, by its first failure |
//! | `Failed` otherwise | not awaited any more | the report |

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::ids::HostIndex;

use crate::failure::{Cause, Failure, Phase};
use crate::machine::message::ChildMessage;
use crate::machine::session_stage::SessionStage;

/// The hosts that are awaited, each with the failure by which it was lost.
#[derive(Debug, Default)]
pub(super) struct LateLosses(BTreeMap<HostIndex, Box<Failure>>);

/// What the host table records instead of a report.
#[derive(Debug, PartialEq)]
pub(super) enum LateLoss {
    /// The report itself.
    Unaffected,
    /// Nothing, until more is known.
    Pending,
    Resolved(ChildMessage),
}

impl LateLosses {
    /// Decides what is recorded instead of a report; `elapsed` is the time since the launch began.
    pub(super) fn resolve(
        &mut self,
        report: &ChildMessage,
        stage: SessionStage,
        elapsed: Duration,
    ) -> LateLoss {
        match report {
            ChildMessage::Relaunch(host, attempt, lost) if !stage.is_before_up() => {
                if let Some(lost) = lost {
                    self.0.insert(*host, lost.clone());
                }
                if self.0.contains_key(host) {
                    return LateLoss::Pending;
                }
                let abandoned = Failure::without_evidence(Phase::Waiting, Cause::Cancelled, elapsed);
                LateLoss::Resolved(ChildMessage::Failed(*host, *attempt, abandoned))
            }
            ChildMessage::Joined(host, ..) => {
                self.0.remove(host);
                LateLoss::Unaffected
            }
            ChildMessage::Failed(host, attempt, failure) => match self.0.remove(host) {
                Some(lost) if matches!(failure.cause, Cause::Cancelled | Cause::SettleElapsed) => {
                    LateLoss::Resolved(ChildMessage::Failed(*host, *attempt, *lost))
                }
                _ => LateLoss::Unaffected,
            },
            _ => LateLoss::Unaffected,
        }
    }
}

#[cfg(test)]
mod tests {
    use libi_core::plan::late::Attempt;

    use super::*;
    use crate::failure::{Exit, LaunchTiming};

    const HOST: HostIndex = HostIndex(2);

    fn failure(cause: Cause) -> Failure {
        Failure::without_evidence(Phase::Joined, cause, Duration::from_secs(1))
    }

    fn attempt(lost: u16) -> Attempt {
        Attempt { lost, ..Attempt::default() }
    }

    fn relaunch(lost: Option<Failure>) -> ChildMessage {
        ChildMessage::Relaunch(HOST, attempt(1), lost.map(Box::new))
    }

    fn failed(cause: Cause) -> ChildMessage {
        ChildMessage::Failed(HOST, attempt(2), failure(cause))
    }

    fn up() -> SessionStage {
        let mut stage = SessionStage::new();
        stage.go_up();
        stage
    }

    /// What each of these reports, which arrive once the session is up, turns into.
    fn resolve<const N: usize>(reports: [ChildMessage; N]) -> [LateLoss; N] {
        let mut losses = LateLosses::default();
        reports.map(|report| losses.resolve(&report, up(), Duration::from_secs(9)))
    }

    #[test]
    fn the_first_failure_of_a_host_that_is_not_back_is_its_verdict() {
        let exited = || failure(Cause::Exited(Exit::Code(3)));
        for cut_short in [Cause::Cancelled, Cause::SettleElapsed] {
            let fate = resolve([relaunch(Some(exited())), relaunch(None), failed(cut_short)]);
            let verdict = ChildMessage::Failed(HOST, attempt(2), exited());
            assert_eq!(fate, [LateLoss::Pending, LateLoss::Pending, LateLoss::Resolved(verdict)]);
        }
    }

    #[test]
    fn a_host_that_fails_again_by_itself_has_that_failure() {
        let fate = resolve([relaunch(Some(failure(Cause::Closed))), failed(Cause::TimedOut)]);
        assert_eq!(fate, [LateLoss::Pending, LateLoss::Unaffected]);
    }

    #[test]
    fn a_host_that_is_back_is_not_lost() {
        let joined = ChildMessage::Joined(HOST, attempt(1), LaunchTiming::default());
        let fate = resolve([relaunch(Some(failure(Cause::Closed))), joined, failed(Cause::Cancelled)]);
        assert_eq!(fate, [LateLoss::Pending, LateLoss::Unaffected, LateLoss::Unaffected]);
    }

    #[test]
    fn a_host_that_had_not_been_up_is_given_up_at_once() {
        let abandoned = Failure::without_evidence(Phase::Waiting, Cause::Cancelled, Duration::from_secs(9));
        let verdict = ChildMessage::Failed(HOST, attempt(1), abandoned);
        assert_eq!(resolve([relaunch(None)]), [LateLoss::Resolved(verdict)]);
    }

    #[test]
    fn before_the_session_is_up_a_relaunch_is_recorded_as_it_is() {
        let mut losses = LateLosses::default();
        let report = relaunch(Some(failure(Cause::Closed)));
        assert_eq!(losses.resolve(&report, SessionStage::new(), Duration::ZERO), LateLoss::Unaffected);
        assert_eq!(
            losses.resolve(&failed(Cause::Cancelled), up(), Duration::ZERO),
            LateLoss::Unaffected,
            "it is not awaited"
        );
    }
}
