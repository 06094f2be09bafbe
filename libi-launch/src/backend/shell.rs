//! Launch method for programs that are called like `ssh` and `rsh`: options, a host, and a command
//! for the remote login shell.
//!
//! Such a program gets only the options that the caller configures, or, if it is a command of a
//! resource manager, those of its row in the table of `managers.rs`. [`Ssh`](super::Ssh) and
//! [`Rsh`](super::Rsh) know more about theirs.

use std::fmt;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use serde::{Deserialize, Serialize};

use super::parse::file_name;
use super::{Channel, LaunchMethod, SpawnSpec, SpecError, managers, operand, remote_command};
use crate::machine::{HostSpec, Program};
use crate::quote;

/// How to call a remote shell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    /// Path of the program, or a name that the launching process looks up in its `PATH`.
    pub program: OsBytes,
    /// Arguments that come first.
    pub args: Vec<OsBytes>,
    /// Option that precedes a user name.
    pub user: Option<OsBytes>,
    /// Option that precedes a port.
    pub port: Option<OsBytes>,
    /// Expected cost of a launch; measurements replace it.
    pub cost: Cost,
}

impl Shell {
    /// A shell that takes a user with `-l` and a port with `-p` and costs as much as `ssh`.
    #[must_use]
    pub fn new(program: OsBytes) -> Self {
        let option = |text: &str| OsBytes::try_from(text).ok();
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(170));
        Self { program, args: Vec::new(), user: option("-l"), port: option("-p"), cost }
    }

    /// The shell with this path or name. `blaunch` and `qrsh` are called as their manuals say, any
    /// other as by [`new`](Self::new).
    #[must_use]
    pub fn of(program: OsBytes) -> Self {
        let Some(row) = managers::shell(&program) else { return Self::new(program) };
        let args = row.args.iter().filter_map(|arg| OsBytes::try_from(*arg).ok()).collect();
        Self { args, user: None, port: None, ..Self::new(program) }
    }

    /// The option followed by its value, or nothing if there is no value.
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

/// Names of programs that send everything in plain text.
const PLAINTEXT_SHELLS: [&str; 4] = ["rsh", "remsh", "rsh-redone-rsh", "netkit-rsh"];

impl fmt::Display for Shell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

impl LaunchMethod for Shell {
    fn called(program: &OsBytes) -> Option<Self> {
        Some(Self::of(program.clone()))
    }

    fn is_plaintext(&self) -> bool {
        let name = file_name(&self.program);
        PLAINTEXT_SHELLS.iter().any(|shell| name == shell.as_bytes())
            || managers::shell(&self.program).is_some()
    }

    /// A manager may end the whole job with a start that is killed, as Grid Engine does.
    fn may_end_starts(&self) -> bool {
        managers::shell(&self.program).is_none()
    }

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
            client: None,
        })
    }
}
