//! What a process does with new ones that have arrived below it, until a plan makes them branches.
//!
//! Most return to the places of lost members, of this host or of other hosts. A host that is lost may return
//! anywhere: another leader, below another process of the session, with members that have its ranks, and
//! perhaps with further hosts below. Only the process above it [is told](crate::Event::Joins). It may not
//! have heard of the loss then, as the order to start the host takes other ways:
//!
//! | state of a process that arrives | event | next state |
//! |---|---|---|
//! | | `Joins`; all of its ranks are lost here, or are new | reported: asks for a plan, and is in all reports |
//! | | `Joins`; others with its ranks are not known to be lost | held: asks for a round, and is in no report |
//! | held | their loss is told | reported |
//! | held | a round has passed since, and none of all that are left has told the loss | this process tells it; reported |
//! | reported | a plan with it | a branch |
//! | reported | a plan without it | reported, in the next round as well |
//! | reported | a plan with others that have its ranks | held, until these are lost |
//! | reported | it says that a host below it is lost (`AwaitsWelcome`) | reported without the members of that |
//! | any | its link is closed | no process; its members are lost as before, or anew if the plan has them |
//! | any | this process loses its parent | the same; it is in the report to the next parent |
//!
//! # Which process has a rank
//! A plan names ranks and the rounds in which they have joined. Several processes may have had a rank, below
//! different ones:
//!
//! | what happens | how the processes agree |
//! |---|---|
//! | two with one rank are reported in one round: one of them is lost since | the top admits neither, and another round follows |
//! | one joins in a round in which it was not reported here | it is another process |
//! | it was reported, and its parent lost its own in the same round | a report behind a closed link is withdrawn, and made once more by those that come back |
//! | the loss and the return are in one plan | the rank leaves every branch, and is behind the links that have reported it |
//! | a host below one that waits is lost after both were reported | the `Welcome` names all that the plan has; the process above the lost host says that it is lost anew |
//! | an orphan is adopted with ranks that were awaited, but are those of a host that has come below it | it says which it has (`MovedWith`, `AwaitsWelcome`), and the others are lost |
//!
//! The process above all of these may be the top: it reports to itself.

use libi_core::ids::LinkId;
use libi_core::loss::LossReason;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use crate::contract::Effect;
use crate::group::Group;
use crate::group::context::CallContext;

/// A process that is no branch before the next plan.
#[derive(Clone, Debug)]
pub(in crate::group) struct Arrival {
    pub(in crate::group) link: LinkId,
    pub(in crate::group) ranks: Ranks,
    /// Of these, those of hosts below it that are lost. They may come back elsewhere.
    pub(in crate::group) gone: Ranks,
    /// Whether it is a further member of this host.
    pub(in crate::group) local: bool,
    /// What it waits for.
    pub(in crate::group) waits: Waits,
}

impl Arrival {
    /// The members that are there, as far as it is known.
    pub(in crate::group) fn left(&self) -> Ranks {
        let mut left = self.ranks.clone();
        left.remove_all(&self.gone);
        left
    }
}

/// What a process that arrives waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::group) enum Waits {
    /// Nothing has been asked for it.
    Unasked,
    /// A plan with it.
    Plan,
    /// The loss of others with its ranks, since this round.
    Loss(u64),
}

impl Group {
    /// A new process is there: in the place of a lost member of this host, or with new ranks.
    pub(in crate::group) fn joins(&mut self, link: LinkId, ranks: &Ranks, local: bool) {
        let mut ranks = ranks.clone();
        ranks.remove_all(&self.view.topology.absent);
        if !self.collective.continues() || ranks.is_empty() {
            return;
        }
        let (gone, waits) = (Ranks::new(), Waits::Unasked);
        self.view.joining_members.arriving.push(Arrival { link, ranks, gone, local, waits });
    }

    /// Asks for plans with processes that arrive, if others with their ranks are known to be lost.
    pub(in crate::group) fn ask_for_arrivals(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if self.view.joining_members.arriving.is_empty() {
            return;
        }
        let (round, planned) = (self.collective.round(), self.collective.planned());
        let mut arriving = std::mem::take(&mut self.view.joining_members.arriving);
        let (mut is_free, mut is_held, mut unsaid) = (false, false, Ranks::new());
        for arrival in &mut arriving {
            let taken = self.view.taken(&arrival.left());
            let is_open = !self.view.cut.contains(&arrival.link);
            arrival.waits = match arrival.waits {
                Waits::Plan if taken.is_empty() => Waits::Plan,
                _ if taken.is_empty() => {
                    is_free |= is_open;
                    Waits::Plan
                }
                Waits::Loss(since) => {
                    // All that are left have said what they know.
                    if is_open && since < planned {
                        unsaid.add_all(&taken);
                    }
                    Waits::Loss(since)
                }
                _ => {
                    is_held |= is_open;
                    Waits::Loss(round)
                }
            };
        }
        self.view.joining_members.arriving = arriving;
        if is_held {
            let Self { collective, view, kvs, memory, .. } = self;
            collective.tree_changed(round + 1, &mut CallContext { now, view, kvs, memory, out });
            self.continue_without_lost(now, out);
        }
        if is_free {
            self.reports_arrival(now, out);
        }
        if !unsaid.is_empty() {
            self.lost(&unsaid, u64::MAX, None, None, now, out);
            self.continue_without_lost(now, out);
            self.ask_for_arrivals(now, out);
        }
    }

    /// There is more to report of members that join.
    pub(super) fn reports_arrival(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Self { collective, view, kvs, memory, .. } = self;
        collective.arrives(&mut CallContext { now, view, kvs, memory, out });
        self.continue_without_lost(now, out);
    }

    /// The link to a process that is no branch yet is closed. False if there is no such process. Its
    /// members are lost as before, or will be with the plan; those below may come back.
    pub(in crate::group) fn arrival_lost(&mut self, link: LinkId, how: Option<&LossReason>) -> bool {
        let joining = &mut self.view.joining_members;
        let is_one = joining.arriving.iter().any(|arrival| arrival.link == link);
        if is_one {
            joining.closed(link, Ranks::new(), how.cloned());
            self.view.cut.insert(link);
        }
        is_one
    }
}

#[cfg(test)]
mod tests;
