//! Messages for debugging: `LIBI_DEBUG` sets the verbosity, `LIBI_DEBUG_DIR` the destination. By
//! default there are none.
//!
//! | from | messages |
//! |---|---|
//! | 1 | failures, and reports of launches that have failed |
//! | 2 | the options and the report of each launch, ends of members and hosts |
//!
//! In the directory each process appends to a file of its own, `libi.HOST.PID`; without a
//! directory the messages go to standard error.

use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::lock;

/// The verbosity.
pub(crate) const VERBOSITY: &str = "LIBI_DEBUG";
/// The directory of the files.
pub(crate) const DIRECTORY: &str = "LIBI_DEBUG_DIR";

/// Writes a message if the verbosity is high enough. Write errors are ignored.
pub(crate) fn say(level: u32, text: impl FnOnce() -> String) {
    /// Messages of several threads do not mix.
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

/// The verbosity in a text; 1 if it is not a number.
fn verbosity(text: &[u8]) -> u32 {
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    if text.is_empty() { 0 } else { text.parse::<i64>().map_or(1, |level| level.clamp(0, 9) as u32) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_zero_and_less_are_silent_and_other_words_are_not() {
        let levels = ["", "0", "-3", " 2 ", "77", "yes"].map(|text| verbosity(text.as_bytes()));
        assert_eq!(levels, [0, 0, 0, 2, 9, 1]);
    }
}
