//! A shared processor: each job gets an equal part of it.

use std::collections::VecDeque;
use std::time::Duration;

use libi_core::time::Instant;

/// When the first job will be done, and the number of changes so far; a later change invalidates
/// it.
pub type Next = Option<(Instant, u64)>;

/// The jobs in progress, all with the same amount of work.
#[derive(Debug)]
pub struct Processor<T> {
    /// Each job with the virtual work done at its end, in the measure of a job that is present all
    /// the time.
    queue: VecDeque<(f64, T)>,
    done: f64,
    at: Instant,
    changes: u64,
}

impl<T> Default for Processor<T> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), done: 0.0, at: Instant::ZERO, changes: 0 }
    }
}

impl<T> Processor<T> {
    /// A job begins.
    pub fn enter(&mut self, now: Instant, work: Duration, item: T) -> Next {
        self.advance(now);
        self.queue.push_back((self.done + work.as_secs_f64(), item));
        self.next()
    }

    /// The first job ends, if nothing has changed since that was predicted.
    pub fn leave(&mut self, now: Instant, changes: u64) -> Option<(T, Next)> {
        if changes != self.changes {
            return None;
        }
        self.advance(now);
        let (_, item) = self.queue.pop_front()?;
        Some((item, self.next()))
    }

    fn advance(&mut self, now: Instant) {
        if !self.queue.is_empty() {
            self.done += now.since(self.at).as_secs_f64() / self.queue.len() as f64;
        }
        self.at = now;
    }

    fn next(&mut self) -> Next {
        self.changes += 1;
        let (due, _) = self.queue.front()?;
        let left = (due - self.done).max(0.0) * self.queue.len() as f64;
        Some((self.at + Duration::from_secs_f64(left), self.changes))
    }
}
