//! How a session, or a member's part in it, comes to an end: signals, the end that the user wants, a lost parent, release.
//!
//! A member is *ours* until it ends or [finalises](Event::Detach). What is ours is signalled and ended with the
//! session, and ends when it loses its parent. One that is released is neither: it goes on carrying for those below
//! it as long as it lives and has a parent; when it has lost its parent, those below that are still ours are ended, and
//! output is thrown away.
//!
//! A leader that ends takes away what those below it hang on. So there is a word for the time when nobody does: a node
//! is *alone* when every child of it is gone, or released and alone itself.
//!
//! [Event::Detach]: super::Event::Finalize

use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, Event, LinkId, Node, Notice, Role, SessionStage};
use crate::failure::Cause;
use crate::machine::message::{ChildMessage, Ending, ParentMessage};

/// The request to end: SIGTERM, which has this number everywhere.
pub(super) const TERMINATE: i32 = 15;

impl Node {
    /// Ends the session from here down; sooner, if it is ending already and has more time than this.
    pub(super) fn end(&mut self, ending: Ending, now: Instant, out: &mut Vec<Effect>) {
        if self.stage >= SessionStage::Ending {
            return self.shorten_end(ending, now, out);
        }
        self.ends_by = now + ending.grace;
        if self.stage < SessionStage::Up {
            self.close_host_table(now);
        }
        self.stage = SessionStage::Ending;
        self.direct.forget_secret();
        let links: Vec<_> = self.children.keys().copied().collect();
        for link in links {
            self.ask_to_end(link, ending, now, out);
        }
        self.notify_member(Notice::End(ending), out);
    }

    fn shorten_end(&mut self, ending: Ending, now: Instant, out: &mut Vec<Effect>) {
        let by = now + ending.grace;
        if self.stage != SessionStage::Ending || by >= self.ends_by {
            return;
        }
        self.ends_by = by;
        let asked = self.children.iter().filter(|(_, child)| child.is_up());
        for (link, before) in asked.map(|(link, child)| (*link, child.by)).collect::<Vec<_>>() {
            Self::send(link, Kind::Control, &ParentMessage::End(ending), out);
            self.set_deadline(link, before.min(by + self.rules.kill_grace));
        }
        self.notify_member(Notice::End(ending), out);
    }

    /// Asks a child to end, because the session does. Everybody has the same time, however deep they are in the tree.
    fn ask_to_end(&mut self, link: LinkId, ending: Ending, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get(&link) else { return };
        if !child.is_up() {
            return self.force_end(link, Cause::Cancelled, now, out);
        }
        Self::send(link, Kind::Control, &ParentMessage::End(ending), out);
        if child.detached && child.no_dependents {
            // It is nobody's any more; the link is all that there is to end.
            return self.detach_child(link, now, out);
        }
        // It kills itself by then; what it says of that needs some time to arrive.
        self.set_deadline(link, now + ending.grace + self.rules.kill_grace);
    }

    /// The parent is gone: this node, and whatever it has started, must not outlive it.
    pub(super) fn parent_lost(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if matches!(self.role, Role::FrontEnd(_)) {
            return;
        }
        self.cut(LinkId::PARENT, out);
        if self.stage == SessionStage::Over {
            return;
        }
        self.reports.clear();
        self.relay.discard();
        let first = self.stage < SessionStage::Ending;
        self.stage = SessionStage::Ending;
        self.direct.forget_secret();
        let links: Vec<_> = self.children.keys().copied().collect();
        for link in links {
            match self.children.get(&link) {
                Some(child) if child.detached => self.detach_child(link, now, out),
                _ => self.force_end(link, Cause::Cancelled, now, out),
            }
        }
        if first {
            let ending = Ending { signal: TERMINATE, grace: self.rules.kill_grace };
            self.notify_member(Notice::End(ending), out);
        }
    }

    /// Closes the link to a child that was released, which learns from that, if it still carries, that it has
    /// lost its parent.
    pub(super) fn detach_child(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        out.push(Effect::DetachChild(link));
        out.push(Effect::Close(link));
        if let Some(child) = self.children.get_mut(&link) {
            child.open = false;
            child.end(Cause::Closed);
            child.exit.get_or_insert(crate::failure::Exit::Unknown);
        }
        self.cut(link, out);
        self.ends(link, Cause::Closed, now, out);
    }

    /// Every member at and below this node that is still ours gets this signal.
    pub(super) fn signal(&mut self, signal: i32, out: &mut Vec<Effect>) {
        self.send_to_children(&ParentMessage::Signal(signal), out);
        self.notify_member(Notice::Signal(signal), out);
    }

    /// Tells the user of a member something that concerns only what is ours.
    fn notify_member(&self, notice: Notice, out: &mut Vec<Effect>) {
        if matches!(self.role, Role::Member(_)) && !self.detached {
            out.push(Effect::Notify(notice));
        }
    }

    /// The user of a member wants it to be released.
    pub(super) fn detach(&mut self) {
        if let Some(rank) = self.rank
            && self.stage < SessionStage::Ending
            && !std::mem::replace(&mut self.detached, true)
        {
            self.reports.push(ChildMessage::Detached(rank));
        }
    }

    /// Nothing is left below this node, but the process lives: perhaps its program ends in good order, and talks until
    /// then.
    pub(super) fn on_event_when_over(&mut self, event: Event, now: Instant, out: &mut Vec<Effect>) {
        match event {
            Event::Received(LinkId::PARENT, bytes) => self.on_parent_bytes(&bytes, now, out),
            Event::ReceivedInPlace(LinkId::PARENT) => self.on_parent_bytes(&[], now, out),
            Event::Closed(LinkId::PARENT) => self.parent_lost(now, out),
            Event::DirectConnected(reached) => self.direct_connected(reached),
            _ => {}
        }
    }

    /// Whether this is a member that lives on without its session.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.detached
    }

    /// Whether nobody hangs on this node any more: who ends now takes nobody with it.
    #[must_use]
    pub fn has_no_dependents(&self) -> bool {
        self.children.values().all(|child| child.no_dependents && child.detached)
    }

    /// Tells the parent, once, that nobody below needs this process any more.
    pub(super) fn report_no_dependents(&mut self) {
        // One that is ours and ends takes those below it with it, and has nothing to say of them.
        let is_asked = self.stage == SessionStage::Up || self.stage == SessionStage::Ending && self.detached;
        if !self.reported_no_dependents
            && is_asked
            && matches!(self.role, Role::Member(_))
            && self.has_no_dependents()
        {
            self.reported_no_dependents = true;
            self.reports.push(ChildMessage::NoDependents);
        }
    }
}
