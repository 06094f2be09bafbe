//! Measures what the C interface costs: calls, and the time until a process has joined.
//!
//! `cargo bench --bench boundary [ROUNDS]` prints the median, minimum and maximum over rounds (15
//! unless given). Members in C and in Rust take turns in the same run:
//!
//! - one barrier, and one broadcast of 64 bytes, each as the mean of 2,000, in sessions of 2
//!   members on one host and of 16 on 4, each host led apart from its members and by the first of
//!   them;
//! - the time from the start of a process until it has joined, for a program in C with the shared
//!   library, one with the static library, and one in Rust, beside a process that only connects a
//!   socket.
//!
//! It needs a C compiler. The library is built in release mode; `packaging/README.md` lists the
//! sizes of what is installed.
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use libi::{Bytes, Distribution, Engine, FrontEnd, LaunchOptions, Member, Rank, Session};

use libi_testkit::native;
use libi_testkit::native::Link;

const TIMEOUT: Duration = Duration::from_secs(60);
const TIMES: usize = 2_000;

fn main() {
    if std::env::var_os("LIBI_LINK").is_some() {
        return work();
    }
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(15);
    let shared = compile("boundary", "member.c", Link::Shared);
    let whole = compile("boundary", "member.c", Link::Static);
    let rust = std::env::current_exe().unwrap();
    println!("{:<44} {:>10} {:>23} {:>9}", "", "median", "(least … most)", "/ first");
    for hosts in ["a:2", "a[1-4]:4"] {
        calls(hosts, &[("in Rust", &rust), ("in C", &shared)], rounds);
    }
    joining(&[("in Rust", &rust), ("in C, shared", &shared), ("in C, static", &whole)], rounds * 3);
}

fn compile(name: &str, source: &str, link: Link) -> PathBuf {
    native::compile(name, &[&format!("benches/boundary/{source}")], link, &[])
}

/// The program of a member in Rust.
fn work() {
    let member = Member::init().unwrap();
    while std::env::args().len() == 1 {
        // As in C.
        let order = member.is_master().then(|| member.recv().wait(TIMEOUT).unwrap());
        let order = member.broadcast(Rank(0), order).wait(TIMEOUT).unwrap();
        let order = String::from_utf8(order.to_vec()).unwrap();
        let Some((what, times)) = order.split_once(' ') else { break };
        let times: u32 = times.parse().unwrap();
        let began = Instant::now();
        if what == "barrier" {
            (0..times).for_each(|_| member.barrier().wait(TIMEOUT).unwrap());
        } else {
            let data = Bytes::from(vec![0; 64]);
            for _ in 0..times {
                let mut bytes = [0_u8; 64];
                // As in C: the member owns the bytes to send, and a place for the received ones.
                let given = member.is_master().then(|| Bytes::copy_from_slice(&data));
                bytes.copy_from_slice(&member.broadcast(Rank(0), given).wait(TIMEOUT).unwrap());
                std::hint::black_box(bytes);
            }
            member.barrier().wait(TIMEOUT).unwrap();
        }
        let each = began.elapsed().as_nanos() / u128::from(times);
        if member.is_master() {
            member.send(each.to_string()).wait(TIMEOUT).unwrap();
        }
    }
    member.drain(TIMEOUT).unwrap();
}

fn launch(front: &FrontEnd, program: &Path, hosts: &str, args: &[&str], engine: Engine) -> Session {
    let members = Distribution::new(program).args(args).hosts(hosts);
    front.launch(&members, &LaunchOptions::local().engine(engine)).unwrap()
}

/// Measures calls, in sessions that are up side by side and take turns.
fn calls(hosts: &str, programs: &[(&str, &Path)], rounds: usize) {
    let front = FrontEnd::new().unwrap();
    let (mut names, mut sessions) = (Vec::new(), Vec::new());
    for (engine, how) in [(Engine::Apart, ""), (Engine::InProgram, ", in program")] {
        for (name, program) in programs {
            names.push(format!("{name}{how}"));
            sessions.push(launch(&front, program, hosts, &[], engine));
        }
    }
    for what in ["barrier", "broadcast"] {
        let mut times = vec![Vec::new(); sessions.len()];
        for round in 0..=rounds {
            for (session, times) in sessions.iter().zip(&mut times) {
                session.send(format!("{what} {TIMES}")).wait(TIMEOUT).unwrap();
                let each = session.recv().wait(TIMEOUT).unwrap();
                let each: u64 = std::str::from_utf8(&each).unwrap().parse().unwrap();
                if round > 0 {
                    times.push(Duration::from_nanos(each));
                }
            }
        }
        let first = median(&mut times[0]);
        for (name, times) in names.iter().zip(&mut times) {
            row(&format!("{what}, {} members, {name}", sessions[0].size()), times, first);
        }
    }
    for session in &sessions {
        session.send(Bytes::new()).wait(TIMEOUT).unwrap();
        session.wait_done(TIMEOUT).unwrap();
    }
}

/// Measures the time until a process has joined.
fn joining(programs: &[(&str, &Path)], rounds: usize) {
    let bare = compile("bare", "bare.c", Link::Static);
    let front = FrontEnd::new().unwrap();
    let mut times = vec![Vec::new(); programs.len()];
    let mut bares = Vec::new();
    for _ in 0..rounds {
        bares.push(connect(&bare));
        for ((_, program), times) in programs.iter().zip(&mut times) {
            let began = Instant::now();
            let session = launch(&front, program, "a", &["join"], Engine::default());
            times.push(began.elapsed());
            session.wait_done(TIMEOUT).unwrap();
        }
    }
    let first = median(&mut bares);
    row("a process that connects a socket", &mut bares, first);
    for ((name, _), times) in programs.iter().zip(&mut times) {
        row(&format!("a session of one member, {name}"), times, first);
    }
}

/// The time from the start of a process until it has connected.
fn connect(program: &PathBuf) -> Duration {
    let place = native::scratch().join(format!("bare.{}.socket", std::process::id()));
    let listener = UnixListener::bind(&place).unwrap();
    let began = Instant::now();
    let mut child = Command::new(program).arg(&place).spawn().unwrap();
    let connection = listener.accept().unwrap();
    let took = began.elapsed();
    drop(connection);
    assert!(child.wait().unwrap().success());
    std::fs::remove_file(&place).unwrap();
    took
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn row(what: &str, times: &mut [Duration], first: Duration) {
    let middle = median(times);
    let micros = |time: Duration| format!("{:.2} µs", time.as_nanos() as f64 / 1e3);
    let range = format!("({} … {})", micros(times[0]), micros(times[times.len() - 1]));
    let ratio = middle.as_secs_f64() / first.as_secs_f64();
    println!("{what:<44} {:>10} {range:>23} {ratio:>9.3}", micros(middle));
}
