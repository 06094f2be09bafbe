//! How much memory members need for data that they forward.

use libi::{Exit, FrontEnd, LaunchOptions, Stream};

use libi_testkit::local::*;

#[test]
fn a_gather_of_a_megabyte_each_costs_forwarding_members_little_memory() {
    for (hosts, strategy) in [("n[1-64]", "kary:2"), ("n[1-8]:8", "chain")] {
        let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
        let words = ["join", "talk:lean:1048576", "finish:30000"];
        let options = LaunchOptions::local().strategy(strategy.parse().unwrap());
        let session = launch_with(&front, &[lab.members(hosts, &words)], &options);
        let heard = Heard::all(&front);
        for rank in 0..session.size() {
            let said = heard.text(rank, Stream::Err);
            assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank} on {hosts}: {said}");
        }
        drop(session);
        lab.is_empty_within(SOON);
    }
}
