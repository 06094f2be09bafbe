//! What `/proc` says of a process, and of what it runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use libi_core::dist::OsBytes;
use nix::errno::Errno;
use nix::unistd::{SysconfVar, geteuid, sysconf};
use serde::{Deserialize, Serialize};

use crate::error::AttachError;
use crate::maps::{Object, objects};

/// A process of this machine, which is told from a later one with its number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    /// When it has started, in ticks since the system has.
    started: u64,
}

impl ProcessId {
    /// The process with this number, if there is one now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Some(Self { pid, started: field(pid, 22)? })
    }

    /// The process that has started it, or has taken it over; not the first of the system.
    pub(crate) fn parent(&self) -> Option<Self> {
        Self::of(field(self.pid, 4).filter(|parent| *parent > 1)?)
    }

    /// Whether it is still there, and has not ended.
    pub(crate) fn lives(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self) && state(self.pid) != Some('Z')
    }

    /// How long it has run.
    pub(crate) fn age(&self) -> Option<Duration> {
        let ticks = sysconf(SysconfVar::CLK_TCK).ok()??;
        let uptime = fs::read_to_string("/proc/uptime").ok()?;
        let uptime = Duration::try_from_secs_f64(uptime.split(' ').next()?.parse().ok()?).ok()?;
        Some(uptime.saturating_sub(Duration::try_from_secs_f64(self.started as f64 / ticks as f64).ok()?))
    }

    /// Its executable, as far as it may be known.
    pub(crate) fn executable(&self) -> OsBytes {
        let link = fs::read_link(format!("/proc/{}/exe", self.pid));
        let path = link.map_or_else(
            |_| fs::read(format!("/proc/{}/comm", self.pid)).unwrap_or_default().trim_ascii_end().to_vec(),
            |path| path.as_os_str().as_bytes().to_vec(),
        );
        OsBytes::new(path).unwrap_or_default()
    }

    /// The uppermost of its ancestors that run the same executable without a break: `srun` forks, and only
    /// the first process has a table.
    pub(crate) fn uppermost(self) -> Self {
        let file = |pid| fs::metadata(format!("/proc/{pid}/exe")).ok().map(|file| (file.dev(), file.ino()));
        let own = file(self.pid);
        let mut process = self;
        while let Some(parent) = process.parent()
            && own.is_some()
            && file(parent.pid) == own
        {
            process = parent;
        }
        process
    }

    /// The files that it has mapped.
    pub(crate) fn objects(&self) -> io::Result<Vec<Object>> {
        Ok(objects(&fs::read_to_string(format!("/proc/{}/maps", self.pid))?))
    }

    /// Opens a file that it has mapped: that very file if the system allows it, or what has its name now.
    pub(crate) fn open(&self, object: &Object) -> io::Result<File> {
        let Self { pid, .. } = self;
        File::open(format!("/proc/{pid}/map_files/{:x}-{:x}", object.start, object.end)).or_else(|_| {
            let exe = fs::read_link(format!("/proc/{pid}/exe"))?;
            if exe.as_os_str().as_bytes() == object.path.as_bytes() {
                return File::open(format!("/proc/{pid}/exe"));
            }
            File::open(format!("/proc/{pid}/root{}", object.path))
        })
    }

    /// Why the system refuses to let it be read.
    pub(crate) fn refusal(&self, errno: Errno, what: &'static str) -> AttachError {
        let pid = self.pid;
        if !self.lives() {
            return AttachError::Ended { pid, executable: self.executable() };
        }
        if ![Errno::EPERM, Errno::EACCES].contains(&errno) {
            return AttachError::System { pid, what, why: errno.into() };
        }
        let own = geteuid().as_raw();
        let owner = owner(pid).filter(|owner| own != 0 && *owner != own);
        let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
        let scope = scope.ok().and_then(|scope| scope.trim().parse().ok()).unwrap_or(0);
        match owner {
            Some(owner) => AttachError::OtherUser { pid, owner },
            None if scope > 0 => AttachError::Yama { pid, scope },
            None => AttachError::Forbidden { pid },
        }
    }
}

/// All processes of this machine, and their parents.
pub(crate) fn all() -> Vec<(i32, i32)> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, field(pid, 4)?))).collect()
}

/// The name of what a process runs, as `ps` shows it.
pub(crate) fn name(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// The words of a command line; none of a process that may not be looked at, or has ended.
pub(crate) fn words(pid: i32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// The environment that a process was started with, as far as it is text.
pub(crate) fn environment(pid: i32) -> BTreeMap<Vec<u8>, String> {
    let all = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let variable = |variable: &[u8]| {
        let at = variable.iter().position(|byte| *byte == b'=')?;
        Some((variable[..at].to_vec(), String::from_utf8(variable[at + 1..].to_vec()).ok()?))
    };
    all.split(|byte| *byte == 0).filter_map(variable).collect()
}

/// A field of `/proc/PID/stat`, as they are numbered in proc(5); not one of the first three.
fn field<T: std::str::FromStr>(pid: i32, number: usize) -> Option<T> {
    after_name(pid)?.split(' ').nth(number - 3)?.parse().ok()
}

/// The user that has started it: the files of one that may not be dumped are root's.
fn owner(pid: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn state(pid: i32) -> Option<char> {
    after_name(pid)?.chars().next()
}

/// Everything behind the name of the program, which may contain anything.
fn after_name(pid: i32) -> Option<String> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    Some(String::from_utf8_lossy(stat.get(end + 2..)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_others() {
        let own = ProcessId::of(std::process::id() as i32).unwrap();
        assert!(own.lives() && ProcessId { started: own.started + 1, ..own.clone() } != own);
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let other = ProcessId::of(child.id() as i32).unwrap();
        assert!(other.lives() && other != own);
        assert!(other.age().unwrap() < own.age().unwrap() + Duration::from_secs(1));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!other.lives());
    }
}
