//! A driver's part in direct links: listening, dialling, and moving a link from its channel to a connection.

use std::collections::VecDeque;
use std::io;

use libi_launch::machine::{Effect, Event, LinkId};

use super::{Driver, MOST};
use crate::engine::Turn;
use crate::engine::dialling::Dialler;
use crate::engine::direct::Door;
use crate::engine::sealed::Sealed;

impl Driver {
    pub(super) fn connect_directly(
        &mut self,
        effect: Effect,
        events: &mut VecDeque<Event>,
        turn: &mut Turn<'_>,
    ) {
        match effect {
            Effect::Listen { loopback } if self.door.is_none() => {
                // Who cannot listen has no direct links; the channels are still there.
                if let Ok((door, addresses)) = Door::open(loopback, turn.registry, turn.targets, turn.id) {
                    self.door = Some(door);
                    events.push_back(Event::Listening(addresses));
                }
            }
            Effect::Admit(link, key) => {
                if let Some(door) = &mut self.door {
                    door.admit(link, key);
                }
            }
            Effect::Refuse(link) => {
                if let Some(door) = &mut self.door {
                    door.refuse(link);
                }
            }
            Effect::Dial(addresses, key) => {
                let place = (turn.registry, &mut *turn.targets, turn.id);
                self.dialler = Some(Dialler::dial(&addresses, key, turn.now, place));
            }
            Effect::Switch(link) => {
                if let Some(port) = self.ports.get_mut(&link) {
                    port.switch();
                    self.unsent.insert(link);
                }
            }
            Effect::Follow(link) => {
                if let Some(port) = self.ports.get_mut(&link) {
                    port.follows = true;
                    // What has come there before was not read.
                    if let Some(direct) = &port.direct
                        && turn.targets.queue(direct.token)
                    {
                        turn.ready.push_back(direct.token);
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn attend_guest(&mut self, number: u32, turn: &mut Turn<'_>) {
        let Some(door) = &mut self.door else { return };
        if let Some((link, sealed)) = door.attend(number, turn.registry, turn.targets) {
            self.welcome_in(link, sealed, turn);
        }
    }

    fn welcome_in(&mut self, link: LinkId, sealed: Sealed, turn: &mut Turn<'_>) {
        if self.have_direct(link, sealed, turn) {
            self.tell(Event::Proven(link), turn);
        }
    }

    /// Lets in whoever has connected. True if there may be more.
    pub(super) fn answer_door(&mut self, turn: &mut Turn<'_>) -> bool {
        let mut proven = Vec::new();
        let Some(door) = &mut self.door else { return false };
        let more = door.accept(turn.now, (turn.registry, turn.targets, turn.id), &mut proven);
        for (link, sealed) in proven {
            self.welcome_in(link, sealed, turn);
        }
        more
    }

    /// Notices that the connection to a parent has ended before the parent has moved: then the link stays where it is.
    pub(super) fn check_unconfirmed(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        let Some(port) = self.ports.get_mut(&link).filter(|port| !port.follows && !port.switched) else {
            return;
        };
        if link == LinkId::PARENT && port.direct.as_ref().is_some_and(|direct| direct.it.has_ended()) {
            port.close_direct(turn.registry, turn.targets);
            self.tell(Event::Dialled(false), turn);
        }
    }

    pub(super) fn attend_dialler(&mut self, number: u32, turn: &mut Turn<'_>) {
        let Some(dialler) = &mut self.dialler else { return };
        let reached = dialler.attend(number, turn.now, turn.registry, turn.targets);
        if reached.is_none() && !dialler.is_hopeless(turn.now) {
            return;
        }
        self.hang_up(turn);
        let reached = reached.is_some_and(|sealed| self.have_direct(LinkId::PARENT, sealed, turn));
        self.tell(Event::Dialled(reached), turn);
    }

    fn have_direct(&mut self, link: LinkId, sealed: Sealed, turn: &mut Turn<'_>) -> bool {
        let Some(port) = self.ports.get_mut(&link).filter(|port| !port.closed) else { return false };
        let token = port.set_direct(sealed, turn.registry, turn.targets, (turn.id, link));
        if let Ok(token) = token
            && turn.targets.queue(token)
        {
            turn.ready.push_back(token);
        }
        token.is_ok()
    }

    fn hang_up(&mut self, turn: &mut Turn<'_>) {
        if let Some(mut dialler) = self.dialler.take() {
            dialler.close(turn.registry, turn.targets);
        }
    }

    /// Sends away who has not proved himself in time, and gives up a parent who has not answered.
    pub(super) fn expire_connections(&mut self, turn: &mut Turn<'_>) {
        if let Some(door) = &mut self.door {
            door.expire(turn.now, turn.registry, turn.targets);
            if door.is_due(turn.now) {
                let token = door.token();
                if turn.targets.queue(token) {
                    turn.ready.push_back(token);
                }
            }
        }
        if let Some(dialler) = &mut self.dialler {
            dialler.dial_again(turn.now, (turn.registry, turn.targets, turn.id));
        }
        if self.dialler.as_ref().is_some_and(|dialler| dialler.is_hopeless(turn.now)) {
            self.hang_up(turn);
            self.tell(Event::Dialled(false), turn);
        }
    }

    /// Reads a direct connection, once it is its turn. True if there may be more.
    pub(super) fn read_direct(&mut self, link: LinkId, to_the_end: bool, turn: &mut Turn<'_>) -> bool {
        let mut total = 0;
        while total < MOST {
            let Some(port) = self.ports.get_mut(&link).filter(|port| port.follows) else { return false };
            let Some(direct) = &mut port.direct else { return false };
            let to_the_end = to_the_end || turn.targets.may_end(direct.token);
            let landing = self.node.landing(link).filter(|_| direct.it.is_plaintext());
            if let Some((place, missing)) = landing {
                let most = missing.min(MOST - total);
                match direct.it.stream.read_into(place, most) {
                    Ok(count @ 1..) => {
                        total += count;
                        self.tell(Event::Landed(link), turn);
                        if count < most && !to_the_end {
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
            let more = direct.it.read(&mut self.buffer, &mut bytes, to_the_end);
            total += bytes.len().max(1);
            if !bytes.is_empty() {
                self.tell(Event::Received(link, bytes), turn);
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
