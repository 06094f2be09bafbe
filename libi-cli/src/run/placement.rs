//! How many processes run on which host: the options `-n` and `--per-host`.

use std::num::NonZeroU32;

use libi::HostList;
use libi::hosts::HostRef;

use crate::output::CliError;

/// These hosts with `total` processes, with `per_host` on each, or with the counts in the list.
pub(super) fn placed(
    hosts: &HostList,
    total: Option<NonZeroU32>,
    count: Option<NonZeroU32>,
) -> Result<HostList, CliError> {
    match (total, count) {
        (Some(total), _) => in_total(hosts, total),
        (None, Some(count)) => per_host(hosts, count),
        (None, None) => Ok(hosts.clone()),
    }
}

/// As many processes on every host, whatever the counts in the list.
pub(crate) fn per_host(hosts: &HostList, count: NonZeroU32) -> Result<HostList, CliError> {
    with_counts(hosts, hosts.iter().map(|_| count.get()))
}

/// `total` processes. Hosts are filled in list order up to their counts; processes beyond the sum of
/// the counts are spread evenly, one more on the first hosts.
pub(super) fn in_total(hosts: &HostList, total: NonZeroU32) -> Result<HostList, CliError> {
    let hosts = libi_core::dist::distinct(hosts);
    let mut left = total.get();
    let mut counts: Vec<u32> = Vec::with_capacity(hosts.len());
    for host in &hosts {
        let count = host.count.min(left);
        left -= count;
        counts.push(count);
    }
    let every = u32::try_from(hosts.len()).unwrap_or(u32::MAX).max(1);
    for (index, count) in (0..).zip(&mut counts) {
        *count += left / every + u32::from(index < left % every);
    }
    with_counts(&hosts, counts.into_iter())
}

/// The hosts with these counts; a host without processes is left out.
fn with_counts(hosts: &HostList, counts: impl Iterator<Item = u32>) -> Result<HostList, CliError> {
    let mut list = HostList::new();
    for (host, count) in hosts.iter().zip(counts).filter(|(_, count)| *count > 0) {
        list.push(HostRef { count, ..host }).map_err(|error| CliError::Usage(error.to_string()))?;
    }
    Ok(list)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    #[test]
    fn a_total_fills_counts_in_order_and_spreads_the_rest() {
        for (hosts, total, expected) in [
            ("localhost", 4, "localhost:4"),
            ("n[1-4]", 2, "n[1-2]"),
            ("n[1-2]:8", 10, "n1:8,n2:2"),
            ("n[1-2]:8", 16, "n[1-2]:8"),
            ("n[1-2]", 5, "n1:3,n2:2"),
            ("n1:2,n2,n1", 6, "n1:4,n2:2"),
        ] {
            let placed = in_total(&HostList::parse(hosts).unwrap(), count(total)).unwrap();
            assert_eq!(placed.fold(), expected, "{total} on {hosts}");
            assert_eq!(placed.processes(), u64::from(total));
        }
    }

    #[test]
    fn a_count_per_host_replaces_the_counts_of_the_list() {
        let placed = per_host(&HostList::parse("n1:8,n2").unwrap(), count(3)).unwrap();
        assert_eq!(placed.fold(), "n[1-2]:3");
    }
}
