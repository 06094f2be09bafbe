//! Whole links in memory, and the tools for tests of their parts.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use proptest::prelude::*;
use zeroize::ZeroizeOnDrop;

use super::*;
use crate::ids::{HostIndex, SessionId};
use crate::wire::Version;

pub(super) fn secret(byte: u8) -> Secret {
    Secret::new(fresh(byte))
}

pub(super) fn fresh(byte: u8) -> Fresh {
    Fresh::new(&mut [byte; 32])
}

pub(super) const TERMS: Terms = Terms {
    version: Version(1),
    session: SessionId(1),
    host: HostIndex(17),
    attempt: 1,
    parent: Parent::Host(HostIndex(3)),
    mode: LinkSecurity::Encrypted,
};

/// Terms that differ from [`TERMS`] in one field each.
pub(super) fn other_terms() -> Vec<Terms> {
    vec![
        Terms { version: Version(2), ..TERMS },
        Terms { session: SessionId(2), ..TERMS },
        Terms { host: HostIndex(18), ..TERMS },
        Terms { attempt: 2, ..TERMS },
        Terms { parent: Parent::FrontEnd, ..TERMS },
        Terms { parent: Parent::Host(HostIndex(0)), ..TERMS },
        Terms { mode: LinkSecurity::Authenticated, ..TERMS },
    ]
}

pub(super) fn key(terms: &Terms) -> LinkKey {
    LinkKey::derive(&secret(7), terms)
}

pub(super) fn opening_of(message: &[u8; OPENING_LEN]) -> Opening {
    match AwaitOpening::new().step(&mut &message[..]) {
        Step::Done(opening) => opening,
        Step::Wait(_) => panic!("the opening is complete"),
    }
}

/// Both ends of a link, child first.
pub(super) fn secured(key: &LinkKey) -> (Secured, Secured) {
    let (child, opening) = AwaitReply::begin(key, fresh(1));
    let (parent, reply) = opening_of(&opening).answer(Some(key), fresh(2)).unwrap();
    let Ok(Step::Done((child, proof))) = child.step(&mut &reply[..]) else {
        panic!("the reply is genuine");
    };
    let Ok(Step::Done(parent)) = parent.step(&mut &proof[..]) else {
        panic!("the proof is genuine");
    };
    (child, parent)
}

/// One direction of an encrypted link, without the handshake, which takes longer than what is tested here.
pub(super) fn one_way() -> (Seal, Open) {
    let key = || record::Numbered::new(&[9; 32]);
    (Seal::new(key()), Open::new(key()))
}

/// All that a stream of records says, when it comes in pieces cut at `cuts`.
pub(super) fn read(open: &mut Open, stream: &[u8], cuts: &[usize]) -> (Vec<u8>, Result<(), RecordFault>) {
    let mut told = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([stream.len()]) {
        let mut piece = stream[from..to].to_vec();
        let mut input = &mut piece[..];
        loop {
            match open.step(&mut input) {
                Ok(Some(bytes)) => {
                    assert!(!bytes.is_empty());
                    told.extend_from_slice(bytes);
                }
                Ok(None) => break,
                Err(fault) => return (told, Err(fault)),
            }
        }
        assert!(input.is_empty());
        from = to;
    }
    (told, Ok(()))
}

#[test]
fn what_one_end_seals_the_other_opens_in_both_directions() {
    let (Secured::Encrypted { mut seal, mut open }, Secured::Encrypted { seal: mut back, open: mut parent }) =
        secured(&key(&TERMS))
    else {
        panic!("these terms say encrypted");
    };
    for round in 0..3u8 {
        let mut wire = Vec::new();
        seal.seal(&[b"to the parent", &[round]], &mut wire).unwrap();
        assert_eq!(read(&mut parent, &wire, &[]), ([&b"to the parent"[..], &[round]].concat(), Ok(())));
        wire.clear();
        back.seal(&[b"to the child", &[round]], &mut wire).unwrap();
        assert_eq!(read(&mut open, &wire, &[]), ([&b"to the child"[..], &[round]].concat(), Ok(())));
    }
}

#[test]
fn an_authenticated_link_has_no_records() {
    let ends = secured(&key(&Terms { mode: LinkSecurity::Authenticated, ..TERMS }));
    assert!(matches!(ends, (Secured::Authenticated, Secured::Authenticated)));
}

#[test]
fn encrypted_is_the_default() {
    assert_eq!(LinkSecurity::default(), LinkSecurity::Encrypted);
}

#[test]
fn terms_that_differ_give_links_without_visible_relation() {
    let mut ids: Vec<LinkId> = other_terms().iter().map(|terms| key(terms).id()).collect();
    ids.push(key(&TERMS).id());
    ids.push(LinkKey::derive(&secret(8), &TERMS).id());
    for (at, id) in ids.iter().enumerate() {
        for other in &ids[..at] {
            let same = id.0.iter().zip(other.0).filter(|(a, b)| **a == *b).count();
            assert!(same < 4, "{id} and {other}");
        }
    }
    assert_eq!(key(&TERMS).id(), key(&TERMS).id());
}

#[test]
fn no_debug_output_shows_secret_bytes() {
    let key = key(&TERMS);
    let (child, opening) = AwaitReply::begin(&key, fresh(1));
    let (parent, _) = opening_of(&opening).answer(Some(&key), fresh(2)).unwrap();
    let (one, other) = secured(&key);
    let shown = [
        format!("{:?} {:#?}", secret(7), secret(7)),
        format!("{:?} {:#?}", fresh(7), fresh(7)),
        format!("{key:?} {key:#?}"),
        format!("{child:?} {child:#?}"),
        format!("{:?}", AwaitOpening::new()),
        format!("{parent:?} {parent:#?}"),
        format!("{one:?} {one:#?}"),
        format!("{other:?} {other:#?}"),
    ];
    assert_eq!(shown[0], "Secret(..) Secret(..)");
    assert_eq!(shown[1], "Fresh(..) Fresh(..)");
    let id = format!("{}", key.id());
    for shown in shown {
        // Beside the link's id, which is public, there are a few lengths and nothing that looks like bytes.
        let rest = shown.replace(&id, "");
        let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
        assert!(digits.len() <= 12 && !rest.contains('['), "{shown}");
        assert!(!rest.contains("7, 7") && !rest.contains("0707"), "{shown}");
    }
}

#[test]
fn what_holds_keys_wipes_itself() {
    fn wiped<T: ZeroizeOnDrop>() {
        assert!(core::mem::needs_drop::<T>());
    }
    wiped::<Secret>();
    wiped::<Fresh>();
    wiped::<LinkKey>();
    wiped::<Seal>();
    wiped::<Open>();
    let mut drawn = [7; 32];
    drop(Fresh::new(&mut drawn));
    assert_eq!(drawn, [0; 32]);
}

#[test]
fn a_secret_goes_into_a_ticket_only_where_the_ticket_says_so() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Ticket {
        #[serde(with = "in_ticket")]
        secret: Secret,
    }
    let bytes = postcard::to_allocvec(&Ticket { secret: secret(7) }).unwrap();
    assert_eq!(bytes, [7; 32]);
    let ticket: Ticket = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(ticket.secret, secret(7));
    assert_ne!(ticket.secret, secret(8));
    assert!(postcard::from_bytes::<Ticket>(&bytes[..31]).is_err());
}

proptest! {
    #[test]
    fn a_stream_says_the_same_however_it_is_sealed_and_cut(
        parts in proptest::collection::vec((any::<u8>(), 0..3 * LONGEST_PIECE), 0..6),
        group in 1..4usize,
        cuts in proptest::collection::vec(any::<proptest::sample::Index>(), 0..12),
    ) {
        let parts: Vec<Vec<u8>> = parts.iter().map(|&(byte, len)| vec![byte; len]).collect();
        let (mut seal, mut open) = one_way();
        let mut wire = Vec::new();
        for group in parts.chunks(group) {
            let group: Vec<&[u8]> = group.iter().map(Vec::as_slice).collect();
            seal.seal(&group, &mut wire).unwrap();
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(wire.len() + 1)).collect();
        cuts.sort_unstable();
        let (told, result) = read(&mut open, &wire, &cuts);
        prop_assert_eq!(result, Ok(()));
        prop_assert!(told == parts.concat());
        prop_assert_eq!(open.end(), Ok(()));
    }
}
