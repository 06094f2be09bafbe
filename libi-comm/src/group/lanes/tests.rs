//! A process between a parent and children, and what its lanes hold.

use libi_core::ids::Rank;

use super::*;
use crate::message::{CallSignature, Kind, Length, Signs};

const CHILDREN: [LinkId; 4] = [LinkId(1), LinkId(2), LinkId(3), LinkId(4)];
const ITEM: usize = 1 << 10;

fn flow() -> Flow {
    let called = CallSignature { kind: Kind::Gather, root: Some(Rank(0)), length: Length::Unknown };
    Flow { nth: 0, by: (Rank(0), called), signs: Signs::default() }
}

fn item(from: u32) -> Piece {
    Piece::whole(from, 0, vec![7; ITEM].into())
}

/// Children who send all that they may, until nothing goes on any more; how much each has sent.
fn fill(lanes: &mut Lanes, items: usize) -> Vec<u64> {
    let (mut sent, mut allowed) = (vec![0; CHILDREN.len()], vec![EAGER; CHILDREN.len()]);
    loop {
        let before = sent.clone();
        for (at, link) in CHILDREN.into_iter().enumerate() {
            let one = cost(&item(0));
            while sent[at] + one <= allowed[at] && sent[at] < items as u64 * one {
                lanes.received(link, &item(0));
                lanes.arrived(link, 1);
                lanes.put(&item(0), 1, Some(link), &[LinkId::PARENT]);
                sent[at] += one;
            }
            lanes.wanted(link);
        }
        for (link, upto) in lanes.grants() {
            let at = CHILDREN.iter().position(|child| *child == link).unwrap();
            assert!(upto > allowed[at], "a grant that grants nothing");
            allowed[at] = upto;
        }
        if sent == before {
            return sent;
        }
    }
}

fn gathering(items: usize) -> Lanes {
    let mut lanes = Lanes::new(true);
    lanes.open(LinkId::PARENT, (CHILDREN.len() * items) as u64, 0);
    CHILDREN.into_iter().for_each(|link| lanes.open(link, 0, items as u64));
    lanes
}

/// All frames that go up now, in bytes of items with what they count for beside.
fn send_up(lanes: &mut Lanes) -> u64 {
    let before = lanes.out[&LinkId::PARENT].sent;
    while lanes.next_frame(LinkId::PARENT, flow(), false).is_some() {}
    while lanes.relief(&flow()).is_some() {}
    lanes.out[&LinkId::PARENT].sent - before
}

#[test]
fn what_cannot_be_passed_on_is_held_up_to_a_limit() {
    let mut lanes = gathering(100_000);
    let sent: u64 = fill(&mut lanes, 100_000).into_iter().sum();
    assert!(sent <= POOL + CHILDREN.len() as u64 * EAGER, "{sent} bytes are held");
    assert!(sent > POOL / 2, "only {sent} bytes are held");
}

#[test]
fn nothing_goes_beyond_what_is_allowed() {
    let mut lanes = gathering(100_000);
    fill(&mut lanes, 100_000);
    assert!((EAGER / 2..=EAGER).contains(&send_up(&mut lanes)));
    assert_eq!(send_up(&mut lanes), 0);
    lanes.allow(LinkId::PARENT, 3 * CHUNK);
    assert!(lanes.out[&LinkId::PARENT].sent <= EAGER);
    send_up(&mut lanes);
    let sent = lanes.out[&LinkId::PARENT].sent;
    assert!((2 * CHUNK..=3 * CHUNK).contains(&sent), "{sent} of {}", 3 * CHUNK);
}

#[test]
fn who_may_send_again_is_granted_what_was_passed_on_and_no_more() {
    let mut lanes = gathering(100_000);
    let mut before: u64 = fill(&mut lanes, 100_000).into_iter().sum();
    let mut allowed = EAGER;
    for _ in 0..20 {
        allowed += POOL;
        lanes.allow(LinkId::PARENT, allowed);
        let mut passed_on = send_up(&mut lanes);
        // Children send what they are granted, which may go at once.
        loop {
            let come: u64 = CHILDREN.iter().map(|link| lanes.into[link].received).sum();
            let held = come - lanes.out[&LinkId::PARENT].sent;
            assert!(held <= POOL + CHILDREN.len() as u64 * EAGER, "{held} bytes are held");
            for (link, upto) in lanes.grants() {
                while lanes.into[&link].received + cost(&item(0)) <= upto {
                    lanes.received(link, &item(0));
                    lanes.arrived(link, 1);
                    lanes.put(&item(0), 1, Some(link), &[LinkId::PARENT]);
                }
                lanes.wanted(link);
            }
            let more = send_up(&mut lanes);
            passed_on += more;
            if more == 0 {
                break;
            }
        }
        assert!(passed_on >= POOL - CHUNK, "{passed_on} bytes went of {POOL} that might");
        before += passed_on;
    }
    assert!(before > 20 * POOL);
}

#[test]
fn what_waits_for_more_goes_when_somebody_cannot_send_it() {
    // Two items wait in each lane to other children; none of them is full, and one child may send no more.
    let mut lanes = Lanes::new(true);
    CHILDREN.into_iter().for_each(|link| lanes.open(link, 1_000, 1_000));
    let (from, others) = (CHILDREN[0], &CHILDREN[1..]);
    for at in 0..EAGER / cost(&item(0)) {
        lanes.received(from, &item(0));
        lanes.arrived(from, 1);
        lanes.put(&item(0), 1, Some(from), &others[at as usize % 3..][..1]);
    }
    let goes = |lanes: &mut Lanes| lanes.relief(&flow()).map(|(link, _)| link);
    assert_eq!(goes(&mut lanes), None, "nobody has said that there is more");
    lanes.wanted(from);
    let first = goes(&mut lanes).expect("room is made");
    assert!(others.contains(&first));
}
