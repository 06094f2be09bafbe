//! The processes of a job on the host of a daemon.

use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Mutex;

use libc::c_char;
use libi::job::{End, Ends, Target};

use crate::args::{self, OutParam};
use crate::error::CallError;
use crate::member::{libi_member, on_member};
use crate::object::{self, Handle, ask, give, handle, query, with};
use crate::reentry;
use crate::result::libi_result::{self, *};
use crate::result::libi_timeout;

/// The processes of a job on this host, as a daemon beside it has them. Any number of threads may
/// use them. Since 0.1.
pub struct libi_targets {
    _opaque: (),
}

handle!(libi_targets, "list of targets", TargetsView);

/// Targets, and their texts as C reads them.
pub struct TargetsView {
    targets: Vec<Target>,
    executables: Vec<CString>,
    ends: Mutex<Ends>,
}

/// A process of the job on this host. The string belongs to the libi_targets. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_targets_entry_info {
    /// Its rank in the job.
    pub rank: u32,
    /// Its process ID.
    pub pid: i32,
    /// What the launcher has started.
    pub executable: *const c_char,
    /// Whether it runs now: the process that was there at first, and not another one that has its
    /// number.
    pub is_running: bool,
    /// Whether it is held in front of its program now: see libi_job_launch().
    pub is_held: bool,
}

/// The processes of the job on this host, in a daemon that was launched with
/// libi_front_launch_beside(). All daemons call this once, before other collective operations,
/// and before the master receives from the front end.
///
/// *targets is the new object, to be freed with libi_targets_free(). Returns LIBI_OK;
/// LIBI_ERR_STATE if this is no such daemon; LIBI_ERR_TIMED_OUT if the table has not come, or not
/// all processes were found here (it is not called again then); or as libi_member_recv() and
/// libi_member_scatter(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_targets(
    member: *mut libi_member,
    targets: *mut *mut libi_targets,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let place = OutParam::new(targets, null_mut(), "targets");
        on_member(member, |member| {
            let place = place?;
            let targets = member.targets(args::timeout(timeout))?;
            let text = |target: &Target| CString::new(target.executable().as_bytes()).unwrap_or_default();
            let (executables, ends) = (targets.iter().map(text).collect(), Mutex::new(Ends::of(&targets)));
            place.put(give(TargetsView { targets, executables, ends }));
            Ok(())
        })
    }
}

/// Frees a list of targets. What is held stays held, until its time is over. NULL is allowed.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_targets_free(targets: *mut libi_targets) {
    // SAFETY: as documented in the header.
    unsafe { object::free(targets) }
}

/// The number of targets; 0 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_targets_count(targets: *const libi_targets) -> usize {
    // SAFETY: as documented in the header.
    unsafe { ask(targets, 0, |view: &TargetsView| view.targets.len()) }
}

/// Fills *info with a target, counted from 0 in the order of the ranks.
///
/// Returns LIBI_OK, or LIBI_NONE if there is no such target. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_targets_entry(
    targets: *const libi_targets,
    index: usize,
    info: *mut libi_targets_entry_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(targets, info, size, |view| {
            let found = view.targets.get(index).zip(view.executables.get(index));
            let (target, executable) = found.ok_or_else(none)?;
            Ok(libi_targets_entry_info {
                rank: target.rank().0,
                pid: target.pid(),
                executable: executable.as_ptr(),
                is_running: target.is_running(),
                is_held: target.is_held(),
            })
        })
    }
}

fn none() -> CallError {
    CallError::new(LIBI_NONE, "there is no such target")
}

/// Lets a target, counted from 0, go on to its program, if it is held, and waits until it does.
///
/// Returns LIBI_OK, also if it was not held; LIBI_NONE if there is no such target;
/// LIBI_ERR_TIMED_OUT if it is still held; or LIBI_ERR_SYSTEM if it may not be signalled. Since
/// 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_targets_release(
    targets: *const libi_targets,
    index: usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        with(targets, |view| {
            reentry::may_wait()?;
            let target = view.targets.get(index).ok_or_else(none)?;
            target.release(args::timeout(timeout)).map_err(|error| {
                let is_late = error.kind() == std::io::ErrorKind::TimedOut;
                CallError::of(if is_late { LIBI_ERR_TIMED_OUT } else { LIBI_ERR_SYSTEM }, &error)
            })
        })
    }
}

/// Waits for the next target that ends. Each is told once. How it has ended is told by
/// libi_watch_next() at the front end.
///
/// Returns LIBI_OK with its rank in *rank; LIBI_NOT_YET at the timeout; LIBI_NONE if all have ended
/// and were told; or LIBI_ERR_BUSY if another thread waits. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_targets_next_end(
    targets: *const libi_targets,
    rank: *mut u32,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let place = OutParam::new(rank, u32::MAX, "rank");
        with(targets, |view| {
            let place = place?;
            reentry::may_wait()?;
            let mut ends = object::exclusive(&view.ends, libi_targets::NAME)?;
            match ends.next(args::timeout(timeout)) {
                Some(End::Process(rank)) => place.put(rank.0),
                _ if ends.is_empty() => return Err(CallError::new(LIBI_NONE, "all targets have ended")),
                _ => return Err(CallError::new(LIBI_NOT_YET, "no target has ended")),
            }
            Ok(())
        })
    }
}

/// Lets those of these targets go that the front end names with libi_session_release(). A
/// collective operation, called once for each that the front end calls. *released is the number
/// of all ranks that it has named, here and on other hosts; released may be NULL.
///
/// Returns LIBI_OK, or as libi_member_broadcast_from_front() and libi_member_gather_to_front().
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_release_when_told(
    member: *mut libi_member,
    targets: *const libi_targets,
    released: *mut usize,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        // NULL if the caller does not want it.
        let place = OutParam::new(released, 0, "released").ok();
        on_member(member, |member| {
            let timeout = args::timeout(timeout);
            let release = |view: &TargetsView| {
                member.release_when_told(&view.targets, timeout).map_err(CallError::from)
            };
            let ranks = object::try_with(targets, release)?;
            if let Some(place) = place {
                place.put(ranks.len());
            }
            Ok(())
        })
    }
}
