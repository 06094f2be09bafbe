//! What travels with the signs of a call and is no piece of anybody's data: stretches of a ring, keys at a fence.

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::Place;
use super::keys::Store;
use super::op::Op;
use super::ring::{Around, Stretch};
use super::scene::Scene;
use crate::contract::{Effect, Outcome};
use crate::error::CommError;
use crate::message::{Flow, Kind, Message};

/// How much cargo that is not pieces goes into one frame.
const LOAD: usize = 512 << 10;

/// What goes up with the sign that everybody here has called.
pub(super) fn load_up(op: &mut Op, parent: LinkId, on: &mut Scene<'_>) -> Result<(), CommError> {
    match op.by.1.kind {
        Kind::Ring => {
            let ring = Stretch::join(&stretches(op, on.place)?).encode();
            op.load.insert(parent, ring.into());
        }
        Kind::Fence => {
            fence_below(op, on)?;
            op.load.insert(parent, on.keys.fence_up());
        }
        _ => {}
    }
    Ok(())
}

/// What goes down with the sign that everybody has called, and what it means here.
pub(super) fn load_down(op: &mut Op, on: &mut Scene<'_>) -> Result<(), CommError> {
    let top = on.place.above().is_none();
    let above = op.cargo.remove(&LinkId::PARENT).filter(|_| !top).unwrap_or_default();
    match op.by.1.kind {
        Kind::Ring => {
            let garbled = CommError::Protocol("no part of a ring");
            let stretches = stretches(op, on.place)?;
            let whole = Stretch::join(&stretches);
            let around = if top { Around::whole(&whole) } else { Around::decode(&above).ok_or(garbled)? };
            let mut parts = around.split(&stretches).into_iter();
            let own = if on.place.topology.me.is_some() { parts.next() } else { None };
            let outcome = own.map(|own| Outcome::Place(own.place()));
            let loads: Vec<_> = parts.map(|part| Bytes::from(part.encode())).collect();
            op.outcome = outcome;
            op.load = on.place.topology.branches.iter().map(|branch| branch.link).zip(loads).collect();
        }
        Kind::Fence => {
            let cargo = if top {
                fence_below(op, on)?;
                on.keys.fence_decided()
            } else {
                above.into()
            };
            on.keys.fence_down(cargo.clone(), on.place, on.out).map_err(CommError::Protocol)?;
            for branch in &on.place.topology.branches {
                op.load.insert(branch.link, Store::cargo_for(branch.local, &cargo));
            }
        }
        _ => {}
    }
    Ok(())
}

fn fence_below(op: &mut Op, on: &mut Scene<'_>) -> Result<(), CommError> {
    for branch in &on.place.topology.branches {
        let cargo = op.cargo.remove(&branch.link).unwrap_or_default();
        on.keys.fence_from_below(branch.link, cargo.into()).map_err(CommError::Protocol)?;
    }
    Ok(())
}

/// The parts of the ring here and below, in their order.
fn stretches<'a>(op: &'a Op, place: &Place) -> Result<Vec<Stretch<'a>>, CommError> {
    let own = place.topology.me.is_some().then(|| Ok(Stretch::of(&op.own_ring)));
    let below = place.topology.branches.iter().map(|branch| {
        let bytes = op.cargo.get(&branch.link).map_or(&[][..], Vec::as_slice);
        Stretch::decode(bytes).ok_or(CommError::Protocol("no part of a ring"))
    });
    own.into_iter().chain(below).collect()
}

/// A fence that is over here was decided all the same: what has come down with it is in force, here and below.
pub(super) fn pass_fence(flow: &Flow, cargo: &Bytes, on: &mut Scene<'_>) {
    // What makes no sense here makes none below.
    if on.keys.fence_down(cargo.clone(), on.place, on.out).is_err() {
        return;
    }
    for branch in &on.place.topology.branches {
        if !on.place.cut.contains(&branch.link) {
            send_load(branch.link, flow, Store::cargo_for(branch.local, cargo), on.out);
        }
    }
}

/// Sends a sign with what goes with it, in as many frames as that takes.
pub(super) fn send_load(link: LinkId, flow: &Flow, mut load: Bytes, out: &mut Vec<Effect>) {
    loop {
        let part = load.split_to(load.len().min(LOAD));
        let mut flow = flow.clone();
        flow.signs.more = !load.is_empty();
        let more = flow.signs.more;
        out.push(Effect::Send(link, Message::Flow(flow).frame(Some(part).filter(|part| !part.is_empty()))));
        if !more {
            return;
        }
    }
}
