//! Reads from exit status and output what a remote shell, or the command that it ran, failed at.
//!
//! `ssh` exits with 255 for all failures of its own and prints the reason on standard error. A
//! [command](crate::quote) exits with 125, 126 or 127 if it cannot run its program, and with 1 in
//! csh and tcsh. `rsh` exits with 1 for its own failures and does not pass on the command's status,
//! which arrives [another way](crate::exit_trailer). Debian's `rsh` exits with 0 when its server
//! refuses a login, and the server prints the reason in place of the command's output.
//! [`Failure::shell_error`](crate::failure::Failure::shell_error) combines status and text.
//!
//! The texts are English: those of OpenSSH and of the known `rsh` programs, as far as no other
//! program would print them. OpenSSH translates no message in any locale; neither do Debian's `rsh`
//! nor the C library's `rcmd` in a program that sets no locale. So no locale is set for them:
//! configurations with `SendEnv LC_*`, such as Debian's, would send it on to the host. A message of
//! another shell in another language is [`ShellError::ShellFailed`] with that message as evidence.
//! With `LogLevel QUIET` in its configuration, `ssh` prints nothing, and nothing more is known.
//!
//! Lines are searched from the last one upwards. A closed connection or an unreachable host counts
//! only if no line says more: `ssh` ends with such a line when a proxy or jump host fails, and the
//! reason stands above it.

mod loader;

use std::fmt;

pub(crate) use loader::{of_csh, of_interpreter, of_loader};

use crate::ssh_client::{CLIENT_DECLINES, CLIENT_SAYS};

/// Why a host could not be reached, or a program could not be run there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShellError {
    /// No such host name.
    NameUnknown,
    /// The name service failed, perhaps temporarily.
    NameService,
    /// Nothing listens on the port, or a firewall rejects the connection.
    ConnectionRefused,
    /// The connection timed out, before or after it was established.
    TimedOut,
    /// No route to the host.
    NoRoute,
    /// No local port is left to connect from; `rsh` needs one of about 500.
    NoPort,
    /// The server closed the connection before authentication, as it does under load
    /// (`MaxStartups`).
    ClosedBeforeLogin,
    /// Client and server have no algorithm in common.
    NoCommonAlgorithm,
    /// The host's key is unknown or was revoked.
    HostKeyUnknown,
    /// The host's key differs from the known one.
    HostKeyChanged,
    /// Authentication failed, or the account may not log in.
    LoginDenied,
    /// The remote shell needs a port below 1024 and lacks the privilege: it is not set-user-ID
    /// root.
    NoPrivilegedPort,
    /// The connection was closed before the program started, or before the host reported so.
    LoginEnded,
    /// The connection ended after the login.
    ConnectionLost,
    /// The working directory cannot be entered.
    DirectoryNotFound,
    /// The program exists and cannot be executed.
    ProgramNotExecutable,
    /// The program was not found.
    ProgramNotFound,
    /// The program was found, but not its interpreter or dynamic loader.
    InterpreterMissing,
    /// The dynamic loader cannot load this shared library, which the program needs.
    LibraryMissing(String),
    /// The remote shell rejects an option or its configuration.
    BadOptions,
    /// The launching host does not have this remote shell.
    ShellNotFound,
    /// The remote shell failed for a reason that is not known.
    ShellFailed,
}

impl ShellError {
    /// Returns whether another attempt may succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::NameService | Self::ConnectionRefused | Self::TimedOut | Self::NoRoute | Self::NoPort => {
                true
            }
            Self::ClosedBeforeLogin | Self::ConnectionLost | Self::ShellFailed | Self::LoginEnded => true,
            Self::NameUnknown | Self::NoCommonAlgorithm | Self::HostKeyUnknown | Self::HostKeyChanged => {
                false
            }
            Self::LoginDenied
            | Self::DirectoryNotFound
            | Self::ProgramNotExecutable
            | Self::ProgramNotFound => false,
            Self::InterpreterMissing | Self::LibraryMissing(_) => false,
            Self::BadOptions | Self::ShellNotFound | Self::NoPrivilegedPort => false,
        }
    }

    /// Returns whether this is typical of overload, so that fewer launches at a time may help. A
    /// refused connection is not: no server listens on that host, however few launches there are.
    #[must_use]
    pub fn is_overload(&self) -> bool {
        matches!(self, Self::NoPort | Self::ClosedBeforeLogin | Self::ConnectionLost)
    }

    /// Returns whether the remote shell failed, as opposed to the command that it ran.
    #[must_use]
    pub fn is_from_shell(&self) -> bool {
        let is_of_command = matches!(
            self,
            Self::DirectoryNotFound
                | Self::ProgramNotExecutable
                | Self::ProgramNotFound
                | Self::InterpreterMissing
                | Self::LibraryMissing(_)
        );
        !is_of_command
    }
}

impl fmt::Display for ShellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NameUnknown => "unknown host name",
            Self::NameService => "name service failed",
            Self::ConnectionRefused => "connection refused",
            Self::TimedOut => "connection timed out",
            Self::NoRoute => "no route to host",
            Self::NoPort => "no local port left",
            Self::ClosedBeforeLogin => "connection closed before login",
            Self::NoCommonAlgorithm => "no algorithm in common",
            Self::HostKeyUnknown => "unknown host key",
            Self::HostKeyChanged => "host key changed",
            Self::LoginDenied => "login denied",
            Self::NoPrivilegedPort => "no permission to use a port below 1024",
            Self::LoginEnded => "login ended before the program started",
            Self::ConnectionLost => "connection lost",
            Self::DirectoryNotFound => "cannot enter the directory",
            Self::ProgramNotExecutable => "program not executable",
            Self::ProgramNotFound => "program not found",
            Self::InterpreterMissing => "interpreter or dynamic loader of the program not found",
            Self::LibraryMissing(name) => return write!(f, "cannot load shared library {name}"),
            Self::BadOptions => "remote shell rejects an option or its configuration",
            Self::ShellNotFound => "remote shell not found",
            Self::ShellFailed => "remote shell failed",
        })
    }
}

/// Classifies a single line of any remote shell.
pub(crate) fn of_line(line: &str) -> Option<ShellError> {
    of_key(line).or_else(|| ssh_says(line)).or_else(|| rsh_says(line))
}

/// Classifies a line about a host's key. Another line says that verification failed.
fn of_key(line: &str) -> Option<ShellError> {
    let has = |words: &[&str]| words.iter().any(|words| line.contains(words));
    if has(&["has changed and you have", "IDENTIFICATION HAS CHANGED"]) {
        return Some(ShellError::HostKeyChanged);
    }
    has(&["host key is known for", "REVOKED"]).then_some(ShellError::HostKeyUnknown)
}

/// Classifies the output of a failed `ssh`; returns the deciding line as well.
pub(crate) fn of_ssh(printed: &str) -> Option<(ShellError, &str)> {
    let (shell_error, line) = search(printed, ssh_says)?;
    if shell_error != ShellError::HostKeyUnknown {
        return Some((shell_error, line));
    }
    // The last line says that verification failed; one above says why.
    let above = |what: ShellError| {
        lines(printed).find(|line| of_key(line).as_ref() == Some(&what)).map(|line| (what, line))
    };
    above(ShellError::HostKeyChanged)
        .or_else(|| above(ShellError::HostKeyUnknown))
        .or(Some((shell_error, line)))
}

/// Classifies the output of a failed `rsh`, by messages that no program would print.
pub(crate) fn of_rsh(printed: &str) -> Option<(ShellError, &str)> {
    search(printed, rsh_says)
}

/// Classifies what an rshd prints in place of the command's output when it refuses a login.
pub(crate) fn of_rshd(printed: &str) -> Option<(ShellError, &str)> {
    lines(printed).find(|line| is_login_denial(line)).map(|line| (ShellError::LoginDenied, line))
}

/// The last line that `rsh` has not printed itself.
pub(crate) fn before_rsh(printed: &str) -> Option<&str> {
    lines(printed).find(|line| rsh_says(line).is_none() && !line.starts_with("Trying "))
}

/// Returns whether an rshd prints this line in place of a command's output when it refuses a login.
#[must_use]
pub fn is_login_denial(line: &str) -> bool {
    AUTHENTICATION.contains(&line)
}

/// Messages of authentication modules for a refused login.
const AUTHENTICATION: [&str; 7] = [
    "Authentication failure",
    "Permission denied",
    "User not known to the underlying authentication module",
    "User account has expired",
    "Authentication token is no longer valid; new one required",
    "Insufficient credentials to access authentication data",
    "Authentication service cannot retrieve authentication info",
];

/// Returns whether a start failed, for this reason of the operating system, because the remote
/// shell does not exist.
pub(crate) fn is_shell_not_found(why: &str) -> bool {
    let Some((program, reason)) = why.strip_prefix("exec ").unwrap_or(why).split_once(": ") else {
        return false;
    };
    let name = program.rsplit('/').next().unwrap_or_default();
    let missing = reason.starts_with("not found in ") || reason.starts_with("No such file");
    missing && ["ssh", "rsh"].contains(&name)
}

/// The lines that are not blank, the last one first.
pub(crate) fn lines(printed: &str) -> impl Iterator<Item = &str> {
    printed.lines().rev().map(str::trim).filter(|line| !line.is_empty())
}

fn search(printed: &str, says: impl Fn(&str) -> Option<ShellError>) -> Option<(ShellError, &str)> {
    let mut closed = None;
    for line in lines(printed) {
        match says(line) {
            Some(shell_error @ (ShellError::ClosedBeforeLogin | ShellError::ShellFailed)) => {
                closed = closed.or(Some((shell_error, line)));
            }
            Some(shell_error) => return Some((shell_error, line)),
            None => {}
        }
    }
    closed
}

fn ssh_says(line: &str) -> Option<ShellError> {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| line.starts_with(beginning));
    let has = |words: &[&str]| words.iter().any(|words| line.contains(words));
    let reason = line.rsplit(": ").next().unwrap_or_default();
    if begins(&["ssh: Could not resolve hostname "]) {
        return Some(unresolved(reason));
    }
    if begins(&["ssh: connect to host ", "connect: "]) || has(&["open failed: connect failed: "]) {
        return unconnected(reason);
    }
    if begins(&["Connection timed out during "])
        || begins(&["Connection to "]) && line.ends_with(" timed out")
    {
        return Some(ShellError::TimedOut);
    }
    if begins(&["Host key verification failed"]) {
        return Some(ShellError::HostKeyUnknown); // or changed: the lines above say which
    }
    if begins(&["Permission denied (", "Access denied "])
        || has(&[": Permission denied (", "Too many authentication failures"])
    {
        return Some(ShellError::LoginDenied);
    }
    if begins(&["Unable to negotiate with "]) {
        return Some(ShellError::NoCommonAlgorithm);
    }
    let configuration = [
        "Bad configuration option",
        ": terminating, ",
        "Bad owner or permissions on ",
        "Bad SSH2 KexAlgorithms",
        "Unsupported KEX algorithm",
    ];
    let line_of_options =
        ["command-line line 0: ", "command-line: line 0: ", "unknown option -- ", "usage: ssh "];
    if begins(&line_of_options)
        || has(&configuration)
        || begins(&["Can't open user config file", "Cannot execute command-line and remote command"])
    {
        return Some(ShellError::BadOptions);
    }
    if let Some(said) = line.strip_prefix(CLIENT_SAYS) {
        let declined = said.starts_with(CLIENT_DECLINES);
        // Otherwise it has ended, or ssh could not be started in its place.
        return Some(if declined { ShellError::BadOptions } else { ShellError::ConnectionLost });
    }
    let broken =
        ["client_loop: ", "packet_write_", "Read from remote host ", "Write failed: ", "Timeout, server "];
    if begins(&broken)
        || begins(&["ssh_dispatch_run_fatal: ", "Received disconnect from "])
        || begins(&["Connection to "]) && line.contains(" closed by remote host")
    {
        return Some(ShellError::ConnectionLost);
    }
    let closed =
        ["Connection closed by ", "Connection reset by ", "Disconnected from ", "Exceeded MaxStartups"];
    (begins(&closed) || has(&["_exchange_identification: "])).then_some(ShellError::ClosedBeforeLogin)
}

fn rsh_says(line: &str) -> Option<ShellError> {
    let reason = line.rsplit(": ").next().unwrap_or_default();
    if ["poll", "select", "socket"]
        .iter()
        .any(|call| line.starts_with(&format!("{call}: protocol failure in circuit")))
    {
        return Some(ShellError::ClosedBeforeLogin);
    }
    if reason.starts_with("All ports in use") {
        return Some(ShellError::NoPort);
    }
    if line.contains("Could not bind to privileged port") || line.starts_with("rcmd: socket: ") {
        let forbidden = ["Permission denied", "Operation not permitted"].contains(&reason);
        return Some(if forbidden { ShellError::NoPrivilegedPort } else { ShellError::NoPort });
    }
    if line.starts_with("Trying ") {
        return line.contains("... Connection failed: ").then(|| unconnected(reason)).flatten();
    }
    if reason.starts_with("Servname not supported") {
        return Some(ShellError::BadOptions);
    }
    if reason.eq_ignore_ascii_case("unknown host") || line.contains(": unknown host ") {
        return Some(ShellError::NameUnknown);
    }
    if line.contains(": Error looking up host: ") || line.starts_with("rcmd: getaddrinfo: ") {
        return Some(unresolved(reason));
    }
    if line.starts_with("connect to address ") || line.starts_with("connect: ") {
        return unconnected(reason);
    }
    // Without the name of rsh before it, another program could have printed the rest.
    let Some((name, said)) = line.split_once(": ") else { return rshd_says(line) };
    if !["rsh", "rcmd", "rshd", "in.rshd"].contains(&name.rsplit('/').next().unwrap_or_default()) {
        return None;
    }
    if said.starts_with("invalid option -- ") || said.starts_with("unrecognized option ") {
        return Some(ShellError::BadOptions);
    }
    if said.starts_with("Could not make a connection.") {
        return Some(ShellError::ShellFailed); // the lines above may say why
    }
    match unconnected(reason) {
        // Once the login has begun, the message names no system call.
        Some(ShellError::ClosedBeforeLogin) if reason == said => Some(ShellError::ConnectionLost),
        None if said.starts_with("Didn't receive NULL byte from server") => {
            Some(ShellError::ClosedBeforeLogin)
        }
        why => rshd_says(said).or(why),
    }
}

fn rshd_says(words: &str) -> Option<ShellError> {
    ["Permission denied.", "Login incorrect."].contains(&words).then_some(ShellError::LoginDenied)
}

/// Classifies the reason for a failed name resolution.
fn unresolved(reason: &str) -> ShellError {
    const PASSING: [&str; 4] =
        ["Temporary failure in name resolution", "Try again", "System error", "Device or resource busy"];
    if PASSING.contains(&reason) { ShellError::NameService } else { ShellError::NameUnknown }
}

/// Classifies the reason for a failed connection.
fn unconnected(reason: &str) -> Option<ShellError> {
    Some(match reason {
        "Connection refused" => ShellError::ConnectionRefused,
        "Connection timed out" | "Operation timed out" => ShellError::TimedOut,
        // EACCES: a firewall rule on this host forbids the connection.
        "No route to host" | "Host is unreachable" | "Host is down" | "Permission denied" => {
            ShellError::NoRoute
        }
        "Network is unreachable" | "Network unreachable" | "Network is down" => ShellError::NoRoute,
        "Cannot assign requested address" | "Address not available" => ShellError::NoPort,
        "Connection reset by peer" => ShellError::ClosedBeforeLogin,
        "Name or service not known" | "Temporary failure in name resolution" => unresolved(reason),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
