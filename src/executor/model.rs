//! The executor under a model checker, which runs each scene in all orders of its threads that
//! differ by at most [`PREEMPTIONS`] (or `LOOM_MAX_PREEMPTIONS`) preemptions.
//!
//! Locks, condition variables, the idle timer and the clock are those of the model; all else is the
//! executor as it is. No wait has a timeout here, so a lost wake-up ends as a deadlock, which the
//! checker reports. The timer exists in two versions:
//!
//! - [`Never`]: it expires only when the thread is requested. Every wake-up that is needed for
//!   progress has to be sent by a transition of [`run_state`](super::run_state).
//! - [`AtOnce`]: it expires as soon as it is armed, so that the thread competes with all callers.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant as Clock};

use libi_comm::{Address, Bytes, Call, CallId, CommError, Outcome};
use loom::sync::{Condvar, Mutex, MutexGuard};
use loom::thread::{self, JoinHandle, ThreadId};

use super::idle_timer::Timer;
use super::primitives::Primitives;
use super::{CallRequest, CallWaiter, Completed, Executor, Progress, Reactor, Shared};

/// How often a thread is interrupted in between two of its own blocking operations. With two, all
/// known mutants of the protocol are found; three takes minutes.
const PREEMPTIONS: usize = 2;

/// The primitives of the model checker, with a timer that expires at once or never.
enum Model<const EXPIRES: bool> {}
type Never = Model<false>;
type AtOnce = Model<true>;

impl<const EXPIRES: bool> Primitives for Model<EXPIRES> {
    type Mutex<T: Send> = Mutex<T>;
    type Guard<'a, T: Send + 'a> = MutexGuard<'a, T>;
    type Condvar = Condvar;
    type Timer = ModelTimer<EXPIRES>;

    fn mutex<T: Send>(value: T) -> Mutex<T> {
        Mutex::new(value)
    }

    fn lock<T: Send>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
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
        assert_eq!(timeout, None, "a timeout would hide a lost wake-up");
        condvar.wait(guard).unwrap()
    }

    /// A clock that proceeds only while the thread sleeps on a timer that expires by itself.
    fn now() -> Clock {
        static BEGIN: OnceLock<Clock> = OnceLock::new();
        *BEGIN.get_or_init(Clock::now) + Duration::from_secs(1) * SECONDS.get()
    }
}

thread_local! {
    /// The time of the clock in seconds. The checker runs all threads of a scene on one.
    static SECONDS: Cell<u32> = const { Cell::new(0) };
}

struct ModelTimer<const EXPIRES: bool> {
    expired: Mutex<bool>,
    changed: Condvar,
}

impl<const EXPIRES: bool> Timer for ModelTimer<EXPIRES> {
    fn new() -> io::Result<Self> {
        Ok(Self { expired: Mutex::new(false), changed: Condvar::new() })
    }

    fn arm(&self, time: Duration) {
        *self.expired.lock().unwrap() = EXPIRES || time.is_zero();
        self.changed.notify_one();
    }

    fn disarm(&self) {
        *self.expired.lock().unwrap() = false;
    }

    fn wait(&self) {
        let mut expired = self.expired.lock().unwrap();
        while !*expired {
            expired = self.changed.wait(expired).unwrap();
        }
        *expired = false;
        drop(expired);
        if EXPIRES {
            SECONDS.set(SECONDS.get() + 1);
            // In the time of the timer all others get to run.
            thread::yield_now();
        }
    }
}

/// What the driver sleeps in.
#[derive(Default)]
struct Poll {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl Poll {
    fn wake(&self) {
        *self.woken.lock().unwrap() = true;
        self.changed.notify_one();
    }

    fn poll(&self, blocks: bool) {
        let mut woken = self.woken.lock().unwrap();
        while blocks && !*woken {
            woken = self.changed.wait(woken).unwrap();
        }
        *woken = false;
    }
}

enum Command {
    Request(CallRequest),
    /// Work that only the thread may do, for one turn.
    Start,
}

impl From<CallRequest> for Command {
    fn from(request: CallRequest) -> Self {
        Self::Request(request)
    }
}

/// A call that the reactor answers in the turn that begins with it.
const AT_ONCE: u32 = 0;
/// A call that is answered when there is another one.
const PAIRED: u32 = 1;
/// A call that is never answered.
const NEVER: u32 = 2;

struct ModelReactor<P: Primitives> {
    poll: Arc<Poll>,
    shared: Arc<Shared<usize, Command, P>>,
    /// The only thread that may start processes, if there is one.
    thread: Arc<std::sync::Mutex<Option<ThreadId>>>,
    paired: Option<CallId>,
    answered: Vec<CallId>,
    starting: bool,
    closed: bool,
}

impl<P: Primitives> ModelReactor<P> {
    fn check_thread(&self) {
        if let Some(thread) = *self.thread.lock().unwrap() {
            assert_eq!(thread, thread::current().id(), "a caller starts processes");
        }
    }
}

impl<P: Primitives> Reactor for ModelReactor<P> {
    type State = usize;
    type Command = Command;

    fn requires_thread(command: &Command) -> bool {
        matches!(command, Command::Start)
    }

    fn callers_may_drive(&self) -> bool {
        !self.starting
    }

    fn execute(&mut self, commands: &mut VecDeque<Command>) {
        for command in commands.drain(..) {
            match command {
                Command::Request(CallRequest::Call(_, id, Call::Receive { tag: AT_ONCE, .. })) => {
                    self.answered.push(id);
                }
                Command::Request(CallRequest::Call(_, id, Call::Receive { tag: PAIRED, .. })) => {
                    match self.paired.take() {
                        Some(other) => self.answered.extend([id, other]),
                        None => self.paired = Some(id),
                    }
                }
                Command::Request(_) => {}
                Command::Start => {
                    self.check_thread();
                    self.starting = true;
                }
            }
        }
    }

    fn turn(&mut self, max_wait: Option<Duration>) -> io::Result<()> {
        assert!(!self.closed, "a closed reactor is turned");
        if std::mem::take(&mut self.starting) {
            self.check_thread();
        } else {
            self.poll.poll(self.answered.is_empty() && max_wait != Some(Duration::ZERO));
        }
        for id in self.answered.drain(..) {
            self.shared.finish(id, Ok(Outcome::Data(Bytes::new())));
            let mut locked = self.shared.lock();
            locked.state += 1;
            self.shared.announce(locked);
        }
        Ok(())
    }

    fn next_timeout(&self) -> Option<Duration> {
        None
    }

    fn close(&mut self) {
        assert!(!std::mem::replace(&mut self.closed, true), "the reactor is closed twice");
    }
}

/// An executor and its thread, if it has one.
struct Scene<P: Primitives> {
    executor: Arc<Executor<ModelReactor<P>, P>>,
    thread: Option<JoinHandle<()>>,
}

impl<P: Primitives> Scene<P> {
    fn new(progress: Progress) -> Self {
        let (poll, shared) = (Arc::<Poll>::default(), Arc::new(Shared::new(0, progress).unwrap()));
        let own_thread = Arc::new(std::sync::Mutex::new(None));
        let reactor = ModelReactor {
            poll: Arc::clone(&poll),
            shared: Arc::clone(&shared),
            thread: Arc::clone(&own_thread),
            paired: None,
            answered: Vec::new(),
            starting: false,
            closed: false,
        };
        let executor = Executor::new(shared, reactor, move || poll.wake(), progress);
        let mut scene = Self { executor, thread: None };
        if progress == Progress::Thread {
            scene.thread = Some(scene.spawn(move |executor| {
                *own_thread.lock().unwrap() = Some(thread::current().id());
                executor.run_thread();
            }));
        }
        scene
    }

    fn spawn(&self, run: impl FnOnce(&Executor<ModelReactor<P>, P>) + 'static) -> JoinHandle<()> {
        let executor = Arc::clone(&self.executor);
        thread::spawn(move || run(&executor))
    }

    fn stop(self) {
        self.executor.stop();
        self.thread.into_iter().for_each(|thread| thread.join().unwrap());
        let id = self.executor.start(0, call(AT_ONCE));
        assert_eq!(self.executor.wait(id, Duration::MAX), Some(Err(CommError::Ended)));
    }
}

fn call(tag: u32) -> Call {
    Call::Receive { from: Address::FrontEnd, tag }
}

/// Starts a call and waits for its result.
fn make_call<P: Primitives>(executor: &Executor<ModelReactor<P>, P>, tag: u32) {
    let id = executor.start(0, call(tag));
    let answer = if tag == NEVER { Err(CommError::Ended) } else { Ok(Outcome::Data(Bytes::new())) };
    assert_eq!(executor.wait(id, Duration::MAX), Some(answer.map(Completed::from)));
}

fn explore(scene: impl Fn() + Send + Sync + 'static) {
    let mut checker = loom::model::Builder::new();
    checker.preemption_bound = checker.preemption_bound.or(Some(PREEMPTIONS));
    checker.max_branches = 10_000;
    checker.check(scene);
}

/// A scene in each kind of executor.
macro_rules! scenes {
    ($($name:ident($scene:ident) $body:block)*) => { $(
        mod $name {
            use super::*;

            fn play<P: Primitives>($scene: Scene<P>) $body

            #[test]
            fn without_a_thread() {
                explore(|| play(Scene::<Never>::new(Progress::Manual)));
            }

            #[test]
            fn with_a_thread_that_is_requested() {
                explore(|| play(Scene::<Never>::new(Progress::Thread)));
            }

            #[test]
            fn with_a_thread_that_competes() {
                explore(|| play(Scene::<AtOnce>::new(Progress::Thread)));
            }
        }
    )* };
}

scenes! {
    a_driver_releases_while_a_waiter_arrives(scene) {
        let other = scene.spawn(|executor| make_call(executor, AT_ONCE));
        make_call(&scene.executor, AT_ONCE);
        other.join().unwrap();
        scene.stop();
    }

    a_command_arrives_while_the_driver_goes_to_sleep(scene) {
        let other = scene.spawn(|executor| make_call(executor, PAIRED));
        make_call(&scene.executor, PAIRED);
        other.join().unwrap();
        scene.stop();
    }

    a_command_for_the_thread_interrupts_a_driver(scene) {
        let other = scene.spawn(|executor| {
            executor.send(Command::Start);
            make_call(executor, PAIRED);
        });
        make_call(&scene.executor, PAIRED);
        other.join().unwrap();
        scene.stop();
    }

    a_call_is_answered_while_a_watcher_sleeps(scene) {
        let watcher = scene.spawn(|executor| {
            let seen = executor.wait_until(Duration::MAX, |answered| (*answered > 0).then_some(()));
            assert_eq!(seen, Some(()));
        });
        make_call(&scene.executor, AT_ONCE);
        watcher.join().unwrap();
        scene.stop();
    }

    stop_wakes_waiters(scene) {
        let waiter = scene.spawn(|executor| make_call(executor, NEVER));
        let watcher = scene.spawn(|executor| {
            assert_eq!(executor.wait_until(Duration::MAX, |_| None::<()>), None);
        });
        scene.stop();
        waiter.join().unwrap();
        watcher.join().unwrap();
    }
}
