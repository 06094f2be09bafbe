//! How a launch is to go.

mod backend;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use libc::c_char;
use libi::{LaunchOptions, LinkPolicy, LinkSecurity, Output, Policy};
use libi_core::cost::Cost;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::args;
use crate::hosts::{self, libi_hosts};
use crate::object::{self, ask_one, give, handle, with_one};
use crate::result::{CallError, CallResult, libi_micros, libi_millis, libi_result};

/// How a launch is to go: at first on this machine, of everything, within two minutes. It may be used by one thread at a
/// time. Since 0.1.
pub struct libi_options {
    _opaque: (),
}

handle!(libi_options, "set of options", Mutex<LaunchOptions>);

/// Sets something of what is behind the pointer.
///
/// # Safety
/// It is NULL, or what C was given.
unsafe fn set(
    options: *mut libi_options,
    body: impl FnOnce(&mut LaunchOptions) -> CallResult,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe { with_one(options, body) }
}

/// What a launch goes by if nothing is said. To be freed by libi_options_free(). Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_options_new() -> *mut libi_options {
    give(Mutex::default())
}

/// Frees them; NULL is fine. Launches that were begun with them go on. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_free(options: *mut libi_options) {
    // SAFETY: as the header asks.
    unsafe { object::free(options) }
}

/// What failed last with them in this thread; empty if nothing has. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_error(options: *const libi_options) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { object::error(options) }
}

/// All hosts have to join; as at first. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_require_all(options: *mut libi_options) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.policy = Policy::All;
            Ok(())
        })
    }
}

/// So many hosts have to join; the session goes on without those that fail. The master's is needed always. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_require(options: *mut libi_options, hosts: u32) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.policy = Policy::AtLeast(hosts);
            Ok(())
        })
    }
}

/// Waits for hosts that are not up yet: whatever may pass is tried again until the deadline. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_until_up(options: *mut libi_options) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            *options = options.clone().until_up();
            Ok(())
        })
    }
}

/// Names hosts that take the places of those that fail, in this order. The list is copied; NULL is none. With several sessions
/// each may take all of them. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_spares(
    options: *mut libi_options,
    spares: *const libi_hosts,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.spares = if spares.is_null() { libi::HostList::new() } else { hosts::copy(spares)? };
            Ok(())
        })
    }
}

/// Names hosts that are this machine: where the front end launches them, as it does the first of a session, it starts them without a
/// remote shell, whatever the others are reached by. The list is copied; NULL is none. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_here(
    options: *mut libi_options,
    here: *const libi_hosts,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.local_hosts = if here.is_null() { libi::HostList::new() } else { hosts::copy(here)? };
            Ok(())
        })
    }
}

/// After how long there is a verdict, whatever happens; at first two minutes. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_deadline(
    options: *mut libi_options,
    deadline: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.deadline = limit(deadline, "the deadline")?;
            Ok(())
        })
    }
}

/// A time that has to have an end.
pub(super) fn limit(millis: libi_millis, what: &str) -> CallResult<Duration> {
    match u64::try_from(millis) {
        Ok(millis) if millis > 0 => Ok(Duration::from_millis(millis)),
        _ => Err(CallError::argument(format!("{what} cannot be {millis} ms; it has to be 1 or more"))),
    }
}

/// Times and numbers that everybody in a launch goes by. Since 0.1.
pub type libi_rule = i32;
/// How long a started process may take to say hello, in ms; at first 30,000.
pub const LIBI_RULE_GREET: libi_rule = 0;
/// How long a host's further processes may take to say hello, together, in ms; at first 30,000.
pub const LIBI_RULE_JOIN: libi_rule = 1;
/// How often a host is launched, the first time included, for failures of its own; at first 3. 65,535 is until the deadline.
pub const LIBI_RULE_ATTEMPTS: libi_rule = 2;
/// How long to wait before a host is launched again, in ms; each further wait is twice as long. At first 200.
pub const LIBI_RULE_BACK_OFF: libi_rule = 3;
/// The longest such wait, in ms; at first 5,000.
pub const LIBI_RULE_BACK_OFF_MOST: libi_rule = 4;
/// When too many hosts have failed, how long to go on all the same so that all that is wrong is reported at once, in ms; at
/// first 2,000.
pub const LIBI_RULE_GATHER: libi_rule = 5;
/// How long what is to end may take before force is used, in ms; at first 2,000.
pub const LIBI_RULE_GRACE: libi_rule = 6;
/// After how long without a word a peer is lost, in ms; it is noticed after five quarters of it at most. At first 20,000.
pub const LIBI_RULE_SILENCE: libi_rule = 7;

/// The duration that a rule is, if it is one.
fn duration(options: &mut LaunchOptions, rule: libi_rule) -> Option<&mut Duration> {
    let rules = &mut options.rules;
    Some(match rule {
        LIBI_RULE_GREET => &mut rules.hello_timeout,
        LIBI_RULE_JOIN => &mut rules.join_timeout,
        LIBI_RULE_BACK_OFF => &mut rules.back_off,
        LIBI_RULE_BACK_OFF_MOST => &mut rules.back_off_max,
        LIBI_RULE_GATHER => &mut rules.failure_linger,
        LIBI_RULE_GRACE => &mut rules.kill_grace,
        LIBI_RULE_SILENCE => &mut rules.peer_timeout,
        _ => return None,
    })
}

/// Sets a rule. Times are 1 ms or more; attempts 1 to 65,535.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such rule, or it cannot have this value. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_rule(
    options: *mut libi_options,
    rule: libi_rule,
    value: i64,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            if rule == LIBI_RULE_ATTEMPTS {
                let attempts = u16::try_from(value).ok().filter(|attempts| *attempts > 0);
                let wrong = || CallError::argument(format!("a host cannot be launched {value} times"));
                options.rules.attempts = attempts.ok_or_else(wrong)?;
                return Ok(());
            }
            let place = duration(options, rule);
            let place = place.ok_or_else(|| CallError::argument(format!("there is no rule {rule}")))?;
            *place = limit(value, "a time")?;
            Ok(())
        })
    }
}

/// What a rule is; -1 if there is no such rule, or the options are NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_rule(options: *const libi_options, rule: libi_rule) -> i64 {
    // SAFETY: as the header asks.
    unsafe {
        ask_one(options, -1, |options| match rule {
            LIBI_RULE_ATTEMPTS => i64::from(options.rules.attempts),
            _ => duration(options, rule).map_or(-1, |duration| args::millis(*duration)),
        })
    }
}

/// What a launch costs, if you know: SEQ, how long one keeps its launcher from the next, and REM, from a start until the new process
/// can launch others. What is measured during the launch takes its place. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_cost(
    options: *mut libi_options,
    seq: libi_micros,
    rem: libi_micros,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            let micros = |micros: libi_micros| {
                let wrong = || CallError::argument(format!("a cost cannot be {micros} microseconds"));
                u64::try_from(micros).map(Duration::from_micros).map_err(|_| wrong())
            };
            options.cost = Some(Cost::new(micros(seq)?, micros(rem)?));
            Ok(())
        })
    }
}

/// Who launches whom: "late", as at first, which decides while the launch goes on; or, for comparison, a tree that is decided in
/// advance: "chain", "flat", "kary:K", "binomial", "rdc", "greedy".
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such tree. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_tree(
    options: *mut libi_options,
    tree: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            let tree = args::text(tree, "the tree")?.parse();
            options.strategy = tree
                .map_err(|error: libi_core::plan::UnknownStrategy| CallError::argument(error.to_string()))?;
            Ok(())
        })
    }
}

/// Whether the master's standard input is what you write by libi_session_write(). Everybody else's is empty. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_input(options: *mut libi_options, input: bool) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.input = input;
            Ok(())
        })
    }
}

/// What members print comes as LIBI_EVENT_OUTPUT, for you to take; as at first. Who prints waits when you do not. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_output_to_events(options: *mut libi_options) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { set_output(options, |()| Ok(Output::Events)) }
}

/// What members print is written to files in this directory, RANK.out and RANK.err, on this machine. It is made if it is
/// missing. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_output_to_files(
    options: *mut libi_options,
    directory: *const c_char,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set_output(options, |()| {
            let directory = args::string(directory, "the directory")?;
            Ok(Output::Files(PathBuf::from(OsStr::from_bytes(directory.to_bytes()))))
        })
    }
}

/// What members print is read and forgotten. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_output_dropped(options: *mut libi_options) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { set_output(options, |()| Ok(Output::Dropped)) }
}

/// # Safety
/// As of [`set`].
unsafe fn set_output(
    options: *mut libi_options,
    output: impl FnOnce(()) -> CallResult<Output>,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe {
        set(options, |options| {
            options.output = output(())?;
            Ok(())
        })
    }
}

/// Whether hosts talk to each other directly. Since 0.1.
pub type libi_links = i32;
/// Directly where that works, and through the channels that they were started with where it does not; as at first.
pub const LIBI_LINKS_AUTO: libi_links = 0;
/// Directly; a host that cannot be reached fails.
pub const LIBI_LINKS_DIRECT: libi_links = 1;
/// Through the channels. Nobody listens, nobody dials.
pub const LIBI_LINKS_CHANNEL: libi_links = 2;

/// Whether hosts talk to each other directly. LIBI_ERR_ARGUMENT if there is no such choice. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_links(
    options: *mut libi_options,
    links: libi_links,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.links = match links {
                LIBI_LINKS_AUTO => LinkPolicy::Auto,
                LIBI_LINKS_DIRECT => LinkPolicy::Direct,
                LIBI_LINKS_CHANNEL => LinkPolicy::Channel,
                _ => return Err(CallError::argument(format!("there is no choice of links {links}"))),
            };
            Ok(())
        })
    }
}

/// Whether what goes over direct links is encrypted, as at first; or only who is at their ends is proved, and what they say travels
/// as it is: for networks that are trusted. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_encrypted(
    options: *mut libi_options,
    encrypted: bool,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.link_security =
                if encrypted { LinkSecurity::Encrypted } else { LinkSecurity::Authenticated };
            Ok(())
        })
    }
}

/// Whether hosts may be reached by means that others on the network can listen to and interfere with, as rsh; at first not. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_allow_plain(options: *mut libi_options, allow: bool) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.allow_plain = allow;
            Ok(())
        })
    }
}

/// Whether all hosts are this machine, whatever they are called: direct links are made on its loopback address alone then. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_loopback(
    options: *mut libi_options,
    loopback: bool,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        set(options, |options| {
            options.loopback = loopback;
            Ok(())
        })
    }
}

/// A copy of what C has; the defaults if that is NULL.
///
/// # Safety
/// It is NULL, or what C was given.
pub(crate) unsafe fn copy(options: *const libi_options) -> CallResult<LaunchOptions> {
    if options.is_null() {
        return Ok(LaunchOptions::local());
    }
    // SAFETY: as this function asks.
    unsafe { object::read(options, "the set of options", LaunchOptions::clone) }
}
