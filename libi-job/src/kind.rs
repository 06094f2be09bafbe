//! The launchers that are known.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which program has launched a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LauncherKind {
    /// Slurm's `srun`.
    Srun,
    /// Open MPI's or PRRTE's `mpirun`, by whatever name.
    OpenMpi,
    /// Hydra's `mpiexec`, of MPICH and others. It keeps no process table.
    Hydra,
    /// A front end of libi. It has no process table, but [notes](crate::session) its hosts.
    Libi,
    /// Another one that keeps a process table.
    Other,
}

impl fmt::Display for LauncherKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Srun => "srun",
            Self::OpenMpi => "mpirun of Open MPI",
            Self::Hydra => "mpiexec of Hydra",
            Self::Libi => "libi",
            Self::Other => "a launcher",
        })
    }
}
