//! Hosts that are reached by the stand-in shell, and daemons beside a job there.

use libi::job::Job;
use libi::{Backend, Distribution, FrontEnd, LaunchOptions, OsBytes, Session, Shell};
use libi_testkit::programs;
use libi_testkit::shell::Lab;

/// The stand-in shell, as a back-end.
pub(crate) fn shell(lab: &Lab) -> Backend {
    let config = format!("LIBI_TEST_SHELL={}", lab.0.join("config").display());
    let words = ["-C", lab.0.to_str().unwrap(), &config, programs::shell()];
    let word = |word: &str| OsBytes::try_from(word).unwrap();
    Backend::Shell(Shell { args: words.into_iter().map(word).collect(), ..Shell::new(word("env")) })
}

/// Daemons beside a job that print their targets, on hosts that the stand-in shell reaches.
pub(crate) fn beside(job: &Job, front: &FrontEnd, lab: &Lab) -> Session {
    let daemon = Distribution::new(programs::member()).args(["join", "targets", "finish:10000"]);
    front.launch_beside(job, daemon, &LaunchOptions::local().backend(shell(lab))).unwrap()
}
