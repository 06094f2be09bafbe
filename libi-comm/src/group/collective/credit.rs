//! What neighbors say of how much may be sent to them, and for which calls.

use libi_core::ids::LinkId;

use super::Collective;
use crate::group::context::CallContext;

impl Collective {
    /// Credit has arrived.
    pub(crate) fn on_grant(&mut self, link: LinkId, nth: u64, limit: u64, ctx: &mut CallContext<'_>) {
        if self.survival.is_halted() {
            return;
        }
        if let Some(state) = self.open.get_mut(&nth) {
            state.flow.allow(link, limit);
            self.advance(nth, ctx);
        }
    }

    /// A neighbor allows more bytes in each call before it grants any.
    pub(crate) fn on_eager(&mut self, link: LinkId, limit: u64, ctx: &mut CallContext<'_>) {
        let Some(limit) = self.eager.heard(link, limit) else { return };
        let open = self.open.iter_mut();
        let raised = open.filter_map(|(nth, state)| state.flow.allow(link, limit).then_some(*nth));
        for nth in raised.collect::<Vec<_>>() {
            self.advance(nth, ctx);
        }
    }

    /// A neighbor has reported before which number all calls are over there.
    pub(crate) fn on_report(&mut self, link: LinkId, before: u64, ctx: &mut CallContext<'_>) {
        if self.survival.is_halted() {
            return;
        }
        let freed = self.progress.on_report(link, before);
        for nth in self.open.range(freed).map(|(nth, _)| *nth).collect::<Vec<_>>() {
            self.advance(nth, ctx);
        }
    }
}
