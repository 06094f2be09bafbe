//! Real processes launched through a real sshd, by each client of ssh: everything that members do,
//! whatever their users' shells print; which keys and algorithms are accepted; what is left when a
//! process is killed; servers that refuse; and what is said of a launch that fails.
//!
//! The servers are those of `libi-testkit/labs/sshd`, for which every address of 127.0.0.0/8 is a host of
//! its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "sshd/agents.rs"]
mod agents;
#[path = "sshd/client.rs"]
mod client;
#[path = "sshd/clush.rs"]
mod clush;
#[path = "sshd/failures.rs"]
mod failures;
#[path = "sshd/keys.rs"]
mod keys;
#[path = "sshd/kills.rs"]
mod kills;
#[path = "sshd/limits.rs"]
mod limits;
#[path = "sshd/shells.rs"]
mod shells;
#[path = "sshd/talking.rs"]
mod talking;
#[path = "sshd/ways.rs"]
mod ways;

use std::time::{Duration, Instant};

use libi::{Backend, Exit, FrontEnd, LaunchOptions, SshClient};
use libi_testkit::labs::{Marked, Sshd};
use libi_testkit::local::{Heard, launch_with};

/// How long a launch may take on a machine that does much else. What is to fail in time has
/// deadlines of its own.
const TIMEOUT: Duration = Duration::from_secs(120);
/// The clients of ssh that every test goes through.
const CLIENTS: &[SshClient] = &[SshClient::OpenSsh, SshClient::Builtin];

/// The clients of ssh that a test of minutes goes through: one, drawn with the seeds of the commit, unless
/// all cases are asked for.
fn drawn_clients() -> &'static [SshClient] {
    if libi_testkit::launching::is_every_case_asked_for() {
        return CLIENTS;
    }
    let drawn = libi_testkit::kills::seeded().unit() * CLIENTS.len() as f64;
    &CLIENTS[drawn as usize..][..1]
}

fn options(backend: Backend) -> LaunchOptions {
    LaunchOptions::local().backend(backend).deadline(TIMEOUT).loopback(true)
}

/// Launches one host, which is to join and to end well.
fn joins(lab: &Sshd, what: &str, backend: Backend) {
    let (mark, front, began) = (Marked::new(), FrontEnd::new().unwrap(), Instant::now());
    let members = mark.program(&lab.member(), "n5", &["join", "finish:30000"]);
    let session = launch_with(&front, &[members], &options(backend));
    println!("{what:48} {:>8.3} s  joined", began.elapsed().as_secs_f64());
    let heard = Heard::all(&front);
    assert_eq!(heard.exits.get(&0), Some(&Exit::Code(0)), "{what}: {}", heard.described());
    drop((session, front));
    mark.nothing_is_left();
}
