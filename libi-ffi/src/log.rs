//! Log lines of the library, for a program in C.

use std::sync::{Mutex, OnceLock, PoisonError};

use libc::{c_char, c_int, c_void};
use log::{LevelFilter, Log, Metadata, Record};

use crate::args::from_c;
use crate::error::{CallError, CallResult, code};
use crate::reentry;
use crate::result::libi_result::{self, LIBI_ERR_STATE};
use crate::text::c_string;

/// The levels of log lines. A level includes those above it. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_log_level {
    /// Nothing.
    LIBI_LOG_OFF = 0,
    /// Defects.
    LIBI_LOG_ERROR = 1,
    /// What the user should know, as the use of plaintext.
    LIBI_LOG_WARN = 2,
    /// The course of launches and sessions.
    LIBI_LOG_INFO = 3,
    /// Decisions, for finding out why a launch went as it did.
    LIBI_LOG_DEBUG = 4,
    /// Everything.
    LIBI_LOG_TRACE = 5,
}

/// cbindgen:ignore
pub type libi_log_level_arg = c_int;

/// Called for each log line: its level, its target (the part of the library, as "libi::launch")
/// and its text. The strings are valid until it returns.
///
/// It is called in any thread, also in the library's own, and in several at once. It must return
/// normally (no exception, no longjmp). Functions of the library that start something or wait
/// return LIBI_ERR_BUSY inside it. Since 0.1.
pub type libi_log_callback = Option<
    unsafe extern "C" fn(
        userdata: *mut c_void,
        level: libi_log_level,
        target: *const c_char,
        text: *const c_char,
    ),
>;

#[derive(Clone, Copy)]
struct Callback {
    userdata: *mut c_void,
    function: unsafe extern "C" fn(*mut c_void, libi_log_level, *const c_char, *const c_char),
}

// SAFETY: the header says that the callback is called in any thread.
unsafe impl Send for Callback {}

static CALLBACK: Mutex<Option<Callback>> = Mutex::new(None);

/// Passes records on to the callback.
struct Logger;

impl Log for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level() && !reentry::is_callback()
    }

    fn log(&self, record: &Record<'_>) {
        let callback = *CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(Callback { userdata, function }) = callback.filter(|_| self.enabled(record.metadata()))
        else {
            return;
        };
        let (target, text) = (c_string(record.target()), c_string(&record.args().to_string()));
        let level = match record.level() {
            log::Level::Error => libi_log_level::LIBI_LOG_ERROR,
            log::Level::Warn => libi_log_level::LIBI_LOG_WARN,
            log::Level::Info => libi_log_level::LIBI_LOG_INFO,
            log::Level::Debug => libi_log_level::LIBI_LOG_DEBUG,
            log::Level::Trace => libi_log_level::LIBI_LOG_TRACE,
        };
        // SAFETY: as documented in the header for libi_log_callback.
        reentry::call(|| unsafe { function(userdata, level, target.as_ptr(), text.as_ptr()) });
    }

    fn flush(&self) {}
}

/// Sets the function that is called for each log line up to this level; NULL for none. It holds
/// for the whole process, is called by front ends and members alike, and may be set again. The
/// library never logs contents of messages.
///
/// Any thread, at any time; best before the first front end or member is made. When it returns,
/// the former function may still run in other threads. Returns LIBI_OK, LIBI_ERR_ARGUMENT if
/// there is no such level, or LIBI_ERR_STATE if the process is a program in Rust that has
/// installed a logger of its own. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_set_log(
    level: libi_log_level_arg,
    callback: libi_log_callback,
    userdata: *mut c_void,
) -> libi_result {
    code(reentry::guarded(|| set(level, callback.map(|function| Callback { userdata, function }))))
}

/// Whether the process has this logger; it can be installed once.
static INSTALLED: OnceLock<bool> = OnceLock::new();

fn set(level: libi_log_level_arg, callback: Option<Callback>) -> CallResult {
    let level = from_c!(level, "libi_log_level", libi_log_level {
        LIBI_LOG_OFF => LevelFilter::Off,
        LIBI_LOG_ERROR => LevelFilter::Error,
        LIBI_LOG_WARN => LevelFilter::Warn,
        LIBI_LOG_INFO => LevelFilter::Info,
        LIBI_LOG_DEBUG => LevelFilter::Debug,
        LIBI_LOG_TRACE => LevelFilter::Trace,
    })?;
    let mut current = CALLBACK.lock().unwrap_or_else(PoisonError::into_inner);
    if !INSTALLED.get_or_init(|| log::set_logger(&Logger).is_ok()) {
        return Err(CallError::new(LIBI_ERR_STATE, "this process has another logger"));
    }
    log::set_max_level(if callback.is_some() { level } else { LevelFilter::Off });
    *current = callback;
    Ok(())
}
