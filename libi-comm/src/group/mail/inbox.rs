//! Decides which call gets which message, and how much of one may come.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::outbox::{AHEAD, CHUNK, SHORT, cost};
use super::{Note, Post, ShellError, lost};
use crate::contract::{Address, CallId, Outcome};
use crate::error::CommError;

/// As much of a message may be on its way to here: about 1 MiB, in whole chunks.
pub(super) const WINDOW: u64 = 8 * CHUNK as u64;

/// As much as that of all messages together, as long as it is a chunk for each: one process that receives from thousands
/// would fill the memory of those that pass it all on.
const WINDOWS: u64 = 16 * WINDOW;

/// What this process receives.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    peers: BTreeMap<Address, Peer>,
    calls: BTreeMap<CallId, Receive>,
    /// How many messages are coming.
    coming: u64,
}

/// Where a call for a message stands.
#[derive(Clone, Copy, Debug)]
enum Receive {
    /// Nothing is there for it.
    Waits { from: Address, tag: u32 },
    /// This message is coming.
    Comes { from: Address, id: u64 },
}

/// What has come from somebody.
#[derive(Debug, Default)]
struct Peer {
    /// The number of its newest message.
    newest: u64,
    /// What is kept of messages that came unasked.
    kept: u64,
    /// What the program has taken of such messages.
    read: u64,
    /// How much of that the sender knows.
    told: u64,
    lines: BTreeMap<u32, Line>,
    coming: BTreeMap<u64, Coming>,
}

/// The messages with one tag that nobody has called for, or the calls that nothing has come for; never both.
#[derive(Debug, Default)]
struct Line {
    messages: VecDeque<(u64, Letter)>,
    calls: VecDeque<CallId>,
}

#[derive(Debug)]
enum Letter {
    Whole(Bytes),
    Offer { total: u64 },
}

impl Inbox {
    pub(super) fn receive(&mut self, call: CallId, from: Address, tag: u32, post: &mut Post<'_>) {
        // What has come of those that are lost now can still be had.
        let first = self.peers.get_mut(&from).and_then(|peer| {
            let line = peer.lines.get_mut(&tag)?;
            let first = line.messages.pop_front()?;
            peer.prune(tag);
            Some(first)
        });
        if let Some((id, letter)) = first {
            return self.give(call, from, id, letter, post);
        }
        match post.place.way(from) {
            Ok(_) => {
                let peer = self.peers.entry(from).or_default();
                peer.lines.entry(tag).or_default().calls.push_back(call);
                self.calls.insert(call, Receive::Waits { from, tag });
            }
            Err(error) => post.finish(call, Err(error)),
        }
    }

    /// Gives a call up, if it is one of these.
    pub(super) fn cancel(&mut self, call: CallId, post: &mut Post<'_>) -> bool {
        match self.calls.remove(&call) {
            Some(Receive::Waits { from, tag }) => {
                if let Some(peer) = self.peers.get_mut(&from) {
                    if let Some(line) = peer.lines.get_mut(&tag) {
                        line.calls.retain(|waiting| *waiting != call);
                    }
                    peer.prune(tag);
                }
            }
            Some(Receive::Comes { from, id }) => {
                self.over(from, id);
                post.note(from, Note::Refused { id, why: ShellError::GivenUp });
            }
            None => return false,
        }
        true
    }

    /// The program has sent itself something.
    pub(super) fn own(&mut self, tag: u32, bytes: Bytes, post: &mut Post<'_>) {
        let me = post.place.me();
        let id = self.peers.get(&me).map_or(1, |peer| peer.newest + 1);
        self.come(me, id, tag, Letter::Whole(bytes), post);
    }

    /// A message has come unasked.
    pub(super) fn whole(&mut self, from: Address, id: u64, tag: u32, bytes: Bytes, post: &mut Post<'_>) {
        let peer = self.peers.entry(from).or_default();
        let kept = peer.kept + cost(bytes.len());
        // No peer that keeps to the rules sends more, or a message twice.
        if bytes.len() <= SHORT && kept <= AHEAD && id > peer.newest {
            peer.kept = kept;
            self.come(from, id, tag, Letter::Whole(bytes), post);
        }
    }

    /// A message is announced.
    pub(super) fn offered(&mut self, from: Address, id: u64, tag: u32, total: u64, post: &mut Post<'_>) {
        if self.peers.get(&from).is_none_or(|peer| id > peer.newest) {
            self.come(from, id, tag, Letter::Offer { total }, post);
        }
    }

    fn come(&mut self, from: Address, id: u64, tag: u32, letter: Letter, post: &mut Post<'_>) {
        let peer = self.peers.entry(from).or_default();
        peer.newest = id;
        let line = peer.lines.entry(tag).or_default();
        match line.calls.pop_front() {
            Some(call) => {
                peer.prune(tag);
                self.calls.remove(&call);
                self.give(call, from, id, letter, post);
            }
            None => line.messages.push_back((id, letter)),
        }
    }

    /// Gives a message to the call that is for it.
    fn give(&mut self, call: CallId, from: Address, id: u64, letter: Letter, post: &mut Post<'_>) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        match letter {
            Letter::Whole(bytes) => {
                if from != post.place.me() {
                    peer.taken(cost(bytes.len()), from, post);
                }
                post.finish(call, Ok(Outcome::Data(bytes)));
            }
            Letter::Offer { total } => {
                let mut coming = Coming { call, total, got: 0, granted: 0, bytes: Vec::new() };
                // Before anything comes, or it would have come for nothing.
                if total > CHUNK as u64 && !coming.make_room() {
                    post.note(from, Note::Refused { id, why: ShellError::NoMemory });
                    return post.finish(call, Err(CommError::NoMemory(total)));
                }
                self.coming += 1;
                coming.granted = total.min(window(self.coming));
                post.note(from, Note::Pull { id, upto: coming.granted });
                peer.coming.insert(id, coming);
                self.calls.insert(call, Receive::Comes { from, id });
            }
        }
    }

    /// Bytes have come. Of messages that nobody waits for any more, some may be on their way still.
    pub(super) fn chunk(&mut self, from: Address, id: u64, offset: u64, bytes: Bytes, post: &mut Post<'_>) {
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(coming) = peer.coming.get_mut(&id) else { return };
        let call = coming.call;
        let result = match coming.take(offset, bytes) {
            Ok(None) => {
                if let Some(upto) = coming.grant(window(self.coming)) {
                    post.note(from, Note::Pull { id, upto });
                }
                return;
            }
            Ok(Some(whole)) => Ok(Outcome::Data(whole)),
            Err(why) => {
                let error = match why {
                    ShellError::NoMemory => CommError::NoMemory(coming.total),
                    _ => CommError::Protocol("bytes that do not continue their message"),
                };
                post.note(from, Note::Refused { id, why });
                Err(error)
            }
        };
        self.over(from, id);
        self.calls.remove(&call);
        post.finish(call, result);
    }

    /// The sender has given up.
    pub(super) fn withdrawn(&mut self, from: Address, id: u64, tag: u32, post: &mut Post<'_>) {
        if let Some(call) = self.over(from, id) {
            self.calls.remove(&call);
            return post.finish(call, Err(CommError::Withdrawn { by: from }));
        }
        let Some(peer) = self.peers.get_mut(&from) else { return };
        let Some(line) = peer.lines.get_mut(&tag) else { return };
        // Messages stand in line as they were numbered.
        let at = line.messages.binary_search_by_key(&id, |message| message.0);
        if let Ok(at) = at
            && matches!(line.messages[at].1, Letter::Offer { .. })
        {
            line.messages.remove(at);
            peer.prune(tag);
        }
    }

    /// Some are gone. What has come from them whole stays.
    pub(super) fn gone(&mut self, among: &dyn Fn(Address) -> bool, post: &mut Post<'_>) {
        for (from, peer) in self.peers.iter_mut().filter(|(from, _)| among(**from)) {
            self.coming -= peer.coming.len() as u64;
            let mut over: Vec<CallId> =
                std::mem::take(&mut peer.coming).into_values().map(|coming| coming.call).collect();
            peer.lines.retain(|_, line| {
                over.extend(line.calls.drain(..));
                line.messages.retain(|(_, letter)| matches!(letter, Letter::Whole(_)));
                !line.messages.is_empty()
            });
            for call in over {
                self.calls.remove(&call);
                post.finish(call, Err(lost(*from)));
            }
        }
        self.peers.retain(|from, peer| !(among(*from) && peer.lines.is_empty()));
    }

    /// Nothing more of this message is waited for; whose it was.
    fn over(&mut self, from: Address, id: u64) -> Option<CallId> {
        let coming = self.peers.get_mut(&from)?.coming.remove(&id)?;
        self.coming -= 1;
        Some(coming.call)
    }

    #[cfg(test)]
    pub(super) fn kept(&self, from: Address) -> u64 {
        self.peers.get(&from).map_or(0, |peer| peer.kept)
    }

    #[cfg(test)]
    pub(super) fn counts_right(&self) -> bool {
        self.coming == self.peers.values().map(|peer| peer.coming.len() as u64).sum::<u64>()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        let nothing = |peer: &Peer| peer.lines.is_empty() && peer.coming.is_empty() && peer.kept == 0;
        self.calls.is_empty() && self.coming == 0 && self.peers.values().all(nothing)
    }
}

impl Peer {
    /// The program has taken a message that came unasked.
    fn taken(&mut self, cost: u64, from: Address, post: &mut Post<'_>) {
        self.kept = self.kept.saturating_sub(cost);
        self.read += cost;
        // Meanwhile the sender announces what he has no budget for; nothing waits.
        if self.read - self.told >= AHEAD / 4 {
            self.told = self.read;
            post.note(from, Note::Read { upto: self.read });
        }
    }

    fn prune(&mut self, tag: u32) {
        if self.lines.get(&tag).is_some_and(|line| line.messages.is_empty() && line.calls.is_empty()) {
            self.lines.remove(&tag);
        }
    }
}

/// As much of each message may be on its way, if there are so many.
fn window(messages: u64) -> u64 {
    let chunks = WINDOWS / CHUNK as u64 / messages.max(1);
    (chunks * CHUNK as u64).clamp(CHUNK as u64, WINDOW)
}

/// A message that is coming.
#[derive(Debug)]
struct Coming {
    call: CallId,
    total: u64,
    got: u64,
    /// So much may have been sent.
    granted: u64,
    bytes: Vec<u8>,
}

impl Coming {
    /// Takes its next bytes; the message, if these are the last. One that comes in one piece is not copied.
    fn take(&mut self, offset: u64, bytes: Bytes) -> Result<Option<Bytes>, ShellError> {
        let end = offset.checked_add(bytes.len() as u64).ok_or(ShellError::Protocol)?;
        if offset != self.got || end > self.granted || (bytes.is_empty() && self.total > 0) {
            return Err(ShellError::Protocol);
        }
        if bytes.len() as u64 == self.total {
            return Ok(Some(bytes));
        }
        if !self.make_room() {
            return Err(ShellError::NoMemory);
        }
        self.bytes.extend_from_slice(&bytes);
        self.got = end;
        Ok((end == self.total).then(|| std::mem::take(&mut self.bytes).into()))
    }

    /// Sets memory aside for the whole message, unless it is already; whether there is enough.
    fn make_room(&mut self) -> bool {
        self.bytes.capacity() > 0
            || usize::try_from(self.total).is_ok_and(|total| self.bytes.try_reserve_exact(total).is_ok())
    }

    /// Lets more come, if half of what was let come has, or more.
    fn grant(&mut self, window: u64) -> Option<u64> {
        let upto = self.total.min(self.got + window);
        let coming = self.granted - self.got;
        if self.granted == self.total || coming > window / 2 || upto <= self.granted {
            return None;
        }
        self.granted = upto;
        Some(upto)
    }
}
