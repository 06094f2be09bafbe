//! How members were lost, for the communication half: it is told with the end of the link.
//!
//! | the link to a child that is up | the communication half is told |
//! |---|---|
//! | is closed, and the child's exit is known, or is not awaited | at once |
//! | is closed, and the child's exit is awaited | with the exit, after [`EXIT_AWAITED`] at the latest |
//! | is closed by this node, which kills the child | at once |
//!
//! Once the session has begun to end nothing is awaited.

use std::time::Duration;

use libi_core::loss::{LossKind, LossReason};
use libi_core::time::Instant;

use super::{Effect, LinkId, Node};
use crate::backend::LaunchMethod;
use crate::failure::Exit;
use crate::machine::child::Child;

/// How long the communication half hears of an end later for the sake of the exit, which the system
/// reports just after the end of the link.
const EXIT_AWAITED: Duration = Duration::from_millis(50);

impl Node {
    /// The link to a child is closed, and leaves the tree now or soon.
    pub(super) fn cut_with_reason(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let begins = !self.stage.has_begun_to_end();
        if begins && self.children.get(link).is_some_and(Child::awaits_exit_in_tree) {
            self.children.set_deadline(link, now + EXIT_AWAITED);
        } else {
            self.cut(link, now, out);
        }
    }

    /// The exit of a child that ends is not known in time for the communication half.
    pub(super) fn cut_without_exit(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        self.cut(link, now, out);
        self.children.set_deadline(link, now + self.options.rules.kill_grace);
    }

    /// How the process at the other end of a link was lost; `None` for the parent, with which this
    /// process is lost.
    pub(super) fn loss_reason(&self, link: LinkId) -> Option<LossReason> {
        let child = self.children.get(link)?;
        let host = match child.launch() {
            Some(launch) => self.launcher.spec(launch.host).map(|spec| spec.name.clone()),
            None => self.host().map(|(_, name)| name.to_owned()),
        };
        // The end of a remote shell says nothing of the program, unless that has told its status.
        let method = self.options.launch_method();
        let is_remote = child.is_leader() && !method.is_local();
        let how = match child.exit() {
            Some(Exit::Code(status)) if !is_remote || method.has_exit_trailer() => LossKind::Exited(status),
            Some(Exit::Signal(signal)) if !is_remote => LossKind::Killed(signal),
            _ if child.is_silent() => LossKind::Silent,
            _ => LossKind::Closed,
        };
        Some(LossReason { host: host?, is_leader: child.is_leader(), how })
    }
}

#[cfg(test)]
mod tests {
    use libi_core::dist::layout::Block;
    use libi_core::ids::{HostIndex, Rank};
    use libi_core::machine::Machine;
    use libi_core::plan::late::{Attempt, Launch};

    use super::super::Role;
    use super::*;
    use crate::backend::{Backend, Local, Rsh};
    use crate::machine::child::{ChildRole, tests as children};
    use crate::machine::contract::Event;
    use crate::machine::message::HostSpec;
    use crate::machine::parent_link::tests as parent_link;

    const LINK: LinkId = LinkId(1);
    const CLOSED: Event = Event::Closed(LINK);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// What the communication half of a leader is told when, if these events arrive from a child that is
    /// up: another member of its host, or the leader of host 1.
    fn told(backend: Backend, role: ChildRole, events: &[(u64, Event)]) -> Vec<(u64, Option<LossReason>)> {
        let mut node = Node::member(0, String::new(), 1);
        node.options.backend = Some(backend);
        node.role = Role::Member(Box::new(parent_link::leader(0, 0)));
        let block = Block { first: Rank(1), count: 1, distribution: 0 };
        let spec = HostSpec {
            host: HostIndex(1),
            attempt: Attempt::default(),
            name: "n1".to_owned(),
            user: None,
            port: None,
            blocks: vec![block],
            below: 0,
            faults: 0,
            restarts: 0,
        };
        node.launcher.accept(vec![spec], node.launcher.estimate(), false);
        let mut child = children::joined(role, vec![block], at(0));
        child.enter_tree();
        assert_eq!(node.children.add(child, Instant::FAR_FUTURE), LINK);
        let (mut told, mut out) = (Vec::new(), Vec::new());
        let woken = [(1_050, Event::Woken), (9_000, Event::Woken)];
        for (millis, event) in events.iter().chain(&woken) {
            node.on(event.clone(), at(*millis), &mut out);
            told.extend(out.drain(..).filter_map(|effect| match effect {
                Effect::Cut(LINK, reason) => Some((*millis, reason)),
                _ => None,
            }));
        }
        told
    }

    fn local(events: &[(u64, Event)]) -> Vec<(u64, Option<(bool, LossKind)>)> {
        let told = told(Backend::Local(Local), ChildRole::Local(Rank(1)), events);
        told.into_iter().map(|(at, reason)| (at, reason.map(|it| (it.is_leader, it.how)))).collect()
    }

    #[test]
    fn other_members_hear_how_a_member_has_ended() {
        let killed = Event::Exited(LINK, Exit::Signal(11));
        let expected = |at, how| vec![(at, Some((false, how)))];
        assert_eq!(
            local(&[(1_000, CLOSED), (1_020, killed.clone())]),
            expected(1_020, LossKind::Killed(11)),
            "the exit is awaited"
        );
        assert_eq!(local(&[(1_000, killed), (1_003, CLOSED)]), expected(1_003, LossKind::Killed(11)));
        assert_eq!(local(&[(1_000, CLOSED)]), expected(1_050, LossKind::Closed), "not for long");
        let exited = Event::Exited(LINK, Exit::Code(3));
        assert_eq!(local(&[(1_000, CLOSED), (1_030, exited)]), expected(1_030, LossKind::Exited(3)));
    }

    #[test]
    fn the_end_of_a_remote_shell_is_not_that_of_the_host() {
        let role = ChildRole::Leader(Launch { host: HostIndex(1), attempt: Attempt::default() });
        let reason = |how| Some(LossReason { host: "n1".to_owned(), is_leader: true, how });
        let killed = Event::Exited(LINK, Exit::Signal(9));
        let told = |backend, events: &[(u64, Event)]| told(backend, role, events);
        assert_eq!(
            told(Backend::Rsh(Rsh::new()), &[(1_000, CLOSED), (1_010, killed.clone())]),
            [(1_010, reason(LossKind::Closed))]
        );
        assert_eq!(
            told(Backend::Local(Local), &[(1_000, CLOSED), (1_010, killed)]),
            [(1_010, reason(LossKind::Killed(9)))]
        );
    }
}
