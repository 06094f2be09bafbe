//! The share of a child that is ready: what the queue says, or what the caller decides.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::capacity::{LaunchCapacity, LauncherSlots};
use super::withdrawal::LateTurn;
use super::{HostRuns, HostState, Launch, Queue, QueueError, Share, UpChild};
use crate::ids::HostIndex;
use crate::plan::growth::Growth;
use crate::time::{Instant, nanos};

impl Queue {
    /// A launched host says hello: it can launch others. Returns its share of the queue, which may
    /// be empty. The time it took counts as a measurement of REM.
    ///
    /// # Errors
    /// When this launch is not in flight.
    pub fn child_ready(&mut self, launch: Launch, now: Instant) -> Result<Share, QueueError> {
        self.record_answer(launch, now)?;
        self.end_back_offs(now);
        let share = self.share(true, now) as usize;
        Ok(self.give_share(launch.host, share))
    }

    /// Gives the last `count` waiting hosts to a child.
    fn give_share(&mut self, child: HostIndex, count: usize) -> Share {
        let share = self.split_off(count);
        self.states.insert(child, HostState::Up(UpChild::new(share.clone())));
        share
    }

    pub(super) fn split_off(&mut self, count: usize) -> Share {
        let hosts = self.waiting.split_back(count);
        let mut attempts = BTreeMap::new();
        if !self.attempts.is_empty() {
            let again = hosts.iter().filter_map(|host| self.attempts.remove_entry(&host));
            attempts = again.collect();
        }
        Share { hosts, attempts, estimate: self.estimate }
    }

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

    /// As [`child_ready`](Self::child_ready), for a child that gets so many of the waiting hosts; with none,
    /// it gets its share by [`share_out`](Self::share_out).
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

    /// The number of waiting hosts that a child that is ready now should get. `launches`: whether this
    /// node can launch some of them itself.
    fn share(&mut self, launches: bool, now: Instant) -> u32 {
        self.share_with(launches, &[], alloc::vec![0], now)
    }

    /// The number of hosts that a child that is ready now can have up by T, where these launches in
    /// flight count as waiting, and children are ready that have so many hosts to launch already.
    pub(super) fn share_with(
        &mut self,
        launches: bool,
        late: &[LateTurn],
        loads: Vec<u32>,
        now: Instant,
    ) -> u32 {
        let remaining = self.waiting.len() + late.len();
        if remaining == 0 {
            return 0;
        }
        let cost = self.estimate.cost();
        let growth = Growth::new(&cost);
        let late_launches = late.iter().copied().collect();
        let in_flight = self.in_flight.expected_but(&late_launches, now, growth.rem());
        let slot = self.turns.slot_without(late.len(), &self.estimate).max(now).as_nanos();
        let seq = nanos(cost.seq);
        let is_narrow = |window: &u32| {
            // With fewer in flight, this node waits for their answers.
            (*window as usize) < in_flight.len() + remaining
                && seq.saturating_mul(u64::from(*window)) < growth.rem()
        };
        let launcher = match self.window.filter(is_narrow) {
            _ if !launches => LauncherSlots::None,
            Some(window) => LauncherSlots::in_window(window, &in_flight, slot, seq),
            None => LauncherSlots::From(slot),
        };
        let capacity = LaunchCapacity {
            growth,
            launcher,
            now: now.as_nanos(),
            loads,
            in_flight,
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
        };
        self.earliest_finish = capacity.earliest_finish(self.earliest_finish);
        growth.others_up(self.earliest_finish - now.as_nanos(), capacity.remaining)
    }
}
