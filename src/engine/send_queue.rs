//! Queued output of one direction of a link, and its order.
//!
//! Two kinds of output are queued: messages of the launch half, which are short, and frames of the
//! communication half, which may be many and long. Messages are written before all frames, except
//! the frame that is partly written. Frames keep their order. After [`end`](SendQueue::end) the
//! last message, the goodbye, is written behind everything. Frames are not copied.

use std::collections::VecDeque;
use std::io;

use libi_comm::memory::SealedRegion;
use libi_comm::{Bytes, Frame};
use libi_core::wire::{Flags, Header, Kind, Limits};
use zeroize::Zeroize;

use super::memory::descriptor;
use super::stream::Stream;

/// The most pieces written in one call.
const MAX_PIECES: usize = 64;
/// The capacity for messages that is kept while none is queued.
const KEPT_CAPACITY: usize = 4096;

/// The result of writing queued output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flushed {
    Everything,
    /// The descriptor takes no more now.
    Waits,
    /// More could be written, but the limit of this turn is reached.
    Partly,
    /// The other end is closed.
    Broken,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct SendQueue {
    /// Queued messages, and how many bytes of them are written.
    messages: Vec<u8>,
    written: usize,
    /// The pieces of frames, and the lengths of frames that are not partly written.
    pieces: VecDeque<Bytes>,
    /// How many pieces have been written completely.
    written_pieces: usize,
    /// Shared memory, each with the number of the piece it is sent with.
    loans: VecDeque<(usize, SealedRegion)>,
    lengths: VecDeque<usize>,
    /// The unwritten rest of the frame that is partly written.
    begun: usize,
    goodbye: Vec<u8>,
}

impl SendQueue {
    /// Queues a message.
    pub(super) fn queue(&mut self, message: &[u8]) {
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
    pub(super) fn put_first(&mut self, first: &[u8]) {
        if first.is_empty() {
            return;
        }
        let mut all = Vec::with_capacity(first.len() + self.messages.len());
        all.extend_from_slice(first);
        all.extend_from_slice(&self.messages[self.written..]);
        self.messages.zeroize();
        (self.messages, self.written) = (all, 0);
    }

    /// Queues a frame. A frame above the size limit is dropped.
    pub(super) fn queue_frame(&mut self, Frame(parts): Frame) {
        let length = parts.iter().map(Bytes::len).sum();
        let Ok(header) = Header::new(Kind::Data, Flags::NONE, 1, length, &Limits::AUTHENTICATED) else {
            return;
        };
        self.lengths.push_back(Header::LEN + length);
        self.pieces.push_back(Bytes::copy_from_slice(&header.encode()));
        self.pieces.extend(parts.into_iter().filter(|part| !part.is_empty()));
    }

    /// Queues a frame together with shared memory.
    pub(super) fn queue_loan(&mut self, frame: Frame, lent: SealedRegion) {
        let place = self.written_pieces + self.pieces.len();
        self.queue_frame(frame);
        self.loans.push_back((place, lent));
    }

    /// Marks the message queued last as the goodbye: it is written behind the queued frames.
    pub(super) fn end(&mut self) {
        if let Some(at) = self.messages.len().checked_sub(Header::LEN).filter(|at| *at >= self.written) {
            self.goodbye = self.messages.split_off(at);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written == self.messages.len() && self.pieces.is_empty() && self.goodbye.is_empty()
    }

    pub(super) fn has_frames(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// The next output, as pieces that together are no longer than `limit`.
    pub(super) fn next(&self, limit: usize) -> Vec<&[u8]> {
        let mut next = Batch { pieces: Vec::new(), capacity: limit };
        // Shared memory is sent with the first byte of its frame.
        let loan = self.loans.front().map_or(usize::MAX, |(place, _)| place - self.written_pieces);
        let mut pieces = self.pieces.iter().take(loan.max(1));
        let mut begun = self.begun;
        while begun > 0
            && let Some(piece) = pieces.next()
        {
            begun = begun.saturating_sub(piece.len());
            next.add(piece);
        }
        next.add(&self.messages[self.written..]);
        if loan == 0 && !next.pieces.is_empty() {
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

    /// Removes output that has been written.
    pub(super) fn advance(&mut self, mut count: usize) {
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
            && let Some(piece) = self.pieces.front_mut()
        {
            let written = piece.len().min(*count);
            *count -= written;
            self.begun -= written;
            if written == piece.len() {
                self.pieces.pop_front();
                self.written_pieces += 1;
            } else {
                let _ = piece.split_to(written);
            }
        }
    }

    /// Writes at most `limit` bytes, as far as the descriptor takes them.
    pub(super) fn flush(&mut self, stream: &Stream, limit: usize) -> Flushed {
        let mut capacity = limit;
        while !self.is_empty() {
            if capacity == 0 {
                return Flushed::Partly;
            }
            let next = self.next(capacity);
            let lends =
                self.loans.front().filter(|(place, _)| *place == self.written_pieces && self.is_at_a_frame());
            let written = match lends.and_then(|(_, lent)| descriptor(lent)) {
                Some(fd) => stream.lend(&next, fd),
                None => stream.write_pieces(&next),
            };
            match written {
                Ok(count) => {
                    if lends.is_some() {
                        self.loans.pop_front();
                    }
                    self.advance(count);
                    capacity = capacity.saturating_sub(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Waits,
                Err(_) => return Flushed::Broken,
            }
        }
        Flushed::Everything
    }

    /// Whether the next byte is the first of a frame.
    fn is_at_a_frame(&self) -> bool {
        self.begun == 0 && self.written == self.messages.len()
    }

    /// Drops all queued output.
    pub(super) fn clear(&mut self) {
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
    use super::*;
    use libi_core::wire::{Decoder, FramePart};

    const GOODBYE: [u8; 8] = [0, 0, 0, 0, 7, 0, 0, 0];

    fn frame(number: u8, lengths: &[usize]) -> Frame {
        Frame(lengths.iter().map(|length| Bytes::from(vec![number; *length])).collect())
    }

    fn message(number: u8) -> [u8; 9] {
        [1, 0, 0, 0, 3, 0, 0, 0, number]
    }

    /// Takes at most this many bytes off a queue.
    fn take(send_queue: &mut SendQueue, limit: usize, out: &mut Vec<u8>) {
        let before = out.len();
        for piece in send_queue.next(limit) {
            out.extend_from_slice(piece);
        }
        send_queue.advance(out.len() - before);
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
        let mut send_queue = SendQueue::default();
        let mut out = Vec::new();
        send_queue.queue_frame(frame(1, &[10, 0, 100_000]));
        send_queue.queue_frame(frame(2, &[]));
        send_queue.queue_frame(frame(3, &[7]));
        take(&mut send_queue, 50_000, &mut out);
        send_queue.queue(&message(9));
        while !send_queue.is_empty() {
            take(&mut send_queue, 3, &mut out);
        }
        let expected =
            [(Kind::Data, 1, 100_010), (Kind::Control, 9, 1), (Kind::Data, 0, 0), (Kind::Data, 3, 7)];
        assert_eq!(frames(&out), expected);
    }

    #[test]
    fn a_goodbye_goes_behind_everything_that_waits() {
        for written in [0, 5, 18, 20, 40, 70] {
            let mut send_queue = SendQueue::default();
            let mut out = Vec::new();
            send_queue.queue(&message(1));
            send_queue.queue_frame(frame(2, &[30]));
            send_queue.queue_frame(frame(3, &[20]));
            take(&mut send_queue, written, &mut out);
            send_queue.queue(&message(4));
            send_queue.queue(&GOODBYE);
            send_queue.end();
            assert!(!send_queue.is_empty());
            while !send_queue.is_empty() {
                take(&mut send_queue, 11, &mut out);
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
            let mut rng = libi_core::sim::rng::Rng::new(seed);
            let mut send_queue = SendQueue::default();
            let (mut out, mut numbers) = (Vec::new(), [0u8; 2]);
            for _ in 0..200 {
                match rng.below(4) {
                    0 => {
                        send_queue.queue(&message(numbers[0]));
                        numbers[0] += 1;
                    }
                    1 => {
                        send_queue.queue_frame(frame(
                            numbers[1],
                            &[1 + rng.below(4) as usize, rng.below(90) as usize],
                        ));
                        numbers[1] += 1;
                    }
                    _ => take(&mut send_queue, rng.below(150) as usize, &mut out),
                }
            }
            while !send_queue.is_empty() {
                take(&mut send_queue, usize::MAX, &mut out);
            }
            let frames = frames(&out);
            for (kind, count) in [(Kind::Control, numbers[0]), (Kind::Data, numbers[1])] {
                let of_kind = frames.iter().filter(|frame| frame.0 == kind).map(|frame| frame.1);
                assert_eq!(of_kind.collect::<Vec<_>>(), (0..count).collect::<Vec<_>>(), "seed {seed}");
            }
        }
    }
}
