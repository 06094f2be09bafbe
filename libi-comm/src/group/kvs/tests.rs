//! The stores of a session in memory.

mod cluster;
mod garbage;
mod one;
mod random;

use std::collections::BTreeMap;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use super::{GroupView, KeyStore, KvsMessage};
use crate::contract::{KeyScope, Outcome};
use crate::error::CommError;
use crate::{Branch, Topology};
use cluster::{Cluster, Shape, with_seeds};

use KeyScope::{Local, Replicated};

fn is_query(message: &KvsMessage) -> bool {
    matches!(message, KvsMessage::Query(_))
}

fn is_reply(message: &KvsMessage) -> bool {
    matches!(message, KvsMessage::Reply { .. })
}

/// A chain of hosts, the first of which is the top.
fn chain(hosts: usize, processes: usize) -> Shape {
    (0..hosts).map(|host| (host.checked_sub(1), processes)).collect()
}

fn lost(rank: usize) -> Result<Outcome, CommError> {
    Err(CommError::lost([Rank(rank as u32)].into_iter().collect()))
}

#[test]
fn sixteen_lookups_on_a_host_send_one_query_and_get_one_reply() {
    with_seeds(50, |seed| {
        // Two hosts of sixteen below the first.
        let mut cluster = Cluster::new(&vec![(None, 2), (Some(0), 16), (Some(0), 16)], seed);
        let (top, from, at) = (cluster.leader(0), cluster.leader(1), cluster.leader(2));
        cluster.put(from + 3, "k", "v", Local);
        cluster.fence_all();
        let gets: Vec<_> = (at..at + 16).map(|node| cluster.get(node, "k", true)).collect();
        cluster.drain();
        assert!(gets.iter().all(|&id| cluster.found(id) == Some("v".into())));
        assert_eq!((cluster.count(at, top, is_query), cluster.count(top, at, is_reply)), (1, 1));
        assert_eq!((cluster.count(top, from, is_query), cluster.count(from, top, is_reply)), (1, 1));
        // The value has been cached.
        let again = cluster.get(at + 5, "k", false);
        cluster.drain();
        assert_eq!(cluster.found(again), Some("v".into()));
        assert_eq!(cluster.count(at, top, |_| true), 1);
        cluster.assert_no_queries();
    });
}

#[test]
fn a_fence_sends_one_message_up_and_one_down_every_link() {
    with_seeds(50, |seed| {
        let mut cluster = Cluster::new(&vec![(None, 3), (Some(0), 2), (Some(1), 1), (Some(0), 4)], seed);
        for (nth, node) in cluster.members().into_iter().enumerate() {
            cluster.put(node, &format!("k{nth}"), format!("v{nth}"), Replicated);
        }
        cluster.fence_all();
        let links = cluster.nodes.len() - 2;
        assert_eq!(cluster.fence_messages.len(), 2 * links, "the link to the front end takes no part");
        assert!(cluster.fence_messages.values().all(|&messages| messages == 1));
        let mut expected = BTreeMap::new();
        for node in cluster.members() {
            for nth in 0..cluster.members().len() {
                expected.insert(cluster.get(node, &format!("k{nth}"), false), format!("v{nth}"));
            }
        }
        cluster.drain();
        for (id, value) in expected {
            assert_eq!(cluster.found(id), Some(value.into()));
        }
        let asked = cluster.sent.iter().filter(|(_, _, message)| is_query(message));
        let nodes = &cluster.nodes;
        assert!(asked.into_iter().all(|(from, ..)| nodes[*from].view.topology.local), "within hosts only");
    });
}

#[test]
fn a_waiting_lookup_gets_a_later_value_and_another_gets_none() {
    for scope in [Replicated, Local] {
        let mut cluster = Cluster::new(&chain(3, 2), 1);
        let (waits, does_not) = (cluster.get(6, "k", true), cluster.get(6, "k", false));
        cluster.drain();
        assert_eq!(cluster.found(does_not), None);
        assert!(!cluster.results.contains_key(&waits));
        cluster.put(4, "k", "v", scope);
        if scope == Replicated {
            cluster.fence_all();
        }
        cluster.drain();
        assert_eq!(cluster.found(waits), Some("v".into()));
        cluster.assert_no_queries();
    }
}

#[test]
fn a_member_sees_its_own_puts_at_once() {
    let mut cluster = Cluster::new(&chain(2, 3), 1);
    for (nth, scope) in [Replicated, Local, Local, Replicated].into_iter().enumerate() {
        for member in [3, 6] {
            let value = format!("{nth} of {member}");
            cluster.put(member, "k", value.clone(), scope);
            let id = cluster.get(member, "k", false);
            cluster.drain();
            assert_eq!(cluster.found(id), Some(value.into()));
        }
    }
}

#[test]
fn a_put_after_a_get_is_later_than_the_value_read() {
    with_seeds(20, |seed| {
        let mut cluster = Cluster::new(&chain(4, 1), seed);
        for round in 0..3 {
            cluster.put(4, "k", format!("{round} first"), Local);
            for _ in 0..5 {
                cluster.put(4, "k", format!("{round} again"), Local);
            }
            cluster.drain();
            let id = cluster.get(2, "k", true);
            cluster.drain();
            cluster.found(id);
            cluster.put(2, "k", format!("{round} last"), if round == 1 { Replicated } else { Local });
            cluster.fence_all();
            for node in 1..=4 {
                let id = cluster.get(node, "k", true);
                cluster.drain();
                assert_eq!(cluster.found(id), Some(format!("{round} last").into()));
            }
        }
    });
}

#[test]
fn the_front_end_puts_and_gets_through_the_top() {
    let one_branch = chain(2, 2);
    let two_branches = vec![(None, 2), (None, 2)];
    for shape in [one_branch, two_branches] {
        let mut cluster = Cluster::new(&shape, 1);
        let (waits, for_it) = (cluster.get(4, "from the front end", true), cluster.get(0, "for it", true));
        cluster.put(0, "from the front end", "v", Local);
        cluster.put(0, "dense", "d", Replicated);
        cluster.put(4, "for it", "w", Local);
        cluster.drain();
        assert_eq!((cluster.found(waits), cluster.found(for_it)), (Some("v".into()), Some("w".into())));
        cluster.fence_all();
        let id = cluster.get(4, "dense", false);
        cluster.drain();
        assert_eq!(cluster.found(id), Some("d".into()));
        cluster.assert_no_queries();
    }
}

#[test]
fn values_that_are_put_below_two_agents_at_once_have_an_order() {
    // An agent is no member: the lowest rank of its host stands for it.
    let version = |rank| {
        let ranks = [Rank(rank)].into_iter().collect();
        let branches = vec![Branch { link: LinkId(1), ranks, local: true }];
        let topology = Topology { size: 4, has_parent: true, branches, ..Topology::default() };
        KeyStore::default().next_version(&GroupView { topology, ..GroupView::default() })
    };
    assert!(version(1) < version(2) && version(2) < version(3));
}

#[test]
fn a_long_value_is_sent_in_chunks() {
    let mut cluster = Cluster::new(&chain(3, 2), 3);
    let value = Bytes::from(vec![5; 3 << 20]);
    cluster.put(6, "k", value.clone(), Local);
    let id = cluster.get(2, "k", true);
    cluster.drain();
    assert_eq!(cluster.found(id), Some(value));
    cluster.assert_no_queries();
}

#[test]
fn a_lost_value_is_reported_lost_until_it_is_put_again() {
    with_seeds(50, |seed| {
        // Below the top: the victim's parent with the victim, and a bystander.
        let shape = vec![(None, 1), (Some(0), 2), (Some(1), 2), (Some(0), 2)];
        let mut cluster = Cluster::new(&shape, seed);
        let (parent, victim, bystander) = (cluster.leader(1), cluster.leader(2), cluster.leader(3));
        // More puts, so that the count alone makes no other version later.
        for key in ["seen", "k", "some", "more", "again"] {
            cluster.put(victim + 1, key, "v", Local);
        }
        let seen = cluster.get(bystander, "seen", true);
        cluster.drain();
        assert_eq!(cluster.found(seen), Some("v".into()));
        let waiting = [cluster.get(bystander + 1, "k", true), cluster.get(parent + 1, "k", false)];
        for _ in 0..seed % 5 {
            cluster.step();
        }
        cluster.kill(victim);
        cluster.drain();
        for id in waiting {
            // The value may have been sent before the loss.
            let result = cluster.results.remove(&id).unwrap();
            assert!(
                result == lost(victim - 1) || result == Ok(Outcome::Found(Some("v".into()))),
                "{result:?}"
            );
        }
        let (seen, again) = (cluster.get(bystander, "seen", true), cluster.get(parent, "again", true));
        cluster.drain();
        assert_eq!(cluster.found(seen), Some("v".into()), "a copy is as good");
        assert_eq!(cluster.results.remove(&again), Some(lost(victim - 1)));
        // By a member that has seen nothing of the lost value.
        cluster.put(bystander + 1, "again", "w", if seed % 2 == 0 { Local } else { Replicated });
        if seed % 2 == 1 {
            cluster.fence_all();
        }
        cluster.drain();
        let again = cluster.get(parent, "again", true);
        cluster.drain();
        assert_eq!(cluster.found(again), Some("w".into()));
        cluster.fence_all();
        for node in cluster.members() {
            let id = cluster.get(node, "again", false);
            cluster.drain();
            assert_eq!(cluster.found(id), Some("w".into()));
        }
        cluster.assert_no_queries();
    });
}

#[test]
fn a_cancelled_lookup_leaves_no_query_anywhere() {
    let mut cluster = Cluster::new(&chain(3, 2), 1);
    let (one, other) = (cluster.get(6, "k", true), cluster.get(5, "k", true));
    cluster.drain();
    assert!(cluster.cancel(6, one) && !cluster.cancel(6, one));
    cluster.drain();
    cluster.put(1, "k", "v", Local);
    cluster.drain();
    assert_eq!(cluster.found(other), Some("v".into()), "the other still waits");
    let last = cluster.get(6, "l", true);
    cluster.drain();
    assert!(cluster.cancel(6, last));
    cluster.drain();
    cluster.assert_no_queries();
    assert!(!cluster.results.contains_key(&one) && !cluster.results.contains_key(&last));
}
