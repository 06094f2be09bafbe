//! Further shares, for children whose shares have proved too small.
//!
//! A share is computed from what is known when it is given. If the hosts that remain take longer than
//! expected, a child has nothing to launch for the rest of the launch. That is so above all for a
//! child that was up before it was known how few launches a launcher can make at a time. So whenever
//! the estimate gets better or a share is up, all children that are up are considered as if they were
//! ready now, each with what it has still to launch. A child that has less than it can have up by T
//! gets the rest, of the hosts that wait here and of the launches that can be withdrawn. A child that
//! has just answered is one of those that have nothing. One that has many hosts, and has brought up
//! none of them, may not be able to launch: it gets no more, as it would launch all of them in vain
//! before that is known.

use alloc::vec::Vec;

use super::{HostState, Launch, Queue, Share, UpChild};
use crate::ids::HostIndex;
use crate::time::Instant;

/// With how many hosts, none of which is up, a child gets no further share.
const UNPROVEN: usize = 32;

/// A further share of a child.
#[derive(Debug)]
pub struct FurtherShare {
    /// The child.
    pub child: HostIndex,
    /// What it has to launch beside its former share.
    pub share: Share,
    /// The launches that were in flight here. They have to be ended; their hosts are in the share.
    pub withdrawn: Vec<Launch>,
}

impl UpChild {
    /// Whether it has many hosts to launch, and none of them is up.
    fn is_unproven(&self) -> bool {
        self.open >= UNPROVEN && self.open == self.share.hosts.len()
    }
}

impl Queue {
    /// A host is up that may be in the share of this child. Returns whether that was the last one.
    pub fn up_below(&mut self, child: HostIndex, host: HostIndex) -> bool {
        let Some(HostState::Up(child)) = self.states.get_mut(&child) else { return false };
        if !child.share.hosts.contains(host) {
            return false;
        }
        child.open = child.open.saturating_sub(1);
        child.open == 0
    }

    /// Gives hosts to those of these children that can have them up sooner than they are here. With each
    /// comes how many launchers it has: the child itself, and those that were [moved](Self::move_to) to it.
    /// `withdraws`: also of the launches in flight.
    pub fn share_out(
        &mut self,
        children: impl Iterator<Item = (HostIndex, usize)>,
        withdraws: bool,
        now: Instant,
    ) -> Vec<FurtherShare> {
        self.end_back_offs(now);
        let mut late = if withdraws { self.late_turns(now) } else { Vec::new() };
        if self.waiting.is_empty() && late.is_empty() {
            return Vec::new();
        }
        let open = |(host, launchers): (HostIndex, usize)| match self.states.get(&host) {
            Some(HostState::Up(child)) if child.is_unproven() => None,
            Some(HostState::Up(child)) => Some((child.open / launchers.max(1), host, launchers.max(1))),
            _ => None,
        };
        let mut ready: Vec<(usize, HostIndex, usize)> = children.filter_map(open).collect();
        ready.sort_unstable();
        let load = |open: usize| u32::try_from(open).unwrap_or(u32::MAX);
        let loads = ready.iter().flat_map(|(open, _, many)| core::iter::repeat_n(load(*open), *many));
        let most = self.share_with(true, &late, loads.collect(), now) as usize;
        let mut shares = Vec::new();
        for (open, child, launchers) in ready.into_iter().take_while(|(open, ..)| *open < most) {
            let lacks = (most - open).saturating_mul(launchers);
            let missing = lacks.saturating_sub(self.waiting.len()).min(late.len());
            let withdrawn = late.split_off(late.len() - missing);
            let withdrawn = withdrawn.into_iter().map(|late| self.withdraw(late)).collect();
            let share = self.split_off(lacks.min(self.waiting.len()));
            if share.hosts.is_empty() {
                break;
            }
            if self.add_to_share(child, &share).is_ok() {
                shares.push(FurtherShare { child, share, withdrawn });
            }
        }
        shares
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::super::Next;
    use super::*;
    use crate::cost::Cost;
    use crate::plan::estimate::Estimate;

    #[test]
    fn a_child_gets_as_much_as_all_its_launchers_can_have_up() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let cost = Cost::new(Duration::from_millis(10), Duration::from_millis(20));
        let given = |launchers| {
            let mut queue = Queue::new((1..=100).map(HostIndex).collect(), Estimate::assumed(&cost));
            let Next::Launch(launch) = queue.next(at(0)) else { panic!("nothing to launch") };
            queue.child_ready_with_last(launch, at(20), 0).unwrap();
            let share = queue.share_out([(launch.host, launchers)].into_iter(), false, at(20));
            (share[0].share.hosts.len(), queue.waiting())
        };
        let ((one, left), (three, left_of_three)) = (given(1), given(3));
        assert!(one < three && three < 3 * one, "{one} and {three}");
        assert!(left_of_three < left, "{left} and {left_of_three}");
    }

    #[test]
    fn a_child_gets_more_once_nothing_is_left_for_it_to_launch() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let cost = Cost::new(Duration::from_millis(10), Duration::from_millis(20));
        let mut queue = Queue::new((1..=100).map(HostIndex).collect(), Estimate::assumed(&cost));
        let Next::Launch(launch) = queue.next(at(0)) else { panic!("nothing to launch") };
        assert!(queue.child_ready_with_last(launch, at(20), 0).unwrap().hosts.is_empty());
        let child = launch.host;
        let share_out = |queue: &mut Queue| queue.share_out([(child, 1)].into_iter(), false, at(20));
        let first = share_out(&mut queue).remove(0).share.hosts;
        assert!(!first.is_empty() && queue.waiting() > 0, "{first:?}");
        assert!(share_out(&mut queue).is_empty(), "it has what it can have up by then");
        let hosts: Vec<HostIndex> = first.iter().collect();
        assert!(hosts.len() > 2, "{hosts:?}");
        assert!(queue.remove_from_share(child, hosts[0]), "given up");
        let last: Vec<bool> = hosts[1..].iter().map(|host| queue.up_below(child, *host)).collect();
        assert!(last.ends_with(&[false, true]) && !last[..last.len() - 1].contains(&true), "{last:?}");
        assert!(!queue.up_below(child, HostIndex(1_000)), "not one of its hosts");
        let more = share_out(&mut queue).remove(0);
        assert!(!more.share.hosts.is_empty() && more.withdrawn.is_empty(), "{more:?}");
    }
}
