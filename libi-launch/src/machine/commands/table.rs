//! The commands of a session that are running, as the front end knows them. The head of `commands.rs`
//! draws the states of a process.

use std::collections::BTreeMap;

use libi_core::ids::{HostIndex, Rank};
use libi_core::time::Instant;

use super::{CommandEnd, CommandId, CommandOutcome, CommandProcess, process_number};
use crate::failure::Failure;
use crate::machine::contract::Notice;

/// The commands that are running, by the numbers of their first processes.
#[derive(Debug, Default)]
pub(in crate::machine) struct CommandTable {
    running: BTreeMap<u32, Command>,
    /// The number that the next command begins at, if no other has it.
    next: u32,
}

/// A command with a process that is not done.
#[derive(Debug)]
struct Command {
    id: CommandId,
    per_host: u16,
    /// How many numbers it has, for all hosts of the session.
    span: u32,
    deadline: Instant,
    open: BTreeMap<Rank, Open>,
}

/// A process that is not done.
#[derive(Debug, Default)]
struct Open {
    /// How many bytes of its output were passed on.
    passed: u64,
    /// How it ended, and how many bytes it had printed by then.
    held: Option<(CommandEnd, u64)>,
}

impl Command {
    fn process(&self, first: u32, number: Rank) -> CommandProcess {
        let place = number.0 - first;
        let per_host = u32::from(self.per_host);
        CommandProcess { command: self.id, host: HostIndex(place / per_host), index: place % per_host }
    }
}

impl CommandTable {
    /// Adds a command with these processes on each of these hosts; returns the number of its first
    /// process. `None` if the session, with so many members and hosts, has no numbers left for it.
    pub(in crate::machine) fn begin(
        &mut self,
        id: CommandId,
        (hosts, per_host): (&[HostIndex], u16),
        (members, all_hosts): (u32, u32),
        deadline: Instant,
    ) -> Option<u32> {
        let span = all_hosts.checked_mul(u32::from(per_host))?;
        let first = self.unused(members, span)?;
        let number = |host: HostIndex, index| process_number(first, per_host, host, index);
        let numbers = hosts.iter().flat_map(|host| (0..u32::from(per_host)).map(|index| (*host, index)));
        let open = numbers.filter_map(|(host, index)| Some((number(host, index)?, Open::default())));
        let command = Command { id, per_host, span, deadline, open: open.collect() };
        self.running.insert(first, command);
        self.next = first.saturating_add(span);
        Some(first)
    }

    /// The first of as many numbers, which no member and no running command has.
    fn unused(&self, members: u32, span: u32) -> Option<u32> {
        let mut begins = [self.next.max(members), members].into_iter();
        // Behind all that was given so far; then in the gaps, from the lowest number on.
        let fits = |first: u32| {
            let end = first.checked_add(span)?;
            let before = self.running.range(..end).next_back();
            before.is_none_or(|(other, command)| other.saturating_add(command.span) <= first).then_some(first)
        };
        let behind = self.running.iter().map(|(first, command)| first.saturating_add(command.span));
        begins.by_ref().chain(behind).find_map(fits)
    }

    /// The `first` of the command that this number belongs to, if it is running.
    fn owner(&self, number: Rank) -> Option<u32> {
        let (&first, command) = self.running.range(..=number.0).next_back()?;
        (number.0 - first < command.span).then_some(first)
    }

    /// The number of the first process of a command that is running, and its hosts that are not done.
    pub(in crate::machine) fn open_hosts(&self, id: CommandId) -> Option<(u32, Vec<HostIndex>)> {
        let (&first, command) = self.running.iter().find(|(_, command)| command.id == id)?;
        let mut hosts: Vec<_> =
            command.open.keys().map(|number| command.process(first, *number).host).collect();
        hosts.dedup();
        Some((first, hosts))
    }

    /// The process of this number that output comes from; `None` if it is done.
    pub(in crate::machine) fn process(&self, number: Rank) -> Option<CommandProcess> {
        let first = self.owner(number)?;
        let command = self.running.get(&first).filter(|command| command.open.contains_key(&number))?;
        Some(command.process(first, number))
    }

    /// Output of an open process was passed on.
    pub(in crate::machine) fn passed(&mut self, number: Rank, bytes: usize, notices: &mut Vec<Notice>) {
        let Some(first) = self.owner(number) else { return };
        let Some(open) = self.running.get_mut(&first).and_then(|command| command.open.get_mut(&number))
        else {
            return;
        };
        open.passed += bytes as u64;
        self.release(first, number, notices);
    }

    /// The agent of a process has reported its end.
    pub(in crate::machine) fn ended(
        &mut self,
        number: Rank,
        (end, printed): (CommandEnd, u64),
        notices: &mut Vec<Notice>,
    ) {
        let Some(first) = self.owner(number) else { return };
        if let Some(open) = self.running.get_mut(&first).and_then(|command| command.open.get_mut(&number)) {
            open.held = Some((end, printed));
        }
        self.release(first, number, notices);
    }

    /// Gives a process its outcome, if its end is known and all of its output was passed on.
    fn release(&mut self, first: u32, number: Rank, notices: &mut Vec<Notice>) {
        let open = self.running.get(&first).and_then(|command| command.open.get(&number));
        let Some(Open { passed, held: Some((end, printed)) }) = open else { return };
        if passed < printed {
            return;
        }
        let outcome = match end.clone() {
            CommandEnd::Exited(exit) => CommandOutcome::Exited(exit),
            CommandEnd::NotStarted(why) => CommandOutcome::NotStarted(why),
        };
        self.done(first, number, outcome, notices);
    }

    /// A process is done, and its command with the last one.
    fn done(&mut self, first: u32, number: Rank, outcome: CommandOutcome, notices: &mut Vec<Notice>) {
        let Some(command) = self.running.get_mut(&first) else { return };
        if command.open.remove(&number).is_none() {
            return;
        }
        notices.push(Notice::CommandEnded(command.process(first, number), outcome));
        if command.open.is_empty() {
            notices.push(Notice::CommandDone(command.id));
            self.running.remove(&first);
        }
    }

    /// Gives this outcome to all open processes of a command that are on hosts of this kind.
    fn all_done(
        &mut self,
        first: u32,
        is_concerned: impl Fn(HostIndex) -> bool,
        outcome: &CommandOutcome,
        notices: &mut Vec<Notice>,
    ) {
        let Some(command) = self.running.get(&first) else { return };
        let concerned = |number: &Rank| is_concerned(command.process(first, *number).host);
        let numbers: Vec<Rank> = command.open.keys().copied().filter(concerned).collect();
        numbers.into_iter().for_each(|number| self.done(first, number, outcome.clone(), notices));
    }

    /// A host is lost, or was never in the session.
    pub(in crate::machine) fn host_lost(
        &mut self,
        host: HostIndex,
        failure: &Failure,
        notices: &mut Vec<Notice>,
    ) {
        let firsts: Vec<u32> = self.running.keys().copied().collect();
        for first in firsts {
            let outcome = CommandOutcome::Lost(failure.clone());
            self.all_done(first, |of| of == host, &outcome, notices);
        }
    }

    /// The agents of these hosts cannot be told of a command.
    pub(in crate::machine) fn not_sent(&mut self, first: u32, why: &str, notices: &mut Vec<Notice>) {
        let outcome = CommandOutcome::NotStarted(why.to_owned());
        self.all_done(first, |_| true, &outcome, notices);
    }

    /// Ends commands that have no process.
    pub(in crate::machine) fn close_empty(&mut self, notices: &mut Vec<Notice>) {
        self.running.retain(|_, command| {
            let is_empty = command.open.is_empty();
            notices.extend(is_empty.then_some(Notice::CommandDone(command.id)));
            !is_empty
        });
    }

    /// The session is over: no process is left.
    pub(in crate::machine) fn close(&mut self, failure: &Failure, notices: &mut Vec<Notice>) {
        while let Some(&first) = self.running.keys().next() {
            self.all_done(first, |_| true, &CommandOutcome::Lost(failure.clone()), notices);
        }
    }

    /// Gives up a command whose deadline has passed; returns its first number and its hosts with open
    /// processes, which are to be killed.
    pub(in crate::machine) fn expire(
        &mut self,
        now: Instant,
        notices: &mut Vec<Notice>,
    ) -> Option<(u32, Vec<HostIndex>)> {
        let due = self.running.values().find(|command| command.deadline <= now)?.id;
        let (first, hosts) = self.open_hosts(due)?;
        self.all_done(first, |_| true, &CommandOutcome::TimedOut, notices);
        Some((first, hosts))
    }

    /// The next deadline of a command.
    pub(in crate::machine) fn next_deadline(&self) -> Option<Instant> {
        self.running.values().map(|command| command.deadline).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::failure::{Cause, Exit, Phase};

    const FOREVER: Instant = Instant::FAR_FUTURE;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    /// A table with a command on hosts 1 and 3 of a session of 4 hosts and 10 members, two processes
    /// on each: numbers 12, 13, 16 and 17.
    fn table() -> CommandTable {
        let mut table = CommandTable::default();
        let hosts = [HostIndex(1), HostIndex(3)];
        assert_eq!(table.begin(CommandId(5), (&hosts, 2), (10, 4), at(9)), Some(10));
        table
    }

    fn process(host: u32, index: u32) -> CommandProcess {
        CommandProcess { command: CommandId(5), host: HostIndex(host), index }
    }

    fn exited(code: i32) -> CommandEnd {
        CommandEnd::Exited(Exit::Code(code))
    }

    fn notices(what: impl FnOnce(&mut Vec<Notice>)) -> Vec<Notice> {
        let mut notices = Vec::new();
        what(&mut notices);
        notices
    }

    #[test]
    fn an_end_waits_for_the_output_that_was_printed_before() {
        let mut table = table();
        assert_eq!(table.process(Rank(13)), Some(process(1, 1)));
        assert_eq!(table.process(Rank(14)), None, "host 2 was not chosen");
        assert!(notices(|notices| table.passed(Rank(13), 4, notices)).is_empty());
        assert!(notices(|notices| table.ended(Rank(13), (exited(1), 10), notices)).is_empty());
        assert!(notices(|notices| table.passed(Rank(13), 5, notices)).is_empty());
        let ended = Notice::CommandEnded(process(1, 1), CommandOutcome::Exited(Exit::Code(1)));
        assert_eq!(notices(|notices| table.passed(Rank(13), 1, notices)), [ended]);
        assert_eq!(table.process(Rank(13)), None);
        assert!(notices(|notices| table.ended(Rank(13), (exited(2), 10), notices)).is_empty());
    }

    #[test]
    fn the_last_outcome_ends_the_command() {
        let mut table = table();
        let failure = Failure::without_evidence(Phase::Joined, Cause::Closed, Duration::ZERO);
        let lost =
            |host, index| Notice::CommandEnded(process(host, index), CommandOutcome::Lost(failure.clone()));
        assert_eq!(
            notices(|notices| table.host_lost(HostIndex(3), &failure, notices)),
            [lost(3, 0), lost(3, 1)]
        );
        assert!(notices(|notices| table.host_lost(HostIndex(2), &failure, notices)).is_empty());
        assert_eq!(table.open_hosts(CommandId(5)), Some((10, vec![HostIndex(1)])));
        let why = CommandEnd::NotStarted("no such file".to_owned());
        notices(|notices| table.ended(Rank(12), (why, 0), notices));
        let last = notices(|notices| table.ended(Rank(13), (exited(0), 0), notices));
        assert_eq!(last.len(), 2);
        assert_eq!(last[1], Notice::CommandDone(CommandId(5)));
        assert_eq!(table.open_hosts(CommandId(5)), None);
    }

    #[test]
    fn the_deadline_ends_all_processes_that_are_left() {
        let mut table = table();
        assert_eq!(table.next_deadline(), Some(at(9)));
        notices(|notices| table.ended(Rank(12), (exited(0), 0), notices));
        notices(|notices| table.ended(Rank(16), (exited(0), 7), notices));
        let mut out = Vec::new();
        assert_eq!(table.expire(at(8), &mut out), None);
        assert_eq!(table.expire(at(9), &mut out), Some((10, vec![HostIndex(1), HostIndex(3)])));
        let late = |host, index| Notice::CommandEnded(process(host, index), CommandOutcome::TimedOut);
        let done = Notice::CommandDone(CommandId(5));
        assert_eq!(out, [late(1, 1), late(3, 0), late(3, 1), done]);
        assert_eq!(table.next_deadline(), None);
    }

    #[test]
    fn numbers_are_used_again_only_when_their_command_is_done() {
        let mut table = table();
        let one = [HostIndex(0)];
        assert_eq!(table.begin(CommandId(6), (&one, 1), (10, 4), FOREVER), Some(18));
        table.next = u32::MAX - 5;
        assert_eq!(table.begin(CommandId(7), (&one, 2), (10, 4), FOREVER), Some(22), "no eight are left");
        table.next = u32::MAX;
        notices(|notices| table.not_sent(10, "too long", notices));
        assert_eq!(table.begin(CommandId(8), (&one, 2), (10, 4), FOREVER), Some(10));
        assert_eq!(table.begin(CommandId(9), (&one, u16::MAX), (10, u32::MAX), FOREVER), None);
        assert_eq!(table.process(Rank(22)).map(|process| process.command), Some(CommandId(7)));
        assert_eq!(table.process(Rank(24)), None);
    }
}
