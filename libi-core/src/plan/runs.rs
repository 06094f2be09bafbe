//! Sequences of hosts, stored as runs of consecutive numbers.
//!
//! A queue of hosts is at first one run, and stays one while hosts are taken from its ends. The
//! memory of what a child was given, and a message that carries a share, are then small, however
//! many hosts they contain.

use alloc::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::ids::HostIndex;

/// A sequence of hosts. The same host may occur more than once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "VecDeque<(u32, u32)>", into = "VecDeque<(u32, u32)>")]
pub struct HostRuns {
    /// First number and length of each run; no run is empty or passes the last number.
    runs: VecDeque<(u32, u32)>,
    len: usize,
}

impl HostRuns {
    /// No hosts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The number of hosts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the sequence is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the sequence contains this host.
    #[must_use]
    pub fn contains(&self, host: HostIndex) -> bool {
        self.runs.iter().any(|&(first, count)| host.0.wrapping_sub(first) < count)
    }

    /// Adds a host at the end.
    pub fn push_back(&mut self, host: HostIndex) {
        self.push_run((host.0, 1));
    }

    /// Adds all hosts of another sequence at the end, in the time that its runs take.
    pub fn append(&mut self, others: &Self) {
        others.runs.iter().for_each(|run| self.push_run(*run));
    }

    fn push_run(&mut self, (host, more): (u32, u32)) {
        match self.runs.back_mut() {
            Some((first, count)) if first.checked_add(*count) == Some(host) => *count += more,
            _ => self.runs.push_back((host, more)),
        }
        self.len += more as usize;
    }

    /// Adds a host at the front.
    pub fn push_front(&mut self, host: HostIndex) {
        match self.runs.front_mut() {
            Some((first, count)) if host.0.checked_add(1) == Some(*first) => {
                (*first, *count) = (host.0, *count + 1);
            }
            _ => self.runs.push_front((host.0, 1)),
        }
        self.len += 1;
    }

    /// Removes and returns the first host.
    pub fn pop_front(&mut self) -> Option<HostIndex> {
        let (first, count) = self.runs.front_mut()?;
        let host = HostIndex(*first);
        if *count == 1 {
            self.runs.pop_front();
        } else {
            (*first, *count) = (*first + 1, *count - 1);
        }
        self.len -= 1;
        Some(host)
    }

    /// Removes the last `count` hosts and returns them in their order; all if there are fewer.
    #[must_use]
    pub fn split_back(&mut self, count: usize) -> Self {
        let mut taken = Self::new();
        while taken.len < count
            && let Some((first, run)) = self.runs.pop_back()
        {
            let missing = u32::try_from(count - taken.len).unwrap_or(u32::MAX);
            let here = run.min(missing);
            if here < run {
                self.runs.push_back((first, run - here));
            }
            taken.runs.push_front((first + (run - here), here));
            taken.len += here as usize;
        }
        self.len -= taken.len;
        taken
    }

    /// Removes the first occurrence of this host; returns whether there was one.
    pub fn remove(&mut self, host: HostIndex) -> bool {
        let Some(at) = self.runs.iter().position(|&(first, count)| host.0.wrapping_sub(first) < count) else {
            return false;
        };
        let Some((first, count)) = self.runs.remove(at) else { return false };
        let before = host.0 - first;
        let behind = count - before - 1;
        if behind > 0 {
            self.runs.insert(at, (host.0 + 1, behind));
        }
        if before > 0 {
            self.runs.insert(at, (first, before));
        }
        self.len -= 1;
        true
    }

    /// The hosts in order.
    pub fn iter(&self) -> impl Iterator<Item = HostIndex> + '_ {
        self.runs.iter().flat_map(|&(first, count)| (first..=first + (count - 1)).map(HostIndex))
    }
}

impl FromIterator<HostIndex> for HostRuns {
    fn from_iter<I: IntoIterator<Item = HostIndex>>(hosts: I) -> Self {
        let mut runs = Self::new();
        hosts.into_iter().for_each(|host| runs.push_back(host));
        runs
    }
}

/// A run that is empty or passes the largest host number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no sequence of hosts has a run of {count} hosts from number {first}")]
pub struct HostRunsError {
    /// Its first number.
    pub first: u32,
    /// Its length.
    pub count: u32,
}

impl TryFrom<VecDeque<(u32, u32)>> for HostRuns {
    type Error = HostRunsError;

    fn try_from(runs: VecDeque<(u32, u32)>) -> Result<Self, HostRunsError> {
        let mut len = 0usize;
        for &(first, count) in &runs {
            let wrong = HostRunsError { first, count };
            first.checked_add(count.checked_sub(1).ok_or(wrong)?).ok_or(wrong)?;
            len = len.checked_add(count as usize).ok_or(wrong)?;
        }
        Ok(Self { runs, len })
    }
}

impl From<HostRuns> for VecDeque<(u32, u32)> {
    fn from(hosts: HostRuns) -> Self {
        hosts.runs
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn runs(text: &[(u32, u32)]) -> Result<HostRuns, HostRunsError> {
        text.iter().copied().collect::<VecDeque<_>>().try_into()
    }

    #[test]
    fn a_forged_run_is_refused() {
        assert!(runs(&[(5, 0)]).is_err());
        assert!(runs(&[(u32::MAX, 2)]).is_err());
        assert_eq!(runs(&[(u32::MAX, 1), (0, 2)]).unwrap().len(), 3);
        let sent = postcard::to_allocvec(&[(5u32, 0u32)][..]).unwrap();
        assert!(postcard::from_bytes::<HostRuns>(&sent).is_err());
    }

    #[test]
    fn a_million_hosts_in_a_row_travel_in_a_few_bytes() {
        let hosts: HostRuns = (1..1_000_000).map(HostIndex).collect();
        let sent = postcard::to_allocvec(&hosts).unwrap();
        assert!(sent.len() < 10);
        assert_eq!(postcard::from_bytes::<HostRuns>(&sent).unwrap(), hosts);
    }

    proptest! {
        #[test]
        fn it_is_a_queue_like_any_other(
            ops in prop::collection::vec((0u8..5, prop_oneof![0u32..9, Just(u32::MAX)]), 1..60)
        ) {
            let (mut ours, mut plain) = (HostRuns::new(), Vec::new());
            for (op, number) in ops {
                let host = HostIndex(number);
                match op {
                    0 => { ours.push_back(host); plain.push(host); }
                    1 => { ours.push_front(host); plain.insert(0, host); }
                    2 => {
                        let first = if plain.is_empty() { None } else { Some(plain.remove(0)) };
                        prop_assert_eq!(ours.pop_front(), first);
                    }
                    3 => {
                        let at = plain.iter().position(|other| *other == host);
                        prop_assert_eq!(ours.remove(host), at.map(|at| plain.remove(at)).is_some());
                    }
                    _ => {
                        let count = (number as usize).min(20);
                        let back = plain.split_off(plain.len().saturating_sub(count));
                        prop_assert_eq!(ours.split_back(count).iter().collect::<Vec<_>>(), back);
                    }
                }
                prop_assert_eq!(ours.iter().collect::<Vec<_>>(), plain.clone());
                prop_assert_eq!(ours.len(), plain.len());
                prop_assert_eq!(ours.contains(host), plain.contains(&host));
                let (mut ours, one) = (ours.clone(), [host].into_iter().collect());
                ours.append(&one);
                ours.append(&ours.clone());
                prop_assert_eq!(ours.len(), 2 * (plain.len() + 1));
                let twice = [&plain[..], &[host], &plain[..], &[host]].concat();
                prop_assert_eq!(ours.iter().collect::<Vec<_>>(), twice);
            }
        }
    }
}
