//! An executor with a simulated reactor, real threads and real time. `model` tries all
//! orders of few steps; these tests try many steps in random orders.

mod simulated;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use libi_comm::CommError;
use libi_core::sim::rng::Rng;

use super::*;
use simulated::{Command, NEVER, Scene, TIMEOUT, answer, call, call_at_random};

fn all_callers_get_their_results(progress: Progress, callers: u64, calls: u32) {
    let scene = Scene::new(progress);
    thread::scope(|scope| {
        for caller in 0..callers {
            let executor = &scene.executor;
            let mut rng = Rng::new(caller);
            scope.spawn(move || (0..calls).for_each(|_| call_at_random(executor, &mut rng)));
        }
    });
    assert_eq!(scene.open_calls(), 0);
    assert!(scene.count.starts.load(SeqCst) > 0);
    scene.stop();
}

#[test]
fn callers_get_their_results_with_a_thread() {
    for callers in [1, 2, 8] {
        all_callers_get_their_results(Progress::Thread, callers, 1_000);
    }
}

#[test]
fn callers_get_their_results_without_a_thread() {
    for callers in [1, 2, 8] {
        all_callers_get_their_results(Progress::Manual, callers, 1_000);
    }
}

#[test]
fn a_waiting_caller_drives() {
    let scene = Scene::new(Progress::Thread);
    for _ in 0..1_000 {
        let id = scene.executor.start(0, call(0));
        assert_eq!(scene.executor.wait(id, TIMEOUT), Some(Ok(answer(id).into())));
    }
    let (thread, callers) =
        (scene.count.turns_of_thread.load(SeqCst), scene.count.turns_of_callers.load(SeqCst));
    assert!(callers > thread, "{callers} turns of callers, {thread} of the thread");
    scene.stop();
}

#[test]
fn the_thread_drives_while_callers_compute() {
    let scene = Scene::new(Progress::Thread);
    let by = Instant::now() + TIMEOUT;
    for round in 1..=20 {
        // Waiting for a call makes the thread release the token. The second call has no waiter, so
        // only the thread can complete it.
        let waited = scene.executor.start(0, call(0));
        assert_eq!(scene.executor.wait(waited, TIMEOUT), Some(Ok(answer(waited).into())));
        scene.executor.start(0, call(100));
        while scene.executor.shared.lock().state < 2 * round {
            assert!(Instant::now() < by, "the reactor is not driven");
            thread::yield_now();
        }
    }
    scene.stop();
}

#[test]
fn a_caller_that_only_sends_polls_now_and_then() {
    let scene = Scene::new(Progress::Thread);
    let by = Instant::now() + TIMEOUT;
    let max_wait = || scene.count.max_unpolled.load(SeqCst);
    // On a busy machine the thread may take the token in between. Waiting for a call makes it
    // release the token.
    while max_wait() < MAX_UNPOLLED as usize {
        assert!(Instant::now() < by, "each flush polls");
        let waited = scene.executor.start(0, call(0));
        assert_eq!(scene.executor.wait(waited, TIMEOUT), Some(Ok(answer(waited).into())));
        for _ in 0..=MAX_UNPOLLED {
            scene.executor.start(0, NEVER);
        }
    }
    for _ in 0..100 {
        scene.executor.start(0, NEVER);
    }
    assert_eq!(max_wait(), MAX_UNPOLLED as usize);
    scene.stop();
}

#[test]
fn a_long_wait_disarms_the_idle_timer() {
    let scene = Scene::new(Progress::Thread);
    let by = Instant::now() + TIMEOUT;
    let mut disarmed_at = false;
    while !disarmed_at {
        assert!(Instant::now() < by, "the timer is not disarmed");
        thread::scope(|scope| {
            let executor = &scene.executor;
            let id = executor.start(0, call(20_000));
            let waits = scope.spawn(move || assert!(executor.wait(id, TIMEOUT).is_some()));
            while !waits.is_finished() {
                disarmed_at |= executor.shared.lock().idle.is_disarmed();
                thread::yield_now();
            }
        });
    }
    // After a release the thread comes back all the same.
    let state = scene.executor.shared.lock().state;
    scene.executor.start(0, call(100));
    while scene.executor.shared.lock().state == state {
        assert!(Instant::now() < by, "the reactor is not driven");
        thread::yield_now();
    }
    scene.stop();
}

#[test]
fn stopping_wakes_all_waiters() {
    for progress in [Progress::Thread, Progress::Manual] {
        let scene = Scene::new(progress);
        let waiting = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (executor, waiting) = (&scene.executor, &waiting);
            for _ in 0..3 {
                scope.spawn(move || {
                    let id = executor.start(0, NEVER);
                    waiting.fetch_add(1, SeqCst);
                    assert_eq!(executor.wait(id, Duration::MAX), Some(Err(CommError::Ended)));
                });
                scope.spawn(move || {
                    waiting.fetch_add(1, SeqCst);
                    assert_eq!(executor.wait_until(Duration::MAX, |_| None::<()>), None);
                });
            }
            while waiting.load(SeqCst) < 6 {
                thread::yield_now();
            }
            executor.stop();
        });
        let id = scene.executor.start(0, call(0));
        assert_eq!(scene.executor.poll(id), Some(Err(CommError::Ended)));
        let count = Arc::clone(&scene.count);
        scene.stop();
        assert!(count.closed.load(SeqCst));
    }
}

#[test]
fn a_reactor_that_panics_is_not_turned_again_and_its_waiters_are_woken() {
    for progress in [Progress::Thread, Progress::Manual] {
        let scene = Scene::new(progress);
        let waiters: Vec<_> = (0..3)
            .map(|_| {
                let executor = Arc::clone(&scene.executor);
                thread::spawn(move || {
                    let id = executor.start(0, NEVER);
                    executor.wait(id, TIMEOUT)
                })
            })
            .collect();
        let executor = Arc::clone(&scene.executor);
        let _ = thread::spawn(move || executor.send(Command::Panic)).join();
        for waiter in waiters {
            // A driver that panics may be a waiter.
            assert!(waiter.join().map_or(true, |answer| answer == Some(Err(CommError::Ended))));
        }
        scene.stop();
    }
}
