//! The interface for jobs in C and C++.

use libi_testkit::native::{self, Link};

use crate::TIMEOUT;
use crate::launchers::{Mpirun, OPEN_MPI, compiled, launchers};

/// A tool that launches a job under control, and is the daemon beside it.
fn plays(source: &str, name: &str, link: Link, flags: &[&str], says_launcher: bool) {
    let program = native::compile(name, &[source], link, flags);
    for launcher in launchers() {
        let mut command = std::process::Command::new(&program);
        command.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
        command.args(launcher).args(["3", "--", "/bin/sh", "-c", "exit 4"]);
        let ended = native::run_command(&mut command, TIMEOUT);
        assert_eq!(ended.code, Some(0), "{launcher:?}: {}{}", ended.out, ended.err);
        let kind = if launcher == OPEN_MPI { 2 } else { 3 };
        let first = format!("launcher {kind}, 3 processes, Slurm job none\n");
        let said = ended.out.strip_prefix(if says_launcher { &first } else { "" });
        // Open MPI reports the end of a rank with such a status at length.
        assert!(said.is_some_and(|said| said.contains("ended with status 4\n")), "{}", ended.out);
    }
    std::fs::remove_file(program).unwrap();
}

#[test]
fn a_tool_in_c_controls_a_job() {
    plays("tests/c/jobs/job.c", "job-c", Link::Shared, &[], true);
    plays("tests/c/jobs/job.c", "job-c-static", Link::Static, &[], true);
}

#[test]
fn a_tool_in_cpp_controls_a_job() {
    plays("tests/c/jobs/job.cpp", "job-cpp", Link::Shared, &[], false);
}

/// The example that has gdbservers attach, with a real gdbserver.
#[test]
fn gdbservers_attach_to_all_processes_of_a_job() {
    let Some(rank) = compiled("rank") else { return };
    let mut mpirun = Mpirun::of(4, &rank, &[]);
    let said = mpirun.said(4);
    let program = native::compile("gdbservers", &["examples/c/gdbservers.c"], Link::Shared, &[]);
    let mut tool = std::process::Command::new(&program);
    let ended = native::run_command(tool.arg("--job").arg(mpirun.pid().to_string()), TIMEOUT);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    for pid in said.values() {
        let is_of = |line: &str| line.split_whitespace().nth(2) == Some(&pid.to_string());
        assert!(ended.out.lines().any(is_of), "{pid}: {}", ended.out);
    }
    assert!(ended.out.contains("4 of 4 gdbservers answer"), "{}", ended.out);
    assert!(ended.out.contains("4 of 4 processes go on without a gdbserver"), "{}", ended.out);
    // A process that is no launcher.
    let mut tool = std::process::Command::new(&program);
    let ended = native::run_command(tool.args(["--job", "1"]), TIMEOUT);
    assert!(ended.code == Some(1) && ended.err.contains("process 1"), "{}", ended.err);
    std::fs::remove_file(program).unwrap();
}
