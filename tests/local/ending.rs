//! How members end: by themselves, by signals, by the end of the session; and what a front end
//! leaves behind.

use libi::{
    Agent, Engine, Error, Exit, FrontEnd, LaunchOptions, OnLoss, OsBytes, Rank, Session, Shape, Stage,
    Strategy,
};

use libi_testkit::local::*;
use libi_testkit::programs;

fn up(front: &FrontEnd, lab: &Lab, hosts: &str, words: &[&str]) -> Session {
    launch(front, lab.members(hosts, words))
}

#[test]
fn every_member_that_ends_is_reported_with_its_rank_and_its_status() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    // Leaders have the even ranks; each ends in its own way when no other member needs it.
    let words = [
        "join",
        "finish:30000",
        "only:1:exit:11",
        "only:2:exit:0",
        "only:3:signal:9",
        "only:4:exit:255",
        "only:5:abort",
        "only:6:signal:15",
        "only:7:exit:127",
        "only:0:exit:3",
    ];
    let _session = launch(&front, lab.members("a:2,b:2,c:2,d:2", &words));
    let mut heard = Heard::all(&front);
    let expected = [
        Exit::Code(3),
        Exit::Code(11),
        Exit::Code(0),
        Exit::Signal(9),
        Exit::Code(255),
        Exit::Signal(6),
        Exit::Signal(15),
        Exit::Code(127),
    ];
    assert_eq!(std::mem::take(&mut heard.exits).into_values().collect::<Vec<_>>(), expected);
    assert!(heard.lost.is_empty(), "{}", heard.described());
}

#[test]
fn a_member_without_dependents_ends_alone() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let gate = format!("await:{}", lab.path("go"));
    let session =
        up(&front, &lab, "a[1-4]:3", &["join", "only:5:signal:9", "only:10:exit:8", &gate, "finish:30000"]);
    let mut heard = Heard::default();
    heard.until(&front, "two have ended", |heard| heard.exits.len() == 2);
    assert_eq!((heard.exits[&5], heard.exits[&10]), (Exit::Signal(9), Exit::Code(8)));
    assert_eq!((lab.programs(), session.stage()), (10, Stage::Up));
    lab.touch("go");
    heard.until(&front, "all have ended", |heard| heard.done);
    assert_eq!((heard.exits.len(), heard.lost.len()), (12, 0));
}

#[test]
fn a_leader_that_crashes_takes_its_host_with_it_and_the_front_end_is_told() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let gate = format!("await:{}", lab.path("go"));
    let only = format!("only:4:{gate}");
    let options = LaunchOptions::local().engine(Engine::InProgram);
    let members = lab.members("a[1-3]:2", &["join", &only, "only:4:abort", "wait"]);
    let session = launch_with(&front, &[members], &options);
    lab.touch("go");
    let mut heard = Heard::default();
    heard.until(&front, "the host is lost", |heard| heard.lost.values().any(|(name, _)| name == "a3"));
    heard.until(&front, "its leader's end is known", |heard| heard.exits.contains_key(&4));
    assert_eq!(heard.exits[&4], Exit::Signal(6));
    assert!(
        heard.lines.iter().any(|line| line == "rank 4 on a3 was killed by signal 6"),
        "{:?}",
        heard.lines
    );
    let lost = heard.lines.iter().find(|line| line.contains("is lost: ")).unwrap();
    assert!(lost.starts_with("a") && lost.contains("(rank"), "{lost}");
    let leader = "a3 (rank 5) is lost: its first member was killed by signal 6";
    assert!(!lost.starts_with("a3") || lost == leader, "{lost}");
    assert!(session.ended().contains(Rank(4)) && !session.lost().contains(Rank(4)), "{}", session.lost());
    assert!(session.lost().contains(Rank(5)), "{}", session.lost());
    let hosts = heard.lost.len();
    eventually("its members have ended", || lab.living().len() == 6 - 2 * hosts);
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn members_that_end_by_themselves_have_ended_and_are_not_lost() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = up(&front, &lab, "a[1-3]:2", &["join", "finish:30000"]);
    let heard = Heard::all(&front);
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
    assert_eq!((session.ended(), session.lost()), (libi::Ranks::first(6), libi::Ranks::new()));
}

#[test]
fn a_host_that_is_lost_with_its_launcher_says_which_and_how_that_ended() {
    for engine in [Engine::Apart, Engine::InProgram] {
        let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
        let options = LaunchOptions::local().engine(engine).strategy("chain".parse().unwrap());
        let words = ["join", &format!("touch:{}", lab.path("{rank}-{pid}")), "wait"];
        let session = launch_with(&front, &[lab.members("a[1-3]", &words)], &options);
        let mut second = None;
        eventually("the second is there", || {
            second = lab.names().iter().find_map(|name| name.strip_prefix("1-")?.parse().ok());
            second.is_some()
        });
        let program = second.unwrap();
        let leader = if engine == Engine::Apart { parent(program).unwrap() } else { program };
        kill(leader, libc::SIGKILL);
        let mut heard = Heard::default();
        // The member of a2 has ended with its process, or is lost with the one that leads it.
        let lost = if engine == Engine::Apart { 2 } else { 1 };
        heard.until(&front, "hosts are lost", |heard| heard.lost.len() == lost);
        let lines = heard.lines.iter().filter(|line| line.contains("is lost: "));
        let (last, others): (Vec<_>, Vec<_>) = lines.partition(|line| line.starts_with("a3"));
        assert!(last[0].starts_with("a3 (rank 2) is lost: lost with its launcher a2"), "{last:?}");
        assert!(others.iter().all(|line| line.starts_with("a2 (rank 1) is lost: ")), "{others:?}");
        drop(session);
        lab.is_empty_within(SOON);
    }
}

#[test]
fn a_signal_reaches_every_member_and_only_those() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let mark = format!("catch:10:{}", lab.path("caught{rank}"));
    let session = up(&front, &lab, "a[1-5]:3", &["join", &mark, "out:ready", "wait"]);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| heard.texts.len() == 15);
    session.kill(libc::SIGUSR1).unwrap();
    eventually("all have caught it", || lab.files() == 15);
    assert_eq!(lab.programs(), 15, "they go on");
    assert!(matches!(session.kill(0), Err(Error::NoSignal(0))));
    assert!(matches!(session.kill(65), Err(Error::NoSignal(65))));
    session.kill(libc::SIGINT).unwrap();
    heard.until(&front, "all have ended", |heard| heard.done);
    assert_eq!(heard.exits.len(), 15, "{}", heard.described());
    assert!(heard.exits.values().all(|exit| *exit == Exit::Signal(libc::SIGINT)), "{}", heard.described());
    assert!(heard.lost.is_empty(), "{}", heard.described());
}

#[test]
fn a_killed_session_tells_of_every_member() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = up(&front, &lab, "a[1-5]:3", &["join", "wait"]);
    session.kill(libc::SIGKILL).unwrap();
    let heard = Heard::all(&front);
    assert_eq!(heard.exits.len(), 15, "{}", heard.described());
    assert!(heard.exits.values().all(|exit| *exit == Exit::Signal(9)), "{}", heard.described());
    lab.is_empty_within(SOON); // the processes that lead hosts end after their members
}

#[test]
fn termination_gives_a_handled_signal_its_time() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let mark = format!("catch:15:{}", lab.path("caught{rank}"));
    let trailer = format!("await:{}", lab.path("caught{rank}"));
    let words = ["join", &mark, "out:ready", &trailer, "sleep:100", "out:farewell", "exit:7"];
    let session = up(&front, &lab, "a[1-4]:2", &words);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| heard.texts.len() == 8);
    session.terminate(TIMEOUT).unwrap();
    assert_eq!((session.stage(), lab.files()), (Stage::Over, 8), "each has caught it");
    lab.is_empty_within(SOON); // a leader that ends without a word leaves those who hang on it to the system
}

#[test]
fn termination_kills_those_that_ignore_it_after_the_grace() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session =
        up(&front, &lab, "a[1-4]:2", &["ignore:15", "join", "out:ready", "spawn", "out:spawned", "wait"]);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| (0..8).all(|rank| heard.out(rank).ends_with("spawned\n")));
    assert_eq!(lab.programs(), 16);
    let begun = std::time::Instant::now();
    session.terminate(ms(700)).unwrap();
    assert!(begun.elapsed() >= ms(700), "{:?}", begun.elapsed());
    lab.is_empty_within(SOON);
}

#[test]
fn a_termination_can_be_hastened() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let mark = format!("catch:15:{}", lab.path("caught{rank}"));
    let session = up(&front, &lab, "a[1-4]:2", &["join", &mark, "out:ready", "wait"]);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| heard.texts.len() == 8);
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        let patient = scope.spawn(|| session.terminate(10 * TIMEOUT));
        eventually("all have been told", || lab.files() == 8);
        session.terminate(ms(100)).unwrap();
        patient.join().unwrap().unwrap();
    });
    assert!(begun.elapsed() < TIMEOUT, "{:?}", begun.elapsed());
    lab.is_empty_within(SOON);
}

#[test]
fn termination_ends_those_at_once_that_do_nothing_about_it() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = up(&front, &lab, "a[1-8]:2", &["join", "out:ready", "wait"]);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| heard.texts.len() == 16);
    let begun = std::time::Instant::now();
    session.terminate(TIMEOUT).unwrap();
    assert!(begun.elapsed() < TIMEOUT / 3, "{:?}", begun.elapsed());
    while let Some(event) = front.next_event(ms(0)) {
        heard.note(event);
    }
    assert_eq!(heard.exits.len(), 16, "{}", heard.described());
    assert!(heard.exits.values().all(|exit| *exit == Exit::Signal(15)), "{}", heard.described());
    lab.is_empty_within(ms(0));
}

#[test]
fn a_session_that_is_dropped_leaves_nothing_and_others_go_on() {
    let (lab, other, front) = (Lab::new(), Lab::new(), FrontEnd::new().unwrap());
    let session = up(&front, &lab, "a[1-4]:2", &["ignore:15", "join", "spawn", "wait"]);
    let survivor = up(&front, &other, "a[1-2]:2", &["join", "wait"]);
    drop(session);
    lab.is_empty_within(SOON);
    assert_eq!((other.programs(), survivor.stage()), (4, Stage::Up));
}

#[test]
fn a_session_that_is_dropped_while_it_is_launched_leaves_nothing() {
    for moment in [0, 5, 20, 60, 150] {
        let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
        let sessions =
            front.start_all(&[lab.members("a[1-16]:2", &["join", "wait"])], &LaunchOptions::local());
        let until = std::time::Instant::now() + ms(moment);
        while std::time::Instant::now() < until {
            front.next_event(until.saturating_duration_since(std::time::Instant::now()));
        }
        drop(sessions);
        lab.is_empty_within(SOON);
    }
}

#[test]
fn a_front_end_that_is_dropped_leaves_nothing() {
    let lab = Lab::new();
    let front = FrontEnd::new().unwrap();
    let session = up(&front, &lab, "a[1-4]:2", &["ignore:15", "join", "spawn", "out:ready", "wait"]);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| heard.texts.len() == 8);
    drop(front);
    lab.is_empty_within(SOON);
    assert!(matches!(session.wait_up(ms(0)), Err(Error::Closed)));
    assert_eq!(session.stage(), Stage::Over);
    assert!(session.terminate(ms(0)).is_ok(), "there is nothing left to end");
}

#[test]
fn a_member_that_ends_takes_its_process_group_along() {
    for end in ["exit:0", "exit:3", "abort", "signal:9"] {
        let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
        let _session = up(&front, &lab, "a[1-2]:2", &["join", "spawn", "finish:30000", end]);
        let heard = Heard::all(&front);
        assert_eq!(heard.exits.len(), 4, "{end}: {}", heard.described());
        lab.is_empty_within(SOON);
    }
}

#[test]
fn processes_in_groups_of_their_own_outlive_the_session() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words = ["ignore:15", "join", "spawn-group", "spawn", "out:ready", "wait"];
    let session = up(&front, &lab, "a[1-2]:2", &words);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| heard.texts.len() == 4);
    assert_eq!(lab.programs(), 12);
    session.terminate(ms(100)).unwrap();
    eventually("only those are left", || lab.living().len() == 4);
    drop((session, front));
    assert_eq!(lab.living().len(), 4, "libi does not know them");
}

#[test]
fn the_first_failure_ends_the_session_where_that_was_asked_for() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = LaunchOptions::local().on_loss(OnLoss::End);
    let gate = format!("await:{}", lab.path("go"));
    for (fails, how) in [("only:4:exit:3", Exit::Code(3)), ("only:4:signal:9", Exit::Signal(9))] {
        // One that ends well ends alone.
        let words = ["join", "finish:30000", "only:2:exit:0", &gate, fails, "wait"];
        let session = launch_with(&front, &[lab.members("a[1-3]:2", &words)], &options);
        let mut heard = Heard::default();
        heard.until(&front, "one has ended", |heard| heard.exits.len() == 1);
        assert_eq!((heard.exits[&2], session.stage()), (Exit::Code(0), Stage::Up));
        lab.touch("go");
        heard.until(&front, "all have ended", |heard| heard.done);
        assert_eq!(heard.exits.remove(&4), Some(how), "{}", heard.described());
        heard.exits.remove(&2);
        let others: Vec<_> = heard.exits.values().collect();
        assert_eq!(others, [&Exit::Signal(libc::SIGTERM); 4], "{}", heard.described());
        drop(session);
        lab.is_empty_within(SOON);
        std::fs::remove_file(lab.path("go")).unwrap();
    }
}

#[test]
fn a_termination_is_not_hastened_by_members_that_it_ends() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = LaunchOptions::local().on_loss(OnLoss::End);
    let words = ["only:1:ignore:15", "join", "only:1:ignore:15", "out:ready", "wait"];
    let session = launch_with(&front, &[lab.members("a:2", &words)], &options);
    let mut heard = Heard::default();
    heard.until(&front, "all are ready", |heard| heard.texts.len() == 2);
    let (begun, grace) = (std::time::Instant::now(), ms(2_700));
    session.terminate(grace).unwrap();
    assert!(begun.elapsed() >= grace, "{:?}", begun.elapsed());
    lab.is_empty_within(SOON);
}

/// Hosts below a leader that ended without passing the end on would look for another parent.
#[test]
fn a_session_that_goes_on_without_lost_hosts_leaves_nothing_when_it_ends() {
    let agent = || Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let chain = || LaunchOptions::local().on_loss(OnLoss::Continue).strategy(Strategy::Static(Shape::Chain));
    for _ in 0..5 {
        for options in
            [chain().engine(Engine::InProgram), chain().engine(Engine::Apart), chain().agent(agent())]
        {
            let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
            let session = launch_with(&front, &[lab.members("a[1-5]:2,b", &["join", "wait"])], &options);
            drop(session);
            lab.is_empty_within(SOON);
        }
    }
}
