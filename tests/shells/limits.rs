//! Hosts that take only so many calls at a time: who is refused waits, calls fewer at once, and
//! gets through.

use std::time::Duration;

use libi::{Cause, Exit, Phase, Rules};

use crate::scene::{Outcome, Scene};

fn play(config: &str, attempts: u16) -> (Scene, Outcome) {
    let scene = Scene::new(&format!("seq 2ms\nrem 40ms\n{config}"));
    let options = scene.options();
    let rules = Rules { attempts, back_off: Duration::from_millis(50), ..options.rules };
    let options = options.rules(rules);
    let outcome = scene.play("n[00-63]:2", &["join", "finish:20000"], &options);
    println!("{config}: {} after {:?}", outcome.report, outcome.report.took());
    (scene, outcome)
}

#[test]
fn calls_beyond_a_limit_are_retried_and_all_hosts_join() {
    for limit in [8, 4, 2] {
        let (scene, outcome) = play(&format!("limit {limit} starting"), 5);
        assert!(outcome.report.is_up() && outcome.done, "limit {limit}: {}", outcome.report);
        assert_eq!(outcome.report.joined(), 64, "limit {limit}: {}", outcome.report);
        println!(
            "limit {limit}: {} refused",
            scene.lab.fates().iter().filter(|fate| *fate == "limit").count()
        );
    }
}

#[test]
fn a_host_from_which_no_more_calls_can_be_made_is_named_as_the_one_that_was_refused() {
    for limit in [16, 8, 4] {
        let (_, outcome) = play(&format!("limit {limit} running"), 1);
        assert!(outcome.report.is_up() && outcome.done, "limit {limit}: {}", outcome.report);
        for (host, failure) in outcome.report.failed() {
            assert_eq!(
                (failure.phase, &failure.cause),
                (Phase::Starting, &Cause::Exited(Exit::Code(255))),
                "{host:?}"
            );
            assert!(failure.tail.contains("Connection reset by"), "{host:?}");
        }
    }
}

#[test]
#[ignore = "a leader that can launch no more tries again by itself, instead of leaving the hosts \
            to others that are up"]
fn a_host_from_which_no_more_calls_can_be_made_leaves_the_rest_to_others() {
    for limit in [16, 8, 4] {
        let (_, outcome) = play(&format!("limit {limit} running"), 1);
        assert_eq!(outcome.report.joined(), 64, "limit {limit}: {}", outcome.report);
    }
}

#[test]
fn a_host_between_two_attempts_when_the_launch_settles_keeps_what_its_shell_said() {
    let scene = Scene::new("seq 2ms\nrem 20ms\nfault n3 refuse refused");
    let options = scene.options();
    let rules = Rules { back_off: Duration::from_secs(15), ..options.rules };
    let options = options.rules(rules).settle(Some(Duration::from_millis(500)));
    let outcome = scene.play("n[0-3]", &["join", "finish:20000"], &options);
    let failed: Vec<_> = outcome.report.failed().collect();
    let [(_, failure)] = failed[..] else { panic!("{}", outcome.report) };
    assert_eq!((failure.phase, &failure.cause), (Phase::Waiting, &Cause::SettleElapsed));
    assert!(failure.tail.contains("Connection refused"), "{failure:?}");
    assert!(outcome.report.to_string().contains("Connection refused"), "{}", outcome.report);
}
