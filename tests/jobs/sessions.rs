//! Sessions of libi as jobs: their members are found by the front end's process, and have daemons beside them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use libi::job::{AttachError, Job, LauncherKind};
use libi::{
    Agent, Distribution, Engine, FrontEnd, LaunchOptions, OnLoss, OsBytes, Programs, Rank, Session,
    SessionId, Stage,
};
use libi_testkit::local::{Heard, Lab, SOON, eventually, kill, launch_with};
use libi_testkit::processes::{is_traced_or_stopped, parent};
use libi_testkit::{programs, shell};

use crate::TIMEOUT;
use crate::beside::{beside, shell as shell_backend};

const WORDS: [&str; 3] = ["join", "out:pid {pid}", "wait"];

fn agent() -> Agent {
    Agent::new(OsBytes::try_from(programs::agent()).unwrap())
}

fn own_pid() -> i32 {
    std::process::id() as i32
}

/// The last process of each rank, as they say themselves.
fn said(front: &FrontEnd, heard: &mut Heard, ranks: u32) -> BTreeMap<u32, i32> {
    let pid =
        |heard: &Heard, rank| Some(heard.out(rank).lines().last()?.strip_prefix("pid ")?.parse().unwrap());
    heard.until(front, "all have said it", |heard| (0..ranks).all(|rank| pid(heard, rank).is_some()));
    (0..ranks).map(|rank| (rank, pid(heard, rank).unwrap())).collect()
}

fn found(job: &Job) -> BTreeMap<u32, i32> {
    job.processes().iter().map(|process| (process.rank.0, process.pid)).collect()
}

fn attached(session: &Session) -> Job {
    Job::attach_to_session(own_pid(), session.id(), TIMEOUT).unwrap()
}

#[test]
fn the_members_of_a_session_are_what_they_say_of_themselves() {
    let lab = Lab::new();
    let local = || LaunchOptions::local().on_loss(OnLoss::Continue);
    for options in [local().engine(Engine::InProgram), local().engine(Engine::Apart), local().agent(agent())]
    {
        let (front, mut heard) = (FrontEnd::new().unwrap(), Heard::default());
        let session = launch_with(&front, &[lab.members("a[1-3]:2,b", &WORDS)], &options);
        let pids = said(&front, &mut heard, 7);
        let job = attached(&session);
        assert!(!pids.values().any(|pid| is_traced_or_stopped(*pid)));
        assert_eq!((job.kind(), job.launcher_pid(), job.is_whole()), (LauncherKind::Libi, own_pid(), true));
        assert_eq!((found(&job), job.hosts()), (pids, vec!["a1", "a2", "a3", "b"]));
        for process in job.processes().iter() {
            assert!(process.executable.to_string().ends_with("/libi-test-member"), "{process:?}");
            assert_eq!(
                Some(process.host),
                ["a1", "a1", "a2", "a2", "a3", "a3", "b"].get(process.rank.0 as usize).copied()
            );
        }
        drop(session);
        lab.is_empty_within(SOON);
    }
}

#[test]
fn a_table_follows_members_that_end_and_come_and_hosts_that_are_lost() {
    let (lab, front, mut heard) = (Lab::new(), FrontEnd::new().unwrap(), Heard::default());
    let options = LaunchOptions::local().agent(agent()).on_loss(OnLoss::Continue);
    let session = launch_with(&front, &[lab.members("a[1-2]:2", &WORDS)], &options);
    let first = said(&front, &mut heard, 4);
    kill(first[&1], libc::SIGKILL);
    heard.until(&front, "it has ended", |heard| heard.exits.contains_key(&1));
    let left = attached(&session);
    assert_eq!(left.processes().iter().map(|process| process.rank.0).collect::<Vec<_>>(), [0, 2, 3]);

    session.restart(Rank(1), TIMEOUT).unwrap();
    session.add(&lab.members("c1,c2", &WORDS)).unwrap();
    heard.until(&front, "it runs again", |heard| heard.out(1).lines().count() == 2);
    let now = said(&front, &mut heard, 6);
    let job = attached(&session);
    assert!(now[&1] != first[&1] && found(&job) == now, "{job:?}");
    assert_eq!(job.hosts(), ["a1", "a2", "c1", "c2"]);

    // What leads the last host: its member ends with that.
    kill(parent(now[&5]).unwrap(), libc::SIGKILL);
    heard.until(&front, "the host is lost", |heard| !heard.lost.is_empty());
    // The note follows the event.
    eventually("the host is not listed any more", || attached(&session).hosts().len() < 4);
    assert_eq!(attached(&session).hosts(), ["a1", "a2", "c1"]);
}

/// Programs that do not know libi are started when the session is up.
#[test]
fn programs_that_are_being_started_are_waited_for() {
    for _ in 0..10 {
        let front = FrontEnd::new().unwrap();
        let options = LaunchOptions::local().agent(agent()).programs(Programs::Any);
        let daemon = Distribution::new("/bin/sleep").args(["1000"]).hosts("n[1-3]:4");
        let session = launch_with(&front, &[daemon], &options);
        let job = attached(&session);
        assert_eq!(job.processes().len(), 12);
        assert!(job.processes().iter().all(|process| process.executable.to_string().ends_with("/sleep")));
    }
}

#[test]
fn what_is_no_session_or_one_of_several_is_refused_by_name() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let own = |session| match session {
        None => Job::attach(own_pid(), std::time::Duration::ZERO),
        Some(number) => Job::attach_to_session(own_pid(), SessionId(number), std::time::Duration::ZERO),
    };
    let launch = |number, host| {
        let members = lab.members(host, &WORDS).session(SessionId(number));
        launch_with(&front, &[members], &LaunchOptions::local())
    };
    let (one, other, same) = (launch(501, "a"), launch(502, "b"), launch(501, "c"));
    let (first, second) = (one.id().0, other.id().0);
    // Other tests of this process may have sessions as well.
    let refused = own(None).unwrap_err();
    let AttachError::ManySessions { ref sessions, .. } = refused else { panic!("{refused}") };
    assert!([one.id(), other.id()].iter().all(|id| sessions.contains(id)), "{refused}");
    assert!(refused.to_string().contains("of which one has to be named"), "{refused}");
    assert_eq!(own(Some(second)).unwrap().processes().len(), 1);
    assert!(matches!(own(Some(first)), Err(AttachError::ManySessions { .. })), "two have this number");
    drop(same);
    eventually("one of two is forgotten", || own(Some(first)).is_ok());
    let refused = own(Some(u32::MAX)).unwrap_err().to_string();
    assert!(refused.contains(&format!("has no session {}; it has ", u32::MAX)), "{refused}");

    // A member is no launcher, but has one.
    let member = attached(&one).processes().iter().next().unwrap().pid;
    let refused = Job::attach(member, std::time::Duration::ZERO).unwrap_err().to_string();
    assert!(refused.contains(&format!("its launcher is process {} (", own_pid())), "{refused}");

    drop(one);
    assert_eq!(other.stage(), Stage::Up);
    let is_gone = || matches!(own(Some(first)), Err(AttachError::NoSession { .. }));
    eventually("the first is forgotten", is_gone);
}

/// The hosts are reached by a shell: their processes are found by daemons there.
#[test]
fn daemons_find_the_members_of_a_session_on_other_hosts() {
    let (lab, front) = (shell::Lab::new(""), FrontEnd::new().unwrap());
    let options = || LaunchOptions::local().backend(shell_backend(&lab));
    let member = Distribution::new(programs::member()).args(WORDS).hosts("n[1-5]:3");
    let session = launch_with(&front, &[member], &options());
    let mut heard = Heard::default();
    let pids = said(&front, &mut heard, 15);
    let job = attached(&session);
    assert!(!job.is_whole() && job.processes().is_empty());

    let tool = FrontEnd::new().unwrap();
    let daemons = beside(&job, &tool, &lab);
    let table = daemons.processes_of(&job, TIMEOUT).unwrap();
    assert_eq!(table.iter().map(|process| (process.rank.0, process.pid)).collect::<BTreeMap<_, _>>(), pids);
    assert_eq!(table.on_host("n2").map(|process| process.rank.0).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!(Heard::all(&tool).out(4).trim_end().split(';').count(), 3);
}

/// `libi run` serves as its own agent: each of its processes leads to the session.
#[test]
fn an_agent_of_the_same_program_leads_to_the_front_end() {
    let mut run = std::process::Command::new(programs::libi());
    run.args(["run", "-w", "n[1-2]:2", "--backend", "local", "/bin/sh", "-c", "echo $$; exec sleep 1000"]);
    let mut run = run.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let mut ranks: Vec<i32> = lines.take(4).map(|line| line.unwrap().parse().unwrap()).collect();
    ranks.sort_unstable();
    let agent = parent(ranks[0]).unwrap();
    for named in [run.id() as i32, agent] {
        let job = Job::attach(named, TIMEOUT).unwrap();
        assert_eq!((job.kind(), job.launcher_pid()), (LauncherKind::Libi, run.id() as i32));
        let mut found: Vec<i32> = job.processes().iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, ranks);
    }
    kill(run.id() as i32, libc::SIGTERM);
    run.wait().unwrap();
}
