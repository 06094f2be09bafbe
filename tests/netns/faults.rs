//! What becomes of a session while the network or a host fails: it is noticed in time, the others
//! are told and go on, the front end is told what was lost and why, and nothing stays behind, not
//! even on hosts that are cut off.

use std::time::{Duration, Instant};

use libi::{Cause, Exit, FrontEnd, LinkPolicy, Phase, Rules, Stream};

use crate::scene::{ENDED, GRACE, SILENCE, SLACK, Scene, ranks};
use crate::{TIMEOUT, options};
use libi_testkit::labs::netns::{ALL, Network};
use libi_testkit::labs::{Marked, within};
use libi_testkit::local::{Heard, launch_with};

/// Within this time a silent host is noticed: silence is looked for whenever a heartbeat is sent,
/// four times in the time that silence is allowed. Then what is left of it here is killed, which
/// takes no grace; and others are told.
const NOTICED: Duration = Duration::from_secs(5);

/// All members wait, and the links between them are as they will be.
fn parted(network: Network, hosts: u32, victims: &[u32], strategy: &str, links: LinkPolicy) -> Scene {
    waiting(network, hosts, victims, strategy, links, "parted:")
}

/// All members wait in this way.
fn waiting(
    network: Network,
    hosts: u32,
    victims: &[u32],
    strategy: &str,
    links: LinkPolicy,
    way: &str,
) -> Scene {
    let ranks: Vec<String> =
        victims.iter().flat_map(|host| ranks(*host)).map(|rank| rank.to_string()).collect();
    let parted = format!("talk:{way}{}", ranks.join("+"));
    let rules = Rules { peer_timeout: SILENCE, kill_grace: GRACE, ..Rules::default() };
    let strategy = strategy.parse().unwrap();
    let options = options(network.backend()).rules(rules).links(links).strategy(strategy);
    let mut scene = Scene::launch(network, hosts, victims, &["join", &parted, "finish:60000"], &options);
    if links != LinkPolicy::Channel {
        within(TIMEOUT, "all links are direct", || scene.session.links().direct == hosts);
    }
    scene.heard.until(&scene.front, "all wait", |heard| {
        (0..2 * hosts).all(|rank| heard.out(rank).contains("waits"))
    });
    scene
}

impl Scene {
    /// It is noticed of all victims, the first of which has failed by itself, and by then all
    /// others know of it.
    fn is_noticed(&mut self, since: Instant, causes: &[Cause]) {
        let victims = self.victims.clone();
        self.heard.until(&self.front, "the loss is noticed", |heard| heard.lost.len() == victims.len());
        let took = since.elapsed();
        println!("noticed after {took:?}: {:?}", self.heard.lost);
        assert!(took < NOTICED + SLACK, "{took:?}");
        for (place, host) in victims.iter().enumerate() {
            let (name, failure) = &self.heard.lost[&libi::HostIndex(host - 1)];
            assert_eq!(*name, format!("h{host}"));
            assert!(failure.phase == Phase::Joined && failure.elapsed > Duration::ZERO, "{failure:?}");
            if place == 0 {
                assert!(causes.contains(&failure.cause), "{failure:?}");
            } else {
                assert_eq!(
                    failure.cause,
                    Cause::LauncherLost(libi::HostIndex(victims[0] - 1)),
                    "{failure:?}"
                );
            }
        }
    }

    /// All who are not lost have been told, go on without those who are, and end well.
    fn others_go_on(&mut self) {
        self.heard.until(&self.front, "all have ended", |heard| heard.done);
        for host in (1..=self.hosts).filter(|host| !self.victims.contains(host)) {
            for rank in ranks(host) {
                let text = self.heard.text(rank, Stream::Err);
                assert_eq!(self.heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {text}");
                assert!(self.heard.out(rank).contains(&format!("{rank} knows")), "rank {rank}");
            }
        }
    }

    fn members_on(&self, host: u32) -> usize {
        self.left_on(host).iter().filter(|process| process.is_member).count()
    }
}

/// The link of a host fails in some way, so that it is lost, and ends by itself.
fn link_fails(what: &str, links: LinkPolicy, fail: impl FnOnce(&Network)) {
    let Some(network) = Network::of(6) else { return };
    let mut scene = parted(network, 6, &[4], "flat", links);
    assert_eq!(scene.members_on(4), 2, "{what}: two members");
    let since = Instant::now();
    fail(&scene.network);
    scene.is_noticed(since, &[Cause::HeartbeatLost, Cause::Closed]);
    scene.others_go_on();
    scene.nothing_is_left_where_it_was_lost(since);
    scene.end();
}

#[test]
fn a_host_whose_link_is_cut_is_noticed_and_ends_by_itself() {
    link_fails("cut", LinkPolicy::Direct, |network| network.cut("h4"));
}

#[test]
fn a_host_whose_link_is_cut_is_noticed_and_ends_by_itself_if_all_goes_through_ssh() {
    link_fails("cut", LinkPolicy::Channel, |network| network.cut("h4"));
}

#[test]
fn a_host_that_is_not_heard_any_more_is_noticed_and_ends() {
    link_fails("mute", LinkPolicy::Direct, |network| network.cut_from("h4"));
}

#[test]
fn a_host_that_does_not_hear_any_more_is_noticed_and_ends_by_itself() {
    link_fails("deaf", LinkPolicy::Direct, |network| network.drop_from_to(ALL, "h4", 100, "all"));
}

#[test]
fn a_host_that_is_cut_off_takes_along_those_it_has_launched() {
    let Some(network) = Network::of(7) else { return };
    // The first launches the second and the third, those two more each.
    let mut scene = parted(network, 7, &[2, 4, 5], "kary:2", LinkPolicy::Direct);
    scene.is_binary_tree();
    let since = Instant::now();
    scene.network.cut("h2");
    scene.is_noticed(since, &[Cause::HeartbeatLost, Cause::Closed]);
    scene.others_go_on();
    scene.nothing_is_left_where_it_was_lost(since);
    scene.end();
}

#[test]
fn a_host_whose_power_fails_is_noticed() {
    let Some(network) = Network::of(6) else { return };
    let mut scene = parted(network, 6, &[3], "flat", LinkPolicy::Direct);
    let since = Instant::now();
    scene.network.end("h3");
    scene.is_noticed(since, &[Cause::HeartbeatLost, Cause::Closed]);
    scene.others_go_on();
    scene.end();
}

#[test]
fn a_host_that_is_frozen_is_noticed_and_has_nothing_left_when_it_thaws() {
    let Some(network) = Network::of(6) else { return };
    let mut scene = parted(network, 6, &[5], "flat", LinkPolicy::Direct);
    let since = Instant::now();
    scene.network.freeze("h5");
    scene.is_noticed(since, &[Cause::HeartbeatLost, Cause::Closed]);
    scene.others_go_on();
    assert_eq!(scene.members_on(5), 2, "they cannot end");
    scene.network.thaw("h5");
    scene.nothing_is_left_where_it_was_lost(since);
    scene.end();
}

#[test]
fn when_the_front_end_is_cut_off_everything_ends_by_itself() {
    let Some(network) = Network::of(6) else { return };
    let mut scene = parted(network, 6, &[1, 2, 3, 4, 5, 6], "late", LinkPolicy::Direct);
    let since = Instant::now();
    scene.network.cut("front");
    scene.nothing_is_left_where_it_was_lost(since);
    scene.heard.until(&scene.front, "the front end knows", |heard| heard.done);
    assert!(since.elapsed() < ENDED + SLACK, "{:?}", since.elapsed());
    assert_eq!(scene.heard.lost.len(), 6, "{}", scene.heard.described());
    scene.end();
}

#[test]
fn calls_under_way_with_much_to_send_end_when_a_host_is_cut_off() {
    let Some(network) = Network::of(5) else { return };
    // Far more than fits into any buffer, again and again.
    let mut scene = waiting(network, 5, &[4], "flat", LinkPolicy::Direct, "drowned:3000000:");
    let since = Instant::now();
    scene.network.cut("h4");
    scene.is_noticed(since, &[Cause::HeartbeatLost, Cause::Closed]);
    scene.others_go_on();
    scene.nothing_is_left_where_it_was_lost(since);
    scene.end();
}

#[test]
fn a_launch_that_loses_every_third_packet_comes_up_or_is_given_up_in_time() {
    const DEADLINE: Duration = Duration::from_secs(12);
    let Some(network) = Network::of(4) else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    network.loss(30);
    let members = mark.program(&network.member(), "h[1-4]:2", &["join", "wait"]);
    let rules = Rules { kill_grace: GRACE, ..Rules::default() };
    let options = options(network.backend()).rules(rules).deadline(DEADLINE);
    let since = Instant::now();
    match front.launch_all(&[members], &options) {
        Ok(sessions) => println!("{}", sessions[0].report().unwrap()),
        Err(libi::Error::NotLaunched(report)) => {
            println!("{report}");
            assert!(report.failed().next().is_some(), "{report}");
        }
        Err(error) => panic!("{error}"),
    }
    assert!(since.elapsed() < DEADLINE + 2 * GRACE + SLACK, "{:?}", since.elapsed());
    network.heal();
    drop(front);
    mark.nothing_is_left();
}

#[test]
fn a_session_that_loses_every_third_packet_works_or_ends_with_a_report() {
    /// How long members may wait in all, which say themselves when that is over.
    const ALL: Duration = Duration::from_secs(30 + 30 + 20);
    let Some(network) = Network::of(6) else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let words = ["join", "talk:barrier", "talk:allgather:5000", "finish:20000"];
    let members = mark.program(&network.member(), "h[1-6]:2", &words);
    let rules = Rules { peer_timeout: 2 * SILENCE, kill_grace: GRACE, ..Rules::default() };
    let session = launch_with(&front, &[members], &options(network.backend()).rules(rules));
    let since = Instant::now();
    network.loss(30);
    let mut heard = Heard::default();
    while !heard.done {
        let event = front.next_event((ALL + SLACK).saturating_sub(since.elapsed()));
        heard.note(event.unwrap_or_else(|| panic!("it hangs: {}", heard.described())));
    }
    println!("after {:?}: {}", since.elapsed(), heard.described());
    for rank in 0..12 {
        let is_lost = heard.lost.contains_key(&libi::HostIndex(rank / 2));
        let says_why = !heard.text(rank, Stream::Err).is_empty();
        // An ssh that does not get its last words through in time is ended, and the status of its
        // member is unknown.
        let ended = matches!(heard.exits.get(&rank), Some(Exit::Code(0) | Exit::Unknown));
        assert!(is_lost || says_why || ended, "{rank}: {}", heard.described());
    }
    network.heal();
    drop((session, front));
    mark.nothing_is_left();
}
