//! Attaching to a running job by the process ID of its launcher.
//!
//! | state | event | next |
//! |---|---|---|
//! | looking | the program, or a library in the order of their mappings, has the variables | reading |
//! | looking | it notes the hosts of a session, or its ancestor with the same program does | finding |
//! | looking | none has, and it has started daemons of Hydra, or is `prterun` | finding |
//! | looking | none has, and the process is [`YOUNG`] | looking again a little later: it may load its libraries |
//! | reading | the table is empty, and the launcher has a named pipe for requests | asked, once; reading |
//! | reading | the same, and nothing reads from the pipe yet | reading; asked again a little later |
//! | reading | as `mpir.rs` says | known, reading again a little later, or refused |
//! | reading | its ranks are held, and Open MPI fills its table when none is | finding |
//! | reading | the table of Open MPI is empty for [`EMPTY_FOR`], and all its ranks are on this machine | finding: they may not use MPI |
//! | reading | the table of Open MPI or Hydra is empty at the timeout | finding, once |
//! | finding | [`found`] has the same twice, and all that are on this machine | known; others are found on their hosts |
//! | finding | anything else | again a little later, or refused at the timeout |
//! | any | the launcher has ended | refused |

use std::time::Duration;

use libi_core::dist::OsBytes;
use libi_core::ids::SessionId;
use nix::unistd::Pid;

use crate::error::AttachError;
use crate::found::{self, Daemons, Find, FoundHost, Source};
use crate::kind::LauncherKind;
use crate::memory::ProcessMemory;
use crate::mpir::{self, Flaw, Next, Readings};
use crate::pauses::Pauses;
use crate::process::ProcessId;
use crate::session::{self, Hosts};
use crate::table::ProcessTable;
use crate::variables::Variables;

/// How many processes above one are looked at.
const MOST_ABOVE: usize = 64;
/// How long the table of Open MPI may be empty before its ranks are looked for.
const EMPTY_FOR: Duration = Duration::from_millis(300);
/// How old a process is that may still become a launcher, or load its libraries.
const YOUNG: Duration = Duration::from_secs(2);

/// A running parallel job, which goes on whatever happens to this value.
#[derive(Debug)]
pub struct Job {
    pub(crate) launcher: ProcessId,
    pub(crate) kind: LauncherKind,
    pub(crate) executable: OsBytes,
    pub(crate) table: ProcessTable,
    pub(crate) slurm_job: Option<String>,
    /// Its hosts, where the launcher has no table of their processes.
    pub(crate) found: Vec<FoundHost>,
    /// The host of the launcher, if that is not this machine.
    pub(crate) launcher_host: Option<String>,
}

impl Job {
    /// Finds the processes of the job that the process with this ID has launched, on this machine. The table
    /// may still be empty or half-written: it is read again until the timeout is over.
    ///
    /// # Errors
    /// See the [crate](crate).
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// let job = libi_job::Job::attach(4711, Duration::from_secs(5))?;
    /// for process in job.processes().iter() {
    ///     println!("{} {} {} {}", process.rank, process.host, process.pid, process.executable);
    /// }
    /// # Ok::<(), libi_job::AttachError>(())
    /// ```
    pub fn attach(pid: i32, timeout: Duration) -> Result<Self, AttachError> {
        Self::attach_to(pid, None, timeout, false)
    }

    /// As [`attach`](Self::attach), for a front end of libi that has several sessions.
    ///
    /// # Errors
    /// As [`attach`](Self::attach).
    pub fn attach_to_session(pid: i32, session: SessionId, timeout: Duration) -> Result<Self, AttachError> {
        Self::attach_to(pid, Some(session), timeout, false)
    }

    /// The ranks may be held in front of their programs.
    pub(crate) fn attach_to(
        pid: i32,
        session: Option<SessionId>,
        timeout: Duration,
        is_held: bool,
    ) -> Result<Self, AttachError> {
        let mut pauses = Pauses::until(timeout);
        // Zero and negative numbers would mean other processes to the system.
        let named = (pid > 0).then(|| ProcessId::of(pid)).flatten().ok_or(AttachError::NoProcess { pid })?;
        let (launcher, variables) = loop {
            let launcher = named.clone().uppermost();
            // An agent may be the same program as the front end.
            let front_end = [&named, &launcher].into_iter().find(|process| is_front_end(process));
            let front_end = front_end.unwrap_or(&named);
            if let Some(hosts) = session_of(front_end, session)? {
                let job = Self::find(front_end.clone(), Source::Libi(hosts.session), pauses.left())?;
                return Ok(Self { slurm_job: hosts.slurm_job, ..job });
            }
            let variables = Variables::of(&launcher);
            let has_none =
                matches!(variables, Err(AttachError::NoLauncher { .. } | AttachError::Stripped { .. }));
            if has_none && let Some(daemons) = Daemons::of(&launcher) {
                return Self::find(launcher, Source::Children(daemons), pauses.left());
            }
            match variables {
                Ok(variables) => break (launcher, variables),
                Err(AttachError::NoLauncher { .. } | AttachError::Stripped { .. })
                    if !pauses.is_over() && named.age().is_some_and(|age| age < YOUNG) =>
                {
                    pauses.pause();
                }
                Err(error) => return Err(error.with_launcher(|| launcher_above(&launcher))),
            }
        };
        let executable = launcher.executable();
        let kind = variables.kind(&executable);
        let memory = ProcessMemory(Pid::from_raw(launcher.pid));
        if is_held && kind == LauncherKind::OpenMpi {
            return Self::find(launcher, Source::Children(Daemons::OpenMpi), pauses.left());
        }
        let (mut readings, mut is_asked) = (Readings::default(), false);
        loop {
            let reading = mpir::read(&memory, variables.place);
            let reading = reading.map_err(|errno| launcher.refusal(errno, "the process table"))?;
            let is_over = pauses.is_over();
            if reading == Err(Flaw::Empty) && !is_asked {
                is_asked = match variables.ask(&launcher, &memory) {
                    // It is starting.
                    Err(AttachError::NotAsked { .. }) if !is_over => false,
                    asked => asked?,
                };
            }
            if let Next::Known(table) = readings.take(reading) {
                let slurm_job = variables.slurm_job(&memory).filter(|_| kind == LauncherKind::Srun);
                return Ok(Self {
                    launcher,
                    kind,
                    executable,
                    table,
                    slurm_job,
                    found: Vec::new(),
                    launcher_host: None,
                });
            }
            // Ranks that use no MPI: the table stays empty.
            let may_find = kind == LauncherKind::OpenMpi && readings.flaw() == Flaw::Empty;
            if may_find
                && pauses.waited() >= EMPTY_FOR
                && let Ok(job) =
                    Self::find(launcher.clone(), Source::Children(Daemons::OpenMpi), Duration::ZERO)
                && job.is_whole()
            {
                return Ok(job);
            }
            let pid = launcher.pid;
            if !launcher.lives() {
                return Err(AttachError::Ended { pid, executable });
            }
            if is_over {
                let flaw = readings.flaw();
                let refused = AttachError::Flawed { pid, executable, flaw, waited: pauses.waited() };
                let by_daemons = match kind {
                    _ if flaw != Flaw::Empty => None,
                    LauncherKind::OpenMpi => Some(Daemons::OpenMpi),
                    _ => Daemons::of(&launcher),
                };
                let found =
                    by_daemons.map(|daemons| Self::find(launcher, Source::Children(daemons), Duration::ZERO));
                return found.and_then(Result::ok).ok_or(refused);
            }
            pauses.pause();
        }
    }

    /// Finds the hosts of a job by the processes that its launcher has started, and the processes that are
    /// on this machine.
    fn find(launcher: ProcessId, source: Source, timeout: Duration) -> Result<Self, AttachError> {
        let (executable, kind) = (launcher.executable(), source.kind());
        let (mut last, mut pauses): (Option<Result<found::Reading, Flaw>>, _) =
            (None, Pauses::until(timeout));
        let mut was_over = false;
        loop {
            let reading = found::read(&launcher, source);
            match (reading, last.take()) {
                (Ok((found, table)), Some(Ok(last))) if (&found, &table) == (&last.0, &last.1) => {
                    return Ok(Self {
                        launcher,
                        kind,
                        executable,
                        table,
                        slurm_job: None,
                        found,
                        launcher_host: None,
                    });
                }
                (reading, _) => last = Some(reading),
            }
            let pid = launcher.pid;
            if !launcher.lives() {
                return Err(AttachError::Ended { pid, executable });
            }
            // What was whole at the timeout is read once more.
            if pauses.is_over() && (std::mem::replace(&mut was_over, true) || !matches!(last, Some(Ok(_)))) {
                let flaw = last.and_then(Result::err).unwrap_or(Flaw::Changes);
                return Err(AttachError::Flawed { pid, executable, flaw, waited: pauses.waited() });
            }
            pauses.pause();
        }
    }

    /// Which program has launched the job.
    #[must_use]
    pub fn kind(&self) -> LauncherKind {
        self.kind
    }

    /// The process that has the table. It may be an ancestor of the one that was named.
    #[must_use]
    pub fn launcher_pid(&self) -> i32 {
        self.launcher.pid
    }

    /// The executable of the launcher.
    #[must_use]
    pub fn launcher(&self) -> &OsBytes {
        &self.executable
    }

    /// The number of the Slurm job that it is a step of, if `srun` has launched it; of a session of libi, that
    /// of its hosts.
    #[must_use]
    pub fn slurm_job(&self) -> Option<&str> {
        self.slurm_job.as_deref()
    }

    /// The host of the launcher, if it is not this machine.
    #[must_use]
    pub fn launcher_host(&self) -> Option<&str> {
        self.launcher_host.as_deref()
    }

    /// Whether the launcher still runs, if it is on this machine. Of one on another host that is not known: it
    /// counts as running.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.launcher_host.is_some() || self.launcher.lives()
    }

    /// The processes of the job, as they were when it was attached to: all, if it [is whole](Self::is_whole).
    #[must_use]
    pub fn processes(&self) -> &ProcessTable {
        &self.table
    }

    /// Whether all processes are known. Otherwise those on other machines have to be [found](Self::find_on)
    /// there, since the launcher has no table of them.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.found.iter().all(|host| host.find.is_here())
    }

    /// The hosts of the job, each once.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        if self.found.is_empty() {
            return self.table.hosts().iter().map(String::as_str).collect();
        }
        self.found.iter().map(|host| &*host.name).collect()
    }

    /// How the processes of a host are found there, if they are not known.
    #[must_use]
    pub fn find_on(&self, host: &str) -> Option<&Find> {
        let found = self.found.iter().find(|found| found.name == host);
        found.map(|found| &found.find).filter(|find| !find.is_here())
    }

    /// What is said of all processes was said by their gates: they are to run this program.
    pub(crate) fn runs(&mut self, program: &OsBytes) {
        let mut table = ProcessTable::default();
        for process in self.table.iter() {
            table.insert(process.rank, process.host.to_owned(), program.clone(), process.pid);
        }
        self.table = table;
    }
}

fn is_front_end(process: &ProcessId) -> bool {
    !session::notes_of::<Hosts>(process.pid).is_empty()
}

/// The session of this front end with this number, or its only one; of another process, none.
fn session_of(front_end: &ProcessId, number: Option<SessionId>) -> Result<Option<Hosts>, AttachError> {
    let mut all = session::notes_of::<Hosts>(front_end.pid);
    let pid = front_end.pid;
    let mut here: Vec<SessionId> = all.iter().map(|hosts| hosts.session).collect();
    here.sort();
    all.retain(|hosts| number.is_none_or(|number| number == hosts.session));
    match (all.len(), number) {
        // A program may give the same number to several.
        (2.., _) => Err(AttachError::ManySessions { pid, sessions: here }),
        (0, Some(session)) => Err(AttachError::NoSession { pid, session, here }),
        _ => Ok(all.pop()),
    }
}

/// The process above this one that has launched a job, and its executable.
fn launcher_above(process: &ProcessId) -> Option<(i32, OsBytes)> {
    let above = std::iter::successors(process.parent(), ProcessId::parent);
    let is_one = |process: &ProcessId| {
        is_front_end(process) || Variables::of(process).is_ok() || Daemons::of(process).is_some()
    };
    above.take(MOST_ABOVE).find(is_one).map(|launcher| (launcher.pid, launcher.executable()))
}
