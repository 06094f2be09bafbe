//! Sessions that grow through remote shells, while their members make calls and hosts die.
//!
//! `LIBI_SEED` is the seed of the victims and of the moments.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use libi::{
    Cause, Engine, Error, Exit, FrontEnd, GrowthError, LaunchOptions, LinkPolicy, OnLoss, Policy, Rules,
};
use libi::{Shape, Strategy, Stream};

use crate::scene::{Outcome, Scene, What, members};
use libi_testkit::kills::{calls_agree, pick, seeded};
use libi_testkit::launching::is_every_case_asked_for;

fn options(scene: &Scene, links: LinkPolicy) -> LaunchOptions {
    let long = Duration::from_secs(20);
    let options = scene.options().loopback(true).links(links).on_loss(OnLoss::Continue);
    let rules = Rules { hello_timeout: long, join_timeout: long, peer_timeout: long, ..options.rules };
    options.rules(rules).deadline(Duration::from_secs(60)).strategy(Strategy::Late)
}

/// How many hosts a session grows to: all cases have 256.
fn most_hosts() -> u32 {
    if is_every_case_asked_for() { 256 } else { 64 }
}

/// A session of one host doubles until it has so many, while its members make calls.
fn grow_in_steps(links: LinkPolicy) {
    let scene = Scene::new("seq 1ms\nrem 5ms");
    let front = FrontEnd::new().unwrap();
    let most = most_hosts();
    let words = ["join", &format!("talk:grow:{most}"), "finish:30000"];
    let options = options(&scene, links).engine(Engine::InProgram);
    let (session, report) = scene.launch(&front, "n000", &words, &options);
    let (mut outcome, began) = (Outcome::new(report), Instant::now());
    let mut size = 1;
    while size < most {
        let growth = session.add(&members(&format!("n[{size:03}-{:03}]", 2 * size - 1), &words)).unwrap();
        assert_eq!((growth.ranks, growth.absent.is_empty()), (size..2 * size, true));
        size *= 2;
    }
    let took = began.elapsed();
    outcome.follow(&front, Duration::from_secs(60));
    for rank in 0..most {
        let why = outcome.printed(rank, Stream::Err);
        assert_eq!(outcome.exits.get(&libi::Rank(rank)), Some(&Exit::Code(0)), "rank {rank}: {why}");
    }
    let calls = calls_agree((0..most).map(|rank| (rank, outcome.printed(rank, Stream::Out))));
    let launchers = scene.launchers().len();
    println!("{links:?}: from 1 to {most} hosts in {took:?}, by {launchers} launchers, {calls} calls");
    assert!(launchers > 4, "{launchers} have launched hosts");
    drop(session);
    scene.nothing_is_left();
}

#[test]
fn a_session_grows_in_steps_while_its_members_make_calls() {
    grow_in_steps(LinkPolicy::Auto);
    grow_in_steps(LinkPolicy::Channel);
}

#[test]
fn hosts_may_die_while_a_session_grows_and_all_others_agree_on_every_call() {
    let mut random = seeded();
    for strategy in [Strategy::Late, Strategy::Static(Shape::Kary(2.try_into().unwrap()))] {
        let scene = Scene::new("seq 1ms\nrem 5ms");
        let front = FrontEnd::new().unwrap();
        let words = ["join", "talk:grow:28", "finish:30000"];
        let options = options(&scene, LinkPolicy::Auto).engine(Engine::Apart).strategy(strategy);
        let (session, report) = scene.launch(&front, "n[00-07]", &words, &options);
        let mut outcome = Outcome::new(report);
        let (mut victims, mut asked) = (BTreeSet::new(), 0);
        for (hosts, kills) in [("n[08-13]", 2), ("n[14-19]", 2), ("n[20-27]", 0)] {
            session.request_add(&[members(hosts, &words)]).unwrap();
            for _ in 0..kills {
                sleep(Duration::from_millis(random.below(60)));
                let leads = |host: &str| host != "n00" && !victims.contains(host);
                let leaders: Vec<_> =
                    scene.processes().into_iter().filter(|it| it.what == What::Leader).collect();
                let Some(leader) = pick(&leaders.iter().collect::<Vec<_>>(), &mut random) else { continue };
                if leads(&leader.host) {
                    victims.insert(leader.host.clone());
                    leader.kill();
                }
            }
            asked += 1;
            outcome.follow_until(&front, Duration::from_secs(60), |outcome| outcome.growths.len() == asked);
        }
        println!("{strategy:?}: {victims:?} were killed; {:?}", outcome.growths);
        outcome.follow(&front, Duration::from_secs(60));
        for (host, cause) in outcome.lost.iter().filter(|(host, _)| !victims.contains(*host)) {
            // A host that has not heard yet that it is in the session is lost with its launcher.
            let is_new = host.as_str() >= "n08" && matches!(cause, Cause::LauncherLost(_) | Cause::Cancelled);
            assert!(is_new, "{:?} of {victims:?}", outcome.lost);
        }
        let lost = |name: &str| victims.contains(name) || outcome.lost.contains_key(name);
        let layout = session.current_layout();
        let host =
            |rank| layout.host_of(libi::Rank(rank)).and_then(|host| layout.hosts().entry(host.0 as usize));
        let is_left = |rank: &u32| host(*rank).is_some_and(|host| !lost(host.name));
        let left: Vec<u32> = (0..session.size()).filter(is_left).collect();
        for rank in &left {
            let why = outcome.printed(*rank, Stream::Err);
            assert_eq!(outcome.exits.get(&libi::Rank(*rank)), Some(&Exit::Code(0)), "rank {rank}: {why}");
        }
        calls_agree(left.iter().map(|rank| (*rank, outcome.printed(*rank, Stream::Out))));
        drop(session);
        scene.nothing_is_left();
    }
}

#[test]
fn hosts_that_no_host_of_the_session_reaches_fail_with_what_the_shell_said() {
    let scene = Scene::new("seq 1ms\nrem 5ms\nfault n05 refuse\nfault n06 refuse");
    let front = FrontEnd::new().unwrap();
    let options = options(&scene, LinkPolicy::Auto).policy(Policy::All);
    let (session, _) = scene.launch(&front, "n[00-01]", &["join", "wait"], &options);
    match session.add(&members("n[04-06]", &["join", "wait"])) {
        Err(Error::NotGrown { why: GrowthError::TooFew(_), hosts }) => {
            println!("{hosts:?}");
            let is_it = |(host, why): &(String, String)| host != "n04" && why.contains("refused");
            assert!(hosts.len() == 3 && hosts.iter().any(is_it), "{hosts:?}");
        }
        other => panic!("{other:?}"),
    }
    drop(session);
    scene.nothing_is_left();
}
