//! A stopped member delays the calls that it takes part in, and nothing else.

use libi::{Cause, Event, Exit, FrontEnd, LaunchOptions, Rules, Session, Stream};

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

#[test]
fn a_member_that_is_killed_for_its_silence_is_reported_with_that_reason() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let [at, go] = ["at-{rank}-{pid}", "go"].map(|name| lab.path(name));
    let words = ["join", &format!("touch:{at}"), &format!("await:{go}"), "finish:30000"];
    let rules = Rules { peer_timeout: ms(800), ..Rules::default() };
    let options = LaunchOptions::local().rules(rules);
    let session = launch_with(&front, &[lab.members("a:3", &words)], &options);
    let mut pid = None;
    eventually("it is there", || {
        pid = lab.names().iter().find_map(|name| name.strip_prefix("at-2-")?.parse().ok());
        pid.is_some()
    });
    kill(pid.unwrap(), libc::SIGSTOP);
    let ended = loop {
        let event = front.next_event(SOON).unwrap();
        if matches!(event, Event::Exited { .. } | Event::Lost { .. }) {
            break event;
        }
    };
    assert_eq!(ended.to_string(), "rank 2 on a was killed by signal 9, by its leader: heartbeat lost");
    assert!(matches!(&ended, Event::Exited { killed: Some(Cause::HeartbeatLost), .. }), "{ended:?}");
    session.terminate(ms(500)).unwrap();
    lab.is_empty_within(SOON);
}
