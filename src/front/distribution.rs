//! What to launch: the builder of a distribution, and the check of its values.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use libi_core::dist::{self, EnvVar, EnvVarError, OsBytes, OsBytesError};
use libi_core::hosts::{HostList, HostListError};
use libi_core::ids::SessionId;

/// A set of equal processes of one session: their program, and the hosts they run on.
///
/// ```
/// use libi::Distribution;
///
/// let daemons = Distribution::new("./daemon")
///     .arg("-v")
///     .env("LOG", "debug")
///     .current_dir("/tmp")
///     .hosts("node[01-64]:2"); // two processes on each of 64 hosts
/// # let _ = daemons;
/// ```
///
/// Invalid values, such as an argument with a NUL byte or a malformed host list, are reported when
/// the distribution is [launched](super::FrontEnd::launch); of several the first one.
#[derive(Clone, Debug)]
#[must_use = "a distribution does nothing until it is launched"]
pub struct Distribution {
    spec: dist::Distribution,
    error: Option<DistributionError>,
}

/// An invalid value in a [`Distribution`]: an error of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DistributionError {
    /// A program, an argument, a variable or a directory holds a NUL byte.
    #[error("the {what} {value:?} of the distribution is invalid: {why}")]
    Nul {
        /// Which of them.
        what: &'static str,
        /// The value.
        value: String,
        /// Where the NUL byte is.
        why: OsBytesError,
    },
    /// An environment variable has an invalid name.
    #[error("the environment of the distribution is invalid: {0}")]
    Env(#[from] EnvVarError),
    /// The text of a host list is malformed.
    #[error("the hosts of the distribution are invalid: {0}")]
    Hosts(#[from] HostListError),
}

impl Distribution {
    /// One process of this program on this machine, without arguments, in session 0.
    ///
    /// A name without a slash is searched in the `PATH` of each host. A relative path is relative
    /// to the [working directory](Self::current_dir) if one is set. Otherwise, if the file exists
    /// below the front end's current directory, all hosts use its absolute path; if it does not,
    /// the path is relative to where the remote shell starts, usually the home directory.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        let hosts = HostList::parse("localhost").unwrap_or_default();
        let mut new =
            Self { spec: dist::Distribution::new(SessionId(0), OsBytes::default(), hosts), error: None };
        new.spec.executable = new.os_bytes("program", program.as_ref());
        new
    }

    /// No process, on these hosts: for a session that runs [commands](super::Session::spawn) only,
    /// whose options say [`Programs::None`](super::LaunchOptions::programs).
    pub fn idle<H: TryInto<HostList, Error: Into<HostListError>>>(hosts: H) -> Self {
        Self::new("").hosts(hosts)
    }

    /// Adds an argument.
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        let arg = self.os_bytes("argument", arg.as_ref());
        self.spec.args.push(arg);
        self
    }

    /// Adds arguments.
    pub fn args(self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        args.into_iter().fold(self, Self::arg)
    }

    /// Sets a variable in addition to the environment that the host provides. If a variable is set
    /// several times, the last value counts.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        let name = self.os_bytes("variable", name.as_ref());
        let value = self.os_bytes("value", value.as_ref());
        if self.error.is_none() {
            match EnvVar::new(name, value) {
                Ok(variable) => self.spec.env.push(variable),
                Err(error) => self.fail(error.into()),
            }
        }
        self
    }

    /// Sets the working directory. By default it is the one in which the remote shell starts
    /// commands, usually the home directory; on this machine, that of the front end. A relative
    /// directory becomes absolute if it exists below the front end's current directory.
    pub fn current_dir(mut self, directory: impl AsRef<Path>) -> Self {
        let directory = self.os_bytes("directory", directory.as_ref().as_os_str());
        self.spec.cwd = Some(directory);
        self
    }

    /// Sets the hosts, and how many processes run on each: a [`HostList`] or its text, whose syntax
    /// is described in [`hosts`](crate::hosts). By default one process runs on this machine.
    pub fn hosts<H: TryInto<HostList, Error: Into<HostListError>>>(mut self, hosts: H) -> Self {
        match hosts.try_into() {
            Ok(hosts) => self.spec.hosts = hosts,
            Err(error) => self.fail(DistributionError::Hosts(error.into())),
        }
        self
    }

    /// Sets the session. Distributions of the same session share its ranks, in their order;
    /// distributions of different sessions are launched side by side. By default it is session 0.
    pub fn session(mut self, session: SessionId) -> Self {
        self.spec.session = session;
        self
    }

    /// The checked values.
    pub(super) fn checked(&self) -> Result<dist::Distribution, DistributionError> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(self.spec.clone()),
        }
    }

    fn os_bytes(&mut self, what: &'static str, value: &OsStr) -> OsBytes {
        OsBytes::new(value.as_bytes()).unwrap_or_else(|why| {
            let value = value.to_string_lossy().into_owned();
            self.fail(DistributionError::Nul { what, value, why });
            OsBytes::default()
        })
    }

    fn fail(&mut self, error: DistributionError) {
        self.error.get_or_insert(error);
    }
}

impl From<dist::Distribution> for Distribution {
    fn from(spec: dist::Distribution) -> Self {
        Self { spec, error: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_invalid_value_is_kept_and_named() {
        let error = Distribution::new("daemon").arg("a\0b").env("=", "").hosts("n[1-").checked().unwrap_err();
        assert!(matches!(error, DistributionError::Nul { what: "argument", .. }));
        let text = error.to_string();
        assert!(text.starts_with("the argument \"a\\0b\" of the distribution is invalid: "), "{text}");
        let error = Distribution::new("daemon").env("", "x").arg("a\0b").checked().unwrap_err();
        assert!(matches!(error, DistributionError::Env(_)), "{error}");
        let error = Distribution::new("daemon").hosts("n[1-").checked().unwrap_err();
        assert!(matches!(error, DistributionError::Hosts(_)), "{error}");
    }

    #[test]
    fn a_distribution_needs_no_more_than_a_program() {
        let spec = Distribution::new(Path::new("/bin/true")).args(["-v", "x"]).checked().unwrap();
        assert_eq!((spec.session, spec.args.len(), spec.hosts.len()), (SessionId(0), 2, 1));
        assert_eq!(spec.hosts.iter().next().unwrap().name, "localhost");
        let hosts: HostList = "a,b".parse().unwrap();
        assert_eq!(Distribution::new("x").hosts(hosts).checked().unwrap().hosts.len(), 2);
    }
}
