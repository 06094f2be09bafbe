//! Any program that is called as `ssh` and `rsh` are: options, a host, and a command for the shell over there.
//!
//! Nothing is known of it but that, so that it gets no option that you do not give it; of `ssh` and `rsh` themselves more is known, see
//! [`Ssh`](super::Ssh) and [`Rsh`](super::Rsh).

use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use serde::{Deserialize, Serialize};

use super::{Channel, LaunchMethod, SpawnSpec, SpecError, operand, remote_command};
use crate::machine::{HostSpec, Program};
use crate::quote;

/// How to call a remote shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    /// The program, as a path or a name to be looked up where it is called.
    pub program: OsBytes,
    /// Arguments before everything else.
    pub args: Vec<OsBytes>,
    /// The option before a user's name.
    pub user: Option<OsBytes>,
    /// The option before a port.
    pub port: Option<OsBytes>,
    /// What a launch costs, to begin with.
    pub cost: Cost,
}

impl Shell {
    /// A shell that takes a user with `-l` and a port with `-p`, as `ssh` does, and is about as fast.
    #[must_use]
    pub fn new(program: OsBytes) -> Self {
        let option = |text: &str| OsBytes::try_from(text).ok();
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(170));
        Self { program, args: Vec::new(), user: option("-l"), port: option("-p"), cost }
    }

    /// The option, and what follows it, if there is something to say.
    fn option(
        &self,
        option: Option<&OsBytes>,
        value: Option<String>,
        what: &'static str,
    ) -> Result<Vec<OsBytes>, SpecError> {
        let Some(value) = value else { return Ok(Vec::new()) };
        let option = option.ok_or_else(|| SpecError::NoOption(self.program.clone(), what))?;
        Ok(vec![option.clone(), operand(what, &value)?])
    }
}

impl LaunchMethod for Shell {
    fn default_cost(&self) -> Cost {
        self.cost
    }

    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError> {
        let mut args = self.args.clone();
        args.extend(self.option(self.user.as_ref(), host.user.clone(), "user")?);
        args.extend(self.option(self.port.as_ref(), host.port.map(|port| port.to_string()), "port")?);
        args.push(operand("host", &host.name)?);
        args.push(remote_command(program, quote::command));
        Ok(SpawnSpec {
            program: self.program.clone(),
            args,
            env: Vec::new(),
            cwd: None,
            channel: Channel::Streams,
            initial_input: Vec::new(),
            trailer: None,
        })
    }
}
