//! The addresses at which other hosts reach this machine.

use std::net::{IpAddr, Ipv4Addr};

/// The most addresses that are announced and tried.
pub(super) const MAX_ADDRESSES: usize = 16;

/// The addresses at which members on other hosts connect to this machine, the likely ones first.
/// Loopback and link-local addresses are left out, unless there is no other.
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
            // A link-local address means nothing on another host.
            let ip = address.as_sockaddr_in6()?.ip();
            (ip.segments()[0] & 0xffc0 != 0xfe80).then_some(IpAddr::V6(ip))
        };
        Some((interface.interface_name, four.or_else(six)?))
    });
    let mut addresses = likely_first(addresses.collect());
    addresses.truncate(MAX_ADDRESSES);
    if addresses.is_empty() {
        // Without a network, programs on this machine can still connect.
        addresses.push(Ipv4Addr::LOCALHOST.into());
    }
    addresses
}

/// Sorts addresses with the names of their interfaces by how likely other hosts reach them.
/// Networks inside this machine, for containers and virtual machines, come last.
fn likely_first(mut addresses: Vec<(String, IpAddr)>) -> Vec<IpAddr> {
    const INSIDE: [&str; 10] =
        ["docker", "br-", "veth", "virbr", "vnet", "lxc", "lxd", "cni", "flannel", "podman"];
    // The sort is stable: otherwise the order of the system remains, with physical interfaces
    // first.
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
