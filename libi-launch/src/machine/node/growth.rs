//! New hosts of a session that is up: the request, what all nodes hear of it, and the nodes that launch.
//! The head of [`machine::growth`](crate::machine::growth) has the tables.

use libi_core::dist::layout::Block;
use libi_core::ids::{HostIndex, Rank};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::ranks::Ranks;
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Child, Effect, LinkId, Node, Notice, Program, Role};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Failure, Phase};
use crate::machine::direct_links::CarriedSecret;
use crate::machine::front_end::FrontEndState;
use crate::machine::growth::{GrowOrder, Grown, GrowthError, GrowthRequest};
use crate::machine::membership::RanksBehind;
use crate::machine::message::{ChildMessage, HostSpec, Membership, ParentMessage};
use crate::machine::session_stage::SessionStage;
use crate::options::OnLoss;

/// Every node.
impl Node {
    /// Whether hosts are launched, of a session that comes up or that grows.
    pub(super) fn is_launching(&self) -> bool {
        // A front end that is not the top leaves it to that.
        let grows = || self.growth.is_launching() && (!self.is_front() || self.orphans.is_top());
        self.stage.is_launching() || self.stage.is_up() && grows()
    }

    /// How many hosts are in the session, once it is up. Others are launched.
    pub(super) fn settled_hosts(&self) -> u32 {
        if self.stage.is_before_up() { 0 } else { self.growth.settled() }
    }

    /// Whether this host is not in the session yet, which is up.
    pub(super) fn is_new(&self, host: HostIndex) -> bool {
        self.stage.is_up() && self.growth.is_new(host)
    }

    /// How far the session has come for a child.
    pub(super) fn stage_of(&self, child: &Child) -> SessionStage {
        // One that is ended with the session before it was in it has never been in it.
        let is_new = |host| self.stage.was_up() && self.growth.is_new(host);
        if child.host().is_some_and(is_new) { SessionStage::new() } else { self.stage }
    }

    /// The session is to grow: the parent says so.
    pub(super) fn on_grow_order(&mut self, order: &GrowOrder, now: Instant, out: &mut Vec<Effect>) {
        if self.stage.is_up() {
            // What the last growth has left here is not awaited any more.
            self.end_new_hosts(|_| true, now, out);
            self.begin_growth(order, now, out);
        }
    }

    fn begin_growth(&mut self, order: &GrowOrder, now: Instant, out: &mut Vec<Effect>) {
        self.growth.begin(order.settled, now);
        self.launcher.judge_anew();
        (self.size, self.programs) = (order.size, order.programs.clone());
        self.relay.set_members(self.size);
        // The nodes above launch nothing but what they give to none.
        self.launcher.set_parent_takes_back(false);
        let secret = self.direct.orphans_secret().filter(|_| self.options.links_have_secret());
        self.direct.set_secret(secret.map(CarriedSecret::of_growth));
        self.listen(out);
        self.attachment.may_get_dependents();
        for link in self.children.links(Child::is_up) {
            self.children.get_mut(link).into_iter().for_each(Child::may_get_dependents);
        }
        let message = ParentMessage::Grow(Box::new(order.clone()));
        for (link, _) in self.children.up().filter(|(_, child)| child.is_leader()) {
            Self::send(link, Kind::Control, &message, out);
        }
    }

    /// No more hosts are launched; new ones that are not up are given up.
    pub(super) fn stop_growing(&mut self, why: &Cause, now: Instant, out: &mut Vec<Effect>) {
        self.growth.stop();
        self.abandon_queue(why, now);
        self.send_to_children(&ParentMessage::StopLaunching(why.clone()), out);
        self.end_new_hosts_for(|child| child.phase() < Phase::Joining, why, now, out);
    }

    /// This host has lost its parent, and may find another one. New hosts that have joined may be in the session:
    /// the next parent knows it. All others are launched again by a node above.
    pub(super) fn abandon_growth(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if self.growth.stop() {
            self.stop_growing(&Cause::Cancelled, now, out);
            self.direct.forget_secret();
        }
        self.end_new_hosts(|child| child.phase() < Phase::Joined, now, out);
        let children: Vec<_> = self.children.leaders().filter_map(|(_, child)| child.host()).collect();
        let routes = &self.routes;
        self.launcher.forget_new(&children, self.growth.settled(), |host| routes.has(host));
    }

    /// Whether a report is about an attempt at a host that another one has replaced: new hosts that were given
    /// up with a lost node may go on for a while, also when those in their places are in the session.
    pub(super) fn is_out_of_date(&self, report: &ChildMessage) -> bool {
        let (ChildMessage::Joined(host, attempt, _)
        | ChildMessage::Failed(host, attempt, _)
        | ChildMessage::Relaunch(host, attempt, _)) = report
        else {
            return false;
        };
        self.stage.is_up() && self.launcher.spec(*host).is_some_and(|spec| *attempt < spec.attempt)
    }

    fn end_new_hosts(&mut self, which: impl Fn(&Child) -> bool, now: Instant, out: &mut Vec<Effect>) {
        self.end_new_hosts_for(which, &Cause::Cancelled, now, out);
    }

    /// Kills new hosts that this node has launched.
    fn end_new_hosts_for(
        &mut self,
        which: impl Fn(&Child) -> bool,
        why: &Cause,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let growth = &self.growth;
        let is_new = |child: &Child| child.host().is_some_and(|host| growth.is_new(host));
        for link in self.children.links(|child| is_new(child) && which(child) && !child.is_ending()) {
            self.force_end(link, why.clone(), now, out);
        }
    }

    /// The parent says which new hosts are in the session.
    pub(super) fn on_admit(&mut self, part: &Membership, now: Instant, out: &mut Vec<Effect>) {
        let Role::Member(parent) = &mut self.role else { return };
        let Some((absent, below)) = parent.on_membership(part) else { return };
        if self.stage.is_up() {
            self.size = part.size.0;
            self.relay.set_members(self.size);
            self.admit_new(&absent, &below, part.size.1, now, out);
        }
    }

    /// New hosts that have joined are in the session, those with these ranks: they are in the tree from now on.
    fn admit_new(&mut self, absent: &Ranks, below: &Ranks, hosts: u32, now: Instant, out: &mut Vec<Effect>) {
        self.growth.stop();
        self.abandon_queue(&Cause::Cancelled, now);
        self.end_new_hosts(|child| child.phase() < Phase::Joined, now, out);
        let expected = self.new_branches(below);
        // Those that have returned were elsewhere before.
        for (_, ranks) in &expected {
            self.commands.leave_branches(ranks);
            self.orphans.leave_branches(ranks);
        }
        let unexpected = |link| expected.iter().all(|(other, _)| *other != link);
        let growth = &self.growth;
        let is_new =
            |child: &Child| child.host().is_some_and(|host| growth.is_new(host)) && !child.is_ending();
        for link in self.children.links(is_new).into_iter().filter(|link| unexpected(*link)) {
            self.force_end(link, Cause::Cancelled, now, out);
        }
        // Where hosts have come in the places of lost ones, there are no more members than before.
        let grows = self.growth.settled_size().0 != self.size || self.growth.absent != *absent;
        self.growth.settle((self.size, hosts), absent);
        self.attachment.may_get_dependents();
        self.direct.forget_secret();
        if grows {
            out.push(Effect::Grows { size: self.size, absent: absent.clone() });
        }
        let known: Vec<LinkId> = self.children.up().map(|(link, _)| link).collect();
        for link in known {
            let ranks = expected.iter().find(|(of, _)| *of == link).map(|(_, ranks)| ranks.clone());
            let Some(child) = self.children.get_mut(link) else { continue };
            let is_in_tree = child.is_in_tree();
            match ranks {
                Some(ranks) if !is_in_tree => self.admit_branch(link, absent, ranks, out),
                ranks => {
                    let ranks = ranks.unwrap_or_default();
                    self.extend_branch(link, &ranks);
                    self.send_membership(link, ParentMessage::Admit, (absent, &ranks), false, out);
                }
            }
        }
        self.await_orphans(out);
    }

    /// The children behind which the expected members of new hosts are.
    fn new_branches(&mut self, below: &Ranks) -> Vec<(LinkId, Ranks)> {
        let mut behind = RanksBehind::default();
        for (hosts, link) in self.routes.drain() {
            behind.add_blocks(link, self.launcher.specs(hosts).flat_map(|spec| &spec.blocks));
        }
        let children = &self.children;
        let branches = behind.branches(below, |link| children.get(link).is_some_and(Child::is_up));
        branches.into_iter().filter(|(_, ranks)| !ranks.is_empty()).collect()
    }

    /// A host that this node has launched, and those below it, are a branch from now on.
    fn admit_branch(&mut self, link: LinkId, absent: &Ranks, ranks: Ranks, out: &mut Vec<Effect>) {
        if let Some(child) = self.children.get_mut(link) {
            child.enter_tree();
        }
        if let Some(merge) = self.relay.merge() {
            merge.members_come(link, ranks.len());
        }
        self.commands.add_branch(link, ranks.clone());
        self.orphans.set_behind(link, ranks.clone());
        let ancestors = self.ancestors_of_children();
        if !ancestors.is_empty() {
            Self::send(link, Kind::Control, &ParentMessage::Ancestors(ancestors), out);
        }
        self.send_membership(link, ParentMessage::Join, (absent, &ranks), false, out);
        out.push(Effect::Carry(link));
        out.push(Effect::Joins { link, ranks, local: false });
    }

    /// Further members are behind a branch.
    fn extend_branch(&mut self, link: LinkId, ranks: &Ranks) {
        if ranks.is_empty() {
            return;
        }
        if let Some(merge) = self.relay.merge() {
            merge.members_come(link, ranks.len());
        }
        self.commands.extend_branch(link, ranks);
        self.orphans.extend_behind(link, ranks);
    }

    /// A child that was adopted, with these ranks, hears of the last growth, which it may have missed.
    pub(super) fn repeat_growth(&self, link: LinkId, ranks: &Ranks, out: &mut Vec<Effect>) {
        if self.growth.has_grown {
            for part in Membership::in_parts(&self.growth.absent, ranks, false, self.growth.settled_size()) {
                Self::send(link, Kind::Control, &ParentMessage::Admit(part), out);
            }
        }
    }
}

/// The front end.
impl Node {
    /// The user has further hosts join.
    pub(super) fn grow(&mut self, request: GrowthRequest, now: Instant, out: &mut Vec<Effect>) {
        let Role::FrontEnd(front) = &mut self.role else { return };
        let (is_up, returning) = (self.stage.is_up(), front.returns.are_under_way());
        let ordered = match is_up && returning {
            true => front.returns.hold(Box::new(request)).map_or(Ok(()), |_| Err(GrowthError::UnderWay)),
            false => self.order_growth(request, now, out).map(drop),
        };
        if let Err(why) = ordered {
            out.push(Effect::Notify(Notice::NotGrown(why)));
        }
    }

    /// Begins a growth: by the members that are asked for, or by hosts with places of lost ones.
    pub(super) fn order_growth(
        &mut self,
        request: GrowthRequest,
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Result<Grown, GrowthError> {
        if self.stage.is_before_up() {
            return Err(GrowthError::NotUp);
        } else if self.stage.has_begun_to_end() {
            return Err(GrowthError::Ending);
        } else if self.options.on_loss != OnLoss::Continue {
            return Err(GrowthError::NotContinuing);
        } else if self.options.launch_method().bulk().is_some() {
            return Err(GrowthError::AllAtOnce);
        }
        let (settled, size) = (self.growth.settled(), self.size);
        let (programs, places) = self.with_programs(&request.programs);
        let grows = size.checked_add(request.size).ok_or(GrowthError::TooLarge)?;
        let order = GrowOrder { size: grows, settled, programs };
        if !Self::send(
            LinkId::PARENT,
            Kind::Control,
            &ParentMessage::Grow(Box::new(order.clone())),
            &mut Vec::new(),
        ) {
            return Err(GrowthError::TooLarge);
        }
        let Role::FrontEnd(front) = &mut self.role else { return Err(GrowthError::NotUp) };
        let grown = front.begin_growth(&request, size, now)?;
        if self.orphans.is_top() {
            front.launch_too();
        }
        let specs: Vec<HostSpec> = (grown.first_host.0..)
            .map(HostIndex)
            .zip(request.hosts)
            .map(|(host, spec)| {
                let block = |block: Block| Block {
                    first: Rank(block.first.0 + grown.first_rank.0),
                    count: block.count,
                    distribution: places.get(block.distribution as usize).copied().unwrap_or(u32::MAX),
                };
                // The places of lost members are known.
                let blocks = match spec.restarts {
                    0 => spec.blocks.into_iter().map(block).collect(),
                    _ => spec.blocks,
                };
                HostSpec { host, attempt: Attempt::default(), blocks, below: 0, faults: 0, ..spec }
            })
            .collect();
        self.begin_growth(&order, now, out);
        let estimate = self.launcher.estimate();
        if self.orphans.is_top() {
            self.launcher.accept(specs, estimate, false);
        } else {
            specs.iter().for_each(|spec| self.launcher.expect(spec.clone()));
            let is_top = |child: &Child| child.is_up() && child.is_in_tree();
            let top = (self.children.leaders().filter(|(_, child)| is_top(child)))
                .find_map(|(link, child)| Some((link, child.host()?)));
            match top {
                Some((link, host)) => {
                    self.growth.top = Some((link, host));
                    Self::send_specs(link, specs, estimate, out);
                }
                None => self.fail_new_hosts(&Cause::Closed, now),
            }
        }
        Ok(grown)
    }

    /// The programs of the session with these, each once, and the places of these.
    fn with_programs(&self, more: &[Program]) -> (Vec<Program>, Vec<u32>) {
        let mut all = self.programs.clone();
        let place = |program: &Program| {
            let known = all.iter().position(|other| other == program);
            let place = known.unwrap_or_else(|| {
                all.push(program.clone());
                all.len() - 1
            });
            place as u32 // few
        };
        let places = more.iter().map(place).collect();
        (all, places)
    }

    /// The new hosts have their verdicts: those that have joined take part.
    pub(super) fn admit_new_hosts(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Role::FrontEnd(front) = &mut self.role else { return };
        let new = self.launcher.specs(HostIndex(self.growth.settled())..);
        let Some((grown, present)) = front.end_growth(new, now) else { return };
        let mut absent = self.growth.absent.clone();
        let mut left_out = Ranks::new();
        left_out.add_run(grown.first_rank.0, grown.ranks);
        left_out.remove_all(&present);
        absent.add_all(&left_out);
        let hosts = grown.host_range().end;
        let is_grown = !present.is_empty();
        self.admit_new(&absent, &present, hosts, now, out);
        let Role::FrontEnd(front) = &self.role else { return };
        if front.returns.are_under_way() {
            return self.end_returns(out);
        }
        out.push(Effect::Notify(match is_grown {
            true => Notice::Grown(grown),
            false => Notice::NotGrown(GrowthError::TooFew(grown)),
        }));
    }

    /// The session ends: it does not grow any more.
    pub(super) fn give_up_growth(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.growth.stop();
        let Role::FrontEnd(front) = &mut self.role else { return };
        let was_growing = front.end_growth(std::iter::empty(), now).is_some();
        let is_asked_for = was_growing && !front.returns.are_under_way();
        if is_asked_for || front.returns.take_growth().is_some() {
            out.push(Effect::Notify(Notice::NotGrown(GrowthError::Ending)));
        }
    }

    /// Whether hosts join this session, which is up.
    #[must_use]
    pub fn is_growing(&self) -> bool {
        self.stage.is_up()
            && (self.growth.is_launching() || self.front_end().is_some_and(FrontEndState::is_growing))
    }

    /// A child of the front end is gone: if it has launched all further hosts, these are lost with it.
    pub(super) fn launcher_of_new_hosts_is_gone(&mut self, link: LinkId, now: Instant) {
        if let Some((_, host)) = self.growth.top.take_if(|(top, _)| *top == link) {
            self.fail_from(self.growth.first_late(), &Cause::LauncherLost(host), now);
        }
    }

    fn fail_new_hosts(&mut self, why: &Cause, now: Instant) {
        self.fail_from(HostIndex(self.growth.settled()), why, now);
    }

    /// Gives this verdict to all hosts from this one on that have not failed.
    fn fail_from(&mut self, first: HostIndex, why: &Cause, now: Instant) {
        let Role::FrontEnd(front) = &self.role else { return };
        let failure = Failure::without_evidence(Phase::Waiting, why.clone(), front.growth_took(now));
        for spec in self.launcher.specs(first..).filter(|spec| !front.has_given_up(spec.host)) {
            self.reports.push(ChildMessage::Failed(spec.host, spec.attempt.after_loss(), failure.clone()));
        }
    }

    /// A new host cannot be launched from the top, and is handed back: there is no other launcher.
    pub(super) fn new_host_is_handed_back(&mut self, back: Launch, now: Instant) -> bool {
        if !self.is_front() || !self.is_new(back.host) || self.orphans.is_top() {
            return false;
        }
        let failure = self.growth.why_not.clone().unwrap_or_else(|| {
            Failure::without_evidence(Phase::Waiting, Cause::Cancelled, now.since(self.growth.began()))
        });
        self.reports.push(ChildMessage::Failed(back.host, back.attempt, failure));
        true
    }
}
