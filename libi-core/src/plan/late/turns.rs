//! Estimates SEQ where a start returns at once, and REM without the time spent waiting for a turn.
//!
//! # The problem
//! A launcher is not always limited by the time that a start takes. A remote shell is spawned at
//! once, and then needs the launcher's processor for its handshake; shells started after it wait.
//! SEQ is then the length of a *turn* at that resource, which no program reports. It shows only in
//! the delay of the hellos of launches that had to wait, and only if any had to. And until SEQ is
//! known, it is unknown which part of the time to a hello was waiting.
//!
//! # The method
//! Both are estimated together. For any candidate SEQ, the starts alone determine when each launch
//! had its turn: after earlier launches (first in, first out: an ssh that waits for a lock), or
//! together with the launches that are present (processor sharing: handshakes on one processor,
//! which all get slower). Where only so many launches are made at a time, each of which holds its
//! place until it is answered (a limit of sessions, a pool), the answers say when the next ones had
//! their turns, and the candidates are numbers of places; SEQ is then the time between two answers,
//! REM divided by that number. The remainder of the time to the hello is the launch's REM. Under the
//! right SEQ, REM depends least on how long a launch had to wait, so the candidate under which the
//! REMs scatter least wins. Candidates are compared by their likelihood, for REMs with unknown mean
//! and unknown variance, with the former estimate as further evidence. If no launch ever had to
//! wait, all small SEQs are equally likely, and the one next to the former estimate remains.
//!
//! Launches without an answer count as well, if no launch that was started later has one: under the
//! right SEQ, they have not had their turn for longer than REM. Two answers are therefore enough to
//! see that a launcher makes one launch after the other, whatever was assumed.
//!
//! A candidate under which a launch is answered before its turn is impossible. Without that rule,
//! any rate of launches explains itself: if SEQ is the time between two answers, all launches wait
//! in one long queue, and their REMs scatter little, below zero.
//!
//! The method does not need launches to be saturated or starts to be regular: the candidates are
//! evaluated on the starts as they were. Launches that fail or hang have had their turn like
//! others.

mod likelihood;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use self::likelihood::{Discipline, TurnSamples, ln, place_turns, sharing_ends};
use crate::ids::HostIndex;
use crate::plan::estimate::{ASSUMED_TURN_WEIGHT, Estimate};
use crate::time::Instant;

/// The number of answers to remember, and of launches; beyond that, the earlier half is dropped.
const MAX_ANSWERS: usize = 64;
const MAX_LAUNCHES: usize = 1_024;
/// The number of launches without an answer that count; fewer are no queue, but slow.
const MIN_OPEN: usize = 4;
const MAX_OPEN: usize = 8;
/// The ratio of neighbouring candidates on the search grid; around the best one the grid is four
/// times as fine.
const GRID_FACTOR: f64 = 1.25;
/// The number of grid steps up and down from the former estimate.
const GRID_STEPS: u32 = 22;
/// The smallest candidate, in seconds.
const MIN_SEQ: f64 = 1e-6;
/// The assumed relative spread of REM while little is known of it.
const ASSUMED_SPREAD: f64 = 0.1;
/// The number of answers needed for an estimate.
const MIN_ANSWERS: usize = 2;
/// An estimate that is at most this unlikely is kept without a search.
const GOOD_FIT: f64 = 0.05;
/// Beyond this number of answers, only every fourth triggers a new fit.
const REFIT_EACH: usize = 16;
/// By how much (in -2 log likelihood) another discipline has to be better to be adopted.
const DISCIPLINE_PENALTY: f64 = 3.0;

#[derive(Clone, Copy, Debug)]
struct PastLaunch {
    started: Instant,
    host: HostIndex,
    /// The nanoseconds until its hello, once that may be counted.
    took: Option<u64>,
}

impl PastLaunch {
    /// When its hello has arrived.
    fn answered(&self) -> Option<Instant> {
        Some(self.started + Duration::from_nanos(self.took?))
    }
}

/// Estimates turns from the latest launches.
#[derive(Clone, Debug)]
pub(super) struct TurnEstimator {
    /// The estimate before the remembered launches, and from when on the resource was free.
    before: Estimate,
    free_from: Instant,
    discipline: Discipline,
    /// The present turn length, as a multiple of that in `before`.
    factor: f64,
    past: VecDeque<PastLaunch>,
    answers: usize,
    /// When each of the remembered launches had its turn under the present estimate.
    turns: Vec<Instant>,
}

impl TurnEstimator {
    pub(super) fn new(before: Estimate) -> Self {
        Self {
            before,
            free_from: Instant::ZERO,
            discipline: Discipline::known(&before),
            factor: 1.0,
            past: VecDeque::new(),
            answers: 0,
            turns: Vec::new(),
        }
    }

    /// Adds a launch; returns when it will have its turn.
    pub(super) fn start(&mut self, host: HostIndex, now: Instant, estimate: &Estimate) -> Instant {
        if self.answers >= MAX_ANSWERS || self.past.len() >= MAX_LAUNCHES {
            self.forget(estimate);
        }
        let turn = self.next_free(estimate).max(now);
        self.past.push_back(PastLaunch { started: now, host, took: None });
        self.turns.push(turn);
        turn
    }

    /// When the next turn can begin.
    pub(super) fn next_free(&self, estimate: &Estimate) -> Instant {
        self.free_after(self.turns.len(), estimate)
    }

    /// When the turn after the first `count` of the remembered launches can begin.
    fn free_after(&self, count: usize, estimate: &Estimate) -> Instant {
        let Some(last) = count.checked_sub(1).and_then(|last| self.turns.get(last)) else {
            return self.free_from;
        };
        let Discipline::Places(places) = self.discipline else { return *last + estimate.cost().seq };
        let rem = estimate.cost().rem;
        let end = |(past, turn): (&PastLaunch, &Instant)| past.answered().unwrap_or(*turn + rem);
        let mut ends: Vec<Instant> = self.past.iter().zip(&self.turns).take(count).map(end).collect();
        match ends.len().checked_sub(places.get().into()) {
            Some(nth) => (*last).max(*ends.select_nth_unstable(nth).1),
            None => *last,
        }
    }

    /// When the next turn could begin without this many of the launches that wait for theirs.
    pub(super) fn slot_without(&self, late: usize, estimate: &Estimate) -> Instant {
        if let Discipline::Places(_) = self.discipline {
            return self.free_after(self.turns.len().saturating_sub(late), estimate);
        }
        let turns = estimate.cost().seq * u32::try_from(late).unwrap_or(u32::MAX);
        Instant::ZERO + self.next_free(estimate).since(Instant::ZERO + turns)
    }

    /// Whether it is known that launches have their turns one after the other.
    pub(super) fn are_in_order(&self) -> bool {
        self.discipline.is_in_order()
            && (self.answers >= MIN_ANSWERS || self.before.turn_weight() > ASSUMED_TURN_WEIGHT)
    }

    /// A launch was ended before its turn; it was the last, but for others that are ended as well.
    pub(super) fn forget_launch(&mut self, started: Instant, host: HostIndex) {
        let from = self.past.partition_point(|past| past.started < started);
        let found = self.past.range(from..).position(|past| past.host == host && past.started == started);
        if let Some(at) = found.map(|at| from + at) {
            self.past.remove(at);
            self.turns.remove(at);
        }
    }

    /// Whether a launch is remembered.
    pub(super) fn has(&self, started: Instant, host: HostIndex) -> bool {
        let from = self.past.partition_point(|past| past.started < started);
        let at_once = self.past.range(from..).take_while(|past| past.started == started);
        at_once.into_iter().any(|past| past.host == host)
    }

    /// The remembered launches with their turns.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Instant, HostIndex, Instant)> + '_ {
        self.past.iter().zip(&self.turns).map(|(past, turn)| (past.started, past.host, *turn))
    }

    /// A launch is answered `took` after its start. Returns whether it is still remembered.
    pub(super) fn answer(&mut self, started: Instant, host: HostIndex, took: u64) -> bool {
        let from = self.past.partition_point(|past| past.started < started);
        let found = self.past.range_mut(from..).find(|past| past.host == host && past.started == started);
        let Some(past) = found else { return false };
        past.took = Some(took);
        self.answers += 1;
        // It had its turn before, so the resource was free.
        self.free_from = self.free_from.min(started + Duration::from_nanos(took));
        true
    }

    /// Adds the measured duration of a start.
    pub(super) fn observe_seq(&mut self, measured: Duration) {
        self.before.observe_seq(measured);
    }

    /// Adopts the turn length of a better estimate, unless this node has enough answers itself.
    /// Returns whether it was adopted.
    pub(super) fn adopt(&mut self, other: &Estimate) -> bool {
        let knows_less = self.answers < MIN_ANSWERS;
        if knows_less {
            self.before.adopt_turn(other);
            self.discipline = Discipline::known(other);
            // With a measured REM the turn was corrected already: see `Estimate::observe_rem`.
            if other.rem_is_measured() {
                self.before.reset_rem(other);
            }
            self.factor = 1.0;
        }
        knows_less
    }

    /// Updates the estimate from the remembered launches and the former estimate. `is_open`: whether
    /// a launch is in flight; no launch that was started after `passed` is answered or has failed.
    pub(super) fn estimate(
        &mut self,
        estimate: &mut Estimate,
        passed: Option<Instant>,
        is_open: impl Fn(Instant, HostIndex) -> bool,
    ) {
        if self.answers >= MIN_ANSWERS && (self.answers < REFIT_EACH || self.answers.is_multiple_of(4)) {
            let is_behind = |past: &PastLaunch| passed.is_none_or(|passed| past.started > passed);
            let open = self
                .past
                .iter()
                .enumerate()
                .filter(|(_, past)| is_behind(past) && is_open(past.started, past.host));
            let most = if estimate.starts_return_at_once() { MAX_OPEN } else { 0 };
            let mut open: Vec<usize> = open.map(|(at, _)| at).take(most).collect();
            if open.len() < MIN_OPEN {
                open.clear();
            }
            (self.factor, self.discipline) = self.fit(&open);
            estimate.set_turn(&self.before, self.factor, self.discipline.places(), self.answers);
        } else if self.answers < MIN_ANSWERS {
            estimate.adopt_turn(&self.before);
        }
        self.replay(estimate);
        estimate.reset_rem(&self.before);
        for rem in self.rems(self.past.len()) {
            estimate.observe_rem(Duration::from_nanos(rem));
        }
    }

    /// Recomputes the turns under the present estimate.
    fn replay(&mut self, estimate: &Estimate) {
        let seq = estimate.cost().seq;
        self.turns.clear();
        match self.discipline {
            Discipline::Fifo => {
                let mut free = self.free_from;
                for past in &self.past {
                    let turn = past.started.max(free);
                    self.turns.push(turn);
                    free = turn + seq;
                }
            }
            Discipline::Sharing => {
                let mut ends = Vec::new();
                sharing_ends(&self.starts(), seq.as_secs_f64(), &mut ends);
                let origin = self.origin();
                for (past, end) in self.past.iter().zip(&ends) {
                    let turn = origin + Duration::from_secs_f64((end - seq.as_secs_f64()).max(0.0));
                    self.turns.push(turn.max(past.started));
                }
            }
            Discipline::Places(places) => {
                let (starts, origin, mut turns) = (self.starts(), self.origin(), Vec::new());
                let end = |past: &PastLaunch| Some(past.answered()?.since(origin).as_secs_f64());
                let rem = estimate.cost().rem.as_secs_f64();
                place_turns(&starts, self.past.iter().map(end), places, rem, &mut turns);
                let turn = |(past, turn): (&PastLaunch, f64)| {
                    (origin + Duration::from_secs_f64(turn)).max(past.started)
                };
                self.turns.extend(self.past.iter().zip(turns).map(turn));
            }
        }
    }

    /// The REMs of the first `first` remembered launches.
    fn rems(&self, first: usize) -> impl Iterator<Item = u64> + '_ {
        self.past.iter().zip(&self.turns).take(first).filter_map(|(past, turn)| {
            let waited = turn.since(past.started).as_nanos() as u64;
            past.took.map(|took| took.saturating_sub(waited).max(took / 8))
        })
    }

    fn forget(&mut self, estimate: &Estimate) {
        let mut answers = 0;
        let enough = |past: &PastLaunch| {
            answers += usize::from(past.took.is_some());
            answers == MAX_ANSWERS / 2
        };
        let half =
            self.past.iter().position(enough).map_or(MAX_LAUNCHES / 2, |last| last + 1).min(self.past.len());
        let mut before = *estimate;
        before.reset_rem(&self.before);
        for rem in self.rems(half) {
            before.observe_rem(Duration::from_nanos(rem));
        }
        if let Some(last) = self.turns.get(half - 1) {
            self.free_from = *last + estimate.cost().seq;
        }
        self.before = before;
        self.factor = 1.0;
        self.past.drain(..half);
        self.turns.drain(..half);
        self.answers = self.past.iter().filter(|past| past.took.is_some()).count();
    }

    fn origin(&self) -> Instant {
        self.past.front().map_or(Instant::ZERO, |past| past.started)
    }

    /// The starts in seconds. A launch that was started before the resource was free has waited
    /// until then.
    fn starts(&self) -> Vec<f64> {
        let origin = self.origin();
        let start = |past: &PastLaunch| past.started.max(self.free_from).since(origin).as_secs_f64();
        self.past.iter().map(start).collect()
    }

    /// The most likely SEQ, as a multiple of the former one, and the discipline.
    fn fit(&self, open: &[usize]) -> (f64, Discipline) {
        let believed = self.before.turn().max(MIN_SEQ);
        let certain = f64::from(self.before.turn_weight());
        // A measured turn is off by little; where starts do not show it, an assumption may be by any
        // factor.
        let is_assumed =
            self.before.turn_weight() <= ASSUMED_TURN_WEIGHT && self.before.starts_return_at_once();
        let starts = self.starts();
        let origin = self.origin();
        let answers: Vec<(usize, f64)> = (0..)
            .zip(&self.past)
            .filter_map(|(i, past)| Some((i, past.answered()?.since(origin).as_secs_f64())))
            .collect();
        let least = answers.iter().map(|&(i, hello)| hello - starts[i]).fold(f64::MAX, f64::min);
        let sample = TurnSamples {
            starts: &starts,
            answers: &answers,
            open,
            now: answers.iter().map(|&(_, hello)| hello).fold(0.0, f64::max),
            rem: self.before.rem_is_measured().then(|| self.before.cost().rem.as_secs_f64()),
            scatter: (ASSUMED_SPREAD * least * ASSUMED_SPREAD * least).max(1e-10),
        };
        let mut ends = Vec::new();
        let mut best = (f64::MAX, 1.0, Discipline::Fifo);
        let mut consider = |factor: f64, discipline: Discipline, best: &mut (f64, f64, Discipline)| {
            if believed * factor < MIN_SEQ {
                return;
            }
            let other = if discipline == self.discipline { 0.0 } else { DISCIPLINE_PENALTY };
            let change = ln(factor);
            let neg_log_likelihood = sample.neg_log_likelihood(believed * factor, discipline, &mut ends)
                + certain * if is_assumed { ln(1.0 + change * change) } else { change * change }
                + other;
            if neg_log_likelihood < best.0 - 1e-9 {
                *best = (neg_log_likelihood, factor, discipline);
            }
        };
        let present = match self.discipline {
            Discipline::Places(places) => {
                sample.seq_of_places(places).map_or(self.factor, |seq| seq / believed)
            }
            Discipline::Fifo | Discipline::Sharing => self.factor,
        };
        consider(present, self.discipline, &mut best);
        if best.0 < GOOD_FIT {
            return (best.1, best.2);
        }
        for discipline in [Discipline::Fifo, Discipline::Sharing] {
            let mut factor = 1.0;
            for _ in 0..=GRID_STEPS {
                consider(factor, discipline, &mut best);
                consider(1.0 / factor, discipline, &mut best);
                factor *= GRID_FACTOR;
            }
        }
        for (seq, places) in sample.numbers_of_places() {
            consider(seq / believed, Discipline::Places(places), &mut best);
        }
        let (_, around, discipline) = best;
        if let Discipline::Places(_) = discipline {
            return (best.1, best.2);
        }
        let quarter = 1.0 + (GRID_FACTOR - 1.0) / 4.0;
        for nearby in [quarter, quarter * quarter, 1.0 / quarter, 1.0 / (quarter * quarter)] {
            consider(around * nearby, discipline, &mut best);
        }
        (best.1, best.2)
    }
}

#[cfg(test)]
mod tests;
