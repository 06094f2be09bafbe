//! A front end that tests kill: `libi-test-front ENGINE MARK HOSTS WORD…`; the engine is `apart` or
//! `in-program`.
//!
//! Launches test members with these words, a leader and another member on every host, which `KIND` tells
//! apart; prints what happens, one line each; and ends with its standard input. With a file in
//! `LIBI_TEST_TICKET` the session is detached, and waits for ten minutes without a front end.
#![allow(clippy::unwrap_used, reason = "a test program fails by panicking")]

use std::collections::BTreeSet;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use libi::{Detached, Engine, Event, FrontEnd, HostList, LaunchOptions};
use libi_testkit::local::{marked, member, ms};
use libi_testkit::programs::agent;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [engine, mark, hosts, words @ ..] = words.as_slice() else {
        panic!("an engine, a mark and hosts are needed")
    };
    let engine = if *engine == "apart" { Engine::Apart } else { Engine::InProgram };
    play(engine, mark, hosts, words);
}

fn say(what: &str) {
    println!("{what}");
}

fn play(engine: Engine, mark: &str, hosts: &str, words: &[&str]) {
    let of = |kind| marked(mark, member(), hosts, words).env("KIND", kind);
    let count = HostList::parse(hosts).unwrap().len() as u32;
    let ends = Arc::new(AtomicBool::new(false));
    let noticed = Arc::clone(&ends);
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        noticed.store(true, SeqCst);
    });
    let front = FrontEnd::new().unwrap();
    let mut options = LaunchOptions::local().engine(engine);
    if let Some(ticket) = std::env::var_os("LIBI_TEST_TICKET") {
        options = options.detached(Detached::new(ticket, ms(600_000)).program(agent()));
    }
    let _sessions = front.start_all(&[of("leader"), of("local")], &options).unwrap();
    let mut gone = BTreeSet::new();
    while !ends.load(SeqCst) {
        let Some(event) = front.next_event(ms(20)) else { continue };
        match event {
            Event::Up { .. } => say("up"),
            Event::GivenUp { .. } => say("given up"),
            Event::Done { .. } => say("done"),
            Event::Output { bytes, rank, .. } => {
                String::from_utf8_lossy(&bytes).lines().for_each(|line| say(&format!("[{}] {line}", rank.0)));
            }
            Event::Exited { rank, .. } | Event::Detached { rank, .. } => {
                gone.insert(rank.0);
                say(&format!("{} gone", gone.len()));
            }
            Event::Lost { host, .. } => {
                gone.extend([host.0, host.0 + count]);
                say(&format!("{} gone", gone.len()));
            }
            _ => {}
        }
    }
}
