//! The script that is run on a host, and the meaning of its output.

use std::net::SocketAddr;

/// The first line of the probe. Earlier output comes from the shell's start-up files.
const MARKER: &str = "libi-doctor 1";

/// The probe as one line, which every shell reads as the same word once it is in single quotes.
pub(super) fn script() -> String {
    let lines = include_str!("probe.sh").lines().filter(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join(" ")
}

/// A line of the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The probe has started.
    Marker,
    /// System and release.
    Kernel(String),
    /// The machine architecture.
    Machine(String),
    /// The limit of open files of a process.
    Files(String),
    /// The user's login shell.
    Shell(String),
    /// Its standard input is a terminal.
    Terminal,
    /// The tool it can connect with, if any.
    Tool(Option<String>),
    /// The description is complete; the probe waits for commands.
    Ready,
    /// The answer to an echo request.
    Echo(u32),
    /// The answer to a clock request: number, nanoseconds, and whether the clock counts
    /// nanoseconds.
    Clock(u32, i128, bool),
    /// The answer to a program request.
    ProgramCheck(ProgramCheck),
    /// Whether a connection to an address was made.
    Dialled(usize, bool),
}

/// Whether a program exists and is executable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ProgramCheck {
    Executable,
    NotExecutable,
    Missing,
}

impl ProgramCheck {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::NotExecutable => "not-executable",
            Self::Missing => "missing",
        }
    }
}

/// Parses a line; `None` if it is not from the probe.
pub(super) fn reply(line: &str) -> Option<Reply> {
    // A terminal adds a carriage return.
    let line = line.trim_end_matches('\r');
    if line == MARKER {
        return Some(Reply::Marker);
    }
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    let text = || kept(rest);
    Some(match what {
        "kernel" => Reply::Kernel(text()),
        "machine" => Reply::Machine(text()),
        "files" => Reply::Files(text()),
        "shell" => Reply::Shell(text()),
        "terminal" if rest.is_empty() => Reply::Terminal,
        "tool" => Reply::Tool(Some(text()).filter(|tool| tool != "none")),
        "ready" if rest.is_empty() => Reply::Ready,
        "echo" => Reply::Echo(rest.parse().ok()?),
        "clock" => {
            let (number, time) = rest.split_once(' ')?;
            clock(number.parse().ok()?, time)?
        }
        "program" => Reply::ProgramCheck(match rest {
            "yes" => ProgramCheck::Executable,
            "no" => ProgramCheck::NotExecutable,
            "missing" => ProgramCheck::Missing,
            _ => return None,
        }),
        "dialled" => {
            let (number, how) = rest.split_once(' ')?;
            Reply::Dialled(number.parse().ok()?, how == "yes")
        }
        _ => return None,
    })
}

/// A `date` without nanoseconds prints the letter N, with or without its percent sign.
fn clock(number: u32, time: &str) -> Option<Reply> {
    let digits = time.find(|c: char| !c.is_ascii_digit()).map_or(time, |end| &time[..end]);
    // Nanoseconds add nine digits to the ten of the seconds.
    if digits.len() == time.len() && (16..=25).contains(&digits.len()) {
        return Some(Reply::Clock(number, digits.parse().ok()?, true));
    }
    let seconds: i128 = digits.parse().ok().filter(|_| digits.len() < 16)?;
    Some(Reply::Clock(number, seconds * 1_000_000_000, false))
}

/// Shortens a text and replaces control characters, which a terminal would obey.
pub(super) fn kept(text: &str) -> String {
    const MOST: usize = 200;
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.trim().chars().take(MOST).map(plain).collect()
}

/// Requests an echo.
pub(super) fn echo(number: u32) -> String {
    format!("echo {number}\n")
}

/// Requests the time.
pub(super) fn ask_clock(number: u32) -> String {
    format!("clock {number}\n")
}

/// Requests a check of a program. The name must not contain a line break.
pub(super) fn ask_program(name: &str) -> String {
    format!("program {name}\n")
}

/// Requests a connection to an address and a token sent over it.
pub(super) fn dial(number: usize, address: SocketAddr, token: &str) -> String {
    format!("dial {number} {} {} {token}\n", address.ip(), address.port())
}

/// Requests to wait for all connections that were requested.
pub(super) const WAIT: &str = "wait\n";

/// Requests the end of the probe.
pub(super) const END: &str = "end\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_word_in_every_shell() {
        let script = script();
        assert!(script.contains("echo libi-doctor 1"));
        for c in ['\'', '\\', '!', '\n'] {
            assert!(!script.contains(c), "{c:?}");
        }
    }

    #[test]
    fn replies_are_read_and_other_lines_are_not() {
        assert_eq!(reply("libi-doctor 1\r"), Some(Reply::Marker));
        assert_eq!(reply("kernel Linux 6.1.0 "), Some(Reply::Kernel("Linux 6.1.0".to_owned())));
        assert_eq!(reply("tool none"), Some(Reply::Tool(None)));
        assert_eq!(reply("dialled 3 yes"), Some(Reply::Dialled(3, true)));
        assert_eq!(reply("shell \u{1b}[2J"), Some(Reply::Shell("\u{fffd}[2J".to_owned())));
        for noise in ["", "Welcome!", "echo", "echo -1", "dialled x no", "libi-doctor 1 x", "ready set go"] {
            assert_eq!(reply(noise), None, "{noise}");
        }
    }

    #[test]
    fn a_clock_without_nanoseconds_is_one_of_seconds() {
        let time = 1_795_301_756_358_895_187;
        assert_eq!(reply("clock 2 1795301756358895187"), Some(Reply::Clock(2, time, true)));
        let whole = Some(Reply::Clock(0, 1_795_301_756_000_000_000, false));
        for seconds in ["1795301756N", "1795301756%N", "1795301756"] {
            assert_eq!(reply(&format!("clock 0 {seconds}")), whole);
        }
        for wrong in ["clock 0", "clock 0 ", "clock 0 N", "clock 0 17953017563588951871795301756358895187"] {
            assert_eq!(reply(wrong), None, "{wrong}");
        }
    }
}
