//! The speed of handshakes, and of encrypting and decrypting records.
//!
//! `cargo bench -p libi-core --bench seal` prints medians over several runs in one process, with
//! the slowest and the fastest, and beside each the time of copying the same bytes once. It takes
//! about twenty seconds. With `--features aegis` it compares AEGIS-128L as well.

use std::hint::black_box;
use std::time::{Duration, Instant};

use libi_core::ids::{HostIndex, SessionId};
use libi_core::secure::{
    AwaitOpening, AwaitReply, CipherOffer, Entropy, HandshakeStep, KeyId, LinkKey, LinkSecurity, OPENING_LEN,
    Opener, Opening, Parent, Sealer, Secret, SecuredLink, Terms,
};
use libi_core::wire::Version;

const RUNS: usize = 15;
/// The bytes between two readings of the clock.
const BATCH: usize = 8 << 20;

fn main() {
    println!("{:<44} {:>10}  {:>21}", "", "median", "(least … most)");
    let mut offers = vec![CipherOffer::PORTABLE, CipherOffer::AES_INSTRUCTIONS];
    offers.dedup();
    for offer in offers {
        println!("{}", offer.best(offer));
        for (name, size) in [("64 B", 64), ("1 KiB", 1 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20)] {
            payloads(name, size, offer);
        }
        handshakes(offer);
    }
}

fn payloads(name: &str, size: usize, offer: CipherOffer) {
    let (mut seal, mut open) = direction(offer);
    let header = [0x11; 8];
    let payload = vec![0x5a; size];
    let count = BATCH / size;
    let (mut sealing, mut opening, mut copying) = (Vec::new(), Vec::new(), Vec::new());
    let mut copy = Vec::with_capacity(BATCH + count * header.len());
    let mut wire = Vec::new();
    for _ in 0..=RUNS {
        copying.push(time(|| {
            copy.clear();
            for _ in 0..count {
                copy.extend_from_slice(black_box(&header));
                copy.extend_from_slice(black_box(&payload));
            }
            black_box(&copy);
        }));
        wire.clear();
        sealing.push(time(|| {
            for _ in 0..count {
                seal.seal(&[&header, &payload], &mut wire).expect("the key is fresh");
            }
        }));
        // In pieces as a socket gives them, so that some records are split.
        opening.push(time(|| {
            for mut piece in wire.chunks_mut(256 << 10) {
                while let Some(bytes) = open.step(&mut piece).expect("the records are unchanged") {
                    black_box(bytes);
                }
            }
        }));
    }
    let seal = report_speed(&format!("seal payloads of {name}"), &mut sealing);
    let open = report_speed(&format!("open payloads of {name}"), &mut opening);
    let copy = report_speed(&format!("  baseline: copy payloads of {name}"), &mut copying);
    println!("  seal / baseline: {:.1}, open / baseline: {:.1}", seal / copy, open / copy);
}

fn handshakes(offer: CipherOffer) {
    const COUNT: u32 = 200;
    let key = key(LinkSecurity::Encrypted);
    let mut whole = Vec::new();
    let mut unknown = Vec::new();
    let mut repeated = Vec::new();
    let mut repeats = [0x5a; OPENING_LEN];
    repeats[..KeyId::LEN].copy_from_slice(&key.id().0);
    for _ in 0..=RUNS {
        whole.push(time(|| {
            for _ in 0..COUNT {
                black_box(handshake(&key, offer));
            }
        }));
        unknown.push(time(|| {
            for _ in 0..COUNT {
                let stranger = opening(&[0x5a; OPENING_LEN]);
                assert!(stranger.answer(black_box(None), offer, entropy(2)).is_err());
            }
        }));
        repeated.push(time(|| {
            for _ in 0..COUNT {
                let stranger = opening(&repeats);
                assert!(stranger.answer(black_box(Some(&key)), offer, entropy(2)).is_err());
            }
        }));
    }
    report_rate("handshakes, both ends", COUNT, &mut whole);
    report_rate("refusals of an unknown link id", COUNT, &mut unknown);
    report_rate("refusals of a known one without its key", COUNT, &mut repeated);
}

fn key(mode: LinkSecurity) -> LinkKey {
    let terms = Terms {
        version: Version(1),
        session: SessionId(1),
        host: HostIndex(2),
        attempt: 1,
        parent: Parent::FrontEnd,
        mode,
    };
    LinkKey::derive(&Secret::new(entropy(7)), &terms)
}

fn entropy(byte: u8) -> Entropy {
    Entropy::new(&mut [byte; 32])
}

fn opening(bytes: &[u8]) -> Opening {
    match AwaitOpening::new().step(&mut &*bytes) {
        HandshakeStep::Done(opening) => opening,
        HandshakeStep::Wait(_) => panic!("the opening is complete"),
    }
}

fn handshake(key: &LinkKey, offer: CipherOffer) -> (SecuredLink, SecuredLink) {
    let (child, message) = AwaitReply::begin(key, offer, entropy(1));
    let (parent, reply) = opening(&message).answer(Some(key), offer, entropy(2)).expect("a genuine opening");
    let Ok(HandshakeStep::Done((child, proof))) = child.step(&mut &reply[..]) else {
        panic!("a genuine reply");
    };
    let Ok(HandshakeStep::Done(parent)) = parent.step(&mut &proof[..]) else {
        panic!("a genuine proof");
    };
    (child, parent)
}

fn direction(offer: CipherOffer) -> (Sealer, Opener) {
    match handshake(&key(LinkSecurity::Encrypted), offer) {
        (SecuredLink::Encrypted { seal, .. }, SecuredLink::Encrypted { open, .. }) => (seal, open),
        _ => panic!("the terms say encrypted"),
    }
}

fn time(work: impl FnOnce()) -> Duration {
    let start = Instant::now();
    work();
    start.elapsed()
}

/// Prints MB/s; returns the median in seconds.
fn report_speed(what: &str, times: &mut Vec<Duration>) -> f64 {
    report(what, "MB/s", times, |seconds| BATCH as f64 / seconds / 1e6)
}

fn report_rate(what: &str, count: u32, times: &mut Vec<Duration>) {
    report(what, "/s  ", times, |seconds| f64::from(count) / seconds);
}

fn report(what: &str, unit: &str, times: &mut Vec<Duration>, value: impl Fn(f64) -> f64) -> f64 {
    times.remove(0); // the first run pays for the memory of all
    times.sort();
    let value = |time: &Duration| value(time.as_secs_f64());
    let median = times[times.len() / 2];
    let range = format!("({:.0} … {:.0})", value(&times[times.len() - 1]), value(&times[0]));
    println!("{what:<44} {:>5.0} {unit}  {range:>21}", value(&median));
    median.as_secs_f64()
}
