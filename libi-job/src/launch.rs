//! Launching a job under control: its ranks are held in front of their programs until they are released.
//!
//! ```text
//!   tool                          launcher (srun, mpirun, mpiexec)        each rank
//!     | Launch::start: the program behind a gate                            |
//!     | ---------------------------> | -------------------------------> held |
//!     | Launched::attach: which processes they are, and where               |
//!     | == daemons beside them ======================================> Target::release
//!     |                                                                     | the program
//! ```
//!
//! | what fails | what follows |
//! |---|---|
//! | the launcher cannot be started | [`LaunchError`] |
//! | it ends before all ranks are there | [`AttachError::Ended`], and its exit status |
//! | the tool ends, or a daemon | what is held goes on at the time limit |
//! | a program cannot be executed | its rank ends with 126 or 127, as in a shell |
//!
//! Input, output and exit status of the job are the launcher's.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use libi_core::dist::OsBytes;

use crate::attach::Job;
use crate::command_line::{self, NotFound};
use crate::error::AttachError;
use crate::gate;
use crate::pauses::Pauses;

/// How long ranks are held at most unless the caller chooses.
const DEFAULT_HOLD: Duration = Duration::from_secs(60);

/// A job that is launched by its own launcher, with its ranks held in front of their programs.
///
/// ```no_run
/// use std::time::Duration;
/// use libi_job::Launch;
///
/// let mut launched = Launch::new(["srun", "-n", "64"], ["/opt/solver", "--steps", "10"]).start()?;
/// let job = launched.attach(Duration::from_secs(30))?;
/// println!("{} processes are held on {:?}", job.processes().len(), job.hosts());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Launch {
    launcher: Vec<OsString>,
    program: Vec<OsString>,
    hold: Duration,
}

/// Why a job was not launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// There is no word for the launcher, or none for the program.
    #[error("the command line has no {0}")]
    Missing(&'static str),
    /// The launcher or an option of it is not known, so that the place of the program is not, either.
    #[error("{0} is not known, so it is not known where the program begins: it has to be given apart")]
    Unknown(String),
    /// The launcher starts more than one program, so that there is no place for a gate.
    #[error("{0} on the launcher's command line: only jobs of one program can be held")]
    ManyPrograms(String),
    /// The launcher cannot be started.
    #[error("{launcher} cannot be started: {why}")]
    NotStarted {
        /// Its name.
        launcher: String,
        /// What the system said.
        why: io::Error,
    },
}

impl Launch {
    /// The words of the launcher and its options, and those of the program that its ranks run.
    pub fn new<L: AsRef<OsStr>, P: AsRef<OsStr>>(
        launcher: impl IntoIterator<Item = L>,
        program: impl IntoIterator<Item = P>,
    ) -> Self {
        Self {
            launcher: launcher.into_iter().map(|word| word.as_ref().to_owned()).collect(),
            program: program.into_iter().map(|word| word.as_ref().to_owned()).collect(),
            hold: DEFAULT_HOLD,
        }
    }

    /// The words of a launcher's command line, with the program: of `srun`, `mpirun` of Open MPI or `mpiexec` of
    /// MPICH.
    ///
    /// # Errors
    /// The launcher, or an option of it, is not known, so that the program is not found:
    /// [`new`](Self::new) takes both apart.
    pub fn command_line<W: AsRef<OsStr>>(words: impl IntoIterator<Item = W>) -> Result<Self, LaunchError> {
        let words: Vec<OsString> = words.into_iter().map(|word| word.as_ref().to_owned()).collect();
        let at = command_line::program(&words).map_err(|why| match why {
            NotFound::Launcher if words.is_empty() => LaunchError::Missing("launcher"),
            NotFound::Launcher => LaunchError::Unknown(words[0].to_string_lossy().into_owned()),
            NotFound::Option(option) => LaunchError::Unknown(option),
            NotFound::Many(option) => LaunchError::ManyPrograms(option),
            NotFound::Program => LaunchError::Missing("program"),
        })?;
        let (launcher, program) = words.split_at(at);
        // The separator is not repeated behind the gate.
        Ok(Self::new(launcher, program))
    }

    /// How long ranks are held at most, in whole seconds: by default a minute. Then they go on, whether they
    /// were released or not.
    #[must_use]
    pub const fn hold(mut self, limit: Duration) -> Self {
        self.hold = limit;
        self
    }

    /// The command that starts the job: for its directory, environment and standard streams.
    ///
    /// # Errors
    /// A part of the command line is missing, or it has several programs.
    pub fn command(&self) -> Result<Command, LaunchError> {
        let [name, options @ ..] = &self.launcher[..] else { return Err(LaunchError::Missing("launcher")) };
        if self.program.is_empty() {
            return Err(LaunchError::Missing("program"));
        }
        let many = |word: &&OsString| *word == "--multi-prog" || *word == "--app";
        let ends = |word: &&OsString| *word == ":";
        let several = options.iter().find(many).or_else(|| options.iter().chain(&self.program).find(ends));
        if let Some(word) = several {
            return Err(LaunchError::ManyPrograms(word.to_string_lossy().into_owned()));
        }
        let mut command = Command::new(name);
        command.args(options).args(gate::words(self.hold)).args(&self.program);
        Ok(command)
    }

    /// Starts the job with the standard streams of this process.
    ///
    /// # Errors
    /// See [`LaunchError`].
    pub fn start(&self) -> Result<Launched, LaunchError> {
        self.start_as(&mut self.command()?)
    }

    /// Starts the job by its [command](Self::command).
    ///
    /// # Errors
    /// See [`LaunchError`].
    pub fn start_as(&self, command: &mut Command) -> Result<Launched, LaunchError> {
        let launcher = command.get_program().to_string_lossy().into_owned();
        let child = command.spawn().map_err(|why| LaunchError::NotStarted { launcher, why })?;
        let program = self.program.first().and_then(|program| OsBytes::new(program.as_bytes()).ok());
        Ok(Launched { child, program: program.unwrap_or_default() })
    }
}

/// A job that was launched under control. It goes on when this value is dropped, and what is held does at
/// the time limit.
#[derive(Debug)]
pub struct Launched {
    child: Child,
    program: OsBytes,
}

impl Launched {
    /// Finds the ranks of the job, once all are held, as [`Job::attach`] does.
    ///
    /// # Errors
    /// See [`AttachError`].
    pub fn attach(&self, timeout: Duration) -> Result<Job, AttachError> {
        let mut job = Job::attach_to(self.child.id().cast_signed(), None, timeout, true)?;
        job.runs(&self.program);
        Ok(job)
    }

    /// The launcher, for its standard streams and for signals.
    pub fn launcher(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for the end of the job, which is that of the launcher; `None` at the timeout.
    ///
    /// # Errors
    /// The status of the launcher was collected elsewhere.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        let mut pauses = Pauses::until(timeout);
        loop {
            match self.child.try_wait()? {
                None if !pauses.is_over() => pauses.pause(),
                ended => return Ok(ended),
            }
        }
    }
}
