//! Very many generated inputs for what reads the bytes of a server before russh does.

use super::super::tests::garbage::source::{Rng, change, identification, kexinit, preface, seeds};
use super::*;
use crate::algorithms;
use crate::settings::Algorithms;

/// Returns the list of algorithms, or whether there is an error.
fn parsed(bytes: &[u8], rng: &mut Rng, most: usize) -> (Result<Option<Vec<u8>>, ()>, usize) {
    let (mut parser, mut rest) = (Parser::default(), bytes);
    loop {
        let (piece, after) = rest.split_at((1 + rng.below(most)).min(rest.len()));
        parser.bytes.extend_from_slice(piece);
        rest = after;
        match parser.step() {
            Ok(None) if !rest.is_empty() => {}
            result => return (result.map_err(|_| ()), parser.bytes.len()),
        }
    }
}

fn ours() -> Algorithms {
    let list = |names: &str| names.split(',').map(str::to_owned).collect::<Vec<_>>();
    Algorithms {
        kex: list("sntrup761x25519-sha512@openssh.com,curve25519-sha256,ecdh-sha2-nistp256"),
        host_keys: list("ssh-ed25519,rsa-sha2-512"),
        prefers_known_keys: true,
        ciphers: list("aes256-gcm@openssh.com,aes128-ctr"),
        macs: list("hmac-sha2-256-etm@openssh.com,hmac-sha2-256"),
    }
}

#[derive(Default, Debug)]
struct Counts {
    inputs: u64,
    /// Of these, how many had a list that was found.
    found: u64,
    /// Of these, how many lists were understood, and how many led to a connection.
    understood: u64,
    agreed: u64,
}

/// One input of the parser of the preface, and one of the list of algorithms.
fn feed(seed: u64, counts: &mut Counts) {
    let rng = &mut Rng::new(seed);
    let bytes = match rng.below(4) {
        0 => identification(rng),
        _ => preface(rng),
    };
    // In pieces and as a whole: what is found does not depend on how it arrives. The limits do.
    let (whole, length) = parsed(&bytes, rng, usize::MAX);
    assert!(length <= bytes.len());
    if bytes.len() < LINE {
        let most = rng.pick(&[40, 300, 3000]);
        let (pieces, _) = parsed(&bytes, rng, most);
        assert_eq!(pieces, whole, "seed {seed}");
    }
    let found = matches!(whole, Ok(Some(_)));
    let payload = match whole {
        Ok(Some(payload)) => payload,
        _ => {
            let mut payload = kexinit(rng);
            change(rng, &mut payload);
            payload
        }
    };
    assert!(!found || payload.first() == Some(&KEXINIT), "seed {seed}");
    counts.inputs += 1;
    counts.found += u64::from(found);
    let Ok(offer) = algorithms::Offer::parse(&payload) else { return };
    counts.understood += 1;
    let names = offer.kex.iter().chain(&offer.host_keys).chain(&offer.ciphers.to_client);
    for name in names.chain(&offer.macs.to_server).chain(&offer.compressions.to_client) {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
        assert!(is_name, "seed {seed}: {name:?}");
    }
    if let Ok(agreed) = algorithms::agree(&ours(), &offer, seed.is_multiple_of(2)) {
        assert!(offer.kex.contains(&agreed.kex) && ours().kex.contains(&agreed.kex), "seed {seed}");
        counts.agreed += 1;
    }
}

#[test]
fn no_garbage_panics_or_depends_on_how_it_arrives() {
    let mut counts = Counts::default();
    seeds(10_000).for_each(|seed| feed(seed, &mut counts));
    println!("{counts:?}");
}

/// `LIBI_SSH_CASES=10000000 cargo test --release -p libi-ssh -- --ignored --nocapture a_million`.
#[test]
#[ignore = "takes long without optimisation"]
fn a_million_pieces_of_garbage() {
    let began = std::time::Instant::now();
    let mut counts = Counts::default();
    seeds(1_000_000).for_each(|seed| feed(seed, &mut counts));
    println!("{counts:?} in {:?}", began.elapsed());
}
