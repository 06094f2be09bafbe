//! Detects which rsh is installed: the client of rsh-redone has more options.

use libi::{OsBytes, Rsh};

/// The back-end for a program named `rsh`, with the options of the one installed on this machine.
/// Hosts that launch others are expected to have the same one. `None` for other programs.
pub(crate) fn rsh_backend(program: &OsBytes) -> Option<Rsh> {
    let path = program.to_string();
    if path.rsplit('/').next() != Some("rsh") {
        return None;
    }
    let rsh = if is_rsh_redone(&path) { Rsh::redone() } else { Rsh::new() };
    Some(Rsh { program: program.clone(), ..rsh })
}

/// Whether this program resolves to a file of rsh-redone.
fn is_rsh_redone(path: &str) -> bool {
    let places = std::env::var_os("PATH").unwrap_or_default();
    let found = if path.contains('/') {
        Some(path.into())
    } else {
        std::env::split_paths(&places).map(|place| place.join(path)).find(|file| file.is_file())
    };
    let file = found.and_then(|file: std::path::PathBuf| file.canonicalize().ok());
    file.is_some_and(|file| file.file_name().is_some_and(|name| name.to_string_lossy().contains("redone")))
}
