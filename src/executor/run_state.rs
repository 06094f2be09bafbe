//! Decides which thread drives, and which thread a change has to wake.
//!
//! The run token grants exclusive use of the reactor. The reservation says which threads may take
//! it: while the token is *reserved*, only the thread may. Without a thread it is reserved for the
//! end only. *Poll*, *waiter*, *thread*, *all* are what an event wakes; the poll is not woken again
//! while a wake-up is on its way.
//!
//! | event             | free                | a caller drives | the thread drives      | closed  |
//! |-------------------|---------------------|-----------------|------------------------|---------|
//! | a caller waits    | drives              | sleeps          | sleeps; poll           | returns |
//! | ... if reserved   | sleeps              | sleeps          | sleeps                 | returns |
//! | a command is sent | its caller flushes  | poll            | poll                   |         |
//! | ... if reserved   | thread              | poll            | poll                   |         |
//! | ... no thread     | poll                | poll            |                        |         |
//! | a turn has ended  |                     | drives on       | releases if waiters    |         |
//! | ... if reserved   |                     | releases        | drives on              |         |
//! | driver releases   |                     | waiter          | waiter                 |         |
//! | ... if reserved   |                     | thread          |                        |         |
//! | a waiter leaves   | waiter              |                 |                        |         |
//! | ... if reserved   |                     |                 |                        |         |
//! | idle for a while  | the thread drives   |                 |                        |         |
//! | stop (reserves)   | thread              | poll            | poll                   |         |
//! | ... no thread     | the caller closes   | poll; it waits  |                        |         |
//! | close             | all                 |                 |                        |         |
//!
//! # Invariants
//! - At most one thread drives: a thread takes the token only while it is free.
//! - While the token is free and not reserved and a waiter exists, at least one waiter is awake or
//!   a wake-up is on its way to one. On release the driver wakes one waiter, and so does a waiter
//!   that leaves while the token is free.
//! - While the token is free and reserved, a wake-up is on its way to the thread.
//! - No turn blocks while a command waits: a driver takes all commands and expects a new wake-up
//!   under one lock, before each turn.
//! - No turn of the thread blocks while the token is not reserved and a waiter exists: the thread
//!   checks for waiters under that same lock, and a caller wakes the poll before it sleeps.

/// Which thread may use the reactor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunToken {
    Free,
    Caller,
    Thread,
    /// The reactor has been closed.
    Closed,
}

/// Which threads may take the token. In the order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reservation {
    Open,
    /// Only the thread, as the reactor does what only the thread may do, or is about to.
    Reactor,
    /// Only the thread, because a command waits for it.
    Command,
    /// Only for the end: the reactor must not be turned any more.
    Stop,
}

/// What the poll of the driver needs in order to return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poll {
    /// The driver may sleep in it, or is going to: a wake-up.
    NeedsWakeUp,
    /// Nothing: a wake-up is on its way, and the commands have not been taken since.
    Woken,
}

/// The thread that a change has to wake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum WakeUp {
    None,
    /// The driver: its poll returns.
    Poll,
    /// One waiter, which may take the token.
    Waiter,
    /// The resting thread.
    Thread,
    /// All waiters.
    All,
}

/// What a caller does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Next {
    /// Takes the token and drives.
    Drive,
    /// Wakes this thread; then sleeps if it waits for something.
    Wake(WakeUp),
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct RunState {
    token: RunToken,
    reservation: Reservation,
    poll: Poll,
    threaded: bool,
}

impl RunState {
    pub(super) fn new(threaded: bool) -> Self {
        // Until the thread knows better, the reactor is reserved for it.
        let reservation = if threaded { Reservation::Reactor } else { Reservation::Open };
        Self { token: RunToken::Free, reservation, poll: Poll::NeedsWakeUp, threaded }
    }

    pub(super) fn token(&self) -> RunToken {
        self.token
    }

    pub(super) fn is_closed(&self) -> bool {
        self.token == RunToken::Closed
    }

    /// Whether the reactor must not be turned any more.
    pub(super) fn is_stopped(&self) -> bool {
        self.reservation == Reservation::Stop
    }

    /// Whether only the thread may drive.
    pub(super) fn is_reserved(&self) -> bool {
        self.reservation != Reservation::Open
    }

    /// Whether a caller may take the token.
    pub(super) fn caller_may_acquire(&self) -> bool {
        self.token == RunToken::Free && !self.is_reserved()
    }

    /// A caller waits for something that is not there.
    pub(super) fn wait(&mut self) -> Next {
        match self.token {
            RunToken::Free if !self.is_reserved() => Next::Drive,
            RunToken::Thread if !self.is_reserved() => Next::Wake(self.wake_poll()),
            _ => Next::Wake(WakeUp::None),
        }
    }

    /// A caller has added a command.
    pub(super) fn command_added(&mut self, requires_thread: bool) {
        if requires_thread && self.threaded {
            self.reservation = self.reservation.max(Reservation::Command);
        }
    }

    /// A caller has commands executed that it has added.
    pub(super) fn send(&mut self) -> Next {
        match self.token {
            RunToken::Free if !self.threaded => Next::Wake(self.wake_poll()),
            RunToken::Free if self.is_reserved() => Next::Wake(WakeUp::Thread),
            RunToken::Free => Next::Drive,
            RunToken::Caller | RunToken::Thread => Next::Wake(self.wake_poll()),
            RunToken::Closed => Next::Wake(WakeUp::None),
        }
    }

    fn wake_poll(&mut self) -> WakeUp {
        match std::mem::replace(&mut self.poll, Poll::Woken) {
            Poll::NeedsWakeUp => WakeUp::Poll,
            Poll::Woken => WakeUp::None,
        }
    }

    /// Takes the token, which must be free.
    pub(super) fn acquire(&mut self, token: RunToken) {
        debug_assert_eq!(self.token, RunToken::Free, "two threads drive");
        self.token = token;
    }

    /// The driver takes all commands and begins a turn.
    pub(super) fn begin_turn(&mut self) {
        self.poll = Poll::NeedsWakeUp;
        if self.reservation == Reservation::Command {
            // Only the thread comes here. What the command leads to is known after the turn.
            self.reservation = Reservation::Reactor;
        }
    }

    /// A turn has ended. `callers_may_drive` is what the reactor says now.
    pub(super) fn end_turn(&mut self, callers_may_drive: bool) {
        if self.reservation <= Reservation::Reactor {
            let reserved = self.threaded && !callers_may_drive;
            self.reservation = if reserved { Reservation::Reactor } else { Reservation::Open };
        }
    }

    /// Whether the thread, which drives, is to release the token before the next turn.
    pub(super) fn thread_is_to_release(&self, has_waiters: bool) -> bool {
        self.is_stopped() || has_waiters && !self.is_reserved()
    }

    /// The driver releases the token.
    pub(super) fn release(&mut self) -> WakeUp {
        self.token = RunToken::Free;
        match self.is_reserved() {
            true if self.threaded => WakeUp::Thread,
            // One of them has called `stop` and closes the reactor.
            true => WakeUp::All,
            false => WakeUp::Waiter,
        }
    }

    /// A waiter leaves without having driven.
    pub(super) fn leave(&self) -> WakeUp {
        if self.caller_may_acquire() { WakeUp::Waiter } else { WakeUp::None }
    }

    /// The reactor has failed while a thread drives, which releases the token now.
    pub(super) fn fail(&mut self) {
        self.reservation = Reservation::Stop;
    }

    /// The reactor is not to be turned any more.
    pub(super) fn stop(&mut self) -> WakeUp {
        self.reservation = Reservation::Stop;
        match self.token {
            RunToken::Free if self.threaded => WakeUp::Thread,
            RunToken::Caller | RunToken::Thread => self.wake_poll(),
            RunToken::Free | RunToken::Closed => WakeUp::None,
        }
    }

    /// The reactor has been closed.
    pub(super) fn close(&mut self) -> WakeUp {
        (self.token, self.reservation) = (RunToken::Closed, Reservation::Stop);
        WakeUp::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_interrupts_the_thread_once() {
        let mut run = RunState::new(true);
        run.acquire(RunToken::Thread);
        run.begin_turn();
        assert_eq!(run.wait(), Next::Wake(WakeUp::None), "the token is reserved");
        run.end_turn(true);
        run.begin_turn();
        assert_eq!([run.wait(), run.wait()], [WakeUp::Poll, WakeUp::None].map(Next::Wake));
        assert!(run.thread_is_to_release(true));
    }

    #[test]
    fn the_thread_keeps_a_reserved_token() {
        let mut run = RunState::new(true);
        run.acquire(RunToken::Thread);
        run.begin_turn();
        run.end_turn(true);
        run.command_added(true);
        assert!(!run.thread_is_to_release(true));
        run.begin_turn();
        run.end_turn(false);
        assert!(!run.thread_is_to_release(true));
    }
}
