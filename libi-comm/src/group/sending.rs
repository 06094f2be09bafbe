//! Decides what a process sends next in a collective call: signs, messages, data and credit.

use std::collections::BTreeSet;

use libi_core::ids::LinkId;

use super::call_state::CallState;
use super::messages::send_message;
use super::progress::Progress;
use crate::contract::{Effect, Frame};
use crate::message::{CollectiveHeader, HeaderFlags, Message};

impl CallState {
    /// Sends what can be sent.
    pub(crate) fn send_ready(&mut self, nth: u64, progress: &mut Progress, out: &mut Vec<Effect>) {
        self.send_region(nth, progress, out);
        let all = self.to_notify.iter().copied();
        let to_notify: BTreeSet<_> = all.filter(|link| progress.may_send(nth, *link)).collect();
        self.to_notify.retain(|link| !to_notify.contains(link));
        let by = self.by;
        let header = |link| {
            let sign = to_notify.contains(&link);
            let up = link == LinkId::PARENT;
            let flags = HeaderFlags { entered: sign && up, done: sign && !up, ..HeaderFlags::default() };
            CollectiveHeader { nth, by, flags }
        };
        for link in to_notify.iter().copied().filter(|link| !self.flow.out.contains_key(link)) {
            let message = self.next_messages.remove(&link).unwrap_or_default();
            send_message(link, &header(link), message, out);
        }
        // Grants come before frames, so that no sender counts as stalled that can get credit; and
        // again after frames, for what they have freed.
        self.grant(nth, out);
        let links = self.flow.out.keys().copied();
        let links: Vec<_> = links.filter(|link| progress.may_send(nth, *link)).collect();
        for link in links {
            let mut next = header(link);
            let mut must = next.flags.entered || next.flags.done;
            while let Some(frame) = self.flow.next_frame(link, next.clone(), must) {
                note_sent(progress, nth, link, &frame);
                out.push(Effect::Send(link, frame));
                (must, next.flags) = (false, HeaderFlags::default());
            }
        }
        self.grant(nth, out);
        let plain = CollectiveHeader { nth, by, flags: HeaderFlags::default() };
        while let Some((link, frame)) = self.flow.relieve(&plain, |link| progress.may_send(nth, link)) {
            note_sent(progress, nth, link, &frame);
            out.push(Effect::Send(link, frame));
            self.grant(nth, out);
        }
    }

    /// Sends a sealed region to the members that wait for it.
    fn send_region(&mut self, nth: u64, progress: &mut Progress, out: &mut Vec<Effect>) {
        let Some(sealed) = &self.sealed else { return };
        let header = CollectiveHeader { nth, by: self.by, flags: HeaderFlags::default() };
        let frame = Message::Region(header).frame(None);
        self.region_receivers.retain(|link| {
            let goes = progress.may_send(nth, *link);
            if goes {
                progress.sent(nth, *link, sealed.bytes.len() as u64);
                out.push(Effect::SendRegion(*link, frame.clone(), sealed.clone()));
            }
            !goes
        });
        if self.region_receivers.is_empty() {
            self.sealed = None;
        }
    }

    /// Sends credit to the links that are due for it.
    fn grant(&mut self, nth: u64, out: &mut Vec<Effect>) {
        for (link, limit) in self.flow.grants() {
            out.push(Effect::Send(link, Message::Grant { nth, limit }.frame(None)));
        }
    }
}

/// Counts a frame that has data.
fn note_sent(progress: &mut Progress, nth: u64, link: LinkId, frame: &Frame) {
    if frame.0.len() > 1 {
        progress.sent(nth, link, frame.len() as u64);
    }
}
