//! Shared memory within this process, in place of that of a host.

use std::sync::Arc;

use libi_comm::Bytes;
use libi_comm::memory::{Region, SealedRegion, SharedMemory};

/// See the [module](self).
#[derive(Debug)]
pub struct Heap;

#[derive(Debug)]
struct Part {
    bytes: Vec<u8>,
    length: usize,
}

impl SharedMemory for Heap {
    fn region(&mut self, length: usize) -> Option<Box<dyn Region>> {
        Some(Box::new(Part { bytes: Vec::new(), length }))
    }
}

impl Region for Part {
    fn append(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend_from_slice(bytes);
        self.bytes.len() <= self.length
    }

    fn seal(self: Box<Self>) -> Option<SealedRegion> {
        let is_full = self.bytes.len() == self.length;
        is_full.then(|| SealedRegion { bytes: Bytes::from(self.bytes), handle: Arc::new(()) })
    }
}
