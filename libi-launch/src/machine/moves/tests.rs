use std::time::Duration;

use super::*;

const TARGET: LinkId = LinkId(1);

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn address() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 1))]
}

/// A session where hosts move.
fn moving() -> Moves {
    let mut moves = Moves::default();
    moves.switch_on();
    moves
}

/// The same, with a leader that listens.
fn listening() -> Moves {
    let mut moves = moving();
    moves.target_listens(TARGET, address());
    moves
}

/// A host says hello over the link of the same number.
fn place(moves: &mut Moves, number: u32) -> Placement {
    moves.place(LinkId(number), HostIndex(number), true, at(1))
}

#[test]
fn where_hosts_do_not_move_all_stay() {
    let mut moves = Moves::default();
    moves.target_listens(TARGET, address());
    assert_eq!(place(&mut moves, 2), Placement::Stays);
    assert!(!moves.are_on() && moves.greeted(LinkId(2)).is_none());
}

#[test]
fn hosts_are_held_until_the_leader_listens_and_until_one_has_connected() {
    let mut moves = moving();
    assert_eq!(place(&mut moves, 2), Placement::Held);
    assert_eq!(moves.held().collect::<Vec<_>>(), [LinkId(2)]);
    moves.target_listens(TARGET, address());
    let placed: Vec<_> = (2..5).map(|number| place(&mut moves, number)).collect();
    assert_eq!(placed, [Placement::Moves(TARGET), Placement::Moves(TARGET), Placement::Held]);
    assert!(moves.reached() && !moves.reached());
    assert_eq!(place(&mut moves, 4), Placement::Moves(TARGET));
    moves.not_reached(HostIndex(6));
    assert_eq!(place(&mut moves, 5), Placement::Moves(TARGET), "one has succeeded before");
    assert_eq!(place(&mut moves, 6), Placement::Stays, "it has tried");
}

#[test]
fn when_the_first_cannot_connect_all_others_stay() {
    let mut moves = listening();
    let placed: Vec<_> = (2..5).map(|number| place(&mut moves, number)).collect();
    assert_eq!(placed.last(), Some(&Placement::Held));
    moves.not_reached(HostIndex(2));
    assert_eq!(place(&mut moves, 4), Placement::Stays);
    assert!(!moves.are_on() && moves.held().len() == 0);
    assert_eq!(moves.target(), Some(TARGET), "it has moved hosts, of which it is told");
}

#[test]
fn when_one_fails_before_it_has_connected_another_may_try() {
    let mut moves = listening();
    assert_eq!([2, 3, 4].map(|number| place(&mut moves, number))[2], Placement::Held);
    assert!(!moves.failed_to_try(0) && moves.failed_to_try(1));
    assert_eq!(place(&mut moves, 4), Placement::Moves(TARGET));
    assert_eq!(place(&mut moves, 5), Placement::Held);
    moves.reached();
    assert!(!moves.failed_to_try(1), "all may try");
}

#[test]
fn where_the_leader_cannot_listen_all_stay() {
    let mut moves = moving();
    moves.target_listens(TARGET, Vec::new());
    assert_eq!(place(&mut moves, 2), Placement::Stays);
}

#[test]
fn when_the_leader_is_lost_hosts_are_held_until_the_next_listens() {
    let mut moves = listening();
    assert_eq!([2, 3].map(|number| place(&mut moves, number)), [Placement::Moves(TARGET); 2]);
    moves.child_gone(LinkId(7));
    assert_eq!((moves.target(), moves.addresses()), (Some(TARGET), Some(&address()[..])));
    moves.child_gone(TARGET);
    assert_eq!((moves.target(), place(&mut moves, 4)), (None, Placement::Held));
    moves.target_listens(LinkId(9), address());
    assert_eq!(place(&mut moves, 4), Placement::Moves(LinkId(9)));
    assert_eq!(place(&mut moves, 5), Placement::Moves(LinkId(9)), "two may try again");
}

#[test]
fn hosts_are_held_while_the_leader_ends_and_keep_the_time_of_their_hello() {
    let mut moves = listening();
    assert_eq!(moves.place(LinkId(2), HostIndex(2), false, at(1)), Placement::Held);
    assert_eq!(moves.place(LinkId(2), HostIndex(2), false, at(7)), Placement::Held);
    assert_eq!(moves.greeted(LinkId(2)), Some(at(1)));
}
