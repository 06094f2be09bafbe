//! How a launch proceeds.

// First: include/libi.h has the functions in the order of the modules.
mod links;

mod agent;
mod backend;
pub(crate) mod calls;
mod detached;
mod launches;
mod stage;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use libc::{c_char, c_int};
use libi::{HostList, LaunchOptions, MemberLimits, Output, Policy, StandardInput};
use libi_core::cost::Cost;

use crate::args::{self, from_c};
use crate::error::{CallError, CallResult};
use crate::hosts::{self, libi_hosts};
use crate::object::{self, Builder, ask_builder, change, give, handle};
use crate::result::{libi_micros, libi_result, libi_timeout};

/// How a launch proceeds. By default it uses ssh for hosts that are not this machine, needs all
/// hosts, and fails after two minutes. A builder: one thread at a time. Since 0.1.
pub struct libi_options {
    _opaque: (),
}

handle!(libi_options, "set of options", Builder<LaunchOptions>);

/// Makes the default options. Free them with libi_options_free(). Since 0.1.
#[unsafe(no_mangle)]
pub extern "C" fn libi_options_new() -> *mut libi_options {
    give(Builder::default())
}

/// Frees options. NULL is allowed. Launches that have begun are not affected. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_free(options: *mut libi_options) {
    // SAFETY: as documented in the header.
    unsafe { object::free(options) }
}

/// Sets how many hosts have to join. The session goes on without those that fail. 0, the default,
/// is all of them. The host of the master is needed in any case. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_min_hosts(options: *mut libi_options, hosts: u32) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.policy = if hosts == 0 { Policy::All } else { Policy::AtLeast(hosts) };
            Ok(())
        })
    }
}

/// Sets hosts that replace those that fail, in this order. Several sessions of one launch may
/// each take all of them. The list is copied; NULL is none.
///
/// Returns LIBI_OK, or the first failure of the list. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_spares(
    options: *mut libi_options,
    spares: *const libi_hosts,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.spares = if spares.is_null() { HostList::new() } else { hosts::copy(spares)? };
            Ok(())
        })
    }
}

/// Sets which hosts are this machine: the front end starts their processes directly instead of
/// through the remote shell. It does so for hosts that it launches itself, as the first of a
/// session. The list is copied; NULL is none.
///
/// Returns LIBI_OK, or the first failure of the list. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_local_hosts(
    options: *mut libi_options,
    hosts: *const libi_hosts,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.local_hosts = if hosts.is_null() { HostList::new() } else { hosts::copy(hosts)? };
            Ok(())
        })
    }
}

/// Sets how long a launch may take; by default two minutes.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if it is less than 1 ms. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_deadline(
    options: *mut libi_options,
    deadline: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.deadline = limit(deadline, "the deadline")?;
            Ok(())
        })
    }
}

/// Sets the settle time: when enough hosts have joined, how long no further host may join, fail or
/// be relaunched before the session goes up without those that are still open. LIBI_FOREVER waits
/// until every host has joined or failed. The default is four times the slowest launch so far, and
/// at least 2 s. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_settle(
    options: *mut libi_options,
    settle: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.settle = Some(args::timeout(settle));
            Ok(())
        })
    }
}

/// A duration that has to be limited and not 0.
fn limit(millis: libi_timeout, what: &str) -> CallResult<Duration> {
    match u64::try_from(millis) {
        Ok(millis) if millis > 0 => Ok(Duration::from_millis(millis)),
        _ => Err(CallError::argument(format!("{what} is {millis} ms; it has to be 1 ms or more"))),
    }
}

/// Timeouts and limits that hold for all processes of a launch. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_rule {
    /// How long a started process may take to say hello, in ms. Default 30,000.
    LIBI_RULE_HELLO_TIMEOUT = 0,
    /// How long the further processes of a host may take together to join, in ms. Default 30,000.
    LIBI_RULE_JOIN_TIMEOUT = 1,
    /// How often a host is launched at most, including the first time. Default 3. 65,535 retries
    /// until the deadline, as for hosts that are still booting.
    LIBI_RULE_ATTEMPTS = 2,
    /// The wait before a host is launched again, in ms. Each further wait is twice as long.
    /// Default 200.
    LIBI_RULE_BACK_OFF = 3,
    /// The longest such wait, in ms. Default 5,000.
    LIBI_RULE_BACK_OFF_MAX = 4,
    /// When too many hosts have failed, how long the launch goes on so that further failures are
    /// reported as well, in ms. Default 2,000.
    LIBI_RULE_FAILURE_LINGER = 5,
    /// How long processes have to end after SIGTERM before they are killed, in ms. Default 2,000.
    LIBI_RULE_KILL_GRACE = 6,
    /// How long a peer may be silent before it is lost, in ms. The loss is noticed within 5/4 of
    /// this time. Default 20,000.
    LIBI_RULE_PEER_TIMEOUT = 7,
}

/// cbindgen:ignore
pub type libi_rule_arg = c_int;

enum RuleRef<'a> {
    Duration(&'a mut Duration),
    Attempts(&'a mut u16),
}

fn rule_of(options: &mut LaunchOptions, rule: libi_rule_arg) -> CallResult<RuleRef<'_>> {
    let rules = &mut options.rules;
    from_c!(rule, "libi_rule", libi_rule {
        LIBI_RULE_HELLO_TIMEOUT => RuleRef::Duration(&mut rules.hello_timeout),
        LIBI_RULE_JOIN_TIMEOUT => RuleRef::Duration(&mut rules.join_timeout),
        LIBI_RULE_ATTEMPTS => RuleRef::Attempts(&mut rules.attempts),
        LIBI_RULE_BACK_OFF => RuleRef::Duration(&mut rules.back_off),
        LIBI_RULE_BACK_OFF_MAX => RuleRef::Duration(&mut rules.back_off_max),
        LIBI_RULE_FAILURE_LINGER => RuleRef::Duration(&mut rules.failure_linger),
        LIBI_RULE_KILL_GRACE => RuleRef::Duration(&mut rules.kill_grace),
        LIBI_RULE_PEER_TIMEOUT => RuleRef::Duration(&mut rules.peer_timeout),
    })
}

/// Sets a rule. Durations are 1 ms or more, attempts 1 to 65,535.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such rule or the value is out of range.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_rule(
    options: *mut libi_options,
    rule: libi_rule_arg,
    value: i64,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            match rule_of(options, rule)? {
                RuleRef::Duration(duration) => *duration = limit(value, "the duration")?,
                RuleRef::Attempts(attempts) => {
                    let given = u16::try_from(value).ok().filter(|attempts| *attempts > 0);
                    *attempts =
                        given.ok_or_else(|| CallError::argument(format!("attempts cannot be {value}")))?;
                }
            }
            Ok(())
        })
    }
}

/// The value of a rule; -1 for NULL and if there is no such rule. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_rule(options: *const libi_options, rule: libi_rule_arg) -> i64 {
    // SAFETY: as documented in the header.
    unsafe {
        ask_builder(options, -1, |options| match rule_of(options, rule) {
            Ok(RuleRef::Duration(duration)) => args::millis(*duration),
            Ok(RuleRef::Attempts(attempts)) => i64::from(*attempts),
            Err(_) => -1,
        })
    }
}

/// Sets the expected cost of launching a host: seq, how long a launch occupies the launcher, and
/// rem, the time from a start until the new process can launch others. Values measured during the
/// launch replace them.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if one is negative. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_cost(
    options: *mut libi_options,
    seq: libi_micros,
    rem: libi_micros,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let duration = |micros: libi_micros| {
                let wrong = |_| CallError::argument(format!("a cost cannot be {micros} microseconds"));
                u64::try_from(micros).map(Duration::from_micros).map_err(wrong)
            };
            options.cost = Some(Cost::new(duration(seq)?, duration(rem)?));
            Ok(())
        })
    }
}

/// Sets which host launches which: "late", the default, decides during the launch. The others are
/// trees that are fixed in advance, for comparison: "chain", "flat", "kary:K", "binomial", "rdc",
/// "greedy". Where one process starts all hosts, as srun does, there is no tree of launches: "flat"
/// keeps all connections at the front end, and "kary:K" has K hosts take those of the others; the
/// default is "flat" up to 256 hosts, and the square root of their number above.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such strategy. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_strategy(
    options: *mut libi_options,
    strategy: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let parsed = args::text(strategy, "the strategy")?.parse();
            options.strategy =
                parsed.map_err(|error: libi::UnknownStrategy| CallError::argument(error.to_string()))?;
            Ok(())
        })
    }
}

/// Sets whether the master's standard input is what libi_session_write() sends. By default it is
/// empty, as that of all other members always is. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_input(options: *mut libi_options, input: bool) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.input = input.into();
            Ok(())
        })
    }
}

/// Has libi_session_write() send standard input to all programs, each of which gets all of it. This
/// needs libi_options_set_agent(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_input_to_all(options: *mut libi_options) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.input = StandardInput::All;
            Ok(())
        })
    }
}

/// Sets whether members get the umask and the soft resource limits that the front end has when it
/// launches, as far as the hard limits of their hosts allow. By default they have those of the
/// login on their host. A member has them when libi_member_init() returns. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_front_end_limits(
    options: *mut libi_options,
    front_end_limits: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.limits = if front_end_limits { MemberLimits::FrontEnd } else { MemberLimits::Login };
            Ok(())
        })
    }
}

/// Where the output of members goes. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_output {
    /// It comes as LIBI_EVENT_OUTPUT. Members block while the program does not take the events.
    LIBI_OUTPUT_EVENTS = 0,
    /// It is written to RANK.out and RANK.err in a directory on this machine.
    LIBI_OUTPUT_FILES = 1,
    /// It is discarded.
    LIBI_OUTPUT_DISCARD = 2,
}

/// cbindgen:ignore
pub type libi_output_arg = c_int;

/// Sets where the output of members goes; LIBI_OUTPUT_EVENTS is the default. The directory is for
/// LIBI_OUTPUT_FILES, and is created if it is missing; the others ignore it.
///
/// Returns LIBI_OK, LIBI_ERR_NULL if a needed directory is NULL, or LIBI_ERR_ARGUMENT. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_output(
    options: *mut libi_options,
    output: libi_output_arg,
    directory: *const c_char,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let path = || -> CallResult<PathBuf> {
                let directory = args::string(directory, "the directory")?;
                Ok(PathBuf::from(OsStr::from_bytes(directory.to_bytes())))
            };
            options.output = from_c!(output, "libi_output", libi_output {
                LIBI_OUTPUT_EVENTS => Output::Events,
                LIBI_OUTPUT_FILES => Output::Files(path()?),
                LIBI_OUTPUT_DISCARD => Output::Dropped,
            })?;
            Ok(())
        })
    }
}

/// Has equal lines that several members print merged on their way: they come once, as
/// LIBI_EVENT_FOLDED, with the ranks of all. All bytes of each rank and stream come, in their order.
/// A process on the way holds output for at most this many milliseconds, and at most 64 KiB of each
/// process that it has it from; 0 merges only what waits anyway, because the program is slow.
/// libi_options_set_output() undoes it.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if the time is negative. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_folded_output(
    options: *mut libi_options,
    hold: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            let millis = u64::try_from(hold);
            let millis = millis.map_err(|_| CallError::argument("the time is negative"))?;
            options.output = Output::Folded { hold: Duration::from_millis(millis) };
            Ok(())
        })
    }
}

/// A copy of options; the defaults for NULL.
///
/// # Safety
/// As of [`object::built`].
pub(crate) unsafe fn copy(options: *const libi_options) -> CallResult<LaunchOptions> {
    if options.is_null() {
        return Ok(LaunchOptions::default());
    }
    // SAFETY: as for this function.
    unsafe { object::built(options, "the options") }
}
