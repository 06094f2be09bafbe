//! LaunchMON's API as its users meet it: a front end and a daemon in C that know nothing of libi but
//! the headers in `lmon_api/`, beside real jobs of Open MPI's `mpirun` and Hydra's `mpiexec`.
//!
//! The programs in `tests/launchmon/` report themselves what is not as expected, and end.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "jobs/launchers.rs"]
mod launchers;
#[path = "launchmon/scene.rs"]
mod scene;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use launchers::{Mpirun, OPEN_MPI, has_hydra, launchers, rank};
use libi_testkit::native::{self, Link};
use libi_testkit::programs;
use libi_testkit::shell::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use scene::{Scene, TIMEOUT, is_alive, within};

const ENDS: &str = "ended\n";

#[test]
fn the_headers_are_what_sources_in_c_and_cpp_expect() {
    let cpp = native::scratch().join(format!("launchmon-{}.cpp", std::process::id()));
    let source = native::root().join("tests/launchmon/header.c");
    fs::write(&cpp, fs::read(&source).unwrap()).unwrap();
    let (c, cpp_source) = (["-std=c99", "-std=c11"], ["-std=c++11", "-std=c++17", "-std=c++20"]);
    for standard in c.into_iter().chain(cpp_source) {
        let is_cpp = standard.contains("++");
        let source = if is_cpp { cpp.to_str().unwrap() } else { "tests/launchmon/header.c" };
        for order in ["-DFIRST", "-DLAST", "-DALONE"] {
            let name = format!("launchmon-header{standard}{order}");
            let program = native::compile(&name, &[source], Link::Shared, &[standard, order]);
            let ended = native::run::<&str>(&program, &[], TIMEOUT);
            assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{standard}");
            fs::remove_file(program).unwrap();
        }
    }
    fs::remove_file(cpp).unwrap();
}

/// The table of a job, as the front end prints it, without its last part.
fn processes(out: &str) -> BTreeMap<u32, (i32, String)> {
    let line = |line: &str| {
        let (rank, rest) = line.strip_prefix("rank ")?.split_once(": ")?;
        let mut words = rest.split(' ');
        let pid = words.next()?.parse().ok()?;
        Some((rank.parse().ok()?, (pid, words.nth(1)?.to_owned())))
    };
    out.lines().filter_map(line).collect()
}

#[test]
fn daemons_beside_a_running_job_know_it_and_talk_with_the_front_end() {
    let Some(program) = rank() else { return };
    for link in [Link::Shared, Link::Static] {
        let mut mpirun = Mpirun::of(4, program, &[]);
        let (said, pid) = (mpirun.said(4), mpirun.pid().to_string());
        let scene = Scene::new(link);
        let mut front = scene.start("attach", &["talks", "detach", &pid]);
        let out = front.until("ready");
        let expected = said.iter().map(|(rank, pid)| (*rank, (*pid, program.display().to_string())));
        assert_eq!(processes(&out), expected.collect(), "{out}");
        assert!(out.contains(&format!("manager 9, launcher {pid}\n")), "{out}");
        // The daemon has the same table, and what the front end has given it.
        let table: String =
            out.lines().filter(|line| line.starts_with("rank ")).map(|line| format!("{line}\n")).collect();
        assert_eq!(scene.read("ready.0"), format!("{table}41 start, two words\n"));
        scene.leave("go");
        front.until("detached");
        // The job goes on, and the daemon until it ends by itself.
        assert!(said.values().chain([&mpirun.pid()]).all(|pid| is_alive(*pid)));
        assert!(!scene.has("left.0"));
        scene.leave("stop");
        scene.awaits("left.0");
        scene.leave("end");
        front.ends_with(ENDS);
        assert!(said.values().all(|pid| is_alive(*pid)));
    }
}

#[test]
fn daemons_are_ended_and_the_job_goes_on_or_ends_with_them() {
    let Some(program) = rank() else { return };
    for (how, goes_on) in [("shutdown", true), ("kill", false), ("exit", true)] {
        let mut mpirun = Mpirun::of(2, program, &[]);
        let (said, pid) = (mpirun.said(2), mpirun.pid());
        let scene = Scene::new(Link::Shared);
        let mut front = scene.start("attach", &["stays", how, &pid.to_string()]);
        front.until("ready");
        scene.leave("go");
        front.ends_with(ENDS);
        within("the daemons have ended", || scene.daemons().is_empty());
        if goes_on {
            assert!(said.values().all(|pid| is_alive(*pid)), "{how}");
        } else {
            within("the job has ended", || !said.values().any(|pid| is_alive(*pid)));
        }
        assert!(!scene.has("left.0"));
    }
}

#[test]
fn the_status_tells_that_the_job_has_ended_or_that_the_daemons_have_left() {
    let Some(program) = rank() else { return };
    let mut mpirun = Mpirun::of(2, program, &[]);
    mpirun.said(2);
    let scene = Scene::new(Link::Shared);
    let mut front = scene.start("attach", &["leaves", "left", &mpirun.pid().to_string()]);
    front.until("ready");
    scene.awaits("left.0");
    scene.leave("go");
    front.ends_with(ENDS);
}

#[test]
fn a_call_that_needs_a_lost_daemon_fails() {
    let Some(program) = rank() else { return };
    let mut mpirun = Mpirun::of(2, program, &[]);
    mpirun.said(2);
    let scene = Scene::new(Link::Shared);
    let mut front = scene.start("attach", &["stays", "lost", &mpirun.pid().to_string()]);
    front.until("ready");
    scene.leave("go");
    let name = scene::daemon(Link::Shared);
    let is_daemon = |pid: &i32| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == name);
    let daemon = scene.daemons().into_iter().find(is_daemon).unwrap();
    kill(Pid::from_raw(daemon), Signal::SIGKILL).unwrap();
    front.ends_with(ENDS);
}

#[test]
fn no_rank_begins_before_the_tool_lets_the_job_go() {
    for launcher in launchers() {
        for how in ["detach", "shutdown", "exit"] {
            let scene = Scene::new(Link::Shared);
            let words = scene.job(launcher, 3);
            let words: Vec<&str> =
                ["stays", how].into_iter().chain(words.iter().map(String::as_str)).collect();
            let mut front = scene.start("launch", &words);
            let out = front.until("ready");
            let said = processes(&out);
            assert!(said.len() == 3 && said.values().all(|(_, program)| program == "/bin/sh"), "{out}");
            let manager = if launcher == OPEN_MPI { 9 } else { 10 };
            assert!(out.contains(&format!("manager {manager}, ")), "{out}");
            std::thread::sleep(Duration::from_millis(200));
            assert!(scene.began().is_empty() && said.values().all(|(pid, _)| is_alive(*pid)));
            scene.leave("go");
            within("all ranks begin", || scene.began() == [0, 1, 2]);
            // Its end, and that of the daemons, would be another status.
            if how == "detach" {
                front.until("detached");
            }
            scene.leave("end");
            front.until("ended");
            scene.leave("finish");
            // The ranks have its standard output as well.
            front.end();
            within("the job has ended", || !said.values().any(|(pid, _)| is_alive(*pid)));
        }
    }
}

#[test]
fn a_job_that_is_held_ends_if_it_is_killed() {
    for launcher in launchers() {
        let scene = Scene::new(Link::Shared);
        let words = scene.job(launcher, 2);
        let words: Vec<&str> =
            ["stays", "kill"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let mut front = scene.start("launch", &words);
        let said = processes(&front.until("ready"));
        scene.leave("go");
        front.ends_with(ENDS);
        within("the job has ended", || !said.values().any(|(pid, _)| is_alive(*pid)));
        assert!(scene.began().is_empty() && scene.daemons().is_empty());
    }
}

#[test]
fn ranks_go_on_when_their_daemons_leave_or_the_front_end_was_killed() {
    for launcher in launchers() {
        for what in ["leaves", "stays"] {
            // Killed with the front end, daemons cannot let them go: that is the time limit.
            let scene =
                Scene::new(Link::Shared).with("LIBI_LMON_HOLD", if what == "stays" { "5" } else { "600" });
            let words = scene.job(launcher, 2);
            let how = if what == "leaves" { "left" } else { "stay" };
            let words: Vec<&str> = [what, how].into_iter().chain(words.iter().map(String::as_str)).collect();
            let mut front = scene.start("launch", &words);
            front.until("ready");
            if what == "stays" {
                front.kill();
            }
            within("all ranks begin", || scene.began() == [0, 1]);
            scene.leave("finish");
            scene.leave("go");
            if what == "leaves" {
                front.ends_with(ENDS);
            }
            within("nothing is left", || scene.daemons().is_empty());
        }
    }
}

#[test]
fn what_fails_is_a_code_and_a_line_and_leaves_nothing() {
    let Some(program) = rank() else { return };
    let mut mpirun = Mpirun::of(2, program, &[]);
    let (said, pid) = (mpirun.said(2), mpirun.pid().to_string());
    for (what, code, line) in
        [("ends", 6, "rank 0"), ("deserts", 6, "rank 0"), ("packs nothing", 11, "could not pack its data")]
    {
        let scene = Scene::new(Link::Shared);
        scene.leave("stop");
        let ended = scene.start("attach", &[what, "exit", &pid]).end();
        let start = format!("{code}: libi: LMON_fe_attachAndSpawnDaemons: ");
        assert!(ended.contains(&start) && ended.contains(line), "{what}: {ended}");
        within("the daemons have ended", || scene.daemons().is_empty());
    }
    // A daemon that there is not, by the error stream.
    let scene = Scene::new(Link::Shared).with("LMON_TEST_QUIET", "1").daemon("/no/such/daemon");
    let mut front = scene.start("attach", &["stays", "exit", &pid]);
    assert!(front.end().starts_with("3: "));
    let said_of = front.error();
    let lines: Vec<&str> = said_of.lines().filter(|line| line.contains("LMON_fe_attach")).collect();
    assert!(lines.len() == 1 && lines[0].contains("/no/such/daemon"), "{said_of}");
    assert!(said.values().all(|pid| is_alive(*pid)));
    // A job that was launched for them ends as well.
    for launcher in launchers() {
        let scene = Scene::new(Link::Shared).daemon("/no/such/daemon");
        let words = scene.job(launcher, 2);
        let words: Vec<&str> =
            ["stays", "exit"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let ended = scene.start("launch", &words).end();
        assert!(ended.contains("3: libi: LMON_fe_launchAndSpawnDaemons: "), "{ended}");
        within("nothing is left", || scene.daemons().is_empty());
        assert!(scene.began().is_empty());
    }
}

#[test]
fn a_wait_ends_at_the_timeout_of_the_environment() {
    let Some(program) = rank() else { return };
    let mut mpirun = Mpirun::of(2, program, &[]);
    mpirun.said(2);
    let scene = Scene::new(Link::Shared).with("LIBI_LMON_TIMEOUT", "3");
    // The program that is no daemon never calls LMON_be_init().
    let scene = scene.daemon("/bin/sleep");
    let ended = scene.start("attach", &["1000", "exit", &mpirun.pid().to_string()]).end();
    assert!(ended.contains("libi: LMON_fe_attachAndSpawnDaemons: "), "{ended}");
}

#[test]
fn every_misuse_has_its_code() {
    let scene = Scene::new(Link::Shared);
    let mut front = scene.start("misuse", &[]);
    assert_eq!(front.end(), "");
    let daemon = scene::daemon(Link::Shared);
    let ended = native::run(&daemon, &["by hand"], TIMEOUT);
    let line = "libi: LMON_be_regErrorCB: the function is NULL\n";
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), line));
    assert!(ended.out.starts_with("libi: LMON_be_init: "), "{}", ended.out);
}

/// Hydra and libi start their daemons on other hosts by the stand-in shell.
#[test]
fn daemons_on_several_hosts_have_their_parts_of_the_job() {
    if !has_hydra() {
        return;
    }
    let lab = Lab::new("");
    let shell = programs::shell();
    for is_launched in [false, true] {
        let scene = Scene::new(Link::Static);
        let script = scene.script();
        let options =
            ["-launcher", "ssh", "-launcher-exec", shell, "-hosts", "n1,n2,n3", "-ppn", "2", "-np", "5"];
        let config = lab.0.join("config");
        let scene = scene.with("XPLAT_RSH", shell).with("LIBI_TEST_SHELL", config.to_str().unwrap());
        let scene = scene.inside(&lab.0);
        let mut job = None;
        let mut words = vec!["talks".to_owned(), "detach".to_owned()];
        if is_launched {
            words.push("mpiexec.hydra".to_owned());
            words.extend(options.map(str::to_owned));
            words.extend(script);
        } else {
            let mut command = lab.command("mpiexec.hydra", &options);
            command.args(script).stdin(std::process::Stdio::null());
            job = Some(scene::Job(command.spawn().unwrap()));
            within("all ranks begin", || scene.began() == [0, 1, 2, 3, 4]);
            words.push(job.as_ref().unwrap().0.id().to_string());
        }
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut front = scene.start(if is_launched { "launch" } else { "attach" }, &words);
        let out = front.until("ready");
        let lines: Vec<&str> = out.lines().filter(|line| line.starts_with("rank ")).collect();
        assert_eq!(lines.len(), 5, "{out}");
        for (daemon, ranks) in [(0, 0..2), (1, 2..4), (2, 4..5)] {
            let own: String = lines[ranks].iter().map(|line| format!("{line}\n")).collect();
            assert_eq!(scene.read(&format!("ready.{daemon}")), format!("{own}41 start, two words\n"));
            assert!(
                own.contains(&format!(" n{} ", daemon + 1)) && own.contains(&format!("on host {daemon}\n"))
            );
        }
        assert_eq!(scene.began().is_empty(), is_launched);
        scene.leave("go");
        within("all ranks begin", || scene.began() == [0, 1, 2, 3, 4]);
        front.until("detached");
        scene.leave("stop");
        (0..3).for_each(|daemon| scene.awaits(&format!("left.{daemon}")));
        scene.leave("finish");
        scene.leave("end");
        front.ends_with(ENDS);
        drop(job);
    }
}
