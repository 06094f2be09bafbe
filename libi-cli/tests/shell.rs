//! Tests of `libi shell`: lines, output, signals, exit statuses and lost hosts.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use libi_testkit::shell::{Lab, eventually};
use libi_testkit::{processes, programs};

const LIBI: &str = env!("CARGO_BIN_EXE_libi");

fn shell(words: &[&str]) -> Command {
    let mut command = Command::new(LIBI);
    command.arg("shell").args(["--backend", "local"]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The exit status, standard output and standard error of a shell with this input.
fn run(words: &[&str], input: &str) -> (i32, String, String) {
    let mut child = shell(words).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // It may end before it has read everything.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A shell that a test talks to.
struct Talk {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Talk {
    fn new(words: &[&str]) -> Self {
        let mut child = shell(words).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn say(&mut self, line: &str) {
        self.input.as_mut().unwrap().write_all(line.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    /// Sends a signal to the shell alone.
    fn signal(&self, name: &str) {
        let kill = format!("kill -s {name} {}", self.child.id());
        assert!(Command::new("/bin/sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// What else comes, when there is no more input.
    fn end(mut self) -> (i32, String, String) {
        drop(self.input.take());
        let (mut out, mut err) = (String::new(), String::new());
        self.output.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.child.wait().unwrap().code().unwrap(), out, err)
    }
}

#[test]
fn each_line_runs_on_all_hosts_one_after_the_other() {
    let (status, out, err) = run(&["n[1-3]"], "echo one\n\n# nothing\necho two; echo three\n");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(sorted(&lines[..3].join("\n")), ["n1: one", "n2: one", "n3: one"], "{out}");
    assert_eq!(lines.len(), 9, "{out}");
    for host in 1..=3 {
        let own: Vec<_> = lines[3..].iter().filter(|line| line.starts_with(&format!("n{host}: "))).collect();
        assert_eq!(own, [&format!("n{host}: two"), &format!("n{host}: three")]);
    }
    assert_eq!((status, err.as_str()), (0, ""));
}

#[test]
fn a_prefix_chooses_hosts_and_the_hosts_can_be_listed() {
    let (status, out, err) = run(&["-w", "n[1-4]"], "@n[2-3] echo here\n@hosts\n@n[3,9] echo x\nexit");
    let lines: Vec<_> = out.lines().collect();
    assert_eq!(sorted(&lines[..2].join("\n")), ["n2: here", "n3: here"]);
    assert_eq!(lines[2..], ["n[1-4]"]);
    assert_eq!((status, err.as_str()), (2, "libi: n9 is not in the session, or is lost\n"));
}

#[test]
fn the_styles_of_output_are_those_of_libi_run() {
    let styled = |style: &str| sorted(&run(&[style, "n[1-2]"], "echo x\n").1).join(",");
    assert_eq!(styled("--label"), "[n1:0] x,[n2:1] x");
    assert_eq!(styled("-l"), "[n1:0] x,[n2:1] x");
    assert_eq!(styled("--tag"), "[0] x,[1] x");
    assert_eq!(styled("--raw"), "x,x");
    let (_, out, _) = run(&["--fold", "n[1-4]"], "[ $LIBI_HOST = n2 ] && echo b || echo a\necho c\n");
    assert_eq!(out, "---- n[1,3-4]\na\n---- n2\nb\n---- n[1-4]\nc\n");
}

#[test]
fn the_status_is_that_of_the_gravest_failure_or_of_exit() {
    let (status, _, err) = run(&["n[1-3]"], "[ $LIBI_HOST = n2 ] || exit 3\ntrue\n");
    assert_eq!((status, err.as_str()), (1, "libi: n[1,3]: exited 3\n"));
    let (status, _, err) = run(&["n1"], "kill -KILL $$\nexit 300\n");
    let expected = "libi: n1: was killed by signal 9\nlibi: exit 300: a status is 0 to 255\n";
    assert_eq!((status, err.as_str()), (2, expected));
    assert_eq!(run(&["n1"], "false\nexit 7\necho not reached\n").0, 7);
    assert_eq!(run(&["n1"], "").0, 0);
    assert_eq!(run(&["n["], "").0, 2);
    assert_eq!(run(&["--hosts", "n1", "n2"], "").0, 2);
    let (status, _, err) = run(&["--agent", "/no/such/agent", "n1"], "true\n");
    assert_eq!((status, err.contains("/no/such/agent")), (3, true), "{err}");
}

#[test]
fn a_command_that_takes_too_long_is_killed_and_its_hosts_are_named() {
    let input = "[ $LIBI_HOST = n1 ] || exec sleep 1000\necho next\n";
    let (status, out, err) = run(&["--time-limit", "500ms", "n[1-3]"], input);
    assert_eq!((status, out.lines().count()), (124, 3), "{err}");
    assert_eq!(err, "libi: n[2-3]: had not ended in time, and was killed\n");
}

#[test]
fn an_interrupt_ends_the_command_and_not_the_session() {
    let mut talk = Talk::new(&["n1"]);
    talk.say("echo up; exec sleep 1000\n");
    assert_eq!(talk.line(), "n1: up\n");
    talk.signal("INT");
    talk.say("trap 'echo no' INT; echo again; while :; do sleep 0.01; done\n");
    assert_eq!(talk.line(), "n1: again\n");
    talk.signal("INT");
    assert_eq!(talk.line(), "n1: no\n");
    talk.signal("INT");
    talk.say("echo end\n");
    assert_eq!(talk.line(), "n1: end\n");
    let (status, out, err) = talk.end();
    let expected = "libi: interrupting the command; a second Ctrl-C kills it\n\
                    libi: n1: was killed by signal 2\n\
                    libi: interrupting the command; a second Ctrl-C kills it\n\
                    libi: n1: was killed by signal 9\n";
    assert_eq!((status, out.as_str(), err.as_str()), (1, "", expected));
}

#[test]
fn a_signal_that_ends_the_session_is_the_status() {
    let mut talk = Talk::new(&["n[1-2]"]);
    talk.say("echo up; exec sleep 1000\n");
    assert!(talk.line().ends_with(": up\n") && talk.line().ends_with(": up\n"));
    talk.signal("TERM");
    assert_eq!(talk.end().0, 128 + 15);
    let mut talk = Talk::new(&["n1"]);
    talk.say("echo up\n");
    assert_eq!(talk.line(), "n1: up\n");
    talk.signal("HUP");
    assert_eq!(talk.child.wait().unwrap().code(), Some(128 + 1));
}

#[test]
fn a_lost_host_is_named_and_the_session_goes_on() {
    let mut talk = Talk::new(&["--tree", "flat", "n[1-3]"]);
    talk.say("[ $LIBI_HOST = n3 ] && kill -KILL $PPID; echo up\n");
    talk.say("@hosts\n");
    let mut lines = [talk.line(), talk.line(), talk.line()];
    lines.sort();
    assert_eq!(lines, ["n1: up\n", "n2: up\n", "n[1-2]\n"]);
    let (status, out, err) = talk.end();
    assert_eq!((status, out.as_str()), (4, ""));
    assert!(err.contains("libi: n3 is lost: ") && err.contains("; 2 hosts left\n"), "{err}");
    assert!(err.contains("libi: n3: is lost: "), "{err}");
}

#[test]
fn without_hosts_the_session_ends() {
    let (status, _, err) = run(&["n1"], "kill -KILL $PPID; sleep 1000\necho not reached\n");
    assert_eq!(status, 4);
    assert!(err.ends_with("libi: no host is left\n"), "{err}");
}

#[test]
fn commands_start_no_further_remote_shell() {
    let lab = Lab::new("seq 2ms\nrem 5ms");
    // No launch is withdrawn in a static tree, however busy the machine is.
    let words = ["shell", "--backend", programs::shell(), "--tree", "binomial", "-w", "n[0-7]"];
    let mut command = lab.command(LIBI, &words);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let script: String = (0..30).map(|number| format!("echo {number}\n")).collect();
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), err.as_str()), (Some(0), ""));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 8 * 30);
    assert_eq!(lab.log().len(), 8, "one for each host, and none for a command");
}

#[test]
fn nothing_outlives_a_shell_that_is_killed() {
    let mark = format!("LIBI_TEST_SHELL_MARK={}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let mut command = shell(&["n[1-3]"]);
    let mut child = command.env(name, value).spawn().unwrap();
    let script = b"trap '' TERM INT HUP; echo up; exec sleep 1000\n";
    let mut input = child.stdin.take().unwrap();
    input.write_all(script).unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert!(line.ends_with(": up\n"), "{line}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("all processes of the session have ended", || processes::bearing(&mark).is_empty());
}
