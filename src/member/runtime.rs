//! The engine of a member as the program meets it: calls, waiting, leaving. What it does by itself is in [`reactor`](super::reactor).

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libi_comm::{Call, CommError};
use libi_core::ids::{HostIndex, Rank};
use libi_core::ranks::Ranks;
use libi_launch::machine::{Event as Input, Stream as Standard};
use nix::errno::Errno;

use super::MemberError;
use super::parent_death::{ParentDeathSignal, clear};
use super::reactor::{FLUSH_TIMEOUT, MemberReactor, MemberSink};
use super::stdio::{LinkStreams, redirect};
use crate::engine::Engine;
use crate::engine::fd_sentinel::{FdSentinel, SentinelSlot, fds_were_closed};
use crate::engine::session_io::SessionIo;
use crate::engine::stream::Stream;
use crate::engine::sys::{duplicate, is_main_thread};
use crate::executor::{CallRequest, Executor, Shared};
use crate::front::Progress;
use crate::talk::{Pending, Reading};

/// How far this member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MemberStage {
    Joining,
    Up,
    Ending,
}

/// What a member is told of itself.
#[derive(Clone, Debug)]
pub(super) struct MemberInfo {
    pub(super) rank: Rank,
    pub(super) size: u32,
    /// Who did not come up.
    pub(super) absent: Ranks,
    pub(super) host: HostIndex,
    pub(super) host_name: String,
}

/// What calls want to know.
pub(super) struct MemberState {
    pub(super) stage: MemberStage,
    pub(super) place: Option<MemberInfo>,
    /// Nobody needs this process any more.
    pub(super) alone: bool,
    /// Everything that this process had to pass on is with the next.
    pub(super) flushed: bool,
    /// How many commands the engine has obeyed; what else is said here holds after them.
    pub(super) executed: u64,
    /// How many calls wait for it to be quiet.
    pub(super) flush_waiters: u32,
    /// What has come of loosening the tie of the thread.
    pub(super) parent_death_cleared: Option<Result<(), Errno>>,
    /// Members that were there and have ended or are lost.
    pub(super) lost: Ranks,
}

pub(super) enum MemberCommand {
    Tell(Input),
    Call(CallRequest),
    Print(Standard, Stream),
    /// The thread, by which this process is tied to its starter, is not to be any more.
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
    /// What says that there is something to do, and what also says that a call is over, once somebody has asked for it.
    has_work: Arc<OwnedFd>,
    descriptor: OnceLock<Arc<OwnedFd>>,
    progress: Progress,
    fd_sentinel: SentinelSlot,
    parent_death: ParentDeathSignal,
    /// How many of the two streams that a program prints to are pipes that are read here.
    own_pipes: usize,
}

/// How long the thread may take to loosen its tie, which it does as soon as it is there.
const CLEAR_TIMEOUT: Duration = Duration::from_secs(10);

/// Of the calls of a member, all are of one party.
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
            alone: false,
            flushed: false,
            executed: 0,
            flush_waiters: 0,
            parent_death_cleared: None,
            lost: Ranks::new(),
        };
        let shared = Arc::new(Shared::new(state, progress)?);
        let mut sink = MemberSink::new(Arc::clone(&shared));
        let id =
            engine.add_connected(session_io, streams.input, streams.output, streams.printed, &mut sink)?;
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
            has_work,
            descriptor: OnceLock::new(),
            progress,
            fd_sentinel,
            parent_death,
            own_pipes,
        })
    }

    /// Looks at the state, or changes it.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut MemberState) -> T) -> T {
        what(&mut self.executor.shared().lock().state)
    }

    /// Starts a call.
    pub(super) fn call<T>(&self, what: &'static str, call: Call, read: Reading<T>) -> Pending<T> {
        if fds_were_closed(&self.fd_sentinel) {
            return Pending::over(what, Err(CommError::Ended));
        }
        let id = self.executor.start(PARTY, call);
        Pending::called(Arc::clone(&self.executor) as _, id, what, read)
    }

    pub(super) fn tell(&self, input: Input) {
        self.send(MemberCommand::Tell(input));
    }

    /// Sends a command, and gives its number.
    fn send(&self, command: MemberCommand) -> u64 {
        self.executor.send(command)
    }

    /// Takes this process out of what ends with others.
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
        // Whoever reads what is printed now may end before this process.
        let streams = [(Standard::Out, 1), (Standard::Err, 2)];
        for (stream, number) in streams.into_iter().skip(self.own_pipes) {
            let pipe = redirect(number).map_err(refused("cannot make a pipe for what is printed"))?;
            self.send(MemberCommand::Print(stream, pipe));
        }
        let cleared = match self.parent_death {
            ParentDeathSignal::Unset => Ok(()),
            ParentDeathSignal::MainThread => clear(),
            ParentDeathSignal::OwnThread => {
                self.send(MemberCommand::ClearParentDeathSignal);
                self.wait(CLEAR_TIMEOUT, |state| state.parent_death_cleared).unwrap_or(Err(Errno::ETIMEDOUT))
            }
        };
        cleared.map_err(io::Error::from).map_err(refused("cannot be released"))?;
        let sentinel = FdSentinel::new().map_err(refused("cannot make a pipe"))?;
        // Another thread may have been quicker.
        let _ = self.fd_sentinel.set(sentinel);
        Ok(())
    }

    /// Waits until what this process had to pass on is with the next, and, if that is asked for, until nobody needs
    /// it.
    pub(super) fn wait_flushed(&self, timeout: Duration, alone: bool) -> Result<(), MemberError> {
        if fds_were_closed(&self.fd_sentinel) {
            return Ok(());
        }
        // What was said before counts as of now.
        self.with(|state| state.flush_waiters += 1);
        let asked = self.send(MemberCommand::Tell(Input::Woken));
        let is_flushed =
            |state: &MemberState| state.executed >= asked && state.flushed && (state.alone || !alone);
        let flushed = self.wait(timeout, |state| {
            if state.stage == MemberStage::Ending {
                return Some(Err(MemberError::Ending));
            }
            is_flushed(state).then_some(Ok(()))
        });
        if matches!(flushed, Some(Err(_))) {
            // The program is likely to end now: not before what is to be said of the end is said.
            self.wait(timeout.min(FLUSH_TIMEOUT), |state| is_flushed(state).then_some(()));
        }
        self.with(|state| state.flush_waiters -= 1);
        let what = if alone { "other members" } else { "passing on what was printed" };
        flushed.unwrap_or(Err(MemberError::TimedOut(what)))
    }

    /// Waits until the state is as it should be, for so long at most.
    pub(super) fn wait<T>(
        &self,
        timeout: Duration,
        ready: impl FnMut(&mut MemberState) -> Option<T>,
    ) -> Option<T> {
        self.executor.wait_until(timeout, ready)
    }

    /// Without a thread: does what there is to do, and does not wait.
    pub(super) fn dispatch(&self) -> io::Result<()> {
        self.executor.dispatch()
    }

    /// Without a thread: how long nothing has to be done unless something happens.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        self.executor.next_timeout()
    }

    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        let made = self.descriptor.get_or_init(|| {
            // Where there is a thread, what there is to do is its business.
            let others =
                if self.progress == Progress::Thread { &[][..] } else { &[self.has_work.as_fd()][..] };
            // Where descriptors are short there is something to look at all the same.
            self.executor.descriptor(others).map_or_else(|_| Arc::clone(&self.has_work), Arc::new)
        });
        made.as_fd()
    }
}

impl Drop for MemberRuntime {
    fn drop(&mut self) {
        if fds_were_closed(&self.fd_sentinel) {
            // Nobody closes what are not our descriptors any more.
            std::mem::forget((
                Arc::clone(&self.executor),
                Arc::clone(&self.has_work),
                self.descriptor.take(),
            ));
        }
    }
}
