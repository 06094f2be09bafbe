//! Agents: processes that lead hosts in place of their first members, and programs that do not link
//! libi.

use libi_core::dist::OsBytes;
use serde::{Deserialize, Serialize};

use crate::delivery::Delivery;
use crate::machine::Program;

/// The last argument of a process that is started as an agent. A variable would cost each host that is
/// reached by a remote shell a process of `env`.
pub const AGENT_ARG: &str = "--libi-agent";
/// Last argument of an agent's program that attaches to a job for a front end on another host.
pub const JOB_ARG: &str = "--libi-job";

/// The program that leads each host. It starts all members of its host, relays for them and for the
/// hosts below, and is no member itself.
///
/// The program calls `libi::agent::serve_if_asked` before anything else, as the program `libi` does. It
/// is asked by its last argument, [`AGENT_ARG`].
/// It has to exist on each host, or is [sent](Self::delivery).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Agent {
    /// The executable: a path, or a name that is searched in `PATH` on each host.
    pub executable: OsBytes,
    /// Its arguments.
    pub args: Vec<OsBytes>,
    /// How it gets to hosts that do not have it; by default it has to be installed there.
    pub delivery: Option<Delivery>,
}

impl Agent {
    /// An agent without arguments.
    #[must_use]
    pub fn new(executable: OsBytes) -> Self {
        Self { executable, args: Vec::new(), delivery: None }
    }

    /// Has it sent to hosts that do not have this very file at its path. Each leader passes it on to
    /// the hosts that it launches. Bulk back-ends, such as srun, cannot send it.
    #[must_use]
    pub fn delivery(mut self, delivery: Delivery) -> Self {
        self.delivery = Some(delivery);
        self
    }

    /// Sets the arguments.
    #[must_use]
    pub fn args(mut self, args: Vec<OsBytes>) -> Self {
        self.args = args;
        self
    }

    /// What is started on each host.
    pub(crate) fn program(&self) -> Program {
        let asks = OsBytes::try_from(AGENT_ARG).ok();
        let args = self.args.iter().cloned().chain(asks).collect();
        Program { executable: self.executable.clone(), args, env: Vec::new(), cwd: None }
    }
}

/// Which programs the members of a session run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Programs {
    /// Programs that join the session, with `Member::init`. The session is up when they have.
    #[default]
    Linked,
    /// Any programs. It needs an [`Agent`]. The session is up when each host has found them; then
    /// they are started. Each is a member from its start on; one that links libi joins when it calls
    /// `Member::init`.
    ///
    /// They find their place in variables:
    ///
    /// | variable | value |
    /// |---|---|
    /// | `LIBI_RANK` | the rank |
    /// | `LIBI_SIZE` | the number of members of the session |
    /// | `LIBI_LOCAL_RANK` | the number of members of the host with lower ranks |
    /// | `LIBI_LOCAL_SIZE` | the number of members of the host |
    /// | `LIBI_HOST` | the name of the host in the host list |
    Any,
    /// None: only the agents run, and the session is up when they have joined. It is for commands that
    /// are run in it later, with `Session::spawn`. Each host keeps its ranks, which have no processes;
    /// the executable of the distributions is not used.
    None,
}
