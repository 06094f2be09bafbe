//! Messages from children, and the answers to them.

use std::time::Duration;

use libi_core::ids::HostIndex;
use libi_core::join::Hello;
use libi_core::plan::late::Launch;
use libi_core::time::Instant;
use libi_core::wire::{Frame, Header, Kind, LinkItem, ReadError, decode_control};

use super::{Effect, LinkId, Node};
use crate::failure::{Cause, LaunchTiming};
use crate::machine::child::ChildState;
use crate::machine::direct_links::LinkPolicy;
use crate::machine::message::{ChildMessage, ParentMessage, SessionConfig};
use crate::machine::output_piece::Stream;

impl Node {
    pub(super) fn on_child_items(
        &mut self,
        link: LinkId,
        items: Vec<LinkItem>,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        self.child_heard(link, now);
        for item in items {
            let Some(child) = self.children.get_mut(link).filter(|child| child.is_open()) else { return };
            match item {
                LinkItem::Text(text) => self.printed(link, Stream::Out, text, now),
                LinkItem::Preamble(text, _) => {
                    child.on_preamble();
                    let is_up = child.is_moved_here() && child.state() == ChildState::AwaitHello;
                    if child.is_leader() && !child.is_moved_here() {
                        self.launcher.launching_confirmed(&mut self.reports);
                    }
                    if is_up {
                        self.up(link, now, out);
                        continue;
                    }
                    if !text.is_empty() {
                        self.printed(link, Stream::Out, text, now);
                    }
                }
                LinkItem::Frame(header, payload) => {
                    let is_running = child.is_running();
                    if let Err(cause) = self.on_child_frame(link, header, &payload, now, out) {
                        return match is_running {
                            true => self.ignore_link(link, now, out),
                            false => self.force_end(link, cause, now, out),
                        };
                    }
                }
            }
        }
    }

    /// Bytes have come from a child.
    pub(super) fn child_heard(&mut self, link: LinkId, now: Instant) {
        if let Some(child) = self.children.get_mut(link).filter(|child| child.is_open()) {
            child.on_heard(now);
        }
    }

    /// The bytes of a child are not the protocol.
    pub(super) fn on_child_violation(
        &mut self,
        link: LinkId,
        error: ReadError,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        let Some(child) = self.children.get_mut(link).filter(|child| child.is_open()) else { return };
        child.on_heard(now);
        let is_up = child.is_up();
        if child.is_running() {
            return self.ignore_link(link, now, out);
        }
        match error {
            ReadError::Version(mismatch) => {
                self.force_end(link, Cause::Version(mismatch.to_string()), now, out);
            }
            // The program's protocol has ended, and its remote shell prints a farewell. The exit
            // status follows.
            ReadError::Frame(fault) if is_up => {
                self.ends(link, Cause::Protocol(fault.to_string()), now, out);
            }
            ReadError::Frame(fault) => {
                self.force_end(link, Cause::Protocol(fault.to_string()), now, out);
            }
        }
    }

    fn on_child_frame(
        &mut self,
        link: LinkId,
        header: Header,
        payload: &[u8],
        now: Instant,
        out: &mut Vec<Effect>,
    ) -> Result<(), Cause> {
        let Some(child) = self.children.get_mut(link) else { return Ok(()) };
        let unexpected =
            |awaited: &str| Cause::Protocol(format!("a {} where {awaited} was awaited", header.kind()));
        let frame = Frame::from_parts(header, payload).ok_or_else(|| unexpected("a frame"))?;
        match (child.state(), header.kind()) {
            (_, Kind::Heartbeat) => Ok(()),
            // The child moves to the direct connection after this node has.
            (ChildState::Up | ChildState::Ending { .. }, Kind::Goodbye) if child.on_goodbye() => {
                out.push(Effect::ReceiveDirect(link));
                Ok(())
            }
            (ChildState::Ending { .. }, Kind::Goodbye) => Ok(()),
            (ChildState::AwaitHello, Kind::Hello) => {
                let hello: Hello =
                    decode_control(&frame).map_err(|fault| Cause::Protocol(fault.to_string()))?;
                if hello.ticket != *child.ticket() {
                    return Err(Cause::WrongTicket);
                }
                if self.moves.greeted(link).is_some() {
                    return Err(unexpected("nothing"));
                }
                self.note_engine(link, hello.is_apart);
                if !self.moves_away(link, now, out) {
                    self.up(link, now, out);
                }
                Ok(())
            }
            (ChildState::Running, Kind::Hello) => {
                let hello: Hello =
                    decode_control(&frame).map_err(|fault| Cause::Protocol(fault.to_string()))?;
                if hello.ticket != *child.ticket() {
                    return Err(Cause::WrongTicket);
                }
                self.program_joins(link, now, out);
                Ok(())
            }
            (ChildState::Starting | ChildState::AwaitHello | ChildState::Running, _) => {
                Err(unexpected("hello"))
            }
            // The exit may be known before the last message has arrived.
            (ChildState::Up | ChildState::Ending { was_up: true, .. }, Kind::Control) => {
                let reports: Vec<ChildMessage> =
                    decode_control(&frame).map_err(|fault| Cause::Protocol(fault.to_string()))?;
                reports.into_iter().for_each(|report| self.on_child_report(link, report, now, out));
                Ok(())
            }
            (ChildState::Up | ChildState::Ending { was_up: true, .. }, Kind::Stdio) => {
                self.output_arrives(link, payload, now)
            }
            (ChildState::Ending { .. }, _) => Ok(()),
            (ChildState::Up, _) => Err(unexpected("news")),
        }
    }

    /// How long a leader may take from its hello until its host has joined.
    pub(super) fn time_to_join(&self) -> Duration {
        self.options.rules.join_timeout + self.options.rules.kill_grace.saturating_mul(2)
    }

    /// A leader has told whether it leads its host apart from its program. If it should and does
    /// not, that is reported.
    fn note_engine(&mut self, link: LinkId, is_apart: bool) {
        let Some(child) = self.children.get_mut(link) else { return };
        let Some(Launch { host, .. }) = child.launch() else { return };
        if is_apart {
            child.set_agent();
        } else if self.options.leads_apart() {
            self.reports.push(ChildMessage::InProgram(host));
        }
    }

    /// A process reaches the host of this link, because the client of ssh declines it.
    pub(super) fn declined(&mut self, link: LinkId, why: String) {
        let launch = self.children.get_mut(link).and_then(|child| child.launch());
        if let Some(Launch { host, .. }) = launch {
            self.reports.push(ChildMessage::Declined(host, why));
        }
    }

    /// A child has said hello: sends its config, and its share of hosts.
    pub(super) fn up(&mut self, link: LinkId, now: Instant, out: &mut Vec<Effect>) {
        // A leader has deadlines for its own members, and needs time to report them.
        let by = now + self.time_to_join();
        let Some(child) = self.children.get_mut(link) else { return };
        child.on_hello(now);
        out.push(Effect::Trust(link));
        let (blocks, launch) = (child.blocks().to_vec(), child.launch());
        let (is_local, has_arrived) = (launch.is_none(), child.is_of_bulk_start());
        let has_moved = child.is_moved_here();
        self.children.set_deadline(link, if is_local { Instant::FAR_FUTURE } else { by });
        self.forward_early_output(link, now);
        let (host, name) = match launch {
            Some(Launch { host, .. }) => {
                (host, self.launcher.spec(host).map(|spec| spec.name.clone()).unwrap_or_default())
            }
            None => self.host().map_or((HostIndex(0), String::new()), |(host, name)| (host, name.to_owned())),
        };
        if !has_moved {
            let config = SessionConfig {
                dial: match launch {
                    Some(launch) if !has_arrived => self.offer_direct(link, launch, out),
                    _ => Vec::new(),
                },
                parent: self.leads(),
                ..match launch {
                    Some(_) => self.config_of_leader((host, name), blocks, has_arrived),
                    None => self.config((host, name), blocks, LinkPolicy::Channel, false),
                }
            };
            if !Self::send_config(link, config, ParentMessage::SessionConfig, out) {
                let cause = Cause::NotStarted("its programs take too long to describe".to_owned());
                return self.force_end(link, cause, now, out);
            }
        }
        if has_arrived || has_moved {
            self.reports.push(ChildMessage::Link(host, true));
        }
        if let Some(launch) = launch {
            self.give(link, launch, now, out);
            self.ask_to_relay(link, out);
            self.ask_to_adopt(link, out);
            self.stage_to_child(link, now, out);
        } else {
            self.check_joined();
        }
    }

    fn on_child_report(
        &mut self,
        link: LinkId,
        mut report: ChildMessage,
        now: Instant,
        out: &mut Vec<Effect>,
    ) {
        if self.is_out_of_date(&report) {
            return;
        }
        let (leads, began) = (self.leads(), self.began);
        let Some(child) = self.children.get_mut(link) else { return };
        match (&mut report, child.host()) {
            (ChildMessage::Joined(host, _, timing), Some(own)) if *host == own && child.is_up() => {
                *timing = child.timing(leads, began);
                timing.joined = child.on_joined(now);
                self.children.set_deadline(link, Instant::FAR_FUTURE);
            }
            // A `Joined` after the child's failure or exit does not count.
            (ChildMessage::Joined(host, ..), Some(own)) if *host == own => return,
            (ChildMessage::NoDependents(hosts), _) => {
                if self.growth.is_launching() || *hosts != self.growth.settled() {
                    return; // it is of the time before the session has grown
                }
                child.on_no_dependents();
                if child.is_detached() && self.stage.is_ending() {
                    // Only the link is left to be closed.
                    self.detach_child(link, now, out);
                }
                return;
            }
            (ChildMessage::Staged(count), _) => {
                let count = *count;
                return self.child_staged(link, count, now, out);
            }
            (ChildMessage::WantsSource(host, attempt, addresses), _) => {
                let launch = Launch { host: *host, attempt: *attempt };
                return self.source_wanted(link, launch, std::mem::take(addresses), out);
            }
            (ChildMessage::FilesFrom(_, at), _) => {
                let at = *at;
                return self.files_from(link, at, now, out);
            }
            (ChildMessage::SlowClient(host), _) => {
                let host = *host;
                return self.source_is_slow(host, out);
            }
            (ChildMessage::InputTaken(bytes), _) => {
                let bytes = *bytes;
                if self.child_took_input(link, bytes) {
                    return;
                }
            }
            (ChildMessage::NotDirect, _) => return self.not_direct(link, now, out),
            (ChildMessage::WantsDirect, _) => {
                return Self::connect_children(self.direct.child_wants(link), out);
            }
            (ChildMessage::HoldsOutput(holds), _) => return self.relay.set_below(link, *holds),
            (ChildMessage::Listening(addresses), _) => {
                let (start, addresses) = (child.start(), std::mem::take(addresses));
                if self.moves.are_on() {
                    return self.target_listens(link, addresses, now, out);
                }
                return self.relay_listens(start, link, addresses, now, out);
            }
            (ChildMessage::Dropped(host, attempt, ends, failure), _) => {
                let (launch, ends) = (Launch { host: *host, attempt: *attempt }, *ends);
                self.release_reports(link);
                let failure = failure.take().map(|failure| *failure);
                return self.dropped(link, launch, ends, failure, now);
            }
            (ChildMessage::Adopted(host, attempt), _) => {
                return self.adopted(Launch { host: *host, attempt: *attempt }, out);
            }
            // The child ends, and says nothing more.
            (ChildMessage::ParentSilent, _) => {
                return self.force_end(link, Cause::HeartbeatLost, now, out);
            }
            (ChildMessage::InDoubt(doubts), _) => {
                if child.on_doubt(*doubts) {
                    self.launcher.child_doubts(*doubts);
                }
                return;
            }
            (ChildMessage::CannotLaunch(why, certain), own) => {
                let (why, certain) = (why.clone(), *certain);
                child.on_handed_back();
                if child.on_doubt(false) {
                    self.launcher.child_doubts(false);
                }
                return own.into_iter().for_each(|own| self.child_cannot_launch(own, &why, certain));
            }
            // When a node ends, its parent decides about the hosts below it.
            (ChildMessage::HandBack(..), _) if self.stage.has_begun_to_end() && !self.role.is_front() => {
                return;
            }
            (ChildMessage::HandBack(host, attempt, tried), own) => {
                let (back, tried) = (Launch { host: *host, attempt: *attempt }, *tried);
                if self.new_host_is_handed_back(back, now) {
                    return;
                }
                let (launcher, terms, reports) = self.launcher(now);
                return own
                    .into_iter()
                    .for_each(|own| launcher.accept_hand_back(own, back, tried, &terms, reports));
            }
            (ChildMessage::Joined(host, attempt, _), Some(own)) => {
                let launch = Launch { host: *host, attempt: *attempt };
                if self.moved.timing(launch).is_none() && child.on_launched() {
                    self.launcher.child_has_launched();
                }
                self.launcher.up_below(own, *host);
            }
            (ChildMessage::Detached(rank), _) if child.rank() == Some(*rank) => child.on_detached(),
            (ChildMessage::Failed(host, _, failure), Some(own)) if *host == own => {
                // The leader ends by itself. Its own report becomes the verdict when it is gone.
                child.on_failure_report(failure);
                let cause = failure.cause.clone();
                return self.begins_to_end(link, cause, now);
            }
            (ChildMessage::Failed(host, ..), Some(own)) => {
                let host = *host;
                if let Some(link) = self.orphans.forget(host, now) {
                    Self::send(link, Kind::Control, &ParentMessage::Lost, out);
                }
                let (launcher, terms, _) = self.launcher(now);
                launcher.given_up_below(own, host, &terms);
            }
            _ => {}
        }
        if let ChildMessage::Joined(host, _, LaunchTiming { launcher: Some(parent), .. }) = &report
            && self.reconnects
        {
            self.orphans.has_parent(*host, *parent);
        }
        self.note_moved(&mut report, now, out);
        if let ChildMessage::Joined(host, attempt, _)
        | ChildMessage::Failed(host, attempt, _)
        | ChildMessage::Relaunch(host, attempt, _) = &report
        {
            self.launcher.note_attempt(*host, *attempt);
        }
        if let ChildMessage::Joined(host, ..) = &report {
            self.relays.joined(*host);
        }
        self.routes.note(link, &report, |host| self.launcher.spec(host).is_some());
        let is_restarted = matches!(report, ChildMessage::Restarted(_));
        self.report_behind_output(link, report, now);
        if is_restarted {
            // What the new process has printed may have come with it.
            self.relay_output(now, out);
            self.send_reports(now, out);
        }
    }
}
