//! The runtime of a member, as calls use it. What happens by itself is in
//! [`reactor`](super::reactor).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libi_comm::{Bytes, Call, CallId, CommError};
use libi_core::ids::{HostIndex, Rank};
use libi_core::loss::Loss;
use libi_core::ranks::Ranks;
use libi_launch::machine::{Event as Input, Stream as Standard};
use nix::errno::Errno;

use super::MemberError;
use super::comm::PartsByRank;
use super::numbers::Numbers;
use super::parent_death::ParentDeathSignal;
use super::reactor::{FLUSH_TIMEOUT, MemberReactor, MemberSink};
use super::stdio::{LinkStreams, redirect};
use crate::engine::Engine;
use crate::engine::fd_sentinel::{FdSentinel, SentinelSlot, fds_were_closed};
use crate::engine::session_io::SessionIo;
use crate::engine::stream::Stream;
use crate::engine::sys::{clear_parent_death_signal, duplicate, is_main_thread};
use crate::executor::{CallRequest, Executor, Progress, Shared};
use crate::talk::{Pending, Reading, ReadingWithMissing, with_missing};

/// The stage of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemberStage {
    Joining,
    Up,
    Ending,
}

/// What a member learns about itself when the session is up.
#[derive(Clone, Debug)]
pub(super) struct MemberInfo {
    pub(super) rank: Rank,
    /// Members that did not come up.
    pub(super) absent: Ranks,
    pub(super) host: HostIndex,
    pub(super) host_name: String,
}

/// What the reactor reports to calls.
pub(super) struct MemberState {
    pub(super) stage: MemberStage,
    pub(super) place: Option<MemberInfo>,
    /// The node and everything that it has started have ended.
    pub(super) is_over: bool,
    /// No member of the host that this process leads without being one is left, and no host below.
    pub(super) has_no_members: bool,
    /// No other member needs this process.
    pub(super) alone: bool,
    /// Everything that this process had to pass on is with the next process.
    pub(super) flushed: bool,
    /// How many commands the reactor has executed; the other fields are valid for that moment.
    pub(super) executed: u64,
    /// How many calls wait for `flushed`.
    pub(super) flush_waiters: u32,
    /// The result of clearing the parent-death signal in libi's thread.
    pub(super) parent_death_cleared: Option<Result<(), Errno>>,
    /// Members that were up and have ended or are lost.
    pub(super) lost: Ranks,
    /// How they were lost, where it is known.
    pub(super) losses: Vec<Loss>,
    /// The number of this member's first collective call in the session, once it is known.
    pub(super) first_call: Option<u64>,
}

pub(super) enum MemberCommand {
    Tell(Input),
    /// The program is about to end in order.
    Leave,
    Call(CallRequest),
    /// Broadcast what the front end sends to the master.
    BroadcastFromFront(CallId),
    /// Gather these and other data at the master, which sends them to the front end.
    GatherToFront(CallId, Bytes, PartsByRank),
    Print(Standard, Stream),
    /// Libi's thread is to clear its parent-death signal.
    ClearParentDeathSignal,
}

impl From<CallRequest> for MemberCommand {
    fn from(request: CallRequest) -> Self {
        Self::Call(request)
    }
}

/// See the [module](self).
pub(super) struct MemberRuntime {
    executor: Arc<Executor<MemberReactor>>,
    numbers: Numbers,
    /// Readable while there is work to do. `descriptor`, created on demand, is also readable while
    /// a completed call was not polled.
    has_work: Arc<OwnedFd>,
    descriptor: OnceLock<Arc<OwnedFd>>,
    progress: Progress,
    fd_sentinel: SentinelSlot,
    parent_death: ParentDeathSignal,
    /// How many of the two output streams are already pipes that libi reads.
    own_pipes: usize,
}

/// How long libi's thread may take to clear its parent-death signal, which it does at once.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(10);

/// All calls of a member belong to one party.
pub(super) const PARTY: u64 = 0;

impl MemberRuntime {
    pub(super) fn new(
        session_io: SessionIo,
        streams: LinkStreams,
        was_set: bool,
        progress: Progress,
    ) -> io::Result<Self> {
        let own_pipes = streams.printed.len();
        let mut engine = Engine::new()?;
        let waker = engine.waker();
        let has_work = Arc::new(duplicate(engine.poll().as_raw_fd())?);
        let state = MemberState {
            stage: MemberStage::Joining,
            place: None,
            is_over: false,
            has_no_members: false,
            alone: false,
            flushed: false,
            executed: 0,
            flush_waiters: 0,
            parent_death_cleared: None,
            lost: Ranks::new(),
            losses: Vec::new(),
            first_call: None,
        };
        let shared = Arc::new(Shared::new(state, progress)?);
        let numbers = Numbers::default();
        let mut sink = MemberSink::new(Arc::clone(&shared), numbers.clone());
        let id = engine.add_connected(session_io, streams.channel, streams.printed, &mut sink)?;
        let fd_sentinel = engine.fd_sentinel();
        let sentinel = Arc::clone(&fd_sentinel);
        let wake = move || {
            if !fds_were_closed(&sentinel) {
                drop(waker.wake());
            }
        };
        let executor = Executor::new(shared, MemberReactor::new(engine, id, sink), wake, progress);
        let parent_death = match progress {
            Progress::Manual => ParentDeathSignal::of(was_set),
            Progress::Thread => {
                let (executor, fd_sentinel) = (Arc::clone(&executor), Arc::clone(&fd_sentinel));
                let work = move || {
                    executor.run_thread();
                    if fds_were_closed(&fd_sentinel) {
                        std::mem::forget(executor);
                    }
                };
                ParentDeathSignal::move_to_own_thread(was_set, work)?
            }
        };
        Ok(Self {
            executor,
            numbers,
            has_work,
            descriptor: OnceLock::new(),
            progress,
            fd_sentinel,
            parent_death,
            own_pipes,
        })
    }

    pub(super) const fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Reads or changes the state.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut MemberState) -> T) -> T {
        what(&mut self.executor.shared().lock().state)
    }

    /// Starts a call.
    pub(super) fn call<T: 'static>(&self, what: &'static str, call: Call, read: Reading<T>) -> Pending<T> {
        self.call_with_missing(what, call, with_missing(read))
    }

    /// The same for a call whose result says which members are missing.
    pub(super) fn call_with_missing<T>(
        &self,
        what: &'static str,
        call: Call,
        read: ReadingWithMissing<T>,
    ) -> Pending<T> {
        if fds_were_closed(&self.fd_sentinel) {
            return Pending::over(what, Err(CommError::Ended));
        }
        let id = self.executor.start(PARTY, call);
        Pending::called(Arc::clone(&self.executor) as _, id, what, read)
    }

    /// Starts a call by this command.
    pub(super) fn call_by<T: 'static>(
        &self,
        what: &'static str,
        command: impl FnOnce(CallId) -> MemberCommand,
        read: Reading<T>,
    ) -> Pending<T> {
        if fds_were_closed(&self.fd_sentinel) {
            return Pending::over(what, Err(CommError::Ended));
        }
        let id = self.executor.start_by(PARTY, command);
        Pending::called(Arc::clone(&self.executor) as _, id, what, with_missing(read))
    }

    pub(super) fn tell(&self, input: Input) {
        self.send(MemberCommand::Tell(input));
    }

    /// Sends a command, and returns its number.
    fn send(&self, command: MemberCommand) -> u64 {
        self.executor.send(command)
    }

    /// Detaches this process from its parent and the session's process group.
    pub(super) fn release(&self) -> Result<(), MemberError> {
        if self.with(|state| state.stage) == MemberStage::Ending {
            return Err(MemberError::Ending);
        }
        if self.fd_sentinel.get().is_some() {
            return Ok(()); // it was released before, and its streams may be the program's own by now
        }
        let refused = |what| move |why: io::Error| MemberError::System { what, why };
        if self.parent_death == ParentDeathSignal::MainThread && !is_main_thread() {
            let why = io::Error::other("this is not the thread that the process began with");
            return Err(refused("cannot be released")(why));
        }
        // The parent, which reads the output so far, may end before this process.
        let streams = [(Standard::Out, 1), (Standard::Err, 2)];
        for (stream, number) in streams.into_iter().skip(self.own_pipes) {
            let pipe = redirect(number).map_err(refused("cannot make a pipe for what is printed"))?;
            self.send(MemberCommand::Print(stream, pipe));
        }
        let cleared = match self.parent_death {
            ParentDeathSignal::Unset => Ok(()),
            ParentDeathSignal::MainThread => clear_parent_death_signal(),
            ParentDeathSignal::OwnThread => {
                self.send(MemberCommand::ClearParentDeathSignal);
                self.wait(CLEAR_TIMEOUT, |state| state.parent_death_cleared).unwrap_or(Err(Errno::ETIMEDOUT))
            }
        };
        cleared.map_err(io::Error::from).map_err(refused("cannot be released"))?;
        let sentinel = FdSentinel::new().map_err(refused("cannot make a pipe"))?;
        // Another thread may have been faster.
        let _ = self.fd_sentinel.set(sentinel);
        Ok(())
    }

    /// Waits until everything that this process had to pass on is with the next process, and with
    /// `alone`, until no other member needs this process.
    pub(super) fn wait_flushed(&self, timeout: Duration, alone: bool) -> Result<(), MemberError> {
        if fds_were_closed(&self.fd_sentinel) {
            return Ok(());
        }
        // Operations that were started before count.
        self.with(|state| state.flush_waiters += 1);
        let asked = self.send(if alone { MemberCommand::Leave } else { MemberCommand::Tell(Input::Woken) });
        let is_flushed =
            |state: &MemberState| state.executed >= asked && state.flushed && (state.alone || !alone);
        let flushed = self.wait(timeout, |state| {
            if state.stage == MemberStage::Ending {
                return Some(Err(MemberError::Ending));
            }
            is_flushed(state).then_some(Ok(()))
        });
        if matches!(flushed, Some(Err(_))) {
            // The program is likely to end now: first pass on what there is to report about its
            // end.
            self.wait(timeout.min(FLUSH_TIMEOUT), |state| is_flushed(state).then_some(()));
        }
        self.with(|state| state.flush_waiters -= 1);
        let what = if alone { "other members" } else { "passing on what was printed" };
        flushed.unwrap_or(Err(MemberError::TimedOut(what)))
    }

    /// Waits until everything that this process had to pass on is with the next process, or the
    /// session is over.
    pub(super) fn pass_on_all(&self) {
        self.with(|state| state.flush_waiters += 1);
        let asked = self.send(MemberCommand::Tell(Input::Woken));
        self.wait(Duration::MAX, |state| {
            (state.is_over || state.executed >= asked && state.flushed).then_some(())
        });
        self.with(|state| state.flush_waiters -= 1);
    }

    /// Waits until `ready` returns something, for at most `timeout`.
    pub(super) fn wait<T>(
        &self,
        timeout: Duration,
        ready: impl FnMut(&mut MemberState) -> Option<T>,
    ) -> Option<T> {
        self.executor.wait_until(timeout, ready)
    }

    /// With `Progress::Manual`: does the pending work, and does not wait.
    pub(super) fn dispatch(&self) -> io::Result<()> {
        self.executor.dispatch()
    }

    /// With `Progress::Manual`: how long the caller may wait for the descriptor.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.executor.next_timeout()
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        let made = self.descriptor.get_or_init(|| {
            // With a thread, pending work concerns only that thread.
            let others =
                if self.progress == Progress::Thread { &[][..] } else { &[self.has_work.as_fd()][..] };
            // If no descriptors are available, this one is better than none.
            self.executor.descriptor(others).map_or_else(|_| Arc::clone(&self.has_work), Arc::new)
        });
        made.as_fd()
    }
}

impl Drop for MemberRuntime {
    fn drop(&mut self) {
        if fds_were_closed(&self.fd_sentinel) {
            // The program may have reused the numbers of these descriptors, so they are not closed.
            std::mem::forget((
                Arc::clone(&self.executor),
                Arc::clone(&self.has_work),
                self.descriptor.take(),
            ));
        }
    }
}
