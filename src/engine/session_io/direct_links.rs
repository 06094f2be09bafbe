//! Direct links of a node: listening, connecting, and moving a link from its channel to a direct
//! connection.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

use libi_core::secure::LinkKey;
use libi_launch::machine::{Effect, Event, LinkId};
use zeroize::Zeroize;

use super::{READ_LIMIT, SessionIo};
use crate::engine::Turn;
use crate::engine::direct_connector::{CONNECT_TIMEOUT, DirectConnector};
use crate::engine::direct_listener::{Admission, DirectListener};
use crate::engine::direct_stream::DirectStream;
use crate::engine::link_io::LinkIo;

impl SessionIo {
    pub(super) fn on_direct_effect(
        &mut self,
        effect: Effect,
        events: &mut VecDeque<Event>,
        turn: &mut Turn<'_>,
    ) {
        match effect {
            Effect::Listen { loopback } if self.listener.is_none() => {
                // Without a listener there are no direct links; the channels remain in use.
                let opened = DirectListener::open(loopback, turn.registry, turn.targets, turn.id);
                let (listener, addresses) =
                    opened.map_or((None, Vec::new()), |(listener, at)| (Some(listener), at));
                self.listener = listener;
                events.push_back(Event::Listening(addresses));
            }
            Effect::AcceptDirect(link, key) => {
                if let Some(listener) = &mut self.listener {
                    listener.add_key(Admission::Link(link), key);
                }
            }
            Effect::RejectDirect(link) => {
                if let Some(listener) = &mut self.listener {
                    listener.remove_key(link);
                }
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.awaits_direct = false;
                }
            }
            Effect::ConnectDirect(addresses, key) => {
                self.start_connecting(LinkId::PARENT, &addresses, key, turn);
            }
            Effect::Watch(link) => {
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.load.watch();
                }
            }
            Effect::AcceptFileLinks(key) => {
                if let Some(listener) = &mut self.listener {
                    listener.add_key(Admission::Files, key);
                }
            }
            Effect::AcceptOrphans(key) => {
                let listener = self.listener.get_or_insert_with(DirectListener::for_helpers);
                listener.add_key(Admission::Orphans, key);
            }
            Effect::Reopen(link) => {
                self.stop_connecting(link, turn);
                if let Some(mut closed) = self.links.insert(link, LinkIo::default()) {
                    closed.close_all(turn.registry, turn.targets);
                }
            }
            Effect::ConnectSource(link, addresses, key) => {
                self.links.insert(link, LinkIo::default());
                self.start_connecting(link, &addresses, key, turn);
            }
            Effect::SendDirect(link) => {
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.switch();
                    self.unsent.insert(link);
                }
            }
            Effect::ReceiveDirect(link) => {
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.reads_direct = true;
                    // Bytes that arrived there before have not been read.
                    if let Some(direct) = &link_io.direct
                        && turn.targets.queue(direct.token)
                    {
                        turn.ready.push_back(direct.token);
                    }
                }
            }
            _ => {}
        }
    }

    /// How many hosts bulk starts have still to bring up. Counted once in a turn: with thousands of
    /// links, a count for each connection would take longer than the connections.
    fn expected_arrivals(&mut self, turn: &Turn<'_>) -> usize {
        if self.expected.is_none_or(|(at, _)| at != turn.now) {
            let count = self.links.values().filter(|link_io| link_io.awaits_arrival()).count();
            self.expected = Some((turn.now, count));
        }
        self.expected.map_or(0, |(_, count)| count)
    }

    pub(super) fn on_peer_ready(&mut self, number: u32, turn: &mut Turn<'_>) {
        let expected = self.expected_arrivals(turn);
        let Some(listener) = &mut self.listener else { return };
        if let Some((admission, sealed)) = listener.on_ready(number, expected, turn.registry, turn.targets) {
            self.add_authenticated(admission, sealed, turn);
        }
    }

    fn add_authenticated(&mut self, admission: Admission, sealed: DirectStream, turn: &mut Turn<'_>) {
        match admission {
            Admission::Link(link) => {
                let has_channel = self.links.get(&link).is_some_and(|link_io| !link_io.awaits_arrival());
                if self.attach_direct(link, sealed, turn) {
                    if !has_channel && let Some(link_io) = self.links.get_mut(&link) {
                        link_io.use_direct_only();
                    }
                    self.tell(Event::DirectAccepted(link), turn);
                }
            }
            Admission::Start(_) | Admission::Files | Admission::Orphans => {
                self.add_arriving(admission, sealed, turn);
            }
            // A node has no such key.
            Admission::FrontEnds => {}
        }
    }

    /// Accepts waiting connections. True if there may be more.
    pub(super) fn accept_peers(&mut self, turn: &mut Turn<'_>) -> bool {
        let mut authenticated = Vec::new();
        let expected = self.expected_arrivals(turn);
        let Some(listener) = &mut self.listener else { return false };
        let place = (turn.registry, &mut *turn.targets, turn.id);
        let more = listener.accept(turn.now, place, expected, &mut authenticated);
        for (admission, sealed) in authenticated {
            self.add_authenticated(admission, sealed, turn);
        }
        more
    }

    /// Notices that the connection to the parent ended before the parent moved the link. The link
    /// then stays on its channel.
    pub(super) fn check_unconfirmed_direct(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        let Some(link_io) =
            self.links.get_mut(&link).filter(|link_io| !link_io.reads_direct && !link_io.sends_direct)
        else {
            return;
        };
        if link == LinkId::PARENT && link_io.direct.as_ref().is_some_and(|direct| direct.inner.has_ended()) {
            link_io.close_direct(turn.registry, turn.targets);
            self.tell(Event::DirectConnected(false), turn);
        }
    }

    fn start_connecting(
        &mut self,
        link: LinkId,
        addresses: &[SocketAddr],
        key: LinkKey,
        turn: &mut Turn<'_>,
    ) {
        let place = (turn.registry, &mut *turn.targets, turn.id);
        let connector = DirectConnector::start(link, addresses, key, CONNECT_TIMEOUT, turn.now, place);
        self.connectors.insert(link, connector);
    }

    pub(super) fn on_connect_ready(&mut self, link: LinkId, number: u32, turn: &mut Turn<'_>) {
        let Some(connector) = self.connectors.get_mut(&link) else { return };
        let reached = connector.on_ready(number, turn.now, turn.registry, turn.targets);
        if reached.is_none() && !connector.has_failed(turn.now) {
            return;
        }
        let is_walled = connector.is_walled();
        self.stop_connecting(link, turn);
        let is_reached = reached.is_some_and(|sealed| self.attach_direct(link, sealed, turn));
        self.tell_connected(link, is_reached, is_walled, turn);
    }

    /// Tells whether the connection of a link could be opened, and if not, whether something is in the way.
    fn tell_connected(&mut self, link: LinkId, is_reached: bool, is_walled: bool, turn: &mut Turn<'_>) {
        if link == LinkId::PARENT {
            if is_walled && !is_reached {
                self.tell(Event::Walled, turn);
            }
            if let Some(link_io) = self.links.get_mut(&link).filter(|link_io| link_io.has_no_channel()) {
                link_io.use_direct_only();
            }
            return self.tell(Event::DirectConnected(is_reached), turn);
        }
        if !is_reached {
            return self.close_link(link, turn);
        }
        if let Some(link_io) = self.links.get_mut(&link) {
            link_io.use_direct_only();
        }
        self.tell(Event::SourceConnected(link), turn);
    }

    pub(super) fn attach_direct(&mut self, link: LinkId, sealed: DirectStream, turn: &mut Turn<'_>) -> bool {
        let Some(link_io) = self.links.get_mut(&link).filter(|link_io| !link_io.closed) else { return false };
        let token = link_io.set_direct(sealed, turn.registry, turn.targets, (turn.id, link));
        if let Ok(token) = token
            && turn.targets.queue(token)
        {
            turn.ready.push_back(token);
        }
        token.is_ok()
    }

    pub(super) fn stop_connecting(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        if let Some(mut connector) = self.connectors.remove(&link) {
            connector.close(turn.registry, turn.targets);
        }
    }

    /// Closes connections whose handshake has timed out, and ends attempts to connect that have
    /// failed.
    pub(super) fn expire_handshakes(&mut self, turn: &mut Turn<'_>) {
        if let Some(listener) = &mut self.listener {
            listener.expire(turn.now, turn.registry, turn.targets);
            if let Some(token) = listener.take_due_retry(turn.now)
                && turn.targets.queue(token)
            {
                turn.ready.push_back(token);
            }
        }
        for connector in self.connectors.values_mut() {
            connector.retry_due(turn.now, (turn.registry, turn.targets, turn.id));
        }
        let failed = self.connectors.iter().filter(|(_, connector)| connector.has_failed(turn.now));
        let failed = failed.map(|(link, connector)| (*link, connector.is_walled()));
        for (link, is_walled) in failed.collect::<Vec<_>>() {
            self.stop_connecting(link, turn);
            self.tell_connected(link, false, is_walled, turn);
        }
    }

    /// Reads the direct connection, once the link has moved to it. True if there may be more.
    pub(super) fn read_direct(&mut self, link: LinkId, to_the_end: bool, turn: &mut Turn<'_>) -> bool {
        let mut total = 0;
        while total < READ_LIMIT {
            let Some(link_io) = self.links.get_mut(&link).filter(|link_io| link_io.reads_direct) else {
                return false;
            };
            let Some(direct) = &mut link_io.direct else { return false };
            let to_the_end = to_the_end || turn.targets.may_end(direct.token);
            let mut frame = link_io.reader.receive_buffer();
            if let Some((place, missing)) = frame.take_if(|_| direct.inner.is_plaintext()) {
                let limit = missing.min(READ_LIMIT - total);
                match direct.inner.stream.read_into(place, limit) {
                    Ok(count @ 1..) => {
                        total += count;
                        self.receive(link, &[], turn);
                        if count < limit && !to_the_end {
                            return false;
                        }
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                    Ok(_) | Err(_) => {
                        self.close_link(link, turn);
                        return false;
                    }
                }
            }
            let mut bytes = Vec::new();
            let continues = frame.is_some();
            let more = direct.inner.read(&mut self.buffer, frame, &mut bytes, to_the_end);
            total += self.buffer.len();
            if continues || !bytes.is_empty() {
                let may_be_secret = link == LinkId::PARENT && self.node.may_receive_secrets();
                self.receive(link, &bytes, turn);
                if may_be_secret {
                    bytes.zeroize();
                }
            }
            match more {
                Ok(true) => {}
                Ok(false) => return false,
                Err(_) => {
                    self.close_link(link, turn);
                    return false;
                }
            }
        }
        true
    }
}
