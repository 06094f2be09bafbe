//! Jobs of other launchers, and daemons beside their processes.
//!
//! ```text
//!   front end                                  daemons, one on each host of the job
//!     | reads the launcher's table               |
//!     | == launches =========================> | join
//!     | -- the table, in parts by hosts -----> | master
//!     |                                        | scatters the parts: each daemon gets that of its host
//! ```
//!
//! Where the launcher has no table, each daemon [finds](Find) the processes of its host, and they gather the
//! table for the front end:
//!
//! ```text
//!     | -- how they are found ---------------> | master
//!     |                                        | scatters that; each daemon looks until its host is whole
//!     | <-- the table ------------------------ | gathers
//! ```
//!
//! There may be several daemons on a host, which share its processes.
//!
//! | what fails | what follows |
//! |---|---|
//! | the table cannot be read | [`AttachError`]; nothing is launched |
//! | a host cannot be launched on | as in every launch: [`Policy`](crate::Policy) |
//! | the master is lost before it has the table | [`FrontEnd::launch_beside`] fails, or [`Member::targets`] |
//! | a daemon does not ask for its part | its part waits; others get theirs |
//! | not all processes of a host are found in time | [`TargetsError::Incomplete`] there; the front end knows the others |
//! | a process has ended, or has become another program | its [`Target`] says so |

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use libi_comm::CommError;
use libi_core::dist::OsBytes;
use libi_core::hosts::{HostList, HostRef};
use libi_core::ids::Rank;
pub use libi_job::*;
use serde::{Deserialize, Serialize};

use crate::{Backend, Bytes, Distribution, Error, FrontEnd, LaunchOptions, Member, Ranks, Session, Srun};

/// How often a daemon looks for processes that are not there yet.
const LOOKS_EVERY: Duration = Duration::from_millis(20);

mod elsewhere;
mod ends;
mod release;
mod watch;

pub(crate) use self::elsewhere::serve;
pub use self::elsewhere::{AttachOnError, attach_on};
pub use self::ends::{End, Ends};
pub use self::watch::{JobEvent, Watch};

/// The processes of a job on one host.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Part {
    /// The number of the host in the job.
    host: u32,
    /// Whether the front end does not know all processes of the job.
    is_gathered: bool,
    /// How they are found, where they are not known.
    find: Option<Find>,
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
    /// The launcher has no table, and not all processes of this host were found in time.
    #[error("{found} processes of the job were found on this host{}", of_all(*.all))]
    Incomplete {
        /// How many were found.
        found: usize,
        /// How many there are, if one of them says so.
        all: Option<u32>,
    },
    /// Ranks that are held in front of their programs were not released in time.
    #[error("still held: {0}")]
    Held(Ranks),
}

fn of_all(all: Option<u32>) -> String {
    all.map_or_else(|| ", perhaps of more".to_owned(), |all| format!(" of {all}"))
}

/// The parts of a job, in the order of its hosts.
fn parts(job: &Job) -> Vec<Part> {
    let hosts = job.hosts();
    let places: BTreeMap<&str, usize> = hosts.iter().copied().zip(0..).collect();
    let is_gathered = !job.is_whole();
    let part = |(number, host): (u32, &&str)| {
        let find = job.find_on(host).cloned();
        Part { host: number, is_gathered, find, ..Part::default() }
    };
    let mut parts: Vec<Part> = (0..).zip(&hosts).map(part).collect();
    for process in job.processes().iter() {
        let Some(part) = places.get(process.host).and_then(|place| parts.get_mut(*place)) else { continue };
        part.push(process.rank, process.pid, process.executable);
    }
    parts
}

/// The parts of daemons that have no more than so many processes each, in the order of their ranks, and the
/// hosts with the numbers of their daemons. A host whose processes are not known has one daemon.
fn shares(job: &Job, most: usize) -> (Vec<Part>, String) {
    let (mut shares, mut list) = (Vec::new(), Vec::new());
    for (host, part) in job.hosts().into_iter().zip(parts(job)) {
        let count = part.processes.len().div_ceil(most).max(1);
        list.push(with_count(host, count));
        let share = |nth: usize| Part {
            processes: part.processes.iter().skip(nth * most).take(most).copied().collect(),
            find: part.find.clone(),
            executables: part.executables.clone(),
            ..part
        };
        shares.extend((0..count).map(share));
    }
    (shares, list.join(","))
}

/// A host of a list, with so many daemons.
fn with_count(host: &str, count: usize) -> String {
    let list = HostList::parse(host).unwrap_or_default();
    let entry = list.entry(0).unwrap_or_else(|| HostRef::new(host));
    HostRef { count: u32::try_from(count).unwrap_or(u32::MAX), ..entry }.to_string()
}

/// When a timeout is over; of one without end, in a year.
fn deadline(timeout: Duration) -> Instant {
    Instant::now() + timeout.min(Duration::from_secs(365 * 24 * 60 * 60))
}

fn encoded(value: &impl Serialize) -> Bytes {
    // Numbers and bytes can always be encoded.
    postcard::to_allocvec(value).unwrap_or_default().into()
}

impl Part {
    fn push(&mut self, rank: Rank, pid: i32, executable: &OsBytes) {
        let known = self.executables.iter().position(|known| known == executable);
        let executable = known.unwrap_or_else(|| {
            self.executables.push(executable.clone());
            self.executables.len() - 1
        });
        self.processes.push((rank.0, executable as u32, pid));
    }

    /// Looks for the processes of this host, until all are there.
    fn find(&mut self, until: Instant) -> Result<(), TargetsError> {
        let Some(find) = self.find.take() else { return Ok(()) };
        let mut last = None;
        loop {
            let found = find.on_this_machine();
            let is_over = Instant::now() >= until;
            let is_whole = found.is_whole() && (is_over || last.as_ref() == Some(&found));
            if is_whole || is_over {
                found
                    .processes
                    .iter()
                    .for_each(|(rank, (pid, executable))| self.push(*rank, *pid, executable));
            }
            if is_whole {
                return Ok(());
            }
            if is_over {
                return Err(TargetsError::Incomplete { found: found.processes.len(), all: found.on_host });
            }
            last = Some(found);
            std::thread::sleep(LOOKS_EVERY);
        }
    }

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
        self.launch_with((parts(job), job.hosts().join(",")), job, daemon, options)
    }

    /// As [`launch_beside`](Self::launch_beside), with a daemon for each so many processes of a host. Where the
    /// launcher has no table, and the host is another machine, there is one.
    ///
    /// # Errors
    /// As [`launch_beside`](Self::launch_beside).
    pub fn launch_beside_each(
        &self,
        job: &Job,
        processes: NonZeroU32,
        daemon: Distribution,
        options: &LaunchOptions,
    ) -> Result<Session, Error> {
        self.launch_with(shares(job, processes.get() as usize), job, daemon, options)
    }

    fn launch_with(
        &self,
        (parts, hosts): (Vec<Part>, String),
        job: &Job,
        daemon: Distribution,
        options: &LaunchOptions,
    ) -> Result<Session, Error> {
        let began = Instant::now();
        let options = &in_slurm_job(job, options);
        let session = self.launch(&daemon.hosts(hosts.as_str()), options)?;
        let left = options.deadline.saturating_sub(began.elapsed()).max(Duration::from_secs(1));
        session.send(encoded(&parts)).wait(left).map_err(Error::Talk)?;
        Ok(session)
    }
}

impl Session {
    /// All processes of a job beside which this session was [launched](FrontEnd::launch_beside): those that
    /// are [known](Job::processes), and if these are not all, those that the daemons have found. Called once,
    /// before other [gathers](Self::gather), and only when the daemons ask for their
    /// [targets](Member::targets).
    ///
    /// # Errors
    /// The daemons have not answered in time, or the master is lost.
    pub fn processes_of(&self, job: &Job, timeout: Duration) -> Result<ProcessTable, TargetsError> {
        let mut table = job.processes().clone();
        if job.is_whole() {
            return Ok(table);
        }
        let hosts = job.hosts();
        for part in self.gather().wait(timeout)? {
            // A daemon that is lost has none.
            let Ok(part) = postcard::from_bytes::<Part>(&part) else { continue };
            let Some(host) = hosts.get(part.host as usize) else { continue };
            for (rank, executable, pid) in part.processes {
                let executable = part.executables.get(executable as usize).cloned().unwrap_or_default();
                table.insert(Rank(rank), (*host).to_owned(), executable, pid);
            }
        }
        Ok(table)
    }
}

impl Member {
    /// The processes of the job on this host, in a daemon that was launched
    /// [beside](FrontEnd::launch_beside) it. All daemons call this once, before other collective calls and
    /// before the master receives from the front end.
    ///
    /// # Errors
    /// The table has not come in time, the master is lost, or this is no such daemon; or not all processes
    /// were found here.
    pub fn targets(&self, timeout: Duration) -> Result<Vec<Target>, TargetsError> {
        let until = deadline(timeout);
        let left = || until.saturating_duration_since(Instant::now());
        let mut parts = None;
        if self.is_master() {
            let table = self.recv().wait(left())?;
            let table: Vec<Part> = postcard::from_bytes(&table).map_err(|_| TargetsError::NoTable)?;
            parts = Some(table.iter().map(encoded).collect());
        }
        let part = self.scatter(self.master(), parts).wait(left())?;
        let mut part: Part = postcard::from_bytes(&part).map_err(|_| TargetsError::NoTable)?;
        let found = part.find(until);
        if part.is_gathered {
            // Other daemons have found theirs.
            self.gather_to_front(encoded(&part)).wait(left().max(Duration::from_secs(1)))?;
        }
        found?;
        part.targets().ok_or(TargetsError::NoTable)
    }
}
