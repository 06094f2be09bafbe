//! What the executor locks, sleeps on and reads the time from: the standard library and a timer of
//! the system, or what a model checker offers in their place.
//!
//! The tests in `model` run the executor with the primitives of loom, which tries the orders in
//! which threads may reach them.

use std::ops::DerefMut;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant as Clock};

use super::idle_timer::{IdleTimer, Timer};

/// See the [module](self).
pub(crate) trait Primitives: Sized + 'static {
    type Mutex<T: Send>: Send + Sync;
    type Guard<'a, T: Send + 'a>: DerefMut<Target = T>;
    type Condvar: Send + Sync;
    type Timer: Timer;

    fn mutex<T: Send>(value: T) -> Self::Mutex<T>;
    /// Locks, also after a panic of a thread that had locked.
    fn lock<T: Send>(mutex: &Self::Mutex<T>) -> Self::Guard<'_, T>;
    fn condvar() -> Self::Condvar;
    fn notify_one(condvar: &Self::Condvar);
    fn notify_all(condvar: &Self::Condvar);
    /// Sleeps until the condition variable is notified, or at most this long.
    fn wait<'a, T: Send + 'a>(
        condvar: &Self::Condvar,
        guard: Self::Guard<'a, T>,
        timeout: Option<Duration>,
    ) -> Self::Guard<'a, T>;
    fn now() -> Clock;
}

/// The standard library, and the timers of the system.
#[derive(Debug)]
pub(crate) enum Std {}

impl Primitives for Std {
    type Mutex<T: Send> = Mutex<T>;
    type Guard<'a, T: Send + 'a> = MutexGuard<'a, T>;
    type Condvar = Condvar;
    type Timer = IdleTimer;

    fn mutex<T: Send>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    fn lock<T: Send>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn condvar() -> Condvar {
        Condvar::new()
    }

    fn notify_one(condvar: &Condvar) {
        condvar.notify_one();
    }

    fn notify_all(condvar: &Condvar) {
        condvar.notify_all();
    }

    fn wait<'a, T: Send + 'a>(
        condvar: &Condvar,
        guard: MutexGuard<'a, T>,
        timeout: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        match timeout {
            None => condvar.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(timeout) => condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0,
        }
    }

    fn now() -> Clock {
        Clock::now()
    }
}
