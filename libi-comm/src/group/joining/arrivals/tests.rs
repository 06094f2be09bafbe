//! Single processes to which hosts return with members of lost ones, and what they tell.

use bytes::Bytes;
use libi_core::ids::Rank;
use libi_core::machine::Machine;
use libi_core::topology::{Branch, Topology};

use super::*;
use crate::contract::{Completion, Event};
use crate::group::joining::Joins;
use crate::group::survival::{Arrived, Plan, Report};
use crate::message::Message;

const ABOVE: LinkId = LinkId::PARENT;
const NEW: LinkId = LinkId(7);

fn ranks(ranks: &[u32]) -> Ranks {
    ranks.iter().copied().map(Rank).collect()
}

fn lost(these: &[u32]) -> Message {
    Message::Lost { ranks: ranks(these), before: u64::MAX, reason: None, joined: Vec::new() }
}

fn halted(nth: u64, joins: Vec<Arrived>) -> Message {
    Message::Halted { nth, report: Report { joins, ..Report::default() } }
}

fn arrived(rounds: (u64, u64), these: &[u32]) -> Vec<Arrived> {
    vec![Arrived { rounds, ranks: ranks(these) }]
}

/// A process, and what it sends.
struct Process(Group);

impl Process {
    fn new(topology: Topology) -> Self {
        let mut group = Group::new();
        group.complete_by(Completion { continues: true, reconnects: true, ..Completion::default() });
        let mut process = Self(group);
        process.on(Event::Up(topology));
        process
    }

    /// Rank 4 of 9, somewhere in the tree.
    fn inner() -> Self {
        Self::new(Topology { me: Some(Rank(4)), size: 9, has_parent: true, ..Topology::default() })
    }

    fn on(&mut self, event: Event) -> Vec<(LinkId, Message)> {
        let mut out = Vec::new();
        self.0.on(event, Instant::ZERO, &mut out);
        let sent = out.into_iter().filter_map(|effect| match effect {
            Effect::Send(link, frame) => Some((link, frame.concat())),
            _ => None,
        });
        sent.filter_map(|(link, frame): (LinkId, Bytes)| Some((link, Message::decode(frame)?.0))).collect()
    }

    fn gets(&mut self, link: LinkId, message: &Message) -> Vec<(LinkId, Message)> {
        self.on(Event::Frame(link, message.frame(None).concat()))
    }

    fn joins(&mut self, these: &[u32]) -> Vec<(LinkId, Message)> {
        self.on(Event::Joins { link: NEW, ranks: ranks(these), local: false })
    }

    /// What is reported in a round.
    fn reports(&mut self, round: u64) -> Vec<Arrived> {
        let sent = self.gets(ABOVE, &Message::Halt { round, nth: round });
        let mut reports = sent.into_iter().filter_map(|(_, message)| match message {
            Message::Halted { report, .. } => Some(report.joins),
            _ => None,
        });
        reports.next().expect("it reports at once")
    }

    fn resumes(&mut self, round: u64, joins: Joins) -> Vec<(LinkId, Message)> {
        self.gets(ABOVE, &Message::Resume { round, plan: Plan { joins, size: 9, ..Plan::default() } })
    }
}

#[test]
fn a_host_is_reported_when_those_before_with_its_ranks_are_known_to_be_lost() {
    let mut process = Process::inner();
    assert_eq!(process.joins(&[5, 6]), [(ABOVE, Message::TreeChanged { round: 1 })]);
    process.gets(ABOVE, &lost(&[5]));
    assert_eq!(process.reports(1), [], "rank 6 may be somewhere else");
    let asks = process.gets(ABOVE, &lost(&[6]));
    assert!(asks.contains(&(ABOVE, Message::TreeChanged { round: 2 })), "{asks:?}");
    process.resumes(1, Joins::default());
    assert_eq!(process.reports(2), arrived((2, 2), &[5, 6]));
    process.resumes(2, Joins::default());
    assert_eq!(process.reports(3), arrived((2, 3), &[5, 6]));
}

#[test]
fn a_loss_that_no_other_process_tells_in_a_round_is_told_by_the_process_above_the_new_host() {
    let mut process = Process::inner();
    process.joins(&[5]);
    assert_eq!(process.reports(1), []);
    let sent = process.resumes(1, Joins::default());
    assert!(sent.contains(&(ABOVE, lost(&[5]))), "{sent:?}");
    assert_eq!(process.reports(2), arrived((2, 2), &[5]));
}

#[test]
fn a_host_that_is_lost_while_it_is_held_is_not_reported_and_its_members_are_not_lost_anew() {
    let mut process = Process::inner();
    process.joins(&[5]);
    process.on(Event::Cut(NEW, None));
    process.gets(ABOVE, &lost(&[5]));
    assert_eq!(process.reports(1), []);
    let mut joins = Joins::default();
    joins.add(1, 0, ranks(&[5]));
    let sent = process.resumes(1, joins);
    assert_eq!(sent, [], "rank 5 has joined elsewhere");
}

#[test]
fn a_host_waits_for_the_loss_of_one_with_its_ranks_that_a_plan_has_admitted_elsewhere() {
    let mut process = Process::inner();
    process.gets(ABOVE, &lost(&[5]));
    assert_eq!(process.reports(1), []);
    process.joins(&[5]);
    let mut joins = Joins::default();
    joins.add(1, 0, ranks(&[5]));
    let sent = process.resumes(1, joins.clone());
    let is_welcome =
        |(link, message): &(LinkId, Message)| *link == NEW && matches!(message, Message::Welcome(_));
    assert!(!sent.iter().any(is_welcome), "{sent:?}");
    assert_eq!(process.reports(2), []);
    let joined = vec![(Rank(5), 1)];
    let again = Message::Lost { ranks: ranks(&[5]), before: u64::MAX, reason: None, joined };
    process.gets(ABOVE, &again);
    process.resumes(2, joins);
    assert_eq!(process.reports(3), arrived((3, 3), &[5]));
    let mut joins = Joins::default();
    joins.add(3, 2, ranks(&[5]));
    let sent = process.resumes(3, joins);
    assert!(sent.iter().any(is_welcome), "{sent:?}");
}

#[test]
fn of_two_hosts_with_one_rank_in_a_round_the_top_admits_neither() {
    let (one, two) = (LinkId(1), LinkId(2));
    let branch = |link, these: &[u32]| Branch { link, ranks: ranks(these), local: false };
    let branches = vec![branch(one, &[1, 3]), branch(two, &[2])];
    let mut top =
        Process::new(Topology { me: Some(Rank(0)), size: 4, top: true, branches, ..Topology::default() });
    let admitted = |sent: &[(LinkId, Message)]| -> Vec<Ranks> {
        let plans = sent.iter().filter_map(|(_, message)| match message {
            Message::Resume { plan, .. } => Some(plan.joins.ranks()),
            _ => None,
        });
        plans.collect()
    };
    let sent = top.gets(one, &lost(&[3]));
    assert!(sent.contains(&(two, Message::Halt { round: 1, nth: 1 })), "{sent:?}");
    top.gets(one, &halted(1, arrived((1, 1), &[3])));
    let sent = top.gets(two, &halted(1, arrived((1, 1), &[3])));
    assert_eq!(admitted(&sent), [ranks(&[]), ranks(&[])]);
    assert!(sent.contains(&(two, Message::Halt { round: 2, nth: 2 })), "{sent:?}");
    top.gets(one, &halted(2, Vec::new()));
    let sent = top.gets(two, &halted(2, arrived((1, 2), &[3])));
    assert_eq!(admitted(&sent), [ranks(&[3]), ranks(&[3])]);
    let branches = &top.0.view.topology.branches;
    let behind: Vec<&Ranks> = branches.iter().map(|branch| &branch.ranks).collect();
    assert_eq!(behind, [&ranks(&[1]), &ranks(&[2, 3])]);
}

#[test]
fn a_host_that_is_lost_below_one_that_waits_is_not_among_those_that_wait() {
    let below = Branch { link: LinkId(2), ranks: ranks(&[6]), local: false };
    let local = Branch { link: LinkId(3), ranks: ranks(&[7]), local: true };
    let topology = Topology {
        me: Some(Rank(5)),
        size: 9,
        has_parent: true,
        joins: true,
        branches: vec![below, local],
        ..Topology::default()
    };
    let mut new = Process::new(topology);
    assert_eq!(new.on(Event::Cut(LinkId(3), None)), [], "another one may come in its place here only");
    assert_eq!(new.on(Event::Cut(LinkId(2), None)), [(ABOVE, Message::AwaitsWelcome(ranks(&[5, 7])))]);
    let mut above = Process::inner();
    above.gets(ABOVE, &lost(&[5, 6, 7]));
    above.joins(&[5, 6, 7]);
    assert_eq!(above.reports(1), arrived((1, 1), &[5, 6, 7]));
    above.resumes(1, Joins::default());
    above.gets(NEW, &Message::AwaitsWelcome(ranks(&[5, 7])));
    assert_eq!(above.reports(2), arrived((1, 2), &[5, 7]));
}
