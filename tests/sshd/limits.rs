//! A server that takes few connections at a time, and users who may have few processes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use libi::{Exit, FrontEnd, Policy};

use crate::{drawn_clients, options};
use libi_testkit::labs::{Marked, Sshd};
use libi_testkit::local::Heard;
use libi_testkit::programs;

#[test]
fn a_server_that_lets_few_begin_at_a_time_slows_a_launch_of_64_hosts_down_and_no_more() {
    let Some(lab) = Sshd::up() else { return };
    lab.serve("few", &["MaxStartups 2:100:4"]);
    for client in drawn_clients() {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let members = mark.program(&lab.member(), "n[0-63]", &["join", "finish:60000"]);
        let options = options(lab.ssh("few", *client)).policy(Policy::AtLeast(1)).settle(Some(Duration::MAX));
        let session =
            front.launch_all(&[members], &options).unwrap_or_else(|error| panic!("{error}")).remove(0);
        let report = session.report().unwrap();
        let attempts: u32 = report.hosts().iter().map(|host| host.attempts).sum();
        let most = report.hosts().iter().map(|host| host.attempts).max();
        println!("{client}: {report}; {attempts} attempts, {most:?} at most");
        assert_eq!(report.joined(), 64, "{report}");
        let heard = Heard::all(&front);
        assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
        drop((session, front));
    }
    lab.stop("few");
}

#[test]
fn a_low_process_limit_is_reported_soon_and_nothing_is_left() {
    let Some(lab) = Sshd::up() else { return };
    let libi = lab.bring(programs::libi(), "libi");
    let mark = Marked::new();
    // Root may have as many as it likes.
    let limited = "ulimit -u 40 && exec \"$@\"";
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "libi-sh", "--regid", "libi-lab-sshd", "--clear-groups", "bash", "-c", limited]);
    command.args(["bash", &libi, "run", "--backend", "local", "--hosts", "n[0-79]"]);
    command.args([&lab.member(), "join", "finish:60000"]);
    let variable = mark.variable();
    command.env(variable.name().to_string(), variable.value().to_string());
    let began = Instant::now();
    let done = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    println!("{said}after {:?}", began.elapsed());
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(
        said.contains("of 80 hosts joined") && said.contains("Resource temporarily unavailable"),
        "{said}"
    );
    mark.nothing_is_left();
}
