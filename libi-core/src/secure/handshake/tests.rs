//! Facts about handshakes, mostly about those that have to fail.

use std::mem::size_of;
use std::vec::Vec;

use proptest::prelude::*;

use super::super::tests::{PORTABLE, TERMS, entropy, key, opening_of, other_terms, secret};
use super::super::{Secret, Terms};
use super::*;
use crate::ids::{HostIndex, SessionId};

fn not_proven(awaited: HandshakeMessage) -> HandshakeFault {
    HandshakeFault::NotAuthentic { awaited }
}

/// Feeds a reply to a child; `Ok` if it takes it.
fn take_reply(child: AwaitReply, reply: &[u8]) -> Result<[u8; PROOF_LEN], HandshakeFault> {
    match child.step(&mut &reply[..])? {
        HandshakeStep::Done((_, proof)) => Ok(proof),
        HandshakeStep::Wait(waiting) => Err(waiting.end()),
    }
}

/// Feeds a proof to a parent.
fn take_proof(parent: AwaitProof, proof: &[u8]) -> Result<SecuredLink, HandshakeFault> {
    match parent.step(&mut &proof[..])? {
        HandshakeStep::Done(secured) => Ok(secured),
        HandshakeStep::Wait(waiting) => Err(waiting.end()),
    }
}

/// Everything a handshake sends, up to the proof.
fn messages(key: &LinkKey) -> ([u8; OPENING_LEN], [u8; REPLY_LEN], [u8; PROOF_LEN]) {
    let (child, opening) = AwaitReply::begin(key, PORTABLE, entropy(1));
    let (_, reply) = opening_of(&opening).answer(Some(key), PORTABLE, entropy(2)).unwrap();
    (opening, reply, take_reply(child, &reply).unwrap())
}

#[test]
fn the_messages_have_the_lengths_that_the_protocol_states() {
    assert_eq!((OPENING_LEN, REPLY_LEN, PROOF_LEN), (65, 49, 16));
    for awaited in [HandshakeMessage::Opening, HandshakeMessage::Reply, HandshakeMessage::Proof] {
        assert!([65, 49, 16].contains(&awaited.length()));
    }
}

#[test]
fn before_proof_a_connection_occupies_little() {
    assert!(size_of::<AwaitOpening>() < 100);
    assert!(size_of::<AwaitProof>() < 200);
}

#[test]
fn what_follows_a_message_is_left_alone() {
    let key = key(&TERMS);
    let (child, opening) = AwaitReply::begin(&key, PORTABLE, entropy(1));
    let opening = [&opening[..], b"more"].concat();
    let mut input = &opening[..];
    let HandshakeStep::Done(received) = AwaitOpening::new().step(&mut input) else {
        panic!("the opening is complete");
    };
    assert_eq!(input, b"more");
    let (parent, reply) = received.answer(Some(&key), PORTABLE, entropy(2)).unwrap();
    let reply = [&reply[..], b"records"].concat();
    let mut input = &reply[..];
    let Ok(HandshakeStep::Done((_, proof))) = child.step(&mut input) else {
        panic!("the reply is genuine");
    };
    assert_eq!(input, b"records");
    let proof = [&proof[..], b"records"].concat();
    let mut input = &proof[..];
    assert!(matches!(parent.step(&mut input), Ok(HandshakeStep::Done(_))));
    assert_eq!(input, b"records");
}

#[test]
fn another_secret_is_refused_at_the_opening() {
    let theirs = LinkKey::derive(&secret(8), &TERMS);
    let (_, opening) = AwaitReply::begin(&theirs, PORTABLE, entropy(1));
    for ours in [None, Some(&key(&TERMS))] {
        let refused = opening_of(&opening).answer(ours, PORTABLE, entropy(2)).err();
        assert_eq!(refused, Some(HandshakeFault::UnknownKey));
    }
}

#[test]
fn the_right_id_over_any_other_key_is_refused_at_the_opening() {
    let mut others: Vec<LinkKey> = other_terms().iter().map(key).collect();
    others.push(LinkKey::derive(&secret(8), &TERMS));
    let key = key(&TERMS);
    for other in others {
        let (_, mut opening) = AwaitReply::begin(&other, PORTABLE, entropy(1));
        opening[..KeyId::LEN].copy_from_slice(&key.id().0);
        let refused = opening_of(&opening).answer(Some(&key), PORTABLE, entropy(2)).err();
        assert_eq!(refused, Some(not_proven(HandshakeMessage::Opening)), "{other:?}");
    }
}

#[test]
fn a_parent_without_the_key_is_refused_at_the_reply() {
    let others: Vec<LinkKey> = other_terms().iter().map(key).collect();
    let key = key(&TERMS);
    for other in others {
        // Its own handshake, under the id that the child asked for, as an impostor would do.
        let (child, _) = AwaitReply::begin(&key, PORTABLE, entropy(1));
        let (_, theirs) = AwaitReply::begin(&other, PORTABLE, entropy(1));
        let (_, reply) = opening_of(&theirs).answer(Some(&other), PORTABLE, entropy(2)).unwrap();
        assert_eq!(take_reply(child, &reply), Err(not_proven(HandshakeMessage::Reply)), "{other:?}");
    }
}

#[test]
fn an_opening_for_the_decoy_that_stands_for_unknown_links_is_refused() {
    let decoy = LinkKey::decoy();
    let (_, opening) = AwaitReply::begin(&decoy, PORTABLE, entropy(1));
    assert_eq!(
        opening_of(&opening).answer(None, PORTABLE, entropy(2)).err(),
        Some(HandshakeFault::UnknownKey)
    );
}

#[test]
fn a_replayed_opening_leads_to_no_proof() {
    let key = key(&TERMS);
    let (opening, first_reply, proof) = messages(&key);
    let (parent, reply) = opening_of(&opening).answer(Some(&key), PORTABLE, entropy(3)).unwrap();
    assert_ne!(reply, first_reply);
    assert_eq!(take_proof(parent, &proof).err(), Some(not_proven(HandshakeMessage::Proof)));
}

#[test]
fn a_replayed_reply_is_refused() {
    let key = key(&TERMS);
    let (_, reply, _) = messages(&key);
    let (child, _) = AwaitReply::begin(&key, PORTABLE, entropy(3));
    assert_eq!(take_reply(child, &reply), Err(not_proven(HandshakeMessage::Reply)));
}

#[test]
fn an_opening_sent_back_is_no_reply() {
    let key = key(&TERMS);
    let (child, opening) = AwaitReply::begin(&key, PORTABLE, entropy(1));
    assert_eq!(take_reply(child, &opening), Err(not_proven(HandshakeMessage::Reply)));
    let (child, opening) = AwaitReply::begin(&key, PORTABLE, entropy(1));
    assert_eq!(take_reply(child, &opening[KeyId::LEN..]), Err(not_proven(HandshakeMessage::Reply)));
}

#[test]
fn two_tries_with_one_ticket_share_nothing_but_the_id() {
    let key = key(&TERMS);
    let (one, first) = AwaitReply::begin(&key, PORTABLE, entropy(1));
    let (_, second) = AwaitReply::begin(&key, PORTABLE, entropy(3));
    assert_eq!(first[..KeyId::LEN], second[..KeyId::LEN]);
    assert_ne!(first[KeyId::LEN..], second[KeyId::LEN..]);
    // The reply to one does not do for the other.
    let (_, reply) = opening_of(&second).answer(Some(&key), PORTABLE, entropy(2)).unwrap();
    assert_eq!(take_reply(one, &reply), Err(not_proven(HandshakeMessage::Reply)));
}

#[test]
fn every_flipped_bit_of_every_message_is_refused() {
    let key = key(&TERMS);
    let (opening, reply, proof) = messages(&key);
    for bit in 0..8 * OPENING_LEN {
        let mut changed = opening;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(opening_of(&changed).answer(Some(&key), PORTABLE, entropy(2)).is_err(), "opening, bit {bit}");
    }
    for bit in 0..8 * REPLY_LEN {
        let (child, _) = AwaitReply::begin(&key, PORTABLE, entropy(1));
        let mut changed = reply;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(take_reply(child, &changed), Err(not_proven(HandshakeMessage::Reply)), "reply, bit {bit}");
    }
    for bit in 0..8 * PROOF_LEN {
        let (parent, _) = opening_of(&opening).answer(Some(&key), PORTABLE, entropy(2)).unwrap();
        let mut changed = proof;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(
            take_proof(parent, &changed).err(),
            Some(not_proven(HandshakeMessage::Proof)),
            "proof, bit {bit}"
        );
    }
}

#[test]
fn every_cut_is_reported_with_what_was_awaited() {
    let key = key(&TERMS);
    let (opening, reply, proof) = messages(&key);
    let cut = |awaited, have| HandshakeFault::Cut { awaited, have };
    for have in 0..OPENING_LEN {
        let HandshakeStep::Wait(waiting) = AwaitOpening::new().step(&mut &opening[..have]) else {
            panic!("{have} bytes are taken for an opening");
        };
        assert_eq!(waiting.end(), cut(HandshakeMessage::Opening, have));
    }
    for have in 0..REPLY_LEN {
        let (child, _) = AwaitReply::begin(&key, PORTABLE, entropy(1));
        assert_eq!(take_reply(child, &reply[..have]), Err(cut(HandshakeMessage::Reply, have)));
    }
    for have in 0..PROOF_LEN {
        let (parent, _) = opening_of(&opening).answer(Some(&key), PORTABLE, entropy(2)).unwrap();
        assert_eq!(take_proof(parent, &proof[..have]).err(), Some(cut(HandshakeMessage::Proof, have)));
    }
}

#[test]
fn garbage_of_every_length_is_refused() {
    let key = key(&TERMS);
    for (len, byte) in (0..2 * OPENING_LEN).zip((0..=255u8).cycle()) {
        let garbage: Vec<u8> = (0..len).map(|i| byte.wrapping_mul(31).wrapping_add(i as u8)).collect();
        match AwaitOpening::new().step(&mut &garbage[..]) {
            HandshakeStep::Wait(_) => assert!(len < OPENING_LEN),
            HandshakeStep::Done(opening) => {
                let refused = opening.answer(Some(&key), PORTABLE, entropy(2)).err();
                assert_eq!(refused, Some(HandshakeFault::UnknownKey));
            }
        }
        let (child, opening) = AwaitReply::begin(&key, PORTABLE, entropy(1));
        assert!(take_reply(child, &garbage).is_err());
        let (parent, _) = opening_of(&opening).answer(Some(&key), PORTABLE, entropy(2)).unwrap();
        assert!(take_proof(parent, &garbage).is_err());
    }
}

#[test]
fn a_public_key_of_small_order_proves_nothing() {
    let key = key(&TERMS);
    let (child, opening) = AwaitReply::begin(&key, PORTABLE, entropy(1));
    let mut changed = opening;
    changed[KeyId::LEN..KeyId::LEN + 32].fill(0);
    assert!(opening_of(&changed).answer(Some(&key), PORTABLE, entropy(2)).is_err());
    assert!(take_reply(child, &[0; REPLY_LEN]).is_err());
}

proptest! {
    #[test]
    fn a_handshake_succeeds_however_it_is_cut(
        secret_bytes: [u8; 32], childs: [u8; 32], parents: [u8; 32],
        session: u32, host: u32, attempt: u32, size in 1..70usize,
    ) {
        let terms = Terms {
            session: SessionId(session),
            host: HostIndex(host),
            attempt,
            ..TERMS
        };
        let key = LinkKey::derive(&Secret::from_ticket(&secret_bytes), &terms);
        let (mut child, opening) = AwaitReply::begin(&key, PORTABLE, Entropy::new(&mut childs.clone()));
        let mut waiting = AwaitOpening::new();
        let mut received = None;
        for mut piece in opening.chunks(size) {
            match waiting.step(&mut piece) {
                HandshakeStep::Wait(next) => waiting = next,
                HandshakeStep::Done(opening) => { received = Some(opening); break }
            }
        }
        let received = received.expect("all bytes of an opening are an opening");
        prop_assert_eq!(received.key_id(), key.id());
        let (mut parent, reply) = received.answer(Some(&key), PORTABLE, Entropy::new(&mut parents.clone())).unwrap();
        prop_assert_eq!(parent.key_id(), key.id());
        let mut proof = None;
        for mut piece in reply.chunks(size) {
            match child.step(&mut piece).unwrap() {
                HandshakeStep::Wait(next) => child = next,
                HandshakeStep::Done((_, done)) => { proof = Some(done); break }
            }
        }
        let mut secured = false;
        for mut piece in proof.unwrap().chunks(size) {
            match parent.step(&mut piece).unwrap() {
                HandshakeStep::Wait(next) => parent = next,
                HandshakeStep::Done(_) => { secured = true; break }
            }
        }
        prop_assert!(secured);
    }
}
