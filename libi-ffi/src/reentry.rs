//! Who must not call: functions that the library itself has called, and children that a process has forked.
//!
//! A function that combines values runs while the engine is turned, and its thread is the one that turns it: what it waits
//! for would never come. A child has the memory of its parent, and its links, but not the thread; and a lock that another thread
//! of the parent had when it forked is locked in the child for ever.

use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::result::{CallError, CallResult, LIBI_ERR_BUSY, LIBI_ERR_STATE};

thread_local! {
    /// Whether a function of the program's runs in this thread that the library has called.
    static CALLED: Cell<bool> = const { Cell::new(false) };
}

/// Calls a function of the program's.
pub(crate) fn call<R>(function: impl FnOnce() -> R) -> R {
    let before = CALLED.replace(true);
    let result = function();
    CALLED.set(before);
    result
}

/// Whether the library has called what calls now.
pub(crate) fn is_called() -> bool {
    CALLED.get()
}

/// The thread that calls, among those there are. That of the standard library is an allocation which nobody frees when a program in C
/// ends, so that whoever looks for leaks finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ThreadId(usize);

impl ThreadId {
    pub(crate) fn this() -> Self {
        // SAFETY: takes nothing, and cannot fail.
        Self(unsafe { libc::pthread_self() } as usize)
    }
}

/// The process that an object is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessId(u32);

impl ProcessId {
    pub(crate) fn this() -> Self {
        Self(process_id())
    }

    pub(crate) fn is_this(self) -> bool {
        self.0 == process_id()
    }

    /// Whoever calls may start something with this process's object, and wait for it.
    pub(crate) fn may_call(self) -> CallResult {
        if is_called() {
            let text = "a function that the library has called cannot call this: it would wait for itself";
            return Err(CallError::new(LIBI_ERR_BUSY, text));
        }
        if !self.is_this() {
            let text = format!("this is of process {}, which has forked this one", self.0);
            return Err(CallError::new(LIBI_ERR_STATE, text));
        }
        Ok(())
    }
}

/// Something that only the process uses which has made it, and that is left alone in children that were forked: they have nothing to
/// say over the links of their parent, and their locks may be locked.
pub(crate) struct ProcessLocal<T> {
    process: ProcessId,
    value: ManuallyDrop<T>,
}

impl<T> ProcessLocal<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { process: ProcessId::this(), value: ManuallyDrop::new(value) }
    }

    /// To start something with, or to wait for.
    pub(crate) fn get(&self) -> CallResult<&T> {
        self.process.may_call()?;
        Ok(&self.value)
    }

    /// To start something with, or to wait for.
    pub(crate) fn get_mut(&mut self) -> CallResult<&mut T> {
        self.process.may_call()?;
        Ok(&mut self.value)
    }

    /// To look at what does not change, and needs no lock.
    pub(crate) fn fixed(&self) -> &T {
        &self.value
    }

    /// To look at.
    pub(crate) fn look(&self) -> Option<&T> {
        self.process.is_this().then_some(&*self.value)
    }
}

impl<T> Drop for ProcessLocal<T> {
    fn drop(&mut self) {
        if self.process.is_this() {
            // SAFETY: nobody uses it after this.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// The number of this process, without asking the system each time, which costs a fourth of a barrier that needs nobody else: it is
/// in a page that is empty again in a child.
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

/// Memory that is zero, and in every child again; nothing if the system has none such.
fn page() -> Option<&'static AtomicU32> {
    const SIZE: usize = 4096;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: asks for new memory, wherever there is some.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: it is this function's memory.
    if unsafe { libc::madvise(page, SIZE, libc::MADV_WIPEONFORK) } != 0 {
        // SAFETY: it is this function's, and nobody else knows of it.
        unsafe { libc::munmap(page, SIZE) };
        return None;
    }
    // SAFETY: it is aligned, zero, and never given back.
    Some(unsafe { &*page.cast::<AtomicU32>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_has_called_is_refused_until_it_has_come_back() {
        let process = ProcessId::this();
        assert!(process.may_call().is_ok());
        let (outer, inner) = call(|| (call(|| process.may_call().unwrap_err().code), process.may_call()));
        assert_eq!((outer, outer), (LIBI_ERR_BUSY, inner.unwrap_err().code));
        assert!(process.may_call().is_ok());
    }

    #[test]
    fn a_child_knows_that_it_is_another() {
        let process = ProcessId::this();
        assert!(process.is_this());
        // SAFETY: the child does nothing but to compare numbers, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let right = !process.is_this() && ProcessId::this().is_this();
            // SAFETY: it ends the child, and nothing of the parent's.
            unsafe { libc::_exit(i32::from(!right)) };
        }
        let mut status = -1;
        // SAFETY: waits for the child, which ends at once.
        assert_eq!((unsafe { libc::waitpid(child, &raw mut status, 0) }, status), (child, 0));
    }

    #[test]
    fn objects_of_another_process_are_refused() {
        let fault = ProcessId(u32::MAX).may_call().unwrap_err();
        assert_eq!(fault.code, LIBI_ERR_STATE);
    }
}
