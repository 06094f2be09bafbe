//! Sessions with many hosts, of which several are lost at once, and others while calls are halted for them.

use std::time::Duration;

use libi_comm::reduce::{Element, Op};
use libi_comm::{Address, Completion};
use libi_core::ids::Rank;
use libi_core::sim::rng::Rng;

use libi_cases::Session;
use libi_cases::data::Lengths;
use libi_cases::shape::{Placement, Shape, Tree};
use libi_cases::step::{ReduceBy, Step};

use crate::scenario::{Scenario, Victim, up_to};
use crate::{base, run};

/// How many hosts there are, if the environment does not say; `tests/run all` has 10,000.
const HOSTS: u32 = 1_000;

impl Scenario {
    /// One of a hundred hosts is lost, but for that of the master.
    fn large(seed: u64, hosts: u32) -> (Session, Self) {
        let mut rng = Rng::new(seed).fork(13);
        let (tree, placement) = (Tree::Late, Placement::Blocks);
        let shape = Shape { size: hosts, per_host: 1, tree, placement, absent: false, agents: true, seed };
        let mut session = Session::new(format!("seed {seed}"), shape, 1);
        let root = Rank(rng.below(hosts.into()) as u32);
        let by = ReduceBy::Elements(Op::Sum, Element::I32);
        for _ in 0..3 {
            session.steps.extend([
                Step::Barrier,
                Step::Reduce { to: None, by, count: 5 },
                Step::Broadcast { root, lengths: Lengths::Equal(8), known: true },
                Step::Fence,
            ]);
        }
        let (latency, think) = (Duration::from_micros(200), Duration::from_micros(200));
        let completion = Completion { continues: true, reconnects: true, ..Completion::default() };
        let mut scenario = Self { seed, completion, latency, think, ..Self::default() };
        let first = up_to(&mut rng, scenario.duration(&session) / 2);
        for nth in 0..hosts / 100 {
            let victim = Address::Rank(Rank(1 + rng.below(u64::from(hosts) - 1) as u32));
            let after = if nth % 2 == 0 { Duration::ZERO } else { up_to(&mut rng, latency * 40) };
            scenario.kills.push((first + after, Victim::AgentOf(victim)));
        }
        (session, scenario)
    }
}

#[test]
fn one_in_a_hundred_of_many_hosts_is_lost_and_all_others_go_on() {
    let hosts = std::env::var("LIBI_SIMULATED_HOSTS").map_or(HOSTS, |hosts| hosts.parse().unwrap());
    let seed = base();
    let (session, scenario) = Scenario::large(seed, hosts.min(10_000));
    let kills = scenario.kills.len();
    match run(session, scenario) {
        Ok(adoptions) => println!("{hosts} hosts, {kills} lost, {adoptions} found another parent"),
        Err(wrong) => panic!("LIBI_SEED_BASE={seed} LIBI_SIMULATED_HOSTS={hosts}: {wrong}"),
    }
}
