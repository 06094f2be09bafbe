//! What a front end knows of the commands of a session.

use std::collections::BTreeMap;

use libi_core::ids::HostIndex;
use libi_launch::machine::CommandId;

use super::{CommandReport, ProcessOutcome, ProcessReport};

/// The commands of a session whose handles exist, or that are running.
#[derive(Default)]
pub(in crate::front) struct CommandStatuses {
    last: u64,
    known: BTreeMap<CommandId, CommandStatus>,
}

/// What is known of a command.
#[derive(Default)]
struct CommandStatus {
    outcomes: BTreeMap<(HostIndex, u32), (String, ProcessOutcome)>,
    is_done: bool,
    /// Its handle was dropped.
    is_forgotten: bool,
}

impl CommandStatuses {
    pub(super) fn add(&mut self) -> CommandId {
        self.last += 1;
        let id = CommandId(self.last);
        self.known.insert(id, CommandStatus::default());
        id
    }

    /// Notes a command that another process has numbered.
    pub(in crate::front) fn add_as(&mut self, id: CommandId) {
        self.last = self.last.max(id.0);
        self.known.insert(id, CommandStatus::default());
    }

    /// The number of the last command.
    pub(in crate::front) fn last(&self) -> u64 {
        self.last
    }

    /// Notes how many commands there have been.
    pub(in crate::front) fn count_from(&mut self, last: u64) {
        self.last = last;
    }

    /// A command has ended, and its processes so.
    pub(in crate::front) fn ended_so(&mut self, id: CommandId, processes: Vec<ProcessReport>) {
        for ProcessReport { host, host_name, index, outcome } in processes {
            self.ended(id, (host, index), &host_name, &outcome);
        }
        self.done(id);
    }

    /// A process has ended.
    pub(in crate::front) fn ended(
        &mut self,
        id: CommandId,
        place: (HostIndex, u32),
        name: &str,
        outcome: &ProcessOutcome,
    ) {
        if let Some(status) = self.known.get_mut(&id).filter(|status| !status.is_forgotten) {
            status.outcomes.insert(place, (name.to_owned(), outcome.clone()));
        }
    }

    /// All processes of a command have ended.
    pub(in crate::front) fn done(&mut self, id: CommandId) {
        let Some(status) = self.known.get_mut(&id) else { return };
        status.is_done = true;
        if status.is_forgotten {
            self.known.remove(&id);
        }
    }

    pub(in crate::front) fn forget(&mut self, id: CommandId) {
        let Some(status) = self.known.get_mut(&id) else { return };
        status.is_forgotten = true;
        if status.is_done {
            self.known.remove(&id);
        }
    }

    /// How a command ended, if it has.
    pub(in crate::front) fn report(&self, id: CommandId) -> Option<CommandReport> {
        let status = self.known.get(&id).filter(|status| status.is_done)?;
        let report = |(&(host, index), (name, outcome)): (&(HostIndex, u32), &(String, ProcessOutcome))| {
            ProcessReport { host, host_name: name.clone(), index, outcome: outcome.clone() }
        };
        Some(CommandReport { processes: status.outcomes.iter().map(report).collect() })
    }
}

#[cfg(test)]
mod tests {
    use libi_launch::failure::Exit;

    use super::*;

    const HOST: HostIndex = HostIndex(3);

    #[test]
    fn a_report_names_late_and_lost_hosts_once() {
        let mut statuses = CommandStatuses::default();
        let id = statuses.add();
        for (index, outcome) in [(0, ProcessOutcome::TimedOut), (1, ProcessOutcome::TimedOut)] {
            statuses.ended(id, (HOST, index), "n3", &outcome);
        }
        statuses.ended(id, (HostIndex(1), 0), "n1", &ProcessOutcome::Lost("it is gone".to_owned()));
        statuses.ended(id, (HostIndex(0), 0), "n0", &ProcessOutcome::Exited(Exit::Code(0)));
        assert_eq!(statuses.report(id), None);
        statuses.done(id);
        let report = statuses.report(id).unwrap();
        assert_eq!((report.late_hosts(), report.lost_hosts()), (vec!["n3"], vec!["n1"]));
        assert!(!report.is_success());
        let text = "n1: process 0 is lost: it is gone\n\
                    n3: process 0 had not ended in time, and was killed\n\
                    n3: process 1 had not ended in time, and was killed\n";
        assert_eq!(report.to_string(), text);
    }

    #[test]
    fn a_command_without_a_handle_is_forgotten_when_it_is_done() {
        let mut statuses = CommandStatuses::default();
        let (first, second) = (statuses.add(), statuses.add());
        statuses.forget(first);
        statuses.ended(first, (HOST, 0), "n3", &ProcessOutcome::TimedOut);
        assert!(statuses.known[&first].outcomes.is_empty());
        statuses.done(first);
        statuses.done(second);
        statuses.forget(second);
        assert!(statuses.known.is_empty());
        assert!(statuses.add() > second);
    }
}
