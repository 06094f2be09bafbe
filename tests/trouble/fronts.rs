//! The front end is killed during a large transfer.

use crate::{moments, seeded};
use libi_testkit::local::*;
use libi_testkit::roles::Front;

/// A leader and another member on each host.
const HOSTS: &str = "a[1-3]";

#[test]
fn a_front_end_killed_during_a_large_broadcast_leaves_nothing() {
    let mut rng = seeded();
    for _ in 0..moments() {
        let lab = Lab::new();
        let begins = format!("touch:{}", lab.path("begun-{rank}"));
        let mut front = Front::start(&lab, HOSTS, &["join", &begins, "talk:endless:67108864"]);
        front.until("all have begun", |_| (0..6).all(|rank| lab.has(&format!("begun-{rank}"))));
        let moment = ms(rng.below(400));
        println!("the front end is killed {moment:?} after the first broadcast has begun");
        std::thread::sleep(moment);
        assert_eq!(lab.programs(), 6);
        front.kill();
        lab.is_empty_within(SOON);
    }
}
