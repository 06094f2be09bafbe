//! The assertions that hold for every input, from any source.
//!
//! The fuzz targets call these functions with random bytes; an ordinary test
//! (`libi-core/tests/corpus.rs`) calls them with the checked-in inputs. They return only if the
//! assertions hold.

use std::collections::BTreeMap;
use std::fmt::Debug;

use libi_core::hosts::file::parse_host_file;
use libi_core::hosts::{HostList, MAX_HOSTS};
use libi_core::wire::{
    Arrival, Decoder, Frame, FrameError, FramePart, Header, Kind, Limits, LinkInput, LinkItem, Parsed,
    PreambleScanner, ReadError, decode_control, encode_control, parse,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

mod secure;

pub use secure::check_handshake;

/// Reads `data` as a link would: foreign text, a preamble, frames. And, to reach the frames more
/// often, as frames alone, from strangers and from proven peers.
pub fn check_frames(data: &[u8]) {
    let sizes = [data.len().max(1), 1, 7, usize::from(data.first().copied().unwrap_or(0) % 29) + 1];
    let whole = scan(data, data.len().max(1));
    for size in sizes {
        assert_eq!(scan(data, size), whole, "pieces of {size} bytes hide or reveal a preamble");
    }
    for trust in [false, true] {
        let read = read_link(data, data.len().max(1), trust);
        for size in sizes {
            assert_eq!(read_link(data, size, trust), read, "pieces of {size} bytes change what arrives");
        }
    }
    let after_preamble = whole.map_or(&data[..0], |end| &data[end..]);
    for stream in [data, after_preamble] {
        for limits in [Limits::UNAUTHENTICATED, Limits::AUTHENTICATED] {
            let read = read_frames(stream, &limits);
            for size in sizes {
                let decoded = decode_in_pieces(stream, size, &limits);
                assert_eq!(decoded, read, "pieces of {size} bytes change what a stream says");
            }
        }
    }
}

/// What has arrived on a link: the text in front of the preamble, the payloads of frames, each with
/// whether it is for the communication half, and the violation that ends the stream.
type Arrived = (Vec<u8>, Vec<(bool, Vec<u8>)>, Option<ReadError>);

/// Reads a stream as the owner of a link does, in pieces of `size` bytes, long frames in place.
fn read_link(data: &[u8], size: usize, trust: bool) -> Arrived {
    let mut input = LinkInput::default();
    input.carry_data(true);
    let (mut text, mut frames) = (Vec::new(), Vec::new());
    for mut piece in data.chunks(size) {
        loop {
            if let Some((payload, missing)) = input.receive_buffer() {
                payload.extend_from_slice(piece.split_off(..missing.min(piece.len())).unwrap_or_default());
            }
            let arrival = input.next(&mut piece);
            match arrival {
                None => break,
                Some(Arrival::Data(payload)) => frames.push((true, payload)),
                Some(Arrival::Violation(error)) => return (text, frames, Some(error)),
                Some(Arrival::Items(items)) => {
                    assert!(!items.is_empty());
                    for item in items {
                        match item {
                            LinkItem::Text(more) => text.extend(more),
                            LinkItem::Preamble(more, _) => {
                                text.extend(more);
                                if trust {
                                    input.trust();
                                }
                            }
                            LinkItem::Frame(header, payload) => {
                                assert_eq!(header.length(), payload.len());
                                frames.push((false, payload));
                                if header.kind() == Kind::Goodbye {
                                    return (text, frames, None); // the rest of its piece is dropped
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    (text, frames, None)
}

/// The start of the protocol, according to a scanner that gets pieces of `size` bytes. All bytes up
/// to there have to be returned, in their order.
fn scan(data: &[u8], size: usize) -> Option<usize> {
    let mut scanner = PreambleScanner::new();
    let mut foreign = Vec::new();
    let mut fed = 0;
    for piece in data.chunks(size) {
        let scan = scanner.scan(piece);
        foreign.extend_from_slice(&scan.held);
        foreign.extend_from_slice(scan.foreign);
        fed += piece.len();
        if let Some(found) = scan.found {
            let end = fed - found.rest.len();
            assert_eq!(data[..end], [&foreign[..], &found.preamble.encode()].concat());
            assert_eq!(data[end..fed], *found.rest);
            return Some(end);
        }
    }
    foreign.extend_from_slice(&scanner.finish());
    assert_eq!(foreign, data, "a stream without preamble is all foreign");
    None
}

/// The frames at the front of a stream, and what follows: an error, or the number of bytes that are
/// not yet a frame.
type Reading<'a> = (Vec<(Header, &'a [u8])>, Result<usize, FrameError>);

fn read_frames<'a>(stream: &'a [u8], limits: &Limits) -> Reading<'a> {
    let mut frames = Vec::new();
    let mut input = stream;
    loop {
        match parse(input, limits) {
            Ok(Parsed::Frame { frame, consumed }) => {
                let (header, payload) = (frame.header(), frame.payload());
                assert!(payload.len() <= limits.max_payload(header.kind()));
                assert_eq!(input[..consumed], [&header.encode()[..], payload].concat());
                check_beginnings(&input[..consumed], limits);
                check_message(&frame);
                frames.push((header, payload));
                input = &input[consumed..];
            }
            Ok(Parsed::Incomplete { missing }) => {
                assert!(missing > 0);
                if input.len() >= Header::LEN {
                    let max_payload = Kind::ALL.map(|kind| limits.max_payload(kind)).into_iter().max();
                    assert!(input.len() + missing <= Header::LEN + max_payload.unwrap_or(0));
                }
                return (frames, Ok(input.len()));
            }
            Err(error) => {
                assert!(input.len() >= Header::LEN);
                assert_eq!(parse(&input[..Header::LEN], limits), Err(error), "the payload changes the error");
                return (frames, Err(error));
            }
        }
    }
}

/// Every beginning of a frame is incomplete and reports at most the missing bytes; long frames are
/// sampled.
fn check_beginnings(frame: &[u8], limits: &Limits) {
    for have in (0..frame.len().min(16)).chain((16..frame.len()).step_by(97)) {
        match parse(&frame[..have], limits) {
            Ok(Parsed::Incomplete { missing }) => {
                assert!(missing > 0 && have + missing <= frame.len());
                assert!(have < Header::LEN || have + missing == frame.len());
            }
            other => panic!("{have} of {} bytes are {other:?}", frame.len()),
        }
    }
}

fn decode_in_pieces<'a>(stream: &'a [u8], size: usize, limits: &Limits) -> Reading<'a> {
    let mut decoder = Decoder::new(*limits);
    let mut frames = Vec::new();
    let mut open = None;
    // Bytes handed to the decoder and used by it, and where in the stream the open payload began.
    let mut used = 0;
    let mut payload_at = 0;
    let mut complete = 0;
    for piece in stream.chunks(size) {
        let mut input = piece;
        loop {
            let before = input.len();
            let event = decoder.step(&mut input);
            used += before - input.len();
            match event {
                Ok(Some(FramePart::Head(header))) => {
                    assert!(open.replace(header).is_none(), "a frame begins inside another");
                    payload_at = used;
                }
                Ok(Some(FramePart::Bytes(bytes))) => {
                    assert!(open.is_some() && !bytes.is_empty());
                    assert_eq!(bytes, &stream[used - bytes.len()..used]);
                }
                Ok(Some(FramePart::End)) => {
                    let header = open.take().expect("a frame ends that has begun");
                    assert_eq!(used - payload_at, header.length());
                    frames.push((header, &stream[payload_at..used]));
                    complete = used;
                }
                Ok(None) => {
                    assert!(input.is_empty());
                    break;
                }
                Err(error) => {
                    assert_eq!(decoder.step(&mut input), Err(error), "an error is forgotten");
                    return (frames, Err(error));
                }
            }
        }
    }
    assert_eq!(decoder.is_between_frames(), complete == stream.len());
    (frames, Ok(stream.len() - complete))
}

/// A payload that decodes as a message of some type decodes the same once encoded again.
fn check_message(frame: &Frame<'_>) {
    check_message_as::<(u64, Vec<Option<i32>>, String)>(frame);
    check_message_as::<BTreeMap<String, Vec<(bool, u16)>>>(frame);
    check_message_as::<Vec<Vec<char>>>(frame);
}

fn check_message_as<T: Serialize + DeserializeOwned + PartialEq + Debug>(frame: &Frame<'_>) {
    let Ok(message) = decode_control::<T>(frame) else {
        return;
    };
    let header = frame.header();
    let mut written = Vec::new();
    encode_control(&mut written, header.kind(), header.channel(), &message, &Limits::AUTHENTICATED)
        .expect("a message is no longer than the bytes it was read from");
    let Ok(Parsed::Frame { frame: again, consumed }) = parse(&written, &Limits::AUTHENTICATED) else {
        panic!("{written:?} was written as a frame");
    };
    assert_eq!(consumed, written.len());
    // Not always the same bytes: a number may have been encoded longer than necessary.
    assert!(again.payload().len() <= frame.payload().len());
    assert_eq!(decode_control(&again), Ok(message));
}

/// Texts that stand for more hosts, but not for so many that they are rejected at once, are left
/// out: the parser accepts them, but too slowly for fuzzing.
const MOST_HOSTS: u64 = 20_000;

/// Parses `data` as a host list and as a host file. An accepted list has to survive folding.
pub fn check_hosts(data: &[u8]) {
    let Ok(text) = core::str::from_utf8(data) else {
        return;
    };
    let hosts = hosts_in(text);
    if (MOST_HOSTS..=MAX_HOSTS as u64).contains(&hosts) {
        return;
    }
    if let Ok(list) = HostList::parse(text) {
        assert_eq!(list.len() as u64, hosts);
        check_list(&list);
    }
    if let Ok(list) = parse_host_file(text) {
        assert!(list.len() as u64 <= hosts);
        check_list(&list);
    }
}

fn check_list(list: &HostList) {
    let folded = list.fold();
    let again = HostList::parse(&folded);
    assert_eq!(again.as_ref(), Ok(list), "folded to {folded:?}");
    assert_eq!(again.map(|again| again.fold()).as_ref(), Ok(&folded), "folding twice changes the text");
    assert_eq!(list.iter().len(), list.len());
    let mut pushed = HostList::new();
    let mut processes = 0;
    for host in list {
        processes += u64::from(host.count);
        pushed.push(host).expect("what a list holds may be pushed to a list");
    }
    assert_eq!(&pushed, list);
    assert_eq!(processes, list.processes());
    // One by one is slow; a few entries stand for all.
    for host in list.iter().take(8).chain(list.iter().rev().take(8)) {
        let alone = HostList::parse(&host.to_string());
        assert_eq!(alone.ok().as_ref().and_then(|alone| alone.entry(0)), Some(host));
    }
}

/// The number of hosts that a text stands for, if it is a list: items and the alternatives in a
/// bracket add up; consecutive brackets multiply. A host file may stand for fewer, because of its
/// comments.
fn hosts_in(text: &str) -> u64 {
    let mut total: u64 = 0;
    let mut item: Option<u64> = None;
    // For each open bracket: its finished alternatives, and the product within the open one.
    let mut brackets: Vec<(u64, u64)> = Vec::new();
    for (at, byte) in text.bytes().enumerate() {
        let rest = &text.as_bytes()[at + 1..];
        let outside = brackets.is_empty();
        match (byte, brackets.last_mut()) {
            (b',', Some((sum, product))) => {
                *sum = sum.saturating_add(*product);
                *product = range_at(rest);
            }
            (b']', Some(&mut (sum, product))) => {
                let group = sum.saturating_add(product);
                brackets.pop();
                let outer = brackets.last_mut().map_or(item.get_or_insert(1), |(_, product)| product);
                *outer = outer.saturating_mul(group);
            }
            (b'[', _) => brackets.push((0, range_at(rest))),
            (b',' | b' ' | b'\t'..=b'\r', _) => {
                brackets.clear();
                total = total.saturating_add(item.take().unwrap_or(0));
            }
            _ if outside => item = item.or(Some(1)),
            _ => {}
        }
    }
    total.saturating_add(item.unwrap_or(0))
}

/// The size of the range at the front of an alternative; 1 if there is none.
fn range_at(alternative: &[u8]) -> u64 {
    let (from, rest) = number_at(alternative);
    let to = rest.strip_prefix(b"-").and_then(|rest| number_at(rest).0);
    from.zip(to).map_or(1, |(from, to)| to.saturating_sub(from).saturating_add(1))
}

fn number_at(text: &[u8]) -> (Option<u64>, &[u8]) {
    let (digits, rest) = text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let value = |value: u64, digit: &u8| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    ((!digits.is_empty()).then(|| digits.iter().fold(0, value)), rest)
}
