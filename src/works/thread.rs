//! The thread that turns machinery when no caller does.

use std::time::Duration;

use super::board::Wheel;
use super::{Driver, Guard, Machinery, Works};

/// For how long nobody drives before the thread does.
pub(super) const LINGER: Duration = Duration::from_millis(1);

/// For how long at most it does not look, while callers come and go.
const MOST: Duration = LINGER.saturating_mul(8);

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

    /// Rests until the wheel is free, and nobody has wanted it for a while or it is the thread that is wanted.
    fn rest<'a>(&'a self, mut inner: Guard<'a, M>) -> Guard<'a, M> {
        loop {
            if inner.wheel == Wheel::Free {
                let idle = inner.left.elapsed();
                if inner.summoned || inner.stopped || idle >= LINGER {
                    inner.pause = LINGER;
                    return inner;
                }
                let pause = inner.pause;
                self.board.set_alarm(&mut inner, pause);
            }
            inner.pause = MOST.min(inner.pause * 2);
            // While somebody drives nothing is to be done: whoever leaves the wheel sets the alarm if it is not set.
            drop(inner);
            self.board.sleep_until_called();
            inner = self.board.lock();
            inner.alarmed = false;
            inner.in_vain |= inner.wheel == Wheel::Caller;
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
