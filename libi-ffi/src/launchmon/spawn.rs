//! Launching daemons beside a job, until all are ready.

use std::ffi::CString;
use std::sync::Arc;

use libc::{c_char, c_void};
use libi::job::{Job, Launch, Launched, LauncherKind, ProcessTable};
use libi::{Bytes, Error, HostList, LaunchOptions, OsBytes, Rank, SessionId, Srun};
use libi_core::dist::Distribution;

use super::codes::{
    DETACHED, ECLLB, ELNCHR, ESUBCOM, ESYS, ETOUT, KILLED, NOTIMPL, REGISTERED, SPAWNED, talk,
};
use super::limits::{self, Deadline};
use super::messages::{Ready, Startup};
use super::sessions::{Handle, Launching, change_status};
use super::table::Entry;
use super::tool::{self, Tool};
use crate::compat::this_machine::ThisMachine;
use crate::compat::{CallError, CallResult, args, environment};

/// The daemons that are asked for, and the data that the tool exchanges with them.
pub(super) struct Daemons {
    pub(super) path: *const c_char,
    pub(super) argv: *const *const c_char,
    pub(super) febe: *mut c_void,
    pub(super) befe: *mut c_void,
}

/// A job, and its launcher if that was started here.
type Obtained = (Job, Option<Launched>);

/// Refuses launchers on other machines.
///
/// # Safety
/// The string is NULL, or ends with a NUL.
pub(super) unsafe fn check_host(host: *const c_char) -> CallResult {
    // SAFETY: as for this function.
    let Some(host) = (unsafe { args::string(host) }) else { return Ok(()) };
    let host = host.to_string_lossy();
    if host.is_empty() || ThisMachine::new().is(&host) {
        return Ok(());
    }
    let text =
        format!("{host} is not this machine: a tool attaches to jobs whose launcher runs where it runs");
    Err(CallError::new(NOTIMPL, text))
}

/// The words of a program: its path and its arguments, which may or may not begin with the path.
///
/// # Safety
/// As documented in the header.
unsafe fn command(path: *const c_char, argv: *const *const c_char) -> Option<(OsBytes, Vec<OsBytes>)> {
    // SAFETY: as for this function.
    let (path, mut words) = unsafe { (args::string(path)?, args::words(argv)) };
    let path = Some(args::word(path)).filter(|path| !path.as_bytes().is_empty())?;
    if words.first() == Some(&path) {
        words.remove(0);
    }
    Some((path, words))
}

/// Attaches to a running job.
pub(super) fn attach(pid: i32, deadline: Deadline) -> CallResult<Obtained> {
    let job = Job::attach(pid, deadline.left()).map_err(|error| CallError::attach(&error))?;
    Ok((job, None))
}

/// Launches a job whose ranks are held.
///
/// # Safety
/// As documented in the header.
pub(super) unsafe fn launch(
    path: *const c_char,
    argv: *const *const c_char,
    deadline: Deadline,
) -> CallResult<Obtained> {
    use std::os::unix::ffi::OsStrExt;
    // SAFETY: as for this function.
    let words = unsafe { command(path, argv) };
    let (launcher, words) =
        words.ok_or_else(|| CallError::argument("the path of the launcher is NULL or empty"))?;
    let words =
        std::iter::once(&launcher).chain(&words).map(|word| std::ffi::OsStr::from_bytes(word.as_bytes()));
    let launch = Launch::command_line(words).map_err(|error| CallError::launch(&error))?;
    let mut launched = launch.hold(limits::hold()).start().map_err(|error| CallError::launch(&error))?;
    match launched.attach(deadline.left()) {
        Ok(job) => Ok((job, Some(launched))),
        Err(error) => {
            end(&mut launched);
            Err(CallError::attach(&error))
        }
    }
}

/// Ends a job that was launched in vain.
fn end(launched: &mut Launched) {
    let pid = launched.launcher().id().cast_signed();
    let launched = std::cell::RefCell::new(launched);
    let is_running = || matches!(launched.borrow_mut().wait(std::time::Duration::ZERO), Ok(None));
    let _ = tool::end_launcher(pid, is_running); // the failure of the launch is reported
}

/// Launches the daemons beside the job that `obtain` returns.
///
/// # Safety
/// As documented in the header.
pub(super) unsafe fn spawn(
    handle: Handle,
    daemons: &Daemons,
    obtain: impl FnOnce(Deadline) -> CallResult<Obtained>,
) -> CallResult {
    let launching = Launching::begin(handle)?;
    // SAFETY: as for this function.
    let daemon = unsafe { command(daemons.path, daemons.argv) };
    let daemon = daemon.ok_or_else(|| CallError::argument("the path of the daemon is NULL or empty"))?;
    let data = match daemons.febe {
        data if data.is_null() => None,
        // SAFETY: as for this function.
        data => Some(unsafe { launching.packing.pack(data) }?),
    };
    let deadline = Deadline::of_launch();
    let (job, mut launched) = obtain(deadline)?;
    change_status(handle, |_| REGISTERED);
    let startup = Startup { is_held: launched.is_some(), data };
    let beside = beside(handle, &launching, &job, daemon, &startup, deadline);
    let received = beside.and_then(|(session, table, data)| {
        if let Some(data) = data.filter(|_| !daemons.befe.is_null()) {
            // SAFETY: as for this function.
            unsafe { launching.packing.unpack(&data, daemons.befe) }?;
        }
        Ok((session, entries(&job, &table)))
    });
    let (session, entries) = match received {
        Ok(received) => received,
        Err(error) => {
            launched.iter_mut().for_each(end);
            return Err(error);
        }
    };
    let tool = Tool::new(session, job, entries, launched)?;
    let watched = Arc::clone(&tool);
    launching.set_up(tool)?;
    tool::thread("libi-job", move || {
        watched.wait();
        // A tool that has given the job up does not hear of its end.
        change_status(handle, |status| if status & DETACHED == 0 { status | KILLED } else { status });
    })
}

/// The daemons, once all are ready, the processes of the job, and what the master has sent back.
fn beside(
    handle: Handle,
    launching: &Launching,
    job: &Job,
    (path, words): (OsBytes, Vec<OsBytes>),
    startup: &Startup,
    deadline: Deadline,
) -> CallResult<(libi::Session, ProcessTable, Option<Bytes>)> {
    let id = SessionId(handle.cast_unsigned());
    let hosts = HostList::parse(&job.hosts().join(","));
    let hosts = hosts.map_err(|error| CallError::new(ELNCHR, format!("the hosts of the job: {error}")))?;
    let mut daemon = Distribution::new(id, path, hosts);
    daemon.args = words;
    daemon.env = limits::forwarded().into_iter().chain(launching.variables.iter().cloned()).collect();
    let options = options(job, &mut daemon, deadline);
    let session = launching.front_end.launch_beside(job, daemon.into(), &options).map_err(not_launched)?;
    change_status(handle, |status| status | SPAWNED);
    let table = session.processes_of(job, deadline.left()).map_err(CallError::targets)?;
    let sent = session.broadcast(startup.encoded()).wait(deadline.left());
    sent.map_err(talk("the start-up data of the daemons"))?;
    let parts =
        session.gather().wait(deadline.left()).map_err(talk("waiting until all daemons are ready"))?;
    let mut data = None;
    for (rank, part) in parts.iter().enumerate() {
        let on_host = || job.hosts().get(rank).copied().unwrap_or_default().to_owned();
        match Ready::decoded(part) {
            Ok(Ready::Yes(of_rank)) if rank == 0 => data = of_rank,
            Ok(Ready::Yes(_)) => {}
            Ok(Ready::Failed) => {
                return Err(CallError::new(
                    ECLLB,
                    format!("the daemon on {} could not pack its data", on_host()),
                ));
            }
            Err(error) => {
                return Err(CallError::new(ESUBCOM, format!("the daemon on {}: {}", on_host(), error.text)));
            }
        }
    }
    Ok((session, table, data))
}

/// By the variables of 2011; beside a job of `srun` by `srun`, unless they name a remote shell.
fn options(job: &Job, daemon: &mut Distribution, deadline: Deadline) -> LaunchOptions {
    let names_shell = std::env::var_os("XPLAT_RSH").is_some_and(|shell| !shell.is_empty());
    let by_srun = job.kind() == LauncherKind::Srun && !names_shell;
    let get = |name: &str| std::env::var_os(name).filter(|_| !(by_srun && name == "XPLAT_REMCMD"));
    let mut options = environment::options(std::slice::from_mut(daemon), get, ThisMachine::new);
    if by_srun {
        options.backend = Some(Srun::new().into());
        options.local_hosts = HostList::new();
    }
    options.deadline = deadline.left();
    options
}

fn not_launched(error: Error) -> CallError {
    let code = match error {
        Error::Talk(error) => return talk("handing out the table of the job")(error),
        Error::NotLaunched(_) => ELNCHR,
        Error::TimedOut(_) => ETOUT,
        _ => ESYS,
    };
    CallError::new(code, format!("the daemons cannot be launched: {error}"))
}

/// The table of a job as C has it.
fn entries(job: &Job, table: &ProcessTable) -> Vec<Entry> {
    let hosts = job.hosts();
    let entry = |process: libi::job::JobProcess<'_>| {
        let Rank(rank) = process.rank;
        let host_number = hosts.iter().position(|host| *host == process.host).unwrap_or_default() as u32;
        Entry {
            host: CString::new(process.host).unwrap_or_default(),
            executable: CString::new(process.executable.as_bytes()).unwrap_or_default(),
            pid: process.pid,
            rank,
            host_number,
        }
    };
    table.iter().map(entry).collect()
}
