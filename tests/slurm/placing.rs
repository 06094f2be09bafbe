//! On which nodes members run: those that the host list names, in its order, whatever order Slurm
//! prefers and whatever else runs in the job.

use std::process::{Child, Command, Stdio};

use libi::{Distribution, Exit, FrontEnd, SessionId};

use crate::jobs::{Place, run_inside};
use crate::{TIMEOUT, options};
use libi_testkit::labs::{Marked, Slurm, within};
use libi_testkit::local::{Heard, launch_with};

/// What each member does: it prints its rank, the host that libi says it is on, and Slurm's name of
/// the node.
const WHERE: [&str; 5] = ["join", "talk:barrier", "out:{rank} {host}", "env:SLURMD_NODENAME", "finish:30000"];
/// Nodes that are named twice, against Slurm's order.
const MIXED: &str = "s0007:2,s0003,s0005,s0007:1,s0001:2";
const MIXED_NODES: [&str; 7] = ["s0007", "s0007", "s0003", "s0005", "s0007", "s0001", "s0001"];

/// Launches them in one session, and checks on which node each rank is.
fn are_on(lab: &Slurm, mark: &Marked, distributions: &[Distribution], nodes: &[&str]) {
    let front = FrontEnd::new().unwrap();
    let session = launch_with(&front, distributions, &options(lab.srun()));
    let heard = Heard::all(&front);
    for (rank, node) in (0..).zip(nodes) {
        assert_eq!(heard.out(rank), format!("{rank} {node}\n{node}\n"), "{}", heard.described());
        assert_eq!(heard.exits[&rank], Exit::Code(0));
    }
    assert_eq!(session.size() as usize, nodes.len());
    drop((session, front));
    mark.nothing_is_left();
}

fn mixed_nodes(lab: &Slurm) {
    let mark = Marked::new();
    are_on(lab, &mark, &[mark.program(&lab.member(), MIXED, &WHERE)], &MIXED_NODES);
}

/// Starts a step of this job that has every processor of its nodes, and waits until it runs.
fn occupy(lab: &Slurm, nodes: &str) -> Child {
    let mut srun = lab.command("srun");
    let srun = srun.args(["-N", nodes, "--cpus-per-task=32", "sleep", "1000"]);
    let srun = srun.stdin(Stdio::null()).spawn().unwrap();
    within(TIMEOUT, "the step runs", || lab.steps().iter().any(|step| step.contains("sleep")));
    srun
}

fn ends(mut step: Child) {
    let pid = nix::unistd::Pid::from_raw(step.id().cast_signed());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    step.wait().unwrap();
}

#[test]
fn ranks_follow_the_host_list_outside_jobs() {
    let Some(lab) = Slurm::up() else { return };
    mixed_nodes(&lab);
    lab.nothing_is_left();
}

#[test]
fn several_programs_in_a_session_and_several_sessions_have_their_nodes() {
    let Some(lab) = Slurm::up() else { return };
    let mark = Marked::new();
    let other = lab.path("other");
    std::fs::copy(lab.member(), &other).unwrap();
    let one = mark.program(&lab.member(), "s0004,s0002:2", &WHERE);
    let two = mark.program(&other, "s0002,s0006", &WHERE);
    are_on(&lab, &mark, &[one, two], &["s0004", "s0002", "s0002", "s0002", "s0006"]);

    let front = FrontEnd::new().unwrap();
    let of = |id: u32| mark.program(&lab.member(), "s0003:2,s0001", &WHERE).session(SessionId(id));
    let sessions = front.launch_all(&[of(0), of(1)], &options(lab.srun())).unwrap();
    let mut heard = [Heard::default(), Heard::default()];
    while !heard.iter().all(|heard| heard.done) {
        let event = front.next_event(TIMEOUT).unwrap();
        heard[event.session().0 as usize].note(event);
    }
    for heard in &heard {
        for (rank, node) in (0..).zip(["s0003", "s0003", "s0001"]) {
            assert_eq!(heard.out(rank), format!("{rank} {node}\n{node}\n"), "{}", heard.described());
        }
    }
    drop((sessions, front));
    mark.nothing_is_left();
    lab.nothing_is_left();
}

#[test]
#[ignore = "is played for another test, inside a job"]
fn plays_a_front_end_in_a_job_that_has_other_steps() {
    let lab = Slurm::of_another_process();
    mixed_nodes(&lab);

    let step = occupy(&lab, "8");
    let another = Command::new("srun").args(["-N", "8", "--immediate=2", "true"]).output().unwrap();
    assert!(!another.status.success(), "the step does not have every processor");
    mixed_nodes(&lab);
    std::thread::scope(|scope| {
        let both = [(); 2].map(|()| scope.spawn(|| mixed_nodes(&lab)));
        both.into_iter().for_each(|one| one.join().unwrap());
    });
    assert_eq!(lab.steps().iter().filter(|step| step.contains("sleep")).count(), 1, "it goes on");
    ends(step);
}

#[test]
fn sessions_have_their_nodes_beside_a_step_with_every_processor_and_beside_each_other() {
    let Some(lab) = Slurm::up() else { return };
    let role = "placing::plays_a_front_end_in_a_job_that_has_other_steps";
    run_inside(&lab, Place::Salloc, &["-N", "8", "--exclusive"], role);
    run_inside(&lab, Place::Sbatch, &["-N", "8", "--exclusive"], role);
}
