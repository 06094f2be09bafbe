//! A front end's side of sessions that keepers keep: connects to a keeper, passes commands and calls on,
//! and applies what the keeper reports.
//!
//! | state | event | next |
//! |---|---|---|
//! | connecting | an address answers and proves itself | opening: the version and `Open` are sent |
//! | connecting | none does in time | gone; `attach` returns the reason |
//! | opening | the keeper's text is empty, and `Welcome` follows | open; `attach` returns |
//! | opening | the keeper's text is a reason, or the connection ends | gone; `attach` returns the reason |
//! | open | the handle is dropped | leaving: `Leave` is sent |
//! | open | `TakenOver` | leaving: the keeper ends the connection; the session is revoked |
//! | open | the connection ends | gone; the session is revoked: its keeper was killed |
//! | leaving | the connection ends | gone |
//!
//! While a session is open, the reactor's thread or caller applies each message under the lock of the
//! state, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant as Clock};

use libi_comm::{Call, CallId, CommError};
use libi_core::dist::layout::Layout;
use libi_core::time::Instant;
use libi_launch::machine::Event as Input;

use super::link;
use super::message::{FromKeeper, KeptCall, KeptError, KeptOutcome, Launch, ToKeeper, VERSION};
use super::news::{forget_events, hear, revoke};
use super::ticket::Ticket;
use crate::engine::message_link::{Connecting, MessageConnector, MessageLink, Ready};
use crate::engine::{Engine, NodeId};
use crate::front::log_lines::LogLines;
use crate::front::runtime::{FrontShared, FrontState};
use crate::front::session::{SessionNumber, SessionStatus, Stage};

/// How long leaving may take.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// A request to attach to a session.
pub(in crate::front) struct Attachment {
    pub(super) ticket: Ticket,
    pub(super) launch: Option<Box<Launch>>,
    pub(super) timeout: Duration,
}

/// The sessions of a front end that keepers keep.
#[derive(Default)]
pub(in crate::front) struct KeptSessions(BTreeMap<SessionNumber, KeptSession>);

struct KeptSession {
    id: NodeId,
    /// The keeper, in words.
    place: String,
    state: State,
    /// Calls that receive a message, and have no result yet.
    receives: BTreeSet<CallId>,
}

enum State {
    Connecting(MessageConnector, Option<Box<Launch>>),
    /// Whether the text of the keeper has come.
    Opening(MessageLink, bool),
    Open(MessageLink),
    Leaving(MessageLink),
    Gone,
}

impl KeptSessions {
    /// Whether a keeper keeps this session.
    pub(in crate::front) fn has(&self, number: SessionNumber) -> bool {
        self.0.contains_key(&number)
    }

    /// Begins to connect to a keeper.
    pub(in crate::front) fn attach(&mut self, number: SessionNumber, to: Attachment, engine: &mut Engine) {
        let id = engine.outside_id();
        let Attachment { ticket, launch, timeout } = to;
        let connector = engine.connect(id, &ticket.addresses, ticket.key(), timeout);
        let state = State::Connecting(connector, launch);
        self.0.insert(number, KeptSession { id, place: ticket.place(), state, receives: BTreeSet::new() });
    }

    /// When [`turn`](Self::turn) has something to do in any case.
    pub(in crate::front) fn deadline(&self) -> Option<Instant> {
        let deadline = |kept: &KeptSession| match &kept.state {
            State::Connecting(connector, _) => Some(connector.deadline()),
            _ => None,
        };
        self.0.values().filter_map(deadline).min()
    }

    /// Writes what is queued.
    pub(in crate::front) fn flush(&mut self) {
        self.0.values_mut().for_each(KeptSession::flush);
    }

    /// Does what is ready or due.
    pub(in crate::front) fn turn(&mut self, engine: &mut Engine, shared: &FrontShared) {
        if self.0.is_empty() {
            return;
        }
        for ready in engine.take_ready() {
            if let Some((number, kept)) = self.0.iter_mut().find(|(_, kept)| kept.id == ready.id) {
                kept.on_ready(*number, ready, engine, shared);
            }
        }
        let now = engine.now();
        for (number, kept) in &mut self.0 {
            if let State::Connecting(connector, _) = &mut kept.state
                && connector.deadline() <= now
            {
                let connecting = connector.retry(engine);
                kept.connected(*number, connecting, engine, shared);
            }
            kept.flush();
        }
        self.0.retain(|_, kept| {
            let is_gone = matches!(kept.state, State::Gone);
            if is_gone {
                engine.forget_outside_id(kept.id);
            }
            !is_gone
        });
    }

    /// Passes an input of the session on.
    pub(in crate::front) fn tell(&mut self, number: SessionNumber, input: Input, shared: &FrontShared) {
        let message = match input {
            Input::End(ending) => ToKeeper::End(ending),
            Input::Signal(signal) => ToKeeper::Signal(signal),
            Input::Spawn(request) => ToKeeper::Spawn(request),
            Input::SignalCommand(command, hosts, signal) => ToKeeper::SignalCommand(command, hosts, signal),
            Input::Restart(rank) => ToKeeper::Restart(rank, None),
            Input::RestartOn(rank, place) => ToKeeper::Restart(rank, Some(place)),
            Input::Input(bytes) => ToKeeper::Input(bytes),
            Input::Grow(request) => {
                let state = &shared.lock().state;
                let status = state.sessions.get(&number);
                let Some(layout) = status.and_then(|status| status.growth.asked()) else { return };
                ToKeeper::Grow(request, Box::new(layout.clone()))
            }
            // The user's front end sends nothing else; what it has consumed is confirmed by event.
            _ => return,
        };
        self.send(number, &message);
    }

    /// Sends a message to the keeper of a session.
    pub(in crate::front) fn send(&mut self, number: SessionNumber, message: &ToKeeper) {
        if let Some(KeptSession { state: State::Open(link), .. }) = self.0.get_mut(&number) {
            link::send(link, message);
        }
    }

    /// Makes a call.
    pub(in crate::front) fn call(
        &mut self,
        number: SessionNumber,
        id: CallId,
        call: Call,
        shared: &FrontShared,
    ) {
        let receives = matches!(call, Call::Receive { .. });
        match (self.0.get_mut(&number), KeptCall::new(call)) {
            (Some(KeptSession { state: State::Open(link), receives: all, .. }), Some(call)) => {
                if receives {
                    all.insert(id);
                }
                link::send(link, &ToKeeper::Call(id.0, call));
            }
            (_, None) => shared.finish(id, Err(CommError::NotAMember)),
            _ => shared.finish(id, Err(CommError::Ended)),
        }
    }

    /// The user of this session has left.
    pub(in crate::front) fn leave(
        &mut self,
        number: SessionNumber,
        engine: &mut Engine,
        shared: &FrontShared,
    ) {
        let Some(kept) = self.0.get_mut(&number) else { return };
        forget_events(number, &mut shared.lock().state);
        kept.state = match std::mem::replace(&mut kept.state, State::Gone) {
            State::Open(mut link) => {
                link::send(&mut link, &ToKeeper::Leave);
                State::Leaving(link)
            }
            State::Opening(link, _) => {
                engine.close_link(link);
                State::Gone
            }
            other => other,
        };
        if let State::Connecting(connector, _) = &mut kept.state {
            connector.close(engine);
            kept.state = State::Gone;
        }
    }

    /// Leaves all sessions, and waits until that is confirmed, for a limited time.
    pub(in crate::front) fn close(&mut self, engine: &mut Engine, shared: &FrontShared) {
        let numbers: Vec<_> = self.0.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.leave(number, engine, shared));
        let by = Clock::now() + LEAVE_TIMEOUT;
        for (_, kept) in std::mem::take(&mut self.0) {
            let State::Leaving(mut link) = kept.state else { continue };
            link.drain(by);
            engine.close_link(link);
        }
    }
}

impl KeptSession {
    fn flush(&mut self) {
        if let State::Opening(link, _) | State::Open(link) | State::Leaving(link) = &mut self.state {
            link.flush();
        }
    }

    fn on_ready(&mut self, number: SessionNumber, ready: Ready, engine: &mut Engine, shared: &FrontShared) {
        match &mut self.state {
            State::Connecting(connector, _) => {
                let connecting = connector.on_ready(ready, engine);
                self.connected(number, connecting, engine, shared);
            }
            State::Opening(link, has_text) => {
                let mut messages = Vec::new();
                link.receive(&mut messages);
                let (mut messages, is_over) = (messages.into_iter(), link.is_over());
                if !*has_text && let Some(text) = messages.next() {
                    *has_text = true;
                    if !text.is_empty() {
                        let why = String::from_utf8_lossy(&text).into_owned();
                        return self.fail(number, why, engine, shared);
                    }
                }
                for message in messages {
                    match postcard::from_bytes(&message) {
                        Ok(message) => self.apply(number, message, shared),
                        Err(_) => return self.lost(number, "sent what is no message", engine, shared),
                    }
                }
                if is_over {
                    self.lost(number, "has ended", engine, shared);
                }
            }
            State::Open(link) => {
                let messages = link::receive(link);
                let is_over = link.is_over();
                for message in messages {
                    self.apply(number, message, shared);
                }
                if is_over {
                    self.lost(number, "has ended", engine, shared);
                }
            }
            State::Leaving(link) => {
                link.receive(&mut Vec::new());
                if link.is_over() {
                    self.close(engine);
                }
            }
            State::Gone => {}
        }
    }

    fn connected(
        &mut self,
        number: SessionNumber,
        how: Connecting,
        engine: &mut Engine,
        shared: &FrontShared,
    ) {
        match how {
            Connecting::Waits => {}
            Connecting::Failed => {
                let why = format!("nothing answers where {} has kept it", self.place);
                self.fail(number, why, engine, shared);
            }
            Connecting::Done(stream) => {
                let State::Connecting(_, launch) = std::mem::replace(&mut self.state, State::Gone) else {
                    return;
                };
                match engine.message_link(self.id, 0, *stream) {
                    Ok(mut link) => {
                        link.send(VERSION.as_bytes());
                        link::send(&mut link, &ToKeeper::Open(launch));
                        self.state = State::Opening(link, false);
                    }
                    Err(why) => self.fail(number, why.to_string(), engine, shared),
                }
            }
        }
    }

    /// There is no session: `attach` returns why.
    fn fail(&mut self, number: SessionNumber, why: String, engine: &mut Engine, shared: &FrontShared) {
        self.close(engine);
        let mut shared_state = shared.lock();
        if let Some(answer) = shared_state.state.attaching.get_mut(&number) {
            *answer = Some(Err(why));
        }
        shared.announce(shared_state);
    }

    /// The connection has ended.
    fn lost(&mut self, number: SessionNumber, what: &str, engine: &mut Engine, shared: &FrontShared) {
        let why = format!("{}, which kept the session, {what}", self.place);
        if matches!(self.state, State::Opening(..)) {
            return self.fail(number, why, engine, shared);
        }
        self.close(engine);
        revoke(number, why, shared);
    }

    fn close(&mut self, engine: &mut Engine) {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Opening(link, _) | State::Open(link) | State::Leaving(link) => engine.close_link(link),
            State::Connecting(mut connector, _) => connector.close(engine),
            State::Gone => {}
        }
    }

    /// Applies what the keeper reports.
    fn apply(&mut self, number: SessionNumber, message: FromKeeper, shared: &FrontShared) {
        let mut locked = shared.lock();
        let FrontState { sessions, events, attaching, .. } = &mut locked.state;
        match message {
            FromKeeper::Welcome(snapshot) => {
                if let State::Opening(link, _) = std::mem::replace(&mut self.state, State::Gone) {
                    self.state = State::Open(link);
                }
                if let Some(answer) = attaching.get_mut(&number) {
                    *answer = Some(Ok(snapshot.launched.clone()));
                    sessions.insert(number, SessionStatus::copied(*snapshot));
                }
                shared.announce(locked);
            }
            FromKeeper::News(news) => {
                let Some(status) = sessions.get_mut(&number) else { return };
                let mut lines = LogLines::default();
                hear(news, number, status, events, &mut lines);
                let has_ended = status.stage >= Stage::GivenUp;
                locked.state.announce();
                shared.announce(locked);
                lines.emit();
                if has_ended {
                    shared.end_calls_of(number);
                }
            }
            FromKeeper::Finished(id, result, missing) => {
                drop(locked);
                let id = CallId(id);
                if self.receives.remove(&id)
                    && result.is_ok()
                    && let State::Open(link) = &mut self.state
                {
                    link::send(link, &ToKeeper::HasReceived(id.0));
                }
                shared.missing(id, missing);
                shared.finish(id, result.map(KeptOutcome::into_outcome).map_err(KeptError::into_error));
            }
            FromKeeper::TakenOver => {
                drop(locked);
                if let State::Open(link) = std::mem::replace(&mut self.state, State::Gone) {
                    // The keeper closes it.
                    self.state = State::Leaving(link);
                }
                revoke(number, "another front end has the session now".to_owned(), shared);
            }
        }
    }
}

/// The answer to a request to attach: the layout at the launch, or why there is no session.
pub(in crate::front) type AttachAnswer = Option<Result<Layout, String>>;
