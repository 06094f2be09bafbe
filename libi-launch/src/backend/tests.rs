use libi_core::dist::layout::Block;
use libi_core::dist::{EnvVar, OsBytes};
use libi_core::ids::{HostIndex, Rank};
use libi_core::plan::late::Attempt;

use super::{Backend, Channel, LaunchMethod, Local, Shell, SpecError};
use crate::machine::{HostSpec, Program};
use crate::quote;

pub(super) fn word(text: &str) -> OsBytes {
    OsBytes::try_from(text).unwrap()
}

pub(crate) fn host(name: &str, user: Option<&str>, port: Option<u16>) -> HostSpec {
    HostSpec {
        host: HostIndex(1),
        attempt: Attempt::default(),
        name: name.to_owned(),
        below: 0,
        faults: 0,
        restarts: 0,
        user: user.map(str::to_owned),
        port,
        blocks: vec![Block { first: Rank(0), count: 1, distribution: 0 }],
    }
}

pub(crate) fn program() -> Program {
    Program {
        executable: word("./daemon"),
        args: vec![word("it's"), word("-v")],
        env: vec![EnvVar::new(word("A"), word("b c")).unwrap()],
        cwd: Some(word("/tmp")),
    }
}

fn texts(words: &[OsBytes]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

#[test]
fn a_shell_gets_options_host_and_one_quoted_command() {
    let shell = Shell { args: vec![word("-T")], ..Shell::new(word("ssh")) };
    let spec = Backend::Shell(shell).spawn_spec(&host("n1", Some("me"), Some(22)), &program()).unwrap();
    assert_eq!(spec.channel, Channel::Streams);
    let args = texts(&spec.args);
    assert_eq!(args[..6], ["-T", "-l", "me", "-p", "22", "n1"]);
    let program = program();
    let env = [&program.env[..], &[EnvVar::new(word("LIBI_LINK"), word("stdio")).unwrap()]].concat();
    let command = quote::command(program.cwd.as_ref(), &env, &program.executable, &program.args);
    assert_eq!(args[6], command.to_string());
    assert_eq!(args.len(), 7);
}

#[test]
fn what_a_shell_would_take_for_an_option_is_refused() {
    let shell = Shell::new(word("ssh"));
    for task in [host("-oProxyCommand=x", None, None), host("n", Some("-v"), None)] {
        let refused = shell.spawn_spec(&task, &program()).unwrap_err();
        assert!(matches!(refused, SpecError::OptionLike { .. }), "{refused}");
    }
}

#[test]
fn a_shell_without_an_option_for_a_port_refuses_hosts_that_have_one() {
    let rsh = Shell { port: None, ..Shell::new(word("rsh")) };
    let refused = rsh.spawn_spec(&host("n", None, Some(22)), &program()).unwrap_err();
    assert_eq!(refused.to_string(), "rsh has no option for a port");
}

#[test]
fn here_the_program_itself_is_started_with_a_socket() {
    let spec = Local.spawn_spec(&host("-anything", Some("who"), None), &program()).unwrap();
    assert_eq!((spec.channel, texts(&spec.args)), (Channel::Socket, texts(&program().args)));
    let env: Vec<_> = spec.env.iter().map(|v| format!("{}={}", v.name(), v.value())).collect();
    assert_eq!(env, ["A=b c", "LIBI_LINK=3"]);
}

#[test]
fn starts_of_managers_are_not_ended_before_they_have_failed() {
    for (backend, may_end) in [
        ("ssh", true),
        ("rsh", true),
        ("local", true),
        ("/opt/any/shell", true),
        ("qrsh", false),
        ("/opt/ge/bin/qrsh", false),
        ("blaunch", false),
        ("srun", false),
        ("flux", false),
        ("clush", false),
    ] {
        let backend: Backend = backend.parse().unwrap();
        assert_eq!(backend.may_end_starts(), may_end, "{backend}");
    }
}
