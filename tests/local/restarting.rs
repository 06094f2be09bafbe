//! Members that are killed are started again, and what was launched in the session ends with it.

use std::time::Instant;

use libi::{Engine, Error, Exit, FrontEnd, LaunchOptions, OnLoss, Rank, RestartError, Session, Stream};

use libi_testkit::kills::calls_agree;
use libi_testkit::local::*;

/// Members that print their process ID and how often they were restarted, and run on.
fn play(front: &FrontEnd, lab: &Lab, hosts: &str, options: &LaunchOptions) -> (Session, Heard) {
    let members = lab.members(hosts, &["join", "env:LIBI_RESTARTS", "out:pid {pid}", "wait"]);
    let session = launch_with(front, &[members], options);
    let mut heard = Heard::default();
    let size = session.size();
    heard.until(front, "all run", |heard| (0..size).all(|rank| pids(heard, rank).len() == 1));
    (session, heard)
}

fn options() -> LaunchOptions {
    LaunchOptions::local().engine(Engine::Apart).on_loss(OnLoss::Continue)
}

/// The processes that a rank has had.
fn pids(heard: &Heard, rank: u32) -> Vec<i32> {
    let out = heard.out(rank);
    out.lines().filter_map(|line| line.strip_prefix("pid ")).map(|pid| pid.parse().unwrap()).collect()
}

/// Kills the process of a rank, and waits until that is known.
fn lose(front: &FrontEnd, heard: &mut Heard, rank: u32) {
    kill(*pids(heard, rank).last().unwrap(), libc::SIGKILL);
    heard.until(front, "it has ended", |heard| heard.exits.contains_key(&rank));
    let exit = heard.exits.get(&rank);
    assert_eq!(exit, Some(&Exit::Signal(libc::SIGKILL)), "{}", heard.described());
}

#[test]
fn a_member_is_restarted_as_often_as_it_is_lost_and_knows_how_often() {
    let lab = Lab::new();
    for hosts in ["a[1-2]:2", "a[1-3]:1"] {
        let front = FrontEnd::new().unwrap();
        let (session, mut heard) = play(&front, &lab, hosts, &options());
        let began = Instant::now();
        for (rank, times) in [(1, 10), (0, 2)] {
            for nth in 1..=times {
                lose(&front, &mut heard, rank);
                session.restart(Rank(rank), TIMEOUT).unwrap();
                heard.until(&front, "it runs again", |heard| pids(heard, rank).len() == nth + 1);
                assert!(!heard.exits.contains_key(&rank) && !session.ended().contains(Rank(rank)));
            }
            let numbers: Vec<_> =
                heard.out(rank).lines().filter(|line| !line.starts_with("pid")).map(str::to_owned).collect();
            let expected: Vec<_> =
                (0..=times).map(|nth| if nth == 0 { String::new() } else { nth.to_string() }).collect();
            assert_eq!(numbers, expected, "{}", heard.text(rank, Stream::Err));
        }
        println!("{hosts}: 12 restarts in {:?}", began.elapsed());
        match session.restart(Rank(1), TIMEOUT) {
            Err(Error::NotRestarted { rank: Rank(1), why: RestartError::StillRunning, .. }) => {}
            other => panic!("{other:?}"),
        }
        session.terminate(ms(500)).unwrap();
        lab.is_empty_within(SOON);
    }
}

/// One member crashes ten times; calls go on without it, and with the process that takes its place.
fn play_rejoining(hosts: &str, victim: u32, options: &LaunchOptions, restart: bool) {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members = lab.members(hosts, &["join", &format!("talk:rejoin:{victim}:10"), "finish:30000"]);
    let session = launch_with(&front, &[members], options);
    let mut heard = Heard::default();
    for _ in 0..if restart { 10 } else { 0 } {
        heard.until(&front, "it has crashed", |heard| heard.exits.contains_key(&victim));
        assert_eq!(heard.exits[&victim], Exit::Signal(libc::SIGKILL), "{}", heard.text(victim, Stream::Err));
        session.restart(Rank(victim), TIMEOUT).unwrap();
        heard.until(&front, "it is back", |heard| !heard.exits.contains_key(&victim));
    }
    heard.until(&front, "all have ended", |heard| heard.done);
    for rank in 0..session.size() {
        let why = heard.text(rank, Stream::Err);
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {why}");
    }
    let printed: Vec<_> = (0..session.size()).map(|rank| (rank, heard.out(rank))).collect();
    let calls = calls_agree(printed.iter().map(|(rank, text)| (*rank, &**text)));
    println!("{hosts}, rank {victim}: {calls} calls");
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn all_agree_on_the_calls_of_a_member_that_crashes_ten_times() {
    for (hosts, victim) in [("a[1-4]:2", 3), ("a[1-8]:1", 5), ("a[1-3]:3", 0)] {
        play_rejoining(hosts, victim, &options(), true);
        let mut by_itself = options().restarts(10);
        by_itself.rules.back_off_max = ms(80);
        play_rejoining(hosts, victim, &by_itself, false);
    }
}

/// The second restart begins 200 ms after the first, the third 400 ms after the second.
#[test]
fn a_member_that_crashes_at_once_is_restarted_after_pauses() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members = lab.members("a[1-2]:1", &["join", "talk:rejoin:1:3", "finish:30000"]);
    let began = Instant::now();
    let session = launch_with(&front, &[members], &options().restarts(3));
    let mut heard = Heard::default();
    heard.until(&front, "all have ended", |heard| heard.done);
    assert_eq!((heard.exits[&0], heard.exits[&1]), (Exit::Code(0), Exit::Code(0)));
    assert!(began.elapsed() > ms(600), "{:?}", began.elapsed());
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_lost_member_is_restarted_by_itself_as_often_as_the_options_say() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let (session, mut heard) = play(&front, &lab, "a[1-2]:1", &options().restarts(2));
    for nth in 2..=3 {
        kill(*pids(&heard, 1).last().unwrap(), libc::SIGKILL);
        heard.until(&front, "it runs again", |heard| pids(heard, 1).len() == nth);
    }
    lose(&front, &mut heard, 1);
    session.restart(Rank(1), TIMEOUT).unwrap();
    heard.until(&front, "it runs again", |heard| pids(heard, 1).len() == 4);
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_program_that_is_gone_is_not_restarted() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let program = lab.path("program");
    std::fs::copy(member(), &program).unwrap();
    let members = lab.program(&program, "a[1-2]:1", &["join", "out:pid {pid}", "wait"]);
    let session = launch_with(&front, &[members], &options());
    let mut heard = Heard::default();
    heard.until(&front, "all run", |heard| (0..2).all(|rank| pids(heard, rank).len() == 1));
    std::fs::remove_file(&program).unwrap();
    lose(&front, &mut heard, 1);
    match session.restart(Rank(1), TIMEOUT) {
        Err(Error::NotRestarted { rank: Rank(1), why: RestartError::NotStarted(why), .. }) => {
            println!("{why}");
        }
        other => panic!("{other:?}"),
    }
    lose(&front, &mut heard, 0);
    heard.until(&front, "all have ended", |heard| heard.done);
    assert!(matches!(
        session.restart(Rank(1), TIMEOUT),
        Err(Error::NotRestarted { rank: Rank(1), why: RestartError::Ending, .. })
    ));
    session.terminate(ms(500)).unwrap();
    lab.is_empty_within(SOON);
}
