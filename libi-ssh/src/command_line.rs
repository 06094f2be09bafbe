//! Decides which command lines of `ssh` are understood: those that libi itself writes.
//!
//! `-T`, `-l USER`, `-p PORT`, `-F FILE` and `-o OPTION`, each an argument of its own, then the host
//! and exactly one argument with the command. Everything before the host is kept as it is, so that
//! `ssh -G` can be asked with the same options. Anything else is declined.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::settings::Jump;

/// A longer host name exists in no resolver (RFC 1035), and no address is longer.
const MAX_HOST: usize = 255;

/// The command line of one start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// Everything before the host, verbatim.
    pub(crate) options: Vec<OsString>,
    pub(crate) host: String,
    pub(crate) command: Vec<u8>,
}

/// Why a command line is declined. Completes "goes through ssh because …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotUnderstood {
    /// An option that libi does not write.
    Option(OsString),
    /// The option is the last argument.
    NoValue(&'static str),
    NoHost,
    /// A name with a user, a scheme, or bytes that no host name has.
    Host(OsString),
    NoCommand,
    /// More arguments than one follow the host.
    ManyCommands,
}

impl fmt::Display for NotUnderstood {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Option(option) => write!(f, "the argument {option:?} is not known"),
            Self::NoValue(option) => write!(f, "`{option}` has no value"),
            Self::NoHost => f.write_str("no host is named"),
            Self::Host(host) => write!(f, "{host:?} is not a plain host name"),
            Self::NoCommand => f.write_str("there is no command"),
            Self::ManyCommands => f.write_str("the command has more than one argument"),
        }
    }
}

impl CommandLine {
    /// Reads the arguments, without the name of the program.
    pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, NotUnderstood> {
        let mut rest = arguments.into_iter();
        let mut options = Vec::new();
        let host = loop {
            let argument = rest.next().ok_or(NotUnderstood::NoHost)?;
            let with_value = match argument.as_bytes() {
                b"-T" => None,
                b"-l" => Some("-l"),
                b"-p" => Some("-p"),
                b"-F" => Some("-F"),
                b"-o" => Some("-o"),
                [b'-', ..] => return Err(NotUnderstood::Option(argument)),
                _ => break argument,
            };
            options.push(argument);
            if let Some(name) = with_value {
                options.push(rest.next().ok_or(NotUnderstood::NoValue(name))?);
            }
        };
        let host = match host.into_string() {
            Ok(host) if is_host(&host) => host,
            Ok(host) => return Err(NotUnderstood::Host(host.into())),
            Err(host) => return Err(NotUnderstood::Host(host)),
        };
        let command = rest.next().ok_or(NotUnderstood::NoCommand)?;
        if rest.next().is_some() {
            return Err(NotUnderstood::ManyCommands);
        }
        if command.is_empty() {
            return Err(NotUnderstood::NoCommand);
        }
        Ok(Self { options, host, command: command.as_bytes().to_vec() })
    }

    /// The configuration file that is used instead of the default ones (`-F`). `ssh` takes the last.
    pub(crate) fn config(options: &[OsString]) -> Option<&Path> {
        values(options, "-F").last().map(Path::new)
    }

    /// The values of `-o`.
    pub(crate) fn settings(options: &[OsString]) -> impl Iterator<Item = &OsStr> {
        values(options, "-o")
    }

    /// The options that `ssh` hands on to the `ssh` that it starts for a jump host: the configuration
    /// file, what the jump names, the jumps before it, and nothing else. The first jump has a
    /// `ProxyJump` of its own configuration; to the others, those before them are given.
    pub(crate) fn options_of_jump(options: &[OsString], jump: &Jump, earlier: &[Jump]) -> Vec<OsString> {
        let config = Self::config(options).map(|file| file.as_os_str().to_owned());
        let user = jump.user.as_deref().map(OsString::from);
        let port = jump.port.map(|port| OsString::from(port.to_string()));
        let earlier: Vec<String> = earlier.iter().map(Jump::to_string).collect();
        let earlier = (!earlier.is_empty()).then(|| OsString::from(earlier.join(",")));
        [("-F", config), ("-l", user), ("-p", port), ("-J", earlier)]
            .into_iter()
            .filter_map(|(option, value)| Some([OsString::from(option), value?]))
            .flatten()
            .collect()
    }
}

/// Values of one option among options that [`CommandLine::parse`] has accepted.
fn values<'a>(options: &'a [OsString], wanted: &'static str) -> impl Iterator<Item = &'a OsStr> {
    let mut rest = options.iter();
    std::iter::from_fn(move || {
        loop {
            let option = rest.next()?;
            if option == "-T" {
                continue;
            }
            let value = rest.next()?;
            if option == wanted {
                return Some(value.as_os_str());
            }
        }
    })
}

/// Whether `ssh` takes the argument as a host name and nothing else: no `user@`, no `ssh://`, and no
/// byte that a shell, a token or a file of known hosts would read as something else.
fn is_host(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= MAX_HOST
        && !host.starts_with('-')
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:%".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(arguments: &[&str]) -> Result<CommandLine, NotUnderstood> {
        CommandLine::parse(arguments.iter().map(OsString::from))
    }

    #[test]
    fn what_libi_writes_is_understood() {
        let line =
            parse(&["-T", "-l", "me", "-p", "22", "-F", "f", "-o", "A=b", "-o", "C=d", "node1", "a b"])
                .unwrap();
        assert_eq!(line.host, "node1");
        assert_eq!(line.command, b"a b");
        assert_eq!(line.options.len(), 11);
        assert_eq!(CommandLine::config(&line.options), Some(Path::new("f")));
        assert_eq!(CommandLine::settings(&line.options).collect::<Vec<_>>(), ["A=b", "C=d"]);
        let jump = Jump { user: Some("you".into()), host: "::1".into(), port: Some(23) };
        let options = CommandLine::options_of_jump(&line.options, &jump, std::slice::from_ref(&jump));
        assert_eq!(options, ["-F", "f", "-l", "you", "-p", "23", "-J", "you@[::1]:23"]);
    }

    #[test]
    fn a_value_is_not_taken_for_an_option() {
        let line = parse(&["-l", "-T", "-o", "-F", "h", "c"]).unwrap();
        assert_eq!(CommandLine::config(&line.options), None);
        assert_eq!(CommandLine::settings(&line.options).collect::<Vec<_>>(), ["-F"]);
    }

    #[test]
    fn anything_else_is_declined() {
        assert_eq!(parse(&["-A", "h", "c"]), Err(NotUnderstood::Option("-A".into())));
        assert_eq!(parse(&["-lme", "h", "c"]), Err(NotUnderstood::Option("-lme".into())));
        assert_eq!(parse(&["--", "h", "c"]), Err(NotUnderstood::Option("--".into())));
        assert_eq!(parse(&["-T", "-o"]), Err(NotUnderstood::NoValue("-o")));
        assert_eq!(parse(&["-T"]), Err(NotUnderstood::NoHost));
        assert_eq!(parse(&["h"]), Err(NotUnderstood::NoCommand));
        assert_eq!(parse(&["h", "a", "b"]), Err(NotUnderstood::ManyCommands));
        for host in ["me@h", "ssh://h", "", "a b", "h\u{e9}", "a,b", "*"] {
            assert_eq!(parse(&[host, "c"]), Err(NotUnderstood::Host(host.into())));
        }
    }

    proptest! {
        #[test]
        fn no_arguments_panic(arguments in prop::collection::vec("-[TlpFoA]|[a-z]{0,3}|\\PC{0,4}", 0..8)) {
            let _ = CommandLine::parse(arguments.into_iter().map(OsString::from));
        }
    }
}
