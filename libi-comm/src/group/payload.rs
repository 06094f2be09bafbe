//! The payload of collective calls that is not pieces of members' data: segments of a ring, keys of
//! a fence.

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::GroupView;
use super::call_state::CallState;
use super::context::CallContext;
use super::kvs::KeyStore;
use super::ring::{RingSegment, SegmentNeighbors};
use crate::contract::{Effect, Outcome};
use crate::error::CommError;
use crate::message::{CollectiveHeader, Kind, Message};

/// How much of such a payload goes into one frame.
const MAX_PAYLOAD: usize = 512 << 10;

/// Prepares the payload that goes up with the sign that all members here have called.
pub(super) fn payload_up(
    state: &mut CallState,
    parent: LinkId,
    ctx: &mut CallContext<'_>,
) -> Result<(), CommError> {
    match state.by.1.kind {
        Kind::Ring => {
            let ring = RingSegment::join(&segments(state, ctx.view)?).encode();
            state.next_payload.insert(parent, ring.into());
        }
        Kind::Fence => {
            fence_below(state, ctx)?;
            state.next_payload.insert(parent, ctx.kvs.fence_up());
        }
        _ => {}
    }
    Ok(())
}

/// Prepares the payload that goes down with the sign that all members have called, and applies it
/// here.
pub(super) fn payload_down(state: &mut CallState, ctx: &mut CallContext<'_>) -> Result<(), CommError> {
    let top = ctx.view.collective_parent().is_none();
    let from_above = state.received_payload.remove(&LinkId::PARENT).filter(|_| !top).unwrap_or_default();
    match state.by.1.kind {
        Kind::Ring => {
            let invalid = CommError::Protocol("an invalid ring segment");
            let segments = segments(state, ctx.view)?;
            let whole = RingSegment::join(&segments);
            let neighbors = if top {
                SegmentNeighbors::whole(&whole)
            } else {
                SegmentNeighbors::decode(&from_above).ok_or(invalid)?
            };
            let mut parts = neighbors.split(&segments).into_iter();
            let own = if ctx.view.topology.me.is_some() { parts.next() } else { None };
            let outcome = own.map(|own| Outcome::Ring(own.position()));
            let payloads: Vec<_> = parts.map(|part| Bytes::from(part.encode())).collect();
            state.outcome = outcome;
            state.next_payload =
                ctx.view.topology.branches.iter().map(|branch| branch.link).zip(payloads).collect();
        }
        Kind::Fence => {
            let payload = if top {
                fence_below(state, ctx)?;
                ctx.kvs.fence_decided()
            } else {
                from_above.into()
            };
            ctx.kvs.fence_down(payload.clone(), ctx.view, ctx.out).map_err(CommError::Protocol)?;
            for branch in &ctx.view.topology.branches {
                state.next_payload.insert(branch.link, KeyStore::payload_for(branch.local, &payload));
            }
        }
        _ => {}
    }
    Ok(())
}

fn fence_below(state: &mut CallState, ctx: &mut CallContext<'_>) -> Result<(), CommError> {
    for branch in &ctx.view.topology.branches {
        let payload = state.received_payload.remove(&branch.link).unwrap_or_default();
        ctx.kvs.fence_from_below(branch.link, payload.into()).map_err(CommError::Protocol)?;
    }
    Ok(())
}

/// The segments of the ring here and below, in their order.
fn segments<'a>(state: &'a CallState, view: &GroupView) -> Result<Vec<RingSegment<'a>>, CommError> {
    let own = view.topology.me.is_some().then(|| Ok(RingSegment::of(&state.ring_input)));
    let below = view.topology.branches.iter().map(|branch| {
        let bytes = state.received_payload.get(&branch.link).map_or(&[][..], Vec::as_slice);
        RingSegment::decode(bytes).ok_or(CommError::Protocol("an invalid ring segment"))
    });
    own.into_iter().chain(below).collect()
}

/// Applies a fence that is over here but was decided by the top, and forwards it to all branches.
pub(super) fn forward_fence(header: &CollectiveHeader, payload: &Bytes, ctx: &mut CallContext<'_>) {
    // A payload that is invalid here is invalid below.
    if ctx.kvs.fence_down(payload.clone(), ctx.view, ctx.out).is_err() {
        return;
    }
    for branch in &ctx.view.topology.branches {
        if !ctx.view.cut.contains(&branch.link) {
            send_payload(branch.link, header, KeyStore::payload_for(branch.local, payload), ctx.out);
        }
    }
}

/// Sends a header with its payload in as many frames as it takes.
pub(super) fn send_payload(
    link: LinkId,
    header: &CollectiveHeader,
    mut payload: Bytes,
    out: &mut Vec<Effect>,
) {
    loop {
        let part = payload.split_to(payload.len().min(MAX_PAYLOAD));
        let mut header = header.clone();
        header.flags.more = !payload.is_empty();
        let more = header.flags.more;
        out.push(Effect::Send(
            link,
            Message::Collective(header).frame(Some(part).filter(|part| !part.is_empty())),
        ));
        if !more {
            return;
        }
    }
}
