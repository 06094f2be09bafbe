//! Which descriptors a process has, by each of the ways to close the others.

use std::fs::File;
use std::os::fd::OwnedFd;

use super::super::{CloseMethod, LONG_FD_TABLE};
use super::*;

const METHODS: [CloseMethod; 3] = [CloseMethod::Range, CloseMethod::Listed, CloseMethod::All];

/// Descriptors that survive `exec` because they lack close-on-exec.
fn leaky(count: usize) -> Vec<OwnedFd> {
    (0..count).map(|_| roles::without_cloexec(File::open("/dev/null").unwrap().into())).collect()
}

#[test]
fn it_has_the_descriptors_it_was_given_and_no_other() {
    let leaks = leaky(5);
    let file = File::open("/dev/null").unwrap();
    for closing in METHODS {
        let mut start = shell("").fd(3, file.as_fd()).fd(7, file.as_fd()).fd(900, leaks[0].as_fd());
        start.close_method = closing;
        assert_eq!(paused(&start).descriptors(), [0, 1, 2, 3, 7, 900], "{closing:?}");
    }
}

#[test]
fn a_long_table_of_descriptors_stays_its_owners() {
    let leaks = leaky(usize::from(LONG_FD_TABLE) + 20);
    for closing in METHODS {
        for file in [&leaks[0], &leaks[usize::from(LONG_FD_TABLE) + 10]] {
            let mut start = shell("").fd(3, file.as_fd()).fd(900, file.as_fd());
            start.close_method = closing;
            assert_eq!(paused(&start).descriptors(), [0, 1, 2, 3, 900], "{closing:?}");
            start.program = word("/nowhere");
            assert!(start.start().is_err());
        }
    }
    assert!(leaks.iter().all(|leak| File::from(leak.try_clone().unwrap()).metadata().is_ok()));
}

#[test]
fn hundreds_of_forgotten_descriptors_are_closed() {
    let leaks = leaky(300);
    for closing in METHODS {
        let mut start = shell("");
        start.close_method = closing;
        assert_eq!(paused(&start).descriptors(), [0, 1, 2], "{closing:?}");
    }
    assert!(leaks.iter().all(|fd| sys::is_open(u16::try_from(fd.as_raw_fd()).unwrap())), "ours stay");
}

#[test]
fn what_is_taken_from_the_standard_ones_is_closed_too() {
    for closing in METHODS {
        let mut start = shell("");
        start.fds.remove(&2);
        start.close_method = closing;
        assert_eq!(paused(&start).descriptors(), [0, 1], "{closing:?}");
    }
}
