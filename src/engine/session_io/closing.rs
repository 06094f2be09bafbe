//! The end of a link that is gone, and of everything.

use libi_launch::machine::LinkId;
use libi_launch::process::{Child, Signal};
use mio::Registry;

use super::{SessionIo, Turn};
use crate::engine::link_io::LinkIo;
use crate::engine::targets::Targets;

impl SessionIo {
    pub(super) fn remove_if_gone(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        if link != LinkId::PARENT && self.links.get(&link).is_some_and(LinkIo::is_gone) {
            for place in 0..2 {
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.close_printed(place, turn.registry, turn.targets);
                }
            }
            self.links.remove(&link);
        }
    }

    /// Closes everything. Processes that were not released are killed. Returns released processes
    /// that may still run.
    pub(in crate::engine) fn close(&mut self, registry: &Registry, targets: &mut Targets) -> Vec<Child> {
        if let Some(mut listener) = self.listener.take() {
            listener.close(registry, targets);
        }
        for mut connector in std::mem::take(&mut self.connectors).into_values() {
            connector.close(registry, targets);
        }
        self.helpers.close(registry, targets);
        for starter in self.starters.values_mut() {
            starter.signal(Signal::KILL);
            starter.close(registry, targets);
        }
        self.starters.clear();
        for (_, peer) in std::mem::take(&mut self.arriving) {
            peer.close(registry, targets);
        }
        // All processes are signalled before the first is waited for.
        for link_io in self.links.values_mut().filter(|link_io| !link_io.released) {
            if let Some(process) = &mut link_io.process {
                process.inner.signal_group(Signal::KILL);
            }
        }
        let mut released = Vec::new();
        for link_io in self.links.values_mut() {
            released.extend(link_io.take_released_child(registry, targets));
            link_io.close_all(registry, targets);
        }
        self.links.clear();
        released.extend(self.ssh_client.close());
        // Nothing runs any more that needs them.
        self.staged = None;
        released
    }
}
