//! Sessions that grow while they are up.

use libi::Session;

use super::{libi_session, on};
use crate::distribution::{self, libi_distribution};
use crate::error::{CallError, CallResult};
use crate::object::query;
use crate::result::libi_result;

/// By what a session has grown. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_growth {
    /// The lowest of the new ranks.
    pub first_rank: u32,
    /// The number of new ranks.
    pub ranks: u32,
    /// How many of them did not come up: they are absent.
    pub absent: u32,
    /// The index of the first new host in the report and in the layout.
    pub first_host: u32,
    /// The number of new hosts. The report says which have joined.
    pub hosts: u32,
}

/// # Safety
/// As of [`distribution::copies`].
unsafe fn copies(
    array: *const *const libi_distribution,
    count: usize,
) -> CallResult<Vec<libi::Distribution>> {
    // SAFETY: as for this function.
    let copies = unsafe { distribution::copies(array, count) }?;
    Ok(copies.into_iter().map(Into::into).collect())
}

/// Launches further members on the hosts of these distributions, with the next ranks, below the
/// hosts that the session has, and waits until they take part. Only while the session is up, with
/// LIBI_ON_LOSS_CONTINUE, and not through a backend that starts all hosts together, such as srun.
/// The options of the launch hold: its deadline, and whether all hosts have to join; if not,
/// those take part that have, at least one. The sessions that the distributions name do not
/// matter. One growth is made at a time.
///
/// Members learn of it with the result of a collective call, the same at all: from the next call
/// on, the new ones take part, and libi_member_size() is greater. libi_member_first_call() tells
/// the new ones where they begin. LIBI_EVENT_GROWN or LIBI_EVENT_NOT_GROWN reports the answer,
/// too. Any thread, at any time.
///
/// Fills *growth, and returns LIBI_OK; LIBI_ERR_NOT_GROWN (libi_last_error() has the reason, and
/// the report those of hosts); LIBI_ERR_ARGUMENT or LIBI_ERR_LAYOUT for distributions that cannot
/// be launched; or LIBI_ERR_ENDED. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_add(
    session: *mut libi_session,
    distributions: *const *const libi_distribution,
    count: usize,
    growth: *mut libi_growth,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(session, growth, size, |own| {
            let session: &Session = own.get()?;
            let grown = session.add_all(&copies(distributions, count)?).map_err(CallError::from)?;
            Ok(libi_growth {
                first_rank: grown.ranks.start,
                ranks: grown.ranks.end - grown.ranks.start,
                absent: grown.absent.len() as u32, // no more than ranks
                first_host: grown.hosts.start,
                hosts: grown.hosts.end - grown.hosts.start,
            })
        })
    }
}

/// As libi_session_add(), but does not wait: LIBI_EVENT_GROWN or LIBI_EVENT_NOT_GROWN reports the
/// answer.
///
/// Returns LIBI_OK; LIBI_ERR_NOT_GROWN if another growth is under way; or as libi_session_add().
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_session_request_add(
    session: *mut libi_session,
    distributions: *const *const libi_distribution,
    count: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        on(session, |session| session.request_add(&copies(distributions, count)?).map_err(CallError::from))
    }
}
