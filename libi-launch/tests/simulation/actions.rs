//! Actions in a session that is up: members print and detach; the user reads output and sends
//! signals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::Rank;
use libi_core::join::MemberRole;
use libi_core::ranks::Ranks;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::failure::{Cause, Phase};
use libi_launch::machine::{Event, LinkId, Notice, Stream};

use crate::commands;
use crate::driver::Driver;
use crate::scenario::Scenario;
use crate::world::{Cluster, FRONT};

/// The most output that a node may hold: its capacity and one piece more, and a window for each
/// child.
pub(crate) const CAPACITY: usize = (128 << 10) + MOST_AT_ONCE;
pub(crate) const WINDOW: usize = 64 << 10;
const MOST_AT_ONCE: usize = 20_000;
/// The time after which every node knows of a detached member.
const PROPAGATION: Duration = Duration::from_secs(5);

/// An action in a session that is up.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// A member prints this many bytes.
    Print(u64, usize),
    /// A member detaches.
    Detach(u64),
    /// The user sends a signal to all members.
    Signal,
}

/// The actions, and their observed effects. Members print to standard error, because banners are on
/// standard output.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) printed: BTreeMap<Rank, Vec<u8>>,
    pub(crate) read: BTreeMap<Rank, Vec<u8>>,
    /// When the user was last given output of members.
    read_at: Option<Instant>,
    printers: BTreeMap<Rank, Id>,
    pub(crate) released: BTreeMap<Id, Instant>,
    signals: Vec<Instant>,
    signalled: BTreeMap<Id, usize>,
    /// How often each rank has printed.
    pub(crate) times: BTreeMap<Rank, u64>,
    counter: u32,
    /// How many bytes the user was given.
    given: usize,
    is_done: bool,
    /// When the front end knew that no more output would come.
    drained_at: Option<Instant>,
    pub(crate) wrong: Option<String>,
}

impl Cluster {
    pub(crate) fn act(&mut self, record: Action, agenda: &mut Agenda<Self>) {
        match record {
            Action::Print(number, length) => self.print(number, length, agenda),
            Action::Detach(number) => {
                let Some(id) = self.pick_member(number, agenda) else { return };
                self.record.released.insert(id, agenda.now());
                agenda.tell(agenda.now(), id, Event::Detach.into());
            }
            Action::Signal => {
                if agenda.machine(FRONT).is_some() {
                    self.record.signals.push(agenda.now());
                    agenda.tell(agenda.now(), FRONT, Event::Signal(10).into());
                }
            }
        }
    }

    fn pick_member(&self, number: u64, agenda: &Agenda<Self>) -> Option<Id> {
        let is_member = |id: &Id| agenda.machine(*id).is_some_and(|node| !node.is_agent());
        let ours = |id: &Id| *id != FRONT && !self.record.released.contains_key(id) && is_member(id);
        let up = self.alive().filter(|(id, process)| process.told_up && ours(id));
        let up: Vec<Id> = up.map(|(id, _)| id).collect();
        up.get(number as usize % up.len().max(1)).copied()
    }

    fn print(&mut self, number: u64, length: usize, agenda: &mut Agenda<Self>) {
        let Some(id) = self.pick_member(number, agenda) else { return };
        let Some(node) = agenda.machine(id).filter(|node| node.reads_output()) else { return };
        let Some(rank) = node.rank() else { return };
        let mut text: Vec<u8> = self.common_text(rank).concat();
        while self.scenario.folds.is_none() && text.len() < length.min(MOST_AT_ONCE) {
            self.record.counter += 1;
            text.extend(format!("{rank} {}\n", self.record.counter).bytes());
        }
        self.record.printers.insert(rank, id);
        if self.scenario.folds.is_none() {
            self.record.printed.entry(rank).or_default().extend(&text);
        }
        agenda.tell(agenda.now(), id, Event::Printed(LinkId::PARENT, Stream::Err, text).into());
        self.check_room(id, agenda);
    }

    /// Checks that no node on the way to the front end holds more output than it may.
    fn check_room(&mut self, from: Id, agenda: &Agenda<Self>) {
        let mut next = Some(from);
        while let Some(id) = next {
            let children = self.processes[id.0 as usize].children_count();
            let held = agenda.machine(id).map_or(0, |node| node.output_buffered());
            let most = match self.scenario.folds {
                Some(folds) => folds.most_held(children, self.programs_of(id)),
                None => CAPACITY + children * WINDOW,
            };
            if held > most {
                self.record.wrong =
                    Some(format!("{id:?} holds {held} bytes of output with {children} children"));
            }
            next = self.parent_of(id).map(|(parent, _)| parent);
        }
    }

    /// Handles a notice of a node.
    pub(crate) fn on_notice(&mut self, from: Id, notice: &Notice, agenda: &mut Agenda<Self>) {
        match notice {
            Notice::Output(rank, stream, text) if from == FRONT => {
                let ranks = [*rank].into_iter().collect();
                self.on_output(&ranks, *stream, text, agenda);
            }
            Notice::Folded(ranks, stream, text) if from == FRONT => {
                self.on_output(ranks, *stream, text, agenda);
            }
            Notice::Done if from == FRONT => self.record.is_done = true,
            Notice::Signal(_) => *self.record.signalled.entry(from).or_default() += 1,
            Notice::End(_) if self.is_released_for_long(from, agenda) => {
                self.record.wrong = Some(format!("{from:?} was released, and is told to end"));
            }
            _ => {}
        }
        self.check_drained(agenda);
    }

    fn on_output(&mut self, ranks: &Ranks, stream: Stream, text: &[u8], agenda: &mut Agenda<Self>) {
        self.output_given(text.len(), agenda);
        for rank in ranks.iter() {
            match stream {
                Stream::Err if !text.starts_with(b"libi: ") => {
                    self.record.read.entry(rank).or_default().extend(text);
                    self.record.read_at = Some(agenda.now());
                }
                Stream::Err => {}
                Stream::Out => self.read_line(rank, text),
            }
        }
        if self.record.drained_at.is_some_and(|at| at < agenda.now()) {
            self.record.wrong = Some(format!("output of {ranks} comes after the end of all output"));
        }
    }

    /// Notes when the front end knows that all members have left and that all output has come.
    fn check_drained(&mut self, agenda: &Agenda<Self>) {
        let is_drained = |node: &Driver| node.has_relayed_output();
        if self.record.is_done && agenda.machine(FRONT).is_some_and(is_drained) {
            self.record.drained_at.get_or_insert(agenda.now());
        }
    }

    /// The user was given as much output, and consumes it some time later.
    pub(crate) fn output_given(&mut self, length: usize, agenda: &mut Agenda<Self>) {
        self.record.given += length;
        if self.scenario.reads.is_none() && self.record.given > WINDOW {
            self.record.wrong = Some(format!("{} bytes were given without credit", self.record.given));
        }
        if let Some(within) = self.scenario.reads {
            agenda.tell(agenda.now() + within, FRONT, Event::Consumed(length as u32).into());
        }
    }

    fn is_released_for_long(&self, id: Id, agenda: &Agenda<Self>) -> bool {
        self.record.released.get(&id).is_some_and(|at| *at + PROPAGATION < agenda.now())
    }

    /// Checks that a node does not kill a detached process.
    pub(crate) fn check_kill(&mut self, whom: Option<Id>, agenda: &Agenda<Self>) {
        // A frozen process is killed for its silence; its parent cannot know that it has detached.
        let Some(id) = whom.filter(|id| self.is_running(*id) && !self.scenario.may_be_silent()) else {
            return;
        };
        // The front end cannot know of a detached member whose link has broken before it had told that.
        let was_told = |rank| self.notices.iter().any(|(_, notice)| *notice == Notice::Detached(rank));
        let rank = match self.processes[id.0 as usize].place {
            Some(MemberRole::Leader(host)) => Rank(host.0 * self.scenario.members),
            Some(MemberRole::Local(rank)) => rank,
            None => return,
        };
        if self.has_moved(id) && !was_told(rank) {
            return;
        }
        if self.is_released_for_long(id, agenda) {
            self.record.wrong = Some(format!("{id:?} was released, and is killed"));
        }
    }
}

/// All output was read in order; of lost members, a prefix of it.
pub(crate) fn checks(scenario: &Scenario, world: &Cluster, now: Instant) -> Result<(), String> {
    if let Some(wrong) = &world.record.wrong {
        return Err(wrong.clone());
    }
    let Some(up) = world.up_at() else { return Ok(()) };
    let held = scenario.folds.map_or(Duration::ZERO, |folds| folds.longest_held(world));
    let way = world.way(world.deepest() + 1);
    // Much output over slow links arrives for as long as it takes.
    let printed: usize = world.record.printed.values().map(Vec::len).sum();
    let read_at = world.record.read_at.filter(|_| printed > commands::MUCH_OUTPUT);
    let news = read_at.unwrap_or(up).max(up + crate::scenario::UP_TIME);
    let settled = news + Duration::from_secs(8) + held + way * 2 < now;
    let all_is_well =
        settled && !scenario.has_faults() && !world.was_cut && !commands::have_printed_much(world);
    for (rank, printed) in &world.record.printed {
        let read = world.record.read.get(rank).map_or(&[][..], Vec::as_slice);
        let released =
            world.record.printers.get(rank).is_some_and(|id| world.record.released.contains_key(id));
        if !printed.starts_with(read) {
            let at = printed.iter().zip(read).take_while(|(a, b)| a == b).count();
            let near = |text: &[u8]| {
                String::from_utf8_lossy(&text[at.saturating_sub(20)..text.len().min(at + 40)]).into_owned()
            };
            let (near_printed, near_read) = (near(printed), near(read));
            return Err(format!(
                "{rank} has printed {near_printed:?}, but {near_read:?} is read, from {at} on"
            ));
        }
        if all_is_well && scenario.reads.is_some() && read != printed && !released {
            return Err(format!(
                "{rank} has printed {} bytes, of which {} were read",
                printed.len(),
                read.len()
            ));
        }
    }
    if all_is_well {
        let released_before =
            |id: Id, at: Instant| world.record.released.get(&id).is_some_and(|was| *was <= at + PROPAGATION);
        // A program that joins late was signalled as a process before.
        let is_member = |place| match place {
            Some(MemberRole::Leader(_)) => scenario.agents.is_none(),
            _ => scenario.members_join(),
        };
        let told = world.alive().filter(|(id, process)| *id != FRONT && process.told_up);
        for (id, process) in told.filter(|(_, process)| is_member(process.place)) {
            let due = world
                .record
                .signals
                .iter()
                .filter(|at| **at > up + PROPAGATION && !released_before(id, **at));
            let due = due.count();
            let reported = world.record.signalled.get(&id).copied().unwrap_or(0);
            if reported < due {
                return Err(format!("{process:?} was told of {reported} of {due} signals"));
            }
        }
        for (id, at) in &world.record.released {
            let rank = match world.processes[id.0 as usize].place {
                Some(MemberRole::Leader(host)) => Rank(host.0 * scenario.members),
                Some(MemberRole::Local(rank)) => rank,
                None => continue,
            };
            let reported = world.notices.iter().any(|(_, notice)| *notice == Notice::Detached(rank));
            if !reported {
                return Err(format!("the detachment of {rank} at {at} was not reported"));
            }
        }
    }
    left(scenario, world)
}

/// A host is reported as lost only if it had an attached member.
fn left(scenario: &Scenario, world: &Cluster) -> Result<(), String> {
    let mut gone: BTreeSet<Rank> = BTreeSet::new();
    for (_, notice) in &world.notices {
        match notice {
            Notice::Detached(rank) | Notice::Exited(rank, ..) => drop(gone.insert(*rank)),
            Notice::Lost(host, failure) => {
                let mut ranks = (host.0 * scenario.members..(host.0 + 1) * scenario.members).map(Rank);
                if ranks.all(|rank| gone.contains(&rank)) {
                    return Err(format!("{host} is reported as lost, but had no members left: {failure:?}"));
                }
                if matches!(failure.cause, Cause::LauncherLost(_)) && failure.phase != Phase::Joined {
                    return Err(format!("{host} had joined: {failure:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
