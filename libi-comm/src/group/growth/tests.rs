//! A session of few processes that grows, and what each program sees of it.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::machine::Machine;
use libi_core::topology::Branch;

use super::*;
use crate::contract::Event;
use crate::contract::{CallId, Completion, KeyScope, Outcome};
use crate::group::joining::Welcome;
use crate::group::kvs::Fences;
use crate::group::masters::Masters;
use crate::group::survival::{Arrived, Missing, Report};
use crate::message::Message;

const LINK: LinkId = LinkId(1);

fn ranks(ranks: &[u32]) -> Ranks {
    ranks.iter().copied().map(Rank).collect()
}

/// Processes, of which each has at most one branch, the next.
#[derive(Default)]
struct Chain {
    groups: Vec<Group>,
    /// Frames on their way, with the receiver and its link.
    frames: VecDeque<(usize, LinkId, Bytes)>,
    /// What programs are told.
    told: BTreeMap<usize, Vec<Effect>>,
    calls: u64,
}

impl Chain {
    fn add(&mut self, topology: Topology) -> usize {
        let mut group = Group::new();
        group.complete_by(Completion { continues: true, reconnects: true, ..Completion::default() });
        self.groups.push(group);
        let who = self.groups.len() - 1;
        self.tell(who, Event::Up(topology));
        who
    }

    fn tell(&mut self, who: usize, event: Event) {
        let mut out = Vec::new();
        self.groups[who].on(event, Instant::ZERO, &mut out);
        for effect in out {
            match effect {
                Effect::Send(LinkId::PARENT, frame) => self.frames.push_back((who - 1, LINK, frame.concat())),
                Effect::Send(_, frame) => self.frames.push_back((who + 1, LinkId::PARENT, frame.concat())),
                effect => self.told.entry(who).or_default().push(effect),
            }
        }
    }

    fn call(&mut self, who: usize, call: Call) -> CallId {
        self.calls += 1;
        self.tell(who, Event::Call(CallId(self.calls), call));
        CallId(self.calls)
    }

    fn run(&mut self) {
        while let Some((to, link, frame)) = self.frames.pop_front() {
            if to < self.groups.len() {
                self.tell(to, Event::Frame(link, frame));
            }
        }
    }

    /// What a program was told since the last time.
    fn told(&mut self, who: usize) -> Vec<String> {
        let told = self.told.remove(&who).unwrap_or_default();
        let is_news = |effect: &Effect| !matches!(effect, Effect::WakeAt(_) | Effect::Confirmed(_));
        told.iter().filter(|effect| is_news(effect)).map(|effect| format!("{effect:?}")).collect()
    }
}

fn topology(me: Option<u32>, size: u32, below: &[u32]) -> Topology {
    let branch = Branch { link: LINK, ranks: ranks(below), local: false };
    Topology {
        me: me.map(Rank),
        size,
        has_parent: me.is_some(),
        top: me == Some(0),
        branches: (!below.is_empty()).then_some(branch).into_iter().collect(),
        ..Topology::default()
    }
}

/// The front end, the top with rank 0, and a new host with rank 1; rank 2 is absent, and rank 3 does not
/// come.
fn grown() -> Chain {
    let mut chain = Chain::default();
    chain.add(topology(None, 1, &[0]));
    chain.add(topology(Some(0), 1, &[]));
    let put = Call::Put { key: "old".into(), value: "0".into(), scope: KeyScope::Local };
    chain.call(1, put);
    chain.run();
    chain.told.clear();
    for who in [0, 1] {
        chain.tell(who, Event::Grows { size: 4, absent: ranks(&[2]) });
    }
    chain.tell(1, Event::Joins { link: LINK, ranks: ranks(&[1]), local: false });
    chain.add(Topology { joins: true, absent: ranks(&[2]), ..topology(Some(1), 4, &[]) });
    chain.run();
    chain
}

#[test]
fn a_program_hears_of_the_growth_with_the_result_of_the_call_before() {
    let mut chain = grown();
    assert_eq!(chain.told(1), [""; 0], "it has not made the call before");
    assert_eq!(chain.told(2), ["Begins(1)", "Lost(Ranks { runs: [(3, 3)] }, None)"]);
    let early = chain.call(1, Call::Send { to: Address::Rank(Rank(1)), tag: 0, data: Bytes::new() });
    let error = CommError::NoSuchPeer(Address::Rank(Rank(1)));
    assert_eq!(chain.told(1), [format!("{:?}", Effect::Finish(early, Err(error)))]);
    let gather = |data: &'static str| Call::AllGather { data: data.into(), equal: true };
    let last = chain.call(1, gather("a"));
    let alone = Effect::Finish(last, Ok(Outcome::Parts(vec!["a".into()])));
    let grown = Effect::Grown { size: 4, absent: ranks(&[2]) };
    let expected = [grown, Effect::Lost(ranks(&[3]), None), Effect::Joined(ranks(&[1]), 1), alone];
    assert_eq!(chain.told(1), expected.map(|effect| format!("{effect:?}")));
    let calls = [(1, chain.call(1, gather("b"))), (2, chain.call(2, gather("c")))];
    chain.run();
    let parts = ["b", "c", "", ""].map(Bytes::from).to_vec();
    for (who, call) in calls {
        let result = Effect::Finish(call, Ok(Outcome::Parts(parts.clone())));
        let expected = [Effect::Missing(call, ranks(&[3])), result];
        assert_eq!(chain.told(who), expected.map(|effect| format!("{effect:?}")));
    }
}

#[test]
fn a_front_end_above_the_top_exchanges_messages_with_new_members_when_the_top_has_admitted_them() {
    let mut chain = grown();
    let grown = Effect::Grown { size: 4, absent: ranks(&[2]) };
    let expected = [grown, Effect::Joined(ranks(&[1]), 0)].map(|effect| format!("{effect:?}"));
    assert_eq!(chain.told(0), expected);
    chain.told.clear();
    let message = |to| Call::Send { to, tag: 7, data: "message".into() };
    chain.call(0, message(Address::Rank(Rank(1))));
    chain.call(2, message(Address::FrontEnd));
    let down = chain.call(2, Call::Receive { from: Address::FrontEnd, tag: 7 });
    let up = chain.call(0, Call::Receive { from: Address::Rank(Rank(1)), tag: 7 });
    let lost = chain.call(0, message(Address::Rank(Rank(3))));
    chain.run();
    let got = |call| format!("{:?}", Effect::Finish(call, Ok(Outcome::Data("message".into()))));
    assert!(chain.told(2).contains(&got(down)));
    let told = chain.told(0);
    assert!(told.contains(&got(up)), "{told:?}");
    let is_lost = |told: &String| told.starts_with(&format!("Finish({lost:?}, Err(PeerLost"));
    assert!(told.iter().any(is_lost), "{told:?}");
}

#[test]
fn a_new_host_finds_keys_and_its_own_are_found() {
    let mut chain = grown();
    chain.call(1, Call::Barrier);
    let old = chain.call(2, Call::Get { key: "old".into(), wait: false });
    for (key, scope) in [("new", KeyScope::Local), ("copy", KeyScope::Replicated)] {
        chain.call(2, Call::Put { key: key.into(), value: "1".into(), scope });
    }
    chain.call(1, Call::Fence);
    chain.call(2, Call::Fence);
    chain.run();
    let found = |call, value: &'static str| {
        format!("{:?}", Effect::Finish(call, Ok(Outcome::Found(Some(value.into())))))
    };
    assert!(chain.told(2).contains(&found(old, "0")));
    let gets = ["new", "copy"].map(|key| chain.call(1, Call::Get { key: key.into(), wait: false }));
    chain.run();
    let told = chain.told(1);
    assert!(gets.into_iter().all(|get| told.contains(&found(get, "1"))), "{told:?}");
}

#[test]
fn a_server_of_keys_that_is_new_has_passed_the_fences_of_the_process_above() {
    let mut chain = Chain::default();
    chain.add(topology(None, 1, &[0]));
    chain.add(topology(Some(0), 1, &[]));
    for _ in 0..3 {
        chain.call(1, Call::Fence);
    }
    chain.tell(1, Event::Grows { size: 2, absent: Ranks::new() });
    chain.tell(1, Event::Joins { link: LINK, ranks: ranks(&[1]), local: false });
    chain.add(Topology { joins: true, ..topology(Some(1), 2, &[]) });
    chain.run();
    let [above, new] = [1, 2].map(|who: usize| chain.groups[who].kvs.fences());
    assert_eq!((above.passed(), new), (3, above));
    // The fence of the call before its first one passes there as well.
    chain.call(1, Call::Fence);
    chain.run();
    assert_eq!(chain.groups[2].kvs.fences().passed(), 4);
}

#[test]
fn parts_for_the_ranks_before_do_not_go_into_a_call_that_has_more() {
    let mut chain = Chain::default();
    chain.add(topology(None, 2, &[0, 1]));
    chain.add(topology(Some(0), 2, &[1]));
    chain.add(topology(Some(1), 2, &[]));
    chain.tell(1, Event::Grows { size: 3, absent: Ranks::new() });
    let Some((2, link, halt)) = chain.frames.pop_front() else { panic!("no halt") };
    chain.tell(2, Event::Frame(link, halt));
    // It has reported that it knows of no call.
    let parts = vec![Bytes::new(); 2];
    chain.call(2, Call::AllToAll { parts: parts.clone(), equal: true });
    let later = chain.call(2, Call::AllToAll { parts: parts.clone(), equal: true });
    chain.run();
    chain.call(1, Call::AllToAll { parts, equal: true });
    chain.run();
    let told = chain.told(2);
    let error = CommError::WrongPartCount { given: 2, size: 3 };
    assert!(told.contains(&format!("{:?}", Effect::Finish(later, Err(error)))), "{told:?}");
}

#[test]
fn a_new_process_that_was_an_orphan_says_that_it_waits() {
    let mut chain = Chain::default();
    chain.add(Topology::default());
    let new = chain.add(Topology { joins: true, ..topology(Some(5), 8, &[6, 7]) });
    chain.tell(new, Event::Severed(LinkId::PARENT, Ranks::new(), None));
    chain.tell(new, Event::Reattached);
    chain.tell(new, Event::Frame(LinkId::PARENT, Message::Halt { round: 3, nth: 9 }.frame(None).concat()));
    let report =
        Report { joins: vec![Arrived { rounds: (0, 3), ranks: ranks(&[5, 6, 7]) }], ..Report::default() };
    let expected = [Message::AwaitsWelcome(ranks(&[5, 6, 7])), Message::Halted { nth: 9, report }];
    let sent: Vec<Bytes> = chain.frames.iter().map(|(.., frame)| frame.clone()).collect();
    assert_eq!(sent, expected.map(|message| message.frame(None).concat()));
}

#[test]
fn each_call_has_the_ranks_of_its_number_and_no_others_are_missing_in_it() {
    let mut joins = Joins::default();
    for (first, before) in [(4, 2), (4, 3), (7, 5)] {
        joins.grow(first, before);
    }
    joins.add(1, 7, ranks(&[6]));
    assert_eq!([3, 4, 6, 7].map(|nth| joins.growths.size_in(nth)), [Some(2), Some(5), Some(5), None]);
    assert_eq!(joins.earliest(), 7);
    let missing = Missing { ranks: ranks(&[1, 4, 5]), joins: joins.clone() };
    let in_calls = [3, 6, 7].map(|nth| missing.in_call(nth));
    assert_eq!(in_calls, [ranks(&[1]), ranks(&[1, 4]), ranks(&[1, 4, 5])]);
    joins.forget_before(5);
    assert_eq!((joins.growths.size_in(3), joins.is_empty()), (Some(5), false));
    joins.forget_before(8);
    assert!(joins.is_empty());
}

#[test]
fn a_host_that_came_below_an_orphan_is_welcome_with_it_if_the_plan_has_its_members() {
    for is_in_plan in [true, false] {
        let mut group = Group::new();
        group.complete_by(Completion { continues: true, reconnects: true, ..Completion::default() });
        let mut out = Vec::new();
        let welcome = Message::Welcome(Welcome {
            round: 2,
            ranks: if is_in_plan { ranks(&[5, 6]) } else { ranks(&[5]) },
            first: 3,
            missing: Missing::default(),
            settled: Vec::new(),
            before: Vec::new(),
            moved: Vec::new(),
            lost: if is_in_plan { Ranks::new() } else { ranks(&[6]) },
            losses: Vec::new(),
            size: 8,
            absent: Ranks::new(),
            fences: Fences::default(),
            masters: Masters::default(),
        });
        let frame = welcome.frame(None);
        for event in [
            Event::Up(Topology { joins: true, ..topology(Some(5), 8, &[]) }),
            Event::Severed(LinkId::PARENT, Ranks::new(), None),
            Event::Reattached,
            Event::Joins { link: LINK, ranks: ranks(&[6]), local: false },
            Event::Frame(LinkId::PARENT, frame.concat()),
        ] {
            group.on(event, Instant::ZERO, &mut out);
        }
        let is_passed_on = |effect: &Effect| matches!(effect, Effect::Send(LINK, sent) if *sent == frame);
        assert_eq!(out.iter().any(is_passed_on), is_in_plan, "{out:?}");
        let asks = Message::TreeChanged { round: 3 }.frame(None);
        let is_asked = |effect: &Effect| matches!(effect, Effect::Send(LinkId::PARENT, it) if *it == asks);
        assert_eq!(out.iter().any(is_asked), !is_in_plan, "{out:?}");
    }
}
