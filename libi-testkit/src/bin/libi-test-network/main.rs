//! Hosts that are namespaces of this machine, and the network between them. Needs root.
//!
//! ```text
//! libi-test-network HOSTS SCRIPT
//! ```
//!
//! HOSTS is a file with the name and the IPv4 address of a host on each line. Each gets namespaces
//! of its own for network, processes, mounts and its name; the first process there is `SCRIPT host
//! NAME ADDRESS`, which reads a line when its device is there: `eth0`, a TUN device. What is sent
//! to one of them arrives at the host that has the address. When all have begun, this program
//! prints `ready` with the numbers of their first processes, in the order of the file.
//!
//! Then it reads what is to be different, a line each, and answers each with `ok` when it is so, or
//! with `no` and the reason:
//!
//! ```text
//! address HOST IP          this address is that host's, too
//! delay HOST MICROSECONDS  what leaves the host arrives so much later; 0 at first
//! drop FROM TO PERCENT WHAT
//!                          of what FROM sends to TO, so many packets in a hundred do not arrive. FROM and TO are names, or * for
//!                          every host; WHAT is all, tcp, tcp4 or tcp6, where those with tcp do not mean port 22
//! heal                     forgets all drops
//! ```
//!
//! It ends when its input does, or when its starter is killed, and so do all hosts with everything
//! on them: the kernel ends them with their first processes. Nothing of theirs has a name on this
//! machine.
#![allow(unsafe_code, reason = "namespaces and devices are the operating system's")]
#![allow(clippy::unwrap_used, reason = "a test program fails by panicking")]

mod hosts;
mod packet;
mod rules;
mod switch;

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use hosts::Host;
use switch::Switch;

/// How many packets of a host are read in one turn, so that others have theirs.
const AT_ONCE: usize = 64;

fn main() {
    let [hosts, script] = &std::env::args().skip(1).collect::<Vec<_>>()[..] else {
        eprintln!("libi-test-network HOSTS SCRIPT");
        std::process::exit(2);
    };
    hosts::leave_nothing();
    let hosts = std::fs::read_to_string(hosts).unwrap_or_else(|error| panic!("{hosts}: {error}"));
    let hosts: Vec<Host> = hosts.lines().map(|line| Host::begin(line, script)).collect();
    let mut switch = Switch::new(hosts.iter().map(|host| (host.name.as_str(), host.address)));
    let pids: Vec<String> = hosts.iter().map(|host| host.pid.to_string()).collect();
    println!("ready {}", pids.join(" "));
    hosts::be_on_time();
    let mut words = Vec::new();
    let stdin = io::stdin();
    while serve(&hosts, &mut switch, &stdin.as_fd(), &mut words) {}
}

/// Waits for what comes next, and does what follows. False when no further commands can come.
fn serve(hosts: &[Host], switch: &mut Switch, input: &BorrowedFd<'_>, words: &mut Vec<u8>) -> bool {
    let (senders, mut ready): (Vec<usize>, Vec<PollFd>) =
        hosts.iter().enumerate().filter_map(|(number, host)| Some((number, host.awaited()?))).unzip();
    ready.push(PollFd::new(*input, PollFlags::POLLIN));
    let timeout = switch.due().map(|due| due.saturating_duration_since(Instant::now()));
    if ppoll(&mut ready, timeout.map(TimeSpec::from_duration), None).is_err() {
        return true; // a signal
    }
    let happened = |fd: &PollFd| fd.revents().is_some_and(|events| !events.is_empty());
    let mut buffer = [0; 65_536];
    for (&from, _) in senders.iter().zip(&ready).filter(|(_, fd)| happened(fd)) {
        for _ in 0..AT_ONCE {
            let Some(count) = hosts[from].read(&mut buffer) else { break };
            switch.take(from, &buffer[..count], Instant::now());
        }
    }
    while let Some((to, packet)) = switch.give(Instant::now()) {
        hosts[to].write(&packet);
    }
    !ready.last().is_some_and(happened) || obey_all(switch, input, words)
}

/// Does what has been asked for. False at the end of the input.
fn obey_all(switch: &mut Switch, input: &BorrowedFd<'_>, words: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    match nix::unistd::read(input, &mut buffer) {
        Ok(0) | Err(_) => return false,
        Ok(count) => words.extend_from_slice(&buffer[..count]),
    }
    while let Some(end) = words.iter().position(|byte| *byte == b'\n') {
        let line: Vec<u8> = words.drain(..=end).collect();
        let answer = match switch.obey(String::from_utf8_lossy(&line).trim()) {
            Ok(()) => "ok".to_owned(),
            Err(reason) => format!("no {reason}"),
        };
        println!("{answer}");
    }
    io::stdout().flush().is_ok()
}
