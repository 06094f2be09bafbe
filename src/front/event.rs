//! Events that a front end reports to its caller.

use std::fmt;

use libi_core::ids::{HostIndex, Rank, SessionId};
use libi_core::ranks::Ranks;
use libi_launch::failure::{Cause, Exit, Failure};
use libi_launch::machine::{CommandId, GrowthError, RestartError, Stream};
use serde::{Deserialize, Serialize};

use super::command::ProcessOutcome;
use super::output_files::OutputError;
use super::session::Growth;

/// An event of a session, taken with [`FrontEnd::next_event`](super::FrontEnd::next_event).
///
/// Its [`Display`](fmt::Display) text is one line for users, without the output of
/// [`Event::Output`] and [`Event::Folded`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Event {
    /// The launch waits for resources, in the queue of a resource manager. That time does not count
    /// towards the deadline of the launch.
    #[non_exhaustive]
    Waiting {
        /// The session.
        session: SessionId,
        /// What the resource manager says.
        reason: String,
    },
    /// The resource manager ends the processes of a session that is up: its job or its step was
    /// cancelled or has no time left, or the program that stands for the step was killed. The ends of
    /// members are reported as always.
    #[non_exhaustive]
    Revoked {
        /// The session.
        session: SessionId,
        /// What the resource manager says.
        reason: String,
    },
    /// Files are on their way to the hosts, as [`LaunchOptions::stage`](super::LaunchOptions::stage)
    /// demands. Reported now and then until all hosts have them; a later event of this kind takes the
    /// place of one that was not taken.
    #[non_exhaustive]
    Staging {
        /// The session.
        session: SessionId,
        /// How many bytes have arrived at the hosts that the front end has launched itself.
        sent: u64,
        /// How many these are to get. They pass them on to all others.
        of: u64,
        /// How many hosts have all files, and have joined.
        hosts: u32,
    },
    /// The session is up, and its [report](super::Session::report) is available.
    #[non_exhaustive]
    Up {
        /// The session.
        session: SessionId,
    },
    /// The session did not come up; its report says why. What was started of it is being ended.
    #[non_exhaustive]
    GivenUp {
        /// The session.
        session: SessionId,
    },
    /// Output of a member. Until the caller takes it, it exerts backpressure on the member that
    /// printed it, and on no other.
    #[non_exhaustive]
    Output {
        /// The session.
        session: SessionId,
        /// The member.
        rank: Rank,
        /// The stream it was printed to.
        stream: Stream,
        /// The bytes: whole lines, except for lines that are very long or take long to end.
        bytes: Vec<u8>,
    },
    /// Output that several members have printed, or one, where [equal output is
    /// merged](crate::Output::Folded). Until the caller takes it, it exerts backpressure on the
    /// members that printed it.
    #[non_exhaustive]
    Folded {
        /// The session.
        session: SessionId,
        /// The members, each of which has printed this.
        ranks: Ranks,
        /// The stream it was printed to.
        stream: Stream,
        /// The bytes: whole lines, except for lines that are very long or take long to end.
        bytes: Vec<u8>,
    },
    /// Output of a process of a [command](super::Session::spawn). Until the caller takes it, it exerts
    /// backpressure on what has printed it.
    #[non_exhaustive]
    CommandOutput {
        /// The session.
        session: SessionId,
        /// The command.
        command: CommandId,
        /// The host of the process.
        host: HostIndex,
        /// Its name.
        host_name: String,
        /// The number of the process among those of the command on its host.
        index: u32,
        /// The stream it was printed to.
        stream: Stream,
        /// The bytes: whole lines, except for lines that are very long or take long to end.
        bytes: Vec<u8>,
    },
    /// A process of a command has ended, or its host is lost. All of its output came before, unless its
    /// host is lost or it is late.
    #[non_exhaustive]
    CommandEnded {
        /// The session.
        session: SessionId,
        /// The command.
        command: CommandId,
        /// The host of the process.
        host: HostIndex,
        /// Its name.
        host_name: String,
        /// The number of the process among those of the command on its host.
        index: u32,
        /// How it ended.
        outcome: ProcessOutcome,
    },
    /// All processes of a command have ended: the last event of the command.
    #[non_exhaustive]
    CommandDone {
        /// The session.
        session: SessionId,
        /// The command.
        command: CommandId,
    },
    /// Output could not be written to a [file](crate::Output::Files), for example because the disk
    /// is full. Further failures of the session are not reported; [what can be
    /// written](super::Session::output_error) is written.
    #[non_exhaustive]
    OutputFailed {
        /// The session.
        session: SessionId,
        /// The file and the cause.
        error: OutputError,
    },
    /// A member has ended.
    #[non_exhaustive]
    Exited {
        /// The session.
        session: SessionId,
        /// The member.
        rank: Rank,
        /// The name of its host.
        host_name: String,
        /// The exit status, or the signal that ended the process.
        exit: Exit,
        /// Why the leader of its host has killed it, if it has: it was silent, its link was closed
        /// although it ran, or it violated the protocol.
        killed: Option<Cause>,
    },
    /// A new process has taken the place of a lost member: it was [asked
    /// for](super::Session::restart), or follows from
    /// [`LaunchOptions::restarts`](super::LaunchOptions::restarts). Its end is reported as that of
    /// the first process was.
    #[non_exhaustive]
    Restarted {
        /// The session.
        session: SessionId,
        /// The member.
        rank: Rank,
        /// The name of its host.
        host_name: String,
    },
    /// A lost member was not restarted.
    #[non_exhaustive]
    NotRestarted {
        /// The session.
        session: SessionId,
        /// The member.
        rank: Rank,
        /// The name of its host; empty if the session has no such rank.
        host_name: String,
        /// The reason.
        why: RestartError,
    },
    /// Another member is the master, in place of a lost one: messages of the front end go to it from now on.
    /// See [`LaunchOptions::replace_master`](field@super::LaunchOptions::replace_master).
    #[non_exhaustive]
    MasterReplaced {
        /// The session.
        session: SessionId,
        /// The member.
        rank: Rank,
        /// The name of its host.
        host_name: String,
    },
    /// Further hosts are in the session, as [asked for](super::Session::add): those of them that have
    /// joined.
    #[non_exhaustive]
    Grown {
        /// The session.
        session: SessionId,
        /// The new hosts and ranks.
        growth: Growth,
        /// The names of the new hosts, in order.
        hosts: Vec<String>,
    },
    /// No further hosts are in the session.
    #[non_exhaustive]
    NotGrown {
        /// The session.
        session: SessionId,
        /// The reason.
        why: GrowthError,
        /// The names of the hosts that have failed, and why.
        hosts: Vec<(String, String)>,
    },
    /// A member has [detached](crate::Member::detach): its process lives on and is no longer part
    /// of the session.
    #[non_exhaustive]
    Detached {
        /// The session.
        session: SessionId,
        /// The member.
        rank: Rank,
    },
    /// A host was lost after the session was up, with all its members that had neither ended nor
    /// detached.
    #[non_exhaustive]
    Lost {
        /// The session.
        session: SessionId,
        /// The host.
        host: HostIndex,
        /// Its name.
        name: String,
        /// The members that were lost with it.
        ranks: Ranks,
        /// What is known of the cause.
        failure: Failure,
        /// The cause in words, with the names of other hosts where they are involved.
        reason: String,
    },
    /// Every member has ended, has detached, or is lost. This event follows all output of the
    /// session's members, so it arrives only after that output has been taken.
    #[non_exhaustive]
    Done {
        /// The session.
        session: SessionId,
    },
}

impl Event {
    /// The session that the event belongs to.
    #[must_use]
    pub fn session(&self) -> SessionId {
        match self {
            Self::Waiting { session, .. }
            | Self::Revoked { session, .. }
            | Self::Staging { session, .. }
            | Self::Up { session }
            | Self::GivenUp { session }
            | Self::Output { session, .. }
            | Self::Folded { session, .. }
            | Self::OutputFailed { session, .. }
            | Self::CommandOutput { session, .. }
            | Self::CommandEnded { session, .. }
            | Self::CommandDone { session, .. }
            | Self::Exited { session, .. }
            | Self::Restarted { session, .. }
            | Self::NotRestarted { session, .. }
            | Self::MasterReplaced { session, .. }
            | Self::Grown { session, .. }
            | Self::NotGrown { session, .. }
            | Self::Detached { session, .. }
            | Self::Lost { session, .. }
            | Self::Done { session } => *session,
        }
    }
}

/// Why a session has not grown, and which hosts are to blame.
pub(super) struct NotGrown<'a>(pub(super) &'a GrowthError, pub(super) &'a [(String, String)]);

impl fmt::Display for NotGrown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        self.1.iter().try_for_each(|(host, reason)| write!(f, "\n  {host}  {reason}"))
    }
}

/// Where something was, if that is known.
pub(super) fn on(host_name: &str) -> String {
    if host_name.is_empty() { String::new() } else { format!(" on {host_name}") }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waiting { reason, .. } => write!(f, "waiting for resources: {reason}"),
            Self::Revoked { reason, .. } => write!(f, "revoked: {reason}"),
            Self::Staging { sent, of, hosts, .. } => {
                write!(f, "staging: {sent} of {of} bytes sent, {hosts} hosts complete")
            }
            Self::Up { session } => write!(f, "{session} is up"),
            Self::GivenUp { session } => write!(f, "{session} was given up"),
            Self::Output { rank, stream, bytes, .. } => {
                let stream = if *stream == Stream::Out { "output" } else { "error" };
                write!(f, "rank {} wrote {} bytes to standard {stream}", rank.0, bytes.len())
            }
            Self::Folded { ranks, stream, bytes, .. } => {
                let stream = if *stream == Stream::Out { "output" } else { "error" };
                write!(f, "{ranks} wrote {} bytes to standard {stream}", bytes.len())
            }
            Self::CommandOutput { host_name, command, stream, bytes, .. } => {
                let stream = if *stream == Stream::Out { "output" } else { "error" };
                let (length, command) = (bytes.len(), command.0);
                write!(f, "command {command} on {host_name} wrote {length} bytes to standard {stream}")
            }
            Self::CommandEnded { host_name, command, outcome, .. } => {
                write!(f, "command {} on {host_name} {outcome}", command.0)
            }
            Self::CommandDone { command, .. } => write!(f, "command {} is done", command.0),
            Self::OutputFailed { error, .. } => error.fmt(f),
            Self::Exited { rank, host_name, exit, killed, .. } => {
                write!(f, "rank {} on {host_name} {exit}", rank.0)?;
                killed.as_ref().map_or(Ok(()), |why| write!(f, ", by its leader: {why}"))
            }
            Self::Restarted { rank, host_name, .. } => write!(f, "{rank}{} was restarted", on(host_name)),
            Self::NotRestarted { rank, host_name, why, .. } => {
                write!(f, "{rank}{} was not restarted: {why}", on(host_name))
            }
            Self::MasterReplaced { rank, host_name, .. } => {
                write!(f, "{rank}{} is the master now", on(host_name))
            }
            Self::Grown { session, growth, .. } => write!(f, "{session} has grown by {}", growth.present()),
            Self::NotGrown { session, why, hosts } => {
                write!(f, "{session} has not grown: {}", NotGrown(why, hosts))
            }
            Self::Detached { rank, .. } => write!(f, "rank {} has detached", rank.0),
            Self::Lost { name, ranks, reason, .. } => {
                write!(f, "{name} ({ranks}) is lost: {reason}")
            }
            Self::Done { session } => write!(f, "{session} is done"),
        }
    }
}
