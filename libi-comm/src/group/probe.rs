//! Calls that wait for long: whether other members have called something else.
//!
//! A call that completes locally sends nothing over some links, and over others only what arrives
//! from elsewhere. Members that have made different calls may then wait for each other's data
//! without a frame that would show it. A member that has waited for [`PROBE_AFTER`] therefore sends
//! the signature of its call over all links, and every process passes it on once. Each process
//! compares it with what its own member has called or calls later.
//!
//! Calls that synchronise by signs need no probe: every sign has the signature.

use std::collections::VecDeque;
use std::time::Duration;

use libi_core::ids::LinkId;
use libi_core::time::Instant;

use super::collective::Collective;
use super::context::CallContext;
use crate::contract::Effect;
use crate::message::{CollectiveHeader, HeaderFlags, Message};

/// How long a member waits in a call before it sends the signature.
pub(crate) const PROBE_AFTER: Duration = Duration::from_millis(20);

/// Calls that this member waits for, and when they are to be probed.
#[derive(Debug, Default)]
pub(super) struct Waits {
    calls: VecDeque<(Instant, u64)>,
    /// The time for which a wake-up was requested.
    armed: Option<Instant>,
}

impl Collective {
    /// Remembers to probe a call that this member may complete from now on, if it has no result
    /// yet. A call that is too far ahead waits for others, which are probed.
    pub(super) fn await_result(&mut self, nth: u64, ctx: &mut CallContext<'_>) {
        let waits = |nth| self.open.get(&nth).is_some_and(|state| state.may_need_probe());
        if !self.progress.may_complete(nth) || !waits(nth) {
            return;
        }
        let calls = &mut self.waits.calls;
        while calls.front().is_some_and(|(_, first)| !waits(*first)) {
            calls.pop_front();
        }
        calls.push_back((ctx.now + PROBE_AFTER, nth));
        self.waits.arm(ctx.out);
    }

    /// Time has passed.
    pub(crate) fn on_woken(&mut self, ctx: &mut CallContext<'_>) {
        self.waits.armed.take_if(|at| *at <= ctx.now);
        if self.is_halted() {
            // They are remembered again when they go on.
            self.waits.calls.clear();
        }
        while let Some(&(at, nth)) = self.waits.calls.front() {
            let waits = self.open.get(&nth).is_some_and(|state| state.may_need_probe());
            if waits && at > ctx.now {
                break;
            }
            self.waits.calls.pop_front();
            if waits {
                self.probe(nth, None, ctx);
            }
        }
        self.waits.arm(ctx.out);
    }

    /// Sends the signature of a call over all links except one, if that was not done before.
    pub(super) fn probe(&mut self, nth: u64, from: Option<LinkId>, ctx: &mut CallContext<'_>) {
        let Some(state) = self.open.get_mut(&nth).filter(|state| !state.probed) else { return };
        state.probed = true;
        let flags = HeaderFlags { probe: true, ..HeaderFlags::default() };
        let header = CollectiveHeader { nth, by: state.by, flags };
        ctx.send_to_all(&Message::Collective(header).frame(None), from);
    }
}

impl Waits {
    fn arm(&mut self, out: &mut Vec<Effect>) {
        if self.armed.is_none()
            && let Some((at, _)) = self.calls.front()
        {
            self.armed = Some(*at);
            out.push(Effect::WakeAt(*at));
        }
    }
}
