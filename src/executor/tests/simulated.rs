//! A simulated reactor: a network thread answers calls after random delays.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use libi_comm::{Address, Bytes, Call, CallId, CommError, Outcome};
use libi_core::sim::rng::Rng;

use super::super::idle_timer::IDLE_TIMEOUT;
use super::super::*;

/// How long a test waits for what takes no time.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

/// Incoming results and wake-ups, as a poll of the system reports them.
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

pub(super) enum Command {
    CallRequest(CallRequest),
    /// Work that only the thread may do, for this many turns.
    Start(u32),
    Panic,
}

impl From<CallRequest> for Command {
    fn from(talk: CallRequest) -> Self {
        Self::CallRequest(talk)
    }
}

/// Counters of turns, flushes and starts.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) turns_of_thread: AtomicUsize,
    pub(super) turns_of_callers: AtomicUsize,
    /// Flushes since the last poll, and their maximum.
    unpolled: AtomicUsize,
    pub(super) max_unpolled: AtomicUsize,
    pub(super) starts: AtomicUsize,
    pub(super) closed: AtomicBool,
}

pub(super) struct SimulatedReactor {
    poll: Arc<Poll>,
    shared: Arc<Shared<usize, Command>>,
    network: Sender<(CallId, u32)>,
    count: Arc<Counters>,
    thread: Arc<Mutex<Option<ThreadId>>>,
    threaded: bool,
    starting: u32,
}

impl SimulatedReactor {
    fn is_thread(&self) -> bool {
        *self.thread.lock().unwrap() == Some(thread::current().id())
    }
}

impl Reactor for SimulatedReactor {
    type State = usize;
    type Command = Command;

    fn requires_thread(command: &Command) -> bool {
        matches!(command, Command::Start(_))
    }

    fn callers_may_drive(&self) -> bool {
        self.starting == 0
    }

    fn execute(&mut self, commands: &mut VecDeque<Command>) {
        for command in commands.drain(..) {
            match command {
                // The tag is the delay of the answer in microseconds.
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

pub(super) fn answer(id: CallId) -> Outcome {
    Outcome::Data(Bytes::copy_from_slice(&id.0.to_le_bytes()))
}

/// A call that is answered after this many microseconds.
pub(super) fn call(micros: u32) -> Call {
    Call::Receive { from: Address::FrontEnd, tag: micros }
}

/// A call that is never answered.
pub(super) const NEVER: Call = Call::Barrier;

pub(super) struct Scene {
    pub(super) executor: Arc<Executor<SimulatedReactor>>,
    pub(super) count: Arc<Counters>,
    thread: Option<JoinHandle<()>>,
}

impl Scene {
    pub(super) fn new(progress: Progress) -> Self {
        let (poll, count, shared) =
            (Arc::<Poll>::default(), Arc::<Counters>::default(), Arc::new(Shared::new(0, progress).unwrap()));
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
        let reactor = SimulatedReactor {
            poll: Arc::clone(&poll),
            shared: Arc::clone(&shared),
            network,
            count: Arc::clone(&count),
            thread: Arc::clone(&known),
            threaded,
            starting: 0,
        };
        let executor = Executor::new(shared, reactor, move || poll.wake(), progress);
        let thread = threaded.then(|| {
            let executor = Arc::clone(&executor);
            thread::spawn(move || {
                *known.lock().unwrap() = Some(thread::current().id());
                executor.run_thread();
            })
        });
        Self { executor, count, thread }
    }

    pub(super) fn open_calls(&self) -> usize {
        self.executor.shared.lock().pending_calls.len()
    }

    pub(super) fn stop(mut self) {
        self.executor.stop();
        self.thread.take().into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// One random operation of a caller; each completes.
pub(super) fn call_at_random(executor: &Executor<SimulatedReactor>, rng: &mut Rng) {
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
                Some(Ok(completed)) => assert_eq!(completed, answer(id).into()),
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
            assert_eq!((changed, executor.wait(id, TIMEOUT)), (Some(()), Some(Ok(answer(id).into()))));
        }
        5 => {
            let id = executor.start(0, call(micros));
            let by = Instant::now() + TIMEOUT;
            while executor.poll(id).map(|found| assert_eq!(found, Ok(answer(id).into()))).is_none() {
                assert!(Instant::now() < by, "the result does not arrive");
            }
        }
        6 => {
            let ids: Vec<_> = (0..4).map(|_| executor.start(0, call(micros))).collect();
            for id in ids.into_iter().rev() {
                assert_eq!(executor.wait(id, TIMEOUT), Some(Ok(answer(id).into())));
            }
        }
        7 => thread::sleep(IDLE_TIMEOUT * (rng.bits() % 3) as u32),
        _ => {
            let id = executor.start(0, call(micros));
            assert_eq!(executor.wait(id, TIMEOUT), Some(Ok(answer(id).into())));
        }
    }
}
