//! What a child prints before its hello: kept until the child joins, or as evidence if it never does.
//!
//! The output cannot go to the front end before the hello, because a failed login attempt may have
//! printed it. It cannot exert backpressure either: a program that waits for a reader does not
//! join. So a limit applies: the first [`KEPT`] bytes and the last [`KEPT`] bytes are passed on
//! when the child joins, with a line between them that counts what is left out.

use std::collections::VecDeque;

use super::output_piece::Stream;

/// How much is kept of the beginning, and how much of the end.
const KEPT: usize = 32 << 10;

/// The output of one child before its hello.
#[derive(Debug, Default)]
pub(super) struct EarlyOutput {
    beginning: Vec<(Stream, Vec<u8>)>,
    beginning_bytes: usize,
    end: VecDeque<(Stream, Vec<u8>)>,
    end_bytes: usize,
    left_out: u64,
}

impl EarlyOutput {
    /// Adds output.
    pub(super) fn push(&mut self, stream: Stream, mut text: Vec<u8>) {
        let free = KEPT - self.beginning_bytes;
        let later = text.split_off(free.min(text.len()));
        if !text.is_empty() {
            self.beginning_bytes += text.len();
            self.beginning.push((stream, text));
        }
        if !later.is_empty() {
            self.end_bytes += later.len();
            self.end.push_back((stream, later));
        }
        while self.end_bytes > KEPT
            && let Some((_, oldest)) = self.end.front_mut()
        {
            let surplus = (self.end_bytes - KEPT).min(oldest.len());
            oldest.drain(..surplus);
            self.end_bytes -= surplus;
            self.left_out += surplus as u64;
            if oldest.is_empty() {
                self.end.pop_front();
            }
        }
    }

    /// Takes everything that is kept, in order.
    pub(super) fn take(&mut self) -> Vec<(Stream, Vec<u8>)> {
        let Self { mut beginning, end, left_out, .. } = std::mem::take(self);
        if left_out > 0
            && let Some((stream, before)) = beginning.last()
        {
            let start = if before.ends_with(b"\n") { "" } else { "\n" };
            let line = format!("{start}[libi: {left_out} bytes printed before joining are left out]\n");
            beginning.push((*stream, line.into_bytes()));
        }
        beginning.extend(end);
        beginning
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(pieces: Vec<(Stream, Vec<u8>)>) -> Vec<u8> {
        pieces.into_iter().flat_map(|(_, text)| text).collect()
    }

    #[test]
    fn up_to_twice_the_limit_is_kept_whole_and_in_order() {
        let mut early = EarlyOutput::default();
        let text: Vec<u8> = (0..2 * KEPT).map(|number| number as u8).collect();
        for (number, piece) in text.chunks(1_000).enumerate() {
            early.push(if number % 2 == 0 { Stream::Out } else { Stream::Err }, piece.to_vec());
        }
        assert_eq!(joined(early.take()), text);
        assert!(early.take().is_empty());
    }

    #[test]
    fn of_more_the_beginning_and_the_end_are_kept_and_the_rest_is_counted() {
        for piece in [1_000, 7, 1_000_000] {
            let mut early = EarlyOutput::default();
            let text: Vec<u8> = (0..1_000_000).map(|number| b'a' + (number % 23) as u8).collect();
            text.chunks(piece).for_each(|piece| early.push(Stream::Out, piece.to_vec()));
            let kept = joined(early.take());
            let line =
                format!("\n[libi: {} bytes printed before joining are left out]\n", 1_000_000 - 2 * KEPT);
            let expected = [&text[..KEPT], line.as_bytes(), &text[text.len() - KEPT..]].concat();
            assert!(kept == expected, "{}", kept.len());
        }
    }
}
