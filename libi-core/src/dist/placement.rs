//! Spreads a number of processes over hosts: block, cyclic, plane.

use alloc::vec::Vec;

use super::HostNumbers;
use crate::hosts::{HostList, HostListErrorKind, HostRef};
use core::num::NonZeroU32;

/// The order in which hosts are filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Each host is filled before the next one gets anything: neighbouring ranks share hosts.
    #[default]
    Block,
    /// Each host gets one process in turn: neighbouring ranks are on different hosts.
    Cyclic,
    /// Each host gets this many in turn.
    Plane(NonZeroU32),
}

/// What to do with more processes than the counts of the hosts add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Refuse.
    #[default]
    Refuse,
    /// Fill the hosts to their counts again, as often as it takes.
    Repeat,
}

/// Processes that cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// There is no host.
    #[error("there is no host to place {0} processes on")]
    NoHosts(u64),
    /// There are more processes than slots.
    #[error("{processes} processes do not fit on hosts whose counts add up to {slots}")]
    TooFewSlots {
        /// The number of processes.
        processes: u64,
        /// The number of slots.
        slots: u64,
    },
    /// The resulting list would exceed the bounds of a host list.
    #[error("the placement is too long: {0}")]
    TooLong(HostListErrorKind),
}

/// Places `processes` on `hosts`. No host gets more than its count unless [`Overflow::Repeat`] says
/// so.
///
/// A host that is named several times is one host with the sum of its counts, at its first
/// position. The returned list assigns ranks in its order: under cyclic placement it names hosts
/// again and again.
///
/// # Errors
/// There are no hosts, too few slots, or the list would become too long.
pub fn place(
    hosts: &HostList,
    processes: u64,
    placement: Placement,
    overflow: Overflow,
) -> Result<HostList, PlacementError> {
    let hosts = distinct(hosts);
    let slots = hosts.iter().map(|&(_, slots)| slots).sum();
    if processes > 0 && hosts.is_empty() {
        return Err(PlacementError::NoHosts(processes));
    }
    if processes > slots && overflow == Overflow::Refuse {
        return Err(PlacementError::TooFewSlots { processes, slots });
    }
    let turn = match placement {
        Placement::Block => u64::MAX,
        Placement::Cyclic => 1,
        Placement::Plane(size) => u64::from(size.get()),
    };
    let mut placed = PlacedList { list: HostList::new(), open: None };
    let mut left = processes;
    if let [(host, _)] = hosts[..] {
        placed.add(host, core::mem::take(&mut left))?; // however often it has to be filled
    }
    while left > 0 {
        fill(&hosts, turn, &mut left, &mut placed)?;
    }
    placed.close()?;
    Ok(placed.list)
}

/// Fills every host to its count once, or until all processes are placed.
fn fill<'a>(
    hosts: &[(HostRef<'a>, u64)],
    turn: u64,
    left: &mut u64,
    placed: &mut PlacedList<'a>,
) -> Result<(), PlacementError> {
    let mut free: Vec<_> = hosts.to_vec();
    while *left > 0 && !free.is_empty() {
        // A single host takes all its turns at once.
        let turn = if free.len() == 1 { u64::MAX } else { turn };
        for (host, slots) in &mut free {
            let here = turn.min(*slots).min(*left);
            placed.add(*host, here)?;
            *slots -= here;
            *left -= here;
        }
        free.retain(|&(_, slots)| slots > 0);
    }
    Ok(())
}

/// The hosts, each named once in its first place, with the sums of their counts.
pub(super) fn distinct(hosts: &HostList) -> Vec<(HostRef<'_>, u64)> {
    let mut addresses = HostNumbers::default();
    let mut distinct: Vec<(HostRef<'_>, u64)> = Vec::new();
    for host in hosts {
        match distinct.get_mut(addresses.number(host) as usize) {
            Some((_, slots)) => *slots += u64::from(host.count),
            None => distinct.push((host, u64::from(host.count))),
        }
    }
    distinct
}

/// A host list under construction, whose last entry may still grow.
struct PlacedList<'a> {
    list: HostList,
    open: Option<(HostRef<'a>, u64)>,
}

impl<'a> PlacedList<'a> {
    fn add(&mut self, host: HostRef<'a>, count: u64) -> Result<(), PlacementError> {
        match &mut self.open {
            _ if count == 0 => {}
            Some((open, sum)) if *open == host => *sum += count,
            _ => {
                self.close()?;
                self.open = Some((host, count));
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), PlacementError> {
        let Some((host, mut sum)) = self.open.take() else { return Ok(()) };
        while sum > 0 {
            let count = u32::try_from(sum).unwrap_or(u32::MAX);
            self.list.push(HostRef { count, ..host }).map_err(PlacementError::TooLong)?;
            sum -= u64::from(count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use proptest::prelude::*;

    use super::*;

    fn placed(hosts: &str, processes: u64, placement: Placement) -> Result<String, PlacementError> {
        let hosts = HostList::parse(hosts).unwrap();
        place(&hosts, processes, placement, Overflow::Refuse).map(|list| list.fold())
    }

    fn plane(size: u32) -> Placement {
        Placement::Plane(NonZeroU32::new(size).unwrap())
    }

    #[test]
    fn block_fills_hosts_cyclic_takes_turns_plane_takes_turns_of_its_size() {
        let hosts = "n[1-3]:4";
        assert_eq!(placed(hosts, 10, Placement::Block).unwrap(), "n[1-2]:4,n3:2");
        assert_eq!(placed(hosts, 5, Placement::Cyclic).unwrap(), "n[1-3,1-2]");
        assert_eq!(placed(hosts, 9, plane(2)).unwrap(), "n[1-3,1]:2,n2");
        assert_eq!(placed(hosts, 9, plane(100)).unwrap(), placed(hosts, 9, Placement::Block).unwrap());
        assert_eq!(placed(hosts, 0, Placement::Block).unwrap(), "");
    }

    #[test]
    fn a_full_host_is_passed_over() {
        assert_eq!(placed("a,b:3,c:2", 6, Placement::Cyclic).unwrap(), "a,b,c,b,c,b");
    }

    #[test]
    fn a_host_named_for_each_of_its_slots_is_one_host() {
        assert_eq!(placed("a,a,b,b", 4, Placement::Cyclic).unwrap(), "a,b,a,b");
        assert_eq!(placed("a,b,a,b", 3, Placement::Block).unwrap(), "a:2,b");
    }

    #[test]
    fn more_processes_than_slots_are_refused_with_both_numbers_unless_allowed() {
        let refused = PlacementError::TooFewSlots { processes: 7, slots: 6 };
        assert_eq!(placed("n[1-3]:2", 7, Placement::Block), Err(refused));
        assert_eq!(placed("", 1, Placement::Block), Err(PlacementError::NoHosts(1)));
        let hosts = HostList::parse("n[1-3]:2").unwrap();
        let list = place(&hosts, 15, Placement::Block, Overflow::Repeat).unwrap();
        assert_eq!(list.fold(), "n[1-3,1-3,1]:2,n2");
    }

    #[test]
    fn absurd_numbers_of_processes_are_placed_or_refused_at_once() {
        let placed = |hosts, processes, placement, overflow| {
            place(&HostList::parse(hosts).unwrap(), processes, placement, overflow).map(|list| list.len())
        };
        let (block, cyclic) = (Placement::Block, Placement::Cyclic);
        let too_long = Err(PlacementError::TooLong(HostListErrorKind::TooManyHosts));
        assert_eq!(placed("a", 1 << 40, block, Overflow::Repeat), Ok(257));
        assert_eq!(placed("a", u64::MAX, block, Overflow::Repeat), too_long);
        assert_eq!(placed("a,b:4294967295", 1_000_000_000, cyclic, Overflow::Refuse), Ok(2));
        assert_eq!(placed("[a,b]:4294967295", 1_000_000_000, cyclic, Overflow::Refuse), too_long);
    }

    proptest! {
        #[test]
        fn every_process_is_placed_and_no_host_is_overfull(
            counts in prop::collection::vec(1u32..6, 1..20), turn in 0u32..5, part in 0.0..=1.0f64
        ) {
            let mut hosts = HostList::new();
            for (i, &count) in counts.iter().enumerate() {
                let name = std::format!("h{i}");
                hosts.push(HostRef { count, ..HostRef::new(&name) }).unwrap();
            }
            let processes = (hosts.processes() as f64 * part) as u64;
            let placement = NonZeroU32::new(turn).map_or(Placement::Block, Placement::Plane);
            let list = place(&hosts, processes, placement, Overflow::Refuse).unwrap();
            prop_assert_eq!(list.processes(), processes);
            for (host, used) in distinct(&list) {
                let i: usize = host.name[1..].parse().unwrap();
                prop_assert!(used <= u64::from(counts[i]));
            }
        }
    }
}
