//! Cases run by members that were launched through remote shells, over each kind of link between
//! hosts.

use libi::{FrontEnd, LinkPolicy, LinkSecurity, SessionId};

use libi_testkit::launching::launches;
use libi_testkit::playing::{Endings, play_front_end};
use libi_testkit::testbed::{Testbed, direct};

/// Runs a part of all cases with up to 17 members, without those that are only about large data.
fn play_remotely(links: LinkPolicy, mode: LinkSecurity) {
    for file in ["mixed", "p2p", "kvs", "collective"] {
        let is_meant = |case: &libi_testkit::cases::Session| {
            let much = ["large", "long ones", "about 64 KiB"].iter().any(|name| case.name.contains(name));
            [3, 17].contains(&case.size) && case.present.len() == case.size as usize && !much
        };
        for launch in launches(file, false, is_meant) {
            let testbed = Testbed::new("seq 1ms\nrem 5ms");
            let front = FrontEnd::new().unwrap();
            let options = testbed.options(links).link_security(mode).strategy(launch.strategy);
            let distributions = launch.distributions(SessionId(0), &launch.words());
            let session = front.launch_all(&distributions, &options).unwrap().remove(0);
            let played = play_front_end(&launch, &session);
            if links == LinkPolicy::Direct {
                direct(&session, launch.hosts());
            }
            let mut endings = Endings::default();
            endings.follow(&front, &[session.id()]);
            endings.are_good(session.id(), &launch, &played);
            drop((session, front));
            testbed.nothing_is_left();
        }
    }
}

#[test]
fn cases_pass_over_encrypted_links() {
    play_remotely(LinkPolicy::Direct, LinkSecurity::Encrypted);
}

#[test]
fn cases_pass_over_authenticated_links() {
    play_remotely(LinkPolicy::Direct, LinkSecurity::Authenticated);
}

#[test]
fn cases_pass_over_links_that_become_direct_when_they_carry_much() {
    play_remotely(LinkPolicy::Auto, LinkSecurity::Encrypted);
}

#[test]
fn cases_pass_through_the_channels_of_shells() {
    play_remotely(LinkPolicy::Channel, LinkSecurity::Encrypted);
}
