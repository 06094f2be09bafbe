//! What is known of a child that has said hello: what it has reported, where its bytes travel, and
//! how much output it may send.

use std::time::Duration;

use libi_core::time::Instant;

use super::{Arrival, Child, Stage};
use crate::failure::Failure;
use crate::machine::output_relay::WINDOW;

/// What is known of a child that has said hello.
#[derive(Debug)]
pub(super) struct UpState {
    greeted: Instant,
    /// All members of its host are up.
    joined: bool,
    /// The failure that a leader has reported of its own host before it ended.
    reported_failure: Option<Failure>,
    /// The process has detached from the session, and lives on.
    detached: bool,
    /// No process below the child depends on it any more.
    no_dependents: bool,
    /// The child has launched a host.
    has_launched: bool,
    /// The child has reported that it cannot launch hosts, or no more of them.
    has_handed_back: bool,
    /// The child doubts that it can launch hosts.
    in_doubt: bool,
    path: LinkPath,
    /// How much output the child may still send, and how much of its output has been passed on
    /// since the last grant.
    credit: u32,
    uncredited: u32,
}

/// Where the bytes of a child's link travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkPath {
    Channel,
    /// This node sends on a direct connection to the child.
    Sending,
    /// The child sends on the direct connection, too.
    Direct,
}

impl UpState {
    /// The state after the hello.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            greeted: now,
            joined: false,
            reported_failure: None,
            detached: false,
            no_dependents: false,
            has_launched: false,
            has_handed_back: false,
            in_doubt: false,
            path: LinkPath::Channel,
            credit: WINDOW,
            uncredited: 0,
        }
    }

    /// All members of the host are up; returns how long that took since the hello.
    pub(super) fn joined(&mut self, now: Instant) -> Duration {
        self.joined = true;
        now.since(self.greeted)
    }

    pub(super) fn has_joined(&self) -> bool {
        self.joined
    }

    pub(super) fn greeted(&self) -> Instant {
        self.greeted
    }

    pub(super) fn reported_failure(&self) -> Option<&Failure> {
        self.reported_failure.as_ref()
    }
}

/// What a child that is up has reported.
impl Child {
    pub(super) fn up(&self) -> Option<&UpState> {
        match &self.stage {
            Stage::Up(up) => Some(up),
            Stage::Starting | Stage::AwaitHello | Stage::Running => None,
        }
    }

    pub(super) fn up_mut(&mut self) -> Option<&mut UpState> {
        match &mut self.stage {
            Stage::Up(up) => Some(up),
            Stage::Starting | Stage::AwaitHello | Stage::Running => None,
        }
    }

    /// It was up before, as the child of another node, and has connected directly.
    pub(in crate::machine) fn adopt(&mut self, now: Instant, is_agent: bool) {
        self.on_preamble();
        self.on_hello(now);
        let _ = self.on_joined(now);
        if let Some(up) = self.up_mut() {
            up.path = LinkPath::Direct;
        }
        if is_agent {
            self.set_agent();
        }
        self.enter_tree();
    }

    pub(in crate::machine) fn on_failure_report(&mut self, failure: &Failure) {
        if let Some(up) = self.up_mut() {
            up.reported_failure = Some(failure.clone());
        }
    }

    pub(in crate::machine) fn on_detached(&mut self) {
        if let Some(up) = self.up_mut() {
            up.detached = true;
        }
    }

    pub(in crate::machine) fn is_detached(&self) -> bool {
        self.up().is_some_and(|up| up.detached)
    }

    pub(in crate::machine) fn on_no_dependents(&mut self) {
        if let Some(up) = self.up_mut() {
            up.no_dependents = true;
        }
    }

    /// Whether no process below the child depends on it any more.
    pub(in crate::machine) fn has_no_dependents(&self) -> bool {
        self.up().is_some_and(|up| up.no_dependents)
    }

    /// The child has launched a host; returns whether that is its first one.
    pub(in crate::machine) fn on_launched(&mut self) -> bool {
        self.up_mut().is_some_and(|up| !std::mem::replace(&mut up.has_launched, true))
    }

    pub(in crate::machine) fn on_handed_back(&mut self) {
        if let Some(up) = self.up_mut() {
            up.has_handed_back = true;
        }
    }

    /// The child doubts that it can launch hosts, or does so no longer; returns whether that is new.
    pub(in crate::machine) fn on_doubt(&mut self, doubts: bool) -> bool {
        self.up_mut().is_some_and(|up| std::mem::replace(&mut up.in_doubt, doubts) != doubts)
    }

    /// The session grows: others may depend on the child again.
    pub(in crate::machine) fn may_get_dependents(&mut self) {
        if let Some(up) = self.up_mut() {
            up.no_dependents = false;
        }
    }

    /// Whether further hosts may be given to this child.
    pub(in crate::machine) fn takes_hosts(&self) -> bool {
        self.is_up()
            && self.open
            && self.up().is_some_and(|up| !up.detached && !up.has_handed_back && !up.in_doubt)
    }
}

/// The direct connection, the tree, and credit for output.
impl Child {
    /// This node sends on a direct connection from now on.
    pub(in crate::machine) fn send_directly(&mut self) {
        if let Some(up) = self.up_mut() {
            up.path = LinkPath::Sending;
        }
    }

    /// Whether this node sends on a direct connection.
    pub(in crate::machine) fn is_direct(&self) -> bool {
        matches!(self.arrival, Arrival::Arrived | Arrival::Moved)
            || self.up().is_some_and(|up| up.path != LinkPath::Channel)
    }

    /// The child's last frame on the channel has arrived; returns whether it follows a move of this
    /// node to the direct connection.
    pub(in crate::machine) fn on_goodbye(&mut self) -> bool {
        let moving = self.up_mut().filter(|up| up.path == LinkPath::Sending);
        moving.map(|up| up.path = LinkPath::Direct).is_some()
    }

    pub(in crate::machine) fn enter_tree(&mut self) {
        self.in_tree = true;
    }

    pub(in crate::machine) fn is_in_tree(&self) -> bool {
        self.in_tree
    }

    /// Leaves the tree; returns whether the child was in it.
    pub(in crate::machine) fn leave_tree(&mut self) -> bool {
        std::mem::take(&mut self.in_tree)
    }

    /// The child has sent output of this length; returns whether it had credit for that.
    pub(in crate::machine) fn use_credit(&mut self, length: u32) -> bool {
        let left = self.up().and_then(|up| up.credit.checked_sub(length));
        if let (Some(left), Some(up)) = (left, self.up_mut()) {
            up.credit = left;
        }
        left.is_some()
    }

    /// Output of the child was passed on.
    pub(in crate::machine) fn passed_on(&mut self, length: u32) {
        if let Some(up) = self.up_mut() {
            up.uncredited += length;
        }
    }

    /// Grants credit for the output that was passed on, if it is at least this much.
    pub(in crate::machine) fn grant(&mut self, least: u32) -> Option<u32> {
        if !self.is_up() {
            return None;
        }
        let up = self.up_mut().filter(|up| up.uncredited >= least)?;
        let owed = std::mem::take(&mut up.uncredited);
        up.credit += owed;
        Some(owed)
    }
}
