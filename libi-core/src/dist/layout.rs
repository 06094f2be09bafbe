//! Assigns ranks to hosts.
//!
//! Entry (host, n) of a distribution takes the next n ranks of its session. The ranks on one host
//! are kept together as [`Block`]s in ascending order; the first rank of the first block is the
//! host's leader. Hosts are numbered in the order of their leaders, so that host 0 has rank 0, the
//! master.

mod serial;

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Distribution, HostNumbers};
use crate::hosts::{HostList, HostListErrorKind, HostRef};
use crate::ids::{HostIndex, Rank, SessionId};

/// Consecutive ranks on one host that belong to the same distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The first of the ranks.
    pub first: Rank,
    /// The number of ranks, at least one.
    pub count: u32,
    /// The index of their distribution among those given to [`lay_out`].
    pub distribution: u32,
}

impl Block {
    /// The ranks, ascending.
    pub fn ranks(self) -> impl Iterator<Item = Rank> {
        (0..self.count).map(move |i| Rank(self.first.0.saturating_add(i)))
    }

    /// Whether it has this rank.
    #[must_use]
    pub fn contains(self, rank: Rank) -> bool {
        rank.0.checked_sub(self.first.0).is_some_and(|nth| nth < self.count)
    }

    /// The blocks of those of its ranks that are meant.
    pub fn parts(self, is_meant: impl Fn(Rank) -> bool) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        for rank in self.ranks().filter(|rank| is_meant(*rank)) {
            match parts.last_mut() {
                Some(last) if last.first.0 + last.count == rank.0 => last.count += 1,
                _ => parts.push(Self { first: rank, count: 1, ..self }),
            }
        }
        parts
    }
}

/// One session: its hosts, and the ranks on each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "serial::Parts", into = "serial::Parts")]
pub struct Layout {
    session: SessionId,
    hosts: HostList,
    /// The blocks of host h are those from `starts[h]` to `starts[h + 1]`.
    blocks: Vec<Block>,
    starts: Vec<u32>,
    /// The host of each block, in the order of ranks.
    by_rank: Vec<(Rank, HostIndex)>,
    size: u32,
}

/// Distributions that cannot be laid out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// There is no distribution.
    #[error("a launch needs at least one distribution")]
    NoDistributions,
    /// A session needs at least one process.
    #[error("{0} has no host in any of its distributions")]
    NoHosts(SessionId),
    /// Ranks are counted in 32 bits.
    #[error("{0} has more processes than 32 bits can count")]
    TooManyRanks(SessionId),
    /// The hosts of the session exceed the bounds of a host list.
    #[error("{0}: {1}")]
    TooManyHosts(SessionId, HostListErrorKind),
}

/// Lays out the sessions of these distributions, in the order in which they are first named.
///
/// # Errors
/// There is no distribution, a session has no host, or there are more ranks or hosts than can be
/// counted.
pub fn lay_out(distributions: &[Distribution]) -> Result<Vec<Layout>, LayoutError> {
    let mut sessions: Vec<(SessionId, Vec<u32>)> = Vec::new();
    let mut known = BTreeMap::new();
    for (index, distribution) in (0..).zip(distributions) {
        let place = *known.entry(distribution.session).or_insert(sessions.len());
        match sessions.get_mut(place) {
            Some((_, of_session)) => of_session.push(index),
            None => sessions.push((distribution.session, vec![index])),
        }
    }
    if sessions.is_empty() {
        return Err(LayoutError::NoDistributions);
    }
    sessions.iter().map(|(session, of_session)| Layout::new(*session, of_session, distributions)).collect()
}

impl Layout {
    fn new(
        session: SessionId,
        of_session: &[u32],
        distributions: &[Distribution],
    ) -> Result<Self, LayoutError> {
        let mut addresses = HostNumbers::default();
        let mut firsts: Vec<HostRef<'_>> = Vec::new();
        let mut ranked: Vec<(HostIndex, Block)> = Vec::new();
        let mut size = 0u32;
        for &distribution in of_session {
            for host in &distributions[distribution as usize].hosts {
                let at = addresses.number(host);
                match firsts.get_mut(at as usize) {
                    Some(first) => first.count = first.count.saturating_add(host.count),
                    None => firsts.push(host),
                }
                match ranked.last_mut() {
                    Some((last, block)) if last.0 == at && block.distribution == distribution => {
                        block.count = block.count.saturating_add(host.count);
                    }
                    _ => {
                        let block = Block { first: Rank(size), count: host.count, distribution };
                        ranked.push((HostIndex(at), block));
                    }
                }
                size = size.checked_add(host.count).ok_or(LayoutError::TooManyRanks(session))?;
            }
        }
        if size == 0 {
            return Err(LayoutError::NoHosts(session));
        }
        let mut hosts = HostList::new();
        for host in firsts {
            hosts.push(host).map_err(|kind| LayoutError::TooManyHosts(session, kind))?;
        }
        let by_rank = ranked.iter().map(|&(host, block)| (block.first, host)).collect();
        ranked.sort_by_key(|&(host, _)| host); // stable: keeps the order of ranks on a host
        let mut starts = vec![0u32; hosts.len() + 1];
        for &(host, _) in &ranked {
            starts[host.0 as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let blocks = ranked.into_iter().map(|(_, block)| block).collect();
        Ok(Self { session, hosts, blocks, starts, by_rank, size })
    }

    /// Adds the hosts of another layout, behind these, with the ranks that follow. A host that is in both
    /// is two, with a leader of its own each.
    ///
    /// # Errors
    /// There would be too many hosts or ranks; nothing is added.
    pub fn grow(&mut self, other: &Self) -> Result<(), LayoutError> {
        let session = self.session;
        let size = self.size.checked_add(other.size).ok_or(LayoutError::TooManyRanks(session))?;
        let mut hosts = self.hosts.clone();
        for host in &other.hosts {
            hosts.push(host).map_err(|kind| LayoutError::TooManyHosts(session, kind))?;
        }
        let distributions = self.blocks.iter().map(|block| block.distribution + 1).max().unwrap_or(0);
        let (first_host, first_block) = (self.hosts.len() as u32, self.blocks.len() as u32);
        let block = |block: &Block| Block {
            first: Rank(block.first.0 + self.size),
            count: block.count,
            distribution: block.distribution + distributions,
        };
        self.blocks.extend(other.blocks.iter().map(block).collect::<Vec<_>>());
        self.starts.pop();
        self.starts.extend(other.starts.iter().map(|start| start + first_block));
        let host =
            |(first, host): &(Rank, HostIndex)| (Rank(first.0 + self.size), HostIndex(host.0 + first_host));
        self.by_rank.extend(other.by_rank.iter().map(host).collect::<Vec<_>>());
        (self.hosts, self.size) = (hosts, size);
        Ok(())
    }

    /// Adds a host behind these, to which members move that other hosts have; there may be none. Blocks of ranks
    /// that the session does not have are left out.
    ///
    /// # Errors
    /// There would be too many hosts; nothing is changed.
    pub fn move_to(&mut self, host: HostRef<'_>, blocks: &[Block]) -> Result<(), LayoutError> {
        let end = |block: &Block| block.first.0.checked_add(block.count);
        let is_here = |block: &&Block| end(block).is_some_and(|end| end <= self.size) && block.count > 0;
        let moved: Vec<Block> = blocks.iter().filter(is_here).copied().collect();
        let count: u32 = moved.iter().map(|block| block.count).sum();
        let mut hosts = self.hosts.clone();
        let host = HostRef { count: count.max(1), ..host };
        hosts.push(host).map_err(|kind| LayoutError::TooManyHosts(self.session, kind))?;
        let has_moved = |rank: Rank| moved.iter().any(|block| block.contains(rank));
        let (mut all, mut starts) = (Vec::new(), Vec::new());
        for host in 0..self.hosts.len() as u32 {
            starts.push(all.len() as u32);
            for block in self.blocks(HostIndex(host)) {
                all.extend(block.parts(|rank| !has_moved(rank)));
            }
        }
        starts.push(all.len() as u32);
        all.extend(&moved);
        starts.push(all.len() as u32);
        for block in &moved {
            let next = Rank(block.first.0 + block.count);
            let after = self.host_of(next).map(|host| (next, host));
            // A rank of the host that had all of them, or the first of another one, comes behind.
            self.by_rank.retain(|(first, _)| !block.contains(*first) && *first != next);
            let at = self.by_rank.partition_point(|(first, _)| *first < block.first);
            let new = (block.first, HostIndex(self.hosts.len() as u32));
            self.by_rank.splice(at..at, [new].into_iter().chain(after));
        }
        (self.hosts, self.blocks, self.starts) = (hosts, all, starts);
        Ok(())
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// The number of members.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// Its hosts, each once, in the order of their [`HostIndex`]; counts are the numbers of members
    /// there.
    #[must_use]
    pub fn hosts(&self) -> &HostList {
        &self.hosts
    }

    /// The blocks of a host, in the order of ranks; empty if there is no such host.
    #[must_use]
    pub fn blocks(&self, host: HostIndex) -> &[Block] {
        let at = |i: usize| self.starts.get(i).map_or(self.blocks.len(), |&start| start as usize);
        let host = host.0 as usize;
        &self.blocks[at(host)..at(host.saturating_add(1))]
    }

    /// The leader of a host: its lowest rank.
    #[must_use]
    pub fn leader(&self, host: HostIndex) -> Option<Rank> {
        self.blocks(host).first().map(|block| block.first)
    }

    /// The host of a rank.
    #[must_use]
    pub fn host_of(&self, rank: Rank) -> Option<HostIndex> {
        let after = self.by_rank.partition_point(|&(first, _)| first <= rank);
        let (_, host) = *self.by_rank.get(after.checked_sub(1)?)?;
        (rank.0 < self.size).then_some(host)
    }
}

#[cfg(test)]
mod tests;
