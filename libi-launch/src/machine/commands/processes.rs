//! The processes of commands that an agent runs. The head of `commands.rs` draws their states.

use std::collections::BTreeMap;

use libi_core::ids::{LinkId, Rank};
use libi_core::time::Instant;

use super::CommandEnd;
use crate::failure::Exit;

/// The processes of an agent, by their links, which carry no bytes.
#[derive(Debug, Default)]
pub(in crate::machine) struct CommandProcesses {
    processes: BTreeMap<LinkId, Process>,
    /// Once the session ends: what is done with those that are left, and when.
    next: Option<(Instant, Overdue)>,
}

#[derive(Debug)]
struct Process {
    number: Rank,
    /// The `first` of its command.
    first: u32,
    printed: u64,
}

/// What is done with processes that have not ended in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::machine) enum Overdue {
    /// They are killed.
    Kill,
    /// Their ends are not awaited any more.
    GiveUp,
}

impl CommandProcesses {
    /// A process is being started for this link.
    pub(in crate::machine) fn add(&mut self, link: LinkId, number: Rank, first: u32) {
        self.processes.insert(link, Process { number, first, printed: 0 });
    }

    pub(in crate::machine) fn contains(&self, link: LinkId) -> bool {
        self.processes.contains_key(&link)
    }

    pub(in crate::machine) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// A process has printed as many bytes that are passed on; returns its number.
    pub(in crate::machine) fn printed(&mut self, link: LinkId, bytes: usize) -> Option<Rank> {
        let process = self.processes.get_mut(&link)?;
        process.printed += bytes as u64;
        Some(process.number)
    }

    /// A process has exited; returns its number, its end, and how much it has printed.
    pub(in crate::machine) fn exited(&mut self, link: LinkId, exit: Exit) -> Option<(Rank, CommandEnd, u64)> {
        let process = self.processes.remove(&link)?;
        Some((process.number, CommandEnd::Exited(exit), process.printed))
    }

    /// A process was not started.
    pub(in crate::machine) fn not_started(
        &mut self,
        link: LinkId,
        why: String,
    ) -> Option<(Rank, CommandEnd, u64)> {
        let process = self.processes.remove(&link)?;
        Some((process.number, CommandEnd::NotStarted(why), process.printed))
    }

    /// The links of the processes of the command that begins at `first`, or of all.
    pub(in crate::machine) fn links(&self, first: Option<u32>) -> Vec<LinkId> {
        let of_command = |process: &Process| first.is_none_or(|first| process.first == first);
        self.processes.iter().filter(|(_, process)| of_command(process)).map(|(link, _)| *link).collect()
    }

    /// Those that are left at this time are dealt with like this; an earlier time that was set before
    /// holds.
    pub(in crate::machine) fn end_by(&mut self, at: Instant, what: Overdue) {
        let holds = self.next.filter(|(before, of)| *of == what && *before <= at);
        self.next = holds.or(Some((at, what)));
    }

    /// What is due now, if any process is left for it.
    pub(in crate::machine) fn overdue(&mut self, now: Instant) -> Option<Overdue> {
        let (_, what) = self.next.filter(|(at, _)| *at <= now && !self.processes.is_empty())?;
        self.next = None;
        Some(what)
    }

    /// Those that are left are not awaited any more.
    pub(in crate::machine) fn give_up(&mut self) {
        self.processes.clear();
    }

    pub(in crate::machine) fn next_deadline(&self) -> Option<Instant> {
        self.next.filter(|_| !self.processes.is_empty()).map(|(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LINK: LinkId = LinkId(7);

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn processes() -> CommandProcesses {
        let mut processes = CommandProcesses::default();
        processes.add(LINK, Rank(12), 10);
        processes.add(LinkId(8), Rank(20), 20);
        processes
    }

    #[test]
    fn the_end_of_a_process_tells_how_much_it_has_printed() {
        let mut processes = processes();
        assert_eq!(processes.printed(LINK, 3), Some(Rank(12)));
        assert_eq!(processes.printed(LINK, 4), Some(Rank(12)));
        assert_eq!(processes.printed(LinkId(9), 4), None);
        let end = CommandEnd::Exited(Exit::Code(0));
        assert_eq!(processes.exited(LINK, Exit::Code(0)), Some((Rank(12), end, 7)));
        assert_eq!(processes.exited(LINK, Exit::Code(0)), None);
    }

    #[test]
    fn processes_are_found_by_their_command() {
        let mut processes = processes();
        assert_eq!(processes.links(Some(10)), [LINK]);
        assert_eq!(processes.links(None), [LINK, LinkId(8)]);
        let why = || "no such file".to_owned();
        let end = CommandEnd::NotStarted(why());
        assert_eq!(processes.not_started(LinkId(8), why()), Some((Rank(20), end, 0)));
        assert_eq!(processes.links(None), [LINK]);
    }

    #[test]
    fn processes_that_are_left_are_killed_and_then_given_up() {
        let mut processes = processes();
        processes.end_by(at(5), Overdue::Kill);
        processes.end_by(at(6), Overdue::Kill);
        assert_eq!((processes.next_deadline(), processes.overdue(at(4))), (Some(at(5)), None));
        processes.end_by(at(3), Overdue::Kill);
        assert_eq!(processes.overdue(at(4)), Some(Overdue::Kill));
        processes.end_by(at(7), Overdue::GiveUp);
        assert_eq!(
            (processes.next_deadline(), processes.overdue(at(7))),
            (Some(at(7)), Some(Overdue::GiveUp))
        );
        processes.give_up();
        assert!(processes.is_empty() && processes.next_deadline().is_none());
    }
}
