//! What a node above orphans knows: whom it awaits, who has connected, and what is below them.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::{HostIndex, LinkId};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;

use super::helpers::Severed;
use super::{Orphans, OwnState};
use crate::machine::message::OrphanClaim;

/// How long an orphan that was told that it counts as lost may take to close its connection.
const DISMISSAL_TIMEOUT: Duration = Duration::from_secs(1);

impl Orphans {
    pub(in crate::machine) fn set_top(&mut self, is_top: bool) {
        self.is_top = is_top;
    }

    pub(in crate::machine) fn is_top(&self) -> bool {
        self.is_top
    }

    /// The ranks at and below a child.
    pub(in crate::machine) fn set_behind(&mut self, link: LinkId, ranks: Ranks) {
        self.behind.insert(link, ranks);
    }

    /// Further ranks are at or below a child.
    pub(in crate::machine) fn extend_behind(&mut self, link: LinkId, ranks: &Ranks) {
        self.behind.entry(link).or_default().add_all(ranks);
    }

    /// These ranks are behind another child now.
    pub(in crate::machine) fn leave_branches(&mut self, ranks: &Ranks) {
        self.behind.values_mut().for_each(|behind| behind.remove_all(ranks));
    }

    pub(in crate::machine) fn behind(&self, link: LinkId) -> Option<&Ranks> {
        self.behind.get(&link)
    }

    /// The hosts below a child that was adopted.
    pub(in crate::machine) fn below(&self, link: LinkId) -> Option<&BTreeSet<HostIndex>> {
        self.below.get(&link)
    }

    /// A host below has this one as its parent.
    pub(in crate::machine) fn has_parent(&mut self, host: HostIndex, parent: HostIndex) {
        self.parents.insert(host, parent);
    }

    /// The hosts to which helpers are sent now.
    pub(in crate::machine) fn send_helpers(&mut self, now: Instant) -> Vec<HostIndex> {
        let parents = &self.parents;
        self.severed.values_mut().flat_map(|severed| severed.send_helpers(now, parents)).collect()
    }

    /// The helper of a host has ended.
    pub(in crate::machine) fn helper_ended(&mut self, host: HostIndex, why: &str, now: Instant) {
        self.severed.values_mut().for_each(|severed| severed.helper_ended(host, why, now));
    }

    /// A child is lost that had these hosts below it.
    pub(in crate::machine) fn sever(&mut self, link: LinkId, severed: Severed) {
        self.behind.remove(&link);
        self.below.remove(&link);
        self.alone.insert(link);
        self.severed.insert(link, severed);
    }

    /// A child is gone. Whether it is reported alone: what is said of the hosts below it does not follow from
    /// that, or this node has not launched it.
    pub(in crate::machine) fn is_alone(&mut self, link: LinkId) -> bool {
        self.below.remove(&link);
        self.behind.remove(&link);
        self.alone.remove(&link)
    }

    /// These hosts below a child that is lost are new.
    pub(in crate::machine) fn note_new(&mut self, link: LinkId, hosts: BTreeSet<HostIndex>) {
        if !hosts.is_empty() {
            self.new_below.insert(link, hosts);
        }
    }

    /// A child is gone: returns the hosts below it that were new when it was lost.
    pub(in crate::machine) fn take_new(&mut self, link: LinkId) -> BTreeSet<HostIndex> {
        self.new_below.remove(&link).unwrap_or_default()
    }

    /// Whether hosts may still come back.
    pub(in crate::machine) fn awaits(&self) -> bool {
        !self.severed.is_empty()
    }

    /// The hosts that may come back.
    pub(in crate::machine) fn awaited(&self) -> impl Iterator<Item = HostIndex> + '_ {
        self.severed.values().flat_map(|severed| severed.hosts.iter().copied())
    }

    /// A host was given up, or has failed. Returns the connection of its orphan, which is not adopted any more: it
    /// is to be told, and is closed a little later if it does not do that itself.
    pub(in crate::machine) fn forget(&mut self, host: HostIndex, now: Instant) -> Option<LinkId> {
        for hosts in self.below.values_mut() {
            hosts.remove(&host);
        }
        self.dismiss(|claimed| claimed == host, now)
    }

    fn dismiss(&mut self, is_it: impl Fn(HostIndex) -> bool, now: Instant) -> Option<LinkId> {
        let mut arriving = self.arriving.iter_mut();
        let found = arriving.find(|(_, (_, claim))| claim.as_ref().is_some_and(|claim| is_it(claim.host)));
        let (link, (until, claim)) = found?;
        *until = (*until).min(now + DISMISSAL_TIMEOUT);
        *claim = None;
        Some(*link)
    }

    /// An orphan has connected.
    pub(in crate::machine) fn arrives(&mut self, link: LinkId, until: Instant) {
        self.arriving.insert(link, (until, None));
    }

    pub(in crate::machine) fn is_arriving(&self, link: LinkId) -> bool {
        self.arriving.contains_key(&link)
    }

    /// An orphan has said who it is. False if it has said so before.
    pub(in crate::machine) fn claims(&mut self, link: LinkId, claim: OrphanClaim) -> bool {
        match self.arriving.get_mut(&link) {
            Some((_, said)) if said.is_none() => {
                *said = Some(claim);
                true
            }
            _ => false,
        }
    }

    pub(in crate::machine) fn leaves(&mut self, link: LinkId) {
        self.arriving.remove(&link);
    }

    /// An orphan that is awaited: its link, the severed one, what it has said, and the hosts that are
    /// back with it.
    pub(in crate::machine) fn next_awaited(
        &mut self,
    ) -> Option<(LinkId, LinkId, OrphanClaim, BTreeSet<HostIndex>)> {
        let awaited = |claim: &OrphanClaim| {
            let mut severed = self.severed.iter();
            severed.find(|(_, severed)| severed.hosts.contains(&claim.host)).map(|(link, _)| *link)
        };
        let mut arriving = self.arriving.iter();
        let found = arriving.find_map(|(link, (_, claim))| Some((*link, awaited(claim.as_ref()?)?)));
        let (link, old) = found?;
        let claim = self.arriving.remove(&link)?.1?;
        let severed = self.severed.get_mut(&old)?;
        let mut back: BTreeSet<HostIndex> = claim.below.iter().copied().collect();
        back.insert(claim.host);
        back.retain(|host| severed.is_back(*host));
        let mut below = back.clone();
        below.remove(&claim.host);
        self.below.insert(link, below);
        self.alone.insert(link);
        Some((link, old, claim, back))
    }

    /// The connection of the orphan of a host that counts as lost, to be told and closed in the same way.
    pub(in crate::machine) fn next_lost(&mut self, now: Instant) -> Option<LinkId> {
        let lost: BTreeSet<HostIndex> = self.severed.values().map(|severed| severed.lost).collect();
        self.dismiss(|claimed| lost.contains(&claimed), now)
    }

    /// A severed child whose orphans have had their time, or are all back.
    pub(in crate::machine) fn next_over(&mut self, now: Instant) -> Option<(LinkId, Severed)> {
        let mut severed = self.severed.iter();
        let link = *severed.find(|(_, severed)| severed.until <= now || severed.hosts.is_empty())?.0;
        Some((link, self.severed.remove(&link)?))
    }

    /// Connections of orphans that have had their time.
    pub(in crate::machine) fn late(&mut self, now: Instant) -> Vec<LinkId> {
        let late = self.arriving.iter().filter(|(_, (until, _))| *until <= now).map(|(link, _)| *link);
        let late: Vec<LinkId> = late.collect();
        late.iter().for_each(|link| drop(self.arriving.remove(link)));
        late
    }

    /// This node ends: returns the connections of orphans.
    pub(in crate::machine) fn end(&mut self) -> Vec<LinkId> {
        self.severed.clear();
        std::mem::take(&mut self.arriving).into_keys().collect()
    }

    /// When something is due.
    pub(in crate::machine) fn next_deadline(&self) -> Option<Instant> {
        let own = match self.state {
            OwnState::Seeks { at, .. } => at,
            OwnState::Claims { until, .. } => Some(until),
            OwnState::Attached => None,
        };
        let severed = self.severed.values().map(Severed::next_deadline);
        let arriving = self.arriving.values().map(|(until, _)| *until);
        own.into_iter().chain(severed).chain(arriving).min()
    }
}
