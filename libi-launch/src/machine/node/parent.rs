//! A member's part of a node: the messages from its parent.

use libi_core::join::Ticket;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;
use libi_core::wire::{Frame, Header, Kind, LinkItem, decode_control};
use zeroize::Zeroize;

use super::session_end::TERMINATE;
use super::{Effect, Node, Notice, Role};
use crate::failure::{Cause, Failure, LaunchTiming, Phase};
use crate::machine::child::Child;
use crate::machine::message::{ChildMessage, Ending, Membership, ParentMessage, SessionConfig};
use crate::machine::parent_link::{Identity, JoinState};
use crate::machine::sources::Origin;

impl Node {
    pub(super) fn on_parent_items(&mut self, items: Vec<LinkItem>, now: Instant, out: &mut Vec<Effect>) {
        let Role::Member(parent) = &mut self.role else { return };
        parent.on_heard(now);
        let mut is_readable = true;
        for item in items {
            let LinkItem::Frame(header, mut payload) = item else { continue };
            if header.kind() == Kind::Staged {
                // Nothing secret, and much.
                let is_due = self.sources.origin() == Origin::Parent;
                if is_readable && !(is_due && self.staged_piece(payload, now, out).is_some()) {
                    self.parent_lost(now, out);
                    is_readable = false;
                }
                continue;
            }
            if is_readable && self.on_parent_frame(header, &payload, now, out).is_none() {
                // A parent that violates the protocol is treated as lost.
                self.parent_lost(now, out);
                is_readable = false;
            }
            payload.zeroize(); // the config holds a secret
        }
    }

    /// Handles a frame of the parent; `None` on a protocol violation.
    fn on_parent_frame(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        let Role::Member(parent) = &mut self.role else { return None };
        let frame = Frame::from_parts(header, payload)?;
        match (header.kind(), parent.state()) {
            (Kind::Heartbeat, _) => Some(()),
            (Kind::Goodbye, _) => self.parent_moved(out),
            (Kind::Control, _) if self.stage.is_over() => {
                if let Ok(ParentMessage::Credit(bytes)) = decode_control(&frame) {
                    self.relay.grant(bytes);
                }
                Some(())
            }
            (Kind::Stdio, _) if self.stage.is_over() => Some(()),
            (Kind::Ticket, JoinState::AwaitTicket) => {
                let ticket: Ticket = decode_control(&frame).ok()?;
                let hello = parent.on_ticket(ticket, now, self.options.rules.hello_timeout)?;
                self.session = ticket.session;
                out.push(Effect::Trust(super::LinkId::PARENT));
                Self::send(super::LinkId::PARENT, Kind::Hello, &hello, out);
                Some(())
            }
            (Kind::Stdio, JoinState::Joining(_) | JoinState::Joined(_)) => {
                self.input_from_parent(payload, out)
            }
            (Kind::Control, JoinState::AwaitTicket) => None,
            (Kind::Control, _) => self.on_parent_message(decode_control(&frame).ok()?, now, out),
            _ => None,
        }
    }

    /// The session is up, with this membership.
    fn on_membership(&mut self, membership: &Membership, now: Instant, out: &mut Vec<Effect>) {
        let Role::Member(parent) = &mut self.role else { return };
        let Some((absent, below)) = parent.on_membership(membership) else { return };
        // Children that have not joined by now would wait for `Go` in vain.
        self.abandon_queue(&Cause::Cancelled, now);
        self.stage.go_up();
        self.growth.settle(membership.size, &absent);
        self.direct.forget_secret();
        self.end_those_before(Phase::Joined, &Cause::Cancelled, now, out);
        self.session_up(absent, below, Some(membership.top), now, out);
        self.watch_link(out);
        out.push(Effect::Notify(Notice::Up));
    }

    fn on_parent_message(
        &mut self,
        message: ParentMessage,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        let Role::Member(parent) = &mut self.role else { return None };
        match (message, parent.is_configured()) {
            (ParentMessage::SessionConfig(config), _) => self.configure(*config, now, out)?,
            (ParentMessage::Move(to), false) => self.move_to(to, now, out)?,
            (_, false) | (ParentMessage::Move(_), true) => return None,
            (ParentMessage::Share(host_specs, estimate), _) => {
                // New hosts have no place in a static tree.
                let is_static = self.options.is_static() && !self.stage.is_up();
                self.launcher.accept(host_specs, estimate, is_static);
                self.correct_estimates(out);
                let (launcher, terms, reports) = self.launcher(now);
                launcher.hand_back_new_share(&terms, reports);
                // When a node ends, its parent decides about the hosts below it.
                if !self.is_launching() && !self.stage.has_begun_to_end() {
                    self.abandon_queue(&Cause::Cancelled, now);
                }
                self.listen(out);
            }
            (ParentMessage::StopLaunching(why), _) => {
                if self.is_launching() {
                    self.conclude(&why, now, out);
                }
            }
            (ParentMessage::Go(membership), _) if self.stage.is_before_up() => {
                self.on_membership(&membership, now, out);
            }
            (ParentMessage::Join(membership), _) if self.stage.is_before_up() => {
                parent.set_joins();
                self.on_membership(&membership, now, out);
            }
            (ParentMessage::GiveUpOpen(why), _) if self.stage.is_launching() => {
                self.give_up_open(&why, now, out);
            }
            (ParentMessage::GiveUpOpen(_) | ParentMessage::Go(_) | ParentMessage::Join(_), _) => {}
            (ParentMessage::Restart(order), _) => self.on_restart_order(order, now, out),
            (ParentMessage::Grow(order), _) => self.on_grow_order(&order, now, out),
            (ParentMessage::Admit(membership), _) => self.on_admit(&membership, now, out),
            (ParentMessage::Relay(message), _) => self.on_relay_message(message, now, out),
            (ParentMessage::Source(host, attempt, addresses), _) => {
                self.source_given(host, attempt, addresses, out);
            }
            (ParentMessage::Run(spec), _) => self.run_command(*spec, now, out),
            (ParentMessage::SignalCommand(signal), _) => self.on_command_signal(&signal, out),
            (ParentMessage::Signal(signal), _) => self.signal(signal, out),
            (ParentMessage::End(ending), _) => self.end(ending, now, out),
            (ParentMessage::Ancestors(ancestors), _) => {
                self.orphans.set_ancestors(ancestors);
                if self.may_become_orphan() && self.orphans.has_others() {
                    out.push(Effect::OutlivesStarter);
                }
                self.tell_ancestors(out);
            }
            (ParentMessage::Adopts(ancestors), _) => self.adopted_by(ancestors, now, out)?,
            (ParentMessage::Lost, _) => self.counts_as_lost(now, out)?,
            (ParentMessage::Connect, _) => self.may_connect(out)?,
            (ParentMessage::Credit(bytes), _) => self.relay.grant(bytes),
        }
        Some(())
    }

    /// Applies the config; `None` if it was not expected, or names more ranks than the session has.
    pub(super) fn configure(
        &mut self,
        config: SessionConfig,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        let Role::Member(parent) = &mut self.role else { return None };
        let leads = parent.on_config(&config)?.leads();
        let programs = config.blocks.iter().map(|block| block.count).sum();
        (self.options, self.size, self.programs) = (config.options, config.size, config.programs);
        self.restarts.set_of_host(config.restarts);
        self.launcher.set_parent_takes_back(config.takes_back);
        self.direct.set_secret(config.secret);
        self.direct.set_orphans_secret(config.orphans_secret);
        self.reconnects = config.reconnects;
        self.fold_output();
        self.set_input(config.input, programs, out);
        self.next_heartbeat = now + self.heartbeat_interval();
        if let Some(own) = leads {
            self.dial(config.parent, own, config.dial, out);
            if self.stages_files() {
                self.open_stage(now, out);
                self.open_sources(config.files_secret, out);
            } else {
                self.start_own(now, out);
            }
        }
        self.check_joined();
        Some(())
    }

    /// Reports, once, that all members of this host are up.
    pub(super) fn check_joined(&mut self) {
        if self.direct.must_wait(self.options.links)
            || self.own_programs.are_sought()
            || self.staged.are_missing()
        {
            return;
        }
        let Role::Member(parent) = &mut self.role else { return };
        if self.children.locals().all(|(_, child)| child.is_up())
            && let Some(Launch { host, attempt }) = parent.on_joined().and_then(Identity::leads)
        {
            self.reports.push(ChildMessage::Joined(host, attempt, LaunchTiming::default()));
        }
    }

    /// A further member of this host has failed before the session was up: the host fails.
    pub(super) fn host_failed(&mut self, failure: Failure, now: Instant, out: &mut Vec<Effect>) {
        let Role::Member(parent) = &self.role else { return };
        let leads = parent.identity().and_then(Identity::leads);
        let Some(Launch { host, attempt }) = leads else { return };
        self.reports.push(ChildMessage::Failed(host, attempt, failure));
        self.send_reports(now, out);
        self.end(Ending { signal: TERMINATE, grace: self.options.rules.kill_grace }, now, out);
    }

    /// Stops launching, gives up hosts that have not joined, and tells the children to do the same.
    pub(super) fn conclude(&mut self, why: &Cause, now: Instant, out: &mut Vec<Effect>) {
        if self.stage.is_up() {
            return self.stop_growing(why, now, out);
        }
        self.stage.stop_launching();
        self.abandon_queue(why, now);
        self.send_to_children(&ParentMessage::StopLaunching(why.clone()), out);
        self.end_those_before(Phase::Joining, why, now, out);
        let joined = match &self.role {
            Role::Member(parent) => !parent.is_joining(),
            Role::FrontEnd(_) => true,
        };
        if !joined {
            let elapsed = now.since(self.began);
            let failure = Failure::without_evidence(Phase::Joining, why.clone(), elapsed);
            self.host_failed(failure, now, out);
        }
    }

    /// Kills children that have not reached this phase.
    pub(super) fn end_those_before(
        &mut self,
        phase: Phase,
        why: &Cause,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let is_early = |child: &Child| child.phase() < phase && !child.is_ending();
        for link in
            self.children.links(|child| is_early(child) && (phase < Phase::Joined || child.is_leader()))
        {
            self.force_end(link, why.clone(), now, out);
        }
    }

    /// Reports every host that waits for its launch as given up.
    pub(super) fn abandon_queue(&mut self, why: &Cause, now: Instant) {
        let (launcher, terms, reports) = self.launcher(now);
        launcher.abandon(why, &terms, reports);
    }

    /// Whether the parent's next message is overdue.
    pub(super) fn parent_is_late(&self, now: Instant) -> bool {
        match &self.role {
            Role::Member(parent) => parent.deadline().is_some_and(|by| now >= by),
            Role::FrontEnd(_) => false,
        }
    }
}
