//! The messages of a fence: the keys that it distributes. See the [key-value store](KeyStore).

use std::collections::BTreeMap;

use bytes::Bytes;
use libi_core::ids::LinkId;

use crate::contract::Outcome;
use crate::error::CommError;
use crate::group::context::CallContext;
use crate::group::kvs::KeyStore;
use crate::group::messages::{Arrived, Downward, Messages};

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Fence;

impl Messages for Fence {
    fn up(&self, arrived: &mut Arrived, ctx: &mut CallContext<'_>) -> Result<Bytes, CommError> {
        below(arrived, ctx)?;
        Ok(ctx.kvs.fence_up(arrived.nth))
    }

    fn down(
        &self,
        arrived: &mut Arrived,
        above: Option<Bytes>,
        ctx: &mut CallContext<'_>,
    ) -> Result<Downward, CommError> {
        let payload = match above {
            Some(above) => above,
            None => {
                below(arrived, ctx)?;
                ctx.kvs.fence_decided(arrived.nth)
            }
        };
        let applied = ctx.kvs.fence_down(arrived.nth, payload.clone(), ctx.view, ctx.out);
        applied.map_err(CommError::Protocol)?;
        let branches = ctx.view.topology.branches.iter();
        let messages: BTreeMap<LinkId, Bytes> =
            branches.map(|branch| (branch.link, KeyStore::payload_for(branch.local, &payload))).collect();
        Ok(Downward { outcome: Outcome::Done, messages })
    }
}

/// Hands the keys that all branches have put to the key-value store.
fn below(arrived: &mut Arrived, ctx: &mut CallContext<'_>) -> Result<(), CommError> {
    for branch in &ctx.view.topology.branches {
        let payload = arrived.below.remove(&branch.link).unwrap_or_default();
        ctx.kvs.fence_from_below(arrived.nth, payload.into()).map_err(CommError::Protocol)?;
    }
    Ok(())
}
