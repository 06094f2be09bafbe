//! Reductions by functions of the program's own.

use libc::c_void;
use libi::{Member, Rank};

use super::collectives::copied;
use super::{DataOut, libi_member, start, wait};
use crate::args;
use crate::data::libi_data;
use crate::pending::{libi_pending, one, one_or_nothing};
use crate::reentry;
use crate::result::{
    CallError, CallResult, LIBI_ERR_HANDLE, LIBI_ERR_NO_MEMORY, LIBI_ERR_NULL, LIBI_OK, libi_millis,
    libi_result,
};

/// A value that a libi_fold makes into that of more members. Only the function to which it is given may use it, and until it comes
/// back. Since 0.1.
pub struct libi_value {
    _opaque: (),
}

/// What is behind it.
#[repr(C)]
struct Value<'a> {
    mark: u64,
    bytes: &'a mut Vec<u8>,
}

/// What a value begins with while its function runs.
const MARK: u64 = 0x6c69_6269_2076_616c;

/// A function that combines values: it makes into, the value of some members, that of these and the ones after them, whose value other is. It
/// has to be associative, and the same at all members; values may be of any length. other is not aligned for anything.
///
/// It is called in any thread that waits in a function of the member, or in the library's own, never in two at a time for the same
/// operation; all that the member does stands still meanwhile. It has to come back: no longjmp; an exception ends the process. exit() in it
/// ends the process as anywhere else, and others hear that it is lost. It may ask for the rank, the size and the like; functions that start
/// something or wait return LIBI_ERR_BUSY, whatever member or operation they are called for; and it must not wait for another
/// thread that does. Since 0.1.
pub type libi_fold = Option<
    unsafe extern "C-unwind" fn(
        userdata: *mut c_void,
        into: *mut libi_value,
        other: *const c_void,
        length: usize,
    ),
>;

/// Told that the userdata are not needed any more; called once, in any thread, maybe after the operation is over. What a libi_fold must not call
/// this must not call. Since 0.1.
pub type libi_release = Option<unsafe extern "C-unwind" fn(userdata: *mut c_void)>;

/// The bytes of a value, which may be changed; not aligned for anything. They are there until the value is set or resized, and never NULL
/// but for what is no value. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_value_bytes(value: *mut libi_value) -> *mut c_void {
    // SAFETY: as the header asks.
    unsafe { look(value) }.map_or(std::ptr::null_mut(), |value| value.bytes.as_mut_ptr().cast())
}

/// How many bytes a value has; 0 for what is no value. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_value_length(value: *const libi_value) -> usize {
    // SAFETY: as the header asks.
    unsafe { look(value.cast_mut()) }.map_or(0, |value| value.bytes.len())
}

/// Makes these the bytes of a value; they may be a part of those that it has.
///
/// Returns LIBI_OK, LIBI_ERR_NULL, LIBI_ERR_HANDLE if the function to which it was given has come back, LIBI_ERR_NO_MEMORY. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_value_set(
    value: *mut libi_value,
    bytes: *const c_void,
    length: usize,
) -> libi_result {
    // SAFETY: as the header asks.
    let set = |value: &mut Value<'_>| unsafe {
        let bytes = args::bytes(bytes, length, "bytes")?;
        let mut new = Vec::new();
        new.try_reserve_exact(length).map_err(|_| no_memory(length))?;
        new.extend_from_slice(bytes);
        *value.bytes = new;
        Ok(())
    };
    // SAFETY: as the header asks.
    code(unsafe { look(value) }.and_then(set))
}

/// Makes a value longer, by zeros, or shorter.
///
/// Returns as libi_value_set(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_value_resize(value: *mut libi_value, length: usize) -> libi_result {
    let resize = |value: &mut Value<'_>| {
        let more = length.saturating_sub(value.bytes.len());
        value.bytes.try_reserve(more).map_err(|_| no_memory(length))?;
        value.bytes.resize(length, 0);
        Ok(())
    };
    // SAFETY: as the header asks.
    code(unsafe { look(value) }.and_then(resize))
}

/// Has the root get everybody's values, combined by a function of the program's own, in part 0 of *data, which is NULL elsewhere; data may
/// be NULL there. release may be NULL; it is called also if this fails. Since 0.1.
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
    timeout: libi_millis,
) -> libi_result {
    let own = FoldFunction { fold, userdata, release };
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(root == member.rank().0)?;
            let bytes = copied(bytes, length, "bytes")?;
            Ok(member.reduce_by(Rank(root), bytes, own.function()?))
        };
        wait(member, timeout, begin, |came| place.take(one_or_nothing(came)))
    }
}

/// As libi_member_reduce_by(), and does not wait. Since 0.1.
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
    let own = FoldFunction { fold, userdata, release };
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| {
            let bytes = copied(bytes, length, "bytes")?;
            Ok(member.reduce_by(Rank(root), bytes, own.function()?))
        };
        start(member, pending, begin, one_or_nothing)
    }
}

/// As libi_member_reduce_by(), with the result for everybody. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allreduce_by(
    member: *mut libi_member,
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
    bytes: *const c_void,
    length: usize,
    data: *mut *mut libi_data,
    timeout: libi_millis,
) -> libi_result {
    let own = FoldFunction { fold, userdata, release };
    // SAFETY: as the header asks.
    unsafe {
        let place = DataOut::new(data);
        let begin = |member: &Member| {
            place.check(true)?;
            let bytes = copied(bytes, length, "bytes")?;
            Ok(member.allreduce_by(bytes, own.function()?))
        };
        wait(member, timeout, begin, |came| place.take(one(came)))
    }
}

/// As libi_member_allreduce_by(), and does not wait. Since 0.1.
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
    let own = FoldFunction { fold, userdata, release };
    // SAFETY: as the header asks.
    unsafe {
        let begin = |member: &Member| {
            let bytes = copied(bytes, length, "bytes")?;
            Ok(member.allreduce_by(bytes, own.function()?))
        };
        start(member, pending, begin, one)
    }
}

/// A function of the program's own, and what it needs.
struct FoldFunction {
    fold: libi_fold,
    userdata: *mut c_void,
    release: libi_release,
}

// SAFETY: the header says that both functions are called in any thread.
unsafe impl Send for FoldFunction {}
// SAFETY: as above.
unsafe impl Sync for FoldFunction {}

impl FoldFunction {
    fn function(self) -> CallResult<impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static> {
        if self.fold.is_none() {
            return Err(CallError::null("fold"));
        }
        Ok(move |into: &mut Vec<u8>, other: &[u8]| self.combine(into, other))
    }

    fn combine(&self, into: &mut Vec<u8>, other: &[u8]) {
        let Some(fold) = self.fold else { return };
        let mut value = Value { mark: MARK, bytes: into };
        let handle = (&raw mut value).cast();
        // SAFETY: it is such a function, as the header asks; the value is there until it comes back.
        reentry::call(|| unsafe { fold(self.userdata, handle, other.as_ptr().cast(), other.len()) });
        // SAFETY: it is this function's. Nobody who keeps to the header looks at the mark any more.
        unsafe { (&raw mut value.mark).write_volatile(0) };
    }
}

impl Drop for FoldFunction {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is such a function, as the header asks, and is called once.
            reentry::call(|| unsafe { release(self.userdata) });
        }
    }
}

/// # Safety
/// It is NULL, or what a function was given that has not come back. Of one that has, it is likely to be told.
unsafe fn look<'a>(value: *mut libi_value) -> CallResult<&'a mut Value<'a>> {
    let value: *mut Value<'a> = value.cast();
    if value.is_null() {
        return Err(CallError::new(LIBI_ERR_NULL, ""));
    }
    // SAFETY: as this function asks; values begin with their mark.
    if !value.is_aligned() || unsafe { (&raw const (*value).mark).read_volatile() } != MARK {
        return Err(CallError::new(LIBI_ERR_HANDLE, ""));
    }
    // SAFETY: it has the mark of one that is there, and its function's thread alone uses it.
    Ok(unsafe { &mut *value })
}

fn no_memory(length: usize) -> CallError {
    CallError::new(LIBI_ERR_NO_MEMORY, format!("{length} bytes"))
}

/// There is no object that could keep the text.
fn code(outcome: CallResult) -> libi_result {
    outcome.map_or_else(|fault| fault.code, |()| LIBI_OK)
}
