//! Relays: places arrivals at the front end, and admits them at the relays. See
//! [`Relays`](crate::machine::relays).

use std::net::SocketAddr;

use libi_core::ids::{HostIndex, StartId};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::plan::{Shape, Strategy, relays};
use libi_core::time::Instant;
use libi_core::wire::Kind;

use super::{Effect, LinkId, Node};
use crate::backend::LaunchMethod;
use crate::failure::{Cause, Exit, Failure, Phase};
use crate::machine::child::{Arrival, Child, ChildRole};
use crate::machine::message::{ChildMessage, HostSpec, ParentMessage, RelayMessage};
use crate::machine::relays::{HostBelow, HostLeft, Placement};
use crate::machine::rendezvous::{ArrivalId, Claim};

/// At the front end.
impl Node {
    /// How many relays a start of this many hosts has.
    pub(super) fn relays_wanted(&self, hosts: usize) -> usize {
        match self.options.strategy {
            Strategy::Static(Shape::Flat) => 0,
            Strategy::Static(Shape::Kary(arity)) => arity.get() as usize,
            Strategy::Static(_) | Strategy::Late => relays(hosts),
        }
    }

    /// A connection has arrived for this child: at the front end, a relay may admit it instead.
    pub(super) fn place(
        &mut self,
        start: StartId,
        arrival: ArrivalId,
        link: LinkId,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let launch = self.children.get(link).and_then(Child::launch);
        // What has gone wrong with a host before may have to do with its relay.
        let is_first = launch.is_some_and(|launch| launch.attempt == Attempt::default());
        let placement = if self.is_front() && is_first {
            self.relays.place(start, link, arrival, now)
        } else {
            Placement::Admitted
        };
        match placement {
            Placement::Admitted => self.admit(arrival, link, now, out),
            Placement::Held => {}
            Placement::Redirected(relay) => self.redirect(start, arrival, link, relay, now, out),
        }
    }

    /// Places the arrivals of a start that wait.
    pub(super) fn place_held(&mut self, start: StartId, now: Instant, out: &mut Vec<Effect>) {
        while let Some((arrival, link)) = self.relays.next_held(start) {
            match self.children.get(link) {
                Some(child) if child.is_awaited() && !child.is_ending() => {
                    self.place(start, arrival, link, now, out);
                }
                _ => out.push(Effect::Refuse(arrival)),
            }
        }
    }

    /// Sends the leader that should become the link of this child to a relay.
    fn redirect(
        &mut self,
        start: StartId,
        arrival: ArrivalId,
        link: LinkId,
        relay: LinkId,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let launch = self.children.get(link).and_then(Child::launch);
        let Some((launch, spec)) = launch.and_then(|launch| Some((launch, self.launcher.spec(launch.host)?)))
        else {
            return out.push(Effect::Refuse(arrival));
        };
        let spec = Box::new(HostSpec { attempt: launch.attempt, ..spec.clone() });
        let host = launch.host;
        let Some(mut child) = self.children.remove(link) else { return };
        out.push(Effect::Close(link));
        self.starts.redirected(start, link, host, &spec.name);
        self.launcher.redirected(launch, now);
        Self::send_to_relay(relay, RelayMessage::Expect(start, spec), out);
        for (stream, text) in child.take_early_output() {
            Self::send_to_relay(relay, RelayMessage::HostPrinted(host, stream, text), out);
        }
        let below = HostBelow { relay, start, attempt: launch.attempt, exit: None };
        let addresses = self.relays.redirect(host, below);
        out.push(Effect::Redirect(arrival, addresses));
    }

    /// A leader has come back that could not reach its relay: it becomes a child of this node.
    pub(super) fn comes_back(
        &mut self,
        start: StartId,
        arrival: ArrivalId,
        claim: &Claim,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let host = claim.names.iter().find_map(|name| self.starts.below_named(start, name));
        let below = host.and_then(|host| Some((host, self.relays.of(host)?)));
        let is_open = |host: &HostIndex| {
            self.host_states().nth(host.0 as usize) == Some(&crate::machine::HostState::Waiting)
        };
        let Some((host, below)) =
            below.filter(|(host, below)| below.start == start && is_open(host) && self.stage.is_launching())
        else {
            return out.push(Effect::Refuse(arrival));
        };
        self.relays.remove_host(host);
        self.relays.not_reached(start, below.relay);
        self.routes.remove(host);
        Self::send_to_relay(below.relay, RelayMessage::Release(host, below.attempt), out);
        let Some(spec) = self.launcher.came_back(host) else { return out.push(Effect::Refuse(arrival)) };
        self.reports.push(ChildMessage::Relaunch(host, spec.attempt, None));
        let launch = Launch { host, attempt: spec.attempt };
        self.launcher.recall(launch, now);
        let role = ChildRole::Leader(launch);
        let (link, ticket) = self.add_child(role, (start, Arrival::Awaited), spec.blocks, now);
        self.starts.came_back(start, host, link);
        out.push(Effect::Await(link));
        Self::send_ticket(link, &ticket, out);
        self.admit(arrival, link, now, out);
    }

    /// A child of a bulk start is up: it becomes a relay, if it is to.
    pub(super) fn ask_to_relay(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        let Some(start) = self.children.get(link).map(Child::start) else { return };
        if self.relays.is_asked(start, link) {
            Self::send_to_relay(link, RelayMessage::Listen(start), out);
        }
    }

    /// A relay listens, or cannot.
    pub(super) fn relay_listens(
        &mut self,
        start: StartId,
        link: LinkId,
        addresses: Vec<SocketAddr>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        self.relays.listens(start, link, addresses);
        self.place_held(start, now, out);
    }

    fn send_to_relay(relay: LinkId, message: RelayMessage, out: &mut Vec<Effect>) {
        Self::send(relay, Kind::Control, &ParentMessage::Relay(message), out);
    }

    /// Tells the relay of a host what the starter has told about it.
    pub(super) fn tell_relay(
        &self,
        start: StartId,
        name: &str,
        message: impl FnOnce(HostIndex) -> RelayMessage,
        out: &mut Vec<Effect>,
    ) {
        let Some(host) = self.starts.below_named(start, name) else { return };
        if let Some(below) = self.relays.of(host).filter(|below| below.start == start) {
            Self::send_to_relay(below.relay, message(host), out);
        }
    }

    /// The link between a relay and a host is gone. The starter may still tell how the program has
    /// ended.
    pub(super) fn dropped(
        &mut self,
        relay: LinkId,
        launch: Launch,
        ends: bool,
        failure: Option<Failure>,
        now: Instant,
    ) {
        let known = self.relays.of(launch.host);
        let is_current = |below: &HostBelow| below.relay == relay && below.attempt == launch.attempt;
        if !known.is_some_and(|below| is_current(&below)) {
            return;
        }
        self.routes.remove(launch.host);
        let was_up = ends || failure.as_ref().is_some_and(|failure| failure.phase >= Phase::Joining);
        let until = if was_up { now + self.options.rules.kill_grace } else { now };
        let left = HostLeft { launch, ends, failure, until };
        if let Some(exit) = self.relays.host_left(left) {
            self.host_left(launch.host, exit, now);
        }
    }

    /// The exit of a leader that has left its relay is known, or will not be.
    pub(super) fn host_left(&mut self, host: HostIndex, exit: Exit, now: Instant) {
        let Some((start, left)) = self.relays.take_left(host) else { return };
        let HostLeft { launch, ends, failure, .. } = left;
        let is_member = self.is_led_by_member(host);
        if ends
            && is_member
            && let Some(rank) = self.launcher.spec(host).and_then(|spec| Some(spec.blocks.first()?.first))
        {
            self.reports.push(ChildMessage::Exited(rank, exit, None, 0));
        }
        let Some(mut failure) = failure.filter(|_| !self.stage.has_begun_to_end()) else { return };
        if exit != Exit::Unknown && failure.cause == Cause::Closed {
            (failure.cause, failure.exit) = (Cause::Exited(exit), Some(exit));
        }
        failure.cause = self.or_refused(start, failure.cause);
        if failure.tail.is_empty()
            && matches!(failure.cause, Cause::Closed | Cause::Exited(_) | Cause::HeartbeatLost)
        {
            failure.tail = String::from_utf8_lossy(&self.starts.tail(start)).into_owned();
        }
        let was_up = failure.phase >= Phase::Joining;
        if !was_up {
            self.launcher.recall(launch, now);
        }
        let with_others = self.starts.is_ending_all(start);
        self.leader_failed(launch, was_up, with_others, failure, now);
    }

    /// The starter has reported how the program on a host below a relay ended.
    pub(super) fn host_below_ended(
        &mut self,
        start: StartId,
        name: &str,
        exit: Exit,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Some(host) = self.starts.below_named(start, name) else { return };
        if self.relays.set_exit(start, host, exit) {
            return self.host_left(host, exit, now);
        }
        self.tell_relay(start, name, |host| RelayMessage::HostEnded(host, exit), out);
    }

    /// The starter reports no further exits: those that it has not reported are unknown, or this.
    pub(super) fn no_further_ends_below(
        &mut self,
        start: StartId,
        exit: Exit,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let bulk = self.options.launch_method().bulk();
        let unnamed = bulk.and_then(|bulk| bulk.unnamed_exit(exit)).unwrap_or(Exit::Unknown);
        for host in self.relays.set_unnamed_exits(start, unnamed) {
            self.host_left(host, unnamed, now);
        }
        for relay in self.relays.with_hosts(start) {
            Self::send_to_relay(relay, RelayMessage::StarterExited(start, exit), out);
        }
    }

    /// A child is gone: returns the hosts below it. If its connection waits, that is refused.
    pub(super) fn relay_gone(
        &mut self,
        link: LinkId,
        start: StartId,
        out: &mut Vec<Effect>,
    ) -> Vec<(HostIndex, HostBelow)> {
        let (held, below) = self.relays.lost(start, link);
        out.extend(held.map(Effect::Refuse));
        below
    }

    /// The hosts below a relay are lost with it. `with_others`: because the starter ends them all, which
    /// cuts them short if nothing is launched any more.
    pub(super) fn lost_with_relay(
        &mut self,
        relay: HostIndex,
        with_others: bool,
        below: Vec<(HostIndex, HostBelow)>,
        now: Instant,
    ) {
        let is_cut_short = with_others && self.stage.is_before_up() && !self.stage.is_launching();
        let cause = if is_cut_short { Cause::Cancelled } else { Cause::LauncherLost(relay) };
        for (host, HostBelow { attempt, .. }) in below {
            let (launcher, terms, reports) = self.launcher(now);
            let failure = terms.failure_of_waiting(cause.clone());
            launcher.lost_below(Launch { host, attempt }, failure, &terms, reports);
        }
    }
}

/// At a relay.
impl Node {
    /// This node accepts connections at these addresses.
    pub(super) fn listening(&mut self, addresses: Vec<SocketAddr>, out: &mut Vec<Effect>) {
        if self.relays.is_relay() {
            self.reports.push(ChildMessage::Listening(addresses.clone()));
        }
        self.direct.set_addresses(addresses);
        self.tell_ancestors(out);
        self.ask_for_source();
    }

    pub(super) fn on_relay_message(&mut self, message: RelayMessage, now: Instant, out: &mut Vec<Effect>) {
        match message {
            RelayMessage::Listen(start) => {
                self.relays.become_relay();
                if self.direct.listen_for_others() {
                    out.push(Effect::Listen { loopback: self.options.loopback });
                } else if let Some(addresses) = self.direct.addresses() {
                    // It listens for hosts that get files here.
                    self.reports.push(ChildMessage::Listening(addresses.to_vec()));
                }
                out.push(Effect::AcceptStart(start));
            }
            RelayMessage::Expect(start, spec) => self.expect(start, *spec, now, out),
            RelayMessage::Adopt(spec, is_agent) => self.adopt(*spec, is_agent, now, out),
            RelayMessage::Release(host, attempt) => {
                if let Some(link) = self.child_of(host, Some(attempt)) {
                    self.release_moving(link, now, out);
                    self.force_end(link, Cause::Cancelled, now, out);
                }
            }
            RelayMessage::HostEnded(host, exit) => {
                if let Some(link) = self.child_of(host, None) {
                    self.leader_ended(link, exit, now, out);
                }
            }
            RelayMessage::HostPrinted(host, stream, text) => {
                if let Some(link) = self.child_of(host, None) {
                    self.printed(link, stream, text, now);
                }
            }
            RelayMessage::StarterExited(start, exit) => {
                self.no_further_ends(start, exit, &Cause::StarterExited(exit), now, out);
            }
        }
    }

    /// The child that leads this host, by this attempt, and was started by the front end.
    fn child_of(&self, host: HostIndex, attempt: Option<Attempt>) -> Option<LinkId> {
        let is_it = |launch: Launch| launch.host == host && attempt.is_none_or(|it| it == launch.attempt);
        let mut others = self.children.leaders().filter(|(_, child)| !child.has_process());
        others.find(|(_, child)| child.launch().is_some_and(is_it)).map(|(link, _)| link)
    }

    /// The leader of a host will arrive.
    fn expect(&mut self, start: StartId, spec: HostSpec, now: Instant, out: &mut Vec<Effect>) {
        let (host, attempt) = (spec.host, spec.attempt);
        if !self.stage.is_launching() {
            // This host itself has failed, and the front end launches all hosts below it again.
            return;
        }
        let (name, blocks) = (spec.name.clone(), spec.blocks.clone());
        self.launcher.expect(spec);
        let role = ChildRole::Leader(Launch { host, attempt });
        let (link, ticket) = self.add_child(role, (start, Arrival::Awaited), blocks, now);
        self.starts.expect(start, name, link);
        out.push(Effect::Await(link));
        Self::send_ticket(link, &ticket, out);
    }
}
