//! Bulk starts: one process starts the leaders of many hosts, and their links arrive at the
//! rendezvous.
//!
//! The front end alone makes bulk starts, and launches all hosts by them. A start covers the hosts
//! that wait and run the same program, at most as many as the back-end starts at once. Hosts that
//! are retried go into a new start; what the earlier start has brought up meanwhile is refused.
//!
//! | event | effect |
//! |---|---|
//! | a link of this start claims a host that is awaited | it is placed: see `relays.rs` |
//! | it claims a host that has arrived, was given up, or is not of this start | it is refused |
//! | a host does not arrive in time | it fails like any host; it is refused if it arrives later |
//! | no host has arrived, nothing explains it, and the starter ends | the start is divided in two |
//!
//! What follows from what the starter reports is in `starters.rs`.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::ids::StartId;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;

use super::{Effect, LinkId, Node, StartRequest};
use crate::backend::{BulkMethod, LaunchMethod};
use crate::failure::{Cause, Failure, Phase};
use crate::machine::child::{Arrival, Child, ChildRole};
use crate::machine::front_end::Fates;
use crate::machine::rendezvous::{ArrivalId, Claim, StartTicket};

/// The most bulk starts with hosts that have not arrived. Each failed host may need a start of its
/// own.
const MAX_STARTS_IN_FLIGHT: usize = 32;

impl Node {
    /// Starts all hosts that wait, as many at once as the back-end allows.
    pub(super) fn launch_in_bulk(&mut self, now: Instant, out: &mut Vec<Effect>) {
        let Some(most) = self.options.launch_method().bulk().map(BulkMethod::hosts_per_start) else {
            return;
        };
        while self.may_start_in_bulk() {
            let mut due: BTreeMap<u32, Vec<Launch>> = BTreeMap::new();
            let (mut count, mut is_any_refused) = (0, false);
            while count < most.max(1)
                && let Some(launch) = self.launcher.next_waiting(now)
            {
                if self.refuses(launch, now) {
                    is_any_refused = true;
                    continue;
                }
                let block = self.launcher.spec(launch.host).and_then(|spec| spec.blocks.first());
                // Agents are the same everywhere.
                let program = block.filter(|_| self.options.agent.is_none()).map(|block| block.distribution);
                due.entry(program.unwrap_or(u32::MAX)).or_default().push(launch);
                count += 1;
            }
            if is_any_refused {
                self.send_reports(now, out);
            }
            if !self.stage.is_launching() {
                // The refusals have ended the launch.
                return due.into_values().flatten().for_each(|launch| self.not_launched(launch, now));
            }
            if due.is_empty() {
                return;
            }
            due.into_values().for_each(|launches| self.start_hosts(&launches, now, out));
        }
    }

    /// Whether a bulk start may begin: the rendezvous is open, no other start is in progress, and none
    /// may still say why no start can succeed.
    fn may_start_in_bulk(&self) -> bool {
        let is_open = self.direct.rendezvous().is_some() || self.direct.cannot_listen();
        is_open
            && !self.starts.is_starting()
            && !self.starts.may_any_say_why()
            && self.starts.in_flight() < MAX_STARTS_IN_FLIGHT
    }

    /// Gives a host up if it is known that it cannot be started.
    fn refuses(&mut self, launch: Launch, now: Instant) -> bool {
        let bulk = self.options.launch_method().bulk();
        let why = bulk.zip(self.launcher.spec(launch.host)).and_then(|(bulk, spec)| bulk.refuses(spec));
        let Some(why) = why.or_else(|| self.starts.why_all_refused()) else { return false };
        self.launcher.begin(launch);
        let failure = Failure::without_evidence(Phase::Waiting, Cause::NotStarted(why), Duration::ZERO);
        self.launch_failed(launch, failure, now);
        true
    }

    /// Nothing is launched any more: this launch does not begin.
    fn not_launched(&mut self, launch: Launch, now: Instant) {
        let elapsed = now.since(self.began);
        let failure = Failure::without_evidence(Phase::Waiting, Cause::Cancelled, elapsed);
        self.launch_failed(launch, failure, now);
    }

    /// Starts these hosts, which run the same program, by one process.
    fn start_hosts(&mut self, launches: &[Launch], now: Instant, out: &mut Vec<Effect>) {
        let start = self.starts.next_id();
        let mut links = Vec::new();
        for &launch in launches {
            let Some(spec) = self.launcher.begin(launch) else { continue };
            let role = ChildRole::Leader(launch);
            links.push(self.add_child(role, (start, Arrival::Awaited), spec.blocks, now).0);
            self.launcher.launched(launch.host, false, now);
        }
        if !links.is_empty() {
            self.start_children(start, &links, now, out);
        }
    }

    /// Starts the hosts of these children by one process.
    fn start_children(&mut self, start: StartId, links: &[LinkId], now: Instant, out: &mut Vec<Effect>) {
        let (mut hosts, mut tickets, mut program) = (Vec::new(), Vec::new(), None);
        for &link in links {
            let Some(child) = self.children.get(link) else { continue };
            let spec = child.host().and_then(|host| self.launcher.spec(host));
            let Some(spec) = spec.cloned() else { continue };
            tickets.push((link, *child.ticket()));
            program = program.or_else(|| self.leader_program(&spec));
            hosts.push((link, spec));
        }
        self.relays.begin(start, hosts.len(), self.relays_wanted(hosts.len()));
        self.starts.add_bulk(start, hosts.iter().map(|(link, spec)| (spec.name.clone(), *link)).collect());
        self.starts.begin(start, now);
        let Some((program, ticket)) = program.zip(self.start_ticket(start)) else {
            let why = "no address at which the started processes could connect".to_owned();
            return self.not_started(start, &Cause::NotStarted(why), now, out);
        };
        out.push(Effect::Start(start, StartRequest::Hosts(hosts, program, Box::new(ticket))));
        tickets.iter().for_each(|(link, ticket)| Self::send_ticket(*link, ticket, out));
    }

    /// Starts the children of a start that has failed as a whole again, by two starts, if one of
    /// its hosts may be the reason. Returns whether it does.
    pub(super) fn divide(&mut self, start: StartId, now: Instant, out: &mut Vec<Effect>) -> bool {
        if !self.stage.is_launching() || !self.is_all_or_nothing() {
            return false;
        }
        let Some(parts) = self.starts.divide(start) else { return false };
        for links in parts {
            let start = self.starts.next_id();
            let by = now + self.options.rules.hello_timeout;
            for &link in &links {
                if let Some(child) = self.children.get_mut(link) {
                    child.restart(start, now);
                }
                self.children.set_deadline(link, by);
            }
            self.start_children(start, &links, now, out);
        }
        true
    }

    /// What is known of the hosts of starts in which one host may end all others.
    pub(super) fn fates(&self) -> Fates {
        if !self.is_all_or_nothing() {
            Fates::Known
        } else if self.starts.is_any_ending_all() {
            Fates::Ending
        } else if self.starts.in_flight() > 0 {
            Fates::Open
        } else {
            Fates::Known
        }
    }

    pub(super) fn is_all_or_nothing(&self) -> bool {
        self.options.launch_method().bulk().is_some_and(BulkMethod::is_all_or_nothing)
    }

    fn start_ticket(&self, start: StartId) -> Option<StartTicket> {
        let (secret, addresses) = self.direct.rendezvous()?;
        Some(StartTicket {
            session: self.session,
            start,
            addresses: addresses.to_vec(),
            timeout: self.options.rules.hello_timeout,
            security: self.options.link_security,
            secret: secret.of_start(start),
            host_variable: self.options.launch_method().bulk()?.host_variable().to_owned(),
        })
    }

    /// The child of a start that runs on the host of this name, if it fits. The host may have named
    /// itself with or without its domain.
    pub(super) fn child_named(
        &self,
        start: StartId,
        name: &str,
        fits: impl Fn(&Child) -> bool,
    ) -> Option<LinkId> {
        let fits = |link: &LinkId| self.children.get(*link).is_some_and(&fits);
        self.starts.children_named(start, name).find(fits)
    }

    /// A link has arrived at the rendezvous.
    pub(super) fn arrived(
        &mut self,
        start: StartId,
        arrival: ArrivalId,
        claim: &Claim,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let awaited = |child: &Child| child.is_awaited() && !child.is_ending();
        let link = claim.names.iter().find_map(|name| self.child_named(start, name, awaited));
        match link {
            Some(link) => self.place(start, arrival, link, now, out),
            None if claim.is_back => self.comes_back(start, arrival, claim, now, out),
            None if self.is_front() => out.push(Effect::Refuse(arrival)),
            // The front end's message about the host may arrive later.
            None => out.push(Effect::TurnAway(arrival)),
        }
    }

    /// The connection becomes the link of this child.
    pub(super) fn admit(&mut self, arrival: ArrivalId, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(link) else { return out.push(Effect::Refuse(arrival)) };
        if child.arrive(now) {
            self.starts.arrived(child.start(), link);
            out.push(Effect::Admit(arrival, link));
        } else {
            out.push(Effect::Refuse(arrival));
        }
    }
}
