//! What happens in a cluster, and what is kept of it for the checks.

use libi_core::ids::HostIndex;
use libi_core::join::MemberRole;
use libi_core::plan::late::Attempt;
use libi_core::sim::MachineId as Id;
use libi_core::time::Instant;
use libi_launch::failure::Exit;
use libi_launch::machine::{LinkId, StartRequest};

use super::bulk::BulkEvent;
use crate::actions::Action;
use crate::commands::CommandHappening;
use crate::direct::DirectEvent;
use crate::file_links::FileLinkEvent;
use crate::scenario::Fate;

/// A launch of a host.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) at: Instant,
    /// The place of the launcher; `None` for the front end.
    pub(crate) by: Option<MemberRole>,
    /// How many links lead from the front end to the launcher.
    pub(crate) depth: u32,
    /// Whether a link above the launcher was broken.
    pub(crate) cut_off: bool,
    pub(crate) host: HostIndex,
    pub(crate) attempt: Attempt,
    pub(crate) name: String,
}

/// A process that was killed from outside.
#[derive(Debug)]
pub(crate) struct Death {
    pub(crate) at: Instant,
    pub(crate) place: Option<MemberRole>,
    /// Its ancestors, up to the front end.
    pub(crate) above: Vec<Id>,
    /// Whether it had detached.
    pub(crate) released: bool,
}

/// An event of the cluster.
#[derive(Debug)]
pub(crate) enum Happening {
    /// The first job on a process's processor is done, if nothing has changed since that was
    /// predicted.
    DirectEvent(Id, u64),
    /// A launch leaves its place at its launcher.
    PlaceFree(Id),
    /// A started program reaches the point that its fate allows.
    Runs(Id, LinkId, StartRequest, Fate),
    /// The programs of a host have read so many bytes of standard input.
    Takes(Id, usize),
    /// A program of an agent joins, or ends.
    ProgramJoins(Id, LinkId),
    ProgramExits(Id, LinkId, Exit),
    /// An event of commands.
    Command(CommandHappening),
    /// An event of a bulk start.
    Bulk(BulkEvent),
    /// A process is killed from outside.
    Dies(Pick),
    /// A process, or its host, freezes.
    Freezes(Pick),
    /// The user of the front end ends the session.
    Ends,
    /// An event of direct connections.
    Direct(DirectEvent),
    /// A source of files hears of a connection.
    FileLink(FileLinkEvent),
    /// The direct connection of a process to its parent breaks.
    Severs(Pick),
    /// An action in a session that is up.
    Acts(Action),
}

/// The target of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pick {
    Front,
    /// One of the live processes, by number.
    Any(u64),
    /// This one.
    This(Id),
}
