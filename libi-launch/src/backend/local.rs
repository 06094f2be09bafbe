//! Launch method for one machine: host names are only names, and all programs run here. For single
//! machines, tests and experiments.

use std::fmt;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use serde::{Deserialize, Serialize};

use super::{Channel, LINK_ENV, LINK_FD, LaunchMethod, SpawnSpec, SpecError, env_var};
use crate::machine::{HostSpec, Program};

/// The back-end that needs nothing installed. It ignores users and ports of hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Local;

impl Local {
    /// The spec for a further member of a host, or for the leader of a host that is only a name.
    #[must_use]
    pub fn start(program: &Program) -> SpawnSpec {
        let mut spec = Self::start_unlinked(program);
        spec.env.extend(env_var(LINK_ENV, &LINK_FD.to_string()));
        SpawnSpec { channel: Channel::Socket, ..spec }
    }

    /// The spec for a process that takes no part in the session.
    #[must_use]
    pub fn start_unlinked(program: &Program) -> SpawnSpec {
        SpawnSpec {
            program: program.executable.clone(),
            args: program.args.clone(),
            env: program.env.clone(),
            cwd: program.cwd.clone(),
            channel: Channel::None,
            initial_input: Vec::new(),
            trailer: None,
            client: None,
        }
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("local")
    }
}

impl LaunchMethod for Local {
    fn called(program: &OsBytes) -> Option<Self> {
        (program.as_bytes() == b"local").then_some(Self)
    }

    fn is_local(&self) -> bool {
        true
    }

    fn default_cost(&self) -> Cost {
        Cost::new(Duration::from_micros(500), Duration::from_millis(3))
    }

    fn spawn_spec(&self, _: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError> {
        Ok(Self::start(program))
    }
}
