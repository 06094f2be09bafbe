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
    let Ok(nothing) = File::open("/dev/null") else { return Vec::new() };
    let mut filling = Vec::new();
    loop {
        // SAFETY: takes and returns numbers.
        let number = unsafe { libc::fcntl(nothing.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 3) };
        if number == -1 {
            return Vec::new();
        }
        // SAFETY: it was made by this call.
        let copy = unsafe { OwnedFd::from_raw_fd(number) };
        if number >= FROM {
            filling.push(nothing.into());
            return filling;
        }
        filling.push(copy);
    }
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
