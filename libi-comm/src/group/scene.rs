//! What a collective call meets outside itself.

use libi_core::ids::{LinkId, Rank};

use super::Place;
use super::keys::Store;
use crate::contract::{Effect, Frame};
use crate::memory::{Lent, Memory};
use crate::message::{CallSignature, Flow, Message, Signs};

/// Everything that a collective call meets outside itself.
pub(crate) struct Scene<'a> {
    pub(crate) place: &'a Place,
    pub(crate) keys: &'a mut Store,
    pub(crate) memory: &'a mut Option<Box<dyn Memory>>,
    pub(crate) out: &'a mut Vec<Effect>,
}

/// Lends memory to those who have been promised it.
pub(super) fn lend(
    nth: u64,
    by: (Rank, CallSignature),
    lent: Option<(Lent, Vec<LinkId>)>,
    on: &mut Scene<'_>,
) {
    let Some((lent, to)) = lent else { return };
    let frame = Message::Lent(Flow { nth, by, signs: Signs::default() }).frame(None);
    on.out.extend(to.into_iter().map(|link| Effect::Lend(link, frame.clone(), lent.clone())));
}

impl Scene<'_> {
    /// Sends a frame to everybody around who takes part in collective calls, but for one.
    pub(super) fn spread(&mut self, frame: &Frame, but: Option<LinkId>) {
        let branches = self.place.topology.branches.iter().map(|branch| branch.link);
        let links = self.place.above().into_iter().chain(branches);
        for link in links.filter(|link| Some(*link) != but && !self.place.cut.contains(link)) {
            self.out.push(Effect::Send(link, frame.clone()));
        }
    }
}
