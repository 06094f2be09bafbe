//! One process that a node has started, from its start to its end.
//!
//! | state | preamble | hello | all members of its host are up | exit, closed link, deadline, silence, violation |
//! |---|---|---|---|---|
//! | `Starting` | `AwaitHello` | | | `Ending` |
//! | `AwaitHello` | | `Up` | | `Ending` |
//! | `Running` | | `Up` | | `Ending` |
//! | `Up` | | | `Up`, joined | `Ending` |
//! | `Ending` | | | | gone: exited and link closed, or twice `kill_grace` passed around SIGKILL |
//!
//! An event without an entry violates the protocol (see `node/children.rs`). What only a child that
//! has said hello can have or do is a part of the stage `Up`. A child that ends keeps the stage that
//! it has reached.
//!
//! A program that may not join is `Running` from its start on (see `node/programs.rs`). Its link may
//! close without consequences, and its state has no deadline.
//!
//! A child that the front end has started and moved here (see `moves.rs`) is `Starting` until its link
//! has come about, and `Up` with the preamble: its hello was the front end's. At the front end, a child
//! that waits to be moved stays in `AwaitHello` after its hello.
//!
//! A child of a bulk start is `Starting` until its link has arrived at the rendezvous and the
//! preamble has arrived on it.
//!
//! The cause of an end is fixed when it is first noticed. Evidence that arrives in state `Ending`
//! refines it: a closed link becomes an exit status, if one arrives in time.

mod evidence;
mod up_state;

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank, StartId};
use libi_core::join::{MemberRole, Nonce, SessionKey, Ticket};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::time::Instant;

use self::up_state::UpState;
use super::early_output::EarlyOutput;
use crate::failure::{Cause, Exit, Phase};

/// What a process was started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildRole {
    /// The leader of another host, by this launch of the queue.
    Leader(Launch),
    /// A further member of this host.
    Local(Rank),
}

/// How the link of a child comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is the channel to the process that this node has started.
    Inherited,
    /// It is awaited at the rendezvous.
    Awaited,
    /// It has arrived at the rendezvous.
    Arrived,
    /// The process was started by the front end, and connects to this node.
    Moving,
    /// It has.
    Moved,
}

/// The state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildState {
    Starting,
    AwaitHello,
    /// It is a member already, and may never say hello.
    Running,
    Up,
    Ending {
        /// Whether it had said hello.
        was_up: bool,
        /// Whether this node has killed it.
        forced: bool,
    },
}

/// How far a child has come.
#[derive(Debug)]
enum Stage {
    Starting,
    AwaitHello,
    Running,
    Up(Box<UpState>),
}

/// Why a child ends.
#[derive(Debug)]
struct ChildEnd {
    cause: Cause,
    /// Whether this node has killed the process.
    forced: bool,
    /// It has begun while the start was ending all programs.
    with_others: bool,
}

/// A started process, and the link to it.
#[derive(Debug)]
pub(super) struct Child {
    role: ChildRole,
    /// Whether it leads its host without being a member: by the options, or as its hello tells.
    is_agent: bool,
    /// The start that brings it up.
    start: StartId,
    arrival: Arrival,
    ticket: Ticket,
    /// The ranks of the process; of a leader, all ranks of its host.
    blocks: Vec<Block>,
    started: Instant,
    stage: Stage,
    end: Option<ChildEnd>,
    last_heard: Instant,
    /// Whether the link can still deliver data.
    open: bool,
    /// The child is in the tree of the session: its link belongs to the communication half, too.
    in_tree: bool,
    exit: Option<Exit>,
    early_output: EarlyOutput,
    /// The end of everything that the child has printed.
    tail: Vec<u8>,
}

impl ChildRole {
    pub(super) fn launch(self) -> Option<Launch> {
        match self {
            Self::Leader(launch) => Some(launch),
            Self::Local(_) => None,
        }
    }

    fn ticket(self, session: SessionKey, nonce: Nonce) -> Ticket {
        match self {
            Self::Leader(Launch { host, attempt }) => {
                Ticket { session, place: MemberRole::Leader(host), attempt, nonce }
            }
            Self::Local(rank) => {
                Ticket { session, place: MemberRole::Local(rank), attempt: Attempt::default(), nonce }
            }
        }
    }
}

impl Child {
    /// A process that is being started.
    pub(super) fn new(
        role: ChildRole,
        (start, arrival): (StartId, Arrival),
        (session, nonce): (SessionKey, Nonce),
        blocks: Vec<Block>,
        now: Instant,
    ) -> Self {
        Self {
            role,
            is_agent: false,
            start,
            arrival,
            ticket: role.ticket(session, nonce),
            blocks,
            started: now,
            stage: Stage::Starting,
            end: None,
            last_heard: now,
            open: true,
            in_tree: false,
            exit: None,
            early_output: EarlyOutput::default(),
            tail: Vec::new(),
        }
    }

    /// The process leads its host without being a member.
    pub(super) fn set_agent(&mut self) {
        self.is_agent = true;
    }

    /// The process is a member from its start on, and may never say hello.
    pub(super) fn run(&mut self) {
        self.stage = Stage::Running;
    }

    pub(super) fn state(&self) -> ChildState {
        match (&self.stage, &self.end) {
            (stage, Some(end)) => {
                ChildState::Ending { was_up: matches!(stage, Stage::Up(_)), forced: end.forced }
            }
            (Stage::Starting, None) => ChildState::Starting,
            (Stage::AwaitHello, None) => ChildState::AwaitHello,
            (Stage::Running, None) => ChildState::Running,
            (Stage::Up(_), None) => ChildState::Up,
        }
    }

    pub(super) fn phase(&self) -> Phase {
        match &self.stage {
            Stage::Starting => Phase::Starting,
            Stage::AwaitHello => Phase::Handshaking,
            Stage::Running => Phase::Joined,
            Stage::Up(up) if up.has_joined() => Phase::Joined,
            Stage::Up(_) => Phase::Joining,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        self.state() == ChildState::Up
    }

    /// Whether it is a member that has not said hello.
    pub(super) fn is_running(&self) -> bool {
        self.state() == ChildState::Running
    }

    pub(super) fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    /// Whether no further evidence of the child's end can arrive.
    pub(super) fn is_gone(&self) -> bool {
        self.is_ending() && !self.open && self.exit.is_some()
    }

    pub(super) fn is_leader(&self) -> bool {
        self.role.launch().is_some()
    }

    /// The launch that started the process, as the queue knows it, if it is a leader.
    pub(super) fn launch(&self) -> Option<Launch> {
        self.role.launch()
    }

    /// The host that the process leads, if it is a leader.
    pub(super) fn host(&self) -> Option<HostIndex> {
        self.role.launch().map(|launch| launch.host)
    }

    /// Whether it leads its host without being a member.
    pub(super) fn is_agent(&self) -> bool {
        self.is_agent
    }

    /// The rank of the process itself; an agent has none.
    pub(super) fn rank(&self) -> Option<Rank> {
        self.first_rank().filter(|_| !self.is_agent)
    }

    /// The rank of the process, or of the first member of an agent's host.
    pub(super) fn first_rank(&self) -> Option<Rank> {
        match self.role {
            ChildRole::Local(rank) => Some(rank),
            ChildRole::Leader(_) => self.blocks.first().map(|block| block.first),
        }
    }

    /// The start that brings it up.
    pub(super) fn start(&self) -> StartId {
        self.start
    }

    /// Whether it is one of many that a bulk start brings up: this node has no process for it.
    pub(super) fn is_of_bulk_start(&self) -> bool {
        matches!(self.arrival, Arrival::Awaited | Arrival::Arrived)
    }

    /// Whether the front end has started it: this node has no process for it.
    pub(super) fn is_moved_here(&self) -> bool {
        matches!(self.arrival, Arrival::Moving | Arrival::Moved)
    }

    /// Whether the front end has started it, and it has not connected yet.
    pub(super) fn is_moving(&self) -> bool {
        self.arrival == Arrival::Moving
    }

    /// Whether this node has a process that leads to it.
    pub(super) fn has_process(&self) -> bool {
        self.arrival == Arrival::Inherited
    }

    /// Another start is to bring it up, or its start begins only now.
    pub(super) fn restart(&mut self, start: StartId, now: Instant) {
        (self.start, self.started, self.last_heard) = (start, now, now);
    }

    /// Whether its link is still awaited at the rendezvous.
    pub(super) fn is_awaited(&self) -> bool {
        self.arrival == Arrival::Awaited && self.open
    }

    /// Its link has arrived; returns whether it was awaited.
    pub(super) fn arrive(&mut self, now: Instant) -> bool {
        let awaited = self.is_awaited() && !self.is_ending();
        if awaited {
            (self.arrival, self.last_heard) = (Arrival::Arrived, now);
        }
        awaited
    }

    /// A process that the front end has started has connected; returns whether it was awaited.
    pub(super) fn moves_here(&mut self, now: Instant) -> bool {
        let awaited = self.arrival == Arrival::Moving && self.open && !self.is_ending();
        if awaited {
            (self.arrival, self.last_heard) = (Arrival::Moved, now);
        }
        awaited
    }

    pub(super) fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// Whether the link can still deliver data.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    pub(super) fn exit(&self) -> Option<Exit> {
        self.exit
    }
}

/// What arrives on the link.
impl Child {
    /// Bytes have arrived on the link.
    pub(super) fn on_heard(&mut self, now: Instant) {
        self.last_heard = now;
    }

    pub(super) fn on_preamble(&mut self) {
        if self.state() == ChildState::Starting {
            self.stage = Stage::AwaitHello;
        }
    }

    /// The hello has arrived, with the right ticket.
    pub(super) fn on_hello(&mut self, now: Instant) {
        self.stage = Stage::Up(Box::new(UpState::new(now)));
    }

    /// All members of the child's host are up; returns how long that took since the hello.
    pub(super) fn on_joined(&mut self, now: Instant) -> Option<std::time::Duration> {
        Some(self.up_mut()?.joined(now))
    }

    /// How long nothing has been heard of it.
    pub(super) fn silent_for(&self, now: Instant) -> std::time::Duration {
        now.since(self.last_heard)
    }

    /// This process was held up itself; the child was not silent.
    pub(super) fn forgive_silence(&mut self, held_up: std::time::Duration) {
        self.last_heard += held_up;
    }
}

#[cfg(test)]
pub(super) mod tests;
