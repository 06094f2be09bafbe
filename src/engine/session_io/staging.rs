//! Writes staged files on this host, and reads them for the hosts that it has launched.
//!
//! The front end reads the user's files, an agent those in its own directory. All of it happens in
//! the event loop, a piece at a time: the files of an agent are in memory, or on a local disk.

use std::collections::VecDeque;

use libi_comm::Bytes;
use libi_core::wire::{Flags, Header, Kind, Limits};
use libi_launch::machine::{Event, LinkId, PLACE, Program, StartRequest, staged_payload};
use libi_launch::staging::{StageDirectory, StageSource};

use super::SessionIo;

/// Where the bytes of staged files are.
pub(super) enum StageStore {
    Source(StageSource),
    Directory(Box<StageDirectory>),
}

impl SessionIo {
    /// Makes the directory of staged files.
    pub(super) fn open_stage(&mut self, events: &mut VecDeque<Event>) {
        let Some(files) = &self.node.options().stage else { return };
        let opened = StageDirectory::create(files, &self.environment).map(|directory| {
            self.staged = Some(StageStore::Directory(Box::new(directory)));
            0
        });
        events.push_back(Event::Staged(opened));
    }

    /// Writes the next bytes of staged files.
    pub(super) fn write_staged(&mut self, bytes: &[u8], events: &mut VecDeque<Event>) {
        let written = match &mut self.staged {
            Some(StageStore::Directory(directory)) => directory.write(bytes),
            _ => Err("there is no directory for them".to_owned()),
        };
        events.push_back(Event::Staged(written));
    }

    /// Reads bytes of staged files, and sends them on a link.
    pub(super) fn send_staged(&mut self, link: LinkId, at: u64, length: u32, events: &mut VecDeque<Event>) {
        if self.staged.is_none()
            && let Some(files) = self.node.options().stage.as_ref().filter(|_| !self.node.is_agent())
        {
            self.staged = Some(StageStore::Source(StageSource::new(files)));
        }
        let mut payload = staged_payload(at, length);
        let read = match &mut self.staged {
            Some(StageStore::Source(source)) => source.read(at, &mut payload[PLACE..]),
            Some(StageStore::Directory(directory)) => directory.read(at, &mut payload[PLACE..]),
            None => Err(std::io::ErrorKind::NotFound.into()),
        };
        if let Err(why) = read {
            return events.push_back(Event::Staged(Err(why.to_string())));
        }
        let header = Header::new(Kind::Staged, Flags::NONE, 0, payload.len(), &Limits::AUTHENTICATED);
        if let (Ok(header), Some(link_io)) = (header, self.links.get_mut(&link)) {
            link_io.queue_bulk(header, Bytes::from(payload));
            self.unsent.insert(link);
        }
    }

    /// What is started for a program of this host, which may be a staged file.
    pub(super) fn adapted(&self, program: &Program) -> Program {
        match &self.staged {
            Some(StageStore::Directory(directory)) => directory.adapt(program, &self.environment),
            _ => program.clone(),
        }
    }

    /// The start of a member of this host, as it is with staged files; `None` if they change nothing.
    pub(super) fn adapted_start(&self, request: &StartRequest) -> Option<StartRequest> {
        match request {
            StartRequest::Member(link, rank, program) if self.staged.is_some() => {
                Some(StartRequest::Member(*link, *rank, self.adapted(program)))
            }
            _ => None,
        }
    }
}
