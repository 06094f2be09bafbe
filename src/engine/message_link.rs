//! Connections that belong to no node: each carries messages between two processes that have proved to
//! each other that they know a key.
//!
//! | event | effect |
//! |---|---|
//! | a peer connects and proves itself ([`MessageListener`]) | a [`MessageLink`] |
//! | one of the addresses answers and proves itself ([`MessageConnector`]) | a [`MessageLink`] |
//! | none does in time | [`Connecting::Failed`] |
//! | a whole message has arrived | it is returned |
//! | the end, a record that is not authentic, a message that is too long | the link is over |
//!
//! The engine reports their descriptors as [`Ready`]. A message is its length in four bytes, and the
//! bytes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant as Clock};

use libi_core::secure::LinkKey;
use libi_core::time::Instant;
use libi_launch::machine::LinkId;
use mio::{Interest, Token};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::{SockRef, TcpKeepalive};

use super::direct_connector::DirectConnector;
use super::direct_listener::{Admission, DirectListener};
use super::direct_stream::{DirectStream, READ_BUFFER};
use super::send_queue::Flushed;
use super::targets::{FdRole, Target};
use super::{Engine, NodeId};

/// The longest message. The largest is the report of a launch, with some hundred bytes for each host.
const MAX_MESSAGE: usize = 256 << 20;
/// How long a peer may be silent, and how often it is then asked, before it counts as lost: a host that
/// has no power answers nothing.
const IDLE: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK: u32 = 4;

/// A descriptor that belongs to no node, and may be ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    /// The number under which it was registered.
    pub(crate) id: NodeId,
    part: FdRole,
}

impl Ready {
    pub(super) fn new(target: Target) -> Self {
        Self { id: target.id, part: target.part }
    }

    /// The number of the descriptor that [`Engine::watch`] was given.
    pub(crate) fn number(&self) -> Option<u32> {
        match self.part {
            FdRole::Outside(number) => Some(number),
            _ => None,
        }
    }
}

/// Accepts peers that know a key.
pub(crate) struct MessageListener {
    id: NodeId,
    listener: DirectListener,
}

/// Connects to a peer that knows a key.
pub(crate) struct MessageConnector {
    id: NodeId,
    connector: DirectConnector,
}

/// How far a [`MessageConnector`] is.
pub(crate) enum Connecting {
    Waits,
    Done(Box<DirectStream>),
    Failed,
}

/// See the [module](self).
pub(crate) struct MessageLink {
    stream: DirectStream,
    token: Token,
    input: Vec<u8>,
    is_over: bool,
}

impl Engine {
    /// A number for what belongs to no node.
    pub(crate) fn outside_id(&mut self) -> NodeId {
        self.last += 1;
        self.outside_ids.insert(NodeId(self.last));
        NodeId(self.last)
    }

    /// What had this number is gone.
    pub(crate) fn forget_outside_id(&mut self, id: NodeId) {
        self.outside_ids.remove(&id);
    }

    /// The descriptors that belong to no node, and have become ready in the last turn.
    pub(crate) fn take_ready(&mut self) -> Vec<Ready> {
        std::mem::take(&mut self.outside)
    }

    /// Reports this descriptor as [`Ready`] when it can be read or written.
    pub(crate) fn watch(&mut self, id: NodeId, fd: i32, number: u32) -> io::Result<Token> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let at = (id, LinkId::PARENT, FdRole::Outside(number));
        self.targets.add(self.poll.registry(), fd, interest, at)
    }

    /// Listens for peers that know this key.
    pub(crate) fn listen(
        &mut self,
        id: NodeId,
        loopback: bool,
        key: LinkKey,
    ) -> io::Result<(MessageListener, Vec<SocketAddr>)> {
        let (mut listener, addresses) =
            DirectListener::open(loopback, self.poll.registry(), &mut self.targets, id)?;
        listener.add_key(Admission::FrontEnds, key);
        Ok((MessageListener { id, listener }, addresses))
    }

    /// Connects to one of these addresses.
    pub(crate) fn connect(
        &mut self,
        id: NodeId,
        addresses: &[SocketAddr],
        key: LinkKey,
        timeout: Duration,
    ) -> MessageConnector {
        let now = self.now();
        let at = (self.poll.registry(), &mut self.targets, id);
        let connector = DirectConnector::start(LinkId::PARENT, addresses, key, timeout, now, at);
        MessageConnector { id, connector }
    }

    /// The link of a connection.
    pub(crate) fn message_link(
        &mut self,
        id: NodeId,
        number: u32,
        stream: DirectStream,
    ) -> io::Result<MessageLink> {
        let keepalive = TcpKeepalive::new().with_time(IDLE).with_interval(ASK_EVERY).with_retries(ASK);
        let socket = SockRef::from(&stream.stream);
        // Without it, a peer whose host has no power is noticed when something is sent to it.
        let _ = socket.set_tcp_keepalive(&keepalive);
        let _ = socket.set_tcp_user_timeout(Some(IDLE + ASK_EVERY * ASK));
        let token = self.watch(id, stream.stream.number(), number)?;
        Ok(MessageLink { stream, token, input: Vec::new(), is_over: false })
    }

    /// Closes a link.
    pub(crate) fn close_link(&mut self, link: MessageLink) {
        self.targets.remove(self.poll.registry(), link.stream.stream.number(), link.token);
        drop(link);
    }
}

impl MessageListener {
    /// Accepts what is ready: the connections of peers that have proved themselves.
    pub(crate) fn on_ready(&mut self, ready: Ready, engine: &mut Engine) -> Vec<DirectStream> {
        let mut proved = Vec::new();
        match ready.part {
            _ if ready.id != self.id => {}
            FdRole::DirectListener => self.accept(engine, &mut proved),
            FdRole::PendingPeer(number) => {
                let registry = engine.poll.registry();
                proved.extend(self.listener.on_ready(number, 0, registry, &mut engine.targets));
            }
            _ => {}
        }
        proved.into_iter().map(|(_, stream)| stream).collect()
    }

    fn accept(&mut self, engine: &mut Engine, proved: &mut Vec<(Admission, DirectStream)>) {
        let now = engine.now();
        loop {
            let at = (engine.poll.registry(), &mut engine.targets, self.id);
            if !self.listener.accept(now, at, 0, proved) {
                return;
            }
        }
    }

    /// Does what is due: forgets peers that have not proved themselves in time.
    pub(crate) fn expire(&mut self, engine: &mut Engine) -> Vec<DirectStream> {
        let now = engine.now();
        self.listener.expire(now, engine.poll.registry(), &mut engine.targets);
        let mut proved = Vec::new();
        if self.listener.take_due_retry(now).is_some() {
            self.accept(engine, &mut proved);
        }
        proved.into_iter().map(|(_, stream)| stream).collect()
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.listener.deadline()
    }
}

impl MessageConnector {
    /// Continues with what is ready.
    pub(crate) fn on_ready(&mut self, ready: Ready, engine: &mut Engine) -> Connecting {
        let FdRole::Connecting(number) = ready.part else { return Connecting::Waits };
        let now = engine.now();
        let registry = engine.poll.registry();
        match self.connector.on_ready(number, now, registry, &mut engine.targets) {
            Some(stream) => {
                self.connector.close(engine.poll.registry(), &mut engine.targets);
                Connecting::Done(Box::new(stream))
            }
            None => self.retry(engine),
        }
    }

    /// Does what is due.
    pub(crate) fn retry(&mut self, engine: &mut Engine) -> Connecting {
        let now = engine.now();
        let at = (engine.poll.registry(), &mut engine.targets, self.id);
        self.connector.retry_due(now, at);
        if self.connector.has_failed(now) {
            self.connector.close(engine.poll.registry(), &mut engine.targets);
            return Connecting::Failed;
        }
        Connecting::Waits
    }

    /// Gives up.
    pub(crate) fn close(&mut self, engine: &mut Engine) {
        self.connector.close(engine.poll.registry(), &mut engine.targets);
    }

    /// When [`retry`](Self::retry) has something to do.
    pub(crate) fn deadline(&self) -> Instant {
        self.connector.deadline()
    }
}

impl MessageLink {
    /// Queues a message.
    pub(crate) fn send(&mut self, message: &[u8]) {
        let Ok(length) = u32::try_from(message.len()) else { return self.is_over = true };
        self.stream.send_queue.queue(&length.to_le_bytes());
        self.stream.send_queue.queue(message);
    }

    /// Writes queued messages as far as the connection takes them.
    pub(crate) fn flush(&mut self) {
        loop {
            match self.stream.flush() {
                Flushed::Partly => {}
                Flushed::Broken => return self.is_over = true,
                Flushed::Everything | Flushed::Waits => return,
            }
        }
    }

    /// Reads what has arrived, and appends whole messages.
    pub(crate) fn receive(&mut self, messages: &mut Vec<Vec<u8>>) {
        let mut buffer = vec![0; READ_BUFFER];
        while !self.is_over {
            match self.stream.read(&mut buffer, None, &mut self.input, true) {
                Ok(true) => self.is_over |= take_messages(&mut self.input, messages).is_none(),
                Ok(false) => return,
                Err(_) => self.is_over = true,
            }
        }
    }

    /// Nothing is sent or received any more.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Whether nothing can be received any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether messages wait for the connection to take them.
    pub(crate) fn has_unsent(&self) -> bool {
        !self.is_over && self.stream.has_unsent()
    }

    /// Writes what is queued, and discards what arrives, until the peer has ended the connection or this
    /// time has come.
    pub(crate) fn drain(&mut self, by: Clock) {
        loop {
            self.flush();
            self.receive(&mut Vec::new());
            let left = by.saturating_duration_since(Clock::now());
            if self.is_over || left.is_zero() {
                return;
            }
            let mut events = PollFlags::POLLIN;
            events.set(PollFlags::POLLOUT, self.has_unsent());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            let _ = poll(&mut [PollFd::new(self.stream.stream.as_fd(), events)], timeout);
        }
    }
}

/// Takes whole messages from the front; `None` if one is too long.
fn take_messages(input: &mut Vec<u8>, messages: &mut Vec<Vec<u8>>) -> Option<()> {
    let mut begin = 0;
    while let Some((head, rest)) = input[begin..].split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*head) as usize;
        if length > MAX_MESSAGE {
            return None;
        }
        let Some(message) = rest.get(..length) else { break };
        messages.push(message.to_vec());
        begin += 4 + length;
    }
    input.drain(..begin);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_whole() {
        let (mut input, mut messages) = (Vec::new(), Vec::new());
        for byte in [2, 0, 0, 0, 7, 8, 0, 0, 0, 0, 1, 0, 0, 0] {
            input.push(byte);
            take_messages(&mut input, &mut messages).unwrap();
        }
        assert_eq!(messages, [vec![7, 8], vec![]]);
        assert_eq!(input, [1, 0, 0, 0]);
    }

    #[test]
    fn a_message_that_is_too_long_ends_the_link() {
        let mut input = (MAX_MESSAGE as u32 + 1).to_le_bytes().to_vec();
        assert_eq!(take_messages(&mut input, &mut Vec::new()), None);
    }
}
