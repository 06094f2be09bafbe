use super::*;

const TARGET: LinkId = LinkId(1);

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn launch(host: u32) -> Launch {
    Launch { host: HostIndex(host), attempt: Attempt::default() }
}

fn address() -> Vec<SocketAddr> {
    vec![SocketAddr::from(([127, 0, 0, 1], 1))]
}

/// Moves in a session where hosts move, to a leader that listens.
fn listening() -> Moves {
    let mut moves = Moves::default();
    moves.switch_on();
    moves.target_listens(TARGET, address());
    moves
}

/// A host says hello over the link of the same number.
fn place(moves: &mut Moves, number: u32) -> Placement {
    moves.place(LinkId(number), HostIndex(number), true, at(1))
}

/// The same, with the hosts 2 and 3 moved over the links of these numbers.
fn moved() -> Moves {
    let mut moves = listening();
    for number in [2, 3] {
        assert_eq!(place(&mut moves, number), Placement::Moves(TARGET));
        moves.add(LinkId(number), launch(number), Some(Rank(number)), LaunchTiming::default());
    }
    moves
}

#[test]
fn where_hosts_do_not_move_all_stay() {
    let mut moves = Moves::default();
    moves.target_listens(TARGET, address());
    assert_eq!(place(&mut moves, 2), Placement::Stays);
    assert!(!moves.are_on() && !moves.is_held(LinkId(2)));
}

#[test]
fn hosts_are_held_until_the_leader_listens_and_until_one_has_connected() {
    let mut moves = Moves::default();
    moves.switch_on();
    assert_eq!(place(&mut moves, 2), Placement::Held);
    assert_eq!(moves.held(), [LinkId(2)]);
    moves.target_listens(TARGET, address());
    let placed: Vec<_> = (2..5).map(|number| place(&mut moves, number)).collect();
    assert_eq!(placed, [Placement::Moves(TARGET), Placement::Moves(TARGET), Placement::Held]);
    moves.add(LinkId(2), launch(2), None, LaunchTiming::default());
    assert!(!moves.reached(HostIndex(9)));
    assert_eq!(place(&mut moves, 4), Placement::Held, "host 9 was launched by another node");
    assert!(moves.reached(HostIndex(2)) && !moves.reached(HostIndex(2)));
    assert_eq!(place(&mut moves, 4), Placement::Moves(TARGET));
    moves.not_reached(HostIndex(6));
    assert_eq!(place(&mut moves, 5), Placement::Moves(TARGET), "one has succeeded before");
    assert_eq!(place(&mut moves, 6), Placement::Stays, "it has tried");
}

#[test]
fn when_the_first_cannot_connect_all_others_stay() {
    let mut moves = moved();
    assert_eq!(place(&mut moves, 4), Placement::Held);
    moves.not_reached(HostIndex(2));
    assert_eq!(place(&mut moves, 4), Placement::Stays);
    assert!(!moves.are_on() && moves.held().is_empty());
    assert_eq!(moves.target(), Some(TARGET), "it has moved hosts, of which it is told");
}

#[test]
fn where_the_leader_cannot_listen_all_stay() {
    let mut moves = Moves::default();
    moves.switch_on();
    moves.target_listens(TARGET, Vec::new());
    assert_eq!(place(&mut moves, 2), Placement::Stays);
}

#[test]
fn when_the_leader_is_lost_hosts_are_held_until_the_next_listens() {
    let mut moves = moved();
    moves.child_gone(LinkId(7));
    assert_eq!(moves.target(), Some(TARGET));
    moves.child_gone(TARGET);
    assert_eq!((moves.target(), place(&mut moves, 4)), (None, Placement::Held));
    moves.target_listens(LinkId(9), address());
    assert_eq!(place(&mut moves, 4), Placement::Moves(LinkId(9)));
    assert_eq!(place(&mut moves, 5), Placement::Moves(LinkId(9)), "two may try again");
}

#[test]
fn the_leader_hears_of_a_process_until_another_attempt_takes_its_place() {
    let mut moves = moved();
    assert_eq!((moves.launchers(), moves.told_of(LinkId(2))), (2, Some(HostIndex(2))));
    assert_eq!(moves.adopted(launch(2)), Some((LinkId(2), &address()[..])));
    assert!(moves.superseded(HostIndex(2), Attempt::default().after_loss(), at(5)));
    assert_eq!(place(&mut moves, 4), Placement::Moves(TARGET), "in its place");
    assert_eq!(place(&mut moves, 5), Placement::Held);
    assert_eq!((moves.launchers(), moves.told_of(LinkId(2))), (1, None));
    assert_eq!((moves.of(LinkId(2)), moves.adopted(launch(2))), (Some(launch(2)), None));
    assert_eq!(moves.expire(at(4), Duration::from_secs(2)), None);
    assert_eq!(moves.expire(at(5), Duration::from_secs(2)), Some((LinkId(2), MovedStep::Kill)));
    assert!(moves.exited(LinkId(2), at(9)), "nothing more is read from a process that was killed");
    assert_eq!((moves.of(LinkId(2)), moves.next_deadline()), (None, None));
}

#[test]
fn a_process_is_gone_when_it_has_exited_and_its_output_has_ended() {
    let mut moves = moved();
    assert!(!moves.exited(LinkId(2), at(2)) && moves.closed(LinkId(2)));
    assert!(!moves.closed(LinkId(3)) && moves.exited(LinkId(3), at(2)));
    assert!(moves.is_empty() && moves.next_deadline().is_none());
}

#[test]
fn a_process_whose_output_does_not_end_is_forgotten() {
    let mut moves = moved();
    moves.exited(LinkId(2), at(2));
    assert_eq!(moves.expire(at(2), Duration::from_secs(2)), Some((LinkId(2), MovedStep::Forget)));
    assert_eq!(moves.of(LinkId(2)), None);
}

#[test]
fn a_process_that_cannot_be_killed_is_forgotten() {
    let mut moves = moved();
    moves.end_all(at(1));
    let grace = Duration::from_secs(2);
    let steps: Vec<_> = std::iter::from_fn(|| moves.expire(at(1), grace)).collect();
    assert_eq!(steps, [(LinkId(2), MovedStep::Kill), (LinkId(3), MovedStep::Kill)]);
    assert_eq!(moves.next_deadline(), Some(at(3)));
    assert_eq!(moves.expire(at(3), grace), Some((LinkId(2), MovedStep::Forget)));
    assert_eq!(moves.expire(at(3), grace), Some((LinkId(3), MovedStep::Forget)));
    assert!(moves.is_empty());
}

#[test]
fn a_member_that_has_detached_is_released() {
    let mut moves = moved();
    moves.detached(Rank(3));
    moves.end_all(at(1));
    assert_eq!(moves.expire(at(1), Duration::ZERO), Some((LinkId(2), MovedStep::Kill)));
    assert_eq!(moves.expire(at(1), Duration::ZERO), Some((LinkId(2), MovedStep::Forget)));
    assert_eq!(moves.expire(at(1), Duration::ZERO), Some((LinkId(3), MovedStep::Release)));
}

#[test]
fn hosts_are_held_while_the_leader_ends_and_keep_the_time_of_their_hello() {
    let mut moves = listening();
    assert_eq!(moves.place(LinkId(2), HostIndex(2), false, at(1)), Placement::Held);
    assert_eq!(moves.place(LinkId(2), HostIndex(2), false, at(7)), Placement::Held);
    assert_eq!(moves.greeted(LinkId(2)), Some(at(1)));
}

#[test]
fn what_a_process_prints_is_evidence_until_its_host_has_joined() {
    let mut moves = moved();
    assert!(moves.is_evidence(LinkId(2), EVIDENCE) && !moves.is_evidence(LinkId(2), 1));
    assert!(moves.is_evidence(LinkId(3), 1));
    moves.joined(HostIndex(3));
    assert!(!moves.is_evidence(LinkId(3), 1));
}
