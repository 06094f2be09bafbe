//! A simulated cluster: processes, links, remote shells, and their faults.
//!
//! The machines are not modelled: every process that joins runs a [`Node`](libi_launch::machine::Node), as a real process does.
//! The model covers their environment. A remote shell takes SEQ at its launcher, in one of the ways
//! of [`Turns`], and has its program up after REM; bytes arrive late and in order; programs fail in
//! the ways of [`Fate`]; processes die and freeze.

mod bulk;
mod cancelled;
mod happenings;
mod moves;
mod programs;
mod records;
mod relays;
mod srun;
mod tree;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::MemberRole;
use libi_core::plan::late::Attempt;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_core::wire::{Header, Kind, Limits};
use libi_launch::failure::Exit;
use libi_launch::machine::{Ending, Event, LinkId, Notice, StartRequest};

use self::bulk::BulkStarts;
pub(crate) use self::bulk::BulkTrouble;
pub(crate) use self::records::{Death, Happening, Pick, Start};
pub(crate) use self::srun::{INVALID, NOT_LAUNCHED, QUEUED};
use crate::actions::Record;
use crate::agents::PlainPrograms;
use crate::commands::Commands;
use crate::direct::{Connections, DirectEvent};
use crate::driver::Input;
use crate::feeding::Feeding;
use crate::file_links::FileLinks;
use crate::growth::GrowthRecord;
use crate::restarts::RestartRecord;
use crate::scenario::{Fate, Scenario};
use crate::staging::Disks;
use crate::tree_views::Trees;
use libi_test_core::processor::Processor;

/// A process and its links.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) place: Option<MemberRole>,
    pub(crate) attempt: Attempt,
    /// The machine that it runs on.
    pub(crate) name: String,
    parent: Option<(Id, LinkId)>,
    /// The channel to the front end that has started it, once it has another parent.
    channel: Option<(Id, LinkId)>,
    /// The parent and the started processes, kept after their links are gone.
    pub(crate) origin: Option<(Id, LinkId)>,
    pub(crate) started: BTreeMap<LinkId, Id>,
    /// The other ends of its links; `None` for programs that never join.
    children: BTreeMap<LinkId, Option<Id>>,
    /// The links to leaders of hosts.
    hosts: BTreeSet<LinkId>,
    /// The open links of programs that have ended.
    ended: BTreeSet<LinkId>,
    /// A frozen process does nothing, notices nothing, and cannot be ended remotely.
    pub(crate) frozen: bool,
    /// Nothing that its parent sends arrives.
    pub(crate) deaf: bool,
    pub(crate) alive: bool,
    ended_at: Option<Instant>,
    /// Whether it knows that the session is up.
    pub(crate) told_up: bool,
    /// How many bytes it may still send before its link to the parent breaks.
    sends: Option<usize>,
    /// Whether its link to the parent has broken for that.
    pub(crate) broke: bool,
    busy_until: Instant,
    /// The launches that have a place, and those that wait for one, with their SEQ and REM.
    taken_places: usize,
    waiting: VecDeque<(LinkId, StartRequest, Fate, Duration, Duration)>,
    processor: Processor<(LinkId, StartRequest, Fate, Duration)>,
}

impl Process {
    /// How many launches of hosts have not joined, and have not ended.
    pub(crate) fn launches_in_flight(&self) -> usize {
        self.hosts.iter().filter(|link| self.children.get(link) == Some(&None)).count()
    }

    pub(crate) fn children_count(&self) -> usize {
        self.started.len()
    }
}

pub(crate) struct Cluster {
    pub(crate) scenario: Scenario,
    rng: Rng,
    pub(crate) processes: Vec<Process>,
    pub(crate) notices: Vec<(Instant, Notice)>,
    /// The fate of each attempt at a place.
    pub(crate) fates: BTreeMap<(MemberRole, Attempt), Fate>,
    /// The last attempt at each place, by time. Its number need not be the highest: the node that takes a
    /// host back does not know of all attempts below the one that it has lost, and these may go on.
    pub(crate) last_attempts: BTreeMap<MemberRole, Attempt>,
    /// When hosts that hang last printed their banner.
    pub(crate) banners: BTreeMap<HostIndex, Instant>,
    /// The attempts whose logins each host has denied.
    pub(crate) denials: BTreeMap<HostIndex, Vec<Attempt>>,
    /// All launches of hosts, in order.
    pub(crate) starts: Vec<Start>,
    /// The machines whose launch was refused for lack of resources, and when it was at last.
    pub(crate) without_resources: BTreeMap<String, Instant>,
    pub(crate) deaths: Vec<Death>,
    /// What the front end had given up when a process was killed.
    pub(crate) given_up: BTreeSet<HostIndex>,
    /// A host that was launched although the front end had given it up.
    pub(crate) futile_launch: Option<(HostIndex, Instant)>,
    /// The places that were taken when the session was reported as up, as far as the front end could know.
    pub(crate) present_at_up: BTreeSet<MemberRole>,
    /// How many launches of the front end were in flight when they exceeded its limit.
    pub(crate) over_limit: Option<usize>,
    /// The time of the last external fault.
    pub(crate) last_fault: Instant,
    /// Whether a link has broken without an external fault.
    pub(crate) was_cut: bool,
    pub(crate) direct: Connections,
    pub(crate) record: Record,
    pub(crate) trees: Trees,
    pub(crate) bulk: BulkStarts,
    pub(crate) plain: PlainPrograms,
    pub(crate) commands: Commands,
    pub(crate) restarts: RestartRecord,
    pub(crate) growth: GrowthRecord,
    /// The hosts that the session came up without.
    pub(crate) failed_at_up: BTreeSet<HostIndex>,
    pub(crate) disks: Disks,
    pub(crate) file_links: FileLinks,
    pub(crate) feeding: Feeding,
    arrivals: BTreeMap<(Id, LinkId), Instant>,
    /// The bytes of output that were sent to each process.
    output_sent: BTreeMap<Id, usize>,
}

pub(crate) const FRONT: Id = Id(0);
/// What every event of a link takes, in addition to the scenario's latency.
pub(crate) const MINIMAL_LATENCY: Duration = Duration::from_micros(50);
const ENDING: Ending = Ending { signal: 15, grace: Duration::from_secs(2) };

impl Cluster {
    pub(crate) fn new(scenario: Scenario) -> Self {
        let rng = Rng::new(scenario.seed).fork(1);
        let (processes, notices, fates, last_attempts, denials, banners, present_at_up, arrivals) =
            Default::default();
        let (starts, without_resources, deaths, given_up, futile_launch) = Default::default();
        let direct = Connections::new(scenario.seed);
        let file_links = FileLinks::new(scenario.seed);
        let mut cluster = Self {
            scenario,
            rng,
            processes,
            notices,
            fates,
            last_attempts,
            denials,
            banners,
            starts,
            without_resources,
            deaths,
            given_up,
            futile_launch,
            present_at_up,
            over_limit: None,
            last_fault: Instant::ZERO,
            was_cut: false,
            direct,
            record: Record::default(),
            trees: Trees::default(),
            bulk: BulkStarts::default(),
            plain: PlainPrograms::default(),
            commands: Commands::default(),
            restarts: RestartRecord::default(),
            growth: GrowthRecord::default(),
            failed_at_up: BTreeSet::new(),
            disks: Disks::default(),
            file_links,
            feeding: Feeding::default(),
            arrivals,
            output_sent: BTreeMap::new(),
        };
        cluster.add(None, Attempt::default(), String::new(), None);
        cluster
    }

    fn add(
        &mut self,
        place: Option<MemberRole>,
        attempt: Attempt,
        name: String,
        parent: Option<(Id, LinkId)>,
    ) {
        self.processes.push(Process {
            place,
            attempt,
            name,
            parent,
            channel: None,
            origin: parent,
            started: BTreeMap::new(),
            children: BTreeMap::new(),
            hosts: BTreeSet::new(),
            ended: BTreeSet::new(),
            frozen: false,
            deaf: false,
            alive: true,
            ended_at: None,
            told_up: false,
            sends: None,
            broke: false,
            busy_until: Instant::ZERO,
            taken_places: 0,
            waiting: VecDeque::new(),
            processor: Processor::default(),
        });
    }

    pub(crate) fn parent_of(&self, id: Id) -> Option<(Id, LinkId)> {
        self.processes[id.0 as usize].parent
    }

    pub(crate) fn is_running(&self, id: Id) -> bool {
        let process = &self.processes[id.0 as usize];
        process.alive && !process.frozen
    }

    /// How many bytes of output were sent to a process, with the frames around them.
    pub(crate) fn output_bytes(&self, to: Id) -> usize {
        self.output_sent.get(&to).copied().unwrap_or(0)
    }

    pub(crate) fn process(&mut self, id: Id) -> &mut Process {
        &mut self.processes[id.0 as usize]
    }

    pub(crate) fn latency(&mut self) -> Duration {
        MINIMAL_LATENCY + Duration::from_micros(self.rng.below(self.scenario.latency.as_micros() as u64 + 1))
    }

    /// Delivers an event of a link, in the order of sending.
    pub(crate) fn arrive(
        &mut self,
        to: Id,
        link: LinkId,
        event: impl Into<Input>,
        agenda: &mut Agenda<Self>,
    ) {
        if self.process(to).frozen || !self.process(to).alive {
            return;
        }
        let latest = self.arrivals.get(&(to, link)).copied().unwrap_or_default();
        let at = (agenda.now() + self.latency()).max(latest + Duration::from_nanos(1));
        self.arrivals.insert((to, link), at);
        agenda.tell(at, to, event.into());
    }

    /// What arrives on a link from now on arrives that much later than what was sent before.
    pub(crate) fn delay_link(&mut self, to: Id, link: LinkId, delay: Duration, now: Instant) {
        let latest = self.arrivals.entry((to, link)).or_default();
        *latest = (*latest).max(now) + delay;
    }

    /// A program that may join is started: its link exists.
    pub(crate) fn await_program(&mut self, from: Id, link: LinkId) {
        self.process(from).children.insert(link, None);
    }

    /// What is started as this link is no program.
    pub(crate) fn forget_program(&mut self, (from, link): (Id, LinkId)) {
        self.process(from).children.remove(&link);
    }

    /// A program that has not joined has ended.
    pub(crate) fn program_ended(&mut self, from: Id, link: LinkId, exit: Exit, agenda: &mut Agenda<Self>) {
        self.process(from).children.remove(&link);
        self.arrive(from, link, Event::Exited(link, exit), agenda);
    }

    /// Delivers the end of a channel after everything that was sent on it.
    fn ends(&mut self, to: Id, link: LinkId, agenda: &mut Agenda<Self>) {
        if self.process(to).frozen || !self.process(to).alive {
            return;
        }
        let latest = self.arrivals.get(&(to, link)).copied().unwrap_or_default();
        let at = (agenda.now() + self.latency()).max(latest + Duration::from_nanos(1));
        self.arrivals.insert((to, link), at);
        let generation = self.direct.generation((to, link));
        agenda.plan(at, Happening::Direct(DirectEvent::ChannelEnds((to, link), generation)));
    }

    pub(crate) fn send(&mut self, from: Id, link: LinkId, mut bytes: Vec<u8>, agenda: &mut Agenda<Self>) {
        if self.send_to_source_or_client((from, link), &bytes, agenda) {
            return;
        }
        if self.direct.is_early((from, link)) {
            self.send_directly((from, link), &bytes, agenda);
            return;
        }
        if link == LinkId::PARENT {
            let Some((parent, at)) = self.process(from).parent else { return };
            let header =
                bytes.first_chunk().and_then(|head| Header::decode(head, &Limits::AUTHENTICATED).ok());
            if header.is_some_and(|header| header.kind() == Kind::Stdio) {
                *self.output_sent.entry(parent).or_default() += bytes.len();
            }
            if let Some(left) = self.process(from).sends {
                bytes.truncate(left);
                self.process(from).sends = Some(left - bytes.len());
            }
            if !bytes.is_empty() && !self.send_directly((from, link), &bytes, agenda) {
                self.arrive(parent, at, Input::Bytes(at, bytes), agenda);
            }
            if self.process(from).sends == Some(0) {
                let process = self.process(from);
                (process.sends, process.broke) = (None, true);
                self.cut(from, agenda);
            }
            return;
        }
        match self.process(from).children.get(&link).copied() {
            Some(Some(child)) if self.process(child).deaf => {}
            Some(Some(_)) if self.send_directly((from, link), &bytes, agenda) => {}
            Some(Some(child)) => {
                self.arrive(child, LinkId::PARENT, Input::Bytes(LinkId::PARENT, bytes), agenda);
            }
            Some(None) => {
                self.scenario.pending.entry((from, link)).or_default().push(bytes);
            }
            None => {}
        }
    }

    /// The link of a process to its parent breaks, and both ends notice.
    fn cut(&mut self, id: Id, agenda: &mut Agenda<Self>) {
        self.last_fault = agenda.now();
        self.was_cut = true;
        if let Some((parent, link)) = self.process(id).parent.take() {
            if self.process(parent).children.remove(&link).is_some() && self.process(id).channel.is_none() {
                self.ends(parent, link, agenda);
                self.report_exit(parent, link, Exit::Code(255), agenda);
            }
            self.ends(id, LinkId::PARENT, agenda);
            self.sever(id, agenda);
        }
    }

    /// A process ends.
    pub(crate) fn end(&mut self, id: Id, exit: Exit, agenda: &mut Agenda<Self>) {
        if !std::mem::replace(&mut self.process(id).alive, false) {
            return;
        }
        agenda.end(id);
        self.process(id).ended_at = Some(agenda.now());
        self.end_file_links(id, agenda);
        let parent = self.process(id).parent.take();
        // Only the node that has started it hears of its exit.
        let channel = self.process(id).channel.take();
        if let Some((at, link)) = parent.filter(|_| channel.is_some()) {
            self.process(at).children.remove(&link);
        }
        if let Some((at, link)) = channel.or(parent)
            && self.process(at).children.remove(&link).is_some()
        {
            self.ends(at, link, agenda);
            self.report_exit(at, link, exit, agenda);
        }
        self.end_connection((id, LinkId::PARENT), agenda);
        for (link, child) in std::mem::take(&mut self.process(id).children) {
            self.program_is_killed(id, link);
            let Some(child) = child else { continue };
            self.process(child).loses((id, link));
            self.ends(child, LinkId::PARENT, agenda);
            self.end_connection((id, link), agenda);
        }
    }

    /// Whether a process has detached.
    pub(crate) fn is_detached(&self, id: Id, agenda: &Agenda<Self>) -> bool {
        agenda.machine(id).is_some_and(|node| node.is_detached())
    }

    fn pick(&self, pick: Pick) -> Option<Id> {
        let number = match pick {
            Pick::Any(number) => number,
            Pick::Front => return Some(FRONT),
            Pick::This(id) => return Some(id).filter(|id| self.processes[id.0 as usize].alive),
        };
        let alive: Vec<_> = self.alive().filter(|(id, _)| *id != FRONT).map(|(id, _)| id).collect();
        alive.get(number as usize % alive.len().max(1)).copied()
    }
}
