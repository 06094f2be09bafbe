//! The sending direction of a link: queued output and its order.
//!
//! Two kinds of output are queued: messages of the launch half, which are short, and frames of the
//! communication half, which may be many and long. Messages are written before all frames, except
//! the frame that is partly written. Frames keep their order. After [`end`](FrameWriter::end) the
//! last message, the goodbye, is written behind everything. Frames are not copied.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use zeroize::Zeroize;

use super::Header;

/// The most pieces written in one call.
const MAX_PIECES: usize = 64;
/// The capacity for messages that is kept while none is queued.
const KEPT_CAPACITY: usize = 4096;

/// The sending direction of a link. It belongs to the owner of the link's descriptors.
///
/// Payloads consist of pieces of type `P`. An attachment of type `A`, such as a descriptor, is sent
/// with the first byte of its frame.
#[derive(Debug)]
pub struct FrameWriter<P, A> {
    /// Queued messages, and how many bytes of them are written.
    messages: Vec<u8>,
    written: usize,
    /// The pieces of frames, how much of the first one is written, and the lengths of frames that
    /// are not partly written.
    pieces: VecDeque<Piece<P>>,
    written_of_first: usize,
    lengths: VecDeque<usize>,
    /// How many pieces have been written completely.
    written_pieces: usize,
    /// Attachments, each with the number of the piece it is sent with.
    attachments: VecDeque<(usize, A)>,
    /// The unwritten rest of the frame that is partly written.
    begun: usize,
    goodbye: Vec<u8>,
}

/// A piece of a frame.
#[derive(Debug)]
enum Piece<P> {
    Header([u8; Header::LEN]),
    Payload(P),
}

impl<P: AsRef<[u8]>> Piece<P> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Header(bytes) => bytes,
            Self::Payload(piece) => piece.as_ref(),
        }
    }
}

impl<P, A> Default for FrameWriter<P, A> {
    fn default() -> Self {
        Self {
            messages: Vec::new(),
            written: 0,
            pieces: VecDeque::new(),
            written_of_first: 0,
            lengths: VecDeque::new(),
            written_pieces: 0,
            attachments: VecDeque::new(),
            begun: 0,
            goodbye: Vec::new(),
        }
    }
}

impl<P: AsRef<[u8]>, A> FrameWriter<P, A> {
    /// Queues a message, which is a whole frame or a preamble.
    pub fn queue(&mut self, message: &[u8]) {
        // A message may hold a secret: a buffer that grows by reallocation would leave a copy in
        // freed memory.
        let length = self.messages.len() - self.written + message.len();
        if self.messages.len() + message.len() > self.messages.capacity() {
            let mut larger = Vec::with_capacity(length.max(2 * self.messages.capacity()));
            larger.extend_from_slice(&self.messages[self.written..]);
            self.messages.zeroize();
            (self.messages, self.written) = (larger, 0);
        }
        self.messages.extend_from_slice(message);
    }

    /// Puts bytes before everything queued; nothing has been written yet.
    pub fn put_first(&mut self, first: &[u8]) {
        if first.is_empty() {
            return;
        }
        let mut all = Vec::with_capacity(first.len() + self.messages.len());
        all.extend_from_slice(first);
        all.extend_from_slice(&self.messages[self.written..]);
        self.messages.zeroize();
        (self.messages, self.written) = (all, 0);
    }

    /// Queues a frame of session data with this payload, and what is sent along. A frame above the
    /// size limit is dropped.
    pub fn queue_frame(&mut self, payload: Vec<P>, attachment: Option<A>) {
        let length = payload.iter().map(|piece| piece.as_ref().len()).sum();
        if let Ok(header) = Header::session_data(length) {
            self.queue_behind(header, payload, attachment);
        }
    }

    /// Queues the frame of this header, whose payload this is, behind all messages and in order with
    /// other frames.
    pub fn queue_bulk(&mut self, header: Header, payload: P) {
        self.queue_behind(header, [payload].into(), None);
    }

    fn queue_behind(&mut self, header: Header, payload: Vec<P>, attachment: Option<A>) {
        let place = self.written_pieces + self.pieces.len();
        self.attachments.extend(attachment.map(|attachment| (place, attachment)));
        self.lengths.push_back(Header::LEN + header.length());
        self.pieces.push_back(Piece::Header(header.encode()));
        let payload = payload.into_iter().filter(|piece| !piece.as_ref().is_empty());
        self.pieces.extend(payload.map(Piece::Payload));
    }

    /// Marks the message queued last as the goodbye: it is written behind the queued frames.
    pub fn end(&mut self) {
        if let Some(at) = self.messages.len().checked_sub(Header::LEN).filter(|at| *at >= self.written) {
            self.goodbye = self.messages.split_off(at);
        }
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written == self.messages.len() && self.pieces.is_empty() && self.goodbye.is_empty()
    }

    /// Whether frames of the communication half are queued.
    #[must_use]
    pub fn has_frames(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// The next output, as pieces that together are no longer than `limit`.
    #[must_use]
    pub fn next(&self, limit: usize) -> Vec<&[u8]> {
        let mut next = Batch { pieces: Vec::new(), capacity: limit };
        // An attachment is sent with the first byte of its frame.
        let attached = self.attachments.front().map_or(usize::MAX, |(place, _)| place - self.written_pieces);
        let written = core::iter::once(self.written_of_first).chain(core::iter::repeat(0));
        let pieces = self.pieces.iter().zip(written).map(|(piece, written)| &piece.bytes()[written..]);
        let mut pieces = pieces.take(attached.max(1));
        let mut begun = self.begun;
        while begun > 0
            && let Some(piece) = pieces.next()
        {
            begun = begun.saturating_sub(piece.len());
            next.add(piece);
        }
        next.add(&self.messages[self.written..]);
        if attached == 0 && !next.pieces.is_empty() {
            return next.pieces;
        }
        while next.has_capacity()
            && let Some(piece) = pieces.next()
        {
            next.add(piece);
        }
        next.add(&self.goodbye);
        next.pieces
    }

    /// What has to be sent along with the [next](Self::next) output.
    #[must_use]
    pub fn attachment(&self) -> Option<&A> {
        let is_at_a_frame = self.begun == 0 && self.written == self.messages.len();
        let (_, attachment) =
            self.attachments.front().filter(|(place, _)| is_at_a_frame && *place == self.written_pieces)?;
        Some(attachment)
    }

    /// Removes the first attachment, which has been sent.
    pub fn advance_attachment(&mut self) {
        self.attachments.pop_front();
    }

    /// Removes output that has been written.
    pub fn advance(&mut self, mut count: usize) {
        self.advance_frame(&mut count);
        let messages = count.min(self.messages.len() - self.written);
        self.written += messages;
        count -= messages;
        if self.written > 0 && self.written == self.messages.len() {
            self.forget_messages();
        }
        while count > 0
            && let Some(length) = self.lengths.pop_front()
        {
            self.begun = length;
            self.advance_frame(&mut count);
        }
        self.goodbye.drain(..count.min(self.goodbye.len()));
    }

    fn advance_frame(&mut self, count: &mut usize) {
        while self.begun > 0
            && *count > 0
            && let Some(piece) = self.pieces.front()
        {
            let left = piece.bytes().len() - self.written_of_first;
            let written = left.min(*count);
            *count -= written;
            self.begun -= written;
            if written == left {
                self.pieces.pop_front();
                self.written_of_first = 0;
                self.written_pieces += 1;
            } else {
                self.written_of_first += written;
            }
        }
    }

    /// Drops all queued output.
    pub fn clear(&mut self) {
        self.forget_messages();
        *self = Self::default();
    }

    /// Written messages may have held secrets, and may have been large.
    fn forget_messages(&mut self) {
        self.messages.zeroize();
        self.messages.shrink_to(KEPT_CAPACITY);
        self.written = 0;
    }
}

/// Collects pieces for one write.
struct Batch<'a> {
    pieces: Vec<&'a [u8]>,
    capacity: usize,
}

impl<'a> Batch<'a> {
    fn has_capacity(&self) -> bool {
        self.capacity > 0 && self.pieces.len() < MAX_PIECES
    }

    fn add(&mut self, bytes: &'a [u8]) {
        let bytes = &bytes[..bytes.len().min(self.capacity)];
        if self.has_capacity() && !bytes.is_empty() {
            self.capacity -= bytes.len();
            self.pieces.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec;

    use super::*;
    use crate::wire::{Decoder, FramePart, Kind, Limits};

    const GOODBYE: [u8; 8] = [0, 0, 0, 0, 7, 0, 0, 0];

    type Writer = FrameWriter<Vec<u8>, u8>;

    fn frame(number: u8, lengths: &[usize]) -> Vec<Vec<u8>> {
        lengths.iter().map(|length| vec![number; *length]).collect()
    }

    fn message(number: u8) -> [u8; 9] {
        [1, 0, 0, 0, 3, 0, 0, 0, number]
    }

    /// Takes at most this many bytes off a queue.
    fn take(writer: &mut Writer, limit: usize, out: &mut Vec<u8>) {
        let before = out.len();
        for piece in writer.next(limit) {
            out.extend_from_slice(piece);
        }
        writer.advance(out.len() - before);
    }

    /// The kinds, first bytes and lengths of the frames in a stream.
    fn frames(mut stream: &[u8]) -> Vec<(Kind, u8, usize)> {
        let mut decoder = Decoder::new(Limits::AUTHENTICATED);
        let mut frames = Vec::new();
        while let Some(event) = decoder.step(&mut stream).unwrap() {
            match (event, frames.last_mut()) {
                (FramePart::Head(header), _) => frames.push((header.kind(), 0, header.length())),
                (FramePart::Bytes(bytes), Some((_, first, _))) => *first = bytes[0],
                _ => {}
            }
        }
        assert!(decoder.is_between_frames());
        frames
    }

    #[test]
    fn a_message_waits_for_the_frame_that_is_begun_and_for_no_other() {
        let mut writer = Writer::default();
        let mut out = Vec::new();
        writer.queue_frame(frame(1, &[10, 0, 100_000]), None);
        writer.queue_frame(frame(2, &[]), None);
        writer.queue_frame(frame(3, &[7]), None);
        take(&mut writer, 50_000, &mut out);
        writer.queue(&message(9));
        while !writer.is_empty() {
            take(&mut writer, 3, &mut out);
        }
        let expected =
            [(Kind::Data, 1, 100_010), (Kind::Control, 9, 1), (Kind::Data, 0, 0), (Kind::Data, 3, 7)];
        assert_eq!(frames(&out), expected);
    }

    #[test]
    fn a_goodbye_goes_behind_everything_that_waits() {
        for written in [0, 5, 18, 20, 40, 70] {
            let mut writer = Writer::default();
            let mut out = Vec::new();
            writer.queue(&message(1));
            writer.queue_frame(frame(2, &[30]), None);
            writer.queue_frame(frame(3, &[20]), None);
            take(&mut writer, written, &mut out);
            writer.queue(&message(4));
            writer.queue(&GOODBYE);
            writer.end();
            assert!(!writer.is_empty());
            while !writer.is_empty() {
                take(&mut writer, 11, &mut out);
            }
            let frames = frames(&out);
            assert_eq!(frames.len(), 5, "{frames:?} after {written} written bytes");
            assert_eq!(frames.last(), Some(&(Kind::Goodbye, 0, 0)));
            let data: Vec<_> =
                frames.iter().filter(|frame| frame.0 == Kind::Data).map(|frame| frame.1).collect();
            assert_eq!(data, [2, 3]);
        }
    }

    #[test]
    fn whatever_is_queued_whenever_goes_whole_and_in_order() {
        for seed in 0..200 {
            let mut rng = crate::sim::rng::Rng::new(seed);
            let mut writer = Writer::default();
            let (mut out, mut numbers) = (Vec::new(), [0u8; 2]);
            for _ in 0..200 {
                match rng.below(4) {
                    0 => {
                        writer.queue(&message(numbers[0]));
                        numbers[0] += 1;
                    }
                    1 => {
                        writer.queue_frame(
                            frame(numbers[1], &[1 + rng.below(4) as usize, rng.below(90) as usize]),
                            None,
                        );
                        numbers[1] += 1;
                    }
                    _ => take(&mut writer, rng.below(150) as usize, &mut out),
                }
            }
            while !writer.is_empty() {
                take(&mut writer, usize::MAX, &mut out);
            }
            let frames = frames(&out);
            for (kind, count) in [(Kind::Control, numbers[0]), (Kind::Data, numbers[1])] {
                let of_kind = frames.iter().filter(|frame| frame.0 == kind).map(|frame| frame.1);
                assert_eq!(of_kind.collect::<Vec<_>>(), (0..count).collect::<Vec<_>>(), "seed {seed}");
            }
        }
    }

    #[test]
    fn an_attachment_goes_with_the_first_byte_of_its_frame() {
        let mut writer = Writer::default();
        writer.queue_frame(frame(1, &[10, 20]), None);
        writer.queue_frame(frame(2, &[5]), Some(7));
        writer.queue_frame(frame(3, &[5]), None);
        let (mut out, mut sent_at) = (Vec::new(), Vec::new());
        take(&mut writer, 13, &mut out);
        writer.queue(&message(9));
        while !writer.is_empty() {
            if writer.attachment() == Some(&7) {
                sent_at.push(out.len());
                writer.advance_attachment();
                // A driver sends it with this write; the rest of the frame may follow in others.
            }
            take(&mut writer, usize::MAX, &mut out);
        }
        assert_eq!(sent_at, [8 + 30 + 9], "behind the frame that was begun, and the message");
        let numbers: Vec<_> = frames(&out).into_iter().map(|frame| frame.1).collect();
        assert_eq!(numbers, [1, 9, 2, 3]);
    }
}
