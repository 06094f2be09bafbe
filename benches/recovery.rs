//! Measures for how long the calls of a session stand still when a host dies, with calls that go on.
//!
//! `cargo bench --bench recovery [channel] [HOSTS] [KILLS] [SESSIONS]` has members on 64 hosts make barriers
//! all the time, and kills all processes of a host, 8 times in each of 4 sessions for each shape of the
//! tree: in turns one that had hosts below it, which then find another parent, and one that had none.
//! Hosts are reached by a stand-in for ssh at no cost and are all this machine, and links are direct, or
//! stay in the channels, where hosts find another parent by helpers. A time is from the kill until the last
//! survivor has completed a barrier without the lost; it contains what noticing the loss and agreeing on it
//! take. The output is a table in Markdown.
//!
//! The program launches itself as the members.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use libi::{Distribution, Engine, Event, FrontEnd, LinkPolicy, Member, OnLoss, Shape, Strategy, Stream};
use libi_testkit::testbed::Testbed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

const TIMEOUT: Duration = Duration::from_secs(60);

fn main() {
    if std::env::var_os("LIBI_LINK").is_some() {
        return work();
    }
    let stays = std::env::args().any(|word| word == "channel");
    let links = if stays { LinkPolicy::Channel } else { LinkPolicy::Direct };
    let words: Vec<u32> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let number = |nth: usize, default| words.get(nth).copied().unwrap_or(default);
    let (hosts, kills, sessions) = (number(0, 64), number(1, 8), number(2, 4));
    println!("| {hosts} hosts, tree | the lost host | losses | median | worst |\n|---|---|---|---|---|");
    let two = Strategy::Static(Shape::Kary(2.try_into().unwrap()));
    for (name, strategy) in
        [("late", Strategy::Late), ("binary", two), ("chain", Strategy::Static(Shape::Chain))]
    {
        let mut times: BTreeMap<bool, Vec<Duration>> = BTreeMap::new();
        for _ in 0..sessions {
            measure(hosts, kills, (strategy, links), &mut times);
        }
        for (is_inner, mut times) in times {
            times.sort();
            let [median, worst] =
                [times[times.len() / 2], times[times.len() - 1]].map(|took| took.as_secs_f64() * 1e3);
            let below = if is_inner { "others below it" } else { "none below it" };
            println!("| {name} | {below} | {} | {median:.0} ms | {worst:.0} ms |", times.len());
        }
    }
}

/// Since a moment that all processes of this machine know.
fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

/// A member says which processes its host has, and then, of each number of lost members, when it has first
/// completed a barrier without so many.
fn work() {
    let member = Member::init().unwrap();
    println!("0 {} {}", std::process::id(), std::os::unix::process::parent_id());
    let mut known = 0;
    while let Ok(((), missing)) = member.barrier().wait_with_missing(TIMEOUT) {
        if missing.len() > known {
            known = missing.len();
            println!("{known} {}", now().as_micros());
        }
    }
}

/// What the members of a session have printed.
struct Printed {
    front: FrontEnd,
    lines: BTreeMap<u32, Vec<Vec<u64>>>,
}

impl Printed {
    /// Waits until all of these members have completed a barrier without so many. Returns the line of each
    /// that says so.
    fn since(&mut self, ranks: &BTreeSet<u32>, lost: u64) -> Vec<Vec<u64>> {
        loop {
            let line = |rank| self.lines.get(rank)?.iter().find(|line| line[0] >= lost).cloned();
            let lines: Option<Vec<_>> = ranks.iter().map(line).collect();
            if let Some(lines) = lines {
                return lines;
            }
            let event = self.front.next_event(TIMEOUT).expect("all survivors go on");
            if let Event::Output { rank, stream: Stream::Out, bytes, .. } = event {
                let text = String::from_utf8(bytes).unwrap();
                let numbers = |line: &str| line.split(' ').map(|word| word.parse().unwrap()).collect();
                self.lines.entry(rank.0).or_default().extend(text.lines().map(numbers));
            }
        }
    }
}

fn measure(
    hosts: u32,
    kills: u32,
    (strategy, links): (Strategy, LinkPolicy),
    times: &mut BTreeMap<bool, Vec<Duration>>,
) {
    let testbed = Testbed::new("");
    let options = testbed.options(links);
    let options = options.engine(Engine::Apart).strategy(strategy).on_loss(OnLoss::Continue);
    let distribution =
        Distribution::new(std::env::current_exe().unwrap()).hosts(format!("n[0001-{hosts:04}]").as_str());
    let front = FrontEnd::new().unwrap();
    let session = front.launch(&distribution, &options).unwrap();
    let report = session.report().unwrap();
    let mut above: BTreeMap<u32, u32> =
        (0..).zip(report.hosts()).filter_map(|(host, report)| Some((host, report.launcher?.0))).collect();
    let mut left: BTreeSet<u32> = (0..hosts).collect();
    let mut printed = Printed { front, lines: BTreeMap::new() };
    let processes: Vec<Vec<u64>> = printed.since(&left, 0);
    for nth in 0..kills {
        let is_inner = nth % 2 == 0;
        let has_others = |host: &u32| above.values().any(|launcher| launcher == host);
        // All calls go through the first host.
        let victims: Vec<u32> =
            left.iter().copied().filter(|host| *host != 0 && has_others(host) == is_inner).collect();
        let Some(&victim) = victims.get(victims.len() / 2) else { continue };
        left.remove(&victim);
        let launcher = above.remove(&victim).unwrap();
        above.values_mut().filter(|parent| **parent == victim).for_each(|parent| *parent = launcher);
        let began = now();
        // The engine of the host first, which would report how the member has ended.
        for pid in [2, 1].map(|place| processes[victim as usize][place]) {
            kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
        }
        let lines = printed.since(&left, u64::from(hosts) - left.len() as u64);
        let last = lines.iter().map(|line| Duration::from_micros(line[1])).max().unwrap();
        times.entry(is_inner).or_default().push(last - began);
    }
    session.terminate(Duration::from_secs(2)).unwrap();
    session.wait_done(TIMEOUT).unwrap();
    drop((session, printed));
    testbed.nothing_is_left();
}
