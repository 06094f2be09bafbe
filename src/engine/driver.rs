//! Carries out what one node wants, and tells it what happens.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::os::fd::OwnedFd;

use libi_comm::{Event as Said, Group};
use libi_core::hosts::HostList;
use libi_core::machine::Machine;
use libi_core::time::Instant;
use libi_launch::exit_trailer::ExitTrailer;
use libi_launch::machine::{Effect, Event, Job, LinkId, Node, Stream as Standard};
use libi_launch::process::{Child, Environment, Signal};
use mio::Registry;

use super::Turn;
use super::dialling::Dialler;
use super::direct::Door;
use super::lane::Flushed;
use super::memory::Lending;
use super::port::Port;
use super::ports::{Part, Target, Targets};
use super::stream::Stream;
use input::Input;
use starting::{Refused, Started};
pub(crate) use starting::{inherited, inherited_by_members};

mod connecting;
mod input;
mod reading;
mod starting;
mod talking;
#[cfg(test)]
mod tests;

/// How much is read of one descriptor in one turn.
const MOST: usize = 256 << 10;

/// Carries out what one node wants, and tells it what happens.
pub(crate) struct Driver {
    node: Node,
    group: Group,
    ports: BTreeMap<LinkId, Port>,
    starts: VecDeque<(LinkId, Job)>,
    wake_at: Option<Instant>,
    /// When the beginnings of lines have waited long enough.
    lines_due: BTreeSet<(Instant, LinkId, usize)>,
    /// When what has led to a program that has ended by its own account is to have ended as well.
    shells_due: BTreeSet<(Instant, LinkId)>,
    /// Pipes that are not read because the node has no room for output.
    held_up: Vec<mio::Token>,
    /// Ports with something to write.
    unsent: BTreeSet<LinkId>,
    /// What is this program's standard input, if it was given one.
    input: Option<Input>,
    /// Where children connect directly, once that is wanted.
    door: Option<Door>,
    /// A member's attempts to reach its parent directly.
    dialler: Option<Dialler>,
    /// What the processes it starts inherit.
    environment: Environment,
    /// Hosts that are this machine: what is started on them here needs nothing that leads to others.
    here: HostList,
    /// Whether the thread that drives it lives as long as this process, as far as anybody knows.
    lasting_thread: bool,
    buffer: Vec<u8>,
}

impl Driver {
    /// Of a node that starts processes in this environment, to which they get their own variables.
    pub(crate) fn new(node: Node, environment: Environment, lasting_thread: bool) -> Self {
        Self {
            node,
            group: Group::with_memory(Box::new(Lending)),
            ports: BTreeMap::new(),
            starts: VecDeque::new(),
            wake_at: None,
            lines_due: BTreeSet::new(),
            shells_due: BTreeSet::new(),
            held_up: Vec::new(),
            unsent: BTreeSet::new(),
            input: None,
            door: None,
            dialler: None,
            environment,
            here: HostList::new(),
            lasting_thread,
            buffer: vec![0; 64 << 10],
        }
    }

    /// These hosts are this machine.
    #[must_use]
    pub(crate) fn with_here(self, here: HostList) -> Self {
        Self { here, ..self }
    }

    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// Whether everything that was sent to the parent has left this process, as well as what was printed here and what
    /// the communication half has to send.
    pub(crate) fn has_sent_everything(&self) -> bool {
        let printed = |port: &Port| port.texts.iter().flatten().any(|text| is_waiting(&text.it.pipe));
        self.node.has_passed_output_on()
            && self.group.is_quiet()
            && !self.ports.values().any(Port::has_frames)
            && self.lines_due.is_empty()
            && self
                .ports
                .get(&LinkId::PARENT)
                .is_none_or(|port| !port.has_unsent() && !port.is_on_its_way() && !printed(port))
    }

    /// Whether something that was sent to the parent is still on its way, of whose arrival nothing will be reported.
    pub(crate) fn awaits_arrival(&self) -> bool {
        self.ports.get(&LinkId::PARENT).is_some_and(Port::is_on_its_way)
    }

    pub(super) fn begin(&mut self, turn: &mut Turn<'_>) {
        self.tell(Event::Begin, turn);
    }

    /// Connects a member to the one that has started it.
    pub(super) fn connect(
        &mut self,
        input: Stream,
        output: Option<Stream>,
        turn: &mut Turn<'_>,
    ) -> io::Result<()> {
        let port = self.ports.entry(LinkId::PARENT).or_default();
        let at = (turn.id, LinkId::PARENT);
        port.set_input(input, turn.registry, turn.targets, at)?;
        if let Some(output) = output {
            port.set_output(output, turn.registry, turn.targets, at)?;
        }
        Ok(())
    }

    /// Has something that is printed here read, and passed on.
    pub(super) fn add_printed(
        &mut self,
        stream: Standard,
        pipe: Stream,
        turn: &mut Turn<'_>,
    ) -> io::Result<()> {
        let port = self.ports.entry(LinkId::PARENT).or_default();
        port.set_text(pipe, stream, turn.registry, turn.targets, (turn.id, LinkId::PARENT))
    }

    /// Hands an event to the node, and does what it wants.
    pub(super) fn tell(&mut self, event: Event, turn: &mut Turn<'_>) {
        let mut events = VecDeque::from([event]);
        let mut effects = Vec::new();
        while let Some(event) = events.pop_front() {
            self.node.on(event, turn.now, &mut effects);
            for effect in effects.drain(..) {
                self.carry_out(effect, &mut events, turn);
            }
        }
    }

    fn carry_out(&mut self, effect: Effect, events: &mut VecDeque<Event>, turn: &mut Turn<'_>) {
        match effect {
            Effect::Start(link, job) => {
                self.ports.insert(link, Port::default());
                self.starts.push_back((link, job));
            }
            Effect::Send(link, bytes) => {
                if let Some(port) = self.ports.get_mut(&link) {
                    port.queue(&bytes);
                    self.unsent.insert(link);
                }
                let mut bytes = bytes;
                zeroize::Zeroize::zeroize(&mut bytes);
            }
            Effect::Close(link) => {
                if let Some(door) = &mut self.door {
                    door.refuse(link);
                }
                if let Some(port) = self.ports.get_mut(&link) {
                    port.close(turn.registry, turn.targets);
                    self.unsent.remove(&link);
                }
                self.forget_if_gone(link, turn);
            }
            Effect::Kill(link) => self.kill(link, events),
            Effect::Release(link) => {
                if let Some(port) = self.ports.get_mut(&link) {
                    port.released = true;
                    if let Some(process) = &mut port.process {
                        process.it.release();
                    }
                }
            }
            Effect::TakeInput => self.take_input(turn),
            Effect::Input(bytes) => {
                if let Some(input) = &mut self.input {
                    input.queue(&bytes);
                }
                self.feed_input(events, turn);
            }
            Effect::Listen { .. }
            | Effect::Admit(..)
            | Effect::Refuse(_)
            | Effect::Dial(..)
            | Effect::Switch(_)
            | Effect::Follow(_) => self.connect_directly(effect, events, turn),
            Effect::Tree(tree) => self.rise(tree, turn),
            Effect::Deliver(link, frame) => self.tell_group(Said::Frame(link, frame.into()), turn),
            Effect::Cut(link) => self.tell_group(Said::Cut(link), turn),
            Effect::WakeAt(at) => self.wake_at = Some(self.wake_at.map_or(at, |before| before.min(at))),
            Effect::Tell(notice) => turn.owner.notice(turn.id, notice, &self.node, turn.now),
        }
    }

    fn kill(&mut self, link: LinkId, events: &mut VecDeque<Event>) {
        if let Some(place) = self.starts.iter().position(|(waiting, _)| *waiting == link) {
            self.starts.remove(place);
            self.ports.remove(&link);
            events.push_back(Event::NotStarted(link, "its turn had not come".to_owned()));
        } else if let Some(process) = self.ports.get_mut(&link).and_then(|port| port.process.as_mut()) {
            // One that has ended needs no killing, and one that cannot be killed will not end by anything else.
            let _ = process.it.signal_group(Signal::KILL);
        }
    }

    /// Whether it has something to do that nothing will report.
    pub(super) fn is_busy(&self) -> bool {
        // What cannot be written now is not there: the system says when it can.
        !self.starts.is_empty()
            || !self.unsent.is_empty()
            || !self.held_up.is_empty() && self.node.reads_output()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let lines = self.lines_due.first().map(|due| due.0);
        let guests = self.door.as_ref().and_then(Door::deadline);
        let dialler = self.dialler.as_ref().map(Dialler::deadline);
        let shells = self.shells_due.first().map(|due| due.0);
        [self.wake_at, lines, shells, guests, dialler].into_iter().flatten().min()
    }

    /// A descriptor may have something for us. True if there is more than fits into a turn.
    pub(super) fn service(&mut self, target: Target, turn: &mut Turn<'_>) -> bool {
        let Target { link, part, token, .. } = target;
        turn.refresh();
        match part {
            Part::In => {
                self.unsent.insert(link);
                self.read_link(link, false, turn)
            }
            Part::Out => {
                self.unsent.insert(link);
                false
            }
            Part::Process => {
                self.check_process(link, turn);
                false
            }
            Part::Direct => {
                self.unsent.insert(link);
                self.check_unconfirmed(link, turn);
                self.read_direct(link, false, turn)
            }
            Part::Input => {
                let mut events = VecDeque::new();
                self.feed_input(&mut events, turn);
                events.into_iter().for_each(|event| self.tell(event, turn));
                false
            }
            Part::Door => self.answer_door(turn),
            Part::Guest(number) => {
                self.attend_guest(number, turn);
                false
            }
            Part::Dial(number) => {
                self.attend_dialler(number, turn);
                false
            }
            Part::Text(_) if !self.may_read_texts(link) => {
                self.held_up.push(token);
                false
            }
            Part::Text(place) => self.read_text(link, place, MOST, turn),
        }
    }

    fn may_read_texts(&self, link: LinkId) -> bool {
        self.node.reads_output() && (link != LinkId::PARENT || self.node.rank().is_some())
    }

    /// What no descriptor reports: deadlines, starts, what can be written.
    pub(super) fn go_on(&mut self, turn: &mut Turn<'_>) {
        turn.refresh();
        if self.wake_at.is_some_and(|at| at <= turn.now) {
            self.wake_at = None;
            self.tell(Event::Woken, turn);
        }
        while let Some(&(due, link, place)) = self.lines_due.first()
            && due <= turn.now
        {
            self.lines_due.pop_first();
            match self.postponed(link, place, turn.now) {
                Some(later) => drop(self.lines_due.insert((later, link, place))),
                None => self.pass_rest_of_line(link, place, turn),
            }
        }
        self.end_shells(turn.now);
        self.expire_connections(turn);
        if self.node.reads_output() {
            for token in std::mem::take(&mut self.held_up) {
                if turn.targets.queue(token) {
                    turn.ready.push_back(token);
                }
            }
        }
        if let Some((link, job)) = self.starts.pop_front() {
            self.start(link, &job, turn);
        }
        self.write(turn);
    }

    /// Writes what can be written.
    pub(super) fn write(&mut self, turn: &mut Turn<'_>) {
        for link in std::mem::take(&mut self.unsent) {
            let Some(port) = self.ports.get_mut(&link) else { continue };
            let flushed = port.flush();
            port.watch(turn.registry);
            match flushed {
                Flushed::Everything | Flushed::Waits => {}
                Flushed::Partly => drop(self.unsent.insert(link)),
                Flushed::Broken => {
                    // What has come from there before is still to be read; its end comes after it.
                    self.read_direct(link, true, turn);
                    self.read_link(link, true, turn);
                }
            }
        }
    }

    fn start(&mut self, link: LinkId, job: &Job, turn: &mut Turn<'_>) {
        let open = self.ports.len();
        match starting::start(&self.node, job, &self.environment, &self.here, self.lasting_thread, open) {
            Ok(started) => {
                if let Err(error) = self.follow(link, started, turn) {
                    let what = format_args!("cannot be watched: {error}");
                    let refused = Refused::by_system(what, error.raw_os_error());
                    if let Some(mut port) = self.ports.remove(&link) {
                        port.let_go(turn.registry, turn.targets);
                    }
                    return self.tell(refused.event(link), turn);
                }
                turn.refresh();
                self.tell(Event::Started(link), turn);
            }
            Err(refused) => {
                self.ports.remove(&link);
                self.tell(refused.event(link), turn);
            }
        }
    }

    fn follow(&mut self, link: LinkId, started: Started, turn: &mut Turn<'_>) -> io::Result<()> {
        let port = self.ports.entry(link).or_default();
        let at = (turn.id, link);
        port.begin_with(&started.first);
        port.trailer = started.trailer.map(ExitTrailer::new);
        port.set_process(started.child, turn.registry, turn.targets, at)?;
        port.set_input(started.input, turn.registry, turn.targets, at)?;
        if let Some(output) = started.output {
            port.set_output(output, turn.registry, turn.targets, at)?;
        }
        for (stream, pipe) in started.texts {
            port.set_text(pipe, stream, turn.registry, turn.targets, at)?;
        }
        self.unsent.insert(link);
        Ok(())
    }

    fn forget_if_gone(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        if link != LinkId::PARENT && self.ports.get(&link).is_some_and(Port::is_gone) {
            for place in 0..2 {
                if let Some(port) = self.ports.get_mut(&link) {
                    port.close_text(place, turn.registry, turn.targets);
                }
            }
            self.ports.remove(&link);
        }
    }

    /// Lets go of everything. Processes that were not released are killed; those that were, and may not have ended, are given back.
    pub(super) fn close(&mut self, registry: &Registry, targets: &mut Targets) -> Vec<Child> {
        if let Some(mut door) = self.door.take() {
            door.close(registry, targets);
        }
        if let Some(mut dialler) = self.dialler.take() {
            dialler.close(registry, targets);
        }
        // All at once before anybody is waited for.
        for port in self.ports.values_mut().filter(|port| !port.released) {
            if let Some(process) = &mut port.process {
                let _ = process.it.signal_group(Signal::KILL);
            }
        }
        let mut released = Vec::new();
        for port in self.ports.values_mut() {
            released.extend(port.part_with_released(registry, targets));
            port.let_go(registry, targets);
        }
        self.ports.clear();
        released
    }
}

fn is_waiting(pipe: &Stream) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let mut fds = [PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
    let readable = |fd: &PollFd<'_>| fd.revents().is_some_and(|what| what.contains(PollFlags::POLLIN));
    poll(&mut fds, PollTimeout::ZERO).is_ok() && readable(&fds[0])
}

/// Both ends of something that was made for a process: ours, and the one it gets.
type Ends = (Stream, OwnedFd);
