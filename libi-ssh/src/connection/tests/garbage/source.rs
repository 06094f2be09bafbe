//! Bytes that a server might send, made from a seed.

use std::panic;
use std::sync::{Mutex, Once, PoisonError};

/// Random numbers that follow from the seed alone.
pub(in super::super::super) struct Rng(u64);

impl Rng {
    pub(in super::super::super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(in super::super::super) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    pub(in super::super::super) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    pub(in super::super::super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The seeds of a test: from `LIBI_SEED_BASE` on, else from `PROPTEST_RNG_SEED`; `LIBI_SSH_CASES`
/// replaces how many.
pub(in super::super::super) fn seeds(count: u64) -> std::ops::Range<u64> {
    let first = number("LIBI_SEED_BASE").or_else(|| number("PROPTEST_RNG_SEED")).unwrap_or(1);
    first..first + number("LIBI_SSH_CASES").unwrap_or(count)
}

static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// From now on panics of all tasks and threads are recorded.
pub(super) fn record_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            PANICS.lock().unwrap_or_else(PoisonError::into_inner).push(panic.to_string());
            before(panic);
        }));
    });
}

pub(super) fn panics() -> Vec<String> {
    PANICS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

const NUMBERS: [u32; 14] =
    [0, 1, 4, 5, 12, 255, 35_000, 65_535, 65_536, 262_144, 262_145, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];

/// Changes bytes at some places: flips, cuts, inserts, repeats, and lengths that make no sense.
pub(in super::super::super) fn change(rng: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let length = rng.below((bytes.len() - at).min(40) + 1);
        match rng.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..at + length)),
            2 => {
                let many = rng.pick(&[1, 3, 20, 300]);
                let inserted = rng.bytes(many);
                drop(bytes.splice(at..at, inserted));
            }
            3 => {
                let again = bytes[at..at + length].to_vec();
                drop(bytes.splice(at..at, again));
            }
            4 => {
                let number = rng.pick(&NUMBERS).to_be_bytes();
                bytes.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = new);
            }
            5 => {
                let value = rng.pick(&[0, 1, 10, 13, 20, 21, 31, 44, 127, 128, 255]);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte = value);
            }
            _ => {
                let bit = 1 << rng.below(8);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bit);
            }
        }
    }
}

pub(in super::super::super) fn identification(rng: &mut Rng) -> Vec<u8> {
    let valid = |rng: &mut Rng| {
        let version =
            rng.pick(&["2.0", "2.0", "1.99", "2.1", "1.5", "2", "-2.0", "", "4294967296.0", "2.0.0"]);
        let length = rng.pick(&[0, 1, 8, 60, 240, 250, 300]);
        let software: String = (0..length).map(|_| char::from(32 + rng.below(95) as u8)).collect();
        let end = rng.pick(&["\r\n", "\r\n", "\n", "\r", "", "\r\r\n", "\0\n"]);
        format!("SSH-{version}-{software}{end}").into_bytes()
    };
    match rng.below(6) {
        0 => {
            let length = rng.pick(&[0, 1, 4, 40, 500, 9000]);
            rng.bytes(length)
        }
        1 => {
            let length = rng.pick(&[0, 1, 78, 8190, 8191, 8192, 8193, 20_000]);
            let line = [vec![b'x'; length], b"\n".to_vec()].concat();
            [line, valid(rng)].concat()
        }
        2 => {
            let lines = rng.pick(&[1, 3, 1022, 1023, 1024, 1025]);
            let line = rng.pick(&[&b"\n"[..], b"Welcome\r\n", b"\x1b]0;title\x07\n", b"\xff\xfe\n"]);
            [line.repeat(lines), valid(rng)].concat()
        }
        3 => valid(rng),
        _ => {
            let mut bytes = valid(rng);
            change(rng, &mut bytes);
            bytes
        }
    }
}

fn put(into: &mut Vec<u8>, bytes: &[u8]) {
    into.extend((bytes.len() as u32).to_be_bytes());
    into.extend_from_slice(bytes);
}

/// The payload of a list of algorithms that is agreed to.
pub(in super::super::super) fn kexinit(rng: &mut Rng) -> Vec<u8> {
    let mut payload = vec![20];
    payload.extend(rng.bytes(16));
    let kex = rng.pick(&[
        "curve25519-sha256,kex-strict-s-v00@openssh.com",
        "curve25519-sha256",
        "ext-info-s,ecdh-sha2-nistp256,curve25519-sha256,kex-strict-s-v00@openssh.com",
        "sntrup761x25519-sha512@openssh.com,curve25519-sha256",
        "diffie-hellman-group1-sha1",
    ]);
    let ciphers = rng.pick(&["aes256-gcm@openssh.com", "aes256-gcm@openssh.com,aes128-ctr", "aes128-ctr"]);
    let macs = rng.pick(&["hmac-sha2-256", "hmac-sha2-256-etm@openssh.com,hmac-md5", ""]);
    let compression = rng.pick(&["none", "none,zlib@openssh.com", "zlib@openssh.com"]);
    for list in [kex, "ssh-ed25519", ciphers, ciphers, macs, macs, compression, compression, "", ""] {
        put(&mut payload, list.as_bytes());
    }
    payload.extend([0; 5]);
    payload
}

pub(in super::super::super) fn packet(payload: &[u8]) -> Vec<u8> {
    let padding = 16 - (payload.len() + 5) % 8;
    let mut packet = ((payload.len() + 1 + padding) as u32).to_be_bytes().to_vec();
    packet.push(padding as u8);
    packet.extend_from_slice(payload);
    packet.resize(packet.len() + padding, 0);
    packet
}

/// A packet that a server sends later, or ought not to send.
pub(in super::super::super) fn other_packet(rng: &mut Rng) -> Vec<u8> {
    let mut payload =
        vec![rng.pick(&[0, 1, 2, 3, 4, 5, 6, 7, 20, 21, 30, 31, 31, 31, 32, 33, 34, 50, 51, 52, 80, 90])];
    if payload[0] == 31 {
        let mut key = Vec::new();
        put(&mut key, b"ssh-ed25519");
        put(&mut key, &rng.bytes(32));
        let mut signature = Vec::new();
        put(&mut signature, b"ssh-ed25519");
        put(&mut signature, &rng.bytes(64));
        for field in [key, rng.bytes(32), signature] {
            put(&mut payload, &field);
        }
    } else {
        let length = rng.pick(&[0, 1, 8, 100, 2000]);
        payload.extend(rng.bytes(length));
    }
    if rng.below(3) == 0 {
        change(rng, &mut payload);
    }
    packet(&payload)
}

/// An identification and a list of algorithms, of which one is damaged, and what may follow.
pub(in super::super::super) fn preface(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = b"SSH-2.0-x\r\n".to_vec();
    for _ in 0..rng.pick(&[0, 0, 0, 1, 3]) {
        bytes.extend(packet(&[2, 0, 0, 0, 0]));
    }
    let mut payload = kexinit(rng);
    let place = rng.below(4);
    if place == 1 {
        change(rng, &mut payload);
    }
    let mut list = packet(&payload);
    if place == 2 {
        change(rng, &mut list);
    }
    bytes.extend(list);
    if place == 3 {
        change(rng, &mut bytes);
    }
    for _ in 0..rng.below(4) {
        bytes.extend(other_packet(rng));
    }
    bytes
}
