//! Measures whole launches on this machine, and the memory they use, beside hand-written baselines.
//!
//! `cargo bench --bench launch [PART] [ROUNDS]` prints the median, minimum
//! and maximum over rounds (5 unless given). Each round runs every row of a table once, so that
//! other load on the machine affects all rows alike; a ratio is the median of the ratios of the
//! rounds. The parts, all of them unless one is named:
//!
//! - `local`: 1,000 members on this machine, beside a loop around `posix_spawn`;
//! - `model`: 512 hosts through a stand-in for ssh with known costs, beside the prediction;
//! - `trees`: the same with REM varying by 50 %, beside trees that are decided in advance;
//! - `busy`: the same while two processes per core keep the machine busy;
//! - `places`: 128 hosts where a launching host makes 1, 2 or 4 launches at a time, beside the optimum;
//! - `shell`: 16 and 512 hosts through the stand-in at no cost, beside a loop that calls it 32 at a time;
//! - `memory`: the memory of a front end per host, and of members.
//!
//! All parts take about ten minutes. The program launches itself. Launches of 10,000 hosts are
//! simulated: `cargo bench -p libi-launch --bench launches`.
#![allow(unsafe_code, reason = "the baselines are calls to the operating system")]
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

mod by_hand;
mod memory;

use std::cell::Cell;
use std::ffi::CString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libi::{
    Agent, Backend, Distribution, Engine, FrontEnd, LaunchOptions, LaunchReport, LinkPolicy, Member, OsBytes,
    Output, Policy, Programs, Shell,
};
use libi_core::cost::Cost;
use libi_testkit::programs;
use libi_trace::Prediction;

use self::by_hand::by_hand;
use self::memory::{kib, memory};

const SEQ: Duration = Duration::from_millis(7);
const REM: Duration = Duration::from_millis(172);
/// The constant cost of a launch.
const CONSTANT: Duration = Duration::from_millis(20);
const HOSTS: u32 = 512;
const TIMEOUT: Duration = Duration::from_secs(60);

type Part = (&'static str, fn(usize));

fn main() {
    if std::env::var_os("LIBI_LINK").is_some() {
        return work();
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let part = words.first().map_or("", String::as_str);
    if part == NOTHING {
        return;
    }
    let rounds = words.get(1).map_or(5, |rounds| rounds.parse().unwrap());
    let parts: [Part; 7] = [
        ("local", local),
        ("model", model),
        ("trees", trees),
        ("busy", busy),
        ("places", places),
        ("shell", shell),
        ("memory", memory),
    ];
    for (name, run) in parts {
        if part.is_empty() || part == name {
            run(rounds);
        }
    }
}

/// The argument of a process that ends at once.
const NOTHING: &str = "nothing";
/// The argument of a member that prints its memory use.
const MEMORY: &str = "memory";

/// The program of a member.
fn work() {
    let member = Member::init().unwrap();
    if std::env::args().nth(1).as_deref() == Some(MEMORY) {
        let children = fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let mut children = children.split_whitespace().count();
        for task in fs::read_dir("/proc/self/task").unwrap() {
            let path = task.unwrap().path().join("children");
            children += fs::read_to_string(path).unwrap_or_default().split_whitespace().count();
        }
        println!("{children} {} {}", kib("VmRSS:"), kib("RssAnon:"));
        std::thread::sleep(Duration::from_secs(1));
    }
    member.drain(TIMEOUT).unwrap();
}

fn local(rounds: usize) {
    heading("1,000 members on this machine, joined (wanted: at most 2 times the loop)", "loop");
    let argv = [this_program(), CString::new(NOTHING).unwrap()];
    let in_program = || options().engine(Engine::InProgram);
    let mut ways: [(&str, &dyn Fn() -> Duration); 6] = [
        ("posix_spawn loop, two at a time, 1,000 processes", &|| by_hand(1_000, 2, |_| argv.to_vec())),
        ("1 host with 1,000 members", &|| joined("host:1000", &options()).0),
        ("16 hosts with 64 members", &|| joined("host[00-15]:64", &options()).0),
        ("1,000 hosts with 1 member", &|| joined("host[000-999]", &options()).0),
        ("1 host with 1,000, engine in the program", &|| joined("host:1000", &in_program()).0),
        ("1,000 hosts with 1, the same", &|| joined("host[000-999]", &in_program()).0),
    ];
    take_turns(rounds, &mut ways);
}

/// Factors for SEQ and REM. Launching 512 hosts takes much processor time here: with few cores only
/// slow launches follow the model.
const TIMES: [u32; 2] = [1, 4];

fn model(rounds: usize) {
    println!(
        "\n512 hosts at SEQ 7 ms, REM 172 ms, and at 4 times these (wanted: at most 1.3 times the model)"
    );
    println!("the model: 20 ms, REM for the first host, and the greedy schedule for all");
    println!(
        "{:<10} {:>9} {:>9} {:>6} {:>9} {:>9} {:>9} {:>6}",
        "", "joined", "model", "", "SEQ", "REM", "at these", ""
    );
    for (links, times) in LINKS.into_iter().flat_map(|links| TIMES.map(|times| (links, times))) {
        let mut runs: Vec<_> = (0..rounds)
            .map(|round| {
                let (took, report) = through_lab(links.1, "late", times, round, "");
                (took, report.cost().unwrap_or_default())
            })
            .collect();
        runs.sort_by_key(|(took, _)| *took);
        let (took, cost) = runs[rounds / 2];
        let (told, measured) = (predicted(Cost::new(SEQ * times, REM * times)), predicted(cost));
        println!(
            "{:<10} {:>7.0}ms {:>7.0}ms {:>6.2} {:>7.1}ms {:>7.1}ms {:>7.0}ms {:>6.2}   ({:.0} … {:.0})",
            format!("{} x {times}", links.0),
            millis(took),
            millis(told),
            ratio(took, told),
            millis(cost.seq),
            millis(cost.rem),
            millis(measured),
            ratio(took, measured),
            millis(runs[0].0),
            millis(runs[rounds - 1].0),
        );
    }
}

const LINKS: [(&str, LinkPolicy); 2] = [("channel", LinkPolicy::Channel), ("direct", LinkPolicy::Auto)];

/// Launches 512 hosts through the stand-in, with SEQ and REM multiplied by `times` and REM varying
/// as given. The launcher is told the mean costs in advance.
fn through_lab(
    links: LinkPolicy,
    strategy: &str,
    times: u32,
    seed: usize,
    varies: &str,
) -> (Duration, Arc<LaunchReport>) {
    let (seq, rem) = ((SEQ * times).as_millis(), (REM * times).as_millis());
    let _lab = Lab::new(&format!("seed {seed}\nseq {seq}ms\nrem {rem}ms{varies}\n"));
    let (strategy, cost) = (strategy.parse().unwrap(), Cost::new(SEQ * times, REM * times));
    let options = through_shell().links(links).strategy(strategy).cost(cost);
    joined("n[001-512]", &options)
}

/// The `model` launches on a busy machine.
fn busy(rounds: usize) {
    println!(
        "\n512 hosts at SEQ 28 ms, REM 688 ms beside two busy processes a core; the model says {:.0} ms",
        { millis(predicted(Cost::new(SEQ * 4, REM * 4))) }
    );
    let cores = std::thread::available_parallelism().unwrap().get();
    for (name, links) in LINKS {
        let spin =
            || std::process::Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut busy: Vec<_> = (0..2 * cores).map(|_| spin()).collect();
        let mut times: Vec<_> = (0..rounds).map(|round| through_lab(links, "late", 4, round, "").0).collect();
        for spinning in &mut busy {
            spinning.kill().unwrap();
            spinning.wait().unwrap();
        }
        times.sort();
        println!(
            "{name:<10} {:>7.0} ms   ({:.0} … {:.0})",
            millis(times[rounds / 2]),
            millis(times[0]),
            millis(times[rounds - 1])
        );
    }
}

fn predicted(cost: Cost) -> Duration {
    Prediction::greedy(HOSTS, Cost { constant: CONSTANT, ..cost }).time()
}

fn trees(rounds: usize) {
    for ((name, links), times) in LINKS.into_iter().flat_map(|links| TIMES.map(|times| (links, times))) {
        let title = format!(
            "512 hosts at {times} times SEQ 7 ms, REM 172 ms ± 50 %, links: {name} (wanted: late \
             is the fastest)"
        );
        heading(&title, "late");
        let seed = Cell::new(0);
        let launch = |strategy: &str| {
            seed.set(seed.get() + usize::from(strategy == "late"));
            through_lab(links, strategy, times, seed.get(), "~50%").0
        };
        let mut ways: [(&str, &dyn Fn() -> Duration); 5] = [
            ("late", &|| launch("late")),
            ("greedy, decided in advance", &|| launch("greedy")),
            ("kary:16", &|| launch("kary:16")),
            ("kary:2", &|| launch("kary:2")),
            ("flat", &|| launch("flat")),
        ];
        take_turns(rounds, &mut ways);
    }
}

fn places(rounds: usize) {
    const HOSTS: u64 = 128;
    println!(
        "\n128 hosts, of which each launches 1, 2 or 4 at a time (wanted: at most 1.3 times the optimum)"
    );
    println!("the optimum: every launcher fills its places again and again, and every host is a launcher");
    println!("{:<40} {:>10} {:>18} {:>10} {:>6}", "", "median", "(least … most)", "optimum", "");
    for (name, varies, faults) in
        [("", "", ""), (", ± 50 %", "~50%", ""), (", 2 % of the hosts silent", "", "fault 2% hang\n")]
    {
        for cost in [50, 172, 500] {
            for places in [1, 2, 4] {
                let launch = |seed| {
                    let _lab = Lab::new(&format!("seed {seed}\nplaces {places} {cost}ms{varies}\n{faults}"));
                    last_joined(&format!("n[001-{HOSTS}]"))
                };
                let mut times: Vec<Duration> = (0..rounds).map(launch).collect();
                times.sort();
                // With the front end, HOSTS + 1 launchers in the end.
                let full = (0..).find(|rounds| (1 + places as u64).pow(*rounds) > HOSTS).unwrap();
                let optimum = Duration::from_millis(cost) * full;
                println!(
                    "{:<40} {:>7.0} ms {:>18} {:>7.0} ms {:>6.2}",
                    format!("{places} at a time, {cost} ms each{name}"),
                    millis(times[rounds / 2]),
                    format!("({:.0} … {:.0})", millis(times[0]), millis(times[rounds - 1])),
                    millis(optimum),
                    ratio(times[rounds / 2], optimum)
                );
            }
        }
    }
}

/// How long it takes until all hosts that answer have joined, through agents.
fn last_joined(hosts: &str) -> Duration {
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let mut options = through_shell().agent(agent).programs(Programs::None).policy(Policy::AtLeast(1));
    (options.rules.attempts, options.rules.hello_timeout) = (1, Duration::from_secs(8));
    let front_end = FrontEnd::new().unwrap();
    let session = front_end.launch(&Distribution::idle(hosts), &options).unwrap();
    let report = session.report().unwrap();
    drop((session, front_end));
    let times = report.hosts().iter().filter_map(|host| Some(host.started + host.hello? + host.joined?));
    times.max().unwrap()
}

fn shell(rounds: usize) {
    for (hosts, wanted) in [(16, 2.5), (HOSTS, 1.6)] {
        through_a_shell_at_no_cost(hosts, wanted, rounds);
    }
}

fn through_a_shell_at_no_cost(hosts: u32, wanted: f64, rounds: usize) {
    let what = format!(
        "{hosts} hosts through the stand-in shell at no cost (wanted: at most {wanted} times the loop)"
    );
    heading(&what, "loop");
    let names = format!("n[001-{hosts:03}]");
    let program = this_program().into_string().unwrap();
    let call = |host: u32| {
        let command = format!("exec env -- LIBI_HAND=stdio {program} {NOTHING}");
        [programs::shell().to_owned(), format!("n{host:03}"), command]
            .map(|word| CString::new(word).unwrap())
            .to_vec()
    };
    let told = || through_shell().cost(Cost::default());
    let told_direct = || told().links(LinkPolicy::Auto);
    let in_program = || through_shell().engine(Engine::InProgram);
    let mut ways: [(&str, &dyn Fn() -> Duration); 5] = [
        ("loop around posix_spawn, 32 calls at a time", &|| by_hand(hosts, 32, call)),
        ("libi", &|| joined(&names, &through_shell()).0),
        ("libi, engines in the programs", &|| joined(&names, &in_program()).0),
        ("libi, told that launches cost nothing", &|| joined(&names, &told()).0),
        ("libi, told so, direct links", &|| joined(&names, &told_direct()).0),
    ];
    take_turns(rounds, &mut ways);
}

/// Launches the hosts, waits until all members have ended, and returns how long it took until all
/// had joined.
fn joined(hosts: &str, options: &LaunchOptions) -> (Duration, Arc<LaunchReport>) {
    let distribution = distribution(hosts, "");
    let began = Instant::now();
    let front_end = FrontEnd::new().unwrap();
    let sessions = front_end.launch_all(&[distribution], options).unwrap_or_else(|error| panic!("{error}"));
    let took = began.elapsed();
    let report = sessions[0].report().unwrap();
    sessions[0].wait_done(TIMEOUT).unwrap();
    (took, report)
}

fn distribution(hosts: &str, arg: &str) -> Distribution {
    Distribution::new(std::env::current_exe().unwrap()).arg(arg).hosts(hosts)
}

fn options() -> LaunchOptions {
    LaunchOptions::local().output(Output::Dropped)
}

fn through_shell() -> LaunchOptions {
    let shell = Shell::new(OsBytes::try_from(programs::shell()).unwrap());
    options().backend(Backend::Shell(shell)).links(LinkPolicy::Channel).loopback(true)
}

fn this_program() -> CString {
    CString::new(std::env::current_exe().unwrap().into_os_string().into_encoded_bytes()).unwrap()
}

/// Sets the costs of the stand-in shell while it lives.
struct Lab {
    directory: PathBuf,
}

impl Lab {
    fn new(settings: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("libi-bench-{}", std::process::id()));
        fs::create_dir_all(directory.join("locks")).unwrap();
        let file = directory.join("shell");
        fs::write(&file, format!("{settings}locks locks\n")).unwrap();
        // SAFETY: between launches this process has one thread.
        unsafe { std::env::set_var("LIBI_TEST_SHELL", &file) };
        Self { directory }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // SAFETY: as above.
        unsafe { std::env::remove_var("LIBI_TEST_SHELL") };
        fs::remove_dir_all(&self.directory).unwrap();
    }
}

/// Runs all ways in turns, and prints their durations and their ratio to the first.
fn take_turns(rounds: usize, ways: &mut [(&str, &dyn Fn() -> Duration)]) {
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..rounds {
        for ((_, way), times) in ways.iter().zip(&mut times) {
            times.push(way());
        }
    }
    let first = times[0].clone();
    for ((name, _), times) in ways.iter().zip(&mut times) {
        let mut ratios: Vec<f64> =
            times.iter().zip(&first).map(|(time, first)| ratio(*time, *first)).collect();
        ratios.sort_by(f64::total_cmp);
        times.sort();
        println!(
            "{name:<52} {:>7.0} ms {:>18} {:>6.2}",
            millis(times[rounds / 2]),
            format!("({:.0} … {:.0})", millis(times[0]), millis(times[rounds - 1])),
            ratios[rounds / 2]
        );
    }
}

fn heading(title: &str, first: &str) {
    println!("\n{title}\n{:<52} {:>10} {:>18} {:>6}", "", "median", "(least … most)", format!("/ {first}"));
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
