//! A node: dispatches events, and keeps the state that its parts share. See [`machine`](super).

mod about;
mod after_event;
mod child_end;
mod children;
mod commands;
mod direct;
mod front_end;
mod growth;
mod heartbeats;
mod input;
mod launching;
mod loss_reasons;
mod moves;
mod orphans;
mod output;
mod parent;
mod programs;
mod relays;
mod restarts;
mod returns;
mod session_config;
mod session_end;
mod session_up;
mod settling;
mod shares;
mod sources;
mod spares;
mod staging;
mod starters;
mod starts;

use self::input::NodeInput;
use libi_core::join::{Nonce, SessionKey};
use libi_core::machine::Machine;
use libi_core::plan::estimate::Estimate;
use libi_core::sim::rng::Rng;
use libi_core::time::Instant;
use libi_core::wire::{Kind, Limits, PROTOCOL, Preamble, encode_control};
use serde::Serialize;

use self::commands::Commands;
use self::programs::OwnPrograms;
use super::attachment::Attachment;
use super::child::Child;
use super::child_table::ChildTable;
use super::contract::{Effect, Event, LaunchPlan, LinkId, Notice, StartRequest};
use super::direct_links::{CarriedSecret, DirectLinks, LinkPolicy};
use super::front_end::FrontEndState;
use super::growth::Growth;
use super::launcher::{Launcher, Terms};
use super::membership::HostRoutes;
use super::message::{ChildMessage, Program};
use super::moved_processes::MovedProcesses;
use super::moves::Moves;
use super::orphans::Orphans;
use super::output_order::OutputOrder;
use super::output_relay::OutputRelay;
use super::parent_link::{Identity, ParentLink};
use super::relays::Relays;
use super::restarts::Restarts;
use super::session_stage::SessionStage;
use super::sources::{LEAST, Sources};
use super::staging::StagedFiles;
use super::start_table::StartTable;
use crate::failure::Cause;
use crate::options::LaunchOptions;

/// Each state has a place of its own. With both in one place, compilers read fields of the one that is
/// not there ahead of the test which it is, and valgrind takes that for a decision on them.
#[derive(Debug)]
enum Role {
    FrontEnd(Box<FrontEndState>),
    Member(Box<ParentLink>),
}

impl Role {
    fn is_front(&self) -> bool {
        matches!(self, Self::FrontEnd(_))
    }
}

/// The part that one process plays in the launch of a session.
#[derive(Debug)]
pub struct Node {
    session: SessionKey,
    /// What the launch was told; a member's are the default until its config arrives.
    options: LaunchOptions,
    size: u32,
    programs: Vec<Program>,
    role: Role,
    attachment: Attachment,
    input: NodeInput,
    relay: OutputRelay,
    output_order: OutputOrder,
    direct: DirectLinks,
    own_programs: OwnPrograms,
    commands: Commands,
    restarts: Restarts,
    growth: Growth,
    /// Files of the user that hosts get before their programs are started.
    staged: StagedFiles,
    /// Where they come from, and which other hosts get them from here.
    sources: Sources,
    stage: SessionStage,
    nonces: Rng,
    children: ChildTable,
    launcher: Launcher,
    /// The link over which each host below has joined, until the session is up.
    routes: HostRoutes,
    starts: StartTable,
    relays: Relays,
    /// Which hosts that were launched by the front end are below the leader of the first, and the
    /// processes that lead to them.
    moves: Moves,
    moved: MovedProcesses,
    /// Hosts that have lost their parent, as this one may.
    orphans: Orphans,
    /// Whether hosts of this session do, which all its processes have to know.
    reconnects: bool,
    next_heartbeat: Instant,
    reports: Vec<ChildMessage>,
    wake_requested: Option<Instant>,
    began: Instant,
}

impl Node {
    /// The node of the front end. `entropy` makes its nonces unique.
    #[must_use]
    pub fn front(session: SessionKey, plan: &LaunchPlan, entropy: u64) -> Self {
        let estimate = Estimate::assumed(&plan.options.assumed_cost());
        let front = FrontEndState::new(plan);
        let launched_here = front.launchers().hosts_of_front_end(plan.hosts.len());
        let hosts_move = front.launchers().hosts_move();
        let role = Role::FrontEnd(Box::new(front));
        let mut node = Self::new(session, role, plan.options.clone(), entropy);
        if hosts_move {
            node.moves.switch_on();
        }
        (node.size, node.programs) = (plan.size, plan.programs.clone());
        let are_direct = plan.options.links_have_secret();
        node.direct.set_secret(plan.secret.clone().filter(|_| are_direct));
        let reconnect = plan.secret.as_ref().filter(|_| plan.options.hosts_reconnect());
        node.direct.set_orphans_secret(reconnect.map(CarriedSecret::of_orphans));
        node.reconnects = reconnect.is_some();
        node.fold_output();
        node.input = NodeInput::of_front_end(plan.options.input);
        if let Some(files) = plan.options.stage.as_ref().filter(|_| node.stages_files()) {
            node.staged = StagedFiles::of_front_end(files.bytes());
            let have_sources = files.bytes() >= LEAST && plan.options.links != LinkPolicy::Channel;
            let secret = plan.secret.as_ref().filter(|_| have_sources);
            node.direct.set_files_secret(secret.map(CarriedSecret::of_files));
        }
        node.launcher = Launcher::of_front_end(&plan.hosts, launched_here, estimate, entropy);
        node
    }

    /// The node of a started process, which learns its role from its parent.
    #[must_use]
    pub fn member(process: u32, machine: String, entropy: u64) -> Self {
        let role = Role::Member(Box::new(ParentLink::new(process, machine)));
        let starts = StartTable::of_leader();
        Self { starts, ..Self::new(SessionKey(0), role, LaunchOptions::default(), entropy) }
    }

    /// The node of a process that leads its host in place of its program: it is an agent, and
    /// starts all members of its host. If it leads none, it is an ordinary member.
    #[must_use]
    pub fn apart(mut self) -> Self {
        if let Role::Member(parent) = &mut self.role {
            parent.set_apart();
        }
        self
    }

    fn new(session: SessionKey, role: Role, options: LaunchOptions, entropy: u64) -> Self {
        Self {
            session,
            options,
            size: 0,
            programs: Vec::new(),
            role,
            attachment: Attachment::default(),
            input: NodeInput::default(),
            relay: OutputRelay::new(),
            output_order: OutputOrder::default(),
            direct: DirectLinks::default(),
            own_programs: OwnPrograms::default(),
            commands: Commands::default(),
            restarts: Restarts::default(),
            growth: Growth::default(),
            staged: StagedFiles::default(),
            sources: Sources::default(),
            stage: SessionStage::new(),
            nonces: Rng::new(entropy),
            children: ChildTable::new(),
            launcher: Launcher::of_leader(entropy),
            routes: HostRoutes::default(),
            starts: StartTable::new(),
            relays: Relays::default(),
            moves: Moves::default(),
            moved: MovedProcesses::default(),
            orphans: Orphans::default(),
            reconnects: false,
            next_heartbeat: Instant::FAR_FUTURE,
            reports: Vec::new(),
            wake_requested: None,
            began: Instant::ZERO,
        }
    }

    fn nonce(&mut self) -> Nonce {
        Nonce(self.nonces.bits())
    }

    /// The launcher with what it needs for a decision, and the list of its reports.
    fn launcher(&mut self, now: Instant) -> (&mut Launcher, Terms<'_>, &mut Vec<ChildMessage>) {
        let terms = Terms {
            now,
            began: if self.stage.is_up() { self.growth.began() } else { self.began },
            options: &self.options,
            is_launching: self.is_launching(),
            settled: self.settled_hosts(),
            front: match &self.role {
                Role::FrontEnd(front) => Some(front),
                Role::Member(_) => None,
            },
            staging: self.staging_load(),
        };
        (&mut self.launcher, terms, &mut self.reports)
    }

    fn is_front(&self) -> bool {
        self.role.is_front()
    }

    /// Sends a message; false if it is too long. Messages that can be long are split by the caller.
    fn send<T: Serialize>(link: LinkId, kind: Kind, message: &T, out: &mut Vec<Effect>) -> bool {
        Self::send_of(0, link, kind, message, out)
    }

    /// Sends a message. If it is no longer than `length`, the effect holds the only copy of it.
    fn send_of<T: Serialize>(
        length: usize,
        link: LinkId,
        kind: Kind,
        message: &T,
        out: &mut Vec<Effect>,
    ) -> bool {
        let mut bytes = Vec::with_capacity(length);
        let fits = encode_control(&mut bytes, kind, 0, message, &Limits::AUTHENTICATED).is_ok();
        if fits {
            out.push(Effect::Send(link, bytes));
        }
        fits
    }

    fn send_preamble(link: LinkId, out: &mut Vec<Effect>) {
        out.push(Effect::Send(link, Preamble { versions: PROTOCOL }.encode().to_vec()));
    }
}

impl Machine for Node {
    type Event = Event;
    type Effect = Effect;

    fn on(&mut self, event: Event, now: Instant, out: &mut Vec<Effect>) {
        if self.stage.is_over() {
            return self.on_event_when_over(event, now, out);
        }
        match event {
            Event::Received(link, items) if items.is_empty() => return self.heard(link, now),
            Event::Begin => self.begin(now, out),
            Event::Started(start) => self.started(start, now),
            Event::NotStarted(start, why) => self.not_started(start, &Cause::NotStarted(why), now, out),
            Event::OutOfResources(start, why) => {
                self.not_started(start, &Cause::OutOfResources(why), now, out);
            }
            Event::Declined(link, why) => self.declined(link, why),
            Event::StartCancelled(start, signal) => self.start_cancelled(start, signal, now, out),
            Event::StarterPrinted(start, text) => self.starts.printed(start, &text),
            Event::HostPrinted(start, host, stream, text) => {
                self.host_printed(start, &host, (stream, text), now, out);
            }
            Event::HostEnded(start, host, exit) => self.host_ended(start, &host, exit, now, out),
            Event::HostFailed(start, host, why) => self.host_not_started(start, &host, &why, now, out),
            Event::StarterWaits(start, why) => self.starter_waits(start, &why, now, out),
            Event::StarterProceeds(start) => self.starter_proceeds(start, now),
            Event::StarterWillEndAll(start, line) => self.starts.will_end_all(start, &line),
            Event::StarterEndsAll(start, line) => self.starter_ends_all(start, &line, now, out),
            Event::StarterRefused(start, why) => self.starter_refused(start, &why, out),
            Event::StarterKilled(start) => self.starts.starter_killed(start, Instant::FAR_FUTURE),
            Event::StarterExited(start, exit) => self.starter_exited(start, exit, now, out),
            Event::Arrived(start, arrival, claim) => self.arrived(start, arrival, &claim, now, out),
            Event::Left(arrival) => self.relays.left(arrival),
            Event::OrphanArrived(arrival) => self.orphan_arrives(arrival, now, out),
            Event::Walled => self.orphans.meets_wall(),
            Event::Helped => self.helped(now, out),
            Event::HelperEnded(host, why) => self.orphans.helper_ended(host, &why, now),
            Event::Received(link, items) if self.orphans.is_arriving(link) => {
                self.on_orphan_items(link, items, now, out);
            }
            Event::Violation(link, _) | Event::Closed(link) if self.orphans.is_arriving(link) => {
                self.orphan_leaves(link, out);
            }
            Event::FilesWanted(arrival) => self.files_wanted(arrival, now, out),
            Event::SourceConnected(link) => self.source_connected(link, now, out),
            Event::Received(link, items) if self.sources.has(link) => {
                self.on_file_items(link, items, now, out);
            }
            Event::Violation(link, _) | Event::Closed(link) if self.sources.has(link) => {
                self.file_link_closed(link, out);
            }
            event if self.is_of_moved(&event) => self.on_moved(event, now, out),
            Event::Received(LinkId::PARENT, items) => self.on_parent_items(items, now, out),
            Event::Received(link, items) => self.on_child_items(link, items, now, out),
            Event::Violation(LinkId::PARENT, _) => self.parent_lost(now, out),
            Event::Violation(link, error) => self.on_child_violation(link, error, now, out),
            Event::Printed(link, stream, text) => self.printed(link, stream, text, now),
            Event::Closed(LinkId::PARENT) => self.parent_lost(now, out),
            Event::Closed(link) => self.child_closed(link, now, out),
            Event::Exited(link, exit) => self.child_exited(link, exit, now, out),
            Event::Woken => self.wake_requested = self.wake_requested.filter(|at| *at > now),
            Event::End(ending) => self.end(ending, now, out),
            Event::Signal(signal) => self.signal(signal, out),
            Event::Spawn(request) => self.spawn(*request, now, out),
            Event::SignalCommand(command, hosts, signal) => {
                self.signal_command(command, hosts.as_deref(), signal, out);
            }
            Event::Restart(rank) => self.restart(rank, None, now, out),
            Event::RestartOn(rank, place) => self.restart(rank, Some(place), now, out),
            Event::Grow(request) => self.grow(*request, now, out),
            Event::Consumed(bytes) => self.relay.grant(bytes),
            Event::Detach => self.detach(),
            Event::ProgramsFound(found) => self.programs_found(found, now, out),
            Event::Staged(written) => self.on_staged(written, now, out),
            Event::Input(bytes) => self.user_input(&bytes, out),
            Event::InputTaken(bytes) => self.input_taken(bytes),
            Event::Listening(addresses) => self.listening(addresses, out),
            Event::DirectAccepted(link) => self.direct_accepted(link, now, out),
            Event::Carries(_) => self.link_carries(),
            Event::DirectConnected(reached) => self.direct_connected(reached, now, out),
        }
        self.after_event(now, out);
    }
}

impl Node {
    /// Only data for the group have come over a link. Its peer is alive, and nothing becomes due by
    /// that: with every frame of a call, no more is done.
    fn heard(&mut self, link: LinkId, now: Instant) {
        match &mut self.role {
            Role::Member(parent) if link == LinkId::PARENT => parent.on_heard(now),
            _ if self.sources.has(link) => self.sources.heard(link, now),
            _ => self.child_heard(link, now),
        }
    }

    fn begin(&mut self, now: Instant, out: &mut Vec<Effect>) {
        self.began = now;
        self.next_heartbeat = now + self.heartbeat_interval();
        match &mut self.role {
            Role::FrontEnd(front) => {
                front.begin(now);
                self.listen(out);
            }
            Role::Member(parent) => {
                parent.begin(now, self.options.rules.hello_timeout);
                Self::send_preamble(LinkId::PARENT, out);
            }
        }
    }
}
