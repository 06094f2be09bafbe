//! How likely the answers of launches are, if turns have a certain length and order.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::num::NonZeroU16;

use crate::plan::estimate::Estimate;

/// The numbers of places that are candidates.
const PLACES: [u16; 8] = [1, 2, 3, 4, 6, 8, 12, 16];

/// The queueing discipline of the shared resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Discipline {
    /// First in, first out.
    Fifo,
    /// Processor sharing: all present launches progress at once, each at a part of the speed.
    Sharing,
    /// So many launches are made at a time, each of which holds its place until it is answered.
    Places(NonZeroU16),
}

impl Discipline {
    /// Whether launches have their turns in the order of their starts, and some only once others
    /// are over.
    pub(super) fn is_in_order(self) -> bool {
        self != Self::Sharing
    }

    /// The discipline that is known of a launcher before its first launch.
    pub(super) fn known(estimate: &Estimate) -> Self {
        estimate.places().map_or(Self::Fifo, Self::Places)
    }

    pub(super) fn places(self) -> Option<NonZeroU16> {
        if let Self::Places(places) = self { Some(places) } else { None }
    }
}

/// The observations that candidates are compared with, in seconds.
pub(super) struct TurnSamples<'a> {
    pub(super) starts: &'a [f64],
    /// The launches that answered, with the times of their hellos.
    pub(super) answers: &'a [(usize, f64)],
    /// The launches that have no answer by now.
    pub(super) open: &'a [usize],
    pub(super) now: f64,
    /// The former REM, if it was measured.
    pub(super) rem: Option<f64>,
    /// The assumed squared deviation of a REM from the mean.
    pub(super) scatter: f64,
}

impl TurnSamples<'_> {
    /// -2 log likelihood of a SEQ; infinite if a launch was answered before its turn.
    pub(super) fn neg_log_likelihood(&self, seq: f64, discipline: Discipline, ends: &mut Vec<f64>) -> f64 {
        match discipline {
            Discipline::Fifo => fifo_ends(self.starts, seq, ends),
            Discipline::Sharing => sharing_ends(self.starts, seq, ends),
            Discipline::Places(places) => {
                self.place_turns(places, seq * f64::from(places.get()), ends);
                ends.iter_mut().for_each(|turn| *turn += seq);
            }
        }
        let rems = || self.answers.iter().map(|&(i, hello)| hello - ends[i] + seq).chain(self.rem);
        if rems().any(|rem| rem < 0.0) {
            return f64::INFINITY;
        }
        let mut count = rems().count() as f64;
        let mean = rems().sum::<f64>() / count;
        let mut squares: f64 = rems().map(|rem| (rem - mean) * (rem - mean)).sum();
        for &at in self.open {
            let overdue = self.now - ends[at] + seq - mean;
            if overdue > 0.0 {
                squares += overdue * overdue;
                count += 1.0;
            }
        }
        (count - 1.0) * ln(1.0 + squares / self.scatter)
    }

    /// When launches have their turns at so many places, if those without an answer hold theirs for
    /// REM.
    pub(super) fn place_turns(&self, places: NonZeroU16, rem: f64, turns: &mut Vec<f64>) {
        let mut answers = self.answers.iter().copied().peekable();
        let ends = (0..self.starts.len()).map(|i| Some(answers.next_if(|&(at, _)| at == i)?.1));
        place_turns(self.starts, ends, places, rem, turns);
    }

    /// All numbers of places for which launches would have waited, with their SEQs.
    pub(super) fn numbers_of_places(&self) -> impl Iterator<Item = (f64, NonZeroU16)> + '_ {
        let places = PLACES.iter().filter_map(|places| NonZeroU16::new(*places));
        places.filter_map(|places| Some((self.seq_of_places(places)?, places)))
    }

    /// SEQ where so many launches are made at a time: the time between two answers, if all places
    /// are taken. `None` if launches would hardly have waited, so that nothing speaks for it.
    pub(super) fn seq_of_places(&self, places: NonZeroU16) -> Option<f64> {
        let mean_rem = |turns: &[f64]| {
            let rems = self.answers.iter().map(|&(i, hello)| hello - turns[i]).chain(self.rem);
            rems.clone().sum::<f64>() / rems.count() as f64
        };
        // Turns hardly depend on this REM: most launches before an answer have one as well.
        let mut turns = Vec::new();
        self.place_turns(places, self.rem.unwrap_or_else(|| mean_rem(self.starts)), &mut turns);
        let rem = mean_rem(&turns);
        let waited: f64 = turns.iter().zip(self.starts).map(|(turn, start)| turn - start).sum();
        (waited >= rem).then(|| rem / f64::from(places.get()))
    }
}

/// The natural logarithm of a positive number, accurate to a millionth or so; `core` has none.
pub(super) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let exponent = (bits >> 52) as i32 - 1_023;
    let mantissa = f64::from_bits(bits & !(0x7ff << 52) | 1_023 << 52);
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let s = t * t;
    let series = 1.0 + s * (1.0 / 3.0 + s * (1.0 / 5.0 + s * (1.0 / 7.0 + s * (1.0 / 9.0 + s / 11.0))));
    f64::from(exponent) * core::f64::consts::LN_2 + 2.0 * t * series
}

/// When turns end under first in, first out.
pub(super) fn fifo_ends(starts: &[f64], seq: f64, ends: &mut Vec<f64>) {
    ends.clear();
    let mut free = 0.0f64;
    ends.extend(starts.iter().map(|start| {
        free = free.max(*start) + seq;
        free
    }));
}

/// When turns end under processor sharing. All turns have the same length, so they end in the order
/// of their starts.
pub(super) fn sharing_ends(starts: &[f64], seq: f64, ends: &mut Vec<f64>) {
    ends.clear();
    // The work done so far for a launch that was present from the beginning.
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

/// When launches have their turns at so many places, in order, where each holds its place until it
/// ends: at the time given, or REM after its turn.
pub(super) fn place_turns(
    starts: &[f64],
    ends: impl Iterator<Item = Option<f64>>,
    places: NonZeroU16,
    rem: f64,
    turns: &mut Vec<f64>,
) {
    turns.clear();
    // When each place is free again, the latest first.
    let mut taken: Vec<f64> = Vec::new();
    let mut turn = 0.0f64;
    for (start, end) in starts.iter().zip(ends) {
        turn = turn.max(*start);
        if taken.len() >= usize::from(places.get()) {
            turn = turn.max(taken.pop().unwrap_or(0.0));
        }
        turns.push(turn);
        let end = end.unwrap_or(turn + rem);
        let at = taken.partition_point(|other| *other > end);
        taken.insert(at, end);
    }
}
