//! Sessions that outlive their front end.

use std::path::PathBuf;
use std::time::Duration;

/// The last argument of a process that is to keep a session.
pub const KEEPER_ARG: &str = "--libi-keeper";

/// Has a session go on when its front end ends, in whichever way, and accept another one, that finds it
/// by a ticket file: `FrontEnd::attach`.
///
/// A process of its own launches the session and keeps it, the *keeper*, which is started on this machine.
/// It ends the session when there has been no front end for the time `limit`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Detached {
    /// Where the ticket file is written, for its owner alone. It has a secret with which a front end
    /// proves that it may have the session, and is removed when the session is over. A file of a session
    /// that is kept no more is replaced.
    pub ticket: PathBuf,
    /// How long the session goes on without a front end. It is then ended as by
    /// `Session::terminate`.
    pub limit: Duration,
    /// The program that keeps the session, which calls `libi::agent::serve_if_asked` as the program `libi`
    /// does. By default it is the program of this process, if it has called that.
    pub program: Option<PathBuf>,
    /// Whether a front end on another machine may have the session. By default the keeper listens on the
    /// loopback address alone.
    pub reachable: bool,
}

impl Detached {
    /// A session that goes on for this time without a front end, and has this ticket file.
    #[must_use]
    pub fn new(ticket: impl Into<PathBuf>, limit: Duration) -> Self {
        Self { ticket: ticket.into(), limit, program: None, reachable: false }
    }

    /// Sets the [program](field@Self::program).
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Sets whether it is [reachable](field@Self::reachable).
    #[must_use]
    pub fn reachable(mut self, reachable: bool) -> Self {
        self.reachable = reachable;
        self
    }
}
