//! What Slurm refuses or delays: each launch ends in time with Slurm's own words.

use std::time::Duration;

use libi::{Cause, OsBytes, Policy, Srun};

use crate::jobs::{Place, run_inside};
use crate::verdicts::{HOSTS, Launch, WORDS, says};
use crate::{TIMEOUT, options};
use libi_testkit::labs::{Slurm, within};

/// How long a refusal may take, on a machine that does much else.
const SOON: Duration = Duration::from_secs(15);
/// How long launches may wait for resources here.
const QUEUE: Duration = Duration::from_secs(3);

/// A launch by srun with this further argument.
fn with_arg<'a>(lab: &'a Slurm, arg: &str) -> Launch<'a> {
    let srun = Srun { args: vec![OsBytes::new(arg).unwrap()], ..lab.srun() };
    Launch::of(lab, HOSTS, &WORDS).with(|_| options(srun))
}

/// A launch that waits for resources for [`QUEUE`].
fn impatient<'a>(lab: &'a Slurm) -> Launch<'a> {
    let srun = Srun { queue_timeout: QUEUE, ..lab.srun() };
    Launch::of(lab, HOSTS, &WORDS).with(|_| options(srun))
}

/// Has all processors of the four nodes occupied by a job, and gives its number.
fn occupy(lab: &Slurm) -> String {
    let options = ["-w", "s[0001-0004]", "--exclusive", "--no-shell"];
    assert!(lab.salloc(&options, &[]).status().unwrap().success());
    let jobs = lab.jobs();
    let job = jobs.iter().find(|job| job.contains(" RUNNING ")).unwrap();
    job.split(' ').next().unwrap().to_owned()
}

#[test]
fn partitions_and_options_that_do_not_exist_are_quoted() {
    let Some(lab) = Slurm::up() else { return };
    for (arg, words) in [
        ("--partition=nosuch", &["srun: error: invalid partition specified: nosuch"][..]),
        ("--partition=closed", &["Invalid account or account/partition combination specified"]),
        ("--no-such-option", &["unrecognized option '--no-such-option'"]),
        ("--time=1-never", &["srun: error: Invalid --time specification"]),
        ("--constraint=gold", &["Invalid feature specification"]),
        ("--mem=1000000", &["srun: error: "]),
    ] {
        let report = with_arg(&lab, arg).fails(SOON);
        says(&report, "s0001", words);
        lab.nothing_is_left();
    }
}

#[test]
fn nodes_that_do_not_exist_are_named_and_the_others_come_up_where_they_may() {
    let Some(lab) = Slurm::up() else { return };
    let hosts = "s[0001-0003],s0099";
    let words = &["Invalid node name specified"];
    says(&Launch::of(&lab, hosts, &WORDS).fails(SOON), "s0099", words);
    let three = Launch::of(&lab, hosts, &WORDS).with(|options| options.policy(Policy::AtLeast(3)));
    says(&three.comes_up(SOON), "s0099", words);
    lab.nothing_is_left();
}

#[test]
#[ignore = "is played for another test, inside a job"]
fn plays_a_front_end_that_names_a_node_outside_its_job() {
    let lab = Slurm::of_another_process();
    let report = Launch::of(&lab, "s[0001-0002],s0004", &WORDS).fails(SOON);
    let words = format!("s0004 is not a node of job {}", std::env::var("SLURM_JOB_ID").unwrap());
    says(&report, "s0004", &[&words, "s[0001-0002]"]);
}

#[test]
fn nodes_outside_the_job_are_named() {
    let Some(lab) = Slurm::up() else { return };
    run_inside(
        &lab,
        Place::Salloc,
        &["-N", "2"],
        "refusals::plays_a_front_end_that_names_a_node_outside_its_job",
    );
}

#[test]
fn a_launch_waits_in_the_queue_no_longer_than_it_may() {
    let Some(lab) = Slurm::up() else { return };
    let job = occupy(&lab);
    let report = impatient(&lab).fails(QUEUE + SOON);
    says(&report, "s0001", &["queued and waiting for resources"]);
    let first = report.hosts()[0].failure.as_ref().unwrap();
    assert_eq!(first.cause, Cause::NotScheduled, "{report}");
    assert!(report.queued() >= QUEUE, "{:?}", report.queued());
    lab.cancel(&job);
    lab.nothing_is_left();
}

#[test]
fn the_time_in_the_queue_is_no_part_of_the_launch() {
    let Some(lab) = Slurm::up() else { return };
    let job = occupy(&lab);
    // Less than it waits.
    let launch = Launch::of(&lab, HOSTS, &WORDS).with(|options| options.deadline(Duration::from_secs(10)));
    let (report, is_up) = launch.report(TIMEOUT, || {
        std::thread::sleep(Duration::from_secs(12));
        lab.cancel(&job);
    });
    assert!(is_up && report.joined() == 4, "{report}");
    assert!(report.queued() > Duration::from_secs(10), "{:?}", report.queued());
    assert!(report.took() < Duration::from_secs(10), "{:?}", report.took());
    lab.nothing_is_left();
}

#[test]
fn a_launch_whose_job_is_cancelled_in_the_queue_fails_at_once() {
    let Some(lab) = Slurm::up() else { return };
    let job = occupy(&lab);
    let (report, is_up) = Launch::of(&lab, HOSTS, &WORDS).report(SOON, || {
        let pending = |lab: &Slurm| lab.jobs().into_iter().find(|job| job.contains(" PENDING "));
        within(TIMEOUT, "it waits", || pending(&lab).is_some());
        lab.cancel(pending(&lab).unwrap().split(' ').next().unwrap());
    });
    assert!(!is_up, "{report}");
    says(&report, "s0001", &["srun: "]);
    lab.cancel(&job);
    lab.nothing_is_left();
}

#[test]
fn a_launch_that_needs_a_node_that_is_down_waits_for_it_no_longer_than_it_may() {
    let Some(lab) = Slurm::up() else { return };
    for state in ["down", "drain"] {
        lab.set("s0003", state);
        let report = impatient(&lab).fails(QUEUE + SOON);
        println!("{report:?}");
        says(&report, "s0003", &["Required node not available (down, drained or reserved)"]);
        lab.nothing_is_left();
        lab.set("s0003", "resume");
        within(TIMEOUT, "it is idle", || lab.state("s0003") == "idle");
    }
}

#[test]
fn without_srun_that_is_what_is_said() {
    let Some(lab) = Slurm::up() else { return };
    let srun = Srun { program: OsBytes::new("/no/such/srun").unwrap(), ..Srun::new() };
    let report = Launch::of(&lab, HOSTS, &WORDS).with(|_| options(srun)).fails(SOON);
    says(&report, "s0001", &["/no/such/srun", "No such file or directory"]);
}
