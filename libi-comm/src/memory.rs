//! Memory shared by the members of a host, which receive large broadcasts in it.
//!
//! A leader does not send a large broadcast to the members of its host one by one. It assembles the
//! data in a [`Region`] and seals it. The driver then passes the file descriptor of the region to
//! the members, which map it. Where no shared memory is available, as in simulations, the leader
//! sends the data like any other.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// The length from which on a shared region is cheaper than sending the data to each member.
pub const REGION_MIN: u64 = 256 << 10;

/// An allocator of shared memory.
pub trait SharedMemory: fmt::Debug + Send {
    /// Allocates a region of this length. `None` if the system has no memory for it.
    fn region(&mut self, length: usize) -> Option<Box<dyn Region>>;
}

/// Shared memory that is being written.
pub trait Region: fmt::Debug + Send {
    /// Appends bytes. False if there is no memory for them.
    #[must_use]
    fn append(&mut self, bytes: &[u8]) -> bool;

    /// Makes the region immutable for all processes. `None` if that fails, or if the region is not
    /// full.
    fn seal(self: Box<Self>) -> Option<SealedRegion>;
}

/// Shared memory that is immutable and can be passed to other members of the host.
#[derive(Clone)]
pub struct SealedRegion {
    /// The contents.
    pub bytes: Bytes,
    /// The handle that the driver passes on.
    pub handle: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for SealedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} bytes)", self.bytes.len())
    }
}
