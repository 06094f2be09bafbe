//! The process of libi's own client of ssh is killed, or stopped, at random moments of a launch: hosts
//! that it has not brought up are launched by ssh, what is lost has a name, and nothing is left.
//! `LIBI_KILLS` is how many moments are tried, `LIBI_SEED` which.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libi::{Backend, FrontEnd, LaunchOptions, Rules, Ssh, SshClient};
use libi_launch::ssh_client::CLIENT_PROGRAM;
use libi_testkit::kills::{moments, seeded};
use libi_testkit::labs::{Marked, Sshd};
use libi_testkit::local::Heard;
use libi_testkit::processes::{all, parent, status};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::options;

const HOSTS: usize = 12;

/// The client that this process has started, unless it is a zombie.
fn client() -> Option<i32> {
    let own = std::process::id().cast_signed();
    all().find(|pid| {
        parent(*pid) == Some(own)
            && status(*pid, "Name").as_deref() == Some(CLIENT_PROGRAM)
            && !status(*pid, "State").is_some_and(|state| state.starts_with('Z'))
    })
}

fn launched_by(lab: &Sshd) -> LaunchOptions {
    let Backend::Ssh(ssh) = lab.ssh("main", SshClient::Builtin) else { unreachable!("it is called ssh") };
    let rules = Rules {
        hello_timeout: Duration::from_secs(3),
        peer_timeout: Duration::from_secs(4),
        ..Rules::default()
    };
    options(Backend::Ssh(Ssh { client: SshClient::Auto, ..ssh })).rules(rules)
}

/// Sends the signal to the client when so many hosts have a process. Returns whether it was there.
fn signal_when(hosts: usize, signal: Signal, mark: &Marked, is_over: &AtomicBool) -> bool {
    while !is_over.load(Relaxed) {
        let pid = client().filter(|_| mark.processes().iter().filter(|one| one.is_leader).count() >= hosts);
        if let Some(pid) = pid {
            return kill(Pid::from_raw(pid), signal).is_ok();
        }
        std::thread::yield_now();
    }
    false
}

/// Launches while the client gets the signal; the report if the launch is given up.
fn play(lab: &Sshd, hosts: usize, signal: Signal) -> Option<String> {
    let (mark, front, began) = (Marked::new(), FrontEnd::new().unwrap(), Instant::now());
    let members = mark.program(&lab.member(), &format!("n[0-{}]", HOSTS - 1), &["join", "finish:60000"]);
    let is_over = AtomicBool::new(false);
    let (signalled, launched) = std::thread::scope(|scope| {
        let signals = scope.spawn(|| signal_when(hosts, signal, &mark, &is_over));
        let launched = front.launch_all(&[members], &launched_by(lab));
        is_over.store(true, Relaxed);
        (signals.join().unwrap(), launched)
    });
    println!("{signal} at {hosts:>2} hosts (signalled: {signalled}): {:?}", began.elapsed());
    let given_up = match launched {
        Ok(session) => {
            let heard = Heard::all(&front);
            // Each host has ended well, or is lost by name.
            let ended = heard.exits.len() + heard.lost.len();
            assert!(ended >= HOSTS, "{}", heard.described());
            drop(session);
            None
        }
        Err(error) => Some(error.to_string()),
    };
    drop(front);
    mark.nothing_is_left();
    assert_eq!(client(), None, "the client has ended with the session");
    given_up
}

#[test]
fn hosts_come_up_by_ssh_when_the_client_is_killed() {
    let Some(lab) = Sshd::up() else { return };
    let mut random = seeded();
    for _ in 0..moments(4) {
        let hosts = (random.unit() * HOSTS as f64) as usize;
        assert_eq!(play(&lab, hosts, Signal::SIGKILL), None, "killed at {hosts} hosts");
    }
}

#[test]
fn a_stopped_client_costs_the_hosts_that_it_holds_and_nothing_hangs() {
    let Some(lab) = Sshd::up() else { return };
    let mut random = seeded();
    for _ in 0..moments(1) {
        let hosts = (random.unit() * HOSTS as f64) as usize;
        if let Some(report) = play(&lab, hosts, Signal::SIGSTOP) {
            assert!(report.contains("given up after"), "{report}");
        }
    }
}
