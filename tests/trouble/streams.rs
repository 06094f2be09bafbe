//! Members are killed during all kinds of operations. The survivors continue, and each of their
//! calls ends in time with its result or with an error that names the lost members.
//! `member/stream.rs` has the checks of the members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use libi::{Exit, FrontEnd, LaunchOptions, Stream};
use libi_core::plan::Strategy;
use libi_core::sim::rng::Rng;

use crate::{moments, seeded};
use libi_testkit::local::*;
use libi_testkit::play::play;
use libi_testkit::stream::drawn;

const STEPS: usize = 150;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    /// It has no children.
    Local,
    /// It has at most local members below it.
    Leaf,
    /// It has leaders below it.
    Middle,
}

impl Victim {
    /// Hosts and trees with such a victim.
    const fn shapes(self) -> [(&'static str, &'static str); 3] {
        match self {
            Self::Local => [("n[1-8]:2", "late"), ("a:5,b:5,c:3", "flat"), ("n[1-9]:3", "kary:2")],
            Self::Leaf => [("n[1-8]:2", "late"), ("a:5,b:5,c:3", "flat"), ("n[1-6]", "chain")],
            Self::Middle => [("n[1-8]:2", "binomial"), ("n[1-6]", "chain"), ("n[1-9]:3", "kary:2")],
        }
    }
}

/// For each rank: its process, and the rank of its parent if that is a member.
struct Tree(BTreeMap<u32, (i32, Option<u32>)>);

impl Tree {
    /// Every member has made a file named by its rank and its process.
    fn new(lab: &Lab, size: u32) -> Self {
        let mut pids = BTreeMap::new();
        eventually("all members are there", || {
            pids = lab.names().iter().filter_map(|name| rank_and_pid(name)).collect();
            pids.len() == size as usize
        });
        let rank_of = |pid: i32| pids.iter().find(|(_, other)| **other == pid).map(|(rank, _)| *rank);
        let parent = |pid: i32| rank_of(status(pid, "PPid").unwrap().parse().unwrap());
        Self(pids.iter().map(|(rank, pid)| (*rank, (*pid, parent(*pid)))).collect())
    }

    /// A rank and everything below it.
    fn below(&self, rank: u32) -> BTreeSet<u32> {
        let children = self.0.iter().filter(|(_, (_, parent))| *parent == Some(rank));
        children.flat_map(|(child, _)| self.below(*child)).chain([rank]).collect()
    }

    /// A member of this kind, if there is one.
    fn find(&self, victim: Victim, hosts: &BTreeMap<u32, u32>, rng: &mut Rng) -> Option<u32> {
        let leads = |rank: u32| self.below(rank).iter().any(|below| hosts[below] != hosts[&rank]);
        let is_local = |rank: u32| hosts.iter().any(|(other, host)| *other < rank && *host == hosts[&rank]);
        let fits = |rank: &u32| {
            *rank != 0
                && match victim {
                    Victim::Local => is_local(*rank),
                    Victim::Leaf => !is_local(*rank) && !leads(*rank),
                    Victim::Middle => leads(*rank),
                }
        };
        let all: Vec<u32> = self.0.keys().copied().filter(fits).collect();
        all.get(rng.below(all.len().max(1) as u64) as usize).copied()
    }
}

fn rank_and_pid(name: &str) -> Option<(u32, i32)> {
    let (rank, pid) = name.strip_prefix("at-")?.split_once('-')?;
    Some((rank.parse().ok()?, pid.parse().ok()?))
}

/// Runs a stream in which a member is killed, and checks the results. Returns how long the stream
/// took.
fn run(
    hosts: &str,
    strategy: Strategy,
    seed: u64,
    kill_after: Option<(Victim, Duration)>,
    rng: &mut Rng,
) -> Duration {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let words = [
        "join",
        &format!("touch:{}", lab.path("at-{rank}-{pid}")),
        &format!("await:{}", lab.path("go")),
        &format!("stream:{seed}:{STEPS}:{}", lab.path("")),
        &format!("touch:{}", lab.path("judged-{rank}")),
        &format!("await:{}", lab.path("end")),
        "finish:30000",
    ];
    let options = LaunchOptions::local().strategy(strategy);
    let session = launch_with(&front, &[lab.members(hosts, &words)], &options);
    let tree = Tree::new(&lab, session.size());
    let layout = session.layout();
    let places =
        (0..session.size()).map(|rank| (rank, layout.host_of(libi::Rank(rank)).unwrap().0)).collect();
    let mut gone = BTreeSet::new();
    let steps = drawn(seed, session.size(), STEPS);
    let began = Instant::now();
    lab.touch("go");
    let mut lasts = Duration::ZERO;
    std::thread::scope(|scope| {
        let front_end = scope.spawn(|| {
            let right = |step, nth, answer: Result<_, _>| {
                answer
                    .map(drop)
                    .map_err(|error| format!("the front end's call {nth} of step {step}: {error}"))
            };
            play(&steps, &session, TIMEOUT, right)
        });
        if let Some((victim, moment)) = kill_after {
            let rank = tree.find(victim, &places, rng).expect("there is such a victim");
            std::thread::sleep(moment.saturating_sub(began.elapsed()));
            println!("  {victim:?}, rank {rank}, is killed after {moment:?}");
            gone = tree.below(rank);
            kill(tree.0[&rank].0, libc::SIGKILL);
        }
        all_who_are_left(&lab, &tree, &gone, "over");
        lasts = began.elapsed();
        assert_eq!(front_end.join().unwrap(), Ok(()));
    });
    eventually("all who hung on it are gone", || gone.iter().all(|rank| !lives(tree.0[rank].0)));
    let list: Vec<String> = gone.iter().map(u32::to_string).collect();
    lab.write("gone", &list.join(" "));
    // A member that ends is lost to the others as well.
    all_who_are_left(&lab, &tree, &gone, "judged");
    lab.touch("end");
    let heard = Heard::all(&front);
    for rank in (0..session.size()).filter(|rank| !gone.contains(rank)) {
        let said = heard.text(rank, Stream::Err);
        assert_eq!(
            heard.exits.get(&rank),
            Some(&Exit::Code(0)),
            "rank {rank} on {hosts}, seed {seed}: {said}"
        );
    }
    drop(session);
    lab.is_empty_within(SOON);
    lasts
}

/// Waits until all survivors have made such a file or have ended.
fn all_who_are_left(lab: &Lab, tree: &Tree, gone: &BTreeSet<u32>, file: &str) {
    eventually(&format!("all who are left are {file}"), || {
        let mut others = tree.0.iter().filter(|(rank, _)| !gone.contains(rank));
        others.all(|(rank, (pid, _))| lab.has(&format!("{file}-{rank}")) || !lives(*pid))
    });
}

/// Whether a process is running.
fn lives(pid: i32) -> bool {
    status(pid, "State").is_some_and(|state| !state.starts_with('Z'))
}

fn kill_at_random_moments(victim: Victim) {
    let mut rng = seeded().fork(victim as u64);
    for moment in 0..moments() {
        let (hosts, strategy) = victim.shapes()[moment as usize % 3];
        let (strategy, seed) = (strategy.parse().unwrap(), rng.below(1 << 32));
        println!("stream {seed} on {hosts}");
        let lasts = run(hosts, strategy, seed, None, &mut rng);
        let after = lasts.mul_f64(rng.unit());
        run(hosts, strategy, seed, Some((victim, after)), &mut rng);
    }
}

#[test]
fn a_killed_local_member_is_named_to_the_members_that_need_it() {
    kill_at_random_moments(Victim::Local);
}

#[test]
fn a_killed_leader_is_named_with_its_members() {
    kill_at_random_moments(Victim::Leaf);
}

#[test]
fn a_killed_leader_of_leaders_is_named_with_its_whole_subtree() {
    kill_at_random_moments(Victim::Middle);
}
