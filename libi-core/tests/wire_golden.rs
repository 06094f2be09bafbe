//! Golden bytes of the protocol. A build that writes other bytes, or reads these differently, does
//! not speak this version, whatever its preamble says.
//!
//! Each `golden/NAME.hex` holds one example in hexadecimal; `#` begins a comment. A change of the
//! protocol raises the newest version in `libi_core::wire::PROTOCOL` and adds files for the new
//! bytes; existing files stay unchanged while any version they belong to is spoken.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::path::PathBuf;

use libi_core::wire::{
    Flags, Header, Kind, Limits, Parsed, Preamble, Version, VersionRange, decode_control, encode_control,
    parse,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

const FILES: [&str; 11] = [
    "control",
    "data",
    "data-more",
    "goodbye",
    "heartbeat",
    "hello",
    "preamble",
    "preamble-range",
    "staged",
    "stdio",
    "ticket",
];

/// Every rule of the message encoding that messages may rely on.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    byte: u8,
    varint: u16,
    largest: u64,
    negative: i32,
    no: bool,
    yes: bool,
    half: f64,
    absent: Option<u32>,
    present: Option<u32>,
    name: String,
    array: [u8; 4],
    list: Vec<u32>,
    map: BTreeMap<u8, char>,
    cases: Vec<Case>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Case {
    Unit,
    Newtype(u16),
    Tuple(i8, i8),
    Struct { code: i64 },
}

#[test]
fn preambles_keep_their_bytes() {
    let range = |oldest, newest| VersionRange::new(Version(oldest), Version(newest)).unwrap();
    for (name, versions) in [("preamble", range(1, 1)), ("preamble-range", range(0x0102, 0x0304))] {
        let preamble = Preamble { versions };
        expect_bytes(name, &preamble.encode());
        let bytes = golden(name).try_into().expect("as long as a preamble");
        assert_eq!(Preamble::decode(&bytes), Some(preamble), "{name}");
    }
}

#[test]
fn frames_of_raw_bytes_keep_their_bytes() {
    expect_frame("stdio", Kind::Stdio, Flags::NONE, 2, b"out\n\xff");
    expect_frame("data", Kind::Data, Flags::NONE, 0x0102, b"last");
    expect_frame("data-more", Kind::Data, Flags::MORE, 0xfffe, &[0x5a; 300]);
    expect_frame("staged", Kind::Staged, Flags::NONE, 0, b"\x03\x02\x01\0\0\0\0\0abc");
}

#[test]
fn frames_without_payload_keep_their_bytes() {
    expect_frame("heartbeat", Kind::Heartbeat, Flags::NONE, 0, b"");
    expect_frame("goodbye", Kind::Goodbye, Flags::NONE, 0, b"");
}

#[test]
fn messages_keep_their_bytes() {
    expect_message("ticket", Kind::Ticket, 0, &(17u32, "node17".to_owned()));
    expect_message("hello", Kind::Hello, 0, &Some([1u8, 2, 3]));
    let sample = Sample {
        byte: 200,
        varint: 300,
        largest: u64::MAX,
        negative: -3,
        no: false,
        yes: true,
        half: 0.5,
        absent: None,
        present: Some(7),
        name: "nœud".to_owned(),
        array: [0xde, 0xad, 0xbe, 0xef],
        list: vec![1, 128],
        map: BTreeMap::from([(2, 'b'), (1, 'ä')]),
        cases: vec![Case::Unit, Case::Newtype(9), Case::Tuple(-1, 1), Case::Struct { code: -65 }],
    };
    expect_message("control", Kind::Control, 0x0100, &sample);
}

#[test]
fn limits_for_proven_peers_belong_to_version_1() {
    assert_eq!(Limits::AUTHENTICATED, Limits { payload: 1 << 20, control: 4 << 20 });
    assert_eq!(Limits::UNAUTHENTICATED, Limits { payload: 0, control: 4 << 10 });
}

#[test]
fn every_golden_file_is_read_by_a_test_here() {
    let files: BTreeSet<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, FILES.iter().map(|name| format!("{name}.hex")).collect());
}

/// The frame is written as in the file, and the file reads as the frame.
#[track_caller]
fn expect_frame(name: &str, kind: Kind, flags: Flags, channel: u16, payload: &[u8]) {
    let header =
        Header::new(kind, flags, channel, payload.len(), &Limits::AUTHENTICATED).expect("a sound header");
    expect_bytes(name, &[&header.encode(), payload].concat());
    let golden = golden(name);
    let Ok(Parsed::Frame { frame, consumed }) = parse(&golden, &Limits::AUTHENTICATED) else {
        panic!("{name} is no longer read as a frame");
    };
    assert_eq!((frame.header(), frame.payload(), consumed), (header, payload, golden.len()), "{name}");
}

/// The message is written as in the file, and the file reads as the message.
#[track_caller]
fn expect_message<T>(name: &str, kind: Kind, channel: u16, message: &T)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let mut bytes = Vec::new();
    encode_control(&mut bytes, kind, channel, message, &Limits::AUTHENTICATED).expect("a sound message");
    expect_bytes(name, &bytes);
    expect_frame(name, kind, Flags::NONE, channel, &bytes[Header::LEN..]);
    let golden = golden(name);
    let Ok(Parsed::Frame { frame, .. }) = parse(&golden, &Limits::AUTHENTICATED) else {
        panic!("{name} is no longer read as a frame");
    };
    assert_eq!(decode_control::<T>(&frame).as_ref(), Ok(message), "{name}");
}

#[track_caller]
fn expect_bytes(name: &str, bytes: &[u8]) {
    assert!(FILES.contains(&name));
    let golden = golden(name);
    if golden != bytes {
        let at = golden.iter().zip(bytes).take_while(|(was, is)| was == is).count();
        panic!(
            "this breaks the protocol: {name} differs from byte {at} on\n  was {}\n  is  {}\n\
             Builds in use will not understand it. Undo the change; or raise PROTOCOL's newest \
             version, write \
             the old bytes as long as an old version is in force, and add a golden file for the new ones.",
            hex(&golden),
            hex(bytes),
        );
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn golden(name: &str) -> Vec<u8> {
    let path = folder().join(format!("{name}.hex"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .flat_map(|line| line.split('#').next().unwrap_or_default().split_ascii_whitespace())
        .map(|byte| u8::from_str_radix(byte, 16).unwrap_or_else(|_| panic!("{name}: {byte:?} is no byte")))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x} ")).collect()
}
