//! A starter for tests whose hosts all arrive at once, from this one process.
//!
//! ```text
//! libi-test-arrivals [stats=PATH] HOST,HOST,… COMMAND
//! ```
//!
//! The command is not started. For each host, a real connection is made to the rendezvous that the
//! ticket names, and the launch machine of a member runs behind it. All connections begin together,
//! and those that are closed before they are admitted are made again, as members do. The connections
//! end with the session. `stats` is a file for the numbers of connections and of retries, and for the
//! time in seconds from the first connection until the last host was admitted.
//!
//! A host that is redirected leaves its connection. Its link to the relay, which is another host of
//! this process, exists in memory only: what is measured is the front end.
#![allow(clippy::unwrap_used, reason = "a test program fails by panicking")]

use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant as Time};

use libi_core::machine::Machine;
use libi_core::secure::{AwaitReply, CipherOffer, Entropy, HandshakeStep, LinkKey, SecuredLink};
use libi_core::time::Instant;
use libi_core::wire::{FrameReader, Limits};
use libi_launch::machine::{
    ArrivalId, Claim, Effect, Event, Found, HeadReader, LinkId, Node, Notice, StartTicket, is_refusal,
    read_redirection,
};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, connect, socket};

/// How long a connection that was closed waits before it is made again, at least; at most twice.
const RETRY: Duration = Duration::from_millis(100);
/// How long a connection may take before it is made again; twice as long each time.
const DIAL_AGAIN: Duration = Duration::from_millis(400);
const TICK: Duration = Duration::from_millis(20);

/// The connection of one host.
struct Arrival {
    host: String,
    stream: Option<TcpStream>,
    state: State,
    out: Vec<u8>,
    /// When it is made again: after it was closed, or if it is not connected by then.
    again: Option<Time>,
    limit: Duration,
}

enum State {
    Handshake(AwaitReply),
    Admitted(Box<Member>),
    /// It waits to be admitted by this relay.
    Redirected(usize),
    Over,
}

struct Member {
    parent: Parent,
    reader: FrameReader,
    node: Option<Node>,
    /// The hosts below it, and what each of them sends.
    children: BTreeMap<LinkId, (usize, FrameReader)>,
    /// What was sent on links that have not come about.
    unsent: BTreeMap<LinkId, Vec<u8>>,
}

enum Parent {
    FrontEnd(Box<SecuredLink>),
    Relay(usize, LinkId),
}

struct Arrivals {
    ticket: StartTicket,
    key: LinkKey,
    began: Time,
    epoll: Epoll,
    all: Vec<Arrival>,
    events: VecDeque<(usize, Event)>,
    retries: u64,
    admitted: usize,
    last_admitted: Duration,
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let (Some(_), Some(hosts)) = (words.pop(), words.pop()) else {
        eprintln!("usage: libi-test-arrivals [stats=PATH] HOST,HOST,… COMMAND");
        std::process::exit(2);
    };
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).unwrap();
    let Found::Message(ticket) = HeadReader::of_ticket().next::<StartTicket>(&mut &input[..]) else {
        eprintln!("no ticket on standard input");
        std::process::exit(1);
    };
    let mut arrivals = Arrivals {
        key: ticket.key(),
        ticket,
        began: Time::now(),
        epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).unwrap(),
        all: Vec::new(),
        events: VecDeque::new(),
        retries: 0,
        admitted: 0,
        last_admitted: Duration::ZERO,
    };
    arrivals.run(hosts.split(','));
    if let Some(path) = words.iter().find_map(|word| word.strip_prefix("stats=")) {
        let Arrivals { admitted, retries, last_admitted, .. } = arrivals;
        std::fs::write(path, format!("{admitted} {retries} {:.3}\n", last_admitted.as_secs_f64())).unwrap();
    }
}

impl Arrival {
    fn claim(&self) -> Claim {
        Claim { names: vec![self.host.clone()], is_back: false }
    }
}

impl Member {
    fn new(parent: Parent) -> Self {
        let (children, unsent) = Default::default();
        Self { parent, reader: FrameReader::new(), node: None, children, unsent }
    }
}

/// The address at which a host of this process pretends to listen.
fn address(index: usize) -> SocketAddr {
    let [_, a, b, c] = (index as u32).to_be_bytes();
    SocketAddr::from(([10, a, b, c], 1))
}

fn host_at(address: SocketAddr) -> usize {
    let SocketAddr::V4(address) = address else { panic!("{address} is no host of this process") };
    let [_, a, b, c] = address.ip().octets();
    u32::from_be_bytes([0, a, b, c]) as usize
}

/// The host on whose connection this one's messages travel.
fn relay_of(all: &[Arrival], index: usize) -> usize {
    match &all[index].state {
        State::Admitted(member) => match member.parent {
            Parent::Relay(relay, _) => relay,
            Parent::FrontEnd(_) => index,
        },
        _ => index,
    }
}

impl Arrivals {
    fn run<'a>(&mut self, hosts: impl Iterator<Item = &'a str>) {
        for (index, host) in hosts.enumerate() {
            let (host, state, again) = (host.to_owned(), State::Over, Some(self.began));
            self.all.push(Arrival { host, stream: None, state, out: Vec::new(), again, limit: DIAL_AGAIN });
            self.connect(index);
        }
        let mut events = vec![EpollEvent::empty(); 4_096];
        let (mut open, mut tick) = (self.all.len(), self.began);
        while open > 0 {
            let timeout = EpollTimeout::try_from(TICK).unwrap();
            let ready = match self.epoll.wait(&mut events, timeout) {
                Err(Errno::EINTR) => 0,
                other => other.unwrap(),
            };
            for event in &events[..ready] {
                self.on_ready(event.data() as usize);
            }
            if tick.elapsed() >= TICK {
                tick = Time::now();
                open = self.on_tick(tick);
            }
        }
    }

    /// Makes connections again, and wakes the machines; returns how many connections are left.
    fn on_tick(&mut self, now: Time) -> usize {
        for index in 0..self.all.len() {
            if self.all[index].again.is_some_and(|at| at <= now) {
                match self.all[index].state {
                    State::Redirected(relay) => self.claim_below(index, relay),
                    _ => {
                        self.retries += 1;
                        self.connect(index);
                    }
                }
            }
            self.tell(index, Event::Woken);
            self.flush(index);
        }
        let is_open = |arrival: &&Arrival| !matches!(arrival.state, State::Over) || arrival.again.is_some();
        self.all.iter().filter(is_open).count()
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn connect(&mut self, index: usize) {
        let address = self.ticket.addresses[0];
        let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let stream: OwnedFd = socket(family, SockType::Stream, flags, None).unwrap();
        let begun = connect(std::os::fd::AsRawFd::as_raw_fd(&stream), &SockaddrStorage::from(address));
        assert!(matches!(begun, Ok(()) | Err(Errno::EINPROGRESS)), "{address}: {begun:?}");
        let stream = TcpStream::from(stream);
        let interest = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        self.epoll.add(&stream, EpollEvent::new(interest, index as u64)).unwrap();
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).unwrap();
        let (reply, opening) = AwaitReply::begin(&self.key, CipherOffer::PORTABLE, Entropy::new(&mut bytes));
        let arrival = &mut self.all[index];
        (arrival.stream, arrival.state) = (Some(stream), State::Handshake(reply));
        arrival.again = Some(Time::now() + arrival.limit + jitter(arrival.limit / 2));
        arrival.limit *= 2;
        arrival.out = opening.to_vec();
    }

    fn on_ready(&mut self, index: usize) {
        self.flush(index);
        let mut buffer = [0; 16 << 10];
        while let Some(stream) = &mut self.all[index].stream {
            match stream.read(&mut buffer) {
                Ok(count @ 1..) => self.received(index, &mut buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(_) | Err(_) => return self.closed(index),
            }
        }
        self.flush(index);
    }

    fn received(&mut self, index: usize, mut bytes: &mut [u8]) {
        let arrival = &mut self.all[index];
        if matches!(arrival.state, State::Handshake(_))
            && let State::Handshake(reply) = std::mem::replace(&mut arrival.state, State::Over)
        {
            let mut input = &*bytes;
            match reply.step(&mut input) {
                Ok(HandshakeStep::Wait(reply)) => return arrival.state = State::Handshake(reply),
                Ok(HandshakeStep::Done((link, proof))) => {
                    let used = bytes.len() - input.len();
                    bytes = &mut bytes[used..];
                    arrival.out.extend_from_slice(&proof);
                    arrival.state = State::Admitted(Box::new(Member::new(Parent::FrontEnd(Box::new(link)))));
                    let claim = arrival.claim().encode().unwrap();
                    self.send(index, &claim);
                }
                Err(_) => return self.closed(index),
            }
        }
        self.opened(index, bytes);
    }

    /// Decrypts what has arrived, and passes it to the machine.
    fn opened(&mut self, index: usize, mut bytes: &mut [u8]) {
        let mut plain = Vec::new();
        let State::Admitted(member) = &mut self.all[index].state else { return };
        let Parent::FrontEnd(link) = &mut member.parent else { return };
        match &mut **link {
            SecuredLink::Authenticated => plain.extend_from_slice(bytes),
            SecuredLink::Encrypted { open, .. } => {
                while let Some(part) = open.step(&mut bytes).unwrap() {
                    plain.extend_from_slice(part);
                }
            }
        }
        if plain.is_empty() {
            return;
        }
        if member.node.is_none() {
            if is_refusal(&plain) {
                return self.end(index);
            }
            if let Some(addresses) = read_redirection(&plain) {
                self.end(index);
                // A connection takes some time.
                let arrival = &mut self.all[index];
                arrival.state = State::Redirected(host_at(addresses[0]));
                arrival.again = Some(Time::now());
                return;
            }
            self.admitted(index);
        }
        self.arrives(index, LinkId::PARENT, &plain);
        self.run_events();
    }

    /// A redirected host makes its claim at its relay.
    fn claim_below(&mut self, index: usize, relay: usize) {
        let arrival = &mut self.all[index];
        (arrival.state, arrival.again) = (State::Redirected(relay), None);
        let claim = arrival.claim();
        self.events.push_back((relay, Event::Arrived(self.ticket.start, ArrivalId(index as u64), claim)));
        self.run_events();
    }

    /// A host has its link: its machine begins.
    fn admitted(&mut self, index: usize) {
        let host = self.all[index].host.clone();
        let State::Admitted(member) = &mut self.all[index].state else { return };
        member.node = Some(Node::member(index as u32, host, index as u64));
        self.admitted += 1;
        self.last_admitted = self.began.elapsed();
        self.tell(index, Event::Begin);
    }

    /// Bytes have arrived on a link of a host.
    fn arrives(&mut self, index: usize, link: LinkId, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let arrival = &mut self.all[index];
            let State::Admitted(member) = &mut arrival.state else { return };
            let reader = match member.children.get_mut(&link) {
                Some((_, reader)) => reader,
                None => &mut member.reader,
            };
            match reader.next(&mut rest) {
                Ok(Some(item)) => self.tell(index, Event::Received(link, vec![item])),
                Ok(None) => return,
                Err(error) => panic!("{}: {error}", arrival.host),
            }
        }
    }

    fn run_events(&mut self) {
        while let Some((index, event)) = self.events.pop_front() {
            self.tell(index, event);
        }
    }

    fn tell(&mut self, index: usize, event: Event) {
        let now = self.now();
        let State::Admitted(member) = &mut self.all[index].state else { return };
        let Some(node) = &mut member.node else { return };
        let mut effects = Vec::new();
        node.on(event, now, &mut effects);
        effects.into_iter().for_each(|effect| self.apply(index, effect));
    }

    fn apply(&mut self, index: usize, effect: Effect) {
        let State::Admitted(member) = &mut self.all[index].state else { return };
        match effect {
            Effect::Send(LinkId::PARENT, bytes) => self.send(index, &bytes),
            Effect::Send(link, bytes) => match member.children.get(&link) {
                Some(&(child, _)) => self.arrives(child, LinkId::PARENT, &bytes),
                None => member.unsent.entry(link).or_default().extend(bytes),
            },
            Effect::Trust(LinkId::PARENT) => member.reader.trust(Limits::AUTHENTICATED),
            Effect::Trust(link) => {
                if let Some((_, reader)) = member.children.get_mut(&link) {
                    reader.trust(Limits::AUTHENTICATED);
                }
            }
            Effect::Listen { .. } => self.events.push_back((index, Event::Listening(vec![address(index)]))),
            Effect::Admit(ArrivalId(number), link) => {
                let child = number as usize;
                member.children.insert(link, (child, FrameReader::new()));
                let unsent = member.unsent.remove(&link).unwrap_or_default();
                let below = Member::new(Parent::Relay(index, link));
                self.all[child].state = State::Admitted(Box::new(below));
                self.admitted(child);
                self.arrives(child, LinkId::PARENT, &unsent);
            }
            Effect::TurnAway(ArrivalId(number)) => {
                self.retries += 1;
                self.all[number as usize].again = Some(Time::now() + RETRY + jitter(RETRY));
            }
            Effect::Refuse(ArrivalId(number)) => self.end(number as usize),
            Effect::Notify(Notice::End(_) | Notice::Over) => self.end(index),
            _ => {}
        }
    }

    fn send(&mut self, index: usize, bytes: &[u8]) {
        let Arrival { state: State::Admitted(member), out, .. } = &mut self.all[index] else { return };
        match &mut member.parent {
            Parent::Relay(relay, link) => {
                let (relay, link) = (*relay, *link);
                self.arrives(relay, link, bytes);
            }
            Parent::FrontEnd(link) => match &mut **link {
                SecuredLink::Authenticated => out.extend_from_slice(bytes),
                SecuredLink::Encrypted { seal, .. } => seal.seal(&[bytes], out).unwrap(),
            },
        }
        self.flush(relay_of(&self.all, index));
    }

    fn flush(&mut self, index: usize) {
        let Arrival { stream: Some(stream), out, again, .. } = &mut self.all[index] else { return };
        while !out.is_empty() {
            match stream.write(out) {
                Ok(count) => {
                    out.drain(..count);
                    *again = None;
                }
                // Errors are seen by the next read.
                Err(_) => return,
            }
        }
    }

    /// A connection was closed: it is made again if its host was not admitted.
    fn closed(&mut self, index: usize) {
        let is_admitted = matches!(&self.all[index].state, State::Admitted(member) if member.node.is_some());
        self.end(index);
        if !is_admitted && self.began.elapsed() < self.ticket.timeout {
            self.all[index].again = Some(Time::now() + RETRY + jitter(RETRY));
        }
    }

    fn end(&mut self, index: usize) {
        let arrival = &mut self.all[index];
        (arrival.stream, arrival.state, arrival.again) = (None, State::Over, None);
    }
}

/// A random part of a time.
fn jitter(most: Duration) -> Duration {
    most.mul_f64(f64::from(getrandom::u32().unwrap()) / f64::from(u32::MAX))
}
