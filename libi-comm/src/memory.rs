//! Memory that the members of a host share: what comes for all of them is put into it once, and lent to the others.
//!
//! A leader that passes a long broadcast on to members of its own host does not send it to them. It puts it together in a
//! [`Region`], seals that, and lends it: the driver hands the region's descriptor over, and the members map what is in
//! it. Where there is no such memory, as in simulations, pieces are sent to them as to everybody else.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// From this length on, lending is better than sending.
pub const LENDING: u64 = 256 << 10;

/// Gives memory that can be lent.
pub trait SharedMemory: fmt::Debug + Send {
    /// Memory of this length, if there is as much.
    fn region(&mut self, length: usize) -> Option<Box<dyn Region>>;
}

/// Memory that is being written.
pub trait Region: fmt::Debug + Send {
    /// Puts these bytes behind those that are there; false if there is no memory for them.
    #[must_use]
    fn append(&mut self, bytes: &[u8]) -> bool;

    /// From now on nobody can change it, here or elsewhere. Nothing if that fails, or if it is not full.
    fn seal(self: Box<Self>) -> Option<SealedRegion>;
}

/// Memory that can be lent.
#[derive(Clone)]
pub struct SealedRegion {
    /// What is in it.
    pub bytes: Bytes,
    /// What the driver hands to those it is lent to.
    pub handle: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for SealedRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} bytes)", self.bytes.len())
    }
}
