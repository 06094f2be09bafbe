//! Processes that a launch or a session depends on end: `srun`, a member, slurmctld. Each is
//! reported, or does no harm; nothing is left.

use libi::{Policy, Rules};

use crate::TIMEOUT;
use crate::running::{KILLED, Running, SOON, all_are_named, all_have_started, srun_of};
use crate::verdicts::{HOSTS, Launch, says};
use libi_testkit::labs::{Marked, Process, Slurm, within};

const NODES: [&str; 4] = ["s0001", "s0002", "s0003", "s0004"];

/// A launch whose members join as soon as there is this file.
fn held<'a>(lab: &'a Slurm, go: &str) -> Launch<'a> {
    let _ = std::fs::remove_file(go); // there may be none
    Launch::of(lab, HOSTS, &[&format!("await:{go}"), "join", "talk:barrier", "finish:30000"])
}

/// Kills such a process on a node, as the kernel does when memory is short.
fn kill_on(mark: &Marked, node: &str, is_meant: fn(&Process) -> bool) {
    let variable = format!("SLURMD_NODENAME={node}\0");
    let is_there =
        |pid: i32| libi_testkit::processes::environment(pid).is_some_and(|all| all.contains(&variable));
    let all = mark.processes();
    let victim = all.iter().find(|process| is_meant(process) && is_there(process.pid));
    victim.unwrap_or_else(|| panic!("{all:?}")).kill();
}

#[test]
fn a_session_whose_srun_is_killed_ends_and_leaves_no_job() {
    let Some(lab) = Slurm::up() else { return };
    let running = Running::on(&lab, HOSTS);
    srun_of(&running.mark).unwrap().kill();
    let lines = running.ends(SOON);
    let is_revoked =
        |line: &String| line.starts_with("revoked: ") && line.ends_with("srun was killed by signal 9");
    assert!(lines.iter().any(is_revoked), "{lines:#?}");
    // How the programs end is not known without srun.
    all_are_named(&lines, &NODES, &[KILLED, "closed the link"]);
    lab.nothing_is_left();
}

#[test]
fn a_launch_whose_srun_is_killed_is_tried_again_and_leaves_no_job() {
    let Some(lab) = Slurm::up() else { return };
    let go = lab.path("go");
    let report = held(&lab, &go).disturbed(SOON, |mark| {
        all_have_started(mark, NODES.len());
        srun_of(mark).unwrap().kill();
        std::fs::write(&go, "").unwrap();
    });
    assert!(report.is_up(), "{report}");
    lab.nothing_is_left();
}

#[test]
fn a_member_that_is_killed_as_for_lack_of_memory_is_named() {
    let Some(lab) = Slurm::up() else { return };
    let go = lab.path("go");
    let once = Rules { attempts: 1, ..Rules::default() };
    let policy = |least| {
        let rules = once;
        held(&lab, &go).with(|options| options.rules(rules).policy(least))
    };
    let report = policy(Policy::All).disturbed(SOON, |mark| {
        all_have_started(mark, NODES.len());
        kill_on(mark, "s0003", |process| process.is_leader);
    });
    assert!(!report.is_up(), "{report}");
    says(&report, "s0003", &["was killed by signal 9"]);

    let report = policy(Policy::AtLeast(3)).disturbed(SOON, |mark| {
        all_have_started(mark, NODES.len());
        kill_on(mark, "s0003", |process| process.is_leader);
        std::fs::write(&go, "").unwrap();
    });
    assert!(report.is_up() && report.joined() == 3, "{report}");
    says(&report, "s0003", &["was killed by signal 9"]);

    let mut running = Running::on(&lab, HOSTS);
    kill_on(&running.mark, "s0003", |process| process.is_member);
    running.hears(" on s0003 was killed by signal 9");
    assert!(!running.heard.lines.iter().any(|line| line.contains(" is lost: ")), "{:?}", running.heard.lines);
    kill_on(&running.mark, "s0003", |process| process.is_leader);
    running.hears(") is lost: was killed by signal 9");
    running.leave();
    lab.nothing_is_left();
}

#[test]
fn a_launch_and_a_session_outlive_a_restart_of_the_controller() {
    let Some(lab) = Slurm::up() else { return };
    let go = lab.path("go");
    let report = held(&lab, &go).disturbed(TIMEOUT, |mark| {
        all_have_started(mark, NODES.len());
        lab.halt_controller();
        std::fs::write(&go, "").unwrap();
        lab.resume_controller();
    });
    assert!(report.is_up() && report.joined() == 4, "{report}");

    // It is not there when the launch begins.
    lab.halt_controller();
    let report = Launch::of(&lab, HOSTS, &["join", "finish:30000"]).disturbed(TIMEOUT, |mark| {
        within(TIMEOUT, "srun runs", || srun_of(mark).is_some());
        lab.resume_controller();
    });
    assert!(report.is_up() && report.joined() == 4, "{report}");

    let (one, two) = (lab.path("one"), lab.path("two"));
    let [await_one, await_two] = [&one, &two].map(|file| format!("await:{file}"));
    let begin = ["join", "talk:barrier", "out:talks", &await_one, "talk:alltoall:1000", "out:again"];
    let words = [&begin[..], &[&await_two, "talk:alltoall:1000", "finish:30000"]].concat();
    let mut running = Running::with(&lab, HOSTS, &crate::options(lab.srun()), &words);
    lab.halt_controller();
    std::fs::write(&one, "").unwrap();
    let again = |heard: &libi_testkit::local::Heard| (0..8).all(|rank| heard.out(rank).ends_with("again\n"));
    running.heard.until(&running.front, "all talk without it", again);
    lab.resume_controller();
    std::fs::write(&two, "").unwrap();
    let lines = running.ends(TIMEOUT);
    assert_eq!(lines.iter().filter(|line| line.ends_with(" exited 0")).count(), 8, "{lines:#?}");
    lab.nothing_is_left();
}
