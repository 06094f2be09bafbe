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
    Secret::new(entropy(byte))
}

pub(super) fn entropy(byte: u8) -> Entropy {
    Entropy::new(&mut [byte; 32])
}

pub(super) const PORTABLE: CipherOffer = CipherOffer::PORTABLE;

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
        HandshakeStep::Done(opening) => opening,
        HandshakeStep::Wait(_) => panic!("the opening is complete"),
    }
}

/// Both ends of a link, child first.
pub(super) fn secured(key: &LinkKey) -> (SecuredLink, SecuredLink) {
    linked(key, PORTABLE, PORTABLE)
}

/// Both ends of a link, child first, which make these offers.
pub(super) fn linked(key: &LinkKey, childs: CipherOffer, parents: CipherOffer) -> (SecuredLink, SecuredLink) {
    let (child, opening) = AwaitReply::begin(key, childs, entropy(1));
    let (parent, reply) = opening_of(&opening).answer(Some(key), parents, entropy(2)).unwrap();
    let Ok(HandshakeStep::Done((child, proof))) = child.step(&mut &reply[..]) else {
        panic!("the reply is genuine");
    };
    let Ok(HandshakeStep::Done(parent)) = parent.step(&mut &proof[..]) else {
        panic!("the proof is genuine");
    };
    (child, parent)
}

/// One direction of an encrypted link, without the handshake, which takes longer than what is
/// tested here.
pub(super) fn one_way() -> (Sealer, Opener) {
    let key = || cipher::DirectionKey::new(RecordCipher::ChaCha20Poly1305, &[9; 32]);
    (Sealer::new(key()), Opener::new(key()))
}

/// All that a stream of records says, when it comes in pieces cut at `cuts`.
pub(super) fn read(open: &mut Opener, stream: &[u8], cuts: &[usize]) -> (Vec<u8>, Result<(), RecordFault>) {
    let mut opened = Vec::new();
    let mut from = 0;
    for to in cuts.iter().copied().chain([stream.len()]) {
        let mut piece = stream[from..to].to_vec();
        let mut input = &mut piece[..];
        loop {
            match open.step(&mut input) {
                Ok(Some(bytes)) => {
                    assert!(!bytes.is_empty());
                    opened.extend_from_slice(bytes);
                }
                Ok(None) => break,
                Err(fault) => return (opened, Err(fault)),
            }
        }
        assert!(input.is_empty());
        from = to;
    }
    (opened, Ok(()))
}

#[test]
fn what_one_end_seals_the_other_opens_in_both_directions() {
    let (
        SecuredLink::Encrypted { mut seal, mut open, .. },
        SecuredLink::Encrypted { seal: mut back, open: mut parent, .. },
    ) = secured(&key(&TERMS))
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
    assert!(matches!(ends, (SecuredLink::Authenticated, SecuredLink::Authenticated)));
}

#[test]
fn encrypted_is_the_default() {
    assert_eq!(LinkSecurity::default(), LinkSecurity::Encrypted);
}

#[test]
fn terms_that_differ_give_links_without_visible_relation() {
    let mut ids: Vec<KeyId> = other_terms().iter().map(|terms| key(terms).id()).collect();
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
    let (child, opening) = AwaitReply::begin(&key, PORTABLE, entropy(1));
    let (parent, _) = opening_of(&opening).answer(Some(&key), PORTABLE, entropy(2)).unwrap();
    let (one, other) = secured(&key);
    let shown = [
        format!("{:?} {:#?}", secret(7), secret(7)),
        format!("{:?} {:#?}", entropy(7), entropy(7)),
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
        // Beside the link's id, which is public, there are a few lengths and nothing that looks
        // like bytes.
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
    wiped::<Entropy>();
    wiped::<LinkKey>();
    wiped::<Sealer>();
    wiped::<Opener>();
    let mut drawn = [7; 32];
    drop(Entropy::new(&mut drawn));
    assert_eq!(drawn, [0; 32]);
}

#[test]
fn a_secret_goes_into_a_ticket_only_where_the_ticket_says_so() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Carrier {
        #[serde(with = "in_ticket")]
        secret: Secret,
    }
    let bytes = postcard::to_allocvec(&Carrier { secret: secret(7) }).unwrap();
    assert_eq!(bytes, [7; 32]);
    let ticket: Carrier = postcard::from_bytes(&bytes).unwrap();
    assert_eq!(ticket.secret, secret(7));
    assert_ne!(ticket.secret, secret(8));
    assert!(postcard::from_bytes::<Carrier>(&bytes[..31]).is_err());
}

proptest! {
    #[test]
    fn a_stream_says_the_same_however_it_is_sealed_and_cut(
        parts in proptest::collection::vec((any::<u8>(), 0..3 * MAX_PLAINTEXT), 0..6),
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
        let (opened, result) = read(&mut open, &wire, &cuts);
        prop_assert_eq!(result, Ok(()));
        prop_assert!(opened == parts.concat());
        prop_assert_eq!(open.end(), Ok(()));
    }
}
