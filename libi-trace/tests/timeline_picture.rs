//! The picture of a timeline in the documentation: a simulated launch, the same on every machine.
//!
//! `LIBI_WRITE_TIMELINE=1 cargo test -p libi-trace --test timeline_picture` writes it again.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

use libi_core::cost::Cost;
use libi_core::ids::HostIndex;
use libi_core::plan::Strategy;
use libi_core::sim::jitter::Jitter;
use libi_core::sim::launch::Setup;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_trace::{HostLine, Prediction, Timeline};

const HOSTS: u32 = 24;
const SEQ: Duration = Duration::from_millis(12);
const REM: Duration = Duration::from_millis(170);

/// Late commit on hosts of which some take longer to start than others.
fn launch() -> Timeline {
    let cost = Cost::new(SEQ, REM);
    let setup = Setup {
        rem: Jitter::LogNormal { median: REM, sigma: 0.25 },
        ..Setup::new(NonZeroU32::new(HOSTS).expect("there are hosts"), Strategy::Late, &cost)
    };
    let (tree, schedule) = setup.run(3).tree().expect("no host is lost");
    let mut rng = Rng::new(5);
    // The front end launches the first host, whose leader is the root of the simulated launch.
    let at = |at: Option<Instant>| REM + at.unwrap_or_default().since(Instant::ZERO);
    let line = |node: u32| {
        let hello = at(schedule.ready(node));
        HostLine {
            name: format!("node{:02}", node + 1),
            members: 4,
            launcher: tree.parent(node).map(HostIndex),
            attempts: 1,
            started: if node == 0 { Duration::ZERO } else { at(schedule.started(node)) },
            hello: Some(hello),
            joined: Some(hello + Duration::from_millis(12 + rng.below(16))),
            ended: None,
        }
    };
    let hosts: Vec<_> = (0..HOSTS).map(line).collect();
    Timeline {
        session: "session 0".into(),
        up: hosts.iter().filter_map(|host| host.joined).max(),
        hosts,
        predicted: Some(Prediction::greedy(HOSTS, cost)),
    }
}

#[test]
fn the_picture_in_the_documentation_is_what_is_drawn() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/timeline.svg");
    let drawn = launch().svg();
    if std::env::var_os("LIBI_WRITE_TIMELINE").is_some() {
        std::fs::write(&path, &drawn).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == drawn, "docs/timeline.svg is out of date; the head of this test says how to write it");
}
