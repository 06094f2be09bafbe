//! Gives descriptors of the library high numbers.
//!
//! Programs expect that files which they open get the lowest numbers, and some depend on these
//! numbers.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The lowest number for the library. If the limit of descriptors is low, lower ones are used.
const FROM: libc::c_int = 128;

/// Runs `body` while all lower numbers are in use.
pub(crate) fn high<T>(body: impl FnOnce() -> T) -> T {
    let filling = fill();
    let done = body();
    drop(filling);
    done
}

/// Occupies all lower numbers that are free; none if the limit is reached.
fn fill() -> Vec<OwnedFd> {
    // A closed standard stream stays closed, so that the program can open it.
    let first = File::open("/dev/null").ok().and_then(|nothing| copy(&nothing));
    let mut filling = Vec::from_iter(first);
    while let Some(last) = filling.last() {
        if last.as_raw_fd() >= FROM {
            filling.pop();
            break;
        }
        match copy(last) {
            Some(next) => filling.push(next),
            None => filling.clear(),
        }
    }
    filling
}

/// Duplicates a descriptor to the lowest free number after the standard streams.
fn copy(file: &impl AsRawFd) -> Option<OwnedFd> {
    // SAFETY: no pointers are involved.
    let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: fcntl has just made it.
    (number != -1).then(|| unsafe { OwnedFd::from_raw_fd(number) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_opened_meanwhile_gets_a_high_number_and_the_low_ones_are_free_again() {
        let file = high(|| File::open("/dev/null").unwrap());
        assert!(file.as_raw_fd() >= FROM);
        assert!(File::open("/dev/null").unwrap().as_raw_fd() < FROM);
    }
}
