//! The front end's record of the members that are still attached, once the session is up.

use libi_core::dist::layout::Block;
use libi_core::ids::Rank;

/// The members of a session.
#[derive(Debug)]
pub(super) struct LiveMembers {
    gone: Vec<bool>,
    /// Members whose end, or whose detachment, was reported: a host repeats what may be lost.
    ended: Vec<bool>,
    detached: Vec<bool>,
    left: u32,
    reported: bool,
}

impl LiveMembers {
    pub(super) fn new(size: u32) -> Self {
        let [gone, ended, detached] = [(); 3].map(|()| vec![false; size as usize]);
        Self { gone, ended, detached, left: size, reported: false }
    }

    /// A member has ended, has detached, or is lost.
    pub(super) fn remove(&mut self, rank: Rank) {
        if (rank.0 as usize) < self.gone.len() && is_first(&mut self.gone, rank) {
            self.left -= 1;
        }
    }

    /// The end of a member is reported. False if that is known.
    pub(super) fn ends(&mut self, rank: Rank) -> bool {
        self.remove(rank);
        is_first(&mut self.ended, rank)
    }

    /// The detachment of a member is reported. False if that is known.
    pub(super) fn detaches(&mut self, rank: Rank) -> bool {
        self.remove(rank);
        is_first(&mut self.detached, rank)
    }

    /// The session has so many ranks more, of members that do not live yet.
    pub(super) fn grow(&mut self, ranks: u32) {
        let size = self.gone.len() + ranks as usize;
        self.gone.resize(size, true);
        self.ended.resize(size, false);
        self.detached.resize(size, false);
    }

    /// A new process is in the place of a member that has ended, or of one that did not live yet.
    pub(super) fn revive(&mut self, rank: Rank) {
        let at = rank.0 as usize;
        if let (Some(ended), Some(gone)) = (self.ended.get_mut(at), self.gone.get_mut(at)) {
            *ended = false;
            if std::mem::take(gone) {
                self.left += 1;
            }
        }
    }

    /// Whether the last process of a member has ended.
    pub(super) fn has_ended(&self, rank: Rank) -> bool {
        self.ended.get(rank.0 as usize) == Some(&true)
    }

    /// Whether a member was lost with its host.
    pub(super) fn is_lost(&self, rank: Rank) -> bool {
        self.gone.get(rank.0 as usize) == Some(&true) && !self.has_ended(rank) && !self.has_detached(rank)
    }

    /// Whether a member has detached.
    pub(super) fn has_detached(&self, rank: Rank) -> bool {
        self.detached.get(rank.0 as usize) == Some(&true)
    }

    /// Whether it was told that no member is attached any more.
    pub(super) fn was_done(&self) -> bool {
        self.reported
    }

    /// A host is lost with all its members.
    pub(super) fn remove_host(&mut self, blocks: &[Block]) {
        blocks.iter().flat_map(|block| block.ranks()).for_each(|rank| self.remove(rank));
    }

    /// Whether a member of these blocks is still attached.
    pub(super) fn any_left(&self, blocks: &[Block]) -> bool {
        let is_left = |rank: Rank| self.gone.get(rank.0 as usize) == Some(&false);
        blocks.iter().flat_map(|block| block.ranks()).any(is_left)
    }

    /// True once, when no member is attached any more.
    pub(super) fn is_done(&mut self) -> bool {
        self.left == 0 && !std::mem::replace(&mut self.reported, true)
    }
}

/// Marks a member. False if it was marked before.
fn is_first(marked: &mut [bool], rank: Rank) -> bool {
    marked.get_mut(rank.0 as usize).is_none_or(|is_marked| !std::mem::replace(is_marked, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(first: u32, count: u32) -> Block {
        Block { first: Rank(first), count, distribution: 0 }
    }

    #[test]
    fn a_member_leaves_once_and_the_end_is_told_once() {
        let mut members = LiveMembers::new(3);
        members.remove(Rank(0));
        members.remove(Rank(0));
        members.remove(Rank(7));
        assert!(!members.is_done());
        members.remove_host(&[block(0, 3)]);
        assert!(members.is_done() && !members.is_done());
    }

    #[test]
    fn an_end_and_a_detachment_are_news_once_each() {
        let mut members = LiveMembers::new(2);
        assert!(members.detaches(Rank(1)) && members.ends(Rank(1)));
        assert!(!members.detaches(Rank(1)) && !members.ends(Rank(1)));
        assert!(members.ends(Rank(0)) && members.is_done());
    }

    #[test]
    fn a_member_that_is_restarted_lives_and_ends_again() {
        let mut members = LiveMembers::new(1);
        for _ in 0..3 {
            assert!(members.ends(Rank(0)) && !members.ends(Rank(0)) && members.has_ended(Rank(0)));
            members.revive(Rank(0));
            members.revive(Rank(0));
            assert!(!members.is_done() && !members.has_ended(Rank(0)));
        }
        members.revive(Rank(7));
        assert!(members.ends(Rank(0)) && members.is_done() && members.was_done());
    }

    #[test]
    fn a_host_has_members_left_until_all_of_its_blocks_are_gone() {
        let mut members = LiveMembers::new(4);
        let host = [block(0, 1), block(2, 1)];
        members.remove(Rank(0));
        assert!(members.any_left(&host));
        members.remove(Rank(2));
        assert!(!members.any_left(&host) && !members.any_left(&[block(4, 9)]));
    }
}
