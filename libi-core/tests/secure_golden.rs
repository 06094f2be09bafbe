//! Golden bytes of a link's handshake and records. A build that makes other bytes is incompatible.
//!
//! `secure_golden.txt` is the output of `secure_golden.py`, which computes the same bytes
//! independently.

use std::collections::BTreeMap;
use std::fmt::Write;

use blake2::{Blake2s256, Digest};
use libi_core::ids::{HostIndex, SessionId};
use libi_core::secure::{
    AwaitOpening, AwaitReply, CipherOffer, Entropy, HandshakeStep, LinkKey, LinkSecurity, Parent, Secret,
    SecuredLink, Terms,
};
use libi_core::wire::Version;

#[test]
fn the_bytes_of_a_link_are_as_computed_elsewhere() {
    let mut ours = String::new();
    let front_end = terms(1, [2, 3, 4], Parent::FrontEnd, LinkSecurity::Encrypted);
    writeln!(ours, "front end {}", hex(&front_end.prologue())).unwrap();
    let links = [
        (1, LinkSecurity::Encrypted, CipherOffer::PORTABLE),
        (2, LinkSecurity::Authenticated, CipherOffer::PORTABLE),
        (3, LinkSecurity::Encrypted, CipherOffer::AES_INSTRUCTIONS),
    ];
    for (number, mode, offer) in links {
        let parent = Parent::Host(HostIndex(0x0f10_1112));
        let terms = terms(0x0102, [0x0304_0506, 0x0708_090a, 0x0b0c_0d0e], parent, mode);
        for (name, value) in link(&terms, offer) {
            writeln!(ours, "{number} {name} {}", hex(&value)).unwrap();
        }
    }
    // An authenticated link has no records; the script computes them all the same. A build without
    // AEGIS offers none.
    let lacks_aegis = CipherOffer::AES_INSTRUCTIONS == CipherOffer::PORTABLE;
    let golden = lines(include_str!("secure_golden.txt"));
    let ours = lines(&ours);
    for (name, value) in &golden {
        if lacks_aegis && name.starts_with('3') {
            continue;
        }
        let is_ours = ours.get(name);
        let absent = name.starts_with('2') && name.contains("record");
        assert_eq!(is_ours, (!absent).then_some(value), "this breaks the protocol: {name}");
    }
    assert!(ours.keys().all(|name| golden.contains_key(name)));
}

fn terms(version: u16, [session, host, attempt]: [u32; 3], parent: Parent, mode: LinkSecurity) -> Terms {
    let (version, session, host) = (Version(version), SessionId(session), HostIndex(host));
    Terms { version, session, host, attempt, parent, mode }
}

/// What goes over a link with these terms, by name.
fn link(terms: &Terms, offer: CipherOffer) -> Vec<(&'static str, Vec<u8>)> {
    let secret = Secret::from_ticket(&core::array::from_fn(|i| i as u8));
    let key = LinkKey::derive(&secret, terms);
    let (child, opening) = AwaitReply::begin(&key, offer, Entropy::new(&mut [0x11; 32]));
    let HandshakeStep::Done(received) = AwaitOpening::new().step(&mut &opening[..]) else {
        panic!("an opening is not complete");
    };
    let (parent, reply) =
        received.answer(Some(&key), offer, Entropy::new(&mut [0x22; 32])).expect("a genuine opening");
    let Ok(HandshakeStep::Done((child, proof))) = child.step(&mut &reply[..]) else {
        panic!("the reply is refused");
    };
    let Ok(HandshakeStep::Done(parent)) = parent.step(&mut &proof[..]) else {
        panic!("the proof is refused");
    };
    let mut values = vec![
        ("prologue", terms.prologue().to_vec()),
        ("id", key.id().0.to_vec()),
        ("opening", opening.to_vec()),
        ("reply", reply.to_vec()),
        ("proof", proof.to_vec()),
    ];
    if let (SecuredLink::Encrypted { mut seal, .. }, SecuredLink::Encrypted { seal: mut parents, .. }) =
        (child, parent)
    {
        let mut records = [const { Vec::new() }; 3];
        let sealed = [
            seal.seal(&[b"ch", b"ild"], &mut records[0]),
            seal.seal(&[b"more"], &mut records[0]),
            parents.seal(&[b"parent"], &mut records[1]),
            parents.seal(&[&[0x5a; 20_000], &[0x5a; 12_769]], &mut records[2]),
        ];
        assert_eq!(sealed, [Ok(()); 4]);
        let [childs, parents, long] = records;
        values.push(("child's records", childs));
        values.push(("parent's record", parents));
        values.push(("long records", Blake2s256::digest(long).to_vec()));
    }
    values
}

fn lines(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.rsplit_once(' ')).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
