//! What a collective call meets outside itself.

use libi_core::ids::{LinkId, Rank};

use super::GroupView;
use super::kvs::KeyStore;
use crate::contract::{Effect, Frame};
use crate::memory::{SealedRegion, SharedMemory};
use crate::message::{CallSignature, CollectiveHeader, HeaderFlags, Message};

/// Everything that a collective call meets outside itself.
pub(crate) struct CallContext<'a> {
    pub(crate) view: &'a GroupView,
    pub(crate) kvs: &'a mut KeyStore,
    pub(crate) memory: &'a mut Option<Box<dyn SharedMemory>>,
    pub(crate) out: &'a mut Vec<Effect>,
}

/// Lends memory to those who have been promised it.
pub(super) fn send_region(
    nth: u64,
    by: (Rank, CallSignature),
    sealed: Option<(SealedRegion, Vec<LinkId>)>,
    ctx: &mut CallContext<'_>,
) {
    let Some((sealed, to)) = sealed else { return };
    let frame = Message::Region(CollectiveHeader { nth, by, flags: HeaderFlags::default() }).frame(None);
    ctx.out.extend(to.into_iter().map(|link| Effect::SendRegion(link, frame.clone(), sealed.clone())));
}

impl CallContext<'_> {
    /// Sends a frame to everybody around who takes part in collective calls, but for one.
    pub(super) fn send_to_all(&mut self, frame: &Frame, but: Option<LinkId>) {
        let branches = self.view.topology.branches.iter().map(|branch| branch.link);
        let links = self.view.collective_parent().into_iter().chain(branches);
        for link in links.filter(|link| Some(*link) != but && !self.view.cut.contains(link)) {
            self.out.push(Effect::Send(link, frame.clone()));
        }
    }
}
