//! The communication half of a node: its group, calls of the program, frames.

use libi_comm::{Adoption, Call, CallId, Completion, Effect, Event};
use libi_core::ids::LinkId;
use libi_core::loss::LossReason;
use libi_core::machine::Machine;
use libi_core::ranks::Ranks;
use libi_core::topology::Topology;
use libi_launch::options::{LaunchOptions, OnLoss};

use super::SessionIo;
use crate::engine::Turn;
use crate::engine::link_io::LinkIo;
use crate::engine::memory::borrow;

/// A list for effects is used again if it has room for no more than this.
const KEPT_EFFECTS: usize = 64;

impl SessionIo {
    /// The session is up.
    pub(super) fn session_up(&mut self, tree: Topology, turn: &mut Turn<'_>) {
        turn.sink.begins_with(turn.id, tree.size, &tree.absent);
        for link in tree.links() {
            if let Some(link_io) = self.links.get_mut(&link) {
                if self.node.carries_data(link) {
                    link_io.reader.carry_data(true);
                } else {
                    link_io.hold_frames();
                }
            }
        }
        let LaunchOptions { strict_calls, on_loss, .. } = self.node.options();
        let (strict, continues) = (*strict_calls, *on_loss == OnLoss::Continue);
        let reconnects = self.node.hosts_find_parents();
        let replaces_master = self.node.options().replaces_master();
        let completion =
            Completion { strict, continues, reconnects, replaces_master, ..Completion::default() };
        self.group.complete_by(completion);
        self.tell_group(Event::Up(tree), turn);
    }

    /// The program at the other end of a link has joined.
    pub(super) fn carry(&mut self, link: LinkId) {
        if let Some(link_io) = self.links.get_mut(&link) {
            link_io.reader.carry_data(true);
            link_io.release_frames();
            self.unsent.insert(link);
        }
    }

    /// A link of the tree is closed.
    pub(super) fn cut(&mut self, link: LinkId, reason: Option<LossReason>, turn: &mut Turn<'_>) {
        if let Some(link_io) = self.links.get_mut(&link) {
            link_io.reader.carry_data(false);
        }
        self.tell_group(Event::Cut(link, reason), turn);
    }

    /// A link of the tree is closed, and what is at its other end may come back.
    pub(super) fn sever(
        &mut self,
        link: LinkId,
        lost: Ranks,
        reason: Option<LossReason>,
        turn: &mut Turn<'_>,
    ) {
        if let Some(link_io) = self.links.get_mut(&link) {
            link_io.reader.carry_data(false);
        }
        self.tell_group(Event::Severed(link, lost, reason), turn);
    }

    /// A process is back over another link, which is one of the tree from now on.
    pub(super) fn adopt(&mut self, adoption: Adoption, turn: &mut Turn<'_>) {
        if let Some(link_io) = self.links.get_mut(&adoption.link) {
            link_io.reader.carry_data(true);
        }
        self.tell_group(Event::Adopted(adoption), turn);
    }

    /// The link to the parent leads to another one.
    pub(super) fn reattached(&mut self, turn: &mut Turn<'_>) {
        if let Some(link_io) = self.links.get_mut(&LinkId::PARENT) {
            link_io.reader.carry_data(true);
        }
        self.tell_group(Event::Reattached, turn);
    }

    /// Starts a call of the program.
    pub(in crate::engine) fn call(&mut self, id: CallId, call: Call, turn: &mut Turn<'_>) {
        self.tell_group(Event::Call(id, call), turn);
    }

    /// Cancels a call of the program.
    pub(in crate::engine) fn cancel(&mut self, id: CallId, turn: &mut Turn<'_>) {
        self.tell_group(Event::Cancel(id), turn);
    }

    /// The program is about to end in order.
    pub(in crate::engine) fn leave(&mut self, turn: &mut Turn<'_>) {
        self.tell_group(Event::Leave, turn);
    }

    /// Takes shared memory that was received over a link with the last read. Memory that is not
    /// sealed is ignored. True if there was any: a read of the system does not continue past it.
    pub(super) fn take_fds(&mut self, link: LinkId, turn: &mut Turn<'_>) -> bool {
        let link_io = self.links.get(&link).and_then(|link_io| link_io.input.as_ref());
        let loans = link_io.map(|input| input.inner.take_fds()).unwrap_or_default();
        for fd in &loans {
            if let Ok(bytes) = borrow(fd) {
                self.tell_group(Event::Region(link, bytes), turn);
            }
        }
        !loans.is_empty()
    }

    /// Asks the parent to confirm what was sent to it, if that is not known, and was not asked since
    /// something was sent. A parent that does not drive its engine answers late; then the system knows
    /// first.
    pub(in crate::engine) fn request_confirmation(&mut self, turn: &mut Turn<'_>) {
        let parent = self.links.get(&LinkId::PARENT);
        if parent.is_some_and(LinkIo::may_ask_for_confirmation) {
            self.confirmations += 1;
            self.tell_group(Event::Confirm(self.confirmations), turn);
            if let Some(link_io) = self.links.get_mut(&LinkId::PARENT) {
                link_io.confirmation.asked(self.confirmations);
            }
        }
    }

    /// Wakes the group if it is time.
    pub(super) fn wake_group(&mut self, turn: &mut Turn<'_>) {
        if self.wake_group_at.take_if(|at| *at <= turn.now).is_some() {
            self.tell_group(Event::Woken, turn);
        }
    }

    /// Passes an event to the group and carries out its effects.
    pub(super) fn tell_group(&mut self, event: Event, turn: &mut Turn<'_>) {
        #[cfg(test)]
        if super::tests::intercept(turn.id, &event) {
            return;
        }
        // At the end of a session every link is cut, and to tell each loss to all who are left would
        // take a message for each pair of them.
        let is_silent = matches!(event, Event::Cut(..)) && self.node.is_ending();
        let mut effects = std::mem::take(&mut self.group_effects);
        self.group.on(event, turn.now, &mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Send(..) | Effect::SendRegion(..) if is_silent => {}
                Effect::Send(link, frame) => {
                    if let Some(link_io) = self.links.get_mut(&link) {
                        link_io.queue_frame(frame, None);
                        self.unsent.insert(link);
                    }
                }
                Effect::SendRegion(link, frame, lent) => {
                    if let Some(link_io) = self.links.get_mut(&link) {
                        link_io.queue_frame(frame, Some(lent));
                        self.unsent.insert(link);
                    }
                }
                Effect::Missing(call, ranks) => turn.sink.missing(turn.id, call, ranks),
                Effect::Finish(call, result) => turn.sink.finished(turn.id, call, result),
                Effect::Lost(ranks, reason) => turn.sink.lost(turn.id, ranks, reason),
                Effect::Confirmed(number) => {
                    if let Some(link_io) = self.links.get_mut(&LinkId::PARENT) {
                        link_io.confirmation.answered(number);
                    }
                }
                Effect::WakeAt(at) => self.wake_group_at = Some(at),
                Effect::Grown { size, absent } => turn.sink.grown(turn.id, size, &absent),
                Effect::Joined(ranks, _) => turn.sink.joined(turn.id, &ranks),
                Effect::Master(rank) => turn.sink.master(turn.id, rank),
                Effect::Begins(first) => turn.sink.begins(turn.id, first),
            }
        }
        if effects.capacity() <= KEPT_EFFECTS {
            self.group_effects = effects;
        }
    }
}
