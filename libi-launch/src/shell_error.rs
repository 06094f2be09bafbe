//! Decides what a remote shell, or the command that it was to run, has failed at: read off its status and its last words.
//!
//! `ssh` says 255 for everything that it fails at itself, and says what it was on its standard error; a
//! [command](crate::quote) says 125, 126 or 127 for what keeps it from its program. `rsh` says 1 for itself, and
//! nothing of the command, whose status comes [another way](crate::exit_trailer); that of Debian says 0 when its server has
//! let nobody in, and the server says why where the command would have. [`Failure::shell_error`](crate::failure::Failure::shell_error)
//! puts status and words together.
//!
//! The words are those of OpenSSH and, where they cannot be a program's, of the rsh programs there are, in English.
//! OpenSSH translates nothing, in whatever locale it runs; nor do the rsh of Debian and the C library's `rcmd` under a
//! program that sets no locale. So no locale is set for them: it would be sent on to the host by configurations with `SendEnv LC_*`,
//! as Debian's is. What another shell says in another language is [`ShellError::ShellFailed`] with its words as evidence.
//! With `LogLevel QUIET` in a configuration, ssh says nothing, and that is what is known then.
//!
//! Words are looked for from the last line upwards. That somebody hung up, or nobody was reached, counts only if nothing else was
//! said: where a proxy or a jump host fails, ssh ends with that, and the reason stands above.

use std::fmt;

/// What has kept a host from being reached, or a program from being run there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ShellError {
    /// There is no such name.
    NameUnknown,
    /// The name service did not answer.
    NameService,
    /// Nothing listens on the port, or a firewall says so.
    ConnectionRefused,
    /// There was no answer for too long, to a connection or on it.
    TimedOut,
    /// There is no way there.
    NoRoute,
    /// This side has no port left to connect from; `rsh` needs one of about 500.
    NoPort,
    /// The server has closed the connection before it let anybody in, as one does that has too many (`MaxStartups`).
    ClosedBeforeLogin,
    /// The two sides have no algorithm in common.
    NoCommonAlgorithm,
    /// Nobody has said which key the host has, or it is one that was withdrawn from trust.
    HostKeyUnknown,
    /// The host has another key than it had.
    HostKeyChanged,
    /// We were not let in.
    LoginDenied,
    /// The remote shell needs a port below 1024, and may not have one: it is not set-user-ID root.
    NoPrivilegedPort,
    /// Somebody was called, and hung up without having begun the program, or without having said so.
    LoginEnded,
    /// The connection ended after we had been let in.
    ConnectionLost,
    /// The directory cannot be entered.
    DirectoryNotFound,
    /// The program was found, and cannot be executed.
    ProgramNotExecutable,
    /// The program was not found.
    ProgramNotFound,
    /// The remote shell does not know an option, or refuses its configuration.
    BadOptions,
    /// There is no such remote shell where the launch was made.
    ShellNotFound,
    /// The remote shell has failed, and has not said at what, or not in words that are known.
    ShellFailed,
}

impl ShellError {
    /// Whether another attempt may go better.
    #[must_use]
    pub fn is_retryable(self) -> bool {
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
            Self::BadOptions | Self::ShellNotFound | Self::NoPrivilegedPort => false,
        }
    }

    /// Whether it is what somebody does who was asked for too much at once, so that fewer launches at a time may help.
    #[must_use]
    pub fn is_overload(self) -> bool {
        matches!(
            self,
            Self::ConnectionRefused | Self::NoPort | Self::ClosedBeforeLogin | Self::ConnectionLost
        )
    }

    /// Whether it is the remote shell that says so by its status, and not the command.
    #[must_use]
    pub fn is_from_shell(self) -> bool {
        !matches!(self, Self::DirectoryNotFound | Self::ProgramNotExecutable | Self::ProgramNotFound)
    }
}

impl fmt::Display for ShellError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NameUnknown => "the name is not known",
            Self::NameService => "the name service did not answer",
            Self::ConnectionRefused => "the connection was refused",
            Self::TimedOut => "the connection timed out",
            Self::NoRoute => "there is no way to the host",
            Self::NoPort => "there was no port left to connect from",
            Self::ClosedBeforeLogin => "the server hung up before letting anybody in",
            Self::NoCommonAlgorithm => "the two sides have no algorithm in common",
            Self::HostKeyUnknown => "the host's key is not known",
            Self::HostKeyChanged => "the host's key has changed",
            Self::LoginDenied => "the login was refused",
            Self::NoPrivilegedPort => "the remote shell may not use a port below 1024",
            Self::LoginEnded => "the login ended before the program had begun",
            Self::ConnectionLost => "the connection broke",
            Self::DirectoryNotFound => "the directory cannot be entered",
            Self::ProgramNotExecutable => "the program cannot be executed",
            Self::ProgramNotFound => "the program was not found",
            Self::BadOptions => "the remote shell refuses an option or its configuration",
            Self::ShellNotFound => "there is no remote shell to start",
            Self::ShellFailed => "the remote shell failed",
        })
    }
}

/// What a remote shell has failed at by one line alone, whichever it is.
pub(crate) fn of_line(line: &str) -> Option<ShellError> {
    of_key(line).or_else(|| ssh_says(line)).or_else(|| rsh_says(line))
}

/// What is wrong with the key of a host. That it was not verified is said in another line.
fn of_key(line: &str) -> Option<ShellError> {
    let has = |words: &[&str]| words.iter().any(|words| line.contains(words));
    if has(&["has changed and you have", "IDENTIFICATION HAS CHANGED"]) {
        return Some(ShellError::HostKeyChanged);
    }
    has(&["host key is known for", "REVOKED"]).then_some(ShellError::HostKeyUnknown)
}

/// What ssh has failed at by what it has printed, and the line that says so.
pub(crate) fn of_ssh(printed: &str) -> Option<(ShellError, &str)> {
    let (shell_error, line) = search(printed, ssh_says)?;
    if shell_error != ShellError::HostKeyUnknown {
        return Some((shell_error, line));
    }
    // The last line says that the key was not verified; one above says why.
    let above = |what| lines(printed).find(|line| of_key(line) == Some(what)).map(|line| (what, line));
    above(ShellError::HostKeyChanged)
        .or_else(|| above(ShellError::HostKeyUnknown))
        .or(Some((shell_error, line)))
}

/// What rsh has failed at, if no program would have said it like this.
pub(crate) fn of_rsh(printed: &str) -> Option<(ShellError, &str)> {
    search(printed, rsh_says)
}

/// What an rshd has failed at that says so where a program would have printed, instead of starting one.
pub(crate) fn of_rshd(printed: &str) -> Option<(ShellError, &str)> {
    lines(printed).find(|line| is_login_denial(line)).map(|line| (ShellError::LoginDenied, line))
}

/// The last line that rsh has not said itself.
pub(crate) fn before_rsh(printed: &str) -> Option<&str> {
    lines(printed).find(|line| rsh_says(line).is_none() && !line.starts_with("Trying "))
}

/// Whether an rshd says this line in the place of a command's output when it lets nobody in.
#[must_use]
pub fn is_login_denial(line: &str) -> bool {
    AUTHENTICATION.contains(&line)
}

/// What authentication modules say of whom they do not let in.
const AUTHENTICATION: [&str; 7] = [
    "Authentication failure",
    "Permission denied",
    "User not known to the underlying authentication module",
    "User account has expired",
    "Authentication token is no longer valid; new one required",
    "Insufficient credentials to access authentication data",
    "Authentication service cannot retrieve authentication info",
];

/// Whether a start that has failed for this reason, as the operating system has it, was that of a remote shell that is not there.
pub(crate) fn is_shell_not_found(why: &str) -> bool {
    let Some((program, reason)) = why.strip_prefix("exec ").unwrap_or(why).split_once(": ") else {
        return false;
    };
    let name = program.rsplit('/').next().unwrap_or_default();
    let missing = reason.starts_with("not found in ") || reason.starts_with("No such file");
    missing && ["ssh", "rsh"].contains(&name)
}

/// The lines that say something, the last first.
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
    // The rest could be anybody's without the name of rsh before it.
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
        // Where the server had begun, no call is named.
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

/// A name that has no address, for this reason.
fn unresolved(reason: &str) -> ShellError {
    const PASSING: [&str; 4] =
        ["Temporary failure in name resolution", "Try again", "System error", "Device or resource busy"];
    if PASSING.contains(&reason) { ShellError::NameService } else { ShellError::NameUnknown }
}

/// A connection that was not made, for this reason.
fn unconnected(reason: &str) -> Option<ShellError> {
    Some(match reason {
        "Connection refused" => ShellError::ConnectionRefused,
        "Connection timed out" | "Operation timed out" => ShellError::TimedOut,
        // Where a rule forbids it, the kernel denies permission.
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
