//! Heartbeats: shows the peers that this node is alive, and gives up peers that have been silent.

use std::time::Duration;

use libi_core::time::Instant;
use libi_core::wire::{Kind, encode_bytes};

use super::{Effect, LinkId, Node, Role};
use crate::failure::Cause;
use crate::machine::message::ChildMessage;

impl Node {
    /// Sends heartbeats on all links whose other end is up, and gives up peers that have been
    /// silent.
    pub(super) fn send_heartbeats(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if now < self.next_heartbeat {
            return;
        }
        // If this process itself was held up, the peers were not silent.
        let held_up = now.since(self.next_heartbeat);
        if held_up > self.heartbeat_interval() {
            self.children.iter_mut().for_each(|(_, child)| child.forgive_silence(held_up));
            self.sources.forgive_silence(held_up);
            if let Role::Member(parent) = &mut self.role {
                parent.forgive_silence(held_up);
            }
        }
        self.next_heartbeat = now + self.heartbeat_interval();
        let Ok(beat) = encode_bytes(Kind::Heartbeat, &[]) else { return };
        let mut silent = Vec::new();
        for (link, child) in self.children.up() {
            if child.silent_for(now) > self.options.rules.peer_timeout {
                silent.push(link);
            } else {
                out.push(Effect::Send(link, beat.clone()));
            }
        }
        for link in silent {
            self.force_end(link, Cause::HeartbeatLost, now, out);
        }
        self.send_file_heartbeats(now, out);
        if let Role::Member(parent) = &self.role
            && !self.stage.has_begun_to_end()
            && (!self.orphans.is_orphan() || self.orphans.has_claimed())
        {
            if parent.silent_for(now) > self.options.rules.peer_timeout {
                if parent.is_configured() {
                    // The other direction may work: the parent would see members killed one by one.
                    let last: &[ChildMessage] = &[ChildMessage::ParentSilent];
                    Self::send(LinkId::PARENT, Kind::Control, &last, out);
                }
                self.parent_lost(now, out);
            } else if parent.is_configured() {
                out.push(Effect::Send(LinkId::PARENT, beat.clone()));
            }
        }
    }

    /// The interval between heartbeats.
    pub(super) fn heartbeat_interval(&self) -> Duration {
        (self.options.rules.peer_timeout / 4).max(Duration::from_millis(1))
    }
}
