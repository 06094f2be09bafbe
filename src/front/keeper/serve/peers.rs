//! Connections of a keeper that are not that of its front end: peers that have proved themselves and have
//! not said what they want, and those that are told the last.
//!
//! | state | event | next |
//! |---|---|---|
//! | waits | its version is another one, or its message makes no sense | parting, with the reason |
//! | waits | it says nothing within [`OPEN_WITHIN`], or one of [`MAX_PEERS`] is older | parting; closed |
//! | waits | `Open` | the keeper's, or parting with the reason |
//! | parting | its end, or [`LAST_WORDS`] | closed |

use std::collections::BTreeMap;
use std::time::{Duration, Instant as Clock};

use super::LAST_WORDS;
use crate::engine::direct_stream::DirectStream;
use crate::engine::message_link::MessageLink;
use crate::engine::{Engine, NodeId};
use crate::front::keeper::message::{Launch, ToKeeper, VERSION};

/// How long a peer may take to say what it wants.
const OPEN_WITHIN: Duration = Duration::from_secs(5);
/// The most peers that have not said what they want.
const MAX_PEERS: usize = 16;

/// See the [module](self).
pub(super) struct Peers {
    id: NodeId,
    waiting: BTreeMap<u32, Peer>,
    parting: BTreeMap<u32, (MessageLink, Clock)>,
    /// The number of the last connection.
    last: u32,
}

struct Peer {
    link: MessageLink,
    has_version: bool,
    until: Clock,
}

/// What a peer wants: a session, which it may bring; and messages that have followed.
pub(super) struct Opens {
    pub(super) launch: Option<Box<Launch>>,
    pub(super) rest: Vec<Vec<u8>>,
}

impl Peers {
    /// The connections of this keeper. Those before this number are others.
    pub(super) fn new(id: NodeId, last: u32) -> Self {
        let (waiting, parting) = Default::default();
        Self { id, waiting, parting, last }
    }

    /// Adds a peer, and returns its number.
    pub(super) fn add(&mut self, stream: DirectStream, engine: &mut Engine) -> Option<u32> {
        self.last += 1;
        let number = self.last;
        let link = engine.message_link(self.id, number, stream).ok()?;
        if self.waiting.len() >= MAX_PEERS
            && let Some((_, oldest)) = self.waiting.pop_first()
        {
            engine.close_link(oldest.link);
        }
        self.waiting.insert(number, Peer { link, has_version: false, until: Clock::now() + OPEN_WITHIN });
        Some(number)
    }

    /// Whether this peer has not said what it wants.
    pub(super) fn waits(&self, number: u32) -> bool {
        self.waiting.contains_key(&number)
    }

    /// Hears what a peer wants.
    pub(super) fn hear(&mut self, number: u32, engine: &mut Engine) -> Option<Opens> {
        let peer = self.waiting.get_mut(&number)?;
        let mut messages = Vec::new();
        peer.link.receive(&mut messages);
        let mut messages = messages.into_iter();
        if !peer.has_version
            && let Some(version) = messages.next()
        {
            if version != VERSION.as_bytes() {
                self.refuse(number, &format!("the session is kept by {VERSION}"));
                return None;
            }
            peer.has_version = true;
        }
        match messages.next().map(|message| postcard::from_bytes(&message)) {
            Some(Ok(ToKeeper::Open(launch))) => return Some(Opens { launch, rest: messages.collect() }),
            Some(_) => self.refuse(number, "that is no front end"),
            None if peer.link.is_over() => {
                if let Some(link) = self.take(number) {
                    engine.close_link(link);
                }
            }
            None => {}
        }
        None
    }

    /// Takes the connection of a peer.
    pub(super) fn take(&mut self, number: u32) -> Option<MessageLink> {
        self.waiting.remove(&number).map(|peer| peer.link)
    }

    /// A peer cannot have the session, for this reason.
    pub(super) fn refuse(&mut self, number: u32, why: &str) {
        if let Some(mut link) = self.take(number) {
            link.send(why.as_bytes());
            self.part_with(link, number);
        }
    }

    /// Leaves a connection to its peer, which closes it when it has read the last.
    pub(super) fn part_with(&mut self, mut link: MessageLink, number: u32) {
        link.flush();
        self.parting.insert(number, (link, Clock::now() + LAST_WORDS));
    }

    /// The connection of this number is ready.
    pub(super) fn on_ready(&mut self, number: u32) {
        if let Some((link, _)) = self.parting.get_mut(&number) {
            link.receive(&mut Vec::new());
        }
    }

    /// When [`expire`](Self::expire) has something to do.
    pub(super) fn deadline(&self) -> Option<Clock> {
        let waiting = self.waiting.values().map(|peer| peer.until);
        waiting.chain(self.parting.values().map(|(_, until)| *until)).min()
    }

    /// Does what is due, and writes what is queued.
    pub(super) fn expire(&mut self, engine: &mut Engine) {
        let now = Clock::now();
        let late = self.waiting.iter().filter(|(_, peer)| peer.until <= now);
        let late: Vec<u32> = late.map(|(number, _)| *number).collect();
        late.into_iter().for_each(|number| self.refuse(number, "that is no front end"));
        self.parting.values_mut().for_each(|(link, _)| link.flush());
        let is_over = |(link, until): &(MessageLink, Clock)| link.is_over() || *until <= now;
        let over: Vec<u32> =
            self.parting.iter().filter(|(_, it)| is_over(it)).map(|(number, _)| *number).collect();
        for number in over {
            if let Some((link, _)) = self.parting.remove(&number) {
                engine.close_link(link);
            }
        }
    }
}
