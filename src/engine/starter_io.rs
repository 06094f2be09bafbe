//! The I/O of a starter, the process that carries out a bulk start: its input, what it prints, and
//! its end.
//!
//! # States
//!
//! | state | left when | then |
//! |---|---|---|
//! | the starter runs | it exits | its end is told |
//! | | a signal ends it, and something may be left | the [cleanup](libi_launch::backend::BulkMethod::cleanup_spec) runs |
//! | the cleanup runs | it exits, or cannot be started | the end of the starter is told |
//! | | its time is over | it is killed |
//!
//! What the cleanup prints is told as what the starter prints. A request to end is not passed on to
//! it, SIGKILL is.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use libi_core::time::Instant;
use libi_launch::backend::SpawnSpec;
use libi_launch::failure::Exit;
use libi_launch::machine::Stream as StdStream;
use libi_launch::process::{Child, Signal, SignalRepeater};
use mio::{Interest, Registry, Token};
use zeroize::Zeroizing;

use super::NodeId;
use super::link_io::Registered;
use super::stream::Stream;
use super::targets::{FdRole, StarterFd, Targets};
use libi_launch::machine::{LinkId, StartId};

/// The longest line that is kept until its end arrives.
const LONGEST_LINE: usize = 8 << 10;
/// How long a killed starter may take to end.
const KILL_TIMEOUT: Duration = Duration::from_secs(1);

/// What follows the end of a starter.
pub(super) enum AfterEnd {
    /// Its end is told.
    Tell,
    /// The same, but if a signal has ended it, this process ends first what it may have left.
    CleanUp(SpawnSpec),
    /// It is a cleanup, to be killed at this time: the end of the starter before it is told.
    TellOf(Exit, Instant),
}

/// See the [module](self).
pub(super) struct StarterIo {
    /// The names of its hosts, in the order in which it was given them.
    hosts: Vec<String>,
    process: Option<Registered<Child>>,
    /// Ends it if this process is killed, and one signal does not.
    repeater: Option<SignalRepeater>,
    /// Its group has a process that is to outlive it: see `BulkMethod::has_cleanup_process`.
    has_cleanup: bool,
    next: AfterEnd,
    /// Its standard input, until the ticket is written.
    input: Option<Registered<Stream>>,
    ticket: Zeroizing<Vec<u8>>,
    written: usize,
    /// Its standard output and error.
    pipes: [Option<Registered<StarterPipe>>; 2],
}

/// A pipe that a starter prints to, and the line that is incomplete.
struct StarterPipe {
    pipe: Stream,
    stream: StdStream,
    line: Vec<u8>,
}

impl StarterIo {
    /// Watches a starter that has just been started.
    pub(super) fn new(
        (start, hosts, has_cleanup, next): (StartId, Vec<String>, bool, AfterEnd),
        (child, repeater): (Child, Option<SignalRepeater>),
        (input, printed): (Option<Stream>, Vec<(StdStream, Stream)>),
        ticket: Zeroizing<Vec<u8>>,
        (registry, targets, id): (&Registry, &mut Targets, NodeId),
    ) -> io::Result<Self> {
        let mut add = |fd, interest, part| {
            targets.add(registry, fd, interest, (id, LinkId::PARENT, FdRole::Starter(start, part)))
        };
        // Dropped on an error below, which kills the process.
        let token = add(child.as_fd().as_raw_fd(), Interest::READABLE, StarterFd::Process)?;
        let process = Some(Registered { inner: child, token });
        let watch = |inner: Stream| {
            let token = add(inner.number(), Interest::WRITABLE, StarterFd::Input)?;
            Ok::<_, io::Error>(Registered { inner, token })
        };
        let input = input.map(watch).transpose()?;
        let mut pipes = [None, None];
        for (place, (stream, pipe)) in printed.into_iter().take(2).enumerate() {
            let token = add(pipe.number(), Interest::READABLE, StarterFd::Pipe(place))?;
            pipes[place] = Some(Registered { inner: StarterPipe { pipe, stream, line: Vec::new() }, token });
        }
        Ok(Self { hosts, process, repeater, has_cleanup, next, input, ticket, written: 0, pipes })
    }

    /// The names of its hosts, in the order in which it was given them.
    pub(super) fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// Writes the ticket as far as the pipe takes it, and closes the pipe behind it.
    pub(super) fn write_ticket(&mut self, registry: &Registry, targets: &mut Targets) {
        while let Some(Registered { inner: pipe, .. }) = &self.input {
            let done = match pipe.write(&self.ticket[self.written..]) {
                Ok(count) => {
                    self.written += count;
                    self.written == self.ticket.len()
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The starter does not read its input; its end says why.
                Err(_) => true,
            };
            if done && let Some(Registered { inner: pipe, token }) = self.input.take() {
                targets.remove(registry, pipe.number(), token);
            }
        }
    }

    /// Reads complete lines, or with `to_the_end` also the last one. Returns them, and whether there
    /// may be more.
    pub(super) fn read_lines(
        &mut self,
        place: usize,
        to_the_end: bool,
        buffer: &mut [u8],
        registry: &Registry,
        targets: &mut Targets,
    ) -> (StdStream, Vec<Vec<u8>>, bool) {
        let Some(Some(Registered { inner, token })) = self.pipes.get_mut(place) else {
            return (StdStream::Out, Vec::new(), false);
        };
        let stream = inner.stream;
        let (more, ended) = match inner.pipe.read(buffer) {
            Ok(count @ 1..) => {
                inner.line.extend_from_slice(&buffer[..count]);
                (true, false)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => (false, to_the_end),
            Ok(_) | Err(_) => (false, true),
        };
        let whole = inner.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let is_long = inner.line.len() - whole > LONGEST_LINE;
        let whole = if ended || is_long { inner.line.len() } else { whole };
        let rest = inner.line.split_off(whole);
        let text = std::mem::replace(&mut inner.line, rest);
        let lines = text.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        if ended {
            let (fd, token) = (inner.pipe.number(), *token);
            targets.remove(registry, fd, token);
            self.pipes[place] = None;
        }
        (stream, lines, more)
    }

    /// The token of a pipe, to read it later.
    pub(super) fn pipe_token(&self, place: usize) -> Option<Token> {
        self.pipes.get(place)?.as_ref().map(|pipe| pipe.token)
    }

    /// When it is killed.
    pub(super) fn deadline(&self) -> Instant {
        if let AfterEnd::TellOf(_, until) = self.next { until } else { Instant::FAR_FUTURE }
    }

    /// Kills it when its time is over.
    pub(super) fn expire(&mut self) {
        if let AfterEnd::TellOf(_, until) = &mut self.next {
            *until = Instant::FAR_FUTURE;
        }
        self.signal(Signal::KILL);
    }

    /// Its hosts, and what follows its end.
    pub(super) fn into_end(self) -> (Vec<String>, AfterEnd) {
        (self.hosts, self.next)
    }

    /// Sends a signal to the starter and its process group. SIGKILL spares a cleanup process there;
    /// any other signal would keep the cleanup that follows the starter from its work.
    pub(super) fn signal(&mut self, signal: Signal) {
        if signal != Signal::KILL && matches!(self.next, AfterEnd::TellOf(..)) {
            return;
        }
        if let Some(Registered { inner: process, .. }) = &mut self.process {
            // Ignored: a process that has ended needs no signal.
            let _ = match signal {
                Signal::KILL if self.has_cleanup => process.signal(signal),
                _ => process.signal_group(signal),
            };
        }
    }

    /// The process, if it has ended.
    pub(super) fn ended(&mut self) -> Option<&mut Child> {
        let process = &mut self.process.as_mut()?.inner;
        process.peek().is_some().then_some(process)
    }

    /// Closes everything; kills the process if it lives.
    pub(super) fn close(&mut self, registry: &Registry, targets: &mut Targets) {
        if let Some(Registered { inner, token }) = self.input.take() {
            targets.remove(registry, inner.number(), token);
        }
        for pipe in &mut self.pipes {
            if let Some(Registered { inner, token }) = pipe.take() {
                targets.remove(registry, inner.pipe.number(), token);
            }
        }
        self.repeater = None;
        if let Some(Registered { inner: mut child, token }) = self.process.take() {
            let fd = child.as_fd().as_raw_fd();
            targets.remove(registry, fd, token);
            if self.has_cleanup {
                let _ = child.signal(Signal::KILL);
                child.wait_for(KILL_TIMEOUT);
                child.release(); // dropped, it would take its group along
            }
        }
    }
}
