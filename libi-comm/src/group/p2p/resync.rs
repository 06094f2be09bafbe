//! Makes good what was lost of messages when the route between two processes has changed.
//!
//! Every process hears at the same place in the order of frames which [members have moved](super::super::orphans),
//! in the round of a halt. Two processes of which one has moved, and not the other, then say to each other
//! what has arrived, each in one `Resync`, and go on from there:
//!
//! | state of a peer | event | next state |
//! |---|---|---|
//! | in step | it has moved, or this process | `Awaited`; `Resync` goes out, at once if it has sent or received anything, else before the next frame |
//! | `Awaited` | a frame of it, which may have overtaken a lost one | dropped |
//! | `Awaited` | this process sends a message | kept, and sent with the others |
//! | `Awaited` | its `Resync` of this round | in step; what has not arrived there is sent again |
//! | `Awaited` | an older `Resync` | dropped: a newer one follows |
//!
//! For that a sender keeps an eager message until it knows that it has arrived, so no more than
//! [`EAGER_LIMIT`](super::send_queue::EAGER_LIMIT) for each receiver, and any other until it was taken.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use libi_core::ranks::Ranks;

use super::{P2pContext, PointToPoint};
use crate::contract::{Address, Effect};
use crate::group::GroupView;
use crate::message::p2p::{Arrivals, P2pMessage};

/// The processes with which this one is not in step.
#[derive(Debug, Default)]
pub(super) struct Resyncs {
    /// Those from which a `Resync` of this round is awaited.
    awaited: PeersByRound,
    /// Those to which one is sent before the next frame. They have sent nothing, and received nothing.
    owed: PeersByRound,
}

/// Sets of processes, each with a round; a process is in one of them at most.
#[derive(Debug, Default)]
struct PeersByRound(Vec<(u64, Peers)>);

/// A set of processes.
#[derive(Clone, Debug, Default)]
struct Peers {
    ranks: Ranks,
    front_end: bool,
}

impl Peers {
    fn contains(&self, who: Address) -> bool {
        match who {
            Address::FrontEnd => self.front_end,
            Address::Rank(rank) => self.ranks.contains(rank),
        }
    }

    fn remove_all(&mut self, others: &Self) {
        self.ranks.remove_all(&others.ranks);
        self.front_end &= !others.front_end;
    }
}

impl From<Address> for Peers {
    fn from(who: Address) -> Self {
        let rank = if let Address::Rank(rank) = who { Some(rank) } else { None };
        Self { ranks: rank.into_iter().collect(), front_end: who == Address::FrontEnd }
    }
}

impl PeersByRound {
    fn round(&self, who: Address) -> Option<u64> {
        self.0.iter().find(|(_, peers)| peers.contains(who)).map(|(round, _)| *round)
    }

    fn remove(&mut self, these: &Peers) {
        self.0.iter_mut().for_each(|(_, peers)| peers.remove_all(these));
        self.0.retain(|(_, peers)| peers.front_end || !peers.ranks.is_empty());
    }

    fn add(&mut self, round: u64, peers: Peers) {
        self.remove(&peers);
        self.0.push((round, peers));
    }
}

impl Resyncs {
    /// Whether a process may have sent what has not arrived.
    pub(super) fn awaits(&self, who: Address) -> bool {
        !self.awaited.0.is_empty() && self.awaited.round(who).is_some()
    }

    /// The round of the `Resync` that is sent before the next frame to a process, if there is one.
    pub(super) fn take_owed(&mut self, who: Address) -> Option<u64> {
        if self.owed.0.is_empty() {
            return None;
        }
        let round = self.owed.round(who)?;
        self.owed.remove(&who.into());
        Some(round)
    }

    /// A `Resync` of this round has arrived. False if it is too old, or not awaited.
    fn arrived(&mut self, from: Address, round: u64) -> bool {
        let is_awaited = self.awaited.round(from).is_some_and(|awaited| awaited <= round);
        if is_awaited {
            self.awaited.remove(&from.into());
        }
        is_awaited
    }

    /// These members are lost.
    pub(super) fn lost(&mut self, ranks: &Ranks) {
        let peers = Peers { ranks: ranks.clone(), front_end: false };
        self.awaited.remove(&peers);
        self.owed.remove(&peers);
    }
}

/// All processes whose route from here changes when these members move.
fn affected(moved: &Ranks, view: &GroupView) -> Peers {
    match view.topology.me {
        Some(me) if moved.contains(me) => {
            let mut ranks = Ranks::first(view.topology.size);
            ranks.remove_all(moved);
            Peers { ranks, front_end: true }
        }
        _ => Peers { ranks: moved.clone(), front_end: false },
    }
}

impl PointToPoint {
    /// The routes of these members have changed, in this round. Others are new in it.
    pub(crate) fn moved(
        &mut self,
        round: u64,
        moved: &[Ranks],
        new: &Ranks,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        // An agent has no messages of its own.
        if view.topology.me.is_none() && !view.topology.is_front_end() {
            return;
        }
        let mut to_tell = BTreeSet::new();
        for moved in moved {
            let mut peers = affected(moved, view);
            peers.remove_all(&Peers { ranks: view.lost.clone(), front_end: false });
            peers.remove_all(&Peers { ranks: new.clone(), front_end: false });
            let known = self.sends.receivers().chain(self.receives.senders());
            to_tell.extend(known.filter(|who| peers.contains(*who)));
            self.resyncs.awaited.add(round, peers.clone());
            self.resyncs.owed.add(round, peers);
        }
        for who in to_tell {
            if self.resyncs.take_owed(who).is_some() {
                let message = P2pMessage::Resync { round, arrived: self.receives.arrivals(who) };
                self.context(view, out).2.control(who, message);
            }
        }
    }

    /// A process says what has arrived there.
    pub(super) fn on_resync(
        &mut self,
        from: Address,
        round: u64,
        arrived: &Arrivals,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) {
        if !self.resyncs.arrived(from, round) {
            return;
        }
        let (sends, _, mut ctx) = self.context(view, out);
        ctx.settle_owed(from);
        sends.resync(from, arrived, &mut ctx);
    }
}

impl P2pContext<'_> {
    /// Tells a process that nothing has arrived from it, if that is owed.
    pub(super) fn settle_owed(&mut self, who: Address) {
        if let Some(round) = self.resyncs.take_owed(who) {
            self.control(who, P2pMessage::Resync { round, arrived: Arrivals::default() });
        }
    }

    /// Whether a message to a process has to wait for its `Resync`.
    pub(super) fn is_held(&self, to: Address, message: &P2pMessage) -> bool {
        matches!(message, P2pMessage::Eager { .. } | P2pMessage::Offer { .. }) && self.resyncs.awaits(to)
    }
}

/// A message that may have to be sent again.
#[derive(Clone, Debug)]
pub(super) struct KeptMessage {
    pub(super) tag: u32,
    pub(super) data: Bytes,
    /// Whether it was sent at once. Another was offered, and its send is complete.
    pub(super) is_eager: bool,
}

/// The messages that a process has sent and may have to send again, by receiver and number.
#[derive(Debug, Default)]
pub(super) struct KeptMessages(BTreeMap<(Address, u64), KeptMessage>);

impl KeptMessages {
    pub(super) fn add(&mut self, to: Address, id: u64, kept: KeptMessage) {
        self.0.insert((to, id), kept);
    }

    pub(super) fn remove(&mut self, to: Address, id: u64) -> Option<KeptMessage> {
        self.0.remove(&(to, id))
    }

    /// The numbers of the messages to a receiver.
    pub(super) fn ids(&self, to: Address) -> impl Iterator<Item = u64> {
        self.0.range((to, 0)..=(to, u64::MAX)).map(|((_, id), _)| *id)
    }

    pub(super) fn get(&self, to: Address, id: u64) -> Option<&KeptMessage> {
        self.0.get(&(to, id))
    }

    /// Eager messages up to this number have arrived.
    pub(super) fn have_arrived(&mut self, to: Address, newest: u64) {
        let arrived: Vec<u64> = self
            .0
            .range((to, 0)..=(to, newest))
            .filter(|(_, kept)| kept.is_eager)
            .map(|((_, id), _)| *id)
            .collect();
        arrived.into_iter().for_each(|id| drop(self.0.remove(&(to, id))));
    }

    pub(super) fn receivers(&self) -> impl Iterator<Item = Address> {
        self.0.keys().map(|(to, _)| *to)
    }

    pub(super) fn lost(&mut self, among: &dyn Fn(Address) -> bool) {
        self.0.retain(|(to, _), _| !among(*to));
    }
}

#[cfg(test)]
mod tests {
    use libi_core::ids::{LinkId, Rank};
    use libi_core::topology::{Branch, Topology};

    use super::*;
    use crate::message::Message;
    use crate::message::p2p::{Envelope, PartialArrival};

    const ONE: Address = Address::Rank(Rank(1));
    const TWO: Address = Address::Rank(Rank(2));

    fn peers(ranks: &[u32], front_end: bool) -> Peers {
        Peers { ranks: ranks.iter().copied().map(Rank).collect(), front_end }
    }

    #[test]
    fn a_resync_of_an_older_round_is_not_the_one_that_is_awaited() {
        let mut resyncs = Resyncs::default();
        resyncs.awaited.add(3, peers(&[1, 2], true));
        resyncs.awaited.add(5, peers(&[2], false));
        assert!(!resyncs.arrived(TWO, 3) && resyncs.awaits(TWO));
        assert!(resyncs.arrived(ONE, 3) && !resyncs.awaits(ONE));
        assert!(resyncs.arrived(TWO, 5) && !resyncs.arrived(TWO, 5), "one is enough");
        assert!(resyncs.awaits(Address::FrontEnd));
        resyncs.lost(&peers(&[1, 2], false).ranks);
        assert!(resyncs.arrived(Address::FrontEnd, 4) && resyncs.awaited.0.is_empty());
    }

    #[test]
    fn what_is_owed_is_said_once() {
        let mut resyncs = Resyncs::default();
        assert_eq!(resyncs.take_owed(ONE), None);
        resyncs.owed.add(1, peers(&[1], false));
        resyncs.owed.add(2, peers(&[1, 2], false));
        assert_eq!([ONE, ONE, TWO].map(|who| resyncs.take_owed(who)), [Some(2), None, Some(2)]);
    }

    #[test]
    fn eager_messages_are_kept_until_they_have_arrived_and_others_until_they_are_taken() {
        let mut kept = KeptMessages::default();
        for (to, id, is_eager) in [(ONE, 1, true), (ONE, 2, false), (ONE, 4, true), (TWO, 3, true)] {
            kept.add(to, id, KeptMessage { tag: 0, data: Bytes::new(), is_eager });
        }
        kept.have_arrived(ONE, 3);
        assert_eq!(kept.ids(ONE).collect::<Vec<_>>(), [2, 4]);
        assert!(kept.remove(ONE, 2).is_some() && kept.get(TWO, 3).is_some());
        kept.lost(&|who| who == TWO);
        assert_eq!(kept.receivers().collect::<Vec<_>>(), [ONE]);
    }

    #[test]
    fn a_message_that_was_withdrawn_meanwhile_is_withdrawn_again() {
        let branch = Branch { link: LinkId(3), ranks: peers(&[1], false).ranks, local: false };
        let view = GroupView::new(Topology { size: 2, branches: vec![branch], ..Topology::default() });
        let (mut p2p, mut out) = (PointToPoint::default(), Vec::new());
        p2p.moved(4, &[peers(&[1], false).ranks], &Ranks::new(), &view, &mut out);
        let parts = vec![PartialArrival { id: 7, tag: 2, pulled: None }];
        let arrived = Arrivals { newest: 7, consumed: 0, parts };
        p2p.on_resync(ONE, 4, &arrived, &view, &mut out);
        let said = |message| Envelope { from: Address::FrontEnd, to: ONE, message };
        let own = P2pMessage::Resync { round: 4, arrived: Arrivals::default() };
        let expected = [own, P2pMessage::Withdrawn { id: 7, tag: 2 }];
        let expected = expected.map(|message| Message::P2p(said(message)).frame(None));
        let sent: Vec<_> = out
            .into_iter()
            .map(|effect| match effect {
                Effect::Send(LinkId(3), frame) => frame,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(sent, expected);
    }
}
