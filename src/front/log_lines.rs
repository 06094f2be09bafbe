//! What a front end logs through the crate `log`, without the data that members exchange or print.
//!
//! | target | debug | info | warn |
//! |---|---|---|---|
//! | `libi::launch` | each state of a host | waits for resources, the outcome | a launch in the clear |
//! | `libi::link` | each host whose direct link is decided | | |
//! | `libi::session` | each member that ends or detaches | lost hosts, failures to write output, the end | |
//!
//! Nothing is formatted unless the logger wants it. Lines are collected under the lock of the state
//! and emitted without it, because a logger may be slow, or may call libi.

use std::fmt::Display;

use libi_core::ids::HostIndex;
use libi_core::time::{Instant, Rounded};
use libi_launch::machine::{HostState, Node};
use log::Level;

use super::event::Event;
use super::session::SessionStatus;

pub(super) const LAUNCH: &str = "libi::launch";
const LINK: &str = "libi::link";
pub(super) const SESSION: &str = "libi::session";

/// Lines to be emitted.
#[derive(Default)]
pub(super) struct LogLines(Vec<(Level, &'static str, String)>);

/// What was logged of each host: its attempts, its state, and its link.
#[derive(Default)]
pub(super) struct LoggedHosts(Vec<(u32, Logged, Option<bool>)>);

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Logged {
    #[default]
    Open,
    Joined,
    Failed,
}

impl LogLines {
    fn add(&mut self, level: Level, target: &'static str, line: impl FnOnce() -> String) {
        if log::log_enabled!(target: target, level) {
            self.0.push((level, target, line()));
        }
    }

    /// Adds a line for an event.
    pub(super) fn event(&mut self, event: &Event, status: &SessionStatus) {
        let session = event.session();
        match event {
            Event::Output { .. } | Event::Folded { .. } | Event::CommandOutput { .. } => {}
            Event::Staging { .. } => self.add(Level::Debug, LAUNCH, || format!("{session}: {event}")),
            Event::Waiting { .. } => self.add(Level::Info, LAUNCH, || format!("{session}: {event}")),
            Event::Up { .. } | Event::GivenUp { .. } => self.add(Level::Info, LAUNCH, || {
                let report = status.report.as_ref().map(ToString::to_string).unwrap_or_default();
                format!("{session}: {}", report.lines().next().unwrap_or_default())
            }),
            Event::Exited { .. }
            | Event::Detached { .. }
            | Event::CommandEnded { .. }
            | Event::CommandDone { .. } => {
                self.add(Level::Debug, SESSION, || format!("{session}: {event}"));
            }
            Event::Done { .. } => self.add(Level::Info, SESSION, || status.summary().to_string()),
            _ => self.add(Level::Info, SESSION, || format!("{session}: {event}")),
        }
    }

    /// Adds a line for each host that has changed since the last call.
    pub(super) fn hosts(&mut self, status: &mut SessionStatus, node: &Node, now: Instant) {
        let (launch, link) =
            (log::log_enabled!(target: LAUNCH, Level::Debug), log::log_enabled!(target: LINK, Level::Debug));
        if !launch && !link {
            return;
        }
        let mut logged = std::mem::take(&mut status.logged);
        logged.0.resize(status.layout().hosts().len(), Default::default());
        let (session, elapsed) = (status.session(), Rounded(status.since(now)));
        let states = node.host_states().zip(node.attempts()).enumerate();
        for ((nth, (state, attempts)), (known_attempts, known, known_link)) in states.zip(&mut logged.0) {
            let host = HostIndex(nth as u32);
            let now = match state {
                HostState::Joined => Logged::Joined,
                HostState::Failed(_) => Logged::Failed,
                _ => Logged::Open,
            };
            if launch && (now, attempts) != (*known, *known_attempts) && (attempts > 0 || now != Logged::Open)
            {
                let name = status.host_name(host);
                let by = launcher(status, node, nth);
                let line: &dyn Display = match state {
                    HostState::Failed(failure) => &format_args!("failed: {}", status.cause(failure)),
                    HostState::Joined => &"joined",
                    _ => &"launch started",
                };
                self.add(Level::Debug, LAUNCH, || {
                    format!("{session}: {name}: {line} (attempt {attempts}, by {by}, after {elapsed})")
                });
            }
            let direct = node.links().get(nth).copied().flatten();
            if link && direct != *known_link {
                self.add(Level::Debug, LINK, || {
                    let how =
                        if direct == Some(true) { "connected directly" } else { "uses its launch channel" };
                    format!("{session}: {}: {how} (after {elapsed})", status.host_name(host))
                });
            }
            (*known_attempts, *known, *known_link) = (attempts, now, direct);
        }
        status.logged = logged;
    }

    /// Emits the lines; the caller holds no lock.
    pub(super) fn emit(self) {
        for (level, target, line) in self.0 {
            log::log!(target: target, level, "{line}");
        }
    }
}

fn launcher(status: &SessionStatus, node: &Node, nth: usize) -> String {
    let launcher = node.timings().get(nth).and_then(|timing| timing.launcher);
    launcher.map_or_else(|| "the front end".to_owned(), |host| status.host_name(host))
}
