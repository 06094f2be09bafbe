//! Works with machinery that is only played: a network of another thread, which answers calls when it likes.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use libi_comm::{Address, Bytes, Call, CallId, CommError, Outcome};
use libi_core::sim::rng::Rng;

use super::thread::IDLE_TIMEOUT;
use super::*;

/// How long a test waits for what takes no time.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What comes in, and what wakes a turn: as a poll of the system does.
#[derive(Default)]
struct Poll {
    inside: Mutex<(bool, VecDeque<CallId>)>,
    changed: Condvar,
}

impl Poll {
    fn wake(&self) {
        self.inside.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    fn deliver(&self, id: CallId) {
        self.inside.lock().unwrap().1.push_back(id);
        self.changed.notify_all();
    }

    fn poll(&self, max_wait: Option<Duration>) -> VecDeque<CallId> {
        let mut inside = self.inside.lock().unwrap();
        let waits = |inside: &mut (bool, VecDeque<CallId>)| !inside.0 && inside.1.is_empty();
        inside = match max_wait {
            Some(max_wait) => self.changed.wait_timeout_while(inside, max_wait, waits).unwrap().0,
            None => self.changed.wait_while(inside, waits).unwrap(),
        };
        inside.0 = false;
        std::mem::take(&mut inside.1)
    }
}

enum Command {
    CallRequest(CallRequest),
    /// Something that only the thread may do, for so many turns.
    Start(u32),
    Panic,
}

impl From<CallRequest> for Command {
    fn from(talk: CallRequest) -> Self {
        Self::CallRequest(talk)
    }
}

/// What is counted.
#[derive(Default)]
struct Count {
    turns_of_thread: AtomicUsize,
    turns_of_callers: AtomicUsize,
    /// How often something was said since somebody has looked, and the most that ever was.
    unpolled: AtomicUsize,
    max_unpolled: AtomicUsize,
    starts: AtomicUsize,
    closed: AtomicBool,
}

struct Played {
    poll: Arc<Poll>,
    shared: Arc<Shared<usize, Command>>,
    network: Sender<(CallId, u32)>,
    count: Arc<Count>,
    thread: Arc<Mutex<Option<ThreadId>>>,
    threaded: bool,
    starting: u32,
}

impl Played {
    fn is_thread(&self) -> bool {
        *self.thread.lock().unwrap() == Some(thread::current().id())
    }
}

impl Reactor for Played {
    type State = usize;
    type Command = Command;

    fn requires_thread(command: &Command) -> bool {
        matches!(command, Command::Start(_))
    }

    fn callers_may_drive(&self) -> bool {
        self.starting == 0
    }

    fn execute(&mut self, commands: VecDeque<Command>) {
        for command in commands {
            match command {
                // The tag says after how many microseconds it is answered.
                Command::CallRequest(CallRequest::Call(_, id, Call::Receive { tag, .. })) => {
                    self.network.send((id, tag)).unwrap();
                }
                Command::CallRequest(CallRequest::Call(..)) => {}
                Command::CallRequest(CallRequest::Cancel(_, id)) => {
                    self.shared.finish(id, Err(CommError::TimedOut { what: "" }));
                }
                Command::Start(turns) => {
                    assert!(self.is_thread() || !self.threaded, "a caller starts processes");
                    self.starting = turns;
                    self.count.starts.fetch_add(1, SeqCst);
                }
                Command::Panic => panic!("is to be survived"),
            }
        }
    }

    fn turn(&mut self, max_wait: Option<Duration>) -> io::Result<()> {
        let mut max_wait = max_wait;
        if self.starting > 0 {
            assert!(self.is_thread() || !self.threaded, "a caller starts processes");
            self.starting -= 1;
            max_wait = Some(Duration::ZERO);
        }
        let whose = if self.is_thread() { &self.count.turns_of_thread } else { &self.count.turns_of_callers };
        whose.fetch_add(1, SeqCst);
        self.count.unpolled.store(0, SeqCst);
        for id in self.poll.poll(max_wait) {
            self.shared.finish(id, Ok(answer(id)));
            let mut locked = self.shared.lock();
            locked.state += 1;
            self.shared.announce(locked);
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let unpolled = self.count.unpolled.fetch_add(1, SeqCst) + 1;
        self.count.max_unpolled.fetch_max(unpolled, SeqCst);
        Ok(())
    }

    fn next_timeout(&self) -> Option<Duration> {
        None
    }

    fn close(&mut self) {
        self.count.closed.store(true, SeqCst);
    }
}

fn answer(id: CallId) -> Outcome {
    Outcome::Data(Bytes::copy_from_slice(&id.0.to_le_bytes()))
}

/// A call that is answered after so many microseconds.
fn call(micros: u32) -> Call {
    Call::Receive { from: Address::FrontEnd, tag: micros }
}

/// A call that is never answered.
const NEVER: Call = Call::Barrier;

struct Stage {
    executor: Arc<Executor<Played>>,
    count: Arc<Count>,
    thread: Option<JoinHandle<()>>,
}

impl Stage {
    fn new(progress: Progress) -> Self {
        let (poll, count, shared) =
            (Arc::<Poll>::default(), Arc::<Count>::default(), Arc::new(Shared::new(0, progress).unwrap()));
        let (network, pending_calls) = channel::<(CallId, u32)>();
        let call_waiter = Arc::clone(&poll);
        thread::spawn(move || {
            for (id, micros) in pending_calls {
                if micros > 0 {
                    thread::sleep(Duration::from_micros(micros.into()));
                }
                call_waiter.deliver(id);
            }
        });
        let threaded = progress == Progress::Thread;
        let known = Arc::<Mutex<Option<ThreadId>>>::default();
        let played = Played {
            poll: Arc::clone(&poll),
            shared: Arc::clone(&shared),
            network,
            count: Arc::clone(&count),
            thread: Arc::clone(&known),
            threaded,
            starting: 0,
        };
        let executor = Executor::new(shared, played, move || poll.wake(), progress);
        let thread = threaded.then(|| {
            let executor = Arc::clone(&executor);
            thread::spawn(move || {
                *known.lock().unwrap() = Some(thread::current().id());
                executor.run_thread();
            })
        });
        Self { executor, count, thread }
    }

    fn open_calls(&self) -> usize {
        self.executor.shared.lock().pending_calls.len()
    }

    fn stop(mut self) {
        self.executor.stop();
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// What a caller may do, at random; all of it comes to its end.
fn call_at_random(executor: &Executor<Played>, rng: &mut Rng) {
    let micros = [0, 0, 0, 20, 300][rng.bits() as usize % 5];
    match rng.bits() % 20 {
        0 => drop(executor.send(Command::Start(3))),
        1 => {
            let id = executor.start(0, NEVER);
            assert_eq!(executor.wait(id, Duration::from_micros(rng.bits() % 200)), None);
            assert!(matches!(executor.cancel_and_take(id), Some(Err(CommError::TimedOut { .. }))));
        }
        2 => {
            let id = executor.start(0, call(micros));
            let answered = executor.wait(id, Duration::from_micros(rng.bits() % 200));
            match answered.or_else(|| executor.cancel_and_take(id)) {
                Some(Ok(outcome)) => assert_eq!(outcome, answer(id)),
                other => assert!(matches!(other, Some(Err(CommError::TimedOut { .. }))), "{other:?}"),
            }
        }
        3 => {
            let id = executor.start(0, call(micros));
            executor.forget(id);
        }
        4 => {
            let seen = executor.shared.lock().state;
            let id = executor.start(0, call(micros));
            let changed = executor.wait_until(TIMEOUT, |state| (*state > seen).then_some(()));
            assert_eq!((changed, executor.wait(id, TIMEOUT)), (Some(()), Some(Ok(answer(id)))));
        }
        5 => {
            let id = executor.start(0, call(micros));
            let by = Instant::now() + TIMEOUT;
            while executor.poll(id).map(|found| assert_eq!(found, Ok(answer(id)))).is_none() {
                assert!(Instant::now() < by, "polled in vain");
            }
        }
        6 => {
            let ids: Vec<_> = (0..4).map(|_| executor.start(0, call(micros))).collect();
            for id in ids.into_iter().rev() {
                assert_eq!(executor.wait(id, TIMEOUT), Some(Ok(answer(id))));
            }
        }
        7 => thread::sleep(IDLE_TIMEOUT * (rng.bits() % 3) as u32),
        _ => {
            let id = executor.start(0, call(micros));
            assert_eq!(executor.wait(id, TIMEOUT), Some(Ok(answer(id))));
        }
    }
}

fn everybody_gets_what_he_waits_for(progress: Progress, callers: u64, pending_calls: u32) {
    let stage = Stage::new(progress);
    thread::scope(|scope| {
        for caller in 0..callers {
            let executor = &stage.executor;
            let mut rng = Rng::new(caller);
            scope.spawn(move || (0..pending_calls).for_each(|_| call_at_random(executor, &mut rng)));
        }
    });
    assert_eq!(stage.open_calls(), 0);
    assert!(stage.count.starts.load(SeqCst) > 0);
    stage.stop();
}

#[test]
fn any_number_of_callers_gets_what_they_wait_for_with_a_thread() {
    for callers in [1, 2, 8] {
        everybody_gets_what_he_waits_for(Progress::Thread, callers, 1_000);
    }
}

#[test]
fn any_number_of_callers_gets_what_they_wait_for_without_one() {
    for callers in [1, 2, 8] {
        everybody_gets_what_he_waits_for(Progress::Manual, callers, 1_000);
    }
}

#[test]
fn who_waits_drives() {
    let stage = Stage::new(Progress::Thread);
    for _ in 0..1_000 {
        let id = stage.executor.start(0, call(0));
        assert_eq!(stage.executor.wait(id, TIMEOUT), Some(Ok(answer(id))));
    }
    let (thread, callers) =
        (stage.count.turns_of_thread.load(SeqCst), stage.count.turns_of_callers.load(SeqCst));
    assert!(callers > thread, "{callers} turns of callers, {thread} of the thread");
    stage.stop();
}

#[test]
fn the_thread_drives_when_callers_do_something_else() {
    let stage = Stage::new(Progress::Thread);
    let by = Instant::now() + TIMEOUT;
    for round in 1..=20 {
        // A call that is waited for has the thread give up the wheel; of one that is not, nobody else hears.
        let waited = stage.executor.start(0, call(0));
        assert_eq!(stage.executor.wait(waited, TIMEOUT), Some(Ok(answer(waited))));
        stage.executor.start(0, call(100));
        while stage.executor.shared.lock().state < 2 * round {
            assert!(Instant::now() < by, "nobody drives");
            thread::yield_now();
        }
    }
    stage.stop();
}

#[test]
fn who_only_speaks_hears_now_and_then() {
    let stage = Stage::new(Progress::Thread);
    let by = Instant::now() + TIMEOUT;
    let max_wait = || stage.count.max_unpolled.load(SeqCst);
    // On a busy machine the thread may take the wheel in between. A call that is waited for has it give that up.
    while max_wait() < MAX_UNPOLLED as usize {
        assert!(Instant::now() < by, "who speaks looks each time");
        let waited = stage.executor.start(0, call(0));
        assert_eq!(stage.executor.wait(waited, TIMEOUT), Some(Ok(answer(waited))));
        for _ in 0..=MAX_UNPOLLED {
            stage.executor.start(0, NEVER);
        }
    }
    for _ in 0..100 {
        stage.executor.start(0, NEVER);
    }
    assert_eq!(max_wait(), MAX_UNPOLLED as usize);
    stage.stop();
}

#[test]
fn who_waits_for_long_keeps_the_thread_from_being_woken() {
    let stage = Stage::new(Progress::Thread);
    let by = Instant::now() + TIMEOUT;
    let mut disarmed_at = false;
    while !disarmed_at {
        assert!(Instant::now() < by, "the alarm rings whoever drives");
        thread::scope(|scope| {
            let executor = &stage.executor;
            let id = executor.start(0, call(20_000));
            let waits = scope.spawn(move || assert!(executor.wait(id, TIMEOUT).is_some()));
            while !waits.is_finished() {
                disarmed_at |= executor.shared.lock().disarmed_at.is_some();
                thread::yield_now();
            }
        });
    }
    // Who leaves the wheel has the thread look after it all the same.
    let state = stage.executor.shared.lock().state;
    stage.executor.start(0, call(100));
    while stage.executor.shared.lock().state == state {
        assert!(Instant::now() < by, "nobody drives");
        thread::yield_now();
    }
    stage.stop();
}

#[test]
fn whoever_waits_when_works_are_stopped_hears_that_they_are() {
    for progress in [Progress::Thread, Progress::Manual] {
        let stage = Stage::new(progress);
        let waiting = AtomicUsize::new(0);
        thread::scope(|scope| {
            let (executor, waiting) = (&stage.executor, &waiting);
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
        let id = stage.executor.start(0, call(0));
        assert_eq!(stage.executor.poll(id), Some(Err(CommError::Ended)));
        let count = Arc::clone(&stage.count);
        stage.stop();
        assert!(count.closed.load(SeqCst));
    }
}

#[test]
fn machinery_that_panics_is_not_turned_again_and_nobody_waits_for_it() {
    let stage = Stage::new(Progress::Thread);
    let executor = Arc::clone(&stage.executor);
    let id = executor.start(0, NEVER);
    let waits = thread::spawn({
        let executor = Arc::clone(&executor);
        move || executor.wait(id, Duration::MAX)
    });
    let _ = thread::spawn(move || executor.send(Command::Panic)).join();
    // The one that was driving may have been the one that panicked.
    assert!(waits.join().map_or(true, |answer| answer == Some(Err(CommError::Ended))));
    stage.stop();
}
