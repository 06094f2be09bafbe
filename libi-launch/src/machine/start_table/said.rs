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
//! | | | that it will end all was said before or after: that is quoted as well |
//! | no start can succeed | a host cannot be started | that is the reason instead |
//! | nothing | the starter is killed | that is the reason, until twice `kill_grace` after its end is told |
//!
//! While a starter may say why, programs that are killed wait for it, and no other start begins. A
//! program that is asked or forced to end before anything was said waits for `kill_grace`.
//!
//! Programs that are ended because of a host, or with their starter, are launched again. Where the starter has said that it
//! ends all, their ends are not waited for: a starter may take long, or never tell them.

use std::time::Duration;

use libi_core::ids::StartId;
use libi_core::time::Instant;

use super::{BulkStart, StartTable};

/// How much of the end of a starter's output is kept as evidence.
pub(super) const TAIL: usize = 2_000;

/// What is known of why a starter ends, or may end, all its programs.
#[derive(Debug, Default)]
pub(super) enum EndOfAll {
    /// Nothing was said.
    #[default]
    Unsaid,
    /// A host could not be started, or the starter was killed: all others may be ended for that until
    /// this time. The starter may have said that it ends them.
    Explained { until: Instant, is_said: bool },
    /// It ends all programs, as this line says, and may say why until this time.
    Said(Instant, String),
    /// No such start can succeed, for this reason.
    Refused(String),
}

impl EndOfAll {
    /// When what was said is over.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Self::Explained { until, .. } if *until == Instant::FAR_FUTURE => None,
            Self::Explained { until, .. } | Self::Said(until, _) => Some(*until),
            Self::Unsaid | Self::Refused(_) => None,
        }
    }

    pub(super) fn why_refused(&self) -> Option<&String> {
        match self {
            Self::Refused(why) => Some(why),
            _ => None,
        }
    }

    fn is_explained(&self) -> bool {
        matches!(self, Self::Explained { .. })
    }

    fn is_said(&self) -> bool {
        matches!(self, Self::Said(..))
    }

    /// The host that could not be started, or the end of the starter, is the reason for what follows no
    /// longer.
    pub(super) fn expire_reason(&mut self, now: Instant) {
        if self.is_explained() && self.deadline().is_some_and(|until| until <= now) {
            *self = Self::Unsaid;
        }
    }
}

/// A line that a starter has printed, without its end.
pub(in crate::machine) fn one_line(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim_end().to_owned()
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
        let Some(start) = self.bulk.get_mut(&id).filter(|start| !start.end_of_all.is_explained()) else {
            return;
        };
        // The end of all was told first: this is the reason.
        self.refused.take_if(|why| start.end_of_all.why_refused() == Some(why));
        start.end_of_all = EndOfAll::Explained { until, is_said: start.end_of_all.is_said() };
    }

    /// A signal has ended the starter, and its programs may be ended with it until this time.
    pub(in crate::machine) fn starter_killed(&mut self, id: StartId, by: Instant) {
        match self.bulk.get_mut(&id).map(|start| &mut start.end_of_all) {
            Some(unsaid @ EndOfAll::Unsaid) => *unsaid = EndOfAll::Explained { until: by, is_said: false },
            Some(EndOfAll::Explained { until, .. }) => *until = by,
            _ => {}
        }
    }

    /// The starter will end all its programs, as this line says.
    pub(in crate::machine) fn will_end_all(&mut self, id: StartId, line: &[u8]) {
        self.printed(id, line);
        if let Some(start) = self.bulk.get_mut(&id) {
            start.will_end_all = Some(one_line(line));
        }
    }

    /// The starter ends all its programs, as this line says, and may say why until this time.
    pub(in crate::machine) fn ends_all(&mut self, id: StartId, line: &[u8], until: Instant) {
        self.printed(id, line);
        let is_running = self.is_running(id);
        let Some(start) = self.bulk.get_mut(&id).filter(|_| is_running) else { return };
        match &mut start.end_of_all {
            EndOfAll::Unsaid => {
                start.end_of_all = EndOfAll::Said(until, one_line(line));
            }
            EndOfAll::Explained { is_said, .. } => *is_said = true,
            _ => {}
        }
    }

    /// Whether the starter has said that it ends all its programs because of a host.
    pub(in crate::machine) fn ends_all_for_host(&self, id: StartId) -> bool {
        let start = self.bulk.get(&id);
        start.is_some_and(|start| matches!(start.end_of_all, EndOfAll::Explained { is_said: true, .. }))
    }

    /// Whether a starter that ends all its programs may still say why, or name the host that is the
    /// reason.
    pub(in crate::machine) fn may_say_why(&self, id: StartId) -> bool {
        let start = self.bulk.get(&id).filter(|start| start.starter.is_some());
        start.is_some_and(|start| matches!(start.end_of_all, EndOfAll::Said(..) | EndOfAll::Refused(_)))
    }

    /// Whether any starter that ends all its programs has not said why, and may still do so.
    pub(in crate::machine) fn may_any_say_why(&self) -> bool {
        self.bulk.values().any(|start| start.end_of_all.is_said())
    }

    /// The starter has ended, or its time to say why it ends all programs is over. If it has not, they
    /// were ended from outside: returns the line by which it has said that it ends them, and the one by
    /// which it has said that it will.
    pub(in crate::machine) fn says_no_more(&mut self, id: StartId) -> Option<String> {
        let start = self.bulk.get_mut(&id).filter(|start| start.end_of_all.is_said())?;
        let EndOfAll::Said(_, mut line) = std::mem::take(&mut start.end_of_all) else { return None };
        if let Some(announced) = start.will_end_all.take() {
            line = format!("{line}; {announced}");
        }
        let why = format!("ended from outside: {line}");
        self.refused.get_or_insert_with(|| why.clone());
        start.end_of_all = EndOfAll::Refused(why);
        Some(line)
    }

    /// The next starter whose time to say why it ends all programs is over, with the line by which it
    /// has said that, as in [`Self::says_no_more`].
    pub(in crate::machine) fn reason_is_late(&mut self, now: Instant) -> Option<(StartId, String)> {
        let is_late = |it: &EndOfAll| it.is_said() && it.deadline().is_some_and(|until| until <= now);
        let (&late, _) = self.bulk.iter().find(|(_, start)| is_late(&start.end_of_all))?;
        Some((late, self.says_no_more(late)?))
    }

    /// Whether a start may be ended because one of its hosts could not be started, or with its starter.
    pub(in crate::machine) fn is_ending_all(&self, id: StartId) -> bool {
        self.bulk.get(&id).is_some_and(|start| start.end_of_all.is_explained())
    }

    /// Whether any start may be ended for one of these reasons.
    pub(in crate::machine) fn is_any_ending_all(&self) -> bool {
        self.bulk.values().any(|start| start.end_of_all.is_explained())
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
        if start.end_of_all.is_explained() || !is_running {
            return self.printed(id, why);
        }
        if start.end_of_all.why_refused().is_none() {
            let why = one_line(why);
            self.refused.get_or_insert_with(|| why.clone());
            start.end_of_all = EndOfAll::Refused(why);
        }
    }

    /// Why no start can succeed, if that is known.
    pub(in crate::machine) fn why_all_refused(&self) -> Option<String> {
        self.refused.clone()
    }

    /// Why no start like this one can succeed, if that is known.
    pub(in crate::machine) fn why_refused(&self, id: StartId) -> Option<String> {
        self.bulk.get(&id)?.end_of_all.why_refused().cloned()
    }

    /// The end of everything that a starter has printed.
    pub(in crate::machine) fn tail(&self, id: StartId) -> Vec<u8> {
        self.bulk.get(&id).map(|start| start.tail.clone()).unwrap_or_default()
    }
}
