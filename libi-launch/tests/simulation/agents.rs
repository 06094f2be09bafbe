//! Scenarios in which agents lead the hosts, and what must hold in them.
//!
//! Some are agents by the options, and some because they lead their hosts apart from their
//! programs. Half of them start any programs: some never join, some join late, some cannot be
//! started, and some ignore the signal that asks them to end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::dist::OsBytes;
use libi_core::ids::{HostIndex, Rank, StartId};
use libi_core::join::MemberRole;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, HostState, LinkId, Node, Notice, Stream};
use libi_launch::options::{Agent, Engine, LaunchOptions, Programs};

use crate::scenario::Scenario;
use crate::world::{Cluster, Happening, Process};

/// What a program prints when it starts, and when it ends by itself.
const LINE: &[u8] = b"a line of a program\n";
/// The time after which the front end knows what has happened to a program.
const PROPAGATION: Duration = Duration::from_secs(20);
/// The exit that is reported for a program that could not be started.
const NOT_EXECUTED: Exit = Exit::Code(126);

/// What the programs of a session may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AgentTrouble {
    programs: Programs,
    /// The fraction of hosts that do not have the program.
    missing: f64,
    /// The fractions of programs that cannot be started, that join, that end by themselves, and
    /// that ignore the signal to end.
    not_started: f64,
    joins: f64,
    exits: f64,
    stubborn: f64,
    /// Whether some close their descriptors, and run on.
    close: bool,
}

impl AgentTrouble {
    /// Programs that never join, and end.
    pub(crate) fn ending() -> Self {
        let (missing, not_started, joins, stubborn) = Default::default();
        Self { programs: Programs::Any, missing, not_started, joins, exits: 1.0, stubborn, close: false }
    }
}

impl AgentTrouble {
    /// Programs that never join, some of which end in three seconds, and the others when asked to.
    pub(crate) fn lasting() -> Self {
        Self { exits: 0.5, ..Self::ending() }
    }
}

impl AgentTrouble {
    /// Programs that all join: late if they may be any, and otherwise before the session is up.
    pub(crate) fn joining(late: bool) -> Self {
        let programs = if late { Programs::Any } else { Programs::Linked };
        Self { programs, joins: 1.0, ..Self::ending() }
    }
}

impl PlainPrograms {
    /// How many lines each rank has printed, and how many of them were read.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (Rank, (usize, usize))> {
        let read = |rank| self.read.get(rank).copied().unwrap_or(0);
        self.printed.iter().map(move |(rank, printed)| (*rank, (*printed, read(rank))))
    }
}

/// What a program does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramFate {
    NotStarted,
    Joins(Duration),
    Exits(Duration, i32),
    RunsOn { ignores_signals: bool },
}

/// A program that was started by an agent, and never joins.
#[derive(Debug)]
struct Plain {
    rank: Rank,
    ignores_signals: bool,
}

/// The programs of a session.
#[derive(Debug, Default)]
pub(crate) struct PlainPrograms {
    running: BTreeMap<(Id, LinkId), Plain>,
    /// The rank behind each link of an agent.
    ranks: BTreeMap<(Id, LinkId), Rank>,
    /// How often each rank was started.
    starts: BTreeMap<Rank, u32>,
    ends: BTreeMap<Rank, (Instant, Exit)>,
    joins: BTreeMap<Rank, Instant>,
    /// How many lines each rank has printed, and how many of them were read.
    printed: BTreeMap<Rank, usize>,
    read: BTreeMap<Rank, usize>,
    /// Frames for links of programs that have not joined.
    held: BTreeMap<(Id, LinkId), Vec<Vec<u8>>>,
    carried: BTreeSet<(Id, LinkId)>,
    pub(crate) wrong: Option<String>,
}

impl Scenario {
    /// The scenario of a seed with agents. Drawn from a separate stream.
    pub(crate) fn with_agents(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(30);
        let mut scenario = if rng.chance(0.4) { Self::with_srun(seed) } else { Self::with_settle(seed) };
        let mut fraction = |of: [f64; 4]| of[rng.below(4) as usize];
        let programs = [Programs::Any, Programs::Linked][usize::from(fraction([0.0, 0.0, 0.0, 1.0]) > 0.5)];
        scenario.agents = Some(AgentTrouble {
            programs,
            missing: fraction([0.0, 0.0, 0.0, 0.1]),
            not_started: fraction([0.0, 0.0, 0.1, 0.5]),
            joins: fraction([0.0, 0.3, 0.8, 1.0]),
            exits: fraction([0.0, 0.3, 0.8, 1.0]),
            stubborn: fraction([0.0, 0.0, 0.2, 1.0]),
            close: true,
        });
        scenario
    }

    /// The agents start no programs.
    pub(crate) fn without_programs(&mut self) {
        if let Some(agents) = &mut self.agents {
            agents.programs = Programs::None;
        }
    }

    /// Whether the agents start no programs.
    pub(crate) fn is_without_programs(&self) -> bool {
        self.agents.is_some_and(|agents| agents.programs == Programs::None)
    }

    /// Whether members are processes that join before the session is up.
    pub(crate) fn members_join(&self) -> bool {
        self.agents.is_none_or(|agents| agents.programs == Programs::Linked)
    }

    pub(crate) fn has_any_programs(&self) -> bool {
        self.agents.is_some_and(|agents| agents.programs == Programs::Any)
    }

    /// Whether the leaders are not agents by the options, but lead their hosts apart from their
    /// programs. Files are staged by agents alone.
    pub(crate) fn is_apart(&self) -> bool {
        let is_linked = self.agents.is_some_and(|agents| agents.programs == Programs::Linked);
        is_linked && self.staging.is_none() && self.seed % 2 == 1
    }

    /// Adds the agents to the options of the launch.
    pub(crate) fn agent_options(&self, options: LaunchOptions) -> LaunchOptions {
        let Some(agents) = self.agents else { return options.engine(Engine::InProgram) };
        if self.is_apart() {
            return options.engine(Engine::Apart);
        }
        options.agent(Agent::new(OsBytes::try_from("agent").unwrap())).programs(agents.programs)
    }

    /// Whether hosts may fail because they do not have the program.
    pub(crate) fn may_lack_programs(&self) -> bool {
        self.has_any_programs() && self.agents.is_some_and(|agents| agents.missing > 0.0)
    }

    /// Whether the machine of this name does not have the program.
    fn lacks_program(&self, name: &str) -> bool {
        let digits: u64 = name.bytes().fold(0, |all, byte| all << 5 ^ u64::from(byte));
        let mut rng = Rng::new(self.seed).fork(31).fork(digits);
        self.agents.is_some_and(|agents| rng.chance(agents.missing))
    }

    fn program_fate(&self, rank: Rank) -> ProgramFate {
        let Some(agents) = self.agents else { return ProgramFate::NotStarted };
        let mut rng = Rng::new(self.seed).fork(32).fork(u64::from(rank.0));
        let after = Duration::from_micros(rng.below(3_000_000));
        if rng.chance(agents.not_started) {
            ProgramFate::NotStarted
        } else if rng.chance(agents.joins) {
            ProgramFate::Joins(after)
        } else if rng.chance(agents.exits) {
            ProgramFate::Exits(after, rng.below(3) as i32)
        } else {
            ProgramFate::RunsOn { ignores_signals: rng.chance(agents.stubborn) }
        }
    }
}

impl Cluster {
    /// An agent looks for its programs.
    pub(crate) fn find_programs(&mut self, from: Id, agenda: &mut Agenda<Self>) {
        self.has_its_files(from, agenda.now());
        let found = match self.scenario.lacks_program(&self.processes[from.0 as usize].name) {
            true => Err("tool: not found".to_owned()),
            false => Ok(()),
        };
        agenda.tell(agenda.now(), from, Event::ProgramsFound(found).into());
    }

    /// An agent starts a program.
    pub(crate) fn start_program(
        &mut self,
        from: Id,
        start: StartId,
        (link, rank): (LinkId, Rank),
        agenda: &mut Agenda<Self>,
    ) {
        self.plain.ranks.insert((from, link), rank);
        *self.plain.starts.entry(rank).or_default() += 1;
        let now = agenda.now();
        let fate = self.scenario.program_fate(rank);
        if fate == ProgramFate::NotStarted {
            self.plain.ends.insert(rank, (now, NOT_EXECUTED));
            return agenda.tell(now, from, Event::NotStarted(start, "Exec format error".to_owned()).into());
        }
        self.await_program(from, link);
        agenda.tell(now, from, Event::Started(start).into());
        let ignores_signals = fate == ProgramFate::RunsOn { ignores_signals: true };
        self.plain.running.insert((from, link), Plain { rank, ignores_signals });
        self.program_prints(from, link, rank, agenda);
        if rank.0 % 5 == 1 && self.scenario.agents.is_some_and(|agents| agents.close) {
            // It closes its descriptors, and runs on.
            self.arrive(from, link, Event::Closed(link), agenda);
            return;
        }
        match fate {
            ProgramFate::Joins(after) => agenda.plan(now + after, Happening::ProgramJoins(from, link)),
            ProgramFate::Exits(after, code) => {
                agenda.plan(now + after, Happening::ProgramExits(from, link, Exit::Code(code)));
            }
            _ => {}
        }
    }

    fn program_prints(&mut self, from: Id, link: LinkId, rank: Rank, agenda: &mut Agenda<Self>) {
        if self.scenario.folds.is_none() {
            *self.plain.printed.entry(rank).or_default() += 1;
            self.arrive(from, link, Event::Printed(link, Stream::Out, LINE.to_vec()), agenda);
        }
        for text in self.common_text(rank) {
            self.arrive(from, link, Event::Printed(link, Stream::Err, text), agenda);
        }
    }

    /// A program ends.
    pub(crate) fn program_exits(&mut self, from: Id, link: LinkId, exit: Exit, agenda: &mut Agenda<Self>) {
        let Some(Plain { rank, .. }) = self.plain.running.remove(&(from, link)) else { return };
        if !self.is_running(from) {
            return;
        }
        self.plain.ends.insert(rank, (agenda.now(), exit));
        if self.scenario.folds.is_none_or(|folds| folds.at_end) {
            self.program_prints(from, link, rank, agenda);
        }
        if self.scenario.program_fate(rank) != (ProgramFate::RunsOn { ignores_signals: false }) {
            // Another process may hold the link.
            self.arrive(from, link, Event::Closed(link), agenda);
        }
        self.program_ended(from, link, exit, agenda);
    }

    /// A program calls `Member::init`.
    pub(crate) fn program_joins(&mut self, from: Id, link: LinkId, agenda: &mut Agenda<Self>) {
        let Some(Plain { rank, .. }) = self.plain.running.remove(&(from, link)) else { return };
        if !self.is_running(from) {
            return;
        }
        self.plain.joins.insert(rank, agenda.now());
        let agent = &self.processes[from.0 as usize];
        let (attempt, name) = (agent.attempt, agent.name.clone());
        self.joins((from, link), (MemberRole::Local(rank), attempt), name, None, agenda);
    }

    /// A signal for a program.
    pub(crate) fn signal_program(&mut self, from: Id, link: LinkId, signal: i32, agenda: &mut Agenda<Self>) {
        self.signal_process(from, link, signal, agenda);
        let plain = self.plain.running.get(&(from, link)).filter(|plain| !plain.ignores_signals);
        if plain.is_some() && signal == 15 {
            self.program_exits(from, link, Exit::Signal(signal), agenda);
        }
    }

    /// A process that an agent has started is killed, or its agent ends.
    pub(crate) fn program_is_killed(&mut self, from: Id, link: LinkId) {
        self.plain.running.remove(&(from, link));
        self.process_is_killed(from, link);
    }

    /// Checks that no agent has to be killed when the session ends: it kills its programs in time.
    /// Where the ways to all levels of the tree take long, there may not be enough.
    pub(crate) fn check_kill_of_agent(&mut self, whom: Option<Id>, now: Instant) {
        let Some(process) = whom.map(|id| &self.processes[id.0 as usize]) else { return };
        let is_agent = matches!(process.place, Some(MemberRole::Leader(_))) && self.scenario.agents.is_some();
        let is_ending = now >= Instant::ZERO + self.scenario.ends && process.told_up;
        let is_well = !self.scenario.has_faults() && !self.was_cut && process.alive && !process.frozen;
        let ways = (self.scenario.latency + self.scenario.direct_latency) * 4 * (self.deepest() + 1);
        if is_agent && is_ending && is_well && ways < self.scenario.rules.kill_grace {
            self.plain.wrong = Some(format!("an agent had to be killed: {process:?}"));
        }
    }

    /// How many programs this process has started.
    pub(crate) fn programs_of(&self, id: Id) -> usize {
        self.plain.ranks.range((id, LinkId::PARENT)..).take_while(|((of, _), _)| *of == id).count()
    }

    /// The rank of the program behind a link of an agent.
    pub(crate) fn program_rank(&self, from: Id, link: LinkId) -> Option<Rank> {
        self.plain.ranks.get(&(from, link)).copied()
    }

    /// Keeps a frame for a program that has not joined; returns whether it does.
    pub(crate) fn holds_frame(
        &mut self,
        from: Id,
        link: LinkId,
        frame: &[u8],
        agenda: &Agenda<Self>,
    ) -> bool {
        let holds = agenda.machine(from).is_some_and(|node| !node.carries_data(link))
            && !self.plain.carried.contains(&(from, link));
        if holds {
            self.plain.held.entry((from, link)).or_default().push(frame.to_vec());
        }
        holds
    }

    /// The frames for a program that has joined are sent.
    pub(crate) fn carry(&mut self, from: Id, link: LinkId, agenda: &mut Agenda<Self>) {
        if !self.plain.carried.insert((from, link)) {
            self.plain.wrong = Some(format!("{link} of {from:?} carries data twice"));
        }
        for frame in self.plain.held.remove(&(from, link)).unwrap_or_default() {
            self.send(from, link, frame, agenda);
        }
    }

    /// The front end is told what a rank has printed to its standard output.
    pub(crate) fn read_line(&mut self, rank: Rank, text: &[u8]) {
        let lines = text.windows(LINE.len()).filter(|part| *part == LINE).count();
        *self.plain.read.entry(rank).or_default() += lines;
    }

    /// Whether this member joined so late that it may not know yet that the session is up.
    pub(crate) fn has_just_joined(&self, place: Option<MemberRole>, now: Instant) -> bool {
        let Some(MemberRole::Local(rank)) = place else { return false };
        self.plain.joins.get(&rank).is_some_and(|at| now < *at + PROPAGATION)
    }

    /// Whether an agent that lives has a program that runs.
    pub(crate) fn has_programs(&self) -> bool {
        self.plain.running.keys().any(|(agent, _)| self.is_running(*agent))
    }
}

/// Without faults, each program of a host in the session is started once, its output is read, and
/// its end is reported.
pub(crate) fn checks(scenario: &Scenario, world: &Cluster, front: &Node, now: Instant) -> Result<(), String> {
    if let Some(wrong) = &world.plain.wrong {
        return Err(wrong.clone());
    }
    let up = world.up_at();
    let Some(up) = up.filter(|_| scenario.has_any_programs()) else { return Ok(()) };
    for (host, known) in (0..).map(HostIndex).zip(front.host_states()) {
        let name = world.starts.iter().rfind(|start| start.host == host).map(|start| &start.name);
        if *known == HostState::Joined && name.is_some_and(|name| scenario.lacks_program(name)) {
            return Err(format!("{host} has joined without its program"));
        }
    }
    if let Some((rank, times)) = world.plain.starts.iter().find(|(_, times)| **times > 1) {
        return Err(format!("{rank} was started {times} times"));
    }
    let ended = world.notices.iter().filter_map(|(_, notice)| match notice {
        Notice::Exited(rank, exit, None) => Some((rank, exit)),
        _ => None,
    });
    for (rank, exit) in ended {
        // One that has joined may be killed, too.
        let is_true = world.plain.ends.get(rank).is_some_and(|(_, own)| own == exit);
        if !is_true && !world.plain.joins.contains_key(rank) {
            return Err(format!("{rank} is reported as ended by {exit:?}, and has not ended"));
        }
    }
    let settled = up + PROPAGATION < now && world.last_fault == Instant::ZERO;
    if scenario.has_faults() || world.was_cut || !settled {
        return Ok(());
    }
    for (host, known) in (0..).map(HostIndex).zip(front.host_states()) {
        let is_lost =
            world.notices.iter().any(|(_, it)| matches!(it, Notice::Lost(lost, _) if *lost == host));
        if *known != HostState::Joined || is_lost {
            continue;
        }
        let mut ranks = (host.0 * scenario.members..(host.0 + 1) * scenario.members).map(Rank);
        if let Some(rank) = ranks.find(|rank| !world.plain.starts.contains_key(rank)) {
            return Err(format!("{rank} of {host} was not started"));
        }
    }
    let is_lost = |rank: Rank| {
        let host = HostIndex(rank.0 / scenario.members);
        world.notices.iter().any(|(_, it)| matches!(it, Notice::Lost(lost, _) if *lost == host))
    };
    // An end is reported behind the output, which each process on the way may hold.
    let known_after = PROPAGATION + scenario.folds.map_or(Duration::ZERO, |folds| folds.longest_held(world));
    for (rank, (at, exit)) in world.plain.ends.iter().filter(|(rank, _)| !is_lost(**rank)) {
        let reported =
            world.notices.iter().filter(|(_, it)| matches!(it, Notice::Exited(of, ..) if of == rank));
        let reported: Vec<_> = reported.map(|(_, notice)| notice).collect();
        if *at + known_after < now && reported != [&Notice::Exited(*rank, *exit, None)] {
            return Err(format!("{rank} has ended with {exit:?}, but this was reported: {reported:?}"));
        }
    }
    for (rank, at) in world.plain.joins.iter().filter(|(rank, _)| !is_lost(**rank)) {
        let is_it = |process: &Process| process.place == Some(MemberRole::Local(*rank)) && process.told_up;
        if *at + PROPAGATION < now && !world.alive().any(|(_, process)| is_it(process)) {
            return Err(format!("{rank} joined at {at}, and is not in the session"));
        }
    }
    let unread = |rank: &Rank, lines: &usize| {
        let ended = world.plain.ends.get(rank).map_or(up, |(at, _)| *at);
        world.plain.read.get(rank) != Some(lines) && ended + known_after < now && !is_lost(*rank)
    };
    match world.plain.printed.iter().find(|(rank, lines)| unread(rank, lines)) {
        Some((rank, lines)) if scenario.reads.is_some() => {
            let read = world.plain.read.get(rank);
            Err(format!("{rank} has printed {lines} lines, of which {read:?} were read"))
        }
        _ => Ok(()),
    }
}
