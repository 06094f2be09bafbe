//! Standard streams, each with the identity of the file that it leads to, as a word of an
//! environment.
//!
//! A process that gets this from its parent can tell whether a stream still leads where the parent
//! has led it, or has been redirected since.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use super::sys::file_identity;

/// See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamIds(Vec<(RawFd, (u64, u64))>);

impl StreamIds {
    /// The streams with these numbers, as they are in this process; closed ones are left out.
    pub(crate) fn here(numbers: impl IntoIterator<Item = RawFd>) -> Self {
        let known = |number| Some((number, file_identity(number)?));
        Self(numbers.into_iter().filter_map(known).collect())
    }

    /// Adds the stream with this number, which leads to this file.
    pub(crate) fn add(&mut self, number: RawFd, file: BorrowedFd<'_>) {
        self.0.extend(file_identity(file.as_raw_fd()).map(|identity| (number, identity)));
    }

    /// The numbers of those that lead to the same file in this process.
    pub(crate) fn unchanged(&self) -> impl Iterator<Item = RawFd> {
        let same = |(number, identity): &(RawFd, (u64, u64))| file_identity(*number) == Some(*identity);
        self.0.iter().copied().filter(same).map(|(number, _)| number)
    }

    /// Reads the word; `None` if it is none of these.
    pub(crate) fn parse(word: &str) -> Option<Self> {
        let one = |part: &str| {
            let (number, identity) = part.split_once('=')?;
            let (device, inode) = identity.split_once('.')?;
            let number = number.parse().ok().filter(|number| (0..=2).contains(number))?;
            Some((number, (device.parse().ok()?, inode.parse().ok()?)))
        };
        word.split(',').filter(|part| !part.is_empty()).map(one).collect::<Option<_>>().map(Self)
    }
}

impl fmt::Display for StreamIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (number, (device, inode))) in self.0.iter().enumerate() {
            write!(f, "{}{number}={device}.{inode}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_stream_that_was_redirected_is_told_from_one_that_was_not() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut ids = StreamIds::here([0]);
        ids.add(1, writer.as_fd());
        ids.add(2, reader.as_fd());
        let read = StreamIds::parse(&ids.to_string()).unwrap();
        assert_eq!(read, ids);
        assert_eq!(read.unchanged().collect::<Vec<_>>(), [0], "the others lead elsewhere here");
    }

    #[test]
    fn other_words_are_refused() {
        assert_eq!(StreamIds::parse(""), Some(StreamIds::default()));
        for word in ["1", "1=2", "3=1.1", "x=1.1", "1=1.x", "1=1.1,2"] {
            assert_eq!(StreamIds::parse(word), None, "{word}");
        }
    }
}
