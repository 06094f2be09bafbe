//! Shares that the caller decides, of a child that is ready.

use alloc::collections::BTreeMap;

use super::{HostRuns, HostState, Launch, Queue, QueueError, Share, UpChild};
use crate::time::Instant;

impl Queue {
    /// As [`child_ready`](Self::child_ready), for a launcher without resources for more children:
    /// the child and the launches in flight that are still expected get all waiting hosts.
    ///
    /// # Errors
    /// When this launch is not in flight.
    pub fn child_ready_of_full(&mut self, launch: Launch, now: Instant) -> Result<Share, QueueError> {
        self.record_answer(launch, now)?;
        self.end_back_offs(now);
        self.release_reserved();
        let share = self.share(false, now) as usize;
        Ok(self.give_share(launch.host, share))
    }

    /// As [`child_ready`](Self::child_ready), for a child that gets so many of the waiting hosts.
    ///
    /// # Errors
    /// When this launch is not in flight.
    pub fn child_ready_with_last(
        &mut self,
        launch: Launch,
        now: Instant,
        count: usize,
    ) -> Result<Share, QueueError> {
        self.record_answer(launch, now)?;
        self.end_back_offs(now);
        Ok(self.give_share(launch.host, count.min(self.waiting.len())))
    }

    /// As [`child_ready`](Self::child_ready), for a child whose share was decided in advance: these
    /// hosts, none of which is in the queue. The child gets no host of the queue.
    ///
    /// # Errors
    /// When this launch is not in flight.
    pub fn child_ready_with(
        &mut self,
        launch: Launch,
        now: Instant,
        hosts: HostRuns,
    ) -> Result<Share, QueueError> {
        self.record_answer(launch, now)?;
        let share = Share { hosts, attempts: BTreeMap::new(), estimate: self.estimate };
        self.states.insert(launch.host, HostState::Up(UpChild::new(share.clone())));
        Ok(share)
    }
}
