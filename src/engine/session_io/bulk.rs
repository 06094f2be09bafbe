//! Bulk starts of a node: their starters, and the links that arrive at the rendezvous.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use libi_core::time::Instant;
use libi_launch::backend::{BulkMethod, LaunchMethod, SpawnSpec, StarterLine};
use libi_launch::failure::Exit;
use libi_launch::machine::{
    ArrivalId, Claim, Event, Found, HeadReader, LinkId, StartId, StartRequest, Stream as StdStream,
    redirection, refusal,
};
use libi_launch::process::{Signal, SignalRepeater};
use mio::{Registry, Token};
use zeroize::Zeroizing;

use super::reading::exit_of;
use super::starting::{Inherited, StartFailure, Started, spawn, spawn_spec};
use super::{READ_LIMIT, SessionIo};
use crate::engine::Turn;
use crate::engine::direct_listener::{Admission, TIMEOUT};
use crate::engine::direct_stream::DirectStream;
use crate::engine::fd_budget::original_limit;
use crate::engine::starter_io::{AfterEnd, StarterIo};
use crate::engine::targets::{FdRole, StarterFd, Targets};

/// How long a cleanup may take. It asks the manager of the cluster, which may be busy.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);
/// How much is kept of what a connection sends before it is answered.
const MOST_BEFORE_ANSWER: usize = 4 << 10;

/// A connection that has proved to belong to a start, or comes from a host that wants files or a parent.
pub(super) struct ArrivingPeer {
    /// The start, if it belongs to one.
    start: Option<StartId>,
    stream: DirectStream,
    token: Token,
    reader: HeadReader,
    /// What has arrived behind the claim.
    rest: Vec<u8>,
    /// When it is closed if it has made no claim; in the far future once it has.
    pub(super) until: Instant,
}

impl ArrivingPeer {
    pub(super) fn close(self, registry: &Registry, targets: &mut Targets) {
        targets.remove(registry, self.stream.stream.number(), self.token);
    }
}

impl SessionIo {
    /// Starts many hosts by one process.
    pub(super) fn start_hosts(
        &mut self,
        start: StartId,
        request: &StartRequest,
        turn: &mut Turn<'_>,
    ) -> Result<(), StartFailure> {
        let StartRequest::Hosts(hosts, program, ticket) = request else { return Ok(()) };
        self.reserve_fds(request)?;
        let spec = spawn_spec(&self.node, request, &self.environment, &self.here)?;
        let bulk = self.node.backend().bulk();
        let cleanup = bulk.and_then(|bulk| bulk.cleanup_spec(program, &ticket.name()));
        let ticket = ticket.encode().map_err(|failure| StartFailure::by_system(failure, None))?;
        let signal = bulk.map_or(Signal::KILL, BulkMethod::death_signal);
        let has_cleanup = bulk.is_some_and(BulkMethod::has_cleanup_process);
        let death_signal = self.thread_lasts().then_some(signal);
        let inherited = Inherited { death_signal, guarded: !has_cleanup, ..self.inherited_by_starters() };
        let started = spawn(spec, &inherited, self.links.len())?;
        let hosts = hosts.iter().map(|(_, spec)| spec.name.clone()).collect();
        let next = cleanup.map_or(AfterEnd::Tell, AfterEnd::CleanUp);
        // One that is not killed has something to do first, and may miss a signal.
        let repeater = (signal != Signal::KILL).then(|| SignalRepeater::start(&started.child, signal));
        let repeater = repeater.transpose().unwrap_or_else(|error| {
            log::warn!("if this process is killed, {signal} is not repeated until a starter ends: {error}");
            None
        });
        self.watch_starter((start, hosts, has_cleanup, next), (started, repeater), ticket, turn)
    }

    fn inherited_by_starters(&self) -> Inherited<'_> {
        Inherited {
            environment: &self.environment,
            stdin: None,
            death_signal: None,
            guarded: false,
            open_files: original_limit(),
        }
    }

    fn watch_starter(
        &mut self,
        about: (StartId, Vec<String>, bool, AfterEnd),
        (started, repeater): (Started, Option<SignalRepeater>),
        ticket: Zeroizing<Vec<u8>>,
        turn: &mut Turn<'_>,
    ) -> Result<(), StartFailure> {
        let start = about.0;
        let place = (turn.registry, &mut *turn.targets, turn.id);
        let streams = (started.output, started.print_pipes);
        let mut starter =
            StarterIo::new(about, (started.child, repeater), streams, ticket, place).map_err(|error| {
                StartFailure::by_system(format_args!("cannot be watched: {error}"), error.raw_os_error())
            })?;
        starter.write_ticket(turn.registry, turn.targets);
        self.starters.insert(start, starter);
        Ok(())
    }

    /// Starts the process that ends what a starter may have left.
    fn clean_up(
        &mut self,
        (start, hosts, exit): (StartId, Vec<String>, Exit),
        spec: SpawnSpec,
        turn: &mut Turn<'_>,
    ) -> Result<(), StartFailure> {
        turn.refresh();
        let started = spawn(spec, &self.inherited_by_starters(), self.links.len())?;
        let next = AfterEnd::TellOf(exit, turn.now + CLEANUP_TIMEOUT);
        self.watch_starter((start, hosts, false, next), (started, None), Zeroizing::default(), turn)
    }

    /// Kills cleanups that have taken too long.
    pub(super) fn expire_cleanups(&mut self, now: Instant) {
        for starter in self.starters.values_mut().filter(|starter| starter.deadline() <= now) {
            starter.expire();
        }
    }

    /// Handles a ready descriptor of a starter. True if there may be more than fits into a turn.
    pub(super) fn on_starter_ready(
        &mut self,
        start: StartId,
        part: StarterFd,
        token: Token,
        turn: &mut Turn<'_>,
    ) -> bool {
        match part {
            StarterFd::Process => {
                self.on_starter_exit(start, turn);
                false
            }
            StarterFd::Input => {
                if let Some(starter) = self.starters.get_mut(&start) {
                    starter.write_ticket(turn.registry, turn.targets);
                }
                false
            }
            StarterFd::Pipe(_) if !self.node.reads_output() => {
                self.paused_pipes.push(token);
                false
            }
            StarterFd::Pipe(place) => self.read_starter(start, place, false, turn),
        }
    }

    /// Reads what a starter prints. True if there may be more.
    fn read_starter(&mut self, start: StartId, place: usize, to_the_end: bool, turn: &mut Turn<'_>) -> bool {
        let limit = if to_the_end { 2 * READ_LIMIT } else { READ_LIMIT };
        let mut total = 0;
        while total < limit {
            let Some(starter) = self.starters.get_mut(&start) else { return false };
            let buffer = &mut self.buffer[..16 << 10];
            total += buffer.len();
            let (stream, lines, more) =
                starter.read_lines(place, to_the_end, buffer, turn.registry, turn.targets);
            for line in lines {
                self.tell_line(start, stream, line, turn);
            }
            if !more {
                return false;
            }
            if !to_the_end && !self.node.reads_output() {
                self.paused_pipes.extend(self.starters.get(&start).and_then(|it| it.pipe_token(place)));
                return false;
            }
        }
        true
    }

    /// Passes on a line that a starter has printed, as what its back-end takes it for.
    fn tell_line(&mut self, start: StartId, stream: StdStream, line: Vec<u8>, turn: &mut Turn<'_>) {
        let (Some(bulk), Some(starter)) = (self.node.backend().bulk(), self.starters.get(&start)) else {
            return;
        };
        match bulk.read_line(starter.hosts(), &line) {
            StarterLine::Ended(hosts, exit) => {
                let names: Vec<_> = hosts.iter().map(|host| host.name.to_string()).collect();
                for name in names {
                    self.tell(Event::HostEnded(start, name, exit), turn);
                }
            }
            StarterLine::Failed(hosts) => {
                let names: Vec<_> = hosts.iter().map(|host| host.name.to_string()).collect();
                for name in names {
                    self.tell(Event::HostFailed(start, name, line.clone()), turn);
                }
            }
            StarterLine::Waits => self.tell(Event::StarterWaits(start, line), turn),
            StarterLine::Proceeds => self.tell(Event::StarterProceeds(start), turn),
            StarterLine::WillEndAll => self.tell(Event::StarterWillEndAll(start, line), turn),
            StarterLine::EndsAll => self.tell(Event::StarterEndsAll(start, line), turn),
            StarterLine::Refused(why) => {
                let why = why.to_vec();
                self.tell(Event::StarterRefused(start, why), turn);
            }
            StarterLine::Nothing => {}
            StarterLine::Printed(host, text) => {
                let (host, text) = (host.to_owned(), text.to_vec());
                self.tell(Event::HostPrinted(start, host, stream, text), turn);
            }
            StarterLine::Other => self.tell(Event::StarterPrinted(start, line), turn),
        }
    }

    fn on_starter_exit(&mut self, start: StartId, turn: &mut Turn<'_>) {
        if self.starters.get_mut(&start).and_then(StarterIo::ended).is_none() {
            return;
        }
        for place in 0..2 {
            self.read_starter(start, place, true, turn);
        }
        let Some(mut starter) = self.starters.remove(&start) else { return };
        // Processes that it has left behind in its group must not outlive it, but for one that ends
        // what it has started.
        starter.signal(Signal::KILL);
        let ended = exit_of(starter.ended().and_then(libi_launch::process::Child::try_wait));
        starter.close(turn.registry, turn.targets);
        let (hosts, next) = starter.into_end();
        let exit = match next {
            AfterEnd::TellOf(exit, _) => exit,
            AfterEnd::CleanUp(spec) if matches!(ended, Exit::Signal(_)) => {
                self.tell(Event::StarterKilled(start), turn);
                let program = spec.program.to_string();
                let Err(failure) = self.clean_up((start, hosts, ended), spec, turn) else { return };
                let line = format!("libi: {program} cannot be started: {}\n", failure.why);
                self.tell(Event::StarterPrinted(start, line.into_bytes()), turn);
                ended
            }
            AfterEnd::CleanUp(_) | AfterEnd::Tell => ended,
        };
        self.tell(Event::StarterExited(start, exit), turn);
    }

    /// Asks a starter to end, or kills it.
    pub(super) fn end_starter(&mut self, start: StartId, signal: i32, events: &mut VecDeque<Event>) {
        if let Some(place) = self.pending_starts.iter().position(|(waiting, _)| *waiting == start) {
            self.pending_starts.remove(place);
            events.push_back(Event::StartCancelled(start, signal));
        } else if let (Some(starter), Some(signal)) = (self.starters.get_mut(&start), Signal::new(signal)) {
            starter.signal(signal);
        }
    }

    /// A connection has proved that it belongs to a start, whose claim is awaited, or wants files or a
    /// parent.
    pub(super) fn add_arriving(&mut self, admission: Admission, stream: DirectStream, turn: &mut Turn<'_>) {
        let start = if let Admission::Start(start) = admission { Some(start) } else { None };
        self.last_arrival += 1;
        let number = self.last_arrival;
        let at = (turn.id, LinkId::PARENT, FdRole::Arriving(number));
        let fd = stream.stream.number();
        let Ok(token) = turn.targets.add(turn.registry, fd, mio::Interest::READABLE, at) else { return };
        let until = if start.is_some() { turn.now + TIMEOUT } else { Instant::FAR_FUTURE };
        let (reader, rest) = (HeadReader::of_claim(), Vec::new());
        self.arriving.insert(number, ArrivingPeer { start, stream, token, reader, rest, until });
        match admission {
            Admission::Orphans => self.tell(Event::OrphanArrived(ArrivalId(number)), turn),
            Admission::Files => self.tell(Event::FilesWanted(ArrivalId(number)), turn),
            Admission::Start(_) | Admission::Link(_) | Admission::FrontEnds => {
                self.read_claim(number, turn);
            }
        }
    }

    /// Reads the claim of a connection, and asks the node what becomes of it.
    pub(super) fn read_claim(&mut self, number: u64, turn: &mut Turn<'_>) {
        let Some(peer) = self.arriving.get_mut(&number) else { return };
        let has_claimed = peer.until == Instant::FAR_FUTURE;
        loop {
            let mut bytes = Vec::new();
            let more = peer.stream.read(&mut self.buffer[..4 << 10], None, &mut bytes, false);
            let mut rest = &bytes[..];
            if has_claimed {
                // The node has not answered yet. What follows the claim is kept for the link; a member
                // sends nothing before the answer.
                peer.rest.extend_from_slice(rest);
                match more {
                    Ok(more) if peer.rest.len() <= MOST_BEFORE_ANSWER => {
                        if more {
                            continue;
                        }
                        return;
                    }
                    Ok(_) | Err(_) => {
                        self.turn_away(ArrivalId(number), turn);
                        return self.tell(Event::Left(ArrivalId(number)), turn);
                    }
                }
            }
            match peer.reader.next::<Claim>(&mut rest) {
                Found::Message(claim) => {
                    peer.rest = rest.to_vec();
                    peer.until = Instant::FAR_FUTURE;
                    let Some(start) = peer.start else { return };
                    return self.tell(Event::Arrived(start, ArrivalId(number), claim), turn);
                }
                Found::Incomplete if matches!(more, Ok(true)) => {}
                Found::Incomplete if more.is_ok() => return,
                Found::Incomplete | Found::Violation => return self.refuse(ArrivalId(number), turn),
            }
        }
    }

    /// The connection becomes a link: what is queued for the link is sent there.
    pub(super) fn admit(
        &mut self,
        ArrivalId(number): ArrivalId,
        link: LinkId,
        events: &mut VecDeque<Event>,
        turn: &mut Turn<'_>,
    ) {
        let Some(mut peer) = self.arriving.remove(&number) else {
            return events.push_back(Event::Closed(link));
        };
        peer.stream.put_back(peer.rest);
        turn.targets.remove(turn.registry, peer.stream.stream.number(), peer.token);
        if !self.attach_direct(link, peer.stream, turn) {
            return events.push_back(Event::Closed(link));
        }
        if let Some(link_io) = self.links.get_mut(&link) {
            link_io.use_direct_only();
            self.unsent.insert(link);
        }
    }

    /// Closes a connection that is not awaited.
    pub(super) fn refuse(&mut self, arrival: ArrivalId, turn: &mut Turn<'_>) {
        self.close_arriving(arrival, &refusal(), turn);
    }

    /// Sends a connection to another rendezvous of its start, once what is queued has been sent: the
    /// other node has to know of it before.
    pub(super) fn redirect(&mut self, arrival: ArrivalId, to: &[SocketAddr]) {
        // A machine with so many addresses is tried again, and refused then.
        self.redirections.push((arrival, redirection(to).unwrap_or_default()));
    }

    /// Sends connections to where they are redirected.
    pub(super) fn send_redirections(&mut self, turn: &mut Turn<'_>) {
        for (arrival, answer) in std::mem::take(&mut self.redirections) {
            self.close_arriving(arrival, &answer, turn);
        }
    }

    /// Closes a connection that may be tried again.
    pub(super) fn turn_away(&mut self, arrival: ArrivalId, turn: &mut Turn<'_>) {
        self.close_arriving(arrival, &[], turn);
    }

    fn close_arriving(&mut self, ArrivalId(number): ArrivalId, answer: &[u8], turn: &mut Turn<'_>) {
        if let Some(mut peer) = self.arriving.remove(&number) {
            // The socket has room: nothing was sent before.
            if !answer.is_empty() {
                peer.stream.send_queue.queue(answer);
                let _ = peer.stream.flush();
            }
            peer.close(turn.registry, turn.targets);
        }
    }

    /// A link comes into being whose connection will arrive.
    pub(super) fn await_arrival(&mut self, link: LinkId) {
        let link_io = self.links.entry(link).or_default();
        link_io.awaits_direct = true;
        let reserved = self.links.values().filter(|link_io| link_io.awaits_arrival()).count();
        // Without descriptors the connection is accepted once there are some, or not in time.
        let _ = self.fd_budget.prepare(reserved as u64);
    }

    /// Accepts processes of the start that has brought up this one.
    pub(super) fn accept_start(&mut self, start: StartId) {
        let own = self.own_start.take_if(|(own, _)| *own == start);
        if let (Some((_, key)), Some(listener)) = (own, &mut self.listener) {
            listener.add_key(Admission::Start(start), key);
        }
    }

    /// Closes connections that have made no claim in time.
    pub(super) fn expire_arriving(&mut self, turn: &mut Turn<'_>) {
        let late = self.arriving.iter().filter(|(_, peer)| peer.until <= turn.now);
        let late: Vec<_> = late.map(|(&number, _)| ArrivalId(number)).collect();
        late.into_iter().for_each(|arrival| self.refuse(arrival, turn));
    }
}
