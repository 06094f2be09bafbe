//! The earliest time at which all hosts can be up: T of the [module documentation](super).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::ids::HostIndex;
use crate::plan::growth::Growth;
use crate::time::Instant;

/// An overdue launch is expected after its age divided by this.
const OVERDUE_DIVISOR: u64 = 8;
/// A launch that has taken this many times its estimate is not expected any more, though it may
/// still answer.
const SILENT_AFTER: u64 = 2;

/// All nodes that can launch, and from when on.
pub(super) struct LaunchCapacity {
    /// The number of hosts that one of them can have up over time.
    pub(super) growth: Growth,
    /// When the launcher itself can launch more.
    pub(super) launcher: LauncherSlots,
    /// Now, when children are ready that have so many hosts to launch already.
    pub(super) now: u64,
    pub(super) loads: Vec<u32>,
    /// When the launches in flight are expected to be ready: in order, but for overdue ones, which
    /// come first.
    pub(super) in_flight: Vec<u64>,
    /// The number of hosts to be launched.
    pub(super) remaining: u32,
}

/// When the launcher can make its next launches.
pub(super) enum LauncherSlots {
    /// It launches no more.
    None,
    /// From then on, SEQ apart.
    From(u64),
    /// It may have so few launches in flight that it waits for their answers: from then on one
    /// after the other, REM apart, in each of these places.
    Places(Vec<u64>),
}

impl LauncherSlots {
    /// The slots in a window of this size, of which these launches in flight take a part until
    /// they are ready. The next slot is at `slot`, and a launch keeps the launcher busy for SEQ.
    pub(super) fn in_window(window: u32, in_flight: &[u64], slot: u64, seq: u64) -> Self {
        let window = window.max(1) as usize;
        let free = window.saturating_sub(in_flight.len());
        let mut answers = in_flight.to_vec();
        answers.sort_unstable();
        let taken = answers.split_off(answers.len().saturating_sub(window));
        let open = core::iter::repeat_n(slot, free).chain(taken);
        let at = |(before, open): (u64, u64)| open.max(slot.saturating_add(seq.saturating_mul(before)));
        Self::Places((0..).zip(open).map(at).collect())
    }

    /// The number of hosts that the launcher and these hosts can have up by this time.
    fn up_by(&self, finish: u64, growth: &Growth, limit: u32) -> u32 {
        let places = match self {
            Self::None => return 0,
            Self::From(slot) => return growth.others_up(finish.saturating_sub(*slot), limit),
            Self::Places(places) => places,
        };
        let mut up = 0u32;
        for place in places {
            let mut ready = place.saturating_add(growth.rem());
            while ready <= finish && up < limit {
                up = up.saturating_add(growth.others_up(finish - ready, limit)).saturating_add(1);
                ready = ready.saturating_add(growth.rem());
            }
        }
        up
    }
}

impl LaunchCapacity {
    /// Whether all hosts can be up at this time.
    fn can_finish_by(&self, finish: u64) -> bool {
        let up_from = |ready: u64| self.growth.others_up(finish.saturating_sub(ready), self.remaining);
        let own = self.launcher.up_by(finish, &self.growth, self.remaining);
        let of_each = up_from(self.now);
        let of_children = self.loads.iter().map(|load| of_each.saturating_sub(*load));
        let mut up = of_children.fold(own, u32::saturating_add);
        for &ready in &self.in_flight {
            if up >= self.remaining {
                break;
            }
            up = up.saturating_add(up_from(ready));
        }
        up >= self.remaining
    }

    /// The least time at which all hosts can be up, searched outwards from a guess. It is always
    /// later than now, because no launch takes no time.
    pub(super) fn earliest_finish(&self, guess: u64) -> u64 {
        let mut early = self.now; // too early
        let mut late = guess.max(self.now.saturating_add(1)); // late enough at the end
        let mut step = 1u64;
        if self.can_finish_by(late) {
            while late - early > step && self.can_finish_by(late - step) {
                late -= step;
                step = step.saturating_mul(4);
            }
            early = early.max(late.saturating_sub(step));
        } else {
            while late < u64::MAX {
                early = late;
                late = late.saturating_add(step);
                if self.can_finish_by(late) {
                    break;
                }
                step = step.saturating_mul(4);
            }
        }
        while late - early > 1 {
            let middle = early + (late - early) / 2;
            if self.can_finish_by(middle) {
                late = middle;
            } else {
                early = middle;
            }
        }
        late
    }
}

/// The launches that have neither become ready nor failed, by their start, each with the time of
/// its turn.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    turns: BTreeMap<(Instant, HostIndex), Instant>,
}

impl InFlight {
    pub(super) fn insert(&mut self, at: Instant, host: HostIndex, turn: Instant) {
        self.turns.insert((at, host), turn);
    }

    pub(super) fn remove(&mut self, at: Instant, host: HostIndex) {
        self.turns.remove(&(at, host));
    }

    pub(super) fn contains(&self, at: Instant, host: HostIndex) -> bool {
        self.turns.contains_key(&(at, host))
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    /// Updates the times of turns.
    pub(super) fn turns(&mut self, turns: impl Iterator<Item = (Instant, HostIndex, Instant)>) {
        for (started, host, turn) in turns {
            if let Some(known) = self.turns.get_mut(&(started, host)) {
                *known = turn;
            }
        }
    }

    /// The start of the first launch that is still expected to answer.
    pub(super) fn first_expected(&self, now: Instant, rem: u64) -> Option<Instant> {
        self.expected_launches(now, rem).next().map(|((started, _), _)| started)
    }

    /// When the launches that are still expected will be ready, but for these.
    pub(super) fn expected_but(
        &self,
        without: &BTreeSet<(Instant, HostIndex)>,
        now: Instant,
        rem: u64,
    ) -> Vec<u64> {
        let now_nanos = now.as_nanos();
        let ready = |turn: Instant| {
            let age = now_nanos.saturating_sub(turn.as_nanos());
            if age > rem {
                now_nanos.saturating_add(age / OVERDUE_DIVISOR)
            } else {
                turn.as_nanos().saturating_add(rem)
            }
        };
        let others = self.expected_launches(now, rem).filter(|(launch, _)| !without.contains(launch));
        others.map(|(_, turn)| ready(turn)).collect()
    }

    fn expected_launches(
        &self,
        now: Instant,
        rem: u64,
    ) -> impl Iterator<Item = ((Instant, HostIndex), Instant)> + '_ {
        let since = Instant::from_nanos(now.as_nanos().saturating_sub(rem.saturating_mul(SILENT_AFTER)));
        let turns = self.turns.iter().map(|(&launch, &turn)| (launch, turn));
        turns.skip_while(move |&(_, turn)| turn < since)
    }

    pub(super) fn since(&self, since: Instant) -> impl Iterator<Item = Instant> + '_ {
        self.turns.range((since, HostIndex(0))..).map(|(&(at, _), _)| at)
    }
}
