//! OpenSSH's `ssh`: the options it is called with, and why.
//!
//! # Options that are always set
//! A launch runs a protocol over the standard streams of an unattended `ssh`. These options
//! therefore come first on each command line, where neither a configuration file nor the caller's
//! options change them:
//!
//! | option | reason |
//! |---|---|
//! | `-T` | a terminal would change bytes |
//! | `BatchMode=yes` | a login that needs a question answered fails at once |
//! | `EscapeChar=none` | no byte of the stream means anything to `ssh` |
//! | `ClearAllForwardings=yes`, `ForwardX11=no`, `Tunnel=no` | no launch fails over a taken port |
//! | `PermitLocalCommand=no` | a local command would write into the stream |
//! | `ControlMaster=no` | a shared connection does not end with the process that opened it |
//!
//! An existing *shared connection* (`ControlPath` in a configuration) is used: behind some login
//! nodes it is the only one that needs no question. When `ssh` has ended, even by a signal, its
//! session on that connection ends and its pipes close. No shared connection is ever opened: later
//! users of the connection would keep the `ssh` of the first launch alive, and killing it would end
//! their sessions.
//!
//! A *jump host* is reached by a second `ssh` that the first one starts and that inherits none of
//! these options. It would ask its questions on the terminal. The environment that it is given
//! answers them with no (`SSH_ASKPASS_REQUIRE`, since OpenSSH 8.4; before that version the launch
//! ends by its deadline).
//!
//! # How programs end on the host
//! sshd allocates no terminal here and only closes its pipes when the connection ends. Members read
//! EOF and end. A program that has never joined and does not read its input would stay, so each
//! program gets a [parent death signal](crate::quote::command_with_death_signal) that kills it when
//! the sshd process that started it ends, where the host supports that. The signal does not reach
//! processes that such a program has started itself. The process that leads a host has none any more
//! once it may find another parent, which is when the session comes up with
//! [`OnLoss::Continue`](crate::options::OnLoss::Continue) and hosts connect directly.
//!
//! # What the user decides
//! Trust: `StrictHostKeyChecking`, known hosts, keys, agents and their forwarding, Kerberos, jump
//! hosts, proxies. These come from the user's configuration, as for every other `ssh`, or from
//! [`options`](Ssh::options). Hosts that launch further hosts must be able to log in there as well:
//! with a forwarded agent (`ForwardAgent=yes`) or with keys of their own.
//!
//! The locale is not changed either. `ssh` never translates its messages, so
//! [`shell_error`](crate::shell_error) can rely on English. Many configurations send `LC_*` to the
//! host, so a locale that was set for `ssh` would end up in the environment of the programs.
//!
//! # One process for all connections
//! With [`SshClient::Auto`], the default, the process that this module describes is not started if
//! libi's own client, the program `libi-ssh`, is installed and does what `ssh` would do: it gets the
//! same command line, and prints the same messages.
//!
//! # Old versions
//! An `ssh` that does not know an option exits with an error. The options that are always set are
//! known since OpenSSH 4.3, those of [`SshProfile::Fast`] since 8.0. `IgnoreUnknown` would make
//! newer options safe, but it would also replace that option in the user's configuration, and `ssh`
//! would then fail over what the user wanted ignored. Two cases are therefore left to the user:
//!
//! - A configuration with a `RemoteCommand` for a host needs `RemoteCommand=none` (OpenSSH 7.6)
//!   among the options.
//! - A configuration with `StdinNull`, `ForkAfterAuthentication` or `SessionType` cannot be used
//!   for launches, just as it cannot be used with `ssh HOST COMMAND`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use libi_core::hosts::HostList;
use serde::{Deserialize, Serialize};

use super::parse::file_name;
use super::{Channel, ClientUse, LaunchMethod, SpawnSpec, SpecError, env_var, operand, remote_command};
use crate::machine::{HostSpec, Program};
use crate::quote;
use crate::shell_error::ShellError;
use crate::ssh_client::{CLIENT_PROGRAM, SshClient};

/// Options that come first and that nothing overrides.
const FORCED_OPTIONS: [&str; 7] = [
    "BatchMode=yes",
    "EscapeChar=none",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "ControlMaster=no",
];

/// Options that [`SshProfile::Fast`] adds.
const FAST_OPTIONS: [&str; 4] = [
    "KexAlgorithms=^curve25519-sha256,curve25519-sha256@libssh.org",
    "GSSAPIAuthentication=no",
    "Compression=no",
    "UpdateHostKeys=no",
];

/// Environment that keeps a nested `ssh` from asking questions.
const NO_PROMPT_ENV: [(&str, &str); 2] = [("SSH_ASKPASS", "false"), ("SSH_ASKPASS_REQUIRE", "force")];

/// How to call `ssh`. [`Default`] is `ssh` as the user has configured it.
///
/// ```
/// use libi_core::dist::OsBytes;
/// use libi_core::hosts::HostList;
/// use libi_launch::backend::{Backend, Ssh, SshHosts, SshProfile};
///
/// let word = |text: &str| OsBytes::try_from(text);
/// let options = vec![word("HostKeyAlgorithms=+ssh-rsa")?];
/// let old = SshHosts { hosts: HostList::parse("old[1-4]")?, options };
/// let backend = Backend::Ssh(Ssh {
///     profile: SshProfile::Fast,
///     options: vec![word("StrictHostKeyChecking=accept-new")?],
///     hosts: vec![old],
///     ..Ssh::new()
/// });
/// # let _ = backend;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ssh {
    /// Path of the program, or a name that the launching process looks up in its `PATH`.
    pub program: OsBytes,
    /// Which further options are set.
    pub profile: SshProfile,
    /// Configuration file to use instead of the user's (`-F`). Every launching process reads it,
    /// each on its own host.
    pub config: Option<OsBytes>,
    /// Options for all hosts, in the syntax of a configuration file; each is passed with `-o`. Of
    /// two options that set the same thing, `ssh` takes the first. These come before the options of
    /// the [profile](Self::profile), before the [timeout](Self::connect_timeout) and before all
    /// configuration files.
    pub options: Vec<OsBytes>,
    /// Options for some hosts. They come before those for all hosts. Every entry that names a host
    /// applies to it.
    pub hosts: Vec<SshHosts>,
    /// Timeout for connecting: until the server has answered and identified itself. Rounded up to
    /// whole seconds. If it is shorter than [`Rules::hello_timeout`](crate::machine::Rules), `ssh`
    /// can report what it waited for.
    pub connect_timeout: Duration,
    /// Which program makes the connections.
    pub client: SshClient,
    /// libi's own client: a path, or a name that each launching process looks for beside its own
    /// program, then in its `PATH`.
    pub client_program: OsBytes,
    /// Expected cost of a launch; measurements replace it.
    pub cost: Cost,
}

/// Options of `ssh` for some hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshHosts {
    /// The hosts. An entry matches hosts with its name and, where the entry has a user or a port,
    /// with the same user or port.
    pub hosts: HostList,
    /// The options; each is passed with `-o`.
    pub options: Vec<OsBytes>,
}

/// How much of the user's configuration of `ssh` is overridden for speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SshProfile {
    /// Nothing.
    #[default]
    Own,
    /// Everything that costs time in each launch and that launches rarely need:
    ///
    /// | option | what it gives up |
    /// |---|---|
    /// | `KexAlgorithms=^curve25519-sha256,…` | **post-quantum key exchange**, see below |
    /// | `GSSAPIAuthentication=no` | login by Kerberos |
    /// | `Compression=no` | compression, which costs more than it saves on a fast network |
    /// | `UpdateHostKeys=no` | learning further host keys; trust does not change |
    ///
    /// **The key exchange is not safe from quantum computers.** x25519 alone is preferred to the
    /// hybrid algorithms that `ssh` prefers since 9.0, so traffic that is recorded today may become
    /// readable one day. No algorithm is disabled, but an order of algorithms that the user or the
    /// site has configured is not respected.
    ///
    /// With OpenSSH 9.2 at both ends, a launch takes 9 ms instead of 63 ms of processor time on the
    /// launching host. Nearly all of that is the key exchange. Where servers offer further keys and
    /// 10,000 hosts are known, `UpdateHostKeys=no` saves another 13 ms. The profile needs OpenSSH
    /// 8.0 or newer.
    ///
    /// An entry of [`options`](Ssh::options) that sets one of these options takes precedence.
    Fast,
}

/// There is no profile of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no profile {0:?} of ssh; there are own and fast")]
pub struct UnknownProfile(pub String);

impl FromStr for SshProfile {
    type Err = UnknownProfile;

    fn from_str(text: &str) -> Result<Self, UnknownProfile> {
        match text {
            "own" => Ok(Self::Own),
            "fast" => Ok(Self::Fast),
            _ => Err(UnknownProfile(text.to_owned())),
        }
    }
}

impl fmt::Display for SshProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Fast => "fast",
        })
    }
}

impl Default for Ssh {
    fn default() -> Self {
        Self::new()
    }
}

impl Ssh {
    /// `ssh` as the user has configured it, with a connect timeout of ten seconds.
    #[must_use]
    pub fn new() -> Self {
        Self {
            program: text("ssh").unwrap_or_default(),
            profile: SshProfile::Own,
            config: None,
            options: Vec::new(),
            hosts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            client: SshClient::default(),
            client_program: text(CLIENT_PROGRAM).unwrap_or_default(),
            cost: Cost::new(Duration::from_millis(7), Duration::from_millis(170)),
        }
    }

    /// The options for one host. Of those that set the same thing, `ssh` takes the first.
    fn options_for<'a>(&'a self, host: &'a HostSpec) -> impl Iterator<Item = OsBytes> + 'a {
        let its = self.hosts.iter().filter(|some| some.holds(host)).flat_map(|some| &some.options);
        let given = its.chain(&self.options).cloned();
        // Zero would disable the timeout.
        let seconds = self.connect_timeout.as_millis().div_ceil(1_000).clamp(1, 86_400);
        let timeout = text(&format!("ConnectTimeout={seconds}"));
        let fast: &'static [&str] = if self.profile == SshProfile::Fast { &FAST_OPTIONS } else { &[] };
        let set = |options: &'static [&str]| options.iter().copied().filter_map(text);
        set(&FORCED_OPTIONS).chain(given).chain(timeout).chain(set(fast))
    }
}

impl SshHosts {
    fn holds(&self, host: &HostSpec) -> bool {
        self.hosts.iter().any(|named| {
            named.name == host.name
                && named.user.is_none_or(|user| Some(user) == host.user.as_deref())
                && named.port.is_none_or(|port| Some(port) == host.port)
        })
    }
}

impl fmt::Display for Ssh {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

impl LaunchMethod for Ssh {
    fn called(program: &OsBytes) -> Option<Self> {
        (file_name(program) == b"ssh").then(|| Self { program: program.clone(), ..Self::new() })
    }

    fn default_cost(&self) -> Cost {
        self.cost
    }

    fn advice(&self, error: &ShellError, _: &str, _: &str) -> Option<String> {
        let is_declined = *error == ShellError::BadOptions && self.client == SshClient::Builtin;
        is_declined.then(|| {
            "ssh itself reaches hosts that its replacement declines: leave out --ssh-client builtin"
                .to_owned()
        })
    }

    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError> {
        let mut args: Vec<OsBytes> = text("-T").into_iter().collect();
        let mut option = |option: &str, value: OsBytes| args.extend(text(option).into_iter().chain([value]));
        if let Some(user) = &host.user {
            option("-l", operand("user", user)?);
        }
        if let Some(port) = host.port {
            option("-p", operand("port", &port.to_string())?);
        }
        if let Some(config) = &self.config {
            option("-F", config.clone());
        }
        self.options_for(host).for_each(|value| option("-o", value));
        args.extend([
            operand("host", &host.name)?,
            remote_command(program, quote::command_with_death_signal),
        ]);
        Ok(SpawnSpec {
            program: self.program.clone(),
            args,
            env: NO_PROMPT_ENV.iter().flat_map(|(name, value)| env_var(name, value)).collect(),
            cwd: None,
            channel: Channel::Streams,
            initial_input: Vec::new(),
            trailer: None,
            client: (self.client != SshClient::OpenSsh).then(|| ClientUse {
                program: self.client_program.clone(),
                required: self.client == SshClient::Builtin,
                fast: self.profile == SshProfile::Fast,
            }),
        })
    }
}

/// One of libi's own words.
fn text(text: &str) -> Option<OsBytes> {
    OsBytes::try_from(text).ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")] // it takes a process to ask ssh
mod tests;
