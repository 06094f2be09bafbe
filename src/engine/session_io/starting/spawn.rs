//! Starts one process, as a spec describes it, with descriptors for its channel and its output.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use libi_core::dist::EnvVar;
use libi_launch::backend::{Channel, LINK_FD, SpawnSpec};
use libi_launch::machine::Stream as StdStream;
use libi_launch::options::APART_ENV;
use libi_launch::process::{Child, Environment, FdSource, LONG_FD_TABLE, Signal, Start};

use super::environment::variable;
use super::{APART, APART_WITH_INPUT, StartFailure, Started};
use crate::engine::session_io::Ends;
use crate::engine::stream::Stream;
use crate::engine::stream_ids::StreamIds;
use crate::engine::sys::duplicate_from;

/// From this many started processes on, their descriptors are moved to high numbers.
const MOVE_UP_FROM: usize = 64;

/// What a process gets from the one that starts it.
pub(in crate::engine::session_io) struct Inherited<'a> {
    pub(in crate::engine::session_io) environment: &'a Environment,
    /// The standard input of a process whose channel is a socket; by default it is empty.
    pub(in crate::engine::session_io) stdin: Option<&'a OwnedFd>,
    /// The death signal is bound to the starting thread. A thread that may end before this process
    /// must not kill its children.
    pub(in crate::engine::session_io) death_signal: Option<Signal>,
    /// Whether its group ends when this process is killed.
    pub(in crate::engine::session_io) guarded: bool,
    /// The soft limit of open files, if it differs from that of this process.
    pub(in crate::engine::session_io) open_files: Option<u64>,
}

/// Starts a process. `open` is the number of links of the node.
pub(in crate::engine::session_io) fn spawn(
    spec: SpawnSpec,
    inherited: &Inherited<'_>,
    open: usize,
) -> Result<Started, StartFailure> {
    if spec.channel == Channel::Streams {
        let (streams, theirs) = StandardStreams::new(open)?;
        let child = start_with(&spec, &theirs, inherited)?;
        return Ok(streams.of(child, spec));
    }
    let (stderr, its_stderr) = pipe(open).map_err(failed_to_make("pipe"))?;
    let mut start = prepared(&spec, inherited);
    let (first, trailer) = (spec.initial_input, spec.trailer);
    let is_apart = |value: &str| {
        let is_this = |name: &EnvVar| name.name().as_bytes() == APART_ENV.as_bytes();
        start.env.variables().iter().any(|it| is_this(it) && it.value().as_bytes() == value.as_bytes())
    };
    let takes_input = is_apart(APART_WITH_INPUT);
    let tells_streams = takes_input || is_apart(APART);
    start.fds.insert(2, FdSource::File(its_stderr.as_fd()));
    let mut ids = StreamIds::default();
    ids.add(2, its_stderr.as_fd());
    let mut print_pipes = vec![(StdStream::Err, stderr)];
    match spec.channel {
        Channel::Socket => {
            let (ours, theirs) = UnixStream::pair().map_err(failed_to_make("socket pair"))?;
            let (stdout, its_stdout) = pipe(open).map_err(failed_to_make("pipe"))?;
            start.fds.insert(1, FdSource::File(its_stdout.as_fd()));
            start.fds.insert(LINK_FD, FdSource::File(theirs.as_fd()));
            if let Some(stdin) = inherited.stdin {
                start.fds.insert(0, FdSource::File(stdin.as_fd()));
            }
            let null = File::open("/dev/null").ok().filter(|_| takes_input);
            ids.add(1, its_stdout.as_fd());
            null.iter().for_each(|null| ids.add(0, null.as_fd()));
            if tells_streams {
                let told = variable(APART_ENV.as_bytes(), ids.to_string().as_bytes());
                start.env = start.env.with(told);
            }
            let child = start.start()?;
            print_pipes.push((StdStream::Out, stdout));
            let input = Stream::ours(move_up(ours.into(), open), true);
            Ok(Started { child, input: Some(input), output: None, print_pipes, first, trailer })
        }
        Channel::None => {
            let (stdout, its_stdout) = pipe(open).map_err(failed_to_make("pipe"))?;
            start.fds.insert(1, FdSource::File(its_stdout.as_fd()));
            let child = start.start()?;
            print_pipes.push((StdStream::Out, stdout));
            Ok(Started { child, input: None, output: None, print_pipes, first, trailer })
        }
        // Streams were dealt with above.
        Channel::Streams | Channel::Rendezvous => {
            let (its_stdin, stdin) = io::pipe().map_err(failed_to_make("pipe"))?;
            let (stdout, its_stdout) = pipe(open).map_err(failed_to_make("pipe"))?;
            start.fds.insert(0, FdSource::File(its_stdin.as_fd()));
            start.fds.insert(1, FdSource::File(its_stdout.as_fd()));
            let child = start.start()?;
            print_pipes.push((StdStream::Out, stdout));
            let output = Some(Stream::ours(move_up(stdin.into(), open), false));
            Ok(Started { child, input: None, output, print_pipes, first, trailer })
        }
    }
}

/// This process's ends of the standard streams of a process whose channel they are.
pub(super) struct StandardStreams {
    stdin: Stream,
    stdout: Stream,
    stderr: Stream,
}

impl StandardStreams {
    /// New pipes, and what the process gets as its standard input, output and error. `open` is the
    /// number of links of the node.
    pub(super) fn new(open: usize) -> Result<(Self, [OwnedFd; 3]), StartFailure> {
        let failed = failed_to_make("pipe");
        let (its_stdin, stdin) = io::pipe().map_err(failed)?;
        let (stdout, its_stdout) = pipe(open).map_err(failed)?;
        let (stderr, its_stderr) = pipe(open).map_err(failed)?;
        let stdin = Stream::ours(move_up(stdin.into(), open), false);
        Ok((Self { stdin, stdout, stderr }, [its_stdin.into(), its_stdout, its_stderr]))
    }

    /// The start of what the spec describes, with these streams.
    pub(super) fn of<T>(self, child: T, spec: SpawnSpec) -> Started<T> {
        Started {
            child,
            input: Some(self.stdout),
            output: Some(self.stdin),
            print_pipes: vec![(StdStream::Err, self.stderr)],
            first: spec.initial_input,
            trailer: spec.trailer,
        }
    }
}

/// Starts a process with these standard streams, and no other descriptors.
pub(super) fn start_with(
    spec: &SpawnSpec,
    streams: &[OwnedFd; 3],
    inherited: &Inherited<'_>,
) -> Result<Child, StartFailure> {
    let mut start = prepared(spec, inherited);
    for (number, stream) in (0..).zip(streams) {
        start.fds.insert(number, FdSource::File(stream.as_fd()));
    }
    Ok(start.start()?)
}

/// The start of a process, without its descriptors.
fn prepared<'fd>(spec: &SpawnSpec, inherited: &Inherited<'_>) -> Start<'fd> {
    let environment = inherited.environment.clone().with(spec.env.clone());
    let mut start = Start::new(spec.program.clone(), environment);
    start.args.clone_from(&spec.args);
    start.cwd.clone_from(&spec.cwd);
    start.open_files = inherited.open_files;
    start.parent_death_signal = inherited.death_signal;
    start.guarded = inherited.guarded;
    start
}

fn failed_to_make(what: &'static str) -> impl Fn(io::Error) -> StartFailure + Copy {
    move |error| StartFailure::by_system(format_args!("cannot make a {what}: {error}"), error.raw_os_error())
}

/// A pipe for a process to write to.
fn pipe(open: usize) -> io::Result<Ends> {
    let (ours, theirs) = io::pipe()?;
    Ok((Stream::ours(move_up(ours.into(), open), false), theirs.into()))
}

/// Moves a descriptor away from the low numbers: each new process copies the low part of the table.
fn move_up(fd: OwnedFd, open: usize) -> OwnedFd {
    if open < MOVE_UP_FROM {
        return fd;
    }
    // It may stay where it is if no number is free.
    duplicate_from(fd.as_raw_fd(), LONG_FD_TABLE.into()).unwrap_or(fd)
}
