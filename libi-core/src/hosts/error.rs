//! The errors of host lists, and their display.
//!
//! Every error refers to one character, so that a person finds the mistake in a list of ten
//! thousand hosts; [`HostListError::excerpt`] draws the caret.

use alloc::string::String;
use core::fmt;

use super::{MAX_DEPTH, MAX_HOSTS, MAX_NAME, MAX_TEXT};

/// A host list that cannot be parsed, with the position of the mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostListError {
    /// The kind of text that was parsed.
    pub text: InputKind,
    /// The line, from 1. Always 1 except in a [`InputKind::File`].
    pub line: usize,
    /// The column, from 1, counted in characters. In a [`InputKind::File`] it counts from the start
    /// of the line, otherwise from the start of the text, line ends included.
    pub column: usize,
    /// The mistake.
    pub kind: HostListErrorKind,
}

/// The kinds of text that this module parses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InputKind {
    /// A host list as written on a command line or in an environment variable.
    List,
    /// A file of hosts, one or more on a line.
    File,
    /// Slurm's tasks per node, such as `2(x3),1`.
    TaskCounts,
}

/// The kinds of mistakes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostListErrorKind {
    /// A character that is not allowed at this position.
    #[error("{0:?} is not allowed here")]
    UnexpectedCharacter(char),
    /// White space between `[` and `]`.
    #[error("white space inside brackets; is a `]` missing before it?")]
    WhiteSpaceInBrackets,
    /// A host or user name that begins with `-`.
    #[error("a name may not begin with `-`: a remote shell would take it for an option")]
    LeadingDash,
    /// A host name is missing.
    #[error("a host name is missing here")]
    MissingHost,
    /// A user name is missing before the `@`.
    #[error("a user name is missing before the `@`")]
    MissingUser,
    /// A `[` that is never closed.
    #[error("this `[` is never closed")]
    UnclosedBracket,
    /// A `]` without a `[`.
    #[error("this `]` has no matching `[`")]
    StrayBracket,
    /// An empty alternative in brackets.
    #[error("between `[`, `,` and `]` there must be a number, a range or a word")]
    EmptyAlternative,
    /// An alternative that begins with a bracket.
    #[error("a nested `[` must follow a number, a range or a word")]
    BareNestedBracket,
    /// Brackets in brackets beyond [`MAX_DEPTH`].
    #[error("brackets are nested more than {MAX_DEPTH} deep")]
    NestedTooDeep,
    /// A range whose ends are in the wrong order.
    #[error("the range {from}-{to} runs backwards; write it in ascending order")]
    RangeBackwards {
        /// The first number as written, without padding.
        from: u64,
        /// The second number as written, without padding.
        to: u64,
    },
    /// A range whose padded upper end is not as wide as its lower end.
    #[error("the ends of a zero-padded range must be equally wide")]
    RangePadding,
    /// `a-c` or `1-x` in brackets.
    #[error("only numbers make a range; write the names out, as in [a,b,c]")]
    NotARange,
    /// Characters directly behind a range.
    #[error("a range may only be followed by `,`, `]` or `[`")]
    RangeTail,
    /// A number in a range that does not fit 64 bits, or is written with more than 20 digits.
    #[error("this number is too large for a range")]
    NumberTooLarge,
    /// A count or port without digits.
    #[error("a number is missing here")]
    MissingNumber,
    /// A count of 0.
    #[error("a count must be at least 1")]
    ZeroCount,
    /// A count beyond 32 bits.
    #[error("a count must be at most {}", u32::MAX)]
    CountTooLarge,
    /// A port outside 1 to 65535.
    #[error("a port is a number from 1 to 65535")]
    BadPort,
    /// Text that looks like an IPv6 address but is not one.
    #[error("this is not an IPv6 address")]
    BadAddress,
    /// `:n` after an IPv6 address without brackets.
    #[error("after an IPv6 address without brackets only `*count` may follow; write [address]:count")]
    BareAddressSuffix,
    /// A name longer than [`MAX_NAME`].
    #[error("a name is longer than {MAX_NAME} bytes")]
    NameTooLong,
    /// More than [`MAX_HOSTS`] hosts.
    #[error("the list has more than {MAX_HOSTS} hosts from here on")]
    TooManyHosts,
    /// More than [`MAX_TEXT`] bytes of names, or a text too long to be read at all.
    #[error("the host names take more than {MAX_TEXT} bytes from here on")]
    TextTooLong,
    /// An unknown setting in a host file.
    #[error("unknown setting `{0}`")]
    UnknownSetting(String),
    /// A setting that a host file gives twice for a host.
    #[error("`{0}` is set twice for this host")]
    DuplicateSetting(String),
    /// `key=` without a value.
    #[error("`{0}` has no value")]
    MissingValue(String),
    /// `key=value` on a line before any host.
    #[error("`{0}` must follow a host on the same line")]
    SettingWithoutHost(String),
    /// Extra text on a line.
    #[error("unexpected text at the end of this line")]
    TrailingText,
    /// A line or pair that ends before its number of slots.
    #[error("the number of slots is missing")]
    MissingSlots,
    /// A user, port, count or IPv6 address in place of a plain host name.
    #[error("a plain host name was expected here")]
    PlainNameExpected,
    /// Slurm's node list and task counts differ in length.
    #[error("the node list has {hosts} hosts, the task counts are for {counts}")]
    TaskMismatch {
        /// The number of hosts in the node list.
        hosts: usize,
        /// The number of hosts in the task counts.
        counts: u64,
    },
}

/// A mistake and the byte offset of it, before lines and columns are counted.
#[derive(Debug)]
pub(super) struct ListFault {
    pub(super) at: usize,
    pub(super) kind: HostListErrorKind,
}

impl ListFault {
    pub(super) fn new(at: usize, kind: HostListErrorKind) -> Self {
        ListFault { at, kind }
    }

    /// Computes line and column. Takes linear time, once, because an error ends the parsing.
    pub(super) fn locate(self, text: InputKind, input: &str) -> HostListError {
        let before = &input.as_bytes()[..self.at.min(input.len())];
        let (line, from) = match text {
            InputKind::File => {
                let from = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
                (before.iter().filter(|&&byte| byte == b'\n').count() + 1, from)
            }
            InputKind::List | InputKind::TaskCounts => (1, 0),
        };
        // Continuation bytes of UTF-8 begin with the bits 10; they are not counted.
        let column = before[from..].iter().filter(|&&byte| byte & 0xC0 != 0x80).count() + 1;
        HostListError { text, line, column, kind: self.kind }
    }
}

impl fmt::Display for HostListError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostListError { text, line, column, kind } = self;
        match text {
            InputKind::List => write!(f, "host list, column {column}: {kind}"),
            InputKind::File => write!(f, "host file, line {line}, column {column}: {kind}"),
            InputKind::TaskCounts => write!(f, "tasks per node, column {column}: {kind}"),
        }
    }
}

impl core::error::Error for HostListError {}

impl HostListError {
    /// Two lines for display: the text around the mistake and a caret under it.
    ///
    /// `input` is the parsed text. A long line is shortened on both sides, marked by `…`.
    pub fn excerpt(&self, input: &str) -> String {
        const BEFORE: usize = 50;
        const AFTER: usize = 25;
        let line = match self.text {
            InputKind::File => input.split('\n').nth(self.line.saturating_sub(1)).unwrap_or(""),
            InputKind::List | InputKind::TaskCounts => input,
        };
        let caret = self.column.saturating_sub(1);
        let skipped = caret.saturating_sub(BEFORE);
        let mut rest = line.trim_end().chars().skip(skipped);
        let mut shown = String::new();
        if skipped > 0 {
            shown.push('…');
        }
        // Tabs and the like would move the caret away from its character.
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        shown.extend(rest.by_ref().take(caret - skipped + AFTER).map(visible));
        if rest.next().is_some() {
            shown.push('…');
        }
        shown.push('\n');
        let indent = caret - skipped + usize::from(skipped > 0);
        shown.extend(core::iter::repeat_n(' ', indent));
        shown.push('^');
        shown
    }
}
