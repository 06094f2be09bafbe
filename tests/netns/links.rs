//! Direct links where hosts have more addresses than lead to them, and where firewalls leave
//! nothing but ssh.

use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use libi::{FrontEnd, LinkPolicy};

use crate::{TIMEOUT, options};
use libi_testkit::labs::netns::{ALL, Network};
use libi_testkit::labs::{Marked, within};
use libi_testkit::local::{Heard, launch_with};
use libi_testkit::operations;

/// How long a host tries to connect to its launcher.
const DIALLING: Duration = Duration::from_secs(3);
/// How much longer things may take on a machine that does much else.
const SLACK: Duration = Duration::from_secs(5);

#[test]
fn where_nothing_but_ssh_comes_through_everything_works_and_hardly_later() {
    let Some(network) = Network::of(8) else { return };
    // It takes so long that it is not over before it is known that there are no direct links.
    network.delay(Duration::from_millis(15));
    let play = |links| {
        let (began, options) = (Instant::now(), options(network.backend()).links(links));
        let (report, tally) = operations::all_come_out(&network.member(), "h[1-8]:2", 16, &options);
        (began.elapsed(), report, tally)
    };
    let (as_it_is, ..) = play(LinkPolicy::Channel);
    // Connections time out: packets are dropped, and not rejected.
    network.drop_from_to(ALL, ALL, 100, "tcp");
    let (with_tries, report, tally) = play(LinkPolicy::Auto);
    println!("{as_it_is:?} through channels, {with_tries:?} when direct links were tried in vain");
    assert!(with_tries < as_it_is + DIALLING + SLACK);
    // Who came later than it was known was not asked to try.
    assert!(tally.direct == 0 && tally.fell_back > 0, "{tally:?}");
    assert_eq!(report.fell_back().count(), tally.fell_back as usize, "{report}");
    assert!(
        report.to_string().contains("cannot connect directly; the channel of its launch is used instead")
    );
}

#[test]
fn which_hosts_have_no_direct_link_is_in_the_report_once_it_is_known() {
    let Some(network) = Network::of(3) else { return };
    network.drop_from_to("h1", "h2", 100, "tcp");
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let options = options(network.backend()).strategy("flat".parse().unwrap());
    let words = ["join", "talk:allgather:100000", "wait"];
    let members = mark.program(&network.member(), "h[1-3]", &words);
    let session = launch_with(&front, &[members], &options);
    let began = Instant::now();
    within(TIMEOUT, "it is known of all", || {
        let links = session.links();
        (links.direct, links.fell_back) == (1, 1)
    });
    assert!(began.elapsed() < DIALLING + SLACK, "{:?}", began.elapsed());
    let report = session.report().unwrap();
    let direct: Vec<_> = report.hosts().iter().map(|host| host.direct).collect();
    assert_eq!(direct, [None, Some(false), Some(true)], "{report}");
    // The first host has had nothing to tell the front end.
    assert!(report.to_string().contains("\n  h2  cannot connect directly"), "{report}");
}

/// Gives a host further addresses, of which others are told as well, and which do not lead to it.
fn add_decoys(network: &Network, host: &str, number: usize) {
    // One that all machines have, as those of containers: a host that tries it reaches itself. One
    // that leads nowhere. And one behind which a stranger accepts connections and sends nothing.
    let script = format!(
        "ip link add docker0 type bridge; ip addr add 172.17.0.1/16 dev docker0; ip link set docker0 up
         ip link add vpn0 type bridge; ip addr add 10.79.0.{number}/32 dev vpn0; ip link set vpn0 up
         ip link add mgmt0 type bridge; ip addr add 10.78.0.{number}/32 dev mgmt0; ip link set mgmt0 up
         ip route add 10.79.0.0/16 dev eth0; ip route add 10.78.0.0/16 dev eth0
         nft add table ip mute
         nft 'add chain ip mute out {{ type nat hook output priority -100; }}'
         nft add rule ip mute out ip daddr 10.78.0.0/16 tcp dport 1-65535 redirect to :7"
    );
    network.run(host, &script);
}

const HOSTS: [&str; 5] = ["front", "h1", "h2", "h3", "h4"];

/// All links of a launch on four hosts become direct in time, and the members can talk.
fn all_become_direct(network: &Network, what: &str) {
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let words = ["join", "talk:barrier", "talk:allgather:1000", "finish:60000"];
    let members = mark.program(&network.member(), "h[1-4]:2", &words);
    let began = Instant::now();
    let options = options(network.backend()).links(LinkPolicy::Direct);
    let session = launch_with(&front, &[members], &options);
    let took = began.elapsed();
    println!("{what}: {} after {took:?}", session.report().unwrap());
    assert_eq!(session.links().direct, 4, "{what}");
    // No host has waited for an address that does not answer.
    let longest = session.report().unwrap().hosts().iter().filter_map(|host| host.joined).max().unwrap();
    assert!(longest < DIALLING, "{what}: {longest:?}");
    let heard = Heard::all(&front);
    assert!(heard.exits.values().all(|exit| *exit == libi::Exit::Code(0)), "{what}: {}", heard.described());
}

#[test]
fn of_many_addresses_the_first_that_proves_itself_is_taken() {
    let Some(network) = Network::of(4) else { return };
    for (number, host) in HOSTS.into_iter().enumerate() {
        add_decoys(&network, host, number);
    }
    // They accept connections, and never read from them.
    let mute = HOSTS.map(|host| network.inside(host, || TcpListener::bind("0.0.0.0:7").unwrap()));
    // So it is.
    let lets_in = network.inside("h1", || TcpStream::connect("10.78.0.2:4711").is_ok());
    assert!(lets_in);
    all_become_direct(&network, "decoys");
    drop(mute);
}

#[test]
fn hosts_that_can_only_be_reached_by_ipv6_are_reached_by_it() {
    let Some(network) = Network::of(4) else { return };
    for (number, host) in HOSTS.into_iter().enumerate() {
        add_decoys(&network, host, number);
    }
    let mute = HOSTS.map(|host| network.inside(host, || TcpListener::bind("0.0.0.0:7").unwrap()));
    network.drop_from_to(ALL, ALL, 100, "tcp4");
    for (what, prefix) in [("local addresses", "fd77::"), ("global addresses", "2001:db8:77::")] {
        for (number, host) in HOSTS.into_iter().enumerate() {
            let address = format!("{prefix}{:x}", number + 1);
            network.run(
                host,
                &format!("ip -6 addr flush scope global; ip addr add {address}/64 dev eth0 nodad"),
            );
            network.address(host, &address);
        }
        all_become_direct(&network, what);
    }
    drop(mute);
}
