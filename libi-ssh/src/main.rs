//! Starts commands on many hosts through ssh, without a process for each: the helper of a process
//! that launches hosts.
//!
//! A launching process of libi starts one helper and hands it *starts* over a socket: the command
//! line that `ssh` would get, the streams that it would inherit, and a socket for the outcome. The
//! helper either *takes* a start, and then behaves as `ssh` would (same messages on standard error,
//! same exit status), or *declines* it with a reason, and the launching process starts `ssh` itself.
//!
//! # What is taken
//! What `ssh -G` prints decides ([`settings`]): a host is taken if everything that is in effect for
//! it is understood. A start is also declined if the connection would be weaker than the one that
//! `ssh` would have made (module `algorithms`).
//!
//! # States of a start
//!
//! | state | left when | then |
//! |---|---|---|
//! | asked | the settings of the host are known and understood | connecting |
//! | | they are not | **declined**, with the reason |
//! | connecting | the server's list of algorithms allows a connection as strong as `ssh`'s | taken |
//! | | it does not | **declined** |
//! | | the address cannot be reached, the server answers something else | **ended**, 255 and the words of `ssh` |
//! | taken: logging in | the server accepts a key and starts the command | running |
//! | | host key, login or command are refused | **ended**, 255 |
//! | running | the command ends | **ended**, its status or signal |
//! | | the connection is lost | **ended**, 255 |
//! | any | the launching process closes the socket of the start | the connection is closed |
//! | any | the launching process ends, or closes the socket of the helper | the helper ends |
//!
//! # What the helper keeps to itself
//! Keys are zeroised when they are dropped, and never leave the process. It leaves no core dump,
//! and no other process of its user may trace it. What a server sends is bounded.
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

mod message_socket;
#[allow(dead_code)] // until the connection uses it
mod service;
#[allow(dead_code)] // until the service uses it
mod connection;
#[allow(dead_code)] // until the service uses it
mod hardening;
#[allow(dead_code)] // until the connection uses them
mod algorithms;
#[allow(dead_code)] // until the service uses it
mod command_line;
#[allow(dead_code, unused_imports)] // until the connection uses them
mod known_hosts;
#[allow(dead_code, unused_imports)] // until the connection uses them
mod settings;
mod sys;

use std::process::ExitCode;

use libi_launch::ssh_client::CLIENT_FD;

use message_socket::MessageSocket;
use service::Outcome;

fn main() -> ExitCode {
    let Some(socket) = sys::inherited_socket(CLIENT_FD.into()) else {
        eprintln!("libi-ssh is started by programs that launch hosts with libi, not by hand.");
        return ExitCode::from(2);
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let served = runtime.and_then(|runtime| {
        runtime.block_on(async {
            service::serve(MessageSocket::new(socket)?, |_, _, _| async {
                Outcome::Declined { why: "nothing can be done yet".to_owned(), of_all: false }
            })
            .await
        })
    });
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
