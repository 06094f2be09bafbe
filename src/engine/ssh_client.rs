//! The client of ssh of a launching process: one process (`libi-ssh`) that holds the connections for
//! which `ssh` would need a process each. [`libi_launch::ssh_client`] has the messages.
//!
//! # States of the client
//!
//! | state | left when | then |
//! |---|---|---|
//! | not started | a host is launched for which it may be used | runs, or is of no use |
//! | runs | it declines all hosts, does not hear of a start before its time is over, or ends | of no use |
//! | of no use | | hosts are launched by `ssh`; those that require the client fail, with the reason |
//!
//! # States of a connection
//!
//! | state | left when | then |
//! |---|---|---|
//! | asked | the client has received the start | received |
//! | | the host's time is over, the launch is given up | closed; the client is of no use |
//! | received | the client takes it | taken |
//! | | the client declines | `ssh` is started with the same streams |
//! | received, taken | the client tells how the command has ended | ended |
//! | any | it is killed | closed, as by that signal |
//! | any | the client ends | lost: status 255, and a message of libi |

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use libi_core::dist::{EnvVar, OsBytes};
use libi_launch::backend::{ClientUse, SpawnSpec};
use libi_launch::process::{Child, Environment, ExitStatus, FdSource, Signal, Start};
use libi_launch::ssh_client::{
    CLIENT_FD, CLIENT_SAYS, ClientAnswer, ClientRequest, ClientStart, decode, encode,
};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, Shutdown, SockFlag, SockType, recv, send, sendmsg, shutdown,
    socketpair,
};

/// The signals that do not end a process that is not prepared for them.
const HARMLESS: [i32; 5] = [libc::SIGCHLD, libc::SIGCONT, libc::SIGURG, libc::SIGWINCH, libc::SIGSTOP];

/// The client of this process. See the [module](self).
#[derive(Default)]
pub(super) struct SshClient {
    running: Option<Running>,
    /// Why it is not asked any more.
    of_no_use: Option<String>,
    /// Whether a connection is to outlive this process.
    keeps: bool,
}

struct Running {
    process: Child,
    socket: OwnedFd,
}

/// The exit status of ssh for failures of its own.
pub(super) const SSH_FAILED: i32 = 255;

/// The streams of a start, as the other side gets them, and the process that may still be needed.
pub(super) struct Offer {
    pub(super) spec: SpawnSpec,
    pub(super) streams: [OwnedFd; 3],
}

/// A connection that the client holds. See the [module](self).
pub(super) struct Connection {
    socket: OwnedFd,
    state: State,
}

enum State {
    Asked(Box<Offer>),
    Received(Box<Offer>),
    Taken,
    Declined {
        offer: Box<Offer>,
        why: String,
        of_all: bool,
    },
    Ended(ExitStatus),
    /// Ended because the client has.
    Lost,
}

impl SshClient {
    /// Asks the client to do what the spec describes; without it, the offer comes back, and why.
    pub(super) fn ask(
        &mut self,
        offer: Box<Offer>,
        client: &ClientUse,
        environment: &Environment,
        death_signal: Option<Signal>,
    ) -> Result<Connection, (Box<Offer>, String)> {
        if self.running.is_none() && self.of_no_use.is_none() {
            match start(client, environment, death_signal) {
                Ok(running) => self.running = Some(running),
                Err(why) => self.give_up(why),
            }
        }
        match (&self.of_no_use, &self.running) {
            (Some(why), _) => Err((offer, why.clone())),
            (None, Some(running)) => hand_over(running.socket.as_fd(), offer, client.fast),
            (None, None) => Err((offer, String::new())),
        }
    }

    /// It is not asked any more. Its connections go on.
    pub(super) fn give_up(&mut self, why: String) {
        if self.of_no_use.is_none() {
            log::info!("hosts are launched by ssh, without libi's own client: {why}");
            self.of_no_use = Some(why);
        }
    }

    /// Whether it could not even be started, as where it is not installed.
    pub(super) fn is_missing(&self) -> bool {
        self.running.is_none() && self.of_no_use.is_some()
    }

    /// A connection is to outlive this process.
    pub(super) fn keep(&mut self) {
        self.keeps = true;
    }

    /// Ends it with its connections; or returns it, if connections are to outlive this process.
    pub(super) fn close(&mut self) -> Option<Child> {
        let Running { mut process, socket } = self.running.take()?;
        drop(socket);
        if self.keeps {
            process.release();
            return Some(process);
        }
        None
    }
}

/// Two ends that keep messages apart.
fn message_sockets() -> nix::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
}

/// Starts the client.
fn start(
    client: &ClientUse,
    environment: &Environment,
    death_signal: Option<Signal>,
) -> Result<Running, String> {
    let program = find(&client.program);
    let failed = |error: &dyn std::fmt::Display| format!("{program} cannot be started: {error}");
    let (socket, its) = message_sockets().map_err(|error| failed(&error))?;
    // The client uses the user's variables, and none of libi's.
    let is_others = |variable: &&EnvVar| !variable.name().as_bytes().starts_with(b"LIBI_");
    let environment = environment.variables().iter().filter(is_others).cloned().collect();
    let mut start = Start::new(program.clone(), environment);
    start.fds.insert(1, FdSource::Null);
    start.fds.insert(2, FdSource::Null);
    start.fds.insert(CLIENT_FD, FdSource::File(its.as_fd()));
    start.parent_death_signal = death_signal;
    let process = start.start().map_err(|error| error.to_string())?;
    Ok(Running { process, socket })
}

/// The client's file: beside this program, if it has no path and is there.
fn find(program: &OsBytes) -> OsBytes {
    if program.as_bytes().contains(&b'/') {
        return program.clone();
    }
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join(program.to_string())));
    let path = beside.filter(|path| path.is_file()).map(|path| path.into_os_string().into_encoded_bytes());
    path.and_then(|path| OsBytes::new(path).ok()).unwrap_or_else(|| program.clone())
}

/// Sends a start to the client.
fn hand_over(
    client: BorrowedFd<'_>,
    offer: Box<Offer>,
    fast: bool,
) -> Result<Connection, (Box<Offer>, String)> {
    let SpawnSpec { program, args, .. } = &offer.spec;
    let start = ClientStart { program: program.clone(), args: args.clone(), fast };
    let Some(message) = encode(&start) else { return Err((offer, "the command is too long".to_owned())) };
    let (socket, its) = match message_sockets() {
        Ok(pair) => pair,
        Err(error) => return Err((offer, error.to_string())),
    };
    let mut fds = offer.streams.each_ref().map(AsRawFd::as_raw_fd).to_vec();
    fds.push(its.as_raw_fd());
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
    let slices = [io::IoSlice::new(&message)];
    loop {
        match sendmsg(client.as_raw_fd(), &slices, &[ControlMessage::ScmRights(&fds)], flags, None::<&()>) {
            Ok(_) => return Ok(Connection { socket, state: State::Asked(offer) }),
            Err(nix::Error::EINTR) => {}
            Err(nix::Error::EPIPE | nix::Error::ECONNRESET) => {
                return Err((offer, "libi-ssh has ended".to_owned()));
            }
            Err(error) => return Err((offer, format!("{CLIENT_SAYS}{error}"))),
        }
    }
}

/// What has become of a connection.
pub(super) enum Fate {
    /// It has not ended.
    Open,
    /// The client does not do it; see [`Connection::take_declined`].
    Declined,
    Ended,
    /// It has ended because the client has.
    Lost,
}

impl Connection {
    /// What has become of it. Reads what the client says.
    pub(super) fn look(&mut self) -> Fate {
        self.receive();
        match &self.state {
            State::Asked(_) | State::Received(_) | State::Taken => Fate::Open,
            State::Declined { .. } => Fate::Declined,
            State::Ended(_) => Fate::Ended,
            State::Lost => Fate::Lost,
        }
    }

    fn receive(&mut self) {
        let mut buffer = [0; 4096];
        while !self.is_over() {
            match recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT) {
                Err(nix::Error::EINTR) => {}
                Err(nix::Error::EAGAIN) => return,
                // An answer that is not understood, or no other end.
                Ok(0) | Err(_) => self.state = State::Lost,
                Ok(length) => self.answered(decode(&buffer[..length])),
            }
        }
    }

    fn is_over(&self) -> bool {
        !matches!(self.state, State::Asked(_) | State::Received(_) | State::Taken)
    }

    fn answered(&mut self, answer: Option<ClientAnswer>) {
        self.state = match (std::mem::replace(&mut self.state, State::Lost), answer) {
            (State::Asked(offer), Some(ClientAnswer::Received)) => State::Received(offer),
            // The streams that the client uses are closed here.
            (State::Received(_), Some(ClientAnswer::Taken)) => State::Taken,
            (State::Received(offer), Some(ClientAnswer::Declined { why, of_all })) => {
                State::Declined { offer, why, of_all }
            }
            (State::Received(_) | State::Taken, Some(ClientAnswer::Ended(code))) => {
                State::Ended(ExitStatus::Code(code))
            }
            _ => State::Lost,
        };
    }

    /// What the client does not do, why, and whether it would say so of all others.
    pub(super) fn take_declined(&mut self) -> Option<(Box<Offer>, String, bool)> {
        match std::mem::replace(&mut self.state, State::Lost) {
            State::Declined { offer, why, of_all } => Some((offer, why, of_all)),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// How it has ended, as far as its answers were looked at.
    pub(super) fn exit(&self) -> Option<ExitStatus> {
        match &self.state {
            State::Ended(exit) => Some(*exit),
            State::Lost => Some(ExitStatus::Code(SSH_FAILED)),
            _ => None,
        }
    }

    /// Whether the client has not even received it.
    pub(super) fn is_unheard(&self) -> bool {
        matches!(self.state, State::Asked(_))
    }

    /// Closes it, if the signal would end a process. Its descriptor is readable then.
    pub(super) fn signal(&mut self, signal: Signal) {
        self.receive();
        if !self.is_over() && !HARMLESS.contains(&signal.number()) {
            self.state = State::Ended(ExitStatus::Signal { signal, core_dumped: false });
            let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
        }
    }

    /// Lets it outlive this value.
    pub(super) fn keep(&mut self) {
        if let Some(keep) = encode(&ClientRequest::Keep) {
            let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
            let _ = send(self.socket.as_raw_fd(), &keep, flags); // it has ended otherwise
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
