//! Processes with a low limit of open files: descriptors are left for direct connections, hosts
//! beyond the limit are launched by others or name the cause, and the soft limit is raised if that
//! is possible.

use std::os::unix::process::CommandExt;
use std::process::Command;

use libi::{Cause, Error, FrontEnd, LaunchOptions, LinkPolicy, Policy, Progress, Rules};
use libi_core::plan::{Shape, Strategy};

use libi_testkit::testbed::{Testbed, direct, follow, launch};

/// Set in the process that runs a test under its limit.
const LIMITED: &str = "LIBI_TEST_LIMITED";

/// Runs a test again in a process of its own with a limit of open files. True in that process.
fn is_limited(test: &str, limit: &str) -> bool {
    if std::env::var_os(LIMITED).is_some() {
        return true;
    }
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" \"$@\"")]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("descriptors::{test}"), "--nocapture", "--test-threads=1"]);
    let output = command.env(LIMITED, "1").process_group(0).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "{}", text(&output.stdout));
    false
}

fn flat(testbed: &Testbed, before: &[&str]) -> LaunchOptions {
    testbed.options_with(LinkPolicy::Direct, before).strategy(Strategy::Static(Shape::Flat))
}

#[test]
fn hosts_beyond_the_limit_of_the_only_launcher_name_descriptors_and_all_others_join() {
    if !is_limited(
        "hosts_beyond_the_limit_of_the_only_launcher_name_descriptors_and_all_others_join",
        "-n 200",
    ) {
        return;
    }
    let testbed = Testbed::new("seq 1ms\nrem 50ms");
    let front = FrontEnd::new().unwrap();
    let options = flat(&testbed, &[]).policy(Policy::AtLeast(60));
    let session = launch(&front, "n[0-79]", &["join", "finish:20000"], &options);
    let report = session.report().unwrap();
    // n0 and, after it, the front end: each launches about 35 hosts, with five descriptors for one.
    assert!((60..=79).contains(&report.joined()), "{report}");
    for (host, failure) in report.failed() {
        let Cause::OutOfResources(why) = &failure.cause else { panic!("{host:?}: {failure:?}") };
        assert!(why.contains("file descriptors") && why.contains("of 200"), "{why}");
    }
    assert_eq!(follow(&front).exits.len(), report.joined());
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn the_soft_limit_is_raised_for_the_launcher_and_not_for_what_it_starts() {
    if !is_limited("the_soft_limit_is_raised_for_the_launcher_and_not_for_what_it_starts", "-Sn 200") {
        return;
    }
    let testbed = Testbed::new("seq 1ms\nrem 20ms");
    let front = FrontEnd::new().unwrap();
    let note = ["/bin/sh", "-c", "ulimit -Sn >>limits && exec \"$@\"", "sh"];
    let session = launch(&front, "n[0-79]", &["join", "finish:20000"], &flat(&testbed, &note));
    assert_eq!(session.report().unwrap().joined(), 80);
    let limits = std::fs::read_to_string(testbed.lab.0.join("limits")).unwrap();
    assert!(limits.lines().count() == 80 && limits.lines().all(|limit| limit == "200"), "{limits}");
    assert_eq!(follow(&front).exits.len(), 80);
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn a_launcher_without_descriptors_leaves_hosts_to_others_that_have_some() {
    if !is_limited("a_launcher_without_descriptors_leaves_hosts_to_others_that_have_some", "-n 64") {
        return;
    }
    let testbed = Testbed::new("seq 1ms\nrem 20ms");
    let front = FrontEnd::new().unwrap();
    let options = testbed.options(LinkPolicy::Direct);
    let rules = Rules { attempts: 3, ..options.rules };
    let options = options.rules(rules);
    let session = launch(&front, "n[0-59]", &["join", "finish:20000"], &options);
    direct(&session, 60);
    assert_eq!(follow(&front).exits.len(), 60);
    drop((session, front));
    testbed.nothing_is_left();
}

#[test]
fn a_front_end_that_cannot_be_made_names_descriptors_and_their_limit() {
    if !is_limited("a_front_end_that_cannot_be_made_names_descriptors_and_their_limit", "-n 8") {
        return;
    }
    for progress in [Progress::Thread, Progress::Manual] {
        let error = FrontEnd::with(progress).err().unwrap();
        assert!(matches!(error, Error::System { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("Too many open files") && text.contains("limit of open files is 8"), "{text}");
    }
}
