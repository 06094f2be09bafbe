//! Lost members that are started again.

use std::time::Duration;

use libi_core::ids::Rank;
use libi_launch::machine::{Event as Input, RestartError};

use super::{Error, FrontCommand, Session};

impl Session {
    /// Starts a member again whose process has ended: the same program, on the same host, as the
    /// same rank. Only while the session is up, with [`OnLoss::Continue`](crate::OnLoss::Continue),
    /// and where the process that leads the host is no member: an
    /// [agent](crate::LaunchOptions::agent), or the engine [apart](crate::Engine::Apart) from the
    /// program.
    ///
    /// Returns when the new process has joined; if the member is being restarted already, when that
    /// process has. It finds in the variable `LIBI_RESTARTS` how often
    /// its member was started again, failed attempts included, and gets no standard input from the
    /// front end. A process that does not join within the
    /// [`join_timeout`](crate::Rules::join_timeout) is killed.
    /// [`Event::Restarted`](crate::Event::Restarted) or
    /// [`Event::NotRestarted`](crate::Event::NotRestarted) reports the answer, too.
    ///
    /// The session is not done while a member is restarted. It is when the last member has ended,
    /// and none of its members can be restarted from then on.
    ///
    /// # Errors
    /// The member was not restarted, for the reason that is given; or `timeout` elapsed first, in
    /// which case the restart goes on.
    pub fn restart(&self, rank: Rank, timeout: Duration) -> Result<(), Error> {
        let (is_first, host_name) = self.runtime.with(|state| {
            let status = state.sessions.get_mut(&self.number).ok_or(Error::Closed)?;
            let is_first = !status.restarts.contains_key(&rank);
            status.restarts.entry(rank).or_default();
            Ok::<_, Error>((is_first, status.host_name_of(rank)))
        })?;
        let refused = |why| Error::NotRestarted { rank, host_name: host_name.clone(), why };
        if !is_first {
            // Another thread waits for the answer.
            return Err(refused(RestartError::UnderWay));
        }
        self.request_restart(rank);
        let answer = self.runtime.wait(timeout, |state| {
            let Some(status) = state.sessions.get(&self.number) else { return Some(Err(Error::Closed)) };
            let answer = status.restarts.get(&rank).cloned().flatten()?;
            Some(answer.map_err(&refused))
        });
        self.runtime.with(|state| {
            state.sessions.get_mut(&self.number).map(|status| status.restarts.remove(&rank));
        });
        answer.unwrap_or(Err(Error::TimedOut("the restart of a member")))
    }

    /// As [`restart`](Self::restart), and does not wait: an event reports the answer. Each request
    /// has one.
    pub fn request_restart(&self, rank: Rank) {
        self.runtime.send(FrontCommand::Tell(self.number, Input::Restart(rank)));
    }
}
