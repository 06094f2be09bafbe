//! The stand-in for ssh as the tests that launch with it meet it: costs, faults, and nothing left
//! behind.
//!
//! No test asks how long something took: what the log says of times is exact, whatever else the
//! machine does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use libi_testkit::shell::{Lab, Started, eventually};
use libi_testkit::{processes, programs};

fn time(line: &HashMap<String, String>, field: &str) -> u64 {
    line[field].parse().unwrap()
}

#[test]
fn the_command_has_the_callers_streams_and_its_status_is_returned() {
    let lab = Lab::new("");
    let mut started = lab.start(&["h", "cat; exit 7"]);
    started.write("in and out").unwrap();
    drop(started.0.stdin.take());
    assert_eq!(started.rest(), "in and out");
    assert_eq!(started.status(), Some(7));

    let ended =
        lab.call(&["-o", "A=b", "-Tp22", "me@h", "-x", "--", "echo", "'a", "b';", "echo", "e", ">&2"]);
    assert_eq!((ended.status, &ended.out[..], ended.err.as_str()), (0, &b"a b\n"[..], "e\n"));
    assert_eq!(lab.call(&["h", "kill -KILL $$"]).status, 128 + 9);
    assert_eq!(lab.call(&["h"]).status, 0);
    let ended = lab.call(&["-T"]);
    assert_eq!((ended.status, ended.err.starts_with("libi-test-shell: usage:")), (255, true));
    assert_eq!(lab.fates(), ["run"; 4]);
    assert_eq!(lab.log()[0]["length"], "11");
}

#[test]
fn a_nested_call_knows_its_launching_host() {
    let lab = Lab::new("");
    let nested = "echo $LIBI_TEST_SHELL_HOST; $SHELL_UNDER_TEST n2 'echo $LIBI_TEST_SHELL_HOST'";
    assert_eq!(lab.call(&["n1", nested]).out, b"n1\nn2\n");
    let path: Vec<_> = lab.log().iter().map(|line| [line["from"].clone(), line["host"].clone()]).collect();
    assert_eq!(path, [["front", "n1"], ["n1", "n2"]]);
}

#[test]
fn the_command_gets_no_other_descriptor_and_default_signals() {
    let lab = Lab::new("");
    let launch = "trap '' PIPE USR1; exec 7</dev/null; exec $SHELL_UNDER_TEST h \
                  'ls /proc/self/fd; grep SigIgn /proc/self/status'";
    let output = lab.command("/bin/sh", &["-c", launch]).output().unwrap();
    // 3 is the directory that ls reads.
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "0\n1\n2\n3\nSigIgn:\t0000000000000000\n");
}

#[test]
fn signals_end_the_shell_and_never_reach_the_command() {
    for signal in ["TERM", "INT", "HUP"] {
        let lab = Lab::new("");
        let mut started = lab.start(&["h", "echo up; cat; touch saw-eof"]);
        started.expect("up\n");
        started.signal(signal);
        assert_eq!(started.status(), Some(255));
        started.write("still there").unwrap();
        started.expect("still there");
        drop(started);
        eventually("the command has seen the end of its input", || lab.has("saw-eof"));
    }
}

#[test]
fn relayed_streams_go_with_the_shell_even_when_it_is_killed() {
    for (config, signal) in
        [("fault * relay", "KILL"), ("fault * relay", "TERM"), ("fault * cut 999", "KILL")]
    {
        let lab = Lab::new(config);
        let mut started = lab.start(&["h", "echo up; cat; touch saw-eof"]);
        started.expect("up\n");
        started.write("there").unwrap();
        started.expect("there");
        started.signal(signal);
        eventually("the command has seen the end of its input", || lab.has("saw-eof"));
        assert_eq!(started.rest(), "");
    }
}

#[test]
fn who_closes_an_end_is_noticed_at_the_other() {
    for config in ["", "fault * relay"] {
        let lab = Lab::new(config);
        let mut started = lab.start(&["h", "exec >&- 2>&-; cat; exit 3"]);
        assert_eq!(started.rest(), "");
        drop(started.0.stdin.take());
        assert_eq!(started.status(), Some(3));

        let mut started = lab.start(&["h", "while echo x; do :; done 2>/dev/null; touch told"]);
        started.expect("x\n");
        drop(started.0.stdout.take());
        assert_eq!(started.status(), Some(128 + 13)); // SIGPIPE
        assert!(!lab.has("told"));
    }
}

#[test]
fn a_mistake_in_the_configuration_is_reported_with_its_line_and_nothing_runs() {
    let lab = Lab::with_exactly("seed 1\n\nfault * hnag\n");
    let ended = lab.call(&["h", "touch ran"]);
    assert_eq!((ended.status, lab.has("ran")), (255, false));
    let config = lab.0.join("config");
    assert_eq!(
        ended.err,
        format!("libi-test-shell: {}: line 3: there is no fault `hnag`\n", config.display())
    );
    fs::remove_file(config).unwrap();
    let ended = lab.call(&["h", "touch ran"]);
    assert_eq!((ended.status, lab.has("ran"), ended.err.contains("config: ")), (255, false, true));
    let ended = Lab::with_exactly("locks nowhere\nseq 1ms").call(&["h", "true"]);
    assert_eq!((ended.status, ended.err.contains("nowhere")), (255, true), "{ended:?}");
}

#[test]
fn calls_of_one_host_take_turns_for_seq_and_share_rem() {
    let lab = Lab::new("seq 20ms\nrem 200ms");
    let mut calls: Vec<_> = (0..6).map(|i| lab.start(&[&format!("n{i}"), "true"])).collect();
    assert!(calls.iter_mut().all(|call| call.status() == Some(0)));
    let mut log = lab.log();
    log.sort_by_key(|line| time(line, "turn"));
    let mut free = 0;
    for line in &log {
        // A turn begins when the call is there and the one before is over: no call waits for the
        // REM of another.
        assert_eq!(time(line, "turn"), time(line, "arrived").max(free));
        free = time(line, "free");
        assert_eq!(free, time(line, "turn") + 20_000_000);
        assert!(time(line, "at") >= time(line, "turn") + 200_000_000);
    }
    assert_eq!(log.len(), 6);
}

#[test]
fn as_many_calls_as_there_are_places_pass_them_at_a_time() {
    let lab = Lab::new("places 2 50ms\nrem 20ms");
    let mut calls: Vec<_> = (0..6).map(|i| lab.start(&[&format!("n{i}"), "true"])).collect();
    assert!(calls.iter_mut().all(|call| call.status() == Some(0)));
    let mut turns: Vec<_> = lab.log().iter().map(|line| time(line, "turn")).collect();
    turns.sort_unstable();
    assert!(turns.windows(3).all(|three| three[2] >= three[0] + 50_000_000), "{turns:?}");
    assert_eq!(turns.len(), 6);
}

#[test]
fn a_call_that_is_killed_before_it_had_a_place_takes_none() {
    let lab = Lab::new("places 1 100ms");
    let mut calls: Vec<_> = (0..40).map(|i| lab.start(&[&format!("n{i}"), "true"])).collect();
    let mut last = calls.split_off(39);
    drop(calls); // which kills them
    let begun = std::time::Instant::now();
    assert_eq!(last[0].status(), Some(0));
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn calls_of_different_hosts_do_not_wait_for_each_other() {
    let lab = Lab::new("seq 100ms");
    let call = |from| {
        lab.command(programs::shell(), &["h", "true"]).env("LIBI_TEST_SHELL_HOST", from).spawn().unwrap()
    };
    let calls: Vec<_> = ["a", "b", "c"].into_iter().map(call).collect();
    assert!(calls.into_iter().all(|mut call| call.wait().unwrap().success()));
    assert!(lab.log().iter().all(|line| line["turn"] == line["arrived"]));
}

#[test]
fn a_call_over_the_limit_is_refused_until_another_has_ended() {
    let lab = Lab::new("limit 2\n");
    let mut running: Vec<_> = (0..2).map(|_| lab.start(&["h", "echo up; cat"])).collect();
    running.iter_mut().for_each(|call| call.expect("up\n"));
    let refused = lab.call(&["other", "true"]);
    assert_eq!(refused.status, 255);
    let lines = "kex_exchange_identification: read: Connection reset by peer\r\nConnection reset \
                 by other port 22\r\n";
    assert_eq!(refused.err, lines);
    assert_eq!(
        lab.command(programs::shell(), &["h", "true"])
            .env("LIBI_TEST_SHELL_HOST", "n1")
            .status()
            .unwrap()
            .code(),
        Some(0)
    );
    running[0].signal("KILL");
    running[0].status();
    assert_eq!(lab.call(&["other", "true"]).status, 0);
    assert_eq!(lab.fates(), ["run", "run", "limit", "run", "run"]);
}

#[test]
fn a_limit_can_count_only_calls_that_start_and_those_to_one_target() {
    let lab = Lab::new("limit 1 starting per target\nfault * once delay 1us\nfault b hang");
    let mut running = lab.start(&["a", "echo up; cat"]);
    running.expect("up\n");
    assert_eq!(lab.call(&["a", "true"]).status, 0);
    let _hung = lab.start(&["b", "true"]);
    eventually("the call hangs", || lab.fates().contains(&"delay+hang".to_owned()));
    assert_eq!(lab.call(&["a", "true"]).status, 0);
    assert_eq!(lab.call(&["b", "true"]).status, 255);
    assert_eq!(lab.fates().last().unwrap(), "limit");
}

#[test]
fn refusals_say_what_ssh_says() {
    for (kind, expected) in [
        ("", "ssh: connect to host n1 port 22: Connection refused\r\n"),
        ("timed-out after 1ms", "ssh: connect to host n1 port 22: Connection timed out\r\n"),
        ("unknown-host", "ssh: Could not resolve hostname n1: Name or service not known\r\n"),
        (
            "closed",
            "kex_exchange_identification: Connection closed by remote host\r\nConnection closed \
             by n1 port 22\r\n",
        ),
        (
            "host-key",
            "No ED25519 host key is known for n1 and you have requested strict checking.\r\n\
             Host key verification failed.\r\n",
        ),
        ("permission", "me@n1: Permission denied (publickey).\r\n"),
    ] {
        let lab = Lab::new(&format!("fault n1 banner-before hello\nfault n1 refuse {kind}"));
        let ended = lab.call(&["n1", "touch ran"]);
        assert_eq!((ended.status, ended.err.as_str(), ended.out.len()), (255, expected, 0), "{kind}");
        assert_eq!((lab.has("ran"), lab.call(&["n2", "true"]).status), (false, 0));
    }
    let lab = Lab::new("fault * refuse permission");
    assert_eq!(lab.call(&["-l", "bob", "n1", "true"]).err, "bob@n1: Permission denied (publickey).\r\n");
}

#[test]
fn a_command_that_is_not_found_or_ends_early_is_not_run() {
    let lab = Lab::new("fault a not-found\nfault b warn oops\nfault b exit 3 after 1ms");
    let ended = lab.call(&["a", "./daemond", "--x"]);
    assert_eq!((ended.status, ended.err.as_str()), (127, "sh: 1: ./daemond: not found\n"));
    let ended = lab.call(&["b", "touch ran"]);
    assert_eq!((ended.status, ended.err.as_str(), lab.has("ran")), (3, "oops\n", false));
}

#[test]
fn a_fault_can_befall_the_first_attempts_only() {
    let lab = Lab::new("fault a once exit 5\nfault b times 2 exit 6");
    let statuses = |host| [(); 4].map(|()| lab.call(&[host, "true"]).status);
    assert_eq!((statuses("a"), statuses("b")), ([5, 0, 0, 0], [6, 6, 0, 0]));
    assert_eq!(lab.log().iter().map(|line| line["attempt"].as_str()).collect::<String>(), "12341234");
}

#[test]
fn a_percentage_befalls_the_same_hosts_in_every_run_with_the_same_seed() {
    let befallen = |seed: u32| -> Vec<u32> {
        let lab = Lab::new(&format!("seed {seed}\nfault 30% exit 9"));
        (0..40).filter(|i| lab.call(&[&format!("node{i:03}"), "true"]).status == 9).collect()
    };
    let hosts = befallen(1);
    assert!((1..40).contains(&hosts.len()), "{hosts:?}");
    assert_eq!(hosts, befallen(1));
    assert_ne!(hosts, befallen(2));
}

#[test]
fn banners_and_garbage_surround_the_output() {
    for relay in ["", "fault * relay"] {
        let lab = Lab::new(&format!(
            "fault * warn careful\nfault * banner-before Welcome\\tto all\nfault g garbage 1000\n\
             fault * banner-after bye\\c\n{relay}"
        ));
        let ended = lab.call(&["h", "echo out; exit 4"]);
        assert_eq!(String::from_utf8_lossy(&ended.out), "Welcome\tto all\nout\nbye");
        assert_eq!((ended.status, ended.err.as_str()), (4, "careful\n"));
        let garbage = lab.call(&["g", "echo out"]).out;
        assert_eq!(garbage.len(), "Welcome\tto all\nout\nbye".len() + 1000);
        let again = Lab::new(
            "fault * banner-before Welcome\\tto all\nfault g garbage 1000\nfault * banner-after bye\\c",
        );
        assert_eq!(again.call(&["g", "echo out"]).out, garbage);
    }
}

#[test]
fn a_closed_stdin_is_empty_for_the_command_and_broken_for_the_caller() {
    for relay in ["", "fault * relay"] {
        let lab = Lab::new(&format!("fault * close-stdin\n{relay}"));
        let mut started = lab.start(&["h", "cat; echo empty; until [ -e go ]; do sleep 0.02; done"]);
        started.expect("empty\n");
        eventually("writing fails", || started.write("x").is_err());
        fs::write(lab.0.join("go"), "").unwrap();
        assert_eq!(started.status(), Some(0));
    }
}

#[test]
fn a_cut_connection_ends_after_so_many_bytes_and_the_command_loses_its_streams() {
    let lab = Lab::new("fault * cut 10");
    let mut started = lab.start(&["h", "printf 0123456789abcdef; cat; touch saw-eof"]);
    assert_eq!((started.rest().as_str(), started.status()), ("0123456789", Some(255)));
    eventually("the command has seen the end of its input", || lab.has("saw-eof"));
    assert_eq!(lab.call(&["h", "echo 0123456789"]).err, "Connection to h closed by remote host.\r\n");
    let short = lab.call(&["h", "echo 012; exit 2"]);
    assert_eq!((short.status, &short.out[..]), (2, &b"012\n"[..]));
    assert_eq!(lab.fates(), ["cut+run"; 3]);
}

#[test]
fn a_connection_that_hangs_passes_nothing_more_until_it_is_given_up() {
    let lab = Lab::new("fault late hang-after 4\nfault at-once hang-after 0");
    let mut late = lab.start(&["late", "printf 01234567; cat; touch late-saw-eof"]);
    let mut silent =
        lab.start(&["at-once", "echo x; touch ran; read line && touch got-input; touch saw-eof"]);
    silent.write("not passed\n").unwrap();
    late.expect("0123");
    eventually("the command runs", || lab.has("ran"));
    assert!(!lab.has("saw-eof") && !lab.has("late-saw-eof"));
    late.signal("TERM");
    silent.signal("TERM");
    assert_eq!((late.rest(), silent.rest()), (String::new(), String::new()));
    assert_eq!((late.status(), silent.status()), (Some(255), Some(255)));
    eventually("both commands have seen the end", || lab.has("saw-eof") && lab.has("late-saw-eof"));
    assert!(!lab.has("got-input"));
}

#[test]
fn a_hang_ends_with_its_caller_also_when_they_share_a_socket() {
    for fault in ["hang", "hang-after 0"] {
        let lab = Lab::new(&format!("fault * {fault}"));
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = lab.command(programs::shell(), &["h", "cat"]);
        let (stdin, stdout): (OwnedFd, OwnedFd) = (theirs.try_clone().unwrap().into(), theirs.into());
        let mut started = Started(command.stdin(stdin).stdout(stdout).stderr(Stdio::null()).spawn().unwrap());
        drop(command); // it holds their end as well
        eventually("it hangs", || lab.log().len() == 1);
        assert_eq!(started.0.try_wait().unwrap(), None);
        drop(ours);
        assert_eq!(started.status(), Some(255), "{fault}");
    }
}

#[test]
fn a_hang_ends_with_its_caller_or_with_its_lifetime() {
    for fault in ["hang", "hang-after 0", "refuse timed-out after 3000s", "exit 255 after 3000s"] {
        let lab = Lab::new(&format!("fault * {fault}"));
        let mut started = lab.start(&["h", "cat"]);
        let silent = fault.split(' ').next().unwrap();
        eventually("it hangs", || lab.fates().iter().any(|fate| fate.starts_with(silent)));
        assert_eq!(started.0.try_wait().unwrap(), None);
        drop(started.0.stdin.take());
        drop(started.0.stdout.take());
        assert_eq!(started.status(), Some(255), "{fault}");

        let lab = Lab::new(&format!("lifetime 50ms\nfault * {fault}"));
        let mut started = lab.start(&["h", "cat"]);
        assert_eq!((started.rest().as_str(), started.status()), ("", Some(255)), "{fault}");
    }
}

#[test]
fn a_killed_caller_leaves_nothing_behind() {
    let lab = Lab::new("fault hung hang\nfault stuck hang-after 0\nfault relayed relay");
    let marker = format!("LAB_OF_THE_KILLED_CALLER={}", lab.0.display());
    let (name, value) = marker.split_once('=').unwrap();
    let marked = || processes::bearing(&marker).len();
    let this = std::env::current_exe().unwrap();
    let mut command = lab.command(this.to_str().unwrap(), &["--exact", "caller_that_is_killed", "--ignored"]);
    let mut caller = Started(command.env(name, value).process_group(0).spawn().unwrap());
    eventually("all calls are on their way", || lab.log().len() == 4);
    assert!(marked() > 4, "the marks are not seen");
    caller.0.kill().unwrap();
    caller.0.wait().unwrap();
    eventually("nothing is left", || marked() == 0);
}

/// What the test before runs and kills.
#[test]
#[ignore = "is run by a_killed_caller_leaves_nothing_behind"]
fn caller_that_is_killed() {
    let Ok(directory) = std::env::var("LAB_OF_THE_KILLED_CALLER") else { return };
    let lab = std::mem::ManuallyDrop::new(Lab(directory.into()));
    let _calls = ["hung", "stuck", "relayed", "plain"].map(|host| lab.start(&[host, "cat; true"]));
    sleep(Duration::from_secs(60));
}
