//! Separates what arrives on a link: control and standard streams for the launch half, data for the
//! communication half.
//!
//! The order of a link is kept: everything found before a data frame is returned before it. While
//! the peer is not trusted, items are returned one at a time, because each may change what is
//! expected of the bytes behind it.

use alloc::vec::Vec;

use super::{FrameReader, Header, Kind, Limits, LinkItem, ReadError};

/// Something that has arrived on a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// For the launch half, at least one.
    Items(Vec<LinkItem>),
    /// For the communication half: the payload of a frame.
    Data(Vec<u8>),
    /// The bytes violate the protocol. The rest of the stream cannot be read.
    Violation(ReadError),
}

/// The receiving direction of a link that both halves use. It belongs to the owner of the link's
/// bytes.
#[derive(Debug, Default)]
pub struct LinkInput {
    reader: FrameReader,
    is_trusted: bool,
    carries_data: bool,
    /// A data frame that follows items which were returned before it.
    held: Option<(Header, Vec<u8>)>,
}

impl LinkInput {
    /// The peer is authenticated: its frames have the limits of authenticated peers.
    pub fn trust(&mut self) {
        self.is_trusted = true;
        self.reader.trust(Limits::AUTHENTICATED);
    }

    /// Whether the peer is authenticated.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Whether data are for the communication half from now on. Otherwise a data frame is an item
    /// like others: the launch half expects none.
    pub fn carry_data(&mut self, carries: bool) {
        self.carries_data = carries;
    }

    /// Takes the next arrival off the front of `bytes`; `None` if more bytes are needed. What
    /// follows a goodbye is dropped: the channel carries no further frames.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Arrival> {
        let mut items = Vec::new();
        loop {
            let found = match self.held.take() {
                Some((header, payload)) => Ok(Some(LinkItem::Frame(header, payload))),
                None => self.reader.next(bytes),
            };
            match found {
                Ok(Some(LinkItem::Frame(header, payload))) if header.is_session_data() => {
                    if !items.is_empty() {
                        self.held = Some((header, payload));
                        return Some(Arrival::Items(items));
                    }
                    if self.carries_data {
                        return Some(Arrival::Data(payload));
                    }
                    return Some(Arrival::Items([LinkItem::Frame(header, payload)].into()));
                }
                Ok(Some(item)) => {
                    let is_last =
                        matches!(&item, LinkItem::Frame(header, _) if header.kind() == Kind::Goodbye);
                    items.push(item);
                    if is_last {
                        *bytes = &[];
                    }
                    if is_last || !self.is_trusted {
                        return Some(Arrival::Items(items));
                    }
                }
                // A reader that has refused a header does so again.
                Ok(None) | Err(_) if !items.is_empty() => return Some(Arrival::Items(items)),
                Ok(None) => return None,
                Err(error) => return Some(Arrival::Violation(error)),
            }
        }
    }

    /// The payload of a long data frame, to which the owner can append the missing bytes, and their
    /// number. The next call of [`next`](Self::next) notices the appended bytes.
    pub fn receive_buffer(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        if self.carries_data { self.reader.receive_buffer() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;
    use crate::wire::{Flags, PROTOCOL, Preamble};

    fn frame(kind: Kind, payload: &[u8]) -> Vec<u8> {
        let header = match kind {
            Kind::Data => Header::session_data(payload.len()),
            kind => Header::new(kind, Flags::NONE, 0, payload.len(), &Limits::AUTHENTICATED),
        };
        [&header.unwrap().encode()[..], payload].concat()
    }

    /// A trusted link behind its preamble.
    fn trusted() -> LinkInput {
        let mut input = LinkInput::default();
        let preamble = input.next(&mut &Preamble { versions: PROTOCOL }.encode()[..]);
        assert!(matches!(preamble, Some(Arrival::Items(_))));
        input.trust();
        input
    }

    /// The payloads of all arrivals: those of items in one list, each data frame alone.
    fn arrivals(input: &mut LinkInput, mut bytes: &[u8]) -> Vec<(bool, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(arrival) = input.next(&mut bytes) {
            match arrival {
                Arrival::Items(items) => {
                    let payloads = items.into_iter().map(|item| match item {
                        LinkItem::Frame(_, payload) => payload,
                        other => panic!("{other:?}"),
                    });
                    all.push((false, payloads.collect::<Vec<_>>().concat()));
                }
                Arrival::Data(payload) => all.push((true, payload)),
                Arrival::Violation(error) => panic!("{error}"),
            }
        }
        all
    }

    #[test]
    fn items_and_data_of_one_link_keep_their_order() {
        let stream = [
            frame(Kind::Control, b"a"),
            frame(Kind::Heartbeat, b""),
            frame(Kind::Stdio, b"b"),
            frame(Kind::Data, b"1"),
            frame(Kind::Data, b"2"),
            frame(Kind::Control, b"c"),
            frame(Kind::Data, b"3"),
        ]
        .concat();
        let mut input = trusted();
        input.carry_data(true);
        let (items, data) = (|text: &[u8]| (false, text.to_vec()), |text: &[u8]| (true, text.to_vec()));
        let expected = [items(b"ab"), data(b"1"), data(b"2"), items(b"c"), data(b"3")];
        assert_eq!(arrivals(&mut input, &stream), expected);
    }

    #[test]
    fn items_before_a_data_frame_decide_whether_the_link_carries_data() {
        let stream = [frame(Kind::Control, b"go"), frame(Kind::Data, b"1")].concat();
        for carries in [true, false] {
            let (mut input, mut bytes) = (trusted(), &stream[..]);
            assert!(matches!(input.next(&mut bytes), Some(Arrival::Items(items)) if items.len() == 1));
            input.carry_data(carries);
            assert_eq!(arrivals(&mut input, bytes), [(carries, b"1".to_vec())]);
        }
    }

    #[test]
    fn data_on_another_channel_or_in_chunks_are_items() {
        let mut input = trusted();
        input.carry_data(true);
        for (flags, channel) in [(Flags::NONE, 2), (Flags::MORE, 1)] {
            let header = Header::new(Kind::Data, flags, channel, 1, &Limits::AUTHENTICATED).unwrap();
            let stream = [&header.encode()[..], b"x"].concat();
            assert_eq!(arrivals(&mut input, &stream), [(false, b"x".to_vec())]);
        }
    }

    #[test]
    fn a_peer_that_is_not_trusted_is_read_item_by_item() {
        let mut input = LinkInput::default();
        let hello = frame(Kind::Hello, b"hello");
        let long = frame(Kind::Control, &[7; 5_000]);
        let stream = [&Preamble { versions: PROTOCOL }.encode()[..], &hello, &long].concat();
        let mut bytes = &stream[..];
        for _ in 0..2 {
            assert!(matches!(input.next(&mut bytes), Some(Arrival::Items(items)) if items.len() == 1));
        }
        let mut stranger = LinkInput::default();
        let mut same = &stream[..];
        (0..2).for_each(|_| drop(stranger.next(&mut same)));
        assert!(matches!(stranger.next(&mut same), Some(Arrival::Violation(ReadError::Frame(_)))));
        input.trust();
        assert_eq!(arrivals(&mut input, bytes), [(false, vec![7; 5_000])]);
    }

    #[test]
    fn what_follows_a_goodbye_on_the_channel_is_dropped() {
        let mut input = trusted();
        let stream = [frame(Kind::Control, b"a"), frame(Kind::Goodbye, b""), b"logout\n".to_vec()].concat();
        assert_eq!(arrivals(&mut input, &stream), [(false, b"a".to_vec())]);
        assert_eq!(arrivals(&mut input, &frame(Kind::Control, b"b")), [(false, b"b".to_vec())]);
    }

    #[test]
    fn items_before_a_violation_are_returned_first() {
        let mut input = trusted();
        let stream = [&frame(Kind::Control, b"a")[..], &[0xaa; 32]].concat();
        let mut bytes = &stream[..];
        assert!(matches!(input.next(&mut bytes), Some(Arrival::Items(_))));
        for mut rest in [bytes, b"more", b""] {
            assert!(matches!(input.next(&mut rest), Some(Arrival::Violation(ReadError::Frame(_)))));
        }
    }
}
