//! Hosts whose servers do not accept all clients: which host launches which, where leaders launch
//! ([`LinkPolicy::Channel`]) and where the front end does beside them.

use std::sync::Arc;
use std::time::Duration;

use libi::{Exit, FrontEnd, LaunchReport, LinkPolicy, Policy};

use crate::options;
use libi_testkit::labs::Marked;
use libi_testkit::labs::netns::Network;
use libi_testkit::local::{Heard, launch_with};

/// Only the front end may log in.
const FRONT_ALONE: &str = "AllowUsers libi-net@10.77.0.1";

/// Launches two members on each of so many hosts, which all have to end well.
fn play(network: &Network, hosts: u32, links: LinkPolicy) -> Arc<LaunchReport> {
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let words = ["join", "talk:barrier", "finish:60000"];
    let members = mark.program(&network.member(), &format!("h[1-{hosts}]:2"), &words);
    let session = launch_with(&front, &[members], &options(network.backend()).links(links));
    let heard = Heard::all(&front);
    let report = session.report().unwrap();
    println!("{report}");
    assert_eq!((report.joined(), heard.exits.len()), (hosts as usize, 2 * hosts as usize), "{report}");
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
    report
}

#[test]
fn where_hosts_do_not_let_each_other_in_all_are_launched_from_the_front_end_and_the_report_says_so_once() {
    let Some(network) = Network::with(16, |_| vec![FRONT_ALONE]) else { return };
    let report = play(&network, 16, LinkPolicy::Channel);
    let flat = report.flat().expect("it was noticed");
    assert!(flat.host == "h1" && flat.failure.tail.contains("Permission denied (publickey)"), "{flat:?}");
    assert_eq!(report.to_string().matches("hosts cannot launch each other (h1: ").count(), 1, "{report}");
    assert!(report.hosts().iter().all(|host| host.launcher.is_none()), "{report}");
    // Where links may be direct, the front end has launched a few hosts before the login at one is over, which
    // takes ten times as long; of many a host that is up may be given some, and try.
    let report = play(&network, 4, LinkPolicy::Auto);
    assert!(report.flat().is_none(), "{report}");
    assert!(report.hosts().iter().all(|host| host.launcher.is_none()), "{report}");
}

#[test]
fn hosts_that_no_server_accepts_leave_launching_to_the_others() {
    // Every third is a stranger to all the others.
    const STRANGERS: &str =
        "DenyUsers libi-net@10.77.1.3 libi-net@10.77.1.6 libi-net@10.77.1.9 libi-net@10.77.1.12";
    let Some(network) = Network::with(14, |_| vec![STRANGERS]) else { return };
    let report = play(&network, 14, LinkPolicy::Channel);
    assert!(report.flat().is_none(), "{report}");
    let launchers: Vec<_> = report.hosts().iter().filter_map(|host| host.launcher).collect();
    assert!(!launchers.is_empty() && launchers.iter().all(|host| (host.0 + 1) % 3 != 0), "{launchers:?}");
}

#[test]
fn hosts_that_accept_only_the_front_end_are_named_among_others() {
    let Some(network) = Network::with(12, |host| if host % 4 == 3 { vec![FRONT_ALONE] } else { vec![] })
    else {
        return;
    };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let members = mark.program(&network.member(), "h[1-12]", &["join", "finish:60000"]);
    let options = options(network.backend()).policy(Policy::AtLeast(1)).settle(Some(Duration::MAX));
    let options = options.links(LinkPolicy::Channel);
    let session = launch_with(&front, &[members], &options);
    let heard = Heard::all(&front);
    let report = session.report().unwrap();
    assert_eq!((report.joined(), heard.exits.len()), (9, 9), "{report}");
    assert!(report.flat().is_none(), "most can launch each other: {report}");
    let text = report.to_string();
    assert!(text.contains("h[3,7,11]  login denied"), "{text}");
    assert!(text.contains("also from hosts that launch others"), "{text}");
}
