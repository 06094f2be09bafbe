//! The messages between a keeper and a front end.
//!
//! The first message of each is a text, which all versions understand: of the front end its version, of the
//! keeper why the session is not for it, or nothing. All others are [`ToKeeper`] and [`FromKeeper`].

use libi_comm::{Address, Bytes, Call, CommError, Outcome};
use libi_core::dist::layout::Layout;
use libi_core::ids::{HostIndex, Rank};
use libi_core::loss::Loss;
use libi_core::ranks::Ranks;
use libi_launch::backend::Backend;
use libi_launch::machine::{
    CommandId, CommandRequest, Ending, GrowthError, GrowthRequest, Program, RestartError, Spare,
};
use libi_launch::options::{CarriedOptions, OnLoss};
use serde::{Deserialize, Serialize};

use crate::executor::Completed;
use crate::front::command::ProcessReport;
use crate::front::session::{Part, Snapshot};
use crate::front::{BackendReason, Event, Growth};

/// Both ends are of the same build, or do not understand each other.
pub(super) const VERSION: &str = concat!("libi ", env!("CARGO_PKG_VERSION"), ", keeper protocol 2");

/// What a keeper answers at its start, behind text of login shells: the text of the ticket file follows, or
/// why it does not serve.
pub(super) const READY: &str = "libi-keeper-ready\n";
pub(super) const REFUSED: &str = "libi-keeper-refused\n";

/// What a keeper is told at its start, over its standard input, which ends behind it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    pub(super) version: String,
    /// The bytes of the path of the ticket file; none if that is not written there.
    pub(super) ticket: Option<Vec<u8>>,
    pub(super) limit: std::time::Duration,
    pub(super) reachable: bool,
}

/// A session that a keeper is to launch.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::front) struct Launch {
    pub(super) layout: Layout,
    pub(super) programs: Vec<Program>,
    pub(super) backend: Backend,
    pub(super) reason: BackendReason,
    pub(super) options: CarriedOptions,
}

/// From a front end to a keeper.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::front) enum ToKeeper {
    /// The front end takes the session over, or brings one. The first message behind the text.
    Open(Option<Box<Launch>>),
    /// It calls.
    Call(u64, KeptCall),
    /// It does not wait for a call any more.
    Cancel(u64),
    /// It has the message that this call has received.
    HasReceived(u64),
    /// The user has taken an event.
    TookEvent,
    End(Ending),
    Signal(i32),
    Spawn(Box<CommandRequest>),
    SignalCommand(CommandId, Option<Vec<HostIndex>>, i32),
    /// On this machine, if its host is lost.
    Restart(Rank, Option<Spare>),
    /// With the new hosts.
    Grow(Box<GrowthRequest>, Box<Layout>),
    Input(Vec<u8>),
    OnLoss(OnLoss),
    /// It leaves. The keeper closes the connection.
    Leave,
}

/// From a keeper to a front end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum FromKeeper {
    /// The session, as it is. The first message behind the text.
    Welcome(Box<Snapshot>),
    /// What has happened since.
    News(News),
    /// A call has its result, without these members.
    Finished(u64, Result<KeptOutcome, KeptError>, Ranks),
    /// Another front end has the session from now on.
    TakenOver,
}

/// What has happened, all of it at once for the caller: a change is known with its event and its answer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct News {
    /// What has changed.
    pub(super) parts: Vec<Part>,
    pub(super) events: Vec<Event>,
    /// How restarts went that the front end has asked for.
    pub(super) restarts: Vec<(Rank, Result<(), RestartError>)>,
    /// How the growth went that it has asked for.
    pub(super) growth: Option<GrowthAnswer>,
    /// How commands ended.
    pub(super) commands: Vec<(CommandId, Vec<ProcessReport>)>,
}

/// By what the session has grown, or why it has not, with the hosts that have failed.
pub(super) type GrowthAnswer = Result<Growth, (GrowthError, Vec<(String, String)>)>;

impl News {
    pub(super) fn is_empty(&self) -> bool {
        let Self { parts, events, restarts, growth, commands } = self;
        parts.is_empty()
            && events.is_empty()
            && restarts.is_empty()
            && growth.is_none()
            && commands.is_empty()
    }
}

/// A call of a front end.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::front) enum KeptCall {
    Send { to: Address, tag: u32, data: Vec<u8> },
    Receive { from: Address, tag: u32 },
}

impl KeptCall {
    /// The call; `None` if it is none that a front end makes.
    pub(super) fn new(call: Call) -> Option<Self> {
        match call {
            Call::Send { to, tag, data } => Some(Self::Send { to, tag, data: data.to_vec() }),
            Call::Receive { from, tag } => Some(Self::Receive { from, tag }),
            _ => None,
        }
    }

    pub(super) fn into_call(self) -> Call {
        match self {
            Self::Send { to, tag, data } => Call::Send { to, tag, data: data.into() },
            Self::Receive { from, tag } => Call::Receive { from, tag },
        }
    }
}

/// The result of such a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum KeptOutcome {
    Done,
    Data(Vec<u8>),
}

impl KeptOutcome {
    pub(super) fn new(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Data(bytes) => Self::Data(bytes.to_vec()),
            _ => Self::Done,
        }
    }

    pub(super) fn into_outcome(self) -> Outcome {
        match self {
            Self::Done => Outcome::Done,
            Self::Data(bytes) => Outcome::Data(Bytes::from(bytes)),
        }
    }
}

/// The error of such a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum KeptError {
    PeerLost(Ranks, Vec<Loss>),
    Withdrawn(Address),
    NoSuchPeer(Address),
    Absent(Rank),
    OutOfMemory(u64),
    TimedOut,
    Ended,
    /// One that these calls do not have.
    Other(String),
}

impl KeptError {
    pub(super) fn new(error: CommError) -> Self {
        match error {
            CommError::PeerLost { ranks, why } => Self::PeerLost(ranks, why),
            CommError::Withdrawn { by } => Self::Withdrawn(by),
            CommError::NoSuchPeer(peer) => Self::NoSuchPeer(peer),
            CommError::Absent(rank) => Self::Absent(rank),
            CommError::OutOfMemory(bytes) => Self::OutOfMemory(bytes),
            CommError::TimedOut { .. } => Self::TimedOut,
            CommError::Ended => Self::Ended,
            other => Self::Other(other.to_string()),
        }
    }

    pub(super) fn into_error(self) -> CommError {
        match self {
            Self::PeerLost(ranks, why) => CommError::PeerLost { ranks, why },
            Self::Withdrawn(by) => CommError::Withdrawn { by },
            Self::NoSuchPeer(peer) => CommError::NoSuchPeer(peer),
            Self::Absent(rank) => CommError::Absent(rank),
            Self::OutOfMemory(bytes) => CommError::OutOfMemory(bytes),
            Self::TimedOut => CommError::TimedOut { what: "the call" },
            Self::Ended => CommError::Ended,
            Self::Other(why) => CommError::Failed { nth: 0, by: None, why },
        }
    }
}

/// The result of a call as a message has it.
pub(super) fn kept_result(result: Result<Completed, CommError>) -> (Result<KeptOutcome, KeptError>, Ranks) {
    match result {
        Ok(Completed { outcome, missing }) => (Ok(KeptOutcome::new(outcome)), missing),
        Err(error) => (Err(KeptError::new(error)), Ranks::new()),
    }
}
