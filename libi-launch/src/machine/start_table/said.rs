//! What the starters of bulk starts say: of resources, of hosts, and of the end of all programs.
//!
//! Why a starter ends all its programs may be told after that has begun:
//!
//! | it has said | then | what follows |
//! |---|---|---|
//! | nothing | a host cannot be started | that is the reason, for some time |
//! | | it ends all programs | it may say why until `kill_grace` has passed or it ends |
//! | | no start can succeed | that is the reason |
//! | it ends all programs | a host cannot be started, or no start can succeed | that is the reason |
//! | | neither in time | the programs were ended from outside: no start can succeed |
//! | no start can succeed | a host cannot be started | that is the reason instead |
//!
//! While a starter may say why, programs that are killed wait for it, and no other start begins. A
//! program that is asked or forced to end before anything was said waits for `kill_grace`.

use std::time::Duration;

use libi_core::ids::StartId;
use libi_core::time::Instant;

use super::{BulkStart, StartTable};

/// How much of the end of a starter's output is kept as evidence.
pub(super) const TAIL: usize = 2_000;

impl BulkStart {
    /// Until when a starter that ends all its programs, and has not said why, may do so.
    pub(super) fn may_say_why_until(&self) -> Option<Instant> {
        self.ends_all.as_ref().filter(|_| self.refused.is_none()).map(|&(until, _)| until)
    }
}

impl StartTable {
    /// Keeps what a starter prints as evidence.
    pub(in crate::machine) fn printed(&mut self, id: StartId, text: &[u8]) {
        let Some(BulkStart { tail, .. }) = self.bulk.get_mut(&id) else { return };
        let text = &text[text.len().saturating_sub(TAIL)..];
        tail.drain(..(tail.len() + text.len()).saturating_sub(TAIL));
        tail.extend_from_slice(text);
    }

    /// A start waits for resources, or does not any longer; if that is news, returns how long it has
    /// waited until now.
    pub(in crate::machine) fn set_waiting(
        &mut self,
        id: StartId,
        waits: bool,
        now: Instant,
    ) -> Option<Duration> {
        let start = self.bulk.get_mut(&id).filter(|start| start.starter.is_some())?;
        if waits == start.waits.is_some() {
            return None;
        }
        let since = std::mem::replace(&mut start.waits, waits.then_some(now));
        start.queued += since.map_or(Duration::ZERO, |since| now.since(since));
        Some(start.queued)
    }

    /// A host of a start could not be started: its starter may end all others until this time.
    pub(in crate::machine) fn may_end_all(&mut self, id: StartId, until: Instant) {
        let Some(start) = self.bulk.get_mut(&id) else { return };
        start.may_end_until.get_or_insert(until);
        // The end of all was told first: this is the reason.
        self.refused.take_if(|why| start.refused.as_ref() == Some(why));
        (start.refused, start.ends_all) = (None, None);
    }

    /// The starter ends all its programs, as this line says, and may say why until this time.
    pub(in crate::machine) fn ends_all(&mut self, id: StartId, line: &[u8], until: Instant) {
        self.printed(id, line);
        let is_running = self.is_running(id);
        let Some(start) = self.bulk.get_mut(&id).filter(|start| start.may_end_until.is_none()) else {
            return;
        };
        if is_running && start.ends_all.is_none() {
            start.ends_all = Some((until, String::from_utf8_lossy(line).trim_end().to_owned()));
        }
    }

    /// The line by which the starter has said that it ends all its programs.
    pub(in crate::machine) fn end_of_all(&self, id: StartId) -> Option<String> {
        self.bulk.get(&id)?.ends_all.as_ref().map(|(_, line)| line.clone())
    }

    /// Whether a starter that ends all its programs may still say why, or name the host that is the
    /// reason.
    pub(in crate::machine) fn may_say_why(&self, id: StartId) -> bool {
        let start = self.bulk.get(&id).filter(|start| start.starter.is_some());
        start.is_some_and(|start| start.refused.is_some() || start.ends_all.is_some())
    }

    /// Whether any starter that ends all its programs has not said why, and may still do so.
    pub(in crate::machine) fn may_any_say_why(&self) -> bool {
        self.bulk.values().any(|start| start.may_say_why_until().is_some())
    }

    /// The starter has ended, or its time to say why it ends all programs is over: if it has not, they
    /// were ended from outside.
    pub(in crate::machine) fn says_no_more(&mut self, id: StartId) {
        let Some(start) = self.bulk.get_mut(&id) else { return };
        if let (None, Some((_, line))) = (&start.refused, &start.ends_all) {
            let why = format!("ended from outside: {line}");
            self.refused.get_or_insert_with(|| why.clone());
            start.refused = Some(why);
        }
    }

    /// The same, of the starters whose time is over.
    pub(in crate::machine) fn expire_reasons(&mut self, now: Instant) {
        let late = |start: &BulkStart| start.may_say_why_until().is_some_and(|until| until <= now);
        let late: Vec<StartId> =
            self.bulk.iter().filter(|(_, start)| late(start)).map(|(&id, _)| id).collect();
        late.into_iter().for_each(|id| self.says_no_more(id));
    }

    /// Whether a start may be ended because one of its hosts could not be started.
    pub(in crate::machine) fn is_ending_all(&self, id: StartId) -> bool {
        self.bulk.get(&id).is_some_and(|start| start.may_end_until.is_some())
    }

    /// Whether any start may be ended because one of its hosts could not be started.
    pub(in crate::machine) fn is_any_ending_all(&self) -> bool {
        self.bulk.values().any(|start| start.may_end_until.is_some())
    }

    /// Whether a start waits for resources.
    pub(in crate::machine) fn waits(&self, id: StartId) -> bool {
        self.bulk.get(&id).is_some_and(|start| start.waits.is_some())
    }

    /// Whether any start waits for resources, and hosts wait with it.
    pub(in crate::machine) fn is_waiting(&self) -> bool {
        self.bulk.values().any(|start| start.waits.is_some() && !start.awaited.is_empty())
    }

    /// No start like this one can succeed. Where a host was named that could not be started, the
    /// starter may have ended this start for that; and it does so where it was asked to.
    pub(in crate::machine) fn refused(&mut self, id: StartId, why: &[u8]) {
        let is_running = self.is_running(id);
        let Some(start) = self.bulk.get_mut(&id) else { return };
        if start.may_end_until.is_some() || !is_running {
            return self.printed(id, why);
        }
        let why = String::from_utf8_lossy(why).trim_end().to_owned();
        self.refused.get_or_insert_with(|| why.clone());
        start.refused.get_or_insert(why);
    }

    /// Why no start can succeed, if that is known.
    pub(in crate::machine) fn why_all_refused(&self) -> Option<String> {
        self.refused.clone()
    }

    /// Why no start like this one can succeed, if that is known.
    pub(in crate::machine) fn why_refused(&self, id: StartId) -> Option<String> {
        self.bulk.get(&id)?.refused.clone()
    }

    /// The end of everything that a starter has printed.
    pub(in crate::machine) fn tail(&self, id: StartId) -> Vec<u8> {
        self.bulk.get(&id).map(|start| start.tail.clone()).unwrap_or_default()
    }
}
