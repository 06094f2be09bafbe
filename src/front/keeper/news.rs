//! What a front end hears of a session that a keeper keeps.

use std::collections::VecDeque;

use libi_core::ids::SessionId;

use super::message::News;
use crate::front::log_lines::LogLines;
use crate::front::runtime::{FrontShared, FrontState};
use crate::front::session::{SessionNumber, SessionStatus, Stage};
use crate::front::{Error, Event};

/// Applies what has happened to what is known of a session.
pub(super) fn hear(
    news: News,
    number: SessionNumber,
    status: &mut SessionStatus,
    events: &mut VecDeque<(SessionNumber, Event)>,
    lines: &mut LogLines,
) {
    let News { parts, events: new_events, restarts, growth, commands } = news;
    parts.into_iter().for_each(|part| status.change(part));
    for event in new_events {
        lines.event(&event, status);
        events.push_back((number, event));
    }
    restarts.into_iter().for_each(|(rank, answer)| status.restart_answered(rank, answer));
    if let Some(answer) = growth {
        let refused = |(why, hosts)| Error::NotGrown { why, hosts };
        status.growth_answered(answer.map_err(refused));
    }
    commands.into_iter().for_each(|(command, processes)| status.commands.ended_so(command, processes));
}

/// Events that were not taken go to the next front end.
pub(super) fn forget_events(number: SessionNumber, state: &mut FrontState) {
    state.events.retain(|(of, _)| *of != number);
    state.announce();
}

/// The front end has the session no more.
pub(super) fn revoke(number: SessionNumber, reason: String, shared: &FrontShared) {
    let mut locked = shared.lock();
    let FrontState { sessions, events, .. } = &mut locked.state;
    if let Some(status) = sessions.get_mut(&number)
        && status.stage < Stage::Over
    {
        let session: SessionId = status.session();
        status.stage = Stage::Over;
        // Those that were not taken go to the next front end, if there is one.
        events.retain(|(of, _)| *of != number);
        events.push_back((number, Event::Revoked { session, reason }));
        events.push_back((number, Event::Done { session }));
    }
    locked.state.announce();
    shared.announce(locked);
    shared.end_calls_of(number);
}
