use libi_core::ids::Rank;

use super::*;
use crate::failure::Exit;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn ancestor(host: u32) -> Ancestor {
    Ancestor { host: HostIndex(host), addresses: vec![([127, 0, 0, 1], 1).into()] }
}

fn below(count: u32) -> Orphans {
    let mut orphans = Orphans::default();
    orphans.set_ancestors((0..count).map(ancestor).collect());
    orphans
}

#[test]
fn a_host_without_another_node_above_is_no_orphan() {
    for count in [0, 1] {
        let mut orphans = below(count);
        assert!(!orphans.begin(at(0), Duration::from_secs(9)) && !orphans.is_orphan());
    }
}

#[test]
fn all_nodes_above_are_tried_but_the_lost_one_at_first_and_then_all_again() {
    for (is_walled, end) in [(false, at(0) + PAUSE * (ROUNDS - 1)), (true, at(9_000))] {
        tries_all(is_walled, end);
    }
}

/// Where something is in the way, a helper may come as long as there is time.
fn tries_all(is_walled: bool, end: Instant) {
    let mut orphans = below(3);
    assert!(orphans.begin(at(0), Duration::from_secs(9)));
    if is_walled {
        orphans.meets_wall();
    }
    let mut tried = Vec::new();
    let mut now = at(0);
    loop {
        match orphans.due(now).unwrap_or_else(|| orphans.next(now)) {
            Search::Try(ancestor) => tried.push(ancestor.host.0),
            Search::Waits => now = orphans.next_deadline().unwrap(),
            Search::Ends => break,
        }
    }
    assert_eq!(tried, [1, 2].repeat(ROUNDS as usize));
    assert_eq!((now, orphans.is_orphan()), (end, false));
}

#[test]
fn what_an_orphan_has_told_is_told_again_to_its_new_parent_and_kept_for_the_next() {
    let mut orphans = below(2);
    let end = ChildMessage::Exited(Rank(3), Exit::Code(0), None, 0);
    orphans.tell(&[end.clone(), ChildMessage::HoldsOutput(true)]);
    assert_eq!(orphans.adopted(Vec::new()), None, "it has lost no parent");
    assert!(orphans.begin(at(0), Duration::from_secs(9)));
    assert_eq!(orphans.next(at(0)), Search::Try(ancestor(1)));
    assert!(orphans.connected() && !orphans.connected() && orphans.has_claimed());
    let again = orphans.adopted(vec![ancestor(1), ancestor(0)]).unwrap();
    assert_eq!((&again[..], orphans.is_orphan()), (&[end][..], false));
    orphans.tell(&again);
    assert!(orphans.begin(at(1), Duration::from_secs(9)) && orphans.next(at(1)) == Search::Try(ancestor(0)));
}

#[test]
fn a_claim_that_is_not_answered_in_time_ends_the_search() {
    let mut orphans = below(2);
    assert!(orphans.begin(at(0), Duration::from_secs(9)));
    assert!(matches!(orphans.next(at(0)), Search::Try(_)) && orphans.connected());
    assert_eq!((orphans.due(at(8_999)), orphans.next_deadline()), (None, Some(at(9_000))));
    assert_eq!(orphans.due(at(9_000)), Some(Search::Ends));
}

#[test]
fn an_orphan_is_adopted_once_the_loss_is_known_with_the_hosts_that_are_below_it() {
    let (mut orphans, old, new) = (Orphans::default(), LinkId(1), LinkId(7));
    let claim = OrphanClaim {
        host: HostIndex(4),
        attempt: libi_core::plan::late::Attempt::default(),
        is_agent: true,
        below: [5, 6, 99].map(HostIndex).to_vec(),
    };
    orphans.arrives(new, at(5_000));
    assert!(orphans.claims(new, claim.clone()) && !orphans.claims(new, claim.clone()));
    assert!(orphans.next_awaited().is_none(), "the loss is not known here yet");
    let hosts = [4, 5, 6, 8].map(HostIndex).into();
    orphans.sever(old, Severed::new(HostIndex(3), hosts, at(0), Duration::from_secs(9), true));
    let back = [4, 5, 6].map(HostIndex).into();
    assert_eq!(orphans.next_awaited(), Some((new, old, claim, back)));
    assert!(orphans.below(new).is_some_and(|below| below.len() == 2));
    assert!(orphans.next_awaited().is_none() && orphans.next_over(at(8_999)).is_none());
    let (link, left) = orphans.next_over(at(9_000)).unwrap();
    assert_eq!((link, left.hosts), (old, [HostIndex(8)].into()));
    assert!(orphans.is_alone(old) && orphans.is_alone(new) && !orphans.is_alone(LinkId(2)));
}

#[test]
fn an_orphan_whose_host_is_reported_lost_is_not_adopted_when_that_loses_its_parent_as_well() {
    let (mut orphans, link) = (Orphans::default(), LinkId(7));
    let host = HostIndex(4);
    let attempt = libi_core::plan::late::Attempt::default();
    orphans.arrives(link, at(5_000));
    assert!(orphans.claims(link, OrphanClaim { host, attempt, is_agent: true, below: Vec::new() }));
    assert_eq!((orphans.forget(HostIndex(5), at(10)), orphans.forget(host, at(10))), (None, Some(link)));
    assert!(orphans.next_awaited().is_none() && orphans.forget(host, at(10)).is_none());
    // It is told, and has a second to close its connection.
    assert!(orphans.late(at(1_009)).is_empty() && orphans.late(at(1_010)) == [link]);
}

/// Only the connection to it was lost.
#[test]
fn a_lost_host_that_lives_is_sent_a_helper_and_told_that_it_counts_as_lost() {
    let mut orphans = Orphans::default();
    let lost = HostIndex(3);
    let hosts = [4].map(HostIndex).into();
    orphans.sever(LinkId(1), Severed::new(lost, hosts, at(0), Duration::from_secs(9), false));
    assert_eq!(orphans.send_helpers(at(0)), [lost, HostIndex(4)]);
    orphans.arrives(LinkId(7), at(9_000));
    let attempt = libi_core::plan::late::Attempt::default();
    let claim = OrphanClaim { host: lost, attempt, is_agent: true, below: [HostIndex(4)].to_vec() };
    assert!(orphans.claims(LinkId(7), claim) && orphans.next_awaited().is_none());
    assert_eq!((orphans.next_lost(at(20)), orphans.next_lost(at(20))), (Some(LinkId(7)), None));

    // There.
    let mut orphans = below(3);
    assert!(orphans.begin(at(0), Duration::from_secs(9)) && !orphans.dismissed());
    orphans.meets_wall();
    assert!(orphans.helped() && orphans.dismissed() && !orphans.is_orphan());
    assert!(!orphans.begin(at(30), Duration::from_secs(9)), "it has no other parent");
}

#[test]
fn a_helper_that_ends_after_its_host_is_back_leaves_nothing_to_do() {
    let mut orphans = Orphans::default();
    let hosts = [4, 8].map(HostIndex).into();
    orphans.sever(LinkId(1), Severed::new(HostIndex(3), hosts, at(0), Duration::from_secs(9), true));
    assert_eq!(orphans.send_helpers(at(1_000)), [3, 4, 8].map(HostIndex));
    let attempt = libi_core::plan::late::Attempt::default();
    let claim = OrphanClaim { host: HostIndex(4), attempt, is_agent: true, below: Vec::new() };
    orphans.arrives(LinkId(7), at(9_000));
    assert!(orphans.claims(LinkId(7), claim) && orphans.next_awaited().is_some());
    assert!(orphans.send_helpers(at(2_000)).is_empty());
    for (host, due) in [(4, at(9_000)), (8, at(2_000) + PAUSE)] {
        orphans.helper_ended(HostIndex(host), "", at(2_000));
        assert_eq!(orphans.next_deadline(), Some(due));
    }
    assert_eq!(orphans.send_helpers(at(2_000) + PAUSE), [HostIndex(8)]);
}
