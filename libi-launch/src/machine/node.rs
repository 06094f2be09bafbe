//! A node: what comes in, what goes out, and what is done with it. See the [module above](super).

mod children;
mod direct;
mod ending;
mod footing;
mod front;
mod leaving;
mod losses;
mod member;
mod output;
mod returning;
mod roster;
mod shares;
mod spares;
mod starting;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::ids::{HostIndex, Rank};
use libi_core::join::{Nonce, SessionKey};
use libi_core::machine::Machine;
use libi_core::plan::estimate::Estimate;
use libi_core::plan::late::Queue;
use libi_core::plan::{HostRuns, Strategy};
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_core::wire::{Header, Kind, Limits, PROTOCOL, Preamble, encode_control};
use serde::Serialize;
use zeroize::Zeroize;

use self::direct::Directness;
use self::footing::Footing;
use self::front::Front;
use self::member::Upstream;
use self::shares::Below;
use self::tree::Places;
use super::child::Child;
use super::contract::{Effect, Event, Job, LinkId, Notice, Plan};
use super::message::{ChildMessage, HostSpec, Output, Program, Rules};
use super::outbox::Outbox;
use super::window::Window;
use crate::backend::Backend;
use crate::failure::Cause;

/// How many news go into one message, so that it stays below the limit of messages.
const NEWS_IN_A_MESSAGE: usize = 200;

pub use self::direct::{Carried, Direct, LinkPolicy};

/// How far the session is, as this node knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Launching,
    /// Nothing is launched any more.
    Concluding,
    Up,
    Ending,
    Over,
}

#[derive(Debug)]
enum Role {
    Front(Front),
    Member(Upstream),
}

/// A process's part in the launch of one session.
#[derive(Debug)]
pub struct Node {
    session: SessionKey,
    rules: Rules,
    size: u32,
    programs: Vec<Program>,
    backend: Backend,
    output: Output,
    role: Role,
    /// A member's own rank, and the host that it leads, once they are known.
    rank: Option<Rank>,
    leads: Option<HostIndex>,
    /// The host that a member is on, and how that is called.
    host: Option<HostIndex>,
    host_name: String,
    /// A member that lives on without us.
    released: bool,
    said_alone: bool,
    /// The session has been up.
    was_up: bool,
    /// When everything has to be over, once the session ends.
    ends_by: Instant,
    /// Whether there is input: at the front end for the master, at the master for its program.
    input: bool,
    outbox: Outbox,
    direct: Directness,
    stage: Stage,
    nonces: Rng,
    children: BTreeMap<LinkId, Child>,
    last_link: u32,
    /// When each child's state has lasted too long.
    deadlines: BTreeSet<(Instant, LinkId)>,
    /// What is known of every host that has been this node's to launch.
    tasks: BTreeMap<HostIndex, HostSpec>,
    /// Over which link each host below has joined, until the session is up.
    places: Places,
    queue: Queue,
    /// Whether it was decided in advance who launches whom; then the queue holds this node's own children.
    fixed: bool,
    below: Below,
    /// How often hosts have failed that were lost here after they had been up, all their launches here counted.
    faults: BTreeMap<HostIndex, u16>,
    window: Window,
    /// Who can launch, as far as is known.
    footing: Footing,
    /// Children that were given hosts and told what that would cost before it was known.
    believers: Vec<(LinkId, Estimate)>,
    /// The start that keeps this node from starting another.
    starting: Option<(LinkId, Instant)>,
    /// When a host may be launched that may not be now, if nothing happens before.
    launch_again: Option<Instant>,
    next_beat: Instant,
    news: Vec<ChildMessage>,
    asked_to_wake: Option<Instant>,
    began: Instant,
}

impl Node {
    /// The front end's node. `entropy` makes its nonces differ from everybody else's.
    #[must_use]
    pub fn front(session: SessionKey, plan: &Plan, entropy: u64) -> Self {
        let estimate = Estimate::assumed(&plan.cost);
        let (rules, size) = (plan.rules, plan.size);
        let programs = plan.programs.clone();
        let first = HostRuns::from_iter([HostIndex(0)]);
        let numbered = (0..).map(HostIndex).zip(&plan.hosts);
        let tasks = numbered.map(|(host, task)| (host, HostSpec { host, ..task.clone() })).collect();
        let role = Role::Front(Front::new(plan));
        let mut node = Self::new(session, role, rules, entropy);
        (node.size, node.programs, node.tasks) = (size, programs, tasks);
        (node.backend, node.output) = (plan.backend.clone(), plan.output);
        node.direct.settings = plan.direct.clone();
        node.input = plan.input;
        node.footing = Footing::firm();
        node.queue = Queue::new(first, estimate);
        node.fixed = plan.strategy != Strategy::Late;
        node
    }

    /// The node of a process that was started for a place in some session, which it will be told.
    #[must_use]
    pub fn member(process: u32, machine: String, entropy: u64) -> Self {
        let role = Role::Member(Upstream::new(process, machine));
        Self::new(SessionKey(0), role, Rules::default(), entropy)
    }

    fn new(session: SessionKey, role: Role, rules: Rules, entropy: u64) -> Self {
        Self {
            session,
            rules,
            size: 0,
            programs: Vec::new(),
            backend: Backend::default(),
            output: Output::default(),
            role,
            rank: None,
            leads: None,
            host: None,
            host_name: String::new(),
            released: false,
            said_alone: false,
            was_up: false,
            ends_by: Instant::FAR_FUTURE,
            input: false,
            outbox: Outbox::new(),
            direct: Directness::default(),
            stage: Stage::Launching,
            nonces: Rng::new(entropy),
            children: BTreeMap::new(),
            last_link: LinkId::PARENT.0,
            deadlines: BTreeSet::new(),
            tasks: BTreeMap::new(),
            places: Places::default(),
            queue: Queue::new(HostRuns::new(), Estimate::assumed(&Cost::default())),
            fixed: false,
            below: Below::default(),
            faults: BTreeMap::new(),
            window: Window::new(),
            footing: Footing::open(),
            believers: Vec::new(),
            starting: None,
            launch_again: None,
            next_beat: Instant::FAR_FUTURE,
            news: Vec::new(),
            asked_to_wake: None,
            began: Instant::ZERO,
        }
    }

    fn nonce(&mut self) -> Nonce {
        Nonce(self.nonces.bits())
    }

    /// Sends a message; tells whether it is short enough for that. What can be long is cut to size before.
    fn send<T: Serialize>(link: LinkId, kind: Kind, message: &T, out: &mut Vec<Effect>) -> bool {
        Self::send_of(0, link, kind, message, out)
    }

    /// Sends a message which, if it is no longer than this, is nowhere but in the effect.
    fn send_of<T: Serialize>(
        length: usize,
        link: LinkId,
        kind: Kind,
        message: &T,
        out: &mut Vec<Effect>,
    ) -> bool {
        let mut bytes = Vec::with_capacity(length);
        let fits = encode_control(&mut bytes, kind, 0, message, &Limits::AUTHENTICATED).is_ok();
        if fits {
            out.push(Effect::Send(link, bytes));
        }
        fits
    }

    fn send_preamble(link: LinkId, out: &mut Vec<Effect>) {
        out.push(Effect::Send(link, Preamble { versions: PROTOCOL }.encode().to_vec()));
    }

    /// Sends a heartbeat on every link whose other end is up, and gives up those that have been silent.
    fn beat(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if now < self.next_beat {
            return;
        }
        // If it is we who have been held up, nobody else has been silent.
        let held_up = now.since(self.next_beat);
        if held_up > self.beat_every() {
            self.children.values_mut().for_each(|child| child.heard += held_up);
            if let Role::Member(upstream) = &mut self.role {
                upstream.heard += held_up;
            }
        }
        self.next_beat = now + self.beat_every();
        let beat = Header::new(Kind::Heartbeat, libi_core::wire::Flags::NONE, 0, 0, &Limits::AUTHENTICATED);
        let Ok(beat) = beat else { return };
        let mut silent = Vec::new();
        for (&link, child) in self.children.iter().filter(|(_, child)| child.is_up()) {
            if now.since(child.heard) > self.rules.peer_timeout {
                silent.push(link);
            } else {
                out.push(Effect::Send(link, beat.encode().to_vec()));
            }
        }
        for link in silent {
            self.end_by_force(link, Cause::HeartbeatLost, now, out);
        }
        if let Role::Member(upstream) = &self.role
            && self.stage < Stage::Ending
        {
            if now.since(upstream.heard) > self.rules.peer_timeout {
                self.orphaned(now, out);
            } else if upstream.is_welcome() {
                out.push(Effect::Send(LinkId::PARENT, beat.encode().to_vec()));
            }
        }
    }

    /// The time between two heartbeats.
    fn beat_every(&self) -> Duration {
        (self.rules.peer_timeout / 4).max(Duration::from_millis(1))
    }

    /// What follows from whatever has happened: more launches, decisions, news, the time to wake at.
    fn settle(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.expire(now, out);
        self.beat(now, out);
        self.launch_again = None;
        if self.stage == Stage::Launching {
            self.weigh(now, out);
            self.launch(now, out);
            self.launch_again = self.launch_again.into_iter().chain(self.footing.wakes_at()).min();
        }
        self.note_alone();
        self.pass_output_on(out);
        self.report(now, out);
        if self.stage == Stage::Ending && self.children.is_empty() {
            self.stage = Stage::Over;
            out.push(Effect::Tell(Notice::Over));
        }
        if self.stage != Stage::Over {
            self.ask_to_wake(out);
        }
    }

    /// How many members the session has; nothing before that is known.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The host that a member is on, and how that is called; nothing before the welcome.
    #[must_use]
    pub fn host(&self) -> Option<(HostIndex, &str)> {
        Some((self.host?, &self.host_name))
    }

    /// What the session's distributions run.
    #[must_use]
    pub fn programs(&self) -> &[Program] {
        &self.programs
    }

    /// How what this node launches is reached.
    #[must_use]
    pub fn backend(&self) -> &Backend {
        &self.backend
    }

    /// Passes news on: to the parent, or to the ledger and the user.
    fn report(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let news = std::mem::take(&mut self.news);
        match &self.role {
            Role::Member(_) if news.is_empty() || self.stage == Stage::Over => {}
            Role::Member(_) => {
                for part in news.chunks(NEWS_IN_A_MESSAGE) {
                    Self::send(LinkId::PARENT, Kind::Control, &part, out);
                }
            }
            Role::Front(_) => self.decide(&news, now, out),
        }
    }

    fn ask_to_wake(&mut self, out: &mut Vec<Effect>) {
        let deadlines = self.deadlines.first().map(|&(at, _)| at);
        let own = match &self.role {
            Role::Front(front) => front.deadline(self.stage),
            Role::Member(upstream) => upstream.deadline(),
        };
        let times = [deadlines, Some(self.next_beat), self.launch_again, own];
        let Some(next) = times.into_iter().flatten().min().filter(|&at| at < Instant::FAR_FUTURE) else {
            return;
        };
        if self.asked_to_wake.is_none_or(|at| next < at) {
            self.asked_to_wake = Some(next);
            out.push(Effect::WakeAt(next));
        }
    }
}

impl Machine for Node {
    type Event = Event;
    type Effect = Effect;

    fn on(&mut self, event: Event, now: Instant, out: &mut Vec<Effect>) {
        if self.stage == Stage::Over {
            return self.linger(event, now, out);
        }
        match event {
            Event::Begin => self.begin(now, out),
            Event::Started(link) => self.started(link, now),
            Event::NotStarted(link, why) => self.not_started(link, Cause::NotStarted(why), now, out),
            Event::OutOfResources(link, why) => self.not_started(link, Cause::OutOfResources(why), now, out),
            Event::Received(LinkId::PARENT, mut bytes) => {
                let may_be_secret = self.may_hear_secrets();
                self.heard_parent(&bytes, now, out);
                if may_be_secret {
                    bytes.zeroize();
                }
            }
            Event::Received(link, bytes) => self.heard_child(link, &bytes, now, out),
            Event::Landed(LinkId::PARENT) => self.heard_parent(&[], now, out),
            Event::Landed(link) => self.heard_child(link, &[], now, out),
            Event::Printed(link, stream, text) => self.printed(link, stream, text),
            Event::Closed(LinkId::PARENT) => self.orphaned(now, out),
            Event::Closed(link) => self.child_closed(link, now, out),
            Event::Exited(link, exit) => self.child_exited(link, exit, now, out),
            Event::Woken => self.asked_to_wake = self.asked_to_wake.filter(|at| *at > now),
            Event::End(ending) => self.end(ending, now, out),
            Event::Signal(signal) => self.signal(signal, out),
            Event::Consumed(bytes) => self.outbox.allow(bytes),
            Event::Detach => self.detach(),
            Event::Input(bytes) => self.pass_input(&bytes, out),
            Event::InputTaken(bytes) => self.news.push(ChildMessage::InputTaken(bytes)),
            Event::Listening(addresses) => self.listening(addresses),
            Event::Proven(link) => self.proven(link, out),
            Event::Dialled(reached) => self.dialled(reached),
        }
        self.settle(now, out);
    }
}

impl Node {
    fn begin(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.began = now;
        self.next_beat = now + self.beat_every();
        match &mut self.role {
            Role::Front(front) => {
                front.begin(now);
                self.listen(out);
            }
            Role::Member(upstream) => {
                upstream.begin(now, &self.rules);
                Self::send_preamble(LinkId::PARENT, out);
            }
        }
    }
}
