//! Starters: when they are asked to end, divided, killed and forgotten.

use super::*;

const GRACE: Duration = Duration::from_secs(2);

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

/// A table with one bulk start of two children.
fn bulk() -> (StartTable, StartId) {
    let mut table = StartTable::new();
    let id = table.next_id();
    table.add_bulk(id, [("a".to_owned(), LinkId(1)), ("b".to_owned(), LinkId(2))].into());
    let named = |name| table.children_named(id, name).collect::<Vec<_>>();
    assert_eq!([named("b"), named("c"), named("b.cluster")], [vec![LinkId(2)], vec![], vec![LinkId(2)]]);
    (table, id)
}

#[test]
fn a_starter_is_asked_to_end_when_its_last_child_is_gone() {
    let (mut table, id) = bulk();
    assert_eq!(table.child_gone(id, LinkId(1), false, at(2)), StarterStep::Nothing);
    assert_eq!((table.children(id), table.in_flight()), (vec![LinkId(2)], 1));
    table.arrived(id, LinkId(2));
    assert_eq!(table.in_flight(), 0);
    assert_eq!(table.child_gone(id, LinkId(2), false, at(2)), StarterStep::Ask);
    assert!(!table.is_empty());
    table.starter_gone(id);
    assert!(table.is_empty());
}

#[test]
fn a_starter_that_does_not_end_is_killed_and_then_forgotten() {
    let (mut table, id) = bulk();
    assert_eq!(table.next_deadline(), None);
    let steps = [1, 2].map(|link| table.child_gone(id, LinkId(link), false, at(2)));
    assert_eq!(steps, [StarterStep::Nothing, StarterStep::Ask]);
    assert_eq!((table.next_deadline(), table.expire(at(1), GRACE)), (Some(at(2)), None));
    assert_eq!(table.expire(at(2), GRACE), Some((id, StarterStep::Kill)));
    assert_eq!(table.expire(at(2), GRACE), None);
    assert_eq!(table.expire(at(4), GRACE), Some((id, StarterStep::Nothing)));
    assert!(table.is_empty());
}

#[test]
fn a_starter_whose_children_have_ended_by_themselves_has_time_to_say_why() {
    let (mut table, id) = bulk();
    let steps = [1, 2].map(|link| table.child_gone(id, LinkId(link), true, at(2)));
    assert_eq!(steps, [StarterStep::Nothing; 2]);
    assert!(table.is_any_finishing() && table.is_running(id));
    table.refused(id, b"cancelled");
    assert_eq!(table.why_refused(id).as_deref(), Some("cancelled"));
    assert_eq!(table.expire(at(2), GRACE), Some((id, StarterStep::Ask)));
    assert!(!table.is_any_finishing() && !table.is_running(id));
    assert_eq!(table.expire(at(4), GRACE), Some((id, StarterStep::Kill)));
}

#[test]
fn what_a_starter_says_that_was_asked_to_end_explains_nothing() {
    let (mut table, id) = bulk();
    _ = [1, 2].map(|link| table.child_gone(id, LinkId(link), false, at(2)));
    table.refused(id, b"cancelled");
    assert_eq!((table.why_refused(id), table.why_all_refused()), (None, None));
}

#[test]
fn a_start_outlives_its_starter_while_it_has_children() {
    let (mut table, id) = bulk();
    table.starter_gone(id);
    assert!(!table.is_empty());
    for link in [1, 2] {
        assert_eq!(table.child_gone(id, LinkId(link), false, at(2)), StarterStep::Nothing);
    }
    assert!(table.is_empty());
}

#[test]
fn the_start_of_one_process_is_over_once_it_is_carried_out() {
    let mut table = StartTable::new();
    let id = table.next_id();
    table.add(id, LinkId(1));
    table.begin(id, at(1));
    assert!(table.is_starting());
    assert_eq!(table.children(id), [LinkId(1)]);
    assert_eq!((table.finish(StartId(9)), table.finish(id)), (None, Some(at(1))));
    assert_eq!(table.children(id), []);
    assert_eq!((table.finish(id), table.is_starting()), (None, false));
    assert_eq!(table.child_gone(id, LinkId(1), false, at(2)), StarterStep::Nothing);
    assert!(table.is_empty());
}

#[test]
fn a_start_that_fails_as_a_whole_is_divided() {
    let (mut table, id) = bulk();
    table.starter_gone(id);
    assert_eq!(table.divide(id), Some([vec![LinkId(1)], vec![LinkId(2)]]));
    assert!(table.is_empty() && table.divide(id).is_none());
}

#[test]
fn a_start_is_not_divided_if_its_failure_is_explained() {
    for case in 0..4 {
        let (mut table, id) = bulk();
        match case {
            0 => table.refused(id, b"srun: error: Invalid account\n"),
            1 => table.arrived(id, LinkId(1)),
            2 => _ = table.child_gone(id, LinkId(1), false, at(2)),
            _ => table.divisions = 0,
        }
        table.starter_gone(id);
        assert_eq!(table.divide(id), None, "case {case}");
    }
}

#[test]
fn a_starter_that_has_ended_does_not_wait() {
    let (mut table, id) = bulk();
    assert_eq!(table.set_waiting(id, true, at(1)), Some(Duration::ZERO));
    assert!(table.set_waiting(id, true, at(2)).is_none() && table.is_waiting());
    table.starter_gone(id);
    assert!(!table.is_waiting() && !table.waits(id) && table.set_waiting(id, true, at(3)).is_none());
}

#[test]
fn all_waits_of_a_start_count() {
    let (mut table, id) = bulk();
    let waits = [(true, 1, 0), (false, 4, 3), (true, 5, 3), (false, 7, 5)];
    for (waits, second, queued) in waits {
        assert_eq!(table.set_waiting(id, waits, at(second)), Some(Duration::from_secs(queued)));
    }
    assert_eq!(table.set_waiting(id, false, at(9)), None);
}

#[test]
fn a_start_with_a_host_that_could_not_be_started_may_end_for_a_time() {
    let (mut table, id) = bulk();
    table.may_end_all(id, at(2));
    table.may_end_all(id, at(3));
    assert!(table.is_ending_all(id) && table.is_any_ending_all());
    assert_eq!((table.next_deadline(), table.expire(at(1), GRACE)), (Some(at(2)), None));
    assert!(table.is_ending_all(id), "not yet");
    assert_eq!(table.expire(at(2), GRACE), None);
    assert!(!table.is_ending_all(id) && !table.is_any_ending_all());
    assert_eq!(table.next_deadline(), None);
}

#[test]
fn the_end_of_a_long_output_is_kept() {
    let (mut table, id) = bulk();
    table.printed(id, &[b'a'; 3_000]);
    table.printed(id, b"the end");
    let tail = table.tail(id);
    assert_eq!(tail.len(), said::TAIL);
    assert!(tail.ends_with(b"aathe end"));
    table.starter_gone(id);
    assert_eq!(table.tail(id), tail, "hosts that have not arrived are told of it");
}

#[test]
fn a_refusal_stands_for_all_starts_unless_it_may_follow_from_a_host_that_failed() {
    let (mut table, id) = bulk();
    table.refused(id, b"*** STEP 7.0 ON a CANCELLED AT noon ***\n");
    let why = "*** STEP 7.0 ON a CANCELLED AT noon ***";
    assert_eq!(
        (table.why_refused(id), table.why_all_refused()),
        (Some(why.to_owned()), Some(why.to_owned()))
    );

    let (mut table, id) = bulk();
    table.may_end_all(id, at(2));
    table.refused(id, b"*** STEP 7.0 ON a CANCELLED AT noon ***\n");
    assert_eq!((table.why_refused(id), table.why_all_refused()), (None, None));
    assert!(table.tail(id).ends_with(b"noon ***\n"));
}

#[test]
fn a_start_waits_only_while_hosts_wait_with_it() {
    let (mut table, id) = bulk();
    assert_eq!(table.set_waiting(id, true, at(1)), Some(Duration::ZERO));
    assert!(table.is_waiting() && table.waits(id));
    for link in [1, 2] {
        table.child_gone(id, LinkId(link), false, at(2));
    }
    assert!(!table.is_waiting() && table.waits(id), "its starter lives");
}

#[test]
fn a_host_that_is_named_after_the_end_of_all_is_the_reason_for_it() {
    let (mut table, id) = bulk();
    assert!(!table.may_say_why(id));
    table.ends_all(id, b"aborted\n", at(3));
    assert!(table.may_say_why(id) && table.may_any_say_why());
    assert_eq!((table.why_all_refused(), table.next_deadline()), (None, Some(at(3))));
    table.refused(id, b"CANCELLED\n");
    assert!(table.may_say_why(id) && !table.may_any_say_why());
    assert_eq!(table.why_all_refused(), Some("CANCELLED".to_owned()));
    table.may_end_all(id, at(5));
    assert_eq!((table.why_refused(id), table.why_all_refused()), (None, None));
    assert!(!table.may_say_why(id) && table.is_ending_all(id));
    table.ends_all(id, b"aborted\n", at(6));
    assert_eq!(table.says_no_more(id), None);
    assert!(!table.may_say_why(id) && table.why_all_refused().is_none(), "it is ended for the host");
}

#[test]
fn an_end_of_all_for_which_no_reason_is_said_in_time_is_from_outside() {
    let (mut table, id) = bulk();
    table.ends_all(id, b"aborted\n", at(3));
    table.ends_all(id, b"complete\n", at(4));
    assert_eq!((table.reason_is_late(at(2)), table.why_all_refused()), (None, None));
    assert_eq!(table.reason_is_late(at(3)), Some((id, "aborted".to_owned())));
    assert_eq!((table.reason_is_late(at(4)), table.says_no_more(id)), (None, None), "it is told once");
    let why = Some("ended from outside: aborted".to_owned());
    assert_eq!((table.why_refused(id), table.why_all_refused()), (why.clone(), why));
    assert_eq!((table.may_any_say_why(), table.next_deadline()), (false, None));
    assert_eq!(table.tail(id), b"aborted\ncomplete\n");
}

#[test]
fn an_announced_end_is_quoted_where_no_other_reason_is_said() {
    for is_announced_first in [true, false] {
        let (mut table, id) = bulk();
        if is_announced_first {
            table.will_end_all(id, b"limit at noon\n");
        }
        assert!(!is_announced_first || !table.may_say_why(id), "nothing has ended");
        table.ends_all(id, b"aborted\n", at(3));
        if !is_announced_first {
            table.will_end_all(id, b"limit at noon\n");
        }
        assert_eq!(table.reason_is_late(at(3)), Some((id, "aborted; limit at noon".to_owned())));
        assert_eq!(table.why_refused(id), Some("ended from outside: aborted; limit at noon".to_owned()));
    }
    let (mut table, id) = bulk();
    table.will_end_all(id, b"limit at noon\n");
    table.ends_all(id, b"aborted\n", at(3));
    table.refused(id, b"CANCELLED\n");
    assert_eq!(table.why_refused(id), Some("CANCELLED".to_owned()));
}
