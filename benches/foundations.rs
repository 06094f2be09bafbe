//! Measures the foundations: plans, host lists, simulated launches.
//!
//! `cargo bench --bench foundations` prints the median, minimum and maximum over several runs in
//! one process, beside the upper limit of each figure. Plans are also compared with the textbook
//! algorithm, which uses a heap. The benchmark needs about a minute and 1 GB of memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libi::hosts::HostList;
use libi_core::cost::Cost;
use libi_core::plan::{Strategy, greedy};
use libi_core::sim::jitter::Jitter;
use libi_core::sim::launch::Setup;

const RUNS: usize = 7;
const SEQ: Duration = Duration::from_millis(7);
const REM: Duration = Duration::from_millis(172);

fn main() {
    println!("{:<58} {:>9}  {:>21}  at most", "", "median", "(least … most)");
    plans();
    host_lists();
    simulations();
}

fn plans() {
    for (hosts, bound) in [(100_000, "6 ms"), (1_000_000, "60 ms")] {
        let n = count(hosts);
        let cost = Cost::new(SEQ, REM);
        let merge = time(RUNS, || greedy::plan(n, &cost));
        report(&format!("greedy plan, {hosts} hosts"), &merge, bound);
        let heap = time(RUNS, || plan_with_heap(hosts));
        report(&format!("  baseline: the same tree with a heap, {hosts} hosts"), &heap, "");
        println!("  plan / baseline: {:.2}", median(&merge).as_secs_f64() / median(&heap).as_secs_f64());
    }
    let hosts = 1_000_000;
    let (peak, plan) = peak_memory(|| greedy::plan(count(hosts), &Cost::new(SEQ, REM)));
    drop(plan);
    println!(
        "{:<58} {:>7.1} B  {:>21}  64 B",
        "peak memory of that plan, a host",
        peak as f64 / f64::from(hosts),
        ""
    );
}

fn host_lists() {
    const BOUND: &str = "300 ms";
    let range = "node[000000-999999]".to_owned();
    let names: Vec<String> = (0..1_000_000).map(|i| format!("node{i:06}")).collect();
    for (what, text) in [("as a range", range), ("as a list of names", names.join(","))] {
        let both = time(RUNS, || HostList::parse(&text).map(|list| list.fold()));
        report(&format!("1000000 hosts {what}: parse and fold"), &both, BOUND);
    }
}

fn simulations() {
    const BOUND: &str = "10 s";
    let mut setup = Setup::new(count(1_000_000), Strategy::Late, &Cost::new(SEQ, REM));
    report("late-commit launch of 1000000 hosts, simulated", &time(3, || setup.run(0)), BOUND);
    setup.rem = Jitter::Uniform { middle: REM, within: 0.5 };
    report("  the same, REM ±50 %", &time(3, || setup.run(0)), BOUND);
}

/// The greedy tree by the textbook algorithm: a heap yields the host that can launch next.
fn plan_with_heap(hosts: u32) -> (Vec<u32>, Vec<u64>) {
    let (seq, rem) = (SEQ.as_nanos() as u64, REM.as_nanos() as u64);
    let mut free = BinaryHeap::from([Reverse((0u64, 0u32))]);
    let mut parents = vec![0];
    let mut ready = vec![0];
    while let Some(Reverse((slot, node))) = free.pop()
        && parents.len() < hosts as usize
    {
        let child = parents.len() as u32;
        parents.push(node);
        ready.push(slot + rem);
        free.push(Reverse((slot + seq, node)));
        free.push(Reverse((slot + rem, child)));
    }
    (parents, ready)
}

fn count(hosts: u32) -> NonZeroU32 {
    NonZeroU32::new(hosts).unwrap_or(NonZeroU32::MIN)
}

/// The durations of several runs in ascending order. Results are dropped outside the measured time.
fn time<T>(runs: usize, mut work: impl FnMut() -> T) -> Vec<Duration> {
    black_box(work()); // the first run pays for the memory of all
    let mut times: Vec<_> = (0..runs)
        .map(|_| {
            let start = Instant::now();
            let result = black_box(work());
            let took = start.elapsed();
            drop(result);
            took
        })
        .collect();
    times.sort();
    times
}

fn median(times: &[Duration]) -> Duration {
    times[times.len() / 2]
}

fn report(what: &str, times: &[Duration], bound: &str) {
    let millis = |time: Duration| time.as_secs_f64() * 1e3;
    let range = format!("({:.1} … {:.1})", millis(times[0]), millis(times[times.len() - 1]));
    println!("{what:<58} {:>6.1} ms  {range:>21}  {bound}", millis(median(times)));
}

/// Counts allocated bytes.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on to the system's allocator unchanged; counting touches none of its
// memory.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(NOW.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is also the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from `alloc` above, hence from the system.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The peak of memory used during the work, beyond what was in use before.
fn peak_memory<T>(work: impl FnOnce() -> T) -> (usize, T) {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    (PEAK.load(Relaxed) - before, result)
}
