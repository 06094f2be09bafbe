//! What a collective call uses outside its own state.

use libi_core::ids::LinkId;
use libi_core::time::Instant;

use super::GroupView;
use super::kvs::KeyStore;
use crate::contract::{Effect, Frame};
use crate::memory::SharedMemory;

/// What a collective call uses outside its own state.
pub(crate) struct CallContext<'a> {
    pub(crate) now: Instant,
    pub(crate) view: &'a GroupView,
    pub(crate) kvs: &'a mut KeyStore,
    pub(crate) memory: &'a mut Option<Box<dyn SharedMemory>>,
    pub(crate) out: &'a mut Vec<Effect>,
}

impl CallContext<'_> {
    /// The same, seen in another view.
    pub(super) fn seen_in<'a>(&'a mut self, view: &'a GroupView) -> CallContext<'a> {
        let Self { now, kvs, memory, out, .. } = self;
        CallContext { now: *now, view, kvs, memory, out }
    }

    /// Sends a frame to all processes that become branches with the next plan, except one.
    pub(super) fn send_to_joining(&mut self, frame: &Frame, but: Option<LinkId>) {
        for link in self.view.joining_links().filter(|link| Some(*link) != but) {
            self.out.push(Effect::Send(link, frame.clone()));
        }
    }

    /// Sends a frame to all neighbors that take part in collective calls, except one.
    pub(super) fn send_to_all(&mut self, frame: &Frame, but: Option<LinkId>) {
        let branches = self.view.topology.branches.iter().map(|branch| branch.link);
        let links = self.view.collective_parent().into_iter().chain(branches);
        for link in links.filter(|link| Some(*link) != but && !self.view.cut.contains(link)) {
            self.out.push(Effect::Send(link, frame.clone()));
        }
    }
}
