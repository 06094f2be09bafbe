//! A member's side of a node: the link to its parent, and what comes from there.

use libi_core::join::{Hello, MemberRole, Ticket};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::wire::{Frame, Header, Kind, Limits, decode_control};
use zeroize::Zeroize;

use super::leaving::TERMINATE;
use super::{Effect, Node, Notice, Role, Stage};
use crate::failure::{Cause, Failure, LaunchTiming, Phase};
use crate::machine::message::{ChildMessage, Ending, ParentMessage, Rules, SessionConfig};
use crate::machine::reader::{Item, Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    CallSignature,
    Greeted(Ticket),
    Joining(Ticket),
    Joined(Ticket),
}

/// What a member's node keeps beside what every node keeps.
#[derive(Debug)]
pub(super) struct Upstream {
    process: u32,
    machine: String,
    pub(super) reader: Reader,
    state: State,
    pub(super) heard: Instant,
    /// The session is up, and the communication half talks to the parent.
    pub(super) talks: bool,
    /// What is known of those who are in a session that comes up, before all of it is.
    absent: Ranks,
    below: Ranks,
    /// When the parent must have said what is awaited.
    by: Instant,
}

impl Upstream {
    pub(super) fn new(process: u32, machine: String) -> Self {
        let (heard, by) = (Instant::ZERO, Instant::FAR_FUTURE);
        let (reader, state) = (Reader::new(), State::CallSignature);
        let (absent, below) = Default::default();
        Self { process, machine, reader, state, heard, talks: false, absent, below, by }
    }

    pub(super) fn begin(&mut self, now: Instant, rules: &Rules) {
        self.heard = now;
        self.by = now + rules.hello_timeout;
    }

    pub(super) fn is_welcome(&self) -> bool {
        matches!(self.state, State::Joining(_) | State::Joined(_))
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        (!self.is_welcome()).then_some(self.by)
    }

    fn place(&self) -> Option<(MemberRole, Attempt)> {
        match self.state {
            State::CallSignature => None,
            State::Greeted(ticket) | State::Joining(ticket) | State::Joined(ticket) => {
                Some((ticket.place, ticket.attempt))
            }
        }
    }
}

impl Node {
    pub(super) fn heard_parent(&mut self, bytes: &[u8], now: Instant, out: &mut Vec<Effect>) {
        let mut rest = bytes;
        loop {
            let Role::Member(upstream) = &mut self.role else { return };
            upstream.heard = now;
            let mut frame = match upstream.reader.next(&mut rest) {
                Ok(None) => return,
                Ok(Some(Item::Frame(header, payload))) if upstream.talks && Self::is_talk(header) => {
                    out.push(Effect::Deliver(super::LinkId::PARENT, payload));
                    continue;
                }
                Ok(Some(Item::Frame(header, payload))) => (header, payload),
                Ok(Some(Item::Text(_) | Item::Preamble(..))) => continue,
                // A parent that does not speak our protocol cannot be obeyed.
                Err(_) => return self.orphaned(now, out),
            };
            let said = self.parent_said(frame.0, &frame.1, now, out);
            frame.1.zeroize(); // a welcome holds a secret
            if said.is_none() {
                return self.orphaned(now, out);
            }
            if frame.0.kind() == Kind::Goodbye {
                return; // what is behind it on the channel is nobody's
            }
        }
    }

    /// Nothing if this is not what the protocol allows now.
    fn parent_said(
        &mut self,
        header: Header,
        payload: &[u8],
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        let Role::Member(upstream) = &mut self.role else { return None };
        let frame = Frame::from_parts(header, payload)?;
        match (header.kind(), upstream.state) {
            (Kind::Heartbeat, _) => Some(()),
            (Kind::Goodbye, _) => self.parent_moved(out),
            (Kind::Control | Kind::Stdio, _) if self.stage == Stage::Over => Some(()),
            (Kind::Ticket, State::CallSignature) => {
                let ticket: Ticket = decode_control(&frame).ok()?;
                upstream.state = State::Greeted(ticket);
                upstream.by = now + self.rules.hello_timeout;
                upstream.reader.trust(Limits::AUTHENTICATED);
                self.session = ticket.session;
                let hello = Hello { ticket, process: upstream.process, machine: upstream.machine.clone() };
                Self::send(super::LinkId::PARENT, Kind::Hello, &hello, out);
                Some(())
            }
            (Kind::Stdio, State::Joining(_) | State::Joined(_)) if self.input => {
                out.push(Effect::Input(payload.to_vec()));
                Some(())
            }
            (Kind::Control, State::CallSignature) => None,
            (Kind::Control, _) => self.told(decode_control(&frame).ok()?, now, out),
            _ => None,
        }
    }

    fn told(&mut self, message: ParentMessage, now: Instant, out: &mut Vec<Effect>) -> Option<()> {
        let Role::Member(upstream) = &mut self.role else { return None };
        match (message, upstream.state) {
            (ParentMessage::SessionConfig(welcome), State::Greeted(ticket)) => {
                upstream.state = State::Joining(ticket);
                self.welcomed(ticket, *welcome, now, out)?;
            }
            (_, State::CallSignature | State::Greeted(_)) | (ParentMessage::SessionConfig(_), _) => {
                return None;
            }
            (ParentMessage::Share(tasks, estimate), _) => {
                self.accept(tasks, estimate);
                self.correct(out);
                self.hand_back_what_is_given();
                // A node that ends leaves the verdict on its hosts to its parent.
                if matches!(self.stage, Stage::Concluding | Stage::Up) {
                    self.abandon_queue(&Cause::Cancelled, now);
                }
                self.listen(out);
            }
            (ParentMessage::Conclude(why), _) if self.stage == Stage::Launching => {
                self.conclude(&why, now, out);
            }
            (ParentMessage::Go(roll), _) if self.stage < Stage::Up => {
                upstream.absent.add_all(&roll.absent);
                upstream.below.add_all(&roll.below);
                if !roll.is_last {
                    return Some(());
                }
                let absent = std::mem::take(&mut upstream.absent);
                let below = std::mem::take(&mut upstream.below);
                // Whoever has not joined by now would wait for ever to be told so.
                self.abandon_queue(&Cause::Cancelled, now);
                (self.stage, self.was_up) = (Stage::Up, true);
                self.direct.forget_secret();
                self.end_those_before(Phase::Joined, &Cause::Cancelled, now, out);
                self.rise(absent, below, Some(roll.top), now, out);
                out.push(Effect::Tell(Notice::Up));
            }
            (ParentMessage::Conclude(_) | ParentMessage::Go(_), _) => {}
            (ParentMessage::Signal(signal), _) => self.signal(signal, out),
            (ParentMessage::End(ending), _) => self.end(ending, now, out),
            (ParentMessage::Credit(bytes), _) => self.outbox.allow(bytes),
        }
        Some(())
    }

    /// Nothing if what is said to run here is more than there is in the session.
    fn welcomed(
        &mut self,
        ticket: Ticket,
        welcome: SessionConfig,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        let here: u64 = welcome.blocks.iter().map(|block| u64::from(block.count)).sum();
        if here > u64::from(welcome.size) {
            return None;
        }
        (self.rules, self.size, self.programs) = (welcome.rules, welcome.size, welcome.programs);
        (self.backend, self.output) = (welcome.backend, welcome.output);
        self.direct.settings = welcome.direct;
        self.input = welcome.input;
        if self.input {
            out.push(Effect::TakeInput);
        }
        self.rank = Some(welcome.blocks.first()?.first);
        (self.host, self.host_name) = (Some(welcome.host), welcome.name);
        self.fixed = welcome.fixed;
        self.next_beat = now + self.beat_every();
        if let MemberRole::Leader(host) = ticket.place {
            self.leads = Some(host);
            let own = Launch { host, attempt: ticket.attempt };
            self.dial(welcome.parent, own, welcome.dial, out);
            let ranks = welcome.blocks.iter().flat_map(|block| block.ranks().map(|rank| (rank, *block)));
            // The first is this process.
            let others: Vec<_> = ranks.skip(1).collect();
            for (rank, block) in others {
                self.start_member(rank, block, now, out);
            }
        }
        self.check_joined();
        Some(())
    }

    /// Notices that all members of this host are up, once.
    pub(super) fn check_joined(&mut self) {
        if self.direct.holds_up() {
            return;
        }
        let Role::Member(upstream) = &mut self.role else { return };
        let State::Joining(ticket) = upstream.state else { return };
        let mut locals = self.children.values().filter(|child| child.host().is_none());
        if locals.all(super::Child::is_up) {
            upstream.state = State::Joined(ticket);
            if let MemberRole::Leader(host) = ticket.place {
                self.news.push(ChildMessage::Joined(host, ticket.attempt, LaunchTiming::default()));
            }
        }
    }

    /// A further member of this host will not join, or has gone before the session was up: nor will the host.
    pub(super) fn host_failed(&mut self, failure: Failure, now: Instant, out: &mut Vec<Effect>) {
        let Role::Member(upstream) = &self.role else { return };
        let Some((MemberRole::Leader(host), attempt)) = upstream.place() else { return };
        self.news.push(ChildMessage::Failed(host, attempt, failure));
        self.report(now, out);
        self.end(Ending { signal: TERMINATE, grace: self.rules.kill_grace }, now, out);
    }

    /// Stops launching, gives up what has not joined, and tells those below to do the same.
    pub(super) fn conclude(&mut self, why: &Cause, now: Instant, out: &mut Vec<Effect>) {
        self.stage = Stage::Concluding;
        self.abandon_queue(why, now);
        self.pass_down(&ParentMessage::Conclude(why.clone()), out);
        self.end_those_before(Phase::Joining, why, now, out);
        let joined = match &self.role {
            Role::Member(upstream) => !matches!(upstream.state, State::Joining(_)),
            Role::Front(_) => true,
        };
        if !joined {
            let elapsed = now.since(self.began);
            let failure = Failure::without_evidence(Phase::Joining, why.clone(), elapsed);
            self.host_failed(failure, now, out);
        }
    }

    /// Ends those that have not come so far, and will not be waited for.
    pub(super) fn end_those_before(
        &mut self,
        phase: Phase,
        why: &Cause,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let early = self.children.iter().filter(|(_, child)| child.phase() < phase && !child.is_ending());
        let leaders = early.filter(|(_, child)| phase < Phase::Joined || child.host().is_some());
        let early: Vec<_> = leaders.map(|(&link, _)| link).collect();
        for link in early {
            self.end_by_force(link, why.clone(), now, out);
        }
    }

    /// Reports every host that is still waiting for its launch as given up.
    pub(super) fn abandon_queue(&mut self, why: &Cause, now: Instant) {
        for (Launch { host, attempt }, failure) in self.footing.take_held() {
            self.news.push(ChildMessage::Failed(host, attempt, failure));
        }
        for Launch { host, attempt } in self.not_launched() {
            let elapsed = now.since(self.began);
            let failure = Failure::without_evidence(Phase::Waiting, why.clone(), elapsed);
            self.news.push(ChildMessage::Failed(host, attempt, failure));
        }
    }

    /// The parent has not said in time what is awaited of it.
    pub(super) fn parent_is_late(&self, now: Instant) -> bool {
        match &self.role {
            Role::Member(upstream) => upstream.deadline().is_some_and(|by| now >= by),
            Role::Front(_) => false,
        }
    }
}
