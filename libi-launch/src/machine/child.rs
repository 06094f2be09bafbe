//! One process that a node has started, from its start to its end.
//!
//! ```text
//!                preamble              hello              its hosts' members are up
//!   Starting --------------> Greeting -------> Up(joined: false) ----------------> Up(joined: true)
//!      |                         |                 |                                    |
//!      +-------------------------+--------+--------+------------------------------------+
//!                                         | it ended, closed its link, was too slow, fell silent,
//!                                         v or said what it should not
//!                                      Ending
//!                                         | it has ended and its link is closed: nothing more will be known;
//!                                         v or the grace is over twice, once to end by itself, once by force
//!                                       gone
//! ```
//!
//! Why a child ends is decided when it is first noticed, and sharpened by what becomes known while it is ending: a link
//! that was closed becomes an exit status, when one arrives in time.

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::join::{MemberRole, Ticket};
use libi_core::plan::late::Launch;
use libi_core::time::Instant;

use super::link_reader::LinkReader;
use super::output_relay::{Stream, WINDOW};
use crate::failure::{Cause, Exit, Failure, LaunchTiming, Phase};

/// How much of what a child prints before it joins is kept as evidence.
const TAIL: usize = 2_000;
/// How much of that is passed on as output when it joins.
const BACKLOG: usize = 32 << 10;

/// Where a child is on its way.
#[derive(Debug)]
pub(super) enum ChildState {
    Starting,
    AwaitHello,
    Up { joined: bool },
    Ending { phase: Phase, cause: Cause, forced: bool },
}

/// A process that was started, and the link to it.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) ticket: Ticket,
    /// For leaders: the launch that started it, as the queue knows it.
    pub(super) launch: Option<Launch>,
    /// What runs there: of a leader, on its whole host.
    pub(super) blocks: Vec<Block>,
    pub(super) started: Instant,
    pub(super) state: ChildState,
    /// When the present state has lasted too long.
    pub(super) by: Instant,
    pub(super) last_heard: Instant,
    pub(super) reader: LinkReader,
    /// Whether something can still arrive from it.
    pub(super) open: bool,
    pub(super) exit: Option<Exit>,
    /// What a leader has said of itself before it ended.
    pub(super) reported_failure: Option<Failure>,
    /// When it said hello.
    pub(super) greeted: Option<Instant>,
    /// It has left the session, and lives on by itself.
    pub(super) detached: bool,
    /// Nobody below it needs it any more.
    pub(super) no_dependents: bool,
    /// It has launched others.
    pub(super) has_launched: bool,
    /// It has said that it cannot launch others, or no more of them.
    pub(super) has_handed_back: bool,
    /// The link to it is a direct one.
    pub(super) direct: bool,
    /// It sends there as well.
    pub(super) moved: bool,
    /// It is in the tree: the communication half talks to it.
    pub(super) in_tree: bool,
    /// How much output it may still send, and how much of what it has sent was passed on since.
    pub(super) credit: u32,
    pub(super) uncredited: u32,
    /// What it has printed before its hello, if that is not too much, and the end of everything.
    backlog: Vec<(Stream, Vec<u8>)>,
    tail: Vec<u8>,
}

impl Child {
    /// Whether it was ended from here, by force.
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
            backlog: Vec::new(),
            tail: Vec::new(),
        }
    }

    /// The host that it leads, if it leads one.
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

    /// Keeps what it prints before its hello.
    pub(super) fn printed(&mut self, stream: Stream, text: Vec<u8>) {
        self.remember(&text);
        let held: usize = self.backlog.iter().map(|(_, text)| text.len()).sum();
        if held + text.len() > BACKLOG {
            // Only the end is kept, as evidence: to wait for a reader could be to wait for ever.
            self.backlog.clear();
            self.backlog.push((stream, b"[libi: the beginning is left out]\n".to_vec()));
            self.backlog.push((stream, self.tail.clone()));
        } else {
            self.backlog.push((stream, text));
        }
    }

    pub(super) fn take_backlog(&mut self) -> Vec<(Stream, Vec<u8>)> {
        std::mem::take(&mut self.backlog)
    }

    /// Keeps the end of what it prints.
    pub(super) fn remember(&mut self, text: &[u8]) {
        let text = &text[text.len().saturating_sub(TAIL)..];
        let drop = (self.tail.len() + text.len()).saturating_sub(TAIL);
        self.tail.drain(..drop);
        self.tail.extend_from_slice(text);
    }

    /// Begins to end it, unless that has begun.
    pub(super) fn end(&mut self, cause: Cause) -> bool {
        if self.is_ending() {
            return false;
        }
        self.state = ChildState::Ending { phase: self.phase(), cause, forced: false };
        true
    }

    /// Whether all that can be known of its end is known.
    pub(super) fn is_gone(&self) -> bool {
        self.is_ending() && !self.open && self.exit.is_some()
    }

    /// When it was launched, by a leader that has been up since then.
    pub(super) fn timing(&self, launcher: Option<HostIndex>, since: Instant) -> LaunchTiming {
        let hello = self.greeted.map(|at| at.since(self.started));
        LaunchTiming { launcher, started: self.started.since(since), hello, joined: None }
    }

    /// What became of it, once it is gone.
    ///
    /// `exit_from_host` says whether hosts themselves say how their programs end.
    pub(super) fn failure(&self, timing: LaunchTiming, exit_from_host: bool, now: Instant) -> Failure {
        let elapsed = now.since(self.started);
        if let Some(verdict) = &self.reported_failure {
            return Failure { phase: verdict.phase.max(Phase::Joining), elapsed, timing, ..verdict.clone() };
        }
        let cause = match (&self.state, self.exit) {
            // The status says more than how the link ended, unless it is our own doing.
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
