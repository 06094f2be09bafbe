//! The delivery of an agent through the channel to its host: what the host has asked for, on its way.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use libi_launch::delivery::{AnswerReader, Delivery};

use super::send_queue::Flushed;
use super::stream::Stream;

/// See the [module](self). Everything else that is queued for the link waits until it is over.
#[derive(Default)]
pub(super) struct AgentDelivery {
    pub(super) answers: AnswerReader,
    /// What is sent, and how much of the first of it has been written.
    pieces: VecDeque<Arc<[u8]>>,
    written: usize,
}

impl AgentDelivery {
    /// Sends the agent to the host, which has asked for it.
    pub(super) fn send(&mut self, delivery: &Delivery, file: &Arc<[u8]>, has_gzip: bool) {
        let (line, bytes) = delivery.message(file, has_gzip);
        self.queue(line.into_bytes().into());
        self.queue(bytes);
    }

    /// Sends these bytes, behind those before.
    pub(super) fn queue(&mut self, bytes: Arc<[u8]>) {
        self.pieces.push_back(bytes);
    }

    /// Writes at most about `limit` bytes, as far as the descriptor takes them.
    pub(super) fn flush(&mut self, stream: &Stream, limit: usize) -> Flushed {
        let mut capacity = limit;
        while let Some(piece) = self.pieces.front() {
            let left = &piece[self.written..];
            if left.is_empty() {
                self.pieces.pop_front();
                self.written = 0;
                continue;
            }
            if capacity == 0 {
                return Flushed::Partly;
            }
            match stream.write(&left[..left.len().min(capacity)]) {
                Ok(count) => {
                    self.written += count;
                    capacity = capacity.saturating_sub(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Waits,
                Err(_) => return Flushed::Broken,
            }
        }
        Flushed::Everything
    }
}
