//! Connects a process that was started with many others to the rendezvous that its ticket names.
//!
//! The connection counts when its first bytes have arrived: the listener may have had too many, and
//! has closed it without reading the proof. Then it is tried again.
//!
//! The answer may be another rendezvous, where the process arrives in the same way. If it does not
//! arrive there within [`RELAY_TIMEOUT`], it comes back and says so.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant as Time};

use libi_core::time::Instant;
use libi_launch::machine::{Claim, LinkId, StartTicket, is_refusal, read_redirection};
use mio::{Events, Poll};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::NodeId;
use super::direct_connector::DirectConnector;
use super::direct_stream::DirectStream;
use super::send_queue::Flushed;
use super::stream::Stream;
use super::targets::{FdRole, Targets};

/// The most time until a connection that was closed is tried again; the least is half of it.
const RETRY: Duration = Duration::from_millis(200);
/// How long a process tries to arrive where it was redirected.
const RELAY_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a process did not arrive.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArrivalError {
    #[error("tried {} for {elapsed:.1?}, and none has let this process in", list(.addresses))]
    Unreachable { addresses: Vec<SocketAddr>, elapsed: Duration },
    #[error("the front end does not await this process: its host has arrived already, or was given up")]
    Refused,
    #[error(transparent)]
    System(#[from] io::Error),
}

fn list(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// Connects to the rendezvous, and claims to come from the host of these names. Blocks for as long as
/// the ticket allows.
pub(crate) fn arrive(ticket: &StartTicket, names: Vec<String>) -> Result<DirectStream, ArrivalError> {
    let began = Time::now();
    let deadline = began + ticket.timeout;
    let mut claim = Claim { names, is_back: false };
    loop {
        match arrive_at(ticket, &ticket.addresses, &claim, deadline)? {
            Answer::Link(link) => return Ok(*link),
            Answer::Refused => return Err(ArrivalError::Refused),
            Answer::Redirected(addresses) => {
                let by = deadline.min(Time::now() + RELAY_TIMEOUT);
                if let Answer::Link(link) = arrive_at(ticket, &addresses, &claim, by)? {
                    return Ok(*link);
                }
                claim.is_back = true;
            }
            Answer::None => {
                let (addresses, elapsed) = (ticket.addresses.clone(), began.elapsed());
                return Err(ArrivalError::Unreachable { addresses, elapsed });
            }
        }
    }
}

/// What a process is answered at a rendezvous.
enum Answer {
    /// It has arrived.
    Link(Box<DirectStream>),
    /// It is not awaited.
    Refused,
    /// It is awaited at these addresses.
    Redirected(Vec<SocketAddr>),
    /// Nothing, in time.
    None,
}

/// Connects to one of these addresses, and makes the claim there.
fn arrive_at(
    ticket: &StartTicket,
    addresses: &[SocketAddr],
    claim: &Claim,
    deadline: Time,
) -> io::Result<Answer> {
    let claim = claim.encode().map_err(io::Error::other)?;
    while let Some(mut link) = connect(ticket, addresses, deadline)? {
        match exchange(&mut link, &claim, deadline) {
            Ok(first) if is_refusal(&first) => return Ok(Answer::Refused),
            Ok(first) => {
                if let Some(addresses) = read_redirection(&first) {
                    return Ok(Answer::Redirected(addresses));
                }
                link.put_back(first);
                return Ok(Answer::Link(Box::new(link)));
            }
            // Processes that were turned away together must not come back together.
            Err(_) => std::thread::sleep(RETRY / 2 + RETRY.mul_f64(random()? / 2.0)),
        }
    }
    Ok(Answer::None)
}

/// A number from 0 to 1.
fn random() -> io::Result<f64> {
    let bits = getrandom::u32().map_err(io::Error::from)?;
    Ok(f64::from(bits) / f64::from(u32::MAX))
}

/// Connects to one of these addresses; `None` if none answers in time.
fn connect(
    ticket: &StartTicket,
    addresses: &[SocketAddr],
    deadline: Time,
) -> io::Result<Option<DirectStream>> {
    let (mut poll, mut targets, mut events) = (Poll::new()?, Targets::default(), Events::with_capacity(16));
    let origin = Time::now();
    let now = || Instant::from_nanos(origin.elapsed().as_nanos() as u64);
    let (id, timeout) = (NodeId(0), deadline.saturating_duration_since(origin));
    let place = (poll.registry(), &mut targets, id);
    let mut connector =
        DirectConnector::start(LinkId::PARENT, addresses, ticket.key(), timeout, now(), place);
    let mut reached = None;
    while reached.is_none() && !connector.has_failed(now()) {
        match poll.poll(&mut events, Some(connector.deadline().since(now()))) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => other?,
        }
        for event in &events {
            let Some(target) = targets.dequeue(event.token()) else { continue };
            let FdRole::Connecting(number) = target.part else { continue };
            reached = connector.on_ready(number, now(), poll.registry(), &mut targets);
            if reached.is_some() {
                break;
            }
        }
        targets.forget_retired();
        connector.retry_due(now(), (poll.registry(), &mut targets, id));
    }
    connector.close(poll.registry(), &mut targets);
    Ok(reached)
}

/// Sends the claim, and returns the first bytes of the answer.
fn exchange(link: &mut DirectStream, claim: &[u8], deadline: Time) -> io::Result<Vec<u8>> {
    link.send_queue.queue(claim);
    let (mut first, mut buffer) = (Vec::new(), [0; 4 << 10]);
    loop {
        let unsent = match link.flush() {
            Flushed::Everything => false,
            Flushed::Partly | Flushed::Waits => true,
            Flushed::Broken => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        while link.read(&mut buffer, None, &mut first, false)? {}
        if !first.is_empty() {
            return Ok(first);
        }
        wait(&link.stream, unsent, deadline)?;
    }
}

/// Waits until a connection is readable, or writable.
fn wait(stream: &Stream, writable: bool, deadline: Time) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Time::now());
    let out = if writable { PollFlags::POLLOUT } else { PollFlags::empty() };
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::POLLIN | out)];
    match poll(&mut fds, PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
