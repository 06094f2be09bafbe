//! Whether a member is attached to its session, and whether other processes depend on it.
//!
//! An attached member receives the session's signals, ends with the session, and ends when it loses
//! its parent. A detached member does none of that.
//!
//! | state | event | next state |
//! |---|---|---|
//! | attached | its user detaches it, before the session ends | detached; reports `Detached` |
//! | attached | the session is up and does not grow, and nothing depends on it | reports `NoDependents`, once |
//! | attached | the session has [grown](super::growth) | it may report that once more |
//! | detached | the session is up or ends, and nothing depends on it | the same |
//!
//! A report says how many hosts the session had, so that one of the time before it has grown counts no more.
//!
//! An attached member that ends takes its subtree with it, and does not report its dependents then.

use super::session_stage::SessionStage;

/// How a member stands to its session.
#[derive(Debug, Default)]
pub(super) struct Attachment {
    detached: bool,
    reported_no_dependents: bool,
}

impl Attachment {
    pub(super) fn is_detached(&self) -> bool {
        self.detached
    }

    /// The user detaches the member; returns whether that is to be reported.
    pub(super) fn detach(&mut self, stage: SessionStage) -> bool {
        !stage.has_begun_to_end() && !std::mem::replace(&mut self.detached, true)
    }

    /// The session grows: other processes may depend on this one.
    pub(super) fn may_get_dependents(&mut self) {
        self.reported_no_dependents = false;
    }

    /// Whether to report, now and once, that no process depends on this member. Only then is
    /// `has_none` asked, which looks at all children.
    pub(super) fn reports_no_dependents(
        &mut self,
        stage: SessionStage,
        has_none: impl FnOnce() -> bool,
    ) -> bool {
        let is_asked = stage.is_up() || stage.is_ending() && self.detached;
        let reports = !self.reported_no_dependents && is_asked && has_none();
        self.reported_no_dependents |= reports;
        reports
    }
}

#[cfg(test)]
mod tests {
    use libi_core::time::Instant;

    use super::*;

    fn up() -> SessionStage {
        let mut stage = SessionStage::new();
        stage.go_up();
        stage
    }

    fn ending() -> SessionStage {
        let mut stage = up();
        stage.end(Instant::FAR_FUTURE);
        stage
    }

    #[test]
    fn a_member_detaches_once_and_not_from_a_session_that_ends() {
        let mut member = Attachment::default();
        assert!(!member.detach(ending()) && !member.is_detached());
        assert!(member.detach(up()) && member.is_detached());
        assert!(!member.detach(up()) && member.is_detached());
    }

    #[test]
    fn a_member_without_dependents_says_so_once_when_the_session_is_up() {
        let mut member = Attachment::default();
        assert!(!member.reports_no_dependents(SessionStage::new(), || true), "nodes may still join below");
        assert!(!member.reports_no_dependents(up(), || false));
        assert!(member.reports_no_dependents(up(), || true));
        assert!(!member.reports_no_dependents(up(), || true));
    }

    #[test]
    fn of_members_that_end_only_detached_ones_report_their_dependents() {
        assert!(!Attachment::default().reports_no_dependents(ending(), || true));
        let mut member = Attachment::default();
        member.detach(up());
        assert!(member.reports_no_dependents(ending(), || true));
    }
}
