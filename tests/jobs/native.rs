//! The interface for jobs in C and C++.

use libi_testkit::native::{self, Link};

use crate::TIMEOUT;
use crate::controlled::{OPEN_MPI, launchers};

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
