//! What a configuration depends on beside its files, and the reasons for which hosts are declined.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::unistd::{User, gethostname, getuid};

/// What a configuration depends on beside its files.
pub(crate) struct Context<'a> {
    /// The home directory of the user database, as for `ssh`; not `HOME`.
    pub(crate) home: PathBuf,
    pub(crate) uid: u32,
    /// Name of the local user.
    pub(crate) user: String,
    /// Name of the local host, as gethostname(2) has it.
    pub(crate) host_name: String,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Whether a file exists.
    pub(crate) exists: &'a (dyn Fn(&Path) -> bool + Sync),
}

/// What tells how `ssh` orders the algorithms of host keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostKeyLists {
    /// No configuration has `HostKeyAlgorithms`.
    Default,
    /// One may have.
    Configured {
        /// What `ssh` prints without any configuration.
        default: Vec<String>,
        /// Whether a configuration may remove some (`HostKeyAlgorithms -…`): then a shorter list than the
        /// default does not tell whether algorithms of known keys go first.
        may_be_shortened: bool,
    },
}

impl Context<'static> {
    /// That of this process.
    pub(crate) fn of_process() -> Result<Self, Errno> {
        let uid = getuid();
        let user = User::from_uid(uid)?.ok_or(Errno::ENOENT)?;
        Ok(Self {
            home: user.dir,
            uid: uid.as_raw(),
            user: user.name,
            host_name: gethostname()?.to_string_lossy().into_owned(),
            environment: std::env::vars_os().collect(),
            exists: &|file| file.exists(),
        })
    }
}

impl Context<'_> {
    pub(super) fn variable(&self, name: &OsStr) -> Option<&OsStr> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }

    pub(super) fn may_have_kerberos(&self) -> bool {
        let cache = format!("/tmp/krb5cc_{}", self.uid);
        self.variable(OsStr::new("KRB5CCNAME")).is_some()
            || [cache.as_str(), "/etc/krb5.conf"].iter().any(|file| (self.exists)(Path::new(file)))
    }
}

/// What a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The command runs there.
    Target,
    /// Connections are forwarded there. `ssh` starts another `ssh -W` for it, which asks its questions
    /// in vain, and has neither a command nor forwardings.
    Jump,
}

/// Why a host is declined. Completes "goes through ssh because …".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Declined {
    /// A keyword of another version.
    Keyword(String),
    Value {
        keyword: &'static str,
        value: String,
    },
    Kerberos {
        keyword: &'static str,
    },
    SharedConnection(PathBuf),
    SecurityKey(PathBuf),
    /// A token that cannot be replaced.
    Token {
        keyword: &'static str,
        value: String,
    },
    /// `ssh -G` does not print it.
    Missing(&'static str),
    HostKeyOrder,
    /// `ssh -G` has failed; `ssh` itself will say why.
    NotAnswered(&'static str),
    /// The same, with the first line of what it has printed.
    Refused(String),
}

impl fmt::Display for Declined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyword(keyword) => write!(f, "`{keyword}` is not known"),
            Self::Value { keyword: keyword @ "ProxyCommand", .. } => write!(f, "`{keyword}` is set"),
            Self::Value { keyword, value } => write!(f, "`{keyword}` is `{value}`"),
            Self::Kerberos { keyword } => write!(f, "`{keyword}` may use Kerberos credentials"),
            Self::SharedConnection(path) => {
                write!(f, "there is a shared connection at {} (`ControlPath`)", path.display())
            }
            Self::SecurityKey(path) => write!(f, "{} may be on a security key", path.display()),
            Self::Token { keyword, value } => {
                write!(f, "`{keyword}` has a path that is not understood: `{value}`")
            }
            Self::Missing(keyword) => write!(f, "`ssh -G` prints no `{keyword}`"),
            Self::HostKeyOrder => {
                f.write_str("`HostKeyAlgorithms` may be a list or a change of the default list")
            }
            Self::NotAnswered(reason) => write!(f, "`ssh -G` {reason}"),
            Self::Refused(line) => write!(f, "`ssh -G` says: {line}"),
        }
    }
}
