//! Facts about both ciphers, and about the agreement on one.

use std::vec::Vec;

use super::super::tests::{TERMS, key, linked, read};
use super::super::{LinkSecurity, SecuredLink, Terms};
use super::*;

const CIPHERS: [RecordCipher; 2] = [RecordCipher::ChaCha20Poly1305, RecordCipher::Aegis128L];

fn keys(cipher: RecordCipher) -> (DirectionKey, DirectionKey) {
    (DirectionKey::new(cipher, &[9; 32]), DirectionKey::new(cipher, &[9; 32]))
}

fn sealed(key: &mut DirectionKey, plain: &[u8]) -> Vec<u8> {
    let mut bytes = plain.to_vec();
    let tag = key.seal(&mut bytes).unwrap();
    bytes.extend_from_slice(&tag);
    bytes
}

#[test]
fn what_a_key_seals_the_same_key_opens_at_every_length() {
    for cipher in CIPHERS {
        let (mut seal, mut open) = keys(cipher);
        for length in (0..100).chain([1_000, 16_383, 16_384]) {
            let plain: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let mut bytes = sealed(&mut seal, &plain);
            assert!(length < 16 || !bytes.starts_with(&plain), "{cipher} leaves {length} bytes as they are");
            assert_eq!(open.open(&mut bytes), Ok(&mut plain.clone()[..]), "{cipher}, {length} bytes");
        }
    }
}

#[test]
fn a_changed_bit_does_not_open() {
    for cipher in CIPHERS {
        let (mut seal, mut open) = keys(cipher);
        let genuine = sealed(&mut seal, b"of thirty-three bytes, as it is, ");
        for bit in 0..8 * genuine.len() {
            let mut changed = genuine.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                open.open(&mut changed),
                Err(RecordFault::Damaged { record: 0 }),
                "{cipher}, bit {bit}"
            );
        }
        assert_eq!(open.open(&mut genuine.clone()).unwrap(), b"of thirty-three bytes, as it is, ");
    }
}

#[test]
fn a_message_opens_under_its_own_number_alone() {
    for cipher in CIPHERS {
        let (mut seal, mut open) = keys(cipher);
        let [first, second] = [(); 2].map(|()| sealed(&mut seal, b"the same"));
        assert_ne!(first, second, "{cipher}");
        assert_eq!(open.open(&mut second.clone()), Err(RecordFault::Damaged { record: 0 }));
        open.open(&mut first.clone()).unwrap();
        assert_eq!(open.open(&mut first.clone()), Err(RecordFault::Damaged { record: 1 }));
        open.open(&mut second.clone()).unwrap();
    }
}

#[test]
fn no_number_is_used_twice() {
    for cipher in CIPHERS {
        let (mut seal, _) = keys(cipher);
        seal.skip_to(u64::MAX - 1);
        assert!(seal.seal(&mut []).is_ok());
        for _ in 0..2 {
            assert_eq!(seal.seal(&mut []), Err(RecordFault::Exhausted), "{cipher}");
        }
    }
}

#[cfg(feature = "aegis")]
#[test]
fn no_cipher_opens_what_another_sealed() {
    let [(mut ours, _), (_, mut theirs)] = CIPHERS.map(keys);
    let mut bytes = sealed(&mut ours, b"text");
    assert_eq!(theirs.open(&mut bytes), Err(RecordFault::Damaged { record: 0 }));
}

#[test]
fn two_ends_use_aegis_only_where_both_are_fast_with_it() {
    let later = CipherOffer::from_wire(0b1111_1101);
    let (portable, aes) = (CipherOffer::PORTABLE, CipherOffer(0b11));
    for (ours, theirs, agreed) in [
        (portable, portable, RecordCipher::ChaCha20Poly1305),
        (portable, aes, RecordCipher::ChaCha20Poly1305),
        (aes, aes, RecordCipher::Aegis128L),
        (aes, later, RecordCipher::ChaCha20Poly1305),
        (aes, CipherOffer::from_wire(0), RecordCipher::ChaCha20Poly1305),
    ] {
        assert_eq!((ours.best(theirs), theirs.best(ours)), (agreed, agreed), "{ours:?}, {theirs:?}");
    }
}

#[test]
fn a_choice_that_was_not_offered_is_none() {
    assert_eq!(CipherOffer::PORTABLE.chosen(0), Some(RecordCipher::ChaCha20Poly1305));
    assert_eq!(CipherOffer(0b11).chosen(1), Some(RecordCipher::Aegis128L));
    for refused in 1..=255 {
        assert_eq!(CipherOffer::PORTABLE.chosen(refused), None);
    }
}

#[test]
fn a_link_uses_the_best_cipher_of_both_ends() {
    let offers = [CipherOffer::PORTABLE, CipherOffer::AES_INSTRUCTIONS];
    for (childs, parents) in offers.into_iter().flat_map(|childs| offers.map(|parents| (childs, parents))) {
        let (child, parent) = linked(&key(&TERMS), childs, parents);
        let SecuredLink::Encrypted { cipher, mut seal, .. } = child else {
            panic!("these terms say encrypted");
        };
        let SecuredLink::Encrypted { cipher: same, mut open, .. } = parent else {
            panic!("these terms say encrypted");
        };
        assert_eq!((cipher, same), (childs.best(parents), cipher));
        let mut wire = Vec::new();
        seal.seal(&[b"to the parent"], &mut wire).unwrap();
        assert_eq!(read(&mut open, &wire, &[]), (b"to the parent".to_vec(), Ok(())));
    }
    let plain = Terms { mode: LinkSecurity::Authenticated, ..TERMS };
    let (child, parent) = linked(&key(&plain), offers[1], offers[1]);
    assert!(matches!((child, parent), (SecuredLink::Authenticated, SecuredLink::Authenticated)));
}
