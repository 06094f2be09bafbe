use std::collections::BTreeSet;

use super::super::tests::host;
use super::super::{Backend, LaunchMethod};
use super::*;
use crate::machine::Program;

/// What each command is called with: `[COMMAND HOSTS]`, followed by the words, one in a line.
const CALLS: &str = include_str!("calls.txt");

fn word(text: &str) -> OsBytes {
    OsBytes::try_from(text).unwrap()
}

fn program() -> Program {
    let env = vec![libi_core::dist::EnvVar::new(word("A"), word("b c")).unwrap()];
    Program { executable: word("./daemon"), args: vec![word("-v")], env, cwd: None }
}

/// The words of all processes that are started for these hosts.
fn calls(command: &str, hosts: &[&str]) -> Vec<String> {
    let backend: Backend = command.parse().unwrap();
    let hosts: Vec<_> = hosts.iter().map(|name| host(name, None, None)).collect();
    let specs = match backend.bulk() {
        Some(bulk) => vec![bulk.bulk_spec(&hosts.iter().collect::<Vec<_>>(), &program(), "7").unwrap()],
        None => hosts.iter().map(|host| backend.spawn_spec(host, &program()).unwrap()).collect(),
    };
    let words = specs.into_iter().flat_map(|spec| [vec![spec.program], spec.args].concat());
    words.map(|word| word.to_string()).collect()
}

#[test]
fn every_command_is_called_as_the_table_says() {
    let mut missing: BTreeSet<_> =
        SHELLS.iter().map(|row| row.name).chain(STARTERS.iter().map(|row| row.name)).collect();
    for section in CALLS.split("\n\n").filter(|section| section.starts_with('[')) {
        let mut lines = section.lines();
        let head = lines.next().and_then(|head| head.strip_prefix('[')?.strip_suffix(']')).unwrap();
        let mut words = head.split(' ');
        let command = words.next().unwrap();
        let hosts: Vec<_> = words.collect();
        assert_eq!(calls(command, &hosts), lines.collect::<Vec<_>>(), "{head}");
        missing.remove(command.rsplit('/').next().unwrap());
    }
    assert!(missing.is_empty(), "commands without a call in the table: {missing:?}");
}

#[test]
fn users_and_ports_are_refused() {
    for command in ["blaunch", "qrsh", "flux"] {
        let backend: Backend = command.parse().unwrap();
        for host in [host("n1", Some("me"), None), host("n1", None, Some(22))] {
            let refused = backend.spawn_spec(&host, &program()).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("{command} has no option for a ")), "{refused}");
        }
    }
}

#[test]
fn remote_shells_of_managers_count_as_plaintext_and_flux_does_not() {
    let is_plaintext = |command: &str| command.parse::<Backend>().unwrap().is_plaintext();
    assert_eq!(["/opt/ge/qrsh", "blaunch", "flux"].map(is_plaintext), [true, true, false]);
}

#[test]
fn a_command_that_cannot_start_members_is_refused_and_fits_no_other_table() {
    for row in &UNFIT {
        let refused = row.name.parse::<Backend>().unwrap_err().to_string();
        assert!(refused.contains(row.name) && refused.contains(row.reason), "{refused}");
        assert!(shell(&word(row.name)).is_none() && starter(&word(row.name)).is_none());
    }
}
