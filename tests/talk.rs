//! Real processes on this machine that communicate with each other and with their front end: every
//! operation, checked by every member, and what is reported when a member is late, calls something
//! else, or is killed.
//!
//! `member/talk.rs` has what members do and check. A member that finds a wrong result prints it and
//! exits with a status other than 0.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use libi::Engine::{Apart, InProgram};
use libi::{
    Bytes, CommError, Engine, Exit, FrontEnd, HostList, LaunchOptions, OnLoss, Progress, Rank, Ranks,
    Session, Stream,
};

use libi_testkit::local::*;

/// Host lists of 1, 2, 5, 16 and 33 members: on one host, on many, and on many with several each.
const SHAPES: [&str; 10] =
    ["a", "a:2", "a,b", "a:5", "a:2,b,c:2", "a:16", "n[1-16]", "n[1-4]:4", "n[1-3]:11", "a:3,n[1-15]:2"];

fn size(hosts: &str) -> u32 {
    HostList::parse(hosts).unwrap().iter().map(|host| host.count).sum()
}

/// Launches members that do this. Returns what the front end has seen when all have ended.
fn play(engine: Engine, hosts: &str, words: &[&str], front_end: impl FnOnce(&Session)) -> Heard {
    play_with(&LaunchOptions::local().engine(engine), hosts, words, front_end)
}

fn play_with(
    options: &LaunchOptions,
    hosts: &str,
    words: &[&str],
    front_end: impl FnOnce(&Session),
) -> Heard {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch_with(&front, &[lab.members(hosts, words)], options);
    front_end(&session);
    let heard = Heard::all(&front);
    drop(session);
    lab.is_empty_within(SOON);
    heard
}

/// All members end well, except the named ones.
fn all_is_well(hosts: &str, heard: &Heard, but: &[(u32, Exit)]) {
    let should = |rank| but.iter().find(|but| but.0 == rank).map_or(Exit::Code(0), |but| but.1);
    for rank in 0..size(hosts) {
        let text = heard.text(rank, Stream::Err);
        assert_eq!(heard.exits.get(&rank), Some(&should(rank)), "rank {rank} on {hosts}: {text}");
    }
}

fn all_do(engine: Engine, hosts: &str, joins: &str, talk: &[String]) {
    let words = talk.iter().map(|word| format!("talk:{word}"));
    let words: Vec<_> =
        [joins.to_owned()].into_iter().chain(words).chain(["finish:30000".to_owned()]).collect();
    let words: Vec<_> = words.iter().map(String::as_str).collect();
    all_is_well(hosts, &play(engine, hosts, &words, |_| ()), &[]);
}

/// Every operation, with the first, the last and a middle root, and with no, little and much data.
fn operations(size: u32) -> Vec<String> {
    let mut all = vec!["barrier".to_owned(), "ring".to_owned()];
    for length in [0, 1, 1000, 300_000 / size] {
        for root in [0, size / 2, size - 1] {
            let rooted = ["broadcast", "gather", "scatter", "reduce"];
            all.extend(rooted.map(|operation| format!("{operation}:{root}:{length}")));
        }
        all.extend(["allgather", "alltoall", "allreduce", "pairs"].map(|what| format!("{what}:{length}")));
    }
    all.extend(["keys", "flight:20", "barrier"].map(str::to_owned));
    all
}

#[test]
fn every_operation_gives_every_member_the_right_result() {
    for hosts in SHAPES {
        all_do(InProgram, hosts, "join", &operations(size(hosts)));
    }
}

#[test]
fn every_operation_gives_the_right_result_where_no_member_leads_its_host() {
    for hosts in ["a", "a:2,b,c:2", "n[1-4]:4"] {
        all_do(Apart, hosts, "join", &operations(size(hosts)));
    }
}

#[test]
fn every_operation_gives_the_right_result_with_manual_progress() {
    for hosts in ["a", "a:2,b,c:2", "n[1-4]:4"] {
        all_do(InProgram, hosts, "manual", &operations(size(hosts)));
    }
}

#[test]
fn threads_of_a_member_make_calls_concurrently() {
    for (hosts, joins) in [("a:2,b,c:2", "join"), ("a:2,b:2", "manual")] {
        all_do(InProgram, hosts, joins, &["threads:4".to_owned(), "barrier".to_owned()]);
    }
}

#[test]
fn members_that_make_different_calls_all_get_the_error_and_can_continue() {
    for hosts in ["a:2", "a:2,b,c:2", "n[1-4]:4"] {
        for other in [0, size(hosts) / 2, size(hosts) - 1] {
            all_do(InProgram, hosts, "join", &[format!("mismatch:{other}"), "allgather:10".to_owned()]);
        }
    }
}

#[test]
fn a_strict_call_that_differs_fails_at_all_members() {
    let options = LaunchOptions::local().engine(InProgram).strict_calls(true);
    for hosts in ["a:2", "a:2,b,c:2", "n[1-4]:4"] {
        for other in [0, size(hosts) / 2, size(hosts) - 1] {
            let mismatch = format!("talk:strict-mismatch:{other}");
            let words = ["join", mismatch.as_str(), "talk:allgather:10", "finish:30000"];
            all_is_well(hosts, &play_with(&options, hosts, &words, |_| ()), &[]);
        }
    }
}

#[test]
fn a_cancelled_call_fails_for_all_members_and_the_next_succeeds() {
    for hosts in ["a:2", "a:2,b,c:2", "n[1-4]:4"] {
        let last = size(hosts) - 1;
        for (first, late) in [(0, last), (last, 0), (last, last - 1)] {
            if first != late {
                all_do(
                    InProgram,
                    hosts,
                    "join",
                    &[format!("impatient:{first}:{late}"), "allgather:10".to_owned()],
                );
            }
        }
    }
}

#[test]
fn a_member_killed_in_a_barrier_is_named_to_the_others_which_continue() {
    for hosts in ["a:2", "a:2,b,c:2", "n[1-4]:4"] {
        let victim = size(hosts) - 1;
        let word = format!("talk:killed:{victim}");
        // A member can be lost before it is needed.
        let heard = play(InProgram, hosts, &["join", &word, "finish:30000"], |_| ());
        all_is_well(hosts, &heard, &[(victim, Exit::Signal(libc::SIGKILL))]);
    }
}

#[test]
fn calls_go_on_without_members_that_are_killed_and_all_others_agree() {
    let options = LaunchOptions::local().on_loss(OnLoss::Continue);
    for (seed, (hosts, victims)) in (1..).zip([
        ("a:4", &[3][..]),
        ("a:2,b,c:2", &[1, 4]),
        ("a:2,b:2", &[0, 2]),
        ("n[1-4]:4", &[0, 5, 6, 7, 11, 15]),
    ]) {
        let all: Vec<_> = victims.iter().map(u32::to_string).collect();
        let word = format!("talk:survive:60:{seed}:{}", all.join("+"));
        let heard =
            play_with(&options.clone().engine(Apart), hosts, &["join", &word, "finish:30000"], |_| ());
        let killed: Vec<_> = victims.iter().map(|rank| (*rank, Exit::Signal(libc::SIGKILL))).collect();
        all_is_well(hosts, &heard, &killed);
        let left: Vec<_> = (0..size(hosts)).filter(|rank| !victims.contains(rank)).collect();
        let first = heard.text(left[0], Stream::Out);
        let last = first.lines().rfind(|line| line.contains("without")).unwrap_or_default();
        let all: Ranks = victims.iter().copied().map(Rank).collect();
        assert!(last.ends_with(&format!("without {all}")) && first.lines().count() > 30, "{first}");
        let survivors: Ranks = left.iter().copied().map(Rank).collect();
        assert!(first.ends_with(&format!("\nleft: {survivors}\n")), "{first}");
        for rank in left {
            assert_eq!(heard.text(rank, Stream::Out), first, "rank {rank} on {hosts}");
        }
    }
}

#[test]
fn the_front_end_hears_which_members_are_missing_in_a_gather() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = LaunchOptions::local().engine(Apart).on_loss(OnLoss::Continue);
    let members = lab.members("a:2,b:2", &["join", "only:2:signal:9", "talk:everyone", "finish:30000"]);
    let session = launch_with(&front, &[members], &options);
    for text in ["one", "two"] {
        session.broadcast(text).wait(TIMEOUT).unwrap();
    }
    for text in ["one", "two"] {
        let (parts, missing) = session.gather().wait_with_missing(TIMEOUT).unwrap();
        let part = |rank| if rank == 2 { Bytes::new() } else { format!("{text} {rank}").into() };
        assert_eq!((parts, missing), ((0..4).map(part).collect(), [Rank(2)].into_iter().collect()));
    }
    all_is_well("a:2,b:2", &Heard::all(&front), &[(2, Exit::Signal(libc::SIGKILL))]);
}

#[test]
fn the_master_and_the_front_end_talk_in_the_order_in_which_they_send() {
    for (engine, hosts) in
        [InProgram, Apart].into_iter().flat_map(|engine| ["a", "a:2,b,c:2"].map(|hosts| (engine, hosts)))
    {
        let heard = play(engine, hosts, &["join", "talk:front", "talk:barrier", "finish:30000"], |session| {
            let messages = [Bytes::from_static(b"first"), vec![7; 500_000].into()];
            let sent = messages.clone().map(|message| session.send(message));
            let [first, second] = [session.recv(), session.recv()];
            assert_eq!([second.wait(TIMEOUT), first.wait(TIMEOUT)].map(Result::unwrap), {
                let [first, second] = messages;
                [second, first]
            });
            sent.into_iter().for_each(|sent| sent.wait(TIMEOUT).unwrap());
        });
        all_is_well(hosts, &heard, &[]);
    }
}

#[test]
fn messages_sent_before_the_session_is_up_arrive_when_it_is() {
    for progress in [Progress::Thread, Progress::Manual] {
        let (lab, front) = (Lab::new(), FrontEnd::with(progress).unwrap());
        let members = lab.members("a:2,b", &["join", "talk:front", "finish:30000"]);
        let session = front.start(&members, &LaunchOptions::local()).unwrap();
        let (one, two) = (session.send("one"), session.send("two"));
        let mut answer = session.recv();
        assert_eq!(answer.wait_for(TIMEOUT), Some(Ok("one".into())));
        assert_eq!(answer.poll(), None);
        assert_eq!(session.recv().wait(TIMEOUT), Ok("two".into()));
        assert_eq!((one.wait(TIMEOUT), two.wait(TIMEOUT)), (Ok(()), Ok(())));
        all_is_well("a:2,b", &Heard::all(&front), &[]);
    }
}

#[test]
fn the_front_end_reaches_all_members_and_hears_of_all() {
    for progress in [Progress::Thread, Progress::Manual] {
        let (lab, front) = (Lab::new(), FrontEnd::with(progress).unwrap());
        let session = launch(&front, lab.members("a:3,b[1-2]:2", &["join", "talk:everyone", "finish:30000"]));
        let of = |text: &str| (0..7).map(|rank| Bytes::from(format!("{text} {rank}"))).collect::<Vec<_>>();
        let gathered = session.gather();
        session.broadcast("one").wait(TIMEOUT).unwrap();
        session.broadcast("two").wait(TIMEOUT).unwrap();
        assert_eq!(gathered.wait(TIMEOUT), Ok(of("one")));
        let second = session.gather().wait(TIMEOUT);
        assert_eq!(second, Ok(of("two")), "{}", Heard::all(&front).described());
        all_is_well("a:3,b[1-2]:2", &Heard::all(&front), &[]);
    }
}

#[test]
fn calls_of_a_session_that_does_not_come_up_end_with_it() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let members = lab.program("/no/such/program", "a", &[]);
    let session = front.start(&members, &LaunchOptions::local()).unwrap();
    let answer = session.recv();
    assert_eq!(answer.wait(TIMEOUT), Err(CommError::Ended));
    assert_eq!(session.send("too late").wait(TIMEOUT), Err(CommError::Ended));
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn a_call_of_a_dropped_session_ends_with_it() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch(&front, lab.members("a:2", &["join", "wait"]));
    let answer = session.recv();
    drop(session);
    assert_eq!(answer.wait(TIMEOUT), Err(CommError::Ended));
    lab.is_empty_within(SOON);
}

#[test]
fn a_receive_that_times_out_leaves_later_messages_to_the_next() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = launch(&front, lab.members("a:2", &["join", "talk:front", "finish:30000"]));
    let error = session.recv().wait(ms(20));
    assert_eq!(error, Err(CommError::TimedOut { what: "receiving from the master" }));
    let (one, two) = (session.send("one"), session.send("two"));
    assert_eq!(session.recv().wait(TIMEOUT), Ok("one".into()));
    assert_eq!(session.recv().wait(TIMEOUT), Ok("two".into()));
    assert_eq!((one.wait(TIMEOUT), two.wait(TIMEOUT)), (Ok(()), Ok(())));
    all_is_well("a:2", &Heard::all(&front), &[]);
}
