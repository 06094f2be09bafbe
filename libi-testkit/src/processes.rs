//! Finds processes by a variable that they were started with, wherever they have gone.
#![allow(dead_code, reason = "it is shared")]

use std::fs;
use std::time::{Duration, Instant};

/// How long a process may take to become another program.
const BECOMING: Duration = Duration::from_secs(5);

/// The numbers of all processes.
pub fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Every process that bears this variable, `NAME=value`, with its environment.
pub fn bearing(variable: &str) -> Vec<(i32, String)> {
    let environments = all().filter_map(|pid| Some((pid, environment(pid)?)));
    environments.filter(|(_, all)| all.split('\0').any(|other| other == variable)).collect()
}

/// A field of a process's status.
pub fn status(pid: i32, field: &str) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| Some(line.strip_prefix(field)?.strip_prefix(':')?.trim().to_owned()))
}

/// Whether a process that runs is traced, or was stopped.
pub fn is_traced_or_stopped(pid: i32) -> bool {
    let is_stopped = status(pid, "State").is_some_and(|state| state.starts_with(['T', 't']));
    is_stopped || status(pid, "TracerPid").is_some_and(|tracer| tracer != "0")
}

/// The process that has started this one, or has taken it over.
pub fn parent(pid: i32) -> Option<i32> {
    status(pid, "PPid")?.parse().ok().filter(|parent| *parent != 0)
}

/// A process and those above it.
pub fn with_ancestors(pid: i32) -> Vec<i32> {
    std::iter::successors(Some(pid), |pid| parent(*pid)).collect()
}

/// Whether a process carries a host apart from its program.
pub fn is_engine(pid: i32) -> bool {
    status(pid, "Name").as_deref() == Some("libi-leader")
}

/// The variables of a process, each of which ends with a zero byte. Of a process that has ended there are none, even if its
/// parent has not looked at it yet.
pub fn environment(pid: i32) -> Option<String> {
    let deadline = Instant::now() + BECOMING;
    loop {
        let bytes = fs::read(format!("/proc/{pid}/environ")).ok()?;
        if !bytes.is_empty() || !is_becoming(pid) || Instant::now() > deadline {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        std::thread::yield_now();
    }
}

/// Whether a process executes a program whose variables are not in place yet: the system lets whoever has started it go on
/// before they are.
fn is_becoming(pid: i32) -> bool {
    let executes = fs::read_link(format!("/proc/{pid}/exe")).is_ok(); // neither the kernel's own nor those that have ended do
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let (_, fields) = stat.rsplit_once(')').unwrap_or_default();
    // The third field follows the name in its brackets; the address of the end of the variables is the 51st.
    executes && fields.split_whitespace().nth(51 - 3) == Some("0")
}
