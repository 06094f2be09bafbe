//! The large item of a call that goes to all members, in memory that the members of a host share.
//! See [`memory`](crate::memory).

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use super::CallState;
use crate::error::CommError;
use crate::group::GroupView;
use crate::group::link_map::LinkMap;
use crate::group::operation::{Operation, Receivers, Senders};
use crate::group::received::RegionAssembly;
use crate::memory::{REGION_MIN, SharedMemory};
use crate::piece::Piece;

impl CallState {
    /// Allocates shared memory at the first piece of the one item of a call that goes to all
    /// members, if it is large and members of this host will get it from this process.
    pub(crate) fn begin_region(
        &mut self,
        first: &Piece,
        memory: &mut Option<Box<dyn SharedMemory>>,
        view: &GroupView,
    ) {
        let begun = first.offset != 0 || self.region.is_some() || self.sealed.is_some();
        let Operation { senders, receivers, .. } = self.operation;
        let is_one = (senders, receivers) == (Senders::Root, Receivers::All);
        let Piece { item, .. } = *first;
        if !is_one || item.total < REGION_MIN || begun {
            return;
        }
        let locals = view.topology.branches.iter().filter(|branch| branch.local);
        let links = locals.map(|branch| branch.link).filter(|link| self.flow.out.contains(*link));
        let to: LinkMap<()> = links.map(|link| (link, ())).collect();
        let Ok(length) = usize::try_from(item.total) else { return };
        if to.is_empty() {
            return;
        }
        if let Some(region) = memory.as_mut().and_then(|memory| memory.region(length)) {
            self.flow.out.retain(|link, _| !to.contains(link));
            self.region = Some(RegionAssembly::new(region, item));
            self.region_receivers = to;
        }
    }

    /// Adds a piece to the shared region.
    pub(crate) fn fill_region(&mut self, piece: &Piece, view: &GroupView) -> Result<(), CommError> {
        let Some(region) = &mut self.region else { return Ok(()) };
        if region.push(piece)?
            && let Some(region) = self.region.take()
        {
            let sealed = region.seal()?;
            if self.is_for_me(piece, view) {
                self.received.take(piece.item.from, 1, sealed.bytes.clone())?;
            }
            self.sealed = Some(sealed);
        }
        Ok(())
    }

    /// Shared memory with all data of the call has arrived.
    pub(crate) fn take_region(&mut self, link: LinkId, from: Rank, bytes: Bytes) -> Result<(), CommError> {
        self.flow.item_ended(link, 1);
        self.flow.received_region(bytes.len() as u64);
        self.received.take(from.0, 1, bytes)
    }
}
