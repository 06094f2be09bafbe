//! Output of members on its way to the front end, with flow control by credit.
//!
//! The receiver of a link grants [`WINDOW`] bytes of output at first, and then as many as it has
//! passed on itself. Output therefore waits at the process that has printed it when the front end's
//! user does not read. Output never delays the protocol, because a sender without credit can still
//! send all other frames. A node holds at most [`WINDOW`] bytes of each child, and reads its own
//! pipes only while it [has capacity](OutputRelay::has_capacity).
//!
//! The end of a member does not wait for its output: a user that does not read learns of it. So
//! the two are told apart, and the front end knows when nothing is left to come:
//!
//! | state | event | message to the parent | next state |
//! |---|---|---|---|
//! | unmarked | an end is reported while output is held, here or below | `HoldsOutput(true)`, before it | marked |
//! | marked | the last of the output has been passed on | `HoldsOutput(false)`, behind it | unmarked |
//!
//! Where equal output is merged (`output_merge.rs`), a piece costs more credit than its text has
//! bytes: its ranks count, and a fixed number. The user of the front end is not charged for these.
//! Output of commands is never merged, and goes before that of members.
//!
//! A node that lives on without its parent [discards](OutputRelay::discard) all output.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use libi_core::time::Instant;

use super::contract::LinkId;
use super::message::ChildMessage;
use super::output_merge::{OutputMerge, credit_of};
use super::output_piece::OutputPiece;

/// How many bytes of output may be in flight on a link, or held by its receiver.
pub const WINDOW: u32 = 64 << 10;
/// How much a node holds before it stops reading its own pipes.
const CAPACITY: usize = 128 << 10;
/// The most text in one frame, so that other frames do not wait long.
pub(super) const MAX_FRAME_TEXT: usize = 16 << 10;

/// The output that a node holds.
#[derive(Debug)]
pub(super) struct OutputRelay {
    /// What has come, from which child, and whether that has spent credit on it.
    buffered: VecDeque<(LinkId, bool, OutputPiece)>,
    bytes: usize,
    /// Where output is merged: that of members instead.
    merge: Option<OutputMerge>,
    /// The number of members. Greater numbers are those of processes of commands.
    members: u32,
    credit: usize,
    is_discarding: bool,
    /// The children that hold output of members whose ends they have reported.
    below: BTreeSet<LinkId>,
    /// Whether the parent knows that output is held here or below.
    is_marked: bool,
}

impl OutputRelay {
    pub(super) fn new() -> Self {
        Self {
            buffered: VecDeque::new(),
            bytes: 0,
            merge: None,
            members: 0,
            credit: WINDOW as usize,
            is_discarding: false,
            below: BTreeSet::new(),
            is_marked: false,
        }
    }

    /// Merges equal output of so many members from now on, for which it is held this long at most.
    pub(super) fn fold(&mut self, hold: Duration, members: u32) {
        (self.merge, self.members) = (Some(OutputMerge::new(hold)), members);
    }

    /// The session has so many members.
    pub(super) fn set_members(&mut self, members: u32) {
        self.members = members;
    }

    /// Whether a piece is merged with others.
    fn merges(&self, piece: &OutputPiece) -> bool {
        self.merge.is_some() && piece.ranks.lowest().is_some_and(|lowest| lowest.0 < self.members)
    }

    /// Adds output that a child has sent, and spent credit on; or that this node has read from a
    /// pipe.
    pub(super) fn push(&mut self, link: LinkId, is_credited: bool, piece: OutputPiece, now: Instant) {
        let merges = self.merges(&piece);
        match &mut self.merge {
            Some(merge) if merges => merge.push(link, is_credited, piece, now),
            _ => {
                self.bytes += piece.text.len();
                self.buffered.push_back((link, is_credited, piece));
            }
        }
    }

    /// How much credit a piece costs its sender.
    pub(super) fn credit_of(&self, piece: &OutputPiece) -> u32 {
        let credit = if self.merges(piece) { credit_of(piece) } else { piece.text.len() };
        credit as u32 // frames are short
    }

    /// Whether pipes should be read.
    pub(super) fn has_capacity(&self) -> bool {
        let may_hold = self.merge.as_ref().map_or(0, OutputMerge::may_hold);
        self.is_discarding || self.buffered() < CAPACITY + may_hold
    }

    /// The number of bytes held.
    pub(super) fn buffered(&self) -> usize {
        self.bytes + self.merge.as_ref().map_or(0, OutputMerge::held)
    }

    /// What merges output, where that is done.
    pub(super) fn merge(&mut self) -> Option<&mut OutputMerge> {
        self.merge.as_mut()
    }

    /// When something that is held is due.
    pub(super) fn next_wake(&self, now: Instant) -> Option<Instant> {
        self.merge.as_ref()?.next_wake(now)
    }

    /// Whether nothing is held, here or at a child that has said so.
    pub(super) fn is_drained(&self) -> bool {
        let is_merged = self.merge.as_ref().is_none_or(OutputMerge::is_empty);
        is_merged && self.buffered.is_empty() && self.below.is_empty()
    }

    /// A child holds output of members whose ends it has reported, or does not any more.
    pub(super) fn set_below(&mut self, link: LinkId, holds: bool) {
        if holds {
            self.below.insert(link);
        } else {
            self.below.remove(&link);
        }
    }

    /// What the parent has to be told before ends of members are reported, or when the output is
    /// passed on; `None` if it knows.
    pub(super) fn mark(&mut self, reports_end: bool) -> Option<bool> {
        let is_marked = !self.is_drained() && (self.is_marked || reports_end);
        (std::mem::replace(&mut self.is_marked, is_marked) != is_marked).then_some(is_marked)
    }

    /// There is no parent: what is held stays.
    pub(super) fn suspend(&mut self) {
        (self.credit, self.is_marked) = (0, false);
    }

    /// There is another parent, which grants what every parent does at first. These pieces go first,
    /// which may be lost.
    pub(super) fn resume(&mut self, again: Vec<OutputPiece>) {
        self.credit = WINDOW as usize;
        for piece in again.into_iter().rev() {
            self.bytes += piece.text.len();
            self.buffered.push_front((LinkId::PARENT, false, piece));
        }
    }

    /// Adds credit.
    pub(super) fn grant(&mut self, bytes: u32) {
        self.credit = self.credit.saturating_add(bytes as usize);
    }

    /// Discards what is held, and all output from now on.
    pub(super) fn discard(&mut self) {
        self.is_discarding = true;
        self.buffered.clear();
        self.merge = self.merge.take().map(|_| OutputMerge::new(Duration::ZERO));
        self.bytes = 0;
    }

    /// The next piece that the credit allows. Adds the credit that each child gets back. `is_last`
    /// tells that no child is left whose output may be equal.
    pub(super) fn pop(
        &mut self,
        is_last: bool,
        now: Instant,
        sources: &mut BTreeMap<LinkId, u32>,
    ) -> Option<OutputPiece> {
        if self.is_discarding {
            self.credit = usize::MAX;
        }
        if let Some(piece) = self.pop_unmerged(sources) {
            return Some(piece);
        }
        let piece = self.merge.as_mut()?.pop(self.credit, is_last, now, sources)?;
        self.credit -= credit_of(&piece);
        Some(piece)
    }

    fn pop_unmerged(&mut self, sources: &mut BTreeMap<LinkId, u32>) -> Option<OutputPiece> {
        let (link, is_credited, first) = self.buffered.front_mut()?;
        let length = split_point(&first.text, self.credit);
        if length == 0 && !first.text.is_empty() {
            return None;
        }
        self.credit -= length;
        self.bytes -= length;
        if *is_credited {
            *sources.entry(*link).or_default() += length as u32; // at most a frame
        }
        if length < first.text.len() {
            let rest = first.text.split_off(length);
            let text = std::mem::replace(&mut first.text, rest);
            let piece = OutputPiece { text, ranks: first.ranks.clone(), ..*first };
            first.at = first.at.map(|at| at + length as u64);
            return Some(piece);
        }
        self.buffered.pop_front().map(|(_, _, piece)| piece)
    }

    /// Whether output is discarded.
    pub(super) fn is_discarding(&self) -> bool {
        self.is_discarding
    }

    /// Reports that no longer wait behind output.
    pub(super) fn released(&mut self, is_last: bool, now: Instant) -> Vec<ChildMessage> {
        self.merge.as_mut().map_or_else(Vec::new, |merge| merge.released(is_last, now))
    }
}

/// The length of the next piece of a text: whole lines, unless the lines are long. 0 if more credit
/// may come soon and a line would be split until then.
fn split_point(text: &[u8], credit: usize) -> usize {
    let end_of_line = |most: usize| text[..most].iter().rposition(|byte| *byte == b'\n').map(|end| end + 1);
    let most = text.len().min(MAX_FRAME_TEXT);
    let lines = if most < text.len() { end_of_line(most).unwrap_or(most) } else { most };
    if lines <= credit {
        return lines;
    }
    match end_of_line(credit) {
        Some(lines) => lines,
        None if end_of_line(most).is_some() => 0,
        None => credit,
    }
}

#[cfg(test)]
mod tests {
    use libi_core::ids::Rank;

    use super::super::output_piece::Stream;
    use super::*;

    const LINK: LinkId = LinkId(1);

    fn piece(length: usize) -> OutputPiece {
        OutputPiece::new(Rank(7), Stream::Err, vec![b'x'; length])
    }

    fn pop(relay: &mut OutputRelay, sources: &mut BTreeMap<LinkId, u32>) -> Option<usize> {
        relay.pop(false, Instant::ZERO, sources).map(|piece| piece.text.len())
    }

    #[test]
    fn output_waits_for_credit_and_none_is_lost() {
        let (mut relay, mut sources) = (OutputRelay::new(), BTreeMap::new());
        relay.push(LINK, true, piece(100_000), Instant::ZERO);
        let mut passed = 0;
        while let Some(length) = pop(&mut relay, &mut sources) {
            assert!(length <= MAX_FRAME_TEXT);
            passed += length;
        }
        assert_eq!(passed, WINDOW as usize);
        relay.grant(10);
        assert_eq!(pop(&mut relay, &mut sources), Some(10));
        assert_eq!(pop(&mut relay, &mut sources), None);
        relay.grant(u32::MAX);
        while let Some(length) = pop(&mut relay, &mut sources) {
            passed += length;
        }
        assert_eq!((passed, relay.is_drained()), (99_990, true));
        assert_eq!(sources, BTreeMap::from([(LINK, 100_000)]), "credit goes back to its source");
    }

    #[test]
    fn output_of_a_pipe_gives_no_credit_back() {
        let (mut relay, mut sources) = (OutputRelay::new(), BTreeMap::new());
        relay.push(LINK, false, piece(10), Instant::ZERO);
        assert_eq!(pop(&mut relay, &mut sources), Some(10));
        assert!(sources.is_empty());
    }

    #[test]
    fn output_of_commands_is_not_held_where_that_of_members_is_merged() {
        let (mut relay, mut sources) = (OutputRelay::new(), BTreeMap::new());
        relay.fold(Duration::from_secs(1), 8);
        relay.push(LINK, true, piece(10), Instant::ZERO);
        assert_eq!(pop(&mut relay, &mut sources), None, "another member may print the same");
        let of_command = OutputPiece::new(Rank(8), Stream::Out, vec![b'x'; 20]);
        assert_eq!(relay.credit_of(&of_command), 20);
        relay.push(LINK, true, of_command, Instant::ZERO);
        assert_eq!((pop(&mut relay, &mut sources), pop(&mut relay, &mut sources)), (Some(20), None));
        assert_eq!((relay.is_drained(), sources), (false, BTreeMap::from([(LINK, 20)])));
    }

    #[test]
    fn the_parent_learns_of_held_output_before_an_end_and_when_it_is_passed_on() {
        let (mut relay, mut sources) = (OutputRelay::new(), BTreeMap::new());
        assert_eq!(relay.mark(true), None, "nothing is held");
        relay.push(LINK, true, piece(WINDOW as usize + 1), Instant::ZERO);
        while pop(&mut relay, &mut sources).is_some() {}
        assert_eq!((relay.mark(false), relay.mark(true), relay.mark(true)), (None, Some(true), None));
        relay.set_below(LINK, true);
        relay.grant(1);
        assert_eq!((pop(&mut relay, &mut sources), relay.mark(false)), (Some(1), None), "a child holds some");
        relay.set_below(LINK, false);
        assert_eq!((relay.mark(false), relay.mark(true)), (Some(false), None));
    }

    #[test]
    fn only_long_lines_are_split() {
        let lines = [&[b'x'; 299][..], b"\n"].concat().repeat(100);
        assert_eq!(split_point(&lines, usize::MAX), MAX_FRAME_TEXT / 300 * 300);
        assert_eq!(split_point(&lines[..900], usize::MAX), 900);
        assert_eq!(split_point(&lines, 1_000), 900);
        assert_eq!(split_point(&lines, 299), 0, "more may go soon");
        assert_eq!(split_point(&[&lines[..600], b"prompt> "].concat(), 602), 600);
        assert_eq!(split_point(&[b'x'; MAX_FRAME_TEXT + 1], usize::MAX), MAX_FRAME_TEXT);
        assert_eq!(split_point(&[b'x'; MAX_FRAME_TEXT + 1], 7), 7);
    }

    #[test]
    fn pipes_are_not_read_while_the_relay_is_full() {
        let mut relay = OutputRelay::new();
        relay.push(LINK, false, piece(CAPACITY), Instant::ZERO);
        assert!(!relay.has_capacity());
        relay.discard();
        assert!(relay.has_capacity() && pop(&mut relay, &mut BTreeMap::new()).is_none());
    }
}
