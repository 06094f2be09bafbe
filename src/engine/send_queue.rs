//! Writes queued output to descriptors.

use std::io;

use libi_comm::Bytes;
use libi_comm::memory::SealedRegion;
use libi_core::wire::FrameWriter;

use super::memory::descriptor;
use super::stream::Stream;

/// Queued output of one direction of a link. Shared memory is sent along with the frame that
/// describes it.
pub(super) type SendQueue = FrameWriter<Bytes, SealedRegion>;

/// The result of writing queued output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Flushed {
    Everything,
    /// The descriptor takes no more now.
    Waits,
    /// More could be written, but the limit of this turn is reached.
    Partly,
    /// The other end is closed.
    Broken,
}

/// Writes at most `limit` bytes, as far as the descriptor takes them.
pub(super) fn flush(queue: &mut SendQueue, stream: &Stream, limit: usize) -> Flushed {
    let mut capacity = limit;
    while !queue.is_empty() {
        if capacity == 0 {
            return Flushed::Partly;
        }
        let next = queue.next(capacity);
        let lent = queue.attachment();
        let has_lent = lent.is_some();
        let written = match lent.and_then(descriptor) {
            Some(fd) => stream.lend(&next, &[fd]),
            None => stream.write_pieces(&next),
        };
        match written {
            Ok(count) => {
                if has_lent {
                    queue.advance_attachment();
                }
                queue.advance(count);
                capacity = capacity.saturating_sub(count);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Waits,
            Err(_) => return Flushed::Broken,
        }
    }
    Flushed::Everything
}
