//! Starts the process that a node wants, by the recipe of its back-end.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use libi_launch::backend::{Backend, Channel, LINK, Local, SOCKET};
use libi_launch::machine::{Job, Node, Stream as Standard};
use libi_launch::process::{Child, Environment, Signal, Source, Start};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::Ends;
use crate::engine::stream::Stream;

/// How many descriptors one started process takes here at most.
const DESCRIPTORS: u64 = 5;

/// A process, and our ends of what leads to it.
pub(super) struct Started {
    pub(super) child: Child,
    pub(super) input: Stream,
    pub(super) output: Option<Stream>,
    pub(super) texts: Vec<(Standard, Stream)>,
}

/// Starts it; or says, for people, why that is not possible. `open` processes have been started before.
pub(super) fn start(
    node: &Node,
    job: &Job,
    environment: &Environment,
    lasting_thread: bool,
    open: usize,
) -> Result<Started, String> {
    let recipe = match job {
        Job::Host(task, program) => {
            node.via().recipe(task, program).map_err(|refused| refused.to_string())?
        }
        Job::Member(_, program) => Local::start(program),
    };
    let open_files = make_room(open);
    let made = |what: &'static str| move |error: io::Error| format!("cannot make a {what}: {error}");
    let (stderr, its_stderr) = pipe().map_err(made("pipe"))?;
    let mut start = Start::new(recipe.program, environment.clone().with(recipe.env));
    start.args = recipe.args;
    start.cwd = recipe.cwd;
    start.open_files = open_files;
    // The signal is bound to the thread; one that might end earlier than this process must not take them with it.
    start.die_with_starter = lasting_thread.then_some(Signal::KILL);
    start.fds.insert(2, Source::File(its_stderr.as_fd()));
    let mut texts = vec![(Standard::Err, stderr)];
    match recipe.channel {
        Channel::Socket => {
            let (ours, theirs) = UnixStream::pair().map_err(made("socket pair"))?;
            let (stdout, its_stdout) = pipe().map_err(made("pipe"))?;
            start.fds.insert(1, Source::File(its_stdout.as_fd()));
            start.fds.insert(SOCKET, Source::File(theirs.as_fd()));
            let child = start.start().map_err(|error| error.to_string())?;
            texts.push((Standard::Out, stdout));
            Ok(Started { child, input: Stream::ours(ours.into(), true), output: None, texts })
        }
        Channel::Streams => {
            let (its_stdin, stdin) = io::pipe().map_err(made("pipe"))?;
            let (stdout, its_stdout) = pipe().map_err(made("pipe"))?;
            start.fds.insert(0, Source::File(its_stdin.as_fd()));
            start.fds.insert(1, Source::File(its_stdout.as_fd()));
            let child = start.start().map_err(|error| error.to_string())?;
            Ok(Started { child, input: stdout, output: Some(Stream::ours(stdin.into(), false)), texts })
        }
    }
}

/// A pipe for a process to write into.
fn pipe() -> io::Result<Ends> {
    let (ours, theirs) = io::pipe()?;
    Ok((Stream::ours(OwnedFd::from(ours), false), theirs.into()))
}

/// Raises the soft limit of open files if it is near. What is started gets it as it was: programs that use `select`
/// break above 1024.
fn make_room(open: usize) -> Option<u64> {
    use std::sync::OnceLock;
    static BEFORE: OnceLock<u64> = OnceLock::new();
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if (open as u64 + 20) * DESCRIPTORS + 100 > soft && soft < hard {
        BEFORE.get_or_init(|| soft);
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
    BEFORE.get().copied()
}

/// What this process has in its environment, without what was meant for itself alone.
pub(crate) fn inherited() -> Environment {
    Environment::inherited().without(LINK.as_bytes())
}
