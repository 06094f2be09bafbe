//! Real processes run the cases of `tests/cases/*.toml`, the same as the simulator and the links in
//! memory, and check the results.
//!
//! Members run their part as described in `member/play.rs`, and exit with status 0 if every result
//! was right. The test runs the part of the front end. `LIBI_CASES=all`, which `tests/run all` sets,
//! adds sessions of more than 65 members and all combinations of trees and hosts; without it, a
//! part of them is run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "cases/remote.rs"]
mod remote;
#[path = "cases/several.rs"]
mod several;

use libi::{FrontEnd, LaunchOptions, Policy, SessionId};

use libi_testkit::launching::{Launch, is_every_case_asked_for, launches};
use libi_testkit::local::{Lab, MARK, SOON, launch_with};
use libi_testkit::playing::{Endings, play_front_end};

macro_rules! cases {
    ($($test:ident: $file:literal;)*) => {
        $(
            #[test]
            fn $test() {
                play_all($file);
            }
        )*
    };
}

cases! {
    collective_calls_give_what_a_serial_run_gives: "collective";
    reductions_give_what_a_serial_run_gives: "reduce";
    exchanges_give_what_a_serial_run_gives: "exchange";
    messages_arrive_once_and_in_order: "p2p";
    keys_are_found_after_the_fence_that_follows_their_put: "kvs";
    mixed_calls_give_what_a_serial_run_gives: "mixed";
}

fn play_all(file: &str) {
    let all = is_every_case_asked_for();
    launches(file, all, |session| all || session.size <= 65).iter().for_each(play_here);
}

/// Runs a launch on this machine. Checks that all members ended well and that no process is left.
fn play_here(launch: &Launch) {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let distributions = launch.distributions(SessionId(0), &launch.words());
    let distributions: Vec<_> = distributions.into_iter().map(|one| one.env(MARK, lab.mark())).collect();
    let options = LaunchOptions::local().policy(Policy::AtLeast(1)).strategy(launch.strategy);
    let session = launch_with(&front, &distributions, &options);
    let played = play_front_end(launch, &session);
    let mut endings = Endings::default();
    endings.follow(&front, &[session.id()]);
    endings.are_good(session.id(), launch, &played);
    drop(session);
    lab.is_empty_within(SOON);
}
