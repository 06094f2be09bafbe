//! Collective operations between the front end and all members, as members perform them.
//!
//! | operation | the master | any other member |
//! |---|---|---|
//! | broadcast from the front end | receives a message from the front end, then broadcasts it | a broadcast of the master |
//! | gather to the front end | gathers, then sends all parts as one message to the front end | a gather at the master |
//!
//! A broadcast takes its place in the order of collective calls when the master makes it, although
//! its data arrive later. Until then the collective calls that follow are held back here. If no
//! data arrive, the broadcast is aborted: members that wait for it hear that the master has cancelled
//! it, or why the master cannot make it.
//!
//! Which member is the master is decided by the number of the call (`Group::next_master`). While that is
//! open, because the session is not up or calls are halted by a loss, the operation is held back as well,
//! with the collective calls that follow.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use libi_comm::{Address, Bytes, Call, CallId, CommError, Outcome};
use libi_core::ids::Rank;
use libi_core::ranks::Ranks;

use super::comm::PartsByRank;
use crate::talk::{BROADCAST_TAG, GATHER_TAG, encode_parts};

/// What is to be done next.
#[derive(Debug)]
pub(super) enum FrontStep {
    /// Make this call.
    Call(CallId, Call),
    /// Cancel this call.
    Cancel(CallId),
    /// Report the result of this call.
    Finish(CallId, Result<Outcome, CommError>),
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct FrontCalls {
    /// The broadcast whose data are awaited, and the rank of this member.
    awaiting: Option<(CallId, Rank)>,
    /// Collective calls behind it, or behind the first whose master is not known.
    held: VecDeque<(CallId, Held)>,
    /// Held calls that were cancelled.
    cancelled: BTreeSet<CallId>,
    /// Gathers whose parts go to the front end, and the lost members that are missing in them.
    gathers: BTreeMap<CallId, (PartsByRank, Ranks)>,
}

enum Held {
    Call(Call),
    FromFront,
    ToFront(Bytes, PartsByRank),
}

/// The master of a call, and whether this member is that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) master: Rank,
    pub(super) is_here: bool,
}

/// The master of the call that comes after so many others, if it is known.
pub(super) type Turns<'a> = dyn Fn(u64) -> Option<Turn> + 'a;

/// Set in the ids of the messages that belong to a call.
const MESSAGE: u64 = 1 << 63;

fn message_of(id: CallId) -> CallId {
    CallId(id.0 | MESSAGE)
}

impl FrontCalls {
    /// The program makes a call.
    pub(super) fn call(&mut self, id: CallId, call: Call, steps: &mut Vec<FrontStep>) {
        if call.is_collective() && (self.awaiting.is_some() || !self.held.is_empty()) {
            self.held.push_back((id, Held::Call(call)));
        } else {
            steps.push(FrontStep::Call(id, call));
        }
    }

    /// The program makes a broadcast from the front end.
    pub(super) fn broadcast(&mut self, id: CallId, turns: &Turns<'_>, steps: &mut Vec<FrontStep>) {
        self.held.push_back((id, Held::FromFront));
        self.release(turns, steps);
    }

    /// The program makes a gather to the front end.
    pub(super) fn gather(
        &mut self,
        id: CallId,
        (data, parts): (Bytes, PartsByRank),
        turns: &Turns<'_>,
        steps: &mut Vec<FrontStep>,
    ) {
        self.held.push_back((id, Held::ToFront(data, parts)));
        self.release(turns, steps);
    }

    /// Whether calls wait until it is known who the master is.
    pub(super) fn await_master(&self) -> bool {
        self.awaiting.is_none() && !self.held.is_empty()
    }

    /// The program cancels a call.
    pub(super) fn cancel(&mut self, id: CallId, turns: &Turns<'_>, steps: &mut Vec<FrontStep>) {
        let timed_out = Err(CommError::TimedOut { what: "the call" });
        if let Some((_, me)) = self.awaiting.filter(|(awaiting, _)| *awaiting == id) {
            steps.extend([FrontStep::Cancel(message_of(id)), FrontStep::Finish(id, timed_out)]);
            return self.received((id, me), Err(None), turns, steps);
        }
        if self.held.iter().any(|(held, _)| *held == id) {
            // The other members count this call as well, so it is made in its turn.
            self.cancelled.insert(id);
        } else {
            steps.push(FrontStep::Cancel(id));
            if self.gathers.remove(&id).is_some() {
                steps.push(FrontStep::Cancel(message_of(id)));
            }
        }
        steps.push(FrontStep::Finish(id, timed_out));
    }

    /// Whether [`finished`](Self::finished) has to hear of this call.
    pub(super) fn concerns(&self, id: CallId) -> bool {
        id.0 & MESSAGE != 0 || self.gathers.contains_key(&id)
    }

    /// These lost members are missing in a call that is about to complete.
    pub(super) fn missing(&mut self, id: CallId, ranks: &Ranks) {
        if let Some((_, missing)) = self.gathers.get_mut(&id) {
            missing.clone_from(ranks);
        }
    }

    /// A call is complete.
    pub(super) fn finished(
        &mut self,
        id: CallId,
        result: Result<Outcome, CommError>,
        turns: &Turns<'_>,
        steps: &mut Vec<FrontStep>,
    ) {
        let call = CallId(id.0 & !MESSAGE);
        if id == call {
            let Some((parts, missing)) = self.gathers.remove(&id) else { return };
            let message = result.and_then(|outcome| parts.parts(outcome));
            let message = message.map(|parts| encode_parts(&parts, &missing));
            steps.push(match message {
                Ok(data) => FrontStep::Call(
                    message_of(id),
                    Call::Send { to: Address::FrontEnd, tag: GATHER_TAG, data },
                ),
                Err(error) => FrontStep::Finish(id, Err(error)),
            });
        } else if let Some(awaiting) = self.awaiting.filter(|(awaiting, _)| *awaiting == call) {
            match result {
                Ok(Outcome::Data(data)) => self.received(awaiting, Ok(data), turns, steps),
                Ok(_) => self.received(awaiting, Err(None), turns, steps),
                Err(error) => {
                    steps.push(FrontStep::Finish(call, Err(error.clone())));
                    self.received(awaiting, Err(Some(error)), turns, steps);
                }
            }
        } else {
            steps.push(FrontStep::Finish(call, result));
        }
    }

    /// Makes the broadcast, or aborts it without data, for this error if there is one; then the calls behind
    /// it.
    fn received(
        &mut self,
        (id, me): (CallId, Rank),
        data: Result<Bytes, Option<CommError>>,
        turns: &Turns<'_>,
        steps: &mut Vec<FrontStep>,
    ) {
        self.awaiting = None;
        let call = match data {
            Ok(data) => Call::Broadcast { root: me, data: Some(data), length: None },
            Err(why) => Call::Abort(why),
        };
        steps.push(FrontStep::Call(id, call));
        self.release(turns, steps);
    }

    /// Makes the calls that are held back, up to one that has to wait.
    pub(super) fn release(&mut self, turns: &Turns<'_>, steps: &mut Vec<FrontStep>) {
        let is_collective =
            |step: &&FrontStep| matches!(step, FrontStep::Call(_, call) if call.is_collective());
        let mut ahead = steps.iter().filter(is_collective).count() as u64;
        while self.awaiting.is_none()
            && let Some((id, held)) = self.held.pop_front()
        {
            let turn = turns(ahead);
            let call = match (held, turn) {
                (Held::Call(call), _) => call,
                (held, None) => return self.held.push_front((id, held)),
                (Held::FromFront, Some(Turn { master, is_here: true })) => {
                    if !self.cancelled.contains(&id) {
                        self.awaiting = Some((id, master));
                        let call = Call::Receive { from: Address::FrontEnd, tag: BROADCAST_TAG };
                        return steps.push(FrontStep::Call(message_of(id), call));
                    }
                    Call::Abort(None)
                }
                (Held::FromFront, Some(Turn { master, .. })) => {
                    Call::Broadcast { root: master, data: None, length: None }
                }
                (Held::ToFront(data, parts), Some(Turn { master, is_here })) => {
                    if is_here && !self.cancelled.contains(&id) {
                        self.gathers.insert(id, (parts, Ranks::new()));
                    }
                    Call::Gather { root: master, data, equal: false }
                }
            };
            ahead += 1;
            let is_over = matches!(call, Call::Abort(_));
            steps.push(FrontStep::Call(id, call));
            if self.cancelled.remove(&id) && !is_over {
                steps.push(FrontStep::Cancel(id));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This member is the master.
    fn here(_: u64) -> Option<Turn> {
        Some(Turn { master: Rank(0), is_here: true })
    }

    fn texts(steps: &mut Vec<FrontStep>) -> Vec<String> {
        let text = |step| match step {
            FrontStep::Call(id, Call::Receive { .. }) => format!("receive {}", id.0 & !MESSAGE),
            FrontStep::Call(id, Call::Broadcast { data, .. }) => {
                format!("broadcast {} {}", id.0, data.is_some())
            }
            FrontStep::Call(id, Call::Abort(_)) => format!("broadcast {} false", id.0),
            FrontStep::Call(id, Call::Send { .. }) => format!("send {}", id.0 & !MESSAGE),
            FrontStep::Call(id, _) => format!("call {}", id.0),
            FrontStep::Cancel(id) => format!("cancel {}", id.0 & !MESSAGE),
            FrontStep::Finish(id, result) => format!("finish {} {}", id.0, result.is_ok()),
        };
        steps.drain(..).map(text).collect()
    }

    #[test]
    fn collective_calls_behind_a_broadcast_wait_for_its_data() {
        let (mut calls, mut steps) = (FrontCalls::default(), Vec::new());
        calls.broadcast(CallId(1), &here, &mut steps);
        calls.call(CallId(2), Call::Barrier, &mut steps);
        calls.call(CallId(3), Call::Get { key: "k".into(), wait: true }, &mut steps);
        calls.broadcast(CallId(4), &here, &mut steps);
        calls.call(CallId(5), Call::Barrier, &mut steps);
        assert_eq!(texts(&mut steps), ["receive 1", "call 3"]);
        calls.finished(message_of(CallId(1)), Ok(Outcome::Data(Bytes::new())), &here, &mut steps);
        assert_eq!(texts(&mut steps), ["broadcast 1 true", "call 2", "receive 4"]);
        calls.finished(message_of(CallId(4)), Err(CommError::FrontEndLost), &here, &mut steps);
        assert_eq!(texts(&mut steps), ["finish 4 false", "broadcast 4 false", "call 5"]);
    }

    #[test]
    fn cancelled_calls_are_made_in_their_turn_so_that_all_members_count_the_same() {
        let (mut calls, mut steps) = (FrontCalls::default(), Vec::new());
        calls.broadcast(CallId(1), &here, &mut steps);
        calls.call(CallId(2), Call::Barrier, &mut steps);
        calls.broadcast(CallId(3), &here, &mut steps);
        texts(&mut steps);
        calls.cancel(CallId(2), &here, &mut steps);
        calls.cancel(CallId(3), &here, &mut steps);
        assert_eq!(texts(&mut steps), ["finish 2 false", "finish 3 false"]);
        calls.cancel(CallId(1), &here, &mut steps);
        let made =
            ["cancel 1", "finish 1 false", "broadcast 1 false", "call 2", "cancel 2", "broadcast 3 false"];
        assert_eq!(texts(&mut steps), made);
    }

    #[test]
    fn a_gather_is_complete_when_its_message_is_sent() {
        let (mut calls, mut steps) = (FrontCalls::default(), Vec::new());
        let parts = PartsByRank { size: 1, absent: Ranks::new() };
        calls.gather(CallId(1), (Bytes::new(), parts), &here, &mut steps);
        assert!(texts(&mut steps) == ["call 1"] && calls.concerns(CallId(1)));
        calls.finished(CallId(1), Ok(Outcome::Parts(vec![Bytes::new()])), &here, &mut steps);
        assert_eq!(texts(&mut steps), ["send 1"]);
        calls.finished(message_of(CallId(1)), Ok(Outcome::Done), &here, &mut steps);
        assert_eq!(texts(&mut steps), ["finish 1 true"]);
    }

    #[test]
    fn calls_wait_until_it_is_known_who_the_master_is() {
        let (mut calls, mut steps) = (FrontCalls::default(), Vec::new());
        let parts = || PartsByRank { size: 2, absent: Ranks::new() };
        let (unknown, next) = (|_: u64| None, std::cell::Cell::new(3));
        calls.call(CallId(1), Call::Barrier, &mut steps);
        calls.broadcast(CallId(2), &unknown, &mut steps);
        calls.call(CallId(3), Call::Barrier, &mut steps);
        calls.gather(CallId(4), (Bytes::new(), parts()), &unknown, &mut steps);
        calls.broadcast(CallId(5), &unknown, &mut steps);
        calls.cancel(CallId(3), &unknown, &mut steps);
        assert!(texts(&mut steps) == ["call 1", "finish 3 false"] && calls.await_master());
        // The master is another member in this call and the next two; then it is this one.
        let turns = |ahead: u64| {
            let is_here = next.get() + ahead >= 5;
            Some(Turn { master: Rank(u32::from(is_here)), is_here })
        };
        calls.release(&turns, &mut steps);
        assert_eq!(texts(&mut steps), ["broadcast 2 false", "call 3", "cancel 3", "call 4", "receive 5"]);
        assert!(calls.concerns(CallId(4)) && !calls.concerns(CallId(2)) && !calls.await_master());
        next.set(6);
        calls.finished(message_of(CallId(5)), Ok(Outcome::Data(Bytes::new())), &turns, &mut steps);
        let [FrontStep::Call(_, Call::Broadcast { root, .. })] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(*root, Rank(1));
    }
}
