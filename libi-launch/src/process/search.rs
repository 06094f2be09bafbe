//! Finds the file of a program, and explains why a file could not be executed.
//!
//! A program without a slash is searched in the directories of the *child's* `PATH`, relative to
//! the *child's* working directory, as `execvp` does after all changes are made. There is one
//! difference to `execvp`, in accordance with shells: a script whose interpreter is missing is
//! found and reported instead of skipped.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libi_core::dist::OsBytes;

use super::environment::Environment;
use super::error::{Errno, StartError, StartStep};
use super::sys;

/// Where `execvp` searches if there is no `PATH`.
const DEFAULT_PATH: &[u8] = b"/bin:/usr/bin";

/// The file to execute, as a path that is valid in the child's working directory.
pub(super) fn find(
    program: &OsBytes,
    env: &Environment,
    cwd: Option<&OsBytes>,
) -> Result<OsBytes, StartError> {
    let name = program.as_bytes();
    if name.contains(&b'/') {
        return Ok(program.clone()); // exec reports what is wrong with it
    }
    let path = env.value(b"PATH").map_or(DEFAULT_PATH, OsBytes::as_bytes);
    let mut denied = None;
    for directory in path.split(|&byte| byte == b':').filter(|_| !name.is_empty()) {
        // An empty entry is the working directory.
        let directory = if directory.is_empty() { b".".as_slice() } else { directory };
        let Ok(file) = OsBytes::new([directory, b"/", name].concat()) else { continue };
        match probe(&from_here(&file, cwd)) {
            Probe::Program => return Ok(file),
            Probe::Denied => denied = denied.or(Some(file)),
            Probe::Nothing => {}
        }
    }
    match denied {
        Some(file) => Err(StartError::Refused { step: StartStep::Exec(file), errno: Errno(libc::EACCES) }),
        None => Err(StartError::NotFound {
            program: program.clone(),
            // Holds no NUL: it comes from an `OsBytes` or is the default.
            path: OsBytes::new(path).unwrap_or_default(),
        }),
    }
}

/// Returns whether a file that the kernel cannot execute is a shell script: it is readable and not
/// a binary. A shell would read a binary for another architecture as a script full of errors.
pub(super) fn is_shell_script(file: &OsBytes, cwd: Option<&OsBytes>) -> bool {
    head(file, cwd).is_some_and(|head| !head.contains(&0))
}

/// Explains why the kernel reported a file as missing.
pub(super) fn explain_missing(file: OsBytes, cwd: Option<&OsBytes>) -> StartError {
    let head = head(&file, cwd).unwrap_or_default();
    if head.starts_with(b"\x7fELF") {
        return StartError::LoaderMissing { program: file };
    }
    match head.strip_prefix(b"#!").map(interpreter) {
        Some(interpreter) => StartError::InterpreterMissing { program: file, interpreter },
        None => StartError::Refused { step: StartStep::Exec(file), errno: Errno(libc::ENOENT) },
    }
}

/// Checks that a file can be executed, as far as its permissions tell.
pub(super) fn check_program(file: &OsBytes, cwd: Option<&OsBytes>) -> Result<(), StartError> {
    let at = from_here(file, cwd);
    if matches!(probe(&at), Probe::Program) {
        let head = head(file, cwd).unwrap_or_default();
        return match head.strip_prefix(b"#!").map(interpreter) {
            Some(interpreter) if !from_here(&interpreter, cwd).exists() => {
                Err(StartError::InterpreterMissing { program: file.clone(), interpreter })
            }
            _ => Ok(()),
        };
    }
    let errno = match at.metadata() {
        Ok(_) => libc::EACCES,
        Err(error) => error.raw_os_error().unwrap_or(libc::ENOENT),
    };
    Err(StartError::Refused { step: StartStep::Exec(file.clone()), errno: Errno(errno) })
}

/// Checks that a directory exists and can be entered.
pub(super) fn check_directory(directory: &OsBytes) -> Result<(), StartError> {
    let at = Path::new(OsStr::from_bytes(directory.as_bytes()));
    let errno = match at.metadata() {
        Ok(found) if !found.is_dir() => libc::ENOTDIR,
        Ok(_) if !sys::may_execute(at) => libc::EACCES,
        Ok(_) => return Ok(()),
        Err(error) => error.raw_os_error().unwrap_or(libc::ENOENT),
    };
    Err(StartError::Refused { step: StartStep::Directory(directory.clone()), errno: Errno(errno) })
}

enum Probe {
    Program,
    Denied,
    Nothing,
}

fn probe(file: &Path) -> Probe {
    match file.metadata() {
        Ok(seen) if seen.is_file() && sys::may_execute(file) => Probe::Program,
        Ok(_) => Probe::Denied,
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => Probe::Denied,
        Err(_) => Probe::Nothing,
    }
}

/// A path relative to the child's working directory, as seen from this process.
fn from_here(file: &OsBytes, cwd: Option<&OsBytes>) -> PathBuf {
    let file = Path::new(OsStr::from_bytes(file.as_bytes()));
    match cwd {
        Some(cwd) => Path::new(OsStr::from_bytes(cwd.as_bytes())).join(file),
        None => file.to_owned(),
    }
}

/// The part of a file that the kernel reads to recognize its format.
fn head(file: &OsBytes, cwd: Option<&OsBytes>) -> Option<Vec<u8>> {
    let path = from_here(file, cwd);
    if !path.metadata().ok()?.is_file() {
        return None; // opening a FIFO would block
    }
    let mut head = Vec::new();
    File::open(path).ok()?.take(256).read_to_end(&mut head).ok()?;
    Some(head)
}

/// The interpreter that a first line names, without its `#!`.
fn interpreter(line: &[u8]) -> OsBytes {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let name = line.split(|byte| matches!(byte, b' ' | b'\t')).find(|part| !part.is_empty());
    OsBytes::new(name.unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_the_first_word_of_the_first_line() {
        assert_eq!(interpreter(b" /bin/sh -e\nexit").as_bytes(), b"/bin/sh");
        assert_eq!(interpreter(b"/bin/sh\r\n").as_bytes(), b"/bin/sh\r");
        assert_eq!(interpreter(b"\n").as_bytes(), b"");
    }

    #[test]
    fn an_empty_name_is_found_nowhere() {
        let found = find(&OsBytes::default(), &Environment::default(), None);
        let (program, path) = (OsBytes::default(), OsBytes::new(DEFAULT_PATH).unwrap());
        assert_eq!(found, Err(StartError::NotFound { program, path }));
    }
}
