//! How `srun` is called, and what its lines mean. The lines are those of Slurm 22.05.

use super::super::tests::{host, program};
use libi_core::hosts::HostList;

use super::*;

fn names(hosts: &[HostSpec]) -> Vec<String> {
    hosts.iter().map(|host| host.name.clone()).collect()
}

fn in_job() -> Srun {
    let variable = |name: &str| match name {
        "SLURM_JOB_ID" => Some("21".to_owned()),
        "SLURM_JOB_NODELIST" => Some("n[1-3]".to_owned()),
        _ => None,
    };
    let mut srun = Srun::new();
    srun.set_environment(&variable);
    srun
}

#[test]
fn one_step_starts_the_hosts_in_their_order() {
    let hosts = [host("n3", None, None), host("n1", None, None)];
    let srun = Srun { args: vec![OsBytes::try_from("--partition=debug").unwrap()], ..Srun::new() };
    let spec = srun.bulk_spec(&hosts.iter().collect::<Vec<_>>(), &program(), "7").unwrap();
    let args: Vec<_> = spec.args.iter().map(ToString::to_string).collect();
    let at = |option: &str| args.iter().position(|arg| arg == option).unwrap();
    assert_eq!(args[at("--nodelist") + 1..][..4], ["n3,n1", "--partition=debug", "/bin/sh", "-c"]);
    assert!(at("--ntasks=2") < at("--nodelist") && at("--distribution=arbitrary") < at("--nodelist"));
    assert!(args.last().unwrap().contains("LIBI_LINK"), "{args:?}");
    assert_eq!(spec.env.len(), 1, "the step shares what the job has");
    assert_eq!(spec.channel, Channel::Rendezvous);
}

#[test]
fn the_job_of_a_killed_start_can_be_cancelled_by_its_name() {
    let words = |srun: &Srun, name| {
        let hosts = [&host("n1", None, None)];
        let spec = srun.bulk_spec(&hosts, &program(), name).unwrap();
        let is_name = |arg: &String| arg.starts_with("--job-name=");
        let args = spec.args.iter().map(ToString::to_string);
        let cleanup = srun.cleanup_spec(&program(), name);
        (args.filter(is_name).collect::<Vec<_>>().concat(), cleanup)
    };
    let slurm = Srun { program: OsBytes::try_from("/opt/slurm/bin/srun").unwrap(), ..Srun::new() };
    let (name, cleanup) = words(&slurm, "5f.2");
    let cleanup = cleanup.unwrap();
    assert_eq!(cleanup.program.to_string(), "/opt/slurm/bin/scancel");
    assert_eq!(cleanup.args.len(), 1);
    assert_eq!(format!("--job-{}", &cleanup.args[0].to_string()[2..]), name);
    assert_ne!(words(&slurm, "5f.3").0, name, "no other start has the name");
    assert_eq!(words(&Srun::new(), "5f.2").1.unwrap().program.to_string(), "scancel");
    let (name, cleanup) = words(&in_job(), "5f.2");
    assert!(!name.contains("5f.2"), "{name}");
    assert_eq!(cleanup, None, "a step ends with the job");
}

#[test]
fn users_ports_and_names_that_look_like_options_are_refused() {
    let spec = |host: HostSpec| Srun::new().bulk_spec(&[&host], &program(), "7");
    assert!(matches!(spec(host("n1", Some("me"), None)), Err(SpecError::NoOption(_, "user"))));
    assert!(matches!(spec(host("n1", None, Some(22))), Err(SpecError::NoOption(_, "port"))));
    assert!(matches!(spec(host("-x", None, None)), Err(SpecError::OptionLike { .. })));
}

#[test]
fn hosts_outside_the_job_are_refused_by_name() {
    let outside = in_job().refuses(&host("n4", None, None)).unwrap();
    assert_eq!(outside, "n4 is not a node of job 21 (n[1-3])");
    assert_eq!(in_job().refuses(&host("n2", None, None)), None);
    assert_eq!(Srun::new().refuses(&host("n4", None, None)), None, "outside a job, Slurm decides");
}

#[test]
fn a_label_tells_the_host() {
    let hosts = names(&[host("n3", None, None), host("n1", None, None)]);
    let read = |line: &'static [u8]| Srun::new().read_line(&hosts, line).clone();
    assert_eq!(read(b"0: hello: 1\n"), StarterLine::Printed("n3", b"hello: 1\n"));
    assert_eq!(read(b"01: \xff\n"), StarterLine::Printed("n1", b"\xff\n"));
    assert_eq!(read(b"2: no such task\n"), StarterLine::Other);
    let execve = b"1: slurmstepd: error: execve(): ./x: No such file or directory\n";
    assert!(matches!(read(execve), StarterLine::Printed("n1", _)));
    let cancelled = b"1: slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-23T11:32:53 ***\n";
    assert_eq!(read(cancelled), StarterLine::Refused(&cancelled[3..]), "it is about all hosts");
    let failed = b"0: slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-11-23T11:32:53 DUE TO NODE \
        FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n";
    assert_eq!(read(failed), StarterLine::Other, "the node is named elsewhere");
}

#[test]
fn lines_of_srun_tell_what_became_of_hosts() {
    let hosts = |text: &str| -> HostList { text.parse().unwrap() };
    let ended = |text: &str, exit| StarterLine::Ended(hosts(text), exit);
    for (line, expected) in [
        ("error: s0002: task 1: Exited with exit code 2", ended("s0002", Exit::Code(2))),
        ("error: s[0001-0002]: tasks 0-1: Exited with exit code 127", ended("s[0001-0002]", Exit::Code(127))),
        ("error: s0001: task 0: Killed", ended("s0001", Exit::Signal(9))),
        ("error: s0001: task 1: Segmentation fault (core dumped)", ended("s0001", Exit::Signal(11))),
        ("error: s0001: task 1: Out Of Memory", ended("s0001", Exit::Signal(9))),
        ("launch/slurm: _task_finish: s0003: task 0: Completed", ended("s0003", Exit::Code(0))),
        ("s0003: task 0: Completed", ended("s0003", Exit::Code(0))),
        (
            "error: Task launch for StepId=9.0 failed on node s0003: Communication connection failure",
            StarterLine::Failed(hosts("s0003")),
        ),
        (
            "error: Task launch for StepId=3.0 failed on node s0001: Job credential revoked",
            StarterLine::EndsAll,
        ),
        ("error: Node failure on s[0002-0003]", StarterLine::Failed(hosts("s[0002-0003]"))),
        ("Required node not available (down, drained or reserved)", StarterLine::Waits),
        ("job 18 queued and waiting for resources", StarterLine::Waits),
        (
            "Job 16 step creation temporarily disabled, retrying (Requested nodes are busy)",
            StarterLine::Waits,
        ),
        ("job 17 has been allocated resources", StarterLine::Proceeds),
        ("Job step aborted: Waiting up to 7 seconds for job step to finish.", StarterLine::EndsAll),
        ("Complete StepId=1.0+0 received", StarterLine::EndsAll),
        ("Force Terminated StepId=2.0", StarterLine::EndsAll),
        ("job time limit to be reached at Wed Nov 25 12:22:31 2026", StarterLine::WillEndAll),
        ("error: task 0: something is Complete ", StarterLine::Other),
        ("error: Unable to allocate resources: Invalid node name specified", StarterLine::Other),
        ("forcing job termination", StarterLine::Other),
    ] {
        let line = format!("srun: {line}\n");
        assert_eq!(Srun::new().read_line(&[], line.as_bytes()), expected, "{line}");
    }
}

#[test]
fn a_task_that_the_kernel_kills_for_lack_of_memory_has_the_line_of_its_daemon() {
    let hosts = names(&[host("n3", None, None), host("n1", None, None)]);
    let line =
        b"1: slurmstepd-n1: error: Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may \
        have been killed by the cgroup out-of-memory handler.\n";
    assert_eq!(Srun::new().read_line(&hosts, line), StarterLine::Printed("n1", &line[3..]));
}

#[test]
fn messages_of_progress_are_no_evidence() {
    for line in [
        "defined options",
        "-------------------- --------------------",
        "(null)              : s[0001-0004]",
        "distribution        : arbitrary",
        "jobid 21: nodes(4):`s[0001-0004]', cpu counts: 1(x4)",
        "launch/slurm: launch_p_step_launch: CpuBindType=(null type)",
        "launching StepId=21.0 on host s0001, 1 tasks: 1",
        "route/default: init: route default plugin loaded",
        "launch/slurm: _task_start: Node s0002, 1 tasks started",
        "launch/slurm: _task_finish: Received task exit notification for 1 task of StepId=21.0 (status=0x0200).",
    ] {
        let line = format!("srun: {line}\n");
        assert_eq!(Srun::new().read_line(&[], line.as_bytes()), StarterLine::Nothing, "{line}");
    }
}

#[test]
fn a_message_may_begin_with_the_path_of_srun() {
    let line = "/opt/slurm/bin/srun: unrecognized option '--no-such-option'";
    assert_eq!(Srun::new().read_line(&[], line.as_bytes()), StarterLine::Refused(line.as_bytes()));
}

#[test]
fn refusals_are_quoted() {
    for line in [
        "error: Unable to allocate resources: Invalid partition name specified",
        "error: Slurm job 10 has expired",
        "error: Unable to create step for job 5: Job/step already completing or completed",
        "Job allocation 2 has been revoked",
        "unrecognized option '--no-such-option'",
        "option '--time' requires an argument",
    ] {
        let line = format!("srun: {line}");
        let printed = format!("{line}\n");
        assert_eq!(Srun::new().read_line(&[], printed.as_bytes()), StarterLine::Refused(line.as_bytes()));
    }
}
