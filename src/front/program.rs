//! Resolves relative paths of distributions before they are sent to hosts.
//!
//! A remote shell starts in the user's home directory, so `./daemon` would mean another file on
//! each host than in the directory in which the user has typed it.

use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use libi_core::dist::{Distribution, OsBytes};
use libi_launch::machine::Program;

/// What the members of a distribution run, with absolute paths as far as
/// [`Distribution::executable`] and [`Distribution::cwd`] promise them.
pub(super) fn program(distribution: &Distribution) -> Program {
    resolve(distribution, current_directory().as_deref())
}

fn resolve(distribution: &Distribution, here: Option<&Path>) -> Program {
    let Distribution { executable, args, env, cwd, .. } = distribution.clone();
    let is_path = executable.as_bytes().contains(&b'/') && cwd.is_none();
    Program {
        executable: if is_path { absolute(executable, here, Path::is_file) } else { executable },
        args,
        env,
        cwd: cwd.map(|cwd| absolute(cwd, here, Path::is_dir)),
    }
}

/// The path below this directory, if it exists there; otherwise unchanged.
fn absolute(path: OsBytes, here: Option<&Path>, exists: fn(&Path) -> bool) -> OsBytes {
    let relative = Path::new(OsStr::from_bytes(path.as_bytes()));
    let Some(here) = here.filter(|_| relative.is_relative() && !path.as_bytes().is_empty()) else {
        return path;
    };
    // Collecting the components drops each `.`.
    let found: PathBuf = here.join(relative).components().collect();
    if !exists(&found) {
        return path;
    }
    OsBytes::new(found.into_os_string().into_vec()).unwrap_or(path)
}

/// The current directory, by the path in `PWD` if that leads there. Below an automounter or a
/// symbolic link, hosts may know only that path.
fn current_directory() -> Option<PathBuf> {
    let physical = std::env::current_dir().ok()?;
    let id = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let named = std::env::var_os("PWD").map(PathBuf::from);
    named.filter(|path| path.is_absolute() && id(path) == id(&physical)).or(Some(physical))
}

#[cfg(test)]
mod tests {
    use libi_core::hosts::HostList;
    use libi_core::ids::SessionId;

    use super::*;

    fn word(text: &str) -> OsBytes {
        OsBytes::try_from(text).unwrap()
    }

    fn resolved(executable: &str, cwd: Option<&str>, here: &str) -> (String, Option<String>) {
        let hosts = HostList::parse("n1").unwrap();
        let mut distribution = Distribution::new(SessionId(0), word(executable), hosts);
        distribution.cwd = cwd.map(word);
        let program = resolve(&distribution, Some(Path::new(here)));
        (program.executable.to_string(), program.cwd.map(|cwd| cwd.to_string()))
    }

    #[test]
    fn relative_paths_that_exist_here_become_absolute() {
        assert_eq!(resolved("./sh", None, "/bin"), ("/bin/sh".to_owned(), None));
        assert_eq!(resolved("bin/./sh", None, "/"), ("/bin/sh".to_owned(), None));
        assert_eq!(resolved("../bin/sh", None, "/bin"), ("/bin/../bin/sh".to_owned(), None));
        assert_eq!(resolved("./sh", Some("bin"), "/"), ("./sh".to_owned(), Some("/bin".to_owned())));
    }

    #[test]
    fn other_programs_and_directories_are_left_to_the_hosts() {
        for (executable, cwd, here) in [
            ("sh", None, "/bin"),
            ("/bin/sh", None, "/"),
            ("./no-such-program", None, "/bin"),
            ("./bin", None, "/"),
            ("./sh", Some("/elsewhere"), "/bin"),
            ("./sh", Some("no-such-directory"), "/bin"),
            ("sh", Some(""), "/bin"),
        ] {
            let expected = (executable.to_owned(), cwd.map(str::to_owned));
            assert_eq!(resolved(executable, cwd, here), expected);
        }
    }

    #[test]
    fn the_current_directory_is_where_this_process_is() {
        let id = |path: &Path| path.metadata().map(|found| (found.dev(), found.ino())).unwrap();
        assert_eq!(id(&current_directory().unwrap()), id(Path::new(".")));
    }
}
