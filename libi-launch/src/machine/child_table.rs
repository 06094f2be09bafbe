//! The children of a node, and when each one's state has lasted too long.
//!
//! Every child has one deadline. It is armed when the child is added, and again with every change
//! of its state; a deadline in the far future never passes.

use std::collections::{BTreeMap, BTreeSet};

use libi_core::ids::{HostIndex, LinkId};
use libi_core::time::Instant;

use super::child::Child;
use crate::failure::Cause;

/// The children of a node with their deadlines.
#[derive(Debug)]
pub(super) struct ChildTable {
    children: BTreeMap<LinkId, Entry>,
    deadlines: BTreeSet<(Instant, LinkId)>,
    last_link: LinkId,
}

#[derive(Debug)]
struct Entry {
    child: Child,
    deadline: Instant,
}

impl ChildTable {
    pub(super) fn new() -> Self {
        Self { children: BTreeMap::new(), deadlines: BTreeSet::new(), last_link: LinkId::PARENT }
    }

    /// Adds a child; returns its link, which no child has had before.
    pub(super) fn add(&mut self, child: Child, deadline: Instant) -> LinkId {
        let link = self.next_link();
        self.add_at(link, child, deadline);
        link
    }

    /// Adds a child whose link [has come into being](Self::next_link).
    pub(super) fn add_at(&mut self, link: LinkId, child: Child, deadline: Instant) {
        self.children.insert(link, Entry { child, deadline });
        self.deadlines.insert((deadline, link));
    }

    /// A link that no child has had before, and none will have.
    pub(super) fn next_link(&mut self) -> LinkId {
        self.last_link.0 += 1;
        self.last_link
    }

    pub(super) fn remove(&mut self, link: LinkId) -> Option<Child> {
        let Entry { child, deadline } = self.children.remove(&link)?;
        self.deadlines.remove(&(deadline, link));
        Some(child)
    }

    pub(super) fn get(&self, link: LinkId) -> Option<&Child> {
        self.children.get(&link).map(|entry| &entry.child)
    }

    pub(super) fn get_mut(&mut self, link: LinkId) -> Option<&mut Child> {
        self.children.get_mut(&link).map(|entry| &mut entry.child)
    }

    /// All children, in the order of their starts.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkId, &Child)> + Clone {
        self.children.iter().map(|(&link, entry)| (link, &entry.child))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (LinkId, &mut Child)> {
        self.children.iter_mut().map(|(&link, entry)| (link, &mut entry.child))
    }

    /// The children that are up.
    pub(super) fn up(&self) -> impl Iterator<Item = (LinkId, &Child)> {
        self.iter().filter(|(_, child)| child.is_up())
    }

    /// The further members of this host.
    pub(super) fn locals(&self) -> impl Iterator<Item = (LinkId, &Child)> {
        self.iter().filter(|(_, child)| !child.is_leader())
    }

    /// The leaders of other hosts.
    pub(super) fn leaders(&self) -> impl Iterator<Item = (LinkId, &Child)> + Clone {
        self.iter().filter(|(_, child)| child.is_leader())
    }

    /// The leader of the first host, if it is up.
    pub(super) fn master(&self) -> Option<LinkId> {
        self.up().find(|(_, child)| child.host() == Some(HostIndex(0))).map(|(link, _)| link)
    }

    /// The links that these children have, to change the table while going through them.
    pub(super) fn links(&self, which: impl Fn(&Child) -> bool) -> Vec<LinkId> {
        self.iter().filter(|(_, child)| which(child)).map(|(link, _)| link).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.children.is_empty()
    }

    /// Begins the end of a child, if it does not end yet. Its evidence has until `deadline` to
    /// arrive. Returns whether there is nothing left to wait for.
    pub(super) fn end(&mut self, link: LinkId, cause: Cause, deadline: Instant) -> bool {
        let Some(child) = self.get_mut(link) else { return false };
        if child.end(cause) {
            self.set_deadline(link, deadline);
        }
        self.get(link).is_some_and(Child::is_gone)
    }

    pub(super) fn deadline(&self, link: LinkId) -> Option<Instant> {
        self.children.get(&link).map(|entry| entry.deadline)
    }

    pub(super) fn set_deadline(&mut self, link: LinkId, deadline: Instant) {
        let Some(entry) = self.children.get_mut(&link) else { return };
        self.deadlines.remove(&(entry.deadline, link));
        entry.deadline = deadline;
        self.deadlines.insert((deadline, link));
    }

    /// The next deadline.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// The child whose deadline passed first, with that deadline.
    pub(super) fn expired(&self, now: Instant) -> Option<(LinkId, &Child, Instant)> {
        let &(at, link) = self.deadlines.first().filter(|(at, _)| *at <= now)?;
        Some((link, self.get(link)?, at))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use libi_core::ids::Rank;
    use libi_core::plan::late::{Attempt, Launch};

    use super::*;
    use crate::failure::Exit;
    use crate::machine::child::{ChildRole, tests as children};

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    fn leader(host: u32) -> ChildRole {
        ChildRole::Leader(Launch { host: HostIndex(host), attempt: Attempt::default() })
    }

    /// A table of one further member that is starting, and of leaders of these hosts that are up.
    fn table(hosts: &[u32]) -> ChildTable {
        let mut table = ChildTable::new();
        table.add(children::started(ChildRole::Local(Rank(1)), Vec::new(), at(0)), at(30));
        for host in hosts {
            table.add(children::joined(leader(*host), Vec::new(), at(0)), Instant::FAR_FUTURE);
        }
        table
    }

    #[test]
    fn children_are_found_by_what_they_are() {
        let table = table(&[3, 0]);
        let links = |children: Vec<(LinkId, &Child)>| -> Vec<u32> {
            children.into_iter().map(|(link, _)| link.0).collect()
        };
        assert_eq!(links(table.locals().collect()), [1]);
        assert_eq!(links(table.leaders().collect()), [2, 3]);
        assert_eq!(links(table.up().collect()), [2, 3]);
        assert_eq!(table.master(), Some(LinkId(3)));
        assert_eq!(table.links(|child| !child.is_up()), [LinkId(1)]);
    }

    #[test]
    fn a_link_is_never_given_twice() {
        let mut table = table(&[1]);
        assert!(table.remove(LinkId(2)).is_some() && table.remove(LinkId(2)).is_none());
        let again = table.add(children::started(leader(1), Vec::new(), at(1)), at(31));
        assert_eq!(again, LinkId(3));
    }

    #[test]
    fn each_child_has_its_latest_deadline_only() {
        let mut table = table(&[1, 2]);
        assert_eq!(table.next_deadline(), Some(at(30)));
        table.set_deadline(LinkId(3), at(5));
        table.set_deadline(LinkId(1), at(9));
        table.set_deadline(LinkId(3), at(12));
        let expired = |table: &ChildTable, now| table.expired(now).map(|(link, _, at)| (link, at));
        assert_eq!(expired(&table, at(8)), None);
        assert_eq!(expired(&table, at(20)), Some((LinkId(1), at(9))));
        table.remove(LinkId(1));
        assert_eq!(expired(&table, at(20)), Some((LinkId(3), at(12))));
        assert_eq!(table.deadline(LinkId(3)), Some(at(12)));
    }

    #[test]
    fn the_first_cause_of_an_end_sets_the_deadline() {
        let mut table = table(&[1]);
        let child =
            |table: &mut ChildTable, change: fn(&mut Child)| change(table.get_mut(LinkId(2)).unwrap());
        child(&mut table, Child::close);
        assert!(!table.end(LinkId(2), Cause::Closed, at(7)));
        child(&mut table, |child| child.on_exit(Exit::Code(0)));
        assert!(table.end(LinkId(2), Cause::TimedOut, at(8)), "nothing more can arrive");
        assert_eq!(table.deadline(LinkId(2)), Some(at(7)));
    }
}
