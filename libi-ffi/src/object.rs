//! What stands behind every pointer that C holds: a mark that says what it is, what it was told last, and whether it may still be used.
//!
//! ```text
//!   give() --> alive --- free() --> gone: the mark is taken away before the memory is given back
//!                |
//!                | a panic inside of a call
//!                v
//!             poisoned: every call says so; it can be freed
//! ```
//!
//! Most objects are used through `&`, by any number of threads at a time. Those whose value is a `Mutex` are for one at a time:
//! whoever comes meanwhile does not wait and is told, also a callback that comes back to the object that has called it.

use std::collections::HashMap;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use libc::c_char;

use crate::reentry::ThreadId;
use crate::result::{
    CallError, CallResult, LIBI_ERR_BUSY, LIBI_ERR_HANDLE, LIBI_ERR_POISONED, LIBI_NONE, LIBI_OK, libi_result,
};

/// A type that C has pointers to, and does not look into. It stands for an [`Object`] of its value.
pub(crate) trait Handle: Sized {
    /// What is inside.
    type Value;
    /// How messages call it.
    const NAME: &'static str;
    /// What its objects begin with: a number that memory is unlikely to hold by chance.
    const MARK: u64 = mark(Self::NAME);
}

/// Makes a type one that C has pointers to.
macro_rules! handle {
    ($type:ty, $name:literal, $value:ty) => {
        impl $crate::object::Handle for $type {
            type Value = $value;
            const NAME: &'static str = $name;
        }
    };
}
pub(crate) use handle;

const fn mark(name: &str) -> u64 {
    let (bytes, mut mark, mut at) = (name.as_bytes(), 0xcbf2_9ce4_8422_2325_u64, 0);
    while at < bytes.len() {
        mark = (mark ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    mark
}

/// What is behind the pointer.
#[repr(C)]
struct Object<T> {
    mark: AtomicU64,
    poisoned: AtomicBool,
    /// What failed last, for each thread.
    said: Mutex<HashMap<ThreadId, CString>>,
    value: T,
}

impl<T> Object<T> {
    fn say(&self, text: &str) {
        let text = crate::args::c_string(text);
        self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(ThreadId::this(), text);
    }

    /// It holds until this thread is told something else.
    fn said(&self) -> *const c_char {
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        said.get(&ThreadId::this()).map_or(c"".as_ptr(), |text| text.as_ptr())
    }

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

/// Gives a value to C.
pub(crate) fn give<H: Handle>(value: H::Value) -> *mut H {
    let said = Mutex::default();
    let object = Object { mark: AtomicU64::new(H::MARK), poisoned: AtomicBool::new(false), said, value };
    Box::into_raw(Box::new(object)).cast()
}

/// What is behind the pointer, if it is what it should be.
///
/// # Safety
/// The pointer is NULL, or one that C was given. What was freed is told from what is alive only as long as its memory is not used again.
unsafe fn look<'a, H: Handle>(handle: *const H) -> CallResult<&'a Object<H::Value>> {
    let object: *const Object<H::Value> = handle.cast();
    if object.is_null() {
        return Err(CallError::null(H::NAME));
    }
    let stranger = || CallError::new(LIBI_ERR_HANDLE, format!("this is no {}, or it was freed", H::NAME));
    if !object.is_aligned() {
        return Err(stranger());
    }
    // SAFETY: all objects begin with their mark.
    let found = unsafe { &*object.cast::<AtomicU64>() }.load(Ordering::Acquire);
    // SAFETY: it has the mark of one that is alive.
    if found == H::MARK { Ok(unsafe { &*object }) } else { Err(stranger()) }
}

/// Uses an object.
///
/// # Safety
/// It is NULL, or what C was given.
pub(crate) unsafe fn with<H: Handle>(
    handle: *const H,
    body: impl FnOnce(&H::Value) -> CallResult,
) -> libi_result {
    // SAFETY: as this function asks.
    let object = match unsafe { look(handle) } {
        Ok(object) => object,
        // There is nobody to keep the text.
        Err(fault) => return fault.code,
    };
    match object.guarded(|| body(&object.value)) {
        Some(Ok(())) => LIBI_OK,
        Some(Err(fault)) => {
            // That there is nothing, or nothing yet, is no failure: what was said of the last one still holds.
            if fault.code > LIBI_NONE {
                object.say(&fault.text);
            }
            fault.code
        }
        None => {
            object.say(&format!("a defect of the library has shown while this {} was in use", H::NAME));
            LIBI_ERR_POISONED
        }
    }
}

/// Uses an object that is for one at a time.
///
/// # Safety
/// As of [`with`].
pub(crate) unsafe fn with_one<T, H: Handle<Value = Mutex<T>>>(
    handle: *const H,
    body: impl FnOnce(&mut T) -> CallResult,
) -> libi_result {
    let body = |value: &Mutex<T>| match value.try_lock() {
        Ok(mut value) => body(&mut value),
        // A panic has poisoned the object as well, which is not looked into any more.
        Err(_) => Err(CallError::new(LIBI_ERR_BUSY, format!("the {} is in use elsewhere", H::NAME))),
    };
    // SAFETY: as this function asks.
    unsafe { with(handle, body) }
}

/// What is read off an object that is for one at a time, for a call on another: whose fault it is says `whose`.
///
/// # Safety
/// As of [`with`].
pub(crate) unsafe fn read<T, R, H: Handle<Value = Mutex<T>>>(
    handle: *const H,
    whose: &str,
    body: impl FnOnce(&T) -> R,
) -> CallResult<R> {
    let mut found = None;
    // SAFETY: as this function asks.
    let code = unsafe {
        with_one(handle, |value| {
            found = Some(body(value));
            Ok(())
        })
    };
    found.ok_or_else(|| CallError::new(code, format!("{whose} is NULL, was freed or is in use")))
}

/// What a getter gives; `nothing` if there is no object, or one that must not be used.
///
/// # Safety
/// As of [`with`]; what is borrowed of the object is not used longer than that lives.
pub(crate) unsafe fn ask<'a, H: Handle, R>(
    handle: *const H,
    nothing: R,
    body: impl FnOnce(&'a H::Value) -> R,
) -> R
where
    H::Value: 'a,
{
    // SAFETY: as this function asks.
    let Ok(object) = (unsafe { look(handle) }) else { return nothing };
    object.guarded(|| body(&object.value)).unwrap_or(nothing)
}

/// As [`ask`], of an object that is for one at a time; `nothing` also if it is in use.
///
/// # Safety
/// As of [`ask`].
pub(crate) unsafe fn ask_one<T, H: Handle<Value = Mutex<T>>, R>(
    handle: *const H,
    nothing: R,
    body: impl FnOnce(&mut T) -> R,
) -> R {
    let body = |value: &Mutex<T>| value.try_lock().ok().map(|mut value| body(&mut value));
    // SAFETY: as this function asks.
    unsafe { ask(handle, None, body) }.unwrap_or(nothing)
}

/// What failed last with this object, in this thread; empty if nothing has.
///
/// # Safety
/// As of [`with`].
pub(crate) unsafe fn error<H: Handle>(handle: *const H) -> *const c_char {
    // SAFETY: as this function asks.
    unsafe { look(handle) }.map_or(c"".as_ptr(), Object::said)
}

/// Takes it back from C; NULL and what is no such object are left alone.
///
/// # Safety
/// Nobody else uses it, and it is not used again.
pub(crate) unsafe fn free<H: Handle>(handle: *mut H) {
    // SAFETY: as this function asks.
    let Ok(object) = (unsafe { look(handle) }) else { return };
    object.mark.store(0, Ordering::Release);
    // SAFETY: `give` has made it, it had its mark until now, and nobody else uses it.
    let object = unsafe { Box::from_raw(handle.cast::<Object<H::Value>>()) };
    // A panic in here is nobody's any more.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(object)));
}

/// An object that belongs to another, which C gets to see and does not free.
pub(crate) struct OwnedPart<H: Handle>(*mut H);

// SAFETY: it is a box of the value, and whoever may send or share that may do the same with this.
unsafe impl<H: Handle<Value: Send + Sync>> Send for OwnedPart<H> {}
// SAFETY: as above.
unsafe impl<H: Handle<Value: Send + Sync>> Sync for OwnedPart<H> {}

impl<H: Handle> OwnedPart<H> {
    pub(crate) fn new(value: H::Value) -> Self {
        Self(give(value))
    }

    /// Of what was given before.
    pub(crate) fn from(object: *mut H) -> Self {
        Self(object)
    }

    pub(crate) fn shown(&self) -> *const H {
        self.0
    }
}

impl<H: Handle> Drop for OwnedPart<H> {
    fn drop(&mut self) {
        // SAFETY: C was not to use it longer than what it is a part of.
        unsafe { free(self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{LIBI_ERR_ARGUMENT, LIBI_ERR_NULL};
    use std::ffi::CStr;

    struct Thing;
    handle!(Thing, "thing", Mutex<u32>);
    struct Other;
    handle!(Other, "other thing", u32);

    /// What C would read.
    unsafe fn read(handle: *const Thing) -> String {
        unsafe { CStr::from_ptr(error(handle)) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn no_object_and_one_of_another_type_are_told() {
        unsafe {
            assert_eq!(with::<Other>(std::ptr::null(), |_| Ok(())), LIBI_ERR_NULL);
            let thing = give::<Thing>(Mutex::new(5));
            assert_eq!(with::<Other>(thing.cast(), |_| Ok(())), LIBI_ERR_HANDLE);
            assert_eq!(with::<Other>(thing.cast::<u8>().wrapping_add(1).cast(), |_| Ok(())), LIBI_ERR_HANDLE);
            assert_eq!(ask::<Other, _>(thing.cast(), 9, |value| *value), 9);
            free::<Other>(thing.cast()); // which is not freed
            assert_eq!(ask_one(thing, 0, |value| *value), 5);
            free(thing);
        }
    }

    #[test]
    fn each_thread_has_the_text_of_its_own_failures() {
        unsafe {
            let thing = give::<Thing>(Mutex::new(5));
            assert_eq!(with_one(thing, |_| Err(CallError::argument("mine\0"))), LIBI_ERR_ARGUMENT);
            let address = thing as usize;
            let other = std::thread::spawn(move || {
                let thing = address as *mut Thing;
                let before = read(thing);
                with_one(thing, |_| Err(CallError::argument("his")));
                (before, read(thing))
            });
            assert_eq!(other.join().unwrap(), (String::new(), "his".to_owned()));
            assert_eq!(read(thing), "mine\u{fffd}");
            free(thing);
        }
    }

    #[test]
    fn who_comes_back_to_an_object_in_use_is_told_and_does_not_wait() {
        unsafe {
            let thing = give::<Thing>(Mutex::new(5));
            let mut inner = (LIBI_OK, 0);
            let outer = with_one(thing, |_| {
                inner = (with_one(thing, |_| Ok(())), ask_one(thing, 7, |value| *value));
                Ok(())
            });
            assert_eq!((outer, inner), (LIBI_OK, (LIBI_ERR_BUSY, 7)));
            free(thing);
        }
    }

    #[test]
    fn a_panic_becomes_a_code_and_the_object_is_not_used_again() {
        unsafe {
            let thing = give::<Thing>(Mutex::new(5));
            assert_eq!(with_one(thing, |_| panic!("as a test asks")), LIBI_ERR_POISONED);
            assert_eq!(with_one(thing, |_| Ok(())), LIBI_ERR_POISONED);
            assert!(read(thing).contains("a defect of the library"));
            assert_eq!(ask_one(thing, 0, |value| *value), 0);
            free(thing);
        }
    }
}
