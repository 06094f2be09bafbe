//! Which descriptor belongs to whom: the tokens under which the system reports them.

use std::io;
use std::os::fd::RawFd;

use libi_launch::machine::LinkId;
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};

use super::NodeId;

/// What a descriptor is to its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FdRole {
    /// Where bytes of the link come from, and where they go to if it is a socket.
    In,
    /// Where bytes of the link go to, if that is another descriptor.
    Out,
    /// The process.
    Process,
    /// This program's standard input.
    Input,
    /// The direct connection.
    Direct,
    /// Where children connect.
    DirectListener,
    /// Somebody who has connected there.
    PendingPeer(u32),
    /// A connection to the parent that is being tried.
    Dial(u32),
    /// What is printed beside the link: standard output, standard error.
    PrintPipe(usize),
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
    /// It waits for its turn.
    queued: bool,
    /// The system has said that nothing will come any more behind what is there.
    mark_ended: bool,
}

/// All descriptors of an engine. A number is given again only after the turn in which it became free, because
/// the system may still report it in that.
#[derive(Debug, Default)]
pub(super) struct Targets {
    entries: Vec<Entry>,
    free: Vec<usize>,
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
        let number = self.free.pop().unwrap_or(self.entries.len());
        let token = Token(number);
        if let Err(error) = registry.register(&mut SourceFd(&fd), token, interest) {
            if number < self.entries.len() {
                self.free.push(number);
            }
            return Err(error);
        }
        let entry =
            Entry { target: Some(Target { id, link, part, token }), queued: false, mark_ended: false };
        match self.entries.get_mut(number) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
        Ok(token)
    }

    pub(super) fn remove(&mut self, registry: &Registry, fd: RawFd, token: Token) {
        // It is closed next, which does the same.
        let _ = registry.deregister(&mut SourceFd(&fd));
        if let Some(entry) = self.entries.get_mut(token.0)
            && entry.target.take().is_some()
        {
            self.retired.push(token.0);
        }
    }

    pub(super) fn forget_retired(&mut self) {
        self.free.append(&mut self.retired);
    }

    /// Has the system report other things of a descriptor.
    pub(super) fn watch(registry: &Registry, fd: RawFd, token: Token, interest: Interest) -> io::Result<()> {
        registry.reregister(&mut SourceFd(&fd), token, interest)
    }

    /// Nothing will come from it behind what is there.
    pub(super) fn mark_ended(&mut self, token: Token) {
        if let Some(entry) = self.entries.get_mut(token.0) {
            entry.mark_ended = true;
        }
    }

    /// Whether a read that does not fill its buffer may have left something: an end is not reported again.
    pub(super) fn may_end(&self, token: Token) -> bool {
        self.entries.get(token.0).is_none_or(|entry| entry.mark_ended)
    }

    /// It has to have its turn: true if it was not queued for that before.
    pub(super) fn queue(&mut self, token: Token) -> bool {
        match self.entries.get_mut(token.0) {
            Some(Entry { target: Some(_), queued, .. }) => !std::mem::replace(queued, true),
            _ => false,
        }
    }

    /// Its turn has come.
    pub(super) fn dequeue(&mut self, token: Token) -> Option<Target> {
        let entry = self.entries.get_mut(token.0)?;
        entry.queued = false;
        entry.target
    }

    /// It has another turn.
    pub(super) fn requeue(&mut self, token: Token) {
        if let Some(entry) = self.entries.get_mut(token.0) {
            entry.queued = true;
        }
    }
}
