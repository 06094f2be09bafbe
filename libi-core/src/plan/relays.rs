//! How many leaders of a bulk start relay for the others.
//!
//! All n leaders come to one process, whatever becomes of them afterwards; what a tree saves is the
//! connections that it holds while the session lives. With k relays it holds k, and each relay
//! n / k: the most that any process holds is least for k = √n. A third level would save little for
//! the numbers of hosts that there are: of 100,000 hosts, a process holds 317 connections.

/// Up to this many hosts, the front end holds all connections: so few descriptors are not scarce, and a
/// redirected leader arrives twice.
const FLAT: usize = 256;

/// The number of relays for a start of this many hosts.
#[must_use]
pub fn relays(hosts: usize) -> usize {
    if hosts <= FLAT { 0 } else { hosts.isqrt() + usize::from(hosts.isqrt().pow(2) < hosts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_holds_more_than_about_the_square_root() {
        assert_eq!([0, 1, 256].map(relays), [0; 3]);
        assert_eq!([257, 400, 401, 1_000, 10_000, 100_000].map(relays), [17, 20, 21, 32, 100, 317]);
        for hosts in (257..100_000).step_by(97) {
            let (relays, root) = (relays(hosts), hosts.isqrt() + 1);
            assert!(relays <= root && (hosts - relays).div_ceil(relays) <= root, "of {hosts}");
        }
    }
}
