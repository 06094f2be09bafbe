//! The kinds of frames, and what each may carry.
//!
//! [`Kind`]'s functions hold one row per kind: what the payload is, which flags are allowed,
//! whether it belongs to a channel. The checks in [`Header`](super::Header) use these rows and name
//! no kind.

use core::fmt;

/// The kind of a frame. The numbers are on the wire: they are never reused and never changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Assigns a role to a started process; the first frame from parent to child. A message.
    Ticket = 1,
    /// Redeems the ticket; the first frame from child to parent. A message.
    Hello = 2,
    /// All other messages between libi's own state machines. A message.
    Control = 3,
    /// Bytes of a process's standard input, output or error. Raw.
    Stdio = 4,
    /// Data of the communication half, or a chunk of it. Raw.
    Data = 5,
    /// The sender is alive. Empty.
    Heartbeat = 6,
    /// The last frame in this direction: an end of the stream after it is no error. Empty.
    Goodbye = 7,
    /// Bytes of staged files, behind their place among all bytes of these. Raw.
    Staged = 8,
}

/// What the payload of a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Content {
    /// One serialised message, which is decoded as a whole.
    Message,
    /// Bytes that libi passes on without interpreting them.
    Bytes,
    /// None.
    Nothing,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Ticket,
        Self::Hello,
        Self::Control,
        Self::Stdio,
        Self::Data,
        Self::Heartbeat,
        Self::Goodbye,
        Self::Staged,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind with this number on the wire.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Ticket,
            2 => Self::Hello,
            3 => Self::Control,
            4 => Self::Stdio,
            5 => Self::Data,
            6 => Self::Heartbeat,
            7 => Self::Goodbye,
            8 => Self::Staged,
            _ => return None,
        })
    }

    /// What the payload is.
    #[must_use]
    pub const fn content(self) -> Content {
        match self {
            Self::Ticket | Self::Hello | Self::Control => Content::Message,
            Self::Stdio | Self::Data | Self::Staged => Content::Bytes,
            Self::Heartbeat | Self::Goodbye => Content::Nothing,
        }
    }

    /// The flags that a frame of this kind may have.
    #[must_use]
    pub const fn flags(self) -> Flags {
        match self {
            Self::Data => Flags::MORE,
            _ => Flags::NONE,
        }
    }

    /// Whether a frame of this kind may belong to a channel other than the link's own, 0.
    #[must_use]
    pub const fn has_channel(self) -> bool {
        matches!(self, Self::Control | Self::Stdio | Self::Data)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ticket => "ticket",
            Self::Hello => "hello",
            Self::Control => "control",
            Self::Stdio => "stdio",
            Self::Data => "data",
            Self::Heartbeat => "heartbeat",
            Self::Goodbye => "goodbye",
            Self::Staged => "staged",
        })
    }
}

/// A set of flags, all of them known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Another chunk of the same message follows on this channel.
    pub const MORE: Self = Self(1);

    /// The byte on the wire.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// The flags in a byte from the wire, if none of them is unknown.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::MORE.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// Whether every flag in `other` is also in this set.
    #[must_use]
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_256_numbers_are_a_kind_with_that_number_or_no_kind() {
        for number in 0..=u8::MAX {
            match Kind::from_number(number) {
                Some(kind) => {
                    assert_eq!(kind.number(), number);
                    assert!(Kind::ALL.contains(&kind));
                }
                None => assert!(Kind::ALL.iter().all(|kind| kind.number() != number)),
            }
        }
    }

    #[test]
    fn all_256_flag_bytes_are_kept_or_refused() {
        for bits in 0..=u8::MAX {
            assert_eq!(Flags::from_bits(bits).map(Flags::bits), (bits < 2).then_some(bits));
        }
    }

    #[test]
    fn a_set_of_flags_contains_its_parts_and_the_empty_set() {
        assert!(Flags::MORE.contains(Flags::NONE));
        assert!(Flags::MORE.contains(Flags::MORE));
        assert!(!Flags::NONE.contains(Flags::MORE));
    }
}
