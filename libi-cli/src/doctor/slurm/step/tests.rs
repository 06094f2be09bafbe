//! What lines of Slurm 22.05 and of the probe make of nodes.

use libi::HostList;

use super::*;

/// The findings of an examination of n1 and n2 with one address.
fn after(play: impl FnOnce(&mut StepExam<'_>)) -> Vec<NodeFinding> {
    let (srun, hosts) = (Srun::new(), HostList::parse("n[1-2]").unwrap());
    let nodes: Vec<_> = hosts.iter().collect();
    let mut exam = StepExam::new(&srun, &nodes, false, vec!["192.0.2.1:4711".parse().unwrap()]);
    play(&mut exam);
    exam.conclude(false)
}

fn probed(exam: &mut StepExam<'_>, task: usize) {
    for line in
        ["", "libi-doctor 1", "kernel Linux 6.1", "machine x86_64", "files 1024", "tool bash", "ready"]
    {
        exam.on_line(&format!("{task}: {line}"));
    }
}

/// The input has arrived there.
fn answered(exam: &mut StepExam<'_>, task: usize) {
    probed(exam, task);
    exam.on_line(&format!("{task}: dialled 0 no"));
}

fn problem(found: &NodeFinding) -> Option<NodeProblem> {
    found.problem.as_ref().map(|(problem, _)| problem.clone())
}

#[test]
fn a_node_that_answers_and_connects_is_fine() {
    let found = after(|exam| {
        exam.on_line("srun: launching StepId=7.0 on host n1, 1 tasks: 0");
        (0..2).for_each(|task| answered(exam, task));
        exam.on_arrival(0, 0);
    });
    assert_eq!((problem(&found[0]), problem(&found[1])), (None, Some(NodeProblem::NoConnection)));
    assert_eq!(found[0].direct, Direct::Works(vec!["192.0.2.1:4711".parse().unwrap()]));
    assert_eq!((found[0].kernel.as_deref(), found[0].files.as_deref()), (Some("Linux 6.1"), Some("1024")));
    assert!(found[1].problem.as_ref().unwrap().1.contains("192.0.2.1:4711"));
}

#[test]
fn nodes_that_got_no_input_because_of_another_node_are_examined_again() {
    let line = "srun: error: Task launch for StepId=64.0 failed on node n2: Communication connection failure";
    let found = after(|exam| {
        probed(exam, 0);
        exam.on_line(line);
        exam.on_line("srun: error: Application launch failed: Communication connection failure");
        exam.on_line("srun: error: n1: task 0: Killed");
        exam.ended(ExitStatus::Code(1));
    });
    assert_eq!(found[1].problem, Some((NodeProblem::NotStarted, line.to_owned())));
    assert_eq!(problem(&found[0]), Some(NodeProblem::Refused));
    assert_eq!(again(&found), [0]);
    assert!(again(&found[..1]).is_empty(), "no node is the reason");
}

#[test]
fn a_start_that_is_refused_is_the_problem_of_all_nodes() {
    let line = "srun: error: Unable to allocate resources: Invalid node name specified";
    let found = after(|exam| {
        exam.on_line(line);
        exam.ended(ExitStatus::Code(1));
    });
    for found in found {
        assert_eq!(found.problem, Some((NodeProblem::Refused, line.to_owned())));
    }
}

#[test]
fn a_step_in_the_queue_is_told_from_a_silent_node() {
    let waiting = "srun: job 18 queued and waiting for resources";
    let found = after(|exam| {
        exam.on_line(waiting);
        assert_eq!(exam.waits(), Some(waiting));
        exam.timed_out();
    });
    assert_eq!(found[0].problem, Some((NodeProblem::Waits, waiting.to_owned())));
    let found = after(|exam| {
        exam.on_line(waiting);
        exam.on_line("srun: job 18 has been allocated resources");
        assert_eq!(exam.waits(), None);
        answered(exam, 1);
        exam.on_arrival(1, 0);
        exam.timed_out();
    });
    assert_eq!((problem(&found[0]), problem(&found[1])), (Some(NodeProblem::Silent), None));
}

#[test]
fn a_task_that_ends_without_an_answer_is_named_by_srun() {
    let line = "srun: error: n1: task 0: Exited with exit code 127";
    let found = after(|exam| {
        exam.on_line(line);
        answered(exam, 1);
        exam.on_arrival(1, 0);
    });
    assert_eq!(found[0].problem, Some((NodeProblem::Ended, line.to_owned())));
    assert_eq!(problem(&found[1]), None);
}
