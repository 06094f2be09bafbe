//! Decides whom a node asks for a key, and who gets the answer.
//!
//! For each key there is one question under way at most, of those who wait and of those who do not each, and its answer is for
//! all who have asked here. Whenever something becomes known of a key, its questions are settled again: answered, or turned to
//! where the value is now.

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::{Answer, At, Keys, Known, Question, Role, Store, parts, role};
use crate::contract::{CallId, Effect, Outcome};
use crate::error::CommError;
use crate::group::Place;

/// Somebody who waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asker {
    Call(CallId),
    /// With the number of its question.
    Link(LinkId, u64),
}

impl PartialEq for Asker {
    /// Whether it is the same one, with whatever question.
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Call(one), Self::Call(other)) => one == other,
            (Self::Link(one, _), Self::Link(other, _)) => one == other,
            _ => false,
        }
    }
}

/// A question.
#[derive(Debug, Default)]
pub(super) struct Want {
    pub(super) askers: Vec<Asker>,
    /// Who has been asked, and has not answered yet, and the number of the question.
    asked: Option<(LinkId, u64)>,
    /// How many fences had been passed here when the last of them asked: what was known before is too old.
    fences: u64,
}

/// What can be done about a question.
enum Way {
    Tell(Answer, Bytes),
    Ask(LinkId),
    /// To wait until somebody puts it.
    Wait,
}

impl Store {
    fn way(&self, key: &str, wait: bool, place: &Place) -> Way {
        let up = match role(place) {
            Role::Client(link) => link,
            Role::Keeper => match self.known.get(key) {
                Some(known) => match &known.at {
                    At::Here(value) if self.fence.is_draft(key, known.version) => {
                        return Way::Tell(Answer::Draft(known.version), value.clone());
                    }
                    At::Here(value) => return Way::Tell(Answer::Value(known.version), value.clone()),
                    At::Below(link) => return Way::Ask(*link),
                    At::Gone => return Way::Tell(Answer::Lost(known.version), Bytes::new()),
                },
                None if !place.topology.top => Some(LinkId::PARENT),
                None if wait => return Way::Wait,
                None => return Way::Tell(Answer::Nothing, Bytes::new()),
            },
        };
        match up.filter(|_| self.cut_off.is_none()) {
            Some(link) => Way::Ask(link),
            None => Way::Tell(Answer::CutOff, Bytes::new()),
        }
    }

    /// A node asks.
    pub(super) fn asked(&mut self, link: LinkId, question: Question, place: &Place, out: &mut Vec<Effect>) {
        if question.fences > self.fences {
            self.early.push((link, question));
            return;
        }
        let Question { key, wait, nth, .. } = question;
        // All that he has announced has come before; if he asks, it is not there any more.
        self.not_below(link, &key);
        self.join(&key, wait, Asker::Link(link, nth), place, out);
    }

    pub(super) fn join(&mut self, key: &str, wait: bool, asker: Asker, place: &Place, out: &mut Vec<Effect>) {
        let want = self.wanted[usize::from(wait)].entry(key.to_owned()).or_default();
        want.fences = self.fences;
        match want.askers.iter_mut().find(|one| **one == asker) {
            Some(one) => *one = asker,
            None => want.askers.push(asker),
        }
        self.settle(key, place, out);
    }

    /// Does what can be done now for those who want this key.
    pub(super) fn settle(&mut self, key: &str, place: &Place, out: &mut Vec<Effect>) {
        for wait in [false, true] {
            let Some((key, mut want)) = self.wanted[usize::from(wait)].remove_entry(key) else { continue };
            let way = self.way(&key, wait, place);
            let next = if let Way::Ask(link) = way { Some(link) } else { None };
            if next == Some(LinkId::PARENT) {
                // Whoever is above has asked because it was below.
                let above = want.askers.iter().position(|&asker| asker == Asker::Link(LinkId::PARENT, 0));
                if let Some(at) = above {
                    let asker = want.askers.swap_remove(at);
                    self.tell(asker, &key, wait, self.fences, Answer::Nothing, &Bytes::new(), out);
                }
            }
            self.turn(&key, wait, &mut want, next, out);
            if let Way::Tell(answer, value) = way {
                for asker in want.askers {
                    self.tell(asker, &key, wait, self.fences, answer, &value, out);
                }
            } else if !want.askers.is_empty() {
                self.wanted[usize::from(wait)].insert(key, want);
            }
        }
    }

    /// Sees to it that the question is asked there, and only there.
    fn turn(&mut self, key: &str, wait: bool, want: &mut Want, next: Option<LinkId>, out: &mut Vec<Effect>) {
        let next = next.filter(|_| !want.askers.is_empty());
        let now = want.asked.map(|(link, _)| link);
        if now == next {
            return;
        }
        if let Some(link) = now {
            parts::send(link, Keys::Forget { key: key.to_owned(), wait }, Bytes::new(), out);
        }
        want.asked = next.map(|link| {
            self.questions = self.questions.wrapping_add(1);
            let nth = self.questions;
            let question = Question { key: key.to_owned(), wait, nth, fences: self.fences };
            parts::send(link, Keys::Fetch(question), Bytes::new(), out);
            (link, nth)
        });
    }

    /// Asks anew what has been asked; answers that are under way do not count any more.
    pub(super) fn ask_again(&mut self, key: &str, place: &Place, out: &mut Vec<Effect>) {
        for open in &mut self.wanted {
            if let Some(want) = open.get_mut(key) {
                want.asked = None;
            }
        }
        self.settle(key, place, out);
    }

    /// Somebody who was asked has answered.
    #[allow(clippy::too_many_arguments, reason = "it is what an answer consists of")]
    pub(super) fn answered(
        &mut self,
        link: LinkId,
        question: &Question,
        fences: u64,
        answer: Answer,
        value: &Bytes,
        place: &Place,
        out: &mut Vec<Effect>,
    ) {
        let Question { key, wait, nth, .. } = question;
        let open = &mut self.wanted[usize::from(*wait)];
        let Some(want) = open.get_mut(key).filter(|want| want.asked == Some((link, *nth))) else { return };
        want.asked = None;
        let too_old = fences < want.fences;
        let keeps = role(place) == Role::Keeper;
        let not_there = keeps && link != LinkId::PARENT && answer == Answer::Nothing;
        if not_there || too_old {
            if not_there {
                self.not_below(link, key);
            }
            return self.settle(key, place, out);
        }
        let askers = open.remove(key).map(|want| want.askers).unwrap_or_default();
        if let Answer::Value(version) | Answer::Draft(version) | Answer::Lost(version) = answer {
            self.observe(version);
        }
        if let Answer::Value(version) = answer
            && keeps
            && fences >= self.fences
            && self.known.get(key).is_none_or(|known| known.version <= version)
        {
            self.known.insert(key.clone(), Known { version, at: At::Here(value.clone()) });
        }
        for asker in askers {
            self.tell(asker, key, *wait, fences, answer, value, out);
        }
        self.settle(key, place, out);
    }

    #[allow(clippy::too_many_arguments, reason = "it is what an answer consists of")]
    fn tell(
        &self,
        asker: Asker,
        key: &str,
        wait: bool,
        fences: u64,
        answer: Answer,
        value: &Bytes,
        out: &mut Vec<Effect>,
    ) {
        match asker {
            Asker::Link(link, nth) => {
                let to = Question { key: key.to_owned(), wait, nth, fences };
                let message = Keys::Answer { to, fences, answer, length: value.len() as u64 };
                parts::send(link, message, value.clone(), out);
            }
            Asker::Call(id) => out.push(Effect::Finish(
                id,
                match answer {
                    Answer::Value(_) | Answer::Draft(_) => Ok(Outcome::Found(Some(value.clone()))),
                    Answer::Nothing => Ok(Outcome::Found(None)),
                    Answer::Lost(version) => Err(version.leader.map_or(CommError::FrontEndLost, |rank| {
                        CommError::PeerLost { ranks: [rank].into_iter().collect() }
                    })),
                    Answer::CutOff => Err(self.cut_off()),
                },
            )),
        }
    }

    fn not_below(&mut self, link: LinkId, key: &str) {
        if self.known.get(key).is_some_and(|known| known.at == At::Below(link)) {
            self.known.remove(key);
        }
    }

    /// Somebody does not want an answer any more.
    pub(super) fn forget(&mut self, key: &str, wait: bool, asker: Asker, out: &mut Vec<Effect>) {
        let open = &mut self.wanted[usize::from(wait)];
        let Some(want) = open.get_mut(key) else { return };
        want.askers.retain(|&one| one != asker);
        if want.askers.is_empty() {
            if let Some((link, _)) = want.asked {
                parts::send(link, Keys::Forget { key: key.to_owned(), wait }, Bytes::new(), out);
            }
            open.remove(key);
        }
    }

    /// Nobody will ask or answer over this link any more.
    pub(super) fn cut_wants(&mut self, link: LinkId, place: &Place, out: &mut Vec<Effect>) {
        let asker = Asker::Link(link, 0);
        let (mut unanswered, mut unasked) = (Vec::new(), Vec::new());
        for (open, wait) in self.wanted.iter_mut().zip([false, true]) {
            for (key, want) in open {
                if want.asked.is_some_and(|(asked, _)| asked == link) {
                    want.asked = None;
                    unanswered.push(key.clone());
                }
                if want.askers.contains(&asker) {
                    unasked.push((key.clone(), wait));
                }
            }
        }
        for (key, wait) in unasked {
            self.forget(&key, wait, asker, out);
        }
        for key in unanswered {
            self.settle(&key, place, out);
        }
    }
}
