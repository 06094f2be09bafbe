//! Groups connected by queues: every operation on trees of several shapes, and every failure.

mod cluster;
mod local;

use super::*;
use crate::contract::{Address, Outcome, RingPosition};
use crate::error::AbortCause;
use crate::memory::REGION_MIN;
use crate::message::{Kind, Length};
use crate::reduce::{Element, Op, Reducer};
use cluster::{Carried, Cluster, bytes, each};
use libi_core::ids::Rank;
use libi_core::sim::rng::Rng;
use libi_core::topology::{Branch, Topology};

const LENGTHS: [usize; 5] = [0, 1, 777, 9_000, 300_001];

#[test]
fn a_broadcast_gives_every_member_the_data_of_the_root() {
    each(|size, cluster| {
        for length in LENGTHS {
            for root in [0, size / 2, size - 1] {
                let data = |who| (who == root).then(|| bytes(root, length));
                let root = Rank(root as u32);
                let call = |who| Call::Broadcast { root, data: data(who), length: None };
                let expected = vec![Ok(Outcome::Data(bytes(root.0 as usize, length))); size];
                assert!(cluster.all(size, call) == expected, "{size} {length} {root}");
            }
        }
        assert!(cluster.groups.iter().all(Group::is_idle));
    });
}

#[test]
fn members_of_a_host_get_large_broadcasts_in_shared_memory() {
    // 0 leads 1 to 3, 4 leads 5 and 6.
    let parent = |rank| if rank > 4 { 4 } else { 0 };
    let local = |rank| rank != 0 && rank != 4;
    for (root, borrowers) in [(0, 5), (4, 5), (1, 4), (6, 4)] {
        let mut cluster = Cluster::with_hosts(7, root as u64, parent, local);
        for (length, lent) in [(REGION_MIN as usize - 1, 0), (REGION_MIN as usize, borrowers)] {
            let data = |who| (who == root).then(|| bytes(root, length));
            let call = |who| Call::Broadcast { root: Rank(root as u32), data: data(who), length: None };
            assert!(cluster.all(7, call) == vec![Ok(Outcome::Data(bytes(root, length))); 7]);
            assert_eq!(cluster.lent, lent, "{root} {length}");
        }
        assert!(cluster.groups.iter().all(Group::is_idle));
    }
}

#[test]
fn a_gather_gives_the_root_all_parts_and_a_scatter_gives_each_member_its_own() {
    each(|size, cluster| {
        for length in LENGTHS {
            for root in [0, size - 1] {
                let own = |who: usize| bytes(who, length * (who % 3));
                let root_rank = Rank(root as u32);
                let gathered =
                    cluster.all(size, |who| Call::Gather { root: root_rank, data: own(who), equal: false });
                let all: Vec<_> = (0..size).map(own).collect();
                for (who, result) in gathered.into_iter().enumerate() {
                    let expected = if who == root { all.clone() } else { Vec::new() };
                    assert!(result == Ok(Outcome::Parts(expected)));
                }
                let parts = |who: usize| (who == root).then(|| all.clone());
                let scattered = cluster.all(size, |who| Call::Scatter {
                    root: root_rank,
                    parts: parts(who),
                    length: None,
                });
                let expected: Vec<_> = all.iter().map(|part| Ok(Outcome::Data(part.clone()))).collect();
                assert!(scattered == expected);
            }
        }
    });
}

#[test]
fn an_allgather_gives_every_member_all_parts() {
    each(|size, cluster| {
        for length in [0, 64, 20_000] {
            let own = |who: usize| bytes(who, length + who % 2);
            let expected = vec![Ok(Outcome::Parts((0..size).map(own).collect())); size];
            assert!(cluster.all(size, |who| Call::AllGather { data: own(who), equal: false }) == expected);
            let part = |from: usize, to: usize| bytes(from * 100 + to, length.min(2_000));
            let call =
                |who| Call::AllToAll { parts: (0..size).map(|to| part(who, to)).collect(), equal: true };
            for (who, result) in cluster.all(size, call).into_iter().enumerate() {
                assert!(result == Ok(Outcome::Parts((0..size).map(|from| part(from, who)).collect())));
            }
        }
    });
}

#[test]
fn values_are_combined_whatever_the_tree() {
    each(|size, cluster| {
        for elements in [0usize, 1, 10_000] {
            let own =
                |who: usize| (0..elements).flat_map(|at| (who * 3 + at).to_ne_bytes()).collect::<Bytes>();
            let reducer = Reducer::Elements(Op::Sum, Element::U64);
            let sum: Bytes = (0..elements)
                .flat_map(|at| ((size * (size - 1) / 2) * 3 + at * size).to_ne_bytes())
                .collect();
            let call = |who| Call::Reduce { to: None, data: own(who), reducer: reducer.clone() };
            assert!(cluster.all(size, call) == vec![Ok(Outcome::Data(sum.clone())); size]);
            let to = Some(Rank(size as u32 - 1));
            let results =
                cluster.all(size, |who| Call::Reduce { to, data: own(who), reducer: reducer.clone() });
            for (who, result) in results.into_iter().enumerate() {
                let expected = if who == size - 1 { Outcome::Data(sum.clone()) } else { Outcome::Done };
                assert!(result == Ok(expected));
            }
        }
        // The order of ranks is kept, and the function need only be associative.
        let joined: String = (0..size).map(|who| format!("<{who}>")).collect();
        let reducer = Reducer::by(Vec::extend_from_slice);
        let call = |who| Call::Reduce { to: None, data: format!("<{who}>").into(), reducer: reducer.clone() };
        assert_eq!(cluster.all(size, call), vec![Ok(Outcome::Data(joined.clone().into())); size]);
    });
}

#[test]
fn a_scan_combines_lower_ranks_in_their_order_whatever_the_tree() {
    each(|size, cluster| {
        for inclusive in [false, true] {
            let lower = |who: usize| who + usize::from(inclusive);
            let expected = |who: usize, data: Bytes| {
                Ok(if lower(who) > 0 { Outcome::Data(data) } else { Outcome::Done })
            };
            for elements in [0usize, 1, 20_000] {
                let own =
                    |who: usize| (0..elements).flat_map(|at| (who * 3 + at).to_ne_bytes()).collect::<Bytes>();
                let sum = |n: usize| {
                    (0..elements).flat_map(|at| ((0..n).sum::<usize>() * 3 + at * n).to_ne_bytes()).collect()
                };
                let reducer = Reducer::Elements(Op::Sum, Element::U64);
                let call = |who| Call::Scan { inclusive, data: own(who), reducer: reducer.clone() };
                let wanted: Vec<_> = (0..size).map(|who| expected(who, sum(lower(who)))).collect();
                assert!(cluster.all(size, call) == wanted, "{size} {elements}");
            }
            let joined = |n: usize| (0..n).map(|who| format!("<{who}>")).collect::<String>();
            let reducer = Reducer::by(Vec::extend_from_slice);
            let value = |who| format!("<{who}>").into();
            let call = |who| Call::Scan { inclusive, data: value(who), reducer: reducer.clone() };
            let wanted: Vec<_> = (0..size).map(|who| expected(who, joined(lower(who)).into())).collect();
            assert_eq!(cluster.all(size, call), wanted);
        }
        assert!(cluster.groups.iter().all(Group::is_idle));
    });
}

#[test]
fn a_ring_closes_and_takes_two_messages_on_each_link() {
    each(|size, cluster| {
        cluster.frames.clear();
        let call = |who: usize| Call::Ring {
            count: who as u64 + 1,
            left: format!("left of {who}").into(),
            right: format!("right of {who}").into(),
        };
        let results = cluster.all(size, call);
        let mut places: Vec<(RingPosition, usize)> = results
            .into_iter()
            .enumerate()
            .map(|(who, result)| match result {
                Ok(Outcome::Ring(view)) => (view, who),
                other => panic!("{other:?}"),
            })
            .collect();
        places.sort_by_key(|(view, _)| view.rank);
        let mut before = 0;
        for (nth, (view, who)) in places.iter().enumerate() {
            let left = places[(nth + size - 1) % size].1;
            let right = places[(nth + 1) % size].1;
            assert_eq!((view.rank as usize, view.size as usize, view.before), (nth, size, before));
            assert_eq!(view.left, format!("right of {left}"));
            assert_eq!(view.right, format!("left of {right}"));
            before += *who as u64 + 1;
        }
        assert!(cluster.frames.values().all(|frames| *frames == 1), "{:?}", cluster.frames);
    });
}

#[test]
fn a_barrier_completes_for_no_member_before_the_last_one_enters() {
    each(|size, cluster| {
        cluster.frames.clear();
        let early: Vec<_> = (0..size - 1).map(|who| cluster.call(who, Call::Barrier)).collect();
        cluster.run();
        assert!(early.iter().all(|id| !cluster.results.contains_key(id)));
        let last = cluster.call(size - 1, Call::Barrier);
        cluster.run();
        assert!(early.iter().chain([&last]).all(|id| cluster.results[id] == Ok(Outcome::Done)));
        assert_eq!(cluster.frames.len(), 2 * (size - 1));
        assert!(cluster.frames.values().all(|frames| *frames == 1));
    });
}

#[test]
fn a_mismatch_is_reported_to_all_members_in_this_call_or_the_next() {
    each(|size, cluster| {
        if size < 2 {
            return;
        }
        let odd = size / 2;
        let call = |who| {
            if who == odd {
                Call::Gather { root: Rank(0), data: bytes(1, 200_000), equal: true }
            } else {
                Call::Broadcast { root: Rank(0), data: (who == 0).then(|| bytes(2, 500_000)), length: None }
            }
        };
        let is_mismatch = |result: &Result<Outcome, CommError>| {
            let Err(CommError::Mismatch { nth: 0, one, other }) = result else { return false };
            let [one, other] = [one, other].map(|(rank, called)| (rank.0 as usize == odd, called.kind));
            assert!(one.0 != other.0, "{one:?} {other:?}");
            for (is_odd, kind) in [one, other] {
                assert_eq!(kind, if is_odd { Kind::Gather } else { Kind::Broadcast });
            }
            true
        };
        let first = cluster.all(size, call);
        assert!(is_mismatch(&first[odd]));
        if !first.iter().all(is_mismatch) {
            assert!(!cluster.completion.strict);
            let second = cluster.all(size, |_| Call::Barrier);
            assert!(second.iter().all(is_mismatch), "the same call fails at all");
        }
        assert_eq!(cluster.all(size, |_| Call::Barrier), vec![Ok(Outcome::Done); size]);
        assert!(cluster.groups.iter().all(Group::is_idle));
    });
}

#[test]
fn a_cancelled_collective_call_names_its_canceller_and_the_next_succeeds() {
    each(|size, cluster| {
        let ids: Vec<_> = (1..size).map(|who| cluster.call(who, Call::Barrier)).collect();
        cluster.run();
        let Some(&first) = ids.first() else { return };
        cluster.tell(1, Event::Cancel(first));
        cluster.run();
        for id in &ids[1..] {
            assert_eq!(cluster.results[id], Err(CommError::Cancelled { nth: 0, by: Rank(1) }));
        }
        let late = cluster.call(0, Call::Barrier);
        assert_eq!(cluster.results[&late], Err(CommError::Cancelled { nth: 0, by: Rank(1) }));
        assert_eq!(cluster.all(size, |_| Call::Barrier), vec![Ok(Outcome::Done); size]);
    });
}

#[test]
fn a_lost_member_is_named_in_current_and_later_calls() {
    let mut cluster = Cluster::new(7, 1, |rank| (rank - 1) / 2);
    assert_eq!(cluster.all(7, |_| Call::Barrier), vec![Ok(Outcome::Done); 7]);
    let waiting: Vec<_> = [0, 1, 3, 4].map(|who| cluster.call(who, Call::Barrier)).into();
    cluster.run();
    let link = cluster.back[&(0, 2)];
    cluster.tell(0, Event::Cut(link, None));
    cluster.run();
    let ranks: Ranks = [2, 5, 6].map(Rank).into_iter().collect();
    let lost = Err(CommError::lost(ranks.clone()));
    assert!(waiting.iter().all(|id| cluster.results[id] == lost));
    let later = cluster.call(3, Call::Fence);
    assert_eq!(cluster.results[&later], lost);
    assert_eq!(cluster.groups[7].view.lost, ranks, "the front end knows");
}

#[test]
fn ranks_lost_on_the_way_up_are_missing_in_the_first_call() {
    let mut group = Group::new();
    let mut out = Vec::new();
    let barrier = CallId(1);
    group.on(Event::Call(barrier, Call::Barrier), Instant::ZERO, &mut out);
    let lost: Ranks = [1, 2].map(Rank).into_iter().collect();
    let link = LinkId(1);
    let branch = Branch { link, ranks: [Rank(3)].into_iter().collect(), local: false };
    let (me, size) = (Some(Rank(0)), 4);
    let branches = vec![branch];
    let topology = Topology { me, size, top: true, branches, lost: lost.clone(), ..Topology::default() };
    group.on(Event::Up(topology), Instant::ZERO, &mut out);
    let finished = out.iter().find_map(|effect| match effect {
        Effect::Finish(id, result) if *id == barrier => Some(result.clone()),
        _ => None,
    });
    assert_eq!(finished, Some(Err(CommError::lost(lost.clone()))));
    assert!(out.iter().any(|effect| matches!(effect, Effect::Lost(ranks, None) if *ranks == lost)));
    let told: Vec<_> = out.iter().filter(|effect| matches!(effect, Effect::Send(..))).collect();
    assert!(matches!(told[..], [Effect::Send(to, _)] if *to == link), "{told:?}");
}

#[test]
fn data_sent_before_a_loss_still_complete_their_call() {
    let mut cluster = Cluster::new(3, 5, |rank| rank - 1);
    let call = |who: usize| Call::Gather { root: Rank(0), data: bytes(who, 100), equal: true };
    let ids = [2, 1].map(|who| cluster.call(who, call(who)));
    cluster.run();
    let link = cluster.back[&(1, 2)];
    cluster.tell(1, Event::Cut(link, None));
    cluster.run();
    let root = cluster.call(0, call(0));
    cluster.run();
    assert_eq!(cluster.results[&root], Ok(Outcome::Parts((0..3).map(|who| bytes(who, 100)).collect())));
    assert_eq!(cluster.results[&ids[1]], Ok(Outcome::Parts(Vec::new())));
}

/// What other members read of the first call when this one has failed in it.
fn failed(by: u32, why: &CommError) -> CommError {
    CommError::Failed { nth: 0, by: Some(Rank(by)), why: why.to_string() }
}

#[test]
fn a_call_with_invalid_arguments_fails_at_the_other_members_with_the_reason() {
    let mut cluster = Cluster::new(3, 5, |_| 0);
    let results =
        cluster.all(3, |who| Call::AllToAll { parts: vec![Bytes::new(); 3 - who % 2], equal: true });
    let own = CommError::WrongPartCount { given: 2, size: 3 };
    for who in [0, 2] {
        assert_eq!(results[who], Err(failed(1, &own)));
    }
    assert_eq!(results[1], Err(own));
    let missing = Err(CommError::NoSuchPeer(Address::Rank(Rank(9))));
    let results = cluster.all(3, |_| Call::Broadcast { root: Rank(9), data: None, length: None });
    assert!(results.contains(&missing), "{results:?}");
}

#[test]
fn bit_operations_on_floats_are_refused_by_name_and_end_the_call_elsewhere() {
    let mut cluster = Cluster::new(2, 5, |_| 0);
    let results = cluster.all(2, |who| {
        let (op, element) = if who == 1 { (Op::And, Element::F64) } else { (Op::Sum, Element::F64) };
        Call::Reduce { to: None, data: bytes(who, 8), reducer: Reducer::Elements(op, element) }
    });
    let own = CommError::NotReducible { op: Op::And, element: Element::F64 };
    assert_eq!(results[0], Err(failed(1, &own)));
    assert_eq!(results[1], Err(own));
}

#[test]
fn results_come_in_the_order_of_the_calls() {
    let mut cluster = Cluster::new(2, 0, |_| 0);
    let big = cluster.call(1, Call::Gather { root: Rank(0), data: bytes(1, 2_000_000), equal: true });
    let small = cluster.call(1, Call::Barrier);
    for call in [Call::Gather { root: Rank(0), data: bytes(0, 2_000_000), equal: true }, Call::Barrier] {
        cluster.call(0, call);
    }
    while !cluster.results.contains_key(&small) {
        assert!(cluster.wires.values().any(|wire| !wire.is_empty()), "it hangs");
        let at: Vec<_> =
            cluster.wires.iter().filter(|(_, wire)| !wire.is_empty()).map(|(at, _)| *at).collect();
        for (from, to) in at {
            let carried = cluster.wires.get_mut(&(from, to)).and_then(VecDeque::pop_front).unwrap();
            let link = cluster.back[&(to, from)];
            cluster.tell(to, carried.arrive(link));
            assert!(cluster.results.contains_key(&big) || !cluster.results.contains_key(&small));
        }
    }
}

#[test]
fn an_invalid_frame_aborts_at_most_its_call() {
    let mut rng = Rng::new(9);
    let mut cluster = Cluster::new(3, 5, |_| 0);
    for _ in 0..2_000 {
        let noise: Vec<u8> = (0..rng.below(40)).map(|_| rng.bits() as u8 >> (rng.below(8) as u8)).collect();
        cluster.tell(0, Event::Frame(LinkId(1), noise.into()));
    }
    // The noise may have reported losses, so a fresh cluster follows.
    let mut cluster = Cluster::new(3, 5, |_| 0);
    let called = Signature(Kind::AllGather);
    for payload in [&b"\xff\xff\xff\xff"[..], &[0; 7]] {
        let header = called.header(1_000);
        let frame = Message::Collective(header).frame([Bytes::copy_from_slice(payload)]).concat();
        cluster.tell(0, Event::Frame(LinkId(1), frame));
    }
    let fault = AbortCause::Failed(Some(Rank(0)), CommError::Protocol("an invalid piece").to_string());
    assert!(cluster.wires[&(0, 2)].iter().any(|frame| {
        let Carried::Frame(frame) = frame else { return false };
        matches!(Message::decode(frame.clone()), Some((Message::Aborted { nth: 1_000, origin: 1_000, why }, _)) if why == fault)
    }));
}

struct Signature(Kind);

impl Signature {
    fn header(&self, nth: u64) -> crate::message::CollectiveHeader {
        let called = crate::message::CallSignature { kind: self.0, root: None, length: Length::Varies };
        crate::message::CollectiveHeader {
            nth,
            by: (Rank(1), called),
            flags: crate::message::HeaderFlags::default(),
        }
    }
}
