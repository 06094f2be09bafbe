//! Starts that the client of ssh may take, and those that it declines.

use libi_launch::backend::{ClientUse, SpawnSpec};
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, LinkId, Stream as StdStream};
use libi_launch::process::Signal;
use libi_launch::ssh_client::{CLIENT_DECLINES, CLIENT_HAS_ENDED, CLIENT_SAYS};

use super::spawn::{Inherited, StandardStreams, start_with};
use super::{StartFailure, Started};
use crate::engine::Turn;
use crate::engine::fd_budget::original_limit;
use crate::engine::launched::Launched;
use crate::engine::link_io::Registered;
use crate::engine::session_io::SessionIo;
use crate::engine::ssh_client::{Fate, Offer, SSH_FAILED};

impl SessionIo {
    /// Starts what the spec describes: by the client, or as a process if that cannot.
    pub(super) fn start_by_client(
        &mut self,
        link: LinkId,
        spec: SpawnSpec,
        client: &ClientUse,
    ) -> Result<Started<Launched>, StartFailure> {
        let (streams, theirs) = StandardStreams::new(self.links.len())?;
        let offer = Box::new(Offer { spec: spec.clone(), streams: theirs });
        let death_signal = self.death_signal_of_launched();
        let launched = match self.ssh_client.ask(offer, client, &self.environment, death_signal) {
            Ok(connection) => Launched::Connection(connection),
            // A host may lack the client, which is not sent there.
            Err((_, why)) if client.required && self.node.leads().is_none() => {
                return Err(StartFailure::by_system(why, None));
            }
            Err((offer, why)) => {
                let process = start_with(&offer.spec, &offer.streams, &self.inherited_by_launched())?;
                // That it is not installed is worth no word.
                self.declined = Some((link, why)).filter(|_| !self.ssh_client.is_missing());
                process.into()
            }
        };
        Ok(streams.of(launched, spec))
    }

    /// What a process inherits that stands for a host or a member.
    pub(super) fn inherited_by_launched(&self) -> Inherited<'_> {
        let limits = &self.node.options().limits;
        Inherited {
            environment: &self.environment,
            stdin: None,
            death_signal: self.death_signal_of_launched(),
            guarded: true,
            open_files: limits.open_files().filter(|_| self.node.is_agent()).or_else(original_limit),
        }
    }

    fn death_signal_of_launched(&self) -> Option<Signal> {
        self.thread_lasts().then_some(Signal::KILL)
    }

    /// Handles what the client says about a connection. True if that has ended.
    pub(in crate::engine::session_io) fn on_connection(&mut self, link: LinkId, turn: &mut Turn<'_>) -> bool {
        let process = self.links.get_mut(&link).and_then(|link_io| link_io.process.as_mut());
        let Some(Registered { inner: Launched::Connection(connection), .. }) = process else { return true };
        match connection.look() {
            Fate::Open => false,
            Fate::Ended => true,
            Fate::Lost => {
                self.ssh_client.give_up("libi-ssh has ended".to_owned());
                self.say_of_client(link, CLIENT_HAS_ENDED, turn);
                true
            }
            Fate::Declined => {
                let declined = connection.take_declined();
                if let Some((offer, why, of_all)) = declined {
                    self.on_declined(link, &offer, why, of_all, turn);
                }
                false
            }
        }
    }

    /// Starts a process for a connection that the client declines.
    fn on_declined(&mut self, link: LinkId, offer: &Offer, why: String, of_all: bool, turn: &mut Turn<'_>) {
        let started = if offer.spec.client.as_ref().is_some_and(|client| client.required) {
            Err(format!("{CLIENT_DECLINES}{why}"))
        } else {
            start_with(&offer.spec, &offer.streams, &self.inherited_by_launched())
                .map_err(|failure| format!("declined a host, and {}", failure.why))
        };
        let Some(link_io) = self.links.get_mut(&link) else { return };
        link_io.close_process(turn.registry, turn.targets);
        let watched = started.and_then(|child| {
            link_io
                .set_process(child.into(), turn.registry, turn.targets, (turn.id, link))
                .map_err(|error| format!("ssh cannot be watched: {error}"))
        });
        if watched.is_ok() {
            self.tell(Event::Declined(link, why.clone()), turn);
        }
        if of_all {
            self.ssh_client.give_up(why);
        }
        if let Err(why) = watched {
            self.say_of_client(link, &why, turn);
            self.close_launched(link, Exit::Code(SSH_FAILED), turn);
        }
    }

    /// Adds to what a connection has printed.
    fn say_of_client(&mut self, link: LinkId, what: &str, turn: &mut Turn<'_>) {
        let line = format!("{CLIENT_SAYS}{what}\n").into_bytes();
        self.tell(Event::Printed(link, StdStream::Err, line), turn);
    }
}
