//! The numbers of a session that change while it runs, and that are asked for without a lock: a child of
//! the program that was forked while another thread had it would wait forever.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libi_core::ids::Rank;

/// See the [module](self). A clone has the same numbers.
#[derive(Clone, Default)]
pub(super) struct Numbers(Arc<[AtomicU32; 2]>);

impl Numbers {
    /// How many members the session has, as far as the program knows.
    pub(super) fn size(&self) -> u32 {
        self.0[0].load(Ordering::Acquire)
    }

    pub(super) fn set_size(&self, size: u32) {
        self.0[0].store(size, Ordering::Release);
    }

    /// The master, as far as it is known here.
    pub(super) fn master(&self) -> Rank {
        Rank(self.0[1].load(Ordering::Acquire))
    }

    pub(super) fn set_master(&self, master: Rank) {
        self.0[1].store(master.0, Ordering::Release);
    }
}
