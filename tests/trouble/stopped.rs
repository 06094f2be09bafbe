//! A stopped member delays the calls that it takes part in, and nothing else.

use libi::{Exit, FrontEnd, LaunchOptions, Session, Stream};

use libi_testkit::local::*;

/// Hosts whose leaders have no hosts below them, apart from the master.
const HOSTS: &str = "a:3,b,c:2";
const SIZE: u32 = 6;
/// A member of the master's host, a leader, a member of another host.
const STOPPED: [u32; 3] = [1, 3, 5];

/// A session with a stopped member in which the others have gone as far as they can.
struct StoppedSession {
    lab: Lab,
    front: FrontEnd,
    session: Session,
    pid: i32,
}

fn stopped(rank: u32) -> StoppedSession {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words = [
        "join",
        &format!("catch:10:{}", lab.path("caught-{rank}")),
        &format!("touch:{}", lab.path("at-{rank}-{pid}")),
        &format!("await:{}", lab.path("go")),
        &format!("only:{rank}:touch:{}", lab.path("it-goes-on")),
        &format!("talk:beside:{rank}:{}", lab.path("")),
        "talk:barrier",
        "finish:30000",
    ];
    let options = LaunchOptions::local().strategy("flat".parse().unwrap());
    let session = launch_with(&front, &[lab.members(HOSTS, &words)], &options);
    let mut pid = None;
    eventually("all are there", || {
        let names = lab.names();
        pid = names.iter().find_map(|name| name.strip_prefix(&format!("at-{rank}-"))?.parse().ok());
        names.iter().filter(|name| name.starts_with("at-")).count() == SIZE as usize
    });
    let pid = pid.unwrap();
    kill(pid, libc::SIGSTOP);
    eventually("it has stopped", || status(pid, "State").is_some_and(|state| state.starts_with('T')));
    lab.touch("go");
    eventually("the others have talked", || {
        (0..SIZE).filter(|other| *other != rank).all(|other| lab.has(&format!("talked-{other}")))
    });
    assert!(!lab.has("it-goes-on"));
    StoppedSession { lab, front, session, pid }
}

#[test]
fn a_stopped_member_delays_no_others_and_continues_later() {
    for rank in STOPPED {
        let stopped_session = stopped(rank);
        stopped_session.session.kill(10).unwrap();
        eventually("the others have got the signal", || {
            (0..SIZE)
                .filter(|other| *other != rank)
                .all(|other| stopped_session.lab.has(&format!("caught-{other}")))
        });
        assert!(!stopped_session.lab.has(&format!("caught-{rank}")));
        kill(stopped_session.pid, libc::SIGCONT);
        let heard = Heard::all(&stopped_session.front);
        for rank in 0..SIZE {
            let said = heard.text(rank, Stream::Err);
            assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "rank {rank}: {said}");
        }
        assert!(stopped_session.lab.has(&format!("caught-{rank}")));
        drop(stopped_session.session);
        stopped_session.lab.is_empty_within(SOON);
    }
}

#[test]
fn a_session_with_a_stopped_member_can_be_ended() {
    for rank in STOPPED {
        let stopped_session = stopped(rank);
        stopped_session.session.terminate(ms(500)).unwrap();
        stopped_session.lab.is_empty_within(SOON);
    }
}
