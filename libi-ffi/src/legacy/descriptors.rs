//! Keeps descriptors of the library out of the way of programs: those that it opens get high numbers.
//!
//! Programs expect that the files that they open get the lowest numbers, and some count on which these are.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// From where on numbers are ours. Where few descriptors are allowed, there are as many left as are needed.
const FROM: libc::c_int = 128;

/// Does this while all lower numbers are in use.
pub(super) fn high<T>(body: impl FnOnce() -> T) -> T {
    let filling = fill();
    let done = body();
    drop(filling);
    done
}

/// Uses all lower numbers that are free; none if that is refused.
fn fill() -> Vec<OwnedFd> {
    // A standard stream that is closed stays so: whoever opens it has to find it closed.
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

/// The same file by the lowest number that is free and none of a standard stream's.
fn copy(file: &impl AsRawFd) -> Option<OwnedFd> {
    // SAFETY: takes and returns numbers.
    let number = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
    // SAFETY: it was made by this call.
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
