//! Which host names are this machine, and need no remote shell.
//!
//! | name | is this machine |
//! |---|---|
//! | `localhost`, with or without a domain; 127.x.y.z, ::1 | always |
//! | the host name | always |
//! | the host name with another domain or without one | if it resolves only to own addresses |
//! | an address | if it is an address of this machine |
//!
//! Other aliases are not resolved: a launch of thousands of hosts would wait for as many answers.
//! Each name is resolved once.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::net::{IpAddr, ToSocketAddrs};

use libc::c_char;

/// The host name.
pub(super) fn machine() -> String {
    let mut name: [c_char; 256] = [0; 256];
    // SAFETY: the buffer is longer by its last byte, which stays 0.
    let asked = unsafe { libc::gethostname(name.as_mut_ptr(), name.len() - 1) };
    // SAFETY: its last byte is 0.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy();
    if asked == 0 && !name.is_empty() { name.into_owned() } else { "localhost".to_owned() }
}

/// The name and the addresses of this machine.
pub(super) struct ThisMachine {
    pub(super) name: String,
    addresses: Vec<IpAddr>,
    /// The results of names that were resolved.
    answers: RefCell<BTreeMap<String, bool>>,
}

impl ThisMachine {
    pub(super) fn new() -> Self {
        Self::called(machine(), libi::own_addresses())
    }

    fn called(name: String, addresses: Vec<IpAddr>) -> Self {
        Self { name, addresses, answers: RefCell::default() }
    }

    /// Whether this name, or address without brackets, is this machine.
    pub(super) fn is(&self, name: &str) -> bool {
        is_loopback(name) || self.name.eq_ignore_ascii_case(name) || self.has(name) || {
            let same = short(name).eq_ignore_ascii_case(short(&self.name)) && name.parse::<IpAddr>().is_err();
            same && self.leads_here(name)
        }
    }

    fn leads_here(&self, name: &str) -> bool {
        if let Some(answer) = self.answers.borrow().get(name) {
            return *answer;
        }
        let is_ours = |found: IpAddr| found.is_loopback() || self.addresses.contains(&found);
        let answer =
            (name, 0).to_socket_addrs().is_ok_and(|mut found| found.all(|found| is_ours(found.ip())));
        self.answers.borrow_mut().insert(name.to_owned(), answer);
        answer
    }

    fn has(&self, name: &str) -> bool {
        let name = name.split('%').next().unwrap_or(name);
        name.parse().is_ok_and(|address| self.addresses.contains(&address))
    }
}

/// Whether it is the local machine on every machine.
pub(super) fn is_loopback(name: &str) -> bool {
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

    #[test]
    fn only_names_and_addresses_of_this_machine_are_recognised() {
        let here = ThisMachine::called("Node7".to_owned(), vec!["192.0.2.7".parse().unwrap()]);
        for own in ["localhost", "localhost.localdomain", "127.3.2.1", "::1", "node7", "192.0.2.7"] {
            assert!(here.is(own), "{own}");
        }
        for other in ["node8", "192.0.2.8", "node7.invalid", "local", "1.2.3", "", "2001:db8::7"] {
            assert!(!here.is(other), "{other}");
        }
        assert!(ThisMachine::new().is(&machine()));
    }
}
