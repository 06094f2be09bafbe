//! Messages between two.

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::Place;
use crate::contract::{Address, CallId, Effect};

/// What is said of a message between two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mail {}

/// The messages that a process sends and receives, and passes on.
#[derive(Debug, Default)]
pub(crate) struct Office {}

impl Office {
    pub(crate) fn is_quiet(&self) -> bool {
        true
    }

    pub(crate) fn send(&mut self, _: CallId, _: Address, _: u32, _: Bytes, _: &Place, _: &mut Vec<Effect>) {}

    pub(crate) fn receive(&mut self, _: CallId, _: Address, _: u32, _: &Place, _: &mut Vec<Effect>) {}

    /// The program does not wait for this call any more; whether it was one of these.
    pub(crate) fn cancel(&mut self, _: CallId, _: &Place, _: &mut Vec<Effect>) -> bool {
        false
    }

    pub(crate) fn heard(&mut self, _: LinkId, _: Mail, _: Bytes, _: &Place, _: &mut Vec<Effect>) {}

    /// These are gone, as the place knows already.
    pub(crate) fn lost(&mut self, _: &Ranks, _: &Place, _: &mut Vec<Effect>) {}
}
