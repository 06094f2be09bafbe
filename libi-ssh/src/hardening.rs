//! Protects what the process knows: no core dump, no tracer, no variables of libi.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Starts this program again without the variables of libi, if it has any. A variable that is
/// removed later would stay readable in `/proc`; removing one is also unsafe while threads run.
///
/// To be called first in `main`. File descriptors that are inherited stay open. Returns if there
/// are no such variables.
pub(crate) fn forget_variables() -> io::Result<()> {
    let names: Vec<_> = std::env::vars_os()
        .map(|(name, _)| name)
        .filter(|name| name.as_encoded_bytes().starts_with(b"LIBI_"))
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let mut arguments = std::env::args_os();
    let mut again = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        again.arg0(name);
    }
    again.args(arguments);
    for name in names {
        again.env_remove(name);
    }
    Err(again.exec())
}

/// Forbids core dumps, and tracing by other processes of the user.
pub(crate) fn forbid_inspection() -> io::Result<()> {
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    prctl::set_dumpable(false)?;
    Ok(())
}

/// Raises the limit of open files to what is allowed; returns it.
pub(crate) fn raise_open_files() -> io::Result<u64> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    Ok(hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_cannot_be_inspected() {
        forbid_inspection().unwrap();
        assert!(!prctl::get_dumpable().unwrap());
        assert_eq!(getrlimit(Resource::RLIMIT_CORE).unwrap(), (0, 0));
        let hard = raise_open_files().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
