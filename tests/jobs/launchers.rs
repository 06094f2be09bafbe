//! Launchers that are installed, and jobs of Open MPI's `mpirun`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use libi_testkit::native::scratch;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) const HYDRA: &[&str] = &["mpiexec.hydra", "-n"];
pub(crate) const OPEN_MPI: &[&str] = &["mpirun", "--oversubscribe", "-np"];

/// The launchers that are installed.
pub(crate) fn launchers() -> Vec<&'static [&'static str]> {
    let hydra = has_hydra().then_some(HYDRA);
    hydra.into_iter().chain(has_open_mpi().then_some(OPEN_MPI)).collect()
}

/// Whether there is an `mpiexec.hydra`; CI must have one.
pub(crate) fn has_hydra() -> bool {
    let is_installed = Path::new("/usr/bin/mpiexec.hydra").exists();
    assert!(is_installed || std::env::var_os("CI").is_none(), "MPICH is not installed");
    is_installed
}

/// The library that programs of Open MPI need when they run. Without it no job can be started: a missing
/// environment, which CI must not have.
fn library() -> Option<PathBuf> {
    let output = Command::new("ldconfig").arg("-p").env("PATH", "/usr/sbin:/sbin:/usr/bin").output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.contains("libmpi.so.40 "));
    let found = line.and_then(|line| line.split(" => ").nth(1)).map(PathBuf::from);
    assert!(found.is_some() || std::env::var_os("CI").is_none(), "Open MPI is not installed");
    found
}

pub(crate) fn has_open_mpi() -> bool {
    library().is_some()
}

/// A program of an MPI job.
pub(crate) fn rank() -> Option<&'static Path> {
    static RANK: OnceLock<Option<PathBuf>> = OnceLock::new();
    RANK.get_or_init(|| compiled("rank")).as_deref()
}

/// Compiles a program for MPI jobs.
pub(crate) fn compiled(name: &str) -> Option<PathBuf> {
    let (library, program) = (library()?, scratch().join(format!("{name}-{}", std::process::id())));
    let source = format!("{}/tests/jobs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-g", "-Wall", "-Werror", &source, "-o"]).arg(&program).arg(library);
    assert!(compiler.status().unwrap().success(), "{compiler:?}");
    Some(program)
}

/// A job, which ends with this value.
pub(crate) struct Mpirun(Child);

impl Mpirun {
    pub(crate) fn of(processes: u32, program: &Path, words: &[&str]) -> Self {
        let mut mpirun = Command::new("mpirun");
        mpirun.args(["--oversubscribe", "-np", &processes.to_string()]).arg(program).args(words);
        Self::started(mpirun)
    }

    pub(crate) fn started(mut mpirun: Command) -> Self {
        let allowed = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "OMPI_MPIR_DO_NOT_WARN"];
        mpirun.envs(allowed.map(|name| (name, "1"))).stdin(Stdio::null()).stdout(Stdio::piped());
        Self(mpirun.spawn().unwrap())
    }

    /// The process IDs of the ranks, as they say themselves.
    pub(crate) fn said(&mut self, processes: u32) -> BTreeMap<u32, i32> {
        let said = said(self.0.stdout.take().unwrap(), processes);
        if said.len() < processes as usize {
            let ended = self.0.wait().unwrap();
            panic!("the launcher has ended: {ended}; of {processes} ranks only {said:?}");
        }
        said
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Mpirun {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

/// The process IDs of ranks, as they say themselves: lines of both numbers.
pub(crate) fn said(out: impl Read, processes: u32) -> BTreeMap<u32, i32> {
    let lines = BufReader::new(out).lines().take(processes as usize);
    let entry = |line: String| {
        let (rank, pid) = line.split_once(' ').unwrap();
        (rank.parse().unwrap(), pid.parse().unwrap())
    };
    lines.map(|line| entry(line.unwrap())).collect()
}
