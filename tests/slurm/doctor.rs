//! `libi doctor` under a real Slurm: what it says is what a launch meets.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use libi_testkit::labs::{Slurm, within};
use libi_testkit::{native, programs};

use crate::TIMEOUT;
use crate::jobs::said;

/// How long a job that is given up may take to leave the queue.
const SOON: Duration = Duration::from_secs(20);

/// `libi doctor` with these words, in the environment of a user of this Slurm.
fn doctor(lab: &Slurm, words: &[&str]) -> Command {
    let mut command = lab.plain(programs::libi());
    native::without_job(&mut command);
    command.arg("doctor").args(words);
    command
}

fn examined(output: &Output) -> String {
    println!("{}: {}", output.status, said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_doctor_takes_the_nodes_of_the_job_and_they_connect_to_it() {
    let Some(lab) = Slurm::up() else { return };
    let output = lab.salloc(&["-Q", "-N", "8"], &[programs::libi(), "doctor", "--program", "sh"]).output();
    let output = output.unwrap();
    let text = examined(&output);
    assert!(text.contains("8 hosts through srun") && text.contains(": a launch would work\n"), "{text}");
    assert!(text.contains("of s[0001-0008]\nsrun has --overlap") && text.contains("pmi2"), "{text}");
    assert!(text.contains("s[0001-0008]  yes      executable"), "{text}");
    lab.nothing_is_left();

    let words = ["doctor", "--hosts", "s0001,s0032"];
    let output =
        lab.salloc(&["-Q", "-N", "2"], &[&[programs::libi()], &words[..]].concat()).output().unwrap();
    let text = examined(&output);
    assert!(text.contains("a launch would work on 1 of them"), "{text}");
    assert!(text.contains("s0032  cannot be in a step of this job: s0032 is not a node of job"), "{text}");
    lab.nothing_is_left();
}

#[test]
fn the_doctor_names_each_node_that_a_launch_would_lose() {
    let Some(lab) = Slurm::up() else { return };
    lab.set("s0003", "drain");
    lab.distrust("s0004");
    let mut command = doctor(&lab, &["--backend", "srun", "--timeout", "60s", "s[0001-0005],s0099"]);
    let output = command.output().unwrap();
    let text = examined(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("a launch would work on 3 of them"), "{text}");
    assert!(text.contains("s0003  is drained: no job begins there: test"), "{text}");
    assert!(text.contains("s0004  cannot be started by srun: srun: error: Task launch for"), "{text}");
    assert!(text.contains("s0099  is unknown to Slurm"), "{text}");
    lab.restore();
    lab.nothing_is_left();
}

/// The same starts srun in `libi run` and in the doctor.
#[test]
fn a_job_in_the_queue_goes_with_the_program_that_is_killed() {
    let Some(lab) = Slurm::up() else { return };
    let mut holder = lab.salloc(&["-Q", "-K", "-N", "1"], &["sleep", "1000"]).spawn().unwrap();
    let running = |jobs: &[String]| jobs.iter().any(|job| job.contains("RUNNING"));
    within(TIMEOUT, "the first job runs", || running(&lab.jobs()));
    let first = lab.jobs()[0].split(' ').next().unwrap().to_owned();
    let run = ["run", "--backend", "srun", "--hosts", "s0002", "sh"];
    for words in [&run[..], &["doctor", "--backend", "srun", "s0002"]] {
        let mut command = lab.plain(programs::libi());
        native::without_job(command.args(words)).env("SLURM_DEPENDENCY", format!("afterany:{first}"));
        let mut waiting = command.stdin(Stdio::null()).spawn().unwrap();
        within(TIMEOUT, "the second job waits", || lab.jobs().iter().any(|job| job.contains("PENDING")));
        waiting.kill().unwrap();
        waiting.wait().unwrap();
        within(SOON, "it has left the queue", || lab.jobs().len() == 1);
    }
    lab.cancel(&first);
    holder.wait().unwrap();
    lab.nothing_is_left();
}
