//! Sessions that grow while they are up.

use std::ops::Range;
use std::time::Duration;

use libi_core::dist::layout::{self, Layout};
use libi_core::ids::HostIndex;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_launch::machine::{Event as Input, Grown, GrowthError, GrowthRequest, Node, Policy, Program};
use libi_launch::options::LaunchOptions;
use libi_launch::staging::Staging;
use serde::{Deserialize, Serialize};

use super::{Error, FrontCommand, Session, SessionStatus};
use crate::front::choice::BackendReason;
use crate::front::distribution::Distribution;
use crate::front::event::Event;
use crate::front::launching::host_specs;
use crate::front::program::program;
use crate::front::this_machine::{are_this_machine, name_loopback};

/// By what a session has grown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Growth {
    /// The indices of the new hosts, in the session's [report](Session::report) and
    /// [layout](Session::current_layout). The report says which of them have joined, and why others have
    /// not.
    pub hosts: Range<u32>,
    /// The ranks of the new members.
    pub ranks: Range<u32>,
    /// Those of them that did not come up.
    pub absent: Ranks,
}

impl Growth {
    /// The ranks of the new members that have come up.
    #[must_use]
    pub fn present(&self) -> Ranks {
        let mut present = Ranks::new();
        present.add_run(self.ranks.start, self.ranks.end - self.ranks.start);
        present.remove_all(&self.absent);
        present
    }
}

/// What a front end knows of the growth of a session.
pub(in crate::front) struct GrowthStatus {
    policy: Policy,
    /// When all new hosts have their verdicts, and how much later an answer comes at the latest.
    deadline: Duration,
    slack: Duration,
    stage: Option<Staging>,
    /// What was asked for, until it is answered.
    asked: Option<Asked>,
    /// The answer, if a caller waits for it.
    answer: Option<Result<Growth, Error>>,
}

struct Asked {
    layout: Layout,
    waits: bool,
}

impl GrowthStatus {
    pub(super) fn new(options: &LaunchOptions) -> Self {
        let slack = options.rules.kill_grace.saturating_mul(4).saturating_add(options.rules.peer_timeout);
        let (policy, deadline) = (options.policy, options.deadline);
        Self { policy, deadline, slack, stage: options.stage.clone(), asked: None, answer: None }
    }
}

/// What a keeper does for a front end.
impl GrowthStatus {
    /// The hosts that were asked for.
    pub(in crate::front) fn asked(&self) -> Option<&Layout> {
        self.asked.as_ref().map(|asked| &asked.layout)
    }

    /// Notes that these hosts are asked for by another process; false if the session grows already.
    pub(in crate::front) fn ask(&mut self, layout: Layout) -> bool {
        let is_free = self.asked.is_none() && self.answer.is_none();
        if is_free {
            self.asked = Some(Asked { layout, waits: true });
        }
        is_free
    }

    /// Takes the answer.
    pub(in crate::front) fn take_answer(&mut self) -> Option<Result<Growth, Error>> {
        self.answer.take()
    }

    /// The answer is waited for no more.
    pub(in crate::front) fn forget_answer(&mut self) {
        self.answer = None;
        self.asked.iter_mut().for_each(|asked| asked.waits = false);
    }
}

impl Session {
    /// Launches further members on further hosts, and waits until they take part: with the next ranks,
    /// below the hosts that the session has. Only while it is up, with
    /// [`OnLoss::Continue`](crate::OnLoss::Continue), and not through a back-end that starts all hosts
    /// together, such as `srun`.
    ///
    /// The options of the launch hold: with [`Policy::All`](crate::Policy::All) all new hosts have to join,
    /// by its deadline; else those take part that have, at least one. Ranks that do not come up stay
    /// absent. A host that is in the session already gets another agent, or leader.
    ///
    /// Members learn of it with the result of a collective call, the same at all: from the next call on
    /// that they make, the new members take part, and [`Member::size`](crate::Member::size) is greater. The
    /// new ones begin with that call ([`Member::first_call`](crate::Member::first_call)). It is one that no
    /// member has made, after one more among those that were there: a session whose members make no calls
    /// is not delayed by that, and one whose new members wait in a call waits until the others have made
    /// two.
    ///
    /// One growth is made at a time. [`Event::Grown`](crate::Event::Grown) or
    /// [`Event::NotGrown`](crate::Event::NotGrown) reports the answer, too.
    ///
    /// # Errors
    /// The distributions are invalid; or the session has not grown, for the reason that is given.
    pub fn add(&self, distribution: &Distribution) -> Result<Growth, Error> {
        self.add_all(std::slice::from_ref(distribution))
    }

    /// As [`add`](Self::add), for several distributions. The session that they name is of no interest.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub fn add_all(&self, distributions: &[Distribution]) -> Result<Growth, Error> {
        let deadline = self.ask_to_grow(distributions, true)?;
        let number = self.number;
        let answer = self.runtime.wait(deadline, |state| match state.sessions.get_mut(&number) {
            Some(status) => status.growth.answer.take(),
            None => Some(Err(Error::Closed)),
        });
        // The answer that may still come is for no caller.
        let last = || {
            self.runtime.with(|state| {
                let growth = &mut state.sessions.get_mut(&number)?.growth;
                growth.asked.iter_mut().for_each(|asked| asked.waits = false);
                growth.answer.take()
            })
        };
        answer.or_else(last).unwrap_or(Err(Error::TimedOut("further hosts")))
    }

    /// As [`add_all`](Self::add_all), and does not wait: an event reports the answer.
    ///
    /// # Errors
    /// The distributions are invalid, or another growth is under way.
    pub fn request_add(&self, distributions: &[Distribution]) -> Result<(), Error> {
        self.ask_to_grow(distributions, false).map(drop)
    }

    /// Asks for further hosts; returns when there is an answer at the latest.
    fn ask_to_grow(&self, distributions: &[Distribution], waits: bool) -> Result<Duration, Error> {
        let checked = distributions.iter().map(Distribution::checked).collect::<Result<Vec<_>, _>>()?;
        let of_session = |mut distribution: libi_core::dist::Distribution| {
            distribution.session = self.id();
            distribution
        };
        let mut distributions: Vec<_> = checked.into_iter().map(of_session).collect();
        let refused = |why| Error::NotGrown { why, hosts: Vec::new() };
        // Names may have to be looked up, which takes time.
        match self.status(|status| status.reason.clone()).ok_or(Error::Closed)? {
            BackendReason::ThisMachine if !distributions.iter().all(|it| are_this_machine(&it.hosts)) => {
                return Err(refused(GrowthError::OtherMachines));
            }
            BackendReason::Default => name_loopback(&mut distributions),
            _ => {}
        }
        let layout = layout::lay_out(&distributions)?.pop().ok_or(Error::Closed)?;
        let programs: Vec<Program> = distributions.iter().map(program).collect();
        let (request, deadline) = self.runtime.with(|state| {
            let status = state.sessions.get_mut(&self.number).ok_or(Error::Closed)?;
            if status.layout.clone().grow(&layout).is_err() {
                return Err(refused(GrowthError::TooLarge));
            }
            let growth = &mut status.growth;
            if growth.asked.is_some() || growth.answer.is_some() {
                return Err(refused(GrowthError::UnderWay));
            }
            let named = |program: Program| match &growth.stage {
                Some(files) => files.named(program),
                None => program,
            };
            let request = GrowthRequest {
                hosts: host_specs(&layout),
                programs: programs.into_iter().map(named).collect(),
                size: layout.size(),
                policy: match growth.policy {
                    Policy::All => Policy::All,
                    Policy::AtLeast(_) => Policy::AtLeast(1),
                },
                deadline: growth.deadline,
            };
            growth.asked = Some(Asked { layout, waits });
            // Hosts that return may be launched before, for as long.
            let latest = growth.deadline.saturating_add(growth.slack).saturating_mul(2);
            Ok::<_, Error>((request, latest))
        })?;
        self.runtime.send(FrontCommand::Tell(self.number, Input::Grow(Box::new(request))));
        Ok(deadline)
    }
}

impl SessionStatus {
    /// Notes that the session has grown, with the verdicts of the hosts.
    pub(in crate::front) fn grown(&mut self, grown: &Grown, node: &Node, now: Instant) -> Event {
        let growth = self.grow(grown, node, now);
        self.growth_answered(Ok(growth.clone()));
        let hosts = growth.hosts.clone().map(|host| self.host_name(HostIndex(host))).collect();
        Event::Grown { session: self.session(), growth, hosts }
    }

    /// Notes that the session has not grown.
    pub(in crate::front) fn not_grown(&mut self, why: GrowthError, node: &Node, now: Instant) -> Event {
        let hosts = match &why {
            GrowthError::TooFew(grown) => {
                let growth = self.grow(grown, node, now);
                self.report.as_ref().map_or(Vec::new(), |report| report.failures_of(growth.hosts))
            }
            _ => Vec::new(),
        };
        self.growth_answered(Err(Error::NotGrown { why: why.clone(), hosts: hosts.clone() }));
        Event::NotGrown { session: self.session(), why, hosts }
    }

    /// Adds the hosts to what is known of the session.
    fn grow(&mut self, grown: &Grown, node: &Node, now: Instant) -> Growth {
        if let Some(asked) = &self.growth.asked {
            // It was tried before.
            let _ = self.layout.grow(&asked.layout);
        }
        let (hosts, ranks) = (grown.host_range(), grown.rank_range());
        let began = self.began.unwrap_or(now);
        let mut absent = Ranks::new();
        if let Some(report) = &mut self.report {
            let report = std::sync::Arc::make_mut(report);
            report.grow(&self.layout, node, grown.first_host, now.since(began));
            let failed = hosts
                .clone()
                .filter(|host| report.hosts().get(*host as usize).is_none_or(|host| host.failure.is_some()));
            let blocks = failed.flat_map(|host| self.layout.blocks(HostIndex(host)));
            blocks.for_each(|block| absent.add_run(block.first.0, block.count));
        }
        self.progress = node.progress();
        Growth { hosts, ranks, absent }
    }

    pub(in crate::front) fn growth_answered(&mut self, answer: Result<Growth, Error>) {
        if self.growth.asked.take().is_some_and(|asked| asked.waits) {
            self.growth.answer = Some(answer);
        }
    }
}
