//! The network of the laboratory is what it says it is.

use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use libi_testkit::labs::netns::Network;
use libi_testkit::labs::within;

/// How long a connection to a host takes: one round trip. The shortest of many, because the machine
/// is shared.
fn round_trip(host: u8) -> Duration {
    let once = |_| {
        let began = Instant::now();
        TcpStream::connect(SocketAddr::from(([10, 77, 1, host], 22))).unwrap();
        began.elapsed()
    };
    (0..20).map(once).min().unwrap()
}

#[test]
fn packets_arrive_after_their_delay_and_cost_nothing_meanwhile() {
    let Some(network) = Network::of(2) else { return };
    let near = round_trip(1);
    assert!(near < Duration::from_millis(5), "{near:?}");
    network.delay(Duration::from_millis(20));
    let (ticks, far) = (network.ticks(), round_trip(1));
    let over = far.checked_sub(Duration::from_millis(40)).expect("it arrives too early");
    assert!(over < Duration::from_millis(2), "{over:?} later than it should");
    // Of the 800 ms that passed at least.
    assert!(network.ticks() - ticks < 20, "{} ticks", network.ticks() - ticks);
}

#[test]
fn hosts_have_names_and_processes_of_their_own_and_end_alone() {
    let Some(network) = Network::of(2) else { return };
    assert_eq!(network.run("h1", "cat /proc/sys/kernel/hostname").trim(), "h1");
    assert_eq!(network.run("h2", "cat /proc/sys/kernel/hostname").trim(), "h2");
    let others = network.processes("h2");
    assert!(network.processes("h1").iter().all(|pid| !others.contains(pid)));
    network.run("h1", "sleep 600 >/dev/null 2>&1 &");
    network.end("h1");
    assert!(network.processes("h1").is_empty());
    assert_eq!(network.processes("h2"), others);
    assert!(round_trip(2) < Duration::from_secs(1));
}

#[test]
fn hosts_end_with_the_network_even_if_it_is_killed() {
    let Some(network) = Network::of(2) else { return };
    network.run("h1", "trap '' HUP TERM INT; sleep 600 >/dev/null 2>&1 &");
    let all = || ["front", "h1", "h2"].iter().flat_map(|host| network.processes(host)).collect::<Vec<_>>();
    let there = all();
    assert!(there.len() >= 6, "{there:?}");
    network.kill();
    let is_there = |pid: &i32| std::fs::exists(format!("/proc/{pid}/ns/net")).unwrap();
    within(Duration::from_secs(10), "all processes have ended", || !there.iter().any(is_there));
}
