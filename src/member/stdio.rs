//! Extracts the link from where it was passed, and restores the standard streams that a program
//! expects.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libi_launch::machine::Stream as Standard;

pub(super) use crate::engine::ParentChannel;
use crate::engine::stream::Stream;
use crate::engine::sys::{adopt, duplicate, is_open, replace};

/// The link to the parent.
pub(super) struct LinkStreams {
    pub(super) channel: ParentChannel,
    /// Pipes with output of this process, which are passed on.
    pub(super) printed: Vec<(Standard, Stream)>,
}

/// The link is standard input and output. From now on input is empty, and output is a pipe that
/// libi reads.
///
/// Standard error is left as it is, so that the last messages of a process that crashes are not
/// lost in a pipe of its own, unless output goes to the same place.
pub(super) fn take_streams(with_stderr: bool) -> io::Result<LinkStreams> {
    let (input, output) = (Stream::new(duplicate(0)?)?, Stream::new(duplicate(1)?)?);
    open_closed()?;
    replace(File::open("/dev/null")?.as_fd(), 0)?;
    let mut printed = vec![(Standard::Out, redirect(1)?)];
    if with_stderr {
        printed.push((Standard::Err, redirect(2)?));
    }
    Ok(LinkStreams { channel: ParentChannel::Streams(input, output), printed })
}

/// The link is the socket with this number; the standard streams are pipes that the parent reads.
pub(super) fn take_socket(number: &str) -> io::Result<LinkStreams> {
    open_closed()?;
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let number = number.parse().ok().filter(|number| *number > 2);
    let link = adopt(number.ok_or_else(|| invalid("no number of a descriptor"))?)?;
    // Its number is the one that programs expect for the first file they open.
    let input = Stream::new(duplicate(link.as_raw_fd())?)?.accepting_fds();
    if !input.is_socket() {
        // The descriptor belongs to the program.
        std::mem::forget(link);
        return Err(invalid("no socket"));
    }
    Ok(LinkStreams { channel: ParentChannel::Socket(input), printed: Vec::new() })
}

/// Opens standard streams that are closed. Otherwise a descriptor of libi could get the number of a
/// standard stream, and output of the program would go there.
pub(super) fn open_closed() -> io::Result<()> {
    for number in 0..=2 {
        if !is_open(number) {
            let null = File::options().read(true).write(true).open("/dev/null")?;
            let above = duplicate(null.as_raw_fd())?;
            // It may have got that very number.
            drop(null);
            replace(above.as_fd(), number)?;
        }
    }
    Ok(())
}

/// Makes a standard stream a pipe, and returns its read end.
pub(super) fn redirect(number: i32) -> io::Result<Stream> {
    let (ours, its) = io::pipe()?;
    // Above the numbers of standard streams, in case those are closed.
    let ours = duplicate(ours.as_raw_fd())?;
    replace(its.as_fd(), number)?;
    Ok(Stream::ours(ours, false))
}
