//! The loop that makes the machines real: descriptors, processes and the clock on one side, events and effects on the
//! other.
//!
//! An [`Engine`] drives any number of nodes. Each has a [`SessionIo`], which carries out what its machine wants; each link
//! of a node has a [`LinkIo`](link_io::LinkIo): descriptors, what waits to be written, and the process at the other end.
//!
//! ```text
//!   turn():  wait for descriptors, or until the first deadline
//!            read and write what is ready         bytes  -> events
//!            look at processes that have ended    exits  -> events
//!            fire deadlines                       time   -> events    -> Node -> effects -> ports, processes
//!            start one process per node that wants some
//! ```
//!
//! - **Nothing blocks** but the start of a process, which takes until the program has been executed.
//! - **Fairness**: a turn reads a bounded amount of each descriptor and starts one process per node; the rest waits for
//!   the next turn, which then does not wait.
//! - **Bounds**: pipes are read only while the node has room for output, so what is not wanted stays with its writer.
//!   What is written to a link waits in memory (the head of `send_queue.rs`); the protocol bounds it.
//! - **Failures** of descriptors are ends of links. Failures of starts are told to the machine.
//! - When an engine is dropped, the processes that it has started and not released are killed.

pub(crate) mod addresses;
mod direct_connector;
mod direct_listener;
mod direct_stream;
pub(crate) mod fd_sentinel;
mod line_buffer;
mod link_io;
pub(crate) mod memory;
mod send_queue;
pub(crate) mod session_io;
pub(crate) mod stream;
pub(crate) mod sys;
mod targets;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use libi_comm::{Call, CallId, CommError, Outcome};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Event, Node, Notice, Stream as StdStream};
use libi_launch::process::Child;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};

use fd_sentinel::{SentinelSlot, fds_were_closed};
use session_io::SessionIo;
use stream::Stream;
use targets::Targets;

/// One of the nodes of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NodeId(pub(crate) u32);

/// Whoever wants to know what the nodes tell.
pub(crate) trait EngineSink {
    /// A node has told something.
    fn notice(&mut self, id: NodeId, notice: Notice, node: &Node, now: Instant);

    /// A call of the program is over.
    fn finished(&mut self, id: NodeId, call: CallId, result: Result<Outcome, CommError>);

    /// The session comes up without these members.
    fn absent(&mut self, _: NodeId, _: &Ranks) {}

    /// These members are gone.
    fn lost(&mut self, id: NodeId, ranks: Ranks);
}

/// Tells an engine to look up from its waiting.
const WAKE: Token = Token(usize::MAX);
/// Tells it that one has ended who lives on without its node.
const RELEASED: Token = Token(usize::MAX - 1);

/// See the [module](self).
pub(crate) struct Engine {
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    targets: Targets,
    sessions: BTreeMap<NodeId, SessionIo>,
    /// Processes that live on without their nodes: when they end, nothing of them is to be left.
    released: Vec<Child>,
    /// Whether descriptors may still be touched.
    fd_sentinel: SentinelSlot,
    last: u32,
    origin: std::time::Instant,
    ready: VecDeque<Token>,
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
        })
    }

    /// What makes [`turn`](Self::turn) return soon, from any thread.
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

    /// What the next node that is added will be known by.
    pub(crate) fn next_id(&self) -> NodeId {
        NodeId(self.last + 1)
    }

    /// Adds a node, which begins.
    pub(crate) fn add(&mut self, session_io: SessionIo, sink: &mut dyn EngineSink) -> NodeId {
        self.last += 1;
        let id = NodeId(self.last);
        self.sessions.insert(id, session_io);
        self.with(id, sink, SessionIo::begin);
        id
    }

    /// Adds the node of a member: connected to the one that has started it by where bytes come from, and where they go
    /// to if that is another descriptor; with what is printed here.
    pub(crate) fn add_connected(
        &mut self,
        session_io: SessionIo,
        input: Stream,
        output: Option<Stream>,
        printed: Vec<(StdStream, Stream)>,
        sink: &mut dyn EngineSink,
    ) -> io::Result<NodeId> {
        self.last += 1;
        let id = NodeId(self.last);
        self.sessions.insert(id, session_io);
        let connected = self.with(id, sink, |session_io, turn| {
            session_io.connect(input, output, turn)?;
            for (stream, pipe) in printed {
                session_io.add_printed(stream, pipe, turn)?;
            }
            session_io.begin(turn);
            Ok(())
        });
        connected.unwrap_or(Ok(())).map(|()| id)
    }

    /// Has something that is printed here read, and passed on by this node.
    pub(crate) fn add_printed(
        &mut self,
        id: NodeId,
        stream: StdStream,
        pipe: Stream,
        sink: &mut dyn EngineSink,
    ) -> io::Result<()> {
        self.with(id, sink, |session_io, turn| session_io.add_printed(stream, pipe, turn)).unwrap_or(Ok(()))
    }

    /// Hands an event to a node.
    pub(crate) fn tell(&mut self, id: NodeId, event: Event, sink: &mut dyn EngineSink) {
        self.with(id, sink, |session_io, turn| session_io.tell(event, turn));
    }

    /// Hands a node's group a call of the program.
    pub(crate) fn call(&mut self, id: NodeId, number: CallId, call: Call, sink: &mut dyn EngineSink) {
        self.with(id, sink, |session_io, turn| session_io.call(number, call, turn));
    }

    /// Nobody waits for a call any more.
    pub(crate) fn cancel(&mut self, id: NodeId, number: CallId, sink: &mut dyn EngineSink) {
        self.with(id, sink, |session_io, turn| session_io.cancel(number, turn));
    }

    pub(crate) fn session_io(&self, id: NodeId) -> Option<&SessionIo> {
        self.sessions.get(&id)
    }

    /// Forgets a node. What it has started and not released is killed.
    pub(crate) fn remove(&mut self, id: NodeId) {
        if let Some(mut session_io) = self.sessions.remove(&id) {
            for child in session_io.close(self.poll.registry(), &mut self.targets) {
                let number = child.as_fd().as_raw_fd();
                // One that cannot be watched is looked after when others end.
                let _ = self.poll.registry().register(&mut SourceFd(&number), RELEASED, Interest::READABLE);
                self.released.push(child);
            }
            self.reap();
        }
    }

    /// Takes leave of those that have ended.
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

    /// What says whether the program has closed what is the engine's.
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

    /// How long nothing has to be done unless something happens; nothing if there is no deadline.
    pub(crate) fn next_timeout(&self) -> Option<Duration> {
        if !self.ready.is_empty() || self.sessions.values().any(SessionIo::has_immediate_work) {
            return Some(Duration::ZERO);
        }
        let next = self.sessions.values().filter_map(SessionIo::next_deadline).min()?;
        Some(next.since(self.now()))
    }

    /// Waits until something happens, for so long at most, and does what follows.
    pub(crate) fn turn(&mut self, most: Option<Duration>, sink: &mut dyn EngineSink) -> io::Result<()> {
        self.check_fds()?;
        // What waits to be written may be what others wait for.
        self.flush(sink);
        let timeout = [self.next_timeout(), most].into_iter().flatten().min();
        match self.poll.poll(&mut self.events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => other?,
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
        // Those that become ready meanwhile have their turn next time.
        for _ in 0..self.ready.len() {
            let Some(token) = self.ready.pop_front() else { break };
            let Some(target) = self.targets.dequeue(token) else { continue };
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

    /// Writes what waits to be written and can be.
    pub(crate) fn flush(&mut self, sink: &mut dyn EngineSink) {
        self.for_all(sink, SessionIo::write);
    }

    fn for_all(&mut self, sink: &mut dyn EngineSink, what: impl Fn(&mut SessionIo, &mut Turn<'_>)) {
        let mut next = self.sessions.keys().next().copied();
        while let Some(id) = next {
            self.with(id, sink, &what);
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
            targets: &mut self.targets,
            ready: &mut self.ready,
            sink,
        };
        Some(what(session_io, &mut turn))
    }
}

/// What a driver needs of its engine while it has its turn.
pub(crate) struct Turn<'a> {
    id: NodeId,
    now: Instant,
    origin: std::time::Instant,
    registry: &'a mio::Registry,
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
