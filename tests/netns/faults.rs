//! What becomes of a session while the network or a host fails: it is noticed in time, the others
//! are told and go on, the front end is told what was lost and why, and nothing stays behind, not
//! even on hosts that are cut off.

use std::time::{Duration, Instant};

use libi::{Cause, Exit, FrontEnd, LinkPolicy, Phase, Rules, Session, Stream};

use crate::{TIMEOUT, options};
use libi_testkit::labs::netns::{ALL, Network};
use libi_testkit::labs::{Marked, Process, within};
use libi_testkit::local::{Heard, launch_with};

const SILENCE: Duration = Duration::from_secs(4);
const GRACE: Duration = Duration::from_secs(1);
/// Within this time a silent host is noticed: silence is looked for whenever a heartbeat is sent,
/// four times in the time that silence is allowed. Then what is left of it here is killed, which
/// takes no grace; and others are told.
const NOTICED: Duration = Duration::from_secs(5);
/// Within this time a host that is cut off has ended, even if its processes ignore signals.
const ENDED: Duration = Duration::from_secs(5 + 2);
/// How much longer things may take on a machine that does much else.
const SLACK: Duration = Duration::from_secs(3);

/// A session of two members on each of so many hosts, some of which are to be lost.
struct Scene {
    network: Network,
    front: FrontEnd,
    session: Session,
    mark: Marked,
    heard: Heard,
    hosts: u32,
    victims: Vec<u32>,
}

impl Scene {
    fn new(network: Network, hosts: u32, victims: &[u32], strategy: &str, links: LinkPolicy) -> Self {
        Self::talking(network, hosts, victims, strategy, links, "parted:")
    }

    /// All members wait, in this way, and the links between them are as they will be.
    fn talking(
        network: Network,
        hosts: u32,
        victims: &[u32],
        strategy: &str,
        links: LinkPolicy,
        way: &str,
    ) -> Self {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let ranks: Vec<String> =
            victims.iter().flat_map(|host| ranks(*host)).map(|rank| rank.to_string()).collect();
        let parted = format!("talk:{way}{}", ranks.join("+"));
        let members =
            mark.program(&network.member(), &format!("h[1-{hosts}]:2"), &["join", &parted, "finish:60000"]);
        let rules = Rules { peer_timeout: SILENCE, kill_grace: GRACE, ..Rules::default() };
        let strategy = strategy.parse().unwrap();
        let options = options(network.backend()).rules(rules).links(links).strategy(strategy);
        let session = launch_with(&front, &[members], &options);
        if links != LinkPolicy::Channel {
            within(TIMEOUT, "all links are direct", || session.links().direct == hosts);
        }
        let mut heard = Heard::default();
        heard.until(&front, "all wait", |heard| (0..2 * hosts).all(|rank| heard.out(rank).contains("waits")));
        Self { network, front, session, mark, heard, hosts, victims: victims.to_vec() }
    }

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

    /// Processes of the launch on a host.
    fn left_on(&self, host: u32) -> Vec<Process> {
        let there = self.network.processes(&format!("h{host}"));
        let ours = self.mark.processes().into_iter();
        ours.filter(|process| there.contains(&process.pid)).collect()
    }

    fn members_on(&self, host: u32) -> usize {
        self.left_on(host).iter().filter(|process| process.is_member).count()
    }

    /// A host that is cut off has ended by itself.
    fn nothing_is_left_where_it_was_lost(&self, since: Instant) {
        let victims = || self.victims.iter().flat_map(|host| self.left_on(*host)).collect::<Vec<_>>();
        within(ENDED + SLACK, "what was lost has ended", || victims().is_empty());
        println!("all that was lost has ended after {:?}", since.elapsed());
    }

    fn end(self) {
        let Self { network, front, session, mark, .. } = self;
        drop((session, front));
        mark.nothing_is_left();
        drop(network);
    }
}

fn ranks(host: u32) -> [u32; 2] {
    [2 * host - 2, 2 * host - 1]
}

/// The link of a host fails in some way, so that it is lost, and ends by itself.
fn link_fails(what: &str, links: LinkPolicy, fail: impl FnOnce(&Network)) {
    let Some(network) = Network::of(6) else { return };
    let mut scene = Scene::new(network, 6, &[4], "flat", links);
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
    let mut scene = Scene::new(network, 7, &[2, 4, 5], "kary:2", LinkPolicy::Direct);
    let launched: Vec<_> =
        scene.session.report().unwrap().hosts().iter().map(|host| host.launcher.map(|by| by.0)).collect();
    assert_eq!(launched[3..], [Some(1), Some(1), Some(2), Some(2)], "{launched:?}");
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
    let mut scene = Scene::new(network, 6, &[3], "flat", LinkPolicy::Direct);
    let since = Instant::now();
    scene.network.end("h3");
    scene.is_noticed(since, &[Cause::HeartbeatLost, Cause::Closed]);
    scene.others_go_on();
    scene.end();
}

#[test]
fn a_host_that_is_frozen_is_noticed_and_has_nothing_left_when_it_thaws() {
    let Some(network) = Network::of(6) else { return };
    let mut scene = Scene::new(network, 6, &[5], "flat", LinkPolicy::Direct);
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
    let mut scene = Scene::new(network, 6, &[1, 2, 3, 4, 5, 6], "late", LinkPolicy::Direct);
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
    let mut scene = Scene::talking(network, 5, &[4], "flat", LinkPolicy::Direct, "drowned:3000000:");
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
