//! Running jobs of other launchers, and daemons beside their processes.
//!
//! ```text
//!   front end                                  daemons, one on each host of the job
//!     | reads the launcher's table               |
//!     | == launches =========================> | join
//!     | -- the table, in parts by hosts -----> | master
//!     |                                        | scatters the parts: each daemon gets that of its host
//! ```
//!
//! | what fails | what follows |
//! |---|---|
//! | the table cannot be read | [`AttachError`]; nothing is launched |
//! | a host cannot be launched on | as in every launch: [`Policy`](crate::Policy) |
//! | the master is lost before it has the table | [`FrontEnd::launch_beside`] fails, or [`Member::targets`] |
//! | a daemon does not ask for its part | its part waits; others get theirs |
//! | a process has ended, or has become another program | its [`Target`] says so |

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use libi_comm::CommError;
use libi_core::dist::OsBytes;
use libi_core::ids::Rank;
pub use libi_job::*;
use serde::{Deserialize, Serialize};

use crate::{Backend, Bytes, Distribution, Error, FrontEnd, LaunchOptions, Member, Session, Srun};

/// The processes of a job on one host.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    executables: Vec<OsBytes>,
    /// The rank, the number of the executable and the process ID of each.
    processes: Vec<(u32, u32, i32)>,
}

/// Why a daemon does not know the processes on its host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TargetsError {
    /// A call with the front end or the other daemons has failed.
    #[error(transparent)]
    Talk(#[from] CommError),
    /// What the front end has sent is no table: it has not launched this daemon beside a job.
    #[error("the front end has sent something else than the processes of a job")]
    NoTable,
}

/// The parts of a table, in the order of its hosts.
fn parts(table: &ProcessTable) -> Vec<Part> {
    let places: BTreeMap<&str, usize> = table.hosts().iter().map(String::as_str).zip(0..).collect();
    let mut parts: Vec<Part> = table.hosts().iter().map(|_| Part::default()).collect();
    for process in table.iter() {
        let Some(part) = places.get(process.host).and_then(|place| parts.get_mut(*place)) else { continue };
        let known = part.executables.iter().position(|known| known == process.executable);
        let executable = known.unwrap_or_else(|| {
            part.executables.push(process.executable.clone());
            part.executables.len() - 1
        });
        part.processes.push((process.rank.0, executable as u32, process.pid));
    }
    parts
}

fn encoded(value: &impl Serialize) -> Bytes {
    // Numbers and bytes can always be encoded.
    postcard::to_allocvec(value).unwrap_or_default().into()
}

impl Part {
    fn targets(self) -> Option<Vec<Target>> {
        let target = |(rank, executable, pid): (u32, u32, i32)| {
            Some(Target::new(Rank(rank), pid, self.executables.get(executable as usize)?.clone()))
        };
        self.processes.into_iter().map(target).collect()
    }
}

/// The options for daemons beside a job: `srun` starts them in its Slurm job.
fn in_slurm_job(job: &Job, options: &LaunchOptions) -> LaunchOptions {
    let names_job = |srun: &Srun| srun.args.iter().any(|word| word.as_bytes().starts_with(b"--jobid"));
    let srun = match &options.backend {
        None => Some(Srun::new()),
        Some(Backend::Srun(srun)) if !names_job(srun) => Some(srun.clone()),
        Some(_) => None,
    };
    let word = job.slurm_job().and_then(|id| OsBytes::try_from(&*format!("--jobid={id}")).ok());
    let mut options = options.clone();
    if let Some((mut srun, word)) = srun.zip(word) {
        srun.args.push(word);
        options.backend = Some(srun.into());
    }
    options
}

impl FrontEnd {
    /// Launches a daemon on each host of a job, in the order of the table, and hands out the table: each
    /// daemon gets the processes of its host by [`Member::targets`]. What the distribution says of hosts is
    /// replaced. Daemons beside a job of `srun` are started in its Slurm job, whose processors they share,
    /// unless the options name another back-end or Slurm job.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use libi::job::Job;
    /// use libi::{Distribution, FrontEnd, LaunchOptions, Ssh};
    ///
    /// let job = Job::attach(4711, Duration::from_secs(5))?;
    /// let front_end = FrontEnd::new()?;
    /// let options = LaunchOptions::local().backend(Ssh::new());
    /// let session = front_end.launch_beside(&job, Distribution::new("/opt/daemon"), &options)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`launch`](Self::launch); and [`Error::Talk`] if the master is lost before it has the table.
    pub fn launch_beside(
        &self,
        job: &Job,
        daemon: Distribution,
        options: &LaunchOptions,
    ) -> Result<Session, Error> {
        let table = job.processes();
        let began = Instant::now();
        let options = &in_slurm_job(job, options);
        let session = self.launch(&daemon.hosts(table.hosts().join(",").as_str()), options)?;
        let left = options.deadline.saturating_sub(began.elapsed()).max(Duration::from_secs(1));
        session.send(encoded(&parts(table))).wait(left).map_err(Error::Talk)?;
        Ok(session)
    }
}

impl Member {
    /// The processes of the job on this host, in a daemon that was launched
    /// [beside](FrontEnd::launch_beside) it. All daemons call this once, before other collective calls and
    /// before the master receives from the front end.
    ///
    /// # Errors
    /// The table has not come in time, the master is lost, or this is no such daemon.
    pub fn targets(&self, timeout: Duration) -> Result<Vec<Target>, TargetsError> {
        let began = Instant::now();
        let mut parts = None;
        if self.is_master() {
            let table = self.recv().wait(timeout)?;
            let table: Vec<Part> = postcard::from_bytes(&table).map_err(|_| TargetsError::NoTable)?;
            parts = Some(table.iter().map(encoded).collect());
        }
        let left = timeout.saturating_sub(began.elapsed());
        let part = self.scatter(self.master(), parts).wait(left)?;
        let part: Part = postcard::from_bytes(&part).map_err(|_| TargetsError::NoTable)?;
        part.targets().ok_or(TargetsError::NoTable)
    }
}
