//! The options of a launch on their way to another process that makes it in place of this one.

use std::num::NonZeroU32;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use libi_core::hosts::HostList;
use serde::{Deserialize, Serialize};

use super::{LaunchOptions, Output, StandardInput};
use crate::machine::Policy;

/// The options of a launch, with those that matter to the front end alone. The other process runs on this
/// machine, or has no use for files here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CarriedOptions {
    /// What hosts get to know as well.
    common: LaunchOptions,
    policy: Policy,
    settle: Option<Duration>,
    deadline: Duration,
    cost: Option<Cost>,
    front_end_launches: Option<NonZeroU32>,
    spares: HostList,
    input: StandardInput,
    allow_plain: bool,
    local_hosts: HostList,
    /// The directory of [`Output::Files`].
    directory: Option<OsBytes>,
    /// The paths of the staged files.
    staged: Vec<OsBytes>,
    /// The agent that is sent to hosts.
    agent_file: Option<Vec<u8>>,
}

impl CarriedOptions {
    /// These options.
    #[must_use]
    pub fn new(options: &LaunchOptions) -> Self {
        // Without `..`, so that a new option is not forgotten: those that are skipped in messages to
        // hosts need a field here.
        let LaunchOptions {
            backend: _,
            agent,
            engine: _,
            programs: _,
            stage,
            rules: _,
            strategy: _,
            limits: _,
            links: _,
            link_security: _,
            loopback: _,
            strict_calls: _,
            on_loss: _,
            restarts: _,
            replace_master: _,
            // Made by this process, before the other one makes the rest.
            detached: _,
            policy,
            settle,
            deadline,
            cost,
            front_end_launches,
            spares,
            input,
            output,
            allow_plain,
            local_hosts,
        } = options.clone();
        let directory = match output {
            Output::Files(directory) => OsBytes::new(directory.into_os_string().into_encoded_bytes()).ok(),
            _ => None,
        };
        Self {
            common: options.clone(),
            policy,
            settle,
            deadline,
            cost,
            front_end_launches,
            spares,
            input,
            allow_plain,
            local_hosts,
            directory,
            agent_file: agent.and_then(|agent| agent.delivery?.carried_file()),
            staged: stage.map(|files| files.paths().cloned().collect()).unwrap_or_default(),
        }
    }

    /// The same without what only a launch needs.
    #[must_use]
    pub fn of_a_launched_session(self) -> Self {
        Self { agent_file: None, ..self }
    }

    /// The options. Staged files are opened again; hosts notice if one has changed meanwhile.
    #[must_use]
    pub fn into_options(mut self) -> LaunchOptions {
        use std::os::unix::ffi::OsStrExt;
        let delivery = self.common.agent.as_mut().and_then(|agent| agent.delivery.as_mut());
        if let (Some(delivery), Some(file)) = (delivery, self.agent_file) {
            *delivery = delivery.clone().with_carried_file(file);
        }
        let path = |bytes: &OsBytes| std::ffi::OsStr::from_bytes(bytes.as_bytes()).into();
        LaunchOptions {
            policy: self.policy,
            settle: self.settle,
            deadline: self.deadline,
            cost: self.cost,
            front_end_launches: self.front_end_launches,
            spares: self.spares,
            input: self.input,
            allow_plain: self.allow_plain,
            local_hosts: self.local_hosts,
            output: self.directory.map_or(self.common.output, |directory| Output::Files(path(&directory))),
            stage: self.common.stage.map(|files| files.reopened(self.staged)),
            ..self.common
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Agent;
    use super::*;
    use crate::delivery::Delivery;

    #[test]
    fn options_of_the_front_end_arrive_as_well() {
        let options = LaunchOptions {
            policy: Policy::AtLeast(3),
            settle: Some(Duration::from_secs(7)),
            deadline: Duration::from_secs(11),
            cost: Some(Cost::new(Duration::from_millis(1), Duration::from_millis(2))),
            front_end_launches: NonZeroU32::new(5),
            spares: HostList::parse("s[1-3]").unwrap(),
            input: StandardInput::Master,
            output: Output::Files("out".into()),
            allow_plain: true,
            local_hosts: HostList::parse("me").unwrap(),
            restarts: 9,
            agent: Some(Agent::new(OsBytes::default()).delivery(Delivery::of(vec![1, 2, 3]))),
            ..LaunchOptions::default()
        };
        let bytes = postcard::to_allocvec(&CarriedOptions::new(&options)).unwrap();
        let back: CarriedOptions = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(back.into_options(), options);
    }
}
