//! The standard input of this program, if the front end provides it: a pipe that the engine writes
//! to.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libi_launch::machine::{Event, LinkId};
use mio::{Interest, Token};

use super::SessionIo;
use crate::engine::Turn;
use crate::engine::stream::Stream;
use crate::engine::sys::{duplicate, replace};
use crate::engine::targets::FdRole;

/// The writing end of the pipe, and the bytes that wait for it.
pub(super) struct Input {
    /// Its other end, until the program that reads it is started by an agent.
    reader: Option<OwnedFd>,
    pipe: Option<(Stream, Token)>,
    waiting: VecDeque<u8>,
    ended: bool,
}

impl Input {
    /// The end for the program to read, once.
    pub(super) fn take_reader(&mut self) -> Option<OwnedFd> {
        self.reader.take()
    }

    /// Queues more input. An empty slice marks its end.
    pub(super) fn queue(&mut self, bytes: &[u8]) {
        self.ended |= bytes.is_empty();
        self.waiting.extend(bytes);
    }
}

impl SessionIo {
    /// Replaces standard input by the input of the front end; an agent keeps that for its first
    /// program. On failure standard input stays as it is.
    pub(super) fn take_input(&mut self, turn: &mut Turn<'_>) {
        let (reader, stream) = match self.own_program.take_stdin() {
            Some(stdin) => (None, stdin),
            None => {
                let Ok((reader, writer)) = io::pipe() else { return };
                let Ok(ours) = duplicate(writer.as_raw_fd()) else { return };
                (Some(OwnedFd::from(reader)), Stream::ours(ours, false))
            }
        };
        let at = (turn.id, LinkId::PARENT, FdRole::Input);
        let token = turn.targets.add(turn.registry, stream.number(), Interest::WRITABLE, at);
        let Ok(token) = token else { return };
        let mut reader = reader;
        if !self.node.is_agent()
            && let Some(reader) = reader.take()
            && replace(reader.as_fd(), 0).is_err()
        {
            return;
        }
        let (pipe, waiting) = (Some((stream, token)), VecDeque::new());
        self.input = Some(Input { reader, pipe, waiting, ended: false });
    }

    /// Writes what the pipe takes, and confirms it.
    pub(super) fn feed_input(&mut self, events: &mut VecDeque<Event>, turn: &mut Turn<'_>) {
        let Some(input) = &mut self.input else { return };
        let mut taken = 0;
        let mut broken = false;
        while let Some((pipe, _)) = &input.pipe
            && !input.waiting.is_empty()
        {
            match pipe.write(input.waiting.as_slices().0) {
                Ok(count) => {
                    input.waiting.drain(..count);
                    taken += count;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => broken = true,
            }
            if broken {
                break;
            }
        }
        if broken || input.pipe.is_none() {
            // The program has closed its input: further input is confirmed and dropped.
            taken += input.waiting.len();
            input.waiting.clear();
        }
        if (broken || input.ended && input.waiting.is_empty())
            && let Some((pipe, token)) = input.pipe.take()
        {
            turn.targets.remove(turn.registry, pipe.number(), token);
        }
        if taken > 0 {
            events.push_back(Event::InputTaken(taken as u32));
        }
    }
}
