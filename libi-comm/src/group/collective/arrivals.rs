//! What arrives of collective calls: frames, and shared memory with all data of a call.

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use super::Collective;
use crate::contract::Effect;
use crate::error::{AbortCause, CommError};
use crate::group::context::CallContext;
use crate::group::flow_control::UNWANTED;
use crate::message::{CallSignature, CollectiveHeader, HeaderFlags, Message};
use crate::piece::Piece;

impl Collective {
    /// A frame of a collective call has arrived.
    pub(crate) fn on_frame(
        &mut self,
        link: LinkId,
        header: &CollectiveHeader,
        payload: Bytes,
        ctx: &mut CallContext<'_>,
    ) {
        if self.survival.is_halted() {
            return;
        }
        let CollectiveHeader { nth, by, flags } = *header;
        let whole = !flags.more;
        let is_open = self.is_open(nth);
        let cause = match is_open {
            true => self.register(nth, by, &ctx.view.of_call(nth)),
            false => self.late_mismatch(nth, by),
        };
        if flags.entered
            && whole
            && let Some(entered) = self.entered.get_mut(link)
        {
            *entered = nth.saturating_add(1).max(*entered);
            if let Some(state) = self.open.get_mut(&nth) {
                state.branch_has_called(link);
            }
        }
        if let Some(cause) = cause {
            return self.begin_abort(nth, cause, ctx);
        }
        if !is_open {
            if flags.blocked {
                // The call was over here before the sender made it.
                ctx.out.push(Effect::Send(link, Message::Grant { nth, limit: UNWANTED }.frame(None)));
            }
            return self.on_late_message(link, header, &payload, ctx);
        }
        if let Err(why) = self.take_payload(nth, link, payload, flags, ctx) {
            return self.fail_here(nth, why, ctx);
        }
        if flags.done && whole && Some(link) == ctx.view.collective_parent() {
            self.all_called(nth, ctx);
        }
        if flags.probe {
            self.probe(nth, Some(link), ctx);
        }
        self.advance(nth, ctx);
    }

    fn take_payload(
        &mut self,
        nth: u64,
        link: LinkId,
        mut payload: Bytes,
        flags: HeaderFlags,
        ctx: &mut CallContext<'_>,
    ) -> Result<(), CommError> {
        let Some(state) = self.open.get_mut(&nth) else { return Ok(()) };
        let view = &*ctx.view.of_call(nth);
        if state.operation.messages().is_some() {
            state.arrived.push(link, &payload);
            return Ok(());
        }
        if flags.blocked {
            state.flow.peer_blocked(link);
            let links = ctx.view.links_between_members();
            if let Some(limit) = self.eager.wanted(&state.operation, links) {
                ctx.send_to_all(&Message::Eager { limit }.frame(None), None);
            }
        }
        while !payload.is_empty() {
            let piece = Piece::decode(&mut payload).map_err(|_| CommError::Protocol("an invalid piece"))?;
            state.begin_region(&piece, ctx.memory, view);
            state.receive(link, piece.clone(), view)?;
            state.fill_region(&piece, view)?;
        }
        Ok(())
    }

    /// Shared memory with all data of a call has arrived.
    pub(crate) fn on_region(
        &mut self,
        link: LinkId,
        header: &CollectiveHeader,
        bytes: Option<Bytes>,
        ctx: &mut CallContext<'_>,
    ) {
        let CollectiveHeader { nth, by, .. } = *header;
        if self.survival.is_halted() || !self.is_open(nth) {
            return;
        }
        if let Some(cause) = self.register(nth, by, &ctx.view.of_call(nth)) {
            return self.begin_abort(nth, cause, ctx);
        }
        let root = by.1.root.unwrap_or(by.0);
        let Some(bytes) = bytes else {
            return self.fail_here(
                nth,
                CommError::Protocol("shared memory that is missing or not sealed"),
                ctx,
            );
        };
        let taken = self.open.get_mut(&nth).map(|state| state.take_region(link, root, bytes));
        match taken {
            Some(Err(why)) => self.fail_here(nth, why, ctx),
            _ => self.advance(nth, ctx),
        }
    }

    /// Whether a call of another member differs from what this process has completed.
    fn late_mismatch(&self, nth: u64, by: (Rank, CallSignature)) -> Option<AbortCause> {
        let known = self.progress.signature(nth)?;
        (!known.1.matches(&by.1)).then_some(AbortCause::Mismatch(known, by))
    }
}
