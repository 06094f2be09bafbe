//! Keys and their values.

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::Place;
use crate::contract::{CallId, Effect, Spread};

/// What is said about keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Keys {}

/// The keys that a process knows.
#[derive(Debug, Default)]
pub(crate) struct Store {}

impl Store {
    pub(crate) fn is_quiet(&self) -> bool {
        true
    }

    pub(crate) fn put(&mut self, _: CallId, _: String, _: Bytes, _: Spread, _: &Place, _: &mut Vec<Effect>) {}

    pub(crate) fn get(&mut self, _: CallId, _: String, _: bool, _: &Place, _: &mut Vec<Effect>) {}

    /// The program does not wait for this call any more; whether it was one of these.
    pub(crate) fn cancel(&mut self, _: CallId, _: &Place, _: &mut Vec<Effect>) -> bool {
        false
    }

    pub(crate) fn heard(&mut self, _: LinkId, _: Keys, _: Bytes, _: &Place, _: &mut Vec<Effect>) {}

    /// A branch is gone, and these ranks with it.
    pub(crate) fn cut(&mut self, _: LinkId, _: &Ranks, _: &Place, _: &mut Vec<Effect>) {}

    /// A fence: everybody below has come to it. What goes up: what was put here and below since the last.
    pub(crate) fn fence_up(&mut self) -> Bytes {
        Bytes::new()
    }

    /// What somebody below has sent up with a fence.
    pub(crate) fn fence_from_below(&mut self, _: LinkId, _: Bytes) -> Result<(), &'static str> {
        Ok(())
    }

    /// At the top, when everybody has come to a fence: what goes down to everybody, and is applied here as well.
    pub(crate) fn fence_decided(&mut self) -> Bytes {
        Bytes::new()
    }

    /// What has come down with a fence is in force now. What goes on to branches is the same.
    pub(crate) fn fence_down(
        &mut self,
        _: Bytes,
        _: &Place,
        _: &mut Vec<Effect>,
    ) -> Result<(), &'static str> {
        Ok(())
    }
}
