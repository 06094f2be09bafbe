//! How members of the session were lost.

use std::ffi::CString;
use std::ptr::null_mut;

use libc::c_char;
use libi::{Loss, LossKind};

use super::libi_member;
use crate::args::{self, OutParam};
use crate::error::CallError;
use crate::object::{self, ask, give, handle, query, with};
use crate::result::libi_result::{self, LIBI_NONE};
use crate::text::c_string;

/// How members were lost, as a member knew it when it was asked. It does not change, any number of
/// threads may use it, and it is independent of the member. Since 0.1.
pub struct libi_losses {
    _opaque: (),
}

handle!(libi_losses, "list of losses", Vec<LossView>);

/// A loss, and its texts as C reads them.
pub struct LossView {
    loss: Loss,
    host_name: CString,
    text: CString,
}

fn give_losses(losses: Vec<Loss>) -> *mut libi_losses {
    let view = |loss: Loss| {
        let (host_name, text) = (c_string(&loss.reason.host), c_string(&loss.to_string()));
        LossView { loss, host_name, text }
    };
    give(losses.into_iter().map(view).collect())
}

/// How a process was lost. Later versions may have more: treat what is unknown as
/// LIBI_LOSS_OTHER. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_loss_kind {
    /// An end that this version has no kind for: see text.
    LIBI_LOSS_OTHER = 0,
    /// It has exited; the value is its status.
    LIBI_LOSS_EXITED = 1,
    /// A signal has killed it; the value is the signal.
    LIBI_LOSS_KILLED = 2,
    /// Nothing was heard of its host for too long: see LIBI_CAUSE_HEARTBEAT_LOST.
    LIBI_LOSS_SILENT = 3,
    /// The link to it has closed, and how it has ended is not known.
    LIBI_LOSS_CLOSED = 4,
}

/// A loss: members that were lost together, with one process. The strings belong to the
/// libi_losses. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct libi_losses_entry_info {
    /// The name of the host of the lost process in the list that the session was launched with.
    pub host_name: *const c_char,
    /// Whether the process led its host, so that all members there were lost with it, and those on
    /// the hosts below that have found no other parent.
    pub is_leader: bool,
    /// How the process was lost.
    pub kind: libi_loss_kind,
    /// The status or signal for kind; otherwise 0.
    pub exit_value: i32,
    /// The number of lost members: see libi_losses_ranks().
    pub members: u32,
    /// All of it as one line for people.
    pub text: *const c_char,
}

/// What C reads of a kind, and the number that belongs to it.
fn kind(how: LossKind) -> (libi_loss_kind, i32) {
    match how {
        LossKind::Exited(status) => (libi_loss_kind::LIBI_LOSS_EXITED, status),
        LossKind::Killed(signal) => (libi_loss_kind::LIBI_LOSS_KILLED, signal),
        LossKind::Silent => (libi_loss_kind::LIBI_LOSS_SILENT, 0),
        LossKind::Closed => (libi_loss_kind::LIBI_LOSS_CLOSED, 0),
        // What later versions add.
        _ => (libi_loss_kind::LIBI_LOSS_OTHER, 0),
    }
}

impl LossView {
    fn info(&self) -> libi_losses_entry_info {
        let (kind, exit_value) = kind(self.loss.reason.how);
        libi_losses_entry_info {
            host_name: self.host_name.as_ptr(),
            is_leader: self.loss.reason.is_leader,
            kind,
            exit_value,
            members: u32::try_from(self.loss.ranks.len()).unwrap_or(u32::MAX),
            text: self.text.as_ptr(),
        }
    }
}

/// How members were lost, as far as this process knows. Members of LIBI_RANKS_LOST whose end no
/// process has seen are in no loss; those that have ended in order are. A loss is known before a
/// call returns LIBI_ERR_PEER_LOST for it, or completes without its members. Any thread, at any
/// time.
///
/// *losses is the new object, to be freed with libi_losses_free(), also if no member is lost; NULL
/// after a failure. Returns LIBI_OK, LIBI_ERR_NULL, or LIBI_ERR_STATE in a forked child. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_member_losses(
    member: *const libi_member,
    losses: *mut *mut libi_losses,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        let place = OutParam::new(losses, null_mut(), "losses");
        with(member, |handle| {
            place?.put(give_losses(handle.known()?.losses()));
            Ok(())
        })
    }
}

/// Frees a list of losses. NULL is allowed. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_losses_free(losses: *mut libi_losses) {
    // SAFETY: as documented in the header.
    unsafe { object::free(losses) }
}

/// The number of losses; 0 for NULL. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_losses_count(losses: *const libi_losses) -> usize {
    // SAFETY: as documented in the header.
    unsafe { ask(losses, 0, Vec::len) }
}

/// Fills *info with a loss, counted from 0 in the order in which the member heard of them.
///
/// Returns LIBI_OK, or LIBI_NONE if there is no such loss. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_losses_entry(
    losses: *const libi_losses,
    index: usize,
    info: *mut libi_losses_entry_info,
    size: usize,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        query(losses, info, size, |losses| {
            let none = || CallError::new(LIBI_NONE, "there is no such loss");
            losses.get(index).map(LossView::info).ok_or_else(none)
        })
    }
}

/// The members that were lost with a loss: writes the lowest ranks, as many as there is room for.
/// ranks may be NULL if room is 0.
///
/// Returns the number of ranks; 0 for NULL, and if there is no such loss. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_losses_ranks(
    losses: *const libi_losses,
    index: usize,
    ranks: *mut u32,
    room: usize,
) -> usize {
    // SAFETY: as documented in the header.
    unsafe {
        ask(losses, 0, |losses: &Vec<LossView>| {
            losses.get(index).map_or(0, |view| args::write_ranks(&view.loss.ranks, ranks, room))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::mem::MaybeUninit;
    use std::ptr::null;

    use libi::{LossReason, Rank};

    use super::*;
    use crate::error::last_error;
    use crate::result::libi_result::{LIBI_ERR_ARGUMENT, LIBI_ERR_HANDLE, LIBI_ERR_NULL, LIBI_RESULT_OK};

    const SIZE: usize = size_of::<libi_losses_entry_info>();

    fn loss(ranks: &[u32], host: &str, is_leader: bool, how: LossKind) -> Loss {
        let reason = LossReason { host: host.to_owned(), is_leader, how };
        Loss { ranks: ranks.iter().copied().map(Rank).collect(), reason }
    }

    /// A struct that no call has filled.
    fn unfilled() -> libi_losses_entry_info {
        // SAFETY: zeros are a valid value: null pointers, and LIBI_LOSS_OTHER.
        let mut info: libi_losses_entry_info = unsafe { MaybeUninit::zeroed().assume_init() };
        (info.members, info.exit_value, info.host_name) = (99, 99, c"unfilled".as_ptr());
        info
    }

    #[test]
    fn a_loss_is_read_with_its_host_its_kind_and_its_ranks() {
        let losses = give_losses(vec![
            loss(&[5], "n1", false, LossKind::Killed(9)),
            loss(&[8, 9, 11], "n\0two", true, LossKind::Silent),
        ]);
        // SAFETY: the losses are alive until they are freed, and the arrays have as much room.
        unsafe {
            assert_eq!(libi_losses_count(losses), 2);
            let mut info = unfilled();
            assert_eq!(libi_losses_entry(losses, 0, &raw mut info, SIZE), LIBI_RESULT_OK);
            assert_eq!(CStr::from_ptr(info.host_name), c"n1");
            assert_eq!(CStr::from_ptr(info.text), c"rank 5 on n1 was killed by signal 9");
            assert_eq!((info.is_leader, info.members), (false, 1));
            assert_eq!((info.kind, info.exit_value), (libi_loss_kind::LIBI_LOSS_KILLED, 9));
            assert_eq!(libi_losses_entry(losses, 1, &raw mut info, SIZE), LIBI_RESULT_OK);
            assert_eq!(CStr::from_ptr(info.host_name).to_str(), Ok("n\u{fffd}two"));
            assert_eq!((info.is_leader, info.members), (true, 3));
            assert_eq!((info.kind, info.exit_value), (libi_loss_kind::LIBI_LOSS_SILENT, 0));
            let mut ranks = [77; 4];
            assert_eq!(libi_losses_ranks(losses, 1, ranks.as_mut_ptr(), 2), 3);
            assert_eq!(ranks, [8, 9, 77, 77]);
            assert_eq!(libi_losses_ranks(losses, 1, ranks.as_mut_ptr(), 4), 3);
            assert_eq!(ranks, [8, 9, 11, 77]);
            assert_eq!(libi_losses_ranks(losses, 0, null_mut(), 0), 1);
            libi_losses_free(losses);
        }
    }

    #[test]
    fn each_kind_has_its_number() {
        let kinds = [LossKind::Exited(3), LossKind::Killed(11), LossKind::Silent, LossKind::Closed];
        let numbers = kinds.map(|how| (kind(how).0 as libc::c_int, kind(how).1));
        assert_eq!(numbers, [(1, 3), (2, 11), (3, 0), (4, 0)]);
    }

    #[test]
    fn null_and_what_is_not_there_are_refused_and_leave_no_place_as_it_was() {
        // SAFETY: the objects are alive until they are freed, and no other pointer is followed.
        unsafe {
            let mut place: *mut libi_losses = std::ptr::dangling_mut();
            assert_eq!(libi_member_losses(null(), &raw mut place), LIBI_ERR_NULL);
            assert!(place.is_null() && last_error() == "the member is NULL");
            let losses = give_losses(vec![loss(&[1], "n1", false, LossKind::Closed)]);
            place = std::ptr::dangling_mut();
            assert_eq!(libi_member_losses(losses.cast(), &raw mut place), LIBI_ERR_HANDLE);
            assert!(place.is_null());
            assert_eq!(libi_member_losses(null(), null_mut()), LIBI_ERR_NULL);

            let mut info = unfilled();
            assert_eq!(libi_losses_entry(null(), 0, &raw mut info, SIZE), LIBI_ERR_NULL);
            assert_eq!(last_error(), "the list of losses is NULL");
            assert!(info.host_name.is_null() && info.members == 0 && info.exit_value == 0);
            info = unfilled();
            assert_eq!(libi_losses_entry(losses, 1, &raw mut info, SIZE), LIBI_NONE);
            assert!(info.host_name.is_null() && info.members == 0 && info.exit_value == 0);
            assert_eq!(libi_losses_entry(losses, 0, null_mut(), SIZE), LIBI_ERR_NULL);
            assert_eq!(libi_losses_entry(losses, 0, &raw mut info, 0), LIBI_ERR_ARGUMENT);

            let mut rank = 77;
            assert_eq!((libi_losses_count(null()), libi_losses_ranks(null(), 0, &raw mut rank, 1)), (0, 0));
            assert_eq!((libi_losses_ranks(losses, 1, &raw mut rank, 1), rank), (0, 77));
            libi_losses_free(losses);
            libi_losses_free(null_mut());
        }
    }
}
