//! Lost members that are started again.

use std::time::Duration;

use libi_core::hosts::HostList;
use libi_core::ids::Rank;
use libi_launch::machine::{Event as Input, RestartError, Spare};

use super::{Error, FrontCommand, Session, SessionStatus};
use crate::front::choice::BackendReason;
use crate::front::distribution::DistributionError;
use crate::front::this_machine::are_this_machine;

impl Session {
    /// Starts a member again whose process has ended: the same program, on the same host, as the
    /// same rank. If its host is lost, all members that were lost with it start again: on a
    /// [spare](crate::LaunchOptions::spares) that is left, else on the same machine. Only while the session is up, with [`OnLoss::Continue`](crate::OnLoss::Continue),
    /// and where the process that leads the host is no member: an
    /// [agent](crate::LaunchOptions::agent), or the engine [apart](crate::Engine::Apart) from the
    /// program.
    ///
    /// Through a back-end that starts all hosts together, such as `srun`, members of lost hosts are not restarted.
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
        self.restart_by(Input::Restart(rank), rank, timeout)
    }

    /// As [`restart`](Self::restart), for a member whose host is lost: it starts on this host, named as in host
    /// lists, and with it all that were lost with their host.
    ///
    /// # Errors
    /// As for [`restart`](Self::restart); or `host` is no name of one host.
    pub fn restart_on(&self, rank: Rank, host: &str, timeout: Duration) -> Result<(), Error> {
        let input = Input::RestartOn(rank, self.place(rank, host)?);
        self.restart_by(input, rank, timeout)
    }

    fn place(&self, rank: Rank, host: &str) -> Result<Spare, Error> {
        let hosts = HostList::parse(host).map_err(DistributionError::from)?;
        let refused = |why| Error::NotRestarted { rank, host_name: host.to_owned(), why };
        let place = hosts.entry(0).filter(|_| hosts.len() == 1);
        let place = Spare::from(place.ok_or_else(|| refused(RestartError::NotOneHost))?);
        // Its name may have to be looked up, which takes time.
        let is_local = |status: &SessionStatus| matches!(status.reason, BackendReason::ThisMachine);
        if self.status(is_local).ok_or(Error::Closed)? && !are_this_machine(&hosts) {
            return Err(refused(RestartError::OtherMachine));
        }
        Ok(place)
    }

    fn restart_by(&self, input: Input, rank: Rank, timeout: Duration) -> Result<(), Error> {
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
        self.runtime.send(FrontCommand::Tell(self.number, input));
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

    /// As [`restart_on`](Self::restart_on), and does not wait: an event reports the answer.
    ///
    /// # Errors
    /// `host` is no name of one host, or one that the session cannot reach.
    pub fn request_restart_on(&self, rank: Rank, host: &str) -> Result<(), Error> {
        let input = Input::RestartOn(rank, self.place(rank, host)?);
        self.runtime.send(FrontCommand::Tell(self.number, input));
        Ok(())
    }
}
