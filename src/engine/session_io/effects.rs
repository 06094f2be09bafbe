//! Carries out the effects of the node.

use std::collections::VecDeque;

use libi_comm::Adoption;
use libi_core::machine::Machine;
use libi_launch::machine::{Effect, Event, LinkId, StartId, StartRequest};
use libi_launch::process::Signal;

use super::SessionIo;
use crate::engine::Turn;
use crate::engine::direct_listener::Admission;
use crate::engine::launched::Launched;
use crate::engine::link_io::LinkIo;
use crate::engine::sys::clear_parent_death_signal;

/// Signals by which users end programs.
const ENDING_SIGNALS: [i32; 5] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGKILL, libc::SIGTERM];

impl SessionIo {
    /// Passes an event to the node and carries out its effects.
    pub(in crate::engine) fn tell(&mut self, event: Event, turn: &mut Turn<'_>) {
        let (mut next, mut events, mut effects) = (Some(event), VecDeque::new(), Vec::new());
        while let Some(event) = next.take().or_else(|| events.pop_front()) {
            self.node.on(event, turn.now, &mut effects);
            for effect in effects.drain(..) {
                self.apply(effect, &mut events, turn);
            }
        }
    }

    fn apply(&mut self, effect: Effect, events: &mut VecDeque<Event>, turn: &mut Turn<'_>) {
        match effect {
            Effect::Start(start, request) => {
                for link in request.links() {
                    self.links.insert(link, LinkIo::default());
                }
                if let (StartRequest::Hosts(.., ticket), Some(listener)) = (&request, &mut self.listener) {
                    listener.add_key(Admission::Start(start), ticket.key());
                }
                self.pending_starts.push_back((start, request));
            }
            Effect::EndStarter(start, signal) => self.end_starter(start, signal, events),
            Effect::Admit(arrival, link) => self.admit(arrival, link, events, turn),
            Effect::Redirect(arrival, addresses) => self.redirect(arrival, &addresses),
            Effect::Refuse(arrival) => self.refuse(arrival, turn),
            Effect::TurnAway(arrival) => self.turn_away(arrival, turn),
            Effect::Await(link) => self.await_arrival(link),
            Effect::AcceptStart(start) => self.accept_start(start),
            Effect::Send(link, bytes) => {
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.queue(&bytes);
                    self.unsent.insert(link);
                }
                let mut bytes = bytes;
                zeroize::Zeroize::zeroize(&mut bytes);
            }
            Effect::Trust(link) => {
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.reader.trust();
                }
            }
            Effect::Close(link) => {
                if let Some(listener) = &mut self.listener {
                    listener.remove_key(link);
                }
                self.stop_connecting(link, turn);
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.close(turn.registry, turn.targets);
                    self.unsent.remove(&link);
                }
                self.remove_if_gone(link, turn);
            }
            Effect::Kill(link) => self.kill(link, events),
            Effect::Signal(link, signal) => self.signal(link, signal, events),
            Effect::FindPrograms(programs) => {
                events.push_back(Event::ProgramsFound(self.look_up(&programs)));
            }
            Effect::OpenStage => self.open_stage(events),
            Effect::WriteStaged(bytes) => self.write_staged(&bytes, events),
            Effect::SendStaged(link, at, length) => self.send_staged(link, at, length, events),
            Effect::RemoveStaged => self.staged = None,
            Effect::Carry(link) => self.carry(link),
            Effect::Joins { link, ranks, local } => {
                self.tell_group(libi_comm::Event::Joins { link, ranks, local }, turn);
            }
            Effect::Grows { size, absent } => {
                self.tell_group(libi_comm::Event::Grows { size, absent }, turn);
            }
            Effect::DetachChild(link) => {
                if let Some(link_io) = self.links.get_mut(&link) {
                    link_io.released = true;
                    if let Some(process) = &mut link_io.process {
                        process.inner.release();
                        if matches!(process.inner, Launched::Connection(_)) {
                            self.ssh_client.keep();
                        }
                    }
                }
            }
            Effect::TakeInput(programs) => self.take_input(programs, turn),
            Effect::Input(bytes) => {
                if let Some(input) = &mut self.input {
                    input.queue(&bytes);
                }
                self.feed_input(events, turn);
            }
            Effect::Listen { .. }
            | Effect::AcceptDirect(..)
            | Effect::RejectDirect(_)
            | Effect::ConnectDirect(..)
            | Effect::Watch(_)
            | Effect::AcceptFileLinks(_)
            | Effect::AcceptOrphans(_)
            | Effect::Reopen(_)
            | Effect::ConnectSource(..)
            | Effect::SendDirect(_)
            | Effect::ReceiveDirect(_) => self.on_direct_effect(effect, events, turn),
            Effect::AwaitHelper(_) | Effect::ForgetHelper | Effect::TakeHelper | Effect::StartHelper(..) => {
                self.on_helper_effect(effect, turn);
            }
            Effect::SessionUp(tree) => {
                if !tree.joins {
                    turn.sink.begins(turn.id, 0);
                }
                self.session_up(tree, turn);
            }
            Effect::Cut(link, reason) => self.cut(link, reason, turn),
            Effect::Severed(link, lost, reason) => self.sever(link, lost, reason, turn),
            Effect::Adopted { link, instead_of, ranks, place } => {
                self.adopt(Adoption { link, instead_of, ranks, place }, turn);
            }
            Effect::Forsaken(link, reason) => {
                self.tell_group(libi_comm::Event::Forsaken(link, reason), turn);
            }
            Effect::Reattached => self.reattached(turn),
            // On a failure it is lost with its starter, as it would be without this.
            Effect::OutlivesStarter => {
                let _ = clear_parent_death_signal();
            }
            Effect::WakeAt(at) => self.wake_at = Some(self.wake_at.map_or(at, |before| before.min(at))),
            Effect::Notify(notice) => turn.sink.notice(turn.id, notice, &self.node, turn.now),
        }
    }

    /// Cancels the start of a process that has not begun, and was to end by this signal; returns whether
    /// there was one.
    fn cancel_start(&mut self, link: LinkId, signal: i32, events: &mut VecDeque<Event>) -> bool {
        let waits = |(_, request): &(StartId, StartRequest)| request.links().any(|of| of == link);
        let place = self.pending_starts.iter().position(waits);
        let cancelled = place.and_then(|place| self.pending_starts.remove(place));
        if let Some((start, _)) = &cancelled {
            self.links.remove(&link);
            events.push_back(Event::StartCancelled(*start, signal));
        }
        cancelled.is_some()
    }

    /// Sends a signal to a process that was started, and to its group. One that is not started yet is
    /// not, unless the signal would have no effect on it.
    fn signal(&mut self, link: LinkId, signal: i32, events: &mut VecDeque<Event>) {
        if let Some(process) = self.links.get_mut(&link).and_then(|link_io| link_io.process.as_mut()) {
            // An ended process needs no signal, and no process has a number that is none.
            if let Some(signal) = Signal::new(signal) {
                process.inner.signal_group(signal);
            }
        } else if ENDING_SIGNALS.contains(&signal) {
            self.cancel_start(link, signal, events);
        }
    }

    fn kill(&mut self, link: LinkId, events: &mut VecDeque<Event>) {
        if self.cancel_start(link, libc::SIGKILL, events) {
            return;
        }
        if let Some(process) = self.links.get_mut(&link).and_then(|link_io| link_io.process.as_mut()) {
            if process.inner.is_unheard() {
                self.ssh_client.give_up("libi-ssh does not answer".to_owned());
            }
            process.inner.signal_group(Signal::KILL);
        }
    }
}
