//! Commands in sessions of agents, and what must hold of them.
//!
//! Commands are drawn at random, with random hosts, processes and deadlines, and are signalled at
//! random. Their processes print, cannot be started, end by themselves or never, and ignore signals,
//! while agents and front ends are killed and frozen.

mod checks;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::time::Duration;

use libi_core::dist::OsBytes;
use libi_core::ids::{HostIndex, StartId};
use libi_core::join::MemberRole;
use libi_core::sim::rng::Rng;
use libi_core::sim::{Agenda, MachineId as Id};
use libi_core::time::Instant;
use libi_launch::failure::Exit;
use libi_launch::machine::{
    CommandId, CommandOutcome, CommandProcess, CommandRequest, Event, HostState, LinkId, Notice, Program,
    Stream,
};

pub(crate) use self::checks::{MUCH_OUTPUT, checks, have_printed_much};
use crate::scenario::{Scenario, UP_TIME};
use crate::world::{Cluster, FRONT, Happening};

/// The longest time for which a process runs that ends by itself.
const LONGEST: Duration = Duration::from_secs(3);
/// The longest time for which an agent cannot start a process.
const LONGEST_START: Duration = Duration::from_millis(200);
/// The most that a process prints at once.
const MOST_AT_ONCE: u64 = 20_000;

/// What the user does with commands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommandAction {
    /// Runs one: everything else is drawn from this number.
    Spawn(u64),
    /// Signals a command that was run, on some or all of its hosts.
    Signal(u64),
}

/// What happens to the processes of commands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CommandHappening {
    Acts(CommandAction),
    /// A process is started that has waited for that.
    Begins(Id, LinkId),
    /// A process prints, and some time later it prints again or ends.
    Prints(Id, LinkId),
}

/// A command that was run.
#[derive(Debug)]
struct Asked {
    at: Instant,
    hosts: BTreeSet<HostIndex>,
    per_host: u32,
    by: Option<Instant>,
    /// Whether its processes end by themselves, and soon.
    is_short: bool,
    was_signalled: bool,
    outcomes: BTreeMap<CommandProcess, (Instant, CommandOutcome)>,
    done: Option<Instant>,
}

/// A process of a command, as it really is.
#[derive(Debug)]
struct Running {
    process: CommandProcess,
    can_start: bool,
    /// How often it still prints.
    prints: u64,
    ignores_signals: bool,
    runs_on: bool,
}

/// The commands of a session.
#[derive(Debug, Default)]
pub(crate) struct Commands {
    asked: BTreeMap<CommandId, Asked>,
    /// Processes whose start has not begun.
    waiting: BTreeMap<(Id, LinkId), (StartId, Running)>,
    running: BTreeMap<(Id, LinkId), Running>,
    started: BTreeSet<CommandProcess>,
    printed: BTreeMap<CommandProcess, Vec<u8>>,
    read: BTreeMap<CommandProcess, Vec<u8>>,
    ends: BTreeMap<CommandProcess, CommandOutcome>,
    counter: u64,
    wrong: Option<String>,
}

impl Scenario {
    /// The scenario of a seed with commands. Drawn from a separate stream.
    pub(crate) fn with_commands(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(40);
        let mut scenario = Self::with_agents(seed);
        if rng.chance(0.6) {
            scenario.without_programs();
        }
        if rng.chance(0.5) {
            // Most sessions come up, and most agents live.
            scenario.bad = 0.0;
            scenario.deaths.clear();
            scenario.freezes.clear();
        }
        let moment = |rng: &mut Rng| Duration::from_micros(rng.below(UP_TIME.as_micros() as u64));
        for nth in 0..[1, 5, 30][rng.below(3) as usize] {
            let spawn = (moment(&mut rng), CommandAction::Spawn(rng.bits()));
            // Many commands on many hosts print too much for a test.
            if nth * scenario.hosts < 3_000 {
                scenario.commands.push(spawn);
            }
        }
        for _ in 0..[0, 0, 3, 20][rng.below(4) as usize] {
            scenario.commands.push((moment(&mut rng), CommandAction::Signal(rng.bits())));
        }
        // Agents that die while commands run.
        for _ in 0..[0, 0, 0, 1, 4][rng.below(5) as usize] {
            scenario.deaths_after_up.push((moment(&mut rng), rng.bits()));
        }
        scenario
    }
}

impl Cluster {
    pub(crate) fn on_command_event(&mut self, what: CommandHappening, agenda: &mut Agenda<Self>) {
        match what {
            CommandHappening::Acts(CommandAction::Spawn(number)) => self.spawn(number, agenda),
            CommandHappening::Acts(CommandAction::Signal(number)) => self.signal_command(number, agenda),
            CommandHappening::Begins(agent, link) => self.begin_process((agent, link), agenda),
            CommandHappening::Prints(agent, link) => self.command_prints(agent, link, agenda),
        }
    }

    fn spawn(&mut self, number: u64, agenda: &mut Agenda<Self>) {
        if agenda.machine(FRONT).is_none() {
            return;
        }
        let mut rng = Rng::new(number);
        let command = CommandId(self.commands.asked.len() as u64 + 1);
        let share = [1.0, 1.0, 0.5, 0.1, 0.0][rng.below(5) as usize];
        let hosts: Vec<_> = (0..self.scenario.hosts).map(HostIndex).filter(|_| rng.chance(share)).collect();
        let per_host = NonZeroU16::new(1 + rng.below(3) as u16).unwrap();
        let millis = Duration::from_millis;
        let timeout = [None, None, Some(millis(rng.below(5_000))), Some(millis(60_000))];
        let timeout = timeout[rng.below(4) as usize];
        let is_short = rng.chance(0.6);
        let arg = |text: String| OsBytes::try_from(text.as_str()).unwrap();
        let executable = arg("command".to_owned());
        let args = vec![arg(command.0.to_string()), arg(u8::from(is_short).to_string())];
        let program = Program { executable, args, env: Vec::new(), cwd: None };
        let now = agenda.now();
        let asked = Asked {
            at: now,
            hosts: hosts.iter().copied().collect(),
            per_host: u32::from(per_host.get()),
            by: timeout.map(|timeout| now + timeout),
            is_short,
            was_signalled: false,
            outcomes: BTreeMap::new(),
            done: None,
        };
        self.commands.asked.insert(command, asked);
        let request = CommandRequest { command, program, hosts, per_host, timeout };
        agenda.tell(now, FRONT, Event::Spawn(Box::new(request)).into());
    }

    fn signal_command(&mut self, number: u64, agenda: &mut Agenda<Self>) {
        let mut rng = Rng::new(number);
        let count = self.commands.asked.len() as u64;
        let Some((&command, asked)) = self.commands.asked.iter_mut().nth(rng.below(count.max(1)) as usize)
        else {
            return;
        };
        asked.was_signalled = true;
        let hosts =
            rng.chance(0.5).then(|| asked.hosts.iter().copied().filter(|_| rng.chance(0.5)).collect());
        let signal = [2, 15, 9][rng.below(3) as usize];
        agenda.tell(agenda.now(), FRONT, Event::SignalCommand(command, hosts, signal).into());
    }

    /// An agent starts a process of a command.
    pub(crate) fn start_process(
        &mut self,
        from: Id,
        start: StartId,
        (link, program): (LinkId, &Program),
        agenda: &mut Agenda<Self>,
    ) {
        let number = |nth: usize| program.args.get(nth).map(|arg| arg.to_string().parse::<u64>().unwrap());
        let (command, is_short) = (CommandId(number(0).unwrap()), number(1) == Some(1));
        let index = program.env.iter().find(|variable| variable.name().as_bytes() == b"LIBI_LOCAL_RANK");
        let index = index.unwrap().value().to_string().parse().unwrap();
        let Some(MemberRole::Leader(host)) = self.processes[from.0 as usize].place else {
            self.commands.wrong = Some(format!("{from:?} leads no host, and starts a process"));
            return;
        };
        let process = CommandProcess { command, host, index };
        let asked = &self.commands.asked[&command];
        if !asked.hosts.contains(&host) || index >= asked.per_host || !self.commands.started.insert(process) {
            self.commands.wrong = Some(format!("{process:?} was not asked for, or is started twice"));
        }
        let of_process = |stream| {
            let rng = Rng::new(self.scenario.seed).fork(stream);
            rng.fork(command.0).fork(u64::from(host.0)).fork(index.into())
        };
        let mut rng = of_process(41);
        let can_start = !rng.chance(0.1);
        let runs_on = !is_short && rng.chance(0.3);
        let ignores_signals = !is_short && rng.chance(0.3);
        let running = Running { process, can_start, prints: rng.below(4), ignores_signals, runs_on };
        self.commands.waiting.insert((from, link), (start, running));
        let mut rng = of_process(44);
        if rng.chance(0.2) {
            let after = Duration::from_micros(rng.below(LONGEST_START.as_micros() as u64));
            let event = Happening::Command(CommandHappening::Begins(from, link));
            return agenda.plan(agenda.now() + after, event);
        }
        self.begin_process((from, link), agenda);
    }

    /// A process is started, unless its agent does not run or has cancelled that.
    fn begin_process(&mut self, (agent, link): (Id, LinkId), agenda: &mut Agenda<Self>) {
        if !self.is_running(agent) {
            return;
        }
        let Some((start, running)) = self.commands.waiting.remove(&(agent, link)) else { return };
        let now = agenda.now();
        if !running.can_start {
            let why = "No such file or directory".to_owned();
            self.commands.ends.insert(running.process, CommandOutcome::NotStarted(why.clone()));
            return agenda.tell(now, agent, Event::NotStarted(start, why).into());
        }
        self.await_program(agent, link);
        agenda.tell(now, agent, Event::Started(start).into());
        self.commands.running.insert((agent, link), running);
        self.plan_next(agent, link, agenda);
    }

    /// A process is not started, since it was to end by this signal, if it still waits for its start.
    pub(crate) fn cancel_process(&mut self, agent: Id, link: LinkId, signal: i32, agenda: &mut Agenda<Self>) {
        let Some((start, waiting)) = self.commands.waiting.remove(&(agent, link)) else { return };
        self.commands.ends.insert(waiting.process, CommandOutcome::Exited(Exit::Signal(signal)));
        agenda.tell(agenda.now(), agent, Event::StartCancelled(start, signal).into());
    }

    fn plan_next(&mut self, agent: Id, link: LinkId, agenda: &mut Agenda<Self>) {
        self.commands.counter += 1;
        let mut rng = Rng::new(self.scenario.seed).fork(42).fork(self.commands.counter);
        let longest = LONGEST.as_micros() as u64 / 4;
        let after = Duration::from_micros([0, rng.below(longest)][rng.below(2) as usize]);
        let event = Happening::Command(CommandHappening::Prints(agent, link));
        agenda.plan(agenda.now() + after, event);
    }

    fn command_prints(&mut self, agent: Id, link: LinkId, agenda: &mut Agenda<Self>) {
        if !self.is_running(agent) {
            return;
        }
        let Some(running) = self.commands.running.get_mut(&(agent, link)) else { return };
        let process = running.process;
        if running.prints == 0 {
            if !running.runs_on {
                self.command_exits(
                    agent,
                    link,
                    Exit::Code((process.index + process.host.0) as i32 % 3),
                    agenda,
                );
            }
            return;
        }
        let is_read = agenda.machine(agent).is_some_and(|node| node.reads_output());
        if !is_read && self.scenario.reads.is_none() {
            return; // it is blocked for good
        }
        if is_read {
            running.prints -= 1;
            self.commands.counter += 1;
            let mut rng = Rng::new(self.scenario.seed).fork(43).fork(self.commands.counter);
            let length = [10, MOST_AT_ONCE][rng.below(2) as usize];
            let (length, mut text) = (1 + rng.below(length), Vec::new());
            while (text.len() as u64) < length {
                text.extend(format!("{process:?} {} {}\n", self.commands.counter, text.len()).bytes());
            }
            self.commands.printed.entry(process).or_default().extend(&text);
            let stream = [Stream::Out, Stream::Err][rng.below(2) as usize];
            self.arrive(agent, link, Event::Printed(link, stream, text), agenda);
        }
        self.plan_next(agent, link, agenda);
    }

    fn command_exits(&mut self, agent: Id, link: LinkId, exit: Exit, agenda: &mut Agenda<Self>) {
        let Some(running) = self.commands.running.remove(&(agent, link)) else { return };
        self.commands.ends.insert(running.process, CommandOutcome::Exited(exit));
        self.program_ended(agent, link, exit, agenda);
    }

    /// A signal for what may be a process of a command.
    pub(crate) fn signal_process(&mut self, agent: Id, link: LinkId, signal: i32, agenda: &mut Agenda<Self>) {
        self.cancel_process(agent, link, signal, agenda);
        let running = self.commands.running.get(&(agent, link));
        if running.is_some_and(|running| !running.ignores_signals) {
            self.command_exits(agent, link, Exit::Signal(signal), agenda);
        }
    }

    /// What may be a process of a command is killed, or its agent dies.
    pub(crate) fn process_is_killed(&mut self, agent: Id, link: LinkId) {
        if let Some(running) = self.commands.running.remove(&(agent, link)) {
            self.commands.ends.insert(running.process, CommandOutcome::Exited(Exit::Signal(9)));
        }
    }

    /// Handles a notice of the front end about commands.
    pub(crate) fn on_command_notice(&mut self, notice: &Notice, agenda: &mut Agenda<Self>) {
        let now = agenda.now();
        let asked = |commands: &mut Commands, id: CommandId| -> Option<String> {
            let asked = commands.asked.get(&id)?;
            asked.done.is_some().then(|| format!("{id:?} was done, and then: {notice:?}"))
        };
        let mut wrong = None;
        match notice {
            Notice::CommandOutput(process, _, text) => {
                wrong = asked(&mut self.commands, process.command);
                if self.commands.asked[&process.command].outcomes.contains_key(process) {
                    wrong = Some(format!("{process:?} had its outcome, and prints"));
                }
                self.commands.read.entry(*process).or_default().extend(text);
                self.output_given(text.len(), agenda);
            }
            Notice::CommandEnded(process, outcome) => {
                wrong = asked(&mut self.commands, process.command);
                let known = self.commands.asked.get_mut(&process.command).unwrap();
                if known.outcomes.insert(*process, (now, outcome.clone())).is_some() {
                    wrong = Some(format!("{process:?} has a second outcome: {outcome:?}"));
                }
            }
            Notice::CommandDone(id) => {
                wrong = asked(&mut self.commands, *id);
                let known = self.commands.asked.get_mut(id).unwrap();
                known.done = Some(now);
                if known.outcomes.len() != known.hosts.len() * known.per_host as usize {
                    wrong = Some(format!("{id:?} is done with {} outcomes: {known:?}", known.outcomes.len()));
                }
                if known.by.is_some_and(|by| now > by.max(known.at)) {
                    wrong = Some(format!("{id:?} is done after its deadline: {known:?}"));
                }
            }
            _ => {}
        }
        self.commands.wrong = self.commands.wrong.take().or(wrong);
    }

    /// Whether an agent that lives has a process of a command that runs.
    pub(crate) fn has_processes(&self) -> bool {
        self.commands.running.keys().any(|(agent, _)| self.is_running(*agent))
    }

    /// Notes the hosts that the session comes up without.
    pub(crate) fn note_failed_hosts(&mut self, agenda: &Agenda<Self>) {
        let states = agenda.machine(FRONT).into_iter().flat_map(|front| front.host_states());
        let failed = (0..).map(HostIndex).zip(states).filter(|(_, known)| **known != HostState::Joined);
        self.failed_at_up = failed.map(|(host, _)| host).collect();
    }
}
