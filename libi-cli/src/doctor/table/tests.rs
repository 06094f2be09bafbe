use std::time::Duration;

use libi::hosts::HostList;

use super::*;
use crate::doctor::finding::{Clock, Noise};
use crate::doctor::json;

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A host without a problem, whose login takes this many milliseconds.
fn fine(took: u64) -> Finding {
    Finding {
        reached: LoginStage::Shell,
        set_up: Some(millis(took)),
        kernel: Some("Linux 6.1".to_owned()),
        machine: Some("x86_64".to_owned()),
        shell: Some("/bin/bash".to_owned()),
        round_trips: vec![millis(1); 5],
        clock: Some(Clock { ahead_ns: -2_000_000, within: millis(1) }),
        direct: Direct::Works(vec!["10.0.0.1:5000".parse().unwrap()]),
        ..Finding::empty()
    }
}

fn denied(name: &str) -> Finding {
    Finding {
        reached: LoginStage::Keys,
        problem: Some((
            Problem::Login(LoginError::Denied),
            format!("me@{name}: Permission denied (publickey)."),
        )),
        ..Finding::empty()
    }
}

fn told(list: &str, findings: &[Finding]) -> (String, serde_json::Value) {
    let hosts = HostList::parse(list).unwrap();
    assert_eq!(hosts.len(), findings.len());
    let report = DoctorReport {
        hosts: &hosts,
        findings,
        shell: "ssh",
        is_ssh: true,
        program: None,
        gains: &[],
        took: millis(1_234),
    };
    (text(&report), json::document(&report))
}

#[test]
fn hosts_of_which_the_same_was_found_are_one_line() {
    let mut findings: Vec<_> = (0..9).map(|i| fine(200 + i)).collect();
    findings.insert(4, denied("n5"));
    let (text, json) = told("n[1-10]", &findings);
    let expected = "\
10 hosts through ssh, examined in 1.234 s: a launch would work on 9 of them

hosts        reached  login  shell  clock        system            direct link
n[1-4,6-10]  yes      yes    bash   within 3 ms  Linux 6.1 x86_64  10.0.0.1
n5           yes      no     -      -            -                 -

              median      min      max  slowest
round-trip      1 ms     1 ms     1 ms      n10
set-up       0.204 s  0.200 s  0.208 s      n10
  its parts  unknown

problems that prevent a launch
  n5  denies the login: me@n5: Permission denied (publickey).
    hint: `ssh-add -l` lists the keys that are offered; `ssh-copy-id n5` installs one; passwords are not used
";
    assert_eq!(text, expected);
    assert_eq!((&json["ok"], &json["hosts_ok"]), (&false.into(), &9.into()));
    assert_eq!((&json["hosts"][4]["problem"], &json["hosts"][4]["host"]), (&"denied".into(), &"n5".into()));
    assert_eq!(json["hosts"][0]["clock_ahead_s"], -0.002);
}

#[test]
fn hosts_with_the_same_problem_are_named_together() {
    let findings: Vec<_> = ["n1", "n2", "n3"].map(denied).to_vec();
    let (text, _) = told("n[1-3]", &findings);
    assert!(text.contains("examined in 1.234 s: a launch would not work on any of them"), "{text}");
    assert!(text.contains("\n  n[1-3]  denies the login: me@n1:"), "{text}");
    assert!(!text.contains("set-up"), "{text}");
}

#[test]
fn many_hosts_do_not_make_the_table_wide() {
    let findings: Vec<_> = (0..100).map(|i| if i % 3 == 0 { denied("n") } else { fine(1) }).collect();
    let (text, _) = told("n[1-100]", &findings);
    let widest = text.lines().take(6).map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 120 && text.contains(",… (66 hosts)"), "{text}");
}

#[test]
fn notes_do_not_make_a_host_unfit() {
    let odd = Finding {
        noise: Noise { bytes: 12, line: "Hello there".to_owned() },
        shell: Some("/usr/bin/fish".to_owned()),
        files: Some("256".to_owned()),
        clock: Some(Clock { ahead_ns: 3_200_000_000, within: millis(2) }),
        direct: Direct::Blocked,
        ..fine(100)
    };
    let (text, json) = told("n[1-2]", &[odd.clone(), odd]);
    assert_eq!(json["ok"], true);
    for expected in [
        "a launch would work\n",
        "fish, noisy",
        "2 differ, up to 3.202 s",
        "none\n",
        "n[1-2]  prints text at login, which will be mixed into program output: Hello there\n",
        "n[1-2]  has the login shell fish",
        "n[1-2]  has a clock that is ahead of this machine's: 3.200 s ± 2 ms\n",
        "n[1-2]  limits a process to 256 open files\n",
        "n[1-2]  cannot connect to this machine",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("problems that prevent"), "{text}");
}

#[test]
fn durations_are_not_more_exact_than_they_were_measured() {
    let shown = [271_234_567, 12_345_678, 987_654, 0].map(|nanos| rounded(Duration::from_nanos(nanos)));
    assert_eq!(shown, ["0.271 s", "12.3 ms", "988 µs", "0.000 s"]);
}
