//! A process that is started to lead its host divides before its `main`: the parent leads the host,
//! and the program is its child.
//!
//! The parent has to be the process that was started: a server of ssh passes no input to what is
//! left of a process that has ended, and Slurm ends what is left. The program has its process ID
//! from the first line of its `main` on.
//!
//! # States of the parent
//!
//! | state | event | effect | next state |
//! |---|---|---|---|
//! | outside | the program says that it joins | the parent takes the link of the process | leading |
//! | outside | the program closes its end | the parent closes the link | closed |
//! | outside, closed | the program ends | the parent ends in the same way | |
//! | outside | it joins, and the parent is not let in | it ends | the parent ends so, with 3 for SIGTERM |
//! | leading | all members of the host have ended, none is below | what is left is passed on | leaving |
//! | leading, leaving | the session is over, or the link is lost | | leaving |
//! | leaving | the program has ended | the parent ends in the same way | |
//! | leaving | the program has detached | the parent exits with 0 | |
//! | leaving | the program has not joined | it gets its time to end, and is killed then | |
//!
//! In every state signals that the parent gets are passed on to the program. A stop of the program
//! stops nothing else.
//!
//! Until the program joins, nothing has changed for it: it has the standard streams that the
//! process was started with. A program that does not join, such as a step of a script, runs as if
//! the parent were not there, and the next step divides again. When it joins, it replaces the
//! standard streams that carry the link, or lead to the launcher, by pipes that the parent reads:
//! nothing that it has printed is lost when it crashes, and its end is reported after its output. A
//! stream that a script or the program has redirected is left alone.
//!
//! # Which programs divide
//! An entry of `.init_array` decides. It does nothing unless the variable is there that launchers
//! set ([`APART_ENV`]).
//!
//! | program | entry runs | the program divides |
//! |---|---|---|
//! | C, C++, Rust, with the static library or the crate | in the executable, before `main` | yes |
//! | C, C++, with the shared library | when the loader starts the program | yes |
//! | a completely static executable | before `main` | yes |
//! | with AddressSanitizer, under valgrind | after theirs | yes |
//! | any, with the library in `LD_PRELOAD` | when the loader starts the program | yes |
//! | that loads the library itself, as Python with ctypes | in the middle of the program | no |
//! | with threads before `main` (not tried) | before `main` | no |
//!
//! A program that does not divide leads its host as with `Engine::InProgram`, and its hello says
//! so.
//!
//! # Cost
//! One further process on each host, and one further hop for its first member. Medians of 15, both
//! engines in one run, by a debug build on two busy processors:
//!
//! | | in the program | apart |
//! |---|---|---|
//! | launch of one host with one member | 2.6 ms | 3.2 ms |
//! | launch of 8 hosts with 2 members each | 48.0 ms | 47.9 ms |
//! | a barrier of the 2 members of one host | 32 µs | 56 µs |
//! | private memory of the process that leads | | 0.65 MB |
//!
//! # Differences
//! The exit of the first member is that of the program, also where a script around it exits
//! otherwise. Output that no user takes stays with the parent until the session ends, even if its
//! members were killed.

mod dividing;
mod passing;
mod startup;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use libi_launch::backend::LINK_ENV;
use libi_launch::machine::Stream as Standard;
use libi_launch::options::APART_ENV;
use libi_launch::process::{Child, ExitStatus, Signal};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use self::dividing::Half;
use super::stdio::{LinkStreams, redirect};
use crate::engine::session_io::{OwnProgram, OwnProgramSlot};
use crate::engine::stream::Stream;
use crate::engine::stream_ids::StreamIds;
use crate::engine::sys::{duplicate, replace};

pub(super) use self::dividing::ENTRY;
pub(super) use self::passing::exit as end_at_once;

/// The beginning of the value of [`LINK_ENV`] in a program that has divided. The number of its
/// socket and the [identities](StreamIds) of its streams follow.
const APART_LINK: &str = "apart:";

/// The exit status of the parent if it fails where no exit status of the program is known.
const FAILED: i32 = 3;

/// How long a program that has not joined may take to end, when the session is over.
const TIME_TO_END: Duration = Duration::from_secs(5);

/// A program that does not join is waited for as long as it runs, in steps of this length.
const A_WHILE: Duration = Duration::from_secs(3_600);

/// Which descriptors a program sends when it joins, and in this order.
const STREAMS: [u8; 3] = [1, 2, 4];

/// What [`ENTRY`] runs, in a process that has no threads and no user state yet.
fn before_main() {
    super::helper::serve_if_asked();
    let Some(told) = std::env::var_os(APART_ENV) else { return };
    let Ok(link) = std::env::var(LINK_ENV) else { return };
    if !startup::is_before_main() || !startup::is_single_threaded() {
        return;
    }
    match dividing::divide(&link, &told.to_string_lossy()) {
        Ok(Half::Program) | Err(_) => {}
        Ok(Half::Leader { program, socket }) => {
            let ended = catch_unwind(AssertUnwindSafe(|| lead(program, socket, &link)));
            match ended {
                Ok(Some(status)) => passing::end_as(status),
                Ok(None) => passing::exit(0),
                Err(_) => passing::exit(FAILED),
            }
        }
    }
}

/// Runs the parent until it ends; returns how, unless the program lives on.
fn lead(mut child: Child, socket: Stream, link: &str) -> Option<ExitStatus> {
    let status = child.exit_record();
    loop {
        match next_of(&child, &socket) {
            Next::Ended => return child.try_wait(),
            Next::Closed => {
                dividing::close_link(link);
                while child.wait_for(A_WHILE).is_none() {}
                return status.get().copied();
            }
            Next::Joins(streams) => return join(child, socket, streams, link, &status),
            Next::Nothing => {}
        }
    }
}

enum Next {
    Nothing,
    /// The program joins, with these streams.
    Joins(Vec<(u8, Stream)>),
    Closed,
    Ended,
}

/// Waits for what the program does next. The launcher limits the time that it may take to join.
fn next_of(child: &Child, socket: &Stream) -> Next {
    let mut fds =
        [PollFd::new(socket.as_fd(), PollFlags::POLLIN), PollFd::new(child.as_fd(), PollFlags::POLLIN)];
    if poll(&mut fds, PollTimeout::NONE).is_err() {
        return Next::Nothing; // a signal was passed on
    }
    let has_ended = fds[1].any() == Some(true);
    let mut which = [0];
    match socket.read(&mut which) {
        Ok(0) if has_ended => Next::Ended,
        Ok(0) => Next::Closed,
        Ok(_) => {
            let kinds = STREAMS.into_iter().filter(|kind| which[0] & kind != 0);
            Next::Joins(kinds.zip(socket.take_fds().into_iter().map(|fd| Stream::ours(fd, false))).collect())
        }
        Err(_) if has_ended => Next::Ended,
        Err(_) => Next::Nothing,
    }
}

/// The program joins: leads the host until this process is not needed any more.
fn join(
    child: Child,
    socket: Stream,
    streams: Vec<(u8, Stream)>,
    link: &str,
    status: &Arc<OnceLock<ExitStatus>>,
) -> Option<ExitStatus> {
    let mut own = OwnProgram { child, link: socket.refusing_fds(), printed: Vec::new(), stdin: None };
    for (kind, stream) in streams {
        match kind {
            1 => own.stdin = Some(stream),
            2 => own.printed.push((Standard::Out, stream)),
            _ => own.printed.push((Standard::Err, stream)),
        }
    }
    let slot = OwnProgramSlot::of(own);
    let led = super::lead(link, slot.clone());
    if let Err(error) = &led {
        eprintln!("libi: leader: {error}");
    }
    if let Some(OwnProgram { mut child, link, printed, stdin }) = slot.take() {
        // Without its link it ends, as a member does that has lost its parent.
        drop((link, printed, stdin));
        child.wait_for(TIME_TO_END);
    }
    match status.get().copied() {
        // A member that loses its parent ends itself by this signal. Why it has none is the reason here.
        Some(ExitStatus::Signal { signal: Signal::TERM, .. }) if led.is_err() => Some(ExitStatus::Unknown),
        status => status,
    }
}

/// The link of a program that has divided; `None` if the value of [`LINK_ENV`] tells another one.
pub(super) fn take_link(value: &str) -> Option<io::Result<LinkStreams>> {
    let (number, ids) = value.strip_prefix(APART_LINK)?.split_once(':')?;
    Some(join_parent(number, ids))
}

/// Joins the parent: it reads the streams from now on.
fn join_parent(number: &str, ids: &str) -> io::Result<LinkStreams> {
    let streams = super::stdio::take_socket(number)?;
    let super::stdio::ParentChannel::Socket(socket) = &streams.channel else { return Ok(streams) };
    let ids = StreamIds::parse(ids).unwrap_or_default();
    let (mut which, mut ends) = (0, Vec::new());
    for number in ids.unchanged().collect::<Vec<_>>() {
        let end = if number == 0 { feed()? } else { redirect(number)? };
        which |= STREAMS[number as usize]; // a number of a standard stream
        ends.push((number, end));
    }
    ends.sort_by_key(|(number, _)| *number);
    let fds: Vec<_> = ends.iter().map(|(_, end)| end.as_fd()).collect();
    socket.lend(&[&[which]], &fds)?;
    Ok(streams)
}

/// Makes standard input a pipe, and returns its write end.
fn feed() -> io::Result<Stream> {
    let (its, ours) = io::pipe()?;
    let ours = duplicate(ours.as_raw_fd())?;
    replace(its.as_fd(), 0)?;
    Ok(Stream::ours(ours, false))
}
