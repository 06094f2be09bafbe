//! OpenSSH's `ssh`: which options it is called with, and why.
//!
//! # What is never left to chance
//! A launch is many calls that nobody watches, over whose streams a protocol runs. So these come first on each command
//! line, where no configuration and no option of yours changes them:
//!
//! | option | because |
//! |---|---|
//! | `-T` | a terminal would change bytes, and a prompt wait for somebody |
//! | `BatchMode=yes` | whoever is not let in without a question is told so at once |
//! | `EscapeChar=none` | no byte means anything to ssh |
//! | `ClearAllForwardings=yes`, `ForwardX11=no`, `Tunnel=no` | a port that is taken, or a display that is slow, is no reason for a launch to fail |
//! | `PermitLocalCommand=no` | a local command would write into our streams |
//! | `ControlMaster=no` | a connection that is shared ends neither with our process nor without it |
//!
//! A *shared connection* that is there already (`ControlPath` in a configuration) is used: behind some login nodes it is the only
//! one that needs no question. ssh then leaves when its own part is over, also when it is killed, and the pipes that it was given
//! go with it. None is ever opened: the first launch would be kept alive by whoever uses its connection later, and end it
//! for them.
//!
//! A *jump host* is reached by an ssh that ssh starts itself, which inherits none of these options. It would put its
//! questions to the terminal; in the environment that it is given they are answered with no
//! (`SSH_ASKPASS_REQUIRE`, which ssh knows since 8.4; before, the launch ends by its deadline).
//!
//! # What ends over there
//! sshd has no terminal to hang up, and only closes its pipes when the connection ends: members notice, and end, but a program
//! that has never joined and does not read its input would stay. So each is [tied](crate::quote::command_with_death_signal) to
//! the process of sshd that has started it, where the host can do that. What such a program has started by itself can stay
//! all the same.
//!
//! # What is yours
//! Who is trusted: `StrictHostKeyChecking`, known hosts, keys, agents and whether they are forwarded, Kerberos, jump hosts,
//! proxies. It is in your configuration, as for every other `ssh`, or in [options](Ssh::options). Whoever launches further
//! hosts needs to be let in there as well: with an agent that is forwarded (`ForwardAgent=yes`), or keys of its own.
//!
//! The locale stays yours, too. What ssh says of itself is always in English, because it never translates
//! messages, and [`shell_error`](crate::shell_error) can rely on that; while many a configuration sends `LC_*` on to the host, so that what
//! was set here for ssh would be in the environment of your programs.
//!
//! # Old versions
//! An ssh that does not know an option gives up. What is always set here is known since OpenSSH 4.3, and what
//! [`SshProfile::Fast`] sets since 8.0. Newer options would be safe behind `IgnoreUnknown`, but that would replace the
//! same line in your configuration, and ssh would give up over what that was there for. So two things are not
//! taken care of: a configuration with a `RemoteCommand` for a host needs `RemoteCommand=none` (7.6) among the options, and one with
//! `StdinNull`, `ForkAfterAuthentication` or `SessionType` cannot be launched through at all, as it cannot be used with `ssh HOST
//! COMMAND`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use libi_core::hosts::HostList;
use serde::{Deserialize, Serialize};

use super::{Channel, LaunchMethod, SpawnSpec, SpecError, env_var, operand, remote_command};
use crate::machine::{HostSpec, Program};
use crate::quote;

/// What comes first, and cannot be changed.
const FORCED_OPTIONS: [&str; 7] = [
    "BatchMode=yes",
    "EscapeChar=none",
    "ClearAllForwardings=yes",
    "ForwardX11=no",
    "Tunnel=no",
    "PermitLocalCommand=no",
    "ControlMaster=no",
];

/// What [`SshProfile::Fast`] adds.
const FAST_OPTIONS: [&str; 4] = [
    "KexAlgorithms=^curve25519-sha256,curve25519-sha256@libssh.org",
    "GSSAPIAuthentication=no",
    "Compression=no",
    "UpdateHostKeys=no",
];

/// The environment in which no ssh asks anybody anything.
const NO_PROMPT_ENV: [(&str, &str); 2] = [("SSH_ASKPASS", "false"), ("SSH_ASKPASS_REQUIRE", "force")];

/// How to call `ssh`. [`Default`] is `ssh` as it is configured.
///
/// ```
/// use libi_core::dist::Word;
/// use libi_core::hosts::HostList;
/// use libi_launch::backend::{Ssh, SshHosts, SshProfile, Via};
///
/// let word = |text: &str| Word::try_from(text);
/// let old = SshHosts { hosts: HostList::parse("old[1-4]")?, options: vec![word("HostKeyAlgorithms=+ssh-rsa")?] };
/// let via = Via::Ssh(Ssh {
///     profile: SshProfile::Fast,
///     options: vec![word("StrictHostKeyChecking=accept-new")?],
///     hosts: vec![old],
///     ..Ssh::new()
/// });
/// # let _ = via;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ssh {
    /// The program, as a path or a name to be looked up where it is called.
    pub program: OsBytes,
    /// What is set beyond what is needed.
    pub profile: SshProfile,
    /// The configuration file to use in place of the user's (`-F`). Everybody who launches reads it, each on its own host.
    pub config: Option<OsBytes>,
    /// Options as in a configuration file, each behind `-o`, for all hosts; of two that set the same, ssh takes the first. They
    /// come before those of the [profile](Self::profile) and the [timeout](Self::connect_timeout), and before all
    /// configuration.
    pub options: Vec<OsBytes>,
    /// Options for some hosts, which come before those for all. Each launch looks for its host in all of these lists.
    pub hosts: Vec<SshHosts>,
    /// How long connecting may take: until the server answers and has said what it is. It is rounded up to seconds. Shorter than
    /// [`Rules::greet`](crate::machine::Rules), it lets ssh say what it waited for.
    pub connect_timeout: Duration,
    /// What a launch costs, to begin with.
    pub cost: Cost,
}

/// Options of ssh for some hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SshHosts {
    /// Which hosts: those with these names; where the list has a user or a port, those with the same.
    pub hosts: HostList,
    /// Each is passed behind `-o`.
    pub options: Vec<OsBytes>,
}

/// How much of your configuration of ssh is replaced for speed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SshProfile {
    /// Nothing.
    #[default]
    Own,
    /// What takes time in each launch, and is worth less there than to people:
    ///
    /// | option | what it gives up |
    /// |---|---|
    /// | `KexAlgorithms=^curve25519-sha256,…` | **The key exchange is not safe from quantum computers**: x25519 alone comes before the hybrids that ssh prefers since 9.0, so that what is recorded today might be read one day. Nothing is disabled, but your own choice of algorithms is not obeyed, be it a configuration's or a site's policy. |
    /// | `GSSAPIAuthentication=no` | Logging in by Kerberos. |
    /// | `Compression=no` | Compression, which costs more than it saves in a fast network. |
    /// | `UpdateHostKeys=no` | Further keys of servers are not learned. Who is trusted does not change. |
    ///
    /// With OpenSSH 9.2 at both ends a launch keeps the processor of its launcher busy for 9 ms in place of 63 ms, almost all of which is the key
    /// exchange; 13 ms of the rest are saved where a server has keys to be learned and there are 10,000 known hosts. It takes ssh 8.0 or newer.
    ///
    /// An [option](Ssh::options) that sets one of these takes its place.
    Fast,
}

/// There is no such profile.
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
    /// `ssh` as it is configured, with ten seconds to connect.
    #[must_use]
    pub fn new() -> Self {
        Self {
            program: text("ssh").unwrap_or_default(),
            profile: SshProfile::Own,
            config: None,
            options: Vec::new(),
            hosts: Vec::new(),
            connect_timeout: Duration::from_secs(10),
            cost: Cost::new(Duration::from_millis(7), Duration::from_millis(170)),
        }
    }

    /// The options for one host: of those that set the same, ssh takes the first.
    fn options_for<'a>(&'a self, host: &'a HostSpec) -> impl Iterator<Item = OsBytes> + 'a {
        let its = self.hosts.iter().filter(|some| some.holds(host)).flat_map(|some| &some.options);
        let given = its.chain(&self.options).cloned();
        // None at all would be for ever.
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

impl LaunchMethod for Ssh {
    fn default_cost(&self) -> Cost {
        self.cost
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
        })
    }
}

/// A word of ours.
fn text(text: &str) -> Option<OsBytes> {
    OsBytes::try_from(text).ok()
}

#[cfg(test)]
#[cfg(target_os = "linux")] // it takes a process to ask ssh
mod tests;
