//! What happens to keys when the tree [changes](super::super::orphans).
//!
//! | event | where | what follows |
//! |---|---|---|
//! | a link is severed | above | keys behind it stay known there; lookups of them wait |
//! | with a plan, this process has another parent | an orphan | announces its keys again, then that these are all, and sends its lookups again |
//! | an announcement | above | the key is behind the new link, and lookups of it go there |
//! | all new branches have announced theirs | above | other keys behind the severed link are lost |

use libi_core::ids::LinkId;

use super::lookup::Requester;
use super::{KeyEntry, KeyStore, KvsRole, ValueLocation, chunks, kvs_role};
use crate::contract::Effect;
use crate::group::GroupView;
use crate::group::orphans::Replaced;
use crate::message::kvs::{KvsMessage, Version};

use bytes::Bytes;

/// A severed link, and the new links over which keys behind it are still to be announced.
#[derive(Debug)]
pub(super) struct MovingKeys {
    from: LinkId,
    awaited: Vec<LinkId>,
}

impl KeyStore {
    /// A link to a branch is closed, but what is behind it may come back.
    pub(crate) fn sever(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        self.partial.cut(link);
        self.early_queries.retain(|(from, ..)| *from != link);
        self.drop_requester(link, out);
    }

    /// No reply is wanted over a link.
    fn drop_requester(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let requester = Requester::Link(link, 0);
        for wait in [false, true] {
            let asked = self.lookups[usize::from(wait)].iter();
            let asked = asked.filter(|(_, lookup)| lookup.requesters.contains(&requester));
            for key in asked.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                self.cancel_query(&key, wait, requester, out);
            }
        }
    }

    /// Branches have been replaced.
    pub(crate) fn replace(&mut self, replaced: &[Replaced], view: &GroupView, out: &mut Vec<Effect>) {
        for Replaced { link, by } in replaced {
            for moving in &mut self.moving {
                if moving.awaited.contains(link) {
                    moving.awaited.retain(|awaited| awaited != link);
                    moving.awaited.extend(by);
                }
            }
            self.moving.push(MovingKeys { from: *link, awaited: by.clone() });
        }
        self.settle_moving(view, out);
    }

    /// All keys behind a link are announced, or it is closed.
    pub(super) fn announced_all(&mut self, link: LinkId, view: &GroupView, out: &mut Vec<Effect>) {
        self.moving.iter_mut().for_each(|moving| moving.awaited.retain(|awaited| *awaited != link));
        self.settle_moving(view, out);
    }

    /// Keys that are not announced again are lost.
    fn settle_moving(&mut self, view: &GroupView, out: &mut Vec<Effect>) {
        let (over, moving) =
            std::mem::take(&mut self.moving).into_iter().partition(|it| it.awaited.is_empty());
        self.moving = moving;
        let over: Vec<MovingKeys> = over;
        for MovingKeys { from, .. } in over {
            let behind = self.entries.iter().filter(|(_, entry)| entry.at == ValueLocation::Below(from));
            for key in behind.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
                self.value_lost(&key, view, out);
                self.resolve(&key, view, out);
            }
        }
    }

    /// The parent is another process now: it hears of all keys here and below, and of all lookups.
    pub(crate) fn announce_again(&mut self, view: &GroupView, out: &mut Vec<Effect>) {
        self.sever(LinkId::PARENT, out);
        if kvs_role(view) != KvsRole::Server {
            return;
        }
        for (key, KeyEntry { version, at, is_copy_of_below }) in &self.entries {
            let is_own = self.leaders.contains(&version.leader) && !self.fence.is_unfenced(key, *version);
            if is_own || *is_copy_of_below || matches!(at, ValueLocation::Below(_)) {
                let message = KvsMessage::AnnounceAgain { key: key.clone(), version: *version };
                chunks::send(LinkId::PARENT, message, Bytes::new(), out);
            }
        }
        chunks::send(LinkId::PARENT, KvsMessage::AnnouncedAll, Bytes::new(), out);
        for key in self.asked(LinkId::PARENT) {
            self.restart_query(&key, view, out);
        }
    }

    /// A key is announced that was known here, behind another link.
    pub(super) fn announced_again(
        &mut self,
        link: LinkId,
        key: String,
        version: Version,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        match self.entries.get_mut(&key) {
            Some(entry) if entry.version == version && entry.at != ValueLocation::Gone => {
                if matches!(entry.at, ValueLocation::Below(_)) {
                    entry.at = ValueLocation::Below(link);
                }
                self.resolve(&key, view, out);
                self.notify_parent(KvsMessage::AnnounceAgain { key, version }, view, out);
            }
            Some(entry) if entry.version > version && entry.at != ValueLocation::Gone => {}
            _ => self.announced(link, key, version, view, out),
        }
    }
}
