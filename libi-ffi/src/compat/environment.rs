//! The environment variables of 2011. Only these interfaces obey them; members get them too.
//!
//! | variable | meaning |
//! |---|---|
//! | `XPLAT_RSH` | the remote shell |
//! | `XPLAT_RSH_ARGS` | its options, see [`remote_shell`] |
//! | `XPLAT_REMCMD` | a program that is called with each remote command, and runs it |
//! | `LIBI_TREE_TYPE` | the launch tree: 0 greedy, -1 flat, k > 0 k-ary |
//! | `LIBI_REMOTE_TIME`, `LIBI_SEQUENTIAL_TIME` | REM and SEQ in seconds |
//! | `LIBI_DEBUG`, `LIBI_DEBUG_DIR` | verbosity and destination of [`debug`] messages |
//!
//! If a variable is unset or invalid:
//!
//! - `XPLAT_RSH`: processes on this machine are started directly, all others by ssh.
//! - `XPLAT_RSH_ARGS`: no options.
//! - `XPLAT_REMCMD`: the command is run.
//! - `LIBI_TREE_TYPE`: late commit.
//! - `LIBI_REMOTE_TIME`, `LIBI_SEQUENTIAL_TIME`: the defaults of the backend, then measured values.
//! - `LIBI_DEBUG`, `LIBI_DEBUG_DIR`: no messages without the first, standard error without the
//!   second.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use libi::hosts::HostRef;
use libi::{Backend, EnvVar, HostList, LaunchOptions, OsBytes};
use libi_core::cost::Cost;
use libi_core::dist::Distribution;
use libi_core::plan::{Shape, Strategy};
use libi_launch::backend::LaunchMethod;

use super::this_machine::{ThisMachine, is_loopback};
use super::{debug, remote_shell};

const FORWARDED: [&str; 8] = [
    "XPLAT_RSH",
    "XPLAT_RSH_ARGS",
    "XPLAT_REMCMD",
    "LIBI_TREE_TYPE",
    "LIBI_REMOTE_TIME",
    "LIBI_SEQUENTIAL_TIME",
    debug::VERBOSITY,
    debug::DIRECTORY,
];

/// The options that the environment asks for. Changes the distributions accordingly.
pub(crate) fn options(
    distributions: &mut [Distribution],
    get: impl Fn(&str) -> Option<OsString>,
    here: impl FnOnce() -> ThisMachine,
) -> LaunchOptions {
    let get = |name: &str| get(name).map(OsString::into_vec).filter(|value| !value.is_empty());
    let word = |name: &str| get(name).and_then(|value| OsBytes::new(value).ok());
    let number = |name: &str| String::from_utf8(get(name)?).ok()?.trim().parse::<f64>().ok();

    let mut options = LaunchOptions::local();
    match word("XPLAT_RSH") {
        Some(program) => {
            options.backend =
                Some(remote_shell::backend_named(program, &get("XPLAT_RSH_ARGS").unwrap_or_default()));
            options.allow_plain = true; // the user has named the shell
        }
        None => {
            choose_shell(distributions, &mut options, &here(), &get("XPLAT_RSH_ARGS").unwrap_or_default());
        }
    }
    options.strategy = match number("LIBI_TREE_TYPE") {
        Some(0.0) => Strategy::Static(Shape::Greedy),
        Some(-1.0) => Strategy::Static(Shape::Flat),
        Some(arity) if arity >= 1.0 => {
            NonZeroU32::new(arity as u32).map_or(Strategy::Late, |arity| Strategy::Static(Shape::Kary(arity)))
        }
        _ => Strategy::Late,
    };
    let seconds = |name: &str| number(name).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let (seq, rem) = (seconds("LIBI_SEQUENTIAL_TIME"), seconds("LIBI_REMOTE_TIME"));
    if seq.is_some() || rem.is_some() {
        let usual = options.backend.as_ref().map_or_else(Cost::default, LaunchMethod::default_cost);
        options.cost = Some(Cost { seq: seq.unwrap_or(usual.seq), rem: rem.unwrap_or(usual.rem), ..usual });
    }

    let forwarded: Vec<EnvVar> = FORWARDED
        .iter()
        .filter_map(|name| EnvVar::new(OsBytes::try_from(*name).ok()?, word(name)?).ok())
        .collect();
    let before = word("XPLAT_REMCMD").filter(|_| !matches!(options.backend, Some(Backend::Local(_))));
    for distribution in distributions {
        // Of equal names the last one counts, so the caller's replace these.
        distribution.env.splice(0..0, forwarded.iter().cloned());
        if let Some(before) = &before {
            let command = std::mem::replace(&mut distribution.executable, before.clone());
            distribution.args.insert(0, command);
        }
    }
    options
}

/// Without `XPLAT_RSH`: no shell for this machine, ssh for all others.
fn choose_shell(
    distributions: &mut [Distribution],
    options: &mut LaunchOptions,
    here: &ThisMachine,
    args: &[u8],
) {
    let is_here = |host: HostRef<'_>| host.user.is_none() && host.port.is_none() && here.is(host.name);
    if distributions.iter().all(|distribution| distribution.hosts.iter().all(is_here)) {
        options.backend = Some(Backend::default());
        return;
    }
    options.backend = OsBytes::try_from("ssh").ok().map(|ssh| remote_shell::backend_named(ssh, args));
    for distribution in distributions {
        let mut hosts = HostList::new();
        for host in &distribution.hosts {
            let mut host_named = host;
            if is_here(host) {
                // On another launcher, a loopback name would be that launcher.
                host_named.name = if is_loopback(host.name) { &here.name } else { host.name };
                if !options.local_hosts.iter().any(|known| known.name == host_named.name) {
                    // A name that a list cannot hold is not in it.
                    let _ = options.local_hosts.push(HostRef::new(host_named.name));
                }
            }
            if hosts.push(host_named).is_err() {
                let _ = hosts.push(host);
            }
        }
        distribution.hosts = hosts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libi::SessionId;

    fn made(hosts: &str, says: &[(&str, &str)]) -> (Distribution, LaunchOptions) {
        let text = |text: &str| OsBytes::try_from(text).unwrap();
        let mut one = [Distribution::new(SessionId(1), text("./daemon"), HostList::parse(hosts).unwrap())];
        one[0].args.push(text("-x"));
        let get = |name: &str| says.iter().find(|says| says.0 == name).map(|says| says.1.into());
        let options = options(&mut one, get, ThisMachine::new);
        let [one] = one;
        (one, options)
    }

    #[test]
    fn this_machine_needs_no_remote_shell_unless_one_is_named() {
        assert!(matches!(made("localhost:4, 127.0.0.9", &[]).1.backend, Some(Backend::Local(_))));
        assert!(matches!(made("localhost", &[("XPLAT_RSH", "ssh")]).1.backend, Some(Backend::Ssh(_))));
        assert!(matches!(made("me@localhost", &[]).1.backend, Some(Backend::Ssh(_))));
        let (one, options) = made("localhost:2, n1.invalid, localhost", &[]);
        assert!(matches!(options.backend, Some(Backend::Ssh(_))));
        let here = super::super::this_machine::machine();
        let names: Vec<_> = one.hosts.iter().map(|host| (host.name, host.count)).collect();
        assert_eq!(names, [(here.as_str(), 2), ("n1.invalid", 1), (here.as_str(), 1)]);
        assert_eq!(options.local_hosts.iter().map(|host| host.name).collect::<Vec<_>>(), [here.as_str()]);
    }

    #[test]
    fn valid_trees_and_times_are_obeyed_and_invalid_ones_ignored() {
        let strategy = |says: &str| made("localhost", &[("LIBI_TREE_TYPE", says)]).1.strategy;
        let kary = |arity| Strategy::Static(Shape::Kary(NonZeroU32::new(arity).unwrap()));
        assert_eq!(strategy("0"), Strategy::Static(Shape::Greedy));
        assert_eq!(strategy("-1"), Strategy::Static(Shape::Flat));
        assert_eq!((strategy("1"), strategy(" 32")), (kary(1), kary(32)));
        assert_eq!([strategy("-2"), strategy("x"), strategy("")], [Strategy::Late; 3]);
        let cost = |says: &[(&str, &str)]| made("n1.invalid", says).1.cost;
        let (rem, seq) = (("LIBI_REMOTE_TIME", "0.25"), ("LIBI_SEQUENTIAL_TIME", "1.5e-2"));
        let (quarter, short) = (Duration::from_millis(250), Duration::from_millis(15));
        assert_eq!(cost(&[rem, seq]), Some(Cost::new(short, quarter)));
        assert_eq!(cost(&[rem]).map(|cost| (cost.rem, cost.seq > Duration::ZERO)), Some((quarter, true)));
        assert_eq!(cost(&[("LIBI_REMOTE_TIME", "-1")]), None);
    }

    #[test]
    fn members_get_the_variables_and_remote_commands_their_prefix() {
        let says =
            [("XPLAT_RSH", "/opt/my sh"), ("XPLAT_REMCMD", "runauth"), ("LIBI_DEBUG", "2"), ("HOME", "x")];
        let (one, options) = made("n1", &says);
        assert!(matches!(options.backend, Some(Backend::Shell(_))));
        assert_eq!((one.executable.to_string(), one.args.len()), ("runauth".to_owned(), 2));
        assert_eq!(one.args[0].to_string(), "./daemon");
        let names: Vec<_> = one.env.iter().map(|variable| variable.name().to_string()).collect();
        assert_eq!(names, ["XPLAT_RSH", "XPLAT_REMCMD", "LIBI_DEBUG"]);
        assert_eq!(made("localhost", &[("XPLAT_REMCMD", "runauth")]).0.args.len(), 1);
    }
}
