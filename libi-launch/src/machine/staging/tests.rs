//! What arrives, what children are sent, and how long that takes.

use super::*;

const LINK: LinkId = LinkId(1);

fn piece(at: u64, length: u32) -> Vec<u8> {
    staged_payload(at, length)
}

fn receiving(total: u64) -> StagedFiles {
    let mut files = StagedFiles::default();
    files.open(total, Instant::ZERO);
    files
}

#[test]
fn pieces_are_taken_in_order_and_no_others() {
    let mut files = receiving(100);
    assert!(files.arrive(piece(0, 60), Instant::ZERO).is_some_and(|bytes| bytes.len() == 60));
    for wrong in [piece(0, 60), piece(61, 1), piece(60, 41), piece(60, 0), vec![1; 7], piece(u64::MAX, 9)] {
        assert_eq!(files.arrive(wrong, Instant::ZERO), None);
    }
    assert!(!files.written(60) && files.is_open());
    assert!(files.arrive(piece(60, 40), Instant::ZERO).is_some() && files.written(100));
    assert!(files.is_complete());
    assert_eq!(files.arrive(piece(100, 1), Instant::ZERO), None);
    assert_eq!(StagedFiles::default().arrive(piece(0, 1), Instant::ZERO), None, "no files are due");
    let long = vec![0; PLACE + PIECE as usize + 1];
    assert_eq!(receiving(1 << 30).arrive(long, Instant::ZERO), None);
}

#[test]
fn empty_files_are_complete_when_they_exist() {
    let mut files = receiving(0);
    assert!(files.is_open() && files.written(0) && files.is_complete());
    files.serve(LINK);
    assert_eq!((files.next_piece(LINK), files.owes(LINK), files.missing(LINK)), (None, true, None));
}

#[test]
fn the_time_for_all_files_follows_from_the_part_that_has_arrived() {
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let time = |total, arrived, seconds: u64| {
        let mut files = StagedFiles::default();
        files.open(total, at(1));
        if arrived > 0 {
            assert!(files.arrive(piece(0, arrived), at(1 + seconds)).is_some());
        }
        files.time_for_all()
    };
    assert_eq!(time(100, 0, 0), None, "nothing is known");
    assert_eq!(time(100, 25, 2), Some(Duration::from_secs(8)));
    assert_eq!(time(100, 100, 2), Some(Duration::from_secs(2)));
    assert_eq!(time(0, 0, 0), Some(Duration::ZERO), "empty files take no time");
    assert_eq!(time(u64::MAX, 1, 1_000), Some(Duration::MAX));
}

#[test]
fn a_child_gets_what_is_written_within_its_window() {
    let mut files = receiving(10 * WINDOW);
    files.serve(LINK);
    assert_eq!(files.next_piece(LINK), None);
    assert!(!files.owes(LINK), "it waits for this node");
    assert!(files.arrive(piece(0, 10), Instant::ZERO).is_some());
    assert_eq!(files.next_piece(LINK), None, "it has arrived, and is not written");
    files.written(10);
    assert_eq!(files.next_piece(LINK), Some((0, 10)));
    assert!(files.owes(LINK));
    let mut files = StagedFiles::of_front_end(10 * WINDOW);
    files.serve(LINK);
    let mut sent = 0;
    while let Some((at, length)) = files.next_piece(LINK) {
        assert_eq!(at, sent);
        sent += u64::from(length);
    }
    assert_eq!(sent, WINDOW);
    assert!(files.confirm(LINK, PIECE) && files.next_piece(LINK) == Some((WINDOW, PIECE as u32)));
    assert!(!files.confirm(LINK, 0) && !files.confirm(LINK, sent + PIECE + 1), "neither can be");
    assert!(!files.confirm(LinkId(2), 0));
}

#[test]
fn many_children_share_a_budget() {
    let mut files = StagedFiles::of_front_end(10 * WINDOW);
    let links: Vec<_> = (0..1_000).map(LinkId).collect();
    links.iter().for_each(|link| files.serve(*link));
    assert!((1_000 * PIECE..=BUDGET + 1_000 * PIECE).contains(&all_due(&mut files, &links)));

    // The first to come have more than their share when the last one comes.
    let mut files = StagedFiles::of_front_end(10 * WINDOW);
    let mut sent = 0;
    for link in &links {
        files.serve(*link);
        sent += all_due(&mut files, &[*link]);
    }
    assert!((BUDGET..=BUDGET + 1_000 * PIECE).contains(&sent), "{sent}");
    // Who has confirmed all makes room for others, and so do those that are gone.
    assert_eq!(all_due(&mut files, &links), 0);
    assert!(files.confirm(links[0], WINDOW) && all_due(&mut files, &links) > 0);
    links[..999].iter().for_each(|link| files.forget(*link));
    assert!(files.confirm(links[999], PIECE) && all_due(&mut files, &links) == WINDOW);
}

fn all_due(files: &mut StagedFiles, links: &[LinkId]) -> u64 {
    let mut sent = 0;
    for link in links {
        while let Some((_, length)) = files.next_piece(*link) {
            sent += u64::from(length);
        }
    }
    sent
}

#[test]
fn a_node_that_failed_passes_nothing_on() {
    let mut files = receiving(100);
    files.serve(LINK);
    files.arrive(piece(0, 50), Instant::ZERO);
    files.written(50);
    files.fail("no space".to_owned());
    assert_eq!(files.next_piece(LINK), None);
    assert!(files.arrive(piece(50, 50), Instant::ZERO).is_some(), "what was on its way is no violation");
    assert!(!files.written(100));
    assert_eq!(files.why_failed(), Some(Cause::NotStaged("no space".to_owned())));
    assert_eq!(receiving(100).why_failed(), None);
}

#[test]
fn a_child_that_gets_files_elsewhere_is_sent_nothing_until_it_asks() {
    let mut files = StagedFiles::of_front_end(10 * WINDOW);
    files.serve_elsewhere(LINK);
    assert_eq!((files.next_piece(LINK), files.owes(LINK), files.missing_children()), (None, false, 0));
    assert!(files.confirm(LINK, 3 * PIECE) && files.served().is_empty());
    assert_eq!((files.missing(LINK), files.progress().0), (Some(3 * PIECE), 3 * PIECE));
    assert!(!files.confirm(LINK, PIECE) && !files.confirm(LINK, 10 * WINDOW + 1), "neither can be");
    // Some pieces have arrived there and are not written.
    for wrong in [PIECE, 10 * WINDOW + 1] {
        assert!(!files.serve_from(LINK, wrong, Instant::ZERO));
    }
    assert!(files.serve_from(LINK, 5 * PIECE, Instant::ZERO) && files.owes(LINK));
    assert_eq!((files.next_piece(LINK), files.missing_children()), (Some((5 * PIECE, PIECE as u32)), 1));
    assert!(files.confirm(LINK, 4 * PIECE) && !files.confirm(LINK, 7 * PIECE), "it was not sent");
    assert!(
        !files.serve_from(LINK, 6 * PIECE, Instant::ZERO) && !files.serve_from(LinkId(2), 0, Instant::ZERO),
        "once, and only a child"
    );
    files.forget(LINK);
    assert_eq!(files.progress().0, 4 * PIECE);
}

#[test]
fn a_child_that_has_everything_from_elsewhere_has_to_join() {
    let mut files = StagedFiles::of_front_end(PIECE);
    files.serve_elsewhere(LINK);
    assert!(files.confirm(LINK, PIECE) && files.owes(LINK));
    assert_eq!(files.missing(LINK), None);
}

#[test]
fn progress_counts_what_children_confirm_also_those_that_are_gone() {
    let mut files = StagedFiles::of_front_end(100);
    files.serve(LINK);
    assert_eq!((files.next_piece(LINK), files.progress()), (Some((0, 100)), (0, 100)));
    files.confirm(LINK, 40);
    files.forget(LINK);
    files.serve(LinkId(2));
    assert_eq!(files.progress(), (40, 140));
    assert_eq!(files.served(), [LinkId(2)]);
}

#[test]
fn a_client_is_slow_that_takes_much_longer_than_this_node_has() {
    let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
    let mut files = receiving(100 * PIECE);
    for number in 0..40 {
        assert!(files.arrive(piece(number * PIECE, PIECE as u32), at(number / 10)).is_some());
    }
    files.written(40 * PIECE);
    files.serve_elsewhere(LINK);
    assert!(!files.is_slow(LINK, at(9)), "it gets nothing from here");
    // This node has got 40 pieces in 3 seconds.
    assert!(files.serve_from(LINK, PIECE, at(3)));
    for _ in 0..8 {
        files.next_piece(LINK);
    }
    assert!(files.confirm(LINK, 9 * PIECE));
    assert!(!files.is_slow(LINK, at(4)), "it is too early to know");
    assert!(!files.is_slow(LINK, at(5)), "8 pieces in 2 seconds");
    assert!(files.is_slow(LINK, at(6)), "8 pieces in 3 seconds");
}
