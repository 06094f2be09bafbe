//! What a node's children say, and what they are told.

use libi_core::ids::HostIndex;
use libi_core::join::Hello;
use libi_core::plan::late::Launch;
use libi_core::secure::Secret;
use libi_core::time::Instant;
use libi_core::wire::{Frame, Header, Kind, Limits, decode_control};

use super::{Child, Direct, Effect, LinkId, Node, Stage};
use crate::failure::{Cause, Phase};
use crate::machine::child::State;
use crate::machine::message::{ChildMessage, ParentMessage, SessionConfig};
use crate::machine::outbox::Stream;
use crate::machine::reader::{Item, ReadError};

impl Node {
    pub(super) fn heard_child(&mut self, link: LinkId, bytes: &[u8], now: Instant, out: &mut Vec<Effect>) {
        let mut rest = bytes;
        loop {
            let Some(child) = self.children.get_mut(&link).filter(|child| child.open) else { return };
            child.heard = now;
            match child.reader.next(&mut rest) {
                Ok(None) => return,
                Ok(Some(Item::Text(text))) => self.printed(link, Stream::Out, text),
                Ok(Some(Item::Preamble(text, _))) => {
                    let is_launched = child.launch.is_some();
                    if matches!(child.state, State::Starting) {
                        child.state = State::Greeting;
                    }
                    if is_launched {
                        self.launching_works();
                    }
                    if !text.is_empty() {
                        self.printed(link, Stream::Out, text);
                    }
                }
                Ok(Some(Item::Frame(header, payload))) if child.talks && Self::is_talk(header) => {
                    out.push(Effect::Deliver(link, payload));
                }
                Ok(Some(Item::Frame(header, payload))) => {
                    if let Err(cause) = self.child_said(link, header, &payload, now, out) {
                        return self.end_by_force(link, cause, now, out);
                    }
                    if header.kind() == Kind::Goodbye {
                        return; // what is behind it on the channel is the remote shell's
                    }
                }
                Err(ReadError::Version(mismatch)) => {
                    return self.end_by_force(link, Cause::Version(mismatch.to_string()), now, out);
                }
                Err(ReadError::Frame(fault)) => {
                    let cause = Cause::Protocol(fault.to_string());
                    if child.is_up() {
                        // Whoever has spoken our protocol is over, and its shell says goodbye; its status is to come.
                        return self.ends(link, cause, now, out);
                    }
                    return self.end_by_force(link, cause, now, out);
                }
            }
        }
    }

    fn child_said(
        &mut self,
        link: LinkId,
        header: Header,
        payload: &[u8],
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Result<(), Cause> {
        let Some(child) = self.children.get(&link) else { return Ok(()) };
        let unexpected =
            |awaited: &str| Cause::Protocol(format!("a {} where {awaited} was awaited", header.kind()));
        let frame = Frame::from_parts(header, payload).ok_or_else(|| unexpected("a frame"))?;
        match (&child.state, header.kind()) {
            (_, Kind::Heartbeat) => Ok(()),
            // It moves when we have.
            (State::Up { .. } | State::Ending { .. }, Kind::Goodbye) if child.direct && !child.moved => {
                out.push(Effect::Follow(link));
                if let Some(child) = self.children.get_mut(&link) {
                    child.moved = true;
                }
                Ok(())
            }
            (State::Ending { .. }, Kind::Goodbye) => Ok(()),
            (State::Greeting, Kind::Hello) => {
                let hello: Hello =
                    decode_control(&frame).map_err(|fault| Cause::Protocol(fault.to_string()))?;
                if hello.ticket != child.ticket {
                    return Err(Cause::WrongTicket);
                }
                self.up(link, now, out);
                Ok(())
            }
            (State::Starting | State::Greeting, _) => Err(unexpected("hello")),
            // Its exit may be known before its last words.
            (
                State::Up { .. } | State::Ending { phase: Phase::Joining | Phase::Joined, .. },
                Kind::Control,
            ) => {
                let news: Vec<ChildMessage> =
                    decode_control(&frame).map_err(|fault| Cause::Protocol(fault.to_string()))?;
                news.into_iter().for_each(|news| self.child_reports(link, news, now, out));
                Ok(())
            }
            (State::Up { .. } | State::Ending { phase: Phase::Joining | Phase::Joined, .. }, Kind::Stdio) => {
                self.output_arrives(link, payload)
            }
            (State::Ending { .. }, _) => Ok(()),
            (State::Up { .. }, _) => Err(unexpected("news")),
        }
    }

    /// A child has said hello: it is told what it is, and given its share.
    fn up(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        // A leader bounds its members by itself, and has time to say what became of them.
        let by = now + self.rules.join_timeout + self.rules.kill_grace.saturating_mul(2);
        let Some(child) = self.children.get_mut(&link) else { return };
        child.state = State::Up { joined: false };
        child.greeted = Some(now);
        child.reader.trust(Limits::AUTHENTICATED);
        let (blocks, launch) = (child.blocks.clone(), child.launch);
        let is_local = launch.is_none();
        self.set_deadline(link, if is_local { Instant::FAR_FUTURE } else { by });
        self.release_backlog(link);
        let (host, name) = match launch {
            Some(Launch { host, .. }) => {
                (host, self.tasks.get(&host).map(|task| task.name.clone()).unwrap_or_default())
            }
            None => (self.leads.unwrap_or(HostIndex(0)), self.host_name.clone()),
        };
        let dial = launch.map_or(Vec::new(), |launch| self.offer(link, launch, out));
        // A further member of a host has no host to launch.
        let direct = if is_local { Direct::default() } else { self.direct.for_child() };
        let welcome = SessionConfig {
            direct,
            dial,
            parent: self.leads,
            size: self.size,
            host,
            name,
            blocks,
            programs: self.programs.clone(),
            rules: self.rules,
            fixed: self.fixed,
            backend: self.backend.clone(),
            output: self.output,
            input: self.input && self.is_front() && host == HostIndex(0),
        };
        if !Self::send_welcome(link, welcome, out) {
            let cause = Cause::NotStarted("its programs take too long to describe".to_owned());
            return self.end_by_force(link, cause, now, out);
        }
        if let Some(launch) = launch {
            self.window.answered();
            self.give(link, launch, now, out);
        } else {
            self.check_joined();
        }
    }

    /// Sends a welcome, of whose secret nothing is left behind: a buffer that grows leaves its beginning in freed memory.
    fn send_welcome(link: LinkId, mut welcome: SessionConfig, out: &mut Vec<Effect>) -> bool {
        let secret = welcome.direct.secret.take();
        let mut measured = Vec::new();
        let mut welcome = Box::new(welcome);
        if secret.is_some() {
            Self::send(link, Kind::Control, &ParentMessage::SessionConfig(welcome.clone()), &mut measured);
        }
        let length = match &measured[..] {
            [Effect::Send(_, bytes)] => bytes.len() + 2 * Secret::LEN,
            _ => 0,
        };
        welcome.direct.secret = secret;
        Self::send_of(length, link, Kind::Control, &ParentMessage::SessionConfig(welcome), out)
    }

    /// Tells those who were given hosts with an estimate that has proved wrong since what it is now.
    pub(super) fn correct(&mut self, out: &mut Vec<Effect>) {
        let now = self.queue.estimate();
        let children = &self.children;
        self.believers.retain_mut(|(link, told)| {
            let is_up = children.get(link).is_some_and(Child::is_up);
            if is_up && now.differs(told) {
                *told = now;
                Self::send(*link, Kind::Control, &ParentMessage::Share(Vec::new(), now), out);
            }
            is_up && !now.is_certain()
        });
    }

    fn child_reports(&mut self, link: LinkId, mut news: ChildMessage, now: Instant, out: &mut Vec<Effect>) {
        let (leads, began) = (self.leads, self.began);
        let Some(child) = self.children.get_mut(&link) else { return };
        match (&mut news, child.host()) {
            (ChildMessage::Joined(host, _, timing), Some(own)) if *host == own && child.is_up() => {
                *timing = child.timing(leads, began);
                timing.joined = child.greeted.map(|at| now.since(at));
                child.state = State::Up { joined: true };
                self.set_deadline(link, Instant::FAR_FUTURE);
            }
            // What it has said behind its verdict, or its exit, does not make it join.
            (ChildMessage::Joined(host, ..), Some(own)) if *host == own => return,
            (ChildMessage::Alone, _) => {
                child.alone = true;
                if child.released && self.stage == Stage::Ending {
                    // The link is all that there is to end.
                    self.let_go(link, now, out);
                }
                return;
            }
            (ChildMessage::NotDirect, _) => return self.not_direct(link, now, out),
            (ChildMessage::Unable(why, certain), own) => {
                let (why, certain) = (why.clone(), *certain);
                child.hands_back = true;
                return own.into_iter().for_each(|own| self.child_is_unable(own, &why, certain));
            }
            (ChildMessage::Back(host, attempt, tried), own) => {
                let (back, tried) = (Launch { host: *host, attempt: *attempt }, *tried);
                return own.into_iter().for_each(|own| self.take_back(own, back, tried, now));
            }
            (ChildMessage::Joined(..), Some(_)) if !child.launches => {
                child.launches = true;
                self.footing.child_is_able();
            }
            (ChildMessage::Released(rank), _) if child.rank() == Some(*rank) => child.released = true,
            (ChildMessage::Failed(host, _, failure), Some(own)) if *host == own => {
                // It ends by itself; what it has said of itself is the verdict, told when it is gone.
                child.verdict = Some(failure.clone());
                if child.end(failure.cause.clone()) {
                    let by = now + self.rules.kill_grace;
                    self.set_deadline(link, by);
                }
                return;
            }
            // Given up for good by somebody below: should he be lost, that says nothing of it any more.
            (ChildMessage::Failed(host, ..), Some(own))
                if self.stage == Stage::Launching
                    && self.queue.remove_from_share(own, *host)
                    && !self.is_front() =>
            {
                self.tasks.remove(host);
            }
            _ => {}
        }
        self.note_attempt(&news);
        self.note_place(link, &news);
        self.news.push(news);
    }

    /// Remembers the latest attempt that has been heard of, wherever below it is made: should the one that makes it be lost,
    /// the next attempt has to be greater.
    fn note_attempt(&mut self, news: &ChildMessage) {
        let (ChildMessage::Joined(host, attempt, _)
        | ChildMessage::Failed(host, attempt, _)
        | ChildMessage::Again(host, attempt, _)) = news
        else {
            return;
        };
        if let Some(task) = self.tasks.get_mut(host) {
            task.attempt = task.attempt.max(*attempt);
        }
    }
}
