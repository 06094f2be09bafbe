//! Tests of `libi trace`: the text, the JSON document and the drawing of a recorded launch.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::ids::HostIndex;
use libi_trace::{HostLine, Prediction, Timeline};
use serde_json::Value;

const MS: fn(u64) -> Duration = Duration::from_millis;

/// Four hosts: the first launches two, one of them the last that joins; the fourth fails.
fn launch() -> Timeline {
    let host = |name: &str, launcher: Option<u32>, started, greeted, joined| HostLine {
        name: name.to_owned(),
        members: 8,
        launcher: launcher.map(HostIndex),
        attempts: 1,
        started: MS(started),
        hello: Some(MS(greeted)),
        joined: Some(MS(joined)),
        ended: None,
    };
    let mut hosts = vec![
        host("n1", None, 0, 180, 190),
        host("n2", Some(0), 180, 350, 360),
        host("n3", Some(0), 187, 420, 470),
        host("n4", Some(0), 394, 0, 0),
    ];
    hosts[2].attempts = 2;
    (hosts[3].hello, hosts[3].joined) = (None, None);
    hosts[3].ended = Some((MS(500), "ssh exited 255: No route to host\u{1b}[2J\n(after 0.1 s)".to_owned()));
    let predicted = Some(Prediction::greedy(4, Cost::new(MS(7), MS(172))));
    Timeline { session: "demo".to_owned(), hosts, up: Some(MS(500)), predicted }
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("libi-trace-{}-{name}", std::process::id()));
    std::fs::write(&path, content).unwrap();
    path
}

fn libi(input: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_libi"));
    command.arg("trace").args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A program that needs no input may exit before the write.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn printed(output: &Output) -> &str {
    assert_eq!((output.status.code(), std::str::from_utf8(&output.stderr)), (Some(0), Ok("")));
    std::str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn a_recorded_launch_is_explained_as_text() {
    let path = file("people.json", &launch().chrome_json());
    let output = libi("", &[path.to_str().unwrap()]);
    std::fs::remove_file(path).unwrap();
    assert_eq!(
        printed(&output),
        "demo: 3 of 4 hosts joined, 1 failed; the session was up after 0.500 s
predicted      0.344 s for the 2 hosts that joined at their first launch, at SEQ 7 ms, REM 0.172 \
s; they took 0.360 s, 1.05 times as long
start to hello median 0.180 s, half of them 0.170 s to 0.233 s, all 0.170 s to 0.233 s
launches       most by n1: 3 hosts; 1 retry
slowest        n3 0.283 s, n1 0.190 s, n2 0.180 s
last: n3, because
    0.180 s  the front end launched n1, which took 0.180 s
    0.420 s  n1 launched n3 after 1 other (7 ms), which took 0.233 s
    0.470 s  the members of n3 were up, which took 50 ms
failed: n4
  ssh exited 255: No route to host\u{fffd}[2J
  (after 0.1 s)
"
    );
}

#[test]
fn a_recorded_launch_is_one_json_document() {
    let output = libi(&launch().chrome_json(), &["-", "--json"]);
    let seen: Value = serde_json::from_str(printed(&output)).unwrap();
    assert_eq!(
        (&seen["session"], &seen["hosts"], &seen["hosts_joined"]),
        (&"demo".into(), &4.into(), &3.into())
    );
    assert_eq!((&seen["took_s"], &seen["predicted_s"]), (&0.5.into(), &0.344.into()));
    let path: Vec<_> = seen["critical_path"].as_array().unwrap().iter().map(|step| &step["host"]).collect();
    assert_eq!(path, ["n1", "n3"]);
    assert_eq!(seen["critical_path"][0]["launcher"], Value::Null, "the front end");
    assert_eq!(seen["critical_path"][1]["launched_before"], 1);
    assert_eq!(seen["most_launches"]["launcher"], "n1");
    assert_eq!(seen["failures"][0]["hosts"][0], "n4");
    assert_eq!(seen["start_to_hello_s"]["median"], 0.18);
}

#[test]
fn the_file_holds_what_viewers_need() {
    let trace: Value = serde_json::from_str(&launch().chrome_json()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &'static str| events.iter().filter(move |event| event["ph"] == phase);
    assert_eq!(of("X").count(), 3 + 3 + 1);
    for event in of("X") {
        assert!(event["ts"].is_number() && event["dur"].is_number(), "{event}");
        assert_eq!(event["pid"], 1);
        assert!(of("M").any(|named| named["tid"] == event["tid"] && named["name"] == "thread_name"));
    }
    assert!(of("M").any(|event| event["name"] == "process_name" && event["args"]["name"] == "libi: demo"));
    let failed = of("X").find(|event| event["name"] == "failed").unwrap();
    assert!(failed["args"]["cause"].as_str().unwrap().starts_with("ssh exited 255"));
    assert!(
        of("i").any(|event| event["name"] == "session up" && event["ts"] == 500_000.0 && event["s"] == "g")
    );
    assert_eq!(of("C").filter(|event| event["name"] == "hosts up").count(), 3);
    assert_eq!(trace["otherData"]["predicted"]["time_ns"], 358_000_000);
}

#[test]
fn a_recorded_launch_can_be_drawn() {
    let svg = file("drawn.svg", "");
    let output = libi(&launch().chrome_json(), &["-", "--svg", svg.to_str().unwrap()]);
    assert!(printed(&output).starts_with("demo: "));
    assert_eq!(std::fs::read_to_string(&svg).unwrap(), launch().svg());
    std::fs::remove_file(svg).unwrap();
    let output = libi(&launch().chrome_json(), &["-", "--svg", "/nonexistent/trace.svg"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn failures_are_grouped_by_cause_and_folded() {
    let failed = |host: u32| HostLine {
        name: if host.is_multiple_of(3) { format!("a host {host}") } else { format!("node{host:03}") },
        attempts: 1,
        ended: Some((MS(9), if host.is_multiple_of(3) { "refused" } else { "timed out" }.to_owned())),
        ..HostLine::default()
    };
    let timeline = Timeline { hosts: (0..300).map(failed).collect(), ..Timeline::default() };
    let output = libi(&timeline.chrome_json(), &["-"]);
    let lines: Vec<_> = printed(&output).lines().filter(|line| line.starts_with("failed: ")).collect();
    assert!(lines[0].starts_with("failed: node[001-002,004-005,007-008,"), "{}", lines[0]);
    assert!(lines[0].ends_with(",028-029] and 180 more; --json has all"), "{}", lines[0]);
    assert!(lines[1].starts_with("failed: a host 0, a host 3, "), "no list can name these: {}", lines[1]);
    let seen: Value =
        serde_json::from_str(printed(&libi(&timeline.chrome_json(), &["-", "--json"]))).unwrap();
    assert_eq!(seen["failures"][0]["hosts"].as_array().unwrap().len(), 200);
}

#[test]
fn a_launch_without_hosts_is_explained() {
    let output = libi(&Timeline::default().chrome_json(), &["-"]);
    assert_eq!(
        printed(&output),
        "0 of 0 hosts joined; the session was not up, the timeline ends at 0.000 s\n"
    );
}

#[test]
fn an_invalid_timeline_is_rejected_in_one_line() {
    let whole = launch().chrome_json();
    let cut = &whole[..whole.len() / 2];
    let lie = whole.replace("\"hosts\":4", "\"hosts\":4000000000");
    let deep = "[".repeat(100_000);
    let wrong = [
        ("", "not the timeline of a launch"),
        ("{}", "not the timeline of a launch"),
        (cut, "not the timeline of a launch"),
        (deep.as_str(), "not the timeline of a launch"),
        ("{\"traceEvents\":[{\"ph\":\"X\",\"args\":{\"name\":[7]}}],\"otherData\":{}}", "libi_trace"),
        (lie.as_str(), "host 4 of 4000000000 is missing"),
    ];
    for (input, expected) in wrong {
        let output = libi(input, &["-"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{error}");
        assert!(error.starts_with("libi: standard input: ") && error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let missing = libi("", &["/nonexistent/launch.json"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(String::from_utf8(missing.stderr).unwrap().contains("/nonexistent/launch.json: No such file"));
    assert_eq!(libi("", &[]).status.code(), Some(2));
}

#[test]
fn help_has_examples() {
    let help = libi("", &["--help"]);
    assert!(printed(&help).contains("libi trace launch.json --svg launch.svg"));
}
