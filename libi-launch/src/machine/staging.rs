//! Staged files on their way down the tree: how much of them this node has, and how much each child
//! has been sent.
//!
//! The bytes of all files, in the order of the [list](crate::staging::Staging), are one sequence.
//! It travels in pieces of at most [`PIECE`] bytes, in order.
//!
//! What this node has:
//!
//! | state | event | effect | next state |
//! |---|---|---|---|
//! | none | the config of an agent, if there are files | `OpenStage` | open |
//! | open | the directory exists, and the files are empty | the programs are sought | complete |
//! | open | a piece arrives in order | `WriteStaged` | open |
//! | open | it is written, and is not the last | confirmed to the parent; `SendStaged` | open |
//! | open | the last one is written, and all hashes are right | the same; the programs are sought | complete |
//! | open | the directory, a write or a hash fails | the host fails with that cause | failed |
//! | any | a piece arrives that was not due | the parent violates the protocol | |
//! | any | the node is over | `RemoveStaged`, unless the files are complete and to be kept | none |
//!
//! The front end is complete from the beginning. A host joins only when it is complete.
//!
//! What a child, or a [client](super::sources), has been sent:
//!
//! | state | event | effect | next state |
//! |---|---|---|---|
//! | | its hello; it is a client | `SendStaged` | served |
//! | | its hello, where hosts get files from each other | | elsewhere |
//! | elsewhere | it has written something | | elsewhere; done after the last |
//! | elsewhere | `FilesFrom` a place that it can have reached | `SendStaged` | served |
//! | served, a client | it confirms much slower than this node has got the files | `SlowClient`, once | served |
//! | any other | `FilesFrom` | it violates the protocol | |
//! | served | this node has more, or the child has confirmed something | `SendStaged`, up to its window | served |
//! | served | it confirms what it was not sent, or less than before | it violates the protocol | |
//! | served | it has confirmed everything | | done |
//! | served | it owes a confirmation for too long | it fails with that cause | |
//! | any | it ends | | |
//!
//! A piece is passed on as soon as it is written (cut-through), and is read again for each child, so
//! a child that is launched late, or is slow, costs no memory. What is read and not confirmed is
//! bounded: by [`WINDOW`] for each child, and for all together by [`BUDGET`] and a piece for each: one
//! that has nothing outstanding is sent a piece in any case. Pieces are sent behind all messages of the
//! link. A slow child holds up itself alone.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::time::Instant;

use super::contract::LinkId;
use crate::failure::Cause;

/// The most bytes in one piece, so that messages do not wait long behind it.
pub const PIECE: u64 = 64 << 10;
/// How many bytes may be on their way to one child, or wait for its link.
const WINDOW: u64 = 1 << 20;
/// How many may be on their way to all children, beside one piece for each.
const BUDGET: u64 = 64 << 20;

/// How much slower than this node a client is that holds up those behind it, and how long it is
/// watched before that is decided. A source that sends to two or three at a time is no reason.
const SLOWER: f64 = 4.0;
const LONG_ENOUGH: Duration = Duration::from_secs(2);

/// The bytes before a piece: its place in the sequence.
pub const PLACE: usize = 8;

/// The payload of a frame with so many bytes of staged files from this place on; the bytes are still
/// to be filled in, behind [`PLACE`].
#[must_use]
pub fn staged_payload(at: u64, length: u32) -> Vec<u8> {
    let mut payload = vec![0; PLACE + length as usize];
    payload[..PLACE].copy_from_slice(&at.to_le_bytes());
    payload
}

/// The place of a piece, if the payload is one.
fn place_of(payload: &[u8]) -> Option<u64> {
    let (place, bytes) = payload.split_first_chunk::<PLACE>()?;
    let is_piece = !bytes.is_empty() && bytes.len() as u64 <= PIECE;
    is_piece.then_some(u64::from_le_bytes(*place))
}

/// How much of the files a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    None,
    Open,
    Complete,
    Failed,
}

/// What a child has been sent.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    sent: u64,
    confirmed: u64,
    /// It gets the files from another node.
    elsewhere: bool,
    /// From which place on it gets them from here, and since when.
    first: u64,
    since: Instant,
}

impl Served {
    /// What it was sent and has not confirmed.
    fn outstanding(&self) -> u64 {
        self.sent - self.confirmed
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct StagedFiles {
    stage: Stage,
    /// The bytes of all files.
    total: u64,
    /// How many have arrived, and how many of these are written.
    arrived: u64,
    written: u64,
    /// When they were due, and when the last of those that have arrived did.
    opened: Instant,
    last_arrival: Instant,
    children: BTreeMap<LinkId, Served>,
    /// What all children together were sent and have not confirmed.
    outstanding: u64,
    /// What children that are gone had confirmed.
    confirmed_before: u64,
    /// Why this node cannot have the files, or cannot read them.
    why_failed: String,
}

impl StagedFiles {
    /// The files of the front end, which has all of them.
    pub(super) fn of_front_end(total: u64) -> Self {
        Self { stage: Stage::Complete, total, arrived: total, written: total, ..Self::default() }
    }

    /// The files are to come.
    pub(super) fn open(&mut self, total: u64, now: Instant) {
        (self.stage, self.total) = (Stage::Open, total);
        (self.opened, self.last_arrival) = (now, now);
    }

    /// How long all files take to this node at the rate at which they have arrived so far.
    pub(super) fn time_for_all(&self) -> Option<Duration> {
        if self.total == 0 {
            return Some(Duration::ZERO);
        }
        let part = self.arrived as f64 / self.total as f64;
        let taken = self.last_arrival.since(self.opened).as_secs_f64();
        (part > 0.0).then(|| Duration::try_from_secs_f64(taken / part).unwrap_or(Duration::MAX))
    }

    /// How many children lack files that they get from here.
    pub(super) fn missing_children(&self) -> usize {
        self.children.values().filter(|served| served.confirmed < self.total && !served.elsewhere).count()
    }

    /// How many bytes have arrived.
    pub(super) fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Whether there is, or will be, a place for the files on this host.
    pub(super) fn has_room(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Complete)
    }

    /// Whether the files are still to come.
    pub(super) fn is_open(&self) -> bool {
        self.stage == Stage::Open
    }

    /// Whether the host cannot join without them.
    pub(super) fn are_missing(&self) -> bool {
        matches!(self.stage, Stage::Open | Stage::Failed)
    }

    /// Whether all files are there, and right.
    pub(super) fn is_complete(&self) -> bool {
        self.stage == Stage::Complete
    }

    /// Whether this node cannot have the files.
    pub(super) fn is_failed(&self) -> bool {
        self.stage == Stage::Failed
    }

    /// Whether there may be something on this host.
    pub(super) fn is_there(&self) -> bool {
        self.stage != Stage::None
    }

    /// The bytes of all files.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// A piece has arrived from the parent; returns its bytes if it was due.
    pub(super) fn arrive(&mut self, mut payload: Vec<u8>, now: Instant) -> Option<Vec<u8>> {
        let place = place_of(&payload)?;
        let bytes = payload.split_off(PLACE);
        let end = place.checked_add(bytes.len() as u64)?;
        if place != self.arrived || end > self.total || !matches!(self.stage, Stage::Open | Stage::Failed) {
            return None;
        }
        (self.arrived, self.last_arrival) = (end, now);
        Some(bytes)
    }

    /// So many bytes are written; returns whether that completes the files.
    pub(super) fn written(&mut self, count: u64) -> bool {
        if self.stage != Stage::Open {
            return false;
        }
        self.written = count.clamp(self.written, self.arrived);
        if self.written == self.total {
            self.stage = Stage::Complete;
        }
        self.is_complete()
    }

    /// This node cannot have the files, or cannot read them, for this reason.
    pub(super) fn fail(&mut self, why: String) {
        (self.stage, self.why_failed) = (Stage::Failed, why);
    }

    /// Why no child can get the files from here.
    pub(super) fn why_failed(&self) -> Option<Cause> {
        self.is_failed().then(|| Cause::NotStaged(self.why_failed.clone()))
    }

    /// Nothing is there any more, and nothing is passed on.
    pub(super) fn remove(&mut self) {
        self.stage = Stage::None;
        self.children.clear();
        self.outstanding = 0;
    }

    /// A child is to get the files.
    pub(super) fn serve(&mut self, link: LinkId) {
        self.children.insert(link, Served::default());
    }

    /// A child is to get the files from another node.
    pub(super) fn serve_elsewhere(&mut self, link: LinkId) {
        self.children.insert(link, Served { elsewhere: true, ..Served::default() });
    }

    /// A child that got the files elsewhere gets them from here, from this place on; returns whether
    /// that can be.
    pub(super) fn serve_from(&mut self, link: LinkId, at: u64, now: Instant) -> bool {
        let total = self.total;
        let Some(served) = self.children.get_mut(&link).filter(|served| served.elsewhere) else {
            return false;
        };
        if !(served.confirmed..=total).contains(&at) {
            return false;
        }
        *served = Served { sent: at, elsewhere: false, first: at, since: now, ..*served };
        self.outstanding += served.outstanding();
        true
    }

    /// A child is gone.
    pub(super) fn forget(&mut self, link: LinkId) {
        if let Some(served) = self.children.remove(&link) {
            self.confirmed_before += served.confirmed;
            self.outstanding -= served.outstanding();
        }
    }

    /// The children that have not confirmed everything that they get from here.
    pub(super) fn served(&self) -> Vec<LinkId> {
        let open =
            self.children.iter().filter(|(_, served)| served.confirmed < self.total && !served.elsewhere);
        open.map(|(link, _)| *link).collect()
    }

    /// A child has written so many bytes; returns whether that can be true.
    pub(super) fn confirm(&mut self, link: LinkId, count: u64) -> bool {
        let Some(served) = self.children.get_mut(&link) else { return false };
        if served.elsewhere && (served.confirmed..=self.total).contains(&count) {
            (served.sent, served.confirmed) = (count, count);
            return true;
        }
        let is_true = (served.confirmed..=served.sent).contains(&count);
        if is_true {
            self.outstanding -= count - served.confirmed;
            served.confirmed = count;
        }
        is_true
    }

    /// The next piece for a child: its place and its length. `None` while its window is used up, or
    /// this node has no more.
    pub(super) fn next_piece(&mut self, link: LinkId) -> Option<(u64, u32)> {
        if matches!(self.stage, Stage::None | Stage::Failed) {
            return None;
        }
        let window = self.window();
        let served = self.children.get_mut(&link).filter(|served| !served.elsewhere)?;
        let most = self.written.min(served.confirmed + window);
        let length = most.saturating_sub(served.sent).min(PIECE);
        // A piece is whole, or the last that there is by now.
        let is_due = length == PIECE || length > 0 && most == self.written;
        let has_room = self.outstanding + length <= BUDGET || served.outstanding() == 0;
        (is_due && has_room).then(|| {
            let at = served.sent;
            served.sent += length;
            self.outstanding += length;
            (at, length as u32) // not more than a piece
        })
    }

    fn window(&self) -> u64 {
        (BUDGET / (self.missing_children().max(1) as u64)).clamp(PIECE, WINDOW)
    }

    /// Whether a child has to say something: it was sent what it has not confirmed, or it has
    /// everything and has to join.
    pub(super) fn owes(&self, link: LinkId) -> bool {
        self.children
            .get(&link)
            .is_none_or(|served| served.confirmed < served.sent || served.confirmed == self.total)
    }

    /// Whether a child confirms much slower than this node has got the files.
    pub(super) fn is_slow(&self, link: LinkId, now: Instant) -> bool {
        let Some(served) = self.children.get(&link).filter(|served| !served.elsewhere) else { return false };
        let rate = |bytes: u64, taken: Duration| bytes as f64 / taken.as_secs_f64();
        let taken = now.since(served.since);
        let own = rate(self.arrived, self.last_arrival.since(self.opened));
        let has_time = taken >= LONG_ENOUGH && served.confirmed < self.total;
        has_time && own > SLOWER * rate(served.confirmed.saturating_sub(served.first), taken)
    }

    /// How much a child has confirmed, if it has not confirmed everything.
    pub(super) fn missing(&self, link: LinkId) -> Option<u64> {
        let served = self.children.get(&link)?;
        (served.confirmed < self.total).then_some(served.confirmed)
    }

    /// How many bytes children have confirmed, and how many they are to get.
    pub(super) fn progress(&self) -> (u64, u64) {
        let confirmed = self.children.values().map(|served| served.confirmed).sum::<u64>();
        let all = self.total.saturating_mul(self.children.len() as u64);
        (self.confirmed_before + confirmed, self.confirmed_before + all)
    }
}

#[cfg(test)]
mod tests;
