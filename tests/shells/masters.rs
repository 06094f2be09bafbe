//! Sessions that do not come up: the master's host is bad, or all hosts are required and some are
//! bad. The report says why.

use libi::{Cause, Exit, FrontEnd, Phase, Policy};

use crate::scene::Scene;

const HOSTS: &str = "n[00-63]:2";
const WAIT: [&str; 2] = ["join", "wait"];

/// What befalls the master's host, in which phases it may end, and what is said of its end.
const MASTERS: &[(&str, &[Phase], Option<i32>, &str)] = &[
    ("refuse", &[Phase::Starting], Some(255), "Connection refused"),
    ("refuse permission", &[Phase::Starting], Some(255), "Permission denied"),
    ("hang", &[Phase::Starting], None, ""),
    ("not-found", &[Phase::Starting], Some(127), "not found"),
    ("exit 3 after 50ms", &[Phase::Starting], Some(3), ""),
    ("cut 0", &[Phase::Starting], Some(255), "closed by remote host"),
    ("cut 40", &[Phase::Handshaking], Some(255), "closed by remote host"),
    ("cut 150", &[Phase::Joining, Phase::Joined], Some(255), "closed by remote host"),
    ("hang-after 0", &[Phase::Starting], None, ""),
    ("hang-after 40", &[Phase::Handshaking], None, ""),
    ("hang-after 150", &[Phase::Joining, Phase::Joined], None, ""),
];

#[test]
fn without_a_master_the_session_is_given_up_with_the_reason() {
    for (fault, phases, code, saying) in MASTERS {
        let scene = Scene::new(&format!("seq 2ms\nrem 20ms\nfault n00 {fault}"));
        let outcome = scene.play(HOSTS, &WAIT, &scene.options());
        let report = &outcome.report;
        assert!(!report.is_up(), "{fault}: {report}");
        let master = &report.hosts()[0];
        let failure = master.failure.as_ref().unwrap();
        let about = format!("{fault}: {master:?}");
        assert!(phases.contains(&failure.phase), "{about}");
        match code {
            Some(code) => assert_eq!(failure.cause, Cause::Exited(Exit::Code(*code)), "{about}"),
            None => assert!(matches!(failure.cause, Cause::TimedOut | Cause::HeartbeatLost), "{about}"),
        }
        assert!(failure.tail.contains(saying), "{about}");
        // The others were not tried, were cancelled, or their launcher was lost.
        for host in &report.hosts()[1..] {
            let cause = host.failure.as_ref().map(|failure| &failure.cause);
            assert!(
                matches!(
                    cause,
                    None | Some(Cause::MasterFailed(_) | Cause::Cancelled | Cause::LauncherLost(_))
                ),
                "{fault}: {host:?}"
            );
        }
    }
}

#[test]
fn a_master_that_is_refused_once_is_retried_and_all_hosts_join() {
    for fault in ["refuse", "hang", "cut 0", "cut 150", "hang-after 0"] {
        let scene = Scene::new(&format!("seq 2ms\nrem 20ms\nfault n00 once {fault}"));
        let outcome = scene.play("n[00-31]:2", &["join", "finish:20000"], &scene.options());
        assert!(outcome.report.is_up() && outcome.done, "{fault}: {}", outcome.report);
        assert_eq!(outcome.report.joined(), 32, "{fault}: {}", outcome.report);
        assert_eq!(scene.calls()["n00"], 2, "{fault}");
    }
}

#[test]
fn a_session_that_requires_all_hosts_names_the_failed_with_their_output() {
    for (fault, cause, saying) in [
        ("refuse", Cause::Exited(Exit::Code(255)), "Connection refused"),
        ("not-found", Cause::Exited(Exit::Code(127)), "not found"),
        ("hang", Cause::TimedOut, ""),
    ] {
        let bad = ["*7", "*8", "*9"].map(|hosts| format!("\nfault {hosts} {fault}")).concat();
        let scene = Scene::new(&format!("seq 2ms\nrem 20ms{bad}"));
        let options = scene.options().policy(Policy::All);
        let outcome = scene.play(HOSTS, &WAIT, &options);
        let report = &outcome.report;
        assert!(!report.is_up(), "{fault}: {report}");
        let told = |failure: &libi::Failure| failure.cause != Cause::Cancelled;
        let named: Vec<_> = report.failed().filter(|(_, failure)| told(failure)).collect();
        assert!(!named.is_empty() && report.to_string().contains(saying), "{fault}: {report}");
        for (host, failure) in named {
            assert!(host.name.ends_with(['7', '8', '9']), "{fault}: {host:?}");
            assert_eq!((failure.phase, &failure.cause), (Phase::Starting, &cause), "{fault}: {host:?}");
            assert!(failure.tail.contains(saying), "{fault}: {host:?}");
        }
    }
}

#[test]
fn a_session_that_is_dropped_while_it_is_launched_leaves_nothing() {
    let scene = Scene::new("seq 2ms\nrem 20ms\nfault *5 hang\nfault *6 relay\nfault *7 refuse");
    for calls in [1, 5, 20, 40] {
        let front = FrontEnd::new().unwrap();
        let made = scene.lab.log().len();
        let session = front.start_all(&[crate::scene::members(HOSTS, &WAIT)], &scene.options()).unwrap();
        scene.called(made + calls);
        drop(session);
        scene.nothing_is_left();
    }
}
