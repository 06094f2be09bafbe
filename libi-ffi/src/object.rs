//! The objects behind the pointers that C holds.
//!
//! ```text
//!   give() --> alive --- free() --> gone (its mark is cleared before the memory is released)
//!                |
//!                | a panic inside a call
//!                v
//!             poisoned: every later call returns LIBI_ERR_POISONED; it can be freed
//! ```
//!
//! Most objects are used through `&` by any number of threads. A [`Builder`] and an object whose
//! value is a `Mutex` are for one thread at a time: a second one gets `LIBI_ERR_BUSY` and does
//! not wait. The same holds for a callback that uses the object which called it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::args::OutStruct;
use crate::error::{self, CallError, CallResult};
use crate::result::libi_result::{self, LIBI_ERR_BUSY, LIBI_ERR_HANDLE, LIBI_ERR_POISONED};

/// An opaque type of the header. It stands for an [`Object`] with its value.
pub(crate) trait Handle: Sized {
    /// The content.
    type Value;
    /// Its name in messages.
    const NAME: &'static str;
    /// The first bytes of its objects: a number that other memory is unlikely to hold.
    const MARK: u64 = mark(Self::NAME);
}

/// Makes a type an opaque type of the header.
macro_rules! handle {
    ($type:ty, $name:literal, $value:ty) => {
        impl $crate::object::Handle for $type {
            type Value = $value;
            const NAME: &'static str = $name;
        }
    };
}
pub(crate) use handle;

/// FNV-1a.
const fn mark(name: &str) -> u64 {
    let (bytes, mut mark, mut at) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        mark = (mark ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    mark
}

#[repr(C)]
struct Object<T> {
    mark: AtomicU64,
    poisoned: AtomicBool,
    value: T,
}

impl<T> Object<T> {
    fn guarded<R>(&self, body: impl FnOnce() -> R) -> Option<R> {
        if self.poisoned.load(Ordering::Acquire) {
            return None;
        }
        let result = catch_unwind(AssertUnwindSafe(body));
        if result.is_err() {
            self.poisoned.store(true, Ordering::Release);
        }
        result.ok()
    }
}

/// Makes an object that C owns.
pub(crate) fn give<H: Handle>(value: H::Value) -> *mut H {
    let object = Object { mark: AtomicU64::new(H::MARK), poisoned: AtomicBool::new(false), value };
    Box::into_raw(Box::new(object)).cast()
}

/// The object behind a pointer. The mark detects most misuse of freed or foreign pointers, as
/// long as the memory has not been used again; the header does not promise that.
///
/// # Safety
/// The pointer is NULL, or points to an object that [`give`] has made.
unsafe fn look<'a, H: Handle>(handle: *const H) -> CallResult<&'a Object<H::Value>> {
    let object: *const Object<H::Value> = handle.cast();
    if object.is_null() {
        return Err(CallError::null(&format!("the {}", H::NAME)));
    }
    let wrong = || CallError::new(LIBI_ERR_HANDLE, format!("this is not a {}, or it was freed", H::NAME));
    if !object.is_aligned() {
        return Err(wrong());
    }
    // SAFETY: all objects begin with their mark.
    let found = unsafe { &*object.cast::<AtomicU64>() }.load(Ordering::Acquire);
    // SAFETY: the mark says that it is such an object and alive.
    if found == H::MARK { Ok(unsafe { &*object }) } else { Err(wrong()) }
}

/// Runs a call on an object. A failure becomes the thread's last error.
///
/// # Safety
/// As [`look`].
pub(crate) unsafe fn with<H: Handle>(
    handle: *const H,
    body: impl FnOnce(&H::Value) -> CallResult,
) -> libi_result {
    // SAFETY: as for this function.
    error::code(unsafe { try_with(handle, body) })
}

/// The same within another call.
///
/// # Safety
/// As [`look`].
pub(crate) unsafe fn try_with<H: Handle, R>(
    handle: *const H,
    body: impl FnOnce(&H::Value) -> CallResult<R>,
) -> CallResult<R> {
    // SAFETY: as for this function.
    let object = unsafe { look(handle) }?;
    object.guarded(|| body(&object.value)).unwrap_or_else(|| {
        let text = format!("libi has panicked while this {} was in use; it can only be freed", H::NAME);
        Err(CallError::new(LIBI_ERR_POISONED, text))
    })
}

/// Fills a struct of the caller with what is known about an object.
///
/// # Safety
/// As [`look`] and [`OutStruct::new`].
pub(crate) unsafe fn query<H: Handle, T: Copy>(
    handle: *const H,
    info: *mut T,
    size: usize,
    body: impl FnOnce(&H::Value) -> CallResult<T>,
) -> libi_result {
    let filled = || {
        // SAFETY: as for this function.
        unsafe {
            // Before all else, so that it is zeros after any failure.
            let info = OutStruct::new(info, size)?;
            info.put(&try_with(handle, body)?);
        }
        Ok(())
    };
    error::code(filled())
}

fn busy(name: &str) -> CallError {
    CallError::new(LIBI_ERR_BUSY, format!("the {name} is in use by another thread or by its own callback"))
}

/// Runs a call on an object that one thread may use at a time.
///
/// # Safety
/// As [`look`].
pub(crate) unsafe fn with_exclusive<T, H: Handle<Value = Mutex<T>>>(
    handle: *const H,
    body: impl FnOnce(&mut T) -> CallResult,
) -> libi_result {
    let body = |value: &Mutex<T>| body(&mut *exclusive(value, H::NAME)?);
    // SAFETY: as for this function.
    unsafe { with(handle, body) }
}

/// What one thread may use at a time: a second one does not wait for longer than its own timeout.
pub(crate) fn exclusive<'a, T>(value: &'a Mutex<T>, name: &str) -> CallResult<MutexGuard<'a, T>> {
    // A lock poisoned by a panic belongs to a poisoned object, which is not used again.
    value.try_lock().map_err(|_| busy(name))
}

/// The result of a getter; `default` if there is no object, or one that must not be used.
///
/// # Safety
/// As [`look`]. What is borrowed from the object is not used after it was freed.
pub(crate) unsafe fn ask<'a, H: Handle, R>(
    handle: *const H,
    default: R,
    body: impl FnOnce(&'a H::Value) -> R,
) -> R
where
    H::Value: 'a,
{
    // SAFETY: as for this function.
    let Ok(object) = (unsafe { look(handle) }) else { return default };
    object.guarded(|| body(&object.value)).unwrap_or(default)
}

/// Frees an object. NULL and what is not such an object are left alone.
///
/// # Safety
/// As [`look`]. No other thread uses the object, and it is not used again.
pub(crate) unsafe fn free<H: Handle>(handle: *mut H) {
    // SAFETY: as for this function.
    let Ok(object) = (unsafe { look(handle) }) else { return };
    object.mark.store(0, Ordering::Release);
    // SAFETY: `give` has made it, its mark was there until now, and no other thread uses it.
    let object = unsafe { Box::from_raw(handle.cast::<Object<H::Value>>()) };
    // There is no object left that a panic could poison.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(object)));
}

/// The value of an object that describes something: it remembers the first call that failed.
#[derive(Debug, Default)]
pub(crate) struct Builder<T> {
    value: Mutex<T>,
    failed: Mutex<Option<CallError>>,
}

impl<T> Builder<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Mutex::new(value), failed: Mutex::new(None) }
    }

    /// The value, if no other call is using it.
    pub(crate) fn exclusive(&self, name: &str) -> CallResult<MutexGuard<'_, T>> {
        self.value.try_lock().map_err(|_| busy(name))
    }

    fn change(&self, name: &str, body: impl FnOnce(&mut T) -> CallResult) -> CallResult {
        let result = self.exclusive(name).and_then(|mut value| body(&mut value));
        if let Err(error) = &result
            && error.is_failure()
        {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| error.clone());
        }
        result
    }
}

/// Runs a call that changes a builder. If it fails, the builder remembers that.
///
/// # Safety
/// As [`look`].
pub(crate) unsafe fn change<T, H: Handle<Value = Builder<T>>>(
    handle: *const H,
    body: impl FnOnce(&mut T) -> CallResult,
) -> libi_result {
    // SAFETY: as for this function.
    unsafe { with(handle, |builder| builder.change(H::NAME, body)) }
}

/// The result of a getter of a builder; `default` also if it is in use.
///
/// # Safety
/// As [`ask`].
pub(crate) unsafe fn ask_builder<T, H: Handle<Value = Builder<T>>, R>(
    handle: *const H,
    default: R,
    body: impl FnOnce(&mut T) -> R,
) -> R {
    let body = |builder: &Builder<T>| builder.value.try_lock().ok().map(|mut value| body(&mut value));
    // SAFETY: as for this function.
    unsafe { ask(handle, None, body) }.unwrap_or(default)
}

/// A copy of what a builder describes, for a call on another object that was given it as `what`.
/// Fails with the builder's first failure, if one of its calls has failed.
///
/// # Safety
/// As [`look`].
pub(crate) unsafe fn built<T: Clone, H: Handle<Value = Builder<T>>>(
    handle: *const H,
    what: &str,
) -> CallResult<T> {
    let body = |builder: &Builder<T>| {
        if let Some(error) = &*builder.failed.lock().unwrap_or_else(PoisonError::into_inner) {
            return Err(CallError::new(error.code, format!("an earlier call has failed: {}", error.text)));
        }
        Ok(builder.exclusive(H::NAME)?.clone())
    };
    // SAFETY: as for this function.
    let copy = unsafe { try_with(handle, body) };
    copy.map_err(|error| CallError::new(error.code, format!("{what}: {}", error.text)))
}

/// An object inside another one, which C may read and does not free.
pub(crate) struct OwnedPart<H: Handle>(*mut H);

// SAFETY: it is a box of the value; what holds for the value holds for this.
unsafe impl<H: Handle<Value: Send + Sync>> Send for OwnedPart<H> {}
// SAFETY: as above.
unsafe impl<H: Handle<Value: Send + Sync>> Sync for OwnedPart<H> {}

impl<H: Handle> OwnedPart<H> {
    pub(crate) fn new(value: H::Value) -> Self {
        Self(give(value))
    }

    /// Takes an object that [`give`] has made.
    pub(crate) fn from(object: *mut H) -> Self {
        Self(object)
    }

    pub(crate) fn as_ptr(&self) -> *const H {
        self.0
    }
}

impl<H: Handle> Drop for OwnedPart<H> {
    fn drop(&mut self) {
        // SAFETY: the header does not allow its use after the object that it is a part of was
        // freed.
        unsafe { free(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::last_error;
    use crate::result::libi_result::{LIBI_ERR_ARGUMENT, LIBI_ERR_NULL, LIBI_RESULT_OK};

    struct Thing;
    handle!(Thing, "thing", Mutex<u32>);
    struct Other;
    handle!(Other, "other thing", u32);
    struct Described;
    handle!(Described, "description", Builder<u32>);

    #[test]
    fn null_and_objects_of_another_type_are_detected() {
        unsafe {
            assert_eq!(with::<Other>(std::ptr::null(), |_| Ok(())), LIBI_ERR_NULL);
            let thing = give::<Thing>(Mutex::new(5));
            assert_eq!(with::<Other>(thing.cast(), |_| Ok(())), LIBI_ERR_HANDLE);
            assert_eq!(with::<Other>(thing.cast::<u8>().wrapping_add(1).cast(), |_| Ok(())), LIBI_ERR_HANDLE);
            assert_eq!(ask::<Other, _>(thing.cast(), 9, |value| *value), 9);
            free::<Other>(thing.cast()); // which frees nothing
            assert_eq!(
                with_exclusive(thing, |value| {
                    assert_eq!(*value, 5);
                    Ok(())
                }),
                LIBI_RESULT_OK
            );
            free(thing);
        }
    }

    #[test]
    fn an_object_in_use_is_busy_and_not_waited_for() {
        unsafe {
            let thing = give::<Thing>(Mutex::new(5));
            let mut inner = LIBI_RESULT_OK;
            let outer = with_exclusive(thing, |_| {
                inner = with_exclusive(thing, |_| Ok(()));
                Ok(())
            });
            assert_eq!((outer, inner), (LIBI_RESULT_OK, LIBI_ERR_BUSY));
            free(thing);
        }
    }

    #[test]
    fn a_panic_becomes_a_code_and_the_object_is_not_used_again() {
        unsafe {
            let thing = give::<Thing>(Mutex::new(5));
            assert_eq!(with_exclusive(thing, |_| panic!("as the test wants")), LIBI_ERR_POISONED);
            assert_eq!(with_exclusive(thing, |_| Ok(())), LIBI_ERR_POISONED);
            assert!(last_error().contains("libi has panicked"));
            free(thing);
        }
    }

    #[test]
    fn a_builder_remembers_its_first_failure_until_it_is_freed() {
        unsafe {
            let thing = give::<Described>(Builder::new(5));
            assert_eq!(built(thing, "it").unwrap(), 5);
            assert_eq!(change(thing, |_| Err(CallError::argument("first"))), LIBI_ERR_ARGUMENT);
            assert_eq!(change(thing, |_| Err(CallError::null("second"))), LIBI_ERR_NULL);
            assert_eq!(
                change(thing, |value| {
                    *value = 6;
                    Ok(())
                }),
                LIBI_RESULT_OK
            );
            let error = built(thing, "it").unwrap_err();
            assert_eq!(
                (error.code, &*error.text),
                (LIBI_ERR_ARGUMENT, "it: an earlier call has failed: first")
            );
            assert_eq!(ask_builder(thing, 0, |value| *value), 6);
            free(thing);
        }
    }
}
