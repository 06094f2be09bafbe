//! Many hosts by one start: ClusterShell's clush starts the leaders through real ssh.

use libi::{Cause, Exit, FrontEnd, LaunchOptions, OsBytes, Policy, Starter, Stream};

use crate::options;
use libi_testkit::labs::{Marked, Sshd};
use libi_testkit::local::{Heard, launch_with};

/// The options of a launch by clush, which uses the ssh of the laboratory.
fn by_clush(lab: &Sshd) -> LaunchOptions {
    let word = |text: &str| OsBytes::try_from(text).unwrap();
    let config = format!("-F {}", lab.path("main.config"));
    let args = ["-f", "64", "-o", &config].map(word).to_vec();
    options(Starter { args, ..Starter::clush(word("clush")) }.into())
}

#[test]
fn one_clush_brings_up_all_hosts_which_talk_and_end_with_their_own_status() {
    let Some(lab) = Sshd::up() else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let words = ["err:early", "join", "talk:barrier", "out:out {rank}", "finish:30000", "only:6:exit:3"];
    let members = mark.program(&lab.member(), "127.0.1.[1-16]:2", &words);
    let session = launch_with(&front, &[members], &by_clush(&lab));
    let heard = Heard::all(&front);
    for rank in 0..32 {
        assert_eq!(heard.texts[&(rank, Stream::Out)], format!("out {rank}\n").as_bytes());
        assert_eq!(heard.texts[&(rank, Stream::Err)], b"early\n");
    }
    assert_eq!((heard.exits[&6], heard.exits[&7]), (Exit::Code(3), Exit::Code(0)));
    drop((session, front));
    mark.nothing_is_left();
}

#[test]
fn a_program_that_is_missing_everywhere_is_named_for_each_host() {
    let Some(lab) = Sshd::up() else { return };
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let members = mark.program("/no/such/program", "127.0.1.[1-4]", &[]);
    let session = front.start(&members, &by_clush(&lab).policy(Policy::All)).unwrap();
    let report = match session.wait_up(crate::TIMEOUT) {
        Err(libi::Error::NotLaunched(report)) => report,
        other => panic!("{other:?}"),
    };
    let causes = report.hosts().iter().map(|host| host.failure.as_ref().unwrap().cause.clone());
    let own = causes.filter(|cause| *cause == Cause::Exited(Exit::Code(127))).count();
    assert!(own >= 1 && report.to_string().contains("/no/such/program"), "{report}");
    drop((session, front));
    mark.nothing_is_left();
}
