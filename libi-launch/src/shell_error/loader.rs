//! Recognizes programs that were found and whose dynamic loader or interpreter failed.
//!
//! The loader exits with 127, as shells do for a missing program; only its message differs. The
//! loaders of glibc and musl do not translate their messages.

use super::{ShellError, lines};

/// Classifies the output of a command that exited with 127; returns the deciding line as well.
pub(crate) fn of_loader(printed: &str) -> Option<(ShellError, &str)> {
    let library = |line| missing_library(line).map(|name| ShellError::LibraryMissing(name.to_owned()));
    lines(printed).find_map(|line| Some((library(line)?, line)))
}

/// Classifies the output of a command that exited with 126 or 127, by the messages of shells.
///
/// `env` reports a missing interpreter like a missing program, so this finds it only where a
/// script on the host starts the program.
pub(crate) fn of_interpreter(printed: &str) -> Option<(ShellError, &str)> {
    let messages = [": bad interpreter: ", ": cannot execute: required file not found"];
    let line = lines(printed).find(|line| messages.iter().any(|message| line.contains(message)))?;
    Some((ShellError::InterpreterMissing, line))
}

/// Classifies the output of a command that exited with 1, by the messages of csh and tcsh about a
/// path that they cannot execute.
pub(crate) fn of_csh(printed: &str) -> Option<(ShellError, &str)> {
    let messages = [
        (": Command not found.", ShellError::ProgramNotFound),
        (": Permission denied.", ShellError::ProgramNotExecutable),
        (": Exec format error. Wrong Architecture.", ShellError::ProgramNotExecutable),
        (": Exec format error. Binary file not executable.", ShellError::ProgramNotExecutable),
    ];
    lines(printed).find_map(|line| {
        let says = |message| line.strip_suffix(message).is_some_and(|path| path.contains('/'));
        let (_, what) = messages.iter().find(|(message, _)| says(*message))?;
        Some((what.clone(), line))
    })
}

fn missing_library(line: &str) -> Option<&str> {
    let glibc = || line.split_once("error while loading shared libraries: ");
    let musl = || line.split_once("Error loading shared library ");
    let (name, reason) = glibc().or_else(musl)?.1.split_once(": ")?;
    let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
    (is_name && !reason.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn library(line: &str) -> Option<String> {
        match of_loader(line)? {
            (ShellError::LibraryMissing(name), said) => {
                assert_eq!(said, line);
                Some(name)
            }
            (other, _) => panic!("{other}"),
        }
    }

    #[test]
    fn loaders_name_the_library_that_is_missing() {
        for (line, name) in [
            (
                "./daemon: error while loading shared libraries: liblibi.so.0.1: cannot open shared \
                 object file: No such file or directory",
                "liblibi.so.0.1",
            ),
            (
                "/opt/my tools/d: error while loading shared libraries: /opt/lib/libx.so.1: wrong ELF \
                 class: ELFCLASS32",
                "/opt/lib/libx.so.1",
            ),
            (
                "Error loading shared library libgcc_s.so.1: No such file or directory (needed by \
                 ./daemon)",
                "libgcc_s.so.1",
            ),
        ] {
            assert_eq!(library(line).as_deref(), Some(name));
        }
    }

    #[test]
    fn other_output_is_no_loader_error() {
        for line in [
            "",
            "env: './daemon': No such file or directory",
            "error while loading shared libraries: ",
            "error while loading shared libraries: all of them: failed",
            "Error loading shared library libx.so.1",
        ] {
            assert_eq!(library(line), None, "{line}");
        }
    }

    #[test]
    fn shells_report_a_missing_interpreter() {
        for line in [
            "bash: ./daemon: /usr/bin/python9: bad interpreter: No such file or directory",
            "bash: line 1: ./daemon: cannot execute: required file not found",
        ] {
            assert_eq!(of_interpreter(line), Some((ShellError::InterpreterMissing, line)));
        }
        assert_eq!(of_interpreter("bash: ./daemon: No such file or directory"), None);
    }
}
