//! A process between a parent and children, and how much it holds.

use libi_core::ids::Rank;

use super::*;
use crate::message::{CallSignature, HeaderFlags, Kind, Length};

const CHILDREN: [LinkId; 4] = [LinkId(1), LinkId(2), LinkId(3), LinkId(4)];
const ITEM: usize = 1 << 10;

fn header() -> CollectiveHeader {
    let called = CallSignature { kind: Kind::Gather, root: Some(Rank(0)), length: Length::Unknown };
    CollectiveHeader { nth: 0, by: (Rank(0), called), flags: HeaderFlags::default() }
}

fn item(from: u32) -> Piece {
    Piece::whole(from, 0, vec![7; ITEM].into())
}

/// The children send all they may until nothing moves. Returns how much each has sent.
fn fill_windows(flow: &mut FlowControl, items: usize) -> Vec<u64> {
    let (mut sent, mut allowed) = (vec![0; CHILDREN.len()], vec![EAGER; CHILDREN.len()]);
    loop {
        let before = sent.clone();
        for (at, link) in CHILDREN.into_iter().enumerate() {
            let one = cost(&item(0));
            while sent[at] + one <= allowed[at] && sent[at] < items as u64 * one {
                flow.received(link, &item(0));
                flow.item_ended(link, 1);
                flow.put(&item(0), 1, Some(link), Onward::Over(LinkId::PARENT));
                sent[at] += one;
            }
            flow.peer_blocked(link);
        }
        for (link, limit) in flow.grants() {
            let at = CHILDREN.iter().position(|child| *child == link).unwrap();
            assert!(limit > allowed[at], "a grant that grants nothing");
            allowed[at] = limit;
        }
        if sent == before {
            return sent;
        }
    }
}

fn batching(items: usize) -> FlowControl {
    let mut flow = FlowControl::new(true, EAGER);
    let up = Amounts { out: (CHILDREN.len() * items) as u64, into: 0 };
    let from_child = Amounts { out: 0, into: items as u64 };
    let children = CHILDREN.into_iter().map(|link| (link, from_child, EAGER));
    flow.open(children.chain([(LinkId::PARENT, up, EAGER)]));
    flow
}

/// Whether nothing is queued.
fn is_empty(flow: &FlowControl) -> bool {
    flow.out.values().all(|channel| channel.queue.is_empty())
}

/// Sends all frames that can go up. Returns their cost.
fn send_up(flow: &mut FlowControl) -> u64 {
    let before = flow.out.get(LinkId::PARENT).unwrap().sent;
    while flow.next_frame(LinkId::PARENT, header(), false).is_some() {}
    while flow.relieve(&header(), |_| true).is_some() {}
    flow.out.get(LinkId::PARENT).unwrap().sent - before
}

#[test]
fn data_that_cannot_be_forwarded_are_held_up_to_a_limit() {
    let mut flow = batching(100_000);
    let sent: u64 = fill_windows(&mut flow, 100_000).into_iter().sum();
    assert!(sent <= WINDOW_POOL + CHILDREN.len() as u64 * EAGER, "{sent} bytes are held");
    assert!(sent > WINDOW_POOL / 2, "only {sent} bytes are held");
}

#[test]
fn nothing_is_sent_beyond_the_credit() {
    let mut flow = batching(100_000);
    fill_windows(&mut flow, 100_000);
    assert!((EAGER / 2..=EAGER).contains(&send_up(&mut flow)));
    assert_eq!(send_up(&mut flow), 0);
    flow.allow(LinkId::PARENT, 3 * CHUNK);
    assert!(flow.out.get(LinkId::PARENT).unwrap().sent <= EAGER);
    send_up(&mut flow);
    let sent = flow.out.get(LinkId::PARENT).unwrap().sent;
    assert!((2 * CHUNK..=3 * CHUNK).contains(&sent), "{sent} of {}", 3 * CHUNK);
}

#[test]
fn what_is_not_wanted_any_more_is_dropped_and_its_senders_get_credit() {
    let mut flow = batching(100_000);
    fill_windows(&mut flow, 100_000);
    send_up(&mut flow);
    assert!(flow.grants().is_empty() && !is_empty(&flow) && !flow.is_over());
    flow.allow(LinkId::PARENT, UNWANTED);
    assert!(is_empty(&flow) && flow.is_over());
    CHILDREN.iter().for_each(|link| {
        let channel = flow.into.get(*link).unwrap();
        assert_eq!(channel.consumed, channel.received);
    });
    assert_eq!(flow.grants().len(), CHILDREN.len());
    flow.received(CHILDREN[0], &item(0));
    flow.put(&item(0), 1, Some(CHILDREN[0]), Onward::Over(LinkId::PARENT));
    assert!(is_empty(&flow));
    assert_eq!(flow.into.get(CHILDREN[0]).unwrap().consumed, flow.into.get(CHILDREN[0]).unwrap().received);
}

#[test]
fn grants_equal_what_was_forwarded() {
    let mut flow = batching(100_000);
    let mut before: u64 = fill_windows(&mut flow, 100_000).into_iter().sum();
    let mut allowed = EAGER;
    for _ in 0..20 {
        allowed += WINDOW_POOL;
        flow.allow(LinkId::PARENT, allowed);
        let mut passed_on = send_up(&mut flow);
        // Children send what they are granted, which may be forwarded at once.
        loop {
            let come: u64 = CHILDREN.iter().map(|link| flow.into.get(*link).unwrap().received).sum();
            let held = come - flow.out.get(LinkId::PARENT).unwrap().sent;
            assert!(held <= WINDOW_POOL + CHILDREN.len() as u64 * EAGER, "{held} bytes are held");
            for (link, limit) in flow.grants() {
                while flow.into.get(link).unwrap().received + cost(&item(0)) <= limit {
                    flow.received(link, &item(0));
                    flow.item_ended(link, 1);
                    flow.put(&item(0), 1, Some(link), Onward::Over(LinkId::PARENT));
                }
                flow.peer_blocked(link);
            }
            let more = send_up(&mut flow);
            passed_on += more;
            if more == 0 {
                break;
            }
        }
        assert!(passed_on >= WINDOW_POOL - CHUNK, "{passed_on} bytes went of {WINDOW_POOL} that might");
        before += passed_on;
    }
    assert!(before > 20 * WINDOW_POOL);
}

#[test]
fn batched_data_are_sent_when_a_sender_is_stalled() {
    // Two items are queued for each of the other children; no queue is full, and one child is
    // stalled.
    let mut flow = FlowControl::new(true, EAGER);
    let both = Amounts { out: 1_000, into: 1_000 };
    flow.open(CHILDREN.into_iter().map(|link| (link, both, EAGER)));
    let (from, others) = (CHILDREN[0], &CHILDREN[1..]);
    for at in 0..EAGER / cost(&item(0)) {
        flow.received(from, &item(0));
        flow.item_ended(from, 1);
        flow.put(&item(0), 1, Some(from), Onward::Over(others[at as usize % 3]));
    }
    let goes = |flow: &mut FlowControl| flow.relieve(&header(), |_| true).map(|(link, _)| link);
    assert_eq!(goes(&mut flow), None, "no sender is stalled");
    flow.peer_blocked(from);
    let first = goes(&mut flow).expect("room is made");
    assert!(others.contains(&first));
}
