//! How far standard input that goes to all programs has been read, on one node and below it.
//!
//! A node passes what arrives on to its own programs and to each leader below at once, and reports
//! how much all of them have taken: the slowest decides. So no node keeps more than one window, the
//! credit of the front end.
//!
//! | event | effect |
//! |---|---|
//! | input arrives | it counts as given to the own programs, and to each leader that is up |
//! | the own programs, or a leader, have taken more | that is counted |
//! | a leader is lost or has left | it is not waited for any more |
//! | after each | what all have taken since the last report is reported |
//!
//! A program that has ended, or has closed its input, has taken all: the driver says so.

use std::collections::BTreeMap;

use libi_core::ids::LinkId;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct InputFlow {
    /// How much has arrived.
    given: u64,
    /// How much the programs of this node have taken, if there are any.
    own: Option<u64>,
    /// The same of leaders and all below them.
    below: BTreeMap<LinkId, u64>,
    told: u64,
}

impl InputFlow {
    /// The flow of a node that has programs of its own, or of the front end, which has none.
    pub(super) fn new(has_programs: bool) -> Self {
        Self { own: has_programs.then_some(0), ..Self::default() }
    }

    /// Input has arrived, and goes to these leaders.
    pub(super) fn give(&mut self, bytes: usize, to: impl IntoIterator<Item = LinkId>) {
        for link in to {
            self.below.entry(link).or_insert(self.given);
        }
        self.given += bytes as u64;
    }

    /// The own programs have taken this much more.
    pub(super) fn own_took(&mut self, bytes: u32) {
        if let Some(own) = &mut self.own {
            *own += u64::from(bytes);
        }
    }

    /// A leader says that all at it and below it have taken this much more.
    pub(super) fn took(&mut self, link: LinkId, bytes: u32) {
        if let Some(taken) = self.below.get_mut(&link) {
            *taken += u64::from(bytes);
        }
    }

    /// What all have taken since this was last asked. Only these leaders are left.
    pub(super) fn news(&mut self, is_left: impl Fn(LinkId) -> bool) -> u32 {
        self.below.retain(|link, _| is_left(*link));
        let taken = self.own.iter().chain(self.below.values()).copied().min().unwrap_or(self.given);
        // A leader may say more than it was given: it gains nothing by that.
        let taken = taken.min(self.given);
        let news = u32::try_from(taken.saturating_sub(self.told)).unwrap_or(u32::MAX);
        self.told += u64::from(news);
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: fn(LinkId) -> bool = |_| true;

    #[test]
    fn the_slowest_decides() {
        let mut flow = InputFlow::new(true);
        flow.give(100, [LinkId(1), LinkId(2)]);
        flow.own_took(100);
        flow.took(LinkId(1), 60);
        assert_eq!(flow.news(LEFT), 0);
        flow.took(LinkId(2), 40);
        assert_eq!((flow.news(LEFT), flow.news(LEFT)), (40, 0));
        flow.took(LinkId(2), 60);
        assert_eq!(flow.news(LEFT), 20);
        flow.took(LinkId(1), 1_000);
        assert_eq!((flow.news(LEFT), flow.news(LEFT)), (40, 0), "there was no more");
    }

    #[test]
    fn what_is_lost_holds_up_nothing() {
        let mut flow = InputFlow::new(false);
        flow.give(100, [LinkId(1), LinkId(2)]);
        flow.took(LinkId(1), 30);
        assert_eq!(flow.news(|link| link == LinkId(1)), 30);
        flow.took(LinkId(2), 100);
        assert_eq!(flow.news(|link| link == LinkId(1)), 0, "it was forgotten");
        assert_eq!(flow.news(|_| false), 70, "there is nothing left to read it");
    }

    #[test]
    fn a_leader_that_gets_input_later_owes_nothing_for_what_came_before() {
        let mut flow = InputFlow::new(true);
        flow.give(100, [LinkId(1)]);
        flow.own_took(100);
        flow.took(LinkId(1), 100);
        assert_eq!(flow.news(LEFT), 100);
        flow.give(10, [LinkId(1), LinkId(2)]);
        flow.own_took(10);
        flow.took(LinkId(1), 10);
        assert_eq!(flow.news(LEFT), 0);
        flow.took(LinkId(2), 10);
        assert_eq!(flow.news(LEFT), 10);
    }
}
