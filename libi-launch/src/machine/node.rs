//! A node: what comes in, what goes out, and what is done with it. See the [module above](super).

mod children;
mod direct;
mod front;
mod leaving;
mod losses;
mod member;
mod output;
mod roster;
mod shares;
mod spares;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use libi_core::boot::{Nonce, SessionKey};
use libi_core::cost::Cost;
use libi_core::ids::{HostIndex, Rank};
use libi_core::link::LinkKey;
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
use self::front::Front;
use self::member::Upstream;
use self::shares::Below;
use super::child::Child;
use super::ledger::Policy;
use super::message::{Ending, News, Output, Program, Rules, Spare, Task};
use super::outbox::{Outbox, Stream};
use super::window::Window;
use crate::backend::Via;
use crate::verdict::{Exit, Failure};

/// How many news go into one message, so that it stays below the limit of messages.
const NEWS_IN_A_MESSAGE: usize = 200;

/// One of a node's links. Numbers are given by the node, in the order in which it starts what is at their other ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

pub use self::direct::{Carried, Direct, Links};

impl LinkId {
    /// The link to the one that has started this process.
    pub const PARENT: Self = Self(0);
}

/// What is to be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// The leader of a host.
    Host(Task, Program),
    /// A further member of this host.
    Member(Rank, Program),
}

/// What can happen to a node.
#[derive(Clone, Debug)]
pub enum Event {
    /// It can begin.
    Begin,
    /// A start is over as far as its starter is concerned, which can start the next.
    Started(LinkId),
    /// A start was refused by the operating system, which says why. Nothing more comes of this link.
    NotStarted(LinkId, String),
    /// Bytes have arrived. What a child has said before it exited should be received before its exit is told.
    Received(LinkId, Vec<u8>),
    /// What was started has written this beside the link; of the link to the parent, this process itself.
    Printed(LinkId, Stream, Vec<u8>),
    /// Nothing more will arrive on a link.
    Closed(LinkId),
    /// What was started for a link has ended.
    Exited(LinkId, Exit),
    /// The time has come that it wanted to be woken at.
    Woken,
    /// The user of a front end wants the session to end.
    End(Ending),
    /// The user of a front end wants every member to get this signal.
    Signal(i32),
    /// The user of a front end has taken so many bytes of output, and will take as many again.
    Consumed(u32),
    /// The user of a front end has this for the master's standard input; no bytes are its end.
    Input(Vec<u8>),
    /// The program of the master has taken so much of its input.
    InputTaken(u32),
    /// This node can be reached at these addresses.
    Listening(Vec<SocketAddr>),
    /// A child has connected directly, and proved itself.
    Proven(LinkId),
    /// To a member: it has connected to its parent and both have proved themselves; or it has not, and will not. After the
    /// one, the other: the connection has ended before anything was sent or received there.
    Dialled(bool),
    /// The user of a member wants it to be released, once the session is up.
    Finalize,
}

/// What a node can want.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Start something, with a link to it.
    Start(LinkId, Job),
    /// Send bytes.
    Send(LinkId, Vec<u8>),
    /// Close a link. Nothing more is to be received or closed on it, but what was started for it may still exit.
    Close(LinkId),
    /// End what was started for a link by force.
    Kill(LinkId),
    /// What was started for a link is not ours any more: leave it alone when this process ends.
    Release(LinkId),
    /// To the master: what follows as [`Effect::Input`] is this program's standard input.
    TakeInput,
    /// More of the program's input; no bytes are its end.
    Input(Vec<u8>),
    /// Listen for children that connect directly, on the loopback address alone or on all.
    Listen {
        /// Whether on the loopback address alone.
        loopback: bool,
    },
    /// Whoever connects and proves that it has this key is the other end of this link.
    Admit(LinkId, LinkKey),
    /// Nobody is, any more.
    Refuse(LinkId),
    /// Connect to the parent: try these addresses, prove that this node has the key.
    Dial(Vec<SocketAddr>, LinkKey),
    /// What is sent from now on goes over the direct connection.
    Switch(LinkId),
    /// What is received from now on comes over the direct connection.
    Follow(LinkId),
    /// Wake the node at this time, unless it asks for an earlier one.
    WakeAt(Instant),
    /// Tell the user of the node.
    Tell(Notice),
}

/// What the user of a node should know.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// To the front end: a member has printed this. Its user says with [`Event::Consumed`] that it has taken it.
    Output(Rank, Stream, Vec<u8>),
    /// The session is up: every member that is going to be in it is.
    Up,
    /// To the front end: the session will not come up; what is left of it is being ended.
    GivenUp,
    /// To the front end: a member has ended.
    Exited(Rank, Exit),
    /// To the front end: a host was lost after the session was up.
    Lost(HostIndex, Failure),
    /// To the front end: the master's program has taken so much of its input.
    InputTaken(u32),
    /// To the front end: a member was released, and is not ours any more.
    Released(Rank),
    /// To the front end: every member has ended, was released, or is lost with its host.
    Done,
    /// To a member: it gets this signal.
    Signal(i32),
    /// To a member: it is to end by this signal, and is to be killed when the grace has passed.
    End(Ending),
    /// Nothing is left of what this node had started; of a member, the process is to end now.
    Over,
}

/// What a front end wants to have launched: one session.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The session's hosts in the order of their indices, at least one.
    pub hosts: Vec<Task>,
    /// Machines to be put in the place of hosts that are given up before the session is up, the first first.
    pub spares: Vec<Spare>,
    /// What the distributions run.
    pub programs: Vec<Program>,
    /// How many members there are.
    pub size: u32,
    /// The rules of the launch.
    pub rules: Rules,
    /// How many hosts have to join.
    pub policy: Policy,
    /// When no verdict may be open any more, counted from the beginning.
    pub deadline: Duration,
    /// What launches are believed to cost.
    pub cost: Cost,
    /// How hosts are reached.
    pub via: Via,
    /// What becomes of what members print.
    pub output: Output,
    /// Whether there is input for the master.
    pub input: bool,
    /// Direct links.
    pub direct: Direct,
    /// How the launches are shared out.
    pub strategy: Strategy,
}

impl Plan {
    /// Everything on this machine, all hosts, two minutes, by late commit; to be changed as need be.
    #[must_use]
    pub fn new(hosts: Vec<Task>, programs: Vec<Program>, size: u32, cost: Cost) -> Self {
        Self {
            hosts,
            spares: Vec::new(),
            programs,
            size,
            rules: Rules::default(),
            policy: Policy::All,
            deadline: Duration::from_secs(120),
            cost,
            via: Via::default(),
            output: Output::default(),
            input: false,
            direct: Direct::default(),
            strategy: Strategy::default(),
        }
    }
}

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
    via: Via,
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
    tasks: BTreeMap<HostIndex, Task>,
    queue: Queue,
    /// Whether it was decided in advance who launches whom; then the queue holds this node's own children.
    fixed: bool,
    below: Below,
    /// How often hosts have failed that were lost here after they had been up, all their launches here counted.
    faults: BTreeMap<HostIndex, u16>,
    window: Window,
    /// Children that were given hosts and told what that would cost before it was known.
    believers: Vec<(LinkId, Estimate)>,
    /// The start that keeps this node from starting another.
    starting: Option<(LinkId, Instant)>,
    /// When a host may be launched that may not be now, if nothing happens before.
    launch_again: Option<Instant>,
    next_beat: Instant,
    news: Vec<News>,
    asked_to_wake: Option<Instant>,
    began: Instant,
}

impl Node {
    /// The front end's node. `entropy` makes its nonces differ from everybody else's.
    #[must_use]
    pub fn front(session: SessionKey, plan: &Plan, entropy: u64) -> Self {
        let estimate = Estimate::from_word(&plan.cost);
        let (rules, size) = (plan.rules, plan.size);
        let programs = plan.programs.clone();
        let first = HostRuns::from_iter([HostIndex(0)]);
        let numbered = (0..).map(HostIndex).zip(&plan.hosts);
        let tasks = numbered.map(|(host, task)| (host, Task { host, ..task.clone() })).collect();
        let role = Role::Front(Front::new(plan));
        let mut node = Self::new(session, role, rules, entropy);
        (node.size, node.programs, node.tasks) = (size, programs, tasks);
        (node.via, node.output) = (plan.via.clone(), plan.output);
        node.direct.settings = plan.direct.clone();
        node.input = plan.input;
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
            via: Via::default(),
            output: Output::default(),
            role,
            rank: None,
            leads: None,
            host: None,
            host_name: String::new(),
            released: false,
            said_alone: false,
            was_up: false,
            input: false,
            outbox: Outbox::new(),
            direct: Directness::default(),
            stage: Stage::Launching,
            nonces: Rng::new(entropy),
            children: BTreeMap::new(),
            last_link: LinkId::PARENT.0,
            deadlines: BTreeSet::new(),
            tasks: BTreeMap::new(),
            queue: Queue::new(HostRuns::new(), Estimate::from_word(&Cost::default())),
            fixed: false,
            below: Below::default(),
            faults: BTreeMap::new(),
            window: Window::new(),
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
        let fits = encode_control(&mut bytes, kind, 0, message, &Limits::PROVEN).is_ok();
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
        let beat = Header::new(Kind::Heartbeat, libi_core::wire::Flags::NONE, 0, 0, &Limits::PROVEN);
        let Ok(beat) = beat else { return };
        let mut silent = Vec::new();
        for (&link, child) in self.children.iter().filter(|(_, child)| child.is_up()) {
            if now.since(child.heard) > self.rules.silence {
                silent.push(link);
            } else {
                out.push(Effect::Send(link, beat.encode().to_vec()));
            }
        }
        for link in silent {
            self.end_by_force(link, crate::verdict::Cause::Silent, now, out);
        }
        if let Role::Member(upstream) = &self.role
            && self.stage < Stage::Ending
        {
            if now.since(upstream.heard) > self.rules.silence {
                self.orphaned(now, out);
            } else if upstream.is_welcome() {
                out.push(Effect::Send(LinkId::PARENT, beat.encode().to_vec()));
            }
        }
    }

    /// The time between two heartbeats.
    fn beat_every(&self) -> Duration {
        (self.rules.silence / 4).max(Duration::from_millis(1))
    }

    /// What follows from whatever has happened: more launches, decisions, news, the time to wake at.
    fn settle(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.expire(now, out);
        self.beat(now, out);
        self.launch_again = None;
        if self.stage == Stage::Launching {
            self.launch(now, out);
        }
        self.note_alone();
        self.pass_output_on(now, out);
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
    pub fn via(&self) -> &Via {
        &self.via
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
            return;
        }
        match event {
            Event::Begin => self.begin(now, out),
            Event::Started(link) => self.started(link, now),
            Event::NotStarted(link, why) => self.not_started(link, why, now, out),
            Event::Received(LinkId::PARENT, mut bytes) => {
                self.heard_parent(&bytes, now, out);
                // A welcome holds a secret.
                bytes.zeroize();
            }
            Event::Received(link, bytes) => self.heard_child(link, &bytes, now, out),
            Event::Printed(link, stream, text) => self.printed(link, stream, text),
            Event::Closed(LinkId::PARENT) => self.orphaned(now, out),
            Event::Closed(link) => self.child_closed(link, now, out),
            Event::Exited(link, exit) => self.child_exited(link, exit, now, out),
            Event::Woken => self.asked_to_wake = self.asked_to_wake.filter(|at| *at > now),
            Event::End(ending) => self.end(ending, now, out),
            Event::Signal(signal) => self.signal(signal, out),
            Event::Consumed(bytes) => self.outbox.allow(bytes),
            Event::Finalize => self.finalize(),
            Event::Input(bytes) => self.pass_input(&bytes, out),
            Event::InputTaken(bytes) => self.news.push(News::InputTaken(bytes)),
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
