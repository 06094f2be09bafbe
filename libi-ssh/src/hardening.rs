//! Protects what the process knows: no core dump, no tracer.

use std::io;

use nix::sys::prctl;
use nix::sys::resource::{Resource, getrlimit, setrlimit};

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

    /// Run by the next test.
    #[test]
    #[ignore = "starts itself again"]
    fn started_with_variables() {
        forget_variables().unwrap();
        let names = std::env::vars_os().map(|(name, _)| name);
        assert!(names.into_iter().all(|name| !name.as_encoded_bytes().starts_with(b"LIBI_")));
        assert_eq!(std::env::var("OTHER").unwrap(), "kept");
    }

    #[test]
    fn variables_of_libi_are_forgotten() {
        let mut again = Command::new(std::env::current_exe().unwrap());
        let again = again
            .args(["--ignored", "--exact", "hardening::tests::started_with_variables"])
            .env("LIBI_SECRET", "1")
            .env("OTHER", "kept");
        let output = again.output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    }
}
