//! What a front end logs, as an embedding program's logger gets it. The logger belongs to the whole
//! process, so this test has a process of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Mutex;

use libi::{Event, FrontEnd, LaunchOptions, Policy};
use log::{Level, LevelFilter, Log, Metadata, Record};

use libi_testkit::local::{Lab, TIMEOUT};

struct Capture(Mutex<Vec<(Level, String, String)>>);

static LOGGED: Capture = Capture(Mutex::new(Vec::new()));

impl Log for Capture {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("libi::")
    }

    fn log(&self, record: &Record<'_>) {
        let line = (record.level(), record.target().to_owned(), record.args().to_string());
        self.0.lock().unwrap().push(line);
    }

    fn flush(&self) {}
}

#[test]
fn a_logger_gets_each_state_of_each_host_and_the_outcome_but_no_data() {
    log::set_logger(&LOGGED).unwrap();
    log::set_max_level(LevelFilter::Debug);
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let fine = lab.members("a:2,b", &["join", "out:secret", "finish:30000"]);
    let missing = lab.program("/no/such/program", "c", &[]);
    let options = LaunchOptions::local().policy(Policy::AtLeast(2));
    let session = front.launch_all(&[fine, missing], &options).unwrap().remove(0);
    while !matches!(front.next_event(TIMEOUT).unwrap(), Event::Done { .. }) {}
    drop((session, front));

    let logged = std::mem::take(&mut *LOGGED.0.lock().unwrap());
    let all = format!("{logged:#?}");
    let has = |level, target: &str, start: &str| {
        logged.iter().any(|line| (line.0, &*line.1) == (level, target) && line.2.starts_with(start))
    };
    for host in ["a", "b"] {
        assert!(
            has(Level::Debug, "libi::launch", &format!("session 0: {host}: joined (attempt 1, by ")),
            "{all}"
        );
    }
    assert!(
        has(Level::Debug, "libi::launch", "session 0: a: launch started (attempt 1, by the front end"),
        "{all}"
    );
    assert!(has(Level::Debug, "libi::launch", "session 0: c: failed: cannot be started: "), "{all}");
    assert!(has(Level::Info, "libi::launch", "session 0: 2 of 3 hosts joined; up after "), "{all}");
    assert!(has(Level::Debug, "libi::session", "session 0: rank 2 on b exited 0"), "{all}");
    assert!(
        has(Level::Info, "libi::session", "session 0 is done: 3 members ended, 0 detached, 0 lost"),
        "{all}"
    );
    assert!(!all.contains("secret"), "{all}");

    log::set_max_level(LevelFilter::Warn);
    let front = FrontEnd::new().unwrap();
    let session =
        front.launch(&lab.members("a", &["join", "finish:30000"]), &LaunchOptions::local()).unwrap();
    session.wait_done(TIMEOUT).unwrap();
    assert_eq!(*LOGGED.0.lock().unwrap(), []);
}
