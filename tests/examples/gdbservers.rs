//! The example that has gdbservers attach, with a real gdbserver and a real gdb.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::play::{Play, SOON, TIMEOUT, example, head, without_numbers};
use libi_testkit::native::{self, Link};

const SOURCE: &str = "c/gdbservers.c";

/// Whether both programs are installed and may attach to processes that they have not started. With
/// `CI=true` this is required.
fn can_be_tried() -> bool {
    let missing = ["gdbserver", "gdb"].into_iter().find(|name| {
        let said = Command::new(name).arg("--version").stdin(Stdio::null()).output();
        !said.is_ok_and(|said| said.status.success())
    });
    let against = missing.map(|name| format!("{name} is missing")).or_else(|| {
        let victim = Victim::new();
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-p", &victim.0.id().to_string()]);
        let said = native::run_command(&mut gdb, TIMEOUT).err;
        let refused = said.contains("ptrace: Operation not permitted");
        refused.then(|| format!("who has not started a process may not attach to it (ptrace_scope?): {said}"))
    });
    if let Some(reason) = &against {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{reason}");
        eprintln!("not tried: {reason}");
    }
    against.is_none()
}

/// A process that is none of the example's.
struct Victim(Child);

impl Victim {
    fn new() -> Self {
        Self(Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap())
    }

    /// Its state, and the process that traces it: 0 for none.
    fn state(&self) -> (String, String) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        (of("State:"), of("TracerPid:"))
    }

    fn goes_on(&self) -> bool {
        // It sleeps, or is just about to, after it was stopped.
        matches!(self.state(), (state, tracer) if ["S", "R"].contains(&&*state) && tracer == "0")
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The ports in the table that it prints.
fn ports(lines: &[String], count: usize) -> Vec<u16> {
    let rows = lines[1..=count].iter().map(|line| line.split_whitespace().nth(1).unwrap().parse().unwrap());
    rows.collect()
}

#[test]
fn gdb_connects_where_the_table_says_and_the_processes_go_on() {
    if !can_be_tried() {
        return;
    }
    for link in [Link::Shared, Link::Static] {
        let victims = [Victim::new(), Victim::new()];
        let targets: Vec<_> =
            (1..).zip(&victims).map(|(host, victim)| format!("node{host}:{}", victim.0.id())).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let program = example(SOURCE, link);
        let mut play = Play::start(&program, &targets);
        let lines = play.until(|lines| lines.iter().any(|line| line.starts_with("gdb -p"))).to_vec();
        assert!(victims.iter().all(|victim| victim.state().0 == "t"), "they are traced, and stand still");

        // The first is let go by gdb, the second by the example.
        let connect = format!("target remote localhost:{}", ports(&lines, 2)[0]);
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-ex", &connect, "-ex", "info inferiors", "-ex", "detach"]);
        let said = native::run_command(&mut gdb, TIMEOUT);
        let wanted = format!("process {}", victims[0].0.id());
        assert!(said.out.contains(&wanted) && said.out.contains("detached"), "{said:#?}");

        let lines = without_numbers(&play.ends_well(), " ");
        assert_eq!(lines, without_numbers(&head(SOURCE), " "));
        assert!(victims.iter().all(Victim::goes_on), "{:?} {:?}", victims[0].state(), victims[1].state());
    }
}

#[test]
fn it_brings_processes_to_try_with_and_ends_them() {
    if !can_be_tried() {
        return;
    }
    let program = example(SOURCE, Link::Shared);
    let lines = Play::start(&program, &[]).ends_well();
    assert_eq!(
        without_numbers(&lines, " "),
        [
            "HOST PORT PID",
            "alpha N N",
            "alpha N N",
            "beta N N",
            "3 of N gdbservers answer",
            "3 of N processes go on without a gdbserver",
            "3 processes that were started to try this are ended",
        ]
    );
}

#[test]
fn a_process_that_is_not_there_is_told_beside_those_that_are() {
    if !can_be_tried() {
        return;
    }
    let victim = Victim::new();
    let targets = [format!("here:{}", victim.0.id()), "there:4194304".to_owned()]; // no process has this number
    let program = example(SOURCE, Link::Shared);
    let ended = native::run(&*program, &targets, TIMEOUT);
    assert!(ended.code == Some(1) && ended.err.is_empty(), "{ended:#?}");
    assert!(ended.out.contains("there               -  4194304 Cannot attach"), "{}", ended.out);
    assert!(ended.out.contains("\n1 of 2 gdbservers answer\n"), "{}", ended.out);
    assert!(ended.out.contains("\n1 of 2 processes go on without a gdbserver\n"), "{}", ended.out);
    assert!(victim.goes_on(), "{:?}", victim.state());
}

#[test]
fn a_killed_front_end_leaves_no_gdbserver_and_the_processes_go_on() {
    if !can_be_tried() {
        return;
    }
    let program = example(SOURCE, Link::Shared);
    for lines in [0, 1, 4] {
        let victims = [Victim::new(), Victim::new()];
        let targets: Vec<_> = victims.iter().map(|victim| format!("node:{}", victim.0.id())).collect();
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        let mut play = Play::start(&program, &targets);
        play.until(|printed| printed.len() >= lines);
        play.kill();
        play.nothing_is_left();
        let deadline = Instant::now() + SOON;
        while !victims.iter().all(Victim::goes_on) {
            assert!(Instant::now() < deadline, "{:?} {:?}", victims[0].state(), victims[1].state());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
