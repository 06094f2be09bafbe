//! In which hosts the engine runs in the program of the first member, whose exit is then that of
//! its host's process.
//!
//! | options | hosts in the program |
//! |---|---|
//! | an agent leads the hosts | none |
//! | `Engine::InProgram` | all |
//! | `Engine::Apart` | those that have [reported](ChildMessage::InProgram) it since their last launch |

use std::collections::BTreeSet;

use libi_core::ids::HostIndex;

use crate::machine::message::ChildMessage;
use crate::options::LaunchOptions;

/// See the [module](self).
#[derive(Debug)]
pub(in crate::machine) struct HostEngines {
    are_all_in_program: bool,
    in_program: BTreeSet<HostIndex>,
}

impl HostEngines {
    pub(super) fn new(options: &LaunchOptions) -> Self {
        let are_all_in_program = options.agent.is_none() && !options.leads_apart();
        Self { are_all_in_program, in_program: BTreeSet::new() }
    }

    /// Records what a report says.
    pub(super) fn note(&mut self, report: &ChildMessage) {
        match report {
            ChildMessage::InProgram(host) => drop(self.in_program.insert(*host)),
            ChildMessage::Relaunch(host, ..) => drop(self.in_program.remove(host)),
            _ => {}
        }
    }

    /// Whether the process that leads this host is its first member.
    pub(in crate::machine) fn is_in_program(&self, host: HostIndex) -> bool {
        self.are_all_in_program || self.in_program.contains(&host)
    }

    /// Whether this host should be led apart from its program, and is not.
    pub(in crate::machine) fn is_exception(&self, host: HostIndex) -> bool {
        self.in_program.contains(&host)
    }
}

#[cfg(test)]
mod tests {
    use libi_core::plan::late::Attempt;

    use super::*;
    use crate::options::Engine;

    #[test]
    fn a_host_is_in_its_program_by_the_options_or_by_its_report() {
        let host = HostIndex(3);
        let in_program = HostEngines::new(&LaunchOptions::new().engine(Engine::InProgram));
        assert!(in_program.is_in_program(host) && !in_program.is_exception(host));
        let mut apart = HostEngines::new(&LaunchOptions::new().engine(Engine::Apart));
        assert!(!apart.is_in_program(host));
        apart.note(&ChildMessage::InProgram(host));
        assert!(apart.is_in_program(host) && apart.is_exception(host) && !apart.is_in_program(HostIndex(2)));
        apart.note(&ChildMessage::Relaunch(host, Attempt::default(), None));
        assert!(!apart.is_in_program(host), "the next launch may do better");
    }
}
