//! Moves of hosts: from the front end to the leader of the first host, as [`Moves`] decides.
//!
//! [`Moves`]: crate::machine::moves::Moves

use std::net::SocketAddr;
use std::time::Duration;

use libi_core::ids::{HostIndex, StartId};
use libi_core::plan::late::Launch;
use libi_core::time::Instant;
use libi_core::wire::{Frame, Kind, LinkItem, decode_control};

use super::{Effect, Event, LinkId, Node, Role};
use crate::failure::{Cause, Exit, LaunchTiming};
use crate::machine::child::{Arrival, Child, ChildRole};
use crate::machine::direct_links::Dial;
use crate::machine::message::{ChildMessage, HostSpec, ParentMessage, RelayMessage, Rules, SessionConfig};
use crate::machine::moved_processes::MovedStep;
use crate::machine::moves::Placement;
use crate::machine::output_piece::{OutputPiece, Stream};

/// At the front end.
impl Node {
    /// A child has said hello: moves it to the leader of the first host, or holds it. Returns whether it
    /// is none of this node's any more, or not yet.
    pub(super) fn moves_away(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) -> bool {
        let launch = self.children.get(link).and_then(Child::launch);
        // New hosts of a session that is up stay where they are.
        let moves = |launch: &Launch| launch.host != HostIndex(0) && !self.stage.is_up();
        let Some(launch) = launch.filter(moves) else { return false };
        let target = self.moves.target().and_then(|target| self.children.get(target));
        let is_up = target.is_some_and(Child::is_up);
        let greeted = self.moves.greeted(link);
        match self.moves.place(link, launch.host, is_up, now) {
            Placement::Stays => return false,
            Placement::Held if greeted.is_some() => {}
            Placement::Held => self.children.set_deadline(link, now + self.longest_held()),
            Placement::Moves(target) => {
                let greeted = greeted.unwrap_or(now);
                return self.move_child(link, launch, target, greeted, now, out);
            }
        }
        true
    }

    /// How long a host may be held: it knows no rules but the usual before its config, and gives up by
    /// those.
    fn longest_held(&self) -> Duration {
        self.options.rules.hello_timeout.min(Rules::default().peer_timeout) / 2
    }

    /// Decides again about the children that wait.
    fn place_waiting(&mut self, now: Instant, out: &mut Vec<Effect>) {
        for link in self.moves.held().collect::<Vec<_>>() {
            if self.children.get(link).is_none_or(Child::is_ending) {
                self.moves.release(link);
            } else if !self.moves_away(link, now, out) {
                self.stays(link, now, out);
            }
        }
    }

    /// A child that waited is one of this node.
    pub(super) fn stays(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        self.moves.release(link);
        self.up(link, now, out);
    }

    fn move_child(
        &mut self,
        link: LinkId,
        launch: Launch,
        target: LinkId,
        greeted: Instant,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> bool {
        let Some(spec) = self.launcher.moved(launch, greeted) else { return false };
        let Some(mut child) = self.children.remove(link) else { return false };
        let start = child.start();
        self.started(start, now);
        let _ = self.starts.child_gone(start, link, true, now);
        let timing = child.timing_of_hello(self.began, greeted);
        self.moved.add(link, launch, child.rank(), timing);
        out.push(Effect::Trust(link));
        Self::send_to_target(target, RelayMessage::Adopt(Box::new(spec), child.is_agent()), out);
        for (stream, text) in child.take_early_output() {
            Self::send_to_target(target, RelayMessage::HostPrinted(launch.host, stream, text), out);
        }
        true
    }

    /// The leader of the first host awaits a host: that connects there.
    pub(super) fn adopted(&self, launch: Launch, out: &mut Vec<Effect>) {
        let Some((link, addresses)) = self.moved.process_of(launch).zip(self.moves.addresses()) else {
            return;
        };
        let (blocks, name) = match self.launcher.spec(launch.host) {
            Some(spec) => (spec.blocks.clone(), spec.name.clone()),
            None => return,
        };
        // Whether hosts can connect to the front end says nothing about that leader.
        let config = SessionConfig {
            dial: addresses.to_vec(),
            parent: Some(HostIndex(0)),
            ..self.config((launch.host, name), blocks, self.options.links, true)
        };
        Self::send_config(link, config, ParentMessage::Move, out);
    }

    fn send_to_target(target: LinkId, message: RelayMessage, out: &mut Vec<Effect>) {
        Self::send(target, Kind::Control, &ParentMessage::Relay(message), out);
    }

    /// Tells the leader to which a host has moved something about it.
    fn tell_new_parent(&self, message: RelayMessage, out: &mut Vec<Effect>) {
        if let Some(target) = self.moves.target() {
            Self::send_to_target(target, message, out);
        }
    }

    /// The leader of the first host is up: others may move there.
    pub(super) fn ask_to_adopt(&self, link: LinkId, out: &mut Vec<Effect>) {
        let is_first = self.children.get(link).and_then(Child::host) == Some(HostIndex(0));
        if is_first && self.moves.are_on() {
            Self::send_to_target(link, RelayMessage::Listen(StartId(0)), out);
        }
    }

    /// The leader of the first host listens, or cannot.
    pub(super) fn target_listens(
        &mut self,
        link: LinkId,
        addresses: Vec<SocketAddr>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        self.moves.target_listens(link, addresses);
        self.place_waiting(now, out);
    }

    /// What a report says of a host that has moved. The times of its launch are those known here.
    pub(super) fn note_moved(&mut self, report: &mut ChildMessage, now: Instant, out: &mut Vec<Effect>) {
        match report {
            ChildMessage::Link(host, true) if self.moved.connected(*host) && self.moves.reached() => {
                self.place_waiting(now, out);
            }
            ChildMessage::Joined(host, attempt, timing) => {
                let launch = Launch { host: *host, attempt: *attempt };
                self.moved.joined(*host);
                if let Some(known) = self.moved.timing(launch) {
                    *timing = LaunchTiming { joined: timing.joined, ..known };
                }
            }
            ChildMessage::Detached(rank) => self.moved.detached(*rank),
            _ => {}
        }
    }

    /// What the host table learns of a host that has moved: another attempt, or none, takes its place.
    pub(super) fn note_end_of_moved(&mut self, report: &ChildMessage, now: Instant, out: &mut Vec<Effect>) {
        if let ChildMessage::Failed(host, attempt, _) | ChildMessage::Relaunch(host, attempt, _) = report {
            let by = now + self.options.rules.kill_grace;
            let unconnected = self.moved.supersede(*host, *attempt, by);
            if self.moves.failed_to_try(unconnected) {
                self.place_waiting(now, out);
            }
        }
    }

    /// Whether an event is about a process that leads to a moved host.
    pub(super) fn is_of_moved(&self, event: &Event) -> bool {
        match event {
            Event::Received(link, _)
            | Event::Violation(link, _)
            | Event::Printed(link, ..)
            | Event::Closed(link)
            | Event::Exited(link, _) => self.moved.launch(*link).is_some(),
            _ => false,
        }
    }

    pub(super) fn on_moved(&mut self, event: Event, now: Instant, out: &mut Vec<Effect>) {
        match event {
            Event::Received(link, items) => self.on_moved_items(link, items, now, out),
            Event::Printed(link, stream, text) => self.moved_printed(link, stream, text, now, out),
            Event::Closed(link) => self.moved.closed(link),
            Event::Exited(link, exit) => self.moved_exited(link, exit, now, out),
            _ => {}
        }
    }

    /// Something has come over the channel to a host that has moved.
    fn on_moved_items(&mut self, link: LinkId, items: Vec<LinkItem>, now: Instant, out: &mut Vec<Effect>) {
        for item in items {
            match item {
                LinkItem::Text(text) => self.moved_printed(link, Stream::Out, text, now, out),
                LinkItem::Preamble(..) => {}
                LinkItem::Frame(header, payload) => {
                    let frame =
                        Frame::from_parts(header, &payload).filter(|_| header.kind() == Kind::Control);
                    let reports = frame.and_then(|frame| decode_control::<Vec<ChildMessage>>(&frame).ok());
                    if reports.is_some_and(|reports| reports.contains(&ChildMessage::NotDirect)) {
                        self.not_moved(link, now, out);
                    }
                }
            }
        }
    }

    /// A host cannot connect to the leader of the first host, which launches it again.
    fn not_moved(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let Some(Launch { host, attempt }) = self.moved.launch(link) else { return };
        self.moves.not_reached(host);
        self.tell_new_parent(RelayMessage::Release(host, attempt), out);
        self.moved.supersede(host, attempt, now);
        self.place_waiting(now, out);
    }

    /// A process has printed something: evidence for the leader until its host has joined, then output of
    /// its rank, which is read only as fast as the user takes it.
    fn moved_printed(
        &mut self,
        link: LinkId,
        stream: Stream,
        text: Vec<u8>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Some(host) = self.moved.told_of(link) else { return };
        if self.moved.is_evidence(link, text.len()) {
            return self.tell_new_parent(RelayMessage::HostPrinted(host, stream, text), out);
        }
        if let Some(rank) = self.launcher.spec(host).and_then(|spec| Some(spec.blocks.first()?.first)) {
            self.buffer_output(link, false, OutputPiece::new(rank, stream, text), now);
        }
    }

    fn moved_exited(&mut self, link: LinkId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        if let Some(host) = self.moved.told_of(link) {
            self.tell_new_parent(RelayMessage::HostEnded(host, exit), out);
        }
        self.moved.exited(link, now + self.options.rules.kill_grace);
    }

    /// Handles the deadlines of processes that lead to moved hosts.
    pub(super) fn expire_moves(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some((link, step)) = self.moved.expire(now, self.options.rules.kill_grace) {
            match step {
                MovedStep::Kill => out.extend([Effect::Close(link), Effect::Kill(link)]),
                MovedStep::Release => out.extend([Effect::DetachChild(link), Effect::Close(link)]),
                MovedStep::Forget => out.push(Effect::Close(link)),
            }
        }
    }
}

/// At the leader of the first host.
impl Node {
    /// A host will connect that the front end has launched.
    pub(super) fn adopt(&mut self, spec: HostSpec, is_agent: bool, now: Instant, out: &mut Vec<Effect>) {
        let launch = Launch { host: spec.host, attempt: spec.attempt };
        if !self.stage.is_launching() {
            if !self.stage.has_begun_to_end() {
                let (_, terms, reports) = self.launcher(now);
                let failure = terms.failure_of_waiting(Cause::Cancelled);
                reports.push(ChildMessage::Failed(launch.host, launch.attempt, failure));
            }
            return;
        }
        let blocks = spec.blocks.clone();
        if !self.launcher.adopt(spec, now) {
            return;
        }
        let child = (self.starts.next_id(), Arrival::Moving);
        let (link, _) = self.add_child(ChildRole::Leader(launch), child, blocks, now);
        if is_agent && let Some(child) = self.children.get_mut(link) {
            child.set_agent();
        }
        out.push(Effect::Await(link));
        if self.offer_direct(link, launch, out).is_empty() {
            return self.release_moving(link, now, out);
        }
        self.reports.push(ChildMessage::Adopted(launch.host, launch.attempt));
    }

    /// A host that cannot connect here is launched again: it need not connect then.
    pub(super) fn release_moving(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        if let Some(launch) =
            self.children.get(link).filter(|child| child.is_moved_here()).and_then(Child::launch)
        {
            let (launcher, terms, reports) = self.launcher(now);
            launcher.relaunch_adopted(launch, &terms, reports);
            self.force_end(link, Cause::Cancelled, now, out);
        }
    }

    /// A host that the front end has launched has connected. Its preamble follows, as its hello was the
    /// front end's.
    pub(super) fn moved_here(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        self.direct.child_connected();
        out.extend([Effect::SendDirect(link), Effect::ReceiveDirect(link)]);
    }
}

/// At a host that moves.
impl Node {
    /// The parent is another node; `None` if that was not expected.
    pub(super) fn move_to(
        &mut self,
        mut config: Box<SessionConfig>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        let timeout = self.options.rules.hello_timeout;
        let (at, parent_host) = (std::mem::take(&mut config.dial), config.parent?);
        self.options.link_security = config.options.link_security;
        self.direct.set_secret(config.secret.clone());
        let Role::Member(parent) = &mut self.role else { return None };
        let own = parent.move_to(now, timeout)?;
        self.moves.set_config(config);
        match self.direct.dial_new_parent(&at, &self.terms(Some(parent_host), own)) {
            Dial::Connect(key) => out.push(Effect::ConnectDirect(at, key)),
            Dial::NotDirect | Dial::Later | Dial::Stay => self.reports.push(ChildMessage::NotDirect),
        }
        Some(())
    }

    /// The parent stays, or is lost: the config for the other one, and the secret in it, are forgotten.
    pub(super) fn forget_move(&mut self) {
        self.moves.take_config();
    }

    /// This host has connected to its new parent, if that was awaited; returns whether it was.
    pub(super) fn new_parent_reached(&mut self, now: Instant, out: &mut Vec<Effect>) -> bool {
        if self.stage.has_begun_to_end() || !self.direct.new_parent_reached() {
            return false;
        }
        Self::switch_to_direct(LinkId::PARENT, out);
        out.push(Effect::ReceiveDirect(LinkId::PARENT));
        Self::send_preamble(LinkId::PARENT, out);
        if let Role::Member(parent) = &mut self.role {
            parent.on_heard(now);
        }
        let config = self.moves.take_config();
        if config.and_then(|config| self.configure(config, now, out)).is_none() {
            self.parent_lost(now, out);
        }
        true
    }
}
