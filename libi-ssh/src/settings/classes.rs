//! Decides which hosts cannot differ in their configuration, so that `ssh -G` is asked once for them.
//!
//! The files that `ssh` would read are read for their `Host` and `Match` lines only. Two hosts are
//! in one class if they are named on the same command line and match the same `Host` lines. A `Match`
//! line that depends on anything makes each host a class of its own, and so does everything that is
//! not understood here: what a line means is left to `ssh`.
//!
//! The files are read once; the helper does not live longer than the launches that it serves.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::Context;
use crate::command_line::CommandLine;
use crate::known_hosts::matches;

const SYSTEM_DIRECTORY: &str = "/etc/ssh";
/// `ssh` refuses deeper `Include`s.
const MAX_DEPTH: usize = 16;
/// A larger file is not a configuration.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// Hosts whose configuration cannot differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    /// They match the same `Host` lines.
    Shared(Vec<bool>),
    Own(String),
}

/// What matters of the configuration files that one command line leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Scan {
    /// The patterns of each `Host` line.
    hosts: Vec<Vec<String>>,
    /// All `HostName` values.
    host_names: Vec<String>,
    /// Whether hosts differ in more than the `Host` lines that they match.
    differs: bool,
    /// There is a line `HostKeyAlgorithms`, or may be one.
    pub(super) may_set_host_keys: bool,
    /// It starts with a minus, or may do so.
    pub(super) may_shorten_host_keys: bool,
}

impl Scan {
    /// Reads the files, and the options of the command line.
    pub(super) fn of(options: &[OsString], context: &Context<'_>) -> Self {
        let mut scan = Self::default();
        for option in CommandLine::settings(options) {
            match option.to_str() {
                Some(line) if !is_keyword(line, "Host") => scan.line(line, &scan_includes_nothing),
                _ => scan.give_up(),
            }
        }
        let user = context.home.join(".ssh");
        match CommandLine::config(options) {
            Some(file) if file.as_os_str().eq_ignore_ascii_case("none") => {}
            Some(file) => scan.file(file, &user, context, 0, true),
            None => {
                scan.file(&user.join("config"), &user, context, 0, false);
                let system = Path::new(SYSTEM_DIRECTORY);
                scan.file(&system.join("ssh_config"), system, context, 0, false);
            }
        }
        scan
    }

    pub(super) fn class(&self, host: &str) -> Class {
        if self.differs || self.host_names.iter().any(|name| name.eq_ignore_ascii_case(host)) {
            return Class::Own(host.to_owned());
        }
        Class::Shared(self.hosts.iter().map(|patterns| holds(patterns, host)).collect())
    }

    fn give_up(&mut self) {
        self.differs = true;
        self.may_set_host_keys = true;
        self.may_shorten_host_keys = true;
    }

    /// Nothing that follows changes the answers.
    fn has_given_up(&self) -> bool {
        self.differs && self.may_shorten_host_keys
    }

    fn file(&mut self, file: &Path, directory: &Path, context: &Context<'_>, depth: usize, must_exist: bool) {
        if self.has_given_up() {
            return;
        }
        let is_small = fs::metadata(file).map(|found| found.is_file() && found.len() <= MAX_FILE);
        match is_small.and_then(|small| if small { fs::read_to_string(file).map(Some) } else { Ok(None) }) {
            Ok(Some(text)) if depth < MAX_DEPTH => {
                for line in text.lines() {
                    self.line(line, &|scan: &mut Self, arguments: &[&str]| {
                        for pattern in arguments {
                            match included(pattern, directory, context) {
                                Some(files) => files
                                    .iter()
                                    .for_each(|file| scan.file(file, directory, context, depth + 1, false)),
                                None => scan.give_up(),
                            }
                        }
                    });
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !must_exist => {}
            _ => self.give_up(),
        }
    }

    fn line(&mut self, line: &str, include: &dyn Fn(&mut Self, &[&str])) {
        let line = line.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{c}');
        if line.is_empty() || line.starts_with('#') {
            return;
        }
        let end = line.find(|c: char| c.is_ascii_whitespace() || c == '=').unwrap_or(line.len());
        let (keyword, rest) = line.split_at_checked(end).unwrap_or((line, ""));
        let rest = rest.trim_ascii_start();
        let rest = rest.strip_prefix('=').unwrap_or(rest);
        // A hash of the name: nothing shows that a value depends on it.
        if rest.contains("%C") {
            self.differs = true;
        }
        let keyword = keyword.trim_matches('"').to_ascii_lowercase();
        if !["host", "match", "include", "hostname", "hostkeyalgorithms"].contains(&keyword.as_str()) {
            return;
        }
        // How `ssh` reads quotes has changed over time.
        if rest.contains(['"', '\'', '\\']) || line.starts_with('"') {
            return self.give_up();
        }
        let words = rest.split_ascii_whitespace().take_while(|word| !word.starts_with('#'));
        let arguments: Vec<&str> = words.collect();
        match keyword.as_str() {
            "host" => self.hosts.push(arguments.into_iter().map(str::to_owned).collect()),
            "match" => {
                let same = |word: &&str| {
                    ["all", "canonical", "final"].iter().any(|known| word.eq_ignore_ascii_case(known))
                };
                self.differs |= !arguments.iter().all(same);
            }
            "include" => include(self, &arguments),
            "hostname" => self.host_names.extend(arguments.first().map(|&name| name.to_owned())),
            _ => {
                self.may_set_host_keys = true;
                self.may_shorten_host_keys |= arguments.iter().any(|list| list.starts_with('-'));
            }
        }
    }
}

/// An option of the command line cannot include a file that is known here.
fn scan_includes_nothing(scan: &mut Scan, _: &[&str]) {
    scan.give_up();
}

fn is_keyword(line: &str, keyword: &str) -> bool {
    let word = line.trim_ascii_start().split(|c: char| c.is_ascii_whitespace() || c == '=').next();
    word.is_some_and(|word| word.trim_matches('"').eq_ignore_ascii_case(keyword))
}

/// Whether a host matches a `Host` line: one of its patterns, and none that is negated.
fn holds(patterns: &[String], host: &str) -> bool {
    let matches = |pattern: &str| matches(host.as_bytes(), pattern.as_bytes());
    let (negated, positive): (Vec<&str>, Vec<&str>) =
        patterns.iter().map(String::as_str).partition(|pattern| pattern.starts_with('!'));
    !negated.iter().any(|pattern| pattern.strip_prefix('!').is_some_and(matches))
        && positive.into_iter().any(matches)
}

/// The files of an `Include`. `None` if it is not understood.
fn included(pattern: &str, directory: &Path, context: &Context<'_>) -> Option<Vec<PathBuf>> {
    if pattern.contains(['[', '{', '%', '$']) {
        return None;
    }
    let path = match pattern.strip_prefix('~') {
        Some(rest) => context.home.join(rest.strip_prefix('/')?),
        None => directory.join(pattern),
    };
    let (parent, name) = (path.parent()?, path.file_name()?.to_str()?);
    let is_pattern = |text: &str| text.contains(['*', '?']);
    if is_pattern(parent.to_str()?) {
        return None;
    }
    if !is_pattern(name) {
        return Some(vec![path]);
    }
    let Ok(entries) = fs::read_dir(parent) else { return Some(Vec::new()) };
    let mut files = Vec::new();
    for entry in entries {
        let found: OsString = entry.ok()?.file_name();
        let bytes = found.as_encoded_bytes();
        let is_shown = !bytes.starts_with(b".") || name.starts_with('.');
        if is_shown && matches(bytes, name.as_bytes()) {
            files.push(parent.join(AsRef::<OsStr>::as_ref(&found)));
        }
    }
    files.sort();
    Some(files)
}

#[cfg(test)]
mod tests;
