//! Launches in which nothing fails: through a tree, with everything that shells print beside what
//! they should.

use libi::{Exit, Stream};

use crate::scene::{Outcome, Scene};

const HOSTS: &str = "n[00-63]:2";
const WORK: [&str; 5] =
    ["join", "out:out {rank} of {size} on {host}", "err:err {rank}", "read", "finish:20000"];

/// All members have joined and ended with this status.
fn all_end_with(status: i32, outcome: &Outcome) {
    assert!(outcome.report.is_up() && outcome.done, "{}", outcome.report);
    assert_eq!(outcome.report.joined(), 64, "{}", outcome.report);
    assert_eq!(outcome.lost.len(), 0, "{:?}", outcome.lost);
    assert_eq!(outcome.exits.len(), 128);
    assert!(outcome.exits.values().all(|exit| *exit == Exit::Code(status)), "{:?}", outcome.exits);
}

/// Each host was called once, but for launches that were withdrawn.
fn all_called_once(scene: &Scene, outcome: &Outcome) {
    let calls = scene.calls();
    assert_eq!(calls.len(), 64, "{calls:?}");
    for host in outcome.report.hosts() {
        let most = 1 + u32::from(host.withdrawn);
        assert!((1..=most).contains(&calls[&host.name]), "{} calls: {host:?}", calls[&host.name]);
    }
}

#[test]
fn a_healthy_launch_grows_a_tree_and_calls_no_host_twice() {
    let scene = Scene::new("seq 2ms\nrem 40ms\nlimit 1 per target");
    let outcome = scene.play(HOSTS, &WORK, &scene.options());
    all_end_with(0, &outcome);
    all_called_once(&scene, &outcome);
    let launchers = scene.launchers();
    assert!(launchers.len() > 2 && launchers.contains("front"), "{launchers:?}");
    for rank in 0..128 {
        let expected = format!("out {rank} of 128 on n{:02}\n0\n", rank / 2);
        assert_eq!(outcome.printed(rank, Stream::Out), expected, "rank {rank}");
        assert_eq!(outcome.printed(rank, Stream::Err), format!("err {rank}\n"), "rank {rank}");
    }
}

#[test]
fn what_shells_print_is_output_of_leaders_and_disturbs_nothing() {
    let scene = Scene::new(
        "seq 2ms\nrem 20ms\nfault *1 banner-before Welcome!\\nlibi is not what this is\nfault *2 \
         banner-after You are logged out. Have a nice day, and do come back.\n\
         fault *3 warn Warning: added\nfault *4 garbage 50000\nfault *5 relay\nfault *6 relay\n\
         fault *6 warn W\n\
         fault *7 banner-before \\xff\\x00\\c\nfault *8 relay\nfault *8 banner-after You are \
         logged out. Have a nice day, and do come back.",
    );
    let work = [&WORK[..], &["exit:3"]].concat();
    let outcome = scene.play(HOSTS, &work, &scene.options());
    all_end_with(3, &outcome);
    all_called_once(&scene, &outcome);
    for rank in 0..128 {
        let (out, err) = (outcome.printed(rank, Stream::Out), outcome.printed(rank, Stream::Err));
        let (its_out, its_err) =
            (format!("out {rank} of 128 on n{:02}\n0\n", rank / 2), format!("err {rank}\n"));
        let is_leader = rank % 2 == 0;
        match rank / 2 % 10 {
            1 if is_leader => assert_eq!(out, format!("Welcome!\nlibi is not what this is\n{its_out}")),
            3 if is_leader => assert_eq!(err, format!("Warning: added\n{its_err}")),
            4 if is_leader => assert!(out.ends_with(&its_out), "{out}"),
            6 if is_leader => assert_eq!(err, format!("W\n{its_err}")),
            7 if is_leader => assert_eq!(out, format!("\u{fffd}\0{its_out}")),
            2 | 8 if is_leader => assert!(out.starts_with(&its_out), "{out}"),
            _ => assert_eq!((out, err), (&*its_out, &*its_err)),
        }
    }
}
