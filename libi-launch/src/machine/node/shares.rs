//! Sends hosts to children, and the estimates that they launch by.

use libi_core::ids::HostIndex;
use libi_core::plan::estimate::Estimate;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, LinkId, Node, Role};
use crate::failure::{Cause, Failure};
use crate::machine::child::Child;
use crate::machine::launcher::GivenHosts;
use crate::machine::message::{HostSpec, ParentMessage};

/// How many hosts fit into one message.
const HOSTS_IN_A_MESSAGE: usize = 2_000;

impl Node {
    /// Gives a child that has said hello its share of hosts.
    pub(super) fn give(&mut self, link: LinkId, launch: Launch, now: Instant, out: &mut Vec<Effect>) {
        let (launcher, terms, _) = self.launcher(now);
        let Some(given) = launcher.ready(link, launch, &terms) else { return };
        self.correct_estimates(out);
        Self::send_share(link, given, out);
        self.share_out(now, out);
    }

    /// Gives hosts to children that are ready now, or whose shares have proved too small.
    pub(super) fn share_out(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if !self.launcher.may_share() {
            return;
        }
        let takes = self.children.leaders().filter(|(_, child)| child.takes_hosts());
        let launchers = |link| 1 + if self.moves.target() == Some(link) { self.moved.launchers() } else { 0 };
        let children: Vec<_> =
            takes.filter_map(|(link, child)| Some((link, child.host()?, launchers(link)))).collect();
        let (launcher, terms, reports) = self.launcher(now);
        for (link, given, withdrawn) in launcher.share_out(children.into_iter(), &terms, reports) {
            for launch in withdrawn {
                let is_it = |child: &Child| child.launch() == Some(launch);
                for withdrawn in self.children.links(is_it) {
                    self.force_end(withdrawn, Cause::Cancelled, now, out);
                }
            }
            Self::send_share(link, given, out);
        }
    }

    /// Sends the current estimate to children whose estimate has proved wrong.
    pub(super) fn correct_estimates(&mut self, out: &mut Vec<Effect>) {
        let children = &self.children;
        for (link, estimate) in self.launcher.corrections(|link| children.get(link).is_some_and(Child::is_up))
        {
            Self::send(link, Kind::Control, &ParentMessage::Share(Vec::new(), estimate), out);
        }
    }

    /// A child that is up and can take hosts that this node cannot launch.
    pub(super) fn child_for_overflow(&self) -> Option<(LinkId, HostIndex)> {
        let others_launch = match &self.role {
            Role::FrontEnd(front) if front.launchers().are_all() => self.launcher.children_may_launch(),
            // It replaces a leader that could not launch, and cannot either. Others may.
            Role::FrontEnd(front) => front.static_tree().is_none() && front.launchers().replaced().is_some(),
            Role::Member(_) => !self.options.is_static() && self.launcher.children_may_launch(),
        };
        let heirs = self.children.leaders().filter(|(_, child)| others_launch && child.takes_hosts());
        let mut hosts = heirs.filter_map(|(link, child)| Some((link, child.host()?)));
        hosts.find(|(_, host)| self.launcher.may_give_to(*host))
    }

    /// Gives waiting hosts to a child that is up, if this node has no resources or may make no
    /// further launch, and no launch is in flight that will soon take them.
    pub(super) fn hand_down(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if self.launcher.is_stuck(self.options.launch_limit().saturating_add(self.moves.held().len()), now)
            && self.is_launching()
            && let Some((link, child)) = self.child_for_overflow()
            && let Some(given) = self.launcher.give_waiting_to(child)
        {
            Self::send_share(link, given, out);
        }
    }

    /// Gives hosts that this node could not reach to a child that is up.
    pub(super) fn hand_down_unreached(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if !self.launcher.has_unreached() {
            return;
        }
        let child = self.child_for_overflow();
        let (launcher, terms, reports) = self.launcher(now);
        match child {
            Some((link, child)) => {
                if let Some(given) = launcher.give_unreached_to(child, reports) {
                    Self::send_share(link, given, out);
                }
            }
            None => launcher.keep_unreached(&terms, reports),
        }
    }

    fn send_share(link: LinkId, given: GivenHosts, out: &mut Vec<Effect>) {
        Self::send_specs(link, given.specs, given.estimate, out);
    }

    /// Sends hosts to a child, in messages that are not too long.
    pub(super) fn send_specs(link: LinkId, specs: Vec<HostSpec>, estimate: Estimate, out: &mut Vec<Effect>) {
        let mut part = Vec::new();
        let mut weight = 0;
        for spec in specs {
            weight += 1 + spec.blocks.len();
            part.push(spec);
            if weight >= HOSTS_IN_A_MESSAGE {
                weight = 0;
                let message = ParentMessage::Share(std::mem::take(&mut part), estimate);
                Self::send(link, Kind::Control, &message, out);
            }
        }
        if !part.is_empty() {
            Self::send(link, Kind::Control, &ParentMessage::Share(part, estimate), out);
        }
    }

    /// At the front end: whether it launches hosts from the first moment, as leaders do later.
    #[must_use]
    pub fn launches_as_leaders(&self) -> bool {
        self.front_end().is_some_and(|front| front.launchers().are_all())
    }

    /// At the front end: the leader that could not launch hosts, and its first failure, if the
    /// front end launches all hosts since then and one of them has been up.
    #[must_use]
    pub fn flat_launch(&self) -> Option<(HostIndex, &Failure)> {
        let launchers = self.front_end()?.launchers();
        let unable = || launchers.unable().filter(|_| !self.launcher.children_may_launch());
        let (host, why) = launchers.replaced().or_else(unable)?;
        let mut others = self.timings().iter().skip(1);
        let is_true = others.any(|timing| timing.launcher.is_none() && timing.hello.is_some());
        is_true.then_some((host, why))
    }
}
