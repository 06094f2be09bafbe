//! What a node and whoever drives it say to each other: what can happen, what it wants, what it tells.

use std::net::SocketAddr;
use std::time::Duration;

use libi_core::cost::Cost;
pub use libi_core::ids::LinkId;
use libi_core::ids::{HostIndex, Rank};
use libi_core::plan::Strategy;
use libi_core::ranks::Ranks;
use libi_core::secure::LinkKey;
use libi_core::time::Instant;

use super::host_table::Policy;
use super::message::{Ending, HostSpec, Output, Program, Rules, Spare};
use super::node::DirectSettings;
use super::output_relay::Stream;
use crate::backend::Backend;
use crate::failure::{Exit, Failure};

/// What is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartRequest {
    /// The leader of a host.
    Host(HostSpec, Program),
    /// A further member of this host.
    Member(Rank, Program),
}

/// What can happen to a node.
#[derive(Clone, Debug)]
pub enum Event {
    /// It can begin.
    Begin,
    /// A start is over as far as its starter is concerned, which can start the next.
    Started(LinkId),
    /// A start was refused by the operating system, which says why. Nothing more comes of this link.
    NotStarted(LinkId, String),
    /// A start was refused by the operating system for want of room, as it says: another may go better, here or elsewhere.
    OutOfResources(LinkId, String),
    /// Bytes have arrived. What a child has said before it exited should be received before its exit is told.
    Received(LinkId, Vec<u8>),
    /// Bytes have arrived, and were put where [`receive_buffer`](super::Node::receive_buffer) has said.
    ReceivedInPlace(LinkId),
    /// What was started has written this beside the link; of the link to the parent, this process itself.
    Printed(LinkId, Stream, Vec<u8>),
    /// Nothing more will arrive on a link.
    Closed(LinkId),
    /// What was started for a link has ended.
    Exited(LinkId, Exit),
    /// The time has come that it wanted to be woken at.
    Woken,
    /// The user of a front end wants the session to end.
    End(Ending),
    /// The user of a front end wants every member to get this signal.
    Signal(i32),
    /// The user of a front end has taken so many bytes of output, and will take as many again.
    Consumed(u32),
    /// The user of a front end has this for the master's standard input; no bytes are its end.
    Input(Vec<u8>),
    /// The program of the master has taken so much of its input.
    InputTaken(u32),
    /// This node can be reached at these addresses.
    Listening(Vec<SocketAddr>),
    /// A child has connected directly, and proved itself.
    DirectAccepted(LinkId),
    /// To a member: it has connected to its parent and both have proved themselves; or it has not, and will not. After the
    /// one, the other: the connection has ended before anything was sent or received there.
    DirectConnected(bool),
    /// The user of a member wants it to be released, once the session is up.
    Detach,
}

/// What a node can want.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Start something, with a link to it.
    Start(LinkId, StartRequest),
    /// Send bytes.
    Send(LinkId, Vec<u8>),
    /// Close a link. Nothing more is to be received or closed on it, but what was started for it may still exit.
    Close(LinkId),
    /// End what was started for a link by force.
    Kill(LinkId),
    /// What was started for a link is not ours any more: leave it alone when this process ends.
    DetachChild(LinkId),
    /// To the master: what follows as [`Effect::Input`] is this program's standard input.
    TakeInput,
    /// More of the program's input; no bytes are its end.
    Input(Vec<u8>),
    /// Listen for children that connect directly, on the loopback address alone or on all.
    Listen {
        /// Whether on the loopback address alone.
        loopback: bool,
    },
    /// Whoever connects and proves that it has this key is the other end of this link.
    AcceptDirect(LinkId, LinkKey),
    /// Nobody is, any more.
    RejectDirect(LinkId),
    /// Connect to the parent: try these addresses, prove that this node has the key.
    ConnectDirect(Vec<SocketAddr>, LinkKey),
    /// What is sent from now on goes over the direct connection.
    SendDirect(LinkId),
    /// What is received from now on comes over the direct connection.
    ReceiveDirect(LinkId),
    /// To the communication half: the session is up, and this is who is where.
    SessionUp(TreeView),
    /// To the communication half: this frame has come over a link of the tree.
    Deliver(LinkId, Vec<u8>),
    /// To the communication half: nothing comes over this link of the tree any more, nor goes.
    Cut(LinkId),
    /// Wake the node at this time, unless it asks for an earlier one.
    WakeAt(Instant),
    /// Tell the user of the node.
    Notify(Notice),
}

/// What the user of a node should know.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// To the front end: a member has printed this. Its user says with [`Event::Consumed`] that it has taken it.
    Output(Rank, Stream, Vec<u8>),
    /// The session is up: every member that is going to be in it is.
    Up,
    /// To the front end: the session will not come up; what is left of it is being ended.
    GivenUp,
    /// To the front end: a member has ended.
    Exited(Rank, Exit),
    /// To the front end: a host was lost after the session was up.
    Lost(HostIndex, Failure),
    /// To the front end: the master's program has taken so much of its input.
    InputTaken(u32),
    /// To the front end: a member was released, and is not ours any more.
    Detached(Rank),
    /// To the front end: every member has ended, was released, or is lost with its host.
    Done,
    /// To a member: it gets this signal.
    Signal(i32),
    /// To a member: it is to end by this signal, and is to be killed when the grace has passed.
    End(Ending),
    /// Nothing is left of what this node had started; of a member, the process is to end now.
    Over,
}

/// Who is where, as one of the nodes of a session sees it when that comes up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeView {
    /// The rank of this process; the front end has none.
    pub me: Option<Rank>,
    /// How many ranks the session has, those included that did not come up.
    pub size: u32,
    /// Who did not come up.
    pub absent: Ranks,
    /// Whether there is a link to whoever has started this process.
    pub has_parent: bool,
    /// Whether this is the lowest node that everybody who came up is at or below.
    pub top: bool,
    /// Whether this process is a further member of its host, whose leader is its parent.
    pub local: bool,
    /// Who is below, in the order of the lowest rank of each branch.
    pub branches: Vec<TreeBranch>,
    /// Who is thought by others to be below, and is lost already.
    pub lost: Ranks,
}

/// A child in the tree, and everybody below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeBranch {
    /// The link to it.
    pub link: LinkId,
    /// Who is there.
    pub ranks: Ranks,
    /// Whether it is a further member of this host: nobody is below it.
    pub local: bool,
}

/// What a front end wants to have launched: one session.
#[derive(Clone, Debug)]
pub struct LaunchPlan {
    /// The session's hosts in the order of their indices, at least one.
    pub hosts: Vec<HostSpec>,
    /// Machines to be put in the place of hosts that are given up before the session is up, the first first.
    pub spares: Vec<Spare>,
    /// What the distributions run.
    pub programs: Vec<Program>,
    /// How many members there are.
    pub size: u32,
    /// The rules of the launch.
    pub rules: Rules,
    /// How many hosts have to join.
    pub policy: Policy,
    /// When no verdict may be open any more, counted from the beginning.
    pub deadline: Duration,
    /// What launches are believed to cost.
    pub cost: Cost,
    /// How hosts are reached.
    pub backend: Backend,
    /// What becomes of what members print.
    pub output: Output,
    /// Whether there is input for the master.
    pub input: bool,
    /// Direct links.
    pub direct: DirectSettings,
    /// How the launches are shared out.
    pub strategy: Strategy,
}

impl LaunchPlan {
    /// Everything on this machine, all hosts, two minutes, by late commit; to be changed as need be.
    #[must_use]
    pub fn new(hosts: Vec<HostSpec>, programs: Vec<Program>, size: u32, cost: Cost) -> Self {
        Self {
            hosts,
            spares: Vec::new(),
            programs,
            size,
            rules: Rules::default(),
            policy: Policy::All,
            deadline: Duration::from_secs(120),
            cost,
            backend: Backend::default(),
            output: Output::default(),
            input: false,
            direct: DirectSettings::default(),
            strategy: Strategy::default(),
        }
    }
}
