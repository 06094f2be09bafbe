//! Sessions that outlive their front end.

use std::path::PathBuf;
use std::time::Duration;

/// The last argument of a process that is to keep a session.
pub const KEEPER_ARG: &str = "--libi-keeper";

/// Has a session go on when its front end ends, in whichever way, and accept another one, that finds it
/// by a ticket file: `FrontEnd::attach`.
///
/// A process of its own launches the session and keeps it, the *keeper*. It runs on this machine, or on
/// another [host](field@Self::host). It ends the session when there has been no front end for the time `limit`.
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
    /// The host that the keeper runs on, as `user@name:port`, through the back-end of the launch, which has
    /// to start one process for each host and to need no other report of how that ends: `ssh`. It is then
    /// that host which launches, and the session outlives this one. By default it is this machine.
    ///
    /// The ticket file is written here, and stays when the session is over. Files that are to be staged or
    /// sent, and the directory for output, are those of that host. It has to be able to log in elsewhere
    /// by itself: what this machine's agent of ssh would provide is gone with it.
    pub host: Option<String>,
    /// The program that keeps the session, which calls `libi::agent::serve_if_asked` as the program `libi`
    /// does. By default it is the program of this process, by its path, if it has called that.
    pub program: Option<PathBuf>,
    /// Whether a front end on another machine may have the session. By default the keeper listens on the
    /// loopback address alone, unless it is on another [host](field@Self::host).
    pub reachable: bool,
}

impl Detached {
    /// A session that goes on for this time without a front end, and has this ticket file.
    #[must_use]
    pub fn new(ticket: impl Into<PathBuf>, limit: Duration) -> Self {
        Self { ticket: ticket.into(), limit, host: None, program: None, reachable: false }
    }

    /// Sets the [host](field@Self::host) of the keeper.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
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
