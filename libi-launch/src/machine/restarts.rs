//! New processes in the places of lost members, on their hosts, while the session is up. Where the host is
//! lost as well, see [`returns`](super::returns).
//!
//! Only where calls [go on](crate::options::OnLoss::Continue), and an agent leads the host: the
//! process that leads it is no member, and still lives. All attempts at a rank are numbered from 1
//! on, by requests of the front end and by [automatic](crate::options::LaunchOptions::restarts)
//! ones of the agent. The process that was started with the session has number 0.
//!
//! ```text
//!   front end                nodes between                      agent
//!     | -- Restart(rank, 1) ----> | -- Restart(rank, 1) ----------> |  starts the program
//!     |                           |                                 |  <-- hello
//!     | <-- Restarted(rank, 1) -- | <-- Restarted(rank, 1) -------- |  config, Join, Carry, Joins
//! ```
//!
//! A rank at the agent of its host:
//!
//! | state | event | effect | next state |
//! |---|---|---|---|
//! | running, as number `k` | it exits | `Exited(k)` | ended |
//! | the same | it is lost, and may be restarted automatically | `Restarting(n)`, `Exited(k)` | pausing, or starting `n` |
//! | pausing | its pause is over | its program is started, with `LIBI_RESTARTS=n` | starting `n` |
//! | pausing | the session ends | none: the front end has given it up | ended |
//! | running | `Restart(n)`, of a greater number than all before | `NotRestarted(n)` | running |
//! | ended | the same | its program is started, with `LIBI_RESTARTS=n` | starting `n` |
//! | starting `n` | hello | `Join`; `Carry`, `Joins`; `Restarted(n)` | running, as number `n` |
//! | starting `n` | not started, exit | `NotRestarted(n)` | ended |
//! | starting `n` | no hello in `join_timeout` | it is killed; `NotRestarted(n)` at its end | |
//! | any | `Restart` of a number that was tried | none: that attempt is answered | |
//!
//! Between two starts of a rank is a pause, which doubles with each, unless the front end asks for the second:
//! each restart halts the calls of all members. A process that has lasted longer is replaced at once, and so
//! is the one that was started with the session.
//!
//! A rank at the front end (`front_end/restart_requests.rs`):
//!
//! | state | event | effect | next state |
//! |---|---|---|---|
//! | ended | request | `Restart(n)`, where `n` follows the last number that was answered | under way `n` |
//! | any other | request | refused | |
//! | not answered `n` | `Restarting(n)` | | under way `n` |
//! | the same | `Restarted(n)` | the member lives again; notice | running, as number `n` |
//! | the same | `NotRestarted(n)` | notice | ended |
//! | under way | its host is lost, or the session ends | notice: not restarted; `n` is answered | ended |
//! | running, as number `k` | `Exited(k)` | notice | ended |
//! | any | any of these of another number | none: it is repeated, or was given up | |
//!
//! An agent reports the attempts and the ends of a rank in their order, and every node keeps that
//! order. A host that has [found another parent](super::orphans) repeats all of them from the first
//! on. The numbers tell a repeated report from a new one.
//!
//! An agent does not end when all of its members have, since they may be restarted. A program that
//! may be [any program](crate::options::Programs::Any) has to join when it is restarted.
//!
//! The session is not over while a restart is under way. Nodes on the way keep orders for children
//! that are adopted, as they do with commands.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use serde::{Deserialize, Serialize};

use crate::failure::Exit;

/// How often a member was started again, or was to be: this variable tells it to the new process.
pub const RESTARTS_ENV: &str = "LIBI_RESTARTS";

/// Why a member was not restarted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum RestartError {
    /// The session is not up yet.
    #[error("the session is not up")]
    NotUp,
    /// The session ends, or all of its members have ended.
    #[error("the session ends")]
    Ending,
    /// The session has fewer ranks.
    #[error("the session has no such rank")]
    NoSuchRank,
    /// Calls do not go on without lost members.
    #[error("calls do not go on without lost members in this session: see OnLoss::Continue")]
    NotContinuing,
    /// The agents start no programs.
    #[error("the agents of this session start no programs")]
    NoPrograms,
    /// The process that leads the host is its first member.
    #[error("the host of the member is led by its first member, not by an agent")]
    NoAgent,
    /// The host was lost while the member was restarted there.
    #[error("the host of the member is lost")]
    HostLost,
    /// The member has never come up.
    #[error("the member has not come up with its session")]
    NeverUp,
    /// The host is lost, and hosts of this back-end are launched at the beginning alone.
    #[error("the host of the member is lost, and hosts of this back-end are all launched together")]
    AllAtOnce,
    /// The host is lost, and its members could not be started anew, for this reason.
    #[error("the host of the member is lost, and no other has come up in its place: {0}")]
    NoHost(String),
    /// The host is up: the member is restarted there, and nowhere else.
    #[error("the host of the member is up")]
    HostUp,
    /// A member is restarted on one host.
    #[error("it can start on one host, and not on another number of them")]
    NotOneHost,
    /// The session uses no remote shell, and the host is another machine.
    #[error("all hosts of this session are this machine, and the new one is not")]
    OtherMachine,
    /// The end of the member's process is not known.
    #[error("the member is still running")]
    StillRunning,
    /// The member has detached from the session.
    #[error("the member has detached")]
    Detached,
    /// An earlier request, or an automatic restart, is not answered yet.
    #[error("the member is being restarted already")]
    UnderWay,
    /// The program cannot be started, for this reason.
    #[error("{0}")]
    NotStarted(String),
    /// The new process has ended before it joined.
    #[error("the new process has ended before it joined: {0}")]
    Ended(Exit),
    /// The new process did not join in time, and was killed.
    #[error("the new process has not joined in time, and was killed")]
    NotJoined,
}

/// An order to the agent of a rank's host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartOrder {
    /// The rank.
    pub rank: Rank,
    /// The number of the attempt.
    pub number: u32,
}

/// The restarts that a node passes on, and those of its own host.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    /// The number of the attempt by which the members of this host were started.
    of_host: u32,
    /// At an agent: the ranks that were started again.
    own: BTreeMap<Rank, Attempts>,
    /// Orders that have passed here lately, which a child that is adopted may have missed.
    recent: VecDeque<(Instant, RestartOrder)>,
}

/// The attempts at one rank.
#[derive(Debug, Default)]
struct Attempts {
    /// The number of the last one.
    last: u32,
    /// When it begins, if it pauses before.
    due: Option<Instant>,
    /// When a process was started last.
    begun: Option<Instant>,
    /// Its link, until it has joined or has failed.
    starting: Option<LinkId>,
    /// The number of the process that has joined last.
    joined: u32,
}

impl Restarts {
    /// The number of the attempt by which the members of this host were started: 0, unless they are in the
    /// places of lost ones.
    pub(super) fn of_host(&self) -> u32 {
        self.of_host
    }

    /// The members of this host are started by the attempt of this number.
    pub(super) fn set_of_host(&mut self, number: u32) {
        self.of_host = number;
    }

    /// The number of the last attempt at a rank.
    pub(super) fn last(&self, rank: Rank) -> u32 {
        self.own.get(&rank).map_or(self.of_host, |attempts| attempts.last)
    }

    fn attempts(&mut self, rank: Rank) -> &mut Attempts {
        let first = Attempts { last: self.of_host, joined: self.of_host, ..Attempts::default() };
        self.own.entry(rank).or_insert(first)
    }

    /// An attempt fails before a process is started for it.
    pub(super) fn fails(&mut self, order: RestartOrder) {
        self.attempts(order.rank).last = order.number;
    }

    /// A process is started for this attempt.
    pub(super) fn begins(&mut self, order: RestartOrder, link: LinkId, now: Instant) {
        let attempts = self.attempts(order.rank);
        let joined = attempts.joined;
        *attempts =
            Attempts { last: order.number, due: None, begun: Some(now), starting: Some(link), joined };
    }

    /// A rank is to be restarted automatically. Returns whether that begins at once.
    pub(super) fn pauses(&mut self, order: RestartOrder, now: Instant, pause: Duration) -> bool {
        let attempts = self.attempts(order.rank);
        attempts.last = order.number;
        attempts.due = attempts.begun.map(|begun| begun + pause).filter(|due| *due > now);
        attempts.due.is_none()
    }

    /// An attempt whose pause is over.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<RestartOrder> {
        let mut all = self.own.iter_mut();
        let (rank, attempts) = all.find(|(_, attempts)| attempts.due.is_some_and(|due| due <= now))?;
        attempts.due = None;
        Some(RestartOrder { rank: *rank, number: attempts.last })
    }

    /// When the next pause is over.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.own.values().filter_map(|attempts| attempts.due).min()
    }

    /// The session ends.
    pub(super) fn end(&mut self) {
        self.own.values_mut().for_each(|attempts| attempts.due = None);
    }

    /// The attempt whose process is at the other end of this link, and has not joined.
    pub(super) fn starting(&self, rank: Rank, link: LinkId) -> Option<RestartOrder> {
        let attempts = self.own.get(&rank).filter(|attempts| attempts.starting == Some(link))?;
        Some(RestartOrder { rank, number: attempts.last })
    }

    /// The process of an attempt joins; returns which, if it is one.
    pub(super) fn joins(&mut self, rank: Rank, link: LinkId) -> Option<RestartOrder> {
        let order = self.starting(rank, link)?;
        let attempts = self.own.get_mut(&rank)?;
        (attempts.starting, attempts.joined) = (None, order.number);
        Some(order)
    }

    /// A process has ended. The attempt that has failed with it; otherwise, the number of the
    /// process.
    pub(super) fn ends(&mut self, rank: Rank, link: LinkId) -> Result<u32, RestartOrder> {
        if let Some(order) = self.starting(rank, link) {
            self.attempts(rank).starting = None;
            return Err(order);
        }
        Ok(self.own.get(&rank).map_or(self.of_host, |attempts| attempts.joined))
    }

    /// Keeps an order for children that are adopted, for this time.
    pub(super) fn keep(&mut self, order: RestartOrder, now: Instant, kept: Duration) {
        self.recent.retain(|(at, _)| now < *at + kept);
        self.recent.push_back((now, order));
    }

    /// The orders for these ranks that were kept.
    pub(super) fn kept<'a>(&'a self, ranks: &'a Ranks) -> impl Iterator<Item = RestartOrder> + 'a {
        self.recent.iter().map(|(_, order)| *order).filter(|order| ranks.contains(order.rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANK: Rank = Rank(3);

    fn order(number: u32) -> RestartOrder {
        RestartOrder { rank: RANK, number }
    }

    #[test]
    fn a_process_has_the_number_of_the_attempt_that_has_started_it() {
        let mut restarts = Restarts::default();
        assert_eq!((restarts.last(RANK), restarts.ends(RANK, LinkId(1))), (0, Ok(0)));
        restarts.begins(order(1), LinkId(2), Instant::ZERO);
        assert_eq!(restarts.joins(RANK, LinkId(1)), None, "another link");
        assert_eq!(restarts.joins(RANK, LinkId(2)), Some(order(1)));
        assert_eq!(restarts.joins(RANK, LinkId(2)), None, "it has joined");
        assert_eq!((restarts.last(RANK), restarts.ends(RANK, LinkId(2))), (1, Ok(1)));
    }

    #[test]
    fn an_attempt_that_fails_has_a_number_and_no_end() {
        let mut restarts = Restarts::default();
        restarts.begins(order(1), LinkId(2), Instant::ZERO);
        assert_eq!(restarts.ends(RANK, LinkId(2)), Err(order(1)));
        restarts.fails(order(2));
        assert_eq!((restarts.last(RANK), restarts.last(Rank(4))), (2, 0));
        restarts.begins(order(3), LinkId(4), Instant::ZERO);
        assert_eq!(restarts.joins(RANK, LinkId(4)), Some(order(3)));
        assert_eq!(restarts.ends(RANK, LinkId(4)), Ok(3));
    }

    #[test]
    fn members_in_the_places_of_lost_ones_are_numbered_from_there_on() {
        let mut restarts = Restarts::default();
        restarts.set_of_host(3);
        assert_eq!((restarts.last(RANK), restarts.ends(RANK, LinkId(1))), (3, Ok(3)));
        restarts.begins(order(4), LinkId(2), Instant::ZERO);
        assert_eq!(restarts.ends(RANK, LinkId(2)), Err(order(4)));
        assert_eq!((restarts.last(RANK), restarts.ends(RANK, LinkId(1))), (4, Ok(3)));
    }

    #[test]
    fn an_attempt_begins_after_a_pause_unless_the_last_process_has_lasted_longer() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let (mut restarts, pause) = (Restarts::default(), Duration::from_millis(200));
        assert!(restarts.pauses(order(1), at(100), pause), "the first process was started with the session");
        restarts.begins(order(1), LinkId(2), at(100));
        assert!(!restarts.pauses(order(2), at(150), pause));
        assert_eq!((restarts.last(RANK), restarts.next_deadline()), (2, Some(at(300))));
        assert_eq!((restarts.next_due(at(299)), restarts.next_due(at(300))), (None, Some(order(2))));
        assert_eq!(restarts.next_deadline(), None);
        restarts.begins(order(2), LinkId(3), at(300));
        assert!(restarts.pauses(order(3), at(500), pause), "it has lasted");
        restarts.begins(order(3), LinkId(4), at(500));
        assert!(!restarts.pauses(order(4), at(501), pause));
        restarts.end();
        assert_eq!(restarts.next_deadline(), None);
    }

    #[test]
    fn orders_are_kept_for_a_time_and_given_to_those_above_their_rank() {
        let (mut restarts, kept) = (Restarts::default(), Duration::from_secs(9));
        let at = |seconds| Instant::ZERO + Duration::from_secs(seconds);
        restarts.keep(order(1), at(0), kept);
        restarts.keep(order(2), at(8), kept);
        let below: Ranks = [RANK].into_iter().collect();
        assert_eq!(restarts.kept(&below).collect::<Vec<_>>(), [order(1), order(2)]);
        assert_eq!(restarts.kept(&Ranks::new()).count(), 0);
        restarts.keep(order(3), at(9), kept);
        assert_eq!(restarts.kept(&below).collect::<Vec<_>>(), [order(2), order(3)]);
    }
}
