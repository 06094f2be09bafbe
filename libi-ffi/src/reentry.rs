//! Callers that must not wait: callbacks of the library, and forked children.
//!
//! A callback that combines values runs on the thread that drives the reactor; what it would wait
//! for could never happen. A forked child has the memory and the links of its parent, but not its
//! threads, and a lock that another thread held during the fork stays locked in the child.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{CallError, CallResult};
use crate::result::libi_result::{LIBI_ERR_BUSY, LIBI_ERR_POISONED, LIBI_ERR_STATE};

thread_local! {
    /// Whether this thread runs a callback.
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a callback.
pub(crate) fn call<R>(callback: impl FnOnce() -> R) -> R {
    let before = IN_CALLBACK.replace(true);
    let result = callback();
    IN_CALLBACK.set(before);
    result
}

/// Whether this thread runs a callback.
pub(crate) fn is_callback() -> bool {
    IN_CALLBACK.get()
}

/// Fails inside a callback.
pub(crate) fn may_wait() -> CallResult {
    if is_callback() {
        let text = "a function that libi has called cannot call this: it would wait for itself";
        return Err(CallError::new(LIBI_ERR_BUSY, text));
    }
    Ok(())
}

/// Runs a call that has no object which a panic could poison.
pub(crate) fn guarded(body: impl FnOnce() -> CallResult) -> CallResult {
    catch_unwind(AssertUnwindSafe(body))
        .unwrap_or_else(|_| Err(CallError::new(LIBI_ERR_POISONED, "libi has panicked")))
}

/// A running thread. The standard library's id is not used: it allocates memory for the main
/// thread of a C program that is never freed, which leak checkers report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadId(usize);

impl ThreadId {
    pub(crate) fn this() -> Self {
        // SAFETY: no arguments, cannot fail.
        Self(unsafe { libc::pthread_self() } as usize)
    }
}

/// A process, to detect forked children.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessId(u32);

impl ProcessId {
    pub(crate) fn this() -> Self {
        Self(process_id())
    }

    pub(crate) fn is_this(self) -> bool {
        self.0 == process_id()
    }

    /// Fails in callbacks and in children of this process.
    pub(crate) fn may_call(self) -> CallResult {
        may_wait()?;
        self.may_look()
    }

    /// Fails in children of this process.
    pub(crate) fn may_look(self) -> CallResult {
        if !self.is_this() {
            let text = format!("this object belongs to process {}, which has forked this one", self.0);
            return Err(CallError::new(LIBI_ERR_STATE, text));
        }
        Ok(())
    }
}

/// A value that only the process uses which has made it. Forked children neither use nor drop it:
/// they have no say over the links of their parent, and its locks may be locked.
pub(crate) struct ProcessLocal<T> {
    process: ProcessId,
    value: ManuallyDrop<T>,
}

impl<T> ProcessLocal<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: ProcessId::this(), value: ManuallyDrop::new(value) }
    }

    /// For a call that starts something or waits.
    pub(crate) fn get(&self) -> CallResult<&T> {
        self.process.may_call()?;
        Ok(&self.value)
    }

    /// For a call that starts something or waits.
    pub(crate) fn get_mut(&mut self) -> CallResult<&mut T> {
        self.process.may_call()?;
        Ok(&mut self.value)
    }

    /// For what is constant and needs no lock; in forked children too.
    pub(crate) fn fixed(&self) -> &T {
        &self.value
    }

    /// For what changes, also in callbacks.
    pub(crate) fn known(&self) -> CallResult<&T> {
        self.process.may_look()?;
        Ok(&self.value)
    }

    /// For what changes; `None` in forked children.
    pub(crate) fn look(&self) -> Option<&T> {
        self.process.is_this().then_some(&*self.value)
    }
}

impl<T> Drop for ProcessLocal<T> {
    fn drop(&mut self) {
        if self.process.is_this() {
            // SAFETY: it is not used after this.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// The pid, cached because the system call takes a quarter of the time of a barrier of one
/// member. The cache is in a page that a forked child finds zeroed.
fn process_id() -> u32 {
    static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
    let Some(known) = PAGE.get_or_init(page) else { return std::process::id() };
    match known.load(Ordering::Relaxed) {
        0 => {
            let id = std::process::id();
            known.store(id, Ordering::Relaxed);
            id
        }
        id => id,
    }
}

/// Memory that is zero, and zero again in every forked child; `None` if the system has none.
fn page() -> Option<&'static AtomicU32> {
    const SIZE: usize = 4096;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: maps new memory at an address that the system chooses.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the page was mapped above.
    if unsafe { libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: the page was mapped above, and there is no other pointer to it.
        unsafe { libc::munmap(page, SIZE) };
        return None;
    }
    // SAFETY: it is aligned, zero, and never unmapped.
    Some(unsafe { &*page.cast::<AtomicU32>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_callback_is_refused_until_it_has_returned() {
        let process = ProcessId::this();
        assert!(process.may_call().is_ok());
        let (outer, inner) = call(|| (call(|| process.may_call().unwrap_err().code), process.may_call()));
        assert_eq!((outer, outer), (LIBI_ERR_BUSY, inner.unwrap_err().code));
        assert!(process.may_call().is_ok());
    }

    #[test]
    fn a_forked_child_is_detected() {
        let process = ProcessId::this();
        assert!(process.is_this());
        // SAFETY: the child only compares numbers and exits.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = !process.is_this() && ProcessId::this().is_this();
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = -1;
        // SAFETY: the child exits at once.
        assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
    }

    #[test]
    fn objects_of_another_process_are_refused() {
        let other = ProcessId(u32::MAX);
        for refused in [other.may_call(), other.may_look(), call(|| other.may_look())] {
            assert_eq!(refused.unwrap_err().code, LIBI_ERR_STATE);
        }
        assert!(call(|| ProcessId::this().may_look()).is_ok());
    }
}
