use super::Placement::{Admitted, Held, Redirected};
use super::*;

const START: StartId = StartId(1);

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn address(port: u16) -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], port))]
}

/// The relays of a start of 8 hosts, of which 2 are to be relays, and where arrivals are placed.
struct Start {
    relays: Relays,
    last: u32,
}

impl Start {
    fn new() -> Self {
        let mut relays = Relays::default();
        relays.begin(START, 8, 2);
        Self { relays, last: 0 }
    }

    /// The next host arrives; its child has the link of this number.
    fn arrives(&mut self) -> Placement {
        self.last += 1;
        self.place(ArrivalId(self.last.into()), LinkId(self.last))
    }

    /// So many hosts arrive.
    fn arrive(&mut self, hosts: usize) {
        for _ in 0..hosts {
            self.arrives();
        }
    }

    fn place(&mut self, arrival: ArrivalId, child: LinkId) -> Placement {
        let placement = self.relays.place(START, child, arrival, at(0));
        if let Redirected(relay) = placement {
            let below = HostBelow { relay, start: START, attempt: Attempt::default(), exit: None };
            assert_eq!(self.relays.redirect(HostIndex(child.0), below), address(relay.0 as u16));
        }
        placement
    }

    fn listens(&mut self, link: u32) {
        self.relays.listens(START, LinkId(link), address(link as u16));
    }

    fn place_held(&mut self) -> Vec<Placement> {
        let mut placed = Vec::new();
        while let Some((arrival, child)) = self.relays.next_held(START) {
            placed.push(self.place(arrival, child));
        }
        placed
    }
}

#[test]
fn each_relay_gets_its_share() {
    let mut start = Start::new();
    assert_eq!([start.arrives(), start.arrives()], [Admitted; 2]);
    assert!(start.relays.is_asked(START, LinkId(2)));
    start.listens(1);
    let one = Redirected(LinkId(1));
    assert_eq!([start.arrives(), start.arrives(), start.arrives()], [one; 3]);
    assert_eq!(start.arrives(), Held, "the first relay is full, the second does not listen yet");
    start.listens(2);
    assert_eq!(start.place_held(), [Redirected(LinkId(2))]);
    assert_eq!(start.relays.next_deadline(), None);
    assert_eq!([start.arrives(), start.arrives()], [Redirected(LinkId(2)); 2]);
    assert_eq!(start.relays.with_hosts(START), [LinkId(1), LinkId(2)].into());
    assert_eq!(start.relays.of(HostIndex(4)).map(|below| below.relay), Some(LinkId(1)));
}

#[test]
fn without_relays_all_are_admitted() {
    let mut relays = Relays::default();
    for (start, hosts, wanted) in [(1, 8, 0), (2, 8, 8), (3, 1, 1), (4, 0, 0)] {
        relays.begin(StartId(start), hosts, wanted);
        assert_eq!(relays.place(StartId(start), LinkId(1), ArrivalId(1), at(0)), Admitted);
        assert!(!relays.is_asked(StartId(start), LinkId(1)));
    }
    let mut start = Start::new();
    start.arrive(3);
    for link in [1, 2] {
        start.relays.listens(START, LinkId(link), Vec::new());
    }
    assert_eq!(start.place_held(), [Admitted], "no leader can listen");
    assert_eq!(start.arrives(), Admitted);
}

#[test]
fn leaders_do_not_wait_for_a_relay_that_never_listens() {
    let mut start = Start::new();
    assert_eq!([start.arrives(), start.arrives(), start.arrives()], [Admitted, Admitted, Held]);
    assert_eq!(start.relays.next_deadline(), Some(at(0) + HOLD));
    assert_eq!(start.relays.expire(at(2)), None);
    assert_eq!(start.relays.expire(at(3)), Some(START));
    assert_eq!(start.place_held(), [Admitted]);
    start.listens(1);
    assert_eq!(start.arrives(), Admitted, "it was asked too long ago");
}

#[test]
fn another_leader_takes_the_place_of_a_relay_that_is_lost() {
    let mut start = Start::new();
    start.arrive(3);
    assert_eq!(start.relays.lost(START, LinkId(2)), (None, Vec::new()));
    assert_eq!(start.place_held(), [Admitted]);
    start.listens(1);
    assert_eq!(start.arrives(), Redirected(LinkId(1)));
    let below = HostBelow { relay: LinkId(1), start: START, attempt: Attempt::default(), exit: None };
    assert_eq!(start.relays.lost(START, LinkId(1)), (None, vec![(HostIndex(4), below)]));
    assert_eq!(start.relays.of(HostIndex(4)), None);
}

#[test]
fn a_held_leader_that_is_gone_is_not_placed() {
    let mut start = Start::new();
    start.arrive(4);
    start.relays.left(ArrivalId(3));
    assert_eq!(start.relays.lost(START, LinkId(4)), (Some(ArrivalId(4)), Vec::new()));
    assert!(start.place_held().is_empty());
}

#[test]
fn no_leader_is_sent_to_a_relay_that_none_could_reach() {
    let mut start = Start::new();
    start.arrive(2);
    (1..=2).for_each(|link| start.listens(link));
    assert_eq!([start.arrives(), start.arrives()], [Redirected(LinkId(1)), Redirected(LinkId(2))]);
    start.relays.joined(HostIndex(4));
    for host in [3, 4] {
        let below = start.relays.remove_host(HostIndex(host)).unwrap();
        start.relays.not_reached(START, below.relay);
    }
    assert_eq!([start.arrives(), start.arrives()], [Redirected(LinkId(2)); 2], "one has reached it");
}
