//! The rendezvous of a bulk start: how a process that was started with many others finds the node
//! that awaits it.
//!
//! ```text
//!   node                         starter                       process on a host
//!     | starts it; StartTicket ----> | starts all; StartTicket ---> |   standard input
//!     | <========= handshake: both prove the start's secret ======> |   a connection
//!     | <------------------------------------------- preamble, Claim|
//!     | admitted as a link: preamble, Ticket ---------------------> |   as on any link
//! ```
//!
//! - **The start ticket** is the same for all hosts of a start, because a starter can only copy its
//!   input to all of them. It names the addresses, and carries a secret that admits to this start
//!   alone. It never travels in arguments or the environment, which other users can read.
//! - **A claim** names the host. It decides nothing but which [`Ticket`](libi_core::join::Ticket)
//!   the process is given: the secret has proved that the process belongs to the start.
//! - **A redirected process** connects to another rendezvous of its start in the same way, and comes
//!   back if it does not arrive there (see `relays.rs`).
//! - **A process that is not awaited**, because its host has arrived, was given up, or belongs to no
//!   such start, is [refused](refusal), and ends.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use libi_core::ids::{HostIndex, SessionId, StartId};
use libi_core::join::SessionKey;
use libi_core::secure::{LinkKey, LinkSecurity, Parent, Terms};
use libi_core::wire::{
    EncodeError, Flags, Frame, FrameReader, Header, Kind, Limits, LinkItem, PROTOCOL, Preamble,
    decode_control, encode_control,
};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::direct_links::CarriedSecret;

/// A connection that has arrived at the rendezvous, as its driver numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArrivalId(pub u64);

/// To every process of a bulk start: where its link is awaited, and how it proves itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartTicket {
    /// The session.
    pub session: SessionKey,
    /// The start.
    pub start: StartId,
    /// The addresses of the rendezvous.
    pub addresses: Vec<SocketAddr>,
    /// How long a process may try to connect: the node awaits it no longer.
    pub timeout: Duration,
    /// How the connection is protected.
    pub security: LinkSecurity,
    /// The secret of this start.
    pub secret: CarriedSecret,
    /// The environment variable that names the host on which a process runs.
    pub host_variable: String,
}

/// The first message of a process at the rendezvous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Names of the host that the process runs on: as its starter calls it, the address at which a
    /// server of ssh was reached, and as the host calls itself, as far as they are known.
    pub names: Vec<String>,
    /// Whether the process was redirected, and could not arrive there.
    pub is_back: bool,
}

impl StartTicket {
    /// The name of the start, which no other start has.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{:016x}.{}", self.session.0, self.start.0)
    }

    /// The key with which both sides prove that they know the secret.
    #[must_use]
    pub fn key(&self) -> LinkKey {
        let terms = Terms {
            version: PROTOCOL.newest(),
            session: SessionId(self.session.0 as u32),
            // The secret is the start's own, so that no other link has these terms and this secret.
            host: HostIndex(u32::MAX),
            attempt: self.start.0,
            parent: Parent::FrontEnd,
            mode: self.security,
        };
        LinkKey::derive(&self.secret.0, &terms)
    }

    /// The ticket as it is written to the starter's input. Wiped when dropped.
    ///
    /// # Errors
    /// It has too many addresses for a frame.
    pub fn encode(&self) -> Result<Zeroizing<Vec<u8>>, EncodeError> {
        // No reallocation may leave a copy of the secret behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(2 * Limits::UNAUTHENTICATED.control as usize));
        bytes.extend_from_slice(&Preamble { versions: PROTOCOL }.encode());
        encode_control(&mut bytes, Kind::Ticket, 0, self, &Limits::UNAUTHENTICATED)?;
        Ok(bytes)
    }
}

impl Claim {
    /// The claim as it is sent, before everything else.
    ///
    /// # Errors
    /// The name is too long for a frame.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut bytes = Preamble { versions: PROTOCOL }.encode().to_vec();
        encode_control(&mut bytes, Kind::Hello, 0, self, &Limits::UNAUTHENTICATED)?;
        Ok(bytes)
    }
}

/// What a connection that arrives elsewhere is sent before it is closed.
///
/// # Errors
/// There are too many addresses for a frame.
pub fn redirection(addresses: &[SocketAddr]) -> Result<Vec<u8>, EncodeError> {
    let mut bytes = Preamble { versions: PROTOCOL }.encode().to_vec();
    encode_control(&mut bytes, Kind::Control, 0, &addresses, &Limits::UNAUTHENTICATED)?;
    Ok(bytes)
}

/// The addresses in the first bytes on an arrived connection, if they are a redirection.
#[must_use]
pub fn read_redirection(first: &[u8]) -> Option<Vec<SocketAddr>> {
    let mut reader = HeadReader { reader: FrameReader::new(), kind: Kind::Control };
    match reader.next(&mut &first[..]) {
        Found::Message(addresses) => Some(addresses),
        Found::Incomplete | Found::Violation => None,
    }
}

/// What a connection that is not awaited is sent before it is closed. A connection that is closed
/// without it may be tried again: the listener may have had too many.
#[must_use]
pub fn refusal() -> Vec<u8> {
    let mut bytes = Preamble { versions: PROTOCOL }.encode().to_vec();
    if let Ok(goodbye) = Header::new(Kind::Goodbye, Flags::NONE, 0, 0, &Limits::UNAUTHENTICATED) {
        bytes.extend_from_slice(&goodbye.encode());
    }
    bytes
}

/// Whether the first bytes on an arrived connection are a refusal.
#[must_use]
pub fn is_refusal(first: &[u8]) -> bool {
    first == refusal()
}

/// What a reader of tickets or claims has found.
#[derive(Debug, PartialEq)]
pub enum Found<T> {
    /// The message.
    Message(T),
    /// More bytes are needed.
    Incomplete,
    /// The peer does not send what is awaited.
    Violation,
}

/// Reads one message, a [`StartTicket`] or a [`Claim`], at the head of a stream.
#[derive(Debug)]
pub struct HeadReader {
    reader: FrameReader,
    kind: Kind,
}

impl HeadReader {
    /// A reader of a start ticket, which may follow foreign text.
    #[must_use]
    pub fn of_ticket() -> Self {
        Self { reader: FrameReader::new(), kind: Kind::Ticket }
    }

    /// A reader of a claim.
    #[must_use]
    pub fn of_claim() -> Self {
        Self { reader: FrameReader::new(), kind: Kind::Hello }
    }

    /// Takes the message off the front of `bytes`.
    pub fn next<T: for<'a> Deserialize<'a>>(&mut self, bytes: &mut &[u8]) -> Found<T> {
        loop {
            match self.reader.next(bytes) {
                Ok(None) => return Found::Incomplete,
                Ok(Some(LinkItem::Text(_) | LinkItem::Preamble(..))) => {}
                Ok(Some(LinkItem::Frame(header, payload))) => {
                    let payload = Zeroizing::new(payload);
                    let frame = Frame::from_parts(header, &payload).filter(|_| header.kind() == self.kind);
                    let message = frame.and_then(|frame| decode_control(&frame).ok());
                    return message.map_or(Found::Violation, Found::Message);
                }
                Err(_) => return Found::Violation,
            }
        }
    }
}

/// Whether a claim names this host: by its name, or one of the two without its domain.
fn names(host: &str, claim: &str) -> bool {
    let is_short = |short: &str, long: &str| {
        let rest = long.strip_prefix(short).filter(|_| !short.is_empty());
        rest.is_some_and(|domain| domain.starts_with('.')) && long.parse::<IpAddr>().is_err()
    };
    host == claim || is_short(host, claim) || is_short(claim, host)
}

/// What is known under this name, and under the same with or without its domain.
pub(super) fn named<T: Copy>(known: &BTreeMap<String, T>, name: &str) -> impl Iterator<Item = T> {
    let exact = known.get(name).copied();
    let is_it = |of: &str| names(of, name);
    let short = name.match_indices('.').map(|(end, _)| &name[..end]).filter(move |short| is_it(short));
    let short = short.filter_map(|short| known.get(short).copied());
    let with_dot = format!("{name}.");
    let longer = known.range(with_dot.clone()..).take_while(move |(long, _)| long.starts_with(&with_dot));
    let longer = longer.filter(move |(long, _)| is_it(long)).map(|(_, what)| *what);
    exact.into_iter().chain(short).chain(longer)
}

#[cfg(test)]
mod tests {
    use libi_core::secure::{Entropy, Secret};

    use super::*;

    fn ticket() -> StartTicket {
        StartTicket {
            session: SessionKey(7),
            start: StartId(3),
            addresses: vec!["127.0.0.1:4000".parse().unwrap()],
            timeout: Duration::from_secs(30),
            security: LinkSecurity::Encrypted,
            secret: CarriedSecret(Secret::new(Entropy::new(&mut [5; 32]))),
            host_variable: "NODE".to_owned(),
        }
    }

    #[test]
    fn a_ticket_is_found_behind_a_banner_in_any_portions() {
        let stream = [b"Welcome\n", &ticket().encode().unwrap()[..]].concat();
        for portion in [1, 7, stream.len()] {
            let mut reader = HeadReader::of_ticket();
            let mut found = Found::Incomplete;
            for mut bytes in stream.chunks(portion) {
                assert_eq!(found, Found::Incomplete);
                found = reader.next(&mut bytes);
            }
            assert_eq!(found, Found::Message(ticket()), "in portions of {portion}");
        }
    }

    #[test]
    fn what_follows_a_claim_is_left_for_the_link() {
        let claim = Claim { names: vec!["n1".to_owned()], is_back: true };
        let stream = [claim.encode().unwrap(), b"more".to_vec()].concat();
        let mut rest = &stream[..];
        let found: Found<Claim> = HeadReader::of_claim().next(&mut rest);
        assert_eq!(found, Found::Message(claim));
        assert_eq!(rest, b"more");
    }

    #[test]
    fn a_refusal_is_told_from_the_begin_of_a_link() {
        let preamble = Preamble { versions: PROTOCOL }.encode();
        assert!(is_refusal(&refusal()) && !is_refusal(&preamble) && !is_refusal(&[]));
    }

    #[test]
    fn a_redirection_is_told_from_the_begin_of_a_link() {
        let addresses = ticket().addresses;
        let bytes = redirection(&addresses).unwrap();
        assert_eq!(read_redirection(&bytes), Some(addresses));
        assert_eq!(read_redirection(&bytes[..bytes.len() - 1]), None);
        assert_eq!(read_redirection(&refusal()), None);
        assert_eq!(read_redirection(&ticket().encode().unwrap()), None);
        assert!(!is_refusal(&bytes));
    }

    #[test]
    fn another_message_is_no_claim() {
        let found: Found<Claim> = HeadReader::of_claim().next(&mut &ticket().encode().unwrap()[..]);
        assert_eq!(found, Found::Violation);
        assert!(Claim { names: vec!["n".repeat(100_000)], is_back: false }.encode().is_err());
    }

    #[test]
    fn each_start_has_a_key_of_its_own() {
        let other = StartTicket { start: StartId(4), ..ticket() };
        assert_ne!(ticket().key().id(), other.key().id());
    }

    #[test]
    fn a_host_is_named_with_or_without_its_domain() {
        assert!(names("n1", "n1") && names("n1.cluster", "n1") && names("n1", "n1.cluster"));
        assert!(!names("n1", "n11") && !names("n1.a", "n1.b") && !names("n1", ""));
        assert!(!names("127.0.0.1", "127") && names("127.0.0.1", "127.0.0.1"));
    }

    #[test]
    fn a_host_is_found_with_or_without_its_domain() {
        let hosts = ["n1", "n2.a", "n2.b", "n20.a", "10.0.0.1"];
        let known: BTreeMap<String, usize> = hosts.iter().map(|host| (*host).to_owned()).zip(0..).collect();
        let find = |name| named(&known, name).collect::<Vec<_>>();
        assert_eq!([find("n1"), find("n1.cluster.org"), find("n2")], [vec![0], vec![0], vec![1, 2]]);
        assert_eq!([find("n2.a"), find("n2.c"), find("10.0"), find("")], [vec![1], vec![], vec![], vec![]]);
    }
}
