//! Single processes amid orphans: what they tell, and whom they wait for.

use libi_core::ids::Rank;
use libi_core::machine::Machine;
use libi_core::topology::Topology;

use super::*;
use crate::contract::{Completion, Event};
use crate::group::survival::{Arrived, Report};

#[test]
fn an_orphan_that_is_back_tells_what_was_lost_meanwhile() {
    let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank).collect::<Ranks>();
    let mut group = Group::new();
    group.complete_by(Completion { continues: true, reconnects: true, ..Completion::default() });
    let branch = Branch { link: LinkId(1), ranks: ranks(&[5]), local: true };
    let topology = Topology {
        me: Some(Rank(4)),
        size: 9,
        has_parent: true,
        branches: vec![branch],
        ..Topology::default()
    };
    let mut out = Vec::new();
    for event in
        [Event::Up(topology), Event::Severed(LinkId::PARENT, Ranks::new(), None), Event::Cut(LinkId(1), None)]
    {
        group.on(event, Instant::ZERO, &mut out);
    }
    let goes_up = |effect: &Effect| matches!(effect, Effect::Send(LinkId::PARENT, _));
    assert!(!out.iter().any(goes_up), "there is no parent: {out:?}");
    out.clear();
    group.on(Event::Reattached, Instant::ZERO, &mut out);
    let lost = Message::Lost { ranks: ranks(&[5]), before: u64::MAX, reason: None, joined: Vec::new() };
    let expected = [lost, Message::MovedWith(ranks(&[4, 5]))].map(|message| message.frame(None));
    let is_sent =
        |(effect, frame): (&Effect, _)| matches!(effect, Effect::Send(LinkId::PARENT, it) if it == frame);
    assert!(out.len() == 2 && out.iter().zip(&expected).all(is_sent), "{out:?}");
}

/// A branch has reported a new process in the place of a lost member, and dies. The process that leads this
/// member is back before the plan that names it.
#[test]
fn an_orphan_brings_the_members_that_join_with_the_next_plan() {
    let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank).collect::<Ranks>();
    let mut group = Group::new();
    group.complete_by(Completion { continues: true, reconnects: true, ..Completion::default() });
    let (dies, orphan, parent) = (LinkId(1), LinkId(7), LinkId::PARENT);
    let branches = vec![Branch { link: dies, ranks: ranks(&[5, 6, 7]), local: false }];
    let topology = Topology { me: Some(Rank(4)), size: 9, has_parent: true, branches, ..Topology::default() };
    let mut told = |event: Event| {
        let mut out = Vec::new();
        group.on(event, Instant::ZERO, &mut out);
        out
    };
    let arrives = |link: LinkId, message: Message| Event::Frame(link, message.frame(None).concat());
    let halted = |nth| Message::Halted {
        nth,
        report: Report { joins: vec![Arrived { rounds: (1, 1), ranks: ranks(&[7]) }], ..Report::default() },
    };
    let mut joins = Joins::default();
    joins.add(1, 0, ranks(&[7]));
    let plan = Plan { joins, size: 9, ..Plan::default() };
    let lost = Message::Lost { ranks: ranks(&[7]), before: u64::MAX, reason: None, joined: Vec::new() };
    let adoption = Adoption { link: orphan, instead_of: dies, ranks: ranks(&[6, 7]), place: 0 };
    for event in [
        Event::Up(topology),
        arrives(dies, lost),
        arrives(parent, Message::Halt { round: 1, nth: 1 }),
        arrives(dies, halted(1)),
        Event::Severed(dies, ranks(&[5]), None),
        Event::Adopted(adoption),
        arrives(parent, Message::Resume { round: 1, plan }),
        arrives(parent, Message::Halt { round: 2, nth: 2 }),
    ] {
        told(event);
    }
    let out = told(arrives(orphan, halted(2)));
    let goes_up = |effect: &Effect| matches!(effect, Effect::Send(LinkId::PARENT, _));
    assert!(out.iter().any(goes_up), "it waits for another: {out:?}");
}

/// Its parent has forgotten the members behind the link: it knows that all are lost. Others may be restarted
/// in their places.
#[test]
fn an_orphan_that_has_lost_all_of_its_members_is_in_the_next_round() {
    let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank).collect::<Ranks>();
    let mut group = Group::new();
    group.complete_by(Completion { continues: true, reconnects: true, ..Completion::default() });
    let topology = Topology { me: Some(Rank(4)), size: 9, has_parent: true, ..Topology::default() };
    let (link, parent) = (LinkId(7), LinkId::PARENT);
    let adoption = Adoption { link, instead_of: LinkId(1), ranks: ranks(&[5]), place: 3 };
    let mut told = |event: Event| {
        let mut out = Vec::new();
        group.on(event, Instant::ZERO, &mut out);
        out
    };
    told(Event::Up(topology));
    assert!(told(Event::Adopted(adoption)).is_empty(), "it may be a new one that awaits its welcome");
    let frame = |message: Message| message.frame(None);
    let arrives = |link: LinkId, message: Message| Event::Frame(link, frame(message).concat());
    let sends = |out: &[Effect], to: LinkId, message: Message| {
        let wanted = frame(message);
        out.iter().any(|effect| matches!(effect, Effect::Send(link, sent) if *link == to && *sent == wanted))
    };
    let out = told(arrives(link, Message::Confirm { number: 1 }));
    assert!(sends(&out, parent, Message::TreeChanged { round: 1 }), "{out:?}");
    let out = told(arrives(parent, Message::Halt { round: 1, nth: 1 }));
    assert!(sends(&out, link, Message::Halt { round: 1, nth: 1 }), "{out:?}");
}

/// The driver counts a host that has come below the orphan, with the rank of one that was awaited.
#[test]
fn of_the_members_of_an_orphan_those_are_lost_that_have_not_moved_with_it() {
    let ranks = |ranks: &[u32]| ranks.iter().copied().map(Rank).collect::<Ranks>();
    let mut group = Group::new();
    group.complete_by(Completion { continues: true, reconnects: true, ..Completion::default() });
    let (dies, orphan) = (LinkId(1), LinkId(7));
    let branches = vec![Branch { link: dies, ranks: ranks(&[5, 6, 7]), local: false }];
    let topology = Topology { me: Some(Rank(4)), size: 9, has_parent: true, branches, ..Topology::default() };
    let adoption = Adoption { link: orphan, instead_of: dies, ranks: ranks(&[6, 7]), place: 0 };
    let mut out = Vec::new();
    for event in [Event::Up(topology), Event::Severed(dies, ranks(&[5]), None), Event::Adopted(adoption)] {
        group.on(event, Instant::ZERO, &mut out);
    }
    out.clear();
    let moved = Message::MovedWith(ranks(&[6])).frame(None).concat();
    group.on(Event::Frame(orphan, moved), Instant::ZERO, &mut out);
    let lost = Message::Lost { ranks: ranks(&[7]), before: u64::MAX, reason: None, joined: Vec::new() };
    let lost = lost.frame(None);
    for to in [LinkId::PARENT, orphan] {
        let is_told =
            |effect: &Effect| matches!(effect, Effect::Send(link, it) if *link == to && *it == lost);
        assert!(out.iter().any(is_told), "{out:?}");
    }
}
