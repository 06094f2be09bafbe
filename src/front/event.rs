//! What a front end tells its user, one thing after the other.

use libi_core::ids::{HostIndex, Rank, SessionId};
use libi_launch::failure::{Exit, Failure};
use libi_launch::machine::Stream;

use super::session::SessionNumber;

/// Something has happened in a session.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The session is up; its [report](super::Session::report) is there.
    Up {
        /// Which session.
        session: SessionId,
    },
    /// The session did not come up; its report says why. What was left of it is being ended.
    GivenUp {
        /// Which session.
        session: SessionId,
    },
    /// A member has printed this. It waits for you: what you do not take holds up who prints, and nobody else.
    #[non_exhaustive]
    Output {
        /// Which session.
        session: SessionId,
        #[doc(hidden)]
        number: SessionNumber,
        /// Which member.
        rank: Rank,
        /// To which of its streams.
        stream: Stream,
        /// What it has printed: whole lines, unless they are long or slow to end.
        bytes: Vec<u8>,
    },
    /// A member has ended.
    Exited {
        /// Which session.
        session: SessionId,
        /// Which member.
        rank: Rank,
        /// How.
        exit: Exit,
    },
    /// A member was released: it has finalised, and lives on without us.
    Released {
        /// Which session.
        session: SessionId,
        /// Which member.
        rank: Rank,
    },
    /// A host was lost after the session was up, with every member on it that was still ours.
    Lost {
        /// Which session.
        session: SessionId,
        /// Which host.
        host: HostIndex,
        /// Its name.
        name: String,
        /// Why.
        failure: Failure,
    },
    /// Every member has ended, was released, or is lost.
    /// It comes behind all output, so not before that is taken.
    Done {
        /// Which session.
        session: SessionId,
    },
}

impl Event {
    /// Which session it happened in.
    #[must_use]
    pub fn session(&self) -> SessionId {
        match self {
            Self::Up { session }
            | Self::GivenUp { session }
            | Self::Output { session, .. }
            | Self::Exited { session, .. }
            | Self::Released { session, .. }
            | Self::Lost { session, .. }
            | Self::Done { session } => *session,
        }
    }
}
