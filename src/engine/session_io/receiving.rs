//! Passes on what arrives on a link: control and standard streams to the node, data to the group.

use libi_comm::Event as Said;
use libi_comm::message::is_of_a_call;
use libi_core::wire::Arrival;
use libi_launch::machine::{Event, LinkId};

use super::SessionIo;
use crate::engine::Turn;

impl SessionIo {
    /// Passes on what has arrived with these bytes, or in the receive buffer of the link. The node
    /// hears of every read once at least: the peer is alive.
    pub(super) fn receive(&mut self, link: LinkId, mut bytes: &[u8], turn: &mut Turn<'_>) {
        let mut is_told = false;
        while let Some(link_io) = self.links.get_mut(&link).filter(|link_io| !link_io.closed) {
            match link_io.reader.next(&mut bytes) {
                None if is_told => return,
                None => return self.tell(Event::Received(link, Vec::new()), turn),
                Some(Arrival::Data(payload)) => {
                    link_io.load.add_frame(is_of_a_call(&payload));
                    self.tell_group(Said::Frame(link, payload.into()), turn);
                }
                Some(Arrival::Items(items)) => {
                    self.tell(Event::Received(link, items), turn);
                    is_told = true;
                }
                Some(Arrival::Violation(error)) => return self.tell(Event::Violation(link, error), turn),
            }
        }
    }
}
