//! Reads the bytes of staged files where they come from: the user's files, at the front end.

use std::io;
use std::os::unix::fs::FileExt;

use super::{Staging, joined};

/// The user's files, as one sequence of bytes.
#[derive(Clone, Debug)]
pub struct StageSource {
    staging: Staging,
}

impl StageSource {
    /// The files of a staging, at the front end.
    #[must_use]
    pub fn new(staging: &Staging) -> Self {
        Self { staging: staging.clone() }
    }

    /// Reads the bytes from this place on.
    ///
    /// # Errors
    /// A file cannot be read, or is shorter than it was.
    pub fn read(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut at = at;
        let mut left = bytes;
        let mut begin = 0;
        for file in &self.staging.files {
            let end = begin + file.length;
            if at < end && !left.is_empty() {
                let length = left.len().min(usize::try_from(end - at).unwrap_or(usize::MAX));
                let (part, rest) = left.split_at_mut(length);
                let open = file.file.0.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                open.read_exact_at(part, at - begin).map_err(|why| {
                    let name = joined(&[file.given.as_bytes()]);
                    match why.kind() {
                        io::ErrorKind::UnexpectedEof => {
                            io::Error::other(format!("{name} is shorter than before"))
                        }
                        _ => io::Error::new(why.kind(), format!("{name}: {why}")),
                    }
                })?;
                at += length as u64;
                left = rest;
            }
            begin = end;
        }
        if left.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}
