//! Jobs whose launcher is on another host: a process there attaches to it, and sends what it knows.

use std::time::Duration;

use libi_core::dist::OsBytes;
use libi_core::ids::SessionId;
use serde::{Deserialize, Serialize};

use crate::attach::Job;
use crate::error::AttachError;
use crate::found::FoundHost;
use crate::kind::LauncherKind;
use crate::process::ProcessId;
use crate::table::{Lists, ProcessTable};

/// How a job is named.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum JobName {
    /// By the process ID of its launcher.
    Pid(i32),
    /// By the process ID of a front end of libi, and the number of one of its sessions.
    Session(i32, SessionId),
    /// By the number of a Slurm job or of a step, as `123.0`.
    Slurm(String),
}

/// What is sent of a job.
#[derive(Serialize, Deserialize)]
struct Sent {
    launcher: ProcessId,
    kind: LauncherKind,
    executable: OsBytes,
    slurm_job: Option<String>,
    found: Vec<FoundHost>,
    table: Lists,
}

impl Job {
    /// Attaches to the job with this name on this machine.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_by(name: &JobName, timeout: Duration) -> Result<Self, AttachError> {
        match name {
            JobName::Pid(pid) => Self::attach(*pid, timeout),
            JobName::Session(pid, session) => Self::attach_to_session(*pid, *session, timeout),
            JobName::Slurm(step) => Self::attach_to_slurm(step, timeout),
        }
    }

    /// What another host has to know of this job.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let sent = Sent {
            launcher: self.launcher.clone(),
            kind: self.kind,
            executable: self.executable.clone(),
            slurm_job: self.slurm_job.clone(),
            found: self.found.clone(),
            table: self.table.to_lists(),
        };
        // Numbers and texts can always be encoded.
        postcard::to_allocvec(&sent).unwrap_or_default()
    }

    /// The job whose launcher is on this host, which has [sent](Self::to_bytes) this; `None` of anything else.
    #[must_use]
    pub fn from_host(host: &str, bytes: &[u8]) -> Option<Self> {
        let Sent { launcher, kind, executable, slurm_job, found, table } =
            postcard::from_bytes(bytes).ok()?;
        let table = ProcessTable::from_lists(&table)?;
        let launcher_host = Some(host.to_owned());
        Some(Self { launcher, kind, executable, table, slurm_job, found, launcher_host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_job_is_refused() {
        assert!(Job::from_host("n1", b"").is_none());
        assert!(Job::from_host("n1", &[255; 100]).is_none());
        let mut sent = Sent {
            launcher: ProcessId::of(1).unwrap(),
            kind: LauncherKind::Srun,
            executable: OsBytes::default(),
            slurm_job: None,
            found: Vec::new(),
            table: Lists {
                hosts: vec!["n1".to_owned()],
                executables: vec![OsBytes::default()],
                processes: vec![(3, 0, 0, 10)],
            },
        };
        let job = |sent: &Sent| Job::from_host("n0", &postcard::to_allocvec(sent).unwrap());
        let whole = job(&sent).unwrap();
        assert_eq!(
            (whole.hosts(), whole.processes().len(), whole.launcher_host()),
            (vec!["n1"], 1, Some("n0"))
        );
        assert_eq!(Job::from_host("n0", &whole.to_bytes()).unwrap().processes(), whole.processes());
        sent.table.processes.push((4, 1, 0, 10));
        assert!(job(&sent).is_none(), "there is no such host");
    }
}
