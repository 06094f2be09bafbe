//! A process that was started for a place in a session: how it takes it, what it is told of itself, how it leaves.
//!
//! | module | functions |
//! |---|---|
//! | [`collectives`] | collective calls with data of any length: barrier, fence, broadcast, gather, scatter |
//! | [`exchange`] | the same, where everybody gets something of everybody: allgather, alltoall, ring |
//! | [`into`] | broadcast, gather, scatter and allgather into memory of the caller's own |
//! | [`reduce`], [`reduce_by`] | reductions, by the library's operations and by functions of the program's |
//! | [`p2p`] | messages between two, and keys |

mod collectives;
mod exchange;
mod into;
mod p2p;
mod reduce;
mod reduce_by;

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use libc::c_char;
use libi::{Bytes, Member, MemberOptions, Pending};

use crate::args::{self, OutParam, c_string};
use crate::data::{self, libi_data};
use crate::object::{self, ask, give, handle, with};
use crate::pending::{self, Outcome, libi_pending};
use crate::progress::{self, libi_progress};
use crate::reentry::{self, ProcessLocal};
use crate::result::{CallError, CallResult, LIBI_ERR_STATE, LIBI_FOREVER, libi_millis, libi_result};

/// This process, as a member of a session. Any number of threads may use it at a time.
///
/// What holds for all functions by which members talk:
/// - Each has two forms. One comes back when the operation is over, or when there is no patience left; any number of threads may wait at a
///   time. The other, ..._start_..., comes back at once with a libi_pending, from which the result is to be had.
/// - Collective calls are made by all members, and by all in the same order; their results come in that order. Members that are absent
///   are not waited for. Where several threads make them, the program sees to the order.
/// - They return LIBI_ERR_MISMATCH if members call different things (the text names two of them), LIBI_ERR_PEER_LOST if a member is lost that
///   is needed (the text names it), LIBI_ERR_TIMED_OUT if patience has ended here, LIBI_ERR_CANCELLED if it has ended at another member or that
///   has cancelled, LIBI_ERR_ENDED if the session ends. After a mismatch, a timeout or a cancellation the next collective call is a new chance.
/// - LIBI_ERR_NULL and LIBI_ERR_ARGUMENT mean that nothing was called: other members wait for this one until it calls.
/// - LIBI_ERR_STATE: this process has no place, because libi_member_init() has failed; or it is the child of a process that has, by fork().
/// - LIBI_ERR_BUSY: a function that the library has called, as libi_fold, tries to wait or to start something.
/// - A libi_data that a function gives is to be freed by libi_data_free().
///
/// Since 0.1.
pub struct libi_member {
    _opaque: (),
}

handle!(libi_member, "member", MemberHandle);

/// The place, or that there is none.
pub(crate) struct MemberHandle(ProcessLocal<OnceLock<JoinedMember>>);

struct JoinedMember {
    member: Member,
    host_name: CString,
}

impl MemberHandle {
    /// The member, for a call that starts something or waits.
    fn member(&self) -> CallResult<&Member> {
        let none =
            || CallError::new(LIBI_ERR_STATE, "this process has no place: libi_member_init() has failed");
        Ok(&self.0.get()?.get().ok_or_else(none)?.member)
    }

    /// What it was told of itself, which does not change; nothing if it has no place.
    fn told<R>(&self, nothing: R, of: impl FnOnce(&JoinedMember) -> R) -> R {
        self.0.fixed().get().map_or(nothing, of)
    }

    /// How it is by now; nothing if it has no place, or another process has it.
    fn now<R>(&self, nothing: R, of: impl FnOnce(&JoinedMember) -> R) -> R {
        self.0.look().and_then(OnceLock::get).map_or(nothing, of)
    }
}

/// Takes the place that this process was started for; comes back when the session is up. A launch that goes on for long, or wrong, is
/// bounded by the front end's deadline.
///
/// Call it once in the life of a process, early, from the main thread, and in the process that was started: not in a child of it, which
/// would break the link if both do. A child that was forked before may live on, and ends with the session if it stays in the process
/// group; one that is forked afterwards gets LIBI_ERR_STATE of all that would start something or wait, and may free what it has, or
/// leave it. It reads the environment, and takes over the standard streams if the link came through them. Standard streams that are
/// closed are opened, to /dev/null, so that nothing that is printed gets into a link.
///
/// Standard output is a pipe then, and stdio keeps what is printed in a buffer until that is full: fflush() it when it is to be seen, and before
/// libi_member_finish(), ..._finalize() and ..._free(). What is flushed later, as at the end of the process, may be lost.
///
/// *member is an object in any case but LIBI_ERR_NULL, to be freed by libi_member_free(); after a failure it has the reason in
/// libi_member_error(), and is good for nothing else.
///
/// Returns LIBI_OK; LIBI_ERR_STARTED_BY_HAND if no front end has started this process, which may itself be one then;
/// LIBI_ERR_NO_LINK if it is a child of a member and has its environment; LIBI_ERR_STATE the second time in a process that was started by one;
/// LIBI_ERR_ENDED if the session has ended before it was up; LIBI_ERR_ARGUMENT, LIBI_ERR_SYSTEM. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_init(
    progress: libi_progress,
    member: *mut *mut libi_member,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = match OutParam::new(member, null_mut(), "member") {
            Ok(place) => place,
            Err(fault) => return fault.code,
        };
        let handle = give::<libi_member>(MemberHandle(ProcessLocal::new(OnceLock::new())));
        let code = with(handle, |seat| {
            let place = seat.0.get()?;
            let options = MemberOptions::new().progress(progress::progress(progress)?);
            let member = Member::with(&options)?;
            let host_name = c_string(member.host_name());
            // It is nobody else's yet.
            let _ = place.set(JoinedMember { member, host_name });
            Ok(())
        });
        place.put(handle);
        code
    }
}

/// Its rank; UINT32_MAX if it has no place. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_rank(member: *const libi_member) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(member, u32::MAX, |seat| seat.told(u32::MAX, |taken| taken.member.rank().0)) }
}

/// How many members the session has; 0 if this process has no place. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_size(member: *const libi_member) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(member, 0, |seat| seat.told(0, |taken| taken.member.size())) }
}

/// Whether it is the first of all, which talks to the front end. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_is_master(member: *const libi_member) -> bool {
    // SAFETY: as the header asks.
    unsafe { ask(member, false, |seat| seat.told(false, |taken| taken.member.is_master())) }
}

/// Which of the session's hosts it is on, counted from 0; UINT32_MAX if it has no place. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_host(member: *const libi_member) -> u32 {
    // SAFETY: as the header asks.
    unsafe { ask(member, u32::MAX, |seat| seat.told(u32::MAX, |taken| taken.member.host().0)) }
}

/// What that host is called in the list that the session was launched with; NULL if this process has no place. It is the
/// member's. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_host_name(member: *const libi_member) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { ask(member, null(), |seat| seat.told(null(), |taken| taken.host_name.as_ptr())) }
}

/// The members that did not come up, where the launch allowed that. They take part in nothing, and what they would have given is
/// empty.
///
/// Returns how many there are, and writes their ranks, the lowest first, as far as there is room for; ranks may be NULL if room
/// is 0. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_absent(
    member: *const libi_member,
    ranks: *mut u32,
    room: usize,
) -> usize {
    // SAFETY: as the header asks.
    unsafe {
        ask(member, 0, |seat| seat.told(0, |taken| args::write_ranks(taken.member.absent(), ranks, room)))
    }
}

/// The members that were there and cannot be talked to any more, because they have ended or are lost, as far as this process
/// has heard. Calls that need them return LIBI_ERR_PEER_LOST; others go on.
///
/// Returns as libi_member_absent(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_lost(member: *const libi_member, ranks: *mut u32, room: usize) -> usize {
    // SAFETY: as the header asks.
    unsafe {
        ask(member, 0, |seat| seat.now(0, |taken| args::write_ranks(&taken.member.lost(), ranks, room)))
    }
}

/// Waits until no other member needs this process: to be called at the end of a program that ends when its work is done, before
/// libi_member_free(). The process stays the session's, and how it ends is reported.
///
/// A process that ends without it is heard of all the same, with its exit status. But the first process of each host carries for the others
/// there: if it ends while they need it, they end with it.
///
/// Returns LIBI_OK; LIBI_ERR_TIMED_OUT if others go on for longer; LIBI_ERR_ENDED. It may be called again. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_finish(member: *mut libi_member, timeout: libi_millis) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { with(member, |seat| Ok(seat.member()?.drain(args::timeout(timeout))?)) }
}

/// Releases this process from the session, to live on: from now on it is not signalled and not ended by it, and does not end when the
/// front end does. Comes back when everything that it had to pass on is with the next process; does not wait for other members.
/// Members that hang on this process are carried on as long as it lives and the member is not freed.
///
/// What it prints from now on goes to the front end as long as somebody carries it, and is thrown away after that. Before the
/// process replaces itself (exec) or goes on in a child (fork) it has to give its standard streams another direction, as daemons do.
/// It may close all descriptors that it does not know, as these do, too: then it carries nobody any longer (libi_member_finish() waits
/// until nobody hangs on it), nothing of the library touches files that get the same numbers, and what members call is LIBI_ERR_ENDED.
///
/// A process that never calls this ends with the session: by its signal, and by SIGKILL when the grace is over, with its children that are
/// in its process group.
///
/// Returns LIBI_OK; LIBI_ERR_TIMED_OUT if not everything is with the next process in time: that goes on, and this process is released all the
/// same; LIBI_ERR_ENDED; LIBI_ERR_SYSTEM if the process is tied to its starter and this is not the main thread, which alone can loosen
/// that. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_finalize(member: *mut libi_member, timeout: libi_millis) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { with(member, |seat| Ok(seat.member()?.detach(args::timeout(timeout))?)) }
}

/// What failed last with this member in this thread, or why libi_member_init() has failed; empty if nothing has. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_error(member: *const libi_member) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { object::error(member) }
}

/// Frees it; NULL is fine. It releases nobody, and the process keeps its place until it ends: libi_member_finish() or ..._finalize() come first.
/// What was printed and flushed is passed on, within a second. A function that the library has called frees by this only what has no place.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_free(member: *mut libi_member) {
    // SAFETY: as the header asks.
    unsafe {
        if !reentry::is_called() || ask(member, false, |seat| seat.0.fixed().get().is_none()) {
            object::free(member);
        }
    }
}

/// For event loops: is readable as long as an operation is over, and nobody has looked at that by libi_pending_poll() or its kin, or
/// freed it; or, with LIBI_PROGRESS_MANUAL, there is something to dispatch. -1 if this process has no place. It is the member's, and
/// only to be waited for. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_descriptor(member: *const libi_member) -> libc::c_int {
    // SAFETY: as the header asks.
    unsafe { ask(member, -1, |seat| seat.now(-1, |taken| taken.member.descriptor().as_raw_fd())) }
}

/// With LIBI_PROGRESS_MANUAL: for how long nothing has to be dispatched unless the descriptor becomes readable; -1 (LIBI_FOREVER) if that
/// is not limited, as with LIBI_PROGRESS_THREAD. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_patience(member: *const libi_member) -> libi_millis {
    let millis = |taken: &JoinedMember| taken.member.next_timeout().map_or(LIBI_FOREVER, args::millis);
    // SAFETY: as the header asks.
    unsafe { ask(member, -1, |seat| seat.now(-1, millis)) }
}

/// With LIBI_PROGRESS_MANUAL: does what there is to do, and does not wait.
///
/// Returns LIBI_OK, or LIBI_ERR_SYSTEM if the system refuses to say what has happened. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_dispatch(member: *mut libi_member) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { with(member, |seat| Ok(seat.member()?.dispatch()?)) }
}

/// Starts an operation, waits until it is over, and does with its result what is to be done.
///
/// # Safety
/// As of [`with`].
unsafe fn wait<T>(
    member: *mut libi_member,
    timeout: libi_millis,
    begin: impl FnOnce(&Member) -> CallResult<Pending<T>>,
    put: impl FnOnce(T) -> CallResult,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe { with(member, |seat| put(begin(seat.member()?)?.wait(args::timeout(timeout))?)) }
}

/// Starts an operation, and gives it.
///
/// # Safety
/// As of [`with`], and of [`OutParam::new`].
unsafe fn start<T: Send + 'static>(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
    begin: impl FnOnce(&Member) -> CallResult<Pending<T>>,
    read: fn(T) -> Outcome,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe {
        let place = OutParam::new(pending, null_mut(), "pending");
        with(member, |seat| {
            let place = place?;
            place.put(pending::started(begin(seat.member()?)?, read));
            Ok(())
        })
    }
}

/// A place for data, which those who get none may leave out.
struct DataOut(Option<OutParam<*mut libi_data>>);

impl DataOut {
    /// # Safety
    /// As of [`OutParam::new`].
    unsafe fn new(data: *mut *mut libi_data) -> Self {
        // SAFETY: as this function asks.
        Self(unsafe { OutParam::new(data, null_mut(), "data") }.ok())
    }

    /// It is there, for one who gets something.
    fn check(&self, gets: bool) -> CallResult {
        if gets && self.0.is_none() {
            return Err(CallError::null("data, the place for the result,"));
        }
        Ok(())
    }

    fn put(&self, parts: Vec<Bytes>) {
        if let Some(place) = &self.0 {
            place.put(data::give_data(parts));
        }
    }
}
