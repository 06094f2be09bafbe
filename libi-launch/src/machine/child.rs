//! One process that a node has started, from its start to its end.
//!
//! ```text
//!                preamble               hello             all members of the host are up
//!   Starting ------------> AwaitHello -------> Up(joined: false) ------------> Up(joined: true)
//!      |                       |                  |                                 |
//!      +-----------------------+---------+--------+---------------------------------+
//!                                        | the process exits, its link closes, a deadline passes,
//!                                        | heartbeats stop, or the peer violates the protocol
//!                                        v
//!                                     Ending
//!                                        | the process has exited and its link is closed;
//!                                        v or kill_grace has passed twice, around SIGKILL
//!                                      gone
//! ```
//!
//! The cause of an end is fixed when it is first noticed. Evidence that arrives in state `Ending`
//! refines it: a closed link becomes an exit status, if one arrives in time.

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::join::{MemberRole, Ticket};
use libi_core::plan::late::Launch;
use libi_core::time::Instant;

use super::early_output::EarlyOutput;
use super::link_reader::LinkReader;
use super::output_relay::{Stream, WINDOW};
use crate::failure::{Cause, Exit, Failure, LaunchTiming, Phase};

/// How much of the end of a child's output is kept as evidence.
const TAIL: usize = 2_000;

/// The state of a child.
#[derive(Debug)]
pub(super) enum ChildState {
    Starting,
    AwaitHello,
    Up { joined: bool },
    Ending { phase: Phase, cause: Cause, forced: bool },
}

/// A started process, and the link to it.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) ticket: Ticket,
    /// For leaders: the launch that started the process, as the queue knows it.
    pub(super) launch: Option<Launch>,
    /// The ranks of the process; of a leader, all ranks of its host.
    pub(super) blocks: Vec<Block>,
    pub(super) started: Instant,
    pub(super) state: ChildState,
    /// The deadline of the present state.
    pub(super) by: Instant,
    pub(super) last_heard: Instant,
    pub(super) reader: LinkReader,
    /// Whether the link can still deliver data.
    pub(super) open: bool,
    pub(super) exit: Option<Exit>,
    /// The failure that a leader has reported of its own host before it ended.
    pub(super) reported_failure: Option<Failure>,
    /// When the hello arrived.
    pub(super) greeted: Option<Instant>,
    /// The process has detached from the session, and lives on.
    pub(super) detached: bool,
    /// No process below the child depends on it any more.
    pub(super) no_dependents: bool,
    /// The child has launched a host.
    pub(super) has_launched: bool,
    /// The child has reported that it cannot launch hosts, or no more of them.
    pub(super) has_handed_back: bool,
    /// This node sends on a direct connection to the child.
    pub(super) direct: bool,
    /// The child sends on the direct connection, too.
    pub(super) moved: bool,
    /// The child is in the tree of the session: its data frames go to the communication half.
    pub(super) in_tree: bool,
    /// How much output the child may still send, and how much of its output has been passed on
    /// since the last grant.
    pub(super) credit: u32,
    pub(super) uncredited: u32,
    early_output: EarlyOutput,
    /// The end of everything that the child has printed.
    tail: Vec<u8>,
}

impl Child {
    /// Whether this node has killed the process.
    pub(super) fn was_forced(&self) -> bool {
        matches!(self.state, ChildState::Ending { forced: true, .. })
    }

    pub(super) fn new(
        ticket: Ticket,
        launch: Option<Launch>,
        blocks: Vec<Block>,
        now: Instant,
        by: Instant,
    ) -> Self {
        Self {
            ticket,
            launch,
            blocks,
            started: now,
            state: ChildState::Starting,
            by,
            last_heard: now,
            reader: LinkReader::new(),
            open: true,
            exit: None,
            reported_failure: None,
            greeted: None,
            detached: false,
            no_dependents: false,
            has_launched: false,
            has_handed_back: false,
            direct: false,
            moved: false,
            in_tree: false,
            credit: WINDOW,
            uncredited: 0,
            early_output: EarlyOutput::default(),
            tail: Vec::new(),
        }
    }

    /// The host that the process leads, if it is a leader.
    pub(super) fn host(&self) -> Option<HostIndex> {
        match self.ticket.place {
            MemberRole::Leader(host) => Some(host),
            MemberRole::Local(_) => None,
        }
    }

    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, ChildState::Up { .. })
    }

    pub(super) fn is_ending(&self) -> bool {
        matches!(self.state, ChildState::Ending { .. })
    }

    pub(super) fn phase(&self) -> Phase {
        match &self.state {
            ChildState::Starting => Phase::Starting,
            ChildState::AwaitHello => Phase::Handshaking,
            ChildState::Up { joined: false } => Phase::Joining,
            ChildState::Up { joined: true } => Phase::Joined,
            ChildState::Ending { phase, .. } => *phase,
        }
    }

    /// The rank of the process itself.
    pub(super) fn rank(&self) -> Option<Rank> {
        match self.ticket.place {
            MemberRole::Local(rank) => Some(rank),
            MemberRole::Leader(_) => self.blocks.first().map(|block| block.first),
        }
    }

    pub(super) fn is_before_hello(&self) -> bool {
        self.greeted.is_none()
    }

    /// Keeps output that arrives before the hello.
    pub(super) fn printed(&mut self, stream: Stream, text: Vec<u8>) {
        self.remember(&text);
        self.early_output.push(stream, text);
    }

    pub(super) fn take_early_output(&mut self) -> Vec<(Stream, Vec<u8>)> {
        self.early_output.take()
    }

    /// Keeps the end of what the child prints.
    pub(super) fn remember(&mut self, text: &[u8]) {
        let text = &text[text.len().saturating_sub(TAIL)..];
        let drop = (self.tail.len() + text.len()).saturating_sub(TAIL);
        self.tail.drain(..drop);
        self.tail.extend_from_slice(text);
    }

    /// Moves to `Ending`; returns false if the child is there already.
    pub(super) fn end(&mut self, cause: Cause) -> bool {
        if self.is_ending() {
            return false;
        }
        self.state = ChildState::Ending { phase: self.phase(), cause, forced: false };
        true
    }

    /// Whether no further evidence of the child's end can arrive.
    pub(super) fn is_gone(&self) -> bool {
        self.is_ending() && !self.open && self.exit.is_some()
    }

    /// The launch timing, relative to the time since which the launcher has been up.
    pub(super) fn timing(&self, launcher: Option<HostIndex>, since: Instant) -> LaunchTiming {
        let hello = self.greeted.map(|at| at.since(self.started));
        LaunchTiming { launcher, started: self.started.since(since), hello, joined: None }
    }

    /// The failure, once the child is gone.
    ///
    /// `exit_from_host` tells whether hosts report the exit statuses of their programs themselves.
    pub(super) fn failure(&self, timing: LaunchTiming, exit_from_host: bool, now: Instant) -> Failure {
        let elapsed = now.since(self.started);
        if let Some(verdict) = &self.reported_failure {
            return Failure { phase: verdict.phase.max(Phase::Joining), elapsed, timing, ..verdict.clone() };
        }
        let cause = match (&self.state, self.exit) {
            // A status says more than the end of the link, unless this node has killed the process.
            (
                ChildState::Ending { cause: Cause::Closed | Cause::Protocol(_), forced: false, .. },
                Some(exit),
            ) => Cause::Exited(exit),
            (ChildState::Ending { cause, .. }, _) => cause.clone(),
            _ => Cause::Closed,
        };
        let tail = String::from_utf8_lossy(&self.tail).into_owned();
        let member = self.launch.is_none().then(|| self.rank()).flatten();
        let exit_from_host = exit_from_host && member.is_none();
        Failure { member, phase: self.phase(), cause, exit: self.exit, exit_from_host, tail, elapsed, timing }
    }
}
