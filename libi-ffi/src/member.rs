//! A process as a member of a session.
//!
//! | module | functions |
//! |---|---|
//! | [`collectives`] | barrier, fence, broadcast, gather, scatter, allgather, alltoall, ring |
//! | [`front_calls`] | broadcast from the front end, gather to it |
//! | [`into`] | broadcast, gather, scatter and allgather into the caller's memory |
//! | [`reduce`], [`reduce_by`] | reductions by the library's operations, and by functions of the program |
//! | [`p2p`], [`keys`] | messages between two processes; the key-value store |
//! | [`losses`] | how members were lost: `libi_losses_…` |
//! | [`restarts`] | members that were restarted |

mod collectives;

mod front_calls;

mod into;

mod reduce;

mod reduce_by;

mod p2p;

mod handle;

mod keys;

mod losses;

mod restarts;

use std::os::fd::AsRawFd;
use std::ptr::null_mut;

use libc::{c_char, c_int};
use libi::{Bytes, Member, MemberOptions, Pending};

use self::handle::JoinedMember;
pub use self::handle::MemberHandle;
use crate::args::{self, OutParam};
use crate::data::{self, libi_data};
use crate::error::{CallError, CallResult, code};
use crate::object::{self, ask, give, handle, query, with};
use crate::pending::{self, Outcome, libi_pending};
use crate::progress::{self, libi_progress_arg};
use crate::reentry;
use crate::result::libi_result::{self, LIBI_NONE};
use crate::result::{LIBI_FOREVER, libi_timeout};
use crate::session::{group_of, libi_ranks, libi_ranks_arg};

/// This process as a member of a session. Any number of threads may use it.
///
/// Rules for all operations between members:
/// - Every operation has two forms with the same inputs. libi_member_X(..., timeout) waits; any
///   number of threads may wait. libi_member_start_X(..., pending) returns at once with a
///   libi_pending, which has the result later. Inputs are copied in both.
/// - Collective operations are called by all members in the same order, and complete in that
///   order. Where several threads call them, the program ensures the order. Absent members are
///   not waited for.
/// - A collective operation returns LIBI_ERR_MISMATCH if members call different operations (the
///   text names two), LIBI_ERR_PEER_LOST if a member that is needed is lost (the text names it, and
///   libi_member_losses() tells how), LIBI_ERR_TIMED_OUT if the timeout passes here,
///   LIBI_ERR_CANCELLED if it passes at another member or one of them cancels, LIBI_ERR_ENDED if
///   the session ends. After a mismatch, a timeout or a cancellation, the next collective
///   operation may succeed.
/// - After LIBI_ERR_NULL or LIBI_ERR_ARGUMENT nothing was called: other members keep waiting for
///   this one.
/// - LIBI_ERR_STATE: this process was forked by the member. LIBI_ERR_BUSY: a function that the
///   library has called, such as a libi_fold, tries to wait or to start something.
/// - A libi_data that is passed out is freed with libi_data_free().
///
/// Since 0.1.
pub struct libi_member {
    _opaque: (),
}

handle!(libi_member, "member", MemberHandle);

/// A member. The string belongs to the member. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_member_info {
    /// Its rank, from 0.
    pub rank: u32,
    /// The number of members in the session.
    pub size: u32,
    /// The number of its host, from 0.
    pub host: u32,
    /// Whether it is the master, which talks to the front end: see libi_member_is_master().
    pub is_master: bool,
    /// The name of its host in the list that the session was launched with.
    pub host_name: *const c_char,
}

/// Joins the session that this process was started for, and returns when the session is up. The
/// front end's deadline bounds the wait.
///
/// Call it once in the life of a process, early, from the main thread, and in the process that
/// was started: not in a child of it, because a child that joins too breaks the link. A child
/// forked before may live on, and ends with the session while it is in the process group. A child
/// forked afterwards gets LIBI_ERR_STATE from everything that starts or waits; it may free the
/// objects.
///
/// The call reads the environment, and takes over the standard streams if the link came through
/// them. Standard streams that are closed are opened on /dev/null.
///
/// Afterwards standard output is a pipe, so stdio buffers it: call fflush() when output has to be
/// seen, and before libi_member_drain(), libi_member_detach() and libi_member_free(). Output that
/// is flushed later, as at exit, may be lost.
///
/// *member is the new object, to be freed with libi_member_free(), or NULL after a failure.
/// Returns LIBI_OK; LIBI_ERR_STARTED_BY_HAND if no front end has started this process, which may
/// then be a front end itself; LIBI_ERR_NO_LINK in a child of a member that has its environment;
/// LIBI_ERR_STATE the second time; LIBI_ERR_ENDED if the session has ended before it was up;
/// LIBI_ERR_NULL, LIBI_ERR_ARGUMENT, LIBI_ERR_BUSY, LIBI_ERR_SYSTEM. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_init(
    progress: libi_progress_arg,
    member: *mut *mut libi_member,
) -> libi_result {
    let init = || {
        // SAFETY: as documented in the header.
        let place = unsafe { OutParam::new(member, null_mut(), "member") }?;
        reentry::may_wait()?;
        let options = MemberOptions::new().progress(progress::progress(progress)?);
        let member = Member::with(&options)?;
        place.put(give(MemberHandle::new(member)));
        Ok(())
    };
    code(reentry::guarded(init))
}

/// Frees the member. NULL is allowed. The process stays a member until it ends; call
/// libi_member_drain() or libi_member_detach() before. Output that was flushed is forwarded,
/// within a second. Inside a function that the library has called, nothing is freed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_free(member: *mut libi_member) {
    if !reentry::is_callback() {
        // SAFETY: as documented in the header.
        unsafe { object::free(member) }
    }
}

/// The rank of this process; UINT32_MAX for NULL. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_rank(member: *const libi_member) -> u32 {
    // SAFETY: as documented in the header.
    unsafe { ask(member, u32::MAX, |handle| handle.constant().member.rank().0) }
}

/// The number of members in the session; 0 for NULL. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_size(member: *const libi_member) -> u32 {
    // SAFETY: as documented in the header.
    unsafe { ask(member, 0, |handle| handle.constant().member.size()) }
}

/// The rank of the master, which talks to the front end, as far as this process knows: 0, or after
/// libi_options_set_replace_master() the next rank that was left when it was lost; UINT32_MAX for
/// NULL. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_master(member: *const libi_member) -> u32 {
    // SAFETY: as documented in the header.
    unsafe { ask(member, u32::MAX, |handle| handle.constant().member.master().0) }
}

/// Whether this process is the master; false for NULL. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_is_master(member: *const libi_member) -> bool {
    // SAFETY: as documented in the header.
    unsafe { ask(member, false, |handle| handle.constant().member.is_master()) }
}

/// Fills *info with what is known of the member. Any thread, at any time. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_query(
    member: *const libi_member,
    info: *mut libi_member_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(member, info, size, |handle| {
            let JoinedMember { member, host_name, .. } = handle.constant();
            Ok(libi_member_info {
                rank: member.rank().0,
                size: member.size(),
                host: member.host().0,
                is_master: member.is_master(),
                host_name: host_name.as_ptr(),
            })
        })
    }
}

/// The ranks of a group, as far as this process knows: writes the lowest ones, as many as there
/// is room for. ranks may be NULL if room is 0. Any thread, at any time.
///
/// Returns the number of ranks in the group; 0 for NULL and for an unknown group. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_ranks(
    member: *const libi_member,
    group: libi_ranks_arg,
    ranks: *mut u32,
    room: usize,
) -> usize {
    // SAFETY: as documented in the header.
    unsafe {
        ask(member, 0, |handle| match group_of(group) {
            Ok(libi_ranks::LIBI_RANKS_ABSENT) => {
                args::write_ranks(&handle.constant().member.absent(), ranks, room)
            }
            Ok(libi_ranks::LIBI_RANKS_LOST) => {
                handle.current().map_or(0, |member| args::write_ranks(&member.lost(), ranks, room))
            }
            Ok(libi_ranks::LIBI_RANKS_MISSING) => {
                handle.missing().map_or(0, |missing| args::write_ranks(&missing, ranks, room))
            }
            Ok(libi_ranks::LIBI_RANKS_LEFT) => {
                handle.left().map_or(0, |left| args::write_ranks(&left, ranks, room))
            }
            Ok(libi_ranks::LIBI_RANKS_ENDED) | Err(_) => 0,
        })
    }
}

/// Waits until what this process has sent is on its way, and no other member needs it. Call it at
/// the end of a program that ends when its work is done, before libi_member_free(). The process
/// remains a member, and its exit is reported.
///
/// A process that ends without this is reported as well. With LIBI_ENGINE_IN_PROGRAM the first
/// member of each host forwards for the others: if it ends while they need it, they end too.
///
/// Returns LIBI_OK; LIBI_ERR_TIMED_OUT if others still need it; LIBI_ERR_ENDED. It may be called
/// again. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_drain(member: *mut libi_member, timeout: libi_timeout) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { with(member, |handle| Ok(handle.member()?.drain(args::timeout(timeout))?)) }
}

/// Detaches this process from the session, to live on: it is no longer signalled or ended by the
/// session, and survives the front end. Returns when everything that it had to forward is with
/// the next process; does not wait for other members. As long as the process lives and the member
/// is not freed, it keeps forwarding for members below it.
///
/// Its output goes to the front end as long as there is a way, and is discarded afterwards.
/// Before exec, or before it goes on in a child, it has to redirect its standard streams, as
/// daemons do. It may also close all descriptors that it does not know. Then it forwards for no
/// member any more (libi_member_drain() waits until none needs it), the library does not touch
/// files that get the same numbers, and operations return LIBI_ERR_ENDED.
///
/// A process that does not detach ends with the session, by its signal or by SIGKILL after the
/// grace period, with its children in the same process group.
///
/// Returns LIBI_OK; LIBI_ERR_TIMED_OUT if not everything was forwarded in time: that goes on, and
/// the process has detached all the same; LIBI_ERR_ENDED; LIBI_ERR_SYSTEM if the process has a
/// parent-death signal and this is not the main thread, which alone can clear it. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_detach(member: *mut libi_member, timeout: libi_timeout) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { with(member, |handle| Ok(handle.member()?.detach(args::timeout(timeout))?)) }
}

/// For event loops: a descriptor that is readable while an operation has finished and was neither
/// polled since nor freed; and, with LIBI_PROGRESS_MANUAL, while there is something to dispatch.
///
/// Wait for it with poll() or the like; do not read or close it. -1 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_descriptor(member: *const libi_member) -> c_int {
    // SAFETY: as documented in the header.
    unsafe { ask(member, -1, |handle| handle.current().map_or(-1, |member| member.descriptor().as_raw_fd())) }
}

/// For event loops with LIBI_PROGRESS_MANUAL: how long the loop may wait for the descriptor
/// before libi_member_dispatch() has to be called; -1 (LIBI_FOREVER) is no limit, as always with
/// LIBI_PROGRESS_THREAD. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_next_timeout(member: *const libi_member) -> libi_timeout {
    // SAFETY: as documented in the header.
    unsafe {
        ask(member, -1, |handle| {
            handle.current().and_then(Member::next_timeout).map_or(LIBI_FOREVER, args::millis)
        })
    }
}

/// For event loops with LIBI_PROGRESS_MANUAL: does what there is to do without waiting.
///
/// Returns LIBI_OK, or LIBI_ERR_SYSTEM. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_dispatch(member: *mut libi_member) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { with(member, |handle| Ok(handle.member()?.dispatch()?)) }
}

/// Runs a call that waits on a member.
///
/// # Safety
/// As of [`with`].
pub(crate) unsafe fn on_member(
    member: *mut libi_member,
    body: impl FnOnce(&Member) -> CallResult,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe { with(member, |handle| body(handle.member()?)) }
}

/// Starts an operation, waits for it, and passes on its result.
///
/// # Safety
/// As of [`with`].
unsafe fn wait<T>(
    member: *mut libi_member,
    timeout: libi_timeout,
    begin: impl FnOnce(&Member) -> CallResult<Pending<T>>,
    put: impl FnOnce(T) -> CallResult,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe {
        with(member, |handle| {
            let pending = begin(handle.member()?)?;
            let (result, missing) = pending.wait_with_missing(args::timeout(timeout))?;
            handle.note_missing(missing);
            put(result)
        })
    }
}

/// As [`wait`], for an operation that results in data. `gets` says whether this member gets some,
/// so that `data` must not be NULL.
///
/// # Safety
/// As of [`with`] and [`OutParam::new`].
unsafe fn wait_for_data<T>(
    member: *mut libi_member,
    timeout: libi_timeout,
    data: *mut *mut libi_data,
    gets: impl FnOnce(&Member) -> bool,
    begin: impl FnOnce(&Member) -> CallResult<Pending<T>>,
    read: impl FnOnce(T) -> Outcome,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe {
        let place = OutParam::new(data, null_mut(), "data");
        let begin = |member: &Member| match &place {
            Err(error) if gets(member) => Err(error.clone()),
            _ => begin(member),
        };
        let put = |parts: Vec<Bytes>| {
            if let Ok(place) = &place {
                place.put(data::give_data(parts));
            }
        };
        wait(member, timeout, begin, |result| {
            match read(result) {
                Outcome::Parts(parts) => put(parts),
                Outcome::Ring(ring) => put(vec![ring.left, ring.right]),
                Outcome::None(text) => return Err(CallError::new(LIBI_NONE, text)),
                Outcome::Nothing => {}
            }
            Ok(())
        })
    }
}

/// Starts an operation, and passes out its object.
///
/// # Safety
/// As of [`with`] and [`OutParam::new`].
unsafe fn start<T: Send + 'static>(
    member: *mut libi_member,
    pending: *mut *mut libi_pending,
    begin: impl FnOnce(&Member) -> CallResult<Pending<T>>,
    read: fn(T) -> Outcome,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe {
        let place = OutParam::new(pending, null_mut(), "pending");
        with(member, |handle| {
            let place = place?;
            place.put(pending::started(begin(handle.member()?)?, read));
            Ok(())
        })
    }
}

/// A copy of the caller's bytes.
///
/// # Safety
/// As of [`args::bytes`].
unsafe fn copied(bytes: *const libc::c_void, length: usize, what: &str) -> CallResult<Bytes> {
    // SAFETY: as for this function.
    Ok(Bytes::copy_from_slice(unsafe { args::bytes(bytes, length, what) }?))
}
