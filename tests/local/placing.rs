//! Who is who: ranks, hosts, distributions, sessions, front ends, and who makes progress.

use std::os::fd::AsFd;

use libi::{Event, Exit, FrontEnd, LaunchOptions, Progress, Session, SessionId, Stage};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use libi_testkit::local::*;

const SAY_AND_FINISH: [&str; 3] = ["join", "out:{rank} of {size} on {host}", "finish:30000"];

#[test]
fn every_member_knows_its_rank_the_size_and_the_name_of_its_host() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch(&front, lab.members("a:3,b[1-2]:2,c,a", &SAY_AND_FINISH));
    assert_eq!((session.size(), session.id()), (9, SessionId(0)));
    let heard = Heard::all(&front);
    let hosts = ["a", "a", "a", "b1", "b1", "b2", "b2", "c", "a"];
    for (rank, host) in (0..).zip(hosts) {
        assert_eq!(heard.out(rank), format!("{rank} of 9 on {host}\n"));
        assert_eq!(heard.exits[&rank], Exit::Code(0));
    }
    assert_eq!((heard.exits.len(), heard.lost.len(), heard.done), (9, 0, true));
    let report = session.report().unwrap();
    assert!(report.is_up() && report.joined() == 4 && report.failed().count() == 0);
    let counts: Vec<_> = report.hosts().iter().map(|host| (host.name.as_str(), host.members)).collect();
    assert_eq!(counts, [("a", 4), ("b1", 2), ("b2", 2), ("c", 1)]);
    assert!(report.to_string().starts_with("4 hosts joined with 9 members in "), "{report}");
    lab.is_empty_within(SOON);
}

#[test]
fn distributions_of_one_session_keep_their_program_arguments_variables_and_directory() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let tell =
        |own| ["join", "out:{rank}", own, "env:FIRST", "env:SECOND", "env:BOTH", "cwd", "finish:30000"];
    let first = lab.members("a:2,b", &tell("out:one")).env("FIRST", "1").env("BOTH", "of the first");
    let second = lab.members("b:2,c,a", &tell("out:two")).env("SECOND", "2").env("BOTH", "of the second");
    let second = second.current_dir("/");
    let third = lab.program("/bin/sh", "c,d", &["-c", "cd /tmp; exec \"$0\" \"$@\"", member()]);
    let third = third.args(tell("out:three"));
    let session = launch_with(&front, &[first, second, third], &LaunchOptions::local());
    let heard = Heard::all(&front);
    let here = std::env::current_dir().unwrap();
    let here = here.display();
    for rank in 0..session.size() {
        let expected = match rank {
            0..3 => format!("{rank}\none\n1\n\nof the first\n{here}\n"),
            3..7 => format!("{rank}\ntwo\n\n2\nof the second\n/\n"),
            _ => format!("{rank}\nthree\n\n\n\n/tmp\n"),
        };
        assert_eq!(heard.out(rank), expected, "rank {rank}");
    }
}

#[test]
fn a_variable_that_one_distribution_replaces_is_the_users_in_the_others() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let first = lab.members("a:2", &["join", "env:CARGO_MANIFEST_DIR", "finish:30000"]);
    let first = first.env("CARGO_MANIFEST_DIR", "replaced");
    let second = lab.members("a,b:2", &["join", "env:CARGO_MANIFEST_DIR", "finish:30000"]);
    let _session = launch_with(&front, &[first, second], &LaunchOptions::local());
    let heard = Heard::all(&front);
    let texts: Vec<_> = (0..5).map(|rank| heard.out(rank)).collect();
    // Cargo has set it for us.
    let ours = format!("{}\n", std::env::var("CARGO_MANIFEST_DIR").unwrap());
    assert_eq!(texts, ["replaced\n", "replaced\n", &ours, &ours, &ours]);
}

#[test]
fn sessions_of_one_call_are_side_by_side_and_strangers_to_each_other() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let of = |session, hosts, words: &[&str]| lab.members(hosts, words).session(SessionId(session));
    // Each finishes only when the other is up: one after the other would never come to an end.
    let here = |own: &str, other: &str| {
        let (own, other) = (lab.path(own), lab.path(other));
        [format!("touch:{own}"), format!("await:{other}")]
    };
    let (one, two) = (here("one", "two"), here("two", "one"));
    let words = |pair: &[String; 2]| {
        ["join", &pair[0], &pair[1], "out:{rank} of {size}", "finish:30000"].map(str::to_owned)
    };
    let (one, two) = (words(&one), words(&two));
    let one: Vec<_> = one.iter().map(String::as_str).collect();
    let two: Vec<_> = two.iter().map(String::as_str).collect();
    let sessions = front
        .launch_all(&[of(7, "a:2", &one), of(3, "a,b", &two), of(7, "c", &one)], &LaunchOptions::local())
        .unwrap();
    assert_eq!(sessions.iter().map(|s| (s.id().0, s.size())).collect::<Vec<_>>(), [(7, 3), (3, 2)]);
    let mut said = Vec::new();
    let mut done = 0;
    while done < 2 {
        match front.next_event(TIMEOUT).expect("they end") {
            Event::Output { session, bytes, .. } => {
                said.push((session.0, String::from_utf8(bytes).unwrap()));
            }
            Event::Done { .. } => done += 1,
            _ => {}
        }
    }
    said.sort();
    let expected = [(3, "0 of 2"), (3, "1 of 2"), (7, "0 of 3"), (7, "1 of 3"), (7, "2 of 3")];
    assert_eq!(said, expected.map(|(session, text)| (session, format!("{text}\n"))));
}

#[test]
fn front_ends_in_one_process_do_not_disturb_each_other() {
    let (lab, other_lab) = (Lab::new(), Lab::new());
    let (front, other) = (FrontEnd::new().unwrap(), FrontEnd::new().unwrap());
    let doomed = launch(&front, lab.members("a:2,b", &["join", "wait"]));
    std::thread::scope(|scope| {
        let at_once = scope.spawn(|| {
            let gate = format!("await:{}", other_lab.path("go"));
            let session =
                launch(&other, other_lab.members("a,b:2", &["join", &gate, "finish:30000", "exit:4"]));
            assert_eq!(session.stage(), Stage::Up);
            session
        });
        let survivor = at_once.join().unwrap();
        drop((doomed, front));
        lab.is_empty_within(SOON);
        assert_eq!(other_lab.programs(), 3);
        other_lab.touch("go");
        survivor.wait_done(TIMEOUT).unwrap();
    });
    let heard = Heard::all(&other);
    assert_eq!(heard.exits.into_values().collect::<Vec<_>>(), [Exit::Code(4); 3]);
}

#[test]
fn a_descriptor_is_readable_while_an_event_waits_and_not_after_it_was_taken() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let readable = |timeout: PollTimeout| {
        poll(&mut [PollFd::new(front.descriptor().as_fd(), PollFlags::POLLIN)], timeout).unwrap() == 1
    };
    assert!(!readable(PollTimeout::ZERO), "nothing has happened");
    let gate = format!("await:{}", lab.path("go"));
    let session = launch(&front, lab.members("a", &["join", &gate, "finish:30000"]));
    assert!(readable(PollTimeout::ZERO), "it is up");
    assert!(matches!(front.next_event(ms(0)), Some(Event::Up { .. })));
    assert!(!readable(PollTimeout::ZERO) && front.next_event(ms(0)).is_none());
    lab.touch("go");
    assert!(readable(PollTimeout::from(30_000u16)), "it has ended");
    session.wait_done(TIMEOUT).unwrap();
    let heard = Heard::all(&front);
    assert_eq!(heard.exits[&0], Exit::Code(0));
    assert!(!readable(PollTimeout::ZERO));
}

#[test]
fn a_front_end_without_a_thread_makes_progress_in_the_callers_loop() {
    let lab = Lab::new();
    let front = FrontEnd::with(Progress::Manual).unwrap();
    let mut sessions =
        front.start_all(&[lab.members("a[1-4]:2", &SAY_AND_FINISH)], &LaunchOptions::local()).unwrap();
    let session = sessions.remove(0);
    let mut heard = Heard::default();
    let deadline = std::time::Instant::now() + TIMEOUT;
    while !heard.done {
        assert!(std::time::Instant::now() < deadline, "{heard:?}");
        let timeout = front.next_timeout().unwrap_or(TIMEOUT).min(TIMEOUT);
        let timeout = PollTimeout::from(timeout.as_millis() as u16 + 1);
        poll(&mut [PollFd::new(front.descriptor().as_fd(), PollFlags::POLLIN)], timeout).unwrap();
        front.dispatch().unwrap();
        while let Some(event) = front.next_event(ms(0)) {
            heard.note(event);
        }
    }
    assert!((0..8).all(|rank| heard.out(rank).starts_with(&format!("{rank} of 8"))));
    assert_eq!(heard.exits.len(), 8);
    assert!(session.wait_up(ms(0)).is_ok());
    drop((session, front));
    lab.is_empty_within(SOON);
}

#[test]
fn a_loop_that_waits_for_the_descriptor_alone_hears_of_the_end_of_every_operation() {
    for progress in [Progress::Thread, Progress::Manual] {
        let (lab, front) = (Lab::new(), FrontEnd::with(progress).unwrap());
        let echoes = ["join", "talk:front", "talk:front", "finish:30000"];
        let sessions: Vec<Session> = (0..3).map(|_| launch(&front, lab.members("a:2", &echoes))).collect();
        while front.next_event(ms(0)).is_some() {}
        for round in 0..4_u8 {
            let mut sent: Vec<_> = sessions.iter().map(|session| Some(session.send(vec![round]))).collect();
            let mut received: Vec<_> = sessions.iter().map(|session| Some(session.recv())).collect();
            while sent.iter().any(Option::is_some) || received.iter().any(Option::is_some) {
                let timeout = front.next_timeout().unwrap_or(TIMEOUT).min(TIMEOUT);
                let timeout = PollTimeout::from(timeout.as_millis() as u16 + 1);
                let mut ready = [PollFd::new(front.descriptor(), PollFlags::POLLIN)];
                let woken = poll(&mut ready, timeout).unwrap() == 1;
                assert!(woken || progress == Progress::Manual, "the descriptor is readable");
                front.dispatch().unwrap();
                while front.next_event(ms(0)).is_some() {}
                // Polling one operation may complete another, so they are polled in the opposite
                // order.
                for pending in sent.iter_mut().rev() {
                    let over = pending.as_mut().and_then(libi::Pending::poll);
                    over.into_iter().for_each(|result| {
                        result.unwrap();
                        *pending = None;
                    });
                }
                for pending in received.iter_mut().rev() {
                    let over = pending.as_mut().and_then(libi::Pending::poll);
                    over.into_iter().for_each(|result| {
                        assert_eq!(result.unwrap()[..], [round]);
                        *pending = None;
                    });
                }
            }
        }
        sessions.iter().for_each(|session| session.wait_done(TIMEOUT).unwrap());
    }
}

#[test]
fn calls_of_a_front_end_without_a_thread_make_progress_while_they_wait() {
    let lab = Lab::new();
    let front = FrontEnd::with(Progress::Manual).unwrap();
    let session = launch(&front, lab.members("a[1-4]:2", &["join", "wait"]));
    assert_eq!(lab.programs(), 8);
    session.terminate(ms(20_000)).unwrap();
    assert_eq!(session.stage(), Stage::Over);
    lab.is_empty_within(ms(0));
}

#[test]
fn members_without_a_thread_carry_others_while_they_turn_their_own_loop() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words = ["manual", "out:{rank} on {host}", "turn"];
    let session = launch(&front, lab.members("a[1-5]:2", &words));
    let mut heard = Heard::default();
    heard.until(&front, "all have printed", |heard| heard.texts.len() == 10);
    session.kill(libc::SIGTERM).unwrap();
    heard.until(&front, "all have ended", |heard| heard.done);
    assert!(heard.exits.values().all(|exit| *exit == Exit::Signal(libc::SIGTERM)), "{heard:?}");
    lab.is_empty_within(SOON);
}

#[test]
fn members_without_a_thread_make_progress_in_calls_that_wait() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let _session =
        launch(&front, lab.members("a[1-5]:2", &["manual", "out:{rank}", "finish:30000", "exit:5"]));
    let heard = Heard::all(&front);
    for rank in 0..10 {
        assert_eq!((heard.out(rank), heard.exits.get(&rank)), (format!("{rank}\n"), Some(&Exit::Code(5))));
    }
}
