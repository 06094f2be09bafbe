//! Starts launches: which hosts, when, and with which request.

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank, StartId};
use libi_core::join::Ticket;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::programs::restarts_variable;
use super::{Effect, LinkId, Node, Program, Role, StartRequest};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Exit, Failure, Phase};
use crate::machine::child::{Arrival, Child, ChildRole, ChildState};
use crate::machine::launcher::SilentLaunches;
use crate::machine::message::HostSpec;

/// The most launches in flight, regardless of the window: each takes a process and its descriptors.
const MAX_LAUNCHES: usize = 1_000;

impl Node {
    /// Starts as many launches as the window allows.
    pub(super) fn launch(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.share_out(now, out);
        self.hand_down(now, out);
        self.hand_down_unreached(now, out);
        if self.options.launch_method().bulk().is_some() {
            return self.launch_in_bulk(now, out);
        }
        let most = self.max_in_flight();
        while !self.starts.is_starting()
            && let Some(launch) = self.next_launch(most, now)
        {
            self.start_host(launch, now, out);
        }
    }

    fn next_launch(&mut self, most: usize, now: Instant) -> Option<Launch> {
        let (launcher, terms, _) = self.launcher(now);
        launcher.next(most, &terms)
    }

    /// The most launches in flight under the back-end's limit of children and the front end's limit
    /// of launches.
    fn max_in_flight(&self) -> usize {
        let in_flight = self.launcher.in_flight();
        let most = self.options.launch_method().max_children().map_or(MAX_LAUNCHES, |most| {
            let has_process = |(_, child): &(LinkId, &Child)| child.has_process();
            let held = self.children.leaders().filter(has_process).count() + self.moved.len();
            let up = held.saturating_sub(in_flight);
            // One launch is always allowed, so that its failure can be reported.
            most.saturating_sub(up).clamp(1, MAX_LAUNCHES)
        });
        let Some(limit) = self.options.front_end_launches else { return most };
        // What was withdrawn or has failed is not in flight for the launcher, but takes part of the
        // machine until its process has ended.
        let not_up = self.children.leaders().filter(|(_, child)| child.phase() < Phase::Joining).count();
        let ending = not_up.saturating_sub(in_flight);
        // Those that wait to be moved have said hello.
        let answered = self.moves.held().len();
        most.min((limit.get() as usize).saturating_add(answered).saturating_sub(ending))
    }

    fn start_host(&mut self, launch: Launch, now: Instant, out: &mut Vec<Effect>) {
        let Some(spec) = self.launcher.begin(launch) else { return };
        let Some(program) = self.leader_program(&spec) else {
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
        self.launcher.launched(launch.host, true, now);
    }

    pub(super) fn start_member(&mut self, rank: Rank, block: Block, now: Instant, out: &mut Vec<Effect>) {
        let block = Block { first: rank, count: 1, ..block };
        let Some(mut program) = self.program(&[block]) else {
            let failure = self.nothing_to_run(now);
            return self.host_failed(failure, now, out);
        };
        program.env.extend(restarts_variable(self.restarts.of_host()));
        self.start_local(rank, block, program, now, out);
    }

    /// Starts a program as a member of this host.
    pub(super) fn start_local(
        &mut self,
        rank: Rank,
        block: Block,
        program: Program,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> LinkId {
        let start = self.starts.next_id();
        let child = (start, Arrival::Inherited);
        let (link, ticket) = self.add_child(ChildRole::Local(rank), child, vec![block], now);
        self.starts.add(start, link);
        out.push(Effect::Start(start, StartRequest::Member(link, rank, program)));
        Self::send_ticket(link, &ticket, out);
        link
    }

    pub(super) fn nothing_to_run(&self, now: Instant) -> Failure {
        let cause = Cause::NotStarted("no program is assigned to this host".to_owned());
        Failure::without_evidence(Phase::Waiting, cause, now.since(self.began))
    }

    pub(super) fn program(&self, blocks: &[Block]) -> Option<Program> {
        self.programs.get(blocks.first()?.distribution as usize).cloned()
    }

    /// What is started to lead a host: the agent, or the program of its first members.
    pub(super) fn leader_program(&self, spec: &HostSpec) -> Option<Program> {
        if let Some(agent) = &self.options.agent {
            return Some(agent.program());
        }
        let mut program = self.program(&spec.blocks)?;
        program.env.extend(restarts_variable(spec.restarts));
        Some(program)
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
        let mut child = Child::new(role, start, (self.session, self.nonce()), blocks, now);
        if self.options.agent.is_some() && child.is_leader() {
            child.set_agent();
        }
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
            self.launcher.started(now.since(since), full);
        }
    }

    /// The launch of a host has failed.
    pub(super) fn launch_failed(&mut self, launch: Launch, failure: Failure, now: Instant) {
        let others_may = failure.is_out_of_resources() && self.child_for_overflow().is_some();
        let (launcher, terms, reports) = self.launcher(now);
        launcher.launch_failed(launch, failure, others_may, &terms, reports);
    }

    /// Hands all hosts back if launching from here proves not to work.
    pub(super) fn evaluate_launch_health(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let (launcher, terms, reports) = self.launcher(now);
        let Some(silent) = launcher.evaluate_health(&terms, reports) else { return };
        let is_silent =
            |child: &Child| child.is_leader() && child.has_process() && child.state() == ChildState::Starting;
        for link in self.children.links(is_silent) {
            match (silent, self.children.get(link)) {
                (SilentLaunches::Shorten(timeout), Some(child)) => {
                    let by = child.started() + timeout;
                    let before = self.children.deadline(link).unwrap_or(by);
                    self.children.set_deadline(link, by.min(before));
                }
                _ => self.force_end(link, Cause::Cancelled, now, out),
            }
        }
    }

    /// A child has reported that it cannot launch hosts.
    pub(super) fn child_cannot_launch(&mut self, child: HostIndex, why: &Failure, certain: bool) {
        if certain {
            self.launcher.child_cannot_launch();
        }
        if self.stage.is_up() {
            self.growth.why_not = Some(why.clone());
            return; // the front end launches nothing instead of the top of a tree
        }
        if let Role::FrontEnd(front) = &mut self.role {
            front.leader_cannot_launch(child, why, certain);
        }
    }

    /// A start was cancelled: processes of commands have ended by the signal, all others are not started.
    pub(super) fn start_cancelled(
        &mut self,
        start: StartId,
        signal: i32,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        for link in self.starts.children(start) {
            self.process_exited(link, Exit::Signal(signal));
        }
        let why = Cause::NotStarted("cancelled before it was started".to_owned());
        self.not_started(start, &why, now, out);
    }

    pub(super) fn not_started(&mut self, start: StartId, why: &Cause, now: Instant, out: &mut Vec<Effect>) {
        let full = matches!(why, Cause::OutOfResources(_));
        let children = self.starts.children(start);
        self.is_started(start, full, now);
        self.starts.starter_gone(start);
        for link in children {
            if self.process_not_started(link, why) {
                continue;
            }
            if self.children.get(link).is_some_and(Child::is_running) {
                self.program_not_started(link, why, now, out);
            } else if let Some(child) = self.children.get_mut(link) {
                child.end(why.clone());
                self.child_gone(link, now, out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

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

    #[test]
    fn a_launch_that_ends_counts_for_the_limit_of_the_front_end_until_its_process_is_gone() {
        let mut node = Node::member(0, String::new(), 1);
        node.options.front_end_launches = NonZeroU32::new(3);
        assert_eq!(node.max_in_flight(), 3);
        let role = |host| ChildRole::Leader(Launch { host: HostIndex(host), attempt: Attempt::default() });
        let up = children::joined(role(1), Vec::new(), Instant::ZERO);
        node.children.add(up, Instant::FAR_FUTURE);
        assert_eq!(node.max_in_flight(), 3, "a host that is up is no launch");
        for (host, may) in [(2, 2), (3, 1), (4, 0), (5, 0)] {
            let mut child = children::started(role(host), Vec::new(), Instant::ZERO);
            child.end(Cause::TimedOut);
            node.children.add(child, Instant::FAR_FUTURE);
            assert_eq!(node.max_in_flight(), may);
        }
    }
}
