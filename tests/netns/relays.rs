//! Leaders that are redirected in a network in which hosts cannot reach each other, or only some can:
//! they come back, and the front end admits them.

use libi::{Exit, FrontEnd, LaunchReport, LinkPolicy, OsBytes, Starter};

use crate::options;
use libi_testkit::labs::Marked;
use libi_testkit::labs::netns::Network;
use libi_testkit::local::{Heard, launch_with};

const HOSTS: u32 = 6;

/// Starts all hosts by clush, with one relay, and has their members talk.
fn play(network: &Network) -> std::sync::Arc<LaunchReport> {
    let word = |text: &str| OsBytes::try_from(text).unwrap();
    let libi::Backend::Ssh(ssh) = network.backend() else { panic!("the laboratory is reached by ssh") };
    let config = format!("-F {}", ssh.config.unwrap());
    let args = ["-f", "64", "-o", &config].map(word).to_vec();
    let by_clush = options(Starter { args, ..Starter::clush(word("clush")) }.into());
    let by_clush = by_clush.strategy("kary:1".parse().unwrap()).links(LinkPolicy::Auto);
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let words = ["join", "talk:barrier", "talk:allgather:100", "finish:30000"];
    let members = mark.program(&network.member(), &format!("h[1-{HOSTS}]:2"), &words);
    let session = launch_with(&front, &[members], &by_clush);
    let heard = Heard::all(&front);
    assert!((0..2 * HOSTS).all(|rank| heard.exits[&rank] == Exit::Code(0)), "{:?}", heard.exits);
    let report = session.report().unwrap();
    drop((session, front));
    mark.nothing_is_left();
    report
}

/// How many hosts the front end itself has admitted.
fn admitted(report: &LaunchReport) -> usize {
    report.hosts().iter().filter(|host| host.launcher.is_none()).count()
}

#[test]
fn leaders_that_reach_no_other_host_are_admitted_by_the_front_end() {
    let Some(network) = Network::of(HOSTS) else { return };
    for from in 1..=HOSTS {
        for to in (1..=HOSTS).filter(|to| *to != from) {
            network.drop_from_to(&format!("h{from}"), &format!("h{to}"), 100, "tcp");
        }
    }
    let report = play(&network);
    assert_eq!((report.joined(), admitted(&report)), (HOSTS as usize, HOSTS as usize), "{report}");
    // Where all hosts reach each other, the first to arrive admits the others.
    network.heal();
    let report = play(&network);
    assert_eq!((report.joined(), admitted(&report)), (HOSTS as usize, 1), "{report}");
}
