//! How fast members communicate over the launch tree on this machine, compared with the bare cost
//! of moving the same bytes through the same kinds of sockets in the same tree of processes.
//!
//! `cargo bench --bench talk [PART] [ROUNDS]` prints medians over rounds
//! (default 5) with the minimum and the maximum. libi and the baseline alternate. The parts, all of
//! them by default:
//!
//! - `sockets`: every call with a root, barrier and messages, one after the other, beside plain
//!   blocking sockets in the same tree, over which a broadcast only goes down and a gather only up;
//! - `broadcast`: 1 GiB (or `LIBI_BENCH_BYTES`) to 16 hosts with 4 members, over direct links,
//!   authenticated and encrypted, compared with a relay that reads and writes to its children;
//! - `barrier`: over 64, 256 and 1,024 members, compared with one token that goes up and down, with
//!   the engine of each host apart and in the program;
//! - `small`: ping, 800 pings by 8 threads at a time, and barriers of 2 and 16 members, in the same
//!   way: where each wake-up of a thread shows;
//! - `calls`: gather and scatter of 4 KiB, allgather of 64 bytes and ring at 1,024 members,
//!   alltoall of 8 bytes at 256, and small broadcasts, one after the other and many at a time;
//! - `memory`: gather of 1 MiB from 256 members: what each process needs in addition to its own
//!   data;
//! - `end`: from the order to end until all have ended, with and without direct links;
//! - `losses`: what it costs to be ready for losses, as long as nothing is lost;
//! - `instructions`: how many a call takes, by valgrind; this part has to be asked for;
//! - `scale`: every call against the number of members; `LIBI_BENCH_SVG=FILE` writes a picture.
//!
//! `try HOSTS EACH local|authenticated|encrypted[,apart][,continue] CALL BYTES TIMES` measures one call in
//! one session, with the engine in the program or apart, and where calls go on without lost members.
//!
//! The program launches itself, as members and as the processes of the baseline.
#![allow(unsafe_code, reason = "the baseline hands descriptors to its processes")]
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]

mod bare;
mod instructions;
mod losses;
mod member;
mod session;

use std::time::Duration;

use libi::{Engine, LaunchOptions, OnLoss};
use libi_core::secure::LinkSecurity;
use libi_trace::curves::{Curve, Curves};

use bare::Wire;
use session::{Bench, Path};

type Part = (&'static str, fn(usize));

fn main() {
    if std::env::var_os("LIBI_LINK").is_some() {
        return member::work();
    }
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let part = words.first().map_or("", String::as_str);
    if part == bare::ROLE {
        return bare::work(&words[1..]);
    }
    bare::raise_limit();
    if part == "try" {
        return attempt(&words[1..]);
    }
    if part == "instructions" {
        return instructions::instructions();
    }
    let rounds = words.get(1).map_or(5, |rounds| rounds.parse().unwrap());
    let parts: [Part; 9] = [
        ("sockets", sockets),
        ("broadcast", broadcast),
        ("barrier", barrier),
        ("small", small),
        ("calls", calls),
        ("memory", memory),
        ("end", end),
        ("losses", losses::losses),
        ("scale", scale),
    ];
    for (name, run) in parts {
        if part.is_empty() || part == name {
            run(rounds);
        }
    }
}

/// `try HOSTS EACH local|authenticated|encrypted[,apart] CALL BYTES TIMES`: one call, measured
/// several times.
fn attempt(words: &[String]) {
    let number = |nth: usize| words[nth].parse().unwrap();
    let place = words[2].strip_suffix(",continue");
    let on_loss = if place.is_some() { OnLoss::Continue } else { OnLoss::Fail };
    let (via, engine) = Path::named(place.unwrap_or(&words[2]));
    let changed = |options: LaunchOptions| options.engine(engine).on_loss(on_loss);
    let session = Bench::launch_by(number(0), number(1), &via, changed);
    let mut times = session.run(&words[3..].join(" "));
    heading("least");
    times.sort();
    let least = times[0];
    row(&words[3..].join(" "), &mut times, least);
}

/// Hosts, and members of each.
const SHAPES: [(u32, u32); 8] = [(1, 2), (2, 1), (1, 16), (4, 4), (16, 1), (1, 64), (16, 4), (64, 1)];

fn sockets(rounds: usize) {
    let calls = ["barrier", "broadcast", "scatter", "gather", "reduce", "ping"];
    let chosen = std::env::var("LIBI_BENCH_SHAPES").ok();
    let direct = |mode| Path::Direct(mode);
    for (name, via, wire, engine) in [
        ("local sockets", Path::Local, Wire::Pair, Engine::InProgram),
        ("direct links, authenticated", direct(LinkSecurity::Authenticated), Wire::Tcp, Engine::InProgram),
        ("direct links, encrypted", direct(LinkSecurity::Encrypted), Wire::Tcp, Engine::InProgram),
        ("local sockets, an engine apart on each host", Path::Local, Wire::Pair, Engine::Apart),
        (
            "direct links, authenticated, an engine apart on each host",
            direct(LinkSecurity::Authenticated),
            Wire::Tcp,
            Engine::Apart,
        ),
    ] {
        println!("\ncalls beside plain sockets in the same tree: {name}; µs a call: libi, sockets, ratio");
        print!("{:<16}", "hosts × members");
        calls.iter().for_each(|call| print!(" {call:>22}"));
        println!(" {:>22}", "front end and back");
        for (hosts, each) in SHAPES {
            let shape = format!("{hosts}x{each}");
            if chosen.as_ref().is_some_and(|chosen| !chosen.split(',').any(|one| one == shape)) {
                continue;
            }
            let session = Bench::launch_with(hosts, each, &via, engine);
            let parents = session.parents();
            for bytes in [64, 64 << 10, 1 << 20] {
                print!("{:<16}", format!("{hosts} × {each}, {}", human(bytes)));
                for call in calls {
                    beside_sockets(&session, &parents, wire, call, bytes, rounds);
                }
                let front = || session.front(bytes, times(2, bytes));
                let bare = || bare::call(&[None, Some(0)], wire, "ping", bytes, times(2, bytes));
                cell(rounds, front, bare);
                println!();
            }
        }
    }
}

/// Prints what a call costs beside plain sockets.
fn beside_sockets(
    session: &Bench,
    parents: &[Option<usize>],
    wire: Wire,
    call: &str,
    bytes: usize,
    rounds: usize,
) {
    let all = parents.len() * bytes;
    if call == "barrier" && bytes > 64 || matches!(call, "gather" | "scatter") && all > 64 << 20 {
        return print!(" {:>22}", "");
    }
    let moved = if matches!(call, "gather" | "scatter") { all } else { bytes };
    let times = times(parents.len(), moved);
    let ours = || session.run(&format!("row {bytes} {times} {call}"))[0];
    cell(rounds, ours, || bare::call(parents, wire, call, bytes, times));
}

/// How often a call is made that moves so many bytes over each link.
fn times(processes: usize, bytes: usize) -> usize {
    (40_000 / processes).min((256 << 20) / (bytes * processes.isqrt())).clamp(3, 2_000)
}

fn cell(rounds: usize, ours: impl Fn() -> Duration, bare: impl Fn() -> Duration) {
    let (mut one, mut other): (Vec<_>, Vec<_>) = (0..rounds).map(|_| (ours(), bare())).unzip();
    let (one, other) = (median(&mut one), median(&mut other));
    let micros = |time: Duration| time.as_secs_f64() * 1e6;
    print!(" {:>22}", format!("{:.0} {:.0} {:.2}", micros(one), micros(other), ratio(one, other)));
}

fn human(bytes: usize) -> String {
    if bytes < 1 << 10 { format!("{bytes} B") } else { format!("{} KiB", bytes >> 10) }
}

fn broadcast(rounds: usize) {
    let bytes = std::env::var("LIBI_BENCH_BYTES").map_or(1 << 30, |bytes| bytes.parse().unwrap());
    println!(
        "\nbroadcast of {} MiB to 16 hosts with 4 members each (wanted: authenticated at most 2 \
         times the relay)",
        bytes >> 20
    );
    println!("{:<44} {:>10} {:>20} {:>8} {:>7}", "", "median", "(least … most)", "MiB/s", "/ relay");
    for (name, mode) in
        [("authenticated", LinkSecurity::Authenticated), ("encrypted", LinkSecurity::Encrypted)]
    {
        let session = Bench::launch(16, 4, &Path::Direct(mode));
        let parents = session.parents();
        let (mut ours, mut relay) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.extend(session.run(&format!("broadcast {bytes} 1")));
            relay.extend(bare::relay(&parents, Wire::Tcp, bytes, 1));
        }
        let base = median(&mut relay);
        for (name, times) in [("bare relay", &mut relay), (name, &mut ours)] {
            let middle = median(times);
            println!(
                "{name:<44} {:>7.0} ms {:>20} {:>8.0} {:>7.2}",
                millis(middle),
                span(times),
                (bytes >> 20) as f64 / middle.as_secs_f64(),
                ratio(middle, base)
            );
        }
    }
}

const MEMBERS: [(u32, u32); 3] = [(16, 4), (16, 16), (16, 64)];

fn barrier(rounds: usize) {
    println!("\nbarrier, channel links, everything on this machine (wanted: at most 2.5 times the token)");
    heading("token");
    for (hosts, each) in MEMBERS {
        let times = (20_000 / (hosts * each)).clamp(20, 200);
        beside_token(
            (hosts, each),
            ("barrier 0", times),
            rounds,
            &format!("barrier over {} members", hosts * each),
        );
    }
}

fn small(rounds: usize) {
    println!("\nsmall sessions, channel links, everything on this machine");
    heading("token");
    for (hosts, each, call, times) in [
        (1, 2, "ping 8", 2_000),
        (1, 2, "pings 8", 20),
        (1, 2, "barrier 0", 2_000),
        (1, 16, "barrier 0", 1_000),
        (4, 4, "barrier 0", 1_000),
    ] {
        beside_token(
            (hosts, each),
            (call, times),
            rounds,
            &format!("{call} bytes, {hosts} hosts with {each}"),
        );
    }
}

/// Measures a call with each engine beside one token over as many processes, in turn.
fn beside_token((hosts, each): (u32, u32), (call, times): (&str, u32), rounds: usize, name: &str) {
    let engines = [(Engine::Apart, ""), (Engine::InProgram, ", in program")];
    let sessions = engines.map(|(engine, _)| Bench::launch_with(hosts, each, &Path::Local, engine));
    let parents = sessions[0].parents();
    let (mut ours, mut token) = ([Vec::new(), Vec::new()], Vec::new());
    for _ in 0..rounds {
        for (session, ours) in sessions.iter().zip(&mut ours) {
            ours.push(median(&mut session.run(&format!("{call} {times}"))));
        }
        token.push(median(&mut bare::token(&parents, Wire::Pair, times as usize)));
    }
    let base = median(&mut token);
    row(&format!("one token over {} processes", hosts * each), &mut token, base);
    for ((_, how), ours) in engines.iter().zip(&mut ours) {
        row(&format!("{name}{how}"), ours, base);
    }
}

fn calls(rounds: usize) {
    println!("\ncalls, channel links, everything on this machine; a call and the barrier behind it");
    heading("token");
    for (hosts, each, list) in [
        (16, 64, &["barrier 0", "gather 4096", "scatter 4096", "allgather 64", "ring 8", "broadcast 64"][..]),
        (16, 16, &["barrier 0", "alltoall 8"]),
    ] {
        let session = Bench::launch(hosts, each, &Path::Local);
        let mut token = bare::token(&session.parents(), Wire::Pair, 20);
        let base = median(&mut token);
        row(&format!("one token over {} processes", hosts * each), &mut token, base);
        for call in list {
            let mut times = session.run(&format!("{call} {}", rounds * 4));
            row(&format!("{call} bytes, {} members", hosts * each), &mut times, base);
        }
    }
    println!("\nsmall broadcasts (64 bytes) one behind the other, and 32 at a time");
    for (hosts, each) in MEMBERS {
        let session = Bench::launch(hosts, each, &Path::Local);
        let many = (20_000 / (hosts * each)).clamp(64, 640);
        for (name, word) in [("one by one", "chain"), ("32 at a time", "flight")] {
            let mut all: Vec<_> =
                (0..rounds).map(|_| session.run(&format!("{word} 64 {many}"))[0] / many).collect();
            let each_takes = median(&mut all);
            println!(
                "{:<44} {:>7.0} a second {:>20}",
                format!("{} members, {name}", hosts * each),
                1.0 / each_takes.as_secs_f64(),
                span(&all)
            );
        }
    }
}

fn memory(_rounds: usize) {
    println!(
        "\ngather of 1 MiB from 256 members (wanted: every process but the root below its own \
         data plus 4 MiB)"
    );
    for (hosts, each, name) in
        [(16, 16, "16 hosts with 16"), (1, 256, "1 host with 256"), (256, 1, "256 hosts with 1")]
    {
        let session = Bench::launch(hosts, each, &Path::Local);
        let grown: Vec<u64> =
            session.words("memory 1048576 1").iter().map(|word| word.parse().unwrap()).collect();
        let others = grown[1..].iter().max().unwrap();
        println!(
            "{name:<44} the root grew by {:.1} MiB, of the others the most by {:.2} MiB beside its own data",
            grown[0] as f64 / 1024.0,
            *others as f64 / 1024.0 - 1.0
        );
    }
}

fn end(rounds: usize) {
    println!("\nfrom the order to end until all members have ended");
    heading("local");
    for (hosts, each) in [(2, 1), (16, 1), (16, 4)] {
        let paths = [Path::Local, Path::Direct(LinkSecurity::Authenticated)];
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..2 * rounds {
            for (path, times) in paths.iter().zip(&mut times) {
                times.push(Bench::launch(hosts, each, path).end());
            }
        }
        let base = median(&mut times[0]);
        for (name, times) in ["local sockets", "direct links"].into_iter().zip(&mut times) {
            row(&format!("{hosts} hosts with {each}, {name}"), times, base);
        }
    }
}

fn scale(rounds: usize) {
    println!("\ncalls against members, channel links, everything on this machine: medians in ms");
    let list = [
        "barrier 0",
        "broadcast 64",
        "gather 64",
        "scatter 64",
        "allgather 64",
        "allreduce 64",
        "alltoall 8",
        "ring 8",
    ];
    let sizes = [(1, 4), (2, 8), (4, 16), (16, 16), (16, 64)];
    print!("{:<10}", "members");
    list.iter().for_each(|call| print!(" {call:>13}"));
    println!();
    let mut curves: Vec<Vec<(f64, f64)>> = vec![Vec::new(); list.len()];
    for (hosts, each) in sizes {
        let session = Bench::launch(hosts, each, &Path::Local);
        print!("{:<10}", hosts * each);
        for (call, curve) in list.iter().zip(&mut curves) {
            let time = median(&mut session.run(&format!("{call} {}", rounds * 4)));
            print!(" {:>13.3}", millis(time));
            curve.push((f64::from(hosts * each), millis(time)));
        }
        println!();
    }
    if let Some(file) = std::env::var_os("LIBI_BENCH_SVG") {
        let curves = list
            .iter()
            .zip(curves)
            .map(|(call, points)| Curve { label: (*call).to_owned(), points })
            .collect();
        let chart = Curves {
            title: "calls on one machine with 2 cores".to_owned(),
            across: "members".to_owned(),
            up: "ms".to_owned(),
            curves,
        };
        std::fs::write(file, chart.svg()).unwrap();
    }
}

fn heading(base: &str) {
    println!("{:<44} {:>10} {:>20} {:>7}", "", "median", "(least … most)", format!("/ {base}"));
}

fn row(name: &str, times: &mut [Duration], base: Duration) {
    let middle = median(times);
    println!("{name:<44} {:>7.3} ms {:>20} {:>7.2}", millis(middle), span(times), ratio(middle, base));
}

fn span(sorted: &[Duration]) -> String {
    let ends = [sorted.first(), sorted.last()].map(|time| time.map_or(0.0, |time| millis(*time)));
    format!("({:.3} … {:.3})", ends[0], ends[1])
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
