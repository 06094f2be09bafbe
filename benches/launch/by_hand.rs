//! The baseline: processes that a loop around `posix_spawn` starts.

use std::ffi::CString;
use std::ptr;
use std::time::{Duration, Instant};

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

/// Starts and waits for `count` processes, `at_once` at a time.
pub(crate) fn by_hand(count: u32, at_once: u32, argv: impl Fn(u32) -> Vec<CString>) -> Duration {
    let began = Instant::now();
    for number in 0..count {
        if number >= at_once {
            await_one();
        }
        let argv = argv(number);
        let mut words: Vec<_> = argv.iter().map(|word| word.as_ptr().cast_mut()).collect();
        words.push(ptr::null_mut());
        let mut pid = 0;
        // SAFETY: NULL-terminated tables of strings that outlive the call; no thread changes the
        // environment meanwhile.
        let error = unsafe {
            libc::posix_spawn(&raw mut pid, words[0], ptr::null(), ptr::null(), words.as_ptr(), environ)
        };
        assert_eq!(error, 0);
    }
    (0..at_once.min(count)).for_each(|_| await_one());
    began.elapsed()
}

fn await_one() {
    let mut status = 0;
    // SAFETY: the status outlives the call; all children of this process are those of `by_hand`.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, 0) };
    assert!(pid > 0 && status == 0, "a process by hand has ended with status {status:#x}");
}
