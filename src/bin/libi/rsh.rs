//! Which rsh is called: that of rsh-redone knows more, and is known by its file.

use libi::{OsBytes, Rsh};

/// How to call a program that is rsh by its name, as it is installed here; hosts that launch others are expected to have the same.
pub(crate) fn rsh_backend(program: &OsBytes) -> Option<Rsh> {
    let path = program.to_string();
    if path.rsplit('/').next() != Some("rsh") {
        return None;
    }
    let rsh = if is_rsh_redone(&path) { Rsh::redone() } else { Rsh::new() };
    Some(Rsh { program: program.clone(), ..rsh })
}

/// Whether what this name leads to is the one of rsh-redone.
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
