//! Notes the members that run on this host, for tools that attach to the session.
//!
//! | state | event | next |
//! |---|---|---|
//! | out of date | this process leads its host, and starts nothing now | noted |
//! | noted | a member is started, or has ended | out of date |
//! | noted | the session ends | as it is: members that have ended are told by the system |
//!
//! Without memory or descriptors for it nothing is noted: no tool finds these members.

use std::collections::BTreeMap;

use libi_core::ids::Rank;
use libi_job::session::{Members, Note};
use libi_launch::machine::{LinkId, StartRequest};

use super::SessionIo;

/// See the [module](self).
#[derive(Default)]
pub(super) struct NotedMembers {
    note: Note,
    running: BTreeMap<LinkId, (Rank, i32)>,
    is_current: bool,
}

impl NotedMembers {
    /// A process with this number was started.
    pub(super) fn started(&mut self, request: &StartRequest, pid: u32) {
        if let StartRequest::Member(link, rank, _) = request {
            self.running.insert(*link, (*rank, pid.cast_signed()));
            self.is_current = false;
        }
    }

    /// The process of a link has ended.
    pub(super) fn ended(&mut self, link: LinkId) {
        if self.running.remove(&link).is_some() {
            self.is_current = false;
        }
    }
}

impl SessionIo {
    /// Notes the members that have changed.
    pub(super) fn note_members(&mut self) {
        if self.noted.is_current || !self.pending_starts.is_empty() || self.node.is_ending() {
            return;
        }
        let Some(host) = self.node.leads() else { return };
        let mut members: BTreeMap<Rank, i32> = self.noted.running.values().copied().collect();
        if let Some(own) = self.node.rank() {
            members.entry(own).or_insert(std::process::id().cast_signed());
        }
        let members = Members {
            key: self.node.session_key(),
            host,
            members: members.into_iter().collect(),
            awaits_more: self.node.awaited_programs() > 0,
        };
        let _ = self.noted.note.write(&members);
        self.noted.is_current = true;
    }
}
