//! The states of a child, one by one; and children for the tests of other parts.

use super::*;
use crate::failure::LaunchTiming;
use crate::machine::output_piece::Stream;
use crate::machine::output_relay::WINDOW;

/// A child in this role, just started.
pub(in crate::machine) fn started(role: ChildRole, blocks: Vec<Block>, now: Instant) -> Child {
    Child::new(role, (StartId(0), Arrival::Inherited), (SessionKey(1), Nonce(1)), blocks, now)
}

/// A child in this role whose host has joined.
pub(in crate::machine) fn joined(role: ChildRole, blocks: Vec<Block>, now: Instant) -> Child {
    let mut child = started(role, blocks, now);
    child.on_preamble();
    child.on_hello(now);
    child.on_joined(now);
    child
}

fn leader() -> ChildRole {
    ChildRole::Leader(Launch { host: HostIndex(7), attempt: Attempt::default() })
}

const ZERO: Instant = Instant::ZERO;

fn cause(child: &Child) -> Cause {
    child.failure(LaunchTiming::default(), false, ZERO).cause
}

#[test]
fn a_child_that_ends_keeps_the_phase_it_has_reached_and_its_first_cause() {
    let mut child = started(leader(), Vec::new(), ZERO);
    child.on_preamble();
    assert!(child.end(Cause::TimedOut) && !child.end(Cause::Cancelled));
    assert_eq!((child.phase(), cause(&child)), (Phase::Handshaking, Cause::TimedOut));
    assert_eq!(child.state(), ChildState::Ending { was_up: false, forced: false });
    child.on_preamble();
    assert_eq!(child.phase(), Phase::Handshaking);
}

#[test]
fn a_child_that_is_awaited_arrives_once() {
    let awaited =
        || Child::new(leader(), (StartId(0), Arrival::Awaited), (SessionKey(1), Nonce(1)), Vec::new(), ZERO);
    let mut child = awaited();
    assert!(child.arrive(ZERO) && !child.arrive(ZERO));
    let mut ending = awaited();
    ending.end(Cause::Cancelled);
    assert!(!ending.arrive(ZERO));
}

#[test]
fn a_child_is_killed_for_a_cause_unless_it_exits_by_itself_or_the_session_ends() {
    let killed_for = |cause: Cause, force: bool, exit: Exit| {
        let mut child = joined(leader(), Vec::new(), ZERO);
        child.end(cause);
        assert_eq!(force && child.force(), force);
        child.on_exit(exit);
        child.killed_for()
    };
    for cause in [Cause::HeartbeatLost, Cause::Closed, Cause::Protocol("not expected".to_owned())] {
        assert_eq!(killed_for(cause.clone(), true, Exit::Signal(9)), Some(cause.clone()));
        assert_eq!(killed_for(cause.clone(), false, Exit::Signal(9)), None, "another has killed it");
        assert_eq!(killed_for(cause, true, Exit::Code(0)), None, "it was quicker");
    }
    assert_eq!(killed_for(Cause::Cancelled, true, Exit::Signal(9)), None);
}

#[test]
fn an_exit_refines_a_closed_link_unless_it_is_that_of_a_child_that_was_killed() {
    let (code, signal) = (Exit::Code(3), Exit::Signal(9));
    let protocol = Cause::Protocol("not expected".to_owned());
    for (ends, exit, alone, killed) in [
        (Cause::Closed, code, Cause::Exited(code), Cause::Exited(code)),
        (Cause::Closed, signal, Cause::Exited(signal), Cause::Closed),
        (protocol.clone(), code, Cause::Exited(code), protocol),
    ] {
        for (is_killed, expected) in [(false, alone), (true, killed)] {
            let mut child = started(leader(), Vec::new(), ZERO);
            child.end(ends.clone());
            assert!(!is_killed || child.force() && !child.force());
            child.close();
            assert!(!child.is_gone());
            child.on_exit(exit);
            assert!(child.is_gone());
            assert_eq!(cause(&child), expected);
        }
    }
}

#[test]
fn a_child_takes_hosts_until_it_hands_some_back_detaches_or_ends() {
    let changes: [fn(&mut Child); 4] =
        [Child::on_handed_back, Child::on_detached, Child::close, |child| assert!(child.end(Cause::Closed))];
    assert!(!started(leader(), Vec::new(), ZERO).takes_hosts());
    for change in changes {
        let mut child = joined(leader(), Vec::new(), ZERO);
        assert!(child.takes_hosts());
        change(&mut child);
        assert!(!child.takes_hosts());
    }
}

#[test]
fn credit_that_was_used_is_granted_again_once_the_output_was_passed_on() {
    let mut child = joined(leader(), Vec::new(), ZERO);
    assert!(child.use_credit(WINDOW) && !child.use_credit(1));
    child.passed_on(99);
    assert_eq!(child.grant(100), None);
    child.passed_on(1);
    assert_eq!(child.grant(100), Some(100));
    assert!(child.use_credit(100) && !child.use_credit(1));
}

#[test]
fn a_goodbye_is_expected_once_after_this_node_has_moved() {
    let mut child = joined(leader(), Vec::new(), ZERO);
    assert!(!child.on_goodbye());
    child.send_directly();
    assert!(child.is_direct() && child.on_goodbye() && !child.on_goodbye() && child.is_direct());
}

#[test]
fn what_is_printed_before_the_hello_is_evidence_and_later_output_of_the_rank() {
    let mut child = started(ChildRole::Local(Rank(4)), Vec::new(), ZERO);
    assert_eq!(child.printed(Stream::Out, b"banner".to_vec()), None);
    child.on_preamble();
    child.on_hello(ZERO);
    assert_eq!(child.take_early_output(), [(Stream::Out, b"banner".to_vec())]);
    assert_eq!(child.printed(Stream::Err, b"!".to_vec()), Some((Rank(4), b"!".to_vec())));
    assert_eq!(child.failure(LaunchTiming::default(), false, ZERO).tail, "banner!");
}
