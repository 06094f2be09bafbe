//! Support for libi's own tests: the session secret, so that tests can search for it where it must
//! not be. Compiled only for them.

use std::sync::{Mutex, PoisonError};

/// The secret of the latest session with every bit inverted, so that this copy is not found.
static INVERTED: Mutex<[u8; 32]> = Mutex::new([0; 32]);

pub(crate) fn note_secret(secret: &[u8; 32]) {
    let mut inverted = INVERTED.lock().unwrap_or_else(PoisonError::into_inner);
    for (to, from) in inverted.iter_mut().zip(secret) {
        *to = !*from;
    }
}

/// The inverted secret of the session that was started last in this process.
#[must_use]
pub fn last_secret_inverted() -> [u8; 32] {
    *INVERTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The secret of that session.
#[must_use]
pub fn last_secret() -> [u8; 32] {
    last_secret_inverted().map(|byte| !byte)
}
