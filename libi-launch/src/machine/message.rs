//! What the nodes of a launch say to each other behind ticket and hello.

use std::net::SocketAddr;
use std::time::Duration;

use libi_core::dist::layout::Block;
use libi_core::dist::{EnvVar, OsBytes};
use libi_core::ids::{HostIndex, Rank};
use libi_core::plan::estimate::Estimate;
use libi_core::plan::late::Attempt;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::node::DirectSettings;
use crate::backend::Backend;
use crate::failure::{Cause, Exit, Failure, LaunchTiming};

/// Parent to child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ParentMessage {
    /// To a child that has said hello: what it is, and by which rules.
    SessionConfig(Box<SessionConfig>),
    /// To a leader: hosts that are its to launch from now on.
    Share(Vec<HostSpec>, Estimate),
    /// Nothing is launched any more: what has not joined is to be ended and reported, with this cause.
    StopLaunching(Cause),
    /// The session is up, if this is the last of what is to be known of it.
    Go(Membership),
    /// Every member that is still ours gets this signal.
    Signal(i32),
    /// Every member that is still ours is to end.
    End(Ending),
    /// So many more bytes of output may be sent on this link.
    Credit(u32),
}

/// Who is in a session that comes up, or a part of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Who did not come up.
    pub absent: Ranks,
    /// Who is at and below the child that is told this.
    pub below: Ranks,
    /// Whether everybody who came up is at or below that child.
    pub top: bool,
    /// Whether nothing more of this follows.
    pub is_last: bool,
}

/// How a session is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// What members are told to end by.
    pub signal: i32,
    /// After how long those that have not ended are killed.
    pub grace: Duration,
}

/// Child to parent: what has become of hosts and members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChildMessage {
    /// All members of a host are up. The trip is filled in by the node that has launched it.
    Joined(HostIndex, Attempt, LaunchTiming),
    /// A host is given up, or was lost.
    Failed(HostIndex, Attempt, Failure),
    /// A host will be launched again: what was said of earlier attempts no longer holds. If it had been up, why it is not any more.
    Relaunch(HostIndex, Attempt, Option<Box<Failure>>),
    /// A member has ended.
    Exited(Rank, Exit),
    /// A member is not ours any more, and lives on.
    Detached(Rank),
    /// Said for itself alone, and not passed on: nobody below the sender needs it any more.
    NoDependents,
    /// Said to the front end: the master has read so many bytes of its input.
    InputTaken(u32),
    /// Said for itself alone, and not passed on: its parent cannot be reached directly.
    NotDirect,
    /// The link between a host and who has launched it is direct, or has to stay in its channel.
    Link(HostIndex, bool),
    /// Said for itself alone, and not passed on: the sender cannot launch others from where it is, as it has first seen from
    /// this; and whether that is certain, or those that it has tried may as well be dead.
    CannotLaunch(Failure, bool),
    /// Said for itself alone, and not passed on: the sender will not launch a host that it was given. This attempt is next; and
    /// whether the sender has tried it in vain.
    HandBack(HostIndex, Attempt, bool),
}

/// What a child is, and by which rules it plays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionConfig {
    /// How many members the session has.
    pub size: u32,
    /// The host it is on, and how that is called in the host list.
    pub host: HostIndex,
    /// The host's name.
    pub name: String,
    /// The ranks that run on the host, for its leader; the rank of a local member.
    pub blocks: Vec<Block>,
    /// What the session's distributions run; blocks refer to them by their place here.
    pub programs: Vec<Program>,
    /// The rules.
    pub rules: Rules,
    /// Whether it was decided in advance who launches whom.
    pub fixed: bool,
    /// How other hosts are reached.
    pub backend: Backend,
    /// What becomes of what members print.
    pub output: Output,
    /// Whether what the front end's user writes is this member's standard input.
    pub input: bool,
    /// What there is to know of direct links.
    pub direct: DirectSettings,
    /// Where the child can try to reach the one that has launched it.
    pub dial: Vec<SocketAddr>,
    /// The host of that one; none if it is the front end.
    pub parent: Option<HostIndex>,
}

/// What becomes of what members print after they have joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Output {
    /// It goes to the front end.
    #[default]
    Forwarded,
    /// It is read and forgotten.
    Dropped,
}

/// What a distribution runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The program.
    pub executable: OsBytes,
    /// Its arguments.
    pub args: Vec<OsBytes>,
    /// Variables to set.
    pub env: Vec<EnvVar>,
    /// Where to run it.
    pub cwd: Option<OsBytes>,
}

/// A host that somebody has to launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSpec {
    /// Which host.
    pub host: HostIndex,
    /// Which attempt at it is next.
    pub attempt: Attempt,
    /// Its name or address.
    pub name: String,
    /// Whom to be there, if that was said.
    pub user: Option<String>,
    /// Where its remote shell listens, if that was said.
    pub port: Option<u16>,
    /// What runs on it.
    pub blocks: Vec<Block>,
    /// In a static tree: how many of those that follow it are below it, for it to launch or give away.
    pub below: u32,
    /// How often the host has failed by its own fault, wherever that was.
    pub faults: u16,
}

/// A machine that can be put in the place of any host that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spare {
    /// Its name or address.
    pub name: String,
    /// Whom to be there, if that was said.
    pub user: Option<String>,
    /// Where its remote shell listens, if that was said.
    pub port: Option<u16>,
}

/// The times and numbers that everybody in a launch goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// How long a started process may take to say hello.
    pub hello_timeout: Duration,
    /// How long a host's further processes may take to say hello, together.
    pub join_timeout: Duration,
    /// How often a host is launched, the first time included, for failures of its own. What is lost with the leader that
    /// was to launch it has not failed, and of servers that hang up because they have too many callers four refusals count
    /// as one failure. With `u16::MAX`, until the overall deadline.
    pub attempts: u16,
    /// How long to wait before a host is launched again; each further wait is twice as long.
    pub back_off: Duration,
    /// The longest such wait.
    pub back_off_max: Duration,
    /// When too many hosts have failed, how long to go on all the same so that all that is wrong is reported at once.
    pub failure_linger: Duration,
    /// How long what is to end may take, and evidence to arrive, before force is used or patience is at its end.
    pub kill_grace: Duration,
    /// After how long without a word a peer is lost. A quarter of it is the time between two heartbeats, at which that is
    /// noticed: so it takes five quarters at most.
    pub peer_timeout: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            hello_timeout: seconds(30),
            join_timeout: seconds(30),
            attempts: 3,
            back_off: Duration::from_millis(200),
            back_off_max: seconds(5),
            failure_linger: seconds(2),
            kill_grace: seconds(2),
            peer_timeout: seconds(20),
        }
    }
}
