//! The eight header bytes of a frame and their rules.
//!
//! A [`Header`] exists only if it keeps every rule of its [`Kind`] and the [`Limits`] in force. The
//! same checks serve writer and reader, so this side cannot send what the other side must reject.

use thiserror::Error;

use super::{Content, Flags, Kind};

// Lengths are u32 on the wire and usize in memory.
const _: () = assert!(usize::BITS >= 32);

/// The limits on payload lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limits {
    /// The limit for [`Content::Bytes`] in one frame. A longer message travels in chunks.
    pub payload: u32,
    /// The limit for [`Content::Message`], which cannot be split.
    pub control: u32,
}

impl Limits {
    /// For a peer that is not authenticated. A stranger can make this side hold no more than this;
    /// a ticket or a hello, with every address that a host may have, fits several times. Raw bytes
    /// are not accepted at all.
    pub const UNAUTHENTICATED: Self = Self { payload: 0, control: 4 << 10 };

    /// For a member of the session, whose frames are bounded only against accidents. A control
    /// message may have to wait behind a chunk: 1 MiB takes 8 ms at 1 Gbit/s. The largest message
    /// is a share of the launch queue: 4 MiB hold a hundred thousand hosts even if no two names
    /// fold together.
    pub const AUTHENTICATED: Self = Self { payload: 1 << 20, control: 4 << 20 };

    /// The longest payload of a frame of this kind.
    #[must_use]
    pub const fn max_payload(&self, kind: Kind) -> usize {
        match kind.content() {
            Content::Message => self.control as usize,
            Content::Bytes => self.payload as usize,
            Content::Nothing => 0,
        }
    }
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    length: u32,
    kind: Kind,
    flags: Flags,
    channel: u16,
}

impl Header {
    /// Bytes of an encoded header.
    pub const LEN: usize = 8;

    /// The channel of messages between communication halves.
    const SESSION_DATA: u16 = 1;

    /// A header for a payload of `length` bytes.
    ///
    /// # Errors
    /// Any rule that the reader of this header would reject, given the same limits.
    pub const fn new(
        kind: Kind,
        flags: Flags,
        channel: u16,
        length: usize,
        limits: &Limits,
    ) -> Result<Self, FrameError> {
        if !kind.flags().contains(flags) {
            return Err(FrameError::Flags { kind, seen: flags.bits(), allowed: kind.flags().bits() });
        }
        if channel != 0 && !kind.has_channel() {
            return Err(FrameError::Channel { kind, seen: channel });
        }
        let allowed = limits.max_payload(kind);
        if length > allowed {
            return Err(FrameError::TooLong { kind, length, allowed });
        }
        // No limit is above u32::MAX, so this does not truncate.
        Ok(Self { length: length as u32, kind, flags, channel })
    }

    /// The header of a message between communication halves.
    ///
    /// # Errors
    /// The message is longer than one frame may be.
    pub const fn session_data(length: usize) -> Result<Self, FrameError> {
        Self::new(Kind::Data, Flags::NONE, Self::SESSION_DATA, length, &Limits::AUTHENTICATED)
    }

    /// Whether the frame is a message between communication halves.
    #[must_use]
    pub const fn is_session_data(self) -> bool {
        matches!(self.kind, Kind::Data) && self.channel == Self::SESSION_DATA && self.flags.bits() == 0
    }

    /// Reads a header.
    ///
    /// # Errors
    /// An unknown kind; a flag, a channel or a length that the kind or `limits` do not allow.
    pub const fn decode(bytes: &[u8; Self::LEN], limits: &Limits) -> Result<Self, FrameError> {
        let [l0, l1, l2, l3, kind, flags, c0, c1] = *bytes;
        let Some(kind) = Kind::from_number(kind) else {
            return Err(FrameError::UnknownKind { seen: kind });
        };
        let Some(flags) = Flags::from_bits(flags) else {
            return Err(FrameError::Flags { kind, seen: flags, allowed: kind.flags().bits() });
        };
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        Self::new(kind, flags, u16::from_le_bytes([c0, c1]), length, limits)
    }

    /// The bytes to send before the payload.
    #[must_use]
    pub const fn encode(self) -> [u8; Self::LEN] {
        let [l0, l1, l2, l3] = self.length.to_le_bytes();
        let [c0, c1] = self.channel.to_le_bytes();
        [l0, l1, l2, l3, self.kind.number(), self.flags.bits(), c0, c1]
    }

    /// The kind of the frame.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// The flags.
    #[must_use]
    pub const fn flags(self) -> Flags {
        self.flags
    }

    /// The channel that the frame belongs to.
    #[must_use]
    pub const fn channel(self) -> u16 {
        self.channel
    }

    /// Bytes of payload that follow.
    #[must_use]
    pub const fn length(self) -> usize {
        self.length as usize
    }
}

/// Why eight bytes are not the header of a frame. On a link, the peer is at fault, and the link
/// ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The kind is unknown.
    #[error("frame of unknown kind {seen}; known are {} to {}", Kind::Ticket.number(), Kind::Staged.number())]
    UnknownKind {
        /// The byte where the kind should be.
        seen: u8,
    },
    /// The frame has flags that its kind does not allow.
    #[error("{kind} frame with flags {seen:#010b}; allowed are {allowed:#010b}")]
    Flags {
        /// The kind of the frame.
        kind: Kind,
        /// The byte of flags.
        seen: u8,
        /// The flags of this kind.
        allowed: u8,
    },
    /// A frame of the link itself names a channel.
    #[error("{kind} frame on channel {seen}; allowed is 0 only")]
    Channel {
        /// The kind of the frame.
        kind: Kind,
        /// The channel.
        seen: u16,
    },
    /// The payload is longer than the limits in force allow.
    #[error("{kind} frame of {length} bytes; allowed are {allowed}")]
    TooLong {
        /// The kind of the frame.
        kind: Kind,
        /// The length it announces.
        length: usize,
        /// The most it may be.
        allowed: usize,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    const LIMITS: Limits = Limits { payload: 100, control: 50 };

    fn bytes(length: u32, kind: u8, flags: u8, channel: u16) -> [u8; 8] {
        let ([a, b, c, d], [e, f]) = (length.to_le_bytes(), channel.to_le_bytes());
        [a, b, c, d, kind, flags, e, f]
    }

    #[test]
    fn of_all_kind_bytes_only_the_known_make_a_header() {
        for number in 0..=u8::MAX {
            let decoded = Header::decode(&bytes(0, number, 0, 0), &LIMITS);
            match Kind::from_number(number) {
                Some(kind) => assert_eq!(decoded, Header::new(kind, Flags::NONE, 0, 0, &LIMITS)),
                None => assert_eq!(decoded, Err(FrameError::UnknownKind { seen: number })),
            }
        }
    }

    #[test]
    fn of_all_flag_bytes_only_more_on_data_is_taken() {
        for kind in Kind::ALL {
            for flags in 0..=u8::MAX {
                let decoded = Header::decode(&bytes(0, kind.number(), flags, 0), &LIMITS);
                if flags == 0 || (kind == Kind::Data && flags == Flags::MORE.bits()) {
                    assert_eq!(decoded.unwrap().flags().bits(), flags);
                } else {
                    let allowed = kind.flags().bits();
                    assert_eq!(decoded, Err(FrameError::Flags { kind, seen: flags, allowed }));
                }
            }
        }
    }

    #[test]
    fn a_kind_that_speaks_for_the_link_names_no_channel() {
        for kind in Kind::ALL {
            let decoded = Header::decode(&bytes(0, kind.number(), 0, 0x0201), &LIMITS);
            if kind.has_channel() {
                assert_eq!(decoded.unwrap().channel(), 0x0201);
            } else {
                assert_eq!(decoded, Err(FrameError::Channel { kind, seen: 0x0201 }));
            }
        }
    }

    #[test]
    fn each_kind_is_taken_up_to_its_limit_and_not_one_byte_beyond() {
        for kind in Kind::ALL {
            let allowed = match kind.content() {
                Content::Message => 50,
                Content::Bytes => 100,
                Content::Nothing => 0,
            };
            let fits = Header::decode(&bytes(allowed, kind.number(), 0, 0), &LIMITS).unwrap();
            assert_eq!(fits.length(), allowed as usize);
            for length in [allowed + 1, u32::MAX] {
                let decoded = Header::decode(&bytes(length, kind.number(), 0, 0), &LIMITS);
                let (length, allowed) = (length as usize, allowed as usize);
                assert_eq!(decoded, Err(FrameError::TooLong { kind, length, allowed }));
            }
        }
    }

    #[test]
    fn a_stranger_may_send_no_raw_bytes() {
        assert_eq!(Limits::UNAUTHENTICATED.max_payload(Kind::Data), 0);
        assert_eq!(Limits::UNAUTHENTICATED.max_payload(Kind::Stdio), 0);
    }

    #[test]
    fn an_error_names_what_was_seen_and_what_was_allowed() {
        let told = |bytes| Header::decode(&bytes, &LIMITS).unwrap_err().to_string();
        assert_eq!(told(bytes(0, 9, 0, 0)), "frame of unknown kind 9; known are 1 to 8");
        assert_eq!(told(bytes(0, 5, 3, 0)), "data frame with flags 0b00000011; allowed are 0b00000001");
        assert_eq!(told(bytes(0, 2, 0, 7)), "hello frame on channel 7; allowed is 0 only");
        assert_eq!(told(bytes(51, 3, 0, 0)), "control frame of 51 bytes; allowed are 50");
    }

    #[test]
    fn the_largest_limit_does_not_truncate_a_length() {
        let limits = Limits { payload: u32::MAX, control: u32::MAX };
        let header = Header::new(Kind::Data, Flags::NONE, 0, u32::MAX as usize, &limits).unwrap();
        assert_eq!(Header::decode(&header.encode(), &limits), Ok(header));
        if let Some(length) = (u32::MAX as usize).checked_add(1) {
            assert!(Header::new(Kind::Data, Flags::NONE, 0, length, &limits).is_err());
        }
    }
}
