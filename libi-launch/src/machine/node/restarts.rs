//! Lost members that are started again, by order of the front end or by their agents. The head of
//! [`machine::restarts`](crate::machine::restarts) has the table.

use std::time::Duration;

use libi_core::ids::Rank;
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, Identity, LinkId, Node, Notice, Role};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Exit};
use crate::machine::child::{Child, ChildState};
use crate::machine::host_table::HostState;
use crate::machine::message::{ChildMessage, ParentMessage, Spare};
use crate::machine::restarts::{RestartError, RestartOrder};
use crate::options::OnLoss;

/// The front end.
impl Node {
    /// The user of the front end has a lost member restarted.
    pub(super) fn restart(&mut self, rank: Rank, place: Option<Spare>, now: Instant, out: &mut Vec<Effect>) {
        if !self.is_front() {
            return;
        }
        match self.order_restart(rank, place) {
            Ok(Some(order)) => self.pass_restart_on(order, now, out),
            Ok(None) => self.begin_returns(now, out),
            Err(why) => out.push(Effect::Notify(Notice::NotRestarted(rank, why))),
        }
    }

    /// The order for a living host; `None` if that of the rank is lost, and is to return.
    fn order_restart(
        &mut self,
        rank: Rank,
        place: Option<Spare>,
    ) -> Result<Option<RestartOrder>, RestartError> {
        if self.stage.is_before_up() {
            return Err(RestartError::NotUp);
        } else if self.stage.has_begun_to_end() {
            return Err(RestartError::Ending);
        } else if rank.0 >= self.size {
            return Err(RestartError::NoSuchRank);
        } else if self.options.on_loss != OnLoss::Continue {
            return Err(RestartError::NotContinuing);
        } else if self.options.has_no_programs() {
            return Err(RestartError::NoPrograms);
        }
        let host = self.host_of(rank).and_then(|host| self.launcher.spec(host)).cloned();
        let (Role::FrontEnd(front), Some(spec)) = (&mut self.role, host) else {
            return Err(RestartError::NoSuchRank);
        };
        let was_never_up = self.growth.absent.contains(rank) || self.growth.is_new(spec.host);
        match front.host(spec.host) {
            Some(HostState::Failed(_)) if was_never_up => Err(RestartError::NeverUp),
            Some(HostState::Failed(_)) if self.options.launch_method().bulk().is_some() => {
                Err(RestartError::AllAtOnce)
            }
            Some(HostState::Failed(_)) => front.order_return(rank, place, &spec).map(|()| None),
            _ if place.is_some() => Err(RestartError::HostUp),
            _ => front.order_restart(rank, spec.host).map(Some),
        }
    }

    /// A report about this host was recorded: if the host is lost, none of its members is
    /// restarted.
    pub(super) fn give_up_restarts_of_lost(&mut self, report: &ChildMessage, out: &mut Vec<Effect>) {
        let (ChildMessage::Failed(host, ..) | ChildMessage::Relaunch(host, ..)) = report else { return };
        let Role::FrontEnd(front) = &mut self.role else { return };
        if matches!(front.host(*host), Some(HostState::Failed(_)))
            && let Some(spec) = self.launcher.spec(*host)
        {
            let ranks = front.lose_restarts(&spec.blocks);
            Self::not_restarted(ranks, &RestartError::HostLost, out);
        }
    }

    /// The session ends: nothing is restarted any more.
    pub(super) fn give_up_restarts(&mut self, out: &mut Vec<Effect>) {
        if let Role::FrontEnd(front) = &mut self.role {
            Self::not_restarted(front.end_restarts(), &RestartError::Ending, out);
        }
    }

    pub(super) fn not_restarted(ranks: Vec<Rank>, why: &RestartError, out: &mut Vec<Effect>) {
        let notice = |rank| Effect::Notify(Notice::NotRestarted(rank, why.clone()));
        out.extend(ranks.into_iter().map(notice));
    }
}

/// Every node.
impl Node {
    /// Sends an order to the child above the rank, and keeps it for children that are adopted.
    fn pass_restart_on(&mut self, order: RestartOrder, now: Instant, out: &mut Vec<Effect>) {
        if self.reconnects {
            self.restarts.keep(order, now, self.options.rules.peer_timeout * 3);
        }
        let ranks = [order.rank].into_iter().collect();
        self.send_towards(&ranks, |_| ParentMessage::Restart(order), out);
    }

    /// A child that was adopted, with these ranks, gets the orders that it may have missed.
    pub(super) fn repeat_restarts(&self, link: LinkId, ranks: &Ranks, out: &mut Vec<Effect>) {
        for order in self.restarts.kept(ranks) {
            Self::send(link, Kind::Control, &ParentMessage::Restart(order), out);
        }
    }

    /// An order from the parent. While the session ends, the front end has given it up.
    pub(super) fn on_restart_order(&mut self, order: RestartOrder, now: Instant, out: &mut Vec<Effect>) {
        if !self.stage.is_up() {
            return;
        }
        self.pass_restart_on(order, now, out);
        // Another parent sends what an earlier one may not have passed on.
        if !self.restarts_members() || order.number <= self.restarts.last(order.rank) {
            return;
        }
        let is_mine = |identity: &Identity| identity.others().any(|(rank, _)| rank == order.rank);
        if !self.identity().is_some_and(is_mine) {
            return;
        }
        if self.children.locals().any(|(_, child)| child.rank() == Some(order.rank)) {
            self.restarts.fails(order);
            return self.reports.push(ChildMessage::NotRestarted(order, RestartError::StillRunning));
        }
        self.begin_restart(order, now, out);
    }

    /// Whether this process takes the place of a lost member.
    pub(super) fn has_joined_late(&self) -> bool {
        matches!(&self.role, Role::Member(parent) if parent.joins())
    }
}

/// An agent.
impl Node {
    /// Whether members of this host may be restarted while the session is up.
    pub(super) fn restarts_members(&self) -> bool {
        let may = self.options.on_loss == OnLoss::Continue && !self.options.has_no_programs();
        may && self.is_agent() && self.stage.is_up()
    }

    /// Starts the program of a rank again, the same as the first time.
    fn begin_restart(&mut self, order: RestartOrder, now: Instant, out: &mut Vec<Effect>) {
        let others: Vec<_> = self.identity().into_iter().flat_map(Identity::others).collect();
        let place = others.iter().enumerate().find(|(_, (rank, _))| *rank == order.rank);
        let Some((local_rank, &member)) = place else { return };
        // It joins a session that is up, as a program does that joins late.
        match self.run_program(member, (local_rank, others.len()), order.number, now, out) {
            Some(link) => self.restarts.begins(order, link, now),
            None => {
                self.restarts.fails(order);
                let why = RestartError::NotStarted("no program is assigned to this host".to_owned());
                self.reports.push(ChildMessage::NotRestarted(order, why));
            }
        }
    }

    /// A new process has joined. It has its membership, and its link carries data.
    pub(super) fn is_restarted(&mut self, link: LinkId, order: RestartOrder, out: &mut Vec<Effect>) {
        if let Some(child) = self.children.get_mut(link) {
            child.enter_tree();
        }
        if let Some(merge) = self.relay.merge() {
            merge.member_returns(link);
        }
        let ranks = [order.rank].into_iter().collect();
        out.push(Effect::Joins { link, ranks, local: true });
        self.reports.push(ChildMessage::Restarted(order));
    }

    /// A member has ended that was a child of this node; or a process that was to become one.
    pub(super) fn member_ends(
        &mut self,
        (link, rank): (LinkId, Rank),
        child: &Child,
        (exit, killed): (Exit, Option<Box<Cause>>),
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let number = match self.restarts.ends(rank, link) {
            // The first process of another host.
            Ok(_) if child.is_leader() => {
                child.host().and_then(|host| self.launcher.spec(host)).map_or(0, |spec| spec.restarts)
            }
            Ok(number) => number,
            Err(order) => {
                let why = why_not_joined(child, exit);
                return self.reports.push(ChildMessage::NotRestarted(order, why));
            }
        };
        let again = self.restarts_by_itself(rank, child, exit);
        // The front end knows it before the end, which may be that of the last member.
        self.reports.extend(again.map(ChildMessage::Restarting));
        self.report_behind_output(link, ChildMessage::Exited(rank, exit, killed, number), now);
        if let Some(order) = again {
            self.release_reports(link); // before that of the next process
            if self.restarts.pauses(order, now, self.pause_before(order.number)) {
                self.begin_restart(order, now, out);
            }
        }
    }

    /// How long after the start before it an attempt begins.
    fn pause_before(&self, number: u32) -> Duration {
        let rules = &self.options.rules;
        let doubled = 2_u32.saturating_pow(number.saturating_sub(2));
        rules.back_off.saturating_mul(doubled).min(rules.back_off_max)
    }

    /// Begins the attempts whose pauses are over.
    pub(super) fn expire_restarts(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if !self.stage.is_up() {
            return self.restarts.end();
        }
        while let Some(order) = self.restarts.next_due(now) {
            self.begin_restart(order, now, out);
        }
    }

    /// The restart that follows from the end of a member without an order.
    fn restarts_by_itself(&self, rank: Rank, child: &Child, exit: Exit) -> Option<RestartOrder> {
        let number = self.restarts.last(rank).saturating_add(1);
        let is_loss = matches!(exit, Exit::Signal(_)) || matches!(exit, Exit::Code(status) if status != 0);
        let has_joined = matches!(child.state(), ChildState::Ending { was_up: true, .. });
        let may = self.restarts_members() && number <= self.options.restarts;
        (may && has_joined && is_loss).then_some(RestartOrder { rank, number })
    }
}

/// Why a process has not joined, which has ended.
fn why_not_joined(child: &Child, exit: Exit) -> RestartError {
    match child.end_cause() {
        Some(Cause::NotStarted(why) | Cause::OutOfResources(why)) => RestartError::NotStarted(why.clone()),
        Some(Cause::TimedOut) => RestartError::NotJoined,
        _ => RestartError::Ended(exit),
    }
}

#[cfg(test)]
mod tests {
    use libi_core::dist::layout::Block;
    use libi_core::ids::HostIndex;
    use libi_core::join::SessionKey;
    use libi_core::machine::Machine;
    use libi_core::plan::late::Attempt;

    use super::*;
    use crate::failure::LaunchTiming;
    use crate::machine::contract::{Event, LaunchPlan};
    use crate::machine::message::{HostSpec, Program};
    use crate::options::{Engine, LaunchOptions};

    /// A front end whose only host, of two members, is up, or will be.
    fn front(options: LaunchOptions, is_up: bool) -> Node {
        let spec = HostSpec {
            host: HostIndex(0),
            attempt: Attempt::default(),
            name: "n0".to_owned(),
            user: None,
            port: None,
            blocks: vec![Block { first: Rank(0), count: 2, distribution: 0 }],
            below: 0,
            faults: 0,
            restarts: 0,
        };
        let (executable, args, env) = ("tool".try_into().unwrap(), Vec::new(), Vec::new());
        let program = Program { executable, args, env, cwd: None };
        let plan = LaunchPlan { hosts: vec![spec], programs: vec![program], size: 2, secret: None, options };
        let mut node = Node::front(SessionKey(1), &plan, 1);
        node.on(Event::Begin, Instant::ZERO, &mut Vec::new());
        if is_up {
            node.reports.push(ChildMessage::Joined(
                HostIndex(0),
                Attempt::default(),
                LaunchTiming::default(),
            ));
            node.on(Event::Woken, Instant::ZERO, &mut Vec::new());
            assert!(node.stage.is_up());
        }
        node
    }

    fn continuing() -> LaunchOptions {
        LaunchOptions::local().engine(Engine::Apart).on_loss(OnLoss::Continue)
    }

    /// What follows from a request, if these reports have come before.
    fn answers(node: &mut Node, reports: Vec<ChildMessage>, rank: u32) -> Vec<Notice> {
        let mut out = Vec::new();
        node.reports.extend(reports);
        node.on(Event::Woken, Instant::ZERO, &mut out);
        out.clear();
        node.on(Event::Restart(Rank(rank)), Instant::ZERO, &mut out);
        let notices = out.into_iter().filter_map(|effect| match effect {
            Effect::Notify(notice) => Some(notice),
            _ => None,
        });
        notices.collect()
    }

    fn exited(rank: u32) -> ChildMessage {
        ChildMessage::Exited(Rank(rank), Exit::Signal(9), None, 0)
    }

    #[test]
    fn a_request_that_is_not_possible_is_refused_with_the_reason() {
        let refusal = |mut node: Node, reports, rank| match answers(&mut node, reports, rank).pop() {
            Some(Notice::NotRestarted(of, why)) if of == Rank(rank) => why,
            other => panic!("{other:?}"),
        };
        let up = |options| front(options, true);
        let ended = || vec![exited(1)];
        assert_eq!(refusal(front(continuing(), false), Vec::new(), 1), RestartError::NotUp);
        assert_eq!(refusal(up(continuing()), Vec::new(), 1), RestartError::StillRunning);
        assert_eq!(refusal(up(continuing()), ended(), 2), RestartError::NoSuchRank);
        let fails = || continuing().on_loss(OnLoss::Fail);
        assert_eq!(refusal(up(fails()), ended(), 1), RestartError::NotContinuing);
        let in_program = || continuing().engine(Engine::InProgram);
        assert_eq!(refusal(up(in_program()), ended(), 1), RestartError::NoAgent);
        let told = vec![ChildMessage::InProgram(HostIndex(0)), exited(1)];
        assert_eq!(refusal(up(continuing()), told, 1), RestartError::NoAgent);
        let detached = vec![ChildMessage::Detached(Rank(1)), exited(1)];
        assert_eq!(refusal(up(continuing()), detached, 1), RestartError::Detached);
        assert_eq!(refusal(up(continuing()), vec![exited(0), exited(1)], 1), RestartError::Ending);
    }

    #[test]
    fn a_session_is_not_over_while_its_last_member_is_restarted() {
        let mut node = front(continuing(), true);
        assert_eq!(answers(&mut node, vec![exited(1)], 1), [], "the order is sent");
        let under_way = Notice::NotRestarted(Rank(1), RestartError::UnderWay);
        assert_eq!(answers(&mut node, vec![exited(0)], 1), [under_way]);
        let mut out = Vec::new();
        let order = RestartOrder { rank: Rank(1), number: 1 };
        node.reports.push(ChildMessage::NotRestarted(order, RestartError::NotJoined));
        node.on(Event::Woken, Instant::ZERO, &mut out);
        let notices: Vec<_> = out
            .iter()
            .filter(|effect| matches!(effect, Effect::Notify(_)))
            .map(|it| format!("{it:?}"))
            .collect();
        assert_eq!(notices, ["Notify(NotRestarted(Rank(1), NotJoined))", "Notify(Done)"]);
    }
}
