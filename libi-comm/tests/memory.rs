//! The cases with a thread per process, blocking calls, and queues in memory for links.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use libi_comm::{Bytes, CallId, Effect, Event, Group};
use libi_core::ids::LinkId;
use libi_core::machine::Machine;
use libi_core::time::Instant;

use libi_cases::heap::Heap;
use libi_cases::shape::Process;
use libi_cases::{Oracle, Session};

/// What arrives at a process.
enum Wire {
    Frame(LinkId, Bytes),
    SealedRegion(LinkId, Bytes),
    /// All processes have done everything.
    Over,
}

/// The work that is left in all processes: programs in progress, and frames that were sent and not
/// yet handled. The process that does the last of it tells all others.
struct Work {
    left: AtomicUsize,
    all: Vec<Sender<Wire>>,
}

impl Work {
    fn more(&self) {
        self.left.fetch_add(1, Ordering::SeqCst);
    }

    /// Called only when the resulting work has been counted.
    fn less(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.all.iter().for_each(|process| process.send(Wire::Over).unwrap());
        }
    }
}

/// The other end of a link, and the number of the link there.
type End = (Sender<Wire>, LinkId);

/// A process: its group, its links, and the progress of its program.
struct Member {
    process: Process,
    group: Group,
    ends: BTreeMap<LinkId, End>,
    inbox: Receiver<Wire>,
    oracle: Arc<Oracle>,
    work: Arc<Work>,
    /// The number of open calls, by step.
    open: BTreeMap<u32, usize>,
    next: u32,
}

/// Nothing arrives for so long only if something hangs.
const TIMEOUT: Duration = Duration::from_secs(120);

impl Member {
    fn tell(&mut self, event: Event) {
        let mut effects = Vec::new();
        self.group.on(event, Instant::ZERO, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send(link, frame) => {
                    self.work.more();
                    let (to, at) = &self.ends[&link];
                    to.send(Wire::Frame(*at, frame.concat())).unwrap();
                }
                Effect::SendRegion(link, frame, lent) => {
                    self.work.more();
                    self.work.more();
                    let (to, at) = &self.ends[&link];
                    to.send(Wire::SealedRegion(*at, lent.bytes)).unwrap();
                    to.send(Wire::Frame(*at, frame.concat())).unwrap();
                }
                Effect::Finish(CallId(id), result) => {
                    let (who, step) = (self.process.address.unwrap(), (id >> 32) as u32);
                    let outcome = result.unwrap_or_else(|error| panic!("{who}, step {step}: {error}"));
                    self.oracle.check(who, step, id as u32 as usize, &outcome).unwrap();
                    let open = self.open.get_mut(&step).unwrap();
                    *open -= 1;
                    if *open == 0 {
                        self.open.remove(&step);
                    }
                }
                Effect::WakeAt(_) | Effect::Confirmed(_) | Effect::Master(_) => {}
                Effect::Lost(ranks, _) | Effect::Missing(_, ranks) | Effect::Joined(ranks, _) => {
                    panic!("{ranks} lost")
                }
                Effect::Grown { size, .. } => panic!("grows to {size}"),
                Effect::Begins(first) => panic!("begins at {first}"),
            }
        }
    }

    /// Takes all steps, as many at a time as the session allows.
    fn run(&mut self) {
        let session = self.oracle.session.clone();
        while let Some(step) = session.steps.get(self.next as usize) {
            let most = if step.runs_alone() { 1 } else { session.flight };
            if self.open.len() >= most {
                self.wait();
                continue;
            }
            let nth = self.next;
            self.next += 1;
            let calls = self.process.address.map(|who| step.calls(nth, &session, who)).unwrap_or_default();
            if !calls.is_empty() {
                self.open.insert(nth, calls.len());
            }
            for (call, id) in calls.into_iter().zip(u64::from(nth) << 32..) {
                self.tell(Event::Call(CallId(id), call));
            }
        }
        while !self.open.is_empty() {
            self.wait();
        }
    }

    /// Handles what arrives next. False if nothing more will arrive.
    fn wait(&mut self) -> bool {
        let came = self.inbox.recv_timeout(TIMEOUT);
        match came.unwrap_or_else(|_| panic!("{} waits for {:?}", self.process, self.open)) {
            Wire::Frame(link, frame) => self.tell(Event::Frame(link, frame)),
            Wire::SealedRegion(link, bytes) => self.tell(Event::Region(link, bytes)),
            Wire::Over => return false,
        }
        self.work.less();
        true
    }
}

fn run(session: Session) {
    let oracle = Arc::new(Oracle::new(Arc::new(session), None));
    let processes = oracle.session.shape.processes();
    let (senders, inboxes): (Vec<_>, Vec<_>) = processes.iter().map(|_| channel()).unzip();
    let work = Arc::new(Work { left: AtomicUsize::new(processes.len()), all: senders.clone() });
    thread::scope(|scope| {
        for (process, inbox) in processes.into_iter().zip(inboxes) {
            let children = process.links.iter().map(|(link, child)| (*link, (*child, LinkId::PARENT)));
            let parent = process.parent.map(|parent| (LinkId::PARENT, parent));
            let ends = children.chain(parent).map(|(link, (who, at))| (link, (senders[who].clone(), at)));
            let (ends, oracle, work) = (ends.collect(), oracle.clone(), work.clone());
            scope.spawn(move || {
                let group = Group::with_memory(Box::new(Heap));
                let up = Event::Up(process.topology.clone());
                let mut member =
                    Member { process, group, ends, inbox, oracle, work, open: BTreeMap::new(), next: 0 };
                member.tell(up);
                member.run();
                member.work.less();
                // Other processes may still send over this one.
                while member.wait() {}
                assert!(member.group.is_idle(), "something is left at {}", member.process);
            });
        }
    });
}

fn every_case_of(file: &str) {
    let (_, text) = libi_cases::FILES.into_iter().find(|(name, _)| *name == file).unwrap();
    for session in libi_cases::sessions(text).unwrap().into_iter().filter(|session| session.size <= 33) {
        let name = session.name.clone();
        let ran = thread::spawn(move || run(session)).join();
        assert!(ran.is_ok(), "{file}, {name}");
    }
}

#[test]
fn collective_calls_give_what_a_serial_run_gives() {
    every_case_of("collective");
}

#[test]
fn reductions_give_what_a_serial_run_gives() {
    every_case_of("reduce");
}

#[test]
fn exchanges_give_what_a_serial_run_gives() {
    every_case_of("exchange");
}

#[test]
fn messages_arrive_once_and_in_order() {
    every_case_of("p2p");
}

#[test]
fn keys_are_found_after_the_fence_that_follows_their_put() {
    every_case_of("kvs");
}

#[test]
fn mixed_calls_give_what_a_serial_run_gives() {
    every_case_of("mixed");
}
