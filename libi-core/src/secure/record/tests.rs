//! Facts about records, mostly about bad ones.

use std::vec;
use std::vec::Vec;

use super::super::SecuredLink;
use super::super::tests::{TERMS, key, one_way, read, secured};
use super::*;

fn sealed(seal: &mut Sealer, parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    seal.seal(parts, &mut out).unwrap();
    out
}

#[test]
fn no_bytes_make_no_record() {
    let (mut seal, _) = one_way();
    assert_eq!(sealed(&mut seal, &[]), []);
    assert_eq!(sealed(&mut seal, &[b"", b""]), []);
}

#[test]
fn records_are_as_long_as_the_protocol_allows_and_no_longer() {
    let (mut seal, mut open) = one_way();
    let lengths = [1, MAX_PLAINTEXT - 1, MAX_PLAINTEXT, MAX_PLAINTEXT + 1, (1 << 20) + 8];
    for (length, records) in lengths.into_iter().zip([1, 1, 1, 2, 65]) {
        let plain = vec![0x5a; length];
        let wire = sealed(&mut seal, &[&plain]);
        assert_eq!(wire.len(), length + records * (LENGTH_LEN + TAG_LEN));
        assert_eq!(read(&mut open, &wire, &[]), (plain, Ok(())));
    }
}

#[test]
fn a_whole_record_opens_where_it_lies() {
    let (mut seal, mut open) = one_way();
    let mut wire = sealed(&mut seal, &[b"in place"]);
    let range = wire.as_ptr_range();
    let mut input = &mut wire[..];
    let opened = open.step(&mut input).unwrap().unwrap();
    assert_eq!(opened, b"in place");
    assert!(range.contains(&opened.as_ptr()));
    assert_eq!(open.split.capacity(), 0);
}

#[test]
fn a_split_record_takes_one_buffer_of_fixed_size() {
    let (mut seal, mut open) = one_way();
    for length in [1, 300, MAX_PLAINTEXT, 3 * MAX_PLAINTEXT] {
        let plain = vec![1; length];
        let wire = sealed(&mut seal, &[&plain]);
        let everywhere: Vec<usize> = (0..wire.len()).collect();
        assert_eq!(read(&mut open, &wire, &everywhere), (plain, Ok(())));
        assert_eq!(open.split.capacity(), LENGTH_LEN + MAX_CIPHERTEXT);
    }
}

#[test]
fn a_length_that_no_record_has_is_refused_before_space_is_set_aside() {
    for length in (0..=16).chain(16_401..=16_500).chain([65_535]) {
        for piece in [1, 2] {
            let (_, mut open) = one_way();
            let bytes = u16::try_from(length).unwrap().to_le_bytes();
            let cuts: &[usize] = if piece == 1 { &[1] } else { &[] };
            let (opened, result) = read(&mut open, &bytes, cuts);
            assert_eq!((opened.len(), result), (0, Err(RecordFault::Length { record: 0, length })));
        }
    }
}

#[test]
fn every_flipped_bit_is_refused_and_the_link_is_dead_from_then_on() {
    let (_, mut open) = one_way();
    let wire = sealed(&mut one_way().0, &[b"a few bytes"]);
    for bit in 0..8 * wire.len() {
        for cuts in [&[][..], &[7]] {
            let (mut seal, mut open) = one_way();
            let mut wire = sealed(&mut seal, &[b"a few bytes"]);
            let next = sealed(&mut seal, &[b"the next"]);
            wire[bit / 8] ^= 1 << (bit % 8);
            let all = [&wire[..], &next].concat();
            let (opened, result) = read(&mut open, &all, cuts);
            assert_eq!(opened, b"");
            // A longer claim may only make it wait for more.
            let Err(fault) = result else {
                assert!(bit < 16, "bit {bit} goes unnoticed");
                assert!(matches!(open.end(), Err(RecordFault::Cut { record: 0, .. })));
                continue;
            };
            assert_eq!(read(&mut open, &next, &[]), (vec![], Err(fault)));
            assert_eq!(open.end(), Err(fault));
        }
    }
    // The same without the flip, for the test's own sake.
    assert_eq!(read(&mut open, &wire, &[]).0, b"a few bytes");
}

#[test]
fn records_left_out_repeated_or_swapped_are_refused() {
    let (mut seal, _) = one_way();
    let records: Vec<Vec<u8>> = (0..3u8).map(|n| sealed(&mut seal, &[&[n]])).collect();
    let orders: [(&[usize], usize); 4] = [(&[1], 0), (&[0, 0], 1), (&[0, 2], 1), (&[1, 0], 0)];
    for (order, good) in orders {
        let (_, mut open) = one_way();
        let wire: Vec<u8> = order.iter().flat_map(|&at| records[at].clone()).collect();
        let (opened, result) = read(&mut open, &wire, &[]);
        assert_eq!(opened.len(), good, "{order:?}");
        assert_eq!(result, Err(RecordFault::Damaged { record: good as u64 }), "{order:?}");
    }
}

#[test]
fn a_record_of_the_other_direction_is_refused() {
    let (SecuredLink::Encrypted { mut seal, mut open, .. }, _) = secured(&key(&TERMS)) else {
        panic!("these terms say encrypted");
    };
    let wire = sealed(&mut seal, &[b"back at you"]);
    assert_eq!(read(&mut open, &wire, &[]), (vec![], Err(RecordFault::Damaged { record: 0 })));
}

#[test]
fn every_cut_inside_a_record_is_reported() {
    let (mut seal, _) = one_way();
    let first = sealed(&mut seal, &[b"first"]);
    let wire = [first.clone(), sealed(&mut seal, &[b"second"])].concat();
    for have in 0..=wire.len() {
        let (_, mut open) = one_way();
        assert_eq!(read(&mut open, &wire[..have], &[]).1, Ok(()));
        let (record, rest) = if have < first.len() { (0, have) } else { (1, have - first.len()) };
        let whole = rest == 0 || have == wire.len();
        let expected = if whole { Ok(()) } else { Err(RecordFault::Cut { record, have: rest }) };
        assert_eq!(open.end(), expected, "{have} bytes");
    }
}

#[test]
fn the_last_nonce_is_never_used() {
    let (mut seal, _) = one_way();
    seal.skip_to(u64::MAX - 2);
    let mut out = Vec::new();
    assert_eq!(seal.seal(&[b"one"], &mut out), Ok(()));
    assert_eq!(seal.seal(&[b"two"], &mut out), Ok(()));
    let full = out.len();
    assert_eq!(seal.seal(&[b"three"], &mut out), Err(RecordFault::Exhausted));
    assert_eq!(out.len(), full);
}

#[test]
fn more_records_than_nonces_are_left_seal_nothing_then_or_later() {
    let (mut seal, _) = one_way();
    seal.skip_to(u64::MAX - 2);
    let mut out = Vec::new();
    assert_eq!(seal.seal(&[&[0; 2 * MAX_PLAINTEXT + 1]], &mut out), Err(RecordFault::Exhausted));
    assert_eq!(seal.seal(&[b"one"], &mut out), Err(RecordFault::Exhausted));
    assert!(out.is_empty());
}
