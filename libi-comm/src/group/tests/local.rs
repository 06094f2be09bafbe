//! Calls that are complete for a member when its own part is, and how the member hears of a failure.

use super::cluster::{Cluster, bytes, each};
use super::*;

#[test]
fn members_that_wait_for_each_other_in_different_calls_find_out() {
    each(|size, cluster| {
        if size < 2 {
            return;
        }
        // Each of two members waits for the data of the other, and all others for one of them.
        let root = |who| if who == 0 { size - 1 } else { 0 };
        let call = |who| Call::Broadcast { root: Rank(root(who) as u32), data: None, length: None };
        for result in cluster.all(size, call) {
            assert!(matches!(result, Err(CommError::Mismatch { nth: 0, .. })), "{result:?}");
        }
        assert_eq!(cluster.all(size, |_| Call::Barrier), vec![Ok(Outcome::Done); size]);
    });
}

#[test]
fn a_member_completes_its_own_part_without_the_others() {
    let mut cluster = Cluster::new(7, 1, |rank| (rank - 1) / 2);
    let (root, to) = (Rank(0), Some(Rank(0)));
    let value = |who: usize| (who as u64).to_ne_bytes().to_vec().into();
    let reducer = Reducer::Elements(Op::Sum, Element::U64);
    let broadcast =
        |who: usize| Call::Broadcast { root, data: (who == 0).then(|| bytes(0, 9)), length: None };
    let gather = |who| Call::Gather { root, data: bytes(who, 9), equal: true };
    let reduce = |who| Call::Reduce { to, data: value(who), reducer: reducer.clone() };
    // Of three members on one path, the one between has not called.
    let ids: Vec<_> = [0, 5]
        .into_iter()
        .flat_map(|who| [broadcast(who), gather(who), reduce(who)].map(|call| (who, call)))
        .map(|(who, call)| cluster.call(who, call))
        .collect();
    cluster.deliver();
    let done = |cluster: &Cluster, at: usize| cluster.results.get(&ids[at]).cloned();
    assert_eq!(done(&cluster, 0), Some(Ok(Outcome::Data(bytes(0, 9)))));
    assert_eq!([1, 2].map(|at| done(&cluster, at)), [None, None], "the root needs all parts");
    assert_eq!(done(&cluster, 3), Some(Ok(Outcome::Data(bytes(0, 9)))));
    assert_eq!(done(&cluster, 4), Some(Ok(Outcome::Parts(Vec::new()))));
    assert_eq!(done(&cluster, 5), Some(Ok(Outcome::Done)));
}

#[test]
fn a_call_that_begins_before_its_sender_hears_of_a_higher_limit_has_it_as_well() {
    for seed in 0..20 {
        // The windows of leaves are small beside that of the branch with most of the data.
        let mut cluster = Cluster::new(100, seed, |rank| if rank < 14 { 0 } else { 13 });
        let gather = |who| Call::Gather { root: Rank(0), data: bytes(who, 20_000), equal: true };
        let call_twice = |cluster: &mut Cluster, who| [(); 2].map(|()| cluster.call(who, gather(who)));
        // The root hears of the second call after it has heard that a member needs credit in the first.
        let mut ids: Vec<_> = (1..100).flat_map(|who| call_twice(&mut cluster, who)).collect();
        cluster.deliver();
        ids.extend(call_twice(&mut cluster, 0));
        cluster.run();
        assert!(ids.iter().all(|id| cluster.results.get(id).is_some_and(Result::is_ok)), "seed {seed}");
    }
}

#[test]
fn a_root_is_ahead_of_a_member_that_does_not_call_by_a_limited_number_of_calls() {
    let (strict, lead) = (false, 8);
    let completion = Completion { strict, lead, ..Completion::default() };
    let mut cluster = Cluster::with_completion(completion, 3, 1, |rank| rank - 1, |_| false);
    let broadcast =
        |who: usize| Call::Broadcast { root: Rank(0), data: (who == 0).then(|| bytes(0, 9)), length: None };
    let of_root: Vec<_> = (0..5 * lead).map(|_| cluster.call(0, broadcast(0))).collect();
    let _: Vec<_> = (0..5 * lead).map(|_| cluster.call(1, broadcast(1))).collect();
    cluster.run();
    let complete = of_root.iter().filter(|id| cluster.results.contains_key(id)).count() as u64;
    assert!((2 * lead..=3 * lead).contains(&complete), "{complete} calls");
    let open = cluster.groups[2].collective.open_calls() as u64;
    // Frames are limited by the lead over the neighbor, probes by that over the own process.
    assert!(open <= 2 * lead, "{open} calls wait at the member that does not make them");
    let _: Vec<_> = (0..5 * lead).map(|_| cluster.call(2, broadcast(2))).collect();
    cluster.run();
    assert!(of_root.iter().all(|id| cluster.results[id].is_ok()));
}

#[test]
fn a_member_that_has_completed_an_aborted_call_fails_in_its_next() {
    let mut cluster = Cluster::new(3, 1, |_| 0);
    let gather = |who| Call::Gather { root: Rank(0), data: bytes(who, 9), equal: true };
    let parts = [1, 2].map(|who| cluster.call(who, gather(who)));
    // The first member waits in its next call, the other has not made it.
    let next = cluster.call(1, Call::Barrier);
    cluster.run();
    assert!(parts.iter().all(|id| cluster.results[id].is_ok()));
    let root = cluster.call(0, Call::Gather { root: Rank(9), data: Bytes::new(), equal: true });
    cluster.run();
    assert_eq!(cluster.results[&root], Err(CommError::NoSuchPeer(Address::Rank(Rank(9)))));
    let failed = Err(failed(0, &CommError::NoSuchPeer(Address::Rank(Rank(9)))));
    assert_eq!(cluster.results[&next], failed);
    for who in [2, 0] {
        let id = cluster.call(who, Call::Barrier);
        cluster.run();
        assert_eq!(cluster.results[&id], failed, "the same call fails at all members");
    }
    assert_eq!(cluster.all(3, |_| Call::Barrier), vec![Ok(Outcome::Done); 3]);
}

#[test]
fn a_member_that_had_completed_a_call_breaks_one_further_call_for_its_failure() {
    let mut cluster = Cluster::new(3, 1, |_| 0);
    let gather = |who| Call::Gather { root: Rank(0), data: bytes(who, 9), equal: true };
    // Of two members, one is two calls ahead of the other.
    let complete = [(1, 0), (1, 1), (2, 0)].map(|(who, _)| cluster.call(who, gather(who)));
    let barrier = cluster.call(1, Call::Barrier);
    cluster.run();
    cluster.call(0, Call::Gather { root: Rank(9), data: Bytes::new(), equal: true });
    cluster.run();
    assert!(complete.iter().all(|id| cluster.results[id].is_ok()));
    let failed = Err(failed(0, &CommError::NoSuchPeer(Address::Rank(Rank(9)))));
    assert_eq!(cluster.results[&barrier], failed);
    // The call in which the other hears of it is complete for the first.
    for (who, call) in [(2, gather(2)), (0, gather(0)), (2, Call::Barrier), (0, Call::Barrier)] {
        let id = cluster.call(who, call);
        cluster.run();
        assert_eq!(cluster.results[&id], failed);
    }
    assert_eq!(cluster.all(3, |_| Call::Barrier), vec![Ok(Outcome::Done); 3]);
}

#[test]
fn a_parent_confirms_what_was_sent_before_the_request() {
    let mut cluster = Cluster::new(3, 1, |rank| rank - 1);
    let gather = |who| Call::Gather { root: Rank(0), data: bytes(who, 9), equal: true };
    cluster.call(2, gather(2));
    cluster.tell(2, Event::Confirm(7));
    cluster.run();
    assert_eq!(cluster.confirmed, [(2, 7)]);
    // The front end has no parent, and a group without a tree does not know one.
    cluster.tell(3, Event::Confirm(8));
    cluster.run();
    let mut out = Vec::new();
    Group::new().on(Event::Confirm(9), Instant::ZERO, &mut out);
    assert!(out.is_empty() && cluster.confirmed.len() == 1, "{out:?}");
}

#[test]
fn a_different_call_is_recognised_after_the_own_one_is_complete() {
    let mut cluster = Cluster::new(2, 1, |_| 0);
    let broadcast = cluster.call(0, Call::Broadcast { root: Rank(0), data: Some(bytes(0, 9)), length: None });
    let gather = cluster.call(1, Call::Gather { root: Rank(0), data: bytes(1, 9), equal: true });
    assert!(cluster.results[&broadcast].is_ok() && cluster.results[&gather].is_ok(), "nothing has arrived");
    for result in cluster.all(2, |_| Call::Barrier) {
        assert!(matches!(result, Err(CommError::Mismatch { nth: 0, .. })), "{result:?}");
    }
    assert_eq!(cluster.all(2, |_| Call::Barrier), vec![Ok(Outcome::Done); 2]);
}

#[test]
fn a_root_that_cannot_make_a_call_says_why_to_all_others_and_the_next_succeeds() {
    each(|size, cluster| {
        for (nth, why) in [(0, None), (1, Some(CommError::FrontEndLost))] {
            let root = Rank(0);
            let call = |who| match who {
                0 => Call::Abort(why.clone()),
                _ => Call::Broadcast { root, data: None, length: None },
            };
            let told = match &why {
                None => CommError::Cancelled { nth, by: root },
                Some(why) => CommError::Failed { nth, by: Some(root), why: why.to_string() },
            };
            let results = cluster.all(size, call);
            assert_eq!(results[0], Err(why.unwrap_or_else(|| told.clone())));
            assert!(results[1..].iter().all(|result| *result == Err(told.clone())), "{results:?}");
        }
        assert_eq!(cluster.all(size, |_| Call::Barrier), vec![Ok(Outcome::Done); size]);
    });
}
