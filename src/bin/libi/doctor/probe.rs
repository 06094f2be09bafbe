//! What is run on a host, and what its lines mean.

use std::net::SocketAddr;

/// How the probe begins to speak. What comes before it is from whatever the shell runs when it starts.
const MARKER: &str = "libi-doctor 1";

/// The probe, in one line that every shell takes for the same word once it is in single quotes.
pub(super) fn script() -> String {
    let lines = include_str!("probe.sh").lines().filter(|line| !line.starts_with('#'));
    lines.collect::<Vec<_>>().join(" ")
}

/// A line of the probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// It runs.
    Marker,
    /// System and release.
    Kernel(String),
    /// Which machine it is made for.
    Machine(String),
    /// How many files a process may have open.
    Files(String),
    /// The shell of the user's login.
    Shell(String),
    /// Its input is a terminal.
    Terminal,
    /// By what it can connect; nothing if it cannot.
    Tool(Option<String>),
    /// It has said what there is to say unasked.
    Ready,
    /// It has heard us.
    Echo(u32),
    /// Its clock, and whether that counts nanoseconds, or seconds only.
    Clock(u32, i128, bool),
    /// What became of the program that was asked for.
    ProgramCheck(ProgramCheck),
    /// Whether a connection was made.
    Dialled(usize, bool),
}

/// Whether a program is there.
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

/// What a line says; nothing if it is not the probe's.
pub(super) fn reply(line: &str) -> Option<Reply> {
    // A terminal would have put something behind it.
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

/// A `date` that knows no nanoseconds leaves the letter, with or without its percent sign.
fn clock(number: u32, time: &str) -> Option<Reply> {
    let digits = time.find(|c: char| !c.is_ascii_digit()).map_or(time, |end| &time[..end]);
    // Nanoseconds are nine digits; seconds alone have ten for a while.
    if digits.len() == time.len() && (16..=25).contains(&digits.len()) {
        return Some(Reply::Clock(number, digits.parse().ok()?, true));
    }
    let seconds: i128 = digits.parse().ok().filter(|_| digits.len() < 16)?;
    Some(Reply::Clock(number, seconds * 1_000_000_000, false))
}

/// As much of a text as is kept, with nothing in it that a terminal would obey.
pub(super) fn kept(text: &str) -> String {
    const MOST: usize = 200;
    let plain = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.trim().chars().take(MOST).map(plain).collect()
}

/// Asks for an echo.
pub(super) fn echo(number: u32) -> String {
    format!("echo {number}\n")
}

/// Asks for the time.
pub(super) fn ask_clock(number: u32) -> String {
    format!("clock {number}\n")
}

/// Asks for a program, whose name has no line break in it.
pub(super) fn ask_program(name: &str) -> String {
    format!("program {name}\n")
}

/// Has a connection made, and a token sent over it.
pub(super) fn dial(number: usize, address: SocketAddr, token: &str) -> String {
    format!("dial {number} {} {} {token}\n", address.ip(), address.port())
}

/// Has it end.
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
