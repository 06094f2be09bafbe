//! Collective operations between the front end and all members, as the master performs them.
//!
//! | operation | the master |
//! |---|---|
//! | broadcast from the front end | receives a message from the front end, then broadcasts it |
//! | gather to the front end | gathers, then sends all parts as one message to the front end |
//!
//! A broadcast takes its place in the order of collective calls when the master makes it, although
//! its data arrive later. Until then the collective calls that follow are held back here. If no
//! data arrive, the broadcast is aborted: members that wait for it hear that the master has cancelled
//! it, or why the master cannot make it.
//!
//! Other members make an ordinary broadcast or gather with the master as root.

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
    /// The broadcast whose data are awaited.
    awaiting: Option<CallId>,
    /// Collective calls behind it.
    held: VecDeque<(CallId, Held)>,
    /// Held calls that were cancelled.
    cancelled: BTreeSet<CallId>,
    /// Gathers whose parts go to the front end, and the lost members that are missing in them.
    gathers: BTreeMap<CallId, (PartsByRank, Ranks)>,
}

enum Held {
    Call(Call),
    FromFront,
}

/// Set in the ids of the messages that belong to a call.
const MESSAGE: u64 = 1 << 63;

fn message_of(id: CallId) -> CallId {
    CallId(id.0 | MESSAGE)
}

impl FrontCalls {
    /// The program makes a call.
    pub(super) fn call(&mut self, id: CallId, call: Call, steps: &mut Vec<FrontStep>) {
        if call.is_collective() && self.awaiting.is_some() {
            self.held.push_back((id, Held::Call(call)));
        } else {
            steps.push(FrontStep::Call(id, call));
        }
    }

    /// The program makes a broadcast from the front end.
    pub(super) fn broadcast(&mut self, id: CallId, steps: &mut Vec<FrontStep>) {
        self.held.push_back((id, Held::FromFront));
        self.release(steps);
    }

    /// The program makes a gather to the front end.
    pub(super) fn gather(&mut self, id: CallId, data: Bytes, parts: PartsByRank, steps: &mut Vec<FrontStep>) {
        self.gathers.insert(id, (parts, Ranks::new()));
        self.call(id, Call::Gather { root: Rank(0), data, equal: false }, steps);
    }

    /// The program cancels a call.
    pub(super) fn cancel(&mut self, id: CallId, steps: &mut Vec<FrontStep>) {
        let timed_out = Err(CommError::TimedOut { what: "the call" });
        if self.awaiting == Some(id) {
            steps.extend([FrontStep::Cancel(message_of(id)), FrontStep::Finish(id, timed_out)]);
            return self.received(id, Err(None), steps);
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
        } else if self.awaiting == Some(call) {
            match result {
                Ok(Outcome::Data(data)) => self.received(call, Ok(data), steps),
                Ok(_) => self.received(call, Err(None), steps),
                Err(error) => {
                    steps.push(FrontStep::Finish(call, Err(error.clone())));
                    self.received(call, Err(Some(error)), steps);
                }
            }
        } else {
            steps.push(FrontStep::Finish(call, result));
        }
    }

    /// Makes the broadcast, or aborts it without data, for this error if there is one; then the calls behind
    /// it.
    fn received(&mut self, id: CallId, data: Result<Bytes, Option<CommError>>, steps: &mut Vec<FrontStep>) {
        self.awaiting = None;
        let call = match data {
            Ok(data) => Call::Broadcast { root: Rank(0), data: Some(data), length: None },
            Err(why) => Call::Abort(why),
        };
        steps.push(FrontStep::Call(id, call));
        self.release(steps);
    }

    fn release(&mut self, steps: &mut Vec<FrontStep>) {
        while self.awaiting.is_none()
            && let Some((id, held)) = self.held.pop_front()
        {
            let is_cancelled = self.cancelled.remove(&id);
            match held {
                Held::Call(call) => {
                    steps.push(FrontStep::Call(id, call));
                    if is_cancelled {
                        self.gathers.remove(&id);
                        steps.push(FrontStep::Cancel(id));
                    }
                }
                Held::FromFront if is_cancelled => steps.push(FrontStep::Call(id, Call::Abort(None))),
                Held::FromFront => {
                    self.awaiting = Some(id);
                    let call = Call::Receive { from: Address::FrontEnd, tag: BROADCAST_TAG };
                    steps.push(FrontStep::Call(message_of(id), call));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        calls.broadcast(CallId(1), &mut steps);
        calls.call(CallId(2), Call::Barrier, &mut steps);
        calls.call(CallId(3), Call::Get { key: "k".into(), wait: true }, &mut steps);
        calls.broadcast(CallId(4), &mut steps);
        calls.call(CallId(5), Call::Barrier, &mut steps);
        assert_eq!(texts(&mut steps), ["receive 1", "call 3"]);
        calls.finished(message_of(CallId(1)), Ok(Outcome::Data(Bytes::new())), &mut steps);
        assert_eq!(texts(&mut steps), ["broadcast 1 true", "call 2", "receive 4"]);
        calls.finished(message_of(CallId(4)), Err(CommError::FrontEndLost), &mut steps);
        assert_eq!(texts(&mut steps), ["finish 4 false", "broadcast 4 false", "call 5"]);
    }

    #[test]
    fn cancelled_calls_are_made_in_their_turn_so_that_all_members_count_the_same() {
        let (mut calls, mut steps) = (FrontCalls::default(), Vec::new());
        calls.broadcast(CallId(1), &mut steps);
        calls.call(CallId(2), Call::Barrier, &mut steps);
        calls.broadcast(CallId(3), &mut steps);
        texts(&mut steps);
        calls.cancel(CallId(2), &mut steps);
        calls.cancel(CallId(3), &mut steps);
        assert_eq!(texts(&mut steps), ["finish 2 false", "finish 3 false"]);
        calls.cancel(CallId(1), &mut steps);
        let made =
            ["cancel 1", "finish 1 false", "broadcast 1 false", "call 2", "cancel 2", "broadcast 3 false"];
        assert_eq!(texts(&mut steps), made);
    }

    #[test]
    fn a_gather_is_complete_when_its_message_is_sent() {
        let (mut calls, mut steps) = (FrontCalls::default(), Vec::new());
        let parts = PartsByRank { size: 1, absent: Ranks::new() };
        calls.gather(CallId(1), Bytes::new(), parts, &mut steps);
        assert!(texts(&mut steps) == ["call 1"] && calls.concerns(CallId(1)));
        calls.finished(CallId(1), Ok(Outcome::Parts(vec![Bytes::new()])), &mut steps);
        assert_eq!(texts(&mut steps), ["send 1"]);
        calls.finished(message_of(CallId(1)), Ok(Outcome::Done), &mut steps);
        assert_eq!(texts(&mut steps), ["finish 1 true"]);
    }
}
