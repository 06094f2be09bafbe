//! Hosts that lose their parent while the session is up, and find another one.
//!
//! Only where calls [go on](crate::options::OnLoss::Continue). A host has a list of the nodes above it, its parent
//! first, and where each listens: nowhere, if links stay in the channels. The node above a lost one that
//! still lives adopts the hosts below it:
//!
//! ```text
//!   orphan                                     the nearest node above that listens
//!     | (its parent is lost)                       | (a child is lost that had hosts below it)
//!     | == connects, proves the orphans' secret =====> |
//!     | Orphan: who it is, and what is below it -----> | awaits it, or will when it hears of the loss
//!     | <------------------ Adopts: the nodes above it | a child like any other
//! ```
//!
//! | state of a host | event | next state |
//! |---|---|---|
//! | `Attached` | it hears which nodes are above its parent | `Attached`; `OutlivesStarter`: the end of sshd, whose connection came from the parent, does not end it |
//! | `Attached` | the parent is lost, and there are others above it | `Seeks` the first of these |
//! | `Attached` | the parent is lost, and there are none | it ends, with everything below it |
//! | `Seeks` | the link to the old parent ends once more, in the other direction | `Seeks` |
//! | `Seeks` | connected | `Claims`; sends `Orphan` |
//! | `Seeks` | cannot connect | `Seeks` the next one that listens; after the last, all again a little later |
//! | `Seeks` | all were tried [`ROUNDS`] times, and something is in the way, or one listens nowhere | `Seeks`: waits for a helper |
//! | `Seeks` | a node above has reached it by a helper | `Claims`; sends `Orphan` |
//! | `Claims` | `Adopts` | `Attached`; sends again what may be lost of its reports |
//! | `Claims` | the connection is closed | `Seeks` the next one |
//! | `Claims` | `Lost`: only the connection to the parent was lost, and the parent has reported it | it ends, and those below it are orphans |
//! | `Seeks`, `Claims` | all were tried [`ROUNDS`] times, and nothing listens there any more; or it takes too long | it ends, with everything below it |
//!
//! | above: a child that is lost | event | next |
//! |---|---|---|
//! | had no hosts below it | | lost, as without all this |
//! | had hosts below it | | `Severed`: reported alone; the hosts below it are awaited |
//! | severed | `Orphan` of one of these | adopted, with those of them that are below it |
//! | severed | hosts are not back within a second, or this node listens nowhere | [helpers](helpers) are sent to them, and to the lost host |
//! | severed | `Orphan` of the lost host: it lives | `Lost`: those below it are orphans then |
//! | severed | it takes too long | the hosts that are not back are lost with their launcher |
//! | lives, and reports that the host of an orphan has failed | | the connection of the orphan is closed: it is lost |
//!
//! A *helper* is a process that the back-end starts on the host of an orphan, where links stay in the channels
//! or firewalls allow nothing else: it passes bytes on between its standard streams and a socket of the
//! orphan that only a process of the same user may use. Both ends prove the orphans' secret through it, as
//! over any other connection.
//!
//! What an orphan has to report waits, and so does output. Reports that may be lost on their way are those
//! of ends: a host repeats all that it has passed on, and the front end knows each end once. Output that may
//! be lost is sent again, see `output_order.rs`.

mod helpers;
mod severed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use libi_core::ids::{HostIndex, LinkId};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

pub(super) use self::helpers::Severed;
use super::message::{Ancestor, ChildMessage, OrphanClaim};

/// How often an orphan tries all nodes above.
const ROUNDS: u32 = 4;
/// How long it waits before it tries all again.
const PAUSE: Duration = Duration::from_millis(300);

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// The nodes above, the parent first.
    ancestors: Vec<Ancestor>,
    /// Whether this node is the top of the members' tree.
    is_top: bool,
    state: OwnState,
    /// Whether something is in the way to a node above.
    is_walled: bool,
    /// At a host: the ends that were reported, here and below.
    told: Vec<ChildMessage>,
    /// The ranks at and below each child that leads a host.
    behind: BTreeMap<LinkId, Ranks>,
    /// The hosts below each child that was adopted.
    below: BTreeMap<LinkId, BTreeSet<HostIndex>>,
    severed: BTreeMap<LinkId, Severed>,
    /// The parent that each host below had at first.
    parents: BTreeMap<HostIndex, HostIndex>,
    /// Children that are reported alone when they are gone: severed ones, and those that were adopted.
    alone: BTreeSet<LinkId>,
    /// The new hosts below children that are lost.
    new_below: BTreeMap<LinkId, BTreeSet<HostIndex>>,
    /// Connections of orphans, until when they are kept, and what they have said.
    arriving: BTreeMap<LinkId, (Instant, Option<OrphanClaim>)>,
}

/// How a host is connected.
#[derive(Debug, Default, PartialEq, Eq)]
enum OwnState {
    #[default]
    Attached,
    /// It tries this one of the nodes above, or will at this time.
    Seeks { nth: usize, round: u32, at: Option<Instant>, until: Instant },
    /// It is connected to this one of them, which has not answered.
    Claims { nth: usize, round: u32, until: Instant },
}

/// What a host that has lost its parent does next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// It connects to this node.
    Try(Ancestor),
    /// It waits until some time.
    Waits,
    /// It has no other parent.
    Ends,
}

/// At a host.
impl Orphans {
    pub(super) fn set_ancestors(&mut self, ancestors: Vec<Ancestor>) {
        self.ancestors = ancestors;
    }

    pub(super) fn ancestors(&self) -> &[Ancestor] {
        &self.ancestors
    }

    /// Whether it has lost its parent, and may find another one.
    pub(super) fn is_orphan(&self) -> bool {
        self.state != OwnState::Attached
    }

    /// Whether it is connected to a node that may become its parent.
    pub(super) fn has_claimed(&self) -> bool {
        matches!(self.state, OwnState::Claims { .. })
    }

    /// Whether there are nodes above the parent.
    pub(super) fn has_others(&self) -> bool {
        self.ancestors.len() > 1
    }

    /// The parent is lost. False if there is no other.
    pub(super) fn begin(&mut self, now: Instant, timeout: Duration) -> bool {
        let has_others = self.has_others();
        if has_others {
            self.is_walled = false;
            self.state = OwnState::Seeks { nth: 0, round: 0, at: None, until: now + timeout };
        }
        has_others
    }

    /// The last one that was tried cannot be reached, or does not become the parent.
    pub(super) fn next(&mut self, now: Instant) -> Search {
        let (nth, round, until) = match self.state {
            OwnState::Seeks { nth, round, until, .. } | OwnState::Claims { nth, round, until } => {
                (nth + 1, round, until)
            }
            OwnState::Attached => return Search::Ends,
        };
        if now >= until {
            return self.give_up();
        }
        let others = self.ancestors.iter().enumerate().skip(nth);
        if let Some((nth, ancestor)) = others.clone().find(|(_, other)| !other.addresses.is_empty()) {
            self.state = OwnState::Seeks { nth, round, at: None, until };
            return Search::Try(ancestor.clone());
        }
        // One that listens nowhere sends a helper.
        self.is_walled |= others.count() > 0;
        if round + 1 >= ROUNDS && !self.is_walled {
            return self.give_up();
        }
        // One that cannot be reached may send a helper.
        let at = if round + 1 < ROUNDS { until.min(now + PAUSE) } else { until };
        self.state = OwnState::Seeks { nth: 0, round: (round + 1).min(ROUNDS), at: Some(at), until };
        Search::Waits
    }

    fn give_up(&mut self) -> Search {
        self.state = OwnState::Attached;
        self.ancestors.clear();
        Search::Ends
    }

    /// What is due by now, if something is.
    pub(super) fn due(&mut self, now: Instant) -> Option<Search> {
        let is_due = match self.state {
            OwnState::Seeks { at: Some(at), .. } => at <= now,
            OwnState::Claims { until, .. } => until <= now,
            OwnState::Seeks { .. } | OwnState::Attached => false,
        };
        is_due.then(|| self.next(now))
    }

    /// It is connected. False if that was not awaited.
    pub(super) fn connected(&mut self) -> bool {
        let OwnState::Seeks { nth, round, at: None, until } = self.state else { return false };
        self.state = OwnState::Claims { nth, round, until };
        true
    }

    /// Something is in the way to a node above.
    pub(super) fn meets_wall(&mut self) {
        self.is_walled = true;
    }

    /// A node above has reached it by a helper. False if that was not awaited.
    pub(super) fn helped(&mut self) -> bool {
        let OwnState::Seeks { nth, round, until, .. } = self.state else { return false };
        self.state = OwnState::Claims { nth, round, until };
        true
    }

    /// The node that it has turned to counts it as lost: it has no other parent. False if it has turned to none.
    pub(super) fn dismissed(&mut self) -> bool {
        let has_claimed = self.has_claimed();
        if has_claimed {
            self.give_up();
        }
        has_claimed
    }

    /// Another node is its parent. Returns the reports that may be lost; `None` if that was not awaited.
    pub(super) fn adopted(&mut self, ancestors: Vec<Ancestor>) -> Option<Vec<ChildMessage>> {
        if !self.has_claimed() {
            return None;
        }
        self.state = OwnState::Attached;
        self.ancestors = ancestors;
        Some(std::mem::take(&mut self.told)) // they are told again
    }

    /// These reports go to the parent.
    pub(super) fn tell(&mut self, reports: &[ChildMessage]) {
        let is_kept = |report: &&ChildMessage| {
            matches!(
                report,
                ChildMessage::Exited(..)
                    | ChildMessage::Detached(_)
                    | ChildMessage::Failed(..)
                    | ChildMessage::CommandEnded(..)
                    | ChildMessage::Restarting(_)
                    | ChildMessage::Restarted(_)
                    | ChildMessage::NotRestarted(..)
            )
        };
        self.told.extend(reports.iter().filter(is_kept).cloned());
    }
}

#[cfg(test)]
mod tests;
