//! Carries out the effects of one node's state machine and reports events to it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use libi_comm::{Effect as GroupEffect, Group};
use libi_core::hosts::HostList;
use libi_core::ids::HostIndex;
use libi_core::secure::LinkKey;
use libi_core::time::Instant;
use libi_launch::machine::{ArrivalId, Event, LinkId, Node, StartId, StartRequest, Stream as StdStream};
use libi_launch::process::Environment;

use super::direct_connector::DirectConnector;
use super::direct_listener::DirectListener;
use super::direct_stream::READ_BUFFER;
use super::fd_budget::FdBudget;
use super::link_io::LinkIo;
use super::memory::MemfdMemory;
use super::send_queue::Flushed;
use super::ssh_client::SshClient;
use super::starter_io::StarterIo;
use super::stream::Stream;
use super::targets::{FdRole, Target};
use super::{ParentChannel, Turn};
use bulk::ArrivingPeer;
use helpers::Helpers;
pub(crate) use helpers::connect_to_orphan;
use input::Input;
use noted::NotedMembers;
pub(crate) use own_program::{OwnProgram, OwnProgramSlot};
use staging::StageStore;
pub(crate) use starting::{inherited, inherited_by_members};

mod bulk;
mod closing;
mod direct_links;
mod effects;
mod group_io;
mod helpers;
mod input;
mod noted;
mod own_program;
mod reading;
mod receiving;
mod staging;
mod starting;
#[cfg(test)]
mod tests;

/// The most bytes read from one descriptor in one turn.
const READ_LIMIT: usize = 256 << 10;

/// See the [module](self).
pub(crate) struct SessionIo {
    node: Node,
    group: Group,
    links: BTreeMap<LinkId, LinkIo>,
    pending_starts: VecDeque<(StartId, StartRequest)>,
    /// The processes that carry out bulk starts.
    starters: BTreeMap<StartId, StarterIo>,
    /// Connections that have arrived at the rendezvous and are no links yet.
    arriving: BTreeMap<u64, ArrivingPeer>,
    last_arrival: u64,
    /// Connections that are sent elsewhere, with what they are told.
    redirections: Vec<(ArrivalId, Vec<u8>)>,
    /// How many hosts bulk starts had still to bring up, and when that was counted.
    expected: Option<(Instant, usize)>,
    wake_at: Option<Instant>,
    wake_group_at: Option<Instant>,
    /// An empty list for the effects of the group.
    group_effects: Vec<GroupEffect>,
    /// How often the parent was asked to confirm what was sent to it.
    confirmations: u64,
    /// When an incomplete line is passed on without its end.
    line_deadlines: BTreeSet<(Instant, LinkId, usize)>,
    /// When a remote shell is killed whose program has ended.
    shell_deadlines: BTreeSet<(Instant, LinkId)>,
    /// Pipes that are not read because the node has no room for output.
    paused_pipes: Vec<mio::Token>,
    /// Links with queued output.
    unsent: BTreeSet<LinkId>,
    /// The standard input of this program, if the front end provides it.
    input: Option<Input>,
    /// Accepts direct connections of children, once the node has asked for it.
    listener: Option<DirectListener>,
    /// Attempts to open the connection of a link: to the parent, or to a source of staged files.
    connectors: BTreeMap<LinkId, DirectConnector>,
    /// Processes that reach orphans, and at an orphan, what awaits one.
    helpers: Helpers,
    ssh_client: SshClient,
    /// A link for which the client was not asked, though it is installed, and why.
    declined: Option<(LinkId, String)>,
    /// The environment of the processes it starts.
    environment: Environment,
    /// The program that this process has divided from, until it is the first member of its host.
    own_program: OwnProgramSlot,
    /// Hosts that are this machine. Programs on them are started without the remote shell.
    here: HostList,
    fd_budget: FdBudget,
    /// The agent that hosts get that lack it, once one has asked for it.
    agent_file: Option<Arc<[u8]>>,
    /// Files of the user that hosts get, once this process has read or written some of them.
    staged: Option<StageStore>,
    noted: NotedMembers,
    /// The bulk start that has brought up this process, and its key, until this one accepts
    /// others of that start.
    own_start: Option<(StartId, LinkKey)>,
    /// Whether the driving thread lives as long as this process, as far as is known.
    lasting_thread: bool,
    buffer: Vec<u8>,
}

impl SessionIo {
    /// I/O for a node that starts processes in this environment, extended by their own variables.
    pub(crate) fn new(node: Node, environment: Environment, lasting_thread: bool) -> Self {
        Self {
            node,
            group: Group::with_memory(Box::new(MemfdMemory)),
            links: BTreeMap::new(),
            pending_starts: VecDeque::new(),
            starters: BTreeMap::new(),
            arriving: BTreeMap::new(),
            last_arrival: 0,
            redirections: Vec::new(),
            expected: None,
            wake_at: None,
            wake_group_at: None,
            group_effects: Vec::new(),
            confirmations: 0,
            line_deadlines: BTreeSet::new(),
            shell_deadlines: BTreeSet::new(),
            paused_pipes: Vec::new(),
            unsent: BTreeSet::new(),
            input: None,
            listener: None,
            connectors: BTreeMap::new(),
            helpers: Helpers::default(),
            ssh_client: SshClient::default(),
            declined: None,
            environment,
            own_program: OwnProgramSlot::default(),
            here: HostList::new(),
            fd_budget: FdBudget::default(),
            agent_file: None,
            staged: None,
            noted: NotedMembers::default(),
            own_start: None,
            lasting_thread,
            buffer: vec![0; READ_BUFFER],
        }
    }

    /// Declares these hosts to be this machine.
    #[must_use]
    pub(crate) fn with_here(self, here: HostList) -> Self {
        Self { here, ..self }
    }

    /// The node's first start of a member takes the program in this slot instead.
    #[must_use]
    pub(crate) fn with_own_program(self, own_program: OwnProgramSlot) -> Self {
        Self { own_program, ..self }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    pub(crate) fn group(&self) -> &Group {
        &self.group
    }

    /// Whether everything sent to the parent has been written, including printed output and frames
    /// of the group.
    pub(crate) fn has_sent_everything(&self) -> bool {
        let printed =
            |link_io: &LinkIo| link_io.print_pipes.iter().flatten().any(|text| is_waiting(&text.inner.pipe));
        self.node.has_relayed_output()
            && self.group.is_idle()
            && !self.links.values().any(LinkIo::has_frames)
            && self.line_deadlines.is_empty()
            && self.links.get(&LinkId::PARENT).is_none_or(|link_io| {
                !link_io.has_unsent() && !link_io.has_unacknowledged() && !printed(link_io)
            })
    }

    /// Whether no other process needs this one: none depends on it, nor on what it keeps for calls.
    pub(crate) fn is_alone(&self) -> bool {
        self.node.has_no_dependents() && (self.node.is_ending() || self.group.is_settled())
    }

    /// Whether bytes sent to the parent are unacknowledged. Their acknowledgement is not reported.
    pub(crate) fn awaits_acknowledgement(&self) -> bool {
        self.links.get(&LinkId::PARENT).is_some_and(LinkIo::has_unacknowledged)
    }

    pub(super) fn begin(&mut self, turn: &mut Turn<'_>) {
        self.tell(Event::Begin, turn);
    }

    /// Connects a member to its parent.
    pub(super) fn connect(&mut self, channel: ParentChannel, turn: &mut Turn<'_>) -> io::Result<()> {
        let link_io = self.links.entry(LinkId::PARENT).or_default();
        let at = (turn.id, LinkId::PARENT);
        match channel {
            ParentChannel::Socket(socket) => link_io.set_input(socket, turn.registry, turn.targets, at),
            ParentChannel::Streams(input, output) => {
                link_io.set_input(input, turn.registry, turn.targets, at)?;
                link_io.set_output(output, turn.registry, turn.targets, at)
            }
            ParentChannel::Arrived(link, start, key) => {
                self.own_start = Some((start, key));
                let token = link_io.set_direct(*link, turn.registry, turn.targets, at)?;
                link_io.use_direct_only();
                // Its first bytes may have arrived with the handshake.
                if turn.targets.queue(token) {
                    turn.ready.push_back(token);
                }
                Ok(())
            }
        }
    }

    /// Has a pipe with printed output read and forwarded.
    pub(super) fn add_printed(
        &mut self,
        stream: StdStream,
        pipe: Stream,
        turn: &mut Turn<'_>,
    ) -> io::Result<()> {
        let link_io = self.links.entry(LinkId::PARENT).or_default();
        link_io.set_printed(pipe, stream, turn.registry, turn.targets, (turn.id, LinkId::PARENT))
    }

    /// Whether there is work that no descriptor and no deadline will report.
    pub(super) fn has_immediate_work(&self) -> bool {
        // Output that cannot be written now does not count: writability is reported.
        !self.pending_starts.is_empty()
            || !self.unsent.is_empty()
            || !self.redirections.is_empty()
            || !self.paused_pipes.is_empty() && self.node.reads_output()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let lines = self.line_deadlines.first().map(|due| due.0);
        let guests = self.listener.as_ref().and_then(DirectListener::deadline);
        let connector = self.connectors.values().map(DirectConnector::deadline).min();
        let shells = self.shell_deadlines.first().map(|due| due.0);
        let arriving =
            self.arriving.values().map(|peer| peer.until).filter(|at| *at < Instant::FAR_FUTURE).min();
        let cleanups =
            self.starters.values().map(StarterIo::deadline).filter(|at| *at < Instant::FAR_FUTURE).min();
        [self.wake_at, self.wake_group_at, lines, shells, guests, connector, arriving, cleanups]
            .into_iter()
            .flatten()
            .min()
    }

    /// Handles a ready descriptor. True if there may be more than fits into a turn.
    pub(super) fn on_ready(&mut self, target: Target, turn: &mut Turn<'_>) -> bool {
        let Target { link, part, token, .. } = target;
        turn.refresh();
        match part {
            FdRole::In => {
                self.unsent.insert(link);
                self.read_link(link, false, turn)
            }
            FdRole::Out => {
                self.unsent.insert(link);
                false
            }
            FdRole::Process => {
                self.on_process_exit(link, turn);
                false
            }
            FdRole::Direct => {
                self.unsent.insert(link);
                self.check_unconfirmed_direct(link, turn);
                self.read_direct(link, false, turn)
            }
            FdRole::Input => {
                let mut events = VecDeque::new();
                self.feed_input(&mut events, turn);
                events.into_iter().for_each(|event| self.tell(event, turn));
                false
            }
            FdRole::DirectListener => self.accept_peers(turn),
            FdRole::PendingPeer(number) => {
                self.on_peer_ready(number, turn);
                false
            }
            FdRole::Connecting(number) => {
                self.on_connect_ready(link, number, turn);
                false
            }
            FdRole::Starter(start, part) => self.on_starter_ready(start, part, token, turn),
            FdRole::Arriving(number) => {
                self.read_claim(number, turn);
                false
            }
            FdRole::PrintPipe(_) if !self.may_read_printed(link) => {
                self.paused_pipes.push(token);
                false
            }
            FdRole::PrintPipe(place) => self.read_printed(link, place, READ_LIMIT, turn),
            FdRole::HelperListener => {
                self.on_helper_ready(None, turn);
                false
            }
            FdRole::HelperPeer(number) => {
                self.on_helper_ready(Some(number), turn);
                false
            }
            FdRole::HelperProcess(host) => {
                self.on_helper_process(HostIndex(host), turn);
                false
            }
            FdRole::Outside(_) => false,
        }
    }

    fn may_read_printed(&self, link: LinkId) -> bool {
        self.node.reads_output() && (link != LinkId::PARENT || self.node.host().is_some())
    }

    /// Does what no descriptor reports: deadlines, starts, queued output.
    pub(super) fn run_due_work(&mut self, turn: &mut Turn<'_>) {
        turn.refresh();
        if self.wake_at.is_some_and(|at| at <= turn.now) {
            self.wake_at = None;
            self.tell(Event::Woken, turn);
        }
        self.wake_group(turn);
        while let Some(&(due, link, place)) = self.line_deadlines.first()
            && due <= turn.now
        {
            self.line_deadlines.pop_first();
            match self.postpone_partial_line(link, place, turn.now) {
                Some(later) => drop(self.line_deadlines.insert((later, link, place))),
                None => self.flush_partial_line(link, place, turn),
            }
        }
        self.kill_lingering_shells(turn.now);
        self.expire_handshakes(turn);
        self.tell_failed_helpers(turn);
        self.expire_arriving(turn);
        self.expire_cleanups(turn.now);
        if self.node.reads_output() {
            for token in std::mem::take(&mut self.paused_pipes) {
                if turn.targets.queue(token) {
                    turn.ready.push_back(token);
                }
            }
        }
        if let Some((start, request)) = self.pending_starts.pop_front() {
            self.start(start, &request, turn);
        }
        self.note_members();
        self.write(turn);
        self.send_redirections(turn);
    }

    /// Writes queued output. True if a link is broken: its end has been told.
    pub(super) fn write(&mut self, turn: &mut Turn<'_>) -> bool {
        let (mut is_any_broken, mut is_busy) = (false, false);
        for link in std::mem::take(&mut self.unsent) {
            let Some(link_io) = self.links.get_mut(&link) else { continue };
            let flushed = link_io.flush();
            link_io.update_interest(turn.registry);
            is_busy |= link == LinkId::PARENT && link_io.load.take_busy();
            match flushed {
                Flushed::Everything | Flushed::Waits => {}
                Flushed::Partly => drop(self.unsent.insert(link)),
                Flushed::Broken => {
                    is_any_broken = true;
                    // Bytes received before the failure are still to be read; the end of the link
                    // follows them.
                    self.read_direct(link, true, turn);
                    self.read_link(link, true, turn);
                }
            }
        }
        if is_busy {
            self.tell(Event::Carries(LinkId::PARENT), turn);
        }
        is_any_broken
    }
}

fn is_waiting(pipe: &Stream) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    let readable = |fd: &PollFd<'_>| fd.revents().is_some_and(|what| what.contains(PollFlags::POLLIN));
    poll(&mut fds, PollTimeout::ZERO).is_ok() && readable(&fds[0])
}

/// Both ends of a pipe or socket made for a process: the engine's end, and the one the process
/// gets.
type Ends = (Stream, OwnedFd);
