//! Events that a front end reports to its caller.

use libi_core::ids::{HostIndex, Rank, SessionId};
use libi_launch::failure::{Exit, Failure};
use libi_launch::machine::Stream;

use super::session::SessionNumber;

/// An event of a session, taken with [`FrontEnd::next_event`](super::FrontEnd::next_event).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// The session is up, and its [report](super::Session::report) is available.
    Up {
        /// Which session.
        session: SessionId,
    },
    /// The session did not come up; its report says why. What was started of it is being ended.
    GivenUp {
        /// Which session.
        session: SessionId,
    },
    /// Output of a member. Until the caller takes it, it exerts backpressure on the member that
    /// printed it, and on no other.
    #[non_exhaustive]
    Output {
        /// Which session.
        session: SessionId,
        #[doc(hidden)]
        number: SessionNumber,
        /// Which member.
        rank: Rank,
        /// The stream it was printed to.
        stream: Stream,
        /// The bytes: whole lines, except for lines that are very long or take long to end.
        bytes: Vec<u8>,
    },
    /// A member has ended.
    Exited {
        /// Which session.
        session: SessionId,
        /// Which member.
        rank: Rank,
        /// The exit status, or the signal that ended the process.
        exit: Exit,
    },
    /// A member has [detached](crate::Member::detach): its process lives on and is no longer part
    /// of the session.
    Released {
        /// Which session.
        session: SessionId,
        /// Which member.
        rank: Rank,
    },
    /// A host was lost after the session was up, with all its members that had neither ended nor
    /// detached.
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
    /// Every member has ended, has detached, or is lost. This event follows all output of the
    /// session, so it arrives only after that output has been taken.
    Done {
        /// Which session.
        session: SessionId,
    },
}

impl Event {
    /// The session that the event belongs to.
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
