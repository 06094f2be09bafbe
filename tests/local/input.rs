//! Standard input that goes to all programs: each gets all of it, whatever becomes of others.

use libi::{Agent, Error, Exit, FrontEnd, LaunchOptions, OsBytes, Programs, Session, StandardInput};
use libi_testkit::local::{Heard, Lab, SOON, TIMEOUT, kill, launch_with, ms};
use libi_testkit::{processes, programs};

/// Hosts in a tree of several levels, two programs on each.
const HOSTS: &str = "n[0-11]:2";
const SIZE: u32 = 24;
/// Many windows.
const LENGTH: usize = 3_000_000;
/// More than a window, and all that pipes hold.
const MORE_THAN_PIPES_HOLD: usize = 400_000;

fn options() -> LaunchOptions {
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let options = LaunchOptions::local().agent(agent).programs(Programs::Any);
    options.strategy("kary:2".parse().unwrap()).input(StandardInput::All)
}

/// A session of which each rank runs this.
fn session(lab: &Lab, front: &FrontEnd, script: &str) -> Session {
    launch_with(front, &[lab.program("/bin/sh", HOSTS, &["-c", script])], &options())
}

fn text() -> Vec<u8> {
    (0..LENGTH).map(|place| (place % 251) as u8).collect()
}

/// Sends the text, whose checksum all ranks but these print.
fn all_get_it(front: &FrontEnd, session: &Session, lab: &Lab, but: impl Fn(u32) -> bool) -> Heard {
    let file = lab.path("text");
    std::fs::write(&file, text()).unwrap();
    let expected = std::process::Command::new("cksum").stdin(std::fs::File::open(file).unwrap()).output();
    let expected = String::from_utf8(expected.unwrap().stdout).unwrap();
    session.write(&text(), TIMEOUT).unwrap();
    session.close_input();
    let heard = Heard::all(front);
    for rank in (0..SIZE).filter(|rank| !but(*rank)) {
        assert_eq!(heard.out(rank), expected, "rank {rank}: {}", heard.described());
        assert_eq!(heard.exits[&rank], Exit::Code(0));
    }
    heard
}

#[test]
fn all_programs_get_all_of_it() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let session = session(&lab, &front, "exec cksum");
    all_get_it(&front, &session, &lab, |_| false);
}

#[test]
fn programs_that_read_nothing_hold_up_no_others() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let script = "case $LIBI_RANK in 0|7|23) exit 3;; 8) exec sleep 1000 <&-;; *) exec cksum;; esac";
    let session = session(&lab, &front, script);
    session.write(&text(), TIMEOUT).unwrap();
    session.close_input();
    let mut heard = Heard::default();
    let readers = (SIZE - 4) as usize;
    heard.until(&front, "all others have read it", |heard| heard.texts.len() == readers);
    heard.until(&front, "all others have ended", |heard| heard.exits.len() == SIZE as usize - 1);
    assert_eq!((heard.exits[&0], heard.exits[&23]), (Exit::Code(3), Exit::Code(3)));
    session.kill(libc::SIGKILL).unwrap();
    drop(session);
    lab.is_empty_within(SOON);
}

#[test]
fn programs_that_cannot_be_started_hold_up_no_others() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    // Only the process that is to execute it finds out that it cannot.
    lab.write("broken", "not a program");
    std::fs::set_permissions(lab.path("broken"), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    std::fs::write(lab.path("broken"), [0x7f, b'E', b'L', b'F', 0, 0]).unwrap();
    let program = |hosts, program: &str| lab.program(program, hosts, &[]);
    let all = [
        program("n0:2", "/usr/bin/cksum"),
        program("n[0-2]", &lab.path("broken")),
        program("n2", "/usr/bin/cksum"),
    ];
    let session = launch_with(&front, &all, &options());
    session.write(&text(), TIMEOUT).unwrap();
    session.close_input();
    let heard = Heard::all(&front);
    assert!(
        heard.exits.values().filter(|exit| **exit == Exit::Code(0)).count() == 3,
        "{}",
        heard.described()
    );
    assert_eq!((heard.out(0), heard.out(1)), (heard.out(5), heard.out(5)), "{}", heard.described());
    assert!(heard.out(0).contains(&LENGTH.to_string()), "{}", heard.described());
}

#[test]
fn a_program_that_does_not_read_stops_the_writer_until_it_does() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let go = lab.path("go");
    let wait = format!("until [ -e {go} ]; do sleep 0.01; done; exec cksum");
    let session = session(&lab, &front, &format!("if [ $LIBI_RANK = 13 ]; then {wait}; fi; exec cksum"));
    let mut sent = 0;
    let refused = loop {
        match session.write(&[0; 1000], ms(300)) {
            Ok(()) => sent += 1000,
            Err(error) => break error,
        }
        assert!(sent < MORE_THAN_PIPES_HOLD, "nothing limits what waits for one program");
    };
    assert!(matches!(refused, Error::TimedOut(_)), "{refused}");
    lab.touch("go");
    session.write(&[0; MORE_THAN_PIPES_HOLD], TIMEOUT).unwrap();
    session.close_input();
    let heard = Heard::all(&front);
    assert!((0..SIZE).all(|rank| heard.out(rank) == heard.out(0) && heard.exits[&rank] == Exit::Code(0)));
}

#[test]
fn a_host_that_is_lost_holds_up_no_others() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let pids = lab.path("pid");
    // The programs of the last host do not read, and the writer waits for them until that is lost.
    let script =
        format!("if [ $LIBI_HOST = n11 ]; then echo $PPID > {pids}; exec sleep 1000; fi; exec cksum");
    let session = session(&lab, &front, &script);
    let parts = text();
    let (first, rest) = parts.split_at(50_000);
    session.write(first, TIMEOUT).unwrap();
    let agent = || std::fs::read_to_string(&pids).ok()?.trim().parse().ok();
    let mut found = None;
    libi_testkit::local::eventually("the agent is known", || {
        found = agent();
        found.is_some()
    });
    let agent: i32 = found.unwrap();
    assert!(processes::with_ancestors(agent).len() > 1);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| session.write(rest, TIMEOUT));
        kill(agent, libc::SIGKILL);
        writer.join().unwrap().unwrap();
    });
    session.close_input();
    let heard = Heard::all(&front);
    assert_eq!(heard.lost.len(), 1, "{}", heard.described());
    for rank in 0..SIZE - 2 {
        assert_eq!((heard.out(rank), heard.exits[&rank]), (heard.out(0), Exit::Code(0)), "rank {rank}");
    }
    assert!(heard.out(0).contains(&LENGTH.to_string()));
}

#[test]
fn without_agents_it_is_refused() {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = LaunchOptions::local().input(StandardInput::All);
    let refused = front.start_all(&[lab.members("a", &["join"])], &options).map(|_| ());
    assert!(matches!(refused, Err(Error::NoAgent)), "{refused:?}");
}
