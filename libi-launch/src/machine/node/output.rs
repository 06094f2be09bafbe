//! Output: banners, text that programs print before they join, and output of members.
//!
//! A child's output before its hello is kept, and its end serves as evidence if the hello never
//! comes. With the hello it becomes output of the child's rank, like everything after it.

use std::collections::BTreeSet;

use libi_core::wire::{Kind, encode_bytes};

use super::{Effect, Identity, LinkId, Node, Notice, Role};
use crate::failure::Cause;
use crate::machine::message::{ChildMessage, ParentMessage};
use crate::machine::output_relay::{MAX_FRAME_TEXT, OutputPiece, Stream, WINDOW};
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

    pub(super) fn printed(&mut self, link: LinkId, stream: Stream, text: Vec<u8>) {
        if link == LinkId::PARENT {
            // Output of this process; of an agent, which prints only what goes wrong with itself, that
            // of its first member. The rank is not known before the config, and the driver does not
            // read its pipe before.
            if let Some(rank) = self.identity().map(Identity::first_rank) {
                self.buffer_output(None, OutputPiece { rank, stream, text });
            }
            return;
        }
        let output = self.children.get_mut(link).and_then(|child| child.printed(stream, text));
        let Some((rank, text)) = output else { return };
        self.buffer_output(None, OutputPiece { rank, stream, text });
    }

    /// Turns output that a child has printed before its hello into output of its rank.
    pub(super) fn forward_early_output(&mut self, link: LinkId) {
        let Some(child) = self.children.get_mut(link) else { return };
        let (rank, early_output) = (child.first_rank(), child.take_early_output());
        let Some(rank) = rank else { return };
        for (stream, text) in early_output {
            self.buffer_output(None, OutputPiece { rank, stream, text });
        }
    }

    /// A child has sent output, at most as much as it had credit for.
    pub(super) fn output_arrives(&mut self, link: LinkId, payload: &[u8]) -> Result<(), Cause> {
        let protocol = |what: &str| Cause::Protocol(what.to_owned());
        let piece = OutputPiece::decode(payload).ok_or_else(|| protocol("a malformed output frame"))?;
        let Some(child) = self.children.get_mut(link) else { return Ok(()) };
        let length = piece.text.len() as u32; // frames are short
        if !child.use_credit(length) {
            return Err(protocol("more output than granted"));
        }
        self.buffer_output(Some(link), piece);
        Ok(())
    }

    pub(super) fn buffer_output(&mut self, from: Option<LinkId>, piece: OutputPiece) {
        if from.is_none() && self.attachment.is_detached() && !self.relay.has_capacity() {
            return;
        }
        // Output that is not forwarded stops at the node that reads it from a pipe.
        if from.is_some() || self.options.output != Output::Dropped {
            self.relay.push(from, piece);
        }
    }

    /// Passes on as much output as the credit allows, and grants the same amount to the children it
    /// came from.
    pub(super) fn relay_output(&mut self, out: &mut Vec<Effect>) {
        // Only these children may have credit to come: a walk over all children after every event
        // would cost a session of many children more than everything else.
        let mut sources = BTreeSet::new();
        while let Some((from, piece)) = self.relay.pop() {
            let length = piece.text.len() as u32; // cut to the size of a frame
            if let Some((link, child)) = from.and_then(|link| Some((link, self.children.get_mut(link)?))) {
                child.passed_on(length);
                sources.insert(link);
            }
            if self.relay.is_discarding() {
                continue;
            }
            match self.role {
                Role::FrontEnd(_) => {
                    out.push(Effect::Notify(Notice::Output(piece.rank, piece.stream, piece.text)));
                }
                Role::Member(_) => Self::send_output(&piece, out),
            }
        }
        for link in sources {
            if let Some(owed) = self.children.get_mut(link).and_then(|child| child.grant(WINDOW / 4)) {
                Self::send(link, Kind::Control, &ParentMessage::Credit(owed), out);
            }
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

    /// Sends the front end's standard input to the master.
    pub(super) fn forward_input(&self, bytes: &[u8], out: &mut Vec<Effect>) {
        let takes_input = self.input && self.stage.is_up();
        let Some(link) = self.children.master().filter(|_| takes_input) else { return };
        // An empty slice is end of file, and has a frame, too.
        for part in bytes.chunks(MAX_FRAME_TEXT).chain(bytes.is_empty().then_some(bytes)) {
            out.extend(encode_bytes(Kind::Stdio, part).map(|frame| Effect::Send(link, frame)));
        }
    }

    fn send_output(piece: &OutputPiece, out: &mut Vec<Effect>) {
        let frame = encode_bytes(Kind::Stdio, &piece.encode());
        out.extend(frame.map(|frame| Effect::Send(LinkId::PARENT, frame)));
    }
}
