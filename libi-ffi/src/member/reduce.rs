//! Arrays of numbers, combined element by element.

use libc::c_void;
use libi::{Bytes, Member, Number, Op, Rank};

use super::into::{CallerBuffer, wait_into};
use super::{libi_member, start};
use crate::object::with;
use crate::pending::{Outcome, libi_pending, nothing};
use crate::result::{CallError, CallResult, libi_millis, libi_result};

/// What the elements of an array are: one of LIBI_ELEMENT_…. Since 0.1.
pub type libi_element = i32;

/// uint8_t. Since 0.1.
pub const LIBI_ELEMENT_U8: libi_element = 0;
/// int32_t. Since 0.1.
pub const LIBI_ELEMENT_I32: libi_element = 1;
/// uint32_t. Since 0.1.
pub const LIBI_ELEMENT_U32: libi_element = 2;
/// int64_t. Since 0.1.
pub const LIBI_ELEMENT_I64: libi_element = 3;
/// uint64_t. Since 0.1.
pub const LIBI_ELEMENT_U64: libi_element = 4;
/// float. Since 0.1.
pub const LIBI_ELEMENT_F32: libi_element = 5;
/// double. Since 0.1.
pub const LIBI_ELEMENT_F64: libi_element = 6;

/// What is done with two elements: one of LIBI_OP_…. Since 0.1.
pub type libi_op = i32;

/// They are added; integers wrap around. Since 0.1.
pub const LIBI_OP_SUM: libi_op = 0;
/// The lesser stays. Of floating-point numbers, one that is no number loses. Since 0.1.
pub const LIBI_OP_MIN: libi_op = 1;
/// The greater stays. Of floating-point numbers, one that is no number loses. Since 0.1.
pub const LIBI_OP_MAX: libi_op = 2;
/// Bits that both have. Not of floating-point numbers. Since 0.1.
pub const LIBI_OP_AND: libi_op = 3;
/// Bits that one of them has. Not of floating-point numbers. Since 0.1.
pub const LIBI_OP_OR: libi_op = 4;

/// Has the root get everybody's arrays, combined element by element inside the tree: count elements in result, which may be the
/// same memory as numbers, and is not looked at elsewhere. Nothing has to be aligned. A sum of floating-point numbers may differ in its last
/// bits from one run to the next.
///
/// LIBI_ERR_ARGUMENT if there is no such element or operation; LIBI_ERR_MISMATCH if elements, counts or operations differ. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_reduce(
    member: *mut libi_member,
    root: u32,
    element: libi_element,
    op: libi_op,
    numbers: *const c_void,
    count: usize,
    result: *mut c_void,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { blocking(member, Some(root), ArrayArg { element, op, numbers, count }, result, timeout) }
}

/// As libi_member_reduce(), and does not wait: the root gets the array in part 0 of what libi_pending_take() gives. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_reduce(
    member: *mut libi_member,
    root: u32,
    element: libi_element,
    op: libi_op,
    numbers: *const c_void,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { started(member, Some(root), ArrayArg { element, op, numbers, count }, pending) }
}

/// As libi_member_reduce(), with the result for everybody. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allreduce(
    member: *mut libi_member,
    element: libi_element,
    op: libi_op,
    numbers: *const c_void,
    count: usize,
    result: *mut c_void,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { blocking(member, None, ArrayArg { element, op, numbers, count }, result, timeout) }
}

/// As libi_member_allreduce(), and does not wait: the array is in part 0 of what libi_pending_take() gives. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_allreduce(
    member: *mut libi_member,
    element: libi_element,
    op: libi_op,
    numbers: *const c_void,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { started(member, None, ArrayArg { element, op, numbers, count }, pending) }
}

/// What C gives of an array.
#[derive(Clone, Copy)]
struct ArrayArg {
    element: libi_element,
    op: libi_op,
    numbers: *const c_void,
    count: usize,
}

impl ArrayArg {
    fn op(&self) -> CallResult<Op> {
        let op = match self.op {
            LIBI_OP_SUM => Op::Sum,
            LIBI_OP_MIN => Op::Min,
            LIBI_OP_MAX => Op::Max,
            LIBI_OP_AND => Op::And,
            LIBI_OP_OR => Op::Or,
            other => return Err(CallError::argument(format!("there is no operation {other}"))),
        };
        if matches!(op, Op::And | Op::Or) && matches!(self.element, LIBI_ELEMENT_F32 | LIBI_ELEMENT_F64) {
            return Err(CallError::argument("bits of floating-point numbers cannot be combined"));
        }
        Ok(op)
    }

    /// The array, in memory that is aligned.
    ///
    /// # Safety
    /// There are as many.
    unsafe fn array<T: Number>(&self) -> CallResult<Vec<T>> {
        let Some(length) =
            self.count.checked_mul(size_of::<T>()).filter(|length| isize::try_from(*length).is_ok())
        else {
            return Err(CallError::argument(format!("there cannot be {} numbers", self.count)));
        };
        if self.numbers.is_null() && length > 0 {
            return Err(CallError::null("numbers"));
        }
        let mut array: Vec<T> = Vec::with_capacity(self.count);
        if length > 0 {
            // SAFETY: there is room for as many bytes, and they are, as this function asks; all bytes make a number.
            unsafe {
                array.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(self.numbers.cast(), length);
                array.set_len(self.count);
            }
        }
        Ok(array)
    }
}

/// The bytes of an array.
fn bytes_of<T: Number>(numbers: &[T]) -> &[u8] {
    // SAFETY: numbers have no bytes that are not theirs.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

#[allow(clippy::needless_pass_by_value, reason = "it takes what has come")]
fn array<T: Number>(numbers: Vec<T>) -> Outcome {
    Outcome::Parts(vec![Bytes::copy_from_slice(bytes_of(&numbers))])
}

fn array_or_nothing<T: Number>(numbers: Option<Vec<T>>) -> Outcome {
    numbers.map_or(Outcome::Nothing, array)
}

/// Calls the function for the type of an element.
macro_rules! for_element {
    ($given:expr, $function:ident($($argument:expr),*), $none:expr) => {
        match $given.element {
            LIBI_ELEMENT_U8 => $function::<u8>($($argument),*),
            LIBI_ELEMENT_I32 => $function::<i32>($($argument),*),
            LIBI_ELEMENT_U32 => $function::<u32>($($argument),*),
            LIBI_ELEMENT_I64 => $function::<i64>($($argument),*),
            LIBI_ELEMENT_U64 => $function::<u64>($($argument),*),
            LIBI_ELEMENT_F32 => $function::<f32>($($argument),*),
            LIBI_ELEMENT_F64 => $function::<f64>($($argument),*),
            other => $none(CallError::argument(format!("there is no element {other}"))),
        }
    };
}

/// # Safety
/// As the header asks of libi_member_reduce().
unsafe fn blocking(
    member: *mut libi_member,
    root: Option<u32>,
    given: ArrayArg,
    result: *mut c_void,
    timeout: libi_millis,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe {
        let none = |fault| with(member, |_| Err(fault));
        for_element!(given, blocking_of(member, root, given, result, timeout), none)
    }
}

/// # Safety
/// As of [`blocking`].
unsafe fn blocking_of<T: Number>(
    member: *mut libi_member,
    root: Option<u32>,
    given: ArrayArg,
    result: *mut c_void,
    timeout: libi_millis,
) -> libi_result {
    let prepare = |member: &Member| -> CallResult<(Op, Vec<T>, Option<CallerBuffer>)> {
        let gets = root.is_none_or(|root| root == member.rank().0);
        // SAFETY: as this function asks.
        let (op, numbers) = (given.op()?, unsafe { given.array::<T>() }?);
        let room = CallerBuffer::new(result, size_of_val(&*numbers), "result");
        Ok((op, numbers, if gets { Some(room?) } else { None }))
    };
    let put = |room: CallerBuffer, came: &[T]| room.put(0, given.count * size_of::<T>(), bytes_of(came));
    // SAFETY: as this function asks.
    unsafe {
        if let Some(root) = root {
            let begin = |member: &Member| {
                let (op, numbers, room) = prepare(member)?;
                Ok((member.reduce(Rank(root), &numbers, op), room))
            };
            wait_into(member, timeout, begin, |room, came| came.map_or(Ok(()), |came| put(room, &came)))
        } else {
            let begin = |member: &Member| {
                let (op, numbers, room) = prepare(member)?;
                Ok((member.allreduce(&numbers, op), room))
            };
            wait_into(member, timeout, begin, |room, came| put(room, &came))
        }
    }
}

/// # Safety
/// As the header asks of libi_member_start_reduce().
unsafe fn started(
    member: *mut libi_member,
    root: Option<u32>,
    given: ArrayArg,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe {
        let none = |fault| start(member, pending, |_| Err(fault), nothing);
        for_element!(given, started_of(member, root, given, pending), none)
    }
}

/// # Safety
/// As of [`started`].
unsafe fn started_of<T: Number>(
    member: *mut libi_member,
    root: Option<u32>,
    given: ArrayArg,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as this function asks.
    unsafe {
        if let Some(root) = root {
            let begin = |member: &Member| Ok(member.reduce(Rank(root), &given.array::<T>()?, given.op()?));
            start(member, pending, begin, array_or_nothing)
        } else {
            let begin = |member: &Member| Ok(member.allreduce(&given.array::<T>()?, given.op()?));
            start(member, pending, begin, array)
        }
    }
}
