//! What becomes of programs that are started: their turns at their launcher, and their fates.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::{Hello, MemberRole, Nonce, SessionKey, Ticket};
use libi_core::plan::late::Attempt;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::wire::{Kind, Limits, PROTOCOL, Preamble, encode_control};
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, Job, Known, LinkId, Node, Notice, Stream};
use serde::Serialize;

use super::{Cluster, FRONT, Happening, Start};
use crate::processor::Next;
use crate::scenario::{Fate, Turns};

impl Cluster {
    pub(super) fn start(&mut self, from: Id, link: LinkId, job: Job, agenda: &mut Agenda<Self>) {
        let (place, attempt, name) = match &job {
            Job::Host(task, _) => (MemberRole::Leader(task.host), task.attempt, task.name.clone()),
            Job::Member(rank, _) => (MemberRole::Local(*rank), self.process(from).attempt, String::new()),
        };
        let launcher = &self.processes[from.0 as usize].name;
        let bar = self.scenario.bar(launcher).filter(|_| matches!(job, Job::Host(..)));
        let fate = bar.unwrap_or_else(|| self.scenario.fate(place, attempt, &name));
        if let MemberRole::Leader(host) = place {
            if self.is_full(from) {
                self.fates.insert((place, attempt), Fate::OutOfResources);
                return agenda.tell(
                    agenda.now(),
                    from,
                    Event::OutOfResources(link, "Too many open files".to_owned()),
                );
            }
            self.check_open(host, agenda);
            self.process(from).hosts.insert(link);
            let by = self.process(from).place;
            self.starts.push(Start { at: agenda.now(), by, host, attempt, name });
        }
        self.fates.insert((place, attempt), fate);
        self.process(from).children.insert(link, None);
        let now = agenda.now();
        if fate == Fate::NotStarted {
            agenda.tell(now, from, Event::NotStarted(link, "Too many open files".to_owned()));
            return;
        }
        let (seq, rem, turns) = match job {
            Job::Host(..) => {
                let (seq, rem) = self.scenario.costs(&mut self.rng);
                (seq, rem, self.scenario.turns)
            }
            Job::Member(..) => (Duration::from_micros(400), Duration::from_millis(2), Turns::Start),
        };
        if turns == Turns::Share {
            agenda.tell(now + AT_ONCE, from, Event::Started(link));
            let next = self.process(from).processor.enter(now, seq, (link, job, fate, rem));
            return next_turn(from, next, agenda);
        }
        let free = self.process(from).busy_until.max(now) + seq;
        self.process(from).busy_until = free;
        let started = if turns == Turns::Start { free } else { now + AT_ONCE };
        agenda.tell(started, from, Event::Started(link));
        agenda.plan(free + rem, Happening::Runs(from, link, job, fate));
    }

    /// Whether somebody has no room for one more launch.
    fn is_full(&self, id: Id) -> bool {
        let starter = &self.processes[id.0 as usize];
        let taken = starter.hosts.iter().filter(|link| starter.children.contains_key(link)).count();
        self.scenario.room.is_some_and(|room| taken >= room)
    }

    /// Nobody launches a host that the front end has given up, as long as nothing is lost on the way.
    pub(super) fn check_open(&mut self, host: HostIndex, agenda: &Agenda<Self>) {
        let decided = self.notices.iter().any(|(_, notice)| matches!(notice, Notice::Up | Notice::GivenUp));
        let front = agenda.machine(FRONT).filter(|_| !decided && !self.scenario.has_faults());
        let known = front.and_then(|front| front.known().nth(host.0 as usize));
        if matches!(known, Some(Known::Failed(_))) && self.launched_in_vain.is_none() {
            self.launched_in_vain = Some((host, agenda.now()));
        }
    }

    /// A started program does what it does.
    pub(super) fn runs(&mut self, from: Id, link: LinkId, job: Job, fate: Fate, agenda: &mut Agenda<Self>) {
        let starter = self.process(from);
        if !starter.alive || starter.frozen || !starter.children.contains_key(&link) {
            return; // it finds nobody at the other end, and ends
        }
        let says = |text: &[u8]| Event::Received(link, text.to_vec());
        let mut exits = |cluster: &mut Self, exit, text: &str| {
            cluster.arrive(from, link, Event::Printed(link, Stream::Err, text.as_bytes().to_vec()), agenda);
            cluster.process(from).children.remove(&link);
            cluster.arrive(from, link, Event::Closed(link), agenda);
            cluster.arrive(from, link, Event::Exited(link, exit), agenda);
        };
        match fate {
            Fate::NotStarted | Fate::OutOfResources | Fate::Hangs => {}
            Fate::Refused => exits(self, Exit::Code(255), "connect: Connection refused\n"),
            Fate::Denied => {
                if let Job::Host(task, _) = job {
                    *self.denials.entry(MemberRole::Leader(task.host)).or_default() += 1;
                }
                exits(self, Exit::Code(255), "me@node7: Permission denied (publickey).\n");
            }
            Fate::NotFound => exits(self, Exit::Code(127), "sh: tool: not found\n"),
            Fate::ExitsEarly => exits(self, Exit::Code(0), "usage: tool\n"),
            Fate::Crashes => exits(self, Exit::Signal(11), ""),
            Fate::HangsWithBanner => self.arrive(from, link, says(b"Welcome to node 7!\n\xff"), agenda),
            Fate::Garbage => {
                let noise: Vec<u8> = (0..200).map(|_| self.rng.bits() as u8).collect();
                let preamble = Preamble { versions: PROTOCOL }.encode();
                self.arrive(from, link, says(&[&preamble[..], &noise].concat()), agenda);
            }
            Fate::Echoes => self.arrive(from, link, says(&opening(Kind::Ticket, &NOBODYS)), agenda),
            Fate::Stale => {
                let hello = Hello { ticket: NOBODYS, process: 1, machine: "elsewhere".to_owned() };
                self.arrive(from, link, says(&opening(Kind::Hello, &hello)), agenda);
            }
            Fate::ClosesOnly => self.arrive(from, link, Event::Closed(link), agenda),
            Fate::ExitsOpen => self.arrive(from, link, Event::Exited(link, Exit::Code(3)), agenda),
            Fate::Joins { banner, cut } => {
                if banner {
                    self.arrive(from, link, says(b"Last login: never\r\n"), agenda);
                }
                let (place, attempt, name) = match job {
                    Job::Host(task, _) => (MemberRole::Leader(task.host), task.attempt, task.name),
                    Job::Member(rank, _) => {
                        let leader = self.process(from);
                        (MemberRole::Local(rank), leader.attempt, leader.name.clone())
                    }
                };
                let id = agenda.start(Node::member(1, "node".to_owned(), self.rng.bits()));
                self.add(Some(place), attempt, name, Some((from, link)));
                self.process(id).sends = cut;
                self.process(from).children.insert(link, Some(id));
                self.process(from).started.insert(link, id);
                agenda.tell(agenda.now(), id, Event::Begin);
                // What was sent before it was up has been waiting for it.
                for (event, _) in self.scenario.pending.remove(&(from, link)).unwrap_or_default() {
                    self.arrive(id, LinkId::PARENT, event, agenda);
                }
            }
        }
    }
}

pub(super) fn next_turn(from: Id, next: Next, agenda: &mut Agenda<Cluster>) {
    if let Some((at, changes)) = next {
        agenda.plan(at, Happening::Turn(from, changes));
    }
}

/// How long a start takes that returns at once.
const AT_ONCE: Duration = Duration::from_micros(300);

/// A ticket that nobody was given.
const NOBODYS: Ticket = Ticket {
    session: SessionKey(1),
    place: MemberRole::Leader(HostIndex(0)),
    attempt: Attempt { lost: 0, failed: 0 },
    nonce: Nonce(0),
};

/// What a link begins with if this is the first message on it.
fn opening<T: Serialize>(kind: Kind, message: &T) -> Vec<u8> {
    let mut bytes = Preamble { versions: PROTOCOL }.encode().to_vec();
    encode_control(&mut bytes, kind, 0, message, &Limits::AUTHENTICATED).unwrap();
    bytes
}
