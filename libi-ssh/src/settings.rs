//! What `ssh` would do for one host: the effective configuration, as far as it matters to a login
//! without questions, a terminal, or forwardings.

mod ask;
mod classes;
mod context;
mod dump;
mod read;
mod rules;
mod tokens;

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use ask::{Asker, Question};
pub(crate) use context::{Context, Declined, HostKeyLists, Role};
pub(crate) use dump::Dump;

/// The effective configuration for a host, in the terms of ssh_config(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The host as it was named on the command line.
    pub(crate) named: String,
    /// The name or address to connect to (`HostName`).
    pub(crate) host_name: String,
    pub(crate) port: u16,
    pub(crate) user: String,
    pub(crate) family: AddressFamily,
    /// The local address to connect from (`BindAddress`).
    pub(crate) bind_address: Option<String>,
    /// `ConnectTimeout`: until the server has identified itself and agreed on keys.
    pub(crate) connect_timeout: Option<Duration>,
    /// `ConnectionAttempts`, one second apart.
    pub(crate) connection_attempts: u32,
    pub(crate) tcp_keep_alive: bool,
    /// `ServerAliveInterval`, and after how many unanswered ones the connection is lost.
    pub(crate) alive_interval: Option<Duration>,
    pub(crate) alive_count: u32,
    pub(crate) login: Login,
    pub(crate) trust: Trust,
    pub(crate) algorithms: Algorithms,
    /// Variables that are sent (`SendEnv` as found in the environment, then `SetEnv`).
    pub(crate) variables: Vec<(String, String)>,
    /// Hosts to go through, the nearest first (`ProxyJump`). Each has settings of its own.
    pub(crate) jumps: Vec<Jump>,
    /// Whether messages are printed at all (`LogLevel` other than `QUIET`).
    pub(crate) prints: bool,
    /// Whether notices are printed as well (`LogLevel` of `INFO`), such as that a host was learned.
    pub(crate) prints_notices: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressFamily {
    Any,
    Inet,
    Inet6,
}

/// How the user is authenticated. With `BatchMode=yes` nothing else is left than public keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    /// `PubkeyAuthentication`.
    pub(crate) public_keys: bool,
    /// `IdentityFile`, with all tokens replaced, in their order. Files that do not exist are skipped.
    pub(crate) identities: Vec<PathBuf>,
    /// Whether the user has named them: then a missing file is worth a message.
    pub(crate) identities_are_named: bool,
    /// `CertificateFile`. If there are none, `ssh` looks for `FILE-cert.pub` beside each identity.
    pub(crate) certificates: Vec<PathBuf>,
    /// `IdentitiesOnly`: keys of the agent are used only if they are among the identities.
    pub(crate) identities_only: bool,
    /// The socket of the agent (`IdentityAgent`, else `SSH_AUTH_SOCK`).
    pub(crate) agent: Option<PathBuf>,
    /// `PubkeyAcceptedAlgorithms`.
    pub(crate) accepted: Vec<String>,
}

/// Which host keys are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    pub(crate) strict: Strict,
    pub(crate) user_files: Vec<PathBuf>,
    pub(crate) global_files: Vec<PathBuf>,
    /// `HostKeyAlias`.
    pub(crate) alias: Option<String>,
    /// `CheckHostIP`.
    pub(crate) checks_address: bool,
    /// `HashKnownHosts`: names of hosts that are learned are stored hashed.
    pub(crate) hashes: bool,
    /// `NoHostAuthenticationForLocalhost`.
    pub(crate) trusts_loopback: bool,
    /// `RequiredRSASize`.
    pub(crate) rsa_bits: u32,
    /// `CASignatureAlgorithms`.
    pub(crate) authority_signatures: Vec<String>,
    /// `RevokedHostKeys`. Always `None` until such files are read: hosts that have one are declined.
    pub(crate) revoked: Option<PathBuf>,
}

/// `StrictHostKeyChecking`. With `BatchMode=yes`, `ask` refuses like `yes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strict {
    Yes,
    Ask,
    AcceptNew,
    No,
}

/// The algorithms that `ssh` would offer, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Algorithms {
    pub(crate) kex: Vec<String>,
    pub(crate) host_keys: Vec<String>,
    /// Whether algorithms of keys that are known for the host go first, as `ssh` does unless the user
    /// has set a list.
    pub(crate) prefers_known_keys: bool,
    pub(crate) ciphers: Vec<String>,
    pub(crate) macs: Vec<String>,
}

/// A host to go through, as it is named: `[user@]host[:port]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Jump {
    pub(crate) user: Option<String>,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

impl fmt::Display for Jump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        if self.host.contains(':') {
            write!(f, "[{}]", self.host)?;
        } else {
            f.write_str(&self.host)?;
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
