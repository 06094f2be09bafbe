//! Runs one process: gives it its input, reads the lines that it prints, and ends it in time.

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use libi_core::time::Instant;
use libi_launch::process::{ExitStatus, Signal};
use nix::poll::{PollFd, PollFlags};

use super::super::callback::CallbackListener;
use super::super::examiner::{Examiner, Piped, read};
use super::super::line_buffer::LineBuffer;

/// How long a process may take to end that was asked to.
const GRACE: Duration = Duration::from_secs(3);
/// How often it is asked.
const ASKS_EVERY: Duration = Duration::from_secs(1);
/// How many pieces are read at most once the process has ended.
const LAST_PIECES: usize = 256;

/// What happens while a process runs.
pub(super) enum Input {
    /// It has printed a line.
    Line(String),
    /// A connection has arrived that presented the token of this task for this address.
    Arrived(usize, usize),
}

/// Follows a process to its end. At `until`, and if this program is interrupted, it is asked to end, again
/// and again, since it may miss a signal, and killed if it does not: then the result is `None`.
pub(super) fn follow(
    examiner: &mut Examiner,
    mut process: Piped,
    input: &[u8],
    mut callbacks: Option<&mut CallbackListener>,
    until: Instant,
    mut on: impl FnMut(Input),
) -> io::Result<Option<ExitStatus>> {
    // It is shorter than a pipe. A process that does not read it says why at its end.
    if let Some(mut pipe) = process.input.take() {
        let _ = pipe.write_all(input);
    }
    let mut lines = [LineBuffer::default(), LineBuffer::default()];
    let (mut asked, mut asks_at) = (None, until);
    loop {
        let exit = process.child.peek();
        let pieces = if exit.is_some() { LAST_PIECES } else { 1 };
        for (pipe, lines) in [&mut process.stdout, &mut process.stderr].into_iter().zip(&mut lines) {
            read(pipe, pieces, |bytes| lines.take(bytes).into_iter().for_each(|line| on(Input::Line(line))));
            if exit.is_some() {
                lines.rest().into_iter().for_each(|line| on(Input::Line(line)));
            }
        }
        let now = examiner.now();
        if let Some(callbacks) = callbacks.as_deref_mut() {
            callbacks.handle_ready(now).into_iter().for_each(|(task, at)| on(Input::Arrived(task, at)));
        }
        match (exit, asked) {
            (Some(exit), None) => return Ok(Some(exit)),
            (Some(_), Some(_)) => return Ok(None),
            // Dropping the process kills it.
            (None, Some(by)) if now >= by => return Ok(None),
            (None, None) if now >= until || examiner.interrupted().is_some() => {
                asked = Some(now + GRACE);
                asks_at = now;
            }
            (None, _) => {}
        }
        if asked.is_some() && now >= asks_at && exit.is_none() {
            let _ = process.child.signal_group(Signal::TERM);
            asks_at = now + ASKS_EVERY;
        }
        let mut deadline = asked.map_or(until, |by| by.min(asks_at));
        let mut fds = vec![PollFd::new(process.child.as_fd(), PollFlags::POLLIN)];
        let pipes = [&process.stdout, &process.stderr].into_iter().flatten();
        fds.extend(pipes.map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN)));
        if let Some(callbacks) = callbacks.as_deref() {
            deadline = callbacks.deadline().map_or(deadline, |at| at.min(deadline));
            fds.extend(callbacks.descriptors().map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        }
        examiner.poll(fds, deadline.since(now))?;
    }
}
