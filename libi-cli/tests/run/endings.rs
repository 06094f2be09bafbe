//! How a run ends: the exit status and the last message, for whatever ends it. The table *How a run
//! ends* in docs/troubleshooting.md has the same rows.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use libi_testkit::local::{Lab, MARK, SOON, eventually, status};
use libi_testkit::programs;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{LIBI, libi, local, outcome, run};

/// A program that says `up`, and then waits to be ended.
const WAITS: [&str; 3] = ["sh", "-c", "echo up; while :; do sleep 0.05; done"];
/// The same, and SIGTERM does not end it.
const WAITS_ON: [&str; 3] = ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"];

/// Starts a run, whose processes bear the mark of a place, and waits until its program is up.
fn begun(lab: &Lab, words: &[&str]) -> Child {
    let mut command = libi(words);
    command.env(MARK, lab.mark());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // The pipe stays open: it is given back to the child.
    let mut out = BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    child.stdout = Some(out.into_inner());
    child
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
}

/// How a run ends: status and standard error. Nothing that it has started is left.
fn ended(lab: &Lab, child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().unwrap();
    lab.is_empty_within(SOON);
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_first_signal_asks_programs_to_end() {
    for (number, name) in
        [(Signal::SIGINT, "SIGINT"), (Signal::SIGTERM, "SIGTERM"), (Signal::SIGHUP, "SIGHUP")]
    {
        let lab = Lab::new();
        let child = begun(&lab, &WAITS);
        signal(&child, number);
        let told = format!("libi: {name}: terminating the session; a second signal kills it\n");
        assert_eq!(ended(&lab, child), (Some(128 + number as i32), told));
    }
}

#[test]
fn the_second_signal_kills_programs_that_do_not_end() {
    let lab = Lab::new();
    let mut child = begun(&lab, &WAITS_ON);
    signal(&child, Signal::SIGINT);
    let mut line = String::new();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    err.read_line(&mut line).unwrap();
    assert_eq!(line, "libi: SIGINT: terminating the session; a second signal kills it\n");
    child.stderr = Some(err.into_inner());
    signal(&child, Signal::SIGINT);
    assert_eq!(ended(&lab, child), (Some(128 + 2), String::new()));
}

#[test]
fn a_killed_run_leaves_no_process() {
    let lab = Lab::new();
    let child = begun(&lab, &local(&[&["--hosts", "a:2,b:2"], &WAITS_ON[..]].concat()));
    signal(&child, Signal::SIGKILL);
    assert_eq!(ended(&lab, child), (None, String::new()));

    // Programs that have started others, which nothing but their group ends: while these are started, and
    // when all four are there.
    let script = "(trap '' HUP INT TERM; sleep 1000) & echo up; wait";
    // This, two agents with their guardians, and two processes of each program.
    for awaited in [9, 13] {
        let child = begun(&lab, &local(&["--hosts", "a:2,b:2", "sh", "-c", script]));
        eventually("programs have started others", || lab.living().len() >= awaited);
        signal(&child, Signal::SIGKILL);
        assert_eq!(ended(&lab, child), (None, String::new()));
    }
}

#[test]
fn a_terminal_that_closes_ends_the_run() {
    // The kernel sends SIGHUP when the other side of the pseudo-terminal is closed.
    let script = "import os, pty, sys\n\
        pid, terminal = pty.fork()\n\
        if pid == 0: os.execv(sys.argv[1], sys.argv[1:])\n\
        text = b''\n\
        while b'up' not in text: text += os.read(terminal, 100)\n\
        os.close(terminal)\n\
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n";
    let lab = Lab::new();
    let mut command = Command::new("python3");
    command.args(["-c", script, LIBI, "run"]).args(WAITS).stdin(Stdio::null());
    command.env(MARK, lab.mark());
    let (status, out, err) = outcome(&command.output().unwrap());
    assert_eq!((status, out.as_str(), err.as_str()), (0, "129\n", ""));
    lab.is_empty_within(SOON);
}

#[test]
fn a_time_limit_has_the_status_of_timeout() {
    let (status, _, err) = run(&[&["--time-limit", "200ms"], &WAITS[..]].concat());
    let told = "libi: the time limit of 0.200 s expired; terminating rank 0 on localhost\n";
    assert_eq!((status, err.as_str()), (124, told));

    // timeout(1) sends SIGTERM, and has its own status.
    let output = Command::new("timeout").args(["1", LIBI, "run"]).args(WAITS).output().unwrap();
    let told = "libi: SIGTERM: terminating the session; a second signal kills it\n";
    assert_eq!(outcome(&output), (124, "up\n".to_owned(), told.to_owned()));
}

#[test]
fn a_killed_agent_costs_its_host() {
    let script = "[ $LIBI_HOST = b ] || { echo done; exit 0; }; sleep 1000 & kill -KILL $PPID; wait";
    let lab = Lab::new();
    let mut command = libi(&local(&["--hosts", "a,b:2,c", "--tag", "sh", "-c", script]));
    let (status, out, err) = outcome(&command.env(MARK, lab.mark()).output().unwrap());
    lab.is_empty_within(SOON);
    let mut lines: Vec<_> = out.lines().collect();
    lines.sort_unstable();
    assert_eq!((status, lines), (4, vec!["[0] done", "[3] done"]), "{err}");
    assert_eq!(err, "libi: b (ranks 1-2) is lost: was killed by signal 9\n");
}

#[test]
fn a_program_without_memory_fails_as_programs_do() {
    let script = "ulimit -v 100000; exec python3 -c 'bytearray(1 << 30)'";
    let (status, out, err) = run(&["sh", "-c", script]);
    assert_eq!((status, out.as_str()), (1, ""), "{err}");
    assert!(err.contains("MemoryError") && err.ends_with("libi: rank 0 on localhost exited 1\n"), "{err}");
}

#[test]
fn a_program_that_is_stopped_goes_on_when_it_is_continued() {
    let lab = Lab::new();
    let mut command = libi(&["sh", "-c", "echo $$; kill -STOP $$; echo resumed"]);
    command.env(MARK, lab.mark());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let pid: i32 = out.next().unwrap().unwrap().parse().unwrap();
    let is_stopped = || status(pid, "State").is_some_and(|state| state.starts_with('T'));
    eventually("the program is stopped", is_stopped);
    kill(Pid::from_raw(pid), Signal::SIGCONT).unwrap();
    assert_eq!(out.next().unwrap().unwrap(), "resumed");
    assert_eq!(ended(&lab, child), (Some(0), String::new()));
}

#[test]
fn a_program_of_another_architecture_is_named() {
    // The head of an ELF file for AArch64.
    let mut head = vec![0; 64];
    head[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xb7\0");
    let program = super::plain::file("for-another-architecture", &head);
    let (status, out, err) = run(&[program.to_str().unwrap()]);
    assert_eq!((status, out.as_str()), (1, ""), "{err}");
    let told = format!(
        "libi: rank 0 cannot be started: exec {}: Exec format error\n\
         libi: rank 0 on localhost exited 126\n",
        program.display()
    );
    assert_eq!(err.replace(" (os error 8)", ""), told);
}

#[test]
fn standard_output_that_is_full_ends_the_run() {
    let full = || Stdio::from(std::fs::File::options().write(true).open("/dev/full").unwrap());
    let lab = Lab::new();
    let mut command = libi(&WAITS);
    command.env(MARK, lab.mark());
    let (status, _, err) = outcome(&command.stdout(full()).output().unwrap());
    assert_eq!(
        (status, err.as_str()),
        (2, "libi: cannot write standard output: No space left on device (os error 28)\n")
    );
    lab.is_empty_within(SOON);
}

#[test]
fn a_rank_that_is_restarted_has_the_exit_status_of_its_last_process() {
    // The calls go on with the new process; the other rank waits for it.
    let restarted = ["--on-loss", "continue", "--restarts", "1", "-n", "2", "--time-limit", "60s"];
    let rejoins = [programs::member(), "join", "talk:rejoin:1:1", "finish:20000"];
    let (status, _, text) = run(&[&restarted[..], &rejoins].concat());
    let expected =
        ["libi: rank 1 on localhost was killed by signal 9", "libi: rank 1 on localhost was restarted"];
    assert_eq!((status, text.lines().collect::<Vec<_>>().as_slice()), (0, &expected[..]));

    // One process more fails than may be restarted.
    let fails = [programs::member(), "join", "env:LIBI_RESTARTS", "only:1:exit:3", "finish:20000"];
    let (status, out, text) = run(&[&restarted[..], &["--tag"], &fails].concat());
    let ends = text.lines().filter(|line| *line == "libi: rank 1 on localhost exited 3").count();
    assert_eq!((status, ends), (1, 2), "{text}");
    assert!(out.lines().any(|line| line == "[1] 1"), "{out}");

    let (status, _, text) = run(&["--restarts", "1", programs::member()]);
    assert_eq!((status, text.as_str()), (2, "libi: --restarts needs --on-loss continue\n"));
}

#[test]
fn the_first_failure_ends_all_if_that_is_asked_for() {
    let words = ["--on-loss", "end", "-n", "2", programs::member(), "join", "only:1:exit:3", "wait"];
    let (status, _, text) = run(&words);
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    let expected =
        ["libi: rank 0 on localhost was killed by signal 15", "libi: rank 1 on localhost exited 3"];
    assert_eq!((status, lines.as_slice()), (1, &expected[..]));
    let (status, _, text) = run(&["--on-loss", "die", programs::member()]);
    assert!(status == 2 && text.contains("expected fail, continue or end"), "{text}");
}
