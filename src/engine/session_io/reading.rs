//! What a driver reads: links, what is printed beside them, and the ends of processes.

use std::io;
use std::time::Duration;

use libi_core::time::Instant;
use libi_launch::backend::without_progress;
use libi_launch::exit_trailer::ExitTrailer;
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, LinkId};
use libi_launch::process::{self, Signal};

use super::{READ_LIMIT, SessionIo, is_waiting};
use crate::engine::Turn;
use crate::engine::link_io::Registered;

/// How much is read where a long frame is likely to begin.
const HEAD: usize = 1 << 10;
/// How many turns' worth of bytes may have arrived on a connection before they are read: more than systems keep.
const MAX_FINAL_READS: usize = 256;
/// How long a remote shell may go on when its program has ended. It ends by itself, unless somebody holds its connection.
const SHELL_EXIT_TIMEOUT: Duration = Duration::from_secs(1);

impl SessionIo {
    /// Reads a link, `to_the_end` if nobody may report what is left. True if there may be more.
    pub(super) fn read_link(&mut self, link: LinkId, to_the_end: bool, turn: &mut Turn<'_>) -> bool {
        let mut total = 0;
        while total < READ_LIMIT {
            let Some(link_io) = self.links.get_mut(&link).filter(|link_io| !link_io.closed) else {
                return false;
            };
            let Some(Registered { inner: stream, token }) = &link_io.input else { return false };
            let to_the_end = to_the_end || turn.targets.may_end(*token);
            let expects_long = std::mem::take(&mut link_io.expects_long);
            let as_it_is = !link_io.reads_direct && link_io.trailer.is_none();
            if let Some((place, missing)) = self.node.landing(link).filter(|_| as_it_is) {
                let most = missing.min(READ_LIMIT - total);
                match stream.read_into(place, most) {
                    Ok(count @ 1..) => {
                        total += count;
                        link_io.expects_long = true;
                        let borrowed = self.take_fds(link, turn);
                        self.tell(Event::Landed(link), turn);
                        if count < most && !to_the_end && !borrowed {
                            return false;
                        }
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                    Ok(_) | Err(_) => {
                        self.on_channel_end(link, turn);
                        return false;
                    }
                }
            }
            // What is read here of a long frame is copied.
            let most = if expects_long { HEAD } else { self.buffer.len() };
            match stream.read(&mut self.buffer[..most]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // Behind its goodbye nothing on the channel is meant for us.
                Ok(count @ 1..) if link_io.reads_direct => {
                    total += count;
                    if link_io.trailer.is_some() {
                        let mut bytes = self.buffer[..count].to_vec();
                        self.scan_trailer(link, &mut bytes, turn);
                    }
                }
                Ok(count @ 1..) => {
                    total += count;
                    let mut bytes = self.buffer[..count].to_vec();
                    self.scan_trailer(link, &mut bytes, turn);
                    if link == LinkId::PARENT && self.node.may_hear_secrets() {
                        zeroize::Zeroize::zeroize(&mut self.buffer[..count]);
                    }
                    let borrowed = self.take_fds(link, turn);
                    if !bytes.is_empty() {
                        self.tell(Event::Received(link, bytes), turn);
                    }
                    if count < most && !to_the_end && !borrowed {
                        return false;
                    }
                }
                Ok(_) | Err(_) => {
                    self.on_channel_end(link, turn);
                    return false;
                }
            }
        }
        true
    }

    /// Takes out of what has arrived on a channel how the program over there has ended, if that is said there.
    fn scan_trailer(&mut self, link: LinkId, bytes: &mut Vec<u8>, turn: &mut Turn<'_>) {
        let Some(trailer) = self.links.get_mut(&link).and_then(|link_io| link_io.trailer.as_mut()) else {
            return;
        };
        let known = trailer.exit().is_some();
        trailer.filter(bytes);
        if !known && trailer.exit().is_some() {
            self.shell_deadlines.insert((turn.now + SHELL_EXIT_TIMEOUT, link));
            self.unsent.remove(&link);
            if let Some(link_io) = self.links.get_mut(&link) {
                link_io.close_output(turn.registry, turn.targets);
            }
        }
    }

    /// Ends what still leads to programs that have ended: something that they have left behind holds it.
    pub(super) fn kill_lingering_shells(&mut self, now: Instant) {
        while let Some(&(due, link)) = self.shell_deadlines.first()
            && due <= now
        {
            self.shell_deadlines.pop_first();
            let link_io = self.links.get_mut(&link).filter(|link_io| !link_io.released);
            if let Some(process) = link_io.and_then(|link_io| link_io.process.as_mut()) {
                let _ = process.inner.signal_group(Signal::KILL);
            }
        }
    }

    /// Nothing more comes over a channel. What a child has said last may still be on its way directly; it is bounded by
    /// the exit of what was started. A parent is gone with its channel.
    pub(super) fn on_channel_end(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        let link_io = self.links.get_mut(&link).filter(|link_io| !link_io.reads_direct);
        let held = link_io
            .and_then(|link_io| link_io.trailer.as_mut())
            .map(ExitTrailer::take_held)
            .unwrap_or_default();
        if !held.is_empty() {
            self.tell(Event::Received(link, held), turn);
        }
        let link_io =
            self.links.get_mut(&link).filter(|link_io| link != LinkId::PARENT && link_io.process.is_some());
        if let Some(link_io) = link_io.filter(|link_io| link_io.reads_direct && link_io.direct.is_some()) {
            return link_io.close_channel(turn.registry, turn.targets);
        }
        // What has arrived there is in order; it has no other turn.
        for _ in 0..MAX_FINAL_READS {
            if !self.read_direct(link, true, turn) {
                break;
            }
        }
        self.close_link(link, turn);
    }

    /// Nothing more comes from the other end of a link.
    pub(super) fn close_link(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        let Some(link_io) = self.links.get_mut(&link).filter(|link_io| !link_io.closed) else { return };
        if link_io.awaits_trailer() {
            // It comes on the channel, behind all else.
            link_io.reads_direct = true;
            link_io.close_direct(turn.registry, turn.targets);
            return self.tell(Event::Closed(link), turn);
        }
        link_io.close(turn.registry, turn.targets);
        self.unsent.remove(&link);
        self.tell(Event::Closed(link), turn);
        self.remove_if_gone(link, turn);
    }

    /// Reads what a process prints beside its link. True if there may be more.
    pub(super) fn read_printed(
        &mut self,
        link: LinkId,
        place: usize,
        most: usize,
        turn: &mut Turn<'_>,
    ) -> bool {
        let mut total = 0;
        while total < most {
            let Some(link_io) = self.links.get_mut(&link) else { return false };
            let Some(Some(Registered { inner: text, token })) = link_io.print_pipes.get_mut(place) else {
                return false;
            };
            let token = *token;
            match text.pipe.read(&mut self.buffer[..16 << 10]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Ok(count @ 1..) => {
                    total += count;
                    let (stream, before) = (text.stream, text.lines.due());
                    let whole = text.lines.push(&self.buffer[..count], turn.now);
                    let whole = if link_io.trailer.is_some() {
                        whole.map(|all| without_progress(&all))
                    } else {
                        whole
                    };
                    let after = text.lines.due();
                    if before != after {
                        before.map(|due| self.line_deadlines.remove(&(due, link, place)));
                        after.map(|due| self.line_deadlines.insert((due, link, place)));
                    }
                    if let Some(whole) = whole.filter(|whole| !whole.is_empty()) {
                        self.tell(Event::Printed(link, stream, whole), turn);
                        if most == READ_LIMIT && !self.node.reads_output() {
                            self.paused_pipes.push(token);
                            return false;
                        }
                    }
                }
                Ok(_) | Err(_) => {
                    self.flush_partial_line(link, place, turn);
                    if let Some(link_io) = self.links.get_mut(&link) {
                        link_io.close_printed(place, turn.registry, turn.targets);
                    }
                    return false;
                }
            }
        }
        true
    }

    /// The end of a line may be there, and only not have been read; then it gets more time.
    pub(super) fn postpone_partial_line(
        &mut self,
        link: LinkId,
        place: usize,
        now: Instant,
    ) -> Option<Instant> {
        let text = self.links.get_mut(&link)?.print_pipes.get_mut(place)?.as_mut()?;
        is_waiting(&text.inner.pipe).then(|| text.inner.lines.postpone(now))
    }

    pub(super) fn flush_partial_line(&mut self, link: LinkId, place: usize, turn: &mut Turn<'_>) {
        let Some(link_io) = self.links.get_mut(&link) else { return };
        let Some(Some(Registered { inner: text, .. })) = link_io.print_pipes.get_mut(place) else { return };
        text.lines.due().map(|due| self.line_deadlines.remove(&(due, link, place)));
        let stream = text.stream;
        if let Some(rest) = text.lines.take() {
            self.tell(Event::Printed(link, stream, rest), turn);
        }
    }

    /// A process seems to have ended: what it has said before comes first.
    pub(super) fn on_process_exit(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        let Some(process) = self.links.get_mut(&link).and_then(|link_io| link_io.process.as_mut()) else {
            return;
        };
        if process.inner.peek().is_none() {
            return;
        }
        self.read_link(link, true, turn);
        self.read_direct(link, true, turn);
        for place in 0..2 {
            self.read_printed(link, place, 2 * READ_LIMIT, turn);
            self.flush_partial_line(link, place, turn);
        }
        let Some(link_io) = self.links.get_mut(&link) else { return };
        let released = link_io.released;
        let Some(Registered { inner: child, .. }) = &mut link_io.process else { return };
        if !released {
            // What it has left running is not to outlive it.
            let _ = child.signal_group(Signal::KILL);
        }
        let ended = child.try_wait();
        let exit = match (&link_io.trailer, ended) {
            (Some(trailer), ended) => trailer.exit().unwrap_or_else(|| shell_exit(ended)),
            (None, Some(process::ExitStatus::Code(code))) => Exit::Code(code),
            (None, Some(process::ExitStatus::Signal { signal, .. })) => Exit::Signal(signal.number()),
            (None, Some(process::ExitStatus::Unknown) | None) => Exit::Unknown,
        };
        link_io.close_process(turn.registry, turn.targets);
        for place in 0..2 {
            link_io.close_printed(place, turn.registry, turn.targets);
        }
        self.tell(Event::Exited(link, exit), turn);
        self.remove_if_gone(link, turn);
    }
}

/// What is known of a program when the remote shell has ended, and nobody has said more.
fn shell_exit(shell: Option<process::ExitStatus>) -> Exit {
    match shell {
        Some(process::ExitStatus::Code(code)) => Exit::Shell(code),
        Some(process::ExitStatus::Signal { signal, .. }) => Exit::Shell(128 + signal.number()),
        Some(process::ExitStatus::Unknown) | None => Exit::Unknown,
    }
}
