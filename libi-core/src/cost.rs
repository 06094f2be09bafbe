//! The cost model: the three numbers that every plan is made with.
//!
//! A launcher is busy for [`Cost::seq`] with each launch before it can start the next. The new
//! process can launch others [`Cost::rem`] after its own launch was started. [`Cost::constant`] is
//! paid once per launch of a session, however many hosts take part.
//!
//! A launcher that is free at time 0 starts its first child at 0, its second at `seq` and its third
//! at `2 seq`; those children are up at `rem`, `seq + rem` and `2 seq + rem`.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// The cost model of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// SEQ: how long one launch keeps its launcher from starting the next.
    pub seq: Duration,
    /// REM: from starting a launch until the new process can launch others.
    pub rem: Duration,
    /// The part that is paid once per session.
    pub constant: Duration,
}

impl Cost {
    /// A cost without a constant part.
    #[must_use]
    pub const fn new(seq: Duration, rem: Duration) -> Self {
        Self { seq, rem, constant: Duration::ZERO }
    }

    /// The same cost with this constant part.
    #[must_use]
    pub const fn with_constant(self, constant: Duration) -> Self {
        Self { constant, ..self }
    }
}
