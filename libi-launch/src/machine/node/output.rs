//! Output: banners, text that programs print before they join, and output of members.
//!
//! A child's output before its hello is kept, and its end serves as evidence if the hello never
//! comes. With the hello it becomes output of the child's rank, like everything after it.

use std::collections::BTreeMap;

use libi_core::time::Instant;
use libi_core::wire::{Kind, encode_bytes};

use super::{Effect, Identity, LinkId, Node, Notice};
use crate::failure::Cause;
use crate::machine::child::Child;
use crate::machine::message::{ChildMessage, ParentMessage};
use crate::machine::output_piece::{OutputPiece, Stream};
use crate::machine::output_relay::WINDOW;
use crate::options::Output;

impl Node {
    /// Whether the driver should read pipes, of children or of this process itself. A pipe that is
    /// not read blocks its writer.
    #[must_use]
    pub fn reads_output(&self) -> bool {
        // A detached member is never blocked; output beyond the capacity is dropped.
        self.attachment.is_detached() || self.relay.has_capacity()
    }

    /// Whether all output of this node has been passed on, or is discarded, and no child has
    /// reported the end of a member whose output is still to come.
    #[must_use]
    pub fn has_relayed_output(&self) -> bool {
        self.relay.is_drained()
    }

    /// How many bytes of output this node holds.
    #[must_use]
    pub fn output_buffered(&self) -> usize {
        self.relay.buffered()
    }

    /// Merges equal output, if the options say so.
    pub(super) fn fold_output(&mut self) {
        if let Output::Folded { hold } = self.options.output {
            self.relay.fold(hold, self.size);
        }
    }

    pub(super) fn printed(&mut self, link: LinkId, stream: Stream, text: Vec<u8>, now: Instant) {
        if link == LinkId::PARENT {
            // Output of this process; of an agent, which prints only what goes wrong with itself, that
            // of its first member. The rank is not known before the config, and the driver does not
            // read its pipe before.
            if let Some(rank) = self.identity().map(Identity::first_rank) {
                self.buffer_output(link, false, OutputPiece::new(rank, stream, text), now);
            }
            return;
        }
        if self.process_printed(link, stream, &text, now) {
            return;
        }
        let output = self.children.get_mut(link).and_then(|child| child.printed(stream, text));
        let Some((rank, text)) = output else { return };
        self.buffer_output(link, false, OutputPiece::new(rank, stream, text), now);
    }

    /// Turns output that a child has printed before its hello into output of its rank.
    pub(super) fn forward_early_output(&mut self, link: LinkId, now: Instant) {
        let Some(child) = self.children.get_mut(link) else { return };
        let (rank, early_output) = (child.first_rank(), child.take_early_output());
        let Some(rank) = rank else { return };
        for (stream, text) in early_output {
            self.buffer_output(link, false, OutputPiece::new(rank, stream, text), now);
        }
    }

    /// A child has sent output, at most as much as it had credit for.
    pub(super) fn output_arrives(&mut self, link: LinkId, payload: &[u8], now: Instant) -> Result<(), Cause> {
        let protocol = |what: &str| Cause::Protocol(what.to_owned());
        let piece = OutputPiece::decode(payload).ok_or_else(|| protocol("a malformed output frame"))?;
        let Some(child) = self.children.get_mut(link) else { return Ok(()) };
        let is_merged = matches!(self.options.output, Output::Folded { .. });
        let of_members = piece.ranks.runs().all(|(_, last)| last.0 < self.size);
        if piece.ranks.len() > 1 && !(is_merged && of_members) {
            return Err(protocol("output of unexpected ranks"));
        }
        if !child.use_credit(self.relay.credit_of(&piece)) {
            return Err(protocol("more output than granted"));
        }
        self.buffer_output(link, true, piece, now);
        Ok(())
    }

    /// Adds output that a child has spent credit on, or that was read from a pipe.
    pub(super) fn buffer_output(
        &mut self,
        link: LinkId,
        is_credited: bool,
        mut piece: OutputPiece,
        now: Instant,
    ) {
        let is_local = |child: &Child| !child.is_leader();
        let is_own = link == LinkId::PARENT
            || self.is_of_command(link)
            || self.children.get(link).is_some_and(is_local);
        if self.reconnects && !is_credited && !self.is_front() && is_own {
            self.output_order.place(&mut piece);
        }
        if !is_credited && self.attachment.is_detached() && !self.relay.has_capacity() {
            return;
        }
        // Output that is not forwarded stops at the node that reads it from a pipe.
        if is_credited || self.options.output != Output::Dropped {
            self.relay.push(link, is_credited, piece, now);
        }
    }

    /// Passes on as much output as the credit allows, and grants the same amount to the children it
    /// came from; and reports that waited behind it.
    pub(super) fn relay_output(&mut self, now: Instant, out: &mut Vec<Effect>) {
        // Only these children may have credit to come: a walk over all children after every event
        // would cost a session of many children more than everything else.
        let mut sources = BTreeMap::new();
        let is_last = self.children.is_empty();
        while let Some(mut piece) = self.relay.pop(is_last, now, &mut sources) {
            if self.relay.is_discarding() {
                continue;
            }
            if self.reconnects && self.is_front() {
                let twice = self.output_order.drop_known(&mut piece);
                self.relay.grant(twice as u32); // a piece is short
                if twice > 0 && piece.text.is_empty() {
                    continue;
                }
            }
            if !self.is_front() {
                if self.hosts_reconnect() {
                    self.output_order.keep(&piece);
                }
                Self::send_output(&piece, out);
            } else if !self.notify_command_output(&piece, out) {
                // The user acknowledges bytes of text.
                let (credit, text) = (self.relay.credit_of(&piece), piece.text.len() as u32);
                self.relay.grant(credit.saturating_sub(text));
                out.push(Effect::Notify(self.notice_of(piece)));
            }
        }
        for (link, credit) in sources {
            let Some(child) = self.children.get_mut(link) else { continue };
            child.passed_on(credit);
            if let Some(owed) = child.grant(WINDOW / 4) {
                Self::send(link, Kind::Control, &ParentMessage::Credit(owed), out);
            }
        }
        self.reports.extend(self.relay.released(is_last, now));
    }

    fn notice_of(&self, piece: OutputPiece) -> Notice {
        let OutputPiece { ranks, stream, text, .. } = piece;
        match (&self.options.output, ranks.lowest()) {
            (Output::Folded { .. }, _) | (_, None) => Notice::Folded(ranks, stream, text),
            (_, Some(rank)) => Notice::Output(rank, stream, text),
        }
    }

    /// Reports that a member below this child, or the child itself, has ended; behind its output.
    pub(super) fn report_behind_output(&mut self, link: LinkId, report: ChildMessage, now: Instant) {
        let deferred = match self.relay.merge() {
            Some(merge) => {
                match report {
                    ChildMessage::Exited(..) | ChildMessage::Detached(_) => merge.member_left(link),
                    ChildMessage::Restarted(_) => merge.member_returns(link),
                    _ => {}
                }
                merge.defer(link, report, now)
            }
            None => Some(report),
        };
        self.reports.extend(deferred);
    }

    /// Reports of this child wait for its output no longer: others follow.
    pub(super) fn release_reports(&mut self, link: LinkId) {
        let deferred = self.relay.merge().map(|merge| merge.take_deferred(link));
        self.reports.extend(deferred.into_iter().flatten());
    }

    /// A child is gone: no more of its output comes.
    pub(super) fn output_ends(&mut self, link: LinkId, is_host: bool) {
        self.relay.set_below(link, false);
        if let Some(merge) = self.relay.merge() {
            merge.child_left(link, is_host);
        }
        if is_host {
            self.release_reports(link);
        }
    }

    /// Reports for the parent, with what it has to know of the output that is held here.
    pub(super) fn mark_held_output(&mut self, mut reports: Vec<ChildMessage>) -> Vec<ChildMessage> {
        let is_end = |report: &ChildMessage| {
            use ChildMessage::{Detached, Dropped, Exited, Failed};
            matches!(report, Exited(..) | Detached(_) | Failed(..) | Dropped(..))
        };
        match self.relay.mark(reports.iter().any(is_end)) {
            Some(true) => reports.insert(0, ChildMessage::HoldsOutput(true)),
            Some(false) => reports.push(ChildMessage::HoldsOutput(false)),
            None => {}
        }
        reports
    }

    fn send_output(piece: &OutputPiece, out: &mut Vec<Effect>) {
        let frame = encode_bytes(Kind::Stdio, &piece.encode());
        out.extend(frame.map(|frame| Effect::Send(LinkId::PARENT, frame)));
    }
}
