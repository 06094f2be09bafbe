//! The event loop: connects the state machines of nodes to descriptors, processes and the clock.
//!
//! An [`Engine`] runs any number of nodes. Each node has a [`SessionIo`], which carries out the
//! effects of its state machine. Each link of a node has a [`LinkIo`](link_io::LinkIo):
//! descriptors, queued output, and the process at the other end.
//!
//! ```text
//!   turn():  wait for descriptors, or until the first deadline
//!            read and write what is ready         bytes  -> events
//!            check processes that have ended      exits  -> events
//!            expire deadlines                     time   -> events
//!            start one process per node
//!
//!            events -> Node -> effects -> links, processes
//! ```
//!
//! - **Nothing blocks** except the start of a process, which lasts until the program has been
//!   executed.
//! - **Fairness**: a turn reads a bounded amount from each descriptor and starts one process per
//!   node. The rest waits for the next turn, which then does not block.
//! - **Bounds**: pipes are read only while the node has room for output; everything else stays with
//!   its writer. Output to a link is queued in memory (see
//!   [`FrameWriter`](libi_core::wire::FrameWriter)); the protocol bounds it.
//! - **Failures** of descriptors close their link. Failures of starts are reported to the state
//!   machine.
//! - When an engine is dropped, the processes that it has started and not released are killed.

pub(crate) mod addresses;
mod agent_delivery;
mod ciphers;
mod confirmation;
mod direct_connector;
mod direct_listener;
pub(crate) mod direct_stream;
pub(crate) mod fd_budget;
pub(crate) mod fd_sentinel;
pub(crate) mod launched;
mod line_buffer;
mod link_io;
mod link_load;
pub(crate) mod memory;
pub(crate) mod message_link;
mod pending_peer;
pub(crate) mod rendezvous;
mod send_queue;
pub(crate) mod session_io;
mod ssh_client;
mod starter_io;
pub(crate) mod stream;
pub(crate) mod stream_ids;
pub(crate) mod sys;
mod targets;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::ops::Bound;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use libi_comm::{Call, CallId, CommError, Outcome};
use libi_core::ids::Rank;
use libi_core::loss::LossReason;
use libi_core::ranks::Ranks;
use libi_core::secure::LinkKey;
use libi_core::time::Instant;
use libi_launch::machine::{Event, Node, Notice, StartId, Stream as StdStream};
use libi_launch::process::Child;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use direct_stream::DirectStream;
use fd_sentinel::{SentinelSlot, fds_were_closed, was_closed};
use message_link::Ready;
use session_io::SessionIo;
use stream::Stream;
use targets::Targets;

/// The number of a node of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// Receives what the nodes of an engine report.
pub(crate) trait EngineSink {
    /// A node has sent a notice.
    fn notice(&mut self, id: NodeId, notice: Notice, node: &Node, now: Instant);

    /// A call of the program has completed.
    fn finished(&mut self, id: NodeId, call: CallId, result: Result<Outcome, CommError>);

    /// These lost members are missing in the call that finishes next.
    fn missing(&mut self, _: NodeId, _: CallId, _: Ranks) {}

    /// The session comes up with so many ranks, of which these are absent.
    fn begins_with(&mut self, _: NodeId, _: u32, _: &Ranks) {}

    /// These members are lost or have ended, in this way if it is known.
    fn lost(&mut self, id: NodeId, ranks: Ranks, reason: Option<LossReason>);

    /// The session has this many ranks from the next collective call on, of which these are absent.
    fn grown(&mut self, _: NodeId, _: u32, _: &Ranks) {}

    /// Processes have taken the places of these lost members, or are new.
    fn joined(&mut self, _: NodeId, _: &Ranks) {}

    /// The master is the member with this rank from now on, in place of a lost one.
    fn master(&mut self, _: NodeId, _: Rank) {}

    /// The first collective call of the member has this number in the session.
    fn begins(&mut self, _: NodeId, _: u64) {}
}

/// How a member reaches its parent.
pub(crate) enum ParentChannel {
    /// By a socket.
    Socket(Stream),
    /// By two streams, for input and for output.
    Streams(Stream, Stream),
    /// By a connection to the rendezvous of this start, whose key this is.
    Arrived(Box<DirectStream>, StartId, LinkKey),
}

/// The token of the waker.
const WAKE: Token = Token(usize::MAX);
/// The token of all processes that outlive their node.
const RELEASED: Token = Token(usize::MAX - 1);

/// See the [module](self).
pub(crate) struct Engine {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    targets: Targets,
    sessions: BTreeMap<NodeId, SessionIo>,
    /// Released processes whose node is gone. They are waited for, so that no zombies remain.
    released: Vec<Child>,
    /// Detects that the program has closed the engine's descriptors.
    fd_sentinel: SentinelSlot,
    last: u32,
    origin: std::time::Instant,
    ready: VecDeque<Token>,
    /// Descriptors that belong to no node, and have become ready; and the numbers of what has such.
    outside: Vec<Ready>,
    outside_ids: BTreeSet<NodeId>,
}

impl Engine {
    pub(crate) fn new() -> io::Result<Self> {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKE)?);
        Ok(Self {
            poll,
            events: Events::with_capacity(256),
            waker,
            targets: Targets::default(),
            sessions: BTreeMap::new(),
            released: Vec::new(),
            fd_sentinel: SentinelSlot::default(),
            last: 0,
            origin: std::time::Instant::now(),
            ready: VecDeque::new(),
            outside: Vec::new(),
            outside_ids: BTreeSet::new(),
        })
    }

    /// Makes [`turn`](Self::turn) return soon. May be used from any thread.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// The descriptor that is readable when a turn has something to do, apart from deadlines.
    pub(crate) fn poll(&self) -> &Poll {
        &self.poll
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.origin.elapsed().as_nanos() as u64)
    }

    /// The number of the next node to be added.
    pub(crate) fn next_id(&self) -> NodeId {
        NodeId(self.last + 1)
    }

    /// Adds a node and starts it.
    pub(crate) fn add(&mut self, session_io: SessionIo, sink: &mut dyn EngineSink) -> NodeId {
        self.last += 1;
        let id = NodeId(self.last);
        self.sessions.insert(id, session_io);
        self.with(id, sink, SessionIo::begin);
        id
    }

    /// Adds the node of a member with its link to the parent. `printed` are pipes with the output of
    /// the program.
    pub(crate) fn add_connected(
        &mut self,
        session_io: SessionIo,
        channel: ParentChannel,
        printed: Vec<(StdStream, Stream)>,
        sink: &mut dyn EngineSink,
    ) -> io::Result<NodeId> {
        self.last += 1;
        let id = NodeId(self.last);
        self.sessions.insert(id, session_io);
        let connected = self.with(id, sink, |session_io, turn| {
            session_io.connect(channel, turn)?;
            for (stream, pipe) in printed {
                session_io.add_printed(stream, pipe, turn)?;
            }
            session_io.begin(turn);
            Ok(())
        });
        connected.unwrap_or(Ok(())).map(|()| id)
    }

    /// Adds a pipe with output of the program, which the node forwards.
    pub(crate) fn add_printed(
        &mut self,
        id: NodeId,
        stream: StdStream,
        pipe: Stream,
        sink: &mut dyn EngineSink,
    ) -> io::Result<()> {
        self.with(id, sink, |session_io, turn| session_io.add_printed(stream, pipe, turn)).unwrap_or(Ok(()))
    }

    /// Passes an event to a node.
    pub(crate) fn tell(&mut self, id: NodeId, event: Event, sink: &mut dyn EngineSink) {
        self.with(id, sink, |session_io, turn| session_io.tell(event, turn));
    }

    /// Passes a call of the program to the group of a node.
    pub(crate) fn call(&mut self, id: NodeId, number: CallId, call: Call, sink: &mut dyn EngineSink) {
        self.with(id, sink, |session_io, turn| session_io.call(number, call, turn));
    }

    /// Cancels a call that is not waited for any more.
    pub(crate) fn cancel(&mut self, id: NodeId, number: CallId, sink: &mut dyn EngineSink) {
        self.with(id, sink, |session_io, turn| session_io.cancel(number, turn));
    }

    /// Tells the group of a node that its program is about to end in order.
    pub(crate) fn leave(&mut self, id: NodeId, sink: &mut dyn EngineSink) {
        self.with(id, sink, SessionIo::leave);
    }

    /// Has a node ask its parent to confirm what was sent to it.
    pub(crate) fn request_confirmation(&mut self, id: NodeId, sink: &mut dyn EngineSink) {
        self.with(id, sink, SessionIo::request_confirmation);
    }

    pub(crate) fn session_io(&self, id: NodeId) -> Option<&SessionIo> {
        self.sessions.get(&id)
    }

    /// Removes a node. Processes that it has started and not released are killed.
    pub(crate) fn remove(&mut self, id: NodeId) {
        if let Some(mut session_io) = self.sessions.remove(&id) {
            for child in session_io.close(self.poll.registry(), &mut self.targets) {
                let number = child.as_fd().as_raw_fd();
                // A process that cannot be watched is reaped when another one ends.
                let _ = self.poll.registry().register(&mut SourceFd(&number), RELEASED, Interest::READABLE);
                self.released.push(child);
            }
            self.reap();
        }
    }

    /// Waits for released processes that have ended.
    fn reap(&mut self) {
        let registry = self.poll.registry();
        self.released.retain_mut(|child| {
            let lives = child.try_wait().is_none();
            if !lives {
                let _ = registry.deregister(&mut SourceFd(&child.as_fd().as_raw_fd()));
            }
            lives
        });
    }

    /// The slot of the sentinel that detects closed descriptors.
    pub(crate) fn fd_sentinel(&self) -> SentinelSlot {
        Arc::clone(&self.fd_sentinel)
    }

    fn check_fds(&self) -> io::Result<()> {
        if fds_were_closed(&self.fd_sentinel) {
            Err(io::Error::other("the program has closed all descriptors"))
        } else {
            Ok(())
        }
    }

    /// The time until the next deadline; zero if there is work, `None` if there is no deadline.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() || self.sessions.values().any(SessionIo::has_immediate_work) {
            return Some(Duration::ZERO);
        }
        let next = self.sessions.values().filter_map(SessionIo::next_deadline).min()?;
        Some(next.since(self.now()))
    }

    /// Waits at most `max_wait` for events, and handles them.
    pub(crate) fn turn(&mut self, max_wait: Option<Duration>, sink: &mut dyn EngineSink) -> io::Result<()> {
        self.check_fds()?;
        // Queued output may be what other processes wait for. Where it cannot be written, the caller
        // hears of the end of a link, and waits for something else from then on.
        let max_wait = if self.flush(sink) { Some(Duration::ZERO) } else { max_wait };
        let timeout = [self.next_timeout(), max_wait].into_iter().flatten().min();
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                was_closed(&self.fd_sentinel, self.poll.as_raw_fd());
                return Err(error);
            }
            Ok(()) => {}
        }
        self.check_fds()?;
        let mut released = false;
        for event in &self.events {
            let token = event.token();
            released |= token == RELEASED;
            if event.is_read_closed() || event.is_error() {
                self.targets.mark_ended(token);
            }
            if token != WAKE && token != RELEASED && self.targets.queue(token) {
                self.ready.push_back(token);
            }
        }
        if released {
            self.reap();
        }
        // Descriptors that become ready meanwhile are handled in the next turn.
        for _ in 0..self.ready.len() {
            let Some(token) = self.ready.pop_front() else { break };
            let Some(target) = self.targets.dequeue(token) else { continue };
            if self.outside_ids.contains(&target.id) {
                self.outside.push(Ready::new(target));
                continue;
            }
            let again = self.with(target.id, sink, |session_io, turn| session_io.on_ready(target, turn));
            if again == Some(true) {
                self.targets.requeue(token);
                self.ready.push_back(token);
            }
        }
        self.for_all(sink, SessionIo::run_due_work);
        self.targets.forget_retired();
        Ok(())
    }

    /// Writes queued output as far as descriptors take it. True if a link has turned out to be
    /// broken.
    pub(crate) fn flush(&mut self, sink: &mut dyn EngineSink) -> bool {
        let mut is_any_broken = false;
        self.for_all(sink, |session_io, turn| is_any_broken |= session_io.write(turn));
        is_any_broken
    }

    fn for_all(&mut self, sink: &mut dyn EngineSink, mut what: impl FnMut(&mut SessionIo, &mut Turn<'_>)) {
        let mut next = self.sessions.keys().next().copied();
        while let Some(id) = next {
            self.with(id, sink, &mut what);
            next = self.sessions.range((Bound::Excluded(id), Bound::Unbounded)).next().map(|(id, _)| *id);
        }
    }

    fn with<T>(
        &mut self,
        id: NodeId,
        sink: &mut dyn EngineSink,
        what: impl FnOnce(&mut SessionIo, &mut Turn<'_>) -> T,
    ) -> Option<T> {
        let now = self.now();
        let session_io = self.sessions.get_mut(&id)?;
        let mut turn = Turn {
            id,
            now,
            origin: self.origin,
            registry: self.poll.registry(),
            fd_sentinel: &self.fd_sentinel,
            targets: &mut self.targets,
            ready: &mut self.ready,
            sink,
        };
        Some(what(session_io, &mut turn))
    }
}

/// The parts of the engine that a node uses during a turn.
pub(crate) struct Turn<'a> {
    id: NodeId,
    now: Instant,
    origin: std::time::Instant,
    registry: &'a mio::Registry,
    fd_sentinel: &'a SentinelSlot,
    targets: &'a mut Targets,
    ready: &'a mut VecDeque<Token>,
    sink: &'a mut dyn EngineSink,
}

impl Turn<'_> {
    /// Reads the clock again.
    fn refresh(&mut self) {
        self.now = Instant::from_nanos(self.origin.elapsed().as_nanos() as u64);
    }
}
