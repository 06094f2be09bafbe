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
//! | a host does not arrive in time | it fails like any host; it is refused if it arrives later |
//! | the last host of the start is gone | the starter is asked to end, and killed if it does not |
//!
//! The link, not the starter, tells whether a host that has arrived is alive: what the starter reports
//! may be the end of a second process there, which was refused.
//!
//! A starter prints what its hosts print until they have arrived, and messages of its own. Where the
//! back-end recognises the host, that is output and evidence as of any child. Everything else is
//! evidence only for hosts that have not arrived, and decides nothing: it may be about another host.

use std::collections::BTreeMap;

use libi_core::ids::StartId;
use libi_core::plan::late::{Launch, Next};
use libi_core::time::Instant;

use super::session_end::TERMINATE;
use super::{Effect, LinkId, Node, StartRequest};
use crate::backend::{BulkMethod, LaunchMethod};
use crate::failure::{Cause, Exit};
use crate::machine::child::{Arrival, Child, ChildRole};
use crate::machine::output_relay::Stream;
use crate::machine::rendezvous::{ArrivalId, StartTicket, names};
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
            let mut count = 0;
            while count < most.max(1) {
                match self.queue.next(now) {
                    Next::Launch(launch) => {
                        let spec = self.host_specs.get(&launch.host);
                        let program =
                            spec.and_then(|spec| spec.blocks.first()).map(|block| block.distribution);
                        due.entry(program.unwrap_or(u32::MAX)).or_default().push(launch);
                        count += 1;
                    }
                    Next::WaitUntil(at) => {
                        self.launch_again = Some(at);
                        break;
                    }
                    Next::Idle => break,
                }
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

    /// Starts these hosts, which run the same program, by one process.
    fn start_hosts(&mut self, launches: &[Launch], now: Instant, out: &mut Vec<Effect>) {
        let start = self.starts.next_id();
        let (mut hosts, mut tickets, mut program) = (Vec::new(), Vec::new(), None);
        for &launch in launches {
            let Some(spec) = self.host_specs.get_mut(&launch.host) else { continue };
            spec.attempt = launch.attempt;
            let spec = spec.clone();
            program = program.or_else(|| self.program(&spec.blocks));
            let role = ChildRole::Leader(launch);
            let (link, ticket) = self.add_child(role, (start, Arrival::Awaited), spec.blocks.clone(), now);
            self.health.note_launch(launch.host, now);
            hosts.push((link, spec));
            tickets.push((link, ticket));
        }
        self.starts.add_bulk(start, hosts.iter().map(|(link, spec)| (spec.name.clone(), *link)).collect());
        self.starts.begin(start, now);
        let Some((program, ticket)) = program.zip(self.start_ticket(start)) else {
            let why = "no address at which the started processes could connect".to_owned();
            return self.not_started(start, &Cause::NotStarted(why), now, out);
        };
        out.push(Effect::Start(start, StartRequest::Hosts(hosts, program, Box::new(ticket))));
        tickets.iter().for_each(|(link, ticket)| Self::send_ticket(*link, ticket, out));
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

    /// The child of a start that runs on the host of this name, if it fits.
    fn child_named(&self, start: StartId, name: &str, fits: impl Fn(&Child) -> bool) -> Option<LinkId> {
        let fits = |link: &LinkId| self.children.get(*link).is_some_and(&fits);
        let is_named = |link: &LinkId| {
            let host = self.children.get(*link).and_then(Child::host);
            host.and_then(|host| self.host_specs.get(&host)).is_some_and(|spec| names(&spec.name, name))
        };
        match self.starts.child_named(start, name) {
            Some(link) => Some(link).filter(fits),
            // The host may have named itself with or without its domain.
            None => self.starts.children(start).into_iter().filter(fits).find(is_named),
        }
    }

    /// A link has arrived at the rendezvous.
    pub(super) fn arrived(
        &mut self,
        start: StartId,
        arrival: ArrivalId,
        names: &[String],
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let awaited = |child: &Child| child.is_awaited() && !child.is_ending();
        let link = names.iter().find_map(|name| self.child_named(start, name, awaited));
        let child = link.and_then(|link| self.children.get_mut(link));
        match link.filter(|_| child.is_some_and(|child| child.arrive(now))) {
            Some(link) => {
                self.starts.arrived(start, link);
                out.push(Effect::Admit(arrival, link));
            }
            None => out.push(Effect::Refuse(arrival)),
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
        let Some(link) = self.child_named(start, host, |_| true) else { return };
        let Some(child) = self.children.get_mut(link) else { return };
        child.on_exit(exit);
        if child.is_awaited() {
            child.close();
        }
        let (is_open, is_up) = (child.is_open(), child.is_up());
        if !is_open {
            self.ends(link, Cause::Exited(exit), now, out);
        } else if !is_up {
            let by = now + self.options.rules.kill_grace;
            let before = self.children.deadline(link).unwrap_or(by);
            self.children.set_deadline(link, by.min(before));
        }
    }

    pub(super) fn host_printed(&mut self, start: StartId, host: &str, stream: Stream, text: Vec<u8>) {
        match self.child_named(start, host, |_| true) {
            Some(link) => self.printed(link, stream, text),
            // A message of the starter itself may look like that: `Error: no such file`.
            None => self.starts.printed(start, &[host.as_bytes(), b": ", &text].concat()),
        }
    }

    /// The starter has ended. Hosts that have not arrived will not arrive, and no further end of a
    /// host is reported.
    pub(super) fn starter_exited(&mut self, start: StartId, exit: Exit, now: Instant, out: &mut Vec<Effect>) {
        self.started(start, now);
        self.starts.starter_gone(start);
        let unnamed = self.options.launch_method().bulk().and_then(|bulk| bulk.unnamed_exit(exit));
        for link in self.starts.children(start) {
            let Some(child) = self.children.get_mut(link) else { continue };
            if child.is_awaited() {
                child.close();
                child.forgo_exit();
                self.ends(link, Cause::StarterExited(exit), now, out);
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
        if self.starts.child_gone(start, link, by) == StarterStep::Ask {
            out.push(Effect::EndStarter(start, TERMINATE));
        }
    }

    /// Handles the deadlines of starters.
    pub(super) fn expire_starters(&mut self, now: Instant, out: &mut Vec<Effect>) {
        while let Some((start, step)) = self.starts.expire(now, self.options.rules.kill_grace) {
            if step == StarterStep::Kill {
                out.push(Effect::EndStarter(start, KILL));
            }
        }
    }
}
