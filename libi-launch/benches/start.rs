//! How many processes one thread can start per second, compared with other ways to start them; from
//! a small process, and from one with 2 GB of heap in 4 KiB pages, like the front end of a
//! debugger.
//!
//! `cargo bench -p libi-launch --bench start` prints medians over runs in one process, with the
//! worst and the best run. Each start includes waiting for the end of the process. The ways
//! alternate, so that other load affects all of them alike. It needs about 30 s and 2 GB of memory.
#![allow(unsafe_code, reason = "the baselines are calls to the operating system")]

use std::process::{Command, Stdio};
use std::ptr;
use std::time::{Duration, Instant};

use libi_core::dist::OsBytes;
use libi_launch::process::{Environment, Start, WatchMethod};

const RUNS: usize = 7;
const RUN: Duration = Duration::from_millis(250);
const HEAP: usize = 2 << 30;

fn main() {
    println!("{:<44} {:>9}  (least … most)", "starts of /bin/true in a second", "median");
    let small = measure("small process");
    let heap = Heap::touched(HEAP);
    let large = measure("2 GB heap");
    drop(heap);
    for ((way, small), (_, large)) in small.iter().zip(&large) {
        println!("{way}: with the heap {:.2} of the rate without", large / small);
    }
}

/// The median rates of all ways.
fn measure(what: &str) -> Vec<(&'static str, f64)> {
    let start = Start::new(OsBytes::new(*b"/bin/true").unwrap_or_default(), Environment::inherited());
    let thread = Start { watch_method: WatchMethod::Thread, ..start.clone() };
    let ways: [(&str, &dyn Fn()); 5] = [
        ("libi", &|| libi(&start)),
        ("libi, without pidfds", &|| libi(&thread)),
        ("posix_spawn", &posix_spawn),
        ("std::process::Command", &command),
        ("fork and exec", &fork),
    ];
    let mut rates = ways.map(|_| Vec::with_capacity(RUNS));
    for _ in 0..RUNS {
        for ((_, way), rates) in ways.iter().zip(&mut rates) {
            rates.push(rate(way));
        }
    }
    ways.iter()
        .zip(&mut rates)
        .map(|((way, _), rates)| {
            rates.sort_by(f64::total_cmp);
            let median = rates[RUNS / 2];
            println!(
                "{:<44} {median:>9.0}  ({:.0} … {:.0})",
                format!("{what}: {way}"),
                rates[0],
                rates[RUNS - 1]
            );
            (*way, median)
        })
        .collect()
}

/// Starts per second over one run.
fn rate(way: &dyn Fn()) -> f64 {
    way();
    let begin = Instant::now();
    let mut starts = 0;
    while begin.elapsed() < RUN {
        way();
        starts += 1;
    }
    f64::from(starts) / begin.elapsed().as_secs_f64()
}

fn libi(start: &Start<'_>) {
    let mut child = start.start().expect("/bin/true starts");
    child.wait_for(Duration::from_secs(10)).expect("and ends");
}

fn command() {
    Command::new("/bin/true").stdin(Stdio::null()).status().expect("/bin/true starts");
}

unsafe extern "C" {
    static environ: *const *mut libc::c_char;
}

fn argv() -> [*mut libc::c_char; 2] {
    [c"/bin/true".as_ptr().cast_mut(), ptr::null_mut()]
}

fn posix_spawn() {
    let mut pid = 0;
    // SAFETY: the tables are null-terminated and outlive the call; no thread changes the
    // environment.
    let error = unsafe {
        libc::posix_spawn(&raw mut pid, argv()[0], ptr::null(), ptr::null(), argv().as_ptr(), environ)
    };
    assert_eq!(error, 0);
    wait(pid);
}

fn fork() {
    // SAFETY: this process has one thread, so the child may call anything; it executes or exits.
    let pid = unsafe { libc::fork() };
    assert_ne!(pid, -1);
    if pid == 0 {
        // SAFETY: the tables are null-terminated and outlive the calls.
        unsafe {
            libc::execve(argv()[0], argv().as_ptr().cast(), environ.cast());
            libc::_exit(127);
        }
    }
    wait(pid);
}

fn wait(pid: i32) {
    // SAFETY: no status is asked for.
    assert_eq!(unsafe { libc::waitpid(pid, ptr::null_mut(), 0) }, pid);
}

/// Memory with every page written to.
struct Heap {
    base: *mut libc::c_void,
    len: usize,
}

impl Heap {
    fn touched(len: usize) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory; huge pages are declined before it is touched, because there would be
        // few to copy; one byte of each page inside it is written.
        unsafe {
            let base = libc::mmap(ptr::null_mut(), len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
            assert_ne!(base, libc::MAP_FAILED);
            libc::madvise(base, len, libc::MADV_NOHUGEPAGE);
            for page in (0..len).step_by(4096) {
                base.cast::<u8>().add(page).write_volatile(1);
            }
            Self { base, len }
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: mapped by `touched`, and not used elsewhere.
        unsafe { libc::munmap(self.base, self.len) };
    }
}
