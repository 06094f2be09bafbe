//! A process of a job on its own host: whether it is still what the launcher has started.

use std::io;
use std::time::{Duration, Instant};

use libi_core::dist::OsBytes;
use libi_core::ids::Rank;
use libi_core::ranks::Ranks;
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::gate;
use crate::process::ProcessId;

/// A process of a job, as a daemon on its host knows it.
///
/// It is told from a later process with the same number: by when it has started, as it was when the daemon got
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    rank: Rank,
    pid: i32,
    executable: OsBytes,
    found: Option<ProcessId>,
}

impl Target {
    /// The process with this ID on this host, which the launcher has started as `executable`.
    #[must_use]
    pub fn new(rank: Rank, pid: i32, executable: OsBytes) -> Self {
        let found = (pid > 0).then(|| ProcessId::of(pid)).flatten().filter(ProcessId::lives);
        Self { rank, pid, executable, found }
    }

    /// A process that has ended.
    #[must_use]
    pub fn gone() -> Self {
        Self::new(Rank(0), 0, OsBytes::default())
    }

    /// Its rank in the job.
    #[must_use]
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Its process ID on this host.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// What the launcher has started.
    #[must_use]
    pub fn executable(&self) -> &OsBytes {
        &self.executable
    }

    /// Whether it runs: the process that was there at first, and not another one that has its number now.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.found.as_ref().is_some_and(ProcessId::lives)
    }

    /// Whether it is held in front of its program, as a job that was launched under control is at first.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.is_running() && gate::program(self.pid).is_some()
    }

    /// Lets it go on to its program, if it is held. Others have the signal as well (SIGURG), and are none the
    /// worse for it.
    ///
    /// # Errors
    /// It may not be signalled, or is still held at the timeout.
    pub fn release(&self, timeout: Duration) -> io::Result<()> {
        let began = Instant::now();
        let mut pause = Duration::from_micros(200);
        while self.is_held() {
            match kill(Pid::from_raw(self.pid), Signal::SIGURG) {
                Ok(()) | Err(Errno::ESRCH) => {}
                Err(errno) => return Err(errno.into()),
            }
            if began.elapsed() >= timeout {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Lets all of these go at the same time, as [`release`](Self::release) does one, and returns the ranks that
    /// are still held at the timeout.
    pub fn release_all<'a>(targets: impl Iterator<Item = &'a Self> + Clone, timeout: Duration) -> Ranks {
        let began = Instant::now();
        // All have the signal before one is waited for.
        targets.clone().for_each(|target| drop(target.release(Duration::ZERO)));
        let is_held = |target: &&Self| {
            target.release(timeout.saturating_sub(began.elapsed())).is_err() && target.is_held()
        };
        targets.filter(is_held).map(Self::rank).collect()
    }

    /// The executable that it runs now, which may be another one than was started; `None` if it has ended or
    /// may not be looked at.
    #[must_use]
    pub fn runs(&self) -> Option<OsBytes> {
        let executable = self.found.as_ref()?.executable();
        self.is_running().then_some(executable).filter(|executable| !executable.as_bytes().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_running_as_long_as_that_very_process_is() {
        let name = |text: &str| OsBytes::try_from(text).unwrap();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let target = Target::new(Rank(3), child.id() as i32, name("sleep"));
        assert!(target.is_running() && (target.rank(), target.executable()) == (Rank(3), &name("sleep")));
        let another = Target { found: ProcessId::of(std::process::id() as i32), ..target.clone() };
        assert_ne!(another, target);
        child.kill().unwrap();
        // Its parent has not noticed yet.
        while target.is_running() {
            std::thread::yield_now();
        }
        assert_eq!(target.runs(), None);
        child.wait().unwrap();
        assert!(!Target::new(Rank(3), target.pid(), name("sleep")).is_running());
        assert!(!Target::new(Rank(3), -1, name("sleep")).is_running());
    }
}
