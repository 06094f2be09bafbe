//! Reductions and prefix reductions by functions of the program.

use libc::c_void;
use libi::{Member, Rank};

use super::{copied, libi_member, start, wait_for_data};
use crate::data::libi_data;
use crate::error::{CallError, CallResult, code};
use crate::pending::{libi_pending, one, one_or_nothing};
use crate::reentry;
use crate::result::libi_result::{self, LIBI_ERR_HANDLE, LIBI_ERR_NO_MEMORY, LIBI_ERR_NULL};
use crate::result::libi_timeout;

/// The value that a libi_fold changes. Only the function that it was passed to may use it, until
/// it returns. Since 0.1.
pub struct libi_value {
    _opaque: (),
}

/// The value behind the pointer.
#[repr(C)]
struct Value<'a> {
    mark: u64,
    bytes: &'a mut Vec<u8>,
}

/// The first bytes of a value while its function runs.
const MARK: u64 = 0x6c69_6269_2076_616c;

/// A function that combines two values. into is the value of some members, and becomes that of
/// these and the following ones, whose value is other. The function has to be associative and the
/// same at all members. Values may have any length; other is not aligned.
///
/// It is called in any thread that waits in a function of the member, or in the library's thread;
/// never in two at once for the same operation. The member makes no progress meanwhile. It has to
/// return: no longjmp; an exception aborts the process. exit() ends the process as usual, and
/// other members see that it is lost. It may read the rank, the size and the like. Functions that
/// start something or wait return LIBI_ERR_BUSY for all objects, and it must not wait for a
/// thread that calls them. Since 0.1.
pub type libi_fold = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        into: *mut libi_value,
        other: *const c_void,
        length: usize,
    ),
>;

/// Called once when the userdata of a libi_fold are not needed any more: in any thread, perhaps
/// after the operation has finished. The restrictions of libi_fold hold. Since 0.1.
pub type libi_release = Option<unsafe extern "C-unwind" fn(userdata: *mut c_void)>;

/// The bytes of a value, which may be changed. They are not aligned, and move when the value is
/// resized. NULL for NULL and for a value whose function has returned. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_value_bytes(value: *mut libi_value) -> *mut c_void {
    // SAFETY: as documented in the header.
    unsafe { look(value) }.map_or(std::ptr::null_mut(), |value| value.bytes.as_mut_ptr().cast())
}

/// The length of a value; 0 for NULL and for a value whose function has returned. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_value_length(value: *const libi_value) -> usize {
    // SAFETY: as documented in the header.
    unsafe { look(value.cast_mut()) }.map_or(0, |value| value.bytes.len())
}

/// Changes the length of a value. New bytes are zeros.
///
/// Returns LIBI_OK, LIBI_ERR_NULL, LIBI_ERR_HANDLE if the function of the value has returned, or
/// LIBI_ERR_NO_MEMORY. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_value_resize(value: *mut libi_value, length: usize) -> libi_result {
    let resize = |value: &mut Value<'_>| {
        let more = length.saturating_sub(value.bytes.len());
        let no_memory = |_| CallError::new(LIBI_ERR_NO_MEMORY, format!("no memory for {length} bytes"));
        value.bytes.try_reserve(more).map_err(no_memory)?;
        value.bytes.resize(length, 0);
        Ok(())
    };
    // SAFETY: as documented in the header.
    code(unsafe { look(value) }.and_then(resize))
}

/// Combines the values of all members by a function of the program; the root gets the result in
/// part 0 of *data. *data is NULL at other members, where data may be NULL too. release may be
/// NULL; it is called even if this fails. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_reduce_by(
    member: *mut libi_member,
    root: u32,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    let function = FoldFunction { fold, userdata, release };
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| {
            Ok(member.reduce_by(Rank(root), copied(bytes, length, "bytes")?, function.callable()?))
        };
        wait_for_data(member, timeout, data, |member| member.rank().0 == root, begin, one_or_nothing)
    }
}

/// Starts libi_member_reduce_by(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_reduce_by(
    member: *mut libi_member,
    root: u32,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    let function = FoldFunction { fold, userdata, release };
    // SAFETY: as documented in the header.
    unsafe {
        let begin = |member: &Member| {
            Ok(member.reduce_by(Rank(root), copied(bytes, length, "bytes")?, function.callable()?))
        };
        start(member, pending, begin, one_or_nothing)
    }
}

/// As libi_member_reduce_by(), with the result at all members. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allreduce_by(
    member: *mut libi_member,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    let function = FoldFunction { fold, userdata, release };
    // SAFETY: as documented in the header.
    unsafe {
        let begin =
            |member: &Member| Ok(member.allreduce_by(copied(bytes, length, "bytes")?, function.callable()?));
        wait_for_data(member, timeout, data, |_| true, begin, one)
    }
}

/// Starts libi_member_allreduce_by(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_allreduce_by(
    member: *mut libi_member,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    let function = FoldFunction { fold, userdata, release };
    // SAFETY: as documented in the header.
    unsafe {
        let begin =
            |member: &Member| Ok(member.allreduce_by(copied(bytes, length, "bytes")?, function.callable()?));
        start(member, pending, begin, one)
    }
}

/// As libi_member_allreduce_by(), of the values of this member and of all members of lower rank.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_scan_by(
    member: *mut libi_member,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    let function = FoldFunction { fold, userdata, release };
    // SAFETY: as documented in the header.
    unsafe {
        let begin =
            |member: &Member| Ok(member.scan_by(copied(bytes, length, "bytes")?, function.callable()?));
        wait_for_data(member, timeout, data, |_| true, begin, one)
    }
}

/// Starts libi_member_scan_by(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_scan_by(
    member: *mut libi_member,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    let function = FoldFunction { fold, userdata, release };
    // SAFETY: as documented in the header.
    unsafe {
        let begin =
            |member: &Member| Ok(member.scan_by(copied(bytes, length, "bytes")?, function.callable()?));
        start(member, pending, begin, one)
    }
}

/// As libi_member_scan_by(), without the value of this member. At the first member, the lowest rank
/// that is not absent, *data is NULL: no member is before it. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_exscan_by(
    member: *mut libi_member,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_timeout,
) -> libi_result {
    let function = FoldFunction { fold, userdata, release };
    // SAFETY: as documented in the header.
    unsafe {
        let begin =
            |member: &Member| Ok(member.exscan_by(copied(bytes, length, "bytes")?, function.callable()?));
        wait_for_data(member, timeout, data, |_| true, begin, one_or_nothing)
    }
}

/// Starts libi_member_exscan_by(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_exscan_by(
    member: *mut libi_member,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    let function = FoldFunction { fold, userdata, release };
    // SAFETY: as documented in the header.
    unsafe {
        let begin =
            |member: &Member| Ok(member.exscan_by(copied(bytes, length, "bytes")?, function.callable()?));
        start(member, pending, begin, one_or_nothing)
    }
}

/// A function of the program, with its userdata.
struct FoldFunction {
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
}

// SAFETY: the header says that both functions may be called in any thread.
unsafe impl Send for FoldFunction {}
// SAFETY: as above.
unsafe impl Sync for FoldFunction {}

impl FoldFunction {
    fn callable(self) -> CallResult<impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static> {
        if self.fold.is_none() {
            return Err(CallError::null("fold"));
        }
        Ok(move |into: &mut Vec<u8>, other: &[u8]| self.combine(into, other))
    }

    fn combine(&self, into: &mut Vec<u8>, other: &[u8]) {
        let Some(fold) = self.fold else { return };
        let mut value = Value { mark: MARK, bytes: into };
        let handle = (&raw mut value).cast();
        // SAFETY: as documented in the header; the value outlives the call.
        reentry::call(|| unsafe { fold(self.userdata, handle, other.as_ptr().cast(), other.len()) });
        // SAFETY: it is a local variable, and the program must not use its pointer any more.
        unsafe { (&raw mut value.mark).write_volatile(0) };
    }
}

impl Drop for FoldFunction {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as documented in the header; this is the only call.
            reentry::call(|| unsafe { release(self.userdata) });
        }
    }
}

/// # Safety
/// It is NULL, or was passed to a function that has not returned. Most other pointers are
/// detected.
unsafe fn look<'a>(value: *mut libi_value) -> CallResult<&'a mut Value<'a>> {
    let value: *mut Value<'a> = value.cast();
    if value.is_null() {
        return Err(CallError::new(LIBI_ERR_NULL, "the value is NULL"));
    }
    // SAFETY: as for this function; values begin with their mark.
    if !value.is_aligned() || unsafe { (&raw const (*value).mark).read_volatile() } != MARK {
        return Err(CallError::new(LIBI_ERR_HANDLE, "this is not a value of a running function"));
    }
    // SAFETY: the mark says that its function is running, and only that uses it.
    Ok(unsafe { &mut *value })
}
