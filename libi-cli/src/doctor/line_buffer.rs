//! Splits a byte stream into lines.

/// The bytes of an incomplete line.
#[derive(Debug, Default)]
pub(super) struct LineBuffer {
    begun: Vec<u8>,
}

impl LineBuffer {
    /// The longest line. A longer one is returned in pieces.
    const MOST: usize = 16 << 10;

    /// Adds bytes and returns the lines that they complete, without their terminators.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") || self.begun.len() >= Self::MOST {
                lines.extend(self.rest());
            }
        }
        lines
    }

    /// Takes the incomplete line, if there is one.
    pub(super) fn rest(&mut self) -> Option<String> {
        let begun = std::mem::take(&mut self.begun);
        let line = begun.strip_suffix(b"\n").unwrap_or(&begun);
        (!begun.is_empty()).then(|| String::from_utf8_lossy(line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_joined_across_reads() {
        let mut lines = LineBuffer::default();
        assert_eq!(lines.take(b"a\nb"), ["a"]);
        assert!(lines.take(b"c").is_empty());
        assert_eq!(lines.take(b"\n\nd"), ["bc", ""]);
        assert_eq!((lines.rest().as_deref(), lines.rest()), (Some("d"), None));
    }

    #[test]
    fn a_line_without_end_is_not_kept() {
        let mut lines = LineBuffer::default();
        let pieces: usize = (0..100).map(|_| lines.take(&[b'x'; 4096]).len()).sum();
        assert_eq!(pieces, 25);
        assert!(lines.begun.len() < LineBuffer::MOST);
    }
}
