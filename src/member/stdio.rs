//! Takes the link out of where it came, and gives the program the standard streams that it expects.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libi_launch::machine::Stream as Standard;

use crate::engine::stream::Stream;
use crate::engine::sys::{adopt, duplicate, is_open, replace};

/// The link to whoever has started this process.
pub(super) struct LinkStreams {
    pub(super) input: Stream,
    /// Where bytes go to, if that is another descriptor.
    pub(super) output: Option<Stream>,
    /// What is printed here, and is to be passed on.
    pub(super) printed: Vec<(Standard, Stream)>,
}

/// The link is standard input and output. From now on input is empty, and output a pipe that we read.
///
/// Standard error stays what it is, so that the last words of a process that crashes are not lost in it; unless that is where
/// output goes as well.
pub(super) fn take_streams(with_stderr: bool) -> io::Result<LinkStreams> {
    let (input, output) = (Stream::new(duplicate(0)?)?, Stream::new(duplicate(1)?)?);
    open_closed()?;
    replace(File::open("/dev/null")?.as_fd(), 0)?;
    let mut printed = vec![(Standard::Out, redirect(1)?)];
    if with_stderr {
        printed.push((Standard::Err, redirect(2)?));
    }
    Ok(LinkStreams { input, output: Some(output), printed })
}

/// The link is a socket of this number; standard streams are pipes that the starter reads.
pub(super) fn take_socket(number: &str) -> io::Result<LinkStreams> {
    open_closed()?;
    let invalid = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let number = number.parse().ok().filter(|number| *number > 2);
    let link = adopt(number.ok_or_else(|| invalid("no number of a descriptor"))?)?;
    // Where it is, programs expect the first file that they open.
    let input = Stream::new(duplicate(link.as_raw_fd())?)?.accepting_fds();
    if !input.is_socket() {
        // It is not ours to close.
        std::mem::forget(link);
        return Err(invalid("no socket"));
    }
    Ok(LinkStreams { input, output: None, printed: Vec::new() })
}

/// Opens standard streams that the program has closed: else a descriptor of ours would get the number of one, and what is printed would go
/// there.
fn open_closed() -> io::Result<()> {
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

/// Makes a standard stream a pipe, and gives the end that is read.
pub(super) fn redirect(number: i32) -> io::Result<Stream> {
    let (ours, its) = io::pipe()?;
    // Above the numbers that programs expect things of, should those be closed.
    let ours = duplicate(ours.as_raw_fd())?;
    replace(its.as_fd(), number)?;
    Ok(Stream::ours(ours, false))
}
