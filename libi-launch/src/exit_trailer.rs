//! The exit trailer: a host's report of its program's exit status, for remote shells that do not
//! pass it on.
//!
//! The shell that runs the program on the host writes one more line to the channel, behind the
//! program's output:
//!
//! ```text
//!   0x1e  "libi ended "  tag: 32 hexadecimal digits  " "  status: 0 to 255  "\n"
//! ```
//!
//! The [tag](TrailerTag) is drawn at random for each session, so other output does not look like
//! this by accident; a program that knows the tag may exit with any status anyway. The reader of
//! the line closes the connection. The host waits for that, so that no output is lost.
//! [`ExitTrailer`] finds the line in the received bytes, even behind half a frame, and removes it.
//! A status beyond 128 means the signal of that number minus 128, as in shells; a program that
//! exits with such a status by itself cannot be told apart.
//!
//! Bytes are passed on as they arrive, because they may complete a frame. Only the beginning of a
//! trailer is held back, from its fourth byte on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::failure::Exit;

/// Start of the line, before the tag.
const PREFIX: &[u8] = b"\x1elibi ended ";
/// Minimum length of a partial trailer that is held back.
const MIN_HELD: usize = 4;
/// Maximum number of digits of a status.
const MAX_DIGITS: usize = 3;

/// Tag that distinguishes a session's trailers from all other output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrailerTag(pub [u8; 16]);

impl fmt::Display for TrailerTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl TrailerTag {
    /// The line up to the status.
    fn prefix(self) -> Vec<u8> {
        [PREFIX, format!("{self} ").as_bytes()].concat()
    }

    /// POSIX shell command that writes the trailer with the status of the previous command to this
    /// descriptor.
    pub(crate) fn write_to(self, descriptor: u8) -> String {
        let words = String::from_utf8_lossy(&PREFIX[1..]);
        format!(r"printf '\036{words}{self} %d\n' $? >&{descriptor}")
    }
}

/// Finds the trailer in the bytes of a channel.
#[derive(Clone, Debug)]
pub struct ExitTrailer {
    prefix: Vec<u8>,
    /// How much of a line has arrived: `passed` bytes were passed on, `held` is held back.
    passed: usize,
    held: Vec<u8>,
    exit: Option<Exit>,
}

impl ExitTrailer {
    /// Looks for the trailer with this tag.
    #[must_use]
    pub fn new(tag: TrailerTag) -> Self {
        Self { prefix: tag.prefix(), passed: 0, held: Vec::new(), exit: None }
    }

    /// Removes the trailer, and everything behind it, from received bytes. What remains is the
    /// program's output.
    pub fn filter(&mut self, bytes: &mut Vec<u8>) {
        let is_idle = self.passed == 0 && self.held.is_empty() && self.exit.is_none();
        if is_idle && !bytes.contains(&PREFIX[0]) {
            return;
        }
        let mut out = Vec::with_capacity(self.held.len() + bytes.len());
        for &byte in bytes.iter() {
            if self.exit.is_some() {
                break;
            }
            self.take(byte, &mut out);
        }
        if self.passed + self.held.len() < MIN_HELD {
            self.passed += self.held.len();
            out.append(&mut self.held);
        }
        *bytes = out;
    }

    fn take(&mut self, byte: u8, out: &mut Vec<u8>) {
        let place = self.passed + self.held.len();
        let digits = place.saturating_sub(self.prefix.len());
        let fits = match self.prefix.get(place) {
            Some(expected) => byte == *expected,
            None => byte.is_ascii_digit() && digits < MAX_DIGITS,
        };
        if fits {
            return self.held.push(byte);
        }
        if byte == b'\n' && digits > 0 {
            let status = String::from_utf8_lossy(&self.held[self.held.len() - digits..]).parse();
            if let Ok(status) = status {
                self.exit = Some(exit(status));
                return self.held.clear();
            }
        }
        self.passed = 0;
        out.append(&mut self.held);
        // This byte occurs only at the start of a trailer.
        if byte == PREFIX[0] { self.held.push(byte) } else { out.push(byte) }
    }

    /// Takes what is held back. To be called when nothing more can arrive.
    pub fn take_held(&mut self) -> Vec<u8> {
        self.passed = 0;
        std::mem::take(&mut self.held)
    }

    /// The program's exit status, if it was reported.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.exit
    }
}

fn exit(status: u8) -> Exit {
    match status {
        129..=192 => Exit::Signal(i32::from(status) - 128),
        status => Exit::Code(status.into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TAG: TrailerTag = TrailerTag([0x5a; 16]);

    fn line(status: &str) -> Vec<u8> {
        [&TAG.prefix()[..], status.as_bytes(), b"\n"].concat()
    }

    /// What is passed on of these pieces, and the reported exit status.
    fn passed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Option<Exit>) {
        let mut trailer = ExitTrailer::new(TAG);
        let mut all = Vec::new();
        for piece in pieces {
            let mut bytes = piece.to_vec();
            trailer.filter(&mut bytes);
            all.extend(bytes);
        }
        all.extend(trailer.take_held());
        (all, trailer.exit())
    }

    #[test]
    fn a_status_is_said_and_nothing_of_the_line_is_passed_on() {
        for (status, exit) in [
            ("0", Exit::Code(0)),
            ("3", Exit::Code(3)),
            ("127", Exit::Code(127)),
            ("128", Exit::Code(128)),
            ("137", Exit::Signal(9)),
            ("192", Exit::Signal(64)),
            ("255", Exit::Code(255)),
        ] {
            let all = [b"half a line", &line(status)[..], b"and what others print"].concat();
            assert_eq!(passed([&all[..]]), (b"half a line".to_vec(), Some(exit)));
        }
    }

    #[test]
    fn what_only_looks_like_a_line_is_passed_on() {
        let other = [&TrailerTag([1; 16]).prefix()[..], b"0\n"].concat();
        let without_status = line("");
        let beyond = [line("256"), line("1234"), line("1x")].concat();
        for text in [&other[..], &without_status, &beyond, b"\x1e\x1e\x1elibi ended ", b"\x1elibi"] {
            assert_eq!(passed([text]), (text.to_vec(), None), "{}", String::from_utf8_lossy(text));
        }
        let twice = [b"\x1elibi ended 5", &line("7")[..]].concat();
        assert_eq!(passed([&twice[..]]), (b"\x1elibi ended 5".to_vec(), Some(Exit::Code(7))));
    }

    #[test]
    fn the_end_of_a_frame_is_passed_on_at_once_whatever_byte_it_is() {
        let mut trailer = ExitTrailer::new(TAG);
        for end in [&b"frame\x1e"[..], b"\x1el", b"\x1eli"] {
            let mut bytes = end.to_vec();
            trailer.filter(&mut bytes);
            assert_eq!(bytes, end);
        }
    }

    proptest! {
        #[test]
        fn a_line_is_found_behind_anything_in_whatever_pieces_it_arrives(
            before in proptest::collection::vec(prop_oneof![Just(0x1e_u8), Just(b'l'), any::<u8>()], 0..200),
            size in 1_usize..60,
            status in 0_u8..=128,
        ) {
            let all = [&before[..], &line(&status.to_string())].concat();
            let (out, exit) = passed(all.chunks(size));
            prop_assert_eq!(exit, Some(Exit::Code(status.into())));
            // If it arrives byte by byte, its first three bytes have been passed on before it is
            // recognized.
            prop_assert!(out.starts_with(&before) && out.len() < before.len() + MIN_HELD);
            let (out, _) = passed([&all[..]]);
            prop_assert_eq!(out, before);
        }
    }
}
