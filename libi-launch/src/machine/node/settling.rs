//! Giving up the hosts that are open, when the launch has [settled](crate::machine::front_end).
//!
//! Giving up open launches does not stop launching. A host that is lost afterwards is relaunched as
//! usual, so the session does not lose hosts that it needs. A leader that is up, and waits for its
//! own further members, keeps their deadline: other hosts may already depend on it.

use libi_core::time::Instant;

use super::{Child, Effect, Node};
use crate::failure::{Cause, Phase};
use crate::machine::message::ParentMessage;

impl Node {
    /// Gives up every host at and below this node whose leader is not up, and goes on.
    pub(super) fn give_up_open(&mut self, why: &Cause, now: Instant, out: &mut Vec<Effect>) {
        let (launcher, terms, reports) = self.launcher(now);
        launcher.give_up_open(why, &terms, reports);
        self.send_to_children(&ParentMessage::GiveUpOpen(why.clone()), out);
        let is_open =
            |child: &Child| child.is_leader() && child.phase() < Phase::Joining && !child.is_ending();
        for link in self.children.links(is_open) {
            self.force_end(link, why.clone(), now, out);
        }
    }
}
