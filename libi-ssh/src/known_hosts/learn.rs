//! Appends a key that `ssh` would have learned (`StrictHostKeyChecking` `accept-new` or `no`).

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use data_encoding::BASE64;

use super::lines::key_type;
use super::names::hashed;

/// Appends one line for each of `names` to a file, which is created if it does not exist.
///
/// Several processes may append at once: each line is one write at the end of the file.
pub(crate) fn learn(file: &Path, names: &[String], blob: &[u8], hashes: bool) -> io::Result<()> {
    let kind = key_type(blob).ok_or(io::ErrorKind::InvalidData)?;
    let mut text = String::new();
    for name in names {
        let name = name.to_ascii_lowercase();
        let name = if hashes {
            let mut salt = [0; 20];
            getrandom::fill(&mut salt).map_err(io::Error::other)?;
            hashed(&name, &salt).ok_or(io::ErrorKind::InvalidInput)?
        } else {
            name
        };
        text.push_str(&format!("{name} {kind} {}\n", BASE64.encode(blob)));
    }
    if let Some(directory) = file.parent()
        && directory.ends_with(".ssh")
        && !directory.exists()
    {
        DirBuilder::new().mode(0o700).create(directory)?;
    }
    let mut opened = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(file)?;
    if !ends_with_line(&mut opened)? {
        text.insert(0, '\n');
    }
    opened.write_all(text.as_bytes())
}

fn ends_with_line(file: &mut (impl Read + Seek)) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
