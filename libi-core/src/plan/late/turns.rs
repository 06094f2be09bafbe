//! Whose turn it is: what SEQ is where a start returns at once, and what REM is without the waiting for a turn.
//!
//! # The problem
//! What limits a launcher is not always what keeps it from calling the next start. A remote shell is spawned in no time, and
//! then needs the launcher's processor for its handshake; those started after it wait. SEQ is then how long a
//! *turn* takes, which nobody reports. It shows only in how much later the hellos of those that had to wait come, and only
//! if somebody had to wait; and until SEQ is known nobody can say which part of the time to a hello was waiting.
//!
//! # The answer
//! Both are found together. For any supposed SEQ the starts alone tell when each launch had its turn: after those before
//! it (an ssh that waits for a lock, a queue), or beside those that are there (handshakes on one processor, which all
//! get slower). What is left of the time to its hello is its REM. The right SEQ is the one under which REMs
//! depend least on how long their launches had to wait, so the supposition under which they scatter least wins.
//! Suppositions are compared by their likelihood, for REMs that scatter by an unknown amount around an unknown mean, with
//! what was believed before as further evidence: if nobody ever had to wait, every small SEQ is as good as another, and
//! of those the one next to the belief remains.
//!
//! Nothing here needs the pipe to be full, the starts to be regular, or anybody to say why they were not: whatever
//! the starts were is what the suppositions start from. Launches that fail or hang have had their turn like others.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::ids::HostIndex;
use crate::plan::estimate::Estimate;
use crate::time::Instant;

/// How many answers are remembered, and how many launches at most; of what is too much the earlier half is forgotten.
const MAX_ANSWERS: usize = 64;
const MAX_LAUNCHES: usize = 1_024;
/// Suppositions are further apart than the one before by this factor; and by a quarter of it around the best.
const GRID_FACTOR: f64 = 1.25;
/// How many steps they go up and down from what was believed.
const GRID_STEPS: u32 = 22;
/// The least SEQ that is supposed.
const MIN_SEQ: f64 = 1e-6;
/// By how much of itself REM is thought to vary, as long as little is known of it.
const ASSUMED_SPREAD: f64 = 0.1;
/// From how many answers on there is anything to be found.
const MIN_ANSWERS: usize = 2;
/// A belief that is not more unlikely than this is not worth to be doubted.
const GOOD_FIT: f64 = 0.05;
/// After so many answers only each fourth makes a difference.
const REFIT_EACH: usize = 16;
/// How much more likely (as -2 log) the other order has to be for it to be believed.
const DISCIPLINE_PENALTY: f64 = 3.0;

/// In which order turns are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Discipline {
    /// One after the other.
    #[default]
    Fifo,
    /// All who are there at once, at a part of the speed.
    Sharing,
}

#[derive(Clone, Copy, Debug)]
struct PastLaunch {
    started: Instant,
    host: HostIndex,
    /// The time to its hello, once that may be counted.
    took: Option<u64>,
}

/// What the latest launches say of turns.
#[derive(Clone, Debug)]
pub(super) struct TurnEstimator {
    /// What was believed before the launches that are remembered, and from when on turns were free.
    before: Estimate,
    free_from: Instant,
    discipline: Discipline,
    /// What a turn is believed to be now, as a multiple of what was believed before.
    factor: f64,
    past: VecDeque<PastLaunch>,
    answers: usize,
    /// When each of them had its turn under the present estimate.
    turns: Vec<Instant>,
}

impl TurnEstimator {
    pub(super) fn new(before: Estimate) -> Self {
        Self {
            before,
            free_from: Instant::ZERO,
            discipline: Discipline::default(),
            factor: 1.0,
            past: VecDeque::new(),
            answers: 0,
            turns: Vec::new(),
        }
    }

    /// A launch is started; when it will have its turn.
    pub(super) fn start(&mut self, host: HostIndex, now: Instant, estimate: &Estimate) -> Instant {
        if self.answers >= MAX_ANSWERS || self.past.len() >= MAX_LAUNCHES {
            self.forget(estimate);
        }
        let turn = self.next_free(estimate).max(now);
        self.past.push_back(PastLaunch { started: now, host, took: None });
        self.turns.push(turn);
        turn
    }

    /// When the next turn is free.
    pub(super) fn next_free(&self, estimate: &Estimate) -> Instant {
        self.turns.last().map_or(self.free_from, |turn| *turn + estimate.cost().seq)
    }

    /// The remembered launches, and when they had their turns.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Instant, HostIndex, Instant)> + '_ {
        self.past.iter().zip(&self.turns).map(|(past, turn)| (past.started, past.host, *turn))
    }

    /// A launch is answered so long after its start. Tells whether it is remembered, and so of any use.
    pub(super) fn answer(&mut self, started: Instant, host: HostIndex, took: u64) -> bool {
        let from = self.past.partition_point(|past| past.started < started);
        let found = self.past.range_mut(from..).find(|past| past.host == host && past.started == started);
        let Some(past) = found else { return false };
        past.took = Some(took);
        self.answers += 1;
        true
    }

    /// A start kept its launcher for so long.
    pub(super) fn observe_seq(&mut self, measured: Duration) {
        self.before.observe_seq(measured);
    }

    /// Somebody who knows more says what turns take. Tells whether that is heard.
    pub(super) fn adopt(&mut self, other: &Estimate) -> bool {
        let knows_less = self.answers < MIN_ANSWERS;
        if knows_less {
            self.before.adopt_turn(other);
            self.factor = 1.0;
        }
        knows_less
    }

    /// Makes the estimate what the remembered launches, and what was believed before, say.
    pub(super) fn estimate(&mut self, estimate: &mut Estimate) {
        if self.answers >= MIN_ANSWERS && (self.answers < REFIT_EACH || self.answers.is_multiple_of(4)) {
            (self.factor, self.discipline) = self.fit();
            estimate.set_turn(&self.before, self.factor, self.answers);
        } else if self.answers < MIN_ANSWERS {
            estimate.adopt_turn(&self.before);
        }
        self.replay(estimate);
        estimate.reset_rem(&self.before);
        for rem in self.rems(self.past.len()) {
            estimate.observe_rem(Duration::from_nanos(rem));
        }
    }

    /// Gives the turns out again, under the estimate.
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
        }
    }

    /// The REMs of the first of those that are remembered.
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

    /// The starts in seconds; what was started while the turns were not free yet has waited for that.
    fn starts(&self) -> Vec<f64> {
        let origin = self.origin();
        let start = |past: &PastLaunch| past.started.max(self.free_from).since(origin).as_secs_f64();
        self.past.iter().map(start).collect()
    }

    /// The most likely SEQ, as a multiple of what was believed before, and the order of turns.
    fn fit(&self) -> (f64, Discipline) {
        let believed = self.before.turn().max(MIN_SEQ);
        let certain = f64::from(self.before.turn_weight());
        let starts = self.starts();
        let origin = self.origin();
        let answers: Vec<(usize, f64)> = (0..)
            .zip(&self.past)
            .filter_map(|(i, past)| {
                let hello = past.started.since(origin).as_secs_f64() + past.took? as f64 / 1e9;
                Some((i, hello))
            })
            .collect();
        let least = answers.iter().map(|&(i, hello)| hello - starts[i]).fold(f64::MAX, f64::min);
        let sample = TurnSamples {
            starts: &starts,
            answers: &answers,
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
                + certain * change * change
                + other;
            if neg_log_likelihood < best.0 - 1e-9 {
                *best = (neg_log_likelihood, factor, discipline);
            }
        };
        consider(self.factor, self.discipline, &mut best);
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
        let (_, around, discipline) = best;
        let quarter = 1.0 + (GRID_FACTOR - 1.0) / 4.0;
        for nearby in [quarter, quarter * quarter, 1.0 / quarter, 1.0 / (quarter * quarter)] {
            consider(around * nearby, discipline, &mut best);
        }
        (best.1, best.2)
    }
}

/// What the suppositions are held against, in seconds.
struct TurnSamples<'a> {
    starts: &'a [f64],
    /// Whose hello came when.
    answers: &'a [(usize, f64)],
    /// What REM was before, as far as that was measured.
    rem: Option<f64>,
    /// By how much a REM differs from their mean, squared, as far as nothing is known of that.
    scatter: f64,
}

impl TurnSamples<'_> {
    /// How unlikely a SEQ is, as -2 log of its likelihood.
    fn neg_log_likelihood(&self, seq: f64, discipline: Discipline, ends: &mut Vec<f64>) -> f64 {
        match discipline {
            Discipline::Fifo => fifo_ends(self.starts, seq, ends),
            Discipline::Sharing => sharing_ends(self.starts, seq, ends),
        }
        let rems = || self.answers.iter().map(|&(i, hello)| hello - ends[i] + seq).chain(self.rem);
        let count = rems().count() as f64;
        let mean = rems().sum::<f64>() / count;
        let squares: f64 = rems().map(|rem| (rem - mean) * (rem - mean)).sum();
        (count - 1.0) * ln(1.0 + squares / self.scatter)
    }
}

/// The natural logarithm of a positive number, which the core library does not have; to a millionth or so.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1_023;
    let mantissa = f64::from_bits(bits & !(0x7ff << 52) | 1_023 << 52);
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let s = t * t;
    let series = 1.0 + s * (1.0 / 3.0 + s * (1.0 / 5.0 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s / 11.0))));
    f64::from(exponent) * core::f64::consts::LN_2 + 2.0 * t * series
}

/// When turns end if one is taken after the other.
fn fifo_ends(starts: &[f64], seq: f64, ends: &mut Vec<f64>) {
    ends.clear();
    let mut free = 0.0f64;
    ends.extend(starts.iter().map(|start| {
        free = free.max(*start) + seq;
        free
    }));
}

/// When turns end if all who are there share the speed. Who came first ends first, because all have the same to do.
fn sharing_ends(starts: &[f64], seq: f64, ends: &mut Vec<f64>) {
    ends.clear();
    // What somebody has done who was there from the beginning.
    let (mut done, mut now) = (0.0f64, 0.0f64);
    let mut due: VecDeque<f64> = VecDeque::new();
    for &start in starts.iter().chain([&f64::INFINITY]) {
        while let Some(&first) = due.front() {
            let there = due.len() as f64;
            let end = now + (first - done) * there;
            if end > start {
                done += (start - now) / there;
                break;
            }
            (now, done) = (end, first);
            ends.push(end);
            due.pop_front();
        }
        now = start;
        due.push_back(done + seq);
    }
}

#[cfg(test)]
mod tests;
