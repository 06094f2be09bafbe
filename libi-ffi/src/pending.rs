//! Operations in progress.
//!
//! ```text
//! started --> running --- finished ---> done --- libi_pending_take() ---> done, without its data
//!                |    '-- failed -----> failed
//!                '------- cancelled --> failed (LIBI_ERR_CANCELLED)
//! ```

use std::ptr::null_mut;
use std::sync::Mutex;
use std::time::Duration;

use libi::{Bytes, CommError, Pending, Ranks, RingPosition};

use crate::args::{self, OutParam};
use crate::data::{self, libi_data};
use crate::error::{CallError, CallResult};
use crate::object::{self, give, handle, with_exclusive};
use crate::reentry::ProcessLocal;
use crate::result::libi_result::{self, LIBI_ERR_CANCELLED, LIBI_ERR_STATE, LIBI_NONE, LIBI_NOT_YET};
use crate::result::libi_timeout;

/// An operation in progress, made by the functions with "start" in their names. Free it with
/// libi_pending_free(), before or after the member or session that it was started on.
///
/// One thread may use it at a time; any number of operations may be pending. With
/// LIBI_PROGRESS_THREAD it progresses by itself, otherwise in calls that wait, poll or dispatch.
/// Since 0.1.
pub struct libi_pending {
    _opaque: (),
}

handle!(libi_pending, "pending operation", Mutex<PendingOperation>);

/// A member's position in a ring: see libi_member_ring(). Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_ring_position {
    /// The sum of the weights of all members before this one.
    pub before: u64,
    /// The position, counted from 0.
    pub rank: u32,
    /// The number of members in the ring.
    pub size: u32,
}

impl From<&RingPosition> for libi_ring_position {
    fn from(place: &RingPosition) -> Self {
        Self { before: place.before, rank: place.rank, size: place.size }
    }
}

/// The result of an operation.
pub(crate) enum Outcome {
    /// It has none, or none at this member.
    Nothing,
    Parts(Vec<Bytes>),
    Ring(RingPosition),
    /// [`LIBI_NONE`], and why.
    None(&'static str),
}

pub(crate) fn nothing((): ()) -> Outcome {
    Outcome::Nothing
}

pub(crate) fn one(bytes: Bytes) -> Outcome {
    Outcome::Parts(vec![bytes])
}

pub(crate) fn one_or_nothing(bytes: Option<Bytes>) -> Outcome {
    bytes.map_or(Outcome::Nothing, one)
}

pub(crate) fn all_or_nothing(parts: Option<Vec<Bytes>>) -> Outcome {
    parts.map_or(Outcome::Nothing, Outcome::Parts)
}

pub(crate) fn found(value: Option<Bytes>) -> Outcome {
    value.map_or(Outcome::None("there is no value under this key"), one)
}

/// An operation with any type of result.
trait Operation: Send {
    fn wait_for(&mut self, timeout: Duration) -> Option<Result<Outcome, CommError>>;
    fn poll(&mut self) -> Option<Result<Outcome, CommError>>;
    fn missing(&self) -> Ranks;
    fn cancel(self: Box<Self>);
}

struct Typed<T> {
    pending: Pending<T>,
    read: fn(T) -> Outcome,
}

impl<T: Send> Operation for Typed<T> {
    fn wait_for(&mut self, timeout: Duration) -> Option<Result<Outcome, CommError>> {
        Some(self.pending.wait_for(timeout)?.map(self.read))
    }

    fn poll(&mut self) -> Option<Result<Outcome, CommError>> {
        Some(self.pending.poll()?.map(self.read))
    }

    fn missing(&self) -> Ranks {
        self.pending.missing().clone()
    }

    fn cancel(self: Box<Self>) {
        self.pending.cancel();
    }
}

pub(crate) struct PendingOperation(ProcessLocal<OperationState>);

enum OperationState {
    Running(Box<dyn Operation>),
    /// With the result, until it is taken, and the lost members that are missing in it.
    Done(Option<Outcome>, Ranks),
    Failed(CallError),
}

/// Makes an object of an operation; `read` keeps what C may take of its result.
pub(crate) fn started<T: Send + 'static>(pending: Pending<T>, read: fn(T) -> Outcome) -> *mut libi_pending {
    let state = OperationState::Running(Box::new(Typed { pending, read }));
    give(Mutex::new(PendingOperation(ProcessLocal::new(state))))
}

impl PendingOperation {
    /// Asks a running operation whether it has finished, and says how it stands.
    fn ask(
        &mut self,
        ask: impl FnOnce(&mut Box<dyn Operation>) -> Option<Result<Outcome, CommError>>,
    ) -> CallResult {
        let state = self.0.get_mut()?;
        if let OperationState::Running(operation) = state {
            let not_yet = || CallError::new(LIBI_NOT_YET, "the operation is not finished yet");
            let result = ask(operation).ok_or_else(not_yet)?;
            *state = OperationState::of(result, operation.missing());
        }
        match state {
            OperationState::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// The result, to be taken or read.
    fn result(&mut self) -> CallResult<&mut Option<Outcome>> {
        match self.0.get_mut()? {
            OperationState::Running(_) => {
                let text = "the operation is not finished, or was not waited for or polled since";
                Err(CallError::new(LIBI_ERR_STATE, text))
            }
            OperationState::Done(outcome, _) => Ok(outcome),
            OperationState::Failed(error) => Err(error.clone()),
        }
    }
}

impl OperationState {
    fn of(result: Result<Outcome, CommError>, missing: Ranks) -> Self {
        match result {
            Ok(Outcome::None(text)) => Self::Failed(CallError::new(LIBI_NONE, text)),
            Ok(outcome) => Self::Done(Some(outcome), missing),
            Err(error) => Self::Failed(CallError::from(error)),
        }
    }
}

/// Waits until the operation has finished. When the timeout passes it goes on: to give it up,
/// call libi_pending_cancel().
///
/// Returns what the form of the operation that waits would return, or LIBI_NOT_YET if it has not
/// finished; LIBI_ERR_BUSY inside a function that the library has called. After the operation has
/// finished, this and libi_pending_poll() keep returning the same. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_wait(pending: *mut libi_pending, timeout: libi_timeout) -> libi_result {
    let timeout = args::timeout(timeout);
    let body = |pending: &mut PendingOperation| pending.ask(|operation| operation.wait_for(timeout));
    // SAFETY: as documented in the header.
    unsafe { with_exclusive(pending, body) }
}

/// Whether the operation has finished. Does not wait; with LIBI_PROGRESS_MANUAL it does what
/// there is to do.
///
/// For event loops: the descriptor of the front end or member is readable while an operation has
/// finished and was not polled since. Returns as libi_pending_wait(). Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_poll(pending: *mut libi_pending) -> libi_result {
    let body = |pending: &mut PendingOperation| pending.ask(|operation| operation.poll());
    // SAFETY: as documented in the header.
    unsafe { with_exclusive(pending, body) }
}

/// Takes the data of an operation after libi_pending_wait() or libi_pending_poll() has returned
/// LIBI_OK. *data is NULL if the operation has none, or none at this member; otherwise free it
/// with libi_data_free().
///
/// Returns LIBI_OK; the code of the operation if it has failed; or LIBI_ERR_STATE if it has not
/// finished, or its data were taken before. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_take(
    pending: *mut libi_pending,
    data: *mut *mut libi_data,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let place = OutParam::new(data, null_mut(), "data");
        with_exclusive(pending, |pending| {
            let place = place?;
            let taken = || CallError::new(LIBI_ERR_STATE, "the data of the operation were taken before");
            match pending.result()?.take().ok_or_else(taken)? {
                Outcome::Parts(parts) => place.put(data::give_data(parts)),
                Outcome::Ring(ring) => place.put(data::give_data(vec![ring.left, ring.right])),
                Outcome::Nothing | Outcome::None(_) => {}
            }
            Ok(())
        })
    }
}

/// The position that libi_member_start_ring() has found. Call it before libi_pending_take().
///
/// Returns LIBI_OK; the code of the operation if it has failed; or LIBI_ERR_STATE if it has not
/// finished, is not a ring, or its data were taken. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_ring_position(
    pending: *mut libi_pending,
    place: *mut libi_ring_position,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let none = libi_ring_position { before: 0, rank: 0, size: 0 };
        let place = OutParam::new(place, none, "place");
        with_exclusive(pending, |pending| {
            let place = place?;
            let Some(Outcome::Ring(ring)) = pending.result()? else {
                return Err(CallError::new(LIBI_ERR_STATE, "this is not a ring, or its data were taken"));
            };
            place.put(libi_ring_position::from(&*ring));
            Ok(())
        })
    }
}

/// The lost members without which an operation has completed, after libi_pending_wait() or
/// libi_pending_poll() has returned LIBI_OK, with LIBI_ON_LOSS_CONTINUE: writes the lowest ones, as
/// many as there is room for. ranks may be NULL if room is 0. All members get the same
/// for a barrier, a fence, an allreduce, an allgather and an alltoall. Of the others, the root of a
/// gather or a reduction gets those whose data are missing, and each other member those it knew of
/// when its own part was done.
///
/// Returns the number of missing members; 0 for NULL, and before the operation has completed.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_missing(
    pending: *mut libi_pending,
    ranks: *mut u32,
    room: usize,
) -> usize {
    let mut missing = Ranks::new();
    let look = |pending: &mut PendingOperation| {
        if let OperationState::Done(_, ranks) = pending.0.get_mut()? {
            missing.clone_from(ranks);
        }
        Ok(())
    };
    // SAFETY: as documented in the header.
    unsafe {
        with_exclusive(pending, look);
        args::write_ranks(&missing, ranks, room)
    }
}

/// Gives up an operation that has not finished. A collective operation is then over for all
/// members that had not finished it, with LIBI_ERR_CANCELLED. A message that was not received is
/// left for the next receive; one that was being sent may arrive.
///
/// Returns LIBI_OK, also if the operation had finished. If not, it returns LIBI_ERR_CANCELLED
/// from now on. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_cancel(pending: *mut libi_pending) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        with_exclusive(pending, |pending| {
            let state = pending.0.get_mut()?;
            if matches!(state, OperationState::Running(_)) {
                let error = CallError::new(LIBI_ERR_CANCELLED, "the operation was cancelled here");
                if let OperationState::Running(operation) =
                    std::mem::replace(state, OperationState::Failed(error))
                {
                    operation.cancel();
                }
            }
            Ok(())
        })
    }
}

/// Frees the object. NULL is allowed. An operation that has not finished goes on, and its result
/// is discarded, even a received message: libi_pending_cancel() gives it up. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_free(pending: *mut libi_pending) {
    // SAFETY: as documented in the header.
    unsafe { object::free(pending) }
}
