//! The front end that has the session, as the keeper sees it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant as Clock};

use libi_comm::CallId;
use libi_core::ids::Rank;
use libi_launch::machine::{CommandId, Event as Input, GrowthError};

use super::NUMBER;
use super::kept::{Kept, KeptMessage};
use crate::engine::message_link::MessageLink;
use crate::executor::{CallRequest, Reactor as _};
use crate::front::keeper::link;
use crate::front::keeper::message::{FromKeeper, GrowthAnswer, KeptCall, News, ToKeeper, kept_result};
use crate::front::reactor::FrontReactor;
use crate::front::runtime::{FrontCommand, FrontShared};
use crate::front::session::{SessionStatus, Stage, Told};
use crate::front::{Error, Event};

/// See the [module](self).
pub(super) struct Attached {
    pub(super) link: MessageLink,
    /// The number of its connection.
    pub(super) number: u32,
    told: Told,
    /// Its calls: their numbers there, and the tag of those that receive a message.
    calls: BTreeMap<CallId, (u64, Option<u32>)>,
    /// Messages on their way to it, by the calls that have received them.
    on_their_way: VecDeque<(u64, KeptMessage)>,
    /// Commands whose ends it is to hear of.
    commands: BTreeSet<CommandId>,
    /// The answer to a request to grow that was refused here.
    refused_growth: Option<GrowthAnswer>,
}

impl Attached {
    /// Welcomes a front end.
    pub(super) fn new(link: MessageLink, number: u32, kept: &mut Kept, shared: &FrontShared) -> Self {
        let (told, calls, on_their_way, commands, refused_growth) = Default::default();
        let mut attached = Self { link, number, told, calls, on_their_way, commands, refused_growth };
        attached.link.send(b"");
        let mut locked = shared.lock();
        if let Some(status) = locked.state.sessions.get_mut(&NUMBER) {
            let missed = std::mem::take(&mut kept.missed);
            let snapshot = status.snapshot(&kept.launched, &kept.options, missed, &mut attached.told);
            link::send(&mut attached.link, &FromKeeper::Welcome(Box::new(snapshot)));
        }
        attached
    }

    /// Does what the front end asks for. True if it leaves.
    pub(super) fn on_message(
        &mut self,
        message: ToKeeper,
        kept: &mut Kept,
        shared: &FrontShared,
        commands: &mut VecDeque<FrontCommand>,
    ) -> bool {
        let mut tell = |input| commands.push_back(FrontCommand::Tell(NUMBER, input));
        let with = |what: &mut dyn FnMut(&mut SessionStatus)| {
            shared.lock().state.sessions.get_mut(&NUMBER).map(what);
        };
        match message {
            // It has the session already.
            ToKeeper::Open(_) => {}
            ToKeeper::Call(id, call) => self.call(id, call, kept, shared, commands),
            ToKeeper::Cancel(id) => {
                if let Some((own, _)) = self.calls.iter().find(|(_, (theirs, _))| *theirs == id) {
                    commands.push_back(FrontCommand::Call(CallRequest::Cancel(NUMBER, *own)));
                }
            }
            ToKeeper::HasReceived(id) => self.on_their_way.retain(|(of, _)| *of != id),
            ToKeeper::TookEvent => kept.took(),
            ToKeeper::End(ending) => {
                kept.is_ended = true;
                tell(Input::End(ending));
            }
            ToKeeper::Signal(signal) => tell(Input::Signal(signal)),
            ToKeeper::Spawn(request) => {
                self.commands.insert(request.command);
                with(&mut |status| status.commands.add_as(request.command));
                tell(Input::Spawn(request));
            }
            ToKeeper::SignalCommand(command, hosts, signal) => {
                tell(Input::SignalCommand(command, hosts, signal));
            }
            ToKeeper::Restart(rank, place) => {
                with(&mut |status| {
                    status.restarts.entry(rank).or_default();
                });
                tell(place.map_or(Input::Restart(rank), |place| Input::RestartOn(rank, place)));
            }
            ToKeeper::Grow(request, layout) => {
                let (mut is_asked, mut session) = (false, None);
                with(&mut |status| {
                    session = Some(status.session());
                    is_asked = status.growth.ask((*layout).clone());
                });
                if is_asked {
                    tell(Input::Grow(request));
                } else if let Some(session) = session {
                    // What a front end before has asked for is not over.
                    let why = GrowthError::UnderWay;
                    kept.events.push_back(Event::NotGrown { session, why: why.clone(), hosts: Vec::new() });
                    self.refused_growth = Some(Err((why, Vec::new())));
                }
            }
            ToKeeper::Input(bytes) => {
                with(&mut |status| {
                    if let Some(credit) = &mut status.input_credit {
                        *credit = credit.saturating_sub(bytes.len());
                    }
                });
                tell(Input::Input(bytes));
            }
            ToKeeper::OnLoss(on_loss) => with(&mut |status| status.on_loss = on_loss),
            ToKeeper::Leave => {
                // One that leaves in order knows how the session has ended, if it was told.
                kept.is_ended |= self.told.stage() >= Some(Stage::Done);
                return true;
            }
        }
        false
    }

    fn call(
        &mut self,
        id: u64,
        call: KeptCall,
        kept: &mut Kept,
        shared: &FrontShared,
        commands: &mut VecDeque<FrontCommand>,
    ) {
        let tag = match &call {
            KeptCall::Receive { tag, .. } => Some(*tag),
            KeptCall::Send { .. } => None,
        };
        if let Some(message) = tag.and_then(|tag| kept.message(tag)) {
            return self.deliver(id, message);
        }
        let own = shared.open(NUMBER);
        self.calls.insert(own, (id, tag));
        commands.push_back(FrontCommand::Call(CallRequest::Call(NUMBER, own, call.into_call())));
    }

    /// Sends a message, and keeps it until it has arrived.
    fn deliver(&mut self, id: u64, message: KeptMessage) {
        let finished = FromKeeper::Finished(id, Ok(message.outcome.clone()), message.missing.clone());
        link::send(&mut self.link, &finished);
        self.on_their_way.push_back((id, message));
    }

    /// Tells it what has happened.
    pub(super) fn report(&mut self, kept: &mut Kept, shared: &FrontShared) {
        let mut locked = shared.lock();
        if let Some(status) = locked.state.sessions.get_mut(&NUMBER) {
            let news = self.news(kept, status);
            if !news.is_empty() {
                link::send(&mut self.link, &FromKeeper::News(news));
            }
        }
        drop(locked);
        let done: Vec<_> = self.calls.keys().filter_map(|own| Some((*own, shared.take(*own)?))).collect();
        for (own, result) in done {
            let Some((id, tag)) = self.calls.remove(&own) else { continue };
            match (kept_result(result), tag) {
                ((Ok(outcome), missing), Some(tag)) => {
                    self.deliver(id, KeptMessage { tag, outcome, missing });
                }
                ((result, missing), _) => {
                    link::send(&mut self.link, &FromKeeper::Finished(id, result, missing));
                }
            }
        }
        self.link.flush();
    }

    fn news(&mut self, kept: &mut Kept, status: &mut SessionStatus) -> News {
        let answered = |(rank, answer): (&Rank, &Option<_>)| Some((*rank, answer.clone()?));
        let restarts: Vec<_> = status.restarts.iter().filter_map(answered).collect();
        for (rank, _) in &restarts {
            status.restarts.remove(rank);
        }
        let of_node = |error| match error {
            Error::NotGrown { why, hosts } => (why, hosts),
            // The answer of a node is always one of these.
            _ => (GrowthError::Ending, Vec::new()),
        };
        let answer = status.growth.take_answer().map(|answer| answer.map_err(of_node));
        let ended = |id: &CommandId| Some((*id, status.commands.report(*id)?.processes().to_vec()));
        let commands: Vec<_> = self.commands.iter().filter_map(ended).collect();
        for (id, _) in &commands {
            self.commands.remove(id);
            status.commands.forget(*id);
        }
        let events = kept.events.range(kept.sent..).cloned().collect();
        kept.sent = kept.events.len();
        let growth = answer.or_else(|| self.refused_growth.take());
        News { parts: status.changes(&mut self.told), events, restarts, growth, commands }
    }

    /// It has gone: what has not arrived there is kept for the next one. Returns its connection.
    pub(super) fn leave(
        self,
        kept: &mut Kept,
        shared: &FrontShared,
        reactor: &mut FrontReactor,
        commands: &mut VecDeque<FrontCommand>,
    ) -> (MessageLink, u32) {
        // Its commands, and among them its calls, come before the end of these.
        reactor.execute(commands);
        kept.sent = 0;
        let receives = |(own, (_, tag)): (&CallId, &(u64, Option<u32>))| tag.map(|tag| (*own, tag));
        let open: Vec<(CallId, u32)> = self.calls.iter().filter_map(receives).collect();
        for (own, _) in &open {
            commands.push_back(FrontCommand::Call(CallRequest::Cancel(NUMBER, *own)));
        }
        reactor.execute(commands);
        for (own, tag) in open {
            if let Some((Ok(outcome), missing)) = shared.take(own).map(kept_result) {
                kept.messages.push_back(KeptMessage { tag, outcome, missing });
            }
        }
        for (_, message) in self.on_their_way.into_iter().rev() {
            kept.messages.push_front(message);
        }
        self.calls.keys().for_each(|own| shared.forget(*own));
        if let Some(status) = shared.lock().state.sessions.get_mut(&NUMBER) {
            status.restarts.clear();
            status.growth.forget_answer();
            self.commands.iter().for_each(|id| status.commands.forget(*id));
        }
        (self.link, self.number)
    }

    /// The keeper ends: waits until the front end has what was sent to it, for a limited time.
    pub(super) fn say_the_last(mut self, timeout: Duration) {
        self.link.drain(Clock::now() + timeout);
    }
}
