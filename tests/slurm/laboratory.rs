//! The laboratory itself: steps inside and outside allocations, and each way to break a node.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::jobs::said;
use libi_testkit::labs::{Slurm, within};

const TIMEOUT: Duration = Duration::from_secs(60);
const NODES: usize = 32;
/// Each task prints the node that it is on.
const TASK: [&str; 3] = ["sh", "-c", "echo $SLURMD_NODENAME"];

fn sorted(output: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(output).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

fn nodes(count: usize) -> Vec<String> {
    (1..=count).map(|node| format!("s{node:04}")).collect()
}

/// A step on so many nodes.
fn step(lab: &Slurm, nodes: usize) -> Command {
    let mut srun = lab.command("srun");
    srun.args(["-N", &nodes.to_string(), "--immediate=30"]).args(TASK);
    srun
}

/// This fails within a bounded time, and srun says that.
fn fails(command: &mut Command, words: &str) {
    let began = Instant::now();
    let output = command.output().unwrap();
    let said = said(&output);
    println!("{:?}: {}\n{said}", began.elapsed(), output.status);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(words), "no {words:?} in {said}");
    assert!(began.elapsed() < TIMEOUT, "{said}");
}

/// How many processes of jobs are this program.
fn named(lab: &Slurm, program: &str) -> usize {
    lab.processes().iter().filter(|process| process.split(' ').nth(1) == Some(program)).count()
}

/// Every node works.
fn all_work(lab: &Slurm) {
    let output = step(lab, NODES).output().unwrap();
    assert_eq!(sorted(&output.stdout), nodes(NODES), "{}", said(&output));
    lab.nothing_is_left();
}

#[test]
fn a_step_has_a_task_on_each_node_outside_allocations_in_salloc_and_in_sbatch() {
    let Some(lab) = Slurm::up() else { return };
    for count in [3, NODES] {
        let output = step(&lab, count).output().unwrap();
        assert_eq!(sorted(&output.stdout), nodes(count), "outside: {}", said(&output));
        lab.nothing_is_left();

        let options = ["-N", &count.to_string()];
        let output = lab.salloc(&options, &[&["srun"], &TASK[..]].concat()).output().unwrap();
        assert_eq!(sorted(&output.stdout), nodes(count), "in salloc: {}", said(&output));
        lab.nothing_is_left();

        let output = lab.sbatch(&options, "srun sh -c 'echo $SLURMD_NODENAME'");
        assert_eq!(sorted(&output.stdout), nodes(count), "in sbatch: {}", said(&output));
        lab.nothing_is_left();
    }
}

#[test]
fn a_step_that_is_cancelled_leaves_nothing() {
    let Some(lab) = Slurm::up() else { return };
    let mut srun = lab.command("srun").args(["-N", "8", "sleep", "1000"]).spawn().unwrap();
    within(TIMEOUT, "all tasks sleep", || named(&lab, "sleep") == 8);
    let [step] = &lab.steps()[..] else { panic!("one step") };
    lab.cancel(step.split('.').next().unwrap());
    srun.wait().unwrap();
    lab.nothing_is_left();
}

#[test]
fn a_node_without_its_slurmd_fails_a_step_and_works_again_when_that_is_back() {
    let Some(lab) = Slurm::up() else { return };
    lab.stop("s0002");
    fails(&mut step(&lab, 4), "on node s0002: Communication connection failure");
    lab.start("s0002");
    lab.restore();
    all_work(&lab);
}

#[test]
fn a_node_that_fails_its_prolog_is_named_and_works_again_after_that() {
    let Some(lab) = Slurm::up() else { return };
    lab.fail_prolog("s0003");
    fails(&mut step(&lab, 4), "on node s0003: Job prolog failed");
    within(TIMEOUT, "it is drained", || lab.state("s0003").starts_with("drain"));
    lab.restore();
    all_work(&lab);
}

#[test]
fn a_node_with_another_munge_key_is_named_and_works_again_with_the_right_one() {
    let Some(lab) = Slurm::up() else { return };
    lab.distrust("s0004");
    fails(&mut step(&lab, 4), "on node s0004: Zero Bytes were transmitted or received");
    lab.restore();
    all_work(&lab);
}

#[test]
fn a_node_that_is_down_or_drained_gets_no_step_until_it_is_resumed() {
    let Some(lab) = Slurm::up() else { return };
    for state in ["down", "drain"] {
        lab.set("s0001", state);
        let mut srun = lab.command("srun");
        fails(srun.args(["-w", "s0001", "--immediate=1"]).args(TASK), "Required node not available");
        lab.nothing_is_left();
        lab.set("s0001", "resume");
        within(TIMEOUT, "it is idle", || lab.state("s0001") == "idle");
    }
    all_work(&lab);
}

#[test]
fn a_step_outlives_a_restart_of_the_controller() {
    let Some(lab) = Slurm::up() else { return };
    let go = lab.path("go");
    let wait = format!("until [ -e {go} ]; do sleep 0.1; done; echo $SLURMD_NODENAME");
    let mut srun = lab.command("srun");
    srun.args(["-N", "4", "sh", "-c", &wait]).stdout(std::process::Stdio::piped());
    let srun = srun.spawn().unwrap();
    within(TIMEOUT, "all tasks wait", || named(&lab, "sh") == 4);
    lab.halt_controller();
    lab.resume_controller();
    std::fs::write(&go, "").unwrap();
    let output = srun.wait_with_output().unwrap();
    assert_eq!(sorted(&output.stdout), nodes(4), "{}", said(&output));
    lab.nothing_is_left();
    lab.restore();
    all_work(&lab);
}
