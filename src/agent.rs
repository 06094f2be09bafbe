//! The agent: a process that leads a host without being a member.
//!
//! A launch with [`LaunchOptions::agent`](crate::LaunchOptions::agent) starts this program on each
//! host. It starts the members of its host and launches other hosts, carries output, input and data
//! of the session between them, and ends with the session. A member may then end in whichever way,
//! and that costs nothing but its own rank.
//!
//! A program serves as its own agent if it calls [`serve_if_asked`] before anything else:
//!
//! ```no_run
//! use libi::{Agent, LaunchOptions, OsBytes, Programs};
//!
//! libi::agent::serve_if_asked();
//! let own_path = OsBytes::try_from("/opt/tool/bin/tool").unwrap();
//! let options = LaunchOptions::new().agent(Agent::new(own_path)).programs(Programs::Any);
//! # let _ = options;
//! ```
//!
//! | event | what the agent does |
//! |---|---|
//! | the session is over, or was never up | it ends with 0, when its programs have ended |
//! | it loses its parent | it kills its programs, and ends |
//! | SIGTERM, SIGINT, SIGHUP, SIGQUIT | nothing: the front end decides when the session ends |
//! | it is killed | its programs and their process groups are killed; the front end reports the host as lost |

use std::path::PathBuf;

use libi_launch::delivery::DIRECTORY_ENV;
use libi_launch::options::{AGENT_ARG, JOB_ARG, KEEPER_ARG};
use nix::sys::signal::{SigSet, Signal};

use crate::front::keeper;
use crate::member;

/// The exit status of an agent that cannot join.
const CANNOT_JOIN: i32 = 3;

/// Serves as an agent and never returns, if this process was started as one. Call it at the beginning
/// of `main`, before threads are started and standard streams are used.
pub fn serve_if_asked() {
    if is_asked_for(KEEPER_ARG) {
        serve_as_keeper();
    }
    if is_asked_for(JOB_ARG) {
        std::process::exit(crate::job::serve());
    }
    if !is_asked_for(AGENT_ARG) {
        return keeper::serves();
    }
    remove_delivery();
    let mut signals = SigSet::empty();
    let ignored =
        [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE, Signal::SIGTSTP];
    ignored.into_iter().for_each(|signal| signals.add(signal));
    // The programs that it starts block none. On failure the agent ends by these signals.
    let _ = signals.thread_block();
    if let Err(error) = libi_launch::process::guard() {
        eprintln!("libi: agent: if it is killed, what its programs have started lives on: {error}");
    }
    let status = match member::serve() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("libi: agent: {error}");
            CANNOT_JOIN
        }
    };
    std::process::exit(status);
}

/// Serves as the process that keeps a [detached](crate::LaunchOptions::detached) session.
fn serve_as_keeper() -> ! {
    std::process::exit(i32::from(keeper::serve().is_err()));
}

/// Whether this is the last argument of this process.
fn is_asked_for(what: &str) -> bool {
    match std::env::args_os().last() {
        Some(last) => last == what,
        // The arguments of a static C program are not known here in another way.
        None => std::fs::read("/proc/self/cmdline").is_ok_and(|words| {
            let last = words.strip_suffix(b"\0").and_then(|words| words.rsplit(|byte| *byte == 0).next());
            last == Some(what.as_bytes())
        }),
    }
}

/// Removes the directory that this executable was delivered to.
pub(crate) fn remove_delivery() {
    let Some(directory) = std::env::var_os(DIRECTORY_ENV).map(PathBuf::from) else { return };
    // Only what the delivery has made: nothing else is in it.
    let _ = std::fs::remove_file(directory.join("agent"));
    let _ = std::fs::remove_dir(&directory);
}
