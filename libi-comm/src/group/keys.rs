//! Decides where the value of a key is, and how those who ask for it come to have it.
//!
//! The leader of a host keeps what was put there; further members of the host put and ask through it, and so does the
//! front end through whoever is the top. A sparse value stays where it was put: every node between there and the top
//! knows behind which link it is. Who looks for it asks upwards until somebody knows, and from there the question goes
//! down to the value. A node asks once, however many wait for its answer, and keeps the answer: a host sends one question and
//! gets one value. The top lets wait who asks for what nobody has put.
//!
//! Of two values of a key the one of the higher [`Version`] is the later, everywhere. What a node knows may be old, but never
//! older than the last fence: a fence names the keys that were put again, and nodes forget what is older. Puts of the same
//! key between two fences, on hosts that do not know of each other's, have no order of their own; one of them wins, the same for
//! everybody.

mod fence;
mod parts;
#[cfg(test)]
mod tests;
mod wants;

use std::collections::BTreeMap;

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::Place;
use crate::contract::{CallId, Effect, KeyScope, Outcome};
use crate::error::CommError;
use parts::Parts;
use wants::{Asker, Want};

/// The longest key.
const LONGEST: usize = 64 << 10;

/// Which of two values of a key is the later: the greater one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Version {
    /// How many fences its host had passed.
    fences: u64,
    /// Greater than in everything its leader had seen.
    count: u64,
    /// The leader of its host; nobody is the front end.
    leader: Option<Rank>,
}

/// What is said about keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Keys {
    /// To whoever keeps values for the sender: a value of this length.
    Put { key: String, spread: KeyScope, length: u64 },
    /// Upwards: this has been put here or below, and is sparse.
    Announce { key: String, version: Version },
    /// Where is it?
    Fetch(Question),
    /// Nobody here asks any more.
    Forget { key: String, wait: bool },
    /// What has come of a question, as known after so many fences, with a value of this length.
    Answer { to: Question, fences: u64, answer: Answer, length: u64 },
    /// Upwards: what was announced is gone, with those who had it.
    Gone { key: String, version: Version },
    /// Downwards, to what was announced: a later value was known here, and is gone. Be later than that.
    Raise { key: String, over: Version },
    /// More of the value that the last message has begun.
    More,
}

/// A question for a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Question {
    key: String,
    /// If nobody has put it: whether to wait until somebody does.
    wait: bool,
    /// Which of the sender's questions it is. A later one for the same takes its place.
    nth: u64,
    /// How many fences the sender has passed; he wants nothing older.
    fences: u64,
}

/// What has come of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// A value.
    Value(Version),
    /// A dense value that no fence has taken to the others yet: they must not keep it, as nobody would tell them of its end.
    Draft(Version),
    /// From above: nobody has put it. From below: it is not here any more.
    Nothing,
    /// This one is gone.
    Lost(Version),
    /// Nobody can be asked: the way up is gone.
    CutOff,
}

/// What a node knows of a key.
#[derive(Clone, Debug)]
struct Known {
    version: Version,
    at: At,
}

/// Where a value is.
#[derive(Clone, Debug)]
enum At {
    /// Here: it was put on this host, has come with a fence, or was asked for.
    Here(Bytes),
    /// Behind this link.
    Below(LinkId),
    /// It was below, and is gone. Only the top keeps that in mind.
    Gone,
}

/// Whose keys a process goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Its own.
    Keeper,
    /// Those of whoever is at the other end of this link.
    Client(Option<LinkId>),
}

fn role(place: &Place) -> Role {
    let topology = &place.topology;
    if topology.local {
        Role::Client(Some(LinkId::PARENT))
    } else if topology.me.is_none() && !topology.top {
        Role::Client(topology.branches.first().map(|branch| branch.link))
    } else {
        Role::Keeper
    }
}

/// The keys that a process knows.
#[derive(Debug, Default)]
pub(crate) struct Store {
    known: BTreeMap<String, Known>,
    /// What is asked for: by those who take no for an answer, and by those who wait.
    wanted: [BTreeMap<String, Want>; 2],
    /// Questions that were faster than a fence.
    early: Vec<(LinkId, Question)>,
    /// How many questions have been asked from here.
    questions: u64,
    parts: Parts,
    /// How many fences have been passed here.
    fences: u64,
    /// The highest of each that was seen in a version.
    seen: (u64, u64),
    fence: fence::Fence,
    /// Why nobody can be asked any more.
    cut_off: Option<CommError>,
}

impl Store {
    /// Values are handed over as they are put, so nobody has to stay for them.
    #[allow(clippy::unused_self, reason = "it is one of several that are asked")]
    pub(crate) const fn is_quiet(&self) -> bool {
        true
    }

    pub(crate) fn put(
        &mut self,
        id: CallId,
        key: String,
        value: Bytes,
        spread: KeyScope,
        place: &Place,
        out: &mut Vec<Effect>,
    ) {
        let done = match (too_long(&key), role(place)) {
            (Err(error), _) => Err(error),
            (Ok(()), Role::Keeper) => {
                self.keep(key, value, spread, place, out);
                Ok(Outcome::Done)
            }
            (Ok(()), Role::Client(Some(link))) if self.cut_off.is_none() => {
                let length = value.len() as u64;
                let put = Keys::Put { key: key.clone(), spread, length };
                parts::send(link, put, value, out);
                // What was asked before may be answered already, with an older value.
                self.ask_again(&key, place, out);
                Ok(Outcome::Done)
            }
            (Ok(()), Role::Client(_)) => Err(self.cut_off()),
        };
        out.push(Effect::Finish(id, done));
    }

    #[allow(clippy::needless_pass_by_value, reason = "a call brings it along")]
    pub(crate) fn get(&mut self, id: CallId, key: String, wait: bool, place: &Place, out: &mut Vec<Effect>) {
        match too_long(&key) {
            Err(error) => out.push(Effect::Finish(id, Err(error))),
            Ok(()) => self.join(&key, wait, Asker::Call(id), place, out),
        }
    }

    /// The program does not wait for this call any more; whether it was one of these.
    pub(crate) fn cancel(&mut self, id: CallId, _: &Place, out: &mut Vec<Effect>) -> bool {
        for wait in [false, true] {
            let mut open = self.wanted[usize::from(wait)].iter();
            let found = open.find(|(_, want)| want.askers.contains(&Asker::Call(id)));
            if let Some(key) = found.map(|(key, _)| key.clone()) {
                self.forget(&key, wait, Asker::Call(id), out);
                return true;
            }
        }
        false
    }

    pub(crate) fn heard(
        &mut self,
        link: LinkId,
        message: Keys,
        cargo: Bytes,
        place: &Place,
        out: &mut Vec<Effect>,
    ) {
        let Some((message, value)) = self.parts.join(link, message, cargo) else { return };
        if let Keys::Answer { to, fences, answer, .. } = message {
            return self.answered(link, &to, fences, answer, &value, place, out);
        }
        if role(place) != Role::Keeper {
            return;
        }
        // The front end asks the top from above, as members of a host ask their leader from below.
        let from_above = link == LinkId::PARENT && !place.topology.top;
        match message {
            Keys::Put { key, spread, .. } if !from_above => self.keep(key, value, spread, place, out),
            Keys::Announce { key, version } if link != LinkId::PARENT => {
                self.announced(link, key, version, place, out);
            }
            Keys::Fetch(question) => self.asked(link, question, place, out),
            Keys::Forget { key, wait } => {
                self.early.retain(|(from, early)| (*from, &early.key, early.wait) != (link, &key, wait));
                self.forget(&key, wait, Asker::Link(link, 0), out);
            }
            Keys::Gone { key, version } if link != LinkId::PARENT => {
                let at = self.known.get(&key).filter(|known| known.version <= version);
                if at.is_some_and(|known| known.at == At::Below(link)) {
                    self.gone(&key, place, out);
                    self.settle(&key, place, out);
                }
            }
            Keys::Raise { key, over } if from_above => self.raise(key, over, place, out),
            _ => {}
        }
    }

    /// A link is gone, and these ranks with it.
    pub(crate) fn cut(&mut self, link: LinkId, ranks: &Ranks, place: &Place, out: &mut Vec<Effect>) {
        let way_up = match role(place) {
            Role::Keeper if place.topology.top => None,
            Role::Keeper => Some(LinkId::PARENT),
            Role::Client(server) => server,
        };
        if way_up == Some(link) {
            self.cut_off = Some(if ranks.is_empty() {
                CommError::FrontEndLost
            } else {
                CommError::PeerLost { ranks: ranks.clone() }
            });
        }
        self.parts.cut(link);
        self.early.retain(|(from, ..)| *from != link);
        let behind = self.known.iter().filter(|(_, known)| known.at == At::Below(link));
        for key in behind.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.gone(&key, place, out);
        }
        self.cut_wants(link, place, out);
    }

    /// A value was put on this host.
    fn keep(&mut self, key: String, value: Bytes, spread: KeyScope, place: &Place, out: &mut Vec<Effect>) {
        let version = self.next_version(place);
        match spread {
            KeyScope::Replicated => self.fence.put(key.clone(), version, value.clone()),
            KeyScope::Local => self.fence.supersede(&key),
        }
        self.learn(&key, version, At::Here(value), place);
        // Questions that this answers are taken back before the announcement, so that none of them comes back down.
        self.settle(&key, place, out);
        if spread == KeyScope::Local {
            self.tell_up(Keys::Announce { key, version }, place, out);
        }
    }

    fn announced(
        &mut self,
        link: LinkId,
        key: String,
        version: Version,
        place: &Place,
        out: &mut Vec<Effect>,
    ) {
        if let Some(&Known { version: over, at: At::Gone }) = self.known.get(&key) {
            // The lost value was not of this host's knowing, but what is put after a loss has to count.
            if version < over {
                parts::send(link, Keys::Raise { key, over }, Bytes::new(), out);
                return;
            }
        }
        self.learn(&key, version, At::Below(link), place);
        self.settle(&key, place, out);
        self.tell_up(Keys::Announce { key, version }, place, out);
    }

    fn raise(&mut self, key: String, over: Version, place: &Place, out: &mut Vec<Effect>) {
        self.observe(over);
        let version = self.next_version(place);
        match self.known.get_mut(&key) {
            Some(Known { at: At::Below(link), .. }) => {
                parts::send(*link, Keys::Raise { key, over }, Bytes::new(), out);
            }
            Some(known) if known.version < over => {
                known.version = version;
                self.tell_up(Keys::Announce { key, version }, place, out);
            }
            _ => {}
        }
    }

    /// What was below is gone.
    fn gone(&mut self, key: &str, place: &Place, out: &mut Vec<Effect>) {
        if place.topology.top {
            if let Some(known) = self.known.get_mut(key) {
                known.at = At::Gone;
            }
        } else if let Some((key, Known { version, .. })) = self.known.remove_entry(key) {
            self.tell_up(Keys::Gone { key, version }, place, out);
        }
    }

    /// Something was put, here or below.
    fn learn(&mut self, key: &str, version: Version, at: At, place: &Place) {
        self.observe(version);
        let before = self.known.get(key);
        if place.topology.top && before.is_some() {
            self.fence.put_again(key);
        }
        if before.is_none_or(|known| known.version < version) {
            self.known.insert(key.to_owned(), Known { version, at });
        }
    }

    fn observe(&mut self, version: Version) {
        self.seen = (self.seen.0.max(version.fences), self.seen.1.max(version.count));
    }

    fn next_version(&mut self, place: &Place) -> Version {
        self.seen = (self.seen.0.max(self.fences), self.seen.1.saturating_add(1));
        Version { fences: self.seen.0, count: self.seen.1, leader: place.topology.me }
    }

    fn tell_up(&self, message: Keys, place: &Place, out: &mut Vec<Effect>) {
        if !place.topology.top && self.cut_off.is_none() {
            parts::send(LinkId::PARENT, message, Bytes::new(), out);
        }
    }

    fn cut_off(&self) -> CommError {
        self.cut_off.clone().unwrap_or(CommError::FrontEndLost)
    }
}

impl PartialEq for At {
    /// Whether it is the same place; values are not compared.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Below(one), Self::Below(other)) => one == other,
            (Self::Here(_), Self::Here(_)) | (Self::Gone, Self::Gone) => true,
            _ => false,
        }
    }
}

fn too_long(key: &str) -> Result<(), CommError> {
    let length = key.len();
    if length > LONGEST { Err(CommError::LongKey { length, most: LONGEST }) } else { Ok(()) }
}
