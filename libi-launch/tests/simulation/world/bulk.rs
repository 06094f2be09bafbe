//! Bulk starts: one starter brings up many hosts, and their links arrive at the rendezvous; late,
//! twice, under a short name, or not at all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::join::{Hello, MemberRole};
use libi_core::plan::late::Attempt;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_core::wire::{Kind, PROTOCOL, Preamble};
use libi_launch::failure::Exit;
use libi_launch::machine::{ArrivalId, Event, HostSpec, LinkId, StartId, Stream};

use super::programs::{ASYNC_START, FOREIGN_TICKET, opening};
use super::srun::{SrunEvent, SrunRecord};
use super::{Cluster, FRONT, Happening, Start};
use crate::driver::Input;
use crate::scenario::Fate;
use crate::srun_starts::HostTrouble;

/// What may go wrong with bulk starts, beside the fates of their hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct BulkTrouble {
    /// The fraction of starters that cannot be started.
    pub(crate) not_started: f64,
    /// The fraction of starters that end before all hosts have arrived.
    pub(crate) exits: f64,
    /// The fraction of hosts that arrive twice.
    pub(crate) twice: f64,
    /// The fraction of hosts that were thought to hang and arrive late.
    pub(crate) late: f64,
    /// The fraction of starters that SIGTERM does not end.
    pub(crate) stubborn: f64,
    /// How many connections of other sessions' programs and of unknown hosts arrive in each start.
    pub(crate) strangers: u64,
}

/// All bulk starts of a session.
#[derive(Debug, Default)]
pub(crate) struct BulkStarts {
    pub(super) starters: BTreeMap<StartId, Starter>,
    pub(crate) srun: SrunRecord,
    pub(super) arrivals: BTreeMap<ArrivalId, Arrival>,
    pub(super) last: u64,
    /// The links of hosts that the front end has not started as these links: their start, and the
    /// link of that.
    pub(super) elsewhere: BTreeMap<(Id, LinkId), (StartId, LinkId)>,
    /// How many connections were redirected, and how many came back.
    pub(crate) redirected: usize,
    pub(crate) came_back: usize,
    /// How many connections were admitted and refused, and how many starters were ended.
    pub(crate) admitted: usize,
    pub(crate) refused: usize,
    pub(crate) ended: usize,
    /// The attempts whose starter ended before their links had arrived.
    pub(crate) unarrived: BTreeSet<(MemberRole, Attempt)>,
    /// The attempts whose end no starter was left to report.
    pub(crate) unreported: BTreeSet<(MemberRole, Attempt)>,
    pub(crate) wrong: Option<String>,
}

#[derive(Debug)]
pub(super) struct Starter {
    pub(super) hosts: BTreeMap<LinkId, HostSpec>,
    /// The hosts whose programs have not ended, as far as the starter knows.
    pub(super) open: BTreeSet<LinkId>,
    /// The hosts whose programs do not run, or not any longer.
    pub(super) gone: BTreeSet<LinkId>,
    /// From when on its programs run, if they ever do.
    pub(super) runs_from: Option<Instant>,
    stubborn: bool,
    pub(super) running: bool,
    /// It is about to end all programs.
    pub(super) ends_all: bool,
    /// It was told to end.
    pub(super) asked: bool,
    /// It was killed: nothing more is heard of it but its end, once what it has left is ended.
    pub(super) killed: bool,
}

impl BulkStarts {
    /// The latest start that was to bring up this link.
    pub(super) fn start_of(&self, link: LinkId) -> Option<StartId> {
        let mut starters = self.starters.iter().rev();
        starters.find(|(_, starter)| starter.hosts.contains_key(&link)).map(|(&start, _)| start)
    }
}

/// A connection at a rendezvous.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    pub(super) start: StartId,
    /// The link that it should become at the front end, if it is the host's first in time.
    pub(super) link: Option<LinkId>,
    pub(super) fate: Fate,
    pub(super) name: String,
    /// Where it was redirected, and until when it tries to arrive there.
    pub(super) relay: Option<(Id, Instant)>,
    /// Whether it was redirected and has come back.
    pub(super) is_back: bool,
}

/// An event of a bulk start.
#[derive(Debug)]
pub(crate) enum BulkEvent {
    /// The program on a host reaches its fate.
    Runs(StartId, LinkId, Fate),
    /// A connection arrives that should not be admitted.
    Intrudes(StartId, String),
    /// The starter ends.
    Exits(StartId, Exit),
    /// A redirected process connects to its relay.
    Connects(Arrival),
    /// A process does not wait for an answer of its relay any longer.
    Returns(ArrivalId),
    /// An event of a start by `srun`.
    Srun(StartId, SrunEvent),
}

impl Cluster {
    /// A number for a connection that arrives somewhere.
    pub(crate) fn next_arrival(&mut self) -> ArrivalId {
        self.bulk.last += 1;
        ArrivalId(self.bulk.last)
    }

    pub(super) fn start_in_bulk(
        &mut self,
        from: Id,
        start: StartId,
        hosts: &[(LinkId, HostSpec)],
        agenda: &mut Agenda<Self>,
    ) {
        assert_eq!(from, FRONT, "only the front end makes bulk starts");
        assert!(hosts.len() <= self.scenario.hosts_per_start as usize, "more hosts than the back-end starts");
        let now = agenda.now();
        let trouble = self.scenario.bulk.expect("the back-end starts in bulk");
        let mut rng = Rng::new(self.scenario.seed).fork(21).fork(u64::from(start.0));
        let fails = rng.chance(trouble.not_started);
        let hello_timeout = self.scenario.rules.hello_timeout;
        let runs_after = if fails { None } else { self.plan_srun(start, hosts, agenda) };
        let after = runs_after.unwrap_or_default();
        let is_part = |(_, spec): &(LinkId, HostSpec)| {
            self.fates.contains_key(&(MemberRole::Leader(spec.host), spec.attempt))
        };
        self.bulk.srun.parts += u32::from(hosts.iter().all(is_part));
        for (link, spec) in hosts {
            let (place, attempt) = (MemberRole::Leader(spec.host), spec.attempt);
            let fate = match self.scenario.fate(place, attempt, &spec.name) {
                _ if fails => Fate::NotStarted,
                // One process is started for all hosts.
                Fate::NotStarted => Fate::Refused,
                fate => fate,
            };
            self.check_not_given_up(spec.host, agenda);
            let (host, name) = (spec.host, spec.name.clone());
            // It may become the child of a relay.
            let depth = 1;
            self.starts.push(Start { at: now, by: None, depth, cut_off: false, host, attempt, name });
            self.note_fate(place, attempt, fate);
            if fails {
                continue;
            }
            // A link begins anew with the start that is to bring it up.
            self.scenario.pending.remove(&(FRONT, *link));
            self.process(FRONT).children.insert(*link, None);
            let (_, rem) = self.scenario.costs(&mut self.rng);
            if runs_after.is_none() {
                continue; // no program runs
            }
            let rem = rem + self.scenario.time_to_notice(&spec.name);
            agenda.plan(now + after + rem, Happening::Bulk(BulkEvent::Runs(start, *link, fate)));
            let again = |after| Happening::Bulk(BulkEvent::Intrudes(after, spec.name.clone()));
            if fate.joins() && rng.chance(trouble.twice) {
                agenda.plan(now + after + rem + Duration::from_millis(200 + rng.below(900)), again(start));
            }
            if fate == Fate::Hangs && rng.chance(trouble.late) {
                agenda.plan(
                    now + after + hello_timeout + Duration::from_millis(1 + rng.below(9_000)),
                    again(start),
                );
            }
        }
        if fails {
            return agenda.tell(now, from, Event::NotStarted(start, "Exec format error".to_owned()).into());
        }
        for _ in 0..trouble.strangers {
            let foreign = if rng.chance(0.5) { start } else { StartId(start.0 + 1 + rng.below(9) as u32) };
            let name = ["elsewhere", "node", "", "node1"][rng.below(4) as usize];
            let event = Happening::Bulk(BulkEvent::Intrudes(foreign, format!("{name}!")));
            agenda.plan(now + Duration::from_millis(rng.below(2_000)), event);
        }
        agenda.tell(now + ASYNC_START, from, Event::Started(start).into());
        let all = hosts.iter().cloned().collect::<BTreeMap<_, _>>();
        let open: BTreeSet<LinkId> = all.keys().copied().collect();
        let stubborn = rng.chance(trouble.stubborn);
        let gone = if runs_after.is_none() { open.clone() } else { BTreeSet::new() };
        let runs_from = runs_after.map(|after| now + after);
        let (running, ends_all, asked, killed) = (true, false, false, false);
        let starter =
            Starter { hosts: all, open, gone, runs_from, stubborn, running, ends_all, asked, killed };
        self.bulk.starters.insert(start, starter);
        if rng.chance(trouble.exits) {
            let after = Duration::from_millis(rng.below(1_000));
            agenda.plan(now + ASYNC_START + after, Happening::Bulk(BulkEvent::Exits(start, Exit::Code(1))));
        }
    }

    /// The link in whose order the messages of a starter arrive.
    fn voice(start: StartId) -> LinkId {
        LinkId(u32::MAX - start.0)
    }

    pub(super) fn starter_says(&mut self, start: StartId, event: Event, agenda: &mut Agenda<Self>) {
        let is_end = matches!(event, Event::StarterExited(..));
        if self.bulk.starters.get(&start).is_some_and(|it| it.running && (is_end || !it.killed)) {
            self.arrive(FRONT, Self::voice(start), event, agenda);
        }
    }

    pub(super) fn on_bulk_event(&mut self, event: BulkEvent, agenda: &mut Agenda<Self>) {
        match event {
            BulkEvent::Runs(start, link, fate) => self.runs_in_bulk(start, link, fate, agenda),
            BulkEvent::Intrudes(start, name) => self.arrives(start, None, Fate::Hangs, name, agenda),
            BulkEvent::Connects(arrival) => self.connects_to_relay(arrival, agenda),
            BulkEvent::Returns(arrival) => self.returns(arrival, agenda),
            BulkEvent::Exits(start, exit) => self.exits(start, exit, agenda),
            BulkEvent::Srun(start, event) => self.on_srun_event(start, event, agenda),
        }
    }

    /// A connection arrives at the rendezvous.
    fn arrives(
        &mut self,
        start: StartId,
        link: Option<LinkId>,
        fate: Fate,
        name: String,
        agenda: &mut Agenda<Self>,
    ) {
        let arrival = Arrival { start, link, fate, name, relay: None, is_back: false };
        self.arrives_at(FRONT, arrival, agenda);
    }

    fn runs_in_bulk(&mut self, start: StartId, link: LinkId, fate: Fate, agenda: &mut Agenda<Self>) {
        let Some(starter) = self.bulk.starters.get(&start) else { return };
        let Some(spec) = starter.hosts.get(&link).filter(|_| !starter.gone.contains(&link)).cloned() else {
            return;
        };
        let name = spec.name.clone();
        if self.scenario.host_trouble(&name) == HostTrouble::Named {
            return self.host_fails(start, link, &name, agenda);
        }
        let printed =
            |stream, text: &str| Event::HostPrinted(start, name.clone(), stream, text.as_bytes().to_vec());
        let mut ends = |cluster: &mut Self, exit, text: &str| {
            cluster.starter_says(start, printed(Stream::Err, text), agenda);
            cluster.starter_says(start, Event::HostEnded(start, name.clone(), exit), agenda);
            cluster.program_ends(start, link, agenda);
        };
        match fate {
            Fate::NotStarted | Fate::OutOfResources | Fate::Hangs => {}
            Fate::Refused => ends(self, Exit::Code(255), "connect: Connection refused\n"),
            Fate::Denied => {
                self.denials.entry(spec.host).or_default().push(spec.attempt);
                ends(self, Exit::Code(255), "me@node7: Permission denied (publickey).\n");
            }
            Fate::NotFound => ends(self, Exit::Code(127), "sh: tool: not found\n"),
            Fate::ExitsEarly => ends(self, Exit::Code(0), "usage: tool\n"),
            Fate::Crashes => ends(self, Exit::Signal(11), ""),
            Fate::HangsWithBanner => {
                self.banners.insert(spec.host, agenda.now());
                self.starter_says(start, printed(Stream::Out, "Welcome to node 7!\n"), agenda);
            }
            Fate::Garbage | Fate::Echoes | Fate::Stale | Fate::ClosesOnly | Fate::ExitsOpen => {
                self.arrives(start, Some(link), fate, name, agenda);
            }
            Fate::Joins { banner, .. } => {
                if banner {
                    self.starter_says(start, printed(Stream::Out, "Last login: never\n"), agenda);
                }
                let short = if self.rng.chance(0.1) { format!("{name}.cluster") } else { name };
                self.arrives(start, Some(link), fate, short, agenda);
            }
        }
    }

    pub(super) fn admit(&mut self, at: Id, arrival: ArrivalId, link: LinkId, agenda: &mut Agenda<Self>) {
        let Some(Arrival { start, link: own, fate, is_back, .. }) = self.bulk.arrivals.remove(&arrival)
        else {
            return self.bulk.wrong = Some(format!("{arrival:?} is admitted without having arrived"));
        };
        self.bulk.admitted += 1;
        let is_elsewhere = at != FRONT || is_back;
        let Some(own) = own.filter(|own| is_elsewhere || *own == link) else {
            // A second connection of a host may be the first in time. Its program never joins.
            return;
        };
        if !self.process(at).children.contains_key(&link) {
            return self.bulk.wrong = Some(format!("{arrival:?} is admitted as {link}, which is closed"));
        }
        let starter = self.bulk.starters.get(&start);
        let Some(spec) = starter.and_then(|starter| starter.hosts.get(&own)).cloned() else { return };
        if starter.is_some_and(|starter| starter.gone.contains(&own)) {
            // Its program was ended while the connection waited.
            return self.arrive(at, link, Event::Closed(link), agenda);
        }
        if is_elsewhere {
            self.bulk.elsewhere.insert((at, link), (start, own));
        }
        let send = |bytes: Vec<u8>| Input::Bytes(link, bytes);
        match fate {
            Fate::Joins { cut, .. } => {
                let place = (MemberRole::Leader(spec.host), spec.attempt);
                self.joins((at, link), place, spec.name, cut, agenda);
            }
            Fate::Garbage => {
                let noise: Vec<u8> = (0..200).map(|_| self.rng.bits() as u8).collect();
                let preamble = Preamble { versions: PROTOCOL }.encode();
                self.arrive(at, link, send([&preamble[..], &noise].concat()), agenda);
            }
            Fate::Echoes => {
                self.arrive(at, link, send(opening(Kind::Ticket, &FOREIGN_TICKET)), agenda);
            }
            Fate::Stale => {
                let hello = Hello {
                    ticket: FOREIGN_TICKET,
                    process: 1,
                    machine: "elsewhere".to_owned(),
                    is_apart: false,
                };
                self.arrive(at, link, send(opening(Kind::Hello, &hello)), agenda);
            }
            Fate::ClosesOnly => self.arrive(at, link, Event::Closed(link), agenda),
            Fate::ExitsOpen => {
                if self.bulk.starters.get(&start).is_some_and(|starter| !starter.running) {
                    self.bulk.unreported.insert((MemberRole::Leader(spec.host), spec.attempt));
                }
                let ended = Event::HostEnded(start, spec.name, Exit::Code(3));
                self.starter_says(start, ended, agenda);
            }
            _ => {}
        }
    }

    pub(super) fn refuse(&mut self, arrival: ArrivalId) {
        if self.bulk.arrivals.remove(&arrival).is_none() {
            self.bulk.wrong = Some(format!("{arrival:?} is refused without having arrived"));
        }
        self.bulk.refused += 1;
    }

    /// Reports the exit of a started process: to the process that started it, or by the starter.
    pub(super) fn report_exit(&mut self, to: Id, link: LinkId, exit: Exit, agenda: &mut Agenda<Self>) {
        let here = self.bulk.start_of(link).filter(|_| to == FRONT).map(|start| (start, link));
        let Some((start, link)) = here.or_else(|| self.bulk.elsewhere.get(&(to, link)).copied()) else {
            return self.arrive(to, link, Event::Exited(link, exit), agenda);
        };
        if let Some(spec) = self.bulk.starters.get(&start).and_then(|starter| starter.hosts.get(&link)) {
            let ended = Event::HostEnded(start, spec.name.clone(), exit);
            self.starter_says(start, ended, agenda);
        }
        self.program_ends(start, link, agenda);
    }

    /// The starter notices the end of a program; it ends with the last one.
    fn program_ends(&mut self, start: StartId, link: LinkId, agenda: &mut Agenda<Self>) {
        let Some(starter) = self.bulk.starters.get_mut(&start) else { return };
        starter.open.remove(&link);
        if starter.open.is_empty() && !starter.ends_all {
            self.starter_ends(start, Exit::Code(0), agenda);
        }
    }

    pub(super) fn starter_ends(&mut self, start: StartId, exit: Exit, agenda: &mut Agenda<Self>) {
        if !self.bulk.starters.get(&start).is_some_and(|starter| starter.running) {
            return;
        }
        self.note_unarrived(start);
        self.srun_ended(start, agenda.now());
        self.starter_says(start, Event::StarterExited(start, exit), agenda);
        if let Some(starter) = self.bulk.starters.get_mut(&start) {
            starter.running = false;
        }
    }

    /// Hosts whose links have not arrived when the starter ends, or is killed, fail with it, if nothing
    /// else is known of them.
    pub(super) fn note_unarrived(&mut self, start: StartId) {
        let Some(starter) = self.bulk.starters.get(&start) else { return };
        let unarrived =
            starter.open.iter().filter(|link| matches!(self.processes[0].children.get(link), Some(None)));
        let places = unarrived.filter_map(|link| starter.hosts.get(link));
        let places: Vec<_> = places.map(|spec| (MemberRole::Leader(spec.host), spec.attempt)).collect();
        self.bulk.unarrived.extend(places);
    }

    pub(super) fn end_starter(&mut self, start: StartId, signal: i32, agenda: &mut Agenda<Self>) {
        self.bulk.ended += 1;
        let Some(starter) = self.bulk.starters.get_mut(&start) else { return };
        starter.asked = true;
        // What ends the programs that a killed one has left is not asked to end.
        let stubborn = starter.stubborn || starter.killed;
        self.asked_before_it_is_heard(start, agenda.now());
        if signal == 9 || !stubborn {
            self.starter_ends(start, Exit::Signal(signal), agenda);
        }
    }

    /// Whether a starter is still running.
    pub(crate) fn has_starters(&self) -> bool {
        self.bulk.starters.values().any(|starter| starter.running)
    }
}
