//! The process of a keeper.
//!
//! It has one thread and one loop: the reactor of a front end, whose engine also watches the connections of
//! front ends. See the [module above](super) for its states.

mod attached;
mod kept;
mod peers;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant as Clock};

use libi_launch::machine::{Ending, Event as Input};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use zeroize::Zeroizing;

use self::attached::Attached;
use self::kept::Kept;
use self::peers::{Opens, Peers};
use super::link;
use super::message::{FromKeeper, Launch, READY, REFUSED, Setup, ToKeeper, VERSION};
use super::start::host_name;
use super::ticket::{OwnTicket, Ticket};
use crate::engine::direct_stream::DirectStream;
use crate::engine::message_link::{MessageLink, MessageListener, Ready};
use crate::engine::sys::{duplicate, replace};
use crate::engine::{Engine, NodeId};
use crate::executor::{Progress, Reactor as _, ReadyFd, Shared};
use crate::front::Event;
use crate::front::launching::fresh_secret;
use crate::front::reactor::FrontReactor;
use crate::front::runtime::{FrontCommand, FrontShared, FrontState};
use crate::front::session::{SessionNumber, Stage};

/// How long a keeper waits for what it is told, and for its first front end.
pub(super) const EMPTY_FOR: Duration = Duration::from_secs(20);
/// How long members may take to end when the session is ended from here, before they are killed; and how
/// long the whole may take.
const GRACE: Duration = Duration::from_secs(2);
const END_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a front end may take to hear the last.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The one session.
const NUMBER: SessionNumber = 1;
/// The number of the descriptor for signals. Connections have other numbers.
const SIGNALS: u32 = 0;

/// Serves as a keeper, and returns when that is over. The process has one thread.
pub(crate) fn serve() -> Result<(), String> {
    let own = |why: io::Error| why.to_string();
    // The front end that has started it does not wait for longer either.
    nix::unistd::alarm::set(EMPTY_FOR.as_secs() as u32);
    let mut setup = Vec::new();
    io::stdin().lock().read_to_end(&mut setup).map_err(own)?;
    // Not before that: a server of ssh passes nothing on once the process that it has started has ended.
    libi_launch::process::leave().map_err(own)?;
    nix::unistd::alarm::set(EMPTY_FOR.as_secs() as u32);
    let mut answer = take_output().map_err(own)?;
    let made = Keeper::new(&setup);
    nix::unistd::alarm::cancel();
    let text = match &made {
        Ok((_, ticket)) => Zeroizing::new([READY, ticket].concat()),
        Err(why) => Zeroizing::new([REFUSED, why].concat()),
    };
    let _ = answer.write_all(text.as_bytes());
    drop((answer, text));
    made.map(|(keeper, _)| keeper.run())
}

/// Takes the standard output, where the answer goes, and has all standard streams lead nowhere.
fn take_output() -> io::Result<File> {
    let output = duplicate(1)?.into();
    let null = File::options().read(true).write(true).open("/dev/null")?;
    for number in 0..3 {
        replace(null.as_fd(), number)?;
    }
    Ok(output)
}

struct Keeper {
    reactor: FrontReactor,
    shared: FrontShared,
    commands: VecDeque<FrontCommand>,
    id: NodeId,
    listener: MessageListener,
    signals: SignalFd,
    /// `None` when no front end can have the session any more, or if it is not here.
    ticket: Option<OwnTicket>,
    limit: Duration,
    peers: Peers,
    session: Option<Kept>,
    front: Option<Attached>,
    /// When there was a front end last.
    alone_since: Clock,
    /// Something has changed that may lead to more at once.
    is_busy: bool,
    /// The session is ended from here, and this is when that is over in any case.
    ends_by: Option<Clock>,
}

impl Keeper {
    /// A keeper, and the text of its ticket file if that is not written here.
    fn new(setup: &[u8]) -> Result<(Self, Zeroizing<String>), String> {
        let own = |why: io::Error| why.to_string();
        let setup: Setup = postcard::from_bytes(setup).map_err(|_| "it was asked for in another way")?;
        if setup.version != VERSION {
            return Err(format!("the program that is to keep the session is of {VERSION}"));
        }
        let signals = signals().map_err(own)?;
        let mut engine = Engine::new().map_err(own)?;
        let id = engine.outside_id();
        let path = setup.ticket.map(|path| PathBuf::from(OsString::from_vec(path)));
        let mut ticket = Ticket {
            pid: std::process::id(),
            host: host_name(),
            addresses: Vec::new(),
            secret: fresh_secret().map_err(|why| why.to_string())?,
            is_locked: path.is_some(),
        };
        let (listener, addresses) = engine.listen(id, !setup.reachable, ticket.key()).map_err(own)?;
        ticket.addresses = addresses;
        engine.watch(id, signals.as_raw_fd(), SIGNALS).map_err(own)?;
        let state = FrontState::new(ReadyFd::new().map_err(own)?);
        let shared = Arc::new(Shared::new(state, Progress::Manual).map_err(own)?);
        let reactor = FrontReactor::new(engine, Arc::clone(&shared));
        let text = if path.is_some() { Zeroizing::default() } else { ticket.text() };
        let write = |path: PathBuf| {
            let unwritable = |why| format!("cannot write the ticket file {}: {why}", path.display());
            ticket.write(&path).map_err(unwritable)
        };
        let ticket = path.map(write).transpose()?;
        let keeper = Self {
            reactor,
            shared,
            commands: VecDeque::new(),
            id,
            listener,
            signals,
            ticket,
            limit: setup.limit,
            peers: Peers::new(id, SIGNALS),
            session: None,
            front: None,
            alone_since: Clock::now(),
            is_busy: false,
            ends_by: None,
        };
        Ok((keeper, text))
    }

    fn run(mut self) {
        while !self.is_over() {
            // What commands have led to is reported before anything is waited for.
            let is_busy = std::mem::take(&mut self.is_busy) || !self.commands.is_empty();
            let most = if is_busy { Duration::ZERO } else { self.next_wait() };
            self.reactor.execute(&mut self.commands);
            if self.reactor.turn(Some(most)).is_err() {
                break;
            }
            for ready in self.reactor.engine().take_ready() {
                self.on_ready(ready);
            }
            self.take_events();
            self.do_what_is_due();
            self.report();
        }
        // The front end has heard how the session has ended, unless that has taken too long.
        self.reactor.close();
        self.remove_ticket();
        if let Some(front) = self.front.take() {
            front.say_the_last(LAST_WORDS);
        }
    }

    /// How long nothing is due.
    fn next_wait(&mut self) -> Duration {
        let now = Clock::now();
        let engine_now = self.reactor.engine().now();
        let listener = self.listener.deadline().map(|at| at.since(engine_now));
        let own = [self.ends_by, self.front.is_none().then(|| self.alone_until()).flatten()];
        let own = own.into_iter().flatten().chain(self.peers.deadline());
        let own = own.map(|at| at.saturating_duration_since(now));
        own.chain(listener).min().unwrap_or(Duration::from_secs(60))
    }

    /// How long it may be without a front end.
    fn alone_until(&self) -> Option<Clock> {
        self.alone_since.checked_add(if self.session.is_some() { self.limit } else { EMPTY_FOR })
    }

    fn stage(&self) -> Option<Stage> {
        self.session.as_ref()?;
        Some(self.shared.lock().state.sessions.get(&NUMBER).map_or(Stage::Over, |status| status.stage))
    }

    fn is_over(&self) -> bool {
        let now = Clock::now();
        let is_over = self.stage() == Some(Stage::Over);
        let is_alone_too_long = self.front.is_none() && self.alone_until().is_some_and(|until| until <= now);
        match &self.session {
            None => is_alone_too_long || self.ends_by.is_some(),
            // The next front end is to hear how it has ended, if the last one has not.
            Some(kept) if is_over && self.front.is_none() => {
                kept.is_told() || self.ends_by.is_some() || is_alone_too_long
            }
            Some(_) => is_over && self.ends_by.is_some() || self.ends_by.is_some_and(|by| by <= now),
        }
    }

    fn on_ready(&mut self, ready: Ready) {
        if ready.id != self.id {
            return;
        }
        let Some(number) = ready.number() else {
            let proved = self.listener.on_ready(ready, self.reactor.engine());
            return proved.into_iter().for_each(|stream| self.add_peer(stream));
        };
        if number == SIGNALS {
            while matches!(self.signals.read_signal(), Ok(Some(_))) {
                self.is_told_to_end();
            }
        } else if self.peers.waits(number) {
            self.hear_peer(number);
        } else if let Some(front) = self.front.as_mut().filter(|front| front.number == number) {
            let messages = link::receive(&mut front.link);
            for message in messages {
                self.on_message(message);
            }
            if self.front.as_ref().is_some_and(|front| front.link.is_over()) {
                self.front_lost();
            }
        } else {
            self.peers.on_ready(number);
        }
    }

    fn add_peer(&mut self, stream: DirectStream) {
        if let Some(number) = self.peers.add(stream, self.reactor.engine()) {
            self.hear_peer(number);
        }
    }

    fn hear_peer(&mut self, number: u32) {
        let Some(Opens { launch, rest }) = self.peers.hear(number, self.reactor.engine()) else { return };
        self.open(number, launch);
        for message in rest {
            match (&self.front, postcard::from_bytes(&message)) {
                (Some(front), Ok(message)) if front.number == number => self.on_message(message),
                (Some(front), Err(_)) if front.number == number => return self.front_lost(),
                // It was refused, or has left.
                _ => return,
            }
        }
    }

    /// A front end takes the session over, or brings one.
    fn open(&mut self, number: u32, launch: Option<Box<Launch>>) {
        match (&self.session, launch) {
            (None, Some(launch)) => match self.launch(*launch) {
                Ok(kept) => self.session = Some(kept),
                Err(why) => return self.peers.refuse(number, &why),
            },
            (None, None) => return self.peers.refuse(number, "the session has not been launched"),
            (Some(_), Some(_)) => return self.peers.refuse(number, "a session is kept here already"),
            (Some(_), None) if self.ends_by.is_some() => {
                return self.peers.refuse(number, "the session is being ended");
            }
            (Some(_), None) => {}
        }
        let Some(link) = self.peers.take(number) else { return };
        if let Some(front) = &mut self.front {
            link::send(&mut front.link, &FromKeeper::TakenOver);
        }
        self.front_lost();
        let Some(kept) = &mut self.session else { return };
        self.front = Some(Attached::new(link, number, kept, &self.shared));
    }

    fn launch(&mut self, launch: Launch) -> Result<Kept, String> {
        let (kept, session_io, status) = Kept::new(launch)?;
        self.shared.lock().state.sessions.insert(NUMBER, status);
        self.commands.push_back(FrontCommand::Add(NUMBER, Box::new(session_io)));
        Ok(kept)
    }

    fn on_message(&mut self, message: ToKeeper) {
        let (Some(front), Some(kept)) = (&mut self.front, &mut self.session) else { return };
        if front.on_message(message, kept, &self.shared, &mut self.commands)
            && let Some((link, _)) = self.front_left()
        {
            // It waits for that.
            self.reactor.engine().close_link(link);
        }
    }

    /// There is no front end any more. Returns its connection, and the number of that.
    fn front_left(&mut self) -> Option<(MessageLink, u32)> {
        let (front, kept) = (self.front.take()?, self.session.as_mut()?);
        (self.alone_since, self.is_busy) = (Clock::now(), true);
        // A front end whose launch has failed knows that.
        kept.is_ended |= self
            .shared
            .lock()
            .state
            .sessions
            .get(&NUMBER)
            .and_then(|status| status.report.as_ref())
            .is_some_and(|report| !report.is_up());
        let left = front.leave(kept, &self.shared, &mut self.reactor, &mut self.commands);
        if kept.is_told() && self.stage() >= Some(Stage::Done) {
            self.remove_ticket();
        }
        Some(left)
    }

    fn remove_ticket(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            ticket.remove();
        }
    }

    /// The connection of the front end is of no use any more.
    fn front_lost(&mut self) {
        if let Some((link, number)) = self.front_left() {
            self.peers.part_with(link, number);
        }
    }

    /// A signal asks this process to end.
    fn is_told_to_end(&mut self) {
        if let (Some(kept), None) = (&mut self.session, self.ends_by) {
            let session = kept.launched.session();
            let reason = "its keeper was told to end, by SIGTERM".to_owned();
            kept.events.push_back(Event::Revoked { session, reason });
        }
        self.end_session();
    }

    /// Ends the session from here.
    fn end_session(&mut self) {
        if self.ends_by.is_none() {
            self.ends_by = Some(Clock::now() + END_TIMEOUT);
            self.wind_up();
        }
    }

    /// Ends what is left of the session on its hosts.
    fn wind_up(&mut self) {
        if let Some(status) = self.shared.lock().state.sessions.get_mut(&NUMBER) {
            status.ends_unasked = true;
        }
        if let Some(kept) = self.session.as_mut().filter(|kept| !kept.is_wound_up) {
            kept.is_wound_up = true;
            let ending = Ending { signal: libc::SIGTERM, grace: GRACE };
            self.commands.push_back(FrontCommand::Tell(NUMBER, Input::End(ending)));
        }
    }

    fn do_what_is_due(&mut self) {
        let now = Clock::now();
        let proved = self.listener.expire(self.reactor.engine());
        proved.into_iter().for_each(|stream| self.add_peer(stream));
        self.peers.expire(self.reactor.engine());
        let stage = self.stage();
        if self.front.is_none() && stage.is_some_and(|stage| stage < Stage::Over) {
            if self.alone_until().is_some_and(|until| until <= now) {
                self.end_session();
            } else if self.session.as_ref().is_some_and(|kept| kept.is_complete || kept.is_told()) {
                // All members have ended, and what has led them is needed no more.
                self.wind_up();
            }
        }
    }

    /// Takes what the session reports.
    fn take_events(&mut self) {
        if let Some(kept) = &mut self.session {
            kept.take_events(self.front.is_some(), &self.shared, &mut self.commands);
        }
    }

    /// Tells the front end what has happened.
    fn report(&mut self) {
        let Some(kept) = &mut self.session else { return };
        if let Some(front) = &mut self.front {
            front.report(kept, &self.shared);
            if front.link.is_over() {
                self.front_lost();
            }
        }
    }
}

/// Signals that end the session are read; others that a terminal sends are ignored.
fn signals() -> io::Result<SignalFd> {
    let mut ends = SigSet::empty();
    ends.add(Signal::SIGTERM);
    let mut all = ends;
    [Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGPIPE, Signal::SIGTSTP]
        .into_iter()
        .for_each(|signal| all.add(signal));
    // The programs that are started block none.
    all.thread_block()?;
    Ok(SignalFd::with_flags(&ends, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}
