//! The thread that turns machinery when no caller does.

use std::sync::PoisonError;
use std::time::Duration;

use super::board::Wheel;
use super::{Driver, Guard, Machinery, Works};

/// For how long nobody drives before the thread does.
pub(super) const LINGER: Duration = Duration::from_micros(500);

/// For how long, at most, the thread does not look whether somebody drives.
pub(super) const MOST: Duration = LINGER.saturating_mul(8);

impl<M: Machinery> Works<M> {
    /// What the thread does, until the works are stopped or the machinery fails.
    pub(crate) fn tend(&self) {
        let _ends = Ends(self);
        let mut inner = self.board.lock();
        loop {
            inner = self.rest(inner);
            if inner.stopped {
                break;
            }
            inner = self.drive_for_callers(inner);
        }
        drop(inner);
        self.close();
    }

    /// Drives until somebody sleeps who could.
    fn drive_for_callers<'a>(&'a self, mut inner: Guard<'a, M>) -> Guard<'a, M> {
        let mut driver = Driver::take(self, &mut inner, Wheel::Thread);
        loop {
            // Sleepers are looked for, and it is forgotten that they have woken us, in one moment.
            if inner.stopped || inner.has_sleepers() && inner.may_be_lent() {
                break;
            }
            let commands = inner.take_commands();
            (inner.for_thread, inner.summoned) = (false, false);
            drop(inner);
            if !commands.is_empty() {
                driver.machinery().obey(commands);
            }
            let turned = driver.machinery().turn(None);
            let anybodys = driver.machinery().is_anybodys();
            inner = self.board.lock();
            inner.anybodys = anybodys;
            inner.stopped |= turned.is_err();
        }
        inner.summoned = false;
        driver.leave(&mut inner);
        inner
    }

    /// Rests until the wheel is free, and it is the thread's turn to take it.
    fn rest<'a>(&'a self, mut inner: Guard<'a, M>) -> Guard<'a, M> {
        // How often it was not, and how often the wheel was taken or left at the last time.
        let (mut looked, mut moves) = (0_u32, inner.moves);
        loop {
            let needed = inner.summoned || inner.stopped;
            let pause = MOST.min(LINGER * (1 << looked.saturating_sub(1).min(8)));
            let pause = match inner.wheel {
                Wheel::Free if needed => return inner,
                Wheel::Free => {
                    let idle = inner.left.elapsed();
                    if idle >= LINGER {
                        return inner;
                    }
                    Some(pause.saturating_sub(idle))
                }
                _ if needed || pause == MOST && inner.moves == moves => None,
                _ => Some(pause),
            };
            moves = inner.moves;
            inner = match pause {
                Some(pause) => {
                    looked += 1;
                    let waited = self.board.thread.wait_timeout(inner, pause);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => {
                    looked = 0;
                    inner.calls_thread = true;
                    let mut woken = self.board.thread.wait(inner).unwrap_or_else(PoisonError::into_inner);
                    woken.calls_thread = false;
                    woken
                }
            };
        }
    }
}

/// However the thread ends, nobody waits for it.
struct Ends<'a, M: Machinery>(&'a Works<M>);

impl<M: Machinery> Drop for Ends<'_, M> {
    fn drop(&mut self) {
        self.0.board.end();
    }
}
