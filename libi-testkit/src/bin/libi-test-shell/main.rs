//! A stand-in for ssh, so that tests can launch on as many hosts as they like with the costs and
//! the faults they like, on one machine and without burning its processor.
//!
//! ```text
//! libi-test-shell [options] [user@]host [command words...]
//! ```
//!
//! # What it does
//!
//! Options are skipped as ssh would read them, with their values, before and after the host, until
//! `--`. The words after the host are joined by blanks and run by `/bin/sh -c` on this machine,
//! whatever the host is called; without words the shell reads its standard input. The command runs
//! in this directory and in this environment, and in addition `LIBI_TEST_SHELL_HOST` says which
//! host it is on. A call made under that variable comes from that host; the outermost caller is
//! called `front`.
//!
//! The command inherits the three streams and gets no other descriptor. It has a session of its own
//! and default signals, as under sshd: a signal to this program or its process group does not reach
//! the command. The exit status is the command's, or 128 + n if signal n has ended it (where ssh
//! says 255). For failures of its own, wrong configurations among them, and when it is ended by
//! SIGHUP, SIGINT or SIGTERM, it is 255.
//!
//! # Differences from ssh
//!
//! - Inherited streams belong to the command alone. When the *caller* goes or closes its ends, the
//!   command sees what it would see under ssh: end of input, a broken pipe, no signal. But when
//!   only *this program* is killed, the streams stay open between caller and command. The fault
//!   `relay` passes every byte through this program instead: then the command loses its streams
//!   with it, as with ssh.
//! - This program ends with the command. ssh ends when the streams are closed too, which a daemon
//!   that the command has left behind may delay; with `relay` so does this program.
//! - A command starts in this directory instead of a home directory, and with the whole
//!   environment.
//!
//! # Configuration
//!
//! `LIBI_TEST_SHELL` names a file; without it there are no costs and no faults. One setting per
//! line; blank lines and lines that begin with `#` are skipped. A mistake is reported with its
//! line, and nothing is run. Paths are seen from the directory of the file. A duration is `7ms`,
//! `1.5s` or `20us`.
//!
//! ```text
//! seed N                   chooses what is drawn by chance; 0 unless given
//! seq D[~P%]               SEQ: how long a call occupies the processor of its launching host
//! rem D[~P%]               REM: from the beginning of SEQ until the command is started
//! places N D[~P%]          before SEQ, a call occupies one of N places of its launching host for so long
//! locks DIR                an existing directory for what the calls of one run share, empty at first; needed by seq,
//!                          places, limit, once and times
//! log FILE                 where each call leaves a line
//! record FILE              to which calls that relay append what they pass to their commands
//! lifetime D               the longest that a fault waits; 60s unless given
//! limit N [starting|running] [per launcher|per target]
//!                          refuses a call (as `refuse reset`) while N others are there: those not yet connected, or
//!                          those not yet ended (the default); of the same launching host (the default), or to the
//!                          same host. May be given several times
//! fault HOSTS [from CALLERS] [once|times N] FAULT
//!                          HOSTS is a name, a pattern with * and ?, or a share of all hosts as 30%, and so is CALLERS,
//!                          the hosts from which calls are befallen; all are, if nothing is said. `once` and `times N`
//!                          affect the first attempts to call a host, from any caller
//! ```
//!
//! Calls of one launching host take turns for SEQ in the order of their arrival, and spend the rest
//! of REM side by side. A turn begins where the one before ended, however late the system wakes us,
//! so that the model holds on a busy machine; it is spent even if the call is killed before it.
//! Places are taken when they are free: a call that is killed before it had one leaves its turn to
//! others, and one that is killed in its place leaves that.
//! With `~50%` a cost is anything within ±50 %. Whatever varies depends on the seed, the host and
//! the attempt (counted if there are locks) and on nothing else, so that runs can be repeated;
//! which hosts a percentage picks depends on the seed, the host and the position of the line among
//! the `fault` lines, and is not the same for HOSTS and CALLERS.
//!
//! All faults whose HOSTS match befall a call, in their order, up to the first that ends it. These
//! do not:
//!
//! ```text
//! delay D                  waits longer than REM
//! slow xF                  REM takes F times as long
//! warn TEXT                says so on standard error when connected
//! banner-before TEXT       prints TEXT before the command's output, as shell profiles do
//! banner-after TEXT        prints TEXT after it
//! garbage N                prints N random bytes before the command's output
//! close-stdin              the command has no input; the caller cannot write any
//! relay                    passes every byte through this program
//! cut N                    relays, and drops the connection after N bytes of output; the status is 255
//! hang-after N             relays, and passes nothing in any direction any more after N bytes of output
//! ```
//!
//! These do:
//!
//! ```text
//! refuse [KIND]            says what ssh says, with status 255. After SEQ: `refused` (the default),
//!                          `timed-out [after D]`, `unknown-host`, `closed`, `reset` (both as by MaxStartups); after
//!                          REM: `host-key`, `permission`
//! hang                     never connects, and says nothing
//! not-found                is a shell that does not find the command: status 127
//! exit N [after D]         connects, and ends with status N without running the command
//! ```
//!
//! TEXT is the rest of the line, with `\n`, `\r`, `\t`, `\\` and `\xHH`; it ends with a new line
//! unless it ends with `\c`. As ssh's own, messages on standard error end with `\r\n`.
//!
//! Whatever waits because of `hang`, `hang-after`, `timed-out` or `exit` ends with 255 (`exit`:
//! with its status) when the other ends of its standard input and output are closed, and at the
//! latest when it is `lifetime` old: a test that crashes leaves nothing behind. What `delay` and
//! `slow` add to REM ends then, too.
//!
//! # Log
//!
//! Each call appends one line as soon as it is certain what it will do; one that is killed earlier
//! leaves none.
//!
//! ```text
//! at=T pid=P from=HOST host=HOST attempt=N length=BYTES arrived=T turn=T free=T fate=WORDS
//! ```
//!
//! Times are nanoseconds of the monotonic clock: of this line, of the start of this program, and
//! from when until when it occupied its launching host. `length` is that of the command. `fate`
//! joins the faults with `+` and ends with what happens at last: `run` or the fault that ends the
//! call. What a limit refuses has only the fate `limit`. Attempt 0 was not counted.

mod attempt;
mod chance;
mod config;
mod fault;
mod line;
mod locks;
mod relay;
mod sys;
mod words;

#[cfg(not(target_os = "linux"))]
compile_error!("the stand-in shell uses locks and system calls of Linux");

use std::env;
use std::error::Error;
use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::attempt::Attempt;
use crate::config::{Config, ConfigError};
use crate::line::NoHost;
use crate::sys::{FAILED, Moment};

const CONFIGURATION: &str = "LIBI_TEST_SHELL";
const HOST: &CStr = c"LIBI_TEST_SHELL_HOST";
const FRONT: &str = "front";

/// Why this program could not do what it is for.
#[derive(Debug)]
enum Failure {
    Usage,
    Unreadable { path: PathBuf, error: io::Error },
    Misconfigured { path: PathBuf, error: ConfigError },
    System { what: &'static str, error: io::Error },
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage => write!(f, "usage: libi-test-shell [options] [user@]host [command words...]"),
            Self::Unreadable { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Misconfigured { path, error } => write!(f, "{}: {error}", path.display()),
            Self::System { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl Error for Failure {}

/// For errors of the system: says what could not be done.
fn failed(what: &'static str) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::System { what, error }
}

fn main() -> ExitCode {
    let started = sys::now();
    sys::end_on_signals();
    ExitCode::from(run(started).unwrap_or_else(|failure| {
        say(&format!("libi-test-shell: {failure}\n"));
        FAILED
    }))
}

fn run(arrived: Moment) -> Result<u8, Failure> {
    let call = line::parse(env::args_os().skip(1)).map_err(|NoHost| Failure::Usage)?;
    let config = configuration()?;
    let from = env::var(&*HOST.to_string_lossy()).unwrap_or_else(|_| FRONT.to_owned());
    Attempt::begin(&config, call, from, arrived)?.carry_out()
}

fn configuration() -> Result<Config, Failure> {
    let Some(path) = env::var_os(CONFIGURATION).map(PathBuf::from) else { return Ok(Config::default()) };
    match fs::read_to_string(&path) {
        Ok(text) => Config::parse(&text, path.parent().unwrap_or(Path::new("")))
            .map_err(|error| Failure::Misconfigured { path, error }),
        Err(error) => Err(Failure::Unreadable { path, error }),
    }
}

/// Writes to standard error, and ignores that it may be closed.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}
