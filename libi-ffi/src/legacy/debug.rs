//! Says what happens to whoever has asked for it: `LIBI_DEBUG` is how much, `LIBI_DEBUG_DIR` where. Without them not a word is said.
//!
//! | from | what is said |
//! |---|---|
//! | 1 | what has failed, and the report of a launch that did not come up |
//! | 2 | how launches were to go, the report of each, members and hosts that have ended |
//!
//! In the directory each process has a file of its own, `libi.HOST.PID`, to which it appends; without one it is said on
//! standard error.

use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::lock;

/// How much is said.
pub(super) const VERBOSITY: &str = "LIBI_DEBUG";
/// Where to.
pub(super) const DIRECTORY: &str = "LIBI_DEBUG_DIR";

/// Says this, if so much is to be said. What cannot be written is lost.
pub(super) fn say(level: u32, text: impl FnOnce() -> String) {
    /// One line at a time, that files are not mixed up.
    static SAYING: Mutex<()> = Mutex::new(());
    let wanted = std::env::var_os(VERBOSITY);
    if wanted.is_none_or(|wanted| verbosity(wanted.as_bytes()) < level) {
        return;
    }
    let text: String = text().lines().map(|line| format!("libi: {line}\n")).collect();
    let _one = lock(&SAYING);
    let directory = std::env::var_os(DIRECTORY).filter(|directory| !directory.is_empty());
    let file = directory.and_then(|directory| {
        let path = file_in(Path::new(&directory));
        File::options().create(true).append(true).open(path).ok()
    });
    let _ = match file {
        Some(mut file) => file.write_all(text.as_bytes()),
        None => std::io::stderr().write_all(text.as_bytes()),
    };
}

fn file_in(directory: &Path) -> PathBuf {
    directory.join(format!("libi.{}.{}", super::this_machine::machine(), std::process::id()))
}

/// What is no number says that somebody wants to hear something.
fn verbosity(text: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    if text.is_empty() { 0 } else { text.parse::<i64>().map_or(1, |level| level.clamp(0, 9) as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_zero_and_less_are_silent_and_any_other_word_is_not() {
        let levels = ["", "0", "-3", " 2 ", "77", "yes"].map(|text| verbosity(text.as_bytes()));
        assert_eq!(levels, [0, 0, 0, 2, 9, 1]);
    }
}
