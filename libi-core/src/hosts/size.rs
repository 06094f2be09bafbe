//! The size of a part of a host list after expansion.
//!
//! All sums and products saturate: a list can claim any number of hosts without overflow.

/// The size of an expansion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) hosts: u64,
    /// Bytes of all names together.
    pub(super) text: u64,
    /// Bytes of the longest name.
    pub(super) longest: u64,
}

impl Size {
    pub(super) const NO_HOSTS: Size = Size { hosts: 0, text: 0, longest: 0 };
    /// The neutral element of [`concat`](Self::concat).
    pub(super) const EMPTY_NAME: Size = Size { hosts: 1, text: 0, longest: 0 };

    pub(super) fn literal(len: usize) -> Size {
        Size { hosts: 1, text: len as u64, longest: len as u64 }
    }

    pub(super) fn range(lo: u64, hi: u64, width: u8) -> Size {
        let mut text = 0u64;
        let mut from = lo;
        // At most 20 rounds: all numbers of one width at a time.
        loop {
            let digits = from.checked_ilog10().unwrap_or(0) + 1;
            let last = 10u64.checked_pow(digits).map_or(hi, |next| hi.min(next - 1));
            let longest = u64::from(digits.max(u32::from(width)));
            text = text.saturating_add((last - from).saturating_add(1).saturating_mul(longest));
            if last == hi {
                return Size { hosts: (hi - lo).saturating_add(1), text, longest };
            }
            from = last + 1;
        }
    }

    /// One after the other in the same name.
    pub(super) fn concat(self, next: Size) -> Size {
        let with = |text: u64, hosts: u64| text.saturating_mul(hosts);
        Size {
            hosts: self.hosts.saturating_mul(next.hosts),
            text: with(self.text, next.hosts).saturating_add(with(next.text, self.hosts)),
            longest: self.longest.saturating_add(next.longest),
        }
    }

    /// Alternatives, in different names.
    pub(super) fn union(self, other: Size) -> Size {
        Size {
            hosts: self.hosts.saturating_add(other.hosts),
            text: self.text.saturating_add(other.text),
            longest: self.longest.max(other.longest),
        }
    }
}
