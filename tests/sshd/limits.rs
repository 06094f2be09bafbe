//! A server that takes few connections at a time, and a front end that may have few files open.

use libi::{Exit, FrontEnd, LaunchOptions, Policy};

use crate::lab::{Marked, Sshd};
use crate::local::Heard;
use crate::options;

#[test]
fn a_server_that_lets_few_begin_at_a_time_slows_a_launch_of_64_hosts_down_and_no_more() {
    let Some(lab) = Sshd::up() else { return };
    lab.serve("few", &["MaxStartups 2:100:4"]);
    let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
    let members = mark.program(&lab.member(), "n[0-63]", &["join", "finish:60000"]);
    let options = LaunchOptions { policy: Policy::AtLeast(1), ..options(lab.ssh("few")) };
    let session = front.launch(&[members], &options).unwrap_or_else(|error| panic!("{error}")).remove(0);
    let report = session.report().unwrap();
    let attempts: u32 = report.hosts().iter().map(|host| host.attempts).sum();
    let most = report.hosts().iter().map(|host| host.attempts).max();
    println!("{report}; {attempts} attempts, {most:?} at most");
    assert_eq!(report.joined(), 64, "{report}");
    let heard = Heard::all(&front);
    assert!(heard.exits.values().all(|exit| *exit == Exit::Code(0)), "{}", heard.described());
    drop((session, front));
    lab.stop("few");
}
