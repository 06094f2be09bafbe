//! What a collective call uses outside its own state.

use libi_core::ids::{LinkId, Rank};

use super::GroupView;
use super::kvs::KeyStore;
use crate::contract::{Effect, Frame};
use crate::memory::{SealedRegion, SharedMemory};
use crate::message::{CallSignature, CollectiveHeader, HeaderFlags, Message};

/// What a collective call uses outside its own state.
pub(crate) struct CallContext<'a> {
    pub(crate) view: &'a GroupView,
    pub(crate) kvs: &'a mut KeyStore,
    pub(crate) memory: &'a mut Option<Box<dyn SharedMemory>>,
    pub(crate) out: &'a mut Vec<Effect>,
}

/// Sends a sealed region to the members that are waiting for it.
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
    /// Sends a frame to all neighbors that take part in collective calls, except one.
    pub(super) fn send_to_all(&mut self, frame: &Frame, but: Option<LinkId>) {
        let branches = self.view.topology.branches.iter().map(|branch| branch.link);
        let links = self.view.collective_parent().into_iter().chain(branches);
        for link in links.filter(|link| Some(*link) != but && !self.view.cut.contains(link)) {
            self.out.push(Effect::Send(link, frame.clone()));
        }
    }
}
