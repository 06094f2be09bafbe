//! Jobs and steps that end before their time, by `scancel`, at their time limit or requeued:
//! launches and sessions end with Slurm's own words, and nothing is left.

use std::sync::Arc;
use std::time::{Duration, Instant};

use libi::{LaunchReport, Rules};

use crate::TIMEOUT;
use crate::jobs::{Place, run_inside};
use crate::running::{KILLED, Running, SOON, all_are_named, all_have_started, job, leaders};
use crate::verdicts::{HOSTS, Launch, says};
use libi_testkit::labs::{Slurm, within};
use libi_testkit::programs;

/// The nodes of [`HOSTS`].
const NODES: [&str; 4] = ["s0001", "s0002", "s0003", "s0004"];
/// slurmctld looks for jobs at their time limit each half minute.
const TIME_LIMITS: Duration = Duration::from_secs(45);

/// When a job that has not begun is told again to do so.
const TELL_AGAIN: Duration = Duration::from_secs(10);
/// When a job whose tasks still run is cancelled again.
const CANCEL_AGAIN: Duration = Duration::from_secs(3);

/// How many launches are cancelled at most until one is told what the daemon says.
const LAUNCHES: usize = 3;

/// A launch whose programs run and do not join.
fn stuck<'a>(lab: &'a Slurm, hosts: &str) -> Launch<'a> {
    Launch::of(lab, hosts, &["wait"])
}

/// What Slurm says of a step that has ended in this way.
fn words(job: &str, node: &str) -> String {
    format!("slurmstepd-{node}: error: *** STEP {job}.0 ON {node} CANCELLED AT ")
}

/// How Slurm may say that a job has ended: srun may end before it has printed the first of them.
fn words_of_the_end(job: &str) -> [String; 4] {
    [
        words(job, "s0001"),
        format!("srun: Complete StepId={job}.0"),
        format!("srun: Force Terminated StepId={job}.0"),
        "srun: Job step aborted".to_owned(),
    ]
}

/// The session was told by Slurm that this job has ended.
fn is_revoked(lines: &[String], job: &str) {
    let words = words_of_the_end(job);
    let said = |words: &String| lines.iter().any(|line| line.starts_with(&format!("revoked: {words}")));
    assert!(words.iter().any(said), "none of {words:#?} in {lines:#?}");
}

#[test]
fn a_session_whose_job_or_step_is_cancelled_ends_with_the_words_of_slurm() {
    let Some(lab) = Slurm::up() else { return };
    for step in ["", ".0"] {
        let running = Running::on(&lab, HOSTS);
        let job = job(&lab);
        lab.cancel(&format!("{job}{step}"));
        let lines = running.ends(SOON);
        is_revoked(&lines, &job);
        all_are_named(&lines, &NODES, &[KILLED]);
        lab.nothing_is_left();
    }
}

/// Cancels the job of a launch, or the step of it, and checks that each host has failed with words of
/// Slurm. Returns the report, and the words of the daemon.
fn cancelled_launch(lab: &Slurm, step: &str) -> (Arc<LaunchReport>, String) {
    let (launch, mut cancelled) = (stuck(lab, HOSTS), String::new());
    let report = launch.disturbed(SOON, |mark| {
        all_have_started(mark, NODES.len());
        cancelled = job(lab);
        // Slurm may not have heard yet that the tasks of a step run, and does not end them then.
        let mut told: Option<Instant> = None;
        within(SOON, "the tasks have ended", || {
            if told.is_none_or(|at| at.elapsed() > CANCEL_AGAIN) {
                lab.cancel(&format!("{cancelled}{step}"));
                told = Some(Instant::now());
            }
            leaders(mark).is_empty()
        });
    });
    assert!(!report.is_up(), "{report}");
    let words = words_of_the_end(&cancelled);
    for (host, failure) in report.failed() {
        let cause = failure.cause.to_string();
        assert!(words.iter().any(|words| cause.contains(words)), "{}: {report}", host.name);
    }
    assert_eq!(report.failed().count(), NODES.len(), "{report}");
    lab.nothing_is_left();
    let [daemon, ..] = words;
    (report, daemon)
}

#[test]
fn a_launch_whose_job_or_step_is_cancelled_fails_with_the_words_of_slurm() {
    let Some(lab) = Slurm::up() else { return };
    for step in ["", ".0"] {
        // srun loses the line of the daemon now and then, and not each time.
        let mut launches = (0..LAUNCHES).map(|_| cancelled_launch(&lab, step));
        let said =
            |(report, words): &(Arc<LaunchReport>, String)| report.to_string().contains(words.as_str());
        let (report, words) = launches.find(said).expect("the words of the daemon are told");
        says(&report, "s0001", &[&words]);
    }
}

/// Whether this says that the job had reached its time limit: in the words of the daemon, or in those of
/// srun, which loses the former now and then.
fn tells_of_time_limit(text: &str) -> bool {
    text.ends_with(" DUE TO TIME LIMIT ***") || text.contains("; srun: job time limit to be reached at ")
}

/// One session is up at the time limit of its job, and one is not.
#[test]
fn at_the_time_limit_of_its_job_a_session_ends_and_a_launch_fails_with_the_words_of_slurm() {
    let Some(lab) = Slurm::up() else { return };
    let running = Running::on(&lab, HOSTS);
    let first = job(&lab);
    let rules = Rules { hello_timeout: TIME_LIMITS, ..Rules::default() };
    let stuck = stuck(&lab, "s[0005-0006]").with(|options| options.rules(rules));
    let report = stuck.disturbed_beside(TIME_LIMITS, |mark| {
        all_have_started(mark, 2);
        for job in lab.jobs() {
            lab.end_time_is_now(job.split(' ').next().unwrap());
        }
    });
    assert!(!report.is_up(), "{report}");
    for (host, failure) in report.failed() {
        assert!(tells_of_time_limit(&failure.cause.to_string()), "{}: {report}", host.name);
    }
    assert_eq!(report.failed().count(), 2, "{report}");
    let lines = running.ends(TIME_LIMITS);
    is_revoked(&lines, &first);
    let revoked = lines.iter().find(|line| line.starts_with("revoked: ")).unwrap();
    assert!(tells_of_time_limit(revoked), "{lines:#?}");
    all_are_named(&lines, &NODES, &[KILLED]);
    lab.nothing_is_left();
}

#[test]
#[ignore = "is played for another test, inside a job"]
fn plays_a_front_end_whose_job_is_cancelled() {
    let lab = Slurm::of_another_process();
    let running = Running::on(&lab, HOSTS);
    let job = std::env::var("SLURM_JOB_ID").unwrap();
    lab.cancel(&job);
    let lines = running.ends(SOON);
    is_revoked(&lines, &job);
    all_are_named(&lines, &NODES, &[KILLED]);
}

#[test]
fn a_front_end_in_salloc_hears_that_its_job_is_cancelled() {
    let Some(lab) = Slurm::up() else { return };
    run_inside(&lab, Place::Salloc, &["-N", "4"], "cancelled::plays_a_front_end_whose_job_is_cancelled");
}

/// Submits a batch job in which `libi run` launches members, and waits until they are up; gives its
/// number.
fn submit(lab: &Slurm, up: &str) -> String {
    let words = format!("join talk:barrier only:0:touch:{up} wait");
    let script = format!("exec {} run {} {words}", programs::libi(), lab.member());
    lab.submit(&["-N", "4", "--requeue", "--open-mode=append"], &script)
}

fn is_up(up: &str) {
    within(TIMEOUT, "the session is up", || std::fs::remove_file(up).is_ok());
}

#[test]
fn a_batch_job_that_is_cancelled_or_requeued_takes_its_session_along() {
    let Some(lab) = Slurm::up() else { return };
    let up = lab.path("up");
    let job = submit(&lab, &up);
    is_up(&up);
    lab.requeue(&job);
    lab.nothing_runs();
    println!("requeued: {}", lab.printed_by_script());
    let is = |state: &str| lab.jobs().iter().any(|it| it.starts_with(&format!("{job} {state} ")));
    let mut told: Option<Instant> = None;
    within(TIMEOUT, "it runs again", || {
        // Otherwise it would wait for two minutes from the end of its first run. slurmctld may set that
        // time after it was told; and told again and again, the job would begin ever later.
        let is_due = told.is_none_or(|at| at.elapsed() > TELL_AGAIN);
        if is_due && is("PENDING") && lab.start_time_is_soon(&job) {
            told = Some(Instant::now());
        }
        is("RUNNING")
    });
    is_up(&up);
    lab.cancel(&job);
    lab.nothing_is_left();
    let said = lab.printed_by_script();
    println!("cancelled: {said}");
    assert!(said.contains("libi: SIGTERM: terminating the session"), "{said}");
    assert!(said.contains("*** JOB") && said.contains("DUE TO JOB REQUEUE ***"), "{said}");
}
