//! How many bytes a process may send over a link in a call before anything is granted.
//!
//! In a call with one sender, whose data arrive over one link, that is [`EAGER_OF_ROOT`]. With many
//! senders it is [`EAGER`], as a process cannot know how many links another one has. A process that
//! can hold more from each of its links says so to all neighbors when one of them has said that it
//! needs credit: a session whose calls are small has no such messages.
//!
//! | state | event | next state |
//! |---|---|---|
//! | here: unsaid | a neighbor needs credit in a call with many senders | said |
//! | here: said | a call begins | it accepts so much |
//! | there: [`EAGER`] | the neighbor says more | open calls and later ones may send so much |
//!
//! In a call that begins while the message is on its way, the receiver accepts more than the sender
//! knows of. The sender waits for no grant then, but for that message.

use libi_core::ids::LinkId;

use super::flow_control::{EAGER, EAGER_OF_ROOT, WINDOW_POOL};
use super::link_map::LinkMap;
use super::operation::{Operation, Senders};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct EagerLimits {
    /// What neighbors may send, once one has needed credit. They know [`EAGER`] without being told.
    here: Option<u64>,
    /// What neighbors have said.
    there: LinkMap<u64>,
}

impl EagerLimits {
    /// A neighbor needs credit in a call of this operation. Returns what is to be said to all
    /// neighbors. Data may arrive over so many links.
    pub(crate) fn wanted(
        &mut self,
        operation: &Operation,
        links: impl Iterator<Item = LinkId>,
    ) -> Option<u64> {
        if self.here.is_some() || operation.senders != Senders::All {
            return None;
        }
        // The half of the pool that all links have in equal parts: no window is smaller.
        let each = WINDOW_POOL / 2 / (links.count() as u64).max(1);
        let here = *self.here.insert(each.clamp(EAGER, EAGER_OF_ROOT));
        (here > EAGER).then_some(here)
    }

    /// What was said to all neighbors, if it was.
    pub(crate) fn said(&self) -> Option<u64> {
        self.here.filter(|here| *here > EAGER)
    }

    /// Another process is at the other end of a link.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.there.remove(link);
    }

    /// A neighbor says so. Returns how much may be sent to it from now on, if that is more than before.
    pub(crate) fn heard(&mut self, link: LinkId, limit: u64) -> Option<u64> {
        let limit = limit.clamp(EAGER, EAGER_OF_ROOT);
        let is_more = self.there.get(link).is_none_or(|before| *before < limit);
        is_more.then(|| {
            self.there.insert(link, limit);
            limit
        })
    }

    /// How much each neighbor may send to this process in a call.
    pub(crate) fn here(&self, operation: &Operation) -> u64 {
        match operation.senders {
            Senders::Root => EAGER_OF_ROOT,
            _ => self.here.unwrap_or(EAGER),
        }
    }

    /// How much may be sent over a link in a call.
    pub(crate) fn there(&self, operation: &Operation, link: LinkId) -> u64 {
        match operation.senders {
            Senders::Root => EAGER_OF_ROOT,
            _ => self.there.get(link).copied().unwrap_or(EAGER),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::operation::{Receivers, Transport};

    fn operation(senders: Senders) -> Operation {
        Operation { name: "", senders, receivers: Receivers::Root, transport: Transport::Items }
    }

    #[test]
    fn few_links_may_send_more_each_and_hear_of_it_once() {
        let (one, many) = (operation(Senders::Root), operation(Senders::All));
        for (links, said, here) in
            [(3, Some(EAGER_OF_ROOT), EAGER_OF_ROOT), (64, Some(16 << 10), 16 << 10), (1_000, None, EAGER)]
        {
            let mut limits = EagerLimits::default();
            let links = || (0..links).map(LinkId);
            assert_eq!((limits.wanted(&one, links()), limits.here(&many)), (None, EAGER));
            assert_eq!((limits.wanted(&many, links()), limits.here(&many)), (said, here));
            assert_eq!(limits.wanted(&many, links()), None);
            assert_eq!(limits.here(&one), EAGER_OF_ROOT);
        }
    }

    #[test]
    fn what_a_neighbor_says_is_limited() {
        let (many, mut limits) = (operation(Senders::All), EagerLimits::default());
        assert_eq!(limits.there(&many, LinkId(1)), EAGER);
        let most = EAGER_OF_ROOT;
        for (said, news, limit) in
            [(0, Some(EAGER), EAGER), (u64::MAX, Some(most), most), (9_000, None, most)]
        {
            assert_eq!(limits.heard(LinkId(1), said), news);
            assert_eq!(limits.there(&many, LinkId(1)), limit);
            assert_eq!(limits.there(&many, LinkId(2)), EAGER);
        }
    }
}
