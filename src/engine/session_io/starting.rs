//! Starts the processes of a node, as their launch methods describe.

mod by_client;
mod environment;
mod spawn;

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;

use libi_core::hosts::{HostList, HostRef};
use libi_core::ids::HostIndex;
use libi_launch::backend::{Channel, LaunchMethod, Local, SpawnSpec};
use libi_launch::delivery::Delivery;
use libi_launch::exit_trailer::{ExitTrailer, TrailerTag};
use libi_launch::machine::{
    Event, HostSpec, LinkId, Node, Program, StartId, StartRequest, Stream as StdStream,
};
use libi_launch::options::{APART_ENV, StandardInput};
use libi_launch::process::{Child, Environment, Start, StartError};

pub(super) use self::environment::variable;
pub(crate) use self::environment::{inherited, inherited_by_members};
use self::environment::{replaced_variables, with_names};
pub(super) use self::spawn::{Inherited, spawn};
use super::SessionIo;
use crate::engine::Turn;
use crate::engine::agent_delivery::AgentDelivery;
use crate::engine::fd_budget::{FDS_PER_START, with_limit};
use crate::engine::launched::Launched;
use crate::engine::link_io::LinkIo;
use crate::engine::stream::Stream;
use crate::engine::sys::is_main_thread;
use crate::thread::is_own;

/// Values of [`APART_ENV`] for a process whose link is in its standard streams or at a rendezvous,
/// without and with standard input of the session. A process whose link is a socket gets the
/// [identities](crate::engine::stream_ids::StreamIds) of the streams that lead to its launcher.
const APART: &str = "all";
const APART_WITH_INPUT: &str = "all+input";

/// A started process, and the engine's ends of its streams.
pub(super) struct Started<T = Child> {
    pub(super) child: T,
    pub(super) input: Option<Stream>,
    pub(super) output: Option<Stream>,
    pub(super) print_pipes: Vec<(StdStream, Stream)>,
    /// Written to the channel before everything else.
    pub(super) first: Vec<u8>,
    pub(super) trailer: Option<TrailerTag>,
}

impl From<Started> for Started<Launched> {
    fn from(process: Started) -> Self {
        let Started { child, input, output, print_pipes, first, trailer } = process;
        Self { child: child.into(), input, output, print_pipes, first, trailer }
    }
}

/// A failed start.
pub(super) struct StartFailure {
    /// The message for users.
    pub(super) why: String,
    /// Whether a resource was exhausted, which may be available elsewhere or later.
    pub(super) out_of_resources: bool,
}

impl StartFailure {
    /// A failure of `what` with the error number of the system.
    pub(super) fn by_system(what: impl Display, errno: Option<i32>) -> Self {
        let rooms = [libc::EMFILE, libc::ENFILE, libc::EAGAIN, libc::ENOMEM, libc::ENOSPC];
        let why = if errno == Some(libc::EMFILE) { with_limit(what) } else { what.to_string() };
        Self { why, out_of_resources: errno.is_some_and(|errno| rooms.contains(&errno)) }
    }

    /// The event that reports it to the node.
    pub(super) fn event(self, start: StartId) -> Event {
        if self.out_of_resources {
            Event::OutOfResources(start, self.why)
        } else {
            Event::NotStarted(start, self.why)
        }
    }
}

impl From<StartError> for StartFailure {
    fn from(error: StartError) -> Self {
        let errno = if let StartError::Refused { errno, .. } = &error { Some(errno.0) } else { None };
        Self::by_system(error, errno)
    }
}

impl SessionIo {
    /// Carries out a start of the node, or reports why that failed.
    pub(super) fn start(&mut self, start: StartId, request: &StartRequest, turn: &mut Turn<'_>) {
        let started = match request {
            StartRequest::Host(link, ..)
            | StartRequest::Member(link, ..)
            | StartRequest::Process(link, _) => self.start_one(*link, request, turn),
            StartRequest::Hosts(..) => self.start_hosts(start, request, turn),
        };
        turn.refresh();
        match started {
            Ok(()) => {
                self.tell(Event::Started(start), turn);
                if let Some((link, why)) = self.declined.take() {
                    self.tell(Event::Declined(link, why), turn);
                }
            }
            Err(failure) => {
                for link in request.links() {
                    if let Some(mut link_io) = self.links.remove(&link) {
                        link_io.close_all(turn.registry, turn.targets);
                    }
                }
                self.tell(failure.event(start), turn);
            }
        }
    }

    /// Whether the current thread lives as long as this process, or as what it starts. While a session grows,
    /// processes may be started by a thread of the program that waits in a call.
    pub(super) fn thread_lasts(&self) -> bool {
        self.lasting_thread && (is_own() || is_main_thread())
    }

    /// Starts a process whose channel is the link.
    fn start_one(
        &mut self,
        link: LinkId,
        request: &StartRequest,
        turn: &mut Turn<'_>,
    ) -> Result<(), StartFailure> {
        if let StartRequest::Member(..) = request
            && let Some(own) = self.own_program.take()
        {
            let own = own.into_started();
            self.noted.started(request, own.child.pid());
            return self.watch_started(link, own.into(), turn);
        }
        // A program that cannot be started is not waited for: the end to read is closed then.
        let stdin = match request {
            StartRequest::Member(_, rank, _) => self.open_input(*rank, turn),
            _ => None,
        };
        self.reserve_fds(request)?;
        let adapted = self.adapted_start(request);
        let request = adapted.as_ref().unwrap_or(request);
        let spec = spawn_spec(&self.node, request, &self.environment, &self.here)?;
        if let Some(client) = spec.client.clone() {
            let started = self.start_by_client(link, spec, &client)?;
            return self.watch_started(link, started, turn);
        }
        let inherited = Inherited { stdin: stdin.as_ref(), ..self.inherited_by_launched() };
        let started = spawn(spec, &inherited, self.links.len())?;
        self.noted.started(request, started.child.pid());
        // Without a link, nothing but its end keeps what is known of the process.
        let is_unlinked = started.input.is_none() && started.output.is_none();
        if let Some(link_io) = self.links.get_mut(&link).filter(|_| is_unlinked) {
            link_io.closed = true;
        }
        self.watch_started(link, started.into(), turn)
    }

    fn watch_started(
        &mut self,
        link: LinkId,
        started: Started<Launched>,
        turn: &mut Turn<'_>,
    ) -> Result<(), StartFailure> {
        self.register_started(link, started, turn).map_err(|error| {
            StartFailure::by_system(format_args!("cannot be watched: {error}"), error.raw_os_error())
        })
    }

    /// Checks that descriptors are left for the direct connections of these hosts and of those that
    /// were started before.
    pub(super) fn reserve_fds(&mut self, request: &StartRequest) -> Result<(), StartFailure> {
        let is_host = !matches!(request, StartRequest::Member(..) | StartRequest::Process(..));
        let programs = if is_host { self.fds_for_programs() } else { 0 };
        for link in request.links() {
            if let Some(link_io) = self.links.get_mut(&link) {
                link_io.awaits_direct = is_host;
            }
        }
        let awaits_direct = |link_io: &&LinkIo| link_io.awaits_direct && !link_io.closed;
        let links = self.links.values().filter(|_| self.listener.is_some());
        let reserved = links.filter(awaits_direct).count() as u64;
        let prepared = self.fd_budget.prepare(reserved + programs);
        prepared.map_err(|why| StartFailure { why, out_of_resources: true })
    }

    /// How many descriptors the programs take that the node starts when the session goes up.
    fn fds_for_programs(&self) -> u64 {
        match u64::from(self.node.awaited_programs()) {
            0 => 0,
            // One is being started.
            awaited => (awaited + 1) * FDS_PER_START,
        }
    }

    /// Sends the agent to a host that lacks it. Without it the host fails when its time is over.
    pub(super) fn deliver_agent(&mut self, link: LinkId, has_gzip: bool) {
        let Some((delivery, file)) = self.delivered_agent() else { return };
        if let Some(to) = self.links.get_mut(&link).and_then(|link_io| link_io.delivery.as_mut()) {
            to.send(&delivery, &file, has_gzip);
        }
    }

    /// The agent that is sent to hosts that lack it, if it is; it is read once.
    pub(super) fn delivered_agent(&mut self) -> Option<(Delivery, Arc<[u8]>)> {
        let delivery = delivery(&self.node)?.clone();
        if self.agent_file.is_none() {
            self.agent_file = delivery.file(Path::new("/proc/self/exe")).ok();
        }
        Some(delivery).zip(self.agent_file.clone())
    }

    /// Whether these programs could be started here; otherwise, why not.
    pub(super) fn look_up(&mut self, programs: &[Program]) -> Result<(), String> {
        for program in programs {
            let spec = Local::start(&self.adapted(program));
            let mut start = Start::new(spec.program, self.environment.clone().with(spec.env));
            start.cwd = spec.cwd;
            start.look_up().map_err(|error| error.to_string())?;
        }
        self.fd_budget.prepare(self.fds_for_programs())
    }

    fn register_started(
        &mut self,
        link: LinkId,
        started: Started<Launched>,
        turn: &mut Turn<'_>,
    ) -> io::Result<()> {
        let link_io = self.links.entry(link).or_default();
        let at = (turn.id, link);
        let is_remote = started.output.is_some() && link_io.awaits_direct;
        link_io.delivery = delivery(&self.node).filter(|_| is_remote).map(|_| AgentDelivery::default());
        link_io.put_first(&started.first);
        link_io.trailer = started.trailer.map(ExitTrailer::new);
        link_io.set_process(started.child, turn.registry, turn.targets, at)?;
        if let Some(input) = started.input {
            link_io.set_input(input, turn.registry, turn.targets, at)?;
        }
        if let Some(output) = started.output {
            link_io.set_output(output, turn.registry, turn.targets, at)?;
        }
        for (stream, pipe) in started.print_pipes {
            link_io.set_printed(pipe, stream, turn.registry, turn.targets, at)?;
        }
        self.unsent.insert(link);
        Ok(())
    }
}

/// How agents get to hosts that this node launches, if not by themselves.
pub(super) fn delivery(node: &Node) -> Option<&Delivery> {
    let agent = node.options().agent.as_ref().filter(|_| !node.backend().is_local());
    agent.and_then(|agent| agent.delivery.as_ref())
}

/// Describes the process of a start.
pub(super) fn spawn_spec(
    node: &Node,
    request: &StartRequest,
    environment: &Environment,
    here: &HostList,
) -> Result<SpawnSpec, StartFailure> {
    let apart = |takes_input: bool| {
        let value = if takes_input { APART_WITH_INPUT } else { APART };
        variable(APART_ENV.as_bytes(), value.as_bytes()).filter(|_| node.options().leads_apart())
    };
    let takes_input = matches!(request, StartRequest::Host(_, task, _) if task.host == HostIndex(0))
        && node.options().input == StandardInput::Master;
    let of_leader = |program: &Program| {
        let env = with_names(&program.env, node).into_iter().chain(apart(takes_input));
        Program { env: env.collect(), ..program.clone() }
    };
    let delivered = |program: &Program| match delivery(node) {
        Some(delivery) => delivery.script_for(&of_leader(program)),
        None => of_leader(program),
    };
    let spec = match request {
        StartRequest::Host(_, task, program) if is_listed(here, task) => {
            Ok(Local::start(&of_leader(program)))
        }
        StartRequest::Host(_, task, program) => node.backend().spawn_spec(task, &delivered(program)),
        StartRequest::Member(_, _, program) => Ok(Local::start(program)),
        StartRequest::Process(_, program) => Ok(Local::start_unlinked(program)),
        StartRequest::Hosts(hosts, program, ticket) => {
            let hosts: Vec<_> = hosts.iter().map(|(_, spec)| spec).collect();
            let bulk = node.backend().bulk().ok_or_else(|| StartFailure::by_system("no starter", None))?;
            bulk.bulk_spec(&hosts, &of_leader(program), &ticket.name())
        }
    };
    let mut spec = spec.map_err(|failure| StartFailure::by_system(failure, None))?;
    if spec.channel == Channel::Socket {
        let before = replaced_variables(&spec.env, environment);
        spec.env.extend(before);
    }
    Ok(spec)
}

/// Whether this host is in the list.
pub(super) fn is_listed(hosts: &HostList, task: &HostSpec) -> bool {
    let HostSpec { name, user, port, .. } = task;
    hosts.lists(HostRef { user: user.as_deref(), port: *port, ..HostRef::new(name) })
}
