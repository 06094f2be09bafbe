//! What a group does when new processes join a session: one that takes the place of a lost member, hosts in
//! the places of lost ones, or hosts by which the session [grows](super::growth).
//!
//! A process in the place of a lost one is started on the same host, and its parent is the same; or a whole
//! host is, [somewhere else](arrivals). Its parent learns of it [from its driver](Event::Joins), and tells
//! the top; all processes learn of it by a [plan](super::survival), at the same place in the order of frames:
//!
//! ```text
//!   new process              its parent                              top
//!     | (has no calls yet)      | TreeChanged ------------------------> | the next round
//!     |                         | <------------------------------ Halt |
//!     |                         | Halted: these members join, and       |
//!     |                         |   so many calls were made ----------> | the first call with them: after
//!     | <--------------- Welcome| <---------------------------- Resume |   all that any member has made
//!     | (calls, messages, keys) |                                       |
//! ```
//!
//! | state of a member | event | next state |
//! |---|---|---|
//! | lost | `Joins` at its parent | arriving: in the next report of the parent |
//! | not known to be lost there | `Joins` at its parent | held, see [`arrivals`] |
//! | arriving | its link is closed | lost, as before |
//! | arriving | a plan with it | takes part from a call on, which is the same everywhere |
//! | arriving | a plan without it | arriving: it came after the report |
//! | arriving | a plan of a halt that had begun before the loss was known at the top | arriving, until the next |
//! | takes part | its link was closed before the plan came | lost anew |
//! | takes part | its link was closed after a plan that was missed had named it | lost anew: what was reported of closed links is kept until a plan comes |
//! | takes part | its orphaned host is back before the plan came | it is behind the orphan's link |
//!
//! Calls before the first one go on without the new process, also if they began anew with the plan: each
//! call is made in the view of its number ([`GroupView::of_call`]), as long as not all have completed them.
//! A plan names all processes that have joined since, so that one which has missed a plan, as an orphan does,
//! admits them with the same first call.
//!
//! For a program the member is back when it has made all calls before the first one: until then its messages
//! to it fail, as they did. What the lost process had sent and was not received is forgotten with the plan.
//!
//! No message for a lost process reaches the one in its place: every process has heard of the loss before it
//! halts, and sends it nothing afterwards. A front end above the top does not halt. The top drops what it
//! sends to the member until it has confirmed (`KnowsOfJoined`) that it knows of the new process.

mod admission;
mod arrivals;
mod welcome;

use std::collections::{BTreeMap, BTreeSet};

use libi_core::ids::{LinkId, Rank};
use libi_core::loss::LossReason;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::topology::Topology;
use serde::{Deserialize, Serialize};

use self::admission::Admitted;
pub(super) use self::arrivals::Arrival;
pub(super) use self::welcome::Newcomer;
pub(crate) use self::welcome::Welcome;
use super::context::CallContext;
use super::growth::Growths;
use super::survival::Arrived;
use super::{Group, view};
use crate::contract::{Address, Adoption, Call, Effect};
use crate::error::CommError;
use crate::message::Message;

/// Members that have joined in a round, and the number of the first call in which they take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Join {
    round: u64,
    first: u64,
    ranks: Ranks,
}

/// Members that have joined, and how the session has grown, as long as earlier calls are in progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Joins {
    those: Vec<Join>,
    pub(super) growths: Growths,
}

impl Joins {
    pub(crate) fn add(&mut self, round: u64, first: u64, ranks: Ranks) {
        if !ranks.is_empty() {
            self.those.push(Join { round, first, ranks });
        }
    }

    /// The session has had so many ranks before this call.
    pub(crate) fn grow(&mut self, first: u64, before: u32) {
        self.growths.add(first, before);
    }

    /// Members that join now begin with no earlier call than this one.
    pub(crate) fn earliest(&self) -> u64 {
        self.growths.last()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.those.is_empty() && self.growths.is_empty()
    }

    /// All of them.
    pub(crate) fn ranks(&self) -> Ranks {
        self.those(|_| true)
    }

    fn those(&self, is_meant: impl Fn(&Join) -> bool) -> Ranks {
        let mut all = Ranks::new();
        for join in self.those.iter().filter(|join| is_meant(join)) {
            all.add_all(&join.ranks);
        }
        all
    }

    /// Those of reported members that have joined, and not others with the same ranks before.
    pub(crate) fn of(&self, arrived: &Arrived) -> Ranks {
        let (first, last) = arrived.rounds;
        self.those(|join| (first..=last).contains(&join.round)).intersection(&arrived.ranks)
    }

    /// The same of several reports.
    pub(crate) fn of_all(&self, arrived: &[Arrived]) -> Ranks {
        let mut all = Ranks::new();
        arrived.iter().for_each(|arrived| all.add_all(&self.of(arrived)));
        all
    }

    /// Those that take no part in a call.
    pub(crate) fn after(&self, nth: u64) -> Ranks {
        self.those(|join| nth < join.first)
    }

    /// Those that have joined in a round.
    pub(crate) fn in_round(&self, round: u64) -> Ranks {
        self.those(|join| join.round == round)
    }

    /// The first call of the first of these members.
    pub(crate) fn first_of(&self, ranks: &Ranks) -> Option<u64> {
        let among = self.those.iter().filter(|join| !join.ranks.intersection(ranks).is_empty());
        among.map(|join| join.first).min()
    }

    /// The first calls, in ascending order.
    pub(crate) fn firsts(&self) -> Vec<u64> {
        let mut firsts: Vec<u64> = self.those.iter().map(|join| join.first).collect();
        firsts.sort_unstable();
        firsts
    }

    pub(crate) fn remove_all(&mut self, ranks: &Ranks) {
        self.those.iter_mut().for_each(|join| join.ranks.remove_all(ranks));
        self.those.retain(|join| !join.ranks.is_empty());
    }

    /// All members have completed the calls before this number.
    pub(crate) fn forget_before(&mut self, completed: u64) {
        self.growths.forget_before(completed);
        self.those.retain(|join| join.first >= completed);
    }
}

/// What a group knows of members that join.
#[derive(Clone, Debug, Default)]
pub(crate) struct Joining {
    pub(super) arriving: Vec<Arrival>,
    /// Processes that were adopted instead of a link behind which no members were. If they are new, they
    /// arrive; else they have lost all of theirs, and new ones may come.
    strays: Vec<Adoption>,
    /// The members at the other end of each link to an orphan that is no branch yet, those that are lost
    /// included.
    claimed: BTreeMap<LinkId, Ranks>,
    /// The links to processes that were adopted, and await their welcome.
    unwelcome: BTreeSet<LinkId>,
    pub(super) joins: Joins,
    /// The round in which each member has joined last, of those that have ever.
    admitted: BTreeMap<Rank, u64>,
    /// The members that were lost with the process behind each link that was closed, and how.
    died: BTreeMap<LinkId, (Ranks, Option<LossReason>)>,
    /// At the top: members that have joined in a round, of which the front end above may not know.
    untold: BTreeMap<u64, Ranks>,
}

impl Joining {
    /// Those of these members that have ever joined.
    pub(super) fn have_joined(&self, ranks: &Ranks) -> Ranks {
        self.admitted.keys().copied().filter(|rank| ranks.contains(*rank)).collect()
    }

    /// The round in which each of these members has joined last, of those that have ever.
    pub(super) fn rounds(&self, ranks: &Ranks) -> Vec<(Rank, u64)> {
        let all = self.admitted.iter().map(|(rank, round)| (*rank, *round));
        all.filter(|(rank, _)| ranks.contains(*rank)).collect()
    }

    /// Of lost members, each of which had joined in a round or never, those that have joined since: their
    /// loss is old news.
    pub(super) fn joined_since(&self, lost: &Ranks, joined: &[(Rank, u64)]) -> Ranks {
        let had_joined =
            |rank| joined.iter().find(|(other, _)| *other == rank).map_or(0, |(_, round)| *round);
        let newer = self.admitted.iter().filter(|(rank, round)| had_joined(**rank) < **round);
        newer.map(|(rank, _)| *rank).filter(|rank| lost.contains(*rank)).collect()
    }

    /// The front end knows of those that have joined in this round.
    pub(super) fn are_told_of(&mut self, round: u64) {
        self.untold.remove(&round);
    }

    /// Whether what the front end has sent to a member may be meant for the process before.
    pub(super) fn is_untold(&self, to: Address) -> bool {
        matches!(to, Address::Rank(rank) if self.untold.values().any(|ranks| ranks.contains(rank)))
    }

    /// A process is adopted instead of a link behind which none was expected.
    pub(super) fn strays(&mut self, adoption: Adoption) {
        self.strays.push(adoption);
    }

    /// The process at the other end of this link is such a one, and says more of itself.
    pub(super) fn take_stray(&mut self, link: LinkId) -> Option<Adoption> {
        let at = self.strays.iter().position(|stray| stray.link == link)?;
        Some(self.strays.swap_remove(at))
    }

    /// An orphan is adopted that has these members. Of these, lost ones may come back with the next plan.
    pub(super) fn claims(&mut self, link: LinkId, ranks: Ranks) {
        self.claimed.insert(link, ranks);
    }

    /// These orphans are branches from now on.
    pub(super) fn are_branches(&mut self, links: impl Iterator<Item = LinkId>) {
        links.for_each(|link| drop(self.claimed.remove(&link)));
    }

    /// Others say in which round a lost process had joined.
    pub(super) fn had_joined(&mut self, joined: &[(Rank, u64)]) {
        for (rank, round) in joined {
            let known = self.admitted.entry(*rank).or_default();
            *known = (*known).max(*round);
        }
    }

    /// How the process behind a closed link was lost, if it is known.
    pub(super) fn how_died(&self, link: LinkId) -> Option<LossReason> {
        self.died.get(&link).and_then(|(_, how)| how.clone())
    }

    /// A link is closed, and these members are lost with it if they join.
    pub(super) fn closed(&mut self, link: LinkId, died: Ranks, how: Option<LossReason>) {
        self.died.insert(link, (died, how));
    }
}

impl Group {
    /// What was sent to and from the processes before these is over.
    pub(super) fn forget_predecessors(&mut self, admitted: &Admitted, out: &mut Vec<Effect>) {
        if !admitted.unheard.is_empty() {
            let known = self.known_to_program(&admitted.unheard);
            out.extend((!known.is_empty()).then_some(Effect::Lost(known, None)));
            self.p2p.lost(&admitted.unheard, &self.view, out);
        }
        self.p2p.joined(&admitted.back);
    }

    /// Calls go on with members that have joined.
    pub(super) fn admitted(&mut self, admitted: &Admitted, now: Instant, out: &mut Vec<Effect>) {
        let Admitted { back, lost, .. } = admitted;
        if !back.is_empty() {
            let mine: Ranks = self.view.topology.me.into_iter().collect();
            for join in &self.view.joining_members.joins.those {
                let mut ranks = join.ranks.intersection(back);
                ranks.remove_all(&mine);
                if !ranks.is_empty() {
                    self.unannounced.push((join.first, ranks));
                }
            }
            if self.view.topology.top && self.view.topology.has_parent {
                let round = self.collective.round();
                self.view.joining_members.untold.insert(round, back.clone());
                let Topology { size, absent, .. } = &self.view.topology;
                let (ranks, absent) = (back.clone(), absent.clone());
                let message = Message::Joined { round, ranks, size: *size, absent };
                out.push(Effect::Send(LinkId::PARENT, message.frame(None)));
            }
        }
        self.announce(out);
        // The plan may be older than the report with these. Ranks that are not known come with a growth.
        let all = Ranks::first(self.view.topology.size);
        if self.view.arrived().any(|arrival| arrival.ranks.intersection(&all) == arrival.ranks) {
            let Self { collective, view, kvs, memory, .. } = self;
            collective.arrives(&mut CallContext { now, view, kvs, memory, out });
        }
        for (lost, how) in lost {
            self.lost(lost, u64::MAX, how.clone(), None, now, out);
        }
    }

    /// Calls that all members have completed need neither a master nor a view of their own any more.
    pub(super) fn forget_completed(&mut self) {
        self.view.masters.forget_before(self.collective.completed());
        if !self.view.joins().is_empty() {
            self.view.joining_members.joins.forget_before(self.collective.completed());
        }
    }

    /// Tells the program of members that are back, from the call on that it makes next.
    pub(super) fn announce(&mut self, out: &mut Vec<Effect>) {
        let next = if self.view.topology.me.is_some() { self.collective.next_call() } else { u64::MAX };
        // Those that are new come after the news that there are such ranks.
        let known = Ranks::first(self.told_size);
        let is_due = |(first, ranks): &(u64, Ranks)| *first <= next && !ranks.intersection(&known).is_empty();
        while let Some(at) = self.unannounced.iter().position(is_due) {
            let (first, ranks) = &mut self.unannounced[at];
            let (first, mut joined) = (*first, ranks.intersection(&known));
            ranks.remove_all(&known);
            if ranks.is_empty() {
                self.unannounced.swap_remove(at);
            }
            joined.remove_all(&self.view.lost);
            if !joined.is_empty() {
                out.push(Effect::Joined(joined, first));
            }
        }
    }

    /// The top says that these members are back.
    pub(super) fn hears_of_joined(&mut self, link: LinkId, round: u64, ranks: &Ranks, out: &mut Vec<Effect>) {
        out.push(Effect::Send(link, Message::KnowsOfJoined { round }.frame(None)));
        let back = ranks.intersection(&self.view.lost);
        self.view.lost.remove_all(&back);
        self.view.missing.remove_all(&back);
        self.p2p.joined(&back);
        self.forget_losses(&back);
        self.unannounced.extend((!back.is_empty()).then_some((0, back)));
        self.announce(out);
    }

    /// How these members were lost before is of no interest any more. It is until they are lost once more:
    /// calls before their first one fail by it.
    pub(super) fn forget_losses(&mut self, ranks: &Ranks) {
        self.losses.iter_mut().for_each(|loss| loss.ranks.remove_all(ranks));
        self.losses.retain(|loss| !loss.ranks.is_empty());
    }

    /// Why a message can neither be sent nor received yet: its peer is not back for this program.
    pub(super) fn not_back(&self, call: &Call) -> Option<CommError> {
        let (Call::Send { to: Address::Rank(rank), .. } | Call::Receive { from: Address::Rank(rank), .. }) =
            call
        else {
            return None;
        };
        let is_it = |(_, ranks): &&(u64, Ranks)| ranks.contains(*rank);
        self.unannounced.iter().find(is_it).map(|_| view::lost(*rank))
    }
}
