//! The addresses of this machine that other hosts are told to reach it at.

use std::net::{IpAddr, Ipv4Addr};

/// How many addresses are told and dialled at most.
pub(super) const MOST_ADDRESSES: usize = 16;

/// The addresses of this machine that others may reach it at: those at which members are told to connect directly, the
/// likely ones first. Loopback and those that mean something on one link alone are left out, unless there is no other.
#[must_use]
pub fn own_addresses() -> Vec<IpAddr> {
    use nix::net::if_::InterfaceFlags;
    let Ok(interfaces) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let usable = interfaces.filter(|interface| {
        interface.flags.contains(InterfaceFlags::IFF_UP)
            && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    });
    let addresses = usable.filter_map(|interface| {
        let address = interface.address?;
        let four = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
        let six = || {
            // An address of one link means nothing on another host.
            let ip = address.as_sockaddr_in6()?.ip();
            (ip.segments()[0] & 0xffc0 != 0xfe80).then_some(IpAddr::V6(ip))
        };
        Some((interface.interface_name, four.or_else(six)?))
    });
    let mut addresses = likely_first(addresses.collect());
    addresses.truncate(MOST_ADDRESSES);
    if addresses.is_empty() {
        // A machine without a network: whoever is on it can still be reached.
        addresses.push(Ipv4Addr::LOCALHOST.into());
    }
    addresses
}

/// Addresses with the names of their interfaces, in the order in which it is likely that others reach them: those of networks
/// that are only on this machine, for containers and virtual ones, come last, whatever their number.
fn likely_first(mut addresses: Vec<(String, IpAddr)>) -> Vec<IpAddr> {
    const INSIDE: [&str; 10] =
        ["docker", "br-", "veth", "virbr", "vnet", "lxc", "lxd", "cni", "flannel", "podman"];
    // The order is otherwise that of the system, which has the machine's own interfaces first.
    addresses.sort_by_key(|(name, _)| INSIDE.iter().any(|inside| name.starts_with(inside)));
    addresses.into_iter().map(|(_, address)| address).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_inside_of_this_machine_are_offered_last() {
        let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let names = ["docker0", "eth0", "veth12", "ib0", "br-4711", "wlan0"];
        let all = names.into_iter().zip(1..).map(|(name, last)| (name.to_owned(), address(last)));
        let order = likely_first(all.collect());
        assert_eq!(order, [2, 4, 6, 1, 3, 5].map(address));
    }
}
