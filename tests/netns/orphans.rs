//! Hosts in the middle of the tree that fail while calls go on: those below them find another parent,
//! or one above them reaches them where the network lets nothing but ssh through.

use std::time::{Duration, Instant};

use libi::{Cause, Exit, HostIndex, LinkPolicy, OnLoss, Rules};

use crate::options;
use crate::scene::{GRACE, SILENCE, Scene, ranks};
use libi_testkit::labs::netns::{ALL, Network};
use libi_testkit::launching::is_every_case_asked_for;

const HOSTS: u32 = 7;
/// So many calls take longer than it takes to make a host fail.
const CALLS: u32 = 600;
const SILENT: &[Cause] = &[Cause::HeartbeatLost, Cause::Closed];

/// So many take longer than 30 seconds.
const CALLS_FOR_LONG: u32 = 6_000;

/// Members make calls that take longer than it takes to make a host fail.
fn calling(network: Network, victims: &[u32], silence: Duration, links: LinkPolicy) -> Scene {
    calling_often(CALLS, network, victims, silence, links)
}

/// Members make so many calls one after the other. A host that is silent for so long is lost, and those below
/// it have as long again to be back.
fn calling_often(
    calls: u32,
    network: Network,
    victims: &[u32],
    silence: Duration,
    links: LinkPolicy,
) -> Scene {
    let calls = format!("talk:survive:{calls}:7:9999");
    let rules = Rules { peer_timeout: silence, kill_grace: GRACE, ..Rules::default() };
    let options = options(network.backend()).rules(rules).links(links).on_loss(OnLoss::Continue);
    let options = options.strategy("kary:2".parse().unwrap());
    let mut scene = Scene::launch(network, HOSTS, victims, &["join", &calls, "finish:60000"], &options);
    scene.is_binary_tree();
    scene.heard.until(&scene.front, "all make calls", |heard| {
        (0..2 * HOSTS).all(|rank| heard.out(rank).contains('\n'))
    });
    scene
}

impl Scene {
    /// The second host is cut off for so long while calls are made.
    fn is_cut_off_for(&mut self, long: Duration) {
        let since = Instant::now();
        self.network.cut("h2");
        while let Some(event) = self.front.next_event(long.saturating_sub(since.elapsed())) {
            self.heard.note(event);
        }
        assert!(!self.heard.out(0).contains("left:"), "all calls were over before");
        self.network.heal();
    }

    /// The first victim is lost because it is silent, the others with it, and no others; all others agree
    /// on every call, and make calls without the lost.
    fn goes_on_without_victims(&mut self) {
        self.heard.until(&self.front, "all have ended", |heard| heard.done);
        let heard = &self.heard;
        let found: Vec<u32> = heard.lost.keys().map(|host| host.0 + 1).collect();
        assert_eq!(found, self.victims, "{}", heard.described());
        for (nth, (host, (name, failure))) in heard.lost.iter().enumerate() {
            let with_launcher = [Cause::LauncherLost(HostIndex(self.victims[0] - 1))];
            let causes = if nth == 0 { SILENT } else { &with_launcher };
            assert!(*name == format!("h{}", host.0 + 1), "{name}");
            assert!(causes.contains(&failure.cause), "{name}: {failure:?}");
        }
        if let Some(first) = self.victims.first() {
            let without = format!("without ranks {}", ranks(*first)[0]);
            assert!(heard.out(0).contains(&without), "all calls were over before: {}", heard.described());
        }
        for rank in (1..=HOSTS).filter(|host| !self.victims.contains(host)).flat_map(ranks) {
            let exit = heard.exits.get(&rank);
            assert_eq!(exit, Some(&Exit::Code(0)), "rank {rank}: {}", heard.described());
            assert_eq!(heard.out(rank), heard.out(0), "rank {rank}");
        }
    }
}

#[test]
fn a_power_failure_in_the_middle_costs_that_host_alone() {
    let Some(network) = Network::of(HOSTS) else { return };
    let mut scene = calling(network, &[2], SILENCE, LinkPolicy::Direct);
    scene.network.end("h2");
    scene.goes_on_without_victims();
    scene.end();
}

#[test]
fn a_host_in_the_middle_that_is_cut_off_is_lost_alone_and_ends_by_itself() {
    let Some(network) = Network::of(HOSTS) else { return };
    let mut scene = calling(network, &[2], SILENCE, LinkPolicy::Direct);
    let since = Instant::now();
    scene.network.cut("h2");
    scene.goes_on_without_victims();
    scene.nothing_is_left_where_it_was_lost(since);
    scene.end();
}

#[test]
fn a_host_in_the_middle_that_is_back_in_time_is_not_lost() {
    const CUT: Duration = Duration::from_secs(3);
    let Some(network) = Network::of(HOSTS) else { return };
    let mut scene = calling(network, &[], 4 * SILENCE, LinkPolicy::Direct);
    scene.is_cut_off_for(CUT);
    scene.goes_on_without_victims();
    scene.end();
}

/// The network works again when the host has been given up: nothing that was on its way does harm.
#[test]
fn a_host_in_the_middle_that_is_back_after_30_seconds_stays_lost_and_calls_go_on() {
    const CUT: Duration = Duration::from_secs(30);
    let Some(network) = is_every_case_asked_for().then(|| Network::of(HOSTS)).flatten() else { return };
    let silence = Rules::default().peer_timeout;
    let mut scene = calling_often(CALLS_FOR_LONG, network, &[2], silence, LinkPolicy::Direct);
    let since = Instant::now();
    scene.is_cut_off_for(CUT);
    scene.nothing_is_left_where_it_was_lost(since);
    scene.goes_on_without_victims();
    scene.end();
}

#[test]
fn hosts_that_only_ssh_can_reach_are_reached_by_it_and_not_lost_with_their_launcher() {
    let Some(network) = Network::of(HOSTS) else { return };
    network.drop_from_to(ALL, ALL, 100, "tcp");
    let mut scene = calling(network, &[2], SILENCE, LinkPolicy::Auto);
    scene.network.end("h2");
    scene.goes_on_without_victims();
    scene.end();
}
