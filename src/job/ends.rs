//! The ends of processes of a job, as they happen.

use std::os::fd::{AsFd, OwnedFd};
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
    /// has collected the status; otherwise it is [`Exit::Unknown`].
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
            wait(self.running.iter().map(|(.., fd)| fd.as_ref()), left);
        }
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

/// Waits until one of these processes has ended, or a little if not all have descriptors.
fn wait<'a>(fds: impl Iterator<Item = Option<&'a OwnedFd>>, timeout: Duration) {
    let all: Option<Vec<PollFd<'_>>> =
        fds.map(|fd| fd.map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN))).collect();
    let Some(mut all) = all else { return std::thread::sleep(LOOKS_EVERY.min(timeout)) };
    let millis = PollTimeout::try_from(timeout.as_micros().div_ceil(1000)).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut all, millis); // what has ended is looked at afterwards
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// A process of another parent, which collects it, and its process ID.
    fn grandchild(script: &str) -> (std::process::Child, i32) {
        let script = format!("sh -c 'read go; {script}' <&3 & echo $!; wait");
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec 3<&0; {script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.as_mut().unwrap()), &mut line)
            .unwrap();
        (shell, line.trim().parse().unwrap())
    }

    #[test]
    fn the_exit_status_of_others_processes_is_known_where_the_system_tells_it() {
        for (script, expected) in
            [("exit 7", Exit::Code(7)), ("kill -9 $$", Exit::Signal(9)), ("exit 0", Exit::Code(0))]
        {
            let (mut shell, pid) = grandchild(script);
            let target = Target::new(Rank(3), pid, OsBytes::default());
            let mut ends = Ends::of(&[target]);
            assert_eq!(ends.next_with_exit(Duration::ZERO), None, "it runs");
            drop(shell.stdin.take()); // it goes on
            let (end, exit) = ends.next_with_exit(SOON).unwrap();
            assert_eq!(end, End::Process(Rank(3)));
            assert!(exit == expected || exit == Exit::Unknown && !is_told(), "{exit:?}, not {expected:?}");
            assert!(ends.is_empty());
            shell.wait().unwrap();
        }
    }

    /// Whether this system is new enough.
    fn is_told() -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
        let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
        (numbers.next().unwrap(), numbers.next().unwrap_or(0)) >= (6, 15)
    }
}
