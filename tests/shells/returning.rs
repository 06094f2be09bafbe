//! Lost hosts whose members come back, on the same machine and on others, while the others make calls.
//!
//! `LIBI_SEED` is the seed of the moments.

use std::thread::sleep;
use std::time::Duration;

use libi::{
    Error, Event, Exit, FrontEnd, HostIndex, LaunchOptions, LinkPolicy, OnLoss, Rank, RestartError, Rules,
};
use libi::{Session, Shape, Strategy, Stream};
use libi_core::sim::rng::Rng;

use crate::scene::{Outcome, Process, Scene};
use libi_testkit::kills::{calls_agree, seeded};

const CHAIN: Strategy = Strategy::Static(Shape::Chain);
const SOON: Duration = Duration::from_secs(30);
/// Two members on each host.
const HOSTS: &str = "n[00-05]:2";

fn options(scene: &Scene, strategy: Strategy, links: LinkPolicy) -> LaunchOptions {
    let long = Duration::from_secs(20);
    let options = scene.options().strategy(strategy).loopback(true).links(links).on_loss(OnLoss::Continue);
    let rules = Rules { hello_timeout: long, join_timeout: long, peer_timeout: long, ..options.rules };
    options.rules(rules).deadline(Duration::from_secs(60))
}

/// Kills all processes of a host, and waits until the front end knows it.
fn lose(scene: &Scene, front: &FrontEnd, outcome: &mut Outcome, host: &str) {
    scene.processes().iter().filter(|process| process.host == host).for_each(Process::kill);
    outcome.lost.remove(host);
    outcome.follow_until(front, SOON, |outcome| outcome.lost.contains_key(host));
    assert!(outcome.lost.contains_key(host), "{host} is not lost");
}

fn host_of(session: &Session, rank: u32) -> String {
    let layout = session.current_layout();
    let host = layout.host_of(Rank(rank)).unwrap();
    layout.hosts().entry(host.0 as usize).unwrap().name.to_owned()
}

/// Members of a host are lost with it three times, and come back there, elsewhere, and there again.
fn return_again_and_again(host: u32, options: &LaunchOptions, scene: &Scene, random: &mut Rng) {
    let front = FrontEnd::new().unwrap();
    let (victim, name) = (2 * host + 1, format!("n{host:02}"));
    let calls = format!("talk:rejoin:{victim}:3");
    let (session, report) = scene.launch(&front, HOSTS, &["join", &calls, "finish:30000"], options);
    assert!(report.is_up(), "{report}");
    let mut outcome = Outcome::new(report);
    // A host that does not know yet that the session is up is lost with its launcher.
    let all_call = |outcome: &Outcome| (0..12).all(|rank| outcome.printed(rank, Stream::Out).contains('\n'));
    outcome.follow_until(&front, SOON, all_call);
    for (nth, place) in [None, Some("x1"), None].into_iter().enumerate() {
        sleep(Duration::from_millis(random.below(60)));
        let before = host_of(&session, victim);
        lose(scene, &front, &mut outcome, &before);
        match place {
            Some(place) => session.restart_on(Rank(victim), place, SOON).unwrap(),
            None => session.restart(Rank(victim), SOON).unwrap(),
        }
        let there = place.map_or(before.as_str(), |place| place);
        assert_eq!((&*host_of(&session, victim), session.current_layout().hosts().len()), (there, 7 + nth));
        assert_eq!(session.lost().len(), 0, "all are back");
    }
    assert_eq!((host_of(&session, victim - 1), host_of(&session, 0)), ("x1".to_owned(), "n00".to_owned()));
    outcome.follow(&front, Duration::from_secs(60));
    for rank in 0..12 {
        let why = outcome.printed(rank, Stream::Err);
        assert_eq!(outcome.exits.get(&Rank(rank)), Some(&Exit::Code(0)), "rank {rank} of {name}: {why}");
    }
    let others = (0..12).filter(|rank| rank / 2 != host);
    calls_agree(others.map(|rank| (rank, outcome.printed(rank, Stream::Out))));
    drop(session);
    scene.nothing_is_left();
}

#[test]
fn members_of_lost_hosts_come_back_there_and_elsewhere_and_all_agree_on_every_call() {
    let mut random = seeded();
    for (strategy, host, links) in [
        (CHAIN, 5, LinkPolicy::Auto),
        (CHAIN, 2, LinkPolicy::Auto),
        (Strategy::Late, 4, LinkPolicy::Auto),
        (CHAIN, 3, LinkPolicy::Channel),
    ] {
        let scene = Scene::new("seq 1ms\nrem 5ms");
        return_again_and_again(host, &options(&scene, strategy, links), &scene, &mut random);
    }
}

/// A launched session, whose host n02 is lost.
fn without_a_host(scene: &Scene, front: &FrontEnd, options: &LaunchOptions) -> Session {
    let (session, report) = scene.launch(front, HOSTS, &["join", "wait"], options);
    assert!(report.is_up(), "{report}");
    lose(scene, front, &mut Outcome::new(report), "n02");
    session
}

/// A spare takes the place of a lost host, by itself or because one of its members is to be restarted.
fn spare_returns(by_itself: bool) {
    let scene = Scene::new("seq 1ms\nrem 5ms");
    let front = FrontEnd::new().unwrap();
    let options = options(&scene, Strategy::Late, LinkPolicy::Auto).spares("s[1-2]".try_into().unwrap());
    let session = without_a_host(&scene, &front, &options.restarts(u32::from(by_itself)));
    if !by_itself {
        session.request_restart(Rank(4));
    }
    let mut back = Vec::new();
    while back.len() < 2 {
        match front.next_event(SOON).expect("both come back") {
            Event::Restarted { rank, host_name, .. } => back.push((rank.0, host_name)),
            Event::NotRestarted { why, .. } => panic!("{why}"),
            _ => {}
        }
    }
    assert_eq!(back, [(4, "s1".to_owned()), (5, "s1".to_owned())]);
    let report = session.report().unwrap();
    let new = &report.hosts()[6];
    assert_eq!((&*new.name, &new.failure), ("s1", &None));
    assert_eq!(session.current_layout().leader(HostIndex(6)), Some(Rank(4)));
    drop(session);
    scene.nothing_is_left();
}

#[test]
fn a_spare_that_is_left_takes_the_place_of_a_lost_host() {
    spare_returns(false);
}

#[test]
fn a_spare_takes_the_place_of_a_lost_host_by_itself_where_members_are_restarted() {
    spare_returns(true);
}

#[test]
fn members_do_not_come_back_where_no_host_does_and_the_reason_is_given() {
    let scene = Scene::new("seq 1ms\nrem 5ms\nfault bad refuse");
    let front = FrontEnd::new().unwrap();
    let session = without_a_host(&scene, &front, &options(&scene, Strategy::Late, LinkPolicy::Auto));
    let refusal = |answer: Result<(), Error>| match answer {
        Err(Error::NotRestarted { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    let why = refusal(session.restart_on(Rank(5), "bad", SOON));
    assert!(matches!(&why, RestartError::NoHost(why) if why.starts_with("bad: ")), "{why}");
    assert_eq!(session.lost().len(), 2);
    assert_eq!(refusal(session.restart_on(Rank(0), "x1", SOON)), RestartError::HostUp);
    assert_eq!(refusal(session.restart_on(Rank(5), "x[1-2]", SOON)), RestartError::NotOneHost);
    assert!(matches!(session.restart_on(Rank(5), "x[1-", SOON), Err(Error::Distribution(_))));
    // The machine of the lost host has done nothing wrong.
    session.restart_on(Rank(5), "n02", SOON).unwrap();
    assert_eq!(session.lost().len(), 0);
    drop(session);
    scene.nothing_is_left();
}
