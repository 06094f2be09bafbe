//! The division of the process, and what each half keeps of it.
#![allow(unsafe_code, reason = "the process is divided, and changes its environment")]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use libi_launch::backend::{LINK_ENV, LINK_FD};
use libi_launch::options::APART_ENV;
use libi_launch::process::Child;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::unistd::{Pid, getpid, getppid, setpgid};

use super::{APART_LINK, before_main, passing};
use crate::engine::stream::Stream;
use crate::engine::stream_ids::StreamIds;
use crate::engine::sys::{close_number, duplicate, file_kind, is_open, replace};

/// Runs before `main`, or when the library is loaded. A reference to it from what every member
/// calls keeps it in executables that are linked with an archive.
#[used]
#[unsafe(link_section = ".init_array")]
pub(in crate::member) static ENTRY: extern "C" fn() = entry;

extern "C" fn entry() {
    before_main();
}

/// Which half of the process this is.
pub(super) enum Half {
    Program,
    Leader {
        program: Child,
        /// The other end of the program's link.
        socket: Stream,
    },
}

/// Divides the process. On failure it goes on undivided.
pub(super) fn divide(link: &str, told: &str) -> io::Result<Half> {
    let own_socket: Option<RawFd> = link.parse().ok().filter(|number| *number > 2);
    let streams = match own_socket {
        Some(_) => StreamIds::parse(told).unwrap_or_default(),
        None => StreamIds::here([0, 1].into_iter().chain(leads_to_process(2).then_some(2))),
    };
    let (ours, its) = socket_pair()?;
    let (parent, mut mask) = (getpid(), SigSet::empty());
    // No signal is lost between the division and the moment from which the parent passes them on.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut mask))?;
    // SAFETY: the process has one thread, so the child has a copy of it in which no lock is held.
    let forked = unsafe { libc::fork() };
    let half = match forked {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(ours);
            become_program(parent, its, own_socket, &streams)
        }
        pid => {
            drop(its);
            become_leader(pid, ours, own_socket)
        }
    };
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&mask), None)?;
    half
}

/// Two ends whose numbers programs do not expect to be in use.
fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, its) = UnixStream::pair()?;
    Ok((duplicate(ours.as_raw_fd())?, duplicate(its.as_raw_fd())?))
}

/// Whether a stream leads to another process, and not to a file or a terminal.
fn leads_to_process(number: RawFd) -> bool {
    file_kind(number).is_some_and(|kind| kind == libc::S_IFIFO || kind == libc::S_IFSOCK)
}

/// The child: a member of its host, in a process group of its own, that ends with its parent.
fn become_program(
    parent: Pid,
    socket: OwnedFd,
    own_socket: Option<RawFd>,
    streams: &StreamIds,
) -> io::Result<Half> {
    let joined = prctl::set_pdeathsig(Signal::SIGKILL)
        .and_then(|()| setpgid(Pid::from_raw(0), Pid::from_raw(0)))
        .map_err(io::Error::from)
        .and_then(|()| match own_socket {
            // The link of the process is the parent's.
            Some(number) => replace(std::os::fd::AsFd::as_fd(&socket), number).map(|()| number),
            None => inheritable(&socket),
        });
    let Ok(number) = joined else { passing::exit(super::FAILED) };
    // If the parent has ended before the call above, its death is never reported.
    if getppid() != parent {
        passing::exit(super::FAILED);
    }
    drop(socket);
    // SAFETY: no other thread exists that could read the environment.
    unsafe {
        std::env::set_var(LINK_ENV, format!("{APART_LINK}{number}:{streams}"));
        std::env::remove_var(APART_ENV);
    }
    Ok(Half::Program)
}

/// A copy of a descriptor that programs inherit which this one executes.
fn inheritable(socket: &OwnedFd) -> io::Result<RawFd> {
    // SAFETY: numbers.
    let number = unsafe { libc::fcntl(socket.as_raw_fd(), libc::F_DUPFD, RawFd::from(LINK_FD as i16)) };
    if number == -1 { Err(io::Error::last_os_error()) } else { Ok(number) }
}

/// The parent: signals are the program's from now on, and so are all descriptors but the link and
/// the standard streams.
fn become_leader(pid: i32, socket: OwnedFd, own_socket: Option<RawFd>) -> io::Result<Half> {
    close_others(&[Some(socket.as_raw_fd()), own_socket]);
    let program = Child::forked(pid);
    let Ok(program) = program else {
        // Its end could not be noticed: it ends with this process.
        passing::exit(super::FAILED)
    };
    passing::pass_signals_on(pid, &program);
    let _ = prctl::set_name(c"libi-leader");
    Ok(Half::Leader { program, socket: Stream::ours(socket, true).accepting_fds() })
}

/// Closes every descriptor above the standard streams but these.
fn close_others(kept: &[Option<RawFd>]) {
    let mut kept: Vec<u32> = kept.iter().flatten().map(|number| number.cast_unsigned()).collect();
    kept.sort_unstable();
    let mut first = 3;
    for number in kept.into_iter().map(Some).chain([None]) {
        let last = number.map_or(u32::MAX, |number| number.wrapping_sub(1));
        if first <= last {
            // SAFETY: no value of this process owns a descriptor of the program, whose code never
            // runs here. On a failure they stay open, and close when this process ends.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
        first = number.map_or(u32::MAX, |number| number + 1);
    }
}

/// Closes the link of the process: the launcher learns that the program does not join.
pub(super) fn close_link(link: &str) {
    let socket: Option<RawFd> = link.parse().ok().filter(|number| *number > 2);
    for number in [0, 1].into_iter().chain(socket).filter(|number| is_open(*number)) {
        close_number(number);
    }
}
