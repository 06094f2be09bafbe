//! Jobs of other launchers, as a front end has them.

mod attach;
mod processes;
mod targets;
mod watch;

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::time::Duration;

use libc::{c_char, c_int};
use libi::OsBytes;
use libi::job::{
    AttachError, AttachOnError, Ends, Job, Launch, LaunchError, Launched, LauncherKind, TargetsError,
};

use self::processes::{give_processes, libi_processes};
use crate::args::{self, OutParam};
use crate::distribution::{self, libi_distribution};
use crate::error::{CallError, CallResult, code};
use crate::front::{Front, libi_front};
use crate::object::{self, Handle, ask, give, handle, query, with};
use crate::options::{self, libi_options};
use crate::reentry;
use crate::result::libi_result::{self, *};
use crate::result::libi_timeout;
use crate::session::{give_session, libi_session, on};
use crate::text::c_string;

/// A running job of another launcher (srun, mpirun, ...), with the processes that it had when it
/// was attached to. Any number of threads may use it, and the job goes on when it is freed. Since
/// 0.1.
pub struct libi_job {
    _opaque: (),
}

handle!(libi_job, "job", JobView);

/// A job, and its texts as C reads them.
pub struct JobView {
    job: Job,
    launcher: CString,
    slurm_job: Option<CString>,
    hosts: Vec<CString>,
    /// If it was launched here.
    launched: Option<Mutex<Launched>>,
}

fn give_job(job: Job, launched: Option<Launched>) -> *mut libi_job {
    let text = |bytes: &OsBytes| CString::new(bytes.as_bytes()).unwrap_or_default();
    let hosts = job.hosts().into_iter().map(c_string).collect();
    give(JobView {
        launcher: text(job.launcher()),
        slurm_job: job.slurm_job().map(c_string),
        hosts,
        launched: launched.map(Mutex::new),
        job,
    })
}

impl From<AttachError> for CallError {
    fn from(error: AttachError) -> Self {
        Self::of(LIBI_ERR_NOT_ATTACHED, &error)
    }
}

impl From<AttachOnError> for CallError {
    fn from(error: AttachOnError) -> Self {
        Self::of(LIBI_ERR_NOT_ATTACHED, &error)
    }
}

impl From<LaunchError> for CallError {
    fn from(error: LaunchError) -> Self {
        let code = match error {
            LaunchError::NotStarted { .. } => LIBI_ERR_SYSTEM,
            _ => LIBI_ERR_ARGUMENT,
        };
        Self::of(code, &error)
    }
}

impl From<TargetsError> for CallError {
    fn from(error: TargetsError) -> Self {
        match error {
            TargetsError::Talk(error) => error.into(),
            TargetsError::Incomplete { .. } | TargetsError::Held(_) => Self::of(LIBI_ERR_TIMED_OUT, &error),
            _ => Self::of(LIBI_ERR_STATE, &error),
        }
    }
}

/// Which program has launched a job. Later versions may have more: treat what is unknown as
/// LIBI_LAUNCHER_OTHER. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_launcher {
    /// One that has a process table for debuggers.
    LIBI_LAUNCHER_OTHER = 0,
    /// srun of Slurm.
    LIBI_LAUNCHER_SRUN = 1,
    /// mpirun of Open MPI.
    LIBI_LAUNCHER_OPEN_MPI = 2,
    /// mpiexec of Hydra, which has no table.
    LIBI_LAUNCHER_HYDRA = 3,
    /// A front end of libi.
    LIBI_LAUNCHER_LIBI = 4,
}

/// A job as a whole. The strings belong to the libi_job. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_job_info {
    /// Which program has launched it.
    pub kind: libi_launcher,
    /// The process ID of the launcher. It may be an ancestor of the process that was named.
    pub launcher_pid: i32,
    /// The executable of the launcher.
    pub launcher: *const c_char,
    /// The number of its Slurm job, or NULL.
    pub slurm_job: *const c_char,
    /// The number of its hosts: see libi_job_host().
    pub hosts: u32,
    /// The number of its processes that are known.
    pub processes: u32,
    /// Whether these are all. Otherwise daemons find those on other hosts: see
    /// libi_session_processes_of().
    pub is_whole: bool,
    /// Whether the launcher runs now.
    pub is_running: bool,
}

/// Launches a job by its own launcher, with its ranks held in front of their program, and waits
/// until all are. Both are arrays of words that end with NULL: the launcher with its options, and
/// the program with its arguments. The standard streams of the job are those of this process. A
/// rank goes on when it is released, or when it has been held for hold_ms, rounded up to a
/// second: a tool that dies holds no job for ever. No process is stopped or traced.
///
/// After a failure to attach the job goes on, its ranks when their time is over. The launcher is
/// a child of this process: libi_job_wait() collects its status; without that it is a zombie once
/// it has ended, until this process ends.
///
/// *job is the new object, to be freed with libi_job_free(). Returns LIBI_OK; LIBI_ERR_ARGUMENT
/// for a command line of several programs, an option that is not known if program is NULL, or a
/// negative hold_ms; LIBI_ERR_SYSTEM if the launcher cannot be started; LIBI_ERR_NOT_ATTACHED if
/// not all ranks were there in time, or the launcher has ended, which libi_last_error() tells
/// apart; or LIBI_ERR_NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_launch(
    launcher: *const *const c_char,
    program: *const *const c_char,
    hold_ms: libi_timeout,
    job: *mut *mut libi_job,
    timeout: libi_timeout,
) -> libi_result {
    let launch = || {
        // SAFETY: as documented in the header.
        let (place, launcher, program) = unsafe {
            let place = OutParam::new(job, null_mut(), "job")?;
            let apart = (!program.is_null()).then(|| distribution::null_terminated(program)).transpose()?;
            (place, distribution::null_terminated(launcher)?, apart)
        };
        reentry::may_wait()?;
        let hold = u64::try_from(hold_ms).map_err(|_| CallError::argument("hold_ms is negative"))?;
        let words = |words: &[OsBytes]| -> Vec<OsString> {
            words.iter().map(|word| OsString::from_vec(word.as_bytes().to_vec())).collect()
        };
        let launch = match program {
            Some(program) => Launch::new(words(&launcher), words(&program)),
            None => Launch::command_line(words(&launcher))?,
        };
        let launched = launch.hold(Duration::from_millis(hold)).start()?;
        let attached = launched.attach(args::timeout(timeout))?;
        place.put(give_job(attached, Some(launched)));
        Ok(())
    };
    code(launch())
}

/// Frees a job, which goes on; ranks that are held do when their time is over. NULL is allowed.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_free(job: *mut libi_job) {
    // SAFETY: as documented in the header.
    unsafe { object::free(job) }
}

/// Fills *info with the job as a whole. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_query(
    job: *const libi_job,
    info: *mut libi_job_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(job, info, size, |view| {
            Ok(libi_job_info {
                kind: match view.job.kind() {
                    LauncherKind::Srun => libi_launcher::LIBI_LAUNCHER_SRUN,
                    LauncherKind::OpenMpi => libi_launcher::LIBI_LAUNCHER_OPEN_MPI,
                    LauncherKind::Hydra => libi_launcher::LIBI_LAUNCHER_HYDRA,
                    LauncherKind::Libi => libi_launcher::LIBI_LAUNCHER_LIBI,
                    _ => libi_launcher::LIBI_LAUNCHER_OTHER,
                },
                launcher_pid: view.job.launcher_pid(),
                launcher: view.launcher.as_ptr(),
                slurm_job: view.slurm_job.as_ref().map_or(null(), |number| number.as_ptr()),
                hosts: view.hosts.len() as u32,
                processes: view.job.processes().len() as u32,
                is_whole: view.job.is_whole(),
                is_running: view.job.is_running(),
            })
        })
    }
}

/// The name of a host of the job, counted from 0, as the launcher names it; NULL if there is no
/// such host. It belongs to the libi_job. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_host(job: *const libi_job, index: u32) -> *const c_char {
    // SAFETY: as documented in the header.
    unsafe {
        ask(job, null(), |view: &JobView| view.hosts.get(index as usize).map_or(null(), |host| host.as_ptr()))
    }
}

/// The processes of the job that are known.
///
/// *processes is the new object, to be freed with libi_processes_free(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_processes(
    job: *const libi_job,
    processes: *mut *mut libi_processes,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let place = OutParam::new(processes, null_mut(), "processes");
        with(job, |view| {
            place?.put(give_processes(view.job.processes()));
            Ok(())
        })
    }
}

/// Waits for the end of the launcher, with which the job is over. *status is as waitpid() fills
/// it for a job of libi_job_launch(), and -1 for others, whose launcher is no child of this
/// process; status may be NULL.
///
/// May be called again, with the same result. Returns LIBI_OK if it has ended; LIBI_NOT_YET at the
/// timeout; or LIBI_ERR_BUSY if another thread waits for a job of libi_job_launch(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_job_wait(
    job: *const libi_job,
    status: *mut c_int,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        // NULL if the caller does not want it.
        let place = OutParam::new(status, -1, "status").ok();
        with(job, |view| {
            reentry::may_wait()?;
            let ended = wait(view, args::timeout(timeout))?;
            let ended = ended.ok_or_else(|| CallError::new(LIBI_NOT_YET, "the launcher has not ended"))?;
            if let Some(place) = place {
                place.put(ended);
            }
            Ok(())
        })
    }
}

fn wait(view: &JobView, timeout: Duration) -> CallResult<Option<c_int>> {
    let Some(launched) = &view.launched else {
        return Ok(Ends::of_launcher(&view.job).next(timeout).map(|_| -1));
    };
    let mut launched = object::exclusive(launched, libi_job::NAME)?;
    let ended = launched.wait(timeout).map_err(|error| CallError::of(LIBI_ERR_SYSTEM, &error))?;
    Ok(ended.map(std::os::unix::process::ExitStatusExt::into_raw))
}

/// Launches a daemon for each so many processes of a job on each of its hosts, or if processes is
/// 0 one on each host, as libi_front_launch() does, and hands out the processes: each daemon gets
/// its own by libi_member_targets(). What the distribution says of hosts is replaced. Beside a
/// job of srun the daemons are started in its Slurm job, unless the options name another backend
/// or Slurm job.
///
/// *session is the new session, to be freed with libi_session_free(). Returns as
/// libi_front_launch(), or as libi_session_send() if the master is lost before it has the table.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_front_launch_beside(
    front: *mut libi_front,
    job: *const libi_job,
    processes: u32,
    daemon: *const libi_distribution,
    options: *const libi_options,
    session: *mut *mut libi_session,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        with(front, |front: &Front| {
            let place = OutParam::new(session, null_mut(), "session")?;
            let mut daemon = distribution::copies(&raw const daemon, 1)?;
            let daemon = daemon.pop().ok_or_else(|| CallError::null("the daemon"))?;
            let options = options::copy(options)?;
            let launch =
                |view: &JobView| front.launch_beside((&view.job, processes), daemon.into(), &options);
            place.put(give_session(object::try_with(job, launch)?));
            Ok(())
        })
    }
}

/// All processes of the job that this session was launched beside, once the daemons have called
/// libi_member_targets(): those that are known, and if these are not all, those that the daemons
/// have found. Called once, before libi_session_gather().
///
/// *processes is the new object, to be freed with libi_processes_free(). Returns as
/// libi_session_gather(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_processes_of(
    session: *mut libi_session,
    job: *const libi_job,
    processes: *mut *mut libi_processes,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let place = OutParam::new(processes, null_mut(), "processes")?;
            let timeout = args::timeout(timeout);
            let all = |view: &JobView| session.processes_of(&view.job, timeout).map_err(CallError::from);
            place.put(give_processes(&object::try_with(job, all)?));
            Ok(())
        })
    }
}

/// Lets these ranks of a job beside the session go on to their program, where they are held, and
/// waits until they do. All daemons call libi_member_release_when_told(), also those that have
/// none of them.
///
/// Returns LIBI_OK; LIBI_ERR_TIMED_OUT (libi_last_error() names ranks that are still held); or as
/// libi_session_broadcast() and libi_session_gather(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_release(
    session: *mut libi_session,
    ranks: *const u32,
    count: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| {
            let ranks = args::ranks(ranks, count, "ranks")?;
            Ok(session.release(&ranks, args::timeout(timeout))?)
        })
    }
}
