//! Decides which ranks are on which host, which process started which, and so which links exist.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::time::Duration;

use libi_comm::{Address, Branch, Topology};
use libi_core::cost::Cost;
use libi_core::ids::{LinkId, Rank};
use libi_core::plan::greedy;
use libi_core::ranks::Ranks;
use libi_core::sim::rng::Rng;
use serde::Deserialize;

/// The tree of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tree {
    /// All below the front end.
    Flat,
    /// The master's host below the front end, and all others below that.
    Star,
    /// Each below the one before.
    Chain,
    /// A binary tree.
    Binary,
    /// As in a launch in which each host that is up launches the next: random, by the seed.
    Late,
    /// As planned for remote shells of equal cost, where 25 starts take as long as one host needs
    /// to come up.
    Greedy,
}

/// The placement of ranks on hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Placement {
    /// Consecutive ranks.
    Blocks,
    /// Round-robin.
    Cyclic,
}

/// The hosts and the tree of a session.
#[derive(Clone, Debug)]
pub struct Shape {
    pub size: u32,
    pub per_host: u32,
    pub tree: Tree,
    pub placement: Placement,
    /// Whether some ranks are absent.
    pub absent: bool,
    /// Whether agents lead the hosts, and are no members.
    pub agents: bool,
    pub seed: u64,
}

/// A process and its links.
#[derive(Clone, Debug)]
pub struct Process {
    /// `None` for an agent, which makes no calls.
    pub address: Option<Address>,
    /// The number of its host; the front end has its own.
    pub host: usize,
    /// The parent, and the number of the link there.
    pub parent: Option<(usize, LinkId)>,
    /// The children.
    pub links: BTreeMap<LinkId, usize>,
    pub topology: Topology,
}

impl Shape {
    /// Blocks of ranks, all of them present, each host led by its first member.
    pub fn plain(size: u32, per_host: u32, tree: Tree, seed: u64) -> Self {
        Self { size, per_host, tree, placement: Placement::Blocks, absent: false, agents: false, seed }
    }

    /// All processes of the session, parents before their children; the first is the front end.
    pub fn processes(&self) -> Vec<Process> {
        let mut rng = Rng::new(self.seed).fork(77);
        let (hosts, absent) = self.hosts(&mut rng);
        let parents = self.parents(hosts.len(), &mut rng);
        let mut processes = vec![Process::new(Some(Address::FrontEnd), hosts.len(), None)];
        let mut leaders = Vec::new();
        let mut children: Vec<Vec<usize>> = vec![Vec::new()];
        for (host, (ranks, parent)) in hosts.iter().zip(&parents).enumerate() {
            let parent = parent.map_or(0, |host: usize| leaders[host]);
            leaders.push(processes.len());
            let agent = self.agents.then_some(None);
            let members = ranks.iter().map(|rank| Some(Address::Rank(Rank(*rank))));
            for (nth, address) in agent.into_iter().chain(members).enumerate() {
                let above = if nth == 0 { parent } else { leaders[leaders.len() - 1] };
                children[above].push(processes.len());
                children.push(Vec::new());
                processes.push(Process::new(address, host, Some(above)));
            }
        }
        for at in (0..processes.len()).rev() {
            link(&mut processes, at, &children[at], &mut rng);
        }
        let size = self.size;
        let front_is_top = processes[0].links.len() != 1;
        let first = children[0].first().copied();
        let hosts: Vec<usize> = processes.iter().map(|process| process.host).collect();
        for (at, process) in processes.iter_mut().enumerate() {
            process.topology.top = if front_is_top { at == 0 } else { Some(at) == first };
            process.topology.size = size;
            process.topology.local = process.parent.is_some_and(|(parent, _)| hosts[parent] == process.host);
            process.topology.absent = absent.clone();
        }
        processes
    }

    /// The ranks that are present, ascending.
    pub fn present(&self) -> Vec<Rank> {
        let (hosts, _) = self.hosts(&mut Rng::new(self.seed).fork(77));
        let mut present: Vec<Rank> = hosts.into_iter().flatten().map(Rank).collect();
        present.sort_unstable();
        present
    }

    /// The ranks of each host, its leader first, and the absent ranks.
    fn hosts(&self, rng: &mut Rng) -> (Vec<Vec<u32>>, Ranks) {
        let count = self.size.div_ceil(self.per_host.max(1));
        let mut hosts = vec![Vec::new(); count as usize];
        for rank in 0..self.size {
            let host = match self.placement {
                Placement::Blocks => rank / self.per_host,
                Placement::Cyclic => rank % count,
            };
            hosts[host as usize].push(rank);
        }
        let mut absent = Ranks::new();
        if self.absent {
            for host in &mut hosts {
                // The master is present. Members of a host without its leader are absent.
                let without = host.first() != Some(&0) && rng.chance(0.2);
                let gone: Vec<u32> =
                    host.iter().copied().filter(|rank| without || *rank > 0 && rng.chance(0.15)).collect();
                let gone = if host.first().is_some_and(|leader| gone.contains(leader)) {
                    host.clone()
                } else {
                    gone
                };
                host.retain(|rank| !gone.contains(rank));
                absent.add_all(&gone.into_iter().map(Rank).collect());
            }
            hosts.retain(|host| !host.is_empty());
        }
        (hosts, absent)
    }

    /// The parent of each host; `None` for the front end.
    fn parents(&self, hosts: usize, rng: &mut Rng) -> Vec<Option<usize>> {
        let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
        let greedy = NonZeroU32::new(hosts as u32).filter(|_| self.tree == Tree::Greedy);
        let greedy = greedy.map(|hosts| greedy::plan(hosts, &cost).0);
        let greedy = |host: usize| greedy.as_ref()?.parent(host as u32).map(|parent| parent as usize);
        (0..hosts)
            .map(|host| match (self.tree, host.checked_sub(1)) {
                (Tree::Flat, _) | (_, None) => None,
                (Tree::Star, _) => Some(0),
                (Tree::Chain, before) => before,
                (Tree::Greedy, _) => greedy(host),
                (Tree::Binary, Some(before)) => Some(before / 2),
                // A host that was up earlier has had more time to launch others.
                (Tree::Late, Some(_)) => {
                    let earlier = rng.below(host as u64 + 1).min(rng.below(host as u64 + 1)) as usize;
                    earlier.checked_sub(1)
                }
            })
            .collect()
    }
}

impl Process {
    fn new(address: Option<Address>, host: usize, parent: Option<usize>) -> Self {
        let me = if let Some(Address::Rank(rank)) = address { Some(rank) } else { None };
        let topology = Topology { me, has_parent: parent.is_some(), ..Topology::default() };
        let parent = parent.map(|parent| (parent, LinkId::PARENT));
        Self { address, host, parent, links: BTreeMap::new(), topology }
    }

    /// Its rank and all below it.
    pub fn ranks(&self) -> Ranks {
        let mut ranks: Ranks = self.topology.me.into_iter().collect();
        self.topology.branches.iter().for_each(|branch| ranks.add_all(&branch.ranks));
        ranks
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => address.fmt(f),
            None => write!(f, "the agent of host {}", self.host),
        }
    }
}

/// Gives a process its links; its children have theirs.
fn link(processes: &mut [Process], at: usize, children: &[usize], rng: &mut Rng) {
    let mut children = children.to_vec();
    // Local members before all others, or after them.
    let locals_last = rng.chance(0.3);
    let host = processes[at].host;
    children.sort_by_key(|child| (processes[*child].host == host) == locals_last);
    let mut number = 0;
    for child in children {
        number += 1 + rng.below(3) as u32;
        let number = LinkId(number);
        processes[child].parent = Some((at, number));
        processes[at].links.insert(number, child);
        let ranks = processes[child].ranks();
        let local = processes[child].host == host;
        processes[at].topology.branches.push(Branch { link: number, ranks, local });
    }
}
