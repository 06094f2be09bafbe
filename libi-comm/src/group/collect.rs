//! The collective calls of a process: their numbers, who has called, what is over, and why. See the [module above](super).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use libi_core::ranks::Ranks;

use super::Place;
use super::loads::{load_down, load_up, pass_fence, send_load};
use super::op::{Gift, Op, enter};
use super::scene::{Scene, lend};
use crate::contract::{Call, CallId, Effect, Outcome};
use crate::error::{CommError, Fault};
use crate::message::{CallSignature, Flow, Kind, Length, Message, Signs};
use crate::piece::{ALL, Piece};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Collective {
    /// The number of this member's next call.
    next: u64,
    /// Before which call each branch has called everything.
    entered: BTreeMap<LinkId, u64>,
    open: BTreeMap<u64, Op>,
    /// Calls that are over before this member has made them, and why.
    broken: BTreeMap<u64, Fault>,
    over: Over,
    /// Of fences that are over here and were decided, what has come.
    late: BTreeMap<u64, Vec<u8>>,
    /// Who was lost, and from which call on he is missing.
    missing: Vec<(u64, Ranks)>,
    /// This member's calls in their order, and what has come of them: nothing is said of one before all that were made before it.
    results: VecDeque<(u64, CallId, Option<Verdict>)>,
}

type Verdict = Result<Outcome, CommError>;

/// Which calls are over: all before a number, and some behind it.
#[derive(Debug, Default)]
struct Over {
    before: u64,
    others: BTreeSet<u64>,
}

impl Over {
    fn contains(&self, nth: u64) -> bool {
        nth < self.before || self.others.contains(&nth)
    }

    fn add(&mut self, nth: u64) {
        if nth >= self.before {
            self.others.insert(nth);
        }
        while self.others.remove(&self.before) {
            self.before += 1;
        }
    }
}

impl Collective {
    pub(crate) fn up(&mut self, place: &Place) {
        self.entered = place.topology.branches.iter().map(|branch| (branch.link, 0)).collect();
    }

    /// Nothing is on its way through this process, nor has it anything to say itself.
    pub(crate) fn is_quiet(&self) -> bool {
        self.open.values().all(|op| !op.done || op.lanes.is_empty())
    }

    /// How many calls are not over for this process.
    #[cfg(test)]
    pub(crate) fn open_calls(&self) -> usize {
        self.open.len()
    }

    /// This member calls.
    pub(crate) fn call(&mut self, id: CallId, call: Call, me: Rank, on: &mut Scene<'_>) {
        let nth = self.next;
        self.next += 1;
        self.results.push_back((nth, id, None));
        if let Some(why) = self.broken.remove(&nth) {
            return self.tell(nth, Err(why.into_error(nth)), on);
        }
        if let Some(ranks) = self.missing_at(nth) {
            return self.tell(nth, Err(CommError::PeerLost { ranks }), on);
        }
        let (called, gift) = match enter(call, me, on.place) {
            Ok(entered) => entered,
            Err(why) => {
                // The others would wait for this member.
                let fault = match &why {
                    CommError::PeerLost { ranks } => Fault::Lost(ranks.clone()),
                    _ => Fault::Cancelled(me),
                };
                self.tell(nth, Err(why), on);
                return self.spread_break(nth, fault, None, on);
            }
        };
        if let Some(fault) = self.join(nth, (me, called), on.place) {
            return self.spread_break(nth, fault, None, on);
        }
        let Some(op) = self.open.get_mut(&nth) else { return };
        op.mine = Some(id);
        let given = match &gift {
            Gift::One(bytes) => Some(Piece::whole(me.0, ALL, bytes.clone())),
            _ => None,
        };
        if let Some(piece) = &given {
            op.share(piece.item, on.memory, on.place);
        }
        let contributed = op.contribute(gift, me, on.place);
        let lent = contributed.and_then(|()| given.map_or(Ok(None), |piece| op.fill(&piece)));
        if let Err(why) = lent.map(|lent| lend(nth, op.by, lent, on)) {
            return self.fail(nth, why, on);
        }
        self.go_on(nth, on);
    }

    /// Nobody waits for this call any more; whether it is a collective one.
    pub(crate) fn cancel(&mut self, id: CallId, me: Rank, on: &mut Scene<'_>) -> bool {
        let Some(&(nth, _, ref result)) = self.results.iter().find(|(_, other, _)| *other == id) else {
            return false;
        };
        if result.is_none() {
            self.spread_break(nth, Fault::Cancelled(me), None, on);
        }
        true
    }

    /// Something of a collective call has come over a link.
    pub(crate) fn heard(&mut self, link: LinkId, flow: &Flow, cargo: Bytes, on: &mut Scene<'_>) {
        let Flow { nth, by, signs } = *flow;
        let whole = !signs.more;
        let is_open = !self.over.contains(nth) && self.missing_at(nth).is_none();
        let fault = if is_open { self.join(nth, by, on.place) } else { None };
        if signs.entered
            && whole
            && let Some(entered) = self.entered.get_mut(&link)
            && *entered <= nth
        {
            *entered = nth + 1;
            if let Some(op) = self.open.get_mut(&nth) {
                op.waits_for = op.waits_for.saturating_sub(1);
            }
        }
        if let Some(fault) = fault {
            return self.spread_break(nth, fault, None, on);
        }
        if !is_open {
            return self.pass_late_fence(link, flow, &cargo, on);
        }
        if let Err(why) = self.unload(nth, link, cargo, signs, on) {
            return self.fail(nth, why, on);
        }
        if signs.done && whole && Some(link) == on.place.above() {
            self.everybody_called(nth, on);
        }
        self.go_on(nth, on);
    }

    /// A fence that was broken off here after the top had decided it: it counts for keys all the same, here and below, or
    /// those who have passed it would ask for what others do not have.
    fn pass_late_fence(&mut self, link: LinkId, flow: &Flow, cargo: &[u8], on: &mut Scene<'_>) {
        let Flow { nth, by, signs } = *flow;
        if by.1.kind != Kind::Fence || !signs.done || Some(link) != on.place.above() {
            return;
        }
        self.late.entry(nth).or_default().extend_from_slice(cargo);
        if signs.more {
            return;
        }
        let cargo = Bytes::from(self.late.remove(&nth).unwrap_or_default());
        pass_fence(flow, &cargo, on);
    }

    fn unload(
        &mut self,
        nth: u64,
        link: LinkId,
        mut cargo: Bytes,
        signs: Signs,
        on: &mut Scene<'_>,
    ) -> Result<(), CommError> {
        let Some(op) = self.open.get_mut(&nth) else { return Ok(()) };
        if matches!(op.by.1.kind, Kind::Ring | Kind::Fence) {
            op.cargo.entry(link).or_default().extend_from_slice(&cargo);
            return Ok(());
        }
        if signs.wants {
            op.lanes.wanted(link);
        }
        while !cargo.is_empty() {
            let piece = Piece::take(&mut cargo).map_err(|_| CommError::Protocol("no piece"))?;
            op.share(piece.item, on.memory, on.place);
            op.receive(link, piece.clone(), on.place)?;
            let lent = op.fill(&piece)?;
            lend(nth, op.by, lent, on);
        }
        Ok(())
    }

    /// Memory has been lent to this process that holds all of a call's data.
    pub(crate) fn borrowed(&mut self, link: LinkId, flow: &Flow, bytes: Option<Bytes>, on: &mut Scene<'_>) {
        let Flow { nth, by, .. } = *flow;
        if self.over.contains(nth) || self.missing_at(nth).is_some() {
            return;
        }
        if let Some(fault) = self.join(nth, by, on.place) {
            return self.spread_break(nth, fault, None, on);
        }
        let root = by.1.root.unwrap_or(by.0);
        let Some(bytes) = bytes else {
            return self.fail(nth, CommError::Protocol("a loan of nothing, or of what can be changed"), on);
        };
        let taken = self.open.get_mut(&nth).map(|op| op.borrow(link, root, bytes));
        match taken {
            Some(Err(why)) => self.fail(nth, why, on),
            _ => self.go_on(nth, on),
        }
    }

    /// More may be sent.
    pub(crate) fn granted(&mut self, link: LinkId, nth: u64, upto: u64, on: &mut Scene<'_>) {
        if let Some(op) = self.open.get_mut(&nth) {
            op.lanes.allow(link, upto);
            self.go_on(nth, on);
        }
    }

    /// Notes that somebody has called, and what; the fault, if that does not fit with what others have.
    fn join(&mut self, nth: u64, by: (Rank, CallSignature), place: &Place) -> Option<Fault> {
        let waits_for = || self.entered.values().filter(|entered| **entered <= nth).count();
        let op = self.open.entry(nth).or_insert_with(|| Op::new(by, waits_for(), place));
        if !op.by.1.matches(&by.1) {
            return Some(Fault::Mismatch(op.by, by));
        }
        if op.by.1.length == Length::Unknown {
            op.by = by;
        }
        None
    }

    /// What follows from whatever has happened to a call.
    fn go_on(&mut self, nth: u64, on: &mut Scene<'_>) {
        let Some(op) = self.open.get_mut(&nth) else { return };
        let here = op.mine.is_some() || on.place.topology.me.is_none();
        if here && !op.entered && op.waits_for == 0 {
            op.entered = true;
            match on.place.above() {
                Some(parent) => {
                    if let Err(why) = load_up(op, parent, on) {
                        return self.fail(nth, why, on);
                    }
                    op.to_tell.insert(parent);
                }
                None => self.everybody_called(nth, on),
            }
        }
        self.send(nth, on);
        let Some(op) = self.open.get_mut(&nth) else { return };
        if let Some(outcome) = op.result(on.place) {
            self.tell(nth, Ok(outcome), on);
        }
        if self.open.get(&nth).is_some_and(|op| op.is_over(on.place))
            && let Some(op) = self.open.remove(&nth)
        {
            self.over.add(nth);
            // What still comes is for those who are lost, and dropped: whoever sends it is not to wait until there is room.
            for link in op.lanes.unfinished() {
                on.out.push(Effect::Send(link, Message::Grant { nth, upto: u64::MAX }.frame(None)));
            }
        }
    }

    fn everybody_called(&mut self, nth: u64, on: &mut Scene<'_>) {
        let Some(op) = self.open.get_mut(&nth).filter(|op| !op.done) else { return };
        op.done = true;
        op.to_tell.extend(self.entered.keys());
        if let Err(why) = load_down(op, on) {
            self.fail(nth, why, on);
        }
    }

    /// Sends what can be sent.
    fn send(&mut self, nth: u64, on: &mut Scene<'_>) {
        let Some(op) = self.open.get_mut(&nth) else { return };
        let to_tell = std::mem::take(&mut op.to_tell);
        let flow = |op: &Op, link| {
            let sign = to_tell.contains(&link);
            let up = link == LinkId::PARENT;
            let signs = Signs { entered: sign && up, done: sign && !up, ..Signs::default() };
            Flow { nth, by: op.by, signs }
        };
        for link in to_tell.iter().copied().filter(|link| !op.lanes.out.contains_key(link)) {
            let load = op.load.remove(&link).unwrap_or_default();
            send_load(link, &flow(op, link), load, on.out);
        }
        // Before anything goes, so that nobody counts as waiting who can be granted more; and again for what has gone then.
        grant(nth, op, on.out);
        let links: Vec<_> = op.lanes.out.keys().copied().collect();
        for link in links {
            let mut next = flow(op, link);
            let mut must = next.signs.entered || next.signs.done;
            while let Some(frame) = op.lanes.next_frame(link, next.clone(), must) {
                on.out.push(Effect::Send(link, frame));
                (must, next.signs) = (false, Signs::default());
            }
        }
        grant(nth, op, on.out);
        let plain = Flow { nth, by: op.by, signs: Signs::default() };
        while let Some((link, frame)) = op.lanes.relief(&plain) {
            on.out.push(Effect::Send(link, frame));
            grant(nth, op, on.out);
        }
    }

    /// This process cannot go on with a call: nobody can.
    fn fail(&mut self, nth: u64, why: CommError, on: &mut Scene<'_>) {
        let by = on.place.topology.me.unwrap_or(Rank(0));
        self.tell(nth, Err(why), on);
        self.spread_break(nth, Fault::Cancelled(by), None, on);
    }

    /// A call is over for everybody; they are told, but for whoever has said so.
    pub(crate) fn spread_break(&mut self, nth: u64, why: Fault, from: Option<LinkId>, on: &mut Scene<'_>) {
        if self.over.contains(nth) || self.missing_at(nth).is_some() {
            return;
        }
        self.over.add(nth);
        let begun = self.open.remove(&nth).and_then(|mut op| op.cargo.remove(&LinkId::PARENT));
        self.late.extend(begun.map(|cargo| (nth, cargo)));
        let frame = Message::Broken { nth, why: why.clone() }.frame(None);
        on.spread(&frame, from);
        if nth >= self.next {
            self.broken.insert(nth, why);
        } else {
            self.tell(nth, Err(why.into_error(nth)), on);
        }
    }

    /// These are gone, and have taken part in nothing from this call on.
    pub(crate) fn lost(&mut self, ranks: &Ranks, before: u64, on: &mut Scene<'_>) {
        self.missing.push((before, ranks.clone()));
        let ended = self.open.split_off(&before);
        for nth in ended.into_keys().filter(|nth| *nth < self.next).collect::<Vec<_>>() {
            self.tell(nth, Err(CommError::PeerLost { ranks: ranks.clone() }), on);
        }
    }

    /// A branch is gone. Gives the call from which on it is missing.
    pub(crate) fn cut(&mut self, link: LinkId) -> u64 {
        self.entered.remove(&link).unwrap_or_default()
    }

    /// What calls that everybody in a branch had called lose with it.
    pub(crate) fn drop_branch(&mut self, link: LinkId, ranks: &Ranks, on: &mut Scene<'_>) {
        for nth in self.open.keys().copied().collect::<Vec<_>>() {
            let Some(op) = self.open.get_mut(&nth) else { continue };
            op.to_tell.remove(&link);
            if op.lanes.cut(link) > 0 {
                self.spread_break(nth, Fault::Lost(ranks.clone()), None, on);
            } else {
                self.go_on(nth, on);
            }
        }
    }

    /// Who is missing in a call.
    fn missing_at(&self, nth: u64) -> Option<Ranks> {
        let mut all = Ranks::new();
        self.missing.iter().filter(|(before, _)| nth >= *before).for_each(|(_, ranks)| all.add_all(ranks));
        (!all.is_empty()).then_some(all)
    }

    /// Notes what came of this member's call, and says it when its turn has come.
    fn tell(&mut self, nth: u64, result: Verdict, on: &mut Scene<'_>) {
        if let Some(entry) = self.results.iter_mut().find(|entry| entry.0 == nth) {
            entry.2.get_or_insert(result);
        }
        while let Some((_, id, Some(_))) = self.results.front() {
            let id = *id;
            if let Some((_, _, Some(result))) = self.results.pop_front() {
                on.out.push(Effect::Finish(id, result));
            }
        }
    }
}

/// Tells those who may send more.
fn grant(nth: u64, op: &mut Op, out: &mut Vec<Effect>) {
    for (link, upto) in op.lanes.grants() {
        out.push(Effect::Send(link, Message::Grant { nth, upto }.frame(None)));
    }
}
