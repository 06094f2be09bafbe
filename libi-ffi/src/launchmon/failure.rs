//! Failures: a code for the caller, and a line for the error callback.

use std::ffi::CString;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use libc::{c_char, c_int, c_void};

use super::codes::{EBUG, OK};
use crate::compat::{CallError, CallResult, Code, lock};
use crate::text::c_string;

/// The header's callback for errors: a format and its arguments, as `vprintf` takes them.
pub type ErrorCallback = unsafe extern "C" fn(format: *const c_char, arguments: *mut c_void) -> c_int;

/// Which half of the interface a function belongs to. Each has an error callback of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Side {
    FrontEnd,
    Daemon,
}

static CALLBACKS: [Mutex<Option<ErrorCallback>>; 2] = [Mutex::new(None), Mutex::new(None)];

pub(super) fn set_callback(side: Side, callback: ErrorCallback) {
    *lock(&CALLBACKS[side as usize]) = Some(callback);
}

/// Runs a function of the interface. Failures and panics become codes.
pub(super) fn answer(side: Side, name: &str, body: impl FnOnce() -> CallResult<Code>) -> Code {
    let fault = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(code)) => return code,
        Ok(Err(fault)) => fault,
        Err(_) => CallError::new(EBUG, "libi has panicked"),
    };
    tell(side, &line(name, &fault.text));
    fault.code
}

/// As [`answer`], for a function that returns LMON_OK or a failure.
pub(super) fn done(side: Side, name: &str, body: impl FnOnce() -> CallResult) -> Code {
    answer(side, name, || body().map(|()| OK))
}

/// A report of several lines becomes one.
fn line(name: &str, text: &str) -> String {
    let parts: Vec<&str> = text.lines().map(str::trim).filter(|part| !part.is_empty()).collect();
    format!("libi: {name}: {}\n", parts.join("; "))
}

/// Tells the callback.
fn tell(side: Side, line: &str) {
    let callback = *lock(&CALLBACKS[side as usize]);
    let Some(callback) = callback else {
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    };
    let format = as_format(line);
    let mut none = NoArguments([0; 8]);
    // SAFETY: the format ends with a NUL and needs no arguments, so their list is only copied.
    unsafe { callback(format.as_ptr(), (&raw mut none).cast()) };
}

/// A text as a format that needs no arguments.
fn as_format(line: &str) -> CString {
    c_string(&line.replace('%', "%%"))
}

/// What a `va_list` points to on x86-64 and on other 64-bit machines, as large as the largest: the
/// callee gets a pointer to it, or has the pointer as the list itself.
#[repr(C, align(16))]
struct NoArguments([u64; 8]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_line_and_has_no_conversions() {
        let line = line("LMON_fe_kill", "1 of 2 joined\n  n1  100 %\n\nhint: %s\n");
        assert_eq!(line, "libi: LMON_fe_kill: 1 of 2 joined; n1  100 %; hint: %s\n");
        assert_eq!(as_format(&line).to_bytes().iter().filter(|byte| **byte == b'%').count(), 4);
    }
}
