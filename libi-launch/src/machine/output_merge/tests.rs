use libi_core::ids::Rank;
use proptest::prelude::*;

use super::*;
use crate::failure::Exit;

const HOLD: Duration = Duration::from_millis(100);
const CREDIT: usize = 1 << 30;

/// A merge whose children have these numbers of members.
fn merge(members: &[usize]) -> OutputMerge {
    let mut merge = OutputMerge::new(HOLD);
    merge.open((1..).map(LinkId).zip(members.iter().copied()));
    merge
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn piece(ranks: &[u32], text: &str) -> OutputPiece {
    let ranks = ranks.iter().copied().map(Rank).collect();
    OutputPiece { ranks, stream: Stream::Out, text: text.as_bytes().to_vec(), at: None }
}

fn push(merge: &mut OutputMerge, link: u32, ranks: &[u32], text: &str, millis: u64) {
    merge.push(LinkId(link), true, piece(ranks, text), at(millis));
}

/// What is passed on at this time: ranks and text.
fn passed(merge: &mut OutputMerge, millis: u64) -> Vec<(String, String)> {
    let pop = || merge.pop(CREDIT, false, at(millis), &mut BTreeMap::new());
    let pieces = std::iter::from_fn(pop);
    pieces.map(|it| (it.ranks.to_string(), String::from_utf8(it.text).unwrap())).collect()
}

fn expected(pieces: &[(&str, &str)]) -> Vec<(String, String)> {
    pieces.iter().map(|(ranks, text)| ((*ranks).to_owned(), (*text).to_owned())).collect()
}

fn exited(rank: u32) -> ChildMessage {
    ChildMessage::Exited(Rank(rank), Exit::Code(0), None, 0)
}

#[test]
fn what_all_have_printed_leaves_at_once_as_one_piece() {
    let mut merge = merge(&[1, 1, 1]);
    push(&mut merge, 1, &[0], "a\nb\n", 0);
    push(&mut merge, 2, &[1], "a\n", 1);
    assert_eq!(passed(&mut merge, 1), [], "one may print the same");
    push(&mut merge, 3, &[2], "a\nb\nc\n", 2);
    assert_eq!(passed(&mut merge, 2), expected(&[("ranks 0-2", "a\n")]));
    push(&mut merge, 2, &[1], "b\n", 3);
    assert_eq!(passed(&mut merge, 3), expected(&[("ranks 0-2", "b\n")]));
    assert_eq!(merge.next_wake(at(3)), Some(at(102)));
    assert_eq!(passed(&mut merge, 101), []);
    assert_eq!(passed(&mut merge, 102), expected(&[("rank 2", "c\n")]), "the time is over");
    assert_eq!((merge.held(), merge.is_empty(), merge.next_wake(at(102))), (0, true, None));
}

#[test]
fn lines_of_one_rank_do_not_separate_what_follows_them() {
    let mut merge = merge(&[1, 1, 1]);
    for rank in 0..3 {
        push(&mut merge, rank + 1, &[rank], &format!("I am {rank}\nsame\n"), u64::from(rank));
    }
    let own = [("rank 1", "I am 1\n"), ("rank 2", "I am 2\n"), ("rank 0", "I am 0\n")];
    let all = [&own[..], &[("ranks 0-2", "same\n")]].concat();
    assert_eq!(passed(&mut merge, 99), []);
    let mut pieces = passed(&mut merge, 100);
    let last = pieces.pop();
    pieces.sort();
    let mut all = expected(&all);
    assert_eq!(last, all.pop());
    all.sort();
    assert_eq!(pieces, all);
}

#[test]
fn members_that_have_left_are_not_waited_for() {
    let mut merge = merge(&[2, 1]);
    push(&mut merge, 1, &[0, 1], "a\n", 0);
    merge.member_left(LinkId(1));
    assert_eq!(passed(&mut merge, 0), []);
    merge.member_left(LinkId(1));
    push(&mut merge, 2, &[2], "a\n", 0);
    assert_eq!(passed(&mut merge, 0), expected(&[("ranks 0-2", "a\n")]));
    push(&mut merge, 2, &[2], "b\n", 0);
    merge.child_left(LinkId(2), false);
    assert_eq!(passed(&mut merge, 0), expected(&[("rank 2", "b\n")]), "no child is left");
}

#[test]
fn what_a_lost_host_has_printed_is_not_held() {
    let mut merge = merge(&[2, 2, 2]);
    push(&mut merge, 1, &[0], "a\n", 0);
    push(&mut merge, 2, &[2], "b\n", 0);
    merge.child_left(LinkId(2), true);
    assert_eq!(passed(&mut merge, 0), expected(&[("rank 2", "b\n")]));
}

#[test]
fn before_the_session_is_up_output_is_held_for_its_time() {
    let mut merge = OutputMerge::new(HOLD);
    push(&mut merge, 1, &[0], "a\n", 0);
    assert_eq!(passed(&mut merge, 99), []);
    push(&mut merge, 2, &[1], "a\n", 99);
    assert_eq!(passed(&mut merge, 100), expected(&[("ranks 0-1", "a\n")]));
}

#[test]
fn beyond_its_bound_a_node_holds_nothing_for_the_sake_of_merging() {
    for (length, is_credited) in [(1_000, false), (1_000, true), (1, true), (1, false)] {
        let mut merge = merge(&[1, 1]);
        let line = "x".repeat(length);
        let mut is_full = false;
        for number in 0..2_000 {
            merge.push(LinkId(1), is_credited, piece(&[0], &format!("{number} {line}\n")), at(0));
            while merge.pop(CREDIT, false, at(0), &mut BTreeMap::new()).is_some() {}
            let queue = &merge.queues[&LinkId(1)];
            assert!(queue.bytes <= HELD && queue.credit <= WINDOW / 2, "{number} lines: {queue:?}");
            is_full |= queue.bytes > HELD - 2_000 || queue.credit > WINDOW / 2 - 2_000;
        }
        assert!(is_full, "it holds as much as it may");
        let queue = &merge.queues[&LinkId(1)];
        let is_half_full = queue.bytes > HELD / 2 - 2_000 || queue.credit > WINDOW / 4 - 2_000;
        assert!(is_half_full, "and never lets out more than half of it: {queue:?}");
    }
}

#[test]
fn what_a_queue_that_is_too_long_passes_on_fills_frames() {
    let (mut merge, mut lengths) = (merge(&[1, 1]), Vec::new());
    for number in 0..20_000 {
        merge.push(LinkId(1), true, piece(&[0], &format!("line {number}\n")), at(0));
        while let Some(piece) = merge.pop(CREDIT, false, at(0), &mut BTreeMap::new()) {
            lengths.push(piece.text.len());
        }
    }
    // Each short line has cost 128 bytes more than its text: half of a quarter of the window.
    assert!(lengths.len() > 100 && lengths.iter().all(|length| *length > 900), "{lengths:?}");
}

#[test]
fn the_number_of_lines_that_wait_is_bounded() {
    let mut merge = merge(&[1, 1]);
    for _ in 0..10 {
        push(&mut merge, 1, &[0], &"\n".repeat(10_000), 0);
    }
    let units = merge.queues[&LinkId(1)].units.len();
    assert!(units <= MAX_UNITS + 20, "{units}");
    merge.child_left(LinkId(1), true);
    let text: String = passed(&mut merge, 0).into_iter().map(|(_, text)| text).collect();
    assert_eq!(text, "\n".repeat(100_000));
    assert_eq!(merge.held(), 0);
}

#[test]
fn output_waits_for_credit_and_credit_goes_back_to_all_sources() {
    let mut merge = merge(&[1, 1]);
    push(&mut merge, 1, &[0], "same\n", 0);
    merge.push(LinkId(2), false, piece(&[1], "same\n"), at(0));
    let mut sources = BTreeMap::new();
    let cost = credit_of(&piece(&[0, 1], "same\n"));
    assert_eq!(merge.pop(cost - 1, false, at(0), &mut sources), None);
    assert_eq!(merge.pop(cost, false, at(0), &mut sources), Some(piece(&[0, 1], "same\n")));
    let paid = credit_of(&piece(&[0], "same\n")) as u32;
    assert_eq!(sources, BTreeMap::from([(LinkId(1), paid), (LinkId(2), 0)]));
}

#[test]
fn an_end_follows_the_output_and_waits_no_longer_than_that_may() {
    let mut merge = merge(&[1, 1]);
    assert_eq!(merge.defer(LinkId(2), exited(1), at(0)), Some(exited(1)), "it has printed nothing");
    push(&mut merge, 1, &[0], "a\n", 0);
    assert_eq!(merge.defer(LinkId(1), exited(0), at(10)), None);
    assert_eq!(merge.defer(LinkId(1), ChildMessage::Detached(Rank(0)), at(11)), None, "in order");
    assert_eq!(merge.released(false, at(99)), []);
    assert_eq!(passed(&mut merge, 100).len(), 1);
    assert_eq!(merge.released(false, at(100)), [exited(0), ChildMessage::Detached(Rank(0))]);
    push(&mut merge, 1, &[0], "b\n", 200);
    assert_eq!(merge.defer(LinkId(1), exited(0), at(200)), None);
    assert_eq!(merge.pop(0, false, at(300), &mut BTreeMap::new()), None, "no credit");
    assert_eq!((merge.next_wake(at(299)), merge.released(false, at(299))), (Some(at(300)), vec![]));
    assert_eq!(merge.released(false, at(300)), [exited(0)]);
    assert_eq!(merge.next_wake(at(300)), None, "credit is an event");
}

#[test]
fn more_ranks_than_fit_into_a_piece_travel_in_several() {
    let (even, odd) = ((0..3_000).step_by(2).collect::<Vec<u32>>(), [4_000]);
    let mut merge = merge(&[1, 1, 1]);
    push(&mut merge, 1, &even[..1_000], "a\n", 0);
    push(&mut merge, 2, &even[1_000..], "a\n", 0);
    push(&mut merge, 3, &odd, "a\n", 0);
    let pieces: Vec<_> =
        std::iter::from_fn(|| merge.pop(CREDIT, true, at(0), &mut BTreeMap::new())).collect();
    let runs: Vec<_> = pieces.iter().map(|piece| piece.ranks.runs().count()).collect();
    assert_eq!(runs, [1_001, 500]);
}

proptest! {
    /// Whatever arrives in whatever pieces, at whatever times: each rank and stream has all its bytes
    /// in order, credit comes back to the last byte, and nothing is left.
    #[test]
    fn every_byte_arrives_in_order_and_all_credit_comes_back(
        steps in prop::collection::vec((1_u32..4, 0_u32..3, any::<bool>(), "[ab\n]{0,6}", 0_u64..60), 0..60),
        gone in 1_u32..5,
        credit in prop_oneof![Just(CREDIT), 200_usize..300],
    ) {
        let mut merge = merge(&[3, 3, 3]);
        let (mut now, mut sources) = (0, BTreeMap::new());
        let (mut printed, mut read, mut paid) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut note = |piece: OutputPiece| for rank in piece.ranks.iter() {
            let text: &mut Vec<u8> = read.entry((rank, piece.stream)).or_default();
            text.extend(&piece.text);
        };
        for (link, rank, is_err, text, later) in steps {
            now += later;
            let stream = if is_err { Stream::Err } else { Stream::Out };
            let ranks: Vec<u32> = (10 * link..=10 * link + rank).collect();
            let piece = OutputPiece { stream, ..piece(&ranks, &text) };
            if !text.is_empty() {
                *paid.entry(LinkId(link)).or_insert(0) += credit_of(&piece) as u32;
                for rank in piece.ranks.iter() {
                    printed.entry((rank, stream)).or_insert_with(Vec::new).extend(text.bytes());
                }
            }
            merge.push(LinkId(link), true, piece, at(now));
            while let Some(piece) = merge.pop(credit, false, at(now), &mut sources) {
                note(piece);
            }
            prop_assert!(merge.due.first().is_none_or(|(due, _)| *due > at(now)), "what is due has left");
        }
        merge.child_left(LinkId(gone), true);
        while let Some(piece) = merge.pop(credit, true, at(now), &mut sources) {
            note(piece);
        }
        prop_assert_eq!(read, printed);
        prop_assert_eq!(sources, paid);
        prop_assert!(merge.is_empty() && merge.holders.is_empty());
        prop_assert_eq!(merge.held(), 0);
    }
}
