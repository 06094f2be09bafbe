//! The codes of `lmon_rc_e`, and the bits of the status of a session.

use libc::c_int;
use libi::CommError;
use libi::job::{AttachError, LaunchError, TargetsError};

use crate::compat::{CallError, Code, Fault};

pub(super) const OK: Code = 0;
pub(super) const EINVAL: Code = 1;
pub(super) const EBDARG: Code = 2;
pub(super) const ELNCHR: Code = 3;
pub(super) const EINIT: Code = 4;
pub(super) const ESYS: Code = 5;
pub(super) const ESUBCOM: Code = 6;
pub(super) const ETOUT: Code = 8;
pub(super) const ENOMEM: Code = 9;
pub(super) const ENCLLB: Code = 10;
pub(super) const ECLLB: Code = 11;
pub(super) const ENEGCB: Code = 12;
pub(super) const EBDMSG: Code = 14;
pub(super) const EDUNAV: Code = 15;
pub(super) const ETRUNC: Code = 16;
pub(super) const EBUG: Code = 17;
pub(super) const NOTIMPL: Code = 18;
pub(super) const YES: Code = 19;
pub(super) const NO: Code = 20;

/// The header's `LMON_VERSION`.
pub(super) const VERSION: c_int = 900_100;

/// The session has a job.
pub(super) const REGISTERED: c_int = 1;
/// Its daemons are there.
pub(super) const SPAWNED: c_int = 2;
/// The job was let go.
pub(super) const DETACHED: c_int = 8;
/// The job has ended.
pub(super) const KILLED: c_int = 16;

/// Checks the version that a program was compiled with.
pub(super) fn check(version: c_int) -> Result<(), CallError> {
    let text = || format!("the program was compiled for version {version}, and this is {VERSION}");
    if version == VERSION { Ok(()) } else { Err(CallError::new(EINVAL, text())) }
}

/// An operation with other processes has failed.
pub(super) fn talk(what: &str) -> impl Fn(CommError) -> CallError {
    move |error| {
        let code = if matches!(error, CommError::TimedOut { .. }) { ETOUT } else { ESUBCOM };
        CallError::new(code, format!("{what}: {error}"))
    }
}

impl CallError {
    pub(super) fn argument(text: impl Into<String>) -> Self {
        Self::new(EBDARG, text)
    }

    pub(super) fn lmon(fault: Fault) -> Self {
        match fault {
            Fault::Argument(text) => Self::argument(text),
            Fault::Talk(what, error) => talk(what)(error),
        }
    }

    pub(super) fn attach(error: &AttachError) -> Self {
        let code = match error {
            AttachError::OtherUser { .. } | AttachError::Yama { .. } | AttachError::Forbidden { .. } => ESYS,
            AttachError::Flawed { .. } => ETOUT,
            _ => ELNCHR,
        };
        Self::new(code, error.to_string())
    }

    pub(super) fn launch(error: &LaunchError) -> Self {
        let code = if matches!(error, LaunchError::NotStarted { .. }) { ELNCHR } else { EBDARG };
        Self::new(code, error.to_string())
    }

    pub(super) fn targets(error: TargetsError) -> Self {
        match error {
            TargetsError::Talk(error) => talk("the table of the job")(error),
            error @ (TargetsError::Incomplete { .. } | TargetsError::Held(_)) => {
                Self::new(ETOUT, error.to_string())
            }
            error => Self::new(EBDMSG, error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_version_of_the_header_is_accepted() {
        assert!(check(VERSION).is_ok());
        assert_eq!([0, 900_101, -1].map(|version| check(version).unwrap_err().code), [EINVAL; 3]);
    }
}
