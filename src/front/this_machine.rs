//! Decides which hosts are this machine, and how a launch names them.
//!
//! | name | is this machine |
//! |---|---|
//! | `localhost`, with or without a domain, 127.x.y.z, ::1 | always |
//! | the machine's host name | always |
//! | the host name with another domain, or without one | if all its addresses are this machine's |
//! | an address | if it is an address of this machine |
//!
//! Aliases are not resolved: with thousands of hosts that would take thousands of look-ups.

use std::cell::OnceCell;
use std::net::{IpAddr, ToSocketAddrs};

use libi_core::dist::Distribution;
use libi_core::hosts::{HostList, HostRef};
use libi_launch::backend::{Backend, BackendError, LaunchMethod};
use libi_launch::machine::LinkPolicy;
use libi_launch::options::LaunchOptions;

use super::choice::{BackendReason, auto_backend};
use crate::engine::addresses::own_addresses;

/// The back-end of a launch with its reason, and the options with all defaults that depend on the
/// hosts.
///
/// A loopback name in a launch with other hosts is replaced by the host name: another host that
/// launches it would otherwise start it on itself.
pub(super) fn resolve(
    distributions: &mut [Distribution],
    options: &LaunchOptions,
) -> Result<(Backend, BackendReason, LaunchOptions), BackendError> {
    let mut options = options.clone();
    let (backend, reason) = match options.backend.take() {
        Some(backend) => (backend, BackendReason::Options),
        None => {
            let (backend, reason) = auto_backend(&all_hosts(distributions, &options.spares))?;
            if reason == BackendReason::Default {
                let local_hosts = std::mem::take(&mut options.local_hosts);
                options.local_hosts = ThisMachine::new().name_hosts(distributions, local_hosts);
            }
            (backend, reason)
        }
    };
    // Between processes of one machine a direct link gains nothing.
    if backend.is_local() && options.links == LinkPolicy::Auto {
        options.links = LinkPolicy::Channel;
    }
    Ok((backend, reason, options))
}

/// Replaces loopback names of hosts that a remote shell reaches by the host name.
pub(super) fn name_loopback(distributions: &mut [Distribution]) {
    let _ = ThisMachine::new().name_hosts(distributions, HostList::new());
}

/// All hosts of a launch, and its spares.
pub(super) fn all_hosts(distributions: &[Distribution], spares: &HostList) -> HostList {
    let lists = distributions.iter().map(|distribution| &distribution.hosts).chain([spares]);
    let mut all = HostList::new();
    for host in lists.flat_map(HostList::iter) {
        // Beyond the bounds of a list, the hosts so far decide.
        let _ = all.push(host);
    }
    all
}

/// Whether all of these hosts are this machine, so that a launch without a
/// [`backend`](field@LaunchOptions::backend) uses no remote shell.
#[must_use]
pub fn are_this_machine(hosts: &HostList) -> bool {
    let this_machine = ThisMachine::new();
    hosts.iter().all(|host| this_machine.is(host))
}

/// This machine's name and addresses.
struct ThisMachine {
    name: String,
    /// Looked up when a name could be one of them.
    addresses: OnceCell<Vec<IpAddr>>,
}

impl ThisMachine {
    fn new() -> Self {
        let name = nix::unistd::gethostname().ok().map(|name| name.to_string_lossy().into_owned());
        let name = name.filter(|name| !name.is_empty()).unwrap_or_else(|| "localhost".to_owned());
        Self { name, addresses: OnceCell::new() }
    }

    fn has(&self, address: IpAddr) -> bool {
        self.addresses.get_or_init(own_addresses).contains(&address)
    }

    /// Names this machine in a launch by a remote shell; returns the hosts that are started
    /// directly.
    fn name_hosts(&self, distributions: &mut [Distribution], mut local_hosts: HostList) -> HostList {
        for distribution in distributions {
            let mut hosts = HostList::new();
            for host in &distribution.hosts {
                let mut named = host;
                if self.is(host) {
                    named.name = if is_loopback(host.name) { &self.name } else { host.name };
                    if !local_hosts.iter().any(|known| known.name == named.name) {
                        // A name that no list can hold is not in the distribution either.
                        let _ = local_hosts.push(HostRef::new(named.name));
                    }
                }
                if hosts.push(named).is_err() {
                    // The host name is not one that a list can hold.
                    let _ = hosts.push(host);
                }
            }
            distribution.hosts = hosts;
        }
        local_hosts
    }

    /// Whether an entry is this machine. One with a user or a port always means a remote shell.
    fn is(&self, host: HostRef<'_>) -> bool {
        host.user.is_none() && host.port.is_none() && self.is_named(host.name)
    }

    fn is_named(&self, name: &str) -> bool {
        if is_loopback(name) || self.name.eq_ignore_ascii_case(name) {
            return true;
        }
        match name.split('%').next().unwrap_or(name).parse() {
            Ok(address) => self.has(address),
            Err(_) => short(name).eq_ignore_ascii_case(short(&self.name)) && self.resolves_here(name),
        }
    }

    fn resolves_here(&self, name: &str) -> bool {
        let is_own = |found: IpAddr| found.is_loopback() || self.has(found);
        (name, 0).to_socket_addrs().is_ok_and(|mut found| found.all(|found| is_own(found.ip())))
    }
}

/// Whether a name means the machine that looks it up.
fn is_loopback(name: &str) -> bool {
    let is_local = matches!(short(name), "localhost" | "ip6-localhost" | "localhost4" | "localhost6");
    is_local || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// The name without its domain.
fn short(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use libi_core::dist::OsBytes;
    use libi_core::ids::SessionId;

    fn node7() -> ThisMachine {
        ThisMachine { name: "Node7".to_owned(), addresses: vec!["192.0.2.7".parse().unwrap()].into() }
    }

    fn named(hosts: &str) -> (String, String) {
        let list = HostList::parse(hosts).unwrap();
        let mut one = [Distribution::new(SessionId(0), OsBytes::default(), list)];
        let local_hosts = node7().name_hosts(&mut one, HostList::new());
        (one[0].hosts.fold(), local_hosts.fold())
    }

    #[test]
    fn a_machine_knows_its_names_and_addresses_and_takes_no_others_for_its_own() {
        for own in ["localhost", "localhost.localdomain", "127.3.2.1", "::1", "node7", "192.0.2.7"] {
            assert!(node7().is_named(own), "{own}");
        }
        for other in ["node8", "192.0.2.8", "node7.invalid", "local", "1.2.3", "", "2001:db8::7"] {
            assert!(!node7().is_named(other), "{other}");
        }
        let this_machine = ThisMachine::new();
        assert!(this_machine.is_named(&this_machine.name));
    }

    #[test]
    fn this_machine_is_started_directly_under_the_name_that_others_know() {
        let pair = |hosts: &str, local: &str| (hosts.to_owned(), local.to_owned());
        assert_eq!(named("localhost:4,node8"), pair("Node7:4,node8", "Node7"));
        assert_eq!(named("me@localhost,node8"), pair("me@localhost,node8", ""), "a user needs a login");
        assert_eq!(named("supercomputer[1-3]"), pair("supercomputer[1-3]", ""));
    }
}
