//! Maps tokens, under which the system reports descriptors, to links.

use std::io;
use std::os::fd::RawFd;

use libi_launch::machine::{LinkId, StartId};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use slab::Slab;

use super::NodeId;

/// The role of a descriptor within its link or node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FdRole {
    /// Input of the channel, and output if it is a socket.
    In,
    /// Output of the channel, if it is a separate descriptor.
    Out,
    /// The process.
    Process,
    /// The standard input of this program.
    Input,
    /// The direct connection.
    Direct,
    /// The listener for direct connections of children.
    DirectListener,
    /// A connection that is being authenticated.
    PendingPeer(u32),
    /// An attempt to connect to the parent.
    Connecting(u32),
    /// A pipe for standard output or standard error.
    PrintPipe(usize),
    /// A descriptor of the process that carries out a bulk start.
    Starter(StartId, StarterFd),
    /// A connection that has proved to belong to a bulk start.
    Arriving(u64),
    /// The socket at which an orphan awaits a helper, a helper that has connected there, and the process of a
    /// helper that was sent to this host.
    HelperListener,
    HelperPeer(u32),
    HelperProcess(u32),
    /// It belongs to no node, and has this number.
    Outside(u32),
}

/// The role of a descriptor of a starter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StarterFd {
    /// The process.
    Process,
    /// Its standard input.
    Input,
    /// Its standard output or error.
    Pipe(usize),
}

/// What a token stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    pub(super) id: NodeId,
    pub(super) link: LinkId,
    pub(super) part: FdRole,
    pub(super) token: Token,
}

#[derive(Debug)]
struct Entry {
    target: Option<Target>,
    /// It is in the queue of ready descriptors.
    queued: bool,
    /// The system has reported that nothing follows what can be read now.
    mark_ended: bool,
}

/// All descriptors of an engine. A token is reused only after the turn in which it was removed,
/// because the system may still report it in that turn.
#[derive(Debug, Default)]
pub(super) struct Targets {
    entries: Slab<Entry>,
    retired: Vec<usize>,
}

impl Targets {
    pub(super) fn add(
        &mut self,
        registry: &Registry,
        fd: RawFd,
        interest: Interest,
        (id, link, part): (NodeId, LinkId, FdRole),
    ) -> io::Result<Token> {
        let place = self.entries.vacant_entry();
        let token = Token(place.key());
        registry.register(&mut SourceFd(&fd), token, interest)?;
        let target = Some(Target { id, link, part, token });
        place.insert(Entry { target, queued: false, mark_ended: false });
        Ok(token)
    }

    pub(super) fn remove(&mut self, registry: &Registry, fd: RawFd, token: Token) {
        // Ignored: closing the descriptor does the same.
        let _ = registry.deregister(&mut SourceFd(&fd));
        if let Some(entry) = self.entries.get_mut(token.0)
            && entry.target.take().is_some()
        {
            self.retired.push(token.0);
        }
    }

    pub(super) fn forget_retired(&mut self) {
        for number in self.retired.drain(..) {
            self.entries.remove(number);
        }
    }

    /// Changes what the system reports for a descriptor.
    pub(super) fn watch(registry: &Registry, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        registry.reregister(&mut SourceFd(&fd), token, interest)
    }

    /// Notes that nothing follows what can be read now.
    pub(super) fn mark_ended(&mut self, token: Token) {
        if let Some(entry) = self.entries.get_mut(token.0) {
            entry.mark_ended = true;
        }
    }

    /// Whether a short read may have left an end behind, which is not reported again.
    pub(super) fn may_end(&self, token: Token) -> bool {
        self.entries.get(token.0).is_none_or(|entry| entry.mark_ended)
    }

    /// Marks it as queued. True if it was not queued before.
    pub(super) fn queue(&mut self, token: Token) -> bool {
        match self.entries.get_mut(token.0) {
            Some(Entry { target: Some(_), queued, .. }) => !std::mem::replace(queued, true),
            _ => false,
        }
    }

    /// Takes it out of the queue.
    pub(super) fn dequeue(&mut self, token: Token) -> Option<Target> {
        let entry = self.entries.get_mut(token.0)?;
        entry.queued = false;
        entry.target
    }

    /// Puts it back into the queue.
    pub(super) fn requeue(&mut self, token: Token) {
        if let Some(entry) = self.entries.get_mut(token.0) {
            entry.queued = true;
        }
    }
}
