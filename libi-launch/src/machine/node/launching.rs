//! Starts launches: which hosts, when, and with which request.

use std::time::Duration;

use libi_core::dist::layout::Block;
use libi_core::ids::{Rank, StartId};
use libi_core::join::Ticket;
use libi_core::plan::late::{Launch, Next};
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, LinkId, Node, StartRequest};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Failure, Phase};
use crate::machine::child::{Arrival, Child, ChildRole};

/// A launch that has been silent for at least this long does not count towards the window.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The most launches in flight, regardless of the window: each takes a process and its descriptors.
const MAX_LAUNCHES: usize = 1_000;

impl Node {
    /// Starts as many launches as the window allows.
    pub(super) fn launch(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.hand_down(out);
        if self.options.launch_method().bulk().is_some() {
            return self.launch_in_bulk(now, out);
        }
        while !self.starts.is_starting() {
            if let Err(again) = self.may_launch(now) {
                self.launch_again = again;
                return;
            }
            match self.queue.next(now) {
                Next::Launch(launch) => self.start_host(launch, now, out),
                Next::WaitUntil(at) => {
                    self.launch_again = Some(at);
                    return;
                }
                Next::Idle => return,
            }
        }
    }

    /// Whether the window allows another launch; if not, when it will if no event comes before.
    ///
    /// A launch that has been silent for long does not keep the launcher busy, and does not count.
    /// Otherwise a few hosts that hang would delay all others by their timeout.
    fn may_launch(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        if self.queue.waiting() == 0 {
            return Ok(());
        }
        if self.health.is_out_of_resources() && self.queue.in_flight() > 0 {
            return Err(None); // the next child that comes up gets the waiting hosts
        }
        let estimate = self.queue.estimate();
        if let Some(at) = self.window.not_before(now, &estimate) {
            return Err(Some(at));
        }
        let limit = self.window.limit(&estimate);
        self.queue.set_window(limit);
        let timeout = self.timeout();
        let since = Instant::from_nanos((now.since(Instant::ZERO).saturating_sub(timeout)).as_nanos() as u64);
        let mut counted = self.queue.in_flight_since(since);
        let earliest = counted.next();
        if earliest.map_or(0, |_| 1 + counted.count()) >= limit {
            return Err(earliest.map(|started| started + timeout + Duration::from_nanos(1)));
        }
        if self.queue.in_flight() >= self.max_in_flight() { Err(None) } else { Ok(()) }
    }

    /// The most launches in flight under the back-end's limit of children. One launch is always
    /// allowed, so that its failure can be reported.
    fn max_in_flight(&self) -> usize {
        let Some(most) = self.options.launch_method().max_children() else { return MAX_LAUNCHES };
        let held = self.children.leaders().count();
        let up = held.saturating_sub(self.queue.in_flight());
        most.saturating_sub(up).clamp(1, MAX_LAUNCHES)
    }

    /// The time after which a launch without an answer is silent.
    pub(super) fn timeout(&self) -> Duration {
        TIMEOUT.max(self.queue.estimate().cost().rem.saturating_mul(2))
    }

    fn start_host(&mut self, launch: Launch, now: Instant, out: &mut Vec<Effect>) {
        let Some(spec) = self.host_specs.get_mut(&launch.host) else { return };
        spec.attempt = launch.attempt;
        let spec = spec.clone();
        let Some(program) = self.program(&spec.blocks) else {
            let failure = self.nothing_to_run(now);
            return self.launch_failed(launch, failure, now);
        };
        let start = self.starts.next_id();
        let child = (start, Arrival::Inherited);
        let (link, ticket) = self.add_child(ChildRole::Leader(launch), child, spec.blocks.clone(), now);
        self.starts.add(start, link);
        out.push(Effect::Start(start, StartRequest::Host(link, spec, program)));
        Self::send_ticket(link, &ticket, out);
        self.starts.begin(start, now);
        self.health.note_launch(launch.host, now);
        self.window.launched(now, &self.queue.estimate());
    }

    pub(super) fn start_member(&mut self, rank: Rank, block: Block, now: Instant, out: &mut Vec<Effect>) {
        let block = Block { first: rank, count: 1, ..block };
        let Some(program) = self.program(&[block]) else {
            let failure = self.nothing_to_run(now);
            return self.host_failed(failure, now, out);
        };
        let start = self.starts.next_id();
        let child = (start, Arrival::Inherited);
        let (link, ticket) = self.add_child(ChildRole::Local(rank), child, vec![block], now);
        self.starts.add(start, link);
        out.push(Effect::Start(start, StartRequest::Member(link, rank, program)));
        Self::send_ticket(link, &ticket, out);
    }

    pub(super) fn nothing_to_run(&self, now: Instant) -> Failure {
        let cause = Cause::NotStarted("no program is assigned to this host".to_owned());
        Failure::without_evidence(Phase::Waiting, cause, now.since(self.began))
    }

    pub(super) fn program(&self, blocks: &[Block]) -> Option<super::Program> {
        self.programs.get(blocks.first()?.distribution as usize).cloned()
    }

    /// Adds a child that this start brings up.
    pub(super) fn add_child(
        &mut self,
        role: ChildRole,
        start: (StartId, Arrival),
        blocks: Vec<Block>,
        now: Instant,
    ) -> (LinkId, Ticket) {
        let rules = &self.options.rules;
        let by = now
            + match role {
                ChildRole::Leader(_) => rules.hello_timeout,
                ChildRole::Local(_) => rules.join_timeout,
            };
        let child = Child::new(role, start, (self.session, self.nonce()), blocks, now);
        let ticket = *child.ticket();
        (self.children.add(child, by), ticket)
    }

    /// Sends the ticket at once, before anything is known of the child.
    pub(super) fn send_ticket(link: LinkId, ticket: &Ticket, out: &mut Vec<Effect>) {
        Self::send_preamble(link, out);
        Self::send(link, Kind::Ticket, ticket, out);
    }

    pub(super) fn started(&mut self, start: StartId, now: Instant) {
        self.is_started(start, false, now);
    }

    /// A start has returned; `full` if it was refused for lack of resources.
    fn is_started(&mut self, start: StartId, full: bool, now: Instant) {
        if let Some(since) = self.starts.finish(start) {
            if !full {
                self.queue.observe_seq(now.since(since));
            }
            self.health.set_out_of_resources(full);
        }
    }

    pub(super) fn not_started(&mut self, start: StartId, why: &Cause, now: Instant, out: &mut Vec<Effect>) {
        let full = matches!(why, Cause::OutOfResources(_));
        let children = self.starts.children(start);
        self.is_started(start, full, now);
        self.starts.starter_gone(start);
        for link in children {
            if let Some(child) = self.children.get_mut(link) {
                child.end(why.clone());
                self.child_gone(link, now, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use libi_core::ids::HostIndex;
    use libi_core::plan::late::Attempt;

    use super::*;
    use crate::backend::{Backend, Rsh};
    use crate::machine::child::tests as children;
    use crate::machine::child_table::ChildTable;

    #[test]
    fn at_the_port_limit_one_launch_is_tried_at_a_time() {
        let mut node = Node::member(0, String::new(), 1);
        assert_eq!(node.max_in_flight(), MAX_LAUNCHES);
        node.options.backend = Some(Backend::Rsh(Rsh::new()));
        for (held, may) in [(0, 250), (100, 150), (249, 1), (250, 1), (300, 1)] {
            node.children = ChildTable::new();
            for number in 1..=held {
                let launch = Launch { host: HostIndex(number), attempt: Attempt::default() };
                let child = children::started(ChildRole::Leader(launch), Vec::new(), Instant::ZERO);
                node.children.add(child, Instant::FAR_FUTURE);
            }
            assert_eq!(node.max_in_flight(), may, "{held} are up");
        }
    }
}
