//! Letting go the ranks of a job that was launched under control, from the front end.
//!
//! ```text
//!   front end                               daemons
//!     | broadcasts which ranks ------------> | each lets its own go, and waits until they have
//!     | <----------- which are still held -- | gathers
//! ```

use std::time::Duration;

use super::{Target, TargetsError, encoded};
use crate::{Member, Ranks, Session};

/// What is left of a timeout for the answer.
const FOR_ANSWER: Duration = Duration::from_secs(1);

impl Session {
    /// Lets these ranks of a job [beside](crate::FrontEnd::launch_beside) the session go on to their programs,
    /// where they are [held](super::Launch), and waits until they do. All daemons call
    /// [`release_when_told`](Member::release_when_told).
    ///
    /// # Errors
    /// [`TargetsError::Held`] names ranks that are still held at the timeout; the master is lost, or the daemons
    /// do not answer.
    pub fn release(&self, ranks: &Ranks, timeout: Duration) -> Result<(), TargetsError> {
        self.broadcast(encoded(&(ranks, timeout))).wait(timeout)?;
        let mut held = Ranks::new();
        for answer in self.gather().wait(timeout.saturating_add(FOR_ANSWER))? {
            // A daemon that is lost has none.
            if let Ok(still) = postcard::from_bytes::<Ranks>(&answer) {
                held.add_all(&still);
            }
        }
        if held.is_empty() { Ok(()) } else { Err(TargetsError::Held(held)) }
    }
}

impl Member {
    /// Lets those of these targets go that the front end [names](Session::release), and returns all ranks that
    /// it has named. A collective call, made once for each that the front end makes.
    ///
    /// # Errors
    /// The front end has not said so in time, or is gone: what is held goes on at its time limit.
    pub fn release_when_told(&self, targets: &[Target], timeout: Duration) -> Result<Ranks, TargetsError> {
        let told = self.broadcast_from_front().wait(timeout)?;
        let told = postcard::from_bytes::<(Ranks, Duration)>(&told);
        let (ranks, time) = told.map_err(|_| TargetsError::NoTable)?;
        let named = targets.iter().filter(|target| ranks.contains(target.rank()));
        let held = Target::release_all(named, time);
        self.gather_to_front(encoded(&held)).wait(FOR_ANSWER.max(time))?;
        Ok(ranks)
    }
}
