//! Gets staged files from another host than the parent, and sends them to others; see
//! [`machine::sources`](crate::machine::sources).

use std::net::SocketAddr;

use libi_core::ids::{HostIndex, SessionId};
use libi_core::plan::late::{Attempt, Launch};
use libi_core::secure::{LinkKey, Parent, Terms};
use libi_core::time::Instant;
use libi_core::wire::{Frame, Header, Kind, LinkItem, PROTOCOL, decode_control, encode_bytes};

use super::{Effect, Identity, LinkId, Node, Role};
use crate::failure::Cause;
use crate::machine::child::Child;
use crate::machine::direct_links::CarriedSecret;
use crate::machine::message::{ChildMessage, ParentMessage};
use crate::machine::rendezvous::ArrivalId;
use crate::machine::sources::Origin;

impl Node {
    /// The key with which hosts get files from each other.
    fn files_key(&self) -> Option<LinkKey> {
        let CarriedSecret(secret) = self.direct.files_secret()?;
        let terms = Terms {
            version: PROTOCOL.newest(),
            session: SessionId(self.session.0 as u32),
            // The secret is that of files, so that no other link has these terms and this secret.
            host: HostIndex(u32::MAX),
            attempt: 0,
            parent: Parent::FrontEnd,
            mode: self.options.link_security,
        };
        Some(LinkKey::derive(secret, &terms))
    }

    /// The config has told whether hosts get files from each other.
    pub(super) fn open_sources(&mut self, secret: Option<CarriedSecret>, out: &mut Vec<Effect>) {
        self.direct.set_files_secret(secret);
        let Some(key) = self.files_key() else { return };
        self.sources.open();
        if self.direct.listen_for_others() {
            out.push(Effect::Listen { loopback: self.options.loopback });
        }
        out.push(Effect::AcceptFileLinks(key));
    }

    /// Asks for a source once there is room for the files, and others can get them from here.
    pub(super) fn ask_for_source(&mut self) {
        let (Origin::Unasked, true) = (self.sources.origin(), self.staged.has_room()) else { return };
        let Some(addresses) = self.direct.addresses() else { return };
        let Some(Launch { host, attempt }) = self.identity().and_then(Identity::leads) else { return };
        self.reports.push(ChildMessage::WantsSource(host, attempt, addresses.to_vec()));
        self.reports.extend(self.sources.ask());
    }

    /// A host at or below a child asks for a source.
    pub(super) fn source_wanted(
        &mut self,
        link: LinkId,
        Launch { host, attempt }: Launch,
        addresses: Vec<SocketAddr>,
        out: &mut Vec<Effect>,
    ) {
        let request = ChildMessage::WantsSource(host, attempt, addresses.clone());
        let request = self.sources.ask_for(link, host, request);
        if let Role::FrontEnd(front) = &mut self.role {
            let source = front.place_source(Launch { host, attempt }, addresses);
            return self.source_given(host, attempt, source, out);
        }
        self.reports.extend(request);
    }

    /// A host at or below a child gets files slowly: at the front end, its clients get another source.
    pub(super) fn source_is_slow(&mut self, host: HostIndex, out: &mut Vec<Effect>) {
        let Role::FrontEnd(front) = &mut self.role else {
            return self.reports.push(ChildMessage::SlowClient(host));
        };
        for (Launch { host, attempt }, source) in front.source_is_slow(host) {
            self.source_given(host, attempt, source, out);
        }
    }

    /// The front end gives a source to this host, or to one below.
    pub(super) fn source_given(
        &mut self,
        host: HostIndex,
        attempt: Attempt,
        addresses: Vec<SocketAddr>,
        out: &mut Vec<Effect>,
    ) {
        if self.identity().and_then(Identity::leads) != Some(Launch { host, attempt }) {
            if let Some(link) = self.sources.way_to(host) {
                Self::send(link, Kind::Control, &ParentMessage::Source(host, attempt, addresses), out);
            }
            return;
        }
        let has_asked =
            matches!(self.sources.origin(), Origin::Asked | Origin::Connecting(_) | Origin::Source(_));
        if !has_asked || !self.staged.is_open() {
            return;
        }
        out.extend(self.sources.leave().map(Effect::Close));
        match self.files_key().filter(|_| !addresses.is_empty()) {
            Some(key) => {
                let link = self.children.next_link();
                self.sources.connect(link);
                out.push(Effect::ConnectSource(link, addresses, key));
            }
            None => self.get_from_parent(out),
        }
    }

    /// The parent sends what is missing.
    fn get_from_parent(&mut self, out: &mut Vec<Effect>) {
        out.extend(self.sources.leave().map(Effect::Close));
        if let Some(own) = self.leads().filter(|_| self.staged.is_open() && !self.stage.has_begun_to_end()) {
            self.reports.push(ChildMessage::FilesFrom(own, self.staged.arrived()));
        }
    }

    /// The connection to the source is open.
    pub(super) fn source_connected(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        let is_awaited = self.sources.connected(link, now);
        if let Some(own) = self.leads().filter(|_| is_awaited) {
            Self::send_preamble(link, out);
            let asks = ChildMessage::FilesFrom(own, self.staged.arrived());
            Self::send(link, Kind::Control, &vec![asks], out);
        }
    }

    /// A host has connected that wants files.
    pub(super) fn files_wanted(&mut self, arrival: ArrivalId, now: Instant, out: &mut Vec<Effect>) {
        if !self.staged.has_room() || self.stage.has_begun_to_end() {
            return out.push(Effect::Refuse(arrival));
        }
        let link = self.children.next_link();
        out.push(Effect::Await(link));
        out.push(Effect::Admit(arrival, link));
        Self::send_preamble(link, out);
        self.sources.add_client(link, now + self.time_to_join());
        self.staged.serve_elsewhere(link);
    }

    /// What has arrived on a link whose handshake has shown that the peer belongs to the session: a frame,
    /// if it is for more than to keep the link alive. `None` on a protocol violation.
    pub(super) fn frame_of_peer(
        link: LinkId,
        item: LinkItem,
        out: &mut Vec<Effect>,
    ) -> Option<Option<(Header, Vec<u8>)>> {
        match item {
            LinkItem::Preamble(text, _) if text.is_empty() => {
                out.push(Effect::Trust(link));
                Some(None)
            }
            LinkItem::Preamble(..) | LinkItem::Text(_) => None,
            LinkItem::Frame(header, _) if header.kind() == Kind::Heartbeat => Some(None),
            LinkItem::Frame(header, payload) => Some(Some((header, payload))),
        }
    }

    /// Something has arrived on a link of files.
    pub(super) fn on_file_items(
        &mut self,
        link: LinkId,
        items: Vec<LinkItem>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        self.sources.heard(link, now);
        for item in items {
            let is_right = Self::frame_of_peer(link, item, out).and_then(|frame| {
                let Some((header, payload)) = frame else { return Some(()) };
                match header.kind() {
                    Kind::Staged if self.sources.source() == Some(link) => {
                        self.staged_piece(payload, now, out)
                    }
                    Kind::Control if self.sources.is_client(link) => {
                        self.on_client_reports(link, header, &payload, now, out)
                    }
                    _ => None,
                }
            });
            if is_right.is_none() {
                return self.file_link_closed(link, out);
            }
        }
    }

    fn on_client_reports(
        &mut self,
        link: LinkId,
        header: Header,
        payload: &[u8],
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        let reports: Vec<ChildMessage> = decode_control(&Frame::from_parts(header, payload)?).ok()?;
        for report in reports {
            let is_true = match report {
                ChildMessage::Staged(count) => self.staged.confirm(link, count),
                ChildMessage::FilesFrom(host, at) => {
                    self.sources.watch(link, host);
                    self.staged.serve_from(link, at, now)
                }
                _ => false,
            };
            if !is_true {
                return None;
            }
        }
        if self.staged.is_slow(link, now)
            && let Some(host) = self.sources.proved_slow(link)
        {
            self.reports.push(ChildMessage::SlowClient(host));
        }
        self.serve_staged(link, now, out);
        self.await_confirmation(link, now);
        Some(())
    }

    /// A link of files is closed, or has to be.
    pub(super) fn file_link_closed(&mut self, link: LinkId, out: &mut Vec<Effect>) {
        if !self.sources.is_client(link) {
            return self.get_from_parent(out);
        }
        self.sources.remove_client(link);
        self.staged.forget(link);
        out.push(Effect::Close(link));
    }

    /// So many bytes are written: the source is told, and is not needed any more after the last.
    pub(super) fn confirm_to_source(&mut self, count: u64, is_complete: bool, out: &mut Vec<Effect>) {
        if let Some(link) = self.sources.source() {
            Self::send(link, Kind::Control, &vec![ChildMessage::Staged(count)], out);
        }
        if is_complete {
            out.extend(self.sources.leave().map(Effect::Close));
        }
    }

    /// Gives up clients that are late; all links of files, when this node ends.
    pub(super) fn expire_file_links(&mut self, now: Instant, out: &mut Vec<Effect>) {
        for link in self.sources.late_clients(now) {
            self.file_link_closed(link, out);
        }
        if self.stage.has_begun_to_end() {
            for link in self.sources.close() {
                self.staged.forget(link);
                out.push(Effect::Close(link));
            }
        }
    }

    /// Shows clients that this node is alive, and gives up a source that has been silent.
    pub(super) fn send_file_heartbeats(&mut self, now: Instant, out: &mut Vec<Effect>) {
        if self.sources.silent_source(self.options.rules.peer_timeout, now).is_some() {
            self.get_from_parent(out);
        }
        let Ok(beat) = encode_bytes(Kind::Heartbeat, &[]) else { return };
        out.extend(self.sources.clients().map(|link| Effect::Send(link, beat.clone())));
    }

    /// A child gets the files from this node, from a place on: it has no source, or not any longer.
    pub(super) fn files_from(&mut self, link: LinkId, at: u64, now: Instant, out: &mut Vec<Effect>) {
        if !self.children.get(link).is_some_and(Child::is_up) {
            return;
        }
        if let Some(cause) = self.staged.why_failed() {
            return self.force_end(link, cause, now, out);
        }
        if !self.staged.serve_from(link, at, now) {
            let cause = Cause::Protocol("files from a place that it has not reached".to_owned());
            return self.force_end(link, cause, now, out);
        }
        self.serve_staged(link, now, out);
        self.await_confirmation(link, now);
    }
}
