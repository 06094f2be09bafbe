//! Where everybody is, once the session is up: who is behind which link of this node, and who is nowhere.
//!
//! A node notes over which link it has heard last that a host has joined. That may be out of date above it when the
//! session goes up: what a node says of a lost child and the word that all is up may meet on their way. So it is
//! decided from above. Every node tells each child who is below it as far as is known here; a child that has lost some
//! of those in the meantime counts them as [lost](Tree::lost), and one that has somebody who is not expected there ends
//! him. Thus all trees fit together, whatever was on its way.
//!
//! From then on what the communication half says to others travels on the links of the tree, until they are
//! [cut](Effect::Cut): when nothing can come there any more, or nothing is to come.

use std::collections::BTreeMap;

use libi_core::ids::HostIndex;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::wire::{Flags, Header, Kind};

use super::{Effect, LinkId, Node, Role, Stage};
use crate::failure::Cause;
use crate::machine::contract::{Branch, Tree};
use crate::machine::message::{ChildMessage, ParentMessage, Roll};

/// The channel of the communication half.
const CHANNEL: u16 = 1;
/// How many runs of ranks go into one message, so that it stays below the limit of messages.
const RUNS_IN_A_MESSAGE: usize = 100_000;

/// Over which link each host has joined, in runs of neighbours.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// First of each run: its last, and the link.
    runs: BTreeMap<u32, (u32, LinkId)>,
}

impl Places {
    fn put(&mut self, HostIndex(host): HostIndex, link: LinkId) {
        self.take(HostIndex(host));
        let (mut first, mut last) = (host, host);
        if let Some((&start, &(end, of))) = self.runs.range(..host).next_back()
            && end + 1 == host
            && of == link
        {
            first = start;
        }
        if let Some(next) = host.checked_add(1)
            && let Some(&(end, of)) = self.runs.get(&next)
            && of == link
        {
            self.runs.remove(&next);
            last = end;
        }
        self.runs.insert(first, (last, link));
    }

    fn take(&mut self, HostIndex(host): HostIndex) {
        let Some((&first, &(last, link))) = self.runs.range(..=host).next_back() else { return };
        if host > last {
            return;
        }
        match host.checked_sub(1).filter(|_| first < host) {
            Some(before) => self.runs.insert(first, (before, link)),
            None => self.runs.remove(&first),
        };
        if host < last {
            self.runs.insert(host + 1, (last, link));
        }
    }

    /// Everybody behind this link is gone.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.runs.retain(|_, (_, of)| *of != link);
    }
}

impl Node {
    /// Notes where a host is, of which a child has said this.
    pub(super) fn note_place(&mut self, link: LinkId, news: &ChildMessage) {
        match news {
            ChildMessage::Joined(host, ..) if self.tasks.contains_key(host) => self.places.put(*host, link),
            ChildMessage::Failed(host, ..) | ChildMessage::Again(host, ..) => self.places.take(*host),
            _ => {}
        }
    }

    /// The session is up: tells everybody below, and the communication half, who is where. `top` is whether this node is
    /// above all members, or is the first of those that are; of the front end, nothing.
    pub(super) fn rise(
        &mut self,
        absent: Ranks,
        mut below: Ranks,
        top: Option<bool>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if let Some(me) = self.rank {
            below.remove_all(&[me].into_iter().collect());
        }
        let mut branches = self.branches(&below, now, out);
        branches.sort_by_key(|branch| branch.ranks.lowest());
        for branch in &branches {
            below.remove_all(&branch.ranks);
            let its_top = top.is_none() && branches.len() == 1;
            Self::send_roll(branch.link, &absent, &branch.ranks, its_top, out);
            if let Some(child) = self.children.get_mut(&branch.link) {
                child.talks = true;
            }
        }
        if let Role::Member(upstream) = &mut self.role {
            upstream.talks = true;
        }
        self.places = Places::default();
        out.push(Effect::Tree(Tree {
            me: self.rank,
            size: self.size,
            absent,
            has_parent: !self.is_front(),
            top: top.unwrap_or(branches.len() != 1),
            local: !self.is_front() && self.leads.is_none(),
            branches,
            lost: below,
        }));
    }

    /// The children that are in the session, and who is behind each. One that is not awaited there is ended.
    fn branches(&mut self, below: &Ranks, now: Instant, out: &mut Vec<Effect>) -> Vec<Branch> {
        let mut runs: BTreeMap<LinkId, Vec<(u32, u32)>> = BTreeMap::new();
        for (&first, &(last, link)) in &self.places.runs {
            let tasks = self.tasks.range(HostIndex(first)..=HostIndex(last));
            let blocks = tasks.flat_map(|(_, task)| &task.blocks);
            runs.entry(link).or_default().extend(blocks.map(|block| (block.first.0, block.count)));
        }
        for (&link, child) in self.children.iter().filter(|(_, child)| child.host().is_none()) {
            runs.entry(link).or_default().extend(child.rank().map(|rank| (rank.0, 1)));
        }
        runs.retain(|link, _| self.children.get(link).is_some_and(super::Child::is_up));
        let mut surplus = in_order(runs.values().flatten().copied().collect());
        surplus.remove_all(below);
        let mut branches = Vec::new();
        for (link, runs) in runs {
            let mut ranks = in_order(runs);
            ranks.remove_all(&surplus);
            let Some(child) = self.children.get(&link) else { continue };
            if child.rank().is_some_and(|rank| ranks.contains(rank)) {
                branches.push(Branch { link, ranks, local: child.host().is_none() });
            } else {
                self.end_by_force(link, Cause::Cancelled, now, out);
            }
        }
        branches
    }

    /// Tells a child that the session is up, and what it has to know of it.
    fn send_roll(link: LinkId, absent: &Ranks, below: &Ranks, top: bool, out: &mut Vec<Effect>) {
        let (mut absent, mut below) = (parts(absent), parts(below));
        loop {
            let roll = Roll {
                absent: absent.next().unwrap_or_default(),
                below: below.next().unwrap_or_default(),
                top,
                is_last: absent.len() == 0 && below.len() == 0,
            };
            let is_last = roll.is_last;
            Self::send(link, Kind::Control, &ParentMessage::Go(roll), out);
            if is_last {
                return;
            }
        }
    }

    /// Whether a frame is one of the communication half, as far as can be told from its header.
    pub(super) fn is_talk(header: Header) -> bool {
        header.kind() == Kind::Data && header.channel() == CHANNEL && header.flags() == Flags::NONE
    }

    /// Nothing more comes over a link, nor goes.
    pub(super) fn cut(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let talks = match (&mut self.role, link) {
            (Role::Member(upstream), LinkId::PARENT) => Some(&mut upstream.talks),
            _ => self.children.get_mut(&link).map(|child| &mut child.talks),
        };
        if talks.is_some_and(std::mem::take) {
            out.push(Effect::Cut(link));
        }
    }

    /// Where the rest of a long frame is to be put that is on its way on this link, and how much of that is still to come:
    /// no more than this may be appended, and [`Event::Landed`](super::Event::Landed) is to be told then. Nothing if bytes
    /// are to be [received](super::Event::Received) as always.
    pub fn landing(&mut self, link: LinkId) -> Option<(&mut Vec<u8>, usize)> {
        let reader = match (&mut self.role, link) {
            (Role::Member(upstream), LinkId::PARENT) if upstream.talks => &mut upstream.reader,
            _ => &mut self.children.get_mut(&link).filter(|child| child.talks)?.reader,
        };
        reader.landing()
    }

    /// Whether what comes from the parent may still hold a secret.
    #[must_use]
    pub fn may_hear_secrets(&self) -> bool {
        !self.was_up && self.stage < Stage::Up
    }
}

/// A set of the ranks in these runs: the first of each, and how many they are.
fn in_order(mut runs: Vec<(u32, u32)>) -> Ranks {
    runs.sort_unstable();
    let mut ranks = Ranks::new();
    runs.into_iter().for_each(|(first, count)| ranks.add_run(first, count));
    ranks
}

/// A set in parts that are short enough for a message.
fn parts(ranks: &Ranks) -> impl ExactSizeIterator<Item = Ranks> + use<> {
    let runs = Vec::from(ranks.clone());
    let parts: Vec<_> = runs
        .chunks(RUNS_IN_A_MESSAGE)
        // A part of what is in order is in order.
        .map(|part| Ranks::try_from(part.to_vec()).unwrap_or_default())
        .collect();
    parts.into_iter()
}

#[cfg(test)]
mod tests {
    use libi_core::dist::layout::Block;
    use libi_core::ids::Rank;
    use libi_core::join::{MemberRole, Nonce, SessionKey, Ticket};
    use libi_core::plan::late::{Attempt, Launch};

    use super::super::Child;
    use super::*;
    use crate::machine::child::State;
    use crate::machine::message::HostSpec;

    #[test]
    fn places_are_kept_in_runs_and_the_latest_word_on_each_host_holds() {
        let mut rng = libi_core::sim::rng::Rng::new(1);
        let (mut places, mut single) = (Places::default(), BTreeMap::new());
        for _ in 0..3_000 {
            let (host, link) = (rng.below(40) as u32, LinkId(1 + rng.below(3) as u32));
            match rng.below(20) {
                0 => {
                    places.forget(link);
                    single.retain(|_, of| *of != link);
                }
                1..6 => {
                    places.take(HostIndex(host));
                    single.remove(&host);
                }
                _ => {
                    places.put(HostIndex(host), link);
                    single.insert(host, link);
                }
            }
            let runs = places.runs.iter();
            let noted: BTreeMap<u32, LinkId> = runs
                .flat_map(|(&first, &(last, link))| (first..=last).map(move |host| (host, link)))
                .collect();
            assert_eq!(noted, single);
            let pairs: Vec<_> = places.runs.iter().collect();
            assert!(pairs.windows(2).all(|two| two[0].1.0 + 1 < *two[1].0 || two[0].1.1 != two[1].1.1));
        }
    }

    #[test]
    fn the_last_host_there_can_be_has_its_place() {
        let mut places = Places::default();
        for host in [u32::MAX, u32::MAX - 1, 0] {
            places.put(HostIndex(host), LinkId(1));
        }
        assert_eq!(places.runs.len(), 2);
        for host in [u32::MAX, u32::MAX - 1, 0] {
            places.take(HostIndex(host));
        }
        assert!(places.runs.is_empty());
    }

    /// The node of host 0, with hosts 1 to 3 behind links of the same numbers, rank 9 here, and host 4 below host 2.
    fn leader() -> Node {
        let mut node = Node::member(1, String::new(), 1);
        (node.rank, node.leads, node.size) = (Some(Rank(0)), Some(HostIndex(0)), 10);
        for number in 1..=4 {
            let block = Block { first: Rank(2 * number - 1), count: 2, distribution: 0 };
            let (host, attempt, name) = (HostIndex(number), Attempt::default(), String::new());
            let task = HostSpec {
                host,
                attempt,
                name,
                user: None,
                port: None,
                blocks: vec![block],
                below: 0,
                faults: 0,
            };
            node.tasks.insert(host, task);
            node.places.put(host, LinkId(if number == 4 { 2 } else { number }));
        }
        for number in [1, 2, 3, 5] {
            let host = (number < 5).then_some(HostIndex(number));
            let place = host.map_or(MemberRole::Local(Rank(9)), MemberRole::Leader);
            let launch = host.map(|host| Launch { host, attempt: Attempt::default() });
            let blocks = host.map_or(Vec::new(), |host| node.tasks[&host].blocks.clone());
            let ticket =
                Ticket { session: SessionKey(1), place, attempt: Attempt::default(), nonce: Nonce(1) };
            let mut child = Child::new(ticket, launch, blocks, Instant::ZERO, Instant::FAR_FUTURE);
            child.state = State::Up { joined: true };
            node.children.insert(LinkId(number), child);
        }
        node
    }

    fn rise(node: &mut Node, below: &Ranks) -> (Tree, Vec<LinkId>) {
        let mut out = Vec::new();
        node.rise(Ranks::new(), below.clone(), Some(true), Instant::ZERO, &mut out);
        let killed = out.iter().filter_map(|effect| match effect {
            Effect::Kill(link) => Some(*link),
            _ => None,
        });
        let killed = killed.collect();
        let tree = out.into_iter().find_map(|effect| match effect {
            Effect::Tree(tree) => Some(tree),
            _ => None,
        });
        (tree.unwrap(), killed)
    }

    fn branches(tree: &Tree) -> Vec<(u32, String)> {
        tree.branches.iter().map(|branch| (branch.link.0, branch.ranks.to_string())).collect()
    }

    #[test]
    fn a_tree_has_everybody_where_he_has_joined() {
        let (tree, killed) = rise(&mut leader(), &Ranks::first(10));
        let expected = [(1, "ranks 1-2"), (2, "ranks 3-4, 7-8"), (3, "ranks 5-6"), (5, "rank 9")]
            .map(|(link, ranks)| (link, ranks.to_owned()));
        assert_eq!(branches(&tree), expected);
        assert!(tree.lost.is_empty() && killed.is_empty());
    }

    #[test]
    fn who_is_not_awaited_is_ended_and_who_is_missing_is_lost() {
        let mut node = leader();
        node.children.remove(&LinkId(3));
        let mut below = Ranks::first(10);
        below.remove_all(&[1, 2, 7, 8].map(Rank).into_iter().collect());
        let (tree, killed) = rise(&mut node, &below);
        assert_eq!(branches(&tree), [(2, "ranks 3-4".to_owned()), (5, "rank 9".to_owned())]);
        assert_eq!((tree.lost.to_string(), killed), ("ranks 5-6".to_owned(), vec![LinkId(1)]));
    }

    #[test]
    fn a_roll_of_many_runs_travels_in_messages_that_are_short_enough() {
        let scattered: Ranks = (0..250_000).map(|number| Rank(u32::MAX - 2 * number)).collect();
        let mut out = Vec::new();
        Node::send_roll(LinkId(1), &scattered, &Ranks::first(7), true, &mut out);
        assert_eq!(out.len(), 3, "a message that is too long is not sent");
        out.clear();
        Node::send_roll(LinkId(1), &Ranks::new(), &Ranks::new(), false, &mut out);
        assert_eq!(out.len(), 1);
    }
}
