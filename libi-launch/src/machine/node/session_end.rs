//! The end of a session, or of a member's part in it: signals, `End`, a lost parent, detached
//! members.
//!
//! A detached member (see `attachment.rs`) keeps forwarding for the nodes below it while it lives
//! and has a parent. When it loses its parent, attached members below it are ended, and their
//! output is discarded.
//!
//! A leader that ends takes its subtree with it, because the nodes below depend on it. If it loses its parent
//! while the session ends, and hosts find other parents, it does not kill the leaders below: what is below one
//! that was killed would not hear of the end, and look for a parent until the time limit. A node has
//! *no dependents* when each of its children is gone, or is detached and has no dependents itself.

use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, Event, LinkId, Node, Notice, Role};
use crate::failure::Cause;
use crate::machine::child::Child;
use crate::machine::child_table::ChildTable;
use crate::machine::message::{ChildMessage, Ending, ParentMessage};

/// SIGTERM, which has this number on all systems.
pub(super) const TERMINATE: i32 = 15;

impl Node {
    /// Ends the session at and below this node. A second call can only shorten the time.
    pub(super) fn end(&mut self, ending: Ending, now: Instant, out: &mut Vec<Effect>) {
        if self.stage.is_before_up() {
            self.close_host_table(now);
        }
        if !self.stage.end(now + ending.grace) {
            return self.shorten_end(ending, now, out);
        }
        self.direct.forget_secret();
        self.forget_move();
        self.give_up_restarts(out);
        self.give_up_growth(now, out);
        for link in self.children.links(|_| true) {
            self.ask_to_end(link, ending, now, out);
        }
        self.moved.end_all(now + ending.grace + self.options.rules.kill_grace);
        self.end_processes(ending, now, out);
        self.notify_member(Notice::End(ending), out);
    }

    fn shorten_end(&mut self, ending: Ending, now: Instant, out: &mut Vec<Effect>) {
        let by = now + ending.grace;
        if !self.stage.shorten_end(by) {
            return;
        }
        for link in self.children.links(Child::is_up) {
            self.ask_to_end_sooner(link, ending, now, out);
        }
        for link in self.children.links(Child::is_running) {
            self.ask_program_to_end(link, ending, by, out);
        }
        self.moved.end_all(by + self.options.rules.kill_grace);
        self.end_processes(ending, now, out);
        self.notify_member(Notice::End(ending), out);
    }

    /// Tells a child that is up, and that may have been asked before.
    fn ask_to_end_sooner(&mut self, link: LinkId, ending: Ending, now: Instant, out: &mut Vec<Effect>) {
        Self::send(link, Kind::Control, &ParentMessage::End(ending), out);
        let by = now + ending.grace + self.options.rules.kill_grace;
        let before = self.children.deadline(link).unwrap_or(by);
        self.children.set_deadline(link, before.min(by));
    }

    /// Asks a child to end with the session. All levels of the tree have the same time.
    fn ask_to_end(&mut self, link: LinkId, ending: Ending, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get(link) else { return };
        if child.is_running() {
            return self.ask_program_to_end(link, ending, now + ending.grace, out);
        }
        if !child.is_up() {
            return self.force_end(link, Cause::Cancelled, now, out);
        }
        Self::send(link, Kind::Control, &ParentMessage::End(ending), out);
        if child.is_detached() && child.has_no_dependents() {
            // A detached child without dependents: only the link is left to be closed.
            return self.detach_child(link, now, out);
        }
        // The child kills its members by then; its report needs some time to arrive.
        self.children.set_deadline(link, now + ending.grace + self.options.rules.kill_grace);
    }

    /// The parent is lost: this node, and everything it has started, ends. A parent that only seems to
    /// be lost hears nothing of that: for it, this node is lost with everything below it.
    pub(super) fn parent_lost(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if self.becomes_orphan(now, out) {
            return;
        }
        let Role::Member(parent) = &mut self.role else { return };
        parent.lose();
        self.cut(LinkId::PARENT, now, out);
        if self.stage.is_over() {
            return;
        }
        self.reports.clear();
        self.relay.discard();
        let first = self.stage.end(Instant::FAR_FUTURE);
        self.direct.forget_secret();
        self.forget_move();
        let ending = Ending { signal: TERMINATE, grace: self.options.rules.kill_grace };
        for link in self.children.links(|_| true) {
            match self.children.get(link) {
                Some(child) if child.is_detached() => self.detach_child(link, now, out),
                // What it has been told it may not have passed on. In a session that goes on, hosts below it may
                // have another parent.
                Some(child) if !first && child.is_leader() && child.is_up() && self.hosts_find_parents() => {
                    self.ask_to_end_sooner(link, ending, now, out);
                }
                _ => self.force_end(link, Cause::Cancelled, now, out),
            }
        }
        self.kill_processes(now, out);
        if first {
            self.notify_member(Notice::End(ending), out);
        }
    }

    /// Closes the link to a detached child. A child that still forwards learns from that that it
    /// has lost its parent.
    pub(super) fn detach_child(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        out.push(Effect::DetachChild(link));
        out.push(Effect::Close(link));
        if let Some(child) = self.children.get_mut(link) {
            child.close();
            child.end(Cause::Closed);
            child.forgo_exit();
        }
        self.cut(link, now, out);
        self.ends(link, Cause::Closed, now, out);
    }

    /// Delivers a signal to every attached member at and below this node.
    pub(super) fn signal(&mut self, signal: i32, out: &mut Vec<Effect>) {
        self.send_to_children(&ParentMessage::Signal(signal), out);
        let programs = self.children.links(Child::is_running);
        out.extend(programs.into_iter().map(|link| Effect::Signal(link, signal)));
        self.notify_member(Notice::Signal(signal), out);
    }

    /// Notifies the user of an attached member. An agent ends when its node is over.
    fn notify_member(&self, notice: Notice, out: &mut Vec<Effect>) {
        if matches!(self.role, Role::Member(_)) && !self.attachment.is_detached() && !self.is_agent() {
            out.push(Effect::Notify(notice));
        }
    }

    /// The user of a member detaches it.
    pub(super) fn detach(&mut self) {
        if let Some(rank) = self.rank()
            && self.attachment.detach(self.stage)
        {
            self.reports.push(ChildMessage::Detached(rank));
        }
    }

    /// Handles events after everything below this node has ended, while the process lives: its
    /// program may still communicate until it ends.
    pub(super) fn on_event_when_over(&mut self, event: Event, now: Instant, out: &mut Vec<Effect>) {
        match event {
            Event::Received(LinkId::PARENT, items) => self.on_parent_items(items, now, out),
            Event::Closed(LinkId::PARENT) | Event::Violation(LinkId::PARENT, _) => self.parent_lost(now, out),
            Event::DirectConnected(reached) => self.direct_connected(reached, now, out),
            // Its processes are done at once.
            Event::Spawn(request) => self.spawn(*request, now, out),
            Event::Restart(rank) => self.restart(rank, None, now, out),
            Event::RestartOn(rank, place) => self.restart(rank, Some(place), now, out),
            Event::Grow(request) => self.grow(*request, now, out),
            // The driver keeps a connection that has made its claim until it is answered.
            Event::Arrived(_, arrival, _) | Event::FilesWanted(arrival) => out.push(Effect::Refuse(arrival)),
            _ => {}
        }
        // Credit may have come for what is left.
        self.relay_output(now, out);
    }

    /// Whether this member has detached.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.attachment.is_detached()
    }

    /// Whether no process depends on this node any more.
    #[must_use]
    pub fn has_no_dependents(&self) -> bool {
        depend_on_no_parent(&self.children)
    }

    /// Whether this is an agent without members and without hosts below, in a session that is up.
    /// It may end, unless members may be restarted.
    #[must_use]
    pub fn is_left_by_all(&self) -> bool {
        let is_empty = self.children.is_empty()
            && self.starts.is_empty()
            && !self.orphans.awaits()
            && !self.growth.is_launching();
        self.is_agent() && self.stage.is_up() && is_empty && !self.restarts_members()
    }

    /// Reports to the parent, once, that no process depends on this node.
    pub(super) fn report_no_dependents(&mut self) {
        let children = &self.children;
        // The processes of commands depend on an agent, now or later.
        if matches!(self.role, Role::Member(_))
            && !self.is_agent()
            && !self.growth.is_launching()
            && self.attachment.reports_no_dependents(self.stage, || depend_on_no_parent(children))
        {
            self.reports.push(ChildMessage::NoDependents(self.growth.settled()));
        }
    }
}

/// Whether all children live on without this node.
fn depend_on_no_parent(children: &ChildTable) -> bool {
    children.iter().all(|(_, child)| child.has_no_dependents() && child.is_detached())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use libi_core::ids::StartId;
    use libi_core::machine::Machine;
    use libi_core::wire::{Header, Limits, LinkItem, encode_control};

    use super::*;
    use crate::machine::output_piece::Stream;
    use crate::machine::parent_link::tests as parent_link;
    use crate::machine::rendezvous::{ArrivalId, Claim};

    /// A message from the parent.
    fn message(message: &ParentMessage) -> Event {
        let mut bytes = Vec::new();
        encode_control(&mut bytes, Kind::Control, 0, message, &Limits::AUTHENTICATED).unwrap();
        let (head, payload) = bytes.split_first_chunk().unwrap();
        let header = Header::decode(head, &Limits::AUTHENTICATED).unwrap();
        Event::Received(LinkId::PARENT, vec![LinkItem::Frame(header, payload.to_vec())])
    }

    #[test]
    fn output_that_is_left_when_all_is_over_is_passed_on_with_the_next_credit() {
        let (mut node, mut out) = (Node::member(1, "here".to_owned(), 1), Vec::new());
        node.role = Role::Member(Box::new(parent_link::leader(0, 0)));
        node.stage.go_up();
        node.on(Event::Printed(LinkId::PARENT, Stream::Out, vec![b'x'; 100_000]), Instant::ZERO, &mut out);
        let ending = Ending { signal: TERMINATE, grace: Duration::ZERO };
        node.on(message(&ParentMessage::End(ending)), Instant::ZERO, &mut out);
        assert!(node.stage.is_over() && !node.has_relayed_output());
        out.clear();
        node.on(message(&ParentMessage::Credit(100_000)), Instant::ZERO, &mut out);
        assert!(node.has_relayed_output());
        assert!(
            !out.is_empty() && out.iter().all(|effect| matches!(effect, Effect::Send(LinkId::PARENT, _)))
        );
    }

    #[test]
    fn a_node_that_is_over_refuses_connections() {
        let mut node = Node::member(1, "here".to_owned(), 1);
        let mut out = Vec::new();
        node.on(Event::Begin, Instant::ZERO, &mut out);
        node.on(Event::Closed(LinkId::PARENT), Instant::ZERO, &mut out);
        assert!(node.stage.is_over());
        out.clear();
        let claim = Claim { names: vec!["n1".to_owned()], is_back: false };
        node.on(Event::Arrived(StartId(1), ArrivalId(7), claim), Instant::ZERO, &mut out);
        assert!(matches!(out[..], [Effect::Refuse(ArrivalId(7))]), "{out:?}");
    }
}
