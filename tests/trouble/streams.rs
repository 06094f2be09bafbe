//! Members are killed during all kinds of operations. The survivors continue, and each of their
//! calls ends in time with its result or with an error that names the lost members.
//! `member/stream.rs` has the checks of the members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use libi::{Engine, Exit, FrontEnd, LaunchOptions, Stream};
use libi_core::plan::Strategy;
use libi_core::sim::rng::Rng;

use crate::{moments, seeded};
use libi_testkit::local::*;
use libi_testkit::play::play;
use libi_testkit::processes::with_ancestors;
use libi_testkit::stream::drawn;

const STEPS: usize = 150;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    /// A process that costs one member, which is not the only one of its host.
    Local,
    /// A process that costs the members of one host.
    Leaf,
    /// A process that costs the members of several hosts.
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

/// For each rank: its process, and those above it, from the nearest on.
struct Tree(BTreeMap<u32, Vec<i32>>);

impl Tree {
    /// Every member has made a file named by its rank and its process.
    fn new(lab: &Lab, size: u32) -> Self {
        let mut pids = BTreeMap::new();
        eventually("all members are there", || {
            pids = lab.names().iter().filter_map(|name| rank_and_pid(name)).collect();
            pids.len() == size as usize
        });
        let ours = std::process::id() as i32;
        let up = |pid: i32| with_ancestors(pid).into_iter().take_while(|pid| *pid != ours).collect();
        Self(pids.iter().map(|(rank, pid)| (*rank, up(*pid))).collect())
    }

    fn process(&self, rank: u32) -> i32 {
        self.0[&rank][0]
    }

    /// The ranks that end with a process.
    fn below(&self, pid: i32) -> BTreeSet<u32> {
        self.0.iter().filter(|(_, up)| up.contains(&pid)).map(|(rank, _)| *rank).collect()
    }

    /// A process of this kind, if there is one. The first member does not end with it.
    fn find(&self, victim: Victim, hosts: &BTreeMap<u32, u32>, rng: &mut Rng) -> Option<i32> {
        let fits = |pid: &i32| {
            let below = self.below(*pid);
            let on: BTreeSet<u32> = below.iter().map(|rank| hosts[rank]).collect();
            let beside = hosts.iter().any(|(rank, host)| on.contains(host) && !below.contains(rank));
            !below.contains(&0)
                && match victim {
                    Victim::Local => below.len() == 1 && beside,
                    Victim::Leaf => on.len() == 1 && !beside,
                    Victim::Middle => on.len() > 1,
                }
        };
        let all: BTreeSet<i32> = self.0.values().flatten().copied().collect();
        let all: Vec<i32> = all.into_iter().filter(fits).collect();
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
    engine: Engine,
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
    let options = LaunchOptions::local().engine(engine).strategy(strategy);
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
            let pid = tree.find(victim, &places, rng).expect("there is such a victim");
            std::thread::sleep(moment.saturating_sub(began.elapsed()));
            gone = tree.below(pid);
            println!("  {victim:?}, which costs the ranks {gone:?}, is killed after {moment:?}");
            kill(pid, libc::SIGKILL);
        }
        all_who_are_left(&lab, &tree, &gone, "over");
        lasts = began.elapsed();
        assert_eq!(front_end.join().unwrap(), Ok(()));
    });
    eventually("all who hung on it are gone", || gone.iter().all(|rank| !lives(tree.process(*rank))));
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
        let mut others = tree.0.keys().filter(|rank| !gone.contains(rank));
        others.all(|rank| lab.has(&format!("{file}-{rank}")) || !lives(tree.process(*rank)))
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
        let engine = if rng.chance(0.5) { Engine::Apart } else { Engine::InProgram };
        println!("stream {seed} on {hosts}, {engine:?}");
        let lasts = run(engine, hosts, strategy, seed, None, &mut rng);
        let after = lasts.mul_f64(rng.unit());
        run(engine, hosts, strategy, seed, Some((victim, after)), &mut rng);
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
