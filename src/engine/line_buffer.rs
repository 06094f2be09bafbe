//! Splits a stream at line ends. Complete lines are passed on at once. An incomplete line is passed
//! on when its end does not arrive soon, or when it gets long.

use std::time::Duration;

use libi_core::time::Instant;

/// How long an incomplete line waits for its end.
const TIMEOUT: Duration = Duration::from_millis(50);
/// The longest incomplete line that is kept.
const LONGEST: usize = 8 << 10;

/// An incomplete line.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    begun: Vec<u8>,
    due: Option<Instant>,
}

impl LineBuffer {
    /// Takes input, and returns what can be passed on.
    pub(super) fn push(&mut self, text: &[u8], now: Instant) -> Option<Vec<u8>> {
        self.begun.extend_from_slice(text);
        let whole = self.begun.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let whole = if self.begun.len() - whole > LONGEST { self.begun.len() } else { whole };
        let rest = self.begun.split_off(whole);
        let lines = std::mem::replace(&mut self.begun, rest);
        if whole > 0 || self.due.is_none() {
            self.due = (!self.begun.is_empty()).then(|| now + TIMEOUT);
        }
        (!lines.is_empty()).then_some(lines)
    }

    /// When the incomplete line is to be passed on.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The incomplete line.
    pub(super) fn begun(&self) -> &[u8] {
        &self.begun
    }

    /// Extends the deadline and returns the new one.
    pub(super) fn postpone(&mut self, now: Instant) -> Instant {
        *self.due.insert(now + TIMEOUT)
    }

    /// Takes the incomplete line.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        self.due = None;
        (!self.begun.is_empty()).then(|| std::mem::take(&mut self.begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn lines_are_passed_on_whole_and_at_once() {
        let mut lines = LineBuffer::default();
        assert_eq!(lines.push(b"one\ntwo\nth", NOW), Some(b"one\ntwo\n".to_vec()));
        assert_eq!(lines.push(b"r", NOW), None);
        assert_eq!(lines.push(b"ee\n", NOW), Some(b"three\n".to_vec()));
        assert_eq!((lines.due(), lines.take()), (None, None));
    }

    #[test]
    fn a_line_without_an_end_waits_from_its_beginning_and_not_for_ever() {
        let mut lines = LineBuffer::default();
        assert_eq!(lines.push(b"prompt", NOW), None);
        assert_eq!(lines.push(b"> ", NOW + TIMEOUT / 2), None);
        assert_eq!(lines.due(), Some(NOW + TIMEOUT));
        assert_eq!(
            (lines.postpone(NOW + TIMEOUT), lines.due()),
            (NOW + TIMEOUT * 2, Some(NOW + TIMEOUT * 2))
        );
        assert_eq!(lines.take(), Some(b"prompt> ".to_vec()));
        assert_eq!(lines.due(), None);
        assert_eq!(lines.push(&[b'x'; LONGEST + 1], NOW).map(|text| text.len()), Some(LONGEST + 1));
    }
}
