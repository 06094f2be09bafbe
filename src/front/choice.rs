//! Decides which back-end a launch uses whose options name none.
//!
//! | the first that applies | back-end |
//! |---|---|
//! | [`BACKEND_ENV`] names one | that one |
//! | all hosts are this machine | local |
//! | the front end is in a Slurm job, finds `srun`, and a host is a node of the job | srun |
//! | else | ssh, but hosts that are this machine are started directly |

use std::fmt;
use std::path::Path;

use libi_core::hosts::HostList;
use libi_launch::backend::{Backend, BackendError, LaunchMethod, Local, Srun, Ssh};
use serde::{Deserialize, Serialize};

use super::this_machine::are_this_machine;

/// Environment variable that names the back-end of launches whose options name none, as
/// [`Backend`] is read from a text; `auto` and an empty text name none.
pub const BACKEND_ENV: &str = "LIBI_BACKEND";

/// Why a launch uses its back-end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum BackendReason {
    /// The options of the launch name it.
    Options,
    /// The variable [`BACKEND_ENV`] names it.
    Variable,
    /// All hosts are this machine.
    ThisMachine,
    /// The front end is in the Slurm job of this number, and a host is a node of the job.
    SlurmJob(String),
    /// Nothing speaks for another one.
    Default,
}

impl fmt::Display for BackendReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Options => f.write_str("as the options of the launch ask for"),
            Self::Variable => write!(f, "as {BACKEND_ENV} asks for"),
            Self::ThisMachine => f.write_str("because all hosts are this machine"),
            Self::SlurmJob(job) => write!(f, "because this is Slurm job {job}"),
            Self::Default => f.write_str("the default"),
        }
    }
}

/// The back-end that a launch on these hosts uses if its options name none, and why.
///
/// # Errors
/// The environment variable [`BACKEND_ENV`] names no back-end.
pub fn auto_backend(hosts: &HostList) -> Result<(Backend, BackendReason), BackendError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
    choose(hosts, &variable, is_in_path, are_this_machine)
}

fn choose(
    hosts: &HostList,
    variable: &dyn Fn(&str) -> Option<String>,
    is_in_path: impl Fn(&str) -> bool,
    are_this_machine: impl Fn(&HostList) -> bool,
) -> Result<(Backend, BackendReason), BackendError> {
    if let Some(name) = variable(BACKEND_ENV).filter(|name| name != "auto") {
        return Ok((name.parse()?, BackendReason::Variable));
    }
    if are_this_machine(hosts) {
        return Ok((Backend::Local(Local), BackendReason::ThisMachine));
    }
    let mut srun = Srun::new();
    srun.set_environment(variable);
    if let Some(job) = &srun.job
        && is_in_path("srun")
        // A user or a port means a remote shell.
        && hosts.iter().all(|host| host.user.is_none() && host.port.is_none())
        && hosts.iter().any(|host| job.nodes.contains(host.name))
    {
        let reason = BackendReason::SlurmJob(job.id.clone());
        return Ok((Backend::Srun(srun), reason));
    }
    Ok((Backend::Ssh(Ssh::new()), BackendReason::Default))
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| Path::new(&directory).join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The choice for these hosts, of which `here` is this machine, in this environment.
    fn chosen(hosts: &str, environment: &[(&str, &str)], has_srun: bool) -> (String, BackendReason) {
        let variable = |name: &str| {
            environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let hosts = HostList::parse(hosts).unwrap();
        let are_here = |hosts: &HostList| hosts.iter().all(|host| host.name == "here");
        let (backend, reason) = choose(&hosts, &variable, |_| has_srun, are_here).unwrap();
        (backend.to_string(), reason)
    }

    const JOB: [(&str, &str); 2] = [("SLURM_JOB_ID", "12"), ("SLURM_JOB_NODELIST", "n[1-4]")];

    #[test]
    fn srun_is_used_for_nodes_of_the_job() {
        let srun = ("srun".to_owned(), BackendReason::SlurmJob("12".to_owned()));
        assert_eq!(chosen("n[2-3]", &JOB, true), srun);
        assert_eq!(chosen("n[4-5]", &JOB, true), srun, "a host outside the job is refused by name");
        for (hosts, environment, has_srun) in
            [("n[5-6]", &JOB[..], true), ("n2", &JOB, false), ("n2", &[], true), ("me@n2", &JOB, true)]
        {
            assert_eq!(chosen(hosts, environment, has_srun), ("ssh".to_owned(), BackendReason::Default));
        }
    }

    #[test]
    fn this_machine_needs_no_remote_shell() {
        assert_eq!(chosen("here:4", &JOB, true).1, BackendReason::ThisMachine);
        assert_eq!(chosen("here,n9", &[], true).1, BackendReason::Default);
    }

    #[test]
    fn the_variable_comes_first() {
        let asked = |name| [("LIBI_BACKEND", name), JOB[0], JOB[1]];
        assert_eq!(chosen("here", &asked("rsh"), true), ("rsh".to_owned(), BackendReason::Variable));
        assert_eq!(chosen("n1", &asked("auto"), true).1, BackendReason::SlurmJob("12".to_owned()));
        let wrong = choose(&HostList::new(), &|_| Some("/".to_owned()), |_| true, |_| true);
        assert_eq!(wrong, Err(BackendError::Empty));
    }
}
