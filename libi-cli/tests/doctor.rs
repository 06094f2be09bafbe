//! Tests of `libi doctor`, with a stand-in for ssh and with a replay of the debug output of a real one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output};

use libi_testkit::shell::{Lab, eventually};
use libi_testkit::{processes, programs};
use serde_json::Value;

#[path = "doctor/slurm.rs"]
mod slurm;

const LIBI: &str = env!("CARGO_BIN_EXE_libi");

fn doctor(lab: &Lab, words: &[&str]) -> Command {
    let mut command = lab.command(LIBI, &["doctor"]);
    command.args(words).env("SHELL", "/bin/sh");
    command
}

fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// The exit status and the JSON document of a run through the stand-in.
fn json(lab: &Lab, words: &[&str]) -> (i32, Value) {
    let words: Vec<_> = ["--json", "--shell", programs::shell()].iter().chain(words).copied().collect();
    document(&mut doctor(lab, &words))
}

fn document(command: &mut Command) -> (i32, Value) {
    let (status, out, err) = outcome(&command.output().unwrap());
    assert_eq!(err, "");
    (status, serde_json::from_str(&out).unwrap())
}

fn host<'a>(document: &'a Value, name: &str) -> &'a Value {
    document["hosts"].as_array().unwrap().iter().find(|host| host["host"] == name).unwrap()
}

/// The number of processes that were started in this laboratory and still run.
fn processes_left(lab: &Lab) -> usize {
    let mark = format!("LIBI_TEST_SHELL={}", lab.0.join("config").display());
    processes::bearing(&mark).len()
}

/// A program in a directory of the laboratory.
fn program(lab: &Lab, path: &str, text: &str) {
    let path = lab.0.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // Written under another name: a file that is open for writing cannot be executed.
    let draft = path.with_extension("draft");
    fs::write(&draft, text).unwrap();
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(draft, path).unwrap();
}

#[test]
fn healthy_hosts_are_one_line_and_status_0() {
    let lab = Lab::new("");
    let (status, out, err) =
        outcome(&doctor(&lab, &["--shell", programs::shell(), "n[1-9],me@n10"]).output().unwrap());
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("10 hosts through ") && out.contains(": a launch would work\n"), "{out}");
    assert!(out.contains("\nn[1-9],me@n10  yes      yes    sh "), "{out}");
    assert!(!out.contains("prevent a launch"), "{out}");
}

#[test]
fn the_json_document_describes_every_host() {
    let lab = Lab::new("");
    let (status, document) = json(&lab, &["--program", "/bin/sh", "n1:2222:1", "n2"]);
    assert_eq!((status, &document["ok"], &document["hosts_ok"]), (0, &true.into(), &2.into()));
    let n1 = host(&document, "n1");
    assert_eq!(
        (&n1["port"], &n1["reached"], &n1["program"]),
        (&2222.into(), &"shell".into(), &"executable".into())
    );
    assert_eq!(n1["direct"], "works", "{n1:#}");
    assert!(n1["kernel"].as_str().unwrap().starts_with("Linux "));
    assert_eq!(n1["round_trips_s"].as_array().unwrap().len(), 5);
    // Both clocks are the same.
    let (ahead, within) = (n1["clock_ahead_s"].as_f64().unwrap(), n1["clock_within_s"].as_f64().unwrap());
    assert!(ahead.abs() <= within + 0.001, "{ahead} within {within}");
    assert!(n1.get("key_exchange_s").is_none() && n1.get("ssh").is_none(), "what is not known is not there");
}

#[test]
fn every_fault_is_classified() {
    let faults = [
        ("refuse refused", "refused", "Connection refused"),
        ("refuse timed-out", "no-answer", "Connection timed out"),
        ("refuse unknown-host", "unresolved", "Could not resolve"),
        ("refuse closed", "turned-away", "closed by remote host"),
        ("refuse reset", "turned-away", "reset by peer"),
        ("refuse host-key", "host-key-unknown", "host key is known for n5"),
        ("refuse permission", "denied", "Permission denied"),
        ("hang", "timed-out", ""),
        ("not-found", "ended", "not found"),
        ("exit 7", "ended", ""),
        ("cut 3", "ended", ""),
        ("hang-after 20", "timed-out-after-login", ""),
        ("close-stdin", "input-lost", ""),
    ];
    let config: Vec<_> =
        faults.iter().enumerate().map(|(i, (fault, ..))| format!("fault n{i} {fault}")).collect();
    let lab = Lab::new(&config.join("\n"));
    let list = format!("n[0-{}],well", faults.len() - 1);
    let (status, document) = json(&lab, &["--timeout", "8s", &list]);
    assert_eq!((status, &document["ok"], &document["hosts_ok"]), (3, &false.into(), &1.into()));
    for (i, (fault, problem, evidence)) in faults.iter().enumerate() {
        let host = host(&document, &format!("n{i}"));
        assert_eq!(
            (&host["ok"], host["problem"].as_str()),
            (&false.into(), Some(*problem)),
            "{fault}: {host:#}"
        );
        assert!(host["evidence"].as_str().unwrap().contains(evidence), "{fault}: {host:#}");
        assert!(host["hint"].is_string(), "{fault}");
    }
    assert_eq!(host(&document, "well")["ok"], true);
    eventually("nothing is left", || processes_left(&lab) == 0);
}

#[test]
fn profile_output_is_a_note_and_no_problem() {
    let lab = Lab::new(
        "fault n1 banner-before Welcome to the cluster\nfault n2 garbage 5000\nfault n3 warn careful",
    );
    let (status, document) = json(&lab, &["n[1-3]"]);
    assert_eq!((status, &document["hosts_ok"]), (0, &3.into()), "{document:#}");
    let noise = ["n1", "n2", "n3"].map(|name| host(&document, name)["noise_bytes"].as_u64().unwrap());
    assert_eq!((noise[0], noise[2]), (23, 0));
    assert!(noise[1] > 0);
    let (_, out, _) = outcome(&doctor(&lab, &["--shell", programs::shell(), "n[1-3]"]).output().unwrap());
    assert!(
        out.contains("n[1-2]  prints text at login, which will be mixed into program output: Welcome to"),
        "{out}"
    );
}

#[test]
fn hosts_that_hang_delay_no_other_host_and_leave_no_process() {
    let lab = Lab::new("fault 20% hang");
    let (status, document) = json(&lab, &["--timeout", "6s", "--at-once", "4", "--no-direct", "n[1-60]"]);
    let hosts = document["hosts"].as_array().unwrap();
    let timed_out = hosts.iter().filter(|host| host["problem"] == "timed-out").count();
    let fine = hosts.iter().filter(|host| host["ok"] == true).count();
    assert_eq!((status, timed_out + fine), (3, 60), "{document:#}");
    assert!((1..60).contains(&timed_out));
    eventually("nothing is left", || processes_left(&lab) == 0);
}

#[test]
fn a_signal_ends_the_examination_with_partial_results() {
    let lab = Lab::new("fault n2 hang");
    let mut command = doctor(&lab, &["--shell", programs::shell(), "--timeout", "60s", "--json", "n1,n2"]);
    let child = command.spawn().unwrap();
    eventually("both are called", || lab.fates().len() == 2);
    // The host that does not hang finishes.
    eventually("one is examined", || processes_left(&lab) == 2);
    let kill = Command::new("/bin/sh").args(["-c", &format!("kill -TERM {}", child.id())]).status();
    assert!(kill.unwrap().success());
    let (status, out, _) = outcome(&child.wait_with_output().unwrap());
    let document: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((status, &host(&document, "n1")["ok"]), (128 + 15, &true.into()));
    assert_eq!(host(&document, "n2")["problem"], "interrupted");
    assert_eq!(processes_left(&lab), 0);
}

#[test]
fn no_process_outlives_a_killed_doctor() {
    let lab = Lab::new("fault n1 hang");
    let mut child = doctor(&lab, &["--shell", programs::shell(), "--timeout", "60s", "n1"]).spawn().unwrap();
    eventually("it is called", || lab.fates().len() == 1);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("nothing is left", || processes_left(&lab) == 0);
}

#[test]
fn a_missing_program_is_detected() {
    let lab = Lab::new("");
    fs::write(lab.0.join("text"), "no program").unwrap();
    let cases = [
        ("./text", "program-not-executable"),
        ("./missing one", "program-missing"),
        ("no-such", "program-missing"),
    ];
    for (name, problem) in cases {
        let (status, document) = json(&lab, &["--program", name, "n1"]);
        assert_eq!((status, &host(&document, "n1")["problem"]), (3, &problem.into()), "{name}");
    }
    program(&lab, "a b's", "#!/bin/sh\n");
    assert_eq!(json(&lab, &["--program", "./a b's", "n1"]).0, 0);
}

/// A `PATH` with a minimal set of system programs and these.
fn path(lab: &Lab, names: &[&str]) -> String {
    let directory = lab.0.join("path");
    fs::create_dir(&directory).unwrap();
    for name in ["sh", "env", "uname", "date", "true"].iter().chain(names) {
        let found = ["/usr/bin", "/bin"]
            .map(|at| format!("{at}/{name}"))
            .into_iter()
            .find(|path| fs::exists(path).unwrap());
        symlink(found.unwrap(), directory.join(name)).unwrap();
    }
    directory.to_str().unwrap().to_owned()
}

#[test]
fn without_a_connect_tool_direct_links_are_unknown() {
    let lab = Lab::new("");
    let path = path(&lab, &[]);
    let (status, document) =
        document(doctor(&lab, &["--json", "--shell", programs::shell(), "n1"]).env("PATH", path));
    assert_eq!((status, &host(&document, "n1")["direct"]), (0, &"unknown".into()));
}

#[test]
fn each_available_tool_connects() {
    for tool in ["bash", "perl"] {
        let lab = Lab::new("");
        let path = path(&lab, &["timeout", tool]);
        let (_, document) =
            document(doctor(&lab, &["--json", "--shell", programs::shell(), "n1"]).env("PATH", path));
        assert_eq!(host(&document, "n1")["direct"], "works", "{tool}: {document:#}");
    }
}

#[test]
fn a_host_that_cannot_connect_can_be_launched_on() {
    let lab = Lab::new("");
    let path = path(&lab, &["timeout"]);
    program(&lab, "path/bash", "#!/bin/sh\nexit 1\n");
    let (status, out, _) =
        outcome(&doctor(&lab, &["--shell", programs::shell(), "n1"]).env("PATH", path).output().unwrap());
    assert_eq!(status, 0, "{out}");
    assert!(out.contains("n1  cannot connect to this machine"), "{out}");
}

/// A program named `ssh` that prints the debug output of a real one and runs the command locally.
fn verbose_ssh(lab: &Lab, transcript: &str) -> String {
    let said =
        transcript.lines().filter_map(|line| line.split_once(" err ").map(|(_, said)| format!("{said}\n")));
    fs::write(lab.0.join("said"), said.collect::<String>()).unwrap();
    let text = "#!/bin/sh\necho \"$@\" | head -n 1 >> calls\ncat said >&2\nfor last; do :; done\nexec /bin/sh -c \"$last\"\n";
    program(lab, "bin/ssh", text);
    lab.0.join("bin/ssh").to_str().unwrap().to_owned()
}

const TRANSCRIPT: &str = include_str!("../../libi-launch/src/transcript/recordings/9.2-works.txt");

#[test]
fn ssh_debug_output_is_reported() {
    let lab = Lab::new("");
    let ssh = verbose_ssh(&lab, TRANSCRIPT);
    let (status, document) = document(&mut doctor(&lab, &["--json", "--shell", &ssh, "n1"]));
    let n1 = host(&document, "n1");
    assert_eq!((status, &n1["ssh"]["key_exchange"]), (0, &"sntrup761x25519-sha512".into()), "{n1:#}");
    assert_eq!((&n1["ssh"]["method"], &n1["ssh"]["keys_offered"]), (&"publickey".into(), &1.into()));
    let seconds = |key: &str| n1[key].as_f64().unwrap();
    let parts =
        seconds("connect_s") + seconds("key_exchange_s") + seconds("authentication_s") + seconds("session_s");
    assert!((parts - seconds("set_up_s")).abs() < 1e-6, "{n1:#}");
    let calls = fs::read_to_string(lab.0.join("calls")).unwrap();
    for option in ["-T", "-o BatchMode=yes", "-o LogLevel=DEBUG1", "-o ConnectTimeout=9", "n1"] {
        assert!(calls.contains(&format!("{option} ")), "{calls}");
    }
}

#[test]
fn gain_alternates_between_both_profiles() {
    let lab = Lab::new("");
    let ssh = verbose_ssh(&lab, TRANSCRIPT);
    let (status, document) = document(&mut doctor(&lab, &["--gain", "--json", "--shell", &ssh, "n[1-2]"]));
    assert_eq!(status, 0);
    let gain = document["gain"].as_array().unwrap();
    assert_eq!(gain.iter().map(|gain| gain["host"].as_str().unwrap()).collect::<Vec<_>>(), ["n1", "n2"]);
    for cost in gain.iter().flat_map(|gain| [&gain["own"], &gain["fast"]]) {
        assert!(cost["set_up_s"].as_f64().unwrap() > 0.0 && cost["processor_s"].is_number(), "{cost}");
    }
    let calls = fs::read_to_string(lab.0.join("calls")).unwrap();
    let fast: Vec<_> = calls.lines().map(|call| call.contains("KexAlgorithms=^curve25519")).collect();
    let turns = [false, true, false, true, false, true];
    assert_eq!(fast, [&[false; 2][..], &turns, &turns].concat());
    let (_, out, _) = outcome(&doctor(&lab, &["--gain", "--shell", &ssh, "n1"]).output().unwrap());
    assert!(out.contains("with --ssh-profile fast a login takes "), "{out}");
}

#[test]
fn this_machine_needs_no_shell() {
    let lab = Lab::new("");
    let (status, out, _) = outcome(&doctor(&lab, &["--shell", "none", "a,b"]).output().unwrap());
    assert_eq!(status, 0, "{out}");
    assert!(out.starts_with("2 hosts on this machine"), "{out}");
}

#[test]
fn a_shell_that_cannot_be_started_is_reported() {
    let lab = Lab::new("");
    let (status, out, _) = outcome(&doctor(&lab, &["--shell", "/no/such/ssh", "n[1-3]"]).output().unwrap());
    assert_eq!(status, 3);
    assert!(out.contains("n[1-3]  cannot be reached: the remote shell program did not start: exec /no/such/ssh: No such file"), "{out}");
}

#[test]
fn wrong_command_lines_are_status_2_and_no_hosts_3() {
    let lab = Lab::new("");
    for words in [
        &[][..],
        &["n["],
        &["n1", "--timeout", "5"],
        &["n1", "--at-once", "0"],
        &["n1", "--program", ""],
        &["n1", "--shell", "/no/such/rsh", "--gain"],
        &["n1", "--hosts", "n2"],
        &["--file", "/no/such/file"],
        &["n1", "--file", "hosts"],
    ] {
        let (status, out, err) = outcome(&doctor(&lab, words).output().unwrap());
        assert_eq!((status, out.as_str()), (2, ""), "{words:?}");
        assert!(!err.is_empty(), "{words:?}");
    }
    assert_eq!(outcome(&doctor(&lab, &[","]).output().unwrap()).0, 3);
    let help = outcome(&doctor(&lab, &["--help"]).output().unwrap()).1;
    assert!(help.contains("Examples:") && help.contains("Exit status:"), "{help}");
}

#[test]
fn hosts_can_be_an_option_as_of_run() {
    let lab = Lab::new("");
    let (status, document) = json(&lab, &["--no-direct", "--hosts", "n[1-2]"]);
    assert_eq!((status, &document["hosts_ok"]), (0, &2.into()));
    let (status, out, _) = outcome(&doctor(&lab, &["--no-direct", "localhost"]).output().unwrap());
    assert!(status == 0 && out.starts_with("1 host on this machine"), "{out}");
}
