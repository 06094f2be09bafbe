//! Hosts in the middle of the tree that fail while calls go on: those below them find another parent,
//! if the network lets them.

use std::time::Duration;

use libi::{Cause, Exit, FrontEnd, HostIndex, LinkPolicy, OnLoss, Rules, Session};

use crate::{TIMEOUT, options};
use libi_testkit::labs::netns::{ALL, Network};
use libi_testkit::labs::{Marked, within};
use libi_testkit::local::{Heard, launch_with};

const HOSTS: u32 = 7;
/// A host that is silent for so long is lost. Those below it have as long again to be back.
const SILENCE: Duration = Duration::from_secs(4);
/// So many calls take longer than it takes to make a host fail.
const CALLS: u32 = 600;

/// Members that make calls all the time, two on each host. The first host has launched the second and
/// the third, and each of these two more.
struct Scene {
    network: Network,
    front: FrontEnd,
    session: Session,
    mark: Marked,
    heard: Heard,
}

impl Scene {
    fn new(network: Network, silence: Duration, links: LinkPolicy) -> Self {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let calls = format!("talk:survive:{CALLS}:7:9999");
        let words = ["join", calls.as_str(), "finish:60000"];
        let members = mark.program(&network.member(), &format!("h[1-{HOSTS}]:2"), &words);
        let rules = Rules { peer_timeout: silence, ..Rules::default() };
        let options = options(network.backend()).rules(rules).links(links).on_loss(OnLoss::Continue);
        let session = launch_with(&front, &[members], &options.strategy("kary:2".parse().unwrap()));
        let report = session.report().unwrap();
        let launched: Vec<_> = report.hosts().iter().map(|host| host.launcher.map(|by| by.0)).collect();
        assert_eq!(launched[3..], [Some(1), Some(1), Some(2), Some(2)], "{launched:?}");
        let mut heard = Heard::default();
        let call = |heard: &Heard| (0..2 * HOSTS).all(|rank| heard.out(rank).contains('\n'));
        heard.until(&front, "all make calls", call);
        Self { network, front, session, mark, heard }
    }

    /// These are lost for these causes, and no others; all others agree on every call.
    fn goes_on_without(&mut self, lost: &[(u32, &[Cause])]) {
        self.heard.until(&self.front, "all have ended", |heard| heard.done);
        let heard = &self.heard;
        let found: Vec<u32> = heard.lost.keys().map(|host| host.0 + 1).collect();
        let expected: Vec<u32> = lost.iter().map(|(host, _)| *host).collect();
        assert_eq!(found, expected, "{}", heard.described());
        for (host, causes) in lost {
            let (name, failure) = &heard.lost[&HostIndex(host - 1)];
            assert!(*name == format!("h{host}") && causes.contains(&failure.cause), "{name}: {failure:?}");
        }
        let without =
            expected.first().map_or(String::new(), |host| format!("without ranks {}", 2 * host - 2));
        assert!(heard.out(0).contains(&without), "all calls were over before: {}", heard.described());
        for rank in 0..2 * HOSTS {
            if !expected.contains(&(rank / 2 + 1)) {
                assert_eq!(
                    heard.exits.get(&rank),
                    Some(&Exit::Code(0)),
                    "rank {rank}: {}",
                    heard.described()
                );
                assert_eq!(heard.out(rank), heard.out(0), "rank {rank}");
            }
        }
    }

    fn end(self) {
        let Self { network, front, session, mark, .. } = self;
        drop((session, front));
        mark.nothing_is_left();
        drop(network);
    }
}

const SILENT: &[Cause] = &[Cause::HeartbeatLost, Cause::Closed];

#[test]
fn a_power_failure_in_the_middle_costs_that_host_alone() {
    let Some(network) = Network::of(HOSTS) else { return };
    let mut scene = Scene::new(network, SILENCE, LinkPolicy::Direct);
    scene.network.end("h2");
    scene.goes_on_without(&[(2, SILENT)]);
    scene.end();
}

#[test]
fn a_host_in_the_middle_that_is_cut_off_is_lost_alone_and_ends_by_itself() {
    let Some(network) = Network::of(HOSTS) else { return };
    let mut scene = Scene::new(network, SILENCE, LinkPolicy::Direct);
    scene.network.cut("h2");
    scene.goes_on_without(&[(2, SILENT)]);
    within(TIMEOUT, "what was lost has ended", || {
        let there = scene.network.processes("h2");
        !scene.mark.processes().iter().any(|process| there.contains(&process.pid))
    });
    scene.end();
}

#[test]
fn a_host_in_the_middle_that_is_back_in_time_is_not_lost() {
    let Some(network) = Network::of(HOSTS) else { return };
    let mut scene = Scene::new(network, 4 * SILENCE, LinkPolicy::Direct);
    scene.network.cut("h2");
    // How long the cut lasts, in which nothing can be waited for.
    std::thread::sleep(Duration::from_secs(3));
    scene.network.heal();
    scene.goes_on_without(&[]);
    scene.end();
}

#[test]
fn hosts_that_only_ssh_can_reach_are_lost_with_their_launcher_and_named() {
    let Some(network) = Network::of(HOSTS) else { return };
    network.drop_from_to(ALL, ALL, 100, "tcp");
    let mut scene = Scene::new(network, SILENCE, LinkPolicy::Auto);
    scene.network.end("h2");
    let with_launcher = &[Cause::LauncherLost(HostIndex(1))][..];
    scene.goes_on_without(&[(2, SILENT), (4, with_launcher), (5, with_launcher)]);
    scene.end();
}
