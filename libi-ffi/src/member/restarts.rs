//! What a member that was restarted has to know.

use libi::Member;

use super::libi_member;
use crate::args::{self, OutParam};
use crate::object::{ask, with};
use crate::result::{libi_result, libi_timeout};

/// How often this member was restarted, attempts that failed included: 0 for a process that was
/// launched with the session, and for NULL. See libi_session_restart(). Any thread, at any time.
/// Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_restarts(member: *const libi_member) -> u32 {
    // SAFETY: as documented in the header.
    unsafe { ask(member, 0, |handle| handle.current().map_or(0, Member::restarts)) }
}

/// The number of the first collective operation in which this member takes part, counted from 0 in
/// the session: 0 for a process that was launched with the session; after a restart, the first
/// after all operations that any member had called when it came. All members agree on it. With a
/// number of its own for each round, a program finds the round to continue with.
///
/// Returns LIBI_OK, and *call is the number; LIBI_ERR_TIMED_OUT if the others have not learned of
/// this member; LIBI_ERR_ENDED. *call is 0 after a failure. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_first_call(
    member: *mut libi_member,
    call: *mut u64,
    timeout: libi_timeout,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let place = OutParam::new(call, 0, "call");
        with(member, |handle| {
            let place = place?;
            place.put(handle.member()?.first_call(args::timeout(timeout))?);
            Ok(())
        })
    }
}
