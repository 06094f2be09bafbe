//! What happens to a job is told at the front end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use libi::job::{End, Ends, Job, JobEvent, Target, Watch};
use libi::{Agent, Backend, Exit, FrontEnd, LaunchOptions, OsBytes, Programs, Rank, SessionId};
use libi_testkit::local::{Lab, kill, launch_with};
use libi_testkit::{processes, programs, shell};

use crate::TIMEOUT;
use crate::beside::shell as shell_backend;
use crate::hydra::Hydra;
use crate::launchers::has_hydra;

fn options(backend: Option<Backend>) -> LaunchOptions {
    let options = LaunchOptions::local().agent(Agent::new(OsBytes::try_from(programs::agent()).unwrap()));
    match backend {
        Some(backend) => options.backend(backend),
        None => options,
    }
}

/// Whether the system tells how a process of others has ended.
fn is_told() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap_or(0)) >= (6, 15)
}

/// A process of another parent, which collects it, and its process ID.
fn grandchild(script: &str) -> (std::process::Child, i32) {
    let script = format!("sh -c 'read go; {script}' <&3 & echo $!; wait");
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 3<&0; {script}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut shell = shell.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    (shell, line.trim().parse().unwrap())
}

#[test]
fn the_exit_status_of_others_processes_is_known_where_the_system_tells_it() {
    for (script, status) in
        [("exit 7", Exit::Code(7)), ("kill -9 $$", Exit::Signal(9)), ("exit 0", Exit::Code(0))]
    {
        let (mut shell, pid) = grandchild(script);
        let target = Target::new(Rank(3), pid, OsBytes::default());
        let mut ends = Ends::of(&[target]);
        assert_eq!(ends.next_with_exit(Duration::ZERO), None, "it runs");
        drop(shell.stdin.take()); // it goes on
        assert_eq!(ends.next_with_exit(TIMEOUT), Some((End::Process(Rank(3)), expected(status))));
        assert!(ends.is_empty());
        shell.wait().unwrap();
    }
}

fn expected(exit: Exit) -> Exit {
    if is_told() { exit } else { Exit::Unknown }
}

fn next(watch: &mut Watch) -> JobEvent {
    watch.next(TIMEOUT).expect("no event in time")
}

/// A session of programs that end when a file is there, with 3 and their rank.
fn session(lab: &Lab, front: &FrontEnd, number: u32) -> (libi::Session, Job) {
    let script = format!("until [ -e {} ]; do sleep 0.01; done; exit $((LIBI_RANK + 3))", lab.path("go"));
    let program = lab.program("/bin/sh", "n[1-2]:2", &["-c", &script]).session(SessionId(number));
    let session = launch_with(front, &[program], &options(None).programs(Programs::Any));
    let job = Job::attach_to_session(std::process::id() as i32, SessionId(number), TIMEOUT).unwrap();
    (session, job)
}

#[test]
fn the_front_end_hears_how_each_process_has_ended() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let (_session, job) = session(&lab, &front, 701);
    let mut watch = Watch::of(&job, &options(None)).unwrap();
    assert_eq!(watch.next(Duration::from_millis(50)), None, "all run");
    // One is killed, and the others end by themselves.
    kill(job.processes().get(Rank(1)).unwrap().pid, libc::SIGKILL);
    let JobEvent::Ended { rank, exit } = next(&mut watch) else { panic!("it is something else") };
    assert_eq!((rank.0, exit), (1, expected(Exit::Signal(libc::SIGKILL))));
    lab.touch("go");
    let mut ends = BTreeMap::new();
    while ends.len() < 3 {
        let JobEvent::Ended { rank, exit } = next(&mut watch) else { panic!("it is something else") };
        assert_eq!(ends.insert(rank.0, exit), None, "told twice");
    }
    let code = |rank| (rank, expected(Exit::Code(rank as i32 + 3)));
    assert_eq!(ends, [0, 2, 3].map(code).into_iter().collect());
    assert!(!watch.is_over(), "the launcher is this process");
    assert_eq!(watch.next(Duration::ZERO), None);
}

/// The processes of Hydra on other hosts are found there.
#[test]
fn the_end_of_a_job_is_told_with_that_of_its_launcher() {
    if !has_hydra() {
        return;
    }
    let lab = shell::Lab::new("");
    let mut command = lab.command("mpiexec.hydra", &["-launcher", "ssh", "-launcher-exec"]);
    command.args([programs::shell(), "-hosts", "n1,n2", "-ppn", "2"]);
    let mut hydra = Hydra::of(&["-np", "4"], &mut command);
    let said = hydra.said(4);
    let job = Job::attach(hydra.pid(), TIMEOUT).unwrap();
    let mut watch = Watch::of(&job, &options(Some(shell_backend(&lab)))).unwrap();
    drop(hydra); // it is asked to end, and waited for
    let (mut ended, mut launcher) = (Vec::new(), 0);
    while let Some(event) = watch.next(TIMEOUT) {
        match event {
            JobEvent::Ended { rank, .. } => ended.push(rank.0),
            JobEvent::LauncherEnded { .. } => launcher += 1,
            other => panic!("{other:?}"),
        }
    }
    ended.sort_unstable();
    assert_eq!((ended, launcher), (said.keys().copied().collect(), 1));
    assert!(watch.is_over());
}

#[test]
fn a_host_that_is_lost_is_named_and_the_others_are_watched_on() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let (_session, job) = session(&lab, &front, 702);
    let before: Vec<i32> = processes::all().collect();
    let mut watch = Watch::of(&job, &options(None)).unwrap();
    // The watchers are children of their agents: one of those is killed.
    let is_watcher = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.ends_with(b"--libi-job\0")
            && processes::environment(*pid).is_some_and(|all| all.contains("LIBI_HOST=n1"))
    };
    let new = || processes::all().filter(|pid| !before.contains(pid));
    let watcher = loop {
        match new().find(is_watcher) {
            Some(pid) => break pid,
            None => assert_eq!(watch.next(Duration::from_millis(5)), None),
        }
    };
    kill(processes::parent(watcher).unwrap(), libc::SIGKILL);
    let JobEvent::NotWatched { host, why } = next(&mut watch) else { panic!("it is something else") };
    assert!(host == "n1" && !why.is_empty(), "{host}: {why}");
    lab.touch("go");
    for _ in 0..2 {
        let JobEvent::Ended { rank, .. } = next(&mut watch) else { panic!("it is something else") };
        assert!([2, 3].contains(&rank.0), "{rank}");
    }
}

/// The job does not hear of a tool that goes away, and nothing of that is left.
#[test]
fn a_watch_that_is_dropped_leaves_the_job_alone() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let (session, job) = session(&lab, &front, 703);
    drop(Watch::of(&job, &options(None)).unwrap());
    assert_eq!(session.stage(), libi::Stage::Up);
    let left = |pid: &i32| {
        let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.ends_with(b"--libi-job\0")
            && processes::with_ancestors(*pid).contains(&(std::process::id() as i32))
    };
    libi_testkit::local::eventually("no watcher is left", || !processes::all().any(|pid| left(&pid)));
    assert_eq!(job.processes().len(), 4);
}

#[test]
fn hosts_that_cannot_be_watched_are_an_error() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let (_session, job) = session(&lab, &front, 704);
    assert!(Watch::of(&job, &LaunchOptions::local()).is_err(), "without an agent");
    let nowhere = Agent::new(OsBytes::try_from("/nonexistent/agent").unwrap());
    assert!(Watch::of(&job, &LaunchOptions::local().agent(nowhere)).is_err());
}
