//! Launch method for programs that start one command on many hosts, such as ClusterShell's `clush`.
//!
//! The starter is called as `PROGRAM ARGS… HOSTS COMMAND`: the names of the hosts, separated by
//! commas, and a command for the login shell of each host. It
//!
//! - copies its standard input to the standard input of every command,
//! - prints what the commands print, each line behind `HOST: `,
//! - prints `PROGRAM: HOSTS: exited with exit code N` when a command fails,
//! - lives until the last command has ended, exits 0 if none has failed, and ends its commands when
//!   it is ended.
//!
//! A started program tells its host by [`HOST_ENV`], if the starter sets that variable or replaces a
//! word such as `%h` in its command. Otherwise the host counts by the address at which its server of
//! ssh was reached, or by the name that it reports.

use std::fmt;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::dist::OsBytes;
use libi_core::hosts::HostList;
use serde::{Deserialize, Serialize};

use super::parse::file_name;
use super::{
    BulkMethod, Channel, LINK_ENV, LINK_RENDEZVOUS, LaunchMethod, SpawnSpec, SpecError, StarterLine, env_var,
    managers, names_only,
};
use crate::failure::Exit;
use crate::machine::{HostSpec, Program};
use crate::quote;

/// Environment variable that tells a program the name of its host, as the starter knows it.
pub const HOST_ENV: &str = "LIBI_STARTED_ON";

/// How to call a starter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Starter {
    /// Path of the program, or a name that the launching process looks up in its `PATH`.
    pub program: OsBytes,
    /// Arguments that come first.
    pub args: Vec<OsBytes>,
    /// Arguments right before the list of hosts, such as `-w`.
    pub hosts_option: Vec<OsBytes>,
    /// The word that the program replaces by the name of each host, if it does.
    pub host_word: Option<OsBytes>,
    /// Code for `/bin/sh` that calls the program, where the order above does not fit. `$0` is the
    /// program, `$1` the hosts, separated by commas, `$2` the command, and the rest the arguments.
    pub script: Option<OsBytes>,
    /// The most hosts of one start.
    pub hosts_per_start: u32,
    /// Expected cost of a start; measurements replace it.
    pub cost: Cost,
}

impl Starter {
    /// A starter without arguments that starts up to a thousand hosts at once and costs as much as
    /// `ssh`.
    #[must_use]
    pub fn new(program: OsBytes) -> Self {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(170));
        Self {
            program,
            args: Vec::new(),
            hosts_option: Vec::new(),
            host_word: None,
            script: None,
            hosts_per_start: 1_000,
            cost,
        }
    }

    /// The starter with this path or name, by default `clush`. A program named `clush` is called as
    /// ClusterShell's, one named `flux` as `flux exec`, any other without arguments.
    #[must_use]
    pub fn of(program: Option<OsBytes>) -> Self {
        let program = program.unwrap_or_else(|| OsBytes::try_from("clush").unwrap_or_default());
        Self::called(&program).unwrap_or_else(|| Self::new(program))
    }

    /// ClusterShell's `clush`, by this path or name.
    #[must_use]
    pub fn clush(program: OsBytes) -> Self {
        let word = |text: &str| OsBytes::try_from(text).ok();
        // With -S, the exit status tells whether a command has failed.
        let hosts_option = ["-S", "-w"].into_iter().filter_map(word).collect();
        Self { hosts_option, ..Self::new(program) }
    }

    /// The arguments for `/bin/sh` that call the program by the script.
    fn by_script(&self, script: &OsBytes, hosts: OsBytes, command: OsBytes) -> Vec<OsBytes> {
        let option = OsBytes::try_from("-c").unwrap_or_default();
        let words = [option, script.clone(), self.program.clone(), hosts, command];
        words.into_iter().chain(self.args.iter().cloned()).collect()
    }
}

impl fmt::Display for Starter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}

impl LaunchMethod for Starter {
    fn called(program: &OsBytes) -> Option<Self> {
        let program = program.clone();
        match managers::starter(&program) {
            Some(row) => Some(Self { script: OsBytes::try_from(row.script).ok(), ..Self::new(program) }),
            None => (file_name(&program) == b"clush").then(|| Self::clush(program)),
        }
    }

    fn default_cost(&self) -> Cost {
        self.cost
    }

    fn spawn_spec(&self, host: &HostSpec, program: &Program) -> Result<SpawnSpec, SpecError> {
        self.bulk_spec(&[host], program, "")
    }

    fn bulk(&self) -> Option<&dyn BulkMethod> {
        Some(self)
    }
}

impl BulkMethod for Starter {
    fn hosts_per_start(&self) -> usize {
        self.hosts_per_start as usize
    }

    fn bulk_spec(&self, hosts: &[&HostSpec], program: &Program, _: &str) -> Result<SpawnSpec, SpecError> {
        let hosts = names_only(&self.program, hosts)?;
        let mut env = program.env.clone();
        env.extend(env_var(LINK_ENV, LINK_RENDEZVOUS));
        if let Some(word) = &self.host_word {
            env.extend(env_var(HOST_ENV, &word.to_string()));
        }
        let command = quote::command(program.cwd.as_ref(), &env, &program.executable, &program.args);
        let (called, args) = match &self.script {
            Some(script) => {
                let shell = OsBytes::try_from("/bin/sh").unwrap_or_default();
                (shell, self.by_script(script, hosts, command))
            }
            None => {
                let before = [&self.args[..], &self.hosts_option].concat();
                (self.program.clone(), before.into_iter().chain([hosts, command]).collect())
            }
        };
        Ok(SpawnSpec {
            program: called,
            args,
            env: Vec::new(),
            cwd: None,
            channel: Channel::Rendezvous,
            initial_input: Vec::new(),
            trailer: None,
            client: None,
        })
    }

    fn host_variable(&self) -> &str {
        HOST_ENV
    }

    fn read_line<'a>(&self, _: &'a [String], line: &'a [u8]) -> StarterLine<'a> {
        let label = line.windows(2).position(|pair| pair == b": ");
        let Some((label, text)) = label.map(|at| (&line[..at], &line[at + 2..])) else {
            return StarterLine::Other;
        };
        if label != file_name(&self.program) {
            return str::from_utf8(label).map_or(StarterLine::Other, |host| StarterLine::Printed(host, text));
        }
        // `clush: n[1-3] (3): exited with exit code 1`
        let ended = str::from_utf8(text)
            .ok()
            .and_then(|text| text.split_once(": exited with exit code "))
            .and_then(|(hosts, code)| {
                let hosts = hosts.split_once(" (").map_or(hosts, |(hosts, _)| hosts);
                let hosts: HostList = hosts.parse().ok()?;
                Some((hosts, code.trim().parse().ok()?))
            });
        ended.map_or(StarterLine::Other, |(hosts, code)| StarterLine::Ended(hosts, Exit::Code(code)))
    }

    fn unnamed_exit(&self, starter: Exit) -> Option<Exit> {
        (starter == Exit::Code(0)).then_some(starter)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{host, program};
    use super::*;

    fn clush() -> Starter {
        Starter::clush(OsBytes::try_from("/usr/bin/clush").unwrap())
    }

    #[test]
    fn one_command_line_names_all_hosts() {
        let hosts = [host("n1", None, None), host("n2", None, None)];
        let starter = Starter { host_word: OsBytes::try_from("%h").ok(), ..clush() };
        let spec = starter.bulk_spec(&hosts.iter().collect::<Vec<_>>(), &program(), "7").unwrap();
        let args: Vec<_> = spec.args.iter().map(ToString::to_string).collect();
        assert_eq!(args[..3], ["-S", "-w", "n1,n2"]);
        assert!(args[3].contains("LIBI_STARTED_ON") && args[3].contains("%h"), "{}", args[3]);
        assert_eq!(spec.channel, Channel::Rendezvous);
    }

    #[test]
    fn a_program_is_called_as_the_starter_of_its_name() {
        let of = |name: Option<&str>| Starter::of(name.map(|name| OsBytes::try_from(name).unwrap()));
        assert_eq!((of(None).hosts_option.len(), of(Some("/opt/clush")).hosts_option.len()), (2, 2));
        assert!(of(Some("./start-all")).hosts_option.is_empty());
        assert!(of(Some("/opt/flux")).script.is_some() && of(Some("./fluxion")).script.is_none());
    }

    #[test]
    fn users_and_ports_are_refused_and_so_are_names_that_look_like_options() {
        let spec = |host: HostSpec| clush().bulk_spec(&[&host], &program(), "7");
        let user = HostSpec { user: Some("me".to_owned()), ..host("n1", None, None) };
        assert!(matches!(spec(user), Err(SpecError::NoOption(_, "user"))));
        assert!(matches!(
            spec(HostSpec { port: Some(22), ..host("n1", None, None) }),
            Err(SpecError::NoOption(_, "port"))
        ));
        assert!(matches!(spec(host("-x", None, None)), Err(SpecError::OptionLike { .. })));
    }

    #[test]
    fn lines_tell_which_host_has_printed_or_ended() {
        let ended = |hosts: &str, code| StarterLine::Ended(hosts.parse().unwrap(), Exit::Code(code));
        for (line, expected) in [
            ("n1: hello: world\n", StarterLine::Printed("n1", b"hello: world\n")),
            ("clush: n1: exited with exit code 3\n", ended("n1", 3)),
            ("clush: n[1-3] (3): exited with exit code 127", ended("n[1-3]", 127)),
            ("clush: n1: exited with exit code many", StarterLine::Other),
            ("Warning", StarterLine::Other),
        ] {
            assert_eq!(clush().read_line(&[], line.as_bytes()), expected, "{line}");
        }
        assert_eq!(clush().read_line(&[], b"n1: \xff"), StarterLine::Printed("n1", b"\xff"));
        assert_eq!(clush().unnamed_exit(Exit::Code(0)), Some(Exit::Code(0)));
        assert_eq!(clush().unnamed_exit(Exit::Code(3)), None);
    }
}
