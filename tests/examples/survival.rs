//! The example of members that crash, a host that is lost and one that joins.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libi_testkit::{native, programs};

const TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn daemons_go_on_whatever_is_lost_and_all_see_the_same() {
    let program = Path::new(programs::libi()).parent().unwrap().join("examples/survival");
    let ended = native::run_command(&mut Command::new(program), TIMEOUT);
    assert_eq!((ended.code, &*ended.err), (Some(0), ""), "{}", ended.out);
    let lines: Vec<&str> = ended.out.lines().collect();
    for line in [
        "rank 5 on host3 was killed by signal 6",
        "rank 5 on host3 was restarted",
        "call 20: 7 members, without rank 5",
        "rank 1 on host1 is the master now",
        "rank 0 on host1 was restarted",
        "host2 (ranks 2-3) is lost: was killed by signal 9",
        "ranks 8..10 have joined on host5",
    ] {
        assert!(lines.contains(&line), "{line} is missing in\n{}", ended.out);
    }
    // How many calls a member misses depends on how long it takes to start it again.
    let calls: Vec<&str> = lines.iter().filter_map(|line| line.strip_prefix("call ")).collect();
    let is_last = |call: &&str| call.ends_with(": 8 members, without ranks 2-3");
    assert!(calls.first() == Some(&"0: 8 members") && calls.last().is_some_and(is_last), "{calls:?}");
}
