//! The processes of a run are killed at random moments: nothing is left, all others finish their work, and
//! the exit status tells what was lost.
//!
//! `LIBI_KILLS` is the number of moments for each victim (5 by default), `LIBI_SEED` their seed.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use libi_core::sim::rng::Rng;
use libi_testkit::kills::{moment, moments, pick, seeded};
use libi_testkit::local::{Lab, MARK, SOON, eventually, parent, status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{libi, local};

const HOSTS: &str = "n[1-6]";
const EACH: usize = 2;
const ALL: usize = 6 * EACH;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    FrontEnd,
    Agent,
    Program,
}

#[test]
fn a_front_end_leaves_nothing() {
    kill_at_random_moments(Victim::FrontEnd);
}

#[test]
fn an_agent_costs_the_hosts_that_it_carries_or_the_launch() {
    kill_at_random_moments(Victim::Agent);
}

#[test]
fn a_program_costs_its_rank() {
    kill_at_random_moments(Victim::Program);
}

fn kill_at_random_moments(victim: Victim) {
    let mut random = seeded();
    let lasts = undisturbed();
    for _ in 0..moments(5) {
        // From before anything is launched to when programs have been up for a while.
        let moment = moment(lasts, &mut random);
        println!("{victim:?} is killed after {moment:?} of {lasts:?}");
        kill_after(victim, moment, &mut random);
    }
}

/// Starts a run of programs that have each started a process that no signal ends, and are done when there is
/// a file.
fn begin(lab: &Lab) -> Child {
    let script = format!(
        "(trap '' HUP INT TERM; exec sleep 1000) & echo up; while [ ! -e {} ]; do sleep 0.02; done; echo done",
        lab.path("go")
    );
    let each = EACH.to_string();
    let mut command = libi(&local(&["--hosts", HOSTS, "--per-host", &each, "sh", "-c", &script]));
    command.env(MARK, lab.mark()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// How long a run takes whose programs may end at once.
fn undisturbed() -> Duration {
    let (lab, begun) = (Lab::new(), Instant::now());
    lab.touch("go");
    let ended = ended(&lab, begin(&lab));
    assert_eq!(ended, (Some(0), ALL, String::new()));
    begun.elapsed()
}

/// How a run ends: its status, how many programs were done, and standard error. Nothing that it has started
/// is left.
fn ended(lab: &Lab, child: Child) -> (Option<i32>, usize, String) {
    let output = child.wait_with_output().unwrap();
    lab.is_empty_within(SOON);
    let done = output.stdout.split(|byte| *byte == b'\n').filter(|line| *line == b"done").count();
    (output.status.code(), done, String::from_utf8_lossy(&output.stderr).into_owned())
}

fn kill_after(victim: Victim, moment: Duration, random: &mut Rng) {
    let lab = Lab::new();
    let child = begin(&lab);
    let front = i32::try_from(child.id()).unwrap();
    std::thread::sleep(moment);
    let pid = if victim == Victim::FrontEnd { front } else { find(victim, &lab, front, random) };
    kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    lab.touch("go");
    let (status, done, err) = ended(&lab, child);
    let is_told = err.contains("was killed by signal 9");
    let lost = EACH * err.lines().filter(|line| line.contains(" is lost: ")).count();
    match (victim, status) {
        (Victim::FrontEnd, None) => assert_eq!(err, ""),
        // Before its programs were started: its host is launched again, or the launch is given up.
        (Victim::Agent, Some(0)) => assert_eq!((done, err.as_str()), (ALL, "")),
        (Victim::Agent, Some(3)) => assert!(done == 0 && is_told, "{done}: {err}"),
        (Victim::Agent, Some(4)) => assert!(lost > 0 && done == ALL - lost && is_told, "{done}: {err}"),
        (Victim::Program, Some(1)) => assert!(done == ALL - 1 && is_told, "{done}: {err}"),
        other => panic!("{other:?}, {done} were done: {err}"),
    }
}

/// A process of this kind, as soon as there is one.
fn find(victim: Victim, lab: &Lab, front: i32, random: &mut Rng) -> i32 {
    let mut found = None;
    eventually("there is such a victim", || {
        let living: Vec<i32> = lab.living().into_iter().map(|(pid, _)| pid).collect();
        let is_called = |pid: i32, name: &str| status(pid, "Name").as_deref() == Some(name);
        let parents_of = |name: &'static str| {
            let named = living.iter().filter(move |pid| is_called(**pid, name));
            named.filter_map(|pid| parent(*pid))
        };
        // What has a guardian is an agent.
        let agents: Vec<i32> = parents_of("libi-guardian").filter(|pid| living.contains(pid)).collect();
        let is_program =
            |pid: i32| is_called(pid, "sh") && parent(pid).is_some_and(|parent| agents.contains(&parent));
        let candidates: Vec<i32> = match victim {
            Victim::FrontEnd => vec![front],
            Victim::Agent => agents,
            Victim::Program => living.iter().copied().filter(|pid| is_program(*pid)).collect(),
        };
        found = pick(&candidates, random);
        found.is_some()
    });
    found.unwrap()
}
