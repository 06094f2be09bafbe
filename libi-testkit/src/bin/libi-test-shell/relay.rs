//! Stands between the caller and the command, as ssh does: every byte passes through here, until it
//! does not.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::sys::{self, Moment};

/// What stands between them.
#[derive(Debug)]
pub(crate) struct Relay<'a> {
    /// Whether the command gets any input. If not, the caller's standard input is closed.
    pub(crate) with_stdin: bool,
    /// A copy of the command's input.
    pub(crate) record: Option<File>,
    /// What happens after so many bytes of the command's output, if anything.
    pub(crate) ending: Option<(u64, Ending)>,
    /// What the caller reads after the command's output.
    pub(crate) after: &'a [u8],
    /// What the caller reads on standard error when the connection is cut.
    pub(crate) cut: &'a [u8],
    /// When a connection that passes nothing any more is given up.
    pub(crate) give_up: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Cut,
    Hang,
}

impl Relay<'_> {
    /// Runs the command, and returns its status, or how the connection was lost.
    ///
    /// When this process ends, by whatever cause, the command loses its streams.
    pub(crate) fn run(self, words: &[&CStr]) -> io::Result<Result<u8, Ending>> {
        let (command_stdin, to_command) = io::pipe()?;
        let (mut output, command_stdout) = io::pipe()?;
        let (mut errors, command_stderr) = io::pipe()?;
        let streams = [command_stdin.as_fd(), command_stdout.as_fd(), command_stderr.as_fd()];
        let pid = sys::spawn(words, streams.map(Some))?;
        drop((command_stdin, command_stdout, command_stderr));

        let stdin = sys::take(io::stdin())?;
        let mut stdout = sys::take(io::stdout())?;
        let mut stderr = sys::take(io::stderr())?;
        let hangs = self.ending.filter(|&(_, ending)| ending == Ending::Hang);
        let watched = hangs.map(|_| stdin.try_clone()).transpose()?;
        let hung = Arc::new(AtomicBool::new(hangs.is_some_and(|(bytes, _)| bytes == 0)));
        if self.with_stdin {
            let hung = Arc::clone(&hung);
            let to_command = Input { to_command, record: self.record };
            thread::spawn(move || pass_input(stdin, to_command, &hung));
        } else {
            sys::stop_reading(stdin.as_fd());
            drop((stdin, to_command));
        }
        let mut last_words = match self.ending {
            Some((_, Ending::Cut)) => Some(stderr.try_clone()?),
            _ => None,
        };
        let errors = {
            let hung = Arc::clone(&hung);
            thread::spawn(move || pass(&mut errors, &mut stderr, u64::MAX, &hung))
        };

        let bytes = self.ending.map_or(u64::MAX, |(bytes, _)| bytes);
        let passed = pass(&mut output, &mut stdout, bytes, &AtomicBool::new(false));
        if let (Passed::Enough, Some((_, ending))) = (passed, self.ending) {
            if let Some(watched) = watched {
                hung.store(true, Relaxed);
                sys::leave_children();
                sys::sleep_unless_abandoned([watched.as_fd(), stdout.as_fd()], self.give_up)?;
            }
            if let Some(stderr) = &mut last_words {
                let _ = stderr.write_all(self.cut); // the caller may be gone
            }
            return Ok(Err(ending));
        }
        drop(output); // if the caller reads no more, the command has to know
        let stdout = (!self.after.is_empty()).then_some(stdout); // else the caller learns now that this was all
        let _ = errors.join(); // ssh ends with the streams too, not with the command alone
        let status = sys::wait(pid)?;
        if let Some(mut stdout) = stdout {
            let _ = stdout.write_all(self.after); // the caller may be gone
        }
        Ok(Ok(status))
    }
}

/// The input of the command.
#[derive(Debug)]
struct Input {
    to_command: PipeWriter,
    record: Option<File>,
}

impl Write for Input {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(record) = &mut self.record {
            record.write_all(bytes)?;
        }
        self.to_command.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to_command.flush()
    }
}

/// Why no more was passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passed {
    /// One of the ends was closed.
    All,
    /// As much was passed as may be.
    Enough,
}

fn pass_input(mut stdin: File, mut to_command: Input, hung: &AtomicBool) {
    pass(&mut stdin, &mut to_command, u64::MAX, hung);
    sys::stop_reading(stdin.as_fd()); // the command has closed its end, or the caller has, who will not mind
}

/// Passes bytes on, at most so many. A connection that hangs keeps what it has read, and does not
/// return.
fn pass(from: &mut impl Read, to: &mut impl Write, most: u64, hung: &AtomicBool) -> Passed {
    let stop_if_hung = || {
        while hung.load(Relaxed) {
            thread::park();
        }
    };
    let mut buffer = [0; 16 * 1024];
    let mut left = most;
    while left > 0 {
        stop_if_hung();
        let room = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let bytes = match from.read(&mut buffer[..room]) {
            Ok(0) => return Passed::All,
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return Passed::All,
        };
        stop_if_hung();
        if to.write_all(&buffer[..bytes]).is_err() {
            return Passed::All;
        }
        left -= bytes as u64;
    }
    Passed::Enough
}
