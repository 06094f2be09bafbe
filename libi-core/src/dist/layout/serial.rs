//! Serialisation of layouts: as hosts and blocks, which are checked again on arrival.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Block, Layout};
use crate::hosts::HostList;
use crate::ids::{HostIndex, Rank, SessionId};

#[derive(Serialize, Deserialize)]
pub(super) struct Parts {
    session: SessionId,
    hosts: HostList,
    /// The blocks of each host.
    blocks: Vec<Vec<Block>>,
}

/// The blocks are not those of a layout.
#[derive(Debug, thiserror::Error)]
#[error("the ranks of a layout are not in order")]
pub(super) struct Disordered;

impl From<Layout> for Parts {
    fn from(layout: Layout) -> Self {
        let blocks = (0..layout.hosts.len() as u32).map(|host| layout.blocks(HostIndex(host)).to_vec());
        Self { session: layout.session, blocks: blocks.collect(), hosts: layout.hosts }
    }
}

impl TryFrom<Parts> for Layout {
    type Error = Disordered;

    fn try_from(Parts { session, hosts, blocks }: Parts) -> Result<Self, Disordered> {
        let is_sorted = |blocks: &Vec<Block>| blocks.is_sorted_by_key(|block| block.first);
        if blocks.len() != hosts.len() || !blocks.iter().all(is_sorted) {
            return Err(Disordered);
        }
        let hosts_of_blocks = (0..).map(HostIndex).zip(&blocks);
        let mut ranked: Vec<(Block, HostIndex)> = hosts_of_blocks
            .flat_map(|(host, blocks)| blocks.iter().map(move |block| (*block, host)))
            .collect();
        ranked.sort_by_key(|(block, _)| block.first);
        let mut size = 0_u32;
        for (block, _) in &ranked {
            if block.first != Rank(size) || block.count == 0 {
                return Err(Disordered);
            }
            size = size.checked_add(block.count).ok_or(Disordered)?;
        }
        let by_rank = ranked.iter().map(|(block, host)| (block.first, *host)).collect();
        let starts = core::iter::once(0).chain(blocks.iter().scan(0, |all, of_host| {
            *all += of_host.len() as u32;
            Some(*all)
        }));
        let starts = starts.collect();
        Ok(Self { session, hosts, blocks: blocks.into_iter().flatten().collect(), starts, by_rank, size })
    }
}
