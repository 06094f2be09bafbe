//! How programs end, as their hosts say it: rsh itself would always say 0.

use std::time::{Duration, Instant};

use libi::{Cause, Error, Exit, FrontEnd, LinkPolicy, ShellError};
use libi_core::plan::Strategy;

use crate::options;
use libi_testkit::labs::{Marked, Rshd, within};
use libi_testkit::local::{Heard, launch_with};

/// What leaders do, and how they end by it.
const ENDS: &[(&[&str], Exit)] = &[
    (&["exit:0"], Exit::Code(0)),
    (&["exit:3"], Exit::Code(3)),
    (&["exit:127"], Exit::Code(127)),
    (&["exit:255"], Exit::Code(255)),
    (&["signal:9"], Exit::Signal(9)),
    (&["signal:15"], Exit::Signal(15)),
    (&["abort"], Exit::Signal(6)),
    // A shell would say the same of the signal; the process that leads the host knows better.
    (&["exit:143"], Exit::Code(143)),
];

#[test]
fn leaders_end_as_their_hosts_say_whether_their_links_are_channels_or_direct() {
    let Some(lab) = Rshd::up() else { return };
    for links in [LinkPolicy::Channel, LinkPolicy::Auto] {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let mut distributions = vec![mark.program(&lab.member(), "127.0.1.1", &["join", "finish:60000"])];
        for (host, (words, _)) in (2..).zip(ENDS) {
            let words = [&["join"], *words].concat();
            distributions.push(mark.program(&lab.member(), &format!("127.0.1.{host}"), &words));
        }
        let strategy: Strategy = "flat".parse().unwrap();
        let options = options(lab.backend("main")).links(links).strategy(strategy);
        let session = launch_with(&front, &distributions, &options);
        let heard = Heard::all(&front);
        assert_eq!(heard.exits[&0], Exit::Code(0));
        for (rank, (words, exit)) in (1..).zip(ENDS) {
            assert_eq!(heard.exits[&rank], *exit, "{words:?}, {links:?}");
        }
        for text in heard.texts.values() {
            assert!(!String::from_utf8_lossy(text).contains("libi ended"), "{}", heard.described());
        }
        drop((session, front));
        mark.nothing_is_left();
        lab.nothing_is_left();
    }
}

#[test]
fn a_program_that_leaves_something_behind_which_holds_the_connection_has_ended_all_the_same() {
    let Some(lab) = Rshd::up() else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let members = mark.program("/bin/sh", "127.0.1.1", &["-c", "sleep 300 & echo its words; exit 3"]);
    let began = Instant::now();
    let options = options(lab.backend("main"));
    let Err(Error::NotLaunched(report)) = front.launch_all(&[members], &options) else { panic!("it joins") };
    let failure = report.hosts()[0].failure.as_ref().unwrap();
    assert_eq!(
        (&failure.cause, failure.tail.as_str()),
        (&Cause::Exited(Exit::Code(3)), "its words\n"),
        "{report}"
    );
    assert_eq!(failure.shell_error(), None);
    // It is waited for for a second, not as long as what holds it.
    assert!(began.elapsed() < Duration::from_secs(30), "{report}");
    mark.processes().iter().for_each(libi_testkit::labs::Process::kill);
    drop(front);
    mark.nothing_is_left();
}

#[test]
fn a_connection_that_is_cut_is_told_from_a_program_that_ends() {
    let Some(lab) = Rshd::up() else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let members = mark.program(&lab.member(), "127.0.1.[1-2]:2", &["join", "wait"]);
    let session = launch_with(&front, &[members], &options(lab.backend("main")));
    // The rsh that the master's host has called the other with; it runs as the user who is there.
    let is_called = |pid: &i32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        command.starts_with("rsh\0") && command.contains("\x00127.0.1.2\0")
    };
    let pids: Vec<i32> = libi_testkit::processes::all().filter(is_called).collect();
    assert_eq!(pids.len(), 1, "{pids:?}");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pids[0]), nix::sys::signal::Signal::SIGKILL).unwrap();
    let mut lost = None;
    within(crate::TIMEOUT, "the loss is reported", || {
        while let Some(event) = front.next_event(Duration::from_millis(10)) {
            if let libi::Event::Lost { name, ranks, failure, .. } = event {
                lost = Some((name, ranks.to_string(), failure));
            }
        }
        lost.is_some()
    });
    let (name, ranks, failure) = lost.unwrap();
    assert_eq!((name.as_str(), ranks.as_str()), ("127.0.1.2", "ranks 2-3"));
    assert_eq!(failure.exit, Some(Exit::Shell(128 + 9)));
    assert_eq!(failure.shell_error(), Some(ShellError::ConnectionLost), "{failure:?}");
    session.terminate(Duration::from_secs(5)).unwrap();
    drop((session, front));
    mark.nothing_is_left();
    lab.nothing_is_left();
}
