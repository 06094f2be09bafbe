use libi_core::ids::{HostIndex, SessionId};
use libi_core::secure::{Entropy, LinkSecurity, Parent};
use libi_core::wire::PROTOCOL;

use super::*;

const POLICIES: [LinkPolicy; 3] = [LinkPolicy::Auto, LinkPolicy::Direct, LinkPolicy::Channel];

fn terms() -> Terms {
    Terms {
        version: PROTOCOL.newest(),
        session: SessionId(1),
        host: HostIndex(1),
        attempt: 0,
        parent: Parent::FrontEnd,
        mode: LinkSecurity::default(),
    }
}

fn address() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 1))]
}

/// A node that knows the secret.
fn links() -> DirectLinks {
    let mut links = DirectLinks::default();
    links.set_secret(Some(CarriedSecret(Secret::new(Entropy::new(&mut [5; Entropy::LEN])))));
    links
}

/// A member that was told to connect to its parent.
fn connecting() -> DirectLinks {
    let mut links = links();
    assert!(matches!(links.dial(&address(), LinkPolicy::Direct, true, &terms()), Dial::Connect(_)));
    links
}

#[test]
fn a_link_moves_when_the_parent_says_goodbye_after_the_connection_is_open() {
    let mut links = connecting();
    assert_eq!(links.parent_moved(), None, "too early");
    assert!(links.must_wait(LinkPolicy::Direct) && !links.must_wait(LinkPolicy::Auto));
    assert!(!links.connected(true));
    assert!(links.must_wait(LinkPolicy::Direct), "the parent has not confirmed");
    assert_eq!(links.parent_moved(), Some(()));
    assert!(!links.must_wait(LinkPolicy::Direct));
    assert_eq!(links.parent_moved(), None, "it moves once");
    assert!(!links.connected(false), "it does not move back");
    assert!(!links.must_wait(LinkPolicy::Direct));
}

#[test]
fn a_link_that_may_stay_moves_once_it_has_carried_enough_and_it_is_its_turn() {
    let mut links = links();
    assert!(matches!(links.dial(&address(), LinkPolicy::Auto, false, &terms()), Dial::Later));
    assert!(links.may_move_later() && !links.must_wait(LinkPolicy::Auto));
    assert!(links.may_connect().is_none(), "it has not asked");
    assert!(links.carries_enough() && !links.carries_enough() && !links.may_move_later());
    assert!(links.may_connect().is_some() && links.may_connect().is_none());
    assert!(!links.connected(true));
    assert_eq!(links.parent_moved(), Some(()));
    // Links that have to be direct do not wait for that.
    let mut links = self::links();
    assert!(matches!(links.dial(&address(), LinkPolicy::Direct, false, &terms()), Dial::Connect(_)));
    assert!(!links.carries_enough());
}

#[test]
fn a_few_children_connect_at_a_time() {
    let mut links = links();
    let all: Vec<LinkId> = (1..=7).map(LinkId).collect();
    let turns: Vec<LinkId> = all.iter().flat_map(|link| links.child_wants(*link)).collect();
    assert_eq!(turns, all[..4]);
    // The one that waits is gone; the next one's turn comes when one has connected.
    assert_eq!(links.turn_is_over(all[4]), []);
    links.child_connected();
    assert_eq!(links.turn_is_over(all[1]), [all[5]]);
    assert_eq!(links.turn_is_over(all[0]), [all[6]]);
    assert_eq!(links.turn_is_over(all[2]), []);
}

#[test]
fn where_one_cannot_connect_the_others_wait_until_one_can() {
    let mut links = links();
    assert_eq!(links.child_wants(LinkId(1)), [LinkId(1)]);
    links.child_not_direct();
    assert_eq!(links.turn_is_over(LinkId(1)), []);
    assert_eq!(links.child_wants(LinkId(2)), []);
    links.child_connected();
    assert_eq!(links.child_wants(LinkId(3)), [LinkId(2), LinkId(3)]);
}

#[test]
fn a_link_moves_to_another_parent_when_that_is_reached() {
    for policy in [LinkPolicy::Auto, LinkPolicy::Direct] {
        let mut links = links();
        assert!(!links.new_parent_reached(), "no other was named");
        assert!(matches!(links.dial_new_parent(&address(), &terms()), Dial::Connect(_)));
        assert_eq!(links.parent_moved(), None, "the former parent has nothing to say");
        assert!(links.new_parent_reached() && !links.new_parent_reached());
        // The config comes from the new parent, and has no addresses.
        assert!(matches!(links.dial(&[], policy, true, &terms()), Dial::Stay));
        assert!(!links.must_wait(policy) && !links.connected(false));
    }
}

#[test]
fn a_parent_that_cannot_be_reached_is_reported_once() {
    let mut links = links();
    assert!(matches!(links.dial_new_parent(&[], &terms()), Dial::NotDirect));
    assert!(matches!(links.dial_new_parent(&address(), &terms()), Dial::Connect(_)));
    assert!(links.connected(false) && !links.connected(false) && !links.new_parent_reached());
}

#[test]
fn a_link_that_cannot_move_stays_and_the_parent_is_told_once() {
    for reached_before in [false, true] {
        let mut links = connecting();
        if reached_before {
            links.connected(true);
        }
        assert!(links.connected(false));
        assert!(!links.connected(false) && !links.connected(true));
        assert_eq!(links.parent_moved(), None);
        assert!(links.must_wait(LinkPolicy::Direct));
    }
}

#[test]
fn a_member_whose_parent_does_not_listen_stays_or_reports_that_it_cannot_be_direct() {
    let mut links = links();
    assert!(matches!(links.dial(&[], LinkPolicy::Auto, true, &terms()), Dial::Stay));
    assert!(matches!(links.dial(&[], LinkPolicy::Direct, true, &terms()), Dial::NotDirect));
    assert!(links.must_wait(LinkPolicy::Direct), "it cannot join");
    assert!(!links.connected(true), "it was never asked to connect");
}

#[test]
fn a_member_without_a_secret_stays_in_the_channel() {
    let mut links = DirectLinks::default();
    assert!(matches!(links.dial(&address(), LinkPolicy::Direct, true, &terms()), Dial::Stay));
    assert!(!links.must_wait(LinkPolicy::Direct));
}

#[test]
fn a_node_asks_to_listen_once_and_only_with_a_secret() {
    assert!(!DirectLinks::default().listen());
    let mut links = links();
    assert!(links.listen() && !links.listen());
    assert!(links.rendezvous().is_none() && !links.cannot_listen(), "the addresses are not known yet");
    links.set_addresses(address());
    assert!(!links.listen() && !links.cannot_listen());
    assert_eq!(links.rendezvous().map(|(_, at)| at.to_vec()), Some(address()));
}

#[test]
fn without_addresses_or_secret_no_link_can_arrive() {
    let mut deaf = links();
    deaf.set_addresses(Vec::new());
    let mut over = links();
    over.set_addresses(address());
    over.forget_secret();
    for links in [deaf, over, DirectLinks::default()] {
        assert!(links.cannot_listen() && links.rendezvous().is_none());
        assert!(POLICIES.iter().all(|policy| links.offer(*policy, &terms()).is_none()));
    }
}

#[test]
fn after_a_failure_children_are_asked_to_connect_only_if_they_have_to() {
    let mut links = links();
    links.set_addresses(address());
    let offers = |links: &DirectLinks| POLICIES.map(|policy| links.offer(policy, &terms()).is_some());
    assert_eq!(offers(&links), [true, true, false]);
    links.child_not_direct();
    assert_eq!(offers(&links), [false, true, false]);
    links.child_connected();
    assert_eq!(offers(&links), [true, true, false]);
    links.child_not_direct();
    assert_eq!(offers(&links), [true, true, false], "one has succeeded before");
}
