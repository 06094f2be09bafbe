//! The interface of a node: events that it consumes, effects that it requests, notices for its
//! user.

use std::net::SocketAddr;

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
pub use libi_core::ids::{LinkId, StartId};
use libi_core::loss::LossReason;
use libi_core::ranks::Ranks;
use libi_core::secure::LinkKey;
use libi_core::time::Instant;
use libi_core::topology::Topology;
use libi_core::wire::{LinkItem, ReadError};

use super::commands::{CommandId, CommandOutcome, CommandProcess, CommandRequest};
use super::direct_links::CarriedSecret;
use super::growth::{Grown, GrowthError, GrowthRequest};
use super::message::{Ending, HostSpec, Program, Spare};
use super::output_piece::Stream;
use super::rendezvous::{ArrivalId, Claim, StartTicket};
use super::restarts::RestartError;
use crate::failure::{Cause, Exit, Failure};
use crate::options::LaunchOptions;

/// What a node asks its driver to start, and on which links the started processes arrive.
#[derive(Clone, Debug)]
pub enum StartRequest {
    /// The leader of another host. Its link is the channel to the started process.
    Host(LinkId, HostSpec, Program),
    /// A further member of this host. Its link is the channel to the started process.
    Member(LinkId, Rank, Program),
    /// A process of a command. It has no link: only what it prints and its end are reported.
    Process(LinkId, Program),
    /// The leaders of many hosts, by one process. Each connects to the rendezvous that the ticket
    /// names; [`Effect::Admit`] then makes that connection its link.
    Hosts(Vec<(LinkId, HostSpec)>, Program, Box<StartTicket>),
}

impl StartRequest {
    /// The links of the processes that it starts.
    pub fn links(&self) -> impl Iterator<Item = LinkId> {
        let (one, many) = match self {
            Self::Host(link, ..) | Self::Member(link, ..) | Self::Process(link, _) => (Some(*link), &[][..]),
            Self::Hosts(hosts, ..) => (None, hosts.as_slice()),
        };
        one.into_iter().chain(many.iter().map(|(link, _)| *link))
    }
}

/// An input of a node.
#[derive(Clone, Debug)]
pub enum Event {
    /// The driver is ready, and the node may start.
    Begin,
    /// The driver has finished with this start, and can begin the next one.
    Started(StartId),
    /// The operating system has refused a start, for the given reason. Its links receive no further
    /// event.
    NotStarted(StartId, String),
    /// The operating system has refused a start for lack of resources (descriptors, processes,
    /// memory). A later start, or one on another machine, may succeed.
    OutOfResources(StartId, String),
    /// libi's own client of ssh declines the start of this link, which a process does therefore: why.
    Declined(LinkId, String),
    /// A start was cancelled before it began, because its process was to end by this signal. Its links
    /// receive no further event.
    StartCancelled(StartId, i32),
    /// The process that carries out a bulk start has printed this, which no host is known to have
    /// printed.
    StarterPrinted(StartId, Vec<u8>),
    /// The process that carries out a bulk start has passed on what was printed on this host.
    HostPrinted(StartId, String, Stream, Vec<u8>),
    /// The process that carries out a bulk start has reported how the program on this host ended.
    HostEnded(StartId, String, Exit),
    /// The process that carries out a bulk start has reported why this host cannot be started.
    HostFailed(StartId, String, Vec<u8>),
    /// A bulk start waits for resources, as this line of its process says.
    StarterWaits(StartId, Vec<u8>),
    /// A bulk start has the resources for which it waited.
    StarterProceeds(StartId),
    /// The process that carries out a bulk start will end all its programs, for a reason that this line
    /// of it tells.
    StarterWillEndAll(StartId, Vec<u8>),
    /// The process that carries out a bulk start ends all its programs, as this line of it says, which
    /// does not say why.
    StarterEndsAll(StartId, Vec<u8>),
    /// The process that carries out a bulk start has reported why no such start can succeed.
    StarterRefused(StartId, Vec<u8>),
    /// A signal has ended the process that carries out a bulk start, and what it may have left is being
    /// ended. Its end is told when that is done.
    StarterKilled(StartId),
    /// The process that carries out a bulk start has ended. Everything that it has printed was
    /// delivered before.
    StarterExited(StartId, Exit),
    /// A connection at the rendezvous has proved that it belongs to this start, and claims to come
    /// from the host that has one of these names. The node answers, at once or later, with
    /// [`Effect::Admit`], [`Effect::Redirect`], [`Effect::Refuse`] or [`Effect::TurnAway`].
    Arrived(StartId, ArrivalId, Claim),
    /// A connection at the rendezvous has ended before the node has answered.
    Left(ArrivalId),
    /// A host has connected to get staged files from here. The node answers with [`Effect::Await`] and
    /// [`Effect::Admit`], or with [`Effect::Refuse`].
    FilesWanted(ArrivalId),
    /// A host has connected that has lost its parent. The node answers with [`Effect::Await`] and
    /// [`Effect::Admit`], or with [`Effect::Refuse`].
    OrphanArrived(ArrivalId),
    /// To a member: something is in the way of the direct connection that is reported next to have failed.
    /// Otherwise nothing listens there.
    Walled,
    /// To a host that has lost its parent: a [helper](Effect::StartHelper) has connected, behind which a
    /// node above has proved knowledge of the key. The node answers at once with
    /// [`Effect::TakeHelper`], or the connection is closed.
    Helped,
    /// The [helper](Effect::StartHelper) of this host has ended, or could not be started, and what is known of
    /// the reason.
    HelperEnded(HostIndex, String),
    /// The connection that [`Effect::ConnectSource`] asked for is open and authenticated, and is this
    /// link. If none can be opened, the link is [closed](Event::Closed).
    SourceConnected(LinkId),
    /// Bytes have arrived on a link, and these items were found in them. Data of the session on a
    /// link of the tree go to the communication half instead; if nothing else has arrived, there
    /// are no items, and the event shows that the peer is alive. The driver delivers items one at a
    /// time until [`Effect::Trust`], all items before data that follow them, and everything that a
    /// child has sent before the child's `Exited`.
    Received(LinkId, Vec<LinkItem>),
    /// The bytes that have arrived on a link violate the protocol. The link cannot be read any
    /// further.
    Violation(LinkId, ReadError),
    /// A child has written to its standard output or error, beside the link. On the link to the
    /// parent: this process itself has.
    Printed(LinkId, Stream, Vec<u8>),
    /// The link has reached end of file.
    Closed(LinkId),
    /// The process that was started for a link has ended.
    Exited(LinkId, Exit),
    /// The requested wake-up time has come.
    Woken,
    /// The user of the front end ends the session.
    End(Ending),
    /// The user of the front end sends a signal to all members.
    Signal(i32),
    /// The user of the front end runs a command on hosts of a session that is up.
    Spawn(Box<CommandRequest>),
    /// The user of the front end sends a signal to the processes of a command: to all, or to those on
    /// these hosts.
    SignalCommand(CommandId, Option<Vec<HostIndex>>, i32),
    /// The user of the front end has a lost member restarted; if its host is lost, with all that were lost
    /// with it. The answer is [`Notice::Restarted`] or [`Notice::NotRestarted`].
    Restart(Rank),
    /// The same for a member whose host is lost, on this machine.
    RestartOn(Rank, Spare),
    /// The user of the front end has further hosts join a session that is up. The answer is
    /// [`Notice::Grown`] or [`Notice::NotGrown`].
    Grow(Box<GrowthRequest>),
    /// The user of the front end has consumed this many bytes of output, which become credit again.
    Consumed(u32),
    /// The user of the front end provides standard input; an empty vector is end of
    /// file.
    Input(Vec<u8>),
    /// The programs of this node have all consumed this many bytes of their standard input.
    InputTaken(u32),
    /// The node accepts direct connections at these addresses; none if it cannot listen.
    Listening(Vec<SocketAddr>),
    /// A child has opened a direct connection and was authenticated.
    DirectAccepted(LinkId),
    /// To a member: whether the direct connection to the parent is open and authenticated. `false`
    /// after `true` means that the connection has ended before anything was sent or received on it.
    DirectConnected(bool),
    /// A link that is [watched](Effect::Watch) has carried enough to be worth a direct connection.
    Carries(LinkId),
    /// The user of a member detaches it from the session, once that is up.
    Detach,
    /// To an agent: its programs can be started; otherwise, why not.
    ProgramsFound(Result<(), String>),
    /// To an agent: so many bytes of the staged files are written, and those of complete files are
    /// right; otherwise, what is wrong. To the front end: the files cannot be read.
    Staged(Result<u64, String>),
}

/// A request of a node to its driver.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Start a process. Its links begin anew: what was sent on them before is dropped.
    Start(StartId, StartRequest),
    /// End the process that carries out a bulk start by this signal. If it was not started yet, it
    /// is not, and the driver reports [`Event::StartCancelled`].
    EndStarter(StartId, i32),
    /// The connection that has arrived is this link: bytes sent on the link go there, and the
    /// connection's end is the link's.
    Admit(ArrivalId, LinkId),
    /// Send a connection that has arrived to another rendezvous of its start, and close it.
    Redirect(ArrivalId, Vec<SocketAddr>),
    /// Close a connection that has arrived: its process is awaited nowhere.
    Refuse(ArrivalId),
    /// Close a connection that has arrived: it may be tried again.
    TurnAway(ArrivalId),
    /// A link comes into being, whose connection will arrive at the rendezvous.
    Await(LinkId),
    /// To a member that was started with others: accept processes of its own start, which this is,
    /// at the rendezvous.
    AcceptStart(StartId),
    /// Send bytes on a link.
    Send(LinkId, Vec<u8>),
    /// The peer at the other end of a link is authenticated: its frames have the limits of
    /// authenticated peers from now on.
    Trust(LinkId),
    /// Close a link. The driver delivers no `Received` and no `Closed` for it any more; `Exited`
    /// may still follow.
    Close(LinkId),
    /// Kill the process that was started for a link.
    Kill(LinkId),
    /// Send a signal to the process that was started for a link, and to its process group.
    Signal(LinkId, i32),
    /// The process that was started for a link has detached: it must survive the end of this
    /// process.
    DetachChild(LinkId),
    /// Look for these programs, and report whether they could be started with
    /// [`Event::ProgramsFound`].
    FindPrograms(Vec<Program>),
    /// Make a directory for the files of [`LaunchOptions::stage`], and report with
    /// [`Event::Staged`] that nothing is written yet.
    OpenStage,
    /// Write these bytes of the staged files behind those before, check the files that they complete,
    /// and report with [`Event::Staged`] how many are written.
    WriteStaged(Vec<u8>),
    /// Read bytes of the staged files, from this place on and so many, and send them on a link in a
    /// frame [`staged_payload`](super::staged_payload), behind all messages. If they cannot be read,
    /// report it with [`Event::Staged`].
    SendStaged(LinkId, u64, u32),
    /// Remove the directory of the staged files.
    RemoveStaged,
    /// Accept connections of hosts that prove knowledge of this key, and report each with
    /// [`Event::FilesWanted`].
    AcceptFileLinks(LinkKey),
    /// Open a connection for this link to one of these addresses, and prove knowledge of the key.
    ConnectSource(LinkId, Vec<SocketAddr>, LinkKey),
    /// A program that was started as a plain one has joined, or a host of a session that has grown: data of
    /// the session that wait for its link are sent, and those that arrive on it are passed to the
    /// communication half.
    Carry(LinkId),
    /// To the communication half: a new process is at the other end of this link, after
    /// [`Effect::Carry`] in the place of these lost members, or after [`Effect::Grows`] with these
    /// further ones. The driver passes it to the group as `libi_comm::Event::Joins`. Programs that
    /// join for the first time have no such effect: they are branches of the tree from the
    /// beginning.
    Joins {
        /// The link.
        link: LinkId,
        /// The members at and below it.
        ranks: Ranks,
        /// Whether it is a further member of this host.
        local: bool,
    },
    /// To the communication half: the session has this many members, without the absent ones.
    Grows {
        /// The number, absent ones included.
        size: u32,
        /// All that did not come up.
        absent: Ranks,
    },
    /// The bytes of the following [`Effect::Input`] are the standard input of the first programs of
    /// this host, which are so many.
    TakeInput(u32),
    /// Standard input of these programs; an empty vector is end of file.
    Input(Vec<u8>),
    /// Listen for direct connections of children.
    Listen {
        /// Whether to listen on the loopback address only, instead of on all addresses.
        loopback: bool,
    },
    /// Accept a direct connection for this link from the peer that proves knowledge of the key.
    AcceptDirect(LinkId, LinkKey),
    /// Do not accept a direct connection for this link any more.
    RejectDirect(LinkId),
    /// Report with [`Event::Carries`], once, that this link has carried 128 KiB. Each frame of a
    /// call counts as 4 KiB beside its bytes.
    Watch(LinkId),
    /// Open a direct connection to the parent at one of these addresses, and prove knowledge of the
    /// key.
    ConnectDirect(Vec<SocketAddr>, LinkKey),
    /// Send on the direct connection from now on.
    SendDirect(LinkId),
    /// Receive from the direct connection from now on.
    ReceiveDirect(LinkId),
    /// To the communication half: the session is up, with this tree. Data of the session that
    /// arrive on the links of the tree are passed to the communication half from now on. Data for a
    /// link that does not [carry](super::Node::carries_data) them yet are kept until
    /// [`Effect::Carry`].
    SessionUp(Topology),
    /// To the communication half: this link of the tree is closed in both directions, and no longer
    /// a link of the tree. What is at its other end was lost in this way, as far as it is known.
    Cut(LinkId, Option<LossReason>),
    /// To the communication half: this link of the tree is closed in both directions. These members were
    /// lost with what is at its other end; others there may come back over other links. Or the link to the
    /// parent is closed, and another may take its place.
    Severed(LinkId, Ranks, Option<LossReason>),
    /// To the communication half: a process from behind a severed link is back over this one, with these
    /// members, at this place among all such.
    Adopted {
        /// The new link.
        link: LinkId,
        /// The severed link.
        instead_of: LinkId,
        /// The members behind the new link.
        ranks: Ranks,
        /// The place.
        place: u32,
    },
    /// To the communication half: what has not come back from behind this link is lost.
    Forsaken(LinkId, Option<LossReason>),
    /// To the communication half: the link to the parent, which was severed, now leads to another one.
    Reattached,
    /// Forget the channel and the connection of the link to the parent, which is closed: it may be
    /// connected once more.
    Reopen(LinkId),
    /// This process may find another parent. If it was to be killed at the end of what has started it, as a
    /// program of sshd is, it is not any more: from now on it ends by itself if no node above takes it.
    OutlivesStarter,
    /// Accept connections of hosts that have lost their parent, which prove knowledge of this key, and
    /// report each with [`Event::OrphanArrived`].
    AcceptOrphans(LinkKey),
    /// To a host that has lost its parent: accept the connection of a helper on this host, behind which
    /// this key is known, and report it with [`Event::Helped`].
    AwaitHelper(LinkKey),
    /// No helper is awaited any more.
    ForgetHelper,
    /// The link to the parent is the connection of the helper from now on. Its channel and its direct
    /// connection are forgotten, and so are attempts to open one.
    TakeHelper,
    /// Start a helper on this host, through the back-end: this program, which passes bytes on between its
    /// standard streams and what awaits it there. If it proves knowledge of this key, report it with
    /// [`Event::OrphanArrived`]; and its end with [`Event::HelperEnded`].
    StartHelper(Box<(HostSpec, Program)>, LinkKey),
    /// Wake the node at this time, unless it requests an earlier wake-up.
    WakeAt(Instant),
    /// Give a notice to the user of the node.
    Notify(Notice),
}

/// Information for the user of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// To the front end: a member has printed this. The user acknowledges it with
    /// [`Event::Consumed`].
    Output(Rank, Stream, Vec<u8>),
    /// To the front end, where equal output is merged: each of these members has printed this. The
    /// user acknowledges it with [`Event::Consumed`], once.
    Folded(Ranks, Stream, Vec<u8>),
    /// To the front end: a process of a command has printed this. The user acknowledges it with
    /// [`Event::Consumed`].
    CommandOutput(CommandProcess, Stream, Vec<u8>),
    /// To the front end: a process of a command is done. All of its output was passed on before, unless
    /// its host is lost, or it is late.
    CommandEnded(CommandProcess, CommandOutcome),
    /// To the front end: all processes of a command are done.
    CommandDone(CommandId),
    /// To the front end: a start waits for resources, as its process says in these words.
    Waiting(String),
    /// To the front end: what has started the session is ending it, as its process says, or that
    /// process was killed.
    Revoked(String),
    /// The session is up: all members that belong to it have joined.
    Up,
    /// To the front end: the session cannot come up, and is being ended.
    GivenUp,
    /// To the front end: a member has ended. Carries the cause if its leader has killed it for one.
    Exited(Rank, Exit, Option<Cause>),
    /// To the front end: a host was lost after the session was up.
    Lost(HostIndex, Failure),
    /// To the front end: the master's program has consumed this many bytes of its standard input.
    InputTaken(u32),
    /// To the front end: a member has detached from the session.
    Detached(Rank),
    /// To the front end: a new process has taken the place of a lost member. Its end is reported
    /// with another [`Notice::Exited`]. It precedes the output of the process, unless its host has
    /// lost its parent meanwhile.
    Restarted(Rank),
    /// To the front end: a new host was launched in the place of a lost one, and has these members of it, which
    /// are restarted; none if it has not come up.
    Returned {
        /// The index of the lost host.
        lost: HostIndex,
        /// The index of the new one.
        host: HostIndex,
        /// The machine of that.
        place: Spare,
        /// The members.
        blocks: Vec<Block>,
    },
    /// To the front end: a lost member was not restarted.
    NotRestarted(Rank, RestartError),
    /// To the front end: further hosts are in the session, those of these that have joined.
    Grown(Grown),
    /// To the front end: none are.
    NotGrown(GrowthError),
    /// To the front end: how much of the staged files the hosts have that it has launched itself.
    Staging {
        /// The bytes that they have confirmed.
        sent: u64,
        /// The bytes that they are to get.
        of: u64,
    },
    /// To the front end: every member has ended, has detached, or is lost with its host.
    Done,
    /// To a member: deliver this signal to the program.
    Signal(i32),
    /// To a member: end the program by this signal, and kill it after the grace period.
    End(Ending),
    /// The node and everything it has started have ended. A member's process exits now.
    Over,
}

/// A session that a front end launches.
#[derive(Clone, Debug)]
pub struct LaunchPlan {
    /// The session's hosts in the order of their indices; at least one.
    pub hosts: Vec<HostSpec>,
    /// The programs of the distributions.
    pub programs: Vec<Program>,
    /// The number of members.
    pub size: u32,
    /// The session's secret, if it has direct links.
    pub secret: Option<CarriedSecret>,
    /// The options of the launch.
    pub options: LaunchOptions,
}
