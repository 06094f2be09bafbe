//! Bulk starts: one process starts the leaders of many hosts, and their links arrive at the
//! rendezvous.
//!
//! The front end alone makes bulk starts, and launches all hosts by them. A start covers the hosts
//! that wait and run the same program, at most as many as the back-end starts at once. Hosts that
//! are retried go into a new start; what the earlier start has brought up meanwhile is refused.
//!
//! | event | effect |
//! |---|---|
//! | a link of this start claims a host that is awaited | it is the host's link from now on |
//! | it claims a host that has arrived, was given up, or is not of this start | it is refused |
//! | the starter reports the end of a host that has not arrived | that is the exit of its leader |
//! | it does so of a host that has arrived | the exit counts once the link is closed |
//! | the starter ends | hosts that have not arrived fail; hosts that have arrived stay |
//! | a link that may become that of a relay's child claims an awaited host | see `relays.rs` |
//! | a host does not arrive in time | it fails like any host; it is refused if it arrives later |
//! | the starter reports that a host cannot be started | the host fails, and is not retried |
//! | it ends all others for that | they are launched again, which is not an attempt |
//! | the start waits for resources | hosts and launch have the queue's time; a notice |
//! | the start has its resources | its launches begin |
//! | no such start can succeed | hosts that have not arrived fail, and none is launched again |
//! | no host has arrived, nothing explains it, and the starter ends | it is divided in two |
//! | the last host of the start is gone | the starter is asked to end, and killed if it does not |
//! | it has ended by itself | the starter has time to say why, before `Done` |
//!
//! The link, not the starter, tells whether a host that has arrived is alive: what the starter reports
//! may be the end of a second process there, which was refused.
//!
//! A starter prints what its hosts print until they have arrived, and messages of its own. Where the
//! back-end recognises the host, that is output and evidence as of any child. Everything else is
//! evidence only for hosts that have not arrived, and decides nothing: it may be about another host.

use std::collections::BTreeMap;
use std::time::Duration;

use libi_core::ids::StartId;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;

use super::session_end::TERMINATE;
use super::{Effect, LinkId, Node, Notice, StartRequest};
use crate::backend::{BulkMethod, LaunchMethod};
use crate::failure::{Cause, Exit, Failure, Phase};
use crate::machine::child::{Arrival, Child, ChildRole};
use crate::machine::front_end::Fates;
use crate::machine::message::ParentMessage;
use crate::machine::output_relay::Stream;
use crate::machine::rendezvous::{ArrivalId, Claim, StartTicket};
use crate::machine::start_table::StarterStep;

/// SIGKILL, which has this number on all systems.
const KILL: i32 = 9;
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
                let spec = self.launcher.spec(launch.host);
                let program = spec.and_then(|spec| spec.blocks.first()).map(|block| block.distribution);
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

    /// Whether a bulk start may begin: the rendezvous is open, and no other start is in progress.
    fn may_start_in_bulk(&self) -> bool {
        let is_open = self.direct.rendezvous().is_some() || self.direct.cannot_listen();
        is_open && !self.starts.is_starting() && self.starts.in_flight() < MAX_STARTS_IN_FLIGHT
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
            program = program.or_else(|| self.program(&spec.blocks));
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
    fn divide(&mut self, start: StartId, now: Instant, out: &mut Vec<Effect>) -> bool {
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

    /// A start waits for resources: its hosts have the time of the queue.
    pub(super) fn starter_waits(&mut self, start: StartId, why: &[u8], now: Instant, out: &mut Vec<Effect>) {
        let Some(timeout) = self.options.launch_method().bulk().map(BulkMethod::queue_timeout) else {
            return;
        };
        if let Some(queued) = self.starts.set_waiting(start, true, now) {
            self.starts.printed(start, why); // further lines tell less
            self.set_awaited_deadlines(start, now + timeout.saturating_sub(queued), now);
            if self.is_front() {
                let why = String::from_utf8_lossy(why).trim_end().to_owned();
                out.push(Effect::Notify(Notice::Waiting(why)));
            }
        }
    }

    /// A start has its resources: its launches begin.
    pub(super) fn starter_proceeds(&mut self, start: StartId, now: Instant) {
        if self.starts.set_waiting(start, false, now).is_some() {
            self.set_awaited_deadlines(start, now + self.options.rules.hello_timeout, now);
        }
    }

    /// No such start can succeed: what a starter says of the end of its job. A session that is up
    /// is told.
    pub(super) fn starter_refused(&mut self, start: StartId, why: &[u8], out: &mut Vec<Effect>) {
        self.starts.refused(start, why);
        if self.is_front() && self.stage.is_up() && self.starts.is_running(start) {
            let why = String::from_utf8_lossy(why).trim_end().to_owned();
            out.push(Effect::Notify(Notice::Revoked(why)));
        }
    }

    fn set_awaited_deadlines(&mut self, start: StartId, by: Instant, now: Instant) {
        for link in self.starts.children(start) {
            if let Some(child) =
                self.children.get_mut(link).filter(|child| child.is_awaited() && !child.is_ending())
            {
                child.restart(start, now);
                self.children.set_deadline(link, by);
            }
        }
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

    fn is_all_or_nothing(&self) -> bool {
        self.options.launch_method().bulk().is_some_and(BulkMethod::is_all_or_nothing)
    }

    /// Whether a host of a start that is ending all others has failed because of that.
    pub(super) fn is_ended_with_others(&self, failure: &Failure) -> bool {
        let is_ended = matches!(
            failure.cause,
            Cause::Closed | Cause::StarterExited(_) | Cause::Exited(Exit::Signal(_) | Exit::Unknown)
        );
        is_ended && self.stage.is_launching()
    }

    /// The starter has reported why a host cannot be started.
    pub(super) fn host_not_started(
        &mut self,
        start: StartId,
        host: &str,
        why: &[u8],
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let awaited = |child: &Child| child.is_awaited() && !child.is_ending();
        let Some(link) = self.child_named(start, host, awaited) else {
            return self.starts.printed(start, why);
        };
        let Some(child) = self.children.get_mut(link) else { return };
        child.close();
        child.forgo_exit();
        let why = String::from_utf8_lossy(why).trim_end().to_owned();
        if self.is_all_or_nothing() {
            self.starts.may_end_all(start, now + self.options.rules.kill_grace);
        }
        self.ends(link, Cause::NotStarted(why), now, out);
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

    /// The starter has reported how the program on a host ended.
    pub(super) fn host_ended(
        &mut self,
        start: StartId,
        host: &str,
        exit: Exit,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        match self.child_named(start, host, |_| true) {
            Some(link) => self.leader_ended(link, exit, now, out),
            None => self.host_below_ended(start, host, exit, now, out),
        }
    }

    /// The program of a leader that has arrived, or should, has ended.
    pub(super) fn leader_ended(&mut self, link: LinkId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        let Some(child) = self.children.get_mut(link) else { return };
        child.on_exit(exit);
        // A process of a host that was redirected has arrived; this may be the end of a second one,
        // which was refused.
        if child.is_awaited() && self.role.is_front() {
            let (start, by) = (child.start(), now + self.options.rules.kill_grace);
            if matches!(exit, Exit::Signal(_)) && self.starts.may_name_a_host(start) {
                // The end of all may be told before the host that is the reason for it.
                let before = self.children.deadline(link).unwrap_or(by);
                return self.children.set_deadline(link, by.min(before));
            }
            child.close();
        }
        let (is_open, is_up, start) = (child.is_open(), child.is_up(), child.start());
        if !is_open {
            let cause = self.or_refused(start, Cause::Exited(exit));
            self.ends(link, cause, now, out);
        } else if !is_up {
            let by = now + self.options.rules.kill_grace;
            let before = self.children.deadline(link).unwrap_or(by);
            self.children.set_deadline(link, by.min(before));
        }
    }

    /// What ends the whole start is the reason for the end of each host.
    pub(super) fn or_refused(&self, start: StartId, cause: Cause) -> Cause {
        let is_by_signal = matches!(cause, Cause::Exited(Exit::Signal(_)));
        self.starts.why_refused(start).filter(|_| is_by_signal).map_or(cause, Cause::NotStarted)
    }

    pub(super) fn host_printed(
        &mut self,
        start: StartId,
        host: &str,
        stream: Stream,
        text: Vec<u8>,
        out: &mut Vec<Effect>,
    ) {
        match self.child_named(start, host, |_| true) {
            Some(link) => self.printed(link, stream, text),
            None if self.starts.below_named(start, host).is_some() => {
                self.tell_relay(start, host, |host| ParentMessage::HostPrinted(host, stream, text), out);
            }
            // A message of the starter itself may look like that: `Error: no such file`.
            None => self.starts.printed(start, &[host.as_bytes(), b": ", &text].concat()),
        }
    }

    /// A session that is up is told why its starter ends, if its hosts have not simply ended.
    fn says_why_it_ends(&self, start: StartId, exit: Exit, out: &mut Vec<Effect>) {
        if !self.stage.is_up() || !self.starts.is_running(start) {
            return;
        }
        let method = self.options.launch_method();
        let tail = self.starts.tail(start);
        let tail = String::from_utf8_lossy(&tail);
        let why = match exit {
            Exit::Signal(_) => Some(format!("{method} {exit}")),
            _ if self.starts.why_refused(start).is_some() => None,
            _ => method.bulk().and_then(|bulk| bulk.says_it_ends_all(&tail)).map(str::to_owned),
        };
        out.extend(why.map(|why| Effect::Notify(Notice::Revoked(why))));
    }

    /// The starter has ended. Hosts that have not arrived will not arrive, and no further end of a
    /// host is reported.
    pub(super) fn starter_exited(&mut self, start: StartId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        self.started(start, now);
        let refused = self.starts.why_refused(start);
        self.says_why_it_ends(start, exit, out);
        self.starts.starter_gone(start);
        if self.divide(start, now, out) {
            return;
        }
        self.no_further_ends_below(start, exit, now, out);
        let cause = refused.map_or(Cause::StarterExited(exit), Cause::NotStarted);
        self.no_further_ends(start, exit, &cause, now, out);
    }

    /// The starter of these children has ended: those that have not arrived fail for this cause, and
    /// no further end is reported.
    pub(super) fn no_further_ends(
        &mut self,
        start: StartId,
        exit: Exit,
        cause: &Cause,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let unnamed = self.options.launch_method().bulk().and_then(|bulk| bulk.unnamed_exit(exit));
        for link in self.starts.children(start) {
            let killed = self.children.get(link).and_then(Child::exit).map(Cause::Exited);
            let cause = killed.map_or(cause.clone(), |cause| self.or_refused(start, cause));
            let Some(child) = self.children.get_mut(link) else { continue };
            if child.is_awaited() {
                child.close();
                child.forgo_exit();
                self.ends(link, cause, now, out);
            } else if child.is_ending() {
                match unnamed.filter(|_| child.exit().is_none()) {
                    Some(exit) => self.child_exited(link, exit, now, out),
                    None => child.forgo_exit(),
                }
                if self.children.get(link).is_some_and(Child::is_gone) {
                    self.child_gone(link, now, out);
                }
            }
        }
    }

    /// A child is gone: it leaves its start, with the evidence that the starter has printed.
    pub(super) fn leave_start(
        &mut self,
        link: LinkId,
        child: &mut Child,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let start = child.start();
        if child.is_of_bulk_start() {
            child.add_evidence(&self.starts.tail(start));
        } else {
            self.started(start, now);
        }
        let by = now + self.options.rules.kill_grace;
        let by_itself = self.stage.is_up() && !child.was_forced() && !child.is_detached();
        if self.starts.child_gone(start, link, by_itself, by) == StarterStep::Ask {
            out.push(Effect::EndStarter(start, TERMINATE));
        }
    }

    /// Handles the deadlines of starters, and of arrivals that wait.
    pub(super) fn expire_starters(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some(start) = self.relays.expire(now) {
            self.place_held(start, now, out);
        }
        while let Some(host) = self.relays.exit_is_late(now) {
            self.host_left(host, Exit::Unknown, now);
        }
        while let Some((start, step)) = self.starts.expire(now, self.options.rules.kill_grace) {
            let signal = match step {
                StarterStep::Nothing => continue,
                StarterStep::Ask => TERMINATE,
                StarterStep::Kill => KILL,
            };
            out.push(Effect::EndStarter(start, signal));
        }
    }
}
