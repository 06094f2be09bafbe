//! What a line of `libi shell` means.
//!
//! | line | meaning |
//! |---|---|
//! | empty, or begins with `#` | nothing |
//! | `exit`, `exit N` | the session ends, with this exit status |
//! | `@hosts` | the hosts that are left are printed |
//! | `@LIST command` | the command is run on the hosts of a host list |
//! | anything else | a command for all hosts that are left |

use libi::HostList;

use crate::launch::parse_hosts;
use crate::output::CliError;

/// A line that was understood.
#[derive(Debug)]
pub(super) enum Line<'a> {
    Nothing,
    Exit(Option<u8>),
    Hosts,
    Run(Option<HostList>, &'a str),
}

impl<'a> Line<'a> {
    /// Reads a line.
    pub(super) fn parse(line: &'a str) -> Result<Self, CliError> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim_start();
        Ok(match (word, word.strip_prefix('@')) {
            ("", _) => Self::Nothing,
            _ if word.starts_with('#') => Self::Nothing,
            ("exit", _) if rest.is_empty() => Self::Exit(None),
            ("exit", _) => match rest.parse() {
                Ok(status) => Self::Exit(Some(status)),
                Err(_) => return Err(CliError::Usage(format!("exit {rest}: a status is 0 to 255"))),
            },
            ("@hosts", _) if rest.is_empty() => Self::Hosts,
            (_, Some(list)) if rest.is_empty() => {
                return Err(CliError::Usage(format!("@{list}: a command is missing behind the hosts")));
            }
            (_, Some(list)) => Self::Run(Some(parse_hosts(list)?), rest),
            (_, None) => Self::Run(None, line),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(line: &str) -> String {
        match Line::parse(line) {
            Ok(Line::Nothing) => "nothing".to_owned(),
            Ok(Line::Exit(status)) => format!("exit {status:?}"),
            Ok(Line::Hosts) => "hosts".to_owned(),
            Ok(Line::Run(None, command)) => format!("all: {command}"),
            Ok(Line::Run(Some(hosts), command)) => format!("{}: {command}", hosts.fold()),
            Err(_) => "wrong".to_owned(),
        }
    }

    #[test]
    fn a_line_is_a_command_or_one_of_few_words() {
        for (line, expected) in [
            ("", "nothing"),
            ("  # uname", "nothing"),
            ("uname -r\n", "all: uname -r"),
            ("exit", "exit None"),
            ("exit 3", "exit Some(3)"),
            ("exit 300", "wrong"),
            ("exiting", "all: exiting"),
            ("@hosts", "hosts"),
            ("@n[1-3]  echo  '@x'", "n[1-3]: echo  '@x'"),
            ("@n[1-3]", "wrong"),
            ("@n[1- uptime", "wrong"),
            ("echo @hosts", "all: echo @hosts"),
        ] {
            assert_eq!(described(line), expected, "{line}");
        }
    }
}
