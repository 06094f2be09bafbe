//! Which kinds of programs divide before their `main`, so that the engine of their host runs apart
//! from them, and what that is good for: members in C, C++ and Python, with the shared and the
//! static library, completely static, and watched by sanitizers and valgrind.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

use libi::{Engine, Exit, FrontEnd, LaunchOptions};
use libi_testkit::local::*;
use libi_testkit::native::{self, Link};

/// In a chain each host depends on the one before.
const HOSTS: &str = "a[1-3]:2";
const SIZE: u32 = 6;

const SOURCE: [&str; 1] = ["tests/c/apart/apart.c"];

/// What is heard of members that are started by these words, and whether each host is led apart.
fn heard(program: &str, words: &[&str], variables: &[(&str, &str)]) -> (Heard, Vec<bool>) {
    let (lab, front) = (Lab::new(), FrontEnd::new().unwrap());
    let options = LaunchOptions::local().engine(Engine::Apart).strategy("chain".parse().unwrap());
    let mut members = lab.program(program, HOSTS, words);
    for (name, value) in variables {
        members = members.env(name, value);
    }
    let session = launch_with(&front, &[members], &options);
    let apart = session.report().unwrap().hosts().iter().map(|host| !host.in_program).collect();
    let heard = Heard::all(&front);
    drop(session);
    lab.is_empty_within(SOON);
    (heard, apart)
}

/// All but this one have worked and were heard.
fn costs_only(heard: &Heard, victim: Option<u32>, exit: Exit) {
    assert!(heard.lost.is_empty(), "{}", heard.described());
    for rank in 0..SIZE {
        if Some(rank) == victim {
            assert_eq!(heard.exits.get(&rank), Some(&exit), "{}", heard.described());
        } else {
            assert_eq!(heard.exits.get(&rank), Some(&Exit::Code(0)), "{}", heard.described());
            assert_eq!(heard.out(rank), format!("rank {rank} was here\n"));
        }
    }
}

/// A program of this kind divides: the member in the middle of the chain, and others, may end in
/// any way.
fn divides(program: &str, before: &[&str]) {
    let ends = [
        ("crash", Exit::Signal(9)),
        ("_exit", Exit::Code(5)),
        ("abort", Exit::Signal(6)),
        ("exec", Exit::Code(1)),
    ];
    for (way, exit) in ends {
        for victim in [0, 2] {
            let rank = victim.to_string();
            let words = [before, &[way, &rank]].concat();
            let (heard, apart) = heard(program, &words, &[]);
            assert_eq!(apart, [true; 3], "{way}");
            costs_only(&heard, Some(victim), exit);
        }
    }
    let (heard, _) = heard(program, before, &[]);
    costs_only(&heard, None, Exit::Code(0));
}

fn compiled(name: &str, sources: &[&str], link: Link, flags: &[&str]) -> String {
    native::compile(name, sources, link, &[flags, &["-pthread"]].concat())
        .into_os_string()
        .into_string()
        .unwrap()
}

#[test]
fn programs_with_the_shared_and_with_the_static_library_divide() {
    for link in [Link::Shared, Link::Static] {
        divides(&compiled("apart", &SOURCE, link, &[]), &[]);
    }
    divides(&compiled("apart-cpp", &["tests/c/apart/apart.cpp"], Link::Static, &[]), &[]);
}

#[test]
fn a_completely_static_program_divides() {
    let (library, program) = (native::library(), native::scratch().join("apart.whole"));
    let mut command = Command::new("cc");
    command.current_dir(native::root()).args([
        "-static",
        "-D_GNU_SOURCE",
        "-w",
        "-Iinclude",
        SOURCE[0],
        "-o",
    ]);
    command.arg(&program).arg(library.join("liblibi.a")).args(["-lgcc_eh", "-lpthread", "-lm", "-ldl"]);
    let said = command.output().unwrap();
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    divides(program.to_str().unwrap(), &[]);
}

#[test]
fn a_program_with_sanitizers_divides_and_they_find_nothing() {
    divides(&compiled("apart-sanitized", &SOURCE, Link::Shared, &native::SANITIZERS), &[]);
}

#[test]
fn a_program_under_valgrind_divides_and_it_finds_nothing() {
    if !native::is_valgrind_asked_for() {
        return;
    }
    let program = compiled("apart-watched", &SOURCE, Link::Shared, &[]);
    let sure = "--errors-for-leak-kinds=definite,indirect";
    let (heard, apart) = heard("valgrind", &[&native::VALGRIND[..], &[sure, &program]].concat(), &[]);
    assert_eq!(apart, [true; 3]);
    costs_only(&heard, None, Exit::Code(0));
}

#[test]
fn a_program_that_loads_the_library_leads_its_host_itself_and_the_report_says_so() {
    let script = native::root().join("tests/c/apart/member.py");
    let library = native::library().join("liblibi.so");
    let words = [script.to_str().unwrap(), library.to_str().unwrap()];
    let (of_ctypes, apart) = heard("python3", &words, &[]);
    assert_eq!(apart, [false; 3]);
    costs_only(&of_ctypes, None, Exit::Code(0));
    let (preloaded, apart) = heard("python3", &words, &[("LD_PRELOAD", words[1])]);
    assert_eq!(apart, [true; 3], "the loader of the program has loaded it");
    costs_only(&preloaded, None, Exit::Code(0));
}
