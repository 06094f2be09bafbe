//! Properties of whole streams: both readers find the same frames in them, however they are cut.

use super::*;
use proptest::collection::vec as vec_of;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::vec::Vec;

const LIMITS: Limits = Limits { payload: 40, control: 60 };

/// Frames with their payloads, and how the stream ended: between frames, inside one, or in an
/// error.
#[derive(Debug, PartialEq)]
struct Reading {
    frames: Vec<(Header, Vec<u8>)>,
    end: Result<bool, FrameError>,
}

fn read_parsing(mut input: &[u8]) -> Reading {
    let mut frames = Vec::new();
    let end = loop {
        match parse(input, &LIMITS) {
            Ok(Parsed::Frame { frame, consumed }) => {
                frames.push((frame.header(), frame.payload().to_vec()));
                input = &input[consumed..];
            }
            Ok(Parsed::Incomplete { .. }) => break Ok(input.is_empty()),
            Err(error) => break Err(error),
        }
    };
    Reading { frames, end }
}

fn read_decoding(stream: &[u8], cuts: &[usize]) -> Reading {
    let mut decoder = Decoder::new(LIMITS);
    let mut frames = Vec::new();
    let mut open: Option<(Header, Vec<u8>)> = None;
    let mut from = 0;
    for to in cuts.iter().copied().chain([stream.len()]) {
        let mut piece = &stream[from..to];
        from = to;
        loop {
            match decoder.step(&mut piece) {
                Ok(Some(FramePart::Head(header))) => open = Some((header, Vec::new())),
                Ok(Some(FramePart::Bytes(bytes))) => open.as_mut().unwrap().1.extend_from_slice(bytes),
                Ok(Some(FramePart::End)) => frames.push(open.take().unwrap()),
                Ok(None) => break,
                Err(error) => return Reading { frames, end: Err(error) },
            }
        }
    }
    Reading { frames, end: Ok(decoder.is_between_frames()) }
}

fn header() -> impl Strategy<Value = Header> {
    let channel = prop_oneof![Just(0), any::<u16>()];
    (select(&Kind::ALL[..]), any::<bool>(), channel, any::<Index>()).prop_map(
        |(kind, more, channel, length)| {
            let flags = if more { kind.flags() } else { Flags::NONE };
            let channel = if kind.has_channel() { channel } else { 0 };
            let length = length.index(LIMITS.max_payload(kind) + 1);
            Header::new(kind, flags, channel, length, &LIMITS).expect("made to keep the rules")
        },
    )
}

fn frame() -> impl Strategy<Value = (Header, Vec<u8>)> {
    header().prop_flat_map(|header| (Just(header), vec_of(any::<u8>(), header.length())))
}

fn bytes_of(frames: &[(Header, Vec<u8>)]) -> Vec<u8> {
    frames.iter().flat_map(|(header, payload)| [&header.encode()[..], payload].concat()).collect()
}

proptest! {
    #[test]
    fn a_header_survives_its_bytes(header in header()) {
        prop_assert_eq!(Header::decode(&header.encode(), &LIMITS), Ok(header));
    }

    #[test]
    fn bytes_that_make_a_header_are_the_bytes_it_makes(bytes: [u8; 8], small in 0..64u8, kind in 0..9u8) {
        let likely = [small, 0, 0, 0, kind, bytes[5] & 1, bytes[6] & 1, 0];
        for bytes in [bytes, likely] {
            if let Ok(header) = Header::decode(&bytes, &LIMITS) {
                prop_assert_eq!(header.encode(), bytes);
                prop_assert!(header.length() <= LIMITS.max_payload(header.kind()));
            }
        }
    }

    #[test]
    fn every_cut_of_a_stream_gives_the_same_frames(
        frames in vec_of(frame(), 0..5),
        tail in vec_of(any::<u8>(), 0..12),
        lost in any::<Index>(),
        cuts in vec_of(any::<Index>(), 0..8),
    ) {
        let sound = bytes_of(&frames);
        let noisy = [&sound[..], &tail].concat();
        let cut_off = &sound[..lost.index(sound.len() + 1)];
        for stream in [&sound, &noisy, cut_off] {
            let whole = read_parsing(stream);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
            cuts.sort_unstable();
            prop_assert_eq!(&read_decoding(stream, &cuts), &whole);
            prop_assert_eq!(&read_decoding(stream, &(0..stream.len()).collect::<Vec<_>>()), &whole);
        }
        prop_assert_eq!(read_parsing(&sound), Reading { frames, end: Ok(true) });
    }

    #[test]
    fn what_is_said_to_be_missing_is_the_least_that_helps(frame in frame(), keep in any::<Index>()) {
        let whole = bytes_of(&[frame]);
        let mut have = keep.index(whole.len());
        // The header first, then the payload: two tries at most.
        for _ in 0..2 {
            match parse(&whole[..have], &LIMITS) {
                Ok(Parsed::Incomplete { missing }) => {
                    prop_assert!(missing > 0 && have + missing <= whole.len());
                    let still = parse(&whole[..have + missing - 1], &LIMITS);
                    prop_assert_eq!(still, Ok(Parsed::Incomplete { missing: 1 }));
                    have += missing;
                }
                other => prop_assert!(matches!(other, Ok(Parsed::Frame { .. })), "{:?}", other),
            }
        }
        prop_assert_eq!(have, whole.len());
    }
}
