//! What becomes of a started program, and which failures that explains.

use libi_launch::failure::{Cause, Exit, Failure};

/// The fate of a started program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It joins, perhaps after a banner, and with a link that breaks after this many bytes.
    Joins { banner: bool, cut: Option<usize> },
    /// The operating system refuses to start it.
    NotStarted,
    /// Its launcher has no resources for it.
    OutOfResources,
    /// The connection of the remote shell is refused.
    Refused,
    /// The login is denied.
    Denied,
    /// The program does not exist on the host.
    NotFound,
    /// It ends without joining.
    ExitsEarly,
    /// A signal ends it before it joins.
    Crashes,
    /// It hangs without a sign of life.
    Hangs,
    /// It prints a banner and hangs.
    HangsWithBanner,
    /// It sends a preamble and then noise.
    Garbage,
    /// It echoes what it is sent.
    Echoes,
    /// It answers a foreign ticket.
    Stale,
    /// It closes its link, and does not end by itself.
    ClosesOnly,
    /// It ends, but a process that it has started keeps its link open.
    ExitsOpen,
}

impl Fate {
    /// Whether this fate of the last attempt explains a host's failure.
    pub(crate) fn explains(self, failure: &Failure) -> bool {
        let cause = &failure.cause;
        match self {
            Self::NotStarted => matches!(cause, Cause::NotStarted(_)),
            Self::OutOfResources => matches!(cause, Cause::OutOfResources(_)),
            Self::Refused => *cause == Cause::Exited(Exit::Code(255)) && failure.tail.contains("refused"),
            Self::Denied => *cause == Cause::Exited(Exit::Code(255)) && failure.tail.contains("denied"),
            Self::NotFound => *cause == Cause::Exited(Exit::Code(127)) && failure.tail.contains("not found"),
            Self::ExitsEarly => *cause == Cause::Exited(Exit::Code(0)) && failure.tail.contains("usage"),
            Self::Crashes => *cause == Cause::Exited(Exit::Signal(11)),
            Self::Hangs => *cause == Cause::TimedOut && failure.tail.is_empty(),
            Self::HangsWithBanner => *cause == Cause::TimedOut && failure.tail.contains("Welcome"),
            Self::Garbage | Self::Echoes => matches!(cause, Cause::Protocol(_)),
            Self::Stale => *cause == Cause::WrongTicket,
            Self::ClosesOnly => *cause == Cause::Closed,
            Self::ExitsOpen => *cause == Cause::Exited(Exit::Code(3)),
            // A member of the host, or the link, has failed.
            Self::Joins { .. } => true,
        }
    }

    /// Whether the program joins, if only until its link breaks.
    pub(crate) fn joins(self) -> bool {
        matches!(self, Self::Joins { .. })
    }
}
