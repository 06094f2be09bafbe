//! What calls share through files of one directory: whose turn it is on a launching host, how often
//! a host was called, and how many calls there are.
//!
//! Places are held by locks, which go with the process that holds them, however it ends.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::chance::Chance;
use crate::sys::{self, Moment};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Locks<'a>(pub(crate) &'a Path);

impl Locks<'_> {
    /// The number of this attempt to call the host, from 1.
    pub(crate) fn attempt(self, host: &str) -> io::Result<u64> {
        let file = self.open("attempts", host)?;
        sys::lock(&file)?;
        let attempt = number_in(&file)?.saturating_add(1);
        file.write_all_at(&attempt.to_le_bytes(), 0)?;
        Ok(attempt)
    }

    /// When the turn of a call begins that arrived then and occupies its launching host for so
    /// long.
    ///
    /// Turns are assigned in advance, in order, and not by holding the lock: with a lock, wake-up
    /// order would decide, and wake-up latency would be lost. So a hundred turns take a hundred
    /// times SEQ on a busy machine too.
    pub(crate) fn turn(self, launcher: &str, arrived: Moment, seq: Duration) -> io::Result<Moment> {
        let file = self.open("processor", launcher)?;
        sys::lock(&file)?;
        let free = Moment(number_in(&file)?);
        let turn = arrived.max(free);
        file.write_all_at(&(turn + seq).0.to_le_bytes(), 0)?;
        Ok(turn)
    }

    /// One of so many places, once one is free. It is held as long as the file. Of those that wait, one
    /// looks again and again, and the others wait for it.
    pub(crate) fn await_place(self, purpose: &str, host: &str, places: u64) -> io::Result<File> {
        let door = self.open("door", host)?;
        sys::lock(&door)?;
        loop {
            if let Some(place) = self.place(purpose, host, places)? {
                return Ok(place);
            }
            sys::sleep_until(sys::now() + Duration::from_millis(1));
        }
    }

    /// One of so many places, if one is free. It is held as long as the file.
    pub(crate) fn place(self, purpose: &str, host: &str, places: u64) -> io::Result<Option<File>> {
        let file = self.open(purpose, host)?;
        for place in 0..places {
            if sys::lock_byte(&file, place)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    fn open(self, purpose: &str, host: &str) -> io::Result<File> {
        let path: PathBuf = self.0.join(format!("{purpose}.{}", as_one_word(host)));
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

/// The name as a word that can be part of a file's name and of a line of words.
pub(crate) fn as_one_word(name: &str) -> String {
    const LONGEST: usize = 150;
    let mut word = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b".-_:".contains(&byte) {
            word.push(char::from(byte));
        } else {
            let _ = write!(word, "%{byte:02x}"); // a string takes everything
        }
    }
    if word.len() > LONGEST {
        word.truncate(LONGEST);
        let _ = write!(word, "%{:016x}", Chance::default().draw("name", name, 0));
    }
    word
}

fn number_in(file: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(u64::from_le_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0), // no turn was given out before
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_becomes_a_word_of_its_own() {
        assert_eq!(as_one_word("node-1.a_b"), "node-1.a_b");
        assert_eq!(as_one_word("2001:db8::1"), "2001:db8::1");
        assert_eq!(as_one_word("../a b%"), "..%2fa%20b%25");
        let long = as_one_word(&"x".repeat(4000));
        assert!(long.len() < 200);
        assert_ne!(long, as_one_word(&"x".repeat(4001)));
    }
}
