//! The ends of processes of a job, as they happen.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use libi_core::dist::OsBytes;
use libi_core::ids::Rank;
use libi_launch::failure::Exit;
use libi_launch::process::{exit_of_pidfd, open_pidfd};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{Job, Target, deadline};

/// How often processes are looked at where the system has no descriptors of processes.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// Waits for the ends of processes on this machine.
///
/// ```no_run
/// # fn f(member: &libi::Member) -> Result<(), libi::job::TargetsError> {
/// use std::time::Duration;
/// use libi::job::{End, Ends};
///
/// let targets = member.targets(Duration::from_secs(30))?;
/// let mut ends = Ends::of(&targets);
/// while let Some(End::Process(rank)) = ends.next(Duration::from_secs(3600)) {
///     println!("{rank} has ended");
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Ends {
    running: Vec<(End, Target, Option<OwnedFd>)>,
}

/// Within this time the parent of a process that has ended is expected to collect its status.
const COLLECTED_WITHIN: Duration = Duration::from_millis(500);

/// What has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A process of the job.
    Process(Rank),
    /// Its launcher, and with it the job.
    Launcher,
}

impl Ends {
    /// Of these processes.
    #[must_use]
    pub fn of(targets: &[Target]) -> Self {
        let mut ends = Self { running: Vec::new() };
        targets.iter().for_each(|target| ends.add(End::Process(target.rank()), target.clone()));
        ends
    }

    /// Of the launcher of a job, if it is on this machine. Of another one no end is known: it has none to tell.
    #[must_use]
    pub fn of_launcher(job: &Job) -> Self {
        let mut ends = Self { running: Vec::new() };
        if job.launcher_host().is_some() {
            return ends;
        }
        let launcher = Target::new(Rank(0), job.launcher_pid(), job.launcher().clone());
        // Another process may have its number by now.
        ends.add(End::Launcher, if job.is_running() { launcher } else { Target::gone() });
        ends
    }

    /// Adds the launcher with this process ID.
    pub(super) fn watch_launcher(&mut self, pid: i32) {
        self.add(End::Launcher, Target::new(Rank(0), pid, OsBytes::default()));
    }

    /// Whether all have ended, and were told.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    fn add(&mut self, end: End, target: Target) {
        // One that has ended before its descriptor was opened is not running, and told at once.
        let fd = open_pidfd(target.pid());
        self.running.push((end, target, fd));
    }

    /// Waits until one of those that are left has ended; `None` at the timeout, or at once if none is left.
    pub fn next(&mut self, timeout: Duration) -> Option<End> {
        self.take_next(timeout).map(|(end, _)| end)
    }

    /// As [`next`](Self::next), and how it has ended: Linux tells that since 6.15, once the parent of the process
    /// has collected the status, which is waited for half a second; otherwise it is [`Exit::Unknown`].
    pub fn next_with_exit(&mut self, timeout: Duration) -> Option<(End, Exit)> {
        let (end, fd) = self.take_next(timeout)?;
        Some((end, fd.map_or(Exit::Unknown, |fd| exit_of(&fd))))
    }

    fn take_next(&mut self, timeout: Duration) -> Option<(End, Option<OwnedFd>)> {
        let until = deadline(timeout);
        loop {
            if let Some(at) = self.running.iter().position(|(_, target, _)| !target.is_running()) {
                let (end, _, fd) = self.running.remove(at);
                return Some((end, fd));
            }
            let left = until.saturating_duration_since(Instant::now());
            if self.running.is_empty() || left.is_zero() {
                return None;
            }
            wait(self.descriptors(), left);
        }
    }

    /// What is readable once one of them has ended; `None` where the system has no such descriptors.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = Option<BorrowedFd<'_>>> {
        self.running.iter().map(|(.., fd)| fd.as_ref().map(AsFd::as_fd))
    }
}

/// How a process has ended, of which that may be told a little later than that it has.
fn exit_of(pidfd: &OwnedFd) -> Exit {
    let until = Instant::now() + COLLECTED_WITHIN;
    loop {
        if let Some(exit) = exit_of_pidfd(pidfd.as_fd()) {
            return exit;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Exit::Unknown;
        }
        // It hangs up once the parent has collected the status.
        let mut fds = [PollFd::new(pidfd.as_fd(), PollFlags::empty())];
        let millis = PollTimeout::try_from(left.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::ZERO);
        if poll(&mut fds, millis).is_ok_and(|ready| ready > 0) && exit_of_pidfd(pidfd.as_fd()).is_none() {
            return Exit::Unknown; // of an older system
        }
    }
}

/// Waits until one of these is readable, or a little if a process has no descriptor.
pub(super) fn wait<'a>(fds: impl Iterator<Item = Option<BorrowedFd<'a>>>, timeout: Duration) {
    let all: Option<Vec<PollFd<'_>>> =
        fds.map(|fd| fd.map(|fd| PollFd::new(fd, PollFlags::POLLIN))).collect();
    let Some(mut all) = all else { return std::thread::sleep(LOOKS_EVERY.min(timeout)) };
    let millis = PollTimeout::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut all, millis); // what has ended is looked at afterwards
}
