//! Operations that were started: to be waited for, asked after, taken, given up.
//!
//! ```text
//!   Running --- wait, wait_for, poll: it has ended ---> Over (the same code from now on) --- take ---> Over, taken
//!      |                                                 ^
//!      +--- cancel, or wait has run out of patience -----+
//! ```

use std::ptr::null_mut;
use std::sync::Mutex;
use std::time::Duration;

use libc::c_char;
use libi::{Bytes, CommError, Pending, RingPosition};

use crate::args::{self, OutParam};
use crate::data::{self, libi_data};
use crate::object::{self, give, handle, with_one};
use crate::reentry::ProcessLocal;
use crate::result::{
    CallError, CallResult, LIBI_ERR_CANCELLED, LIBI_ERR_STATE, LIBI_NONE, LIBI_NOT_YET, LIBI_OK, libi_millis,
    libi_result,
};

/// An operation that was started and may not be over yet. To be freed by libi_pending_free(), before or after the member or
/// session that it was started with.
///
/// One thread may use it at a time; any number of operations may be pending. An operation goes on whether anybody waits or not
/// if there is a thread of the library's (LIBI_PROGRESS_THREAD), else in calls that wait, poll or dispatch. Since 0.1.
pub struct libi_pending {
    _opaque: (),
}

handle!(libi_pending, "pending operation", Mutex<PendingOperation>);

/// What has come of an operation.
pub(crate) enum Outcome {
    /// It is done, and nothing comes of it here.
    Nothing,
    Parts(Vec<Bytes>),
    Ring(RingPosition),
    /// There is no such thing.
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
    value.map_or(Outcome::None("nobody has put such a key, as far as is known here"), one)
}

/// An operation, whatever comes of it.
trait Operation: Send {
    fn wait(self: Box<Self>, timeout: Duration) -> Result<Outcome, CommError>;
    fn wait_for(&mut self, timeout: Duration) -> Option<Result<Outcome, CommError>>;
    fn poll(&mut self) -> Option<Result<Outcome, CommError>>;
    fn cancel(self: Box<Self>);
}

struct Of<T> {
    pending: Pending<T>,
    read: fn(T) -> Outcome,
}

impl<T: Send> Operation for Of<T> {
    fn wait(self: Box<Self>, timeout: Duration) -> Result<Outcome, CommError> {
        let Self { pending, read } = *self;
        pending.wait(timeout).map(read)
    }

    fn wait_for(&mut self, timeout: Duration) -> Option<Result<Outcome, CommError>> {
        Some(self.pending.wait_for(timeout)?.map(self.read))
    }

    fn poll(&mut self) -> Option<Result<Outcome, CommError>> {
        Some(self.pending.poll()?.map(self.read))
    }

    fn cancel(self: Box<Self>) {
        self.pending.cancel();
    }
}

pub(crate) struct PendingOperation(ProcessLocal<Stage>);

enum Stage {
    Running(Box<dyn Operation>),
    /// With what has come, until that is taken.
    Done(Option<Outcome>),
    Failed(libi_result, String),
}

/// Gives an operation to C; of the result remains what `read` makes of it, such as [`nothing`] or [`one`].
pub(crate) fn started<T: Send + 'static>(pending: Pending<T>, read: fn(T) -> Outcome) -> *mut libi_pending {
    let stage = Stage::Running(Box::new(Of { pending, read }));
    give(Mutex::new(PendingOperation(ProcessLocal::new(stage))))
}

impl PendingOperation {
    /// What the operation has come to, or that it has not; after something that may have ended it.
    fn ask(
        &mut self,
        ask: impl FnOnce(&mut Box<dyn Operation>) -> Option<Result<Outcome, CommError>>,
    ) -> CallResult<libi_result> {
        let stage = self.0.get_mut()?;
        if let Stage::Running(operation) = stage {
            let Some(result) = ask(operation) else { return Ok(LIBI_NOT_YET) };
            *stage = Stage::of(result);
        }
        stage.said()
    }

    /// What has come, to be taken or looked at.
    fn came(&mut self) -> CallResult<&mut Option<Outcome>> {
        match self.0.get_mut()? {
            Stage::Running(_) => {
                Err(CallError::new(LIBI_ERR_STATE, "the operation is not over, or was not asked after"))
            }
            Stage::Done(came) => Ok(came),
            Stage::Failed(code, text) => Err(CallError::new(*code, text.clone())),
        }
    }
}

impl Stage {
    fn of(result: Result<Outcome, CommError>) -> Self {
        match result {
            Ok(Outcome::None(text)) => Self::Failed(LIBI_NONE, text.to_owned()),
            Ok(came) => Self::Done(Some(came)),
            Err(error) => {
                let fault = CallError::from(error);
                Self::Failed(fault.code, fault.text)
            }
        }
    }

    fn said(&self) -> CallResult<libi_result> {
        match self {
            Self::Running(_) => Ok(LIBI_NOT_YET),
            Self::Done(_) => Ok(LIBI_OK),
            Self::Failed(code, text) => Err(CallError::new(*code, text.clone())),
        }
    }
}

/// Waits until it is over, for so long at most; if it is not over by then it is given up, and a collective call is over for all
/// members.
///
/// Returns what the function that waits for the same operation returns: LIBI_OK, LIBI_NONE of a key that there is not, or why it has failed;
/// LIBI_ERR_TIMED_OUT if it was given up; LIBI_ERR_BUSY if a function that the library has called calls this. Once it is over, this and
/// libi_pending_poll() go on returning the same. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_wait(pending: *mut libi_pending, timeout: libi_millis) -> libi_result {
    let timeout = args::timeout(timeout);
    let body = |started: &mut PendingOperation| {
        let stage = started.0.get_mut()?;
        // If that panics the object is not used again.
        match std::mem::replace(stage, Stage::Done(None)) {
            Stage::Running(operation) => *stage = Stage::of(operation.wait(timeout)),
            over => *stage = over,
        }
        stage.said()
    };
    // SAFETY: as the header asks.
    unsafe { coded(pending, body) }
}

/// Waits until it is over, for so long at most, and does not give it up.
///
/// Returns as libi_pending_wait(); LIBI_NOT_YET if it is not over by then, and it goes on. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_wait_for(
    pending: *mut libi_pending,
    timeout: libi_millis,
) -> libi_result {
    let timeout = args::timeout(timeout);
    // SAFETY: as the header asks.
    unsafe { coded(pending, |started| started.ask(|operation| operation.wait_for(timeout))) }
}

/// Whether it is over. Does not wait; where there is no thread of the library's it does what there is to do.
///
/// For event loops: libi_front_descriptor() or libi_member_descriptor() is readable as long as an operation is over that nobody has
/// looked at since.
///
/// Returns as libi_pending_wait(); LIBI_NOT_YET if it is not over. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_poll(pending: *mut libi_pending) -> libi_result {
    // SAFETY: as the header asks.
    unsafe { coded(pending, |started| started.ask(|operation| operation.poll())) }
}

/// Takes what has come of an operation that is over, as libi_pending_wait(), ..._wait_for() or ..._poll() have said. *data is NULL if
/// nothing comes of such an operation, or nothing at this member; else it is to be freed by libi_data_free().
///
/// Returns LIBI_OK; what the others return if it has failed; LIBI_ERR_STATE if it is not over, or if it was taken before. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_take(
    pending: *mut libi_pending,
    data: *mut *mut libi_data,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        let place = OutParam::new(data, null_mut(), "data");
        with_one(pending, |started| {
            let place = place?;
            let taken = || CallError::new(LIBI_ERR_STATE, "what has come of the operation was taken before");
            match started.came()?.take().ok_or_else(taken)? {
                Outcome::Parts(parts) => place.put(data::give_data(parts)),
                Outcome::Ring(ring) => place.put(data::give_data(vec![ring.left, ring.right])),
                Outcome::Nothing | Outcome::None(_) => {}
            }
            Ok(())
        })
    }
}

/// The place in a ring, before the neighbours' data are taken. Each place may be NULL.
///
/// Returns LIBI_OK; what the others return if it has failed; LIBI_ERR_STATE if it is not over, if its data were taken before, or if it is no
/// ring. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_ring(
    pending: *mut libi_pending,
    rank: *mut u32,
    size: *mut u32,
    before: *mut u64,
) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(pending, |started| {
            let Some(Outcome::Ring(ring)) = started.came()? else {
                return Err(CallError::new(LIBI_ERR_STATE, "this is no ring, or its data were taken"));
            };
            args::put(rank, ring.rank);
            args::put(size, ring.size);
            args::put(before, ring.before);
            Ok(())
        })
    }
}

/// Gives it up, if it is not over. A collective call is then over for all members that had not finished it, with LIBI_ERR_CANCELLED; a message
/// that was not received is there for the next who asks, and one that was sent may have arrived.
///
/// Returns LIBI_OK, also if it was over. If it was not, what waits for it or polls returns LIBI_ERR_CANCELLED from now on. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_cancel(pending: *mut libi_pending) -> libi_result {
    // SAFETY: as the header asks.
    unsafe {
        with_one(pending, |started| {
            let stage = started.0.get_mut()?;
            if matches!(stage, Stage::Running(_)) {
                let cancelled =
                    Stage::Failed(LIBI_ERR_CANCELLED, "the operation was cancelled here".to_owned());
                if let Stage::Running(operation) = std::mem::replace(stage, cancelled) {
                    operation.cancel();
                }
            }
            Ok(())
        })
    }
}

/// What failed last with this operation in this thread; empty if nothing has. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_error(pending: *const libi_pending) -> *const c_char {
    // SAFETY: as the header asks.
    unsafe { object::error(pending) }
}

/// Frees it; NULL is fine. An operation that is not over goes on, and what comes of it is forgotten, even a message that was received;
/// libi_pending_cancel() is for what should not be any more. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_pending_free(pending: *mut libi_pending) {
    // SAFETY: as the header asks.
    unsafe { object::free(pending) }
}

/// Uses an operation; a code that is no failure leaves no text.
///
/// # Safety
/// As of [`with_one`].
unsafe fn coded(
    pending: *mut libi_pending,
    body: impl FnOnce(&mut PendingOperation) -> CallResult<libi_result>,
) -> libi_result {
    let mut said = LIBI_OK;
    // SAFETY: as this function asks.
    let code = unsafe {
        with_one(pending, |started| {
            said = body(started)?;
            Ok(())
        })
    };
    if code == LIBI_OK { said } else { code }
}
