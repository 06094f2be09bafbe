//! When collective calls complete, and what follows when members are lost.

use std::ffi::c_int;

use libi::{LaunchOptions, OnLoss};

use super::libi_options;
use crate::args::from_c;
use crate::error::CallError;
use crate::object::change;
use crate::result::libi_result;

/// Sets whether every collective call waits until all members have made it; by default not. For
/// debugging: a mismatch or a timeout then fails the call itself at all members. Otherwise a call
/// is complete for a member when its own part is, and a member that has completed a call hears of
/// its failure in its next one. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_strict_calls(
    options: *mut libi_options,
    strict: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.strict_calls = strict;
            Ok(())
        })
    }
}

/// What follows when a member ends or is lost while the session is up. Since 0.1.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum libi_on_loss {
    /// The default: collective calls that need the member fail with LIBI_ERR_PEER_LOST. All later
    /// ones do.
    LIBI_ON_LOSS_FAIL = 0,
    /// Collective calls go on among the members that are left. libi_pending_missing() and
    /// LIBI_RANKS_MISSING tell which members were missing in a call. A call
    /// whose root is lost fails. A member that ends is lost in the same way; one that ends in order
    /// calls libi_member_drain() before, which waits until all others have completed what it has.
    /// Hosts below a lost one find another parent, by direct connections or through the backend. A
    /// lost member may be started again: see libi_session_restart().
    LIBI_ON_LOSS_CONTINUE = 1,
    /// The session ends, if the member is lost, or has ended otherwise than with exit status 0.
    /// Members receive SIGTERM, and are killed after two seconds.
    LIBI_ON_LOSS_END = 2,
}

/// cbindgen:ignore
pub type libi_on_loss_arg = c_int;

/// Sets what follows when a member ends or is lost; LIBI_ON_LOSS_FAIL is the default.
///
/// Returns LIBI_OK, or LIBI_ERR_ARGUMENT if there is no such choice. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_on_loss(
    options: *mut libi_options,
    on_loss: libi_on_loss_arg,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.on_loss = on_loss_of(on_loss)?;
            Ok(())
        })
    }
}

/// The choice with this number.
pub(crate) fn on_loss_of(on_loss: libi_on_loss_arg) -> Result<OnLoss, CallError> {
    from_c!(on_loss, "libi_on_loss", libi_on_loss {
        LIBI_ON_LOSS_FAIL => OnLoss::Fail,
        LIBI_ON_LOSS_CONTINUE => OnLoss::Continue,
        LIBI_ON_LOSS_END => OnLoss::End,
    })
}

/// Sets how often a lost member is restarted automatically; by default 0. The process that leads
/// its host does so when a process of the member that had joined is ended by a signal, or with
/// another exit status than 0, after a pause that doubles with each start of the member, up to 5 s.
/// Members that are lost with their host start again on a spare host, if one is left
/// (libi_options_set_spares()). Restarts by libi_session_restart() count. Only with
/// LIBI_ON_LOSS_CONTINUE, and where the leader is no member: an agent (libi_options_set_agent()), or
/// LIBI_ENGINE_APART. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_restarts(options: *mut libi_options, restarts: u32) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.restarts = restarts;
            Ok(())
        })
    }
}

/// Sets whether the next rank is the master when the master is lost, and the session outlives its
/// first host; by default not. Only with LIBI_ON_LOSS_CONTINUE. LIBI_EVENT_MASTER_REPLACED reports
/// it. Collective calls pass through the front end then, which costs a message more up and down the
/// tree, and waits for a front end that drives itself. Since 0.1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn libi_options_set_replace_master(
    options: *mut libi_options,
    replace: bool,
) -> libi_result {
    // SAFETY: as documented in the header.
    unsafe {
        change(options, |options: &mut LaunchOptions| {
            options.replace_master = replace;
            Ok(())
        })
    }
}
