//! Decides what a process sends next in a collective call: signs, messages, data and credit.

use libi_core::ids::LinkId;

use super::call_state::CallState;
use super::messages::send_message;
use super::progress::Progress;
use crate::contract::Effect;
use crate::message::{CollectiveHeader, HeaderFlags, Message};

impl CallState {
    /// Sends what can be sent.
    pub(crate) fn send_ready(&mut self, nth: u64, progress: &mut Progress, out: &mut Vec<Effect>) {
        self.send_region(nth, progress, out);
        let mut to_notify = std::mem::take(&mut self.to_notify);
        to_notify.retain(|link, ()| {
            let goes = progress.may_send(nth, link);
            if !goes {
                self.to_notify.insert(link, ());
            }
            goes
        });
        let by = self.by;
        let header = |link| {
            let sign = to_notify.contains(link);
            let up = link == LinkId::PARENT;
            let flags = HeaderFlags { entered: sign && up, done: sign && !up, ..HeaderFlags::default() };
            CollectiveHeader { nth, by, flags }
        };
        for link in to_notify.links().filter(|link| !self.flow.out.contains(*link)) {
            let message = self.next_messages.remove(&link).unwrap_or_default();
            send_message(link, &header(link), message, out);
        }
        // Grants come before frames, so that no sender counts as stalled that can get credit; and
        // again after frames, for what they have freed.
        self.grant(nth, out);
        for place in 0..self.flow.out.len() {
            let Some(link) = self.flow.out.link_at(place) else { break };
            if !progress.may_send(nth, link) {
                continue;
            }
            let mut next = header(link);
            let mut must = next.flags.entered || next.flags.done;
            while let Some((frame, carries_data)) = self.flow.next_frame(link, next.clone(), must) {
                if carries_data {
                    progress.sent(nth, link, frame.len() as u64);
                }
                out.push(Effect::Send(link, frame));
                (must, next.flags) = (false, HeaderFlags::default());
            }
        }
        self.grant(nth, out);
        let plain = CollectiveHeader { nth, by, flags: HeaderFlags::default() };
        while let Some((link, frame)) = self.flow.relieve(&plain, |link| progress.may_send(nth, link)) {
            progress.sent(nth, link, frame.len() as u64);
            out.push(Effect::Send(link, frame));
            self.grant(nth, out);
        }
    }

    /// Sends a sealed region to the members that wait for it.
    fn send_region(&mut self, nth: u64, progress: &mut Progress, out: &mut Vec<Effect>) {
        let Some(sealed) = &self.sealed else { return };
        let header = CollectiveHeader { nth, by: self.by, flags: HeaderFlags::default() };
        let frame = Message::Region(header).frame(None);
        self.region_receivers.retain(|link, ()| {
            let goes = progress.may_send(nth, link);
            if goes {
                progress.sent(nth, link, sealed.bytes.len() as u64);
                out.push(Effect::SendRegion(link, frame.clone(), sealed.clone()));
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
