//! Decides what each line of a file says, and finds the lines for a name.
//!
//! Plain names are indexed. Patterns and hashed names are tried one by one; keys are decoded when a
//! name matches.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use data_encoding::BASE64;
use russh::keys::PublicKey;

use super::names::{self, Hashed};
use super::{Entry, Marker};

#[derive(Debug)]
pub(super) struct Lines {
    text: Vec<u8>,
    lines: Vec<Line>,
    /// Lines by their names in lower case, if these are plain.
    plain: HashMap<Vec<u8>, Vec<usize>>,
    /// Lines whose names are patterns, or are negated.
    patterns: Vec<(Range<usize>, usize)>,
    hashed: Vec<(Hashed, usize)>,
    /// Which hashed lines are those of a name: each name is looked up more than once.
    found: Mutex<HashMap<String, Vec<usize>>>,
}

#[derive(Debug)]
struct Line {
    number: usize,
    marker: Marker,
    /// What follows the names: type, key, comment.
    key: Range<usize>,
}

impl Lines {
    pub(super) fn parse(text: Vec<u8>) -> Self {
        let mut parsed = Self {
            text: Vec::new(),
            lines: Vec::new(),
            plain: HashMap::new(),
            patterns: Vec::new(),
            hashed: Vec::new(),
            found: Mutex::default(),
        };
        let mut start = 0;
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            parsed.add(&text, start, line, index + 1);
            start += line.len() + 1;
        }
        parsed.text = text;
        parsed
    }

    /// Adds a line that starts at `start`, if it is one.
    fn add(&mut self, text: &[u8], start: usize, line: &[u8], number: usize) {
        // `ssh` reads lines as C strings.
        let line = line.split(|&byte| byte == 0).next().unwrap_or_default();
        let mut rest = skip_blanks(line);
        if rest.is_empty() || rest.starts_with(b"#") {
            return;
        }
        let mut marker = Marker::Plain;
        if rest.starts_with(b"@") {
            let (word, after) = split_word(rest);
            marker = match word {
                b"@cert-authority" => Marker::Authority,
                b"@revoked" => Marker::Revoked,
                _ => return,
            };
            rest = skip_blanks(after);
            if rest.is_empty() || rest.starts_with(b"@") {
                return;
            }
        }
        let (hosts, key) = split_word(rest);
        // Both are slices of the line, counted from its end.
        let end = start + line.len();
        let after_hosts = end - key.len();
        let hosts_at = after_hosts - hosts.len()..after_hosts;
        let index = self.lines.len();
        self.lines.push(Line { number, marker, key: after_hosts..end });
        if hosts.starts_with(b"|") {
            self.hashed.extend(Hashed::parse(hosts).map(|hashed| (hashed, index)));
        } else if hosts.iter().any(|byte| b"*?!".contains(byte)) {
            self.patterns.push((hosts_at, index));
        } else {
            debug_assert_eq!(text.get(hosts_at), Some(hosts));
            for name in hosts.split(|&byte| byte == b',') {
                self.plain.entry(name.to_ascii_lowercase()).or_default().push(index);
            }
        }
    }

    /// The readable lines for a name, in their order.
    pub(super) fn lookup<'a>(&'a self, name: &'a str, file: &'a Path) -> impl Iterator<Item = Entry> + 'a {
        let bytes = name.to_ascii_lowercase().into_bytes();
        let mut found: Vec<usize> = self.plain.get(&bytes).cloned().unwrap_or_default();
        let patterns = self.patterns.iter().filter(|(list, _)| {
            self.text.get(list.clone()).is_some_and(|list| names::matches_list(&bytes, list))
        });
        found.extend(patterns.map(|(_, index)| index));
        found.extend(self.hashed(name));
        found.sort_unstable();
        found.dedup();
        found.into_iter().filter_map(|index| self.entry(self.lines.get(index)?, file))
    }

    fn hashed(&self, name: &str) -> Vec<usize> {
        let known = |found: &HashMap<String, Vec<usize>>| found.get(name).cloned();
        if self.hashed.is_empty() {
            return Vec::new();
        }
        if let Some(lines) = known(&self.found.lock().unwrap_or_else(PoisonError::into_inner)) {
            return lines;
        }
        // Not under the lock: it is work for many hosts at once.
        let is = |(hashed, index): &(Hashed, usize)| hashed.is(name).then_some(*index);
        let lines: Vec<usize> = self.hashed.iter().filter_map(is).collect();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(name.to_owned(), lines.clone());
        lines
    }

    fn entry(&self, line: &Line, file: &Path) -> Option<Entry> {
        let (declared, rest) = split_word(skip_blanks(self.text.get(line.key.clone())?));
        let (key, _comment) = split_word(skip_blanks(rest));
        let blob = BASE64.decode(key.trim_ascii_end()).ok()?;
        let key_type = key_type(&blob)?;
        names::label(key_type)?;
        // A key that is revoked under a name of another type is revoked all the same.
        if declared != key_type.as_bytes() && line.marker != Marker::Revoked {
            return None;
        }
        // The library has no DSA, but such a key still is another key than the one that is offered.
        if key_type != "ssh-dss" && PublicKey::from_bytes(&blob).is_err() {
            return None;
        }
        Some(Entry {
            marker: line.marker,
            key_type: key_type.to_owned(),
            file: file.to_owned(),
            line: line.number,
            blob,
        })
    }
}

/// The type with which a key starts.
pub(super) fn key_type(blob: &[u8]) -> Option<&str> {
    let (length, rest) = blob.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    std::str::from_utf8(rest.get(..length)?).ok()
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|&&byte| is_blank(byte)).count();
    text.get(blanks..).unwrap_or_default()
}

/// Splits before the first blank.
fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|&byte| is_blank(byte)).unwrap_or(text.len());
    text.split_at_checked(end).unwrap_or((text, &[]))
}
