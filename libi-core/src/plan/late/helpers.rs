//! By when everything can be up if everybody helps who can: the time T of the [module above](super).

use alloc::collections::BTreeSet;

use crate::ids::HostIndex;
use crate::plan::growth::Growth;
use crate::time::Instant;

/// An overdue launch is expected after one part in this many of its age.
const OVERDUE: u64 = 8;
/// Nothing is expected of a launch that has taken this many times its estimate, though it may still answer.
const SILENT: u64 = 2;

/// Everybody who can launch, and from when on.
pub(super) struct Helpers<'a> {
    /// How many hosts each of them can have up, by when.
    pub(super) growth: Growth,
    /// The child that is ready is one of them, from now on.
    pub(super) now: u64,
    /// The launcher itself is another, from here on.
    pub(super) slot: u64,
    /// And so are those that will be ready.
    pub(super) in_flight: &'a InFlight,
    /// How many hosts there are to be had up.
    pub(super) rest: u32,
}

impl Helpers<'_> {
    /// Whether everything can be up at this time.
    fn done_by(&self, finish: u64) -> bool {
        let up_from = |ready: u64| self.growth.besides_itself(finish.saturating_sub(ready), self.rest);
        let rem = self.growth.rem();
        let mut up = up_from(self.now).saturating_add(up_from(self.slot));
        for started in self.in_flight.not_silent(Instant::from_nanos(self.now), rem) {
            let age = self.now.saturating_sub(started.as_nanos());
            let overdue = age > rem;
            let ready = self.now.saturating_add(if overdue { age / OVERDUE } else { rem - age });
            // Those that are not overdue will be ready in the order of their start.
            if up >= self.rest || !overdue && ready.saturating_add(rem) > finish {
                break;
            }
            up = up.saturating_add(up_from(ready));
        }
        up >= self.rest
    }

    /// The least time at which everything can be up, searched for outwards from a guess. It is always
    /// later than now, because nobody launches anything in no time.
    pub(super) fn finish(&self, guess: u64) -> u64 {
        let mut early = self.now; // too early
        let mut late = guess.max(self.now.saturating_add(1)); // late enough, once the step is found
        let mut step = 1u64;
        if self.done_by(late) {
            while late - early > step && self.done_by(late - step) {
                late -= step;
                step = step.saturating_mul(4);
            }
            early = early.max(late.saturating_sub(step));
        } else {
            while late < u64::MAX {
                early = late;
                late = late.saturating_add(step);
                if self.done_by(late) {
                    break;
                }
                step = step.saturating_mul(4);
            }
        }
        while late - early > 1 {
            let middle = early + (late - early) / 2;
            if self.done_by(middle) {
                late = middle;
            } else {
                early = middle;
            }
        }
        late
    }
}

/// The launches that have neither become ready nor failed, by their start.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight {
    started: BTreeSet<(Instant, HostIndex)>,
}

impl InFlight {
    pub(super) fn insert(&mut self, at: Instant, host: HostIndex) {
        self.started.insert((at, host));
    }

    pub(super) fn remove(&mut self, at: Instant, host: HostIndex) {
        self.started.remove(&(at, host));
    }

    pub(super) fn len(&self) -> usize {
        self.started.len()
    }

    /// The starts of those that have not been silent for so long that nothing is expected of them any
    /// more, the earliest first.
    pub(super) fn not_silent(&self, now: Instant, rem: u64) -> impl Iterator<Item = Instant> + '_ {
        let since = now.as_nanos().saturating_sub(rem.saturating_mul(SILENT));
        self.since(Instant::from_nanos(since))
    }

    pub(super) fn since(&self, since: Instant) -> impl Iterator<Item = Instant> + '_ {
        self.started.range((since, HostIndex(0))..).map(|&(at, _)| at)
    }
}
