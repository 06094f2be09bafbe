//! What a `libi_member` stands for.

use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libi::{Member, Ranks};

use crate::error::CallResult;
use crate::reentry::ProcessLocal;
use crate::text::c_string;

/// The member belongs to the process that has joined; what it was told about itself may be read
/// in forked children too.
pub struct MemberHandle(ProcessLocal<JoinedMember>);

pub(super) struct JoinedMember {
    pub(super) member: Member,
    pub(super) host_name: CString,
    /// The members that were missing in the last operation.
    missing: Mutex<Ranks>,
}

impl MemberHandle {
    pub(super) fn new(member: Member) -> Self {
        let host_name = c_string(member.host_name());
        Self(ProcessLocal::new(JoinedMember { member, host_name, missing: Mutex::default() }))
    }

    /// For a call that starts something or waits.
    pub(super) fn member(&self) -> CallResult<&Member> {
        Ok(&self.0.get()?.member)
    }

    /// For what does not change.
    pub(super) fn constant(&self) -> &JoinedMember {
        self.0.fixed()
    }

    /// For what changes, also in a callback; fails in forked children.
    pub(super) fn known(&self) -> CallResult<&Member> {
        Ok(&self.0.known()?.member)
    }

    /// For what changes, in the process that has joined.
    pub(super) fn current(&self) -> Option<&Member> {
        self.0.look().map(|joined| &joined.member)
    }

    /// The lost members that were missing in the last operation.
    pub(super) fn missing(&self) -> Option<MutexGuard<'_, Ranks>> {
        let joined = self.0.look()?;
        Some(joined.missing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// All members that came up without those that are missing.
    pub(super) fn left(&self) -> Option<Ranks> {
        let mut left = self.constant().member.present();
        left.remove_all(&*self.missing()?);
        Some(left)
    }

    /// An operation has completed without these members.
    pub(super) fn note_missing(&self, ranks: Ranks) {
        if let Some(mut missing) = self.missing() {
            *missing = ranks;
        }
    }
}
