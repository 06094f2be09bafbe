//! How a member finds its link if it was started with many others: the ticket on its standard input
//! names the rendezvous.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use libi_launch::machine::{Found, HeadReader, StartTicket, Stream as Standard};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use zeroize::Zeroize;

use super::InitError;
use super::stdio::{LinkStreams, ParentChannel, open_closed, redirect};
use crate::engine::rendezvous::{ArrivalError, arrive};
use crate::engine::sys::replace;

/// How long the ticket may take to arrive. The starter writes it at once.
const TICKET_TIMEOUT: Duration = Duration::from_secs(30);

/// Connects to the rendezvous. From now on standard input is empty, and standard output and error
/// are pipes that libi reads.
pub(super) fn take_rendezvous() -> Result<LinkStreams, InitError> {
    open_closed()?;
    let ticket = read_ticket().map_err(|why| InitError::NotAdmitted(why.to_string()))?;
    replace(std::fs::File::open("/dev/null")?.as_fd(), 0)?;
    let link = arrive(&ticket, own_names(&ticket.host_variable)).map_err(|error| match error {
        ArrivalError::System(error) => InitError::System(error),
        other => InitError::NotAdmitted(other.to_string()),
    })?;
    // Until now, what was printed went to the starter.
    let printed = vec![(Standard::Out, redirect(1)?), (Standard::Err, redirect(2)?)];
    let channel = ParentChannel::Arrived(Box::new(link), ticket.start, ticket.key());
    Ok(LinkStreams { channel, printed })
}

/// The names of this host: by the variable of the starter, by the address at which a server of ssh
/// was reached, and by itself.
fn own_names(variable: &str) -> Vec<String> {
    let named = std::env::var(variable).ok();
    // The addresses and ports of client and server.
    let connection = std::env::var("SSH_CONNECTION").ok();
    let reached = connection.and_then(|all| all.split(' ').nth(2).map(str::to_owned));
    let own = nix::unistd::gethostname().ok().map(|name| name.to_string_lossy().into_owned());
    [named, reached, own].into_iter().flatten().collect()
}

/// Reads the ticket from standard input.
fn read_ticket() -> io::Result<StartTicket> {
    let stdin = io::stdin();
    let (mut reader, deadline) = (HeadReader::of_ticket(), Instant::now() + TICKET_TIMEOUT);
    let mut buffer = [0; 4 << 10];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no ticket arrived on standard input"));
            }
            Err(nix::Error::EINTR) => continue,
            other => other?,
        };
        let count = match nix::unistd::read(stdin.as_fd(), &mut buffer) {
            Ok(0) => {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "standard input holds no ticket"));
            }
            Err(nix::Error::EINTR) => continue,
            other => other?,
        };
        let found = reader.next(&mut &buffer[..count]);
        buffer.zeroize();
        match found {
            Found::Message(ticket) => return Ok(ticket),
            Found::Incomplete => {}
            Found::Violation => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "standard input holds no ticket"));
            }
        }
    }
}
