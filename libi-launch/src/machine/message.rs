//! Messages between the nodes of a launch, after ticket and hello.

use std::net::SocketAddr;
use std::time::Duration;

use libi_core::dist::layout::Block;
use libi_core::dist::{EnvVar, OsBytes};
use libi_core::hosts::HostRef;
use libi_core::ids::{HostIndex, Rank, StartId};
use libi_core::plan::estimate::Estimate;
use libi_core::plan::late::Attempt;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::commands::{CommandEnd, CommandSignal, CommandSpec};
use super::direct_links::CarriedSecret;
use super::growth::GrowOrder;
use super::output_piece::Stream;
use super::restarts::{RestartError, RestartOrder};
use crate::failure::{Cause, Exit, Failure, LaunchTiming};
use crate::options::LaunchOptions;
use crate::options::StandardInput;

/// Messages from parent to child.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ParentMessage {
    /// The answer to a hello: the role of the child, and the rules of the session.
    SessionConfig(Box<SessionConfig>),
    /// To a leader: hosts that it launches from now on, and the estimated cost of a launch.
    Share(Vec<HostSpec>, Estimate),
    /// No host is launched any more. Hosts that have not joined are ended and reported with this
    /// cause.
    StopLaunching(Cause),
    /// The session is up. A large membership is split; the last part takes effect.
    Go(Membership),
    /// A signal for every attached member.
    Signal(i32),
    /// Every attached member ends.
    End(Ending),
    /// Credit for this many more bytes of output on this link.
    Credit(u32),
    /// Hosts whose leaders are not up are given up with this cause; launching goes on otherwise.
    GiveUpOpen(Cause),
    /// To a leader that gets children which it has not started: others of its bulk start, or hosts that
    /// the front end has launched.
    Relay(RelayMessage),
    /// A command for agents at and below the receiver.
    Run(Box<CommandSpec>),
    /// A signal for processes of a command at and below the receiver.
    SignalCommand(CommandSignal),
    /// To a host that has asked for a source, or whose source is slow: where it gets the staged files
    /// from now on; from its parent if there are no addresses.
    Source(HostIndex, Attempt, Vec<SocketAddr>),
    /// The answer to a hello of a host whose parent is to be another node, which listens at the
    /// addresses of the config. That takes effect once the host has connected there.
    Move(Box<SessionConfig>),
    /// It is the receiver's turn to open a direct connection, for which it has asked.
    Connect,
    /// The nodes above the receiver that it may turn to if it loses its parent, the parent first.
    Ancestors(Vec<Ancestor>),
    /// The answer to a claim: the sender is the receiver's parent from now on. Carries its ancestors.
    Adopts(Vec<Ancestor>),
    /// A member at or below the receiver is started again.
    Restart(RestartOrder),
    /// As `Go`, to a process that takes the place of a lost member of a session that is up, or is of a new
    /// host.
    Join(Membership),
    /// The session is to grow.
    Grow(Box<GrowOrder>),
    /// The session has grown: new hosts that have joined are in it. The last part of a large membership takes
    /// effect.
    Admit(Membership),
    /// The answer to a claim of a host that counts as lost: it ends, and those below it find another parent.
    Lost,
}

/// A node above others, and where it accepts those that have lost their parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ancestor {
    /// The host that it leads.
    pub host: HostIndex,
    /// Its addresses.
    pub addresses: Vec<SocketAddr>,
}

/// What a host says to a node above once it has lost its parent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanClaim {
    /// The host.
    pub host: HostIndex,
    /// The attempt that has launched it.
    pub attempt: Attempt,
    /// Whether its leader is no member.
    pub is_agent: bool,
    /// All hosts that may be below it.
    pub below: Vec<HostIndex>,
}

/// Messages from the front end to a relay, or to the leader to which hosts move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum RelayMessage {
    /// The receiver is a relay of this start from now on: it listens.
    Listen(StartId),
    /// The leader of this host will arrive.
    Expect(StartId, Box<HostSpec>),
    /// The front end has launched this host, which will connect as a child of the receiver. Whether its
    /// leader is no member.
    Adopt(Box<HostSpec>, bool),
    /// The leader of this host does not arrive, and is not admitted any more.
    Release(HostIndex, Attempt),
    /// The starter has reported how the program on this host ended.
    HostEnded(HostIndex, Exit),
    /// The starter has passed on what was printed on this host.
    HostPrinted(HostIndex, Stream, Vec<u8>),
    /// The starter has ended, and reports no further end of a host.
    StarterExited(StartId, Exit),
}

/// The members of a session that comes up, or a part of that information.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// Ranks that did not come up.
    pub absent: Ranks,
    /// Ranks at and below the receiver; where the session has grown, new ones.
    pub below: Ranks,
    /// Whether all present members are at or below the receiver.
    pub top: bool,
    /// The number of members and of hosts of the session, with those that did not come up.
    pub size: (u32, u32),
    /// Whether this is the last part.
    pub is_last: bool,
}

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// The signal that asks members to end.
    pub signal: i32,
    /// The time after which members that have not ended are killed.
    pub grace: Duration,
}

/// Messages from child to parent: the fate of hosts and members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ChildMessage {
    /// All members of a host are up. The node that has launched the host fills in the timing.
    Joined(HostIndex, Attempt, LaunchTiming),
    /// A host was given up, or was lost.
    Failed(HostIndex, Attempt, Failure),
    /// A host is launched again: reports of earlier attempts are out of date. Carries the failure
    /// if the host had been up.
    Relaunch(HostIndex, Attempt, Option<Box<Failure>>),
    /// A member has ended. Carries the cause if its leader has killed it for one, and how often the
    /// member had been restarted.
    Exited(Rank, Exit, Option<Box<Cause>>, u32),
    /// A member has detached from the session, and lives on.
    Detached(Rank),
    /// Not forwarded: no process below the sender depends on the sender any more, in a session of so many
    /// hosts.
    NoDependents(u32),
    /// To the front end: the master has read this many bytes of its standard input. Where that goes to
    /// all programs, to the parent: all have, of the sender and below it.
    InputTaken(u32),
    /// Not forwarded: the sender cannot open a direct connection to its parent, or to its new one.
    NotDirect,
    /// Whether the link between a host and its launcher is direct, or stays in the channel of the
    /// remote shell.
    Link(HostIndex, bool),
    /// Not forwarded: the sender cannot launch other hosts from its machine. Carries the first
    /// failure, and whether it is certain that the sender is at fault; otherwise the few hosts that
    /// it has tried may as well be dead.
    CannotLaunch(Failure, bool),
    /// Not forwarded: the sender hands back a host. Carries the next attempt, and whether the
    /// sender has tried the host without success.
    HandBack(HostIndex, Attempt, bool),
    /// Not forwarded: the relay listens at these addresses; it cannot if there are none.
    Listening(Vec<SocketAddr>),
    /// Not forwarded: the link to a host that was redirected to the relay is gone. Carries whether
    /// the exit of its leader is to be reported, and the failure if the host has failed.
    Dropped(HostIndex, Attempt, bool, Option<Box<Failure>>),
    /// Not forwarded: whether the sender, or a node below it, holds output of members whose ends it
    /// has reported.
    HoldsOutput(bool),
    /// To the front end: the process of a command with this number has ended, after it has printed as
    /// many bytes.
    CommandEnded(Rank, CommandEnd, u64),
    /// To the parent, and to the source: the sender has written this many bytes of the staged files.
    Staged(u64),
    /// To the front end: a host asks for a source of the staged files. Carries the addresses at which
    /// others can get them from it, if there are any.
    WantsSource(HostIndex, Attempt, Vec<SocketAddr>),
    /// To the parent, or to the source: the sender gets the staged files from the receiver, from this
    /// place on. Carries the host of the sender.
    FilesFrom(HostIndex, u64),
    /// To the front end: this host gets files from the sender, and much slower than the sender has got
    /// them.
    SlowClient(HostIndex),
    /// The engine of a host runs in the program of its first member, although it should run apart.
    InProgram(HostIndex),
    /// libi's own client of ssh declines this host, which a process reaches therefore, and why.
    Declined(HostIndex, String),
    /// Not forwarded: the sender awaits this host, which the front end has launched.
    Adopted(HostIndex, Attempt),
    /// Not forwarded: the link of the sender carries enough to be worth a direct connection.
    WantsDirect,
    /// Not forwarded: whether the sender doubts that it can launch hosts, after its first launches.
    InDoubt(bool),
    /// Not forwarded: the sender has heard nothing from the receiver for the peer timeout, and ends with
    /// everything below it. Its last message.
    ParentSilent,
    /// The first message of a host that has lost its parent, to a node above.
    Orphan(Box<OrphanClaim>),
    /// To the front end: an agent restarts a member by itself. Precedes the end of its process.
    Restarting(RestartOrder),
    /// To the front end: a new process has taken the place of a lost member.
    Restarted(RestartOrder),
    /// To the front end: a member was not restarted.
    NotRestarted(RestartOrder, RestartError),
}

/// The role of a child, and the rules of its session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionConfig {
    /// The number of members of the session.
    pub size: u32,
    /// The host that the child runs on.
    pub host: HostIndex,
    /// The name of that host in the host list.
    pub name: String,
    /// For a leader: all ranks that run on the host. For a further member: its own rank.
    pub blocks: Vec<Block>,
    /// The programs of the distributions; blocks refer to them by index.
    pub programs: Vec<Program>,
    /// The options of the launch.
    pub options: LaunchOptions,
    /// Whether the front end provides the standard input of the child's programs.
    pub input: StandardInput,
    /// The session's secret, for nodes that have direct links.
    pub secret: Option<CarriedSecret>,
    /// The secret with which hosts get staged files from each other; `None` if each gets them from its
    /// parent.
    pub files_secret: Option<CarriedSecret>,
    /// To a leader: the secret with which it finds another parent if it loses this one; `None` if it ends
    /// then.
    pub orphans_secret: Option<CarriedSecret>,
    /// Whether hosts that lose their parent find another one.
    pub reconnects: bool,
    /// The addresses at which the child can reach its parent directly.
    pub dial: Vec<SocketAddr>,
    /// The host of the parent; `None` if the parent is the front end.
    pub parent: Option<HostIndex>,
    /// Whether the parent launches hosts as well, and takes back those that the child has not tried.
    pub takes_back: bool,
    /// The number of the attempts by which the members of the host were started.
    pub restarts: u32,
}

/// The program of a distribution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// The executable.
    pub executable: OsBytes,
    /// The arguments.
    pub args: Vec<OsBytes>,
    /// Variables to set.
    pub env: Vec<EnvVar>,
    /// The working directory.
    pub cwd: Option<OsBytes>,
}

/// A host to launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSpec {
    /// The index of the host in the session.
    pub host: HostIndex,
    /// The next attempt at it.
    pub attempt: Attempt,
    /// Its name or address.
    pub name: String,
    /// The login name, if the host list has one.
    pub user: Option<String>,
    /// The port of the remote shell's server, if the host list has one.
    pub port: Option<u16>,
    /// The ranks that run on the host.
    pub blocks: Vec<Block>,
    /// In a static tree: how many of the specs that follow belong to this host's subtree.
    pub below: u32,
    /// How often the host has failed by its own fault, at any launcher.
    pub faults: u16,
    /// For a host whose members take the places of lost ones: the number of their attempts.
    pub restarts: u32,
}

/// A machine that can replace any host that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spare {
    /// Its name or address.
    pub name: String,
    /// The login name, if the host list has one.
    pub user: Option<String>,
    /// The port of the remote shell's server, if the host list has one.
    pub port: Option<u16>,
}

impl From<HostRef<'_>> for Spare {
    fn from(host: HostRef<'_>) -> Self {
        Self { name: host.name.to_owned(), user: host.user.map(str::to_owned), port: host.port }
    }
}

/// Timeouts and retry limits that all nodes of a session share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// The time that a started process may take to say hello.
    pub hello_timeout: Duration,
    /// The time that the further members of a host may take to say hello, together.
    pub join_timeout: Duration,
    /// How often a host is launched, including the first time, before its own failures make it
    /// fail. The loss of the leader that should launch the host does not count. Four refusals by a
    /// server that has too many clients count as one failure. With `u16::MAX`, launches are retried
    /// until the overall deadline.
    pub attempts: u16,
    /// The delay before the first retry; it doubles with each retry. The same lies between two starts of a
    /// member by automatic [restarts](crate::options::LaunchOptions::restarts).
    pub back_off: Duration,
    /// The longest delay before a retry.
    pub back_off_max: Duration,
    /// When too many hosts have failed: how long launching continues, so that all failures are
    /// reported at once.
    pub failure_linger: Duration,
    /// How long a process may take to end, and its evidence to arrive, before the next step is
    /// taken: kill, then give up waiting.
    pub kill_grace: Duration,
    /// The time without any message after which a peer is lost. Heartbeats are sent, and silence is
    /// noticed, every quarter of this time: the loss is noticed after at most five quarters.
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
