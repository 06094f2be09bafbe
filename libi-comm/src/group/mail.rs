//! Decides how a message gets from one process to another.
//!
//! Messages travel along the tree: each process on the way passes frames on as they come, and keeps nothing of them. How
//! much may be on its way is agreed between the two ends.
//!
//! A short message goes at once, as long as what the receiver's program has not yet taken of such messages stays
//! below a limit ([`outbox::AHEAD`]). Any other is only announced; when the program calls for it, the receiver pulls it, in
//! steps, so that no more than a window of it is on its way ([`inbox::WINDOW`]). So a message that nobody receives stays
//! where it was sent, and nothing waits behind it.
//!
//! ```text
//! sender                          receiver
//!   Whole ------------------------->      short: all of it
//!       <-------------------------- Read  so much has been taken; so much more may come unasked
//!
//!   Offer ------------------------->      anything else
//!       <-------------------------- Pull  when there is a call for it; again as bytes come
//!   Chunk ------------------------->
//!   Withdrawn --------------------->      the sender has given up
//!       <-------------------------- Refused
//! ```
//!
//! All frames from one process to another take the same way and stay in order, announcements and short messages too: that
//! is the order in which messages with one tag are received.
//!
//! A send is done when everything has been handed over. If its call is given up before, the message is taken back; a receive
//! that was waiting for the rest ends with an error, and one that had not begun never learns of it. A receive that is given up
//! in the midst of a message uses that message up.
//!
//! Whoever has no way to a receiver says so to the sender.

mod inbox;
mod outbox;

#[cfg(test)]
mod tests;

use bytes::Bytes;
use libi_core::ids::LinkId;
use libi_core::ranks::Ranks;
use serde::{Deserialize, Serialize};

use super::Place;
use crate::contract::{Address, CallId, Effect, Frame, Outcome};
use crate::error::CommError;
use crate::message::Message;
use inbox::Inbox;
use outbox::Outbox;

/// What is said of a message between two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mail {
    from: Address,
    to: Address,
    note: Note,
}

/// What one end says to the other. Messages are numbered by their sender, in the order of its calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Note {
    /// This is a message.
    Whole { id: u64, tag: u32 },
    /// There is a message, and it is so long.
    Offer { id: u64, tag: u32, total: u64 },
    /// Bytes of a message that was pulled.
    Chunk { id: u64, offset: u64 },
    /// The sender has given up.
    Withdrawn { id: u64, tag: u32 },
    /// So many bytes of this message may be sent, counted from its beginning.
    Pull { id: u64, upto: u64 },
    /// No more of this message is to be sent.
    Refused { id: u64, why: ShellError },
    /// The receiver's program has taken so much of what came unasked, counted from the beginning.
    Read { upto: u64 },
    /// From somebody on the way, in place of the one who could not be reached: there is no way.
    Undeliverable,
}

/// Why the rest of a message is not wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum ShellError {
    /// The call for it was given up.
    GivenUp,
    /// There is not as much memory.
    NoMemory,
    /// What came did not fit what was announced.
    Protocol,
}

/// The messages that a process sends and receives, and passes on.
#[derive(Debug, Default)]
pub(crate) struct Office {
    outbox: Outbox,
    inbox: Inbox,
}

impl Office {
    /// Whether everything that was sent here has been handed over. What nobody has pulled has not: it would be lost.
    pub(crate) fn is_quiet(&self) -> bool {
        self.outbox.is_empty()
    }

    pub(crate) fn send(
        &mut self,
        call: CallId,
        to: Address,
        tag: u32,
        data: Bytes,
        place: &Place,
        out: &mut Vec<Effect>,
    ) {
        let mut post = Post { place, out };
        match place.way(to) {
            Ok(Some(_)) => self.outbox.send(call, to, tag, data, &mut post),
            // What a program sends itself is in its memory anyway.
            Ok(None) => {
                post.finish(call, Ok(Outcome::Done));
                self.inbox.own(tag, data, &mut post);
            }
            Err(error) => post.finish(call, Err(error)),
        }
    }

    pub(crate) fn receive(
        &mut self,
        call: CallId,
        from: Address,
        tag: u32,
        place: &Place,
        out: &mut Vec<Effect>,
    ) {
        self.inbox.receive(call, from, tag, &mut Post { place, out });
    }

    /// The program does not wait for this call any more; whether it was one of these.
    pub(crate) fn cancel(&mut self, call: CallId, place: &Place, out: &mut Vec<Effect>) -> bool {
        let mut post = Post { place, out };
        self.outbox.cancel(call, &mut post) || self.inbox.cancel(call, &mut post)
    }

    pub(crate) fn heard(
        &mut self,
        link: LinkId,
        mail: Mail,
        cargo: Bytes,
        place: &Place,
        out: &mut Vec<Effect>,
    ) {
        match place.way(mail.to) {
            Ok(None) => self.here(link, mail, cargo, &mut Post { place, out }),
            Ok(Some(next)) if next != link => out.push(Effect::Send(next, mail.frame(cargo))),
            // Back where it came from is no way either.
            _ => undeliverable(&mail, place, out),
        }
    }

    /// These are gone, as the place knows already.
    pub(crate) fn lost(&mut self, ranks: &Ranks, place: &Place, out: &mut Vec<Effect>) {
        let among = |who: Address| matches!(who, Address::Rank(rank) if ranks.contains(rank));
        self.gone(&among, &mut Post { place, out });
    }

    fn gone(&mut self, among: &dyn Fn(Address) -> bool, post: &mut Post<'_>) {
        self.outbox.gone(among, post);
        self.inbox.gone(among, post);
    }

    /// A frame for this process.
    fn here(&mut self, link: LinkId, mail: Mail, cargo: Bytes, post: &mut Post<'_>) {
        let Mail { from, note, .. } = mail;
        // Nobody else is taken at his word, and of the lost nothing more is to come.
        if !matches!(post.place.way(from), Ok(Some(way)) if way == link) {
            return;
        }
        match note {
            Note::Whole { id, tag } => self.inbox.whole(from, id, tag, cargo, post),
            Note::Offer { id, tag, total } => self.inbox.offered(from, id, tag, total, post),
            Note::Chunk { id, offset } => self.inbox.chunk(from, id, offset, cargo, post),
            Note::Withdrawn { id, tag } => self.inbox.withdrawn(from, id, tag, post),
            Note::Pull { id, upto } => self.outbox.pulled(from, id, upto, post),
            Note::Refused { id, why } => self.outbox.refused(from, id, why, post),
            Note::Read { upto } => self.outbox.read(from, upto),
            // Whoever says so knows of the loss, which will soon be known here; what came before has come.
            Note::Undeliverable => self.gone(&|who| who == from, post),
        }
    }
}

/// Tells the sender that there is no way to the receiver.
fn undeliverable(mail: &Mail, place: &Place, out: &mut Vec<Effect>) {
    if mail.note == Note::Undeliverable {
        return;
    }
    let answer = Mail { from: mail.to, to: mail.from, note: Note::Undeliverable };
    if let Ok(Some(link)) = place.way(answer.to) {
        out.push(Effect::Send(link, answer.frame(Bytes::new())));
    }
}

impl Mail {
    fn frame(self, cargo: Bytes) -> Frame {
        Message::Mail(self).frame((!cargo.is_empty()).then_some(cargo))
    }
}

/// Where what is decided here goes.
struct Post<'a> {
    place: &'a Place,
    out: &'a mut Vec<Effect>,
}

impl Post<'_> {
    /// To somebody elsewhere. If there is no way to him, his loss is known, and all that concerns him over.
    fn mail(&mut self, to: Address, note: Note, cargo: Bytes) {
        if let Ok(Some(link)) = self.place.way(to) {
            let mail = Mail { from: self.place.me(), to, note };
            self.out.push(Effect::Send(link, mail.frame(cargo)));
        }
    }

    fn note(&mut self, to: Address, note: Note) {
        self.mail(to, note, Bytes::new());
    }

    fn finish(&mut self, call: CallId, result: Result<Outcome, CommError>) {
        self.out.push(Effect::Finish(call, result));
    }
}

/// What calls end with that need somebody who is gone.
fn lost(who: Address) -> CommError {
    match who {
        Address::FrontEnd => CommError::FrontEndLost,
        Address::Rank(rank) => CommError::PeerLost { ranks: [rank].into_iter().collect() },
    }
}
