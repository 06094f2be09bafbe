//! A node that hears nothing from its parent any more, while the parent hears it.

use std::collections::BTreeSet;
use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::MemberRole;
use libi_core::sim::MachineId as Id;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_launch::failure::Cause;
use libi_launch::machine::{LinkPolicy, Notice};

use crate::many::begun;
use crate::scenario::Scenario;
use crate::seeds::{check_all, seeds};
use crate::world::{Cluster, Process};

impl Scenario {
    /// A healthy session, whose hosts are led by members.
    fn that_hears_one_way(seed: u64) -> Self {
        let mut rng = Rng::new(seed).fork(31);
        let scenario = Self::of_agents(2 + rng.below(40) as u32);
        let links = if rng.chance(0.5) { LinkPolicy::Channel } else { LinkPolicy::Auto };
        Self { seed, agents: None, members: 2 + rng.below(2) as u32, links, ..scenario }
    }
}

/// The host of a process, if it leads one.
fn host_of(process: &Process) -> Option<HostIndex> {
    match process.place? {
        MemberRole::Leader(host) => Some(host),
        MemberRole::Local(_) => None,
    }
}

/// The hosts of a leader and of those below it.
fn hosts_from(world: &Cluster, leader: Id) -> BTreeSet<HostIndex> {
    let from = world.alive().filter(|(id, _)| *id == leader || world.above(*id).any(|above| above == leader));
    from.filter_map(|(_, process)| host_of(process)).collect()
}

#[test]
fn a_leader_that_hears_nothing_is_lost_with_its_hosts_and_not_its_members_one_by_one() {
    check_all(seeds().map(Scenario::that_hears_one_way), |scenario| {
        let mut sim = begun(scenario);
        let deaf = Instant::ZERO + Duration::from_secs(40);
        sim.run(deaf, 1_000_000);
        assert!(sim.world.up_at().is_some(), "{scenario:#?}");
        let leaders = (1..).map(Id).zip(&sim.world.processes[1..]);
        let leaders: Vec<Id> =
            leaders.filter(|(_, process)| host_of(process).is_some()).map(|(id, _)| id).collect();
        let leader = leaders[Rng::new(scenario.seed).fork(32).below(leaders.len() as u64) as usize];
        let hosts = hosts_from(&sim.world, leader);
        sim.world.process(leader).deaf = true;
        let noticed = scenario.rules.peer_timeout * 2 + scenario.rules.kill_grace * 4;
        sim.run(deaf + noticed, 10_000_000);
        let mut lost = BTreeSet::new();
        for (at, notice) in &sim.world.notices {
            match notice {
                Notice::Lost(host, failure) => {
                    let is_right = Some(*host) != host_of(&sim.world.processes[leader.0 as usize])
                        || failure.cause == Cause::HeartbeatLost;
                    if !is_right {
                        return Err(format!("{host} is lost because it {}", failure.cause));
                    }
                    lost.insert(*host);
                }
                // The first member leads its host, and ends like other members.
                Notice::Exited(rank, exit, why) if !rank.0.is_multiple_of(scenario.members) => {
                    return Err(format!("{rank} {exit} at {at}, for {why:?}"));
                }
                _ => {}
            }
        }
        let left = sim.world.alive().filter_map(|(_, process)| process.place).any(|place| match place {
            MemberRole::Leader(host) => hosts.contains(&host),
            MemberRole::Local(rank) => hosts.contains(&HostIndex(rank.0 / scenario.members)),
        });
        if lost != hosts || left {
            return Err(format!("lost are {lost:?}, not {hosts:?}; processes are left: {left}"));
        }
        Ok(())
    });
}
