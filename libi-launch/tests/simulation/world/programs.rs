//! Started programs: their turns at their launcher, and their fates.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::{Hello, MemberRole, Nonce, SessionKey, Ticket};
use libi_core::plan::late::Attempt;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::wire::{Kind, Limits, PROTOCOL, Preamble, encode_control};
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, HostState, LinkId, Node, Notice, StartId, StartRequest, Stream};
use serde::Serialize;

use super::{Cluster, FRONT, Happening, Start};
use crate::driver::{Driver, Input};
use crate::scenario::{Fate, Turns};
use libi_test_core::processor::Next;

impl Cluster {
    /// Records the fate of an attempt when it begins.
    pub(super) fn note_fate(&mut self, place: MemberRole, attempt: Attempt, fate: Fate) {
        self.fates.insert((place, attempt), fate);
        self.last_attempts.insert(place, attempt);
    }

    pub(super) fn start(
        &mut self,
        from: Id,
        start: StartId,
        request: StartRequest,
        agenda: &mut Agenda<Self>,
    ) {
        let (link, place, attempt, name) = match &request {
            StartRequest::Host(link, task, _) => {
                (*link, MemberRole::Leader(task.host), task.attempt, task.name.clone())
            }
            StartRequest::Member(link, rank, program)
                if self.scenario.has_any_programs() && !self.is_restart(from, program) =>
            {
                return self.start_program(from, start, (*link, *rank), agenda);
            }
            StartRequest::Member(link, rank, _) => {
                self.has_its_files(from, agenda.now());
                (*link, MemberRole::Local(*rank), self.process(from).attempt, String::new())
            }
            StartRequest::Process(link, program) => {
                return self.start_process(from, start, (*link, program), agenda);
            }
            StartRequest::Hosts(hosts, ..) => return self.start_in_bulk(from, start, hosts, agenda),
        };
        let launcher = &self.processes[from.0 as usize].name;
        let blocked_fate =
            self.scenario.blocked_fate(launcher).filter(|_| matches!(request, StartRequest::Host(..)));
        let is_first = place == MemberRole::Leader(HostIndex(0));
        let far_fate = self.scenario.far.filter(|_| from == FRONT && !is_first);
        let fate = self
            .restart_fate(from, &request)
            .or(blocked_fate)
            .or(far_fate)
            .unwrap_or_else(|| self.scenario.fate(place, attempt, &name));
        if let MemberRole::Leader(host) = place {
            if self.is_full(from) {
                self.note_fate(place, attempt, Fate::OutOfResources);
                self.without_resources.insert(name, agenda.now());
                return agenda.tell(
                    agenda.now(),
                    from,
                    Event::OutOfResources(start, "Too many open files".to_owned()).into(),
                );
            }
            let cut_off = self.is_cut_off(from);
            if !cut_off {
                self.check_not_given_up(host, agenda);
            }
            self.process(from).hosts.insert(link);
            let by = self.process(from).place;
            let depth = self.depth(from);
            self.starts.push(Start { at: agenda.now(), by, depth, cut_off, host, attempt, name });
        }
        self.note_fate(place, attempt, fate);
        let now = agenda.now();
        if fate == Fate::NotStarted {
            // It takes no resources of the launcher.
            agenda.tell(now, from, Event::NotStarted(start, "Too many open files".to_owned()).into());
            return;
        }
        self.process(from).children.insert(link, None);
        self.check_limit();
        let (seq, rem, turns) = match request {
            StartRequest::Host(..) => {
                let (seq, rem) = self.scenario.costs(&mut self.rng);
                (seq, rem, self.scenario.turns)
            }
            _ => (Duration::from_micros(400), Duration::from_millis(2), Turns::Start),
        };
        if turns == Turns::Share {
            agenda.tell(now + ASYNC_START, from, Event::Started(start).into());
            let next = self.process(from).processor.enter(now, seq, (link, request, fate, rem));
            return next_turn(from, next, agenda);
        }
        if let Turns::Places(_) = turns {
            agenda.tell(now + ASYNC_START, from, Event::Started(start).into());
            self.process(from).waiting.push_back((link, request, fate, seq, rem));
            return self.take_places(from, agenda);
        }
        let free = self.process(from).busy_until.max(now) + seq;
        self.process(from).busy_until = free;
        agenda.tell(free, from, Event::Started(start).into());
        agenda.plan(free + rem, Happening::Runs(from, link, request, fate));
    }

    /// Launches that wait take the free places of a launcher.
    pub(super) fn take_places(&mut self, from: Id, agenda: &mut Agenda<Self>) {
        let Turns::Places(places) = self.scenario.turns else { return };
        let now = agenda.now();
        let starter = self.process(from);
        while starter.taken_places < places
            && let Some((link, request, fate, seq, rem)) = starter.waiting.pop_front()
        {
            if starter.children.contains_key(&link) {
                starter.taken_places += 1;
                agenda.plan(now + seq, Happening::PlaceFree(from));
                agenda.plan(now + seq + rem, Happening::Runs(from, link, request, fate));
            }
        }
    }

    /// A launch leaves its place at a launcher.
    pub(super) fn leaves_place(&mut self, from: Id, agenda: &mut Agenda<Self>) {
        self.process(from).taken_places -= 1;
        self.take_places(from, agenda);
    }

    /// Whether a process has no resources for another launch.
    fn is_full(&self, id: Id) -> bool {
        let starter = &self.processes[id.0 as usize];
        let taken = starter.hosts.iter().filter(|link| starter.children.contains_key(link)).count();
        self.scenario.capacity.is_some_and(|capacity| taken >= capacity)
    }

    /// Records the launch of a host that the front end has given up; without faults there is none.
    pub(super) fn check_not_given_up(&mut self, host: HostIndex, agenda: &Agenda<Self>) {
        let decided = self.notices.iter().any(|(_, notice)| matches!(notice, Notice::Up | Notice::GivenUp));
        let front = agenda.machine(FRONT).filter(|_| !decided && !self.scenario.has_faults());
        let known = front
            .filter(|front| front.progress().1 > 0)
            .and_then(|front| front.host_states().nth(host.0 as usize));
        if matches!(known, Some(HostState::Failed(_))) && self.futile_launch.is_none() {
            self.futile_launch = Some((host, agenda.now()));
        }
    }

    /// A started program reaches its fate.
    pub(super) fn runs(
        &mut self,
        from: Id,
        link: LinkId,
        request: StartRequest,
        fate: Fate,
        agenda: &mut Agenda<Self>,
    ) {
        let starter = self.process(from);
        if !starter.alive || starter.frozen || !starter.children.contains_key(&link) {
            return; // its launcher is gone, and it ends
        }
        let send_frame = |text: &[u8]| Input::Bytes(link, text.to_vec());
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
                if let StartRequest::Host(_, task, _) = request {
                    self.denials.entry(task.host).or_default().push(task.attempt);
                }
                exits(self, Exit::Code(255), "me@node7: Permission denied (publickey).\n");
            }
            Fate::NotFound => exits(self, Exit::Code(127), "sh: tool: not found\n"),
            Fate::ExitsEarly => exits(self, Exit::Code(0), "usage: tool\n"),
            Fate::Crashes => exits(self, Exit::Signal(11), ""),
            Fate::HangsWithBanner => {
                if let StartRequest::Host(_, task, _) = request {
                    self.banners.insert(task.host, agenda.now());
                }
                self.arrive(from, link, send_frame(b"Welcome to node 7!\n\xff"), agenda);
            }
            Fate::Garbage => {
                let noise: Vec<u8> = (0..200).map(|_| self.rng.bits() as u8).collect();
                let preamble = Preamble { versions: PROTOCOL }.encode();
                self.arrive(from, link, send_frame(&[&preamble[..], &noise].concat()), agenda);
            }
            Fate::Echoes => {
                self.arrive(from, link, send_frame(&opening(Kind::Ticket, &FOREIGN_TICKET)), agenda);
            }
            Fate::Stale => {
                let hello = Hello {
                    ticket: FOREIGN_TICKET,
                    process: 1,
                    machine: "elsewhere".to_owned(),
                    is_apart: false,
                };
                self.arrive(from, link, send_frame(&opening(Kind::Hello, &hello)), agenda);
            }
            Fate::ClosesOnly => self.arrive(from, link, Event::Closed(link), agenda),
            Fate::ExitsOpen => {
                self.process(from).ended.insert(link);
                self.arrive(from, link, Event::Exited(link, Exit::Code(3)), agenda);
            }
            Fate::Joins { banner, cut } => {
                if banner {
                    self.arrive(from, link, send_frame(b"Last login: never\r\n"), agenda);
                }
                let (place, attempt, name) = match request {
                    StartRequest::Host(_, task, _) => {
                        (MemberRole::Leader(task.host), task.attempt, task.name)
                    }
                    StartRequest::Member(_, rank, _) => {
                        let leader = self.process(from);
                        (MemberRole::Local(rank), leader.attempt, leader.name.clone())
                    }
                    // See `bulk.rs` and `commands.rs`.
                    StartRequest::Hosts(..) | StartRequest::Process(..) => return,
                };
                self.joins((from, link), (place, attempt), name, cut, agenda);
            }
        }
    }

    /// A started program runs a node, linked to its parent.
    pub(crate) fn joins(
        &mut self,
        (from, link): (Id, LinkId),
        (place, attempt): (MemberRole, Attempt),
        name: String,
        cut: Option<usize>,
        agenda: &mut Agenda<Self>,
    ) {
        let node = Node::member(1, "node".to_owned(), self.rng.bits());
        let node = if self.scenario.is_apart() { node.apart() } else { node };
        let id = agenda.start(Driver::new(node));
        self.add(Some(place), attempt, name, Some((from, link)));
        self.process(id).sends = cut;
        self.process(from).children.insert(link, Some(id));
        self.process(from).started.insert(link, id);
        agenda.tell(agenda.now(), id, Event::Begin.into());
        // Bytes that were sent before the program was up have waited for it.
        for bytes in self.scenario.pending.remove(&(from, link)).unwrap_or_default() {
            self.arrive(id, LinkId::PARENT, Input::Bytes(LinkId::PARENT, bytes), agenda);
        }
    }
}

pub(super) fn next_turn(from: Id, next: Next, agenda: &mut Agenda<Cluster>) {
    if let Some((at, changes)) = next {
        agenda.plan(at, Happening::DirectEvent(from, changes));
    }
}

/// The duration of a start that returns at once.
pub(super) const ASYNC_START: Duration = Duration::from_micros(300);

/// A ticket of another session.
pub(super) const FOREIGN_TICKET: Ticket = Ticket {
    session: SessionKey(1),
    place: MemberRole::Leader(HostIndex(0)),
    attempt: Attempt { lost: 0, failed: 0, withdrawn: false },
    nonce: Nonce(0),
};

/// The first bytes on a link that begins with this message.
pub(super) fn opening<T: Serialize>(kind: Kind, message: &T) -> Vec<u8> {
    let mut bytes = Preamble { versions: PROTOCOL }.encode().to_vec();
    encode_control(&mut bytes, kind, 0, message, &Limits::AUTHENTICATED).unwrap();
    bytes
}
