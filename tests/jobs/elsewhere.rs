//! Jobs whose launcher is on another host, which is reached by the stand-in shell.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use libi::job::{self, AttachOnError, Ends, JobName, LauncherKind};
use libi::{Agent, Backend, Distribution, FrontEnd, LaunchOptions, OsBytes, SessionId};
use libi_testkit::local::{Heard, launch_with};
use libi_testkit::programs;
use libi_testkit::shell::Lab;

use crate::TIMEOUT;
use crate::beside::{beside, shell};
use crate::hydra::Hydra;
use crate::launchers::has_hydra as is_installed;

fn options(backend: Backend) -> LaunchOptions {
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    LaunchOptions::local().backend(backend).agent(agent)
}

#[test]
fn a_job_is_attached_to_on_the_host_of_its_launcher() {
    if !is_installed() {
        return;
    }
    let lab = Lab::new("");
    let mut hydra = Hydra::here(5);
    let said = hydra.said(5);
    let name = JobName::Pid(hydra.pid());
    let job = job::attach_on("login2", &name, &options(shell(&lab)), TIMEOUT).unwrap();
    assert_eq!((job.kind(), job.launcher_host()), (LauncherKind::Hydra, Some("login2")));
    assert_eq!((job.launcher_pid(), job.is_whole(), job.is_running()), (hydra.pid(), true, true));
    let found = job.processes().iter().map(|process| (process.rank.0, process.pid));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), said);
    assert_eq!(Ends::of_launcher(&job).next(Duration::ZERO), None, "its end is not known here");

    // Daemons are launched from here, on the hosts that the launcher names.
    let front = FrontEnd::new().unwrap();
    let _session = beside(&job, &front, &lab);
    assert_eq!(Heard::all(&front).out(0).trim_end().split(';').count(), 5);
}

/// Their members are on hosts that the front end reaches, and are found there.
#[test]
fn a_session_is_attached_to_on_the_host_of_its_front_end() {
    let (lab, front) = (Lab::new(""), FrontEnd::new().unwrap());
    let members = Distribution::new(programs::member()).args(["join", "wait"]).hosts("n[1-2]:2");
    let members = members.session(SessionId(601));
    let _session = launch_with(&front, &[members], &LaunchOptions::local().backend(shell(&lab)));
    let name = JobName::Session(std::process::id() as i32, SessionId(601));
    let job = job::attach_on("login", &name, &options(shell(&lab)), TIMEOUT).unwrap();
    assert_eq!((job.kind(), job.hosts(), job.is_whole()), (LauncherKind::Libi, vec!["n1", "n2"], false));

    let tool = FrontEnd::new().unwrap();
    let daemons = beside(&job, &tool, &lab);
    assert_eq!(daemons.processes_of(&job, TIMEOUT).unwrap().len(), 4);
}

#[test]
fn what_is_in_the_way_is_told_with_the_host() {
    let lab = Lab::new("");
    let refused = |host: &str, name: JobName, options: &LaunchOptions| {
        job::attach_on(host, &name, options, Duration::from_secs(5)).unwrap_err()
    };
    let options = options(shell(&lab));
    let mut sleep = Command::new("sleep").arg("1000").spawn().unwrap();
    let refusals = [
        (refused("n1", JobName::Pid(i32::MAX), &options), "on n1: there is no process 2147483647"),
        (refused("n1", JobName::Slurm("77.0".to_owned()), &options), "on n1: no srun on this machine has"),
        (refused("n1", JobName::Pid(sleep.id() as i32), &options), "(/usr/bin/sleep) is no launcher"),
    ];
    for (refusal, words) in refusals {
        assert!(matches!(refusal, AttachOnError::Refused { .. }), "{refusal}");
        assert!(refusal.to_string().contains(words), "{refusal}");
    }
    sleep.kill().unwrap();
    sleep.wait().unwrap();
    let without_agent = LaunchOptions::local().backend(shell(&lab));
    let refusal = refused("n1", JobName::Pid(1), &without_agent);
    assert!(matches!(&refusal, AttachOnError::Launch { host, .. } if host == "n1"), "{refusal}");
}
