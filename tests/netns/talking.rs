//! Members on hosts that are far from each other do everything that members can do together.

use std::time::Duration;

use libi::LinkPolicy;

use crate::options;
use libi_testkit::labs::netns::Network;
use libi_testkit::operations;

/// How long a packet takes from any host to any other.
const FAR: Duration = Duration::from_millis(20);

fn all_operations_come_out_far_away(links: LinkPolicy) {
    let Some(network) = Network::of(32) else { return };
    network.delay(FAR);
    let options = options(network.backend()).links(links);
    let (report, tally) = operations::all_come_out(&network.member(), "h[1-32]:2", 64, &options);
    assert_eq!(report.joined(), 32, "{report}");
    let direct = if links == LinkPolicy::Channel { 0 } else { 32 };
    assert_eq!((tally.direct, tally.fell_back), (direct, 0), "{report}");
}

#[test]
fn two_members_on_each_of_32_hosts_20_ms_apart_do_every_operation_directly() {
    all_operations_come_out_far_away(LinkPolicy::Direct);
}

#[test]
fn two_members_on_each_of_32_hosts_20_ms_apart_do_every_operation_through_ssh_itself() {
    all_operations_come_out_far_away(LinkPolicy::Channel);
}
