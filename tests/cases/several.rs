//! Several sessions of one front end that communicate at the same time.

use std::ops::Range;
use std::thread::scope;

use libi::{FrontEnd, LaunchOptions, LinkPolicy, SessionId};

use libi_testkit::cases::Session;
use libi_testkit::launching::{Launch, launches};
use libi_testkit::local::{Lab, MARK, SOON};
use libi_testkit::play::play_well;
use libi_testkit::playing::{Endings, play_front_end};
use libi_testkit::testbed::Testbed;

/// The launch of this size that runs the most cases of a file.
fn launch_of(file: &str, size: u32) -> Launch {
    let is_meant = |case: &Session| case.size == size && case.present.len() == size as usize;
    launches(file, true, is_meant).into_iter().max_by_key(|launch| launch.sessions.len()).unwrap()
}

#[test]
fn sessions_talk_before_during_and_after_the_talk_of_others() {
    let (testbed, lab) = (Testbed::new("seq 1ms\nrem 5ms"), Lab::new());
    let front = FrontEnd::new().unwrap();
    let start = |launch: &Launch, id, words: &[String], options: &LaunchOptions| {
        let distributions = launch.distributions(SessionId(id), words);
        let distributions: Vec<_> = distributions.into_iter().map(|one| one.env(MARK, lab.mark())).collect();
        front.start_all(&distributions, options).unwrap().remove(0)
    };
    let (here, there) = (LaunchOptions::local(), testbed.options(LinkPolicy::Direct));
    // None of its cases ends without the part of the front end.
    let mixed = launch_of("mixed", 8);
    let [mail, exchange, keys] =
        [("p2p", 17), ("exchange", 16), ("kvs", 5)].map(|(file, size)| launch_of(file, size));
    let session = start(&mixed, 0, &mixed.words(), &here);
    let part = |range: Range<usize>| {
        let mut cases = mixed.sessions[range].iter();
        cases.try_for_each(|(_, case)| play_well(case, &session))
    };
    assert!(mixed.sessions.len() > 2);
    assert_eq!(part(0..1), Ok(()), "before");
    let first = start(&mail, 1, &mail.words(), &there);
    let second = start(&exchange, 2, &exchange.words(), &here);
    let third = start(&keys, 3, &["join".to_owned(), "talk:endless:100000".to_owned()], &there);
    third.wait_up(libi_testkit::testbed::TIMEOUT).unwrap();
    scope(|scope| {
        let beside = scope.spawn(|| part(1..mixed.sessions.len() - 1));
        let mail = scope.spawn(|| play_front_end(&mail, &first));
        // It ends in the middle of its calls.
        drop(third);
        assert_eq!(play_front_end(&exchange, &second), Ok(()));
        assert_eq!(mail.join().unwrap(), Ok(()));
        assert_eq!(beside.join().unwrap(), Ok(()), "beside");
    });
    let mut endings = Endings::default();
    endings.follow(&front, &[first.id(), second.id()]);
    drop((first, second));
    let after = part(mixed.sessions.len() - 1..mixed.sessions.len());
    endings.follow(&front, &[session.id()]);
    for (id, launch) in [(0, &mixed), (1, &mail), (2, &exchange)] {
        endings.are_good(SessionId(id), launch, &after);
    }
    drop((session, front));
    lab.is_empty_within(SOON);
    testbed.nothing_is_left();
}
