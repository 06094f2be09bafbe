//! Reductions and prefix reductions of arrays of numbers.

use libc::{c_int, c_void};
use libi::{Bytes, Member, Number, Op, Rank};

use super::into::{CallerBuffer, wait_into};
use super::{libi_member, start};
use crate::args::from_c;
use crate::error::{CallError, CallResult};
use crate::object::with;
use crate::pending::{Outcome, libi_pending, nothing};
use crate::result::{libi_result, libi_timeout};

/// The type of the elements of an array. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_element {
    /// uint8_t.
    LIBI_ELEMENT_U8 = 0,
    /// int32_t.
    LIBI_ELEMENT_I32 = 1,
    /// uint32_t.
    LIBI_ELEMENT_U32 = 2,
    /// int64_t.
    LIBI_ELEMENT_I64 = 3,
    /// uint64_t.
    LIBI_ELEMENT_U64 = 4,
    /// float.
    LIBI_ELEMENT_F32 = 5,
    /// double.
    LIBI_ELEMENT_F64 = 6,
}

/// cbindgen:ignore
pub type libi_element_arg = c_int;

/// How two elements are combined. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_op {
    /// Sum. Integers wrap around.
    LIBI_OP_SUM = 0,
    /// Minimum. NaN only if both are.
    LIBI_OP_MIN = 1,
    /// Maximum. NaN only if both are.
    LIBI_OP_MAX = 2,
    /// Bitwise and. Not for floating-point numbers.
    LIBI_OP_AND = 3,
    /// Bitwise or. Not for floating-point numbers.
    LIBI_OP_OR = 4,
}

/// cbindgen:ignore
pub type libi_op_arg = c_int;

/// Combines the arrays of all members element by element; the root gets the result, which has
/// count elements too. result may be the same memory as numbers, and is ignored at other members.
/// Nothing has to be aligned. Sums of floating-point numbers may differ in their last bits
/// between runs.
///
/// Also returns LIBI_ERR_ARGUMENT if the element or the operation is unknown, or they do not fit;
/// LIBI_ERR_MISMATCH if elements, operations or counts of members differ. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_reduce(
    member: *mut libi_member,
    root: u32,
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
    result: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { waiting(member, Of::AllAt(root), ArrayArg { element, op, numbers, count }, result, timeout) }
}

/// Starts libi_member_reduce(). The root gets the array in part 0 of the data. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_reduce(
    member: *mut libi_member,
    root: u32,
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { starting(member, Of::AllAt(root), ArrayArg { element, op, numbers, count }, pending) }
}

/// As libi_member_reduce(), with the result at all members. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_allreduce(
    member: *mut libi_member,
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
    result: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { waiting(member, Of::All, ArrayArg { element, op, numbers, count }, result, timeout) }
}

/// Starts libi_member_allreduce(). The array is in part 0 of the data. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_allreduce(
    member: *mut libi_member,
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { starting(member, Of::All, ArrayArg { element, op, numbers, count }, pending) }
}

/// As libi_member_allreduce(), of the arrays of this member and of all members of lower rank (an
/// inclusive prefix reduction). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_scan(
    member: *mut libi_member,
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
    result: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { waiting(member, Of::UpToThis, ArrayArg { element, op, numbers, count }, result, timeout) }
}

/// Starts libi_member_scan(). The array is in part 0 of the data. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_scan(
    member: *mut libi_member,
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { starting(member, Of::UpToThis, ArrayArg { element, op, numbers, count }, pending) }
}

/// As libi_member_scan(), without the array of this member (an exclusive prefix reduction). At the
/// first member, the lowest rank that is not absent, result is unchanged: no member is before it.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_exscan(
    member: *mut libi_member,
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
    result: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { waiting(member, Of::BeforeThis, ArrayArg { element, op, numbers, count }, result, timeout) }
}

/// Starts libi_member_exscan(). The array is in part 0 of the data; the first member gets none.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_start_exscan(
    member: *mut libi_member,
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe { starting(member, Of::BeforeThis, ArrayArg { element, op, numbers, count }, pending) }
}

/// The members whose arrays are combined, and which member gets the result.
#[derive(Clone, Copy)]
enum Of {
    /// All, for the root.
    AllAt(u32),
    /// All, for all.
    All,
    /// This one and those before it, for each.
    UpToThis,
    /// Those before this one, for each.
    BeforeThis,
}

/// The array and the operation, as C passes them.
#[derive(Clone, Copy)]
struct ArrayArg {
    element: libi_element_arg,
    op: libi_op_arg,
    numbers: *const c_void,
    count: usize,
}

impl ArrayArg {
    fn op(&self) -> CallResult<Op> {
        let op = from_c!(self.op, "libi_op", libi_op {
            LIBI_OP_SUM => Op::Sum,
            LIBI_OP_MIN => Op::Min,
            LIBI_OP_MAX => Op::Max,
            LIBI_OP_AND => Op::And,
            LIBI_OP_OR => Op::Or,
        })?;
        let is_float = self.element == libi_element::LIBI_ELEMENT_F32 as c_int
            || self.element == libi_element::LIBI_ELEMENT_F64 as c_int;
        if matches!(op, Op::And | Op::Or) && is_float {
            return Err(CallError::argument("floating-point numbers have no bitwise operations"));
        }
        Ok(op)
    }

    /// A copy of the array in aligned memory.
    ///
    /// # Safety
    /// There are `count` numbers of this type.
    unsafe fn array<T: Number>(&self) -> CallResult<Vec<T>> {
        let Some(length) =
            self.count.checked_mul(size_of::<T>()).filter(|length| isize::try_from(*length).is_ok())
        else {
            return Err(CallError::argument(format!("an array cannot have {} numbers", self.count)));
        };
        if self.numbers.is_null() && length > 0 {
            return Err(CallError::null("numbers"));
        }
        let mut array: Vec<T> = Vec::with_capacity(self.count);
        if length > 0 {
            // SAFETY: the vector has this capacity; the rest as for this function. Any bytes are
            // a number.
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
    // SAFETY: numbers have no padding.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}

#[allow(clippy::needless_pass_by_value, reason = "it is passed as a function of the result")]
fn array_outcome<T: Number>(numbers: Vec<T>) -> Outcome {
    Outcome::Parts(vec![Bytes::copy_from_slice(bytes_of(&numbers))])
}

fn array_or_nothing<T: Number>(numbers: Option<Vec<T>>) -> Outcome {
    numbers.map_or(Outcome::Nothing, array_outcome)
}

/// Calls the function for the type of an element, or `otherwise` with an error.
macro_rules! for_element {
    ($array:expr, $function:ident($($argument:expr),*), $otherwise:expr) => {
        from_c!($array.element, "libi_element", libi_element {
            LIBI_ELEMENT_U8 => $function::<u8>($($argument),*),
            LIBI_ELEMENT_I32 => $function::<i32>($($argument),*),
            LIBI_ELEMENT_U32 => $function::<u32>($($argument),*),
            LIBI_ELEMENT_I64 => $function::<i64>($($argument),*),
            LIBI_ELEMENT_U64 => $function::<u64>($($argument),*),
            LIBI_ELEMENT_F32 => $function::<f32>($($argument),*),
            LIBI_ELEMENT_F64 => $function::<f64>($($argument),*),
        })
        .unwrap_or_else($otherwise)
    };
}

/// # Safety
/// As documented in the header for libi_member_reduce().
unsafe fn waiting(
    member: *mut libi_member,
    of: Of,
    array: ArrayArg,
    result: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe {
        let otherwise = |error| with(member, |_| Err(error));
        for_element!(array, wait_for_element(member, of, array, result, timeout), otherwise)
    }
}

/// # Safety
/// As of [`waiting`].
unsafe fn wait_for_element<T: Number>(
    member: *mut libi_member,
    of: Of,
    array: ArrayArg,
    result: *mut c_void,
    timeout: libi_timeout,
) -> libi_result {
    let gets = |member: &Member| if let Of::AllAt(root) = of { root == member.rank().0 } else { true };
    let prepare = |member: &Member| -> CallResult<(Op, Vec<T>, Option<CallerBuffer>)> {
        // SAFETY: as for this function.
        let (op, numbers) = (array.op()?, unsafe { array.array::<T>() }?);
        let buffer = CallerBuffer::new(result, size_of_val(&*numbers), "result");
        Ok((op, numbers, if gets(member) { Some(buffer?) } else { None }))
    };
    let put =
        |buffer: CallerBuffer, result: &[T]| buffer.put(0, array.count * size_of::<T>(), bytes_of(result));
    let put_any = |buffer, result: Option<Vec<T>>| result.map_or(Ok(()), |result| put(buffer, &result));
    let put_all = |buffer, result: Vec<T>| put(buffer, &result);
    macro_rules! wait {
        ($call:ident($($root:expr)?), $put:expr) => {{
            let begin = |member: &Member| {
                let (op, numbers, buffer) = prepare(member)?;
                Ok((member.$call($($root,)? &numbers, op), buffer))
            };
            // SAFETY: as for this function.
            unsafe { wait_into(member, timeout, begin, $put) }
        }};
    }
    match of {
        Of::AllAt(root) => wait!(reduce(Rank(root)), put_any),
        Of::All => wait!(allreduce(), put_all),
        Of::UpToThis => wait!(scan(), put_all),
        Of::BeforeThis => wait!(exscan(), put_any),
    }
}

/// # Safety
/// As documented in the header for libi_member_start_reduce().
unsafe fn starting(
    member: *mut libi_member,
    of: Of,
    array: ArrayArg,
    pending: *mut *mut libi_pending,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe {
        let otherwise = |error| start(member, pending, |_| Err(error), nothing);
        for_element!(array, start_element(member, of, array, pending), otherwise)
    }
}

/// # Safety
/// As of [`starting`].
unsafe fn start_element<T: Number>(
    member: *mut libi_member,
    of: Of,
    array: ArrayArg,
    pending: *mut *mut libi_pending,
) -> libi_result {
    macro_rules! start {
        ($call:ident($($root:expr)?), $read:expr) => {
            // SAFETY: as for this function.
            unsafe {
                let begin = |member: &Member| Ok(member.$call($($root,)? &array.array::<T>()?, array.op()?));
                start(member, pending, begin, $read)
            }
        };
    }
    match of {
        Of::AllAt(root) => start!(reduce(Rank(root)), array_or_nothing),
        Of::All => start!(allreduce(), array_outcome),
        Of::UpToThis => start!(scan(), array_outcome),
        Of::BeforeThis => start!(exscan(), array_or_nothing),
    }
}
