//! The link of a member to its parent, and what the member has learnt over it: who it is.
//!
//! | state | ticket | config | all members of its host are up |
//! |---|---|---|---|
//! | `AwaitTicket`, until a deadline | `AwaitConfig`; says hello | | |
//! | `AwaitConfig`, until a deadline | | `Joining`; starts the further members of its host | |
//! | the same, after `Move` | | the same, once it has connected to its new parent | |
//! | `Joining` | | | `Joined`; reports the host |
//! | `Joined` | | | |
//!
//! An event without an entry violates the protocol. A member has a rank and a host from the config
//! on, and always both.

use std::time::Duration;

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::join::{Hello, MemberRole, Ticket};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use super::message::{Membership, SessionConfig};

/// Who a member is, or the agent of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The ranks of the host that the process leads.
    blocks: Vec<Block>,
    /// The rank of this process, or of the first member of an agent's host.
    first: Rank,
    is_agent: bool,
    host: HostIndex,
    host_name: String,
    role: MemberRole,
    attempt: Attempt,
}

impl Identity {
    /// The rank of the process; an agent has none.
    pub(super) fn rank(&self) -> Option<Rank> {
        (!self.is_agent).then_some(self.first)
    }

    /// The rank of the process, or of the first member of an agent's host.
    pub(super) fn first_rank(&self) -> Rank {
        self.first
    }

    /// Whether the process leads its host without being a member.
    pub(super) fn is_agent(&self) -> bool {
        self.is_agent
    }

    /// The ranks of the members that the process starts on its host.
    pub(super) fn others(&self) -> impl Iterator<Item = (Rank, Block)> + use<> {
        let ranks = self.blocks.clone().into_iter();
        let ranks = ranks.flat_map(|block| block.ranks().map(move |rank| (rank, block)));
        ranks.skip(usize::from(!self.is_agent))
    }

    /// The host that the member runs on, and its name.
    pub(super) fn host(&self) -> (HostIndex, &str) {
        (self.host, &self.host_name)
    }

    /// The host that the member leads, by which launch; `None` for a further member.
    pub(super) fn leads(&self) -> Option<Launch> {
        match self.role {
            MemberRole::Leader(host) => Some(Launch { host, attempt: self.attempt }),
            MemberRole::Local(_) => None,
        }
    }
}

/// How far a member has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JoinState {
    AwaitTicket,
    AwaitConfig(Ticket),
    Joining(Identity),
    Joined(Identity),
}

/// The link to the parent.
#[derive(Debug)]
pub(super) struct ParentLink {
    process: u32,
    machine: String,
    /// The process leads its host in place of its program, which is its child.
    is_apart: bool,
    state: JoinState,
    last_heard: Instant,
    /// The parent is lost, or seems to be: nothing more is sent to it.
    is_lost: bool,
    /// The session is up: the link belongs to the communication half, too.
    in_tree: bool,
    /// The membership of a session that comes up, until its last part has arrived.
    absent: Ranks,
    below: Ranks,
    /// The process takes the place of a lost member.
    joins: bool,
    /// When the parent's next message is overdue, before the config.
    due: Instant,
}

impl ParentLink {
    /// The link of a process that has just been started.
    pub(super) fn new(process: u32, machine: String) -> Self {
        Self {
            process,
            machine,
            is_apart: false,
            state: JoinState::AwaitTicket,
            last_heard: Instant::ZERO,
            is_lost: false,
            in_tree: false,
            absent: Ranks::new(),
            below: Ranks::new(),
            joins: false,
            due: Instant::FAR_FUTURE,
        }
    }

    /// The process leads its host in place of its program.
    pub(super) fn set_apart(&mut self) {
        self.is_apart = true;
    }

    /// The ticket is awaited from now on.
    pub(super) fn begin(&mut self, now: Instant, hello_timeout: Duration) {
        self.last_heard = now;
        self.due = now + hello_timeout;
    }

    /// The parent is to be another node. Returns the launch of this host, or `None` if no config is
    /// awaited.
    pub(super) fn move_to(&mut self, now: Instant, hello_timeout: Duration) -> Option<Launch> {
        let JoinState::AwaitConfig(Ticket { place: MemberRole::Leader(host), attempt, .. }) = self.state
        else {
            return None;
        };
        self.begin(now, hello_timeout);
        Some(Launch { host, attempt })
    }

    pub(super) fn state(&self) -> &JoinState {
        &self.state
    }

    pub(super) fn is_configured(&self) -> bool {
        self.identity().is_some()
    }

    /// Who this member is, from the config on.
    pub(super) fn identity(&self) -> Option<&Identity> {
        match &self.state {
            JoinState::AwaitTicket | JoinState::AwaitConfig(_) => None,
            JoinState::Joining(identity) | JoinState::Joined(identity) => Some(identity),
        }
    }

    /// Whether members of this host are not up yet.
    pub(super) fn is_joining(&self) -> bool {
        matches!(self.state, JoinState::Joining(_))
    }

    /// When the parent's next message is overdue; `None` from the config on.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.is_configured()).then_some(self.due)
    }

    /// The ticket has arrived; returns the answer, or `None` if no ticket is awaited.
    pub(super) fn on_ticket(
        &mut self,
        ticket: Ticket,
        now: Instant,
        hello_timeout: Duration,
    ) -> Option<Hello> {
        if self.state != JoinState::AwaitTicket {
            return None;
        }
        self.state = JoinState::AwaitConfig(ticket);
        self.due = now + hello_timeout;
        Some(Hello { ticket, process: self.process, machine: self.machine.clone(), is_apart: self.is_apart })
    }

    /// The config has arrived; `None` if none is awaited, or if it gives this process no rank or
    /// more ranks than the session has.
    pub(super) fn on_config(&mut self, config: &SessionConfig) -> Option<&Identity> {
        let JoinState::AwaitConfig(ticket) = self.state else { return None };
        let here: u64 = config.blocks.iter().map(|block| u64::from(block.count)).sum();
        if here > u64::from(config.size) {
            return None;
        }
        let leads = matches!(ticket.place, MemberRole::Leader(_));
        self.state = JoinState::Joining(Identity {
            first: config.blocks.first()?.first,
            blocks: if leads { config.blocks.clone() } else { Vec::new() },
            is_agent: leads && (self.is_apart || config.options.agent.is_some()),
            host: config.host,
            host_name: config.name.clone(),
            role: ticket.place,
            attempt: ticket.attempt,
        });
        self.identity()
    }

    /// All members of this host are up; returns the identity the first time.
    pub(super) fn on_joined(&mut self) -> Option<&Identity> {
        let JoinState::Joining(identity) = &self.state else { return None };
        self.state = JoinState::Joined(identity.clone());
        self.identity()
    }

    /// A part of the membership has arrived; after the last part, returns the absent ranks and
    /// those at and below this node.
    pub(super) fn on_membership(&mut self, part: &Membership) -> Option<(Ranks, Ranks)> {
        self.absent.add_all(&part.absent);
        self.below.add_all(&part.below);
        part.is_last.then(|| (std::mem::take(&mut self.absent), std::mem::take(&mut self.below)))
    }

    /// The process takes the place of a lost member of a session that is up.
    pub(super) fn set_joins(&mut self) {
        self.joins = true;
    }

    /// Whether the process takes the place of a lost member.
    pub(super) fn joins(&self) -> bool {
        self.joins
    }

    /// Bytes have arrived on the link.
    pub(super) fn on_heard(&mut self, now: Instant) {
        self.last_heard = now;
    }

    /// How long nothing has been heard of the parent.
    pub(super) fn silent_for(&self, now: Instant) -> Duration {
        now.since(self.last_heard)
    }

    /// This process was held up itself; the parent was not silent.
    pub(super) fn forgive_silence(&mut self, held_up: Duration) {
        self.last_heard += held_up;
    }

    /// The parent is lost.
    pub(super) fn lose(&mut self) {
        self.is_lost = true;
    }

    /// Another node is the parent.
    pub(super) fn regain(&mut self, now: Instant) {
        (self.is_lost, self.in_tree, self.last_heard) = (false, true, now);
        // A part of a membership that the old parent has sent.
        (self.absent, self.below) = (Ranks::new(), Ranks::new());
    }

    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    pub(super) fn enter_tree(&mut self) {
        self.in_tree = true;
    }

    /// Leaves the tree; returns whether the link was in it.
    pub(super) fn leave_tree(&mut self) -> bool {
        std::mem::take(&mut self.in_tree)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use libi_core::join::{Nonce, SessionKey};

    use super::*;
    use crate::options::{LaunchOptions, StandardInput};

    const TIMEOUT: Duration = Duration::from_secs(30);

    fn config(host: u32, first: u32, count: u32) -> SessionConfig {
        SessionConfig {
            options: LaunchOptions::default(),
            secret: None,
            files_secret: None,
            orphans_secret: None,
            reconnects: false,
            dial: Vec::new(),
            parent: None,
            takes_back: true,
            restarts: 0,
            size: 10,
            host: HostIndex(host),
            name: format!("n{host}"),
            blocks: vec![Block { first: Rank(first), count, distribution: 0 }],
            programs: Vec::new(),
            input: StandardInput::Empty,
        }
    }

    fn ticket(place: MemberRole) -> Ticket {
        Ticket { session: SessionKey(1), place, attempt: Attempt::default(), nonce: Nonce(1) }
    }

    /// The link of the leader of this host, whose rank this is, while its host joins.
    pub(in crate::machine) fn leader(host: u32, rank: u32) -> ParentLink {
        let mut link = ParentLink::new(1, String::new());
        let place = MemberRole::Leader(HostIndex(host));
        assert!(link.on_ticket(ticket(place), Instant::ZERO, TIMEOUT).is_some());
        assert!(link.on_config(&config(host, rank, 1)).is_some());
        link
    }

    #[test]
    fn a_member_knows_who_it_is_from_the_config_on() {
        let mut link = ParentLink::new(7, "here".to_owned());
        link.begin(Instant::ZERO, TIMEOUT);
        assert_eq!(link.deadline(), Some(Instant::ZERO + TIMEOUT));
        assert!(link.on_config(&config(3, 4, 1)).is_none(), "the ticket comes first");
        let local = ticket(MemberRole::Local(Rank(4)));
        let hello = link.on_ticket(local, Instant::ZERO + TIMEOUT / 2, TIMEOUT).unwrap();
        assert_eq!((hello.ticket, hello.process, hello.machine.as_str()), (local, 7, "here"));
        assert!(link.on_ticket(local, Instant::ZERO, TIMEOUT).is_none());
        assert_eq!(link.deadline(), Some(Instant::ZERO + TIMEOUT * 3 / 2));
        assert_eq!(link.identity(), None);
        let identity = link.on_config(&config(3, 4, 1)).unwrap();
        assert_eq!((identity.rank(), identity.host()), (Some(Rank(4)), (HostIndex(3), "n3")));
        assert_eq!((identity.leads(), link.deadline()), (None, None));
    }

    #[test]
    fn a_config_with_more_ranks_than_the_session_or_none_is_refused() {
        for (count, blocks) in [(11, 1), (1, 0)] {
            let mut link = ParentLink::new(1, String::new());
            link.on_ticket(ticket(MemberRole::Leader(HostIndex(0))), Instant::ZERO, TIMEOUT);
            let mut config = config(0, 0, count);
            config.blocks.truncate(blocks);
            assert!(link.on_config(&config).is_none() && !link.is_configured());
        }
    }

    #[test]
    fn a_host_joins_once() {
        let mut link = leader(2, 5);
        assert!(link.is_joining());
        let leads = Launch { host: HostIndex(2), attempt: Attempt::default() };
        assert_eq!(link.on_joined().and_then(Identity::leads), Some(leads));
        assert!(!link.is_joining() && link.on_joined().is_none());
    }

    #[test]
    fn a_link_leaves_the_tree_once() {
        let mut link = leader(0, 0);
        assert!(!link.leave_tree());
        link.enter_tree();
        assert!(link.leave_tree() && !link.leave_tree());
    }

    #[test]
    fn a_membership_is_complete_with_its_last_part() {
        let part = |ranks: [u32; 2], is_last| Membership {
            absent: Ranks::new(),
            below: ranks.map(Rank).into_iter().collect(),
            top: false,
            size: (4, 1),
            is_last,
        };
        let mut link = leader(0, 0);
        assert_eq!(link.on_membership(&part([1, 2], false)), None);
        let (_, below) = link.on_membership(&part([3, 4], true)).unwrap();
        assert_eq!(below.to_string(), "ranks 1-4");
    }
}
