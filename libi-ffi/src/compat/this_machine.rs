//! Which host names are this machine, and need no remote shell: those that [`libi::are_this_machine`]
//! recognises. Each name is examined once, because a launch of thousands of hosts may name some of
//! them often.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::net::IpAddr;

use libc::c_char;
use libi::{HostList, HostRef};

/// The host name.
pub(crate) fn machine() -> String {
    let mut name: [c_char; 256] = [0; 256];
    // SAFETY: the buffer is longer by its last byte, which stays 0.
    let asked = unsafe { libc::gethostname(name.as_mut_ptr(), name.len() - 1) };
    // SAFETY: its last byte is 0.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy();
    if asked == 0 && !name.is_empty() { name.into_owned() } else { "localhost".to_owned() }
}

/// The name of this machine, and what is known of others.
pub(crate) struct ThisMachine {
    pub(crate) name: String,
    known: RefCell<BTreeMap<String, bool>>,
}

impl ThisMachine {
    pub(crate) fn new() -> Self {
        Self { name: machine(), known: RefCell::default() }
    }

    /// Whether this name, or address without brackets, is this machine.
    pub(crate) fn is(&self, name: &str) -> bool {
        if let Some(known) = self.known.borrow().get(name) {
            return *known;
        }
        let mut host = HostList::new();
        let is = host.push(HostRef::new(name)).is_ok() && libi::are_this_machine(&host);
        self.known.borrow_mut().insert(name.to_owned(), is);
        is
    }
}

/// Whether it is the local machine on every machine.
pub(crate) fn is_loopback(name: &str) -> bool {
    let short = name.split('.').next().unwrap_or(name);
    let is_local = matches!(short, "localhost" | "ip6-localhost" | "localhost4" | "localhost6");
    is_local || name.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_addresses_of_this_machine_are_recognised() {
        let here = ThisMachine::new();
        for own in ["localhost", "localhost.localdomain", "127.3.2.1", "::1", &machine()] {
            assert!(here.is(own), "{own}");
        }
        for other in ["node8", "192.0.2.8", "node7.invalid", "local", "1.2.3", "", "2001:db8::7"] {
            assert!(!here.is(other), "{other}");
        }
    }
}
