//! The part `memory`, and the allocator that counts for it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use libi::{Event, FrontEnd, Output};

use crate::{MEMORY, TIMEOUT, distribution, options};

pub(crate) fn memory(_: usize) {
    println!("\nmemory, 1,000 members on this machine");
    for hosts in ["host:1000", "host[000-999]"] {
        let (heap, resident) = (HEAP.load(Relaxed), kib("VmRSS:"));
        let front_end = FrontEnd::new().unwrap();
        let options = options().output(Output::Events);
        let sessions = front_end.launch_all(&[distribution(hosts, MEMORY)], &options).unwrap();
        let (heap, peak) = (HEAP.load(Relaxed).wrapping_sub(heap), PEAK.load(Relaxed).wrapping_sub(heap));
        println!("{hosts}");
        println!(
            "  front end, a member: heap {:.0} B, peak {:.0} B; resident {:.2} KiB",
            heap as f64 / 1e3,
            peak as f64 / 1e3,
            kib("VmRSS:").saturating_sub(resident) as f64 / 1e3
        );
        let mut members: Vec<(u64, u64, u64)> = Vec::new();
        while let Some(event) = front_end.next_event(TIMEOUT) {
            match event {
                Event::Output { bytes, .. } => {
                    for line in String::from_utf8_lossy(&bytes).lines() {
                        let mut numbers = line.split(' ').map(|number| number.parse().unwrap());
                        let mut next = || numbers.next().unwrap();
                        members.push((next(), next(), next()));
                    }
                }
                Event::Done { .. } => break,
                _ => {}
            }
        }
        drop(sessions);
        members.sort_unstable();
        let leaves = members.partition_point(|(children, _, _)| *children == 0);
        let line = |what: &str, member: Option<&(u64, u64, u64)>| {
            if let Some((children, resident, own)) = member {
                println!(
                    "  {what} with {children} children: VmRSS {resident} KiB, of which RssAnon {own} KiB"
                );
            }
        };
        line("the median member", members.get(leaves / 2));
        line("the busiest member", members.last().filter(|(children, _, _)| *children > 0));
        PEAK.store(HEAP.load(Relaxed), Relaxed);
    }
}

/// A value of `/proc/self/status`, in KiB.
pub(crate) fn kib(what: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Counts allocated bytes.
struct Counting;

static HEAP: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on to the system's allocator unchanged; counting touches none of its
// memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(HEAP.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`, which is also the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        PEAK.fetch_max(HEAP.fetch_add(layout.size(), Relaxed) + layout.size(), Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HEAP.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `at` came from the system, by one of the above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
