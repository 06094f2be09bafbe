//! What a node does with the processes that it has started.

use std::time::Duration;

use libi_core::boot::{Hello, Place, Ticket};
use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::link::Secret;
use libi_core::plan::late::{Attempt, Launch, Next};
use libi_core::time::Instant;
use libi_core::wire::{Frame, Header, Kind, Limits, decode_control};

use super::{Child, Direct, Effect, Job, LinkId, Node, Stage};
use crate::machine::child::State;
use crate::machine::message::{Down, News, Welcome};
use crate::machine::outbox::Stream;
use crate::machine::reader::{Item, ReadError};
use crate::verdict::{Cause, Exit, Failure, Phase};

/// After how long without an answer, at least, a launch does not count as keeping its launcher busy.
const PATIENCE: Duration = Duration::from_secs(3);
/// How many launches may be in flight, whatever their age: each is a process here, with its descriptors.
const MOST_IN_FLIGHT: usize = 1_000;

impl Node {
    /// Starts as many hosts as may be in flight.
    pub(super) fn launch(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while self.starting.is_none() {
            if let Err(again) = self.may_launch(now) {
                self.launch_again = again;
                return;
            }
            match self.queue.next(now) {
                Next::Launch(launch) => self.start_host(launch, now, out),
                Next::WaitUntil(at) => {
                    self.launch_again = Some(at);
                    return;
                }
                Next::Idle => return,
            }
        }
    }

    /// Whether the window has room; if not, when it will have if nothing happens before.
    ///
    /// A launch that has been silent for long keeps no launcher busy, and is not counted: else a few hosts that
    /// hang would make all others wait for their timeout.
    fn may_launch(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        if self.queue.waiting() == 0 {
            return Ok(());
        }
        let estimate = self.queue.estimate();
        let cost = estimate.cost();
        if let Some(at) = self.window.not_before(now, &estimate) {
            return Err(Some(at));
        }
        let limit = self.window.limit(&estimate);
        self.queue.limit(limit);
        let patience = PATIENCE.max(cost.rem.saturating_mul(2));
        let since =
            Instant::from_nanos((now.since(Instant::ZERO).saturating_sub(patience)).as_nanos() as u64);
        let mut counted = self.queue.in_flight_since(since);
        let earliest = counted.next();
        if earliest.map_or(0, |_| 1 + counted.count()) >= limit {
            return Err(earliest.map(|started| started + patience + Duration::from_nanos(1)));
        }
        if self.queue.in_flight() >= MOST_IN_FLIGHT { Err(None) } else { Ok(()) }
    }

    fn start_host(&mut self, launch: Launch, now: Instant, out: &mut Vec<Effect>) {
        let Some(task) = self.tasks.get_mut(&launch.host) else { return };
        task.attempt = launch.attempt;
        let task = task.clone();
        let Some(program) = self.program(&task.blocks) else {
            let failure = self.nothing_to_run(now);
            return self.launch_failed(launch, failure, now);
        };
        let blocks = task.blocks.clone();
        let link =
            self.start(Place::Leader(launch.host), Some(launch), blocks, Job::Host(task, program), now, out);
        self.starting = Some((link, now));
        self.window.launched(now, &self.queue.estimate());
    }

    pub(super) fn start_member(&mut self, rank: Rank, block: Block, now: Instant, out: &mut Vec<Effect>) {
        let block = Block { first: rank, count: 1, ..block };
        let Some(program) = self.program(&[block]) else {
            let failure = self.nothing_to_run(now);
            return self.host_failed(failure, now, out);
        };
        self.start(Place::Local(rank), None, vec![block], Job::Member(rank, program), now, out);
    }

    fn nothing_to_run(&self, now: Instant) -> Failure {
        let cause = Cause::NotStarted("nobody has said what runs there".to_owned());
        Failure::without_evidence(Phase::Waiting, cause, now.since(self.began))
    }

    fn program(&self, blocks: &[Block]) -> Option<super::Program> {
        self.programs.get(blocks.first()?.distribution as usize).cloned()
    }

    /// Starts a process, and writes its ticket into the link before anything is known of it.
    fn start(
        &mut self,
        place: Place,
        launch: Option<Launch>,
        blocks: Vec<Block>,
        job: Job,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> LinkId {
        self.last_link += 1;
        let link = LinkId(self.last_link);
        let attempt = launch.map_or(Attempt::default(), |launch| launch.attempt);
        let ticket = Ticket { session: self.session, place, attempt, nonce: self.nonce() };
        let by = now + if launch.is_some() { self.rules.greet } else { self.rules.join };
        self.children.insert(link, Child::new(ticket, launch, blocks, now, by));
        self.deadlines.insert((by, link));
        out.push(Effect::Start(link, job));
        Self::send_preamble(link, out);
        Self::send(link, Kind::Ticket, &ticket, out);
        link
    }

    pub(super) fn started(&mut self, link: LinkId, now: Instant) {
        if let Some((_, since)) = self.starting.take_if(|(starting, _)| *starting == link) {
            self.queue.observe_seq(now.since(since));
        }
    }

    pub(super) fn not_started(&mut self, link: LinkId, why: String, now: Instant, out: &mut Vec<Effect>) {
        self.started(link, now);
        if let Some(child) = self.children.get_mut(&link) {
            child.end(Cause::NotStarted(why));
            self.gone(link, now, out);
        }
    }

    pub(super) fn heard_child(&mut self, link: LinkId, bytes: &[u8], now: Instant, out: &mut Vec<Effect>) {
        let mut rest = bytes;
        loop {
            let Some(child) = self.children.get_mut(&link).filter(|child| child.open) else { return };
            child.heard = now;
            match child.reader.next(&mut rest) {
                Ok(None) => return,
                Ok(Some(Item::Text(text))) => self.printed(link, Stream::Out, text),
                Ok(Some(Item::Preamble(text, _))) => {
                    if matches!(child.state, State::Starting) {
                        child.state = State::Greeting;
                    }
                    if !text.is_empty() {
                        self.printed(link, Stream::Out, text);
                    }
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
                    let cause = Cause::Garbled(fault.to_string());
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
            |awaited: &str| Cause::Garbled(format!("a {} where {awaited} was awaited", header.kind()));
        let frame = Frame::join(header, payload).ok_or_else(|| unexpected("a frame"))?;
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
                    decode_control(&frame).map_err(|fault| Cause::Garbled(fault.to_string()))?;
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
                let news: Vec<News> =
                    decode_control(&frame).map_err(|fault| Cause::Garbled(fault.to_string()))?;
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
        let by = now + self.rules.join + self.rules.grace.saturating_mul(2);
        let Some(child) = self.children.get_mut(&link) else { return };
        child.state = State::Up { joined: false };
        child.greeted = Some(now);
        child.reader.trust(Limits::PROVEN);
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
        let welcome = Welcome {
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
            via: self.via.clone(),
            output: self.output,
            input: self.input && self.is_front(),
        };
        if !Self::send_welcome(link, welcome, out) {
            let cause = Cause::NotStarted("its programs take too long to describe".to_owned());
            return self.end_by_force(link, cause, now, out);
        }
        if let Some(launch) = launch {
            self.window.answered();
            self.give(link, launch, now, out);
        } else {
            self.check_joined(now, out);
        }
    }

    /// Sends a welcome, of whose secret nothing is left behind: a buffer that grows leaves its beginning in freed memory.
    fn send_welcome(link: LinkId, mut welcome: Welcome, out: &mut Vec<Effect>) -> bool {
        let secret = welcome.direct.secret.take();
        let mut measured = Vec::new();
        let mut welcome = Box::new(welcome);
        if secret.is_some() {
            Self::send(link, Kind::Control, &Down::Welcome(welcome.clone()), &mut measured);
        }
        let length = match &measured[..] {
            [Effect::Send(_, bytes)] => bytes.len() + 2 * Secret::LEN,
            _ => 0,
        };
        welcome.direct.secret = secret;
        Self::send_of(length, link, Kind::Control, &Down::Welcome(welcome), out)
    }

    /// Tells those who were given hosts with an estimate that has proved wrong since what it is now.
    pub(super) fn correct(&mut self, out: &mut Vec<Effect>) {
        let now = self.queue.estimate();
        let children = &self.children;
        self.believers.retain_mut(|(link, told)| {
            let is_up = children.get(link).is_some_and(Child::is_up);
            if is_up && now.differs(told) {
                *told = now;
                Self::send(*link, Kind::Control, &Down::Share(Vec::new(), now), out);
            }
            is_up && !now.is_certain()
        });
    }

    fn child_reports(&mut self, link: LinkId, mut news: News, now: Instant, out: &mut Vec<Effect>) {
        let (leads, began) = (self.leads, self.began);
        let Some(child) = self.children.get_mut(&link) else { return };
        match (&mut news, child.host()) {
            (News::Joined(host, _, trip), Some(own)) if *host == own && child.is_up() => {
                *trip = child.trip(leads, began);
                trip.joined = child.greeted.map(|at| now.since(at));
                child.state = State::Up { joined: true };
                self.set_deadline(link, Instant::FAR_FUTURE);
            }
            // What it has said behind its verdict, or its exit, does not make it join.
            (News::Joined(host, ..), Some(own)) if *host == own => return,
            (News::Alone, _) => {
                child.alone = true;
                if child.released && self.stage == Stage::Ending {
                    // The link is all that there is to end.
                    self.let_go(link, now, out);
                }
                return;
            }
            (News::NotDirect, _) => return self.not_direct(link, now, out),
            (News::Released(rank), _) if child.rank() == Some(*rank) => child.released = true,
            (News::Failed(host, _, failure), Some(own)) if *host == own => {
                // It ends by itself; what it has said of itself is the verdict, told when it is gone.
                child.verdict = Some(failure.clone());
                if child.end(failure.cause.clone()) {
                    let by = now + self.rules.grace;
                    self.set_deadline(link, by);
                }
                return;
            }
            // Given up for good by somebody below: should he be lost, that says nothing of it any more.
            (News::Failed(host, ..), Some(own))
                if self.stage == Stage::Launching && self.queue.forget(own, *host) =>
            {
                self.tasks.remove(host);
            }
            _ => {}
        }
        self.note_attempt(&news);
        self.news.push(news);
    }

    /// Remembers the latest attempt that has been heard of, wherever below it is made: should the one that makes it be lost,
    /// the next attempt has to be greater.
    fn note_attempt(&mut self, news: &News) {
        let (News::Joined(host, attempt, _) | News::Failed(host, attempt, _) | News::Again(host, attempt)) =
            news
        else {
            return;
        };
        if let Some(task) = self.tasks.get_mut(host) {
            task.attempt = task.attempt.max(*attempt);
        }
    }

    pub(super) fn child_closed(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(&link) else { return };
        child.open = false;
        self.ends(link, Cause::Closed, now, out);
    }

    pub(super) fn child_exited(&mut self, link: LinkId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(&link) else { return };
        child.exit = Some(exit);
        self.ends(link, Cause::Exited(exit), now, out);
    }

    /// A child has begun to end by itself: what is still to be known of that has the grace to arrive.
    pub(super) fn ends(&mut self, link: LinkId, cause: Cause, now: Instant, out: &mut Vec<Effect>) {
        let by = now + self.rules.grace;
        let Some(child) = self.children.get_mut(&link) else { return };
        if child.end(cause) {
            self.set_deadline(link, by);
        }
        if self.children.get(&link).is_some_and(Child::is_gone) {
            self.gone(link, now, out);
        }
    }

    /// Ends a child that has forfeited its time to end by itself.
    pub(super) fn end_by_force(&mut self, link: LinkId, cause: Cause, now: Instant, out: &mut Vec<Effect>) {
        let by = now + self.rules.grace;
        let Some(child) = self.children.get_mut(&link) else { return };
        child.end(cause);
        self.force(link, by, out);
        if self.children.get(&link).is_some_and(Child::is_gone) {
            self.gone(link, now, out);
        }
    }

    fn force(&mut self, link: LinkId, by: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(&link) else { return };
        if let State::Ending { forced, .. } = &mut child.state
            && !std::mem::replace(forced, true)
        {
            child.open = false;
            if child.released {
                // It is not ours to kill, and nobody waits for its end.
                child.exit.get_or_insert(Exit::Unknown);
                out.push(Effect::Release(link));
            }
            out.push(Effect::Close(link));
            if child.exit.is_none() {
                out.push(Effect::Kill(link));
            }
        }
        self.set_deadline(link, by);
    }

    pub(super) fn set_deadline(&mut self, link: LinkId, by: Instant) {
        let Some(child) = self.children.get_mut(&link) else { return };
        self.deadlines.remove(&(child.by, link));
        child.by = by;
        self.deadlines.insert((by, link));
    }

    /// Does what is due for everybody whose state has lasted too long.
    pub(super) fn expire(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some(&(by, link)) = self.deadlines.first()
            && by <= now
        {
            match self.children.get(&link).filter(|child| child.by == by).map(|child| &child.state) {
                None => {
                    self.deadlines.remove(&(by, link));
                }
                // It could not even be killed, or nobody can say that it was.
                Some(State::Ending { forced: true, .. }) => self.gone(link, now, out),
                Some(State::Ending { forced: false, .. }) => self.force(link, now + self.rules.grace, out),
                Some(_) => self.end_by_force(link, Cause::TimedOut, now, out),
            }
        }
        if self.parent_is_late(now) && self.stage < Stage::Ending {
            self.orphaned(now, out);
        }
    }

    /// All is known of the end of a child that will be: what follows for those it stood for.
    fn gone(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.remove(&link) else { return };
        self.deadlines.remove(&(child.by, link));
        self.started(link, now);
        if child.open {
            out.push(Effect::Close(link));
        }
        let was_up = child.phase() >= Phase::Joining;
        if child.released && child.alone && was_up {
            return; // whatever became of it is none of our business
        }
        let failure = child.failure(child.trip(self.leads, self.began), now);
        if self.was_up && was_up && !child.released {
            let exit = child.exit.unwrap_or(Exit::Unknown);
            self.news.extend(child.rank().map(|rank| News::Exited(rank, exit)));
        }
        match child.launch {
            // The hosts of a node that ends are its parent's to launch again or to give up, not its own.
            _ if self.stage >= Stage::Ending => {}
            // It has ended by itself, and nobody hung on it.
            Some(_) if self.stage == Stage::Up && was_up && child.alone => {}
            Some(launch) if was_up => self.leader_lost(launch, &failure, now),
            Some(launch) => self.launch_failed(launch, failure, now),
            None if self.stage < Stage::Up => self.host_failed(failure, now, out),
            None => {}
        }
    }
}
