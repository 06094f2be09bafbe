//! Negotiates the protocol version between two builds.

use core::fmt;

use thiserror::Error;

/// The versions this build speaks.
pub const PROTOCOL: VersionRange = VersionRange { oldest: Version(1), newest: Version(1) };

/// A version of the protocol: one number, since any difference in bytes is a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(
    /// The number on the wire.
    pub u16,
);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The versions a build speaks, without gaps, at least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VersionRange {
    oldest: Version,
    newest: Version,
}

impl VersionRange {
    /// From `oldest` to `newest`, both included; `None` if the oldest is the newer one.
    #[must_use]
    pub const fn new(oldest: Version, newest: Version) -> Option<Self> {
        if oldest.0 <= newest.0 { Some(Self { oldest, newest }) } else { None }
    }

    /// The oldest version spoken.
    #[must_use]
    pub const fn oldest(self) -> Version {
        self.oldest
    }

    /// The newest version spoken.
    #[must_use]
    pub const fn newest(self) -> Version {
        self.newest
    }

    /// The newest version that both speak. The peer computes the same.
    ///
    /// # Errors
    /// There is no version that both speak.
    pub fn agree(self, theirs: Self) -> Result<Version, VersionMismatch> {
        let newest = self.newest.min(theirs.newest);
        if newest >= self.oldest.max(theirs.oldest) {
            Ok(newest)
        } else {
            Err(VersionMismatch { ours: self, theirs })
        }
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            self.oldest.fmt(f)
        } else {
            write!(f, "{} to {}", self.oldest, self.newest)
        }
    }
}

/// Two builds of libi without a common version: an error of the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[error(
    "no common protocol version: this build of libi speaks {ours}, the peer's speaks {theirs}; \
     install the same version on all hosts"
)]
pub struct VersionMismatch {
    /// What this side speaks.
    pub ours: VersionRange,
    /// What the peer speaks.
    pub theirs: VersionRange,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    fn range(oldest: u16, newest: u16) -> VersionRange {
        VersionRange::new(Version(oldest), Version(newest)).unwrap()
    }

    #[test]
    fn a_range_that_runs_backwards_is_none() {
        assert_eq!(VersionRange::new(Version(2), Version(1)), None);
        assert!(VersionRange::new(Version(2), Version(2)).is_some());
    }

    #[test]
    fn a_mismatch_names_both_ranges() {
        let told = range(1, 2).agree(range(3, 3)).unwrap_err().to_string();
        assert!(told.contains("this build of libi speaks 1 to 2, the peer's speaks 3;"), "{told}");
    }

    proptest! {
        #[test]
        fn both_sides_agree_on_the_newest_common_version(ours in small(), theirs in small()) {
            let speaks = |range: VersionRange, n| range.oldest().0 <= n && n <= range.newest().0;
            let expected = (0..20).rev().find(|&n| speaks(ours, n) && speaks(theirs, n)).map(Version);
            prop_assert_eq!(ours.agree(theirs).ok(), expected);
            prop_assert_eq!(theirs.agree(ours).ok(), expected);
        }
    }

    fn small() -> impl Strategy<Value = VersionRange> {
        (0..10u16, 0..10u16).prop_map(|(oldest, more)| range(oldest, oldest + more))
    }
}
