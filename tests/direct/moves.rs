//! Links that move carry everything that a channel does, and close as it would.

use std::time::{Duration, Instant};

use libi::{Event, Exit, FrontEnd, LinkPolicy, LinkSecurity, Rank};

use libi_testkit::shell::eventually;
use libi_testkit::testbed::{Testbed, direct, follow, is_root, launch, shut_down, sockets_of, tcp_sockets};

/// 5 MB, every line of which differs from the others.
const LINES: usize = 700_000;

fn expected(rank: u32) -> Vec<u8> {
    (0..LINES).flat_map(|line| format!("{rank} {line}\n").into_bytes()).collect()
}

fn whole_output_arrives(links: LinkPolicy, mode: LinkSecurity) {
    let testbed = Testbed::new("seq 1ms\nrem 20ms");
    let front = FrontEnd::new().unwrap();
    let options = testbed.options(links).link_security(mode);
    let lines = format!("only:5:count:{LINES}");
    let words = ["join", "await:go", &lines, "out:{rank} has ended", "finish:30000"];
    let session = launch(&front, "n[0-7]:2", &words, &options);
    if links == LinkPolicy::Direct {
        direct(&session, 8);
    }
    std::fs::write(testbed.lab.0.join("go"), "").unwrap();
    let outcome = follow(&front);
    // Of the output they carry, links become direct that may stay in the channels: that of the host that
    // prints, and that to the front end.
    let counts = session.links();
    assert!(counts.direct >= 2 && counts.fell_back == 0, "{counts:?}");
    assert_eq!(outcome.exits.len(), 16);
    assert!(outcome.exits.values().all(|exit| *exit == Exit::Code(0)), "{:?}", outcome.exits);
    for rank in 0..16 {
        let mut lines = if rank == 5 { expected(rank) } else { Vec::new() };
        lines.extend(format!("{rank} has ended\n").bytes());
        assert!(outcome.out[&Rank(rank)] == lines, "rank {rank} has printed something else");
    }
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn links_become_direct_and_five_megabytes_arrive_in_order() {
    whole_output_arrives(LinkPolicy::Auto, LinkSecurity::Encrypted);
}

#[test]
fn authenticated_links_carry_the_same() {
    whole_output_arrives(LinkPolicy::Auto, LinkSecurity::Authenticated);
}

#[test]
fn links_that_must_be_direct_are() {
    whole_output_arrives(LinkPolicy::Direct, LinkSecurity::Encrypted);
}

#[test]
fn members_that_print_before_their_link_has_moved_lose_nothing() {
    for _ in 0..5 {
        let testbed = Testbed::new("seq 1ms\nrem 5ms");
        let front = FrontEnd::new().unwrap();
        let words = ["join", "count:40000", "finish:30000"];
        let session = launch(&front, "n[0-7]:2", &words, &testbed.options(LinkPolicy::Auto));
        let outcome = follow(&front);
        for rank in 0..16 {
            let lines: Vec<u8> =
                (0..40_000).flat_map(|line| format!("{rank} {line}\n").into_bytes()).collect();
            let out = &outcome.out[&Rank(rank)];
            let same = out.iter().zip(&lines).take_while(|(out, line)| out == line).count();
            assert!(*out == lines, "rank {rank}: {} bytes of {}, {same} alike", out.len(), lines.len());
        }
        assert!(session.links().direct >= 1, "{:?}", session.links());
        drop((session, front));
        testbed.nothing_is_left();
    }
}

#[test]
fn links_that_may_stay_in_their_channels_and_carry_little_stay() {
    let testbed = Testbed::new("seq 1ms\nrem 5ms");
    let front = FrontEnd::new().unwrap();
    let options = testbed.options(LinkPolicy::Auto).strategy("kary:2".parse().unwrap());
    // News of so many members that end are no calls.
    let session = launch(&front, "n[00-39]", &["join", "out:{rank}", "finish:30000"], &options);
    let outcome = follow(&front);
    assert_eq!((outcome.exits.len(), session.links()), (40, libi::LinkCounts::default()));
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn signals_and_the_orderly_end_pass_over_direct_links() {
    let testbed = Testbed::new("");
    let front = FrontEnd::new().unwrap();
    let words = ["join", "catch:10:caught{rank}", "touch:ready{rank}", "wait"];
    let session = launch(&front, "n[0-7]:2", &words, &testbed.options(LinkPolicy::Direct));
    direct(&session, 8);
    eventually("all are ready", || (0..16).all(|rank| testbed.lab.has(&format!("ready{rank}"))));
    session.kill(10).unwrap();
    eventually("all have got the signal", || (0..16).all(|rank| testbed.lab.has(&format!("caught{rank}"))));
    let began = Instant::now();
    session.terminate(Duration::from_secs(5)).unwrap();
    assert!(began.elapsed() < Duration::from_secs(4), "it was said late");
    let outcome = follow_to_the_end(&front);
    assert_eq!(outcome, 16);
    drop((session, front));
    testbed.nothing_is_left();
}

/// How many members were ended by the final signal, as remote shells report it for leaders.
fn follow_to_the_end(front: &FrontEnd) -> usize {
    let mut ended = 0;
    while let Some(event) = front.next_event(Duration::from_millis(200)) {
        ended += usize::from(matches!(event, Event::Exited { exit: Exit::Signal(15) | Exit::Code(143), .. }));
    }
    ended
}

#[test]
fn no_process_listens_if_links_are_channels() {
    let testbed = Testbed::new("seq 1ms\nrem 20ms");
    let front = FrontEnd::new().unwrap();
    let began = Instant::now();
    let session = front.start_all(
        &[libi_testkit::testbed::members("n[0-7]:2", &["join", "wait"])],
        &testbed.options(LinkPolicy::Channel),
    );
    let session = session.unwrap().remove(0);
    while session.report().is_none() {
        assert!(testbed.listeners().is_empty(), "{:?}", testbed.listeners());
        assert!(began.elapsed() < libi_testkit::testbed::TIMEOUT);
    }
    assert!(session.report().unwrap().is_up());
    assert!(testbed.listeners().is_empty(), "{:?}", testbed.listeners());
    assert_eq!(session.links(), libi::LinkCounts::default());
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn a_direct_connection_that_is_cut_alone_is_noticed() {
    if !is_root() {
        return; // descriptors of others
    }
    let testbed = Testbed::new("seq 1ms\nrem 5ms");
    let front = FrontEnd::new().unwrap();
    let session = launch(&front, "n[0-3]", &["join", "wait"], &testbed.options(LinkPolicy::Direct));
    direct(&session, 4);
    // A process that launches nothing has one connection and no listener.
    let sockets = tcp_sockets();
    let connections = |pid| {
        let all = sockets_of(pid).into_iter();
        let tcp = all.filter_map(|(number, inode)| Some((number, *sockets.get(&inode)?)));
        tcp.collect::<Vec<_>>()
    };
    let leaders = testbed.leaders().into_iter().map(|pid| (pid, connections(pid)));
    let leaf = leaders.filter(|(_, tcp)| tcp.len() == 1).map(|(pid, tcp)| (pid, tcp[0].0)).next();
    let (pid, number) = leaf.expect("a process that launches nothing");
    shut_down(pid, number);
    let deadline = Instant::now() + Duration::from_secs(10); // half of what a silent host is given
    loop {
        let event = front.next_event(deadline.saturating_duration_since(Instant::now()));
        match event.expect("the cut is noticed") {
            Event::Lost { .. } => break,
            Event::Exited { .. } => break,
            _ => {}
        }
    }
    drop((session, front));
    testbed.nothing_is_left();
}
