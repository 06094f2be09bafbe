//! How likely the answers of launches are, if turns have a certain length and order.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The queueing discipline of the shared resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Discipline {
    /// First in, first out.
    #[default]
    Fifo,
    /// Processor sharing: all present launches progress at once, each at a part of the speed.
    Sharing,
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
