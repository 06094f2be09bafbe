//! Tests of `libi run`: output, exit statuses and error messages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use libi_testkit::programs;

#[path = "run/endings.rs"]
mod endings;
#[path = "run/keeping.rs"]
mod keeping;
#[path = "run/killing.rs"]
mod killing;
#[path = "run/output.rs"]
mod output;
#[path = "run/plain.rs"]
mod plain;
#[path = "run/progress.rs"]
mod progress;
#[path = "run/queue.rs"]
mod queue;

const LIBI: &str = env!("CARGO_BIN_EXE_libi");

fn libi(words: &[&str]) -> Command {
    let mut command = Command::new(LIBI);
    command.arg("run").args(words).stdin(Stdio::null());
    command
}

fn run(words: &[&str]) -> (i32, String, String) {
    outcome(&libi(words).output().unwrap())
}

fn outcome(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn members_run_and_their_lines_are_tagged_with_their_ranks() {
    let (status, out, err) = run(&[
        "--backend",
        "local",
        "--hosts",
        "a,b:2",
        "--tag",
        programs::member(),
        "join",
        "out:on {host}",
        "finish:20000",
    ]);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((status, lines, err.as_str()), (0, vec!["[0] on a", "[1] on b", "[2] on b"], ""));
}

#[test]
fn the_exit_status_tells_what_failed() {
    let failed = run(&["-n", "2", programs::member(), "join", "finish:20000", "only:1:exit:3"]);
    assert_eq!((failed.0, failed.2.as_str()), (1, "libi: rank 1 on localhost exited 3\n"));
    let killed = run(&["-n", "2", programs::member(), "join", "only:1:signal:9", "finish:20000"]);
    assert_eq!((killed.0, killed.2.contains("rank 1 on localhost was killed by signal 9")), (1, true));
    let missing = run(&["/no/such/program"]);
    assert_eq!((missing.0, missing.2.contains("/no/such/program: No such file")), (3, true));
    assert_eq!(run(&["--hosts", "a[", programs::member()]).0, 2);
    assert_eq!(run(&["--hosts", "", programs::member()]).0, 3);
    assert_eq!(run(&[]).0, 2);
}

#[test]
fn standard_input_goes_to_the_master() {
    let mut child = libi(&["-n", "2", "--tag", programs::member(), "join", "read", "finish:20000"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(&vec![b'x'; 300_000]).unwrap());
    let (status, out, _) = outcome(&child.wait_with_output().unwrap());
    writer.join().unwrap();
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((status, lines), (0, vec!["[0] 300000", "[1] 0"]));
}

#[test]
fn a_signal_ends_the_session_and_is_the_status() {
    let mut child = libi(&["-n", "2", programs::member(), "join", "out:up", "wait"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    let kill = Command::new("/bin/sh").args(["-c", &format!("kill -TERM {}", child.id())]).status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn a_timeline_is_written_and_read_back() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (json, svg) = (directory.join("run.json"), directory.join("run.svg"));
    let (json, svg) = (json.to_str().unwrap(), svg.to_str().unwrap());
    let words = [
        "--backend",
        "local",
        "--hosts",
        "h[1-5]",
        "--timeline",
        json,
        "--svg",
        svg,
        programs::member(),
        "join",
        "finish:20000",
    ];
    assert_eq!(run(&words).0, 0);
    assert!(std::fs::read_to_string(svg).unwrap().starts_with("<svg"));
    let summary = outcome(&Command::new(LIBI).args(["trace", json]).output().unwrap());
    assert!(summary.0 == 0 && summary.1.contains("5 hosts"), "{summary:?}");
}

#[test]
fn a_time_limit_ends_the_session() {
    let words =
        ["--hosts", "a:2,b", "--time-limit", "300ms", programs::member(), "join", "only:1:exit:0", "wait"];
    let (status, _, err) = run(&local(&words));
    let expected = "libi: the time limit of 0.300 s expired; terminating ranks 0, 2 on a,b\n";
    assert_eq!((status, err.as_str()), (124, expected));
}

/// Arguments for a run on this machine under other host names.
fn local<'a>(words: &[&'a str]) -> Vec<&'a str> {
    [&["--backend", "local"][..], words].concat()
}

/// A stand-in named `ssh` with these settings, and a function that runs `libi run` with it.
fn stand_in(name: &str, settings: &str) -> (std::path::PathBuf, impl Fn(&[&str]) -> (i32, String, String)) {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    let (ssh, config) = (directory.join("ssh"), directory.join("config"));
    std::os::unix::fs::symlink(programs::shell(), &ssh).unwrap();
    std::fs::write(&config, settings).unwrap();
    let shell = ssh.clone();
    let run = move |words: &[&str]| {
        let words = [&["--shell", shell.to_str().unwrap()], words].concat();
        outcome(&libi(&words).env("LIBI_TEST_SHELL", &config).output().unwrap())
    };
    (ssh, run)
}

#[test]
fn ssh_options_are_rejected_for_other_shells() {
    let (ssh, run_with) = stand_in("options", "");
    let work = [programs::member(), "join", "finish:20000"];
    let options = ["--hosts", "a,b", "--ssh-option", "StrictHostKeyChecking=no", "--ssh-option", "Port=4722"];
    assert_eq!(run_with(&[&options[..], &work[..]].concat()).0, 0);
    let ssh = ssh.to_str().unwrap();
    let wrong: [&[&str]; 4] = [
        &["--shell", "/usr/bin/rsh", "--ssh-profile", "fast"],
        &["--backend", "./rsh", "--ssh-option", "Port=1"],
        &["--ssh-profile", "fast"],
        &["--shell", ssh, "--ssh-profile", "faster"],
    ];
    for words in wrong {
        let (status, _, err) = run(&[words, &work[..]].concat());
        assert_eq!(status, 2, "{words:?}: {err}");
    }
}

#[test]
fn hosts_that_are_not_this_machine_are_reached_by_ssh() {
    let (ssh, _) = stand_in("automatic", "fault n2 refuse refused\n");
    let directory = ssh.parent().unwrap();
    let path = format!("{}:{}", directory.display(), std::env::var("PATH").unwrap());
    let run = |hosts: &str| {
        let mut command =
            libi(&["--hosts", hosts, programs::member(), "join", "out:on {host}", "finish:20000"]);
        command.env("PATH", &path).env("LIBI_TEST_SHELL", directory.join("config"));
        outcome(&command.output().unwrap())
    };
    assert_eq!(run("n1"), (0, "on n1\n".to_owned(), String::new()));
    let (status, out, err) = run("n[1-2]");
    assert_eq!((status, out.as_str()), (3, ""), "{err}");
    assert!(err.contains("(ssh exited 255"), "{err}");
    // Without any ssh a run on this machine works, and on others it does not.
    let without = |hosts: &str| {
        let mut command = libi(&["--hosts", hosts, programs::member(), "join", "finish:20000"]);
        outcome(&command.env("PATH", "/nonexistent").output().unwrap())
    };
    assert_eq!(without("localhost,127.0.0.1").0, 0);
    let (status, _, err) = without("supercomputer[1-3]");
    let expected = "libi: the remote shell program ssh is not in PATH\nhint: ";
    assert!(status == 3 && err.starts_with(expected) && !err.contains("nonexistent"), "{err}");
}

#[test]
fn an_unknown_backend_is_named_without_the_search_path() {
    let (status, out, err) = run(&["--backend", "no-such-shell", "--hosts", "n1", programs::member()]);
    assert_eq!((status, out.as_str()), (3, ""));
    assert!(err.starts_with("libi: the remote shell program no-such-shell is not in PATH\n"), "{err}");
    assert!(!err.contains("/bin"), "{err}");
}

#[test]
fn the_environment_names_the_back_end_where_no_option_does() {
    let words = ["-v", "--hosts", "a,b", programs::member(), "join", "out:{host}", "finish:20000"];
    let with = |backend: &str, more: &[&str]| {
        let words = [more, &words].concat();
        outcome(&libi(&words).env("LIBI_BACKEND", backend).output().unwrap())
    };
    let (status, out, err) = with("local", &[]);
    assert_eq!((status, out.lines().count()), (0, 2), "{err}");
    assert!(err.contains("hosts are reached by local, as LIBI_BACKEND asks for"), "{err}");
    let (status, _, err) = with("no-such-shell", &["--backend", "local"]);
    assert_eq!((status, err.contains("LIBI_BACKEND")), (0, false), "the option comes first: {err}");
    let (status, _, err) = with("/", &[]);
    assert_eq!((status, err.contains("LIBI_BACKEND")), (2, true), "{err}");
}

#[test]
fn the_hosts_of_a_job_are_taken_where_no_option_names_any() {
    let words = ["--backend", "local", programs::member(), "join", "out:{host}", "finish:20000"];
    let hosts = |environment: &[(&str, &str)], more: &[&str]| {
        let words = [more, &words].concat();
        let (status, out, err) = outcome(&libi(&words).envs(environment.iter().copied()).output().unwrap());
        assert_eq!(status, 0, "{err}");
        let mut lines: Vec<_> = out.lines().map(str::to_owned).collect();
        lines.sort();
        lines.join(" ")
    };
    let job = [("SLURM_JOB_ID", "7"), ("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_TASKS_PER_NODE", "2(x2)")];
    assert_eq!(hosts(&job, &[]), "n1 n2", "processors are no processes");
    assert_eq!(hosts(&job, &["-n", "3"]), "n1 n1 n2", "hosts are filled in order");
    let asked = [&job[..], &[("SLURM_NTASKS", "4")]].concat();
    assert_eq!(hosts(&asked, &[]), "n1 n1 n2 n2");
}

#[test]
fn processes_are_counted_in_total_or_per_host() {
    let ranks = |words: &[&str]| {
        let words = [words, &[programs::member(), "join", "out:{host}", "finish:20000"]].concat();
        let (status, out, err) = run(&local(&words));
        assert_eq!((status, err.as_str()), (0, ""));
        let mut hosts: Vec<_> = out.lines().map(str::to_owned).collect();
        hosts.sort_unstable();
        hosts.join(" ")
    };
    assert_eq!(ranks(&["--hosts", "a:2,b:2", "-n", "3"]), "a a b");
    assert_eq!(ranks(&["--hosts", "a,b", "--processes", "3"]), "a a b");
    assert_eq!(ranks(&["--host", "a:4,b", "--per-host", "2"]), "a a b b");
    assert_eq!(run(&["-n", "2", "--per-host", "1", programs::member()]).0, 2);
}

#[test]
fn directory_and_environment_are_those_asked_for() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).canonicalize().unwrap();
    let script = "echo $PWD $A \"$B\"; exec \"$@\"";
    let mut command = libi(&["--directory", directory.to_str().unwrap(), "--env", "A=1=2", "--env", "B"]);
    command.args(["/bin/sh", "-c", script, "sh", programs::member(), "join", "finish:20000"]).env("B", "b c");
    let expected = format!("{} 1=2 b c\n", directory.display());
    assert_eq!(outcome(&command.output().unwrap()), (0, expected, String::new()));
    let (status, _, err) = run(&["--env", "LIBI_NO_SUCH_VARIABLE", programs::member()]);
    assert_eq!((status, err.as_str()), (2, "libi: --env LIBI_NO_SUCH_VARIABLE: the variable is not set\n"));
    assert_eq!(run(&["--env", "=x", programs::member()]).0, 2);
}

#[test]
fn an_output_directory_that_cannot_be_written_is_an_error_before_the_launch() {
    for directory in ["/proc/libi", "/dev/null/libi", "/proc"] {
        let (status, out, err) = run(&["--output", directory, programs::member(), "join", "finish:20000"]);
        assert_eq!((status, out.as_str()), (2, ""), "{err}");
        let text = format!("libi: cannot write the output directory {directory}: ");
        assert!(err.starts_with(&text), "{err}");
    }
}

#[test]
fn more_hosts_than_the_list_has_cannot_be_required() {
    for (hosts, count, text) in [
        ("localhost", "3", "libi: --min-hosts 3: the processes run on 1 host\n"),
        ("a,b,a:4", "3", "libi: --min-hosts 3: the processes run on 2 hosts\n"),
        ("a,b", "0", "error: invalid value '0' for '--min-hosts <COUNT>'"),
    ] {
        let words = ["--hosts", hosts, "--min-hosts", count, programs::member(), "join"];
        let (status, out, err) = run(&local(&words));
        assert_eq!((status, out.as_str()), (2, ""), "{err}");
        assert!(err.starts_with(text), "{err}");
    }
}

#[test]
fn a_signal_during_the_launch_tells_how_far_it_was() {
    let shell = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("shell-that-hangs");
    std::fs::write(&shell, "#!/bin/sh\nkill -TERM $PPID\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["--backend", shell.to_str().unwrap(), "--hosts", "a,b", "true"];
    let (status, out, err) = run(&words);
    assert_eq!((status, out.as_str()), (128 + 15, ""), "{err}");
    assert!(
        err.starts_with("libi: SIGTERM: giving up the launch (0 joined, 2 in flight, 0 failed); "),
        "{err}"
    );
}

#[test]
fn a_run_is_one_json_document() {
    let json = |words: &[&str]| -> (i32, serde_json::Value, String) {
        let (status, out, err) = run(&local(&[&["--json", "--hosts", "a,b"], words].concat()));
        (status, serde_json::from_str(&out).unwrap(), err)
    };
    let (status, document, err) =
        json(&[programs::member(), "join", "out:text", "only:1:exit:3", "finish:20000"]);
    assert_eq!(status, 1);
    assert!(err.contains("text\n") && err.contains("rank 1 on b exited 3"), "output goes to stderr: {err}");
    assert_eq!((&document["ok"], &document["exit_status"]), (&false.into(), &1.into()));
    assert_eq!((&document["up"], &document["hosts"][1]["host"]), (&true.into(), &"b".into()));
    assert_eq!(document["ranks"][0]["exit"]["code"], 0);
    assert_eq!(
        (&document["ranks"][1]["exit"]["code"], &document["ranks"][1]["host"]),
        (&3.into(), &"b".into())
    );

    let (status, document, _) = json(&["/no/such/program"]);
    assert_eq!((status, &document["up"], &document["hosts_joined"]), (3, &false.into(), &0.into()));
    assert!(document["hosts"][0]["cause"].is_string(), "{document:#}");
}

#[test]
fn output_that_cannot_be_written_to_a_file_is_an_error() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("full");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    std::os::unix::fs::symlink("/dev/full", directory.join("1.out")).unwrap();
    let words = [
        "-n",
        "2",
        "--output",
        directory.to_str().unwrap(),
        programs::member(),
        "join",
        "out:text",
        "finish:20000",
    ];
    let (status, out, err) = run(&words);
    assert_eq!((status, out.as_str()), (2, ""), "{err}");
    assert!(err.contains("full/1.out") && err.contains("No space left on device"), "{err}");
    assert_eq!(std::fs::read_to_string(directory.join("0.out")).unwrap(), "text\n");
}

/// Tests that take tens of seconds.
mod slow {
    use super::*;

    #[test]
    fn a_hundred_hosts_are_launched_under_a_low_descriptor_limit() {
        let limited = |most: &str, tree: &str| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", most, LIBI, "run", "--tree", tree]);
            command
                .args([
                    "--backend",
                    "local",
                    "--hosts",
                    "n[0-99]",
                    programs::member(),
                    "join",
                    "finish:20000",
                ])
                .stdin(Stdio::null());
            outcome(&command.output().unwrap())
        };
        for most in ["24", "40"] {
            assert_eq!(limited(most, "late"), (0, String::new(), String::new()), "{most} files");
        }
        // One process cannot launch all of them.
        let (status, _, err) = limited("40", "flat");
        assert!(status == 3 && err.contains("out of resources") && err.contains("open files"), "{err}");
    }

    #[test]
    fn an_ssh_failure_is_reported_with_cause_evidence_and_hint() {
        let (_, run) = stand_in(
            "told",
            "fault n1 refuse timed-out\nfault n2 refuse timed-out\nfault n3 refuse host-key\n\
             fault n4 refuse closed\n\
             fault n5 not-found\nfault n6 exit 9\n",
        );
        let (status, out, err) = run(&[
            "--hosts",
            "n[0-6]",
            "--min-hosts",
            "1",
            "--settle", // a host that is retried is reported with its last error
            "2m",
            "--ssh-profile",
            "fast",
            programs::member(),
            "join",
            "finish:20000",
        ]);
        assert_eq!((status, out.as_str()), (0, ""), "{err}");
        let said = |cause: &str, known_by: &str, evidence: &str| {
            let line = err.lines().find(|line| line.trim_start().starts_with(cause));
            let line = line.unwrap_or_else(|| panic!("{cause} is not in {err}"));
            assert!(line.contains(known_by) && line.ends_with(evidence), "{line}");
        };
        assert!(err.contains("libi: 1 of 7 hosts joined; up after "), "{err}");
        said(
            "n[1-2]  connection timed out (",
            "(ssh exited 255 after ",
            ": \"ssh: connect to host n1 port 22: Connection timed out\")",
        );
        said(
            "n3  unknown host key (",
            "(ssh exited 255 after ",
            ": \"No ED25519 host key is known for n3 and you have requested strict checking.\")",
        );
        said("n4  connection closed before login (", "ssh", ": \"Connection closed by n4 port 22\")");
        said("n5  program not found (", "(exited 127 after ", ": not found\")");
        said("n6  exited 9 before joining, after ", "", "s");
        let hints: Vec<_> = err.lines().filter(|line| line.starts_with("hint: ")).collect();
        assert_eq!(hints.len(), 5, "{err}");
        let doctor =
            hints[0].starts_with("hint: `libi doctor --backend /") && hints[0].contains("/ssh n[1-2]` ");
        assert!(doctor, "{err}");
    }
}
