//! The standard input of programs, where the front end provides it: a pipe for each, which the engine
//! writes to. All get the same; what all have taken is confirmed and dropped.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libi_core::ids::Rank;
use libi_launch::machine::{Event, LinkId};
use mio::{Interest, Registry, Token};

use super::SessionIo;
use crate::engine::Turn;
use crate::engine::stream::Stream;
use crate::engine::sys::{duplicate, replace};
use crate::engine::targets::{FdRole, Targets};

/// What waits for programs, and the pipes to them.
pub(super) struct Input {
    /// What not all have taken, after as much as `start` that they have.
    waiting: VecDeque<u8>,
    start: u64,
    ended: bool,
    /// How many programs are still to be started, and to get all of it.
    awaited: u32,
    programs: Vec<ProgramInput>,
}

struct ProgramInput {
    /// The end to write to, until the program has closed the other, or has got all.
    pipe: Option<(Stream, Token)>,
    taken: u64,
}

impl Input {
    /// Makes the pipe to the next program; returns the end to read.
    fn open(&mut self, turn: &mut Turn<'_>) -> io::Result<OwnedFd> {
        self.awaited = self.awaited.saturating_sub(1);
        let (reader, writer) = io::pipe()?;
        let ours = duplicate(writer.as_raw_fd())?;
        self.add(Stream::ours(ours, false), turn)?;
        Ok(reader.into())
    }

    /// Feeds the next program through this pipe.
    fn add(&mut self, pipe: Stream, turn: &mut Turn<'_>) -> io::Result<()> {
        let at = (turn.id, LinkId::PARENT, FdRole::Input);
        let token = turn.targets.add(turn.registry, pipe.number(), Interest::WRITABLE, at)?;
        self.programs.push(ProgramInput { pipe: Some((pipe, token)), taken: self.start });
        Ok(())
    }

    /// Queues more input. An empty slice marks its end.
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.waiting.extend(bytes);
    }

    /// Writes what the pipes take; returns how much all have taken since.
    fn feed(&mut self, registry: &Registry, targets: &mut Targets) -> u64 {
        let (start, ended) = (self.start, self.ended);
        let waiting: &[u8] = self.waiting.make_contiguous();
        let end = start + waiting.len() as u64;
        for program in &mut self.programs {
            program.feed((waiting, start), ended, registry, targets);
        }
        let open = self.programs.iter().filter(|program| program.pipe.is_some());
        let least = open.map(|program| program.taken).min().unwrap_or(end);
        let taken = if self.awaited > 0 { 0 } else { least - start };
        self.waiting.drain(..taken as usize); // not more than waits
        self.start += taken;
        taken
    }
}

impl ProgramInput {
    fn feed(
        &mut self,
        (bytes, start): (&[u8], u64),
        ended: bool,
        registry: &Registry,
        targets: &mut Targets,
    ) {
        let Some((pipe, token)) = &self.pipe else { return };
        let mut left = &bytes[(self.taken - start) as usize..];
        let mut is_broken = false;
        while !left.is_empty() && !is_broken {
            match pipe.write(left) {
                Ok(count) => left = &left[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => is_broken = true,
            }
        }
        self.taken = start + (bytes.len() - left.len()) as u64;
        if is_broken || ended && left.is_empty() {
            targets.remove(registry, pipe.number(), *token);
            self.pipe = None;
        }
    }
}

impl SessionIo {
    /// Replaces standard input by the input of the front end; an agent keeps that for its first
    /// programs, which are so many. On failure standard input stays as it is.
    pub(super) fn take_input(&mut self, programs: u32, turn: &mut Turn<'_>) {
        let mut input = Input {
            waiting: VecDeque::new(),
            start: 0,
            ended: false,
            awaited: programs,
            programs: Vec::new(),
        };
        if let Some(stdin) = self.own_program.take_stdin() {
            input.awaited = input.awaited.saturating_sub(1);
            let Ok(()) = input.add(stdin, turn) else { return };
        } else if !self.node.is_agent() {
            let Ok(reader) = input.open(turn) else { return };
            if replace(reader.as_fd(), 0).is_err() {
                return;
            }
        }
        self.input = Some(input);
    }

    /// The standard input of a program that is about to be started, if the front end provides it.
    pub(super) fn open_input(&mut self, rank: Rank, turn: &mut Turn<'_>) -> Option<OwnedFd> {
        let is_due = self.node.gives_input_to(rank);
        let input = self.input.as_mut().filter(|input| is_due && input.awaited > 0)?;
        // Without resources for a pipe, its input is empty.
        input.open(turn).ok()
    }

    /// Writes what the pipes take, and confirms it.
    pub(super) fn feed_input(&mut self, events: &mut VecDeque<Event>, turn: &mut Turn<'_>) {
        let Some(input) = &mut self.input else { return };
        let taken = input.feed(turn.registry, turn.targets);
        if taken > 0 {
            events.push_back(Event::InputTaken(taken as u32)); // at most a window
        }
    }
}
