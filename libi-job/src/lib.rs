//! Running parallel jobs: the processes of a job, as its launcher knows them.
//!
//! A launcher (`srun`, `mpirun`, ...) keeps a table for debuggers in its memory: host, executable and process ID
//! of each rank (the MPIR interface). [`Job::attach`] reads it while the launcher goes on: it is not stopped,
//! not traced, and not changed but for the flag by which launchers of Open MPI are asked to fill the table.
//!
//! Launchers of Hydra have no table: their processes are found by what they are told in their environment.
//! Sessions of libi [note](session) which processes they have.
//! Of a launcher on another host a process there [sends](Job::to_bytes) what it knows.
//! [`Launch`] starts a job by its launcher and holds its ranks in front of their programs.
//!
//! | step | what may be wrong | error |
//! |---|---|---|
//! | the process | there is none; it has ended | [`NoProcess`], [`Ended`] |
//! | the step of a Slurm job | none is here, or several are | [`NoStep`], [`ManySteps`] |
//! | the session of a front end | it has several, or not this one | [`ManySessions`], [`NoSession`] |
//! | its memory and files | another user's; forbidden by the system | [`OtherUser`], [`Yama`], [`Forbidden`] |
//! | symbols of the program and its libraries | none at all; not for this kind of machine; no table | [`Stripped`], [`Foreign`], [`NoLauncher`] |
//! | Open MPI is asked | its named pipe is gone, or not read | [`NotAsked`] |
//! | the table | empty, half-written, torn, or nonsense until the deadline | [`Flawed`] |
//! | what is found without a table | hosts or processes are missing until the deadline | [`Flawed`] |
//!
//! [`NoProcess`]: AttachError::NoProcess
//! [`Ended`]: AttachError::Ended
//! [`NoStep`]: AttachError::NoStep
//! [`ManySteps`]: AttachError::ManySteps
//! [`ManySessions`]: AttachError::ManySessions
//! [`NoSession`]: AttachError::NoSession
//! [`OtherUser`]: AttachError::OtherUser
//! [`Yama`]: AttachError::Yama
//! [`Forbidden`]: AttachError::Forbidden
//! [`Stripped`]: AttachError::Stripped
//! [`Foreign`]: AttachError::Foreign
//! [`NoLauncher`]: AttachError::NoLauncher
//! [`NotAsked`]: AttachError::NotAsked
//! [`Flawed`]: AttachError::Flawed
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod attach;
mod command_line;
mod elf;
mod elsewhere;
mod error;
mod found;
mod gate;
mod kind;
mod launch;
mod maps;
mod memory;
mod mpir;
mod pauses;
mod process;
pub mod session;
mod slurm;
mod table;
mod target;
mod variables;

pub use attach::Job;
pub use elsewhere::JobName;
pub use error::AttachError;
pub use found::{Find, Found};
pub use kind::LauncherKind;
pub use launch::{Launch, LaunchError, Launched};
pub use mpir::Flaw;
pub use table::{JobProcess, ProcessTable};
pub use target::Target;
