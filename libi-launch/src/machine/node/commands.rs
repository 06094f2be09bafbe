//! Commands in a session that is up: the front end sends them down the tree, agents start their
//! processes. The head of `commands.rs` tells how.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU16;

use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::Branch;
use libi_core::wire::Kind;

use super::programs::variables;
use super::{Effect, LinkId, Node, Notice, StartRequest};
use crate::failure::{Cause, Exit, Failure, Phase};
use crate::machine::child::Child;
use crate::machine::commands::{
    CommandEnd, CommandId, CommandProcesses, CommandRequest, CommandSignal, CommandSpec, CommandTable,
    LOWEST_NUMBER, Overdue, process_number,
};
use crate::machine::host_table::HostState;
use crate::machine::message::{ChildMessage, Ending, ParentMessage, Program};
use crate::machine::output_piece::{OutputPiece, Stream};
use crate::options::Output;

/// SIGKILL, which has this number on all systems.
const KILL: i32 = 9;

/// The commands of a session, as one node knows them.
#[derive(Debug, Default)]
pub(super) struct Commands {
    /// The ranks below each child that leads a host.
    below: Vec<(LinkId, Ranks)>,
    /// At an agent.
    processes: CommandProcesses,
    /// At the front end.
    table: CommandTable,
    /// Commands that have passed here lately, which a child that is adopted may have missed; and, at an
    /// agent, those that it knows.
    recent: VecDeque<(Instant, CommandSpec)>,
    known: BTreeSet<u32>,
}

impl Commands {
    /// Whether all processes of this node have ended.
    pub(super) fn have_ended(&self) -> bool {
        self.processes.is_empty()
    }

    /// The next deadline of a command, or of the processes of this node.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.processes.next_deadline().into_iter().chain(self.table.next_deadline()).min()
    }

    /// The session is up, with these branches.
    pub(super) fn set_branches(&mut self, branches: &[Branch]) {
        let leaders = branches.iter().filter(|branch| !branch.local);
        self.below = leaders.map(|branch| (branch.link, branch.ranks.clone())).collect();
    }

    /// Further members are behind a branch.
    pub(super) fn extend_branch(&mut self, link: LinkId, new: &Ranks) {
        let of_link = self.below.iter_mut().filter(|(of, _)| *of == link);
        of_link.for_each(|(_, ranks)| ranks.add_all(new));
    }

    /// These members are behind another link now.
    pub(super) fn leave_branches(&mut self, ranks: &Ranks) {
        self.below.iter_mut().for_each(|(_, below)| below.remove_all(ranks));
    }

    /// A branch is new.
    pub(super) fn add_branch(&mut self, link: LinkId, ranks: Ranks) {
        self.below.push((link, ranks));
    }
}

/// The front end.
impl Node {
    /// The user of the front end runs a command.
    pub(super) fn spawn(&mut self, request: CommandRequest, now: Instant, out: &mut Vec<Effect>) {
        let Some(front) = self.front_end() else { return };
        let all = front.hosts().count() as u32; // indices have 32 bits
        let chosen = (&request.hosts[..], request.per_host.get());
        let deadline = request.timeout.map_or(Instant::FAR_FUTURE, |timeout| now + timeout);
        let mut notices = Vec::new();
        let lowest = self.size.max(LOWEST_NUMBER);
        match self.commands.table.begin(request.command, chosen, (lowest, all), deadline) {
            None => self.has_no_numbers(&request, &mut notices),
            Some(_) if request.hosts.is_empty() => self.commands.table.close_empty(&mut notices),
            Some(first) => {
                self.give_up_hosts_that_are_lost(&request.hosts, now, &mut notices);
                let hosts = self.commands.table.open_hosts(request.command).unwrap_or_default().1;
                let (per_host, program) = (request.per_host.get(), request.program);
                let spec = CommandSpec { first, per_host, ranks: self.ranks_of(&hosts), program };
                self.keep_command(&spec, now);
                if !self.pass_command_on(&spec, out) {
                    self.commands.table.not_sent(first, "it takes too long to describe", &mut notices);
                }
            }
        }
        out.extend(notices.into_iter().map(Effect::Notify));
    }

    /// The user of the front end signals a command: all of its processes, or those on these hosts.
    pub(super) fn signal_command(
        &mut self,
        command: CommandId,
        hosts: Option<&[HostIndex]>,
        signal: i32,
        out: &mut Vec<Effect>,
    ) {
        let Some((first, open)) = self.commands.table.open_hosts(command) else { return };
        let hosts: Vec<_> =
            open.into_iter().filter(|host| hosts.is_none_or(|chosen| chosen.contains(host))).collect();
        let ranks = self.ranks_of(&hosts);
        self.pass_signal_on(&CommandSignal { first, ranks, signal }, out);
    }

    /// The processes of a command that cannot be numbered are not started.
    fn has_no_numbers(&self, request: &CommandRequest, notices: &mut Vec<Notice>) {
        let why = "the session has no numbers left for its processes";
        notices.extend(request.refused(why));
        notices.push(Notice::CommandDone(request.command));
    }

    /// Processes on hosts that are not in the session any more are done.
    fn give_up_hosts_that_are_lost(&mut self, hosts: &[HostIndex], now: Instant, notices: &mut Vec<Notice>) {
        for host in hosts {
            let failure = match self.front_end().and_then(|front| front.host(*host)) {
                Some(HostState::Joined) if self.stage.is_up() => continue,
                Some(HostState::Failed(failure)) => failure.clone(),
                _ => self.cancelled(now),
            };
            self.commands.table.host_lost(*host, &failure, notices);
        }
    }

    fn cancelled(&self, now: Instant) -> Failure {
        Failure::without_evidence(Phase::Joined, Cause::Cancelled, now.since(self.began))
    }

    /// The ranks of these hosts.
    fn ranks_of(&self, hosts: &[HostIndex]) -> Ranks {
        let mut ranks = Ranks::new();
        for block in hosts.iter().filter_map(|host| self.launcher.spec(*host)).flat_map(|spec| &spec.blocks) {
            ranks.add_run(block.first.0, block.count);
        }
        ranks
    }

    /// A report that may concern commands; returns whether it is of no other concern.
    pub(super) fn note_command_report(&mut self, report: &ChildMessage, out: &mut Vec<Effect>) -> bool {
        let ChildMessage::CommandEnded(number, end, printed) = report else { return false };
        let mut notices = Vec::new();
        self.commands.table.ended(*number, (end.clone(), *printed), &mut notices);
        out.extend(notices.into_iter().map(Effect::Notify));
        true
    }

    /// A report about this host was recorded: if the host is lost, so are its processes.
    pub(super) fn note_lost_host(&mut self, report: &ChildMessage, out: &mut Vec<Effect>) {
        let (ChildMessage::Failed(host, ..) | ChildMessage::Relaunch(host, ..)) = report else { return };
        let known = self.front_end().and_then(|front| front.host(*host));
        let Some(HostState::Failed(failure)) = known else { return };
        let (failure, mut notices) = (failure.clone(), Vec::new());
        self.commands.table.host_lost(*host, &failure, &mut notices);
        out.extend(notices.into_iter().map(Effect::Notify));
    }

    /// Passes output of a command to the user; returns whether it was of a command. What a process
    /// prints after its outcome is dropped.
    pub(super) fn notify_command_output(&mut self, piece: &OutputPiece, out: &mut Vec<Effect>) -> bool {
        let Some(number) = piece.ranks.lowest().filter(|number| number.0 >= self.size) else {
            return false;
        };
        let length = piece.text.len();
        let Some(process) = self.commands.table.process(number) else {
            self.relay.grant(length as u32); // cut to the size of a frame
            return true;
        };
        out.push(Effect::Notify(Notice::CommandOutput(process, piece.stream, piece.text.clone())));
        let mut notices = Vec::new();
        self.commands.table.passed(number, length, &mut notices);
        out.extend(notices.into_iter().map(Effect::Notify));
        true
    }

    /// The session is over: no process of a command is left.
    pub(super) fn close_commands(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let (failure, mut notices) = (self.cancelled(now), Vec::new());
        self.commands.table.close(&failure, &mut notices);
        out.extend(notices.into_iter().map(Effect::Notify));
    }
}

/// Every node.
impl Node {
    /// Sends a command to the children above the chosen hosts; false if it is too long.
    fn pass_command_on(&self, spec: &CommandSpec, out: &mut Vec<Effect>) -> bool {
        let message = |ranks| ParentMessage::Run(Box::new(CommandSpec { ranks, ..spec.clone() }));
        self.send_towards(&spec.ranks, message, out)
    }

    fn pass_signal_on(&self, signal: &CommandSignal, out: &mut Vec<Effect>) {
        let message = |ranks| ParentMessage::SignalCommand(CommandSignal { ranks, ..signal.clone() });
        self.send_towards(&signal.ranks, message, out);
    }

    /// Sends a message to each child above one of these ranks, with those below that child; false if
    /// one is too long.
    pub(super) fn send_towards(
        &self,
        ranks: &Ranks,
        message: impl Fn(Ranks) -> ParentMessage,
        out: &mut Vec<Effect>,
    ) -> bool {
        let mut all_fit = true;
        for (link, below) in &self.commands.below {
            let there = ranks.intersection(below);
            if !there.is_empty() && self.children.get(*link).is_some_and(Child::is_up) {
                all_fit &= Self::send(*link, Kind::Control, &message(there), out);
            }
        }
        all_fit
    }

    /// Children that are adopted may have missed a command for as long as a loss takes to be noticed.
    fn keep_command(&mut self, spec: &CommandSpec, now: Instant) {
        if self.reconnects {
            let kept = self.options.rules.peer_timeout * 3;
            self.commands.recent.retain(|(at, _)| now < *at + kept);
            self.commands.recent.push_back((now, spec.clone()));
        }
    }

    /// A child that was adopted, with these ranks, gets the commands that it may have missed.
    pub(super) fn repeat_commands(&self, link: LinkId, ranks: &Ranks, out: &mut Vec<Effect>) {
        for (_, spec) in &self.commands.recent {
            let there = spec.ranks.intersection(ranks);
            if !there.is_empty() {
                let spec = CommandSpec { ranks: there, ..spec.clone() };
                Self::send(link, Kind::Control, &ParentMessage::Run(Box::new(spec)), out);
            }
        }
    }

    /// Whether this is a process of a command.
    pub(super) fn is_of_command(&self, link: LinkId) -> bool {
        self.commands.processes.contains(link)
    }

    /// A command from the parent.
    pub(super) fn run_command(&mut self, spec: CommandSpec, now: Instant, out: &mut Vec<Effect>) {
        if !self.stage.is_up() {
            return; // the front end gives up what has not ended when the session is over
        }
        // The ranks below a child are some of those that fitted into the message from the parent.
        self.keep_command(&spec, now);
        self.pass_command_on(&spec, out);
        let Some((host, _)) = self.host().filter(|_| self.is_chosen(&spec.ranks)) else { return };
        // Another parent sends what an earlier one may not have passed on.
        if self.reconnects && !self.commands.known.insert(spec.first) {
            return;
        }
        let CommandSpec { first, per_host, program, .. } = spec;
        let Some(count) = NonZeroU16::new(per_host) else { return };
        for index in 0..u32::from(per_host) {
            let Some(number) = process_number(first, per_host, host, index) else { return };
            let mut program = program.clone();
            program.env.extend(self.command_variables(index, count));
            self.start_process(number, first, program, out);
        }
    }

    /// Whether this node is the agent of a host with one of these ranks.
    fn is_chosen(&self, ranks: &Ranks) -> bool {
        self.is_agent() && self.identity().is_some_and(|identity| ranks.contains(identity.first_rank()))
    }

    fn command_variables(
        &self,
        index: u32,
        count: NonZeroU16,
    ) -> impl Iterator<Item = libi_core::dist::EnvVar> + use<> {
        let host = self.host().map(|(_, name)| name.to_owned()).unwrap_or_default();
        variables([
            ("LIBI_LOCAL_RANK", index.to_string()),
            ("LIBI_LOCAL_SIZE", count.to_string()),
            ("LIBI_HOST", host),
        ])
    }

    fn start_process(&mut self, number: Rank, first: u32, program: Program, out: &mut Vec<Effect>) {
        let (start, link) = (self.starts.next_id(), self.children.next_link());
        self.starts.add(start, link);
        self.commands.processes.add(link, number, first);
        out.push(Effect::Start(start, StartRequest::Process(link, program)));
    }

    /// A signal from the parent for processes of a command.
    pub(super) fn on_command_signal(&mut self, signal: &CommandSignal, out: &mut Vec<Effect>) {
        self.pass_signal_on(signal, out);
        if self.is_chosen(&signal.ranks) {
            self.signal_processes(Some(signal.first), signal.signal, out);
        }
    }

    fn signal_processes(&mut self, first: Option<u32>, signal: i32, out: &mut Vec<Effect>) {
        let links = self.commands.processes.links(first);
        let effect = |link| if signal == KILL { Effect::Kill(link) } else { Effect::Signal(link, signal) };
        out.extend(links.into_iter().map(effect));
    }

    /// Output that a process of a command has printed; returns whether it is one.
    pub(super) fn process_printed(
        &mut self,
        link: LinkId,
        stream: Stream,
        text: &[u8],
        now: Instant,
    ) -> bool {
        if !self.commands.processes.contains(link) {
            return false;
        }
        if self.options.output != Output::Dropped
            && let Some(rank) = self.commands.processes.printed(link, text.len())
        {
            self.buffer_output(link, false, OutputPiece::new(rank, stream, text.to_vec()), now);
        }
        true
    }

    /// A process of a command has exited; returns whether it is one.
    pub(super) fn process_exited(&mut self, link: LinkId, exit: Exit) -> bool {
        let ended = self.commands.processes.exited(link, exit);
        self.report_end(ended)
    }

    /// A process of a command was not started; returns whether it is one.
    pub(super) fn process_not_started(&mut self, link: LinkId, why: &Cause) -> bool {
        let why = match why {
            Cause::NotStarted(why) | Cause::OutOfResources(why) => why.clone(),
            other => other.to_string(),
        };
        let ended = self.commands.processes.not_started(link, why);
        self.report_end(ended)
    }

    fn report_end(&mut self, ended: Option<(Rank, CommandEnd, u64)>) -> bool {
        let Some((number, end, printed)) = ended else { return false };
        self.reports.push(ChildMessage::CommandEnded(number, end, printed));
        true
    }

    /// The session ends: the processes of this node have until then.
    pub(super) fn end_processes(&mut self, ending: Ending, now: Instant, out: &mut Vec<Effect>) {
        self.signal_processes(None, ending.signal, out);
        self.commands.processes.end_by(now + ending.grace, Overdue::Kill);
    }

    /// The parent is lost: the processes of this node are killed.
    pub(super) fn kill_processes(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.signal_processes(None, KILL, out);
        self.commands.processes.end_by(now + self.options.rules.kill_grace, Overdue::GiveUp);
    }

    /// Handles the deadlines of commands.
    pub(super) fn expire_commands(&mut self, now: Instant, out: &mut Vec<Effect>) {
        match self.commands.processes.overdue(now) {
            Some(Overdue::Kill) => self.kill_processes(now, out),
            Some(Overdue::GiveUp) => self.commands.processes.give_up(),
            None => {}
        }
        let mut notices = Vec::new();
        while let Some((first, hosts)) = self.commands.table.expire(now, &mut notices) {
            let ranks = self.ranks_of(&hosts);
            self.pass_signal_on(&CommandSignal { first, ranks, signal: KILL }, out);
        }
        out.extend(notices.into_iter().map(Effect::Notify));
    }
}
