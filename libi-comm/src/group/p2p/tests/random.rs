//! Many messages at a time in random trees, with cancelled calls, losses and invalid messages.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::cluster::Cluster;
use crate::contract::{Address, CallId, Outcome};
use crate::error::CommError;
use crate::group::p2p::send_queue::{CHUNK, EAGER_MAX};
use crate::message::p2p::{P2pMessage, RejectReason};

/// Sender, receiver, tag.
type Stream = (usize, usize, u32);

/// The calls that were made, in order.
#[derive(Default)]
struct Calls {
    sends: BTreeMap<Stream, Vec<CallId>>,
    receives: BTreeMap<Stream, Vec<CallId>>,
    cancelled: Vec<CallId>,
}

/// A message that differs from all others, unless it is too short.
fn message(stream: Stream, nth: usize, seed: u64) -> Bytes {
    let mark = [stream.0 as u64, stream.1 as u64, u64::from(stream.2), nth as u64, seed]
        .iter()
        .fold(1u64, |mark, part| (mark ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29));
    let more = (mark >> 8) as usize;
    let length = match mark % 16 {
        0..4 => more % 40,
        4..8 => EAGER_MAX - more % 3,
        8..10 => EAGER_MAX + 1,
        10 => CHUNK,
        11 => CHUNK + 1,
        12..15 => more % (2 * CHUNK),
        _ => 9 * CHUNK + more % CHUNK,
    };
    let mut bytes = vec![mark as u8; length];
    let head = mark.to_le_bytes();
    let common = length.min(head.len());
    bytes[..common].copy_from_slice(&head[..common]);
    bytes.into()
}

/// Sends and receives so many messages in any order, with something happening in between.
fn play(
    cluster: &mut Cluster,
    seed: u64,
    messages: usize,
    mut between: impl FnMut(&mut Cluster, &mut Calls),
) -> Calls {
    let mut called = Calls::default();
    let mut todo: Vec<(Stream, bool)> = Vec::new();
    let streams: Vec<Stream> = (0..4)
        .map(|_| {
            (cluster.below(cluster.nodes.len()), cluster.below(cluster.nodes.len()), cluster.below(2) as u32)
        })
        .collect();
    for _ in 0..messages {
        let stream = streams[cluster.below(streams.len())];
        todo.extend([(stream, true), (stream, false)]);
    }
    while !todo.is_empty() {
        let (stream, sends) = todo.swap_remove(cluster.below(todo.len()));
        let (from, to, tag) = stream;
        let caller = if sends { from } else { to };
        if cluster.nodes[caller].alive {
            if sends {
                let nth = called.sends.entry(stream).or_default().len();
                let call = cluster.send(from, to, tag, message(stream, nth, seed));
                called.sends.entry(stream).or_default().push(call);
            } else {
                let call = cluster.receive(to, from, tag);
                called.receives.entry(stream).or_default().push(call);
            }
        }
        between(cluster, &mut called);
        for _ in 0..cluster.below(12) {
            cluster.step();
        }
    }
    cluster.settle();
    called
}

/// The numbers of the messages that were received; each has to be later than the one before.
fn received(cluster: &Cluster, stream: Stream, calls: &[CallId], sent: usize, seed: u64) -> Vec<usize> {
    let mut next = 0;
    let mut all = Vec::new();
    for call in calls {
        if let Some(Ok(Outcome::Data(data))) = cluster.ended.get(call) {
            let nth = (next..sent).find(|nth| message(stream, *nth, seed) == data);
            let nth = nth.unwrap_or_else(|| panic!("{stream:?}: {call:?} is out of order"));
            all.push(nth);
            next = nth + 1;
        }
    }
    all
}

fn few(cases: u32) -> ProptestConfig {
    let asked = ProptestConfig::default().cases;
    ProptestConfig {
        cases: cases.saturating_mul(asked).div_ceil(256),
        max_shrink_iters: 0,
        ..Default::default()
    }
}

fn nonsense() -> impl Strategy<Value = (P2pMessage, usize)> {
    let id = 0u64..6;
    let number = prop_oneof![0u64..200_000, Just(CHUNK as u64), Just(u64::MAX), Just(u64::MAX - 5)];
    let why = prop_oneof![
        Just(RejectReason::Cancelled),
        Just(RejectReason::OutOfMemory),
        Just(RejectReason::Protocol)
    ];
    let message = (0..7, id, 0u32..4, number, why).prop_map(|(kind, id, tag, number, why)| match kind {
        0 => P2pMessage::Eager { id, tag },
        1 => P2pMessage::Offer { id, tag, total: number },
        2 => P2pMessage::Chunk { id, offset: number },
        3 => P2pMessage::Withdrawn { id, tag },
        4 => P2pMessage::Pull { id, limit: number },
        5 => P2pMessage::Rejected { id, why },
        _ => P2pMessage::Consumed { limit: number, newest: number },
    });
    (message, prop_oneof![Just(0usize), Just(10), Just(EAGER_MAX), Just(CHUNK)])
}

proptest! {
    #![proptest_config(few(30))]

    #[test]
    fn every_message_arrives_whole_and_in_order(seed: u64) {
        let mut cluster = Cluster::random(seed);
        let called = play(&mut cluster, seed, 60, |_, _| {});
        for (&stream, sends) in &called.sends {
            for call in sends {
                prop_assert_eq!(cluster.outcome(*call), Ok(Outcome::Done));
            }
            for (nth, call) in called.receives[&stream].iter().enumerate() {
                prop_assert!(cluster.data(*call) == message(stream, nth, seed), "{:?}: message {}", stream, nth);
            }
        }
        for node in &cluster.nodes {
            prop_assert!(node.p2p.is_idle() && node.p2p.receives.is_empty());
        }
    }

    #[test]
    fn a_cancelled_call_disturbs_no_other_call(seed: u64) {
        let mut cluster = Cluster::random(seed);
        let mut called = play(&mut cluster, seed, 60, |cluster, called| {
            if !cluster.rng.chance(0.3) {
                return;
            }
            let call = CallId(1 + cluster.rng.below(cluster.calls));
            let among = |calls: &BTreeMap<Stream, Vec<CallId>>| {
                calls.iter().find(|(_, calls)| calls.contains(&call)).map(|(stream, _)| *stream)
            };
            let at = among(&called.sends).map(|stream| stream.0).or(among(&called.receives).map(|stream| stream.1));
            let at = at.expect("a call that was made");
            let pending = !cluster.ended.contains_key(&call) && !called.cancelled.contains(&call);
            assert_eq!(cluster.cancel(at, call), pending);
            if pending {
                called.cancelled.push(call);
            }
        });
        // Receives everything that is left, and one message more than there is.
        for (&stream, sends) in &called.sends {
            for _ in 0..=sends.len() {
                let call = cluster.receive(stream.1, stream.0, stream.2);
                cluster.settle();
                called.receives.entry(stream).or_default().push(call);
            }
        }
        for (stream, sends) in called.sends {
            let receives = called.receives.remove(&stream).unwrap_or_default();
            let got = received(&cluster, stream, &receives, sends.len(), seed);
            let mut missing = 0;
            for (nth, call) in sends.iter().enumerate() {
                if called.cancelled.contains(call) {
                    prop_assert!(!cluster.ended.contains_key(call));
                } else {
                    prop_assert_eq!(cluster.outcome(*call), Ok(Outcome::Done));
                    missing += usize::from(!got.contains(&nth));
                }
            }
            let given_up = receives.iter().filter(|call| called.cancelled.contains(call)).count();
            prop_assert!(missing <= given_up, "{:?}: {} messages are missing", stream, missing);
            let by = cluster.address(stream.0);
            let mut withdrawn = 0;
            for call in receives {
                match cluster.ended.get(&call) {
                    Some(Ok(Outcome::Data(_))) => {}
                    Some(other) => {
                        prop_assert_eq!(other, &Err(CommError::Withdrawn { by }));
                        withdrawn += 1;
                    }
                    None => {
                        prop_assert_eq!(cluster.cancel(stream.1, call), !called.cancelled.contains(&call));
                    }
                }
            }
            prop_assert!(withdrawn <= sends.iter().filter(|call| called.cancelled.contains(call)).count());
        }
        for node in &cluster.nodes {
            prop_assert!(node.p2p.is_idle());
        }
    }

    #[test]
    fn a_loss_ends_what_needs_the_lost_and_nothing_else(seed: u64) {
        let mut cluster = Cluster::random(seed);
        let called = play(&mut cluster, seed, 60, |cluster, _| {
            if cluster.rng.chance(0.01) {
                let node = 1 + cluster.below(cluster.nodes.len() - 1);
                if cluster.nodes[node].alive {
                    cluster.kill(node);
                }
            }
        });
        for (&stream, sends) in &called.sends {
            let (from, to, _) = stream;
            let unheard = |lost: usize| match cluster.address(lost) {
                Address::Rank(rank) => Err(CommError::lost([rank].into_iter().collect())),
                Address::FrontEnd => Err(CommError::FrontEndLost),
            };
            for call in sends.iter().filter(|_| cluster.nodes[from].alive) {
                let outcome = cluster.outcome(*call);
                let lost = !cluster.nodes[to].alive && outcome == unheard(to);
                prop_assert!(lost || outcome == Ok(Outcome::Done), "{:?}: {:?}", stream, outcome);
            }
            let receives = called.receives.get(&stream).map_or(&[][..], |calls| &calls[..]);
            let got = received(&cluster, stream, receives, sends.len(), seed);
            if !cluster.nodes[to].alive {
                continue;
            }
            if cluster.nodes[from].alive {
                prop_assert_eq!(got.len(), sends.len());
                continue;
            }
            for call in receives {
                let outcome = cluster.outcome(*call);
                prop_assert!(matches!(outcome, Ok(Outcome::Data(_))) || outcome == unheard(from));
            }
        }
        for node in cluster.nodes.iter().filter(|node| node.alive) {
            prop_assert!(node.p2p.is_idle());
        }
    }

    #[test]
    fn invalid_messages_end_only_the_calls_that_they_concern(notes in prop::collection::vec(nonsense(), 0..200)) {
        let mut cluster = Cluster::of(1, &[0, 0], &[0, 1]);
        let calls: Vec<CallId> = (0..4).map(|tag| cluster.receive(0, 1, tag)).collect();
        let sends = [cluster.send(0, 1, 0, vec![1; CHUNK]), cluster.send(0, 1, 1, vec![1; 3 * CHUNK])];
        let good = cluster.send(2, 0, 3, vec![2; 5 * CHUNK]);
        let wanted = cluster.receive(0, 2, 3);
        let lost: Vec<CallId> = notes.into_iter().map(|(message, payload)| {
            cluster.forge(1, 0, message, vec![0; payload].into());
            cluster.step();
            cluster.receive(0, 1, 7)
        }).collect();
        cluster.settle();
        prop_assert_eq!(cluster.outcome(good), Ok(Outcome::Done));
        prop_assert_eq!(cluster.data(wanted).len(), 5 * CHUNK);
        cluster.kill(1);
        cluster.settle();
        for call in calls.into_iter().chain(sends).chain(lost) {
            prop_assert!(cluster.ended.contains_key(&call));
        }
    }
}
