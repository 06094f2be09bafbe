//! Hosts join a session that is up, with members that take part in its calls.

use std::time::Instant;

use libi::{
    Agent, Command, Engine, Error, Event, Exit, FrontEnd, GrowthError, LaunchOptions, OnLoss, OsBytes,
    Policy, Rank, Session,
};

use libi_testkit::kills::calls_agree;
use libi_testkit::local::*;
use libi_testkit::programs;

fn options() -> LaunchOptions {
    LaunchOptions::local().on_loss(OnLoss::Continue)
}

/// All members of a session have ended well, and agree on the calls that they have made.
fn all_agree(front: &FrontEnd, session: &Session, heard: &mut Heard) -> usize {
    heard.until(front, "all have ended", |heard| heard.done);
    for rank in 0..session.size() {
        let why = heard.text(rank, libi::Stream::Err);
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {why}");
    }
    let printed: Vec<_> = (0..session.size()).map(|rank| (rank, heard.out(rank))).collect();
    calls_agree(printed.iter().map(|(rank, text)| (*rank, &**text)))
}

/// A session on these hosts grows by others, one list after the other.
fn play(hosts: &str, others: &[(&str, u32)], options: &LaunchOptions) {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let last = others.iter().map(|(_, size)| *size).max().unwrap();
    let words = ["join", &format!("talk:grow:{last}"), "finish:30000"];
    let session = launch_with(&front, &[lab.members(hosts, &words)], options);
    let (first, began) = (session.size(), Instant::now());
    let mut size = first;
    for (hosts, expected) in others {
        let growth = session.add(&lab.members(hosts, &words)).unwrap();
        assert_eq!((growth.ranks.start, growth.ranks.end, session.size()), (size, *expected, *expected));
        assert!(growth.absent.is_empty(), "{growth:?}");
        size = *expected;
    }
    let took = began.elapsed();
    let mut heard = Heard::default();
    let calls = all_agree(&front, &session, &mut heard);
    println!("{hosts} has grown from {first} to {size} members in {took:?}, in {calls} calls");
    let report = session.report().unwrap();
    assert_eq!(report.hosts().len(), session.current_layout().hosts().len());
    println!("{report}");
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn members_agree_from_which_call_on_a_session_is_larger() {
    let in_program = || options().engine(Engine::InProgram);
    let apart = || options().engine(Engine::Apart);
    play("a1", &[("b1", 2)], &apart());
    play("a1", &[("b1", 2), ("b[2-3]", 4), ("b[4-7]", 8), ("b[8-15]", 16)], &in_program());
    play("a[1-2]:2", &[("b1:3", 7), ("c[1-4]:2", 15)], &apart());
    play("a[1-3]", &[("a[1-3]", 6)], &apart());
}

#[test]
fn a_session_whose_hosts_are_led_by_agents_grows() {
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    play("a[1-2]:2", &[("b[1-6]:2", 16), ("c1", 17)], &options().agent(agent));
}

#[test]
fn commands_run_on_hosts_that_have_come_later() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let waits = |hosts: &str| lab.members(hosts, &["join", "wait"]);
    let session = launch_with(&front, &[waits("a1")], &options().agent(agent));
    let early = session.spawn(&Command::new("sh").args(["-c", "sleep 0.2; echo early"])).unwrap();
    session.add(&waits("b[1-2]:2")).unwrap();
    let all = session.spawn(&Command::new("sh").args(["-c", "echo late on $LIBI_HOST"])).unwrap();
    let one = session.spawn(&Command::new("true").hosts("b2")).unwrap();
    assert_eq!((early.hosts().len(), all.hosts().len(), one.hosts().len()), (1, 3, 1));
    let mut said = Vec::new();
    for command in [&early, &all, &one] {
        let report = command.wait(TIMEOUT).unwrap();
        assert!(report.is_success(), "{report}");
    }
    while let Some(event) = front.next_event(ms(0)) {
        if let Event::CommandOutput { bytes, host_name, .. } = event {
            said.push((host_name, String::from_utf8(bytes).unwrap()));
        }
    }
    said.sort();
    let late = |host: &str| (host.to_owned(), format!("late on {host}\n"));
    let expected = vec![("a1".to_owned(), "early\n".to_owned()), late("a1"), late("b1"), late("b2")];
    assert_eq!(said, expected);
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_host_that_does_not_come_up_is_named_and_the_others_join_if_they_may() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words = ["join", "talk:grow:6", "finish:30000"];
    let session =
        launch_with(&front, &[lab.members("a[1-2]", &words)], &options().policy(Policy::AtLeast(1)));
    let missing = lab.program("/nonexistent/program", "b1", &words);
    match session.add(&missing) {
        Err(Error::NotGrown { why: GrowthError::TooFew(_), hosts }) => {
            assert_eq!(hosts.len(), 1);
            assert!(hosts[0].0 == "b1" && hosts[0].1.contains("/nonexistent/program"), "{hosts:?}");
        }
        other => panic!("{other:?}"),
    }
    let growth = session.add_all(&[missing, lab.members("c[1-2]", &words)]).unwrap();
    assert_eq!((growth.ranks.clone(), growth.absent), (3..6, [Rank(3)].into_iter().collect()));
    let mut heard = Heard::default();
    heard.until(&front, "all have ended", |heard| heard.done);
    for rank in [0, 1, 4, 5] {
        let why = heard.text(rank, libi::Stream::Err);
        assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {why}");
    }
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn where_all_have_to_join_none_does_if_one_does_not() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words = ["join", "talk:grow:7", "finish:30000"];
    let session = launch_with(&front, &[lab.members("a[1-2]", &words)], &options());
    let before = lab.programs();
    let bad = lab.program("/nonexistent/program", "b1", &words);
    let answer = session.add_all(&[bad, lab.members("c[1-2]", &words)]);
    println!("{}", answer.as_ref().unwrap_err());
    assert!(matches!(answer, Err(Error::NotGrown { why: GrowthError::TooFew(_), .. })), "{answer:?}");
    eventually("the new members end", || lab.programs() == before);
    session.add(&lab.members("c[1-2]", &words)).unwrap();
    let mut heard = Heard::default();
    heard.until(&front, "all have ended", |heard| heard.done);
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_session_that_cannot_grow_says_why() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let others = lab.members("b1", &["join", "wait"]);
    let refused = |session: &Session| match session.add(&others) {
        Err(Error::NotGrown { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let fails = launch_with(&front, &[lab.members("a1", &["join", "wait"])], &LaunchOptions::local());
    assert_eq!(refused(&fails), GrowthError::NotContinuing);
    drop(fails);
    let session = launch_with(&front, &[lab.members("a1", &["join", "wait"])], &options());
    session.request_add(std::slice::from_ref(&others)).unwrap();
    assert_eq!(refused(&session), GrowthError::UnderWay);
    session.terminate(ms(500)).unwrap();
    assert_eq!(refused(&session), GrowthError::Ending);
    drop(session);
    lab.is_empty_within(SOON);
}
