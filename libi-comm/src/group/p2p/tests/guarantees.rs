//! One guarantee at a time.

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};

use super::cluster::{CallResult, Cluster};
use crate::contract::{Address, CallId, Effect, Outcome};
use crate::error::CommError;
use crate::group::p2p::receive_queue::WINDOW;
use crate::group::p2p::send_queue::{CHUNK, EAGER_LIMIT, EAGER_MAX, cost};
use crate::message::p2p::{Envelope, P2pMessage, RejectReason};

const DONE: CallResult = Ok(Outcome::Done);

fn peer_lost(rank: u32) -> CallResult {
    Err(CommError::lost([Rank(rank)].into_iter().collect()))
}

/// A chain in which node 1 has rank 0, and so on.
fn queue(members: u32) -> Cluster {
    let parents: Vec<usize> = (0..members as usize).collect();
    let ranks: Vec<u32> = (0..members).collect();
    Cluster::of(0, &parents, &ranks)
}

#[test]
fn a_short_send_completes_without_a_receive() {
    let mut cluster = queue(3);
    let send = cluster.send(3, 0, 7, &b"short"[..]);
    assert_eq!(cluster.outcome(send), DONE);
    let empty = cluster.send(3, 0, 7, Bytes::new());
    cluster.settle();
    let first = cluster.receive(0, 3, 7);
    let second = cluster.receive(0, 3, 7);
    assert_eq!(
        (cluster.outcome(empty), cluster.data(first), cluster.data(second)),
        (DONE, "short".into(), "".into())
    );
}

#[test]
fn a_long_message_waits_for_a_receive() {
    let mut cluster = queue(2);
    let send = cluster.send(1, 2, 0, vec![3; EAGER_MAX + 1]);
    cluster.settle();
    assert!(!cluster.ended.contains_key(&send) && !cluster.nodes[1].p2p.is_idle());
    let receive = cluster.receive(2, 1, 0);
    cluster.settle();
    assert_eq!((cluster.outcome(send), cluster.data(receive).len()), (DONE, EAGER_MAX + 1));
    assert!(cluster.nodes[1].p2p.is_idle());
}

#[test]
fn messages_without_a_receive_block_nothing_and_stay_with_their_sender() {
    let mut cluster = queue(3);
    for _ in 0..300 {
        cluster.send(0, 3, 1, vec![1; EAGER_MAX]);
        cluster.send(0, 3, 1, vec![1; 20 * CHUNK]);
        assert!(cluster.weight() < 2 * EAGER_LIMIT as usize);
    }
    let left = EAGER_LIMIT % cost(EAGER_MAX) - cost(0);
    cluster.send(0, 3, 1, vec![1; left as usize]);
    let long = cluster.send(0, 3, 2, vec![2; 3 * CHUNK]);
    let empty = cluster.send(0, 3, 3, Bytes::new());
    cluster.settle();
    assert!(!cluster.ended.contains_key(&empty), "the budget is used up");
    let calls = [cluster.receive(3, 0, 3), cluster.receive(3, 0, 2)];
    cluster.settle();
    assert_eq!(calls.map(|call| cluster.data(call).len()), [0, 3 * CHUNK]);
    assert_eq!([long, empty].map(|call| cluster.outcome(call)), [DONE, DONE]);
}

#[test]
fn consumed_messages_free_the_eager_budget() {
    let mut cluster = queue(1);
    for _ in 0..200 {
        let send = cluster.send(0, 1, 0, vec![0; EAGER_MAX]);
        assert_eq!(cluster.outcome(send), DONE);
        let receive = cluster.receive(1, 0, 0);
        cluster.settle();
        assert_eq!(cluster.data(receive).len(), EAGER_MAX);
    }
}

#[test]
fn a_long_message_never_exceeds_its_window() {
    let mut cluster = queue(3);
    let send = cluster.send(0, 3, 0, vec![9; 40 * CHUNK + 1]);
    let receive = cluster.receive(3, 0, 0);
    let mut most = 0;
    while cluster.step() {
        most = most.max(cluster.weight());
    }
    assert!(most > WINDOW as usize / 2 && most < WINDOW as usize + 1024, "{most}");
    assert_eq!((cluster.outcome(send), cluster.data(receive).len()), (DONE, 40 * CHUNK + 1));
}

#[test]
fn more_is_pulled_whenever_half_of_the_window_has_arrived() {
    let mut cluster = queue(1);
    cluster.send(0, 1, 0, vec![9; 40 * CHUNK]);
    cluster.arrive(0, 1);
    cluster.receive(1, 0, 0);
    cluster.arrive(1, 0);
    let half = WINDOW as usize / CHUNK / 2;
    for come in 1..=3 * half {
        cluster.arrive(0, 1);
        assert_eq!(cluster.is_busy(1, 0), come % half == 0, "after {come} chunks");
        if come % half == 0 {
            cluster.arrive(1, 0);
        }
    }
}

#[test]
fn many_senders_at_a_time_get_smaller_windows() {
    let mut cluster = Cluster::of(0, &[0; 60], &(0..60).collect::<Vec<_>>());
    for node in 1..=60 {
        cluster.send(node, 0, 0, vec![0; 10 * CHUNK]);
        cluster.receive(0, node, 0);
    }
    let mut most = 0;
    while cluster.step() {
        most = most.max(cluster.weight());
    }
    // Each got what was left when it began: at most a window, at least a chunk.
    assert!(most < 40 * WINDOW as usize, "{most}");
    assert_eq!(cluster.ended.len(), 120);
}

#[test]
fn a_member_can_send_any_message_to_itself() {
    let mut cluster = queue(2);
    for length in [0, 5, 30 * CHUNK] {
        let send = cluster.send(2, 2, 4, vec![1; length]);
        assert_eq!(cluster.outcome(send), DONE);
    }
    for length in [0, 5, 30 * CHUNK] {
        let receive = cluster.receive(2, 2, 4);
        assert_eq!(cluster.data(receive).len(), length);
    }
    let receive = cluster.receive(2, 2, 4);
    cluster.send(2, 2, 4, vec![1; 6]);
    assert_eq!(cluster.data(receive).len(), 6);
    assert!(cluster.nodes[2].p2p.receives.is_empty());
}

#[test]
fn a_long_message_in_one_piece_is_never_copied() {
    let mut cluster = queue(2);
    let (route, down) = (LinkId(1), LinkId::PARENT);
    let data = Bytes::from(vec![1; CHUNK]);
    let envelope = Envelope {
        from: Address::FrontEnd,
        to: Address::Rank(Rank(1)),
        message: P2pMessage::Chunk { id: 1, offset: 0 },
    };
    let mut out = Vec::new();
    let passing = &mut cluster.nodes[1];
    passing.p2p.on_frame(down, envelope, data.clone(), &passing.view, &mut out);
    let [Effect::Send(link, frame)] = &out[..] else { panic!("{out:?}") };
    assert_eq!((*link, frame.0[1].as_ptr()), (route, data.as_ptr()));
    let call = cluster.receive(1, 0, 0);
    let data = Bytes::from(vec![1; 10]);
    cluster.forge(0, 1, P2pMessage::Eager { id: 1, tag: 0 }, data.clone());
    assert_eq!(cluster.data(call).as_ptr(), data.as_ptr());
    let call = cluster.receive(1, 0, 0);
    cluster.forge(0, 1, P2pMessage::Offer { id: 2, tag: 0, total: 10 }, Bytes::new());
    cluster.forge(0, 1, P2pMessage::Chunk { id: 2, offset: 0 }, data.clone());
    assert_eq!(cluster.data(call).as_ptr(), data.as_ptr());
}

#[test]
fn complete_messages_can_be_received_after_their_sender_is_lost() {
    let mut cluster = queue(2);
    let lost = cluster.receive(0, 2, 9);
    let long = cluster.send(2, 0, 1, vec![0; 2 * EAGER_MAX]);
    cluster.send(2, 0, 1, &b"last words"[..]);
    cluster.settle();
    cluster.kill(2);
    cluster.settle();
    assert!(!cluster.ended.contains_key(&long));
    assert_eq!(cluster.outcome(lost), peer_lost(1));
    let words = cluster.receive(0, 2, 1);
    assert_eq!(cluster.data(words), "last words");
    let nothing = cluster.receive(0, 2, 1);
    assert_eq!(cluster.outcome(nothing), peer_lost(1));
}

#[test]
fn a_loss_in_the_middle_of_a_message_ends_the_call_at_the_other_end() {
    for (from, to) in [(1, 3), (3, 1)] {
        let mut cluster = queue(3);
        let send = cluster.send(from, to, 0, vec![0; 30 * CHUNK]);
        let receive = cluster.receive(to, from, 0);
        for _ in 0..12 {
            cluster.step();
        }
        cluster.kill(3);
        cluster.settle();
        assert_eq!(cluster.outcome(if from == 1 { send } else { receive }), peer_lost(2));
    }
}

#[test]
fn a_receiver_without_a_route_is_lost_to_the_sender() {
    let mut cluster = queue(3);
    let announced = cluster.send(0, 3, 0, vec![0; 2 * EAGER_MAX]);
    let waits = cluster.receive(0, 3, 1);
    let other = cluster.receive(0, 2, 1);
    // Node 2 already knows of the loss.
    cluster.nodes[2].view.lost.add(Rank(2));
    cluster.settle();
    assert_eq!((cluster.outcome(announced), cluster.outcome(waits)), (peer_lost(2), peer_lost(2)));
    assert!(!cluster.ended.contains_key(&other) && cluster.nodes[0].p2p.is_idle());
}

#[test]
fn a_message_is_never_sent_back_over_its_link() {
    let mut cluster = queue(2);
    // Node 1 has lost its route downwards, so it would route to its parent.
    cluster.nodes[1].view.routes.cut(LinkId(1));
    let send = cluster.send(0, 2, 0, vec![0; 2 * EAGER_MAX]);
    cluster.settle();
    assert_eq!(cluster.outcome(send), peer_lost(1));
}

#[test]
fn an_undeliverable_message_is_reported_at_most_once() {
    let mut cluster = queue(3);
    let node = &mut cluster.nodes[2];
    node.view.lost.add(Rank(2));
    for (message, answers) in
        [(P2pMessage::Undeliverable, 0), (P2pMessage::Consumed { limit: 0, newest: 0 }, 1)]
    {
        let envelope = Envelope { from: Address::FrontEnd, to: Address::Rank(Rank(2)), message };
        let mut out = Vec::new();
        node.p2p.on_frame(LinkId::PARENT, envelope, Bytes::new(), &node.view, &mut out);
        assert_eq!(out.len(), answers);
    }
}

#[test]
fn a_process_cannot_affect_the_messages_of_others() {
    let mut cluster = Cluster::of(0, &[0, 0], &[0, 1]);
    let send = cluster.send(0, 1, 0, vec![0; EAGER_MAX + 1]);
    let receive = cluster.receive(0, 1, 0);
    let notes = [
        P2pMessage::Pull { id: 1, limit: u64::MAX },
        P2pMessage::Rejected { id: 1, why: RejectReason::Cancelled },
        P2pMessage::Withdrawn { id: 1, tag: 0 },
        P2pMessage::Eager { id: 1, tag: 0 },
        P2pMessage::Undeliverable,
    ];
    for message in notes {
        // In its own name, and in that of the other.
        cluster.forge(2, 0, message.clone(), Bytes::new());
        cluster.forge_as(1, 2, 0, message, Bytes::new());
    }
    assert!([send, receive].iter().all(|call| !cluster.ended.contains_key(call)));
}

#[test]
fn sending_to_a_missing_or_absent_rank_fails() {
    let mut cluster = queue(2);
    cluster.nodes[0].view.topology.absent.add(Rank(1));
    let missing = Address::Rank(Rank(2));
    let sent = cluster.send_to(0, missing, 0, Bytes::new());
    let absent = cluster.send_to(0, Address::Rank(Rank(1)), 0, Bytes::new());
    let nothing = cluster.receive(0, 2, 0);
    assert_eq!(cluster.outcome(sent), Err(CommError::NoSuchPeer(missing)));
    for call in [absent, nothing] {
        assert_eq!(cluster.outcome(call), Err(CommError::Absent(Rank(1))));
    }
}

#[test]
fn a_message_withdrawn_before_its_receive_is_never_seen() {
    let mut cluster = queue(2);
    let taken_back = cluster.send(2, 0, 0, vec![1; 2 * EAGER_MAX]);
    let next = cluster.send(2, 0, 0, vec![2; 3 * EAGER_MAX]);
    cluster.settle();
    assert!(cluster.cancel(2, taken_back) && !cluster.cancel(2, taken_back));
    cluster.settle();
    let receive = cluster.receive(0, 2, 0);
    cluster.settle();
    assert_eq!((cluster.outcome(next), cluster.data(receive).len()), (DONE, 3 * EAGER_MAX));
    assert!(cluster.nodes[0].p2p.receives.is_empty());
}

#[test]
fn a_receive_fails_if_its_message_is_withdrawn() {
    // At every moment between the pull and the end.
    for steps in 0..20 {
        let mut cluster = queue(2);
        let send = cluster.send(2, 0, 0, vec![1; 40 * CHUNK]);
        cluster.settle();
        let receive = cluster.receive(0, 2, 0);
        for _ in 0..steps {
            cluster.step();
        }
        assert!(cluster.cancel(2, send));
        let next = cluster.send(2, 0, 0, &b"next"[..]);
        let second = cluster.receive(0, 2, 0);
        cluster.settle();
        let by = Address::Rank(Rank(1));
        assert_eq!(cluster.outcome(receive), Err(CommError::Withdrawn { by }));
        assert_eq!((cluster.outcome(next), cluster.data(second)), (DONE, "next".into()));
    }
}

#[test]
fn a_receive_cancelled_in_the_middle_consumes_its_message() {
    for steps in 0..20 {
        let mut cluster = queue(2);
        let send = cluster.send(2, 0, 0, vec![1; 12 * CHUNK]);
        cluster.settle();
        let receive = cluster.receive(0, 2, 0);
        for _ in 0..steps {
            cluster.step();
        }
        assert!(cluster.cancel(0, receive) && !cluster.cancel(0, receive));
        let next = cluster.send(2, 0, 0, &b"next"[..]);
        let second = cluster.receive(0, 2, 0);
        cluster.settle();
        assert!(!cluster.ended.contains_key(&receive));
        assert_eq!((cluster.outcome(send), cluster.outcome(next)), (DONE, DONE));
        assert_eq!(cluster.data(second), "next");
        assert!(cluster.nodes[0].p2p.receives.is_empty() && cluster.nodes[2].p2p.is_idle());
    }
}

#[test]
fn a_receive_cancelled_before_its_message_leaves_it_to_the_next() {
    let mut cluster = queue(1);
    let calls = [cluster.receive(1, 0, 0), cluster.receive(1, 0, 0)];
    assert!(cluster.cancel(1, calls[0]));
    assert!(!cluster.cancel(1, CallId(1000)));
    cluster.send(0, 1, 0, &b"first"[..]);
    cluster.settle();
    assert_eq!(cluster.data(calls[1]), "first");
}

#[test]
fn both_ends_fail_if_there_is_no_memory() {
    let mut cluster = queue(1);
    let receive = cluster.receive(1, 0, 0);
    cluster.forge(0, 1, P2pMessage::Offer { id: 1, tag: 0, total: u64::MAX }, Bytes::new());
    assert_eq!(cluster.outcome(receive), Err(CommError::OutOfMemory(u64::MAX)));
    let send = cluster.send(0, 1, 0, vec![0; EAGER_MAX + 1]);
    cluster.settle();
    // The rejection was of message 1, which is this one.
    cluster.forge(1, 0, P2pMessage::Rejected { id: 1, why: RejectReason::OutOfMemory }, Bytes::new());
    assert_eq!(cluster.outcome(send), Err(CommError::OutOfMemory(EAGER_MAX as u64 + 1)));
}

#[test]
fn bytes_that_do_not_continue_a_message_end_it_at_both_ends() {
    for (offset, length) in [(1, 10), (0, WINDOW as usize + 1), (u64::MAX, 1), (0, 0)] {
        let mut cluster = queue(1);
        let send = cluster.send(0, 1, 0, vec![0; 30 * CHUNK]);
        let receive = cluster.receive(1, 0, 0);
        cluster.arrive(0, 1);
        cluster.forge(0, 1, P2pMessage::Chunk { id: 1, offset }, vec![0; length].into());
        cluster.settle();
        for call in [receive, send] {
            assert!(matches!(cluster.outcome(call), Err(CommError::Protocol(_))), "{offset}, {length}");
        }
    }
}
