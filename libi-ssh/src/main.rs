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
//! `ssh` would have made ([`algorithms`]).
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

mod algorithms;
mod client;
mod command_line;
mod connection;
mod hardening;
mod known_hosts;
mod message_socket;
mod policy;
mod service;
mod settings;
mod sys;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use libi_launch::ssh_client::CLIENT_FD;

use client::Client;
use message_socket::MessageSocket;

/// Threads that serve connections. Most of a login is the arithmetic of its key exchange.
const THREADS: usize = 2;

fn main() -> ExitCode {
    let Some(socket) = sys::inherited_socket(CLIENT_FD.into()) else {
        eprintln!("libi-ssh is started by programs that launch hosts with libi, not by hand.");
        return ExitCode::from(2);
    };
    let served = hardening::forbid_inspection().and_then(|()| {
        hardening::raise_open_files()?;
        let client = Arc::new(Client::new()?);
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        runtime.block_on(serve(socket, client))
    });
    if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn serve(socket: std::os::fd::OwnedFd, client: Arc<Client>) -> io::Result<()> {
    let socket = MessageSocket::new(socket)?;
    service::serve(socket, |start, streams, taken| Arc::clone(&client).carry_out(start, streams, taken)).await
}
