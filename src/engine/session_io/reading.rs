//! Reads links, printed output, and the ends of processes.

use std::io;
use std::time::Duration;

use libi_core::time::Instant;
use libi_launch::backend::{may_be_progress, without_progress};
use libi_launch::delivery::Answer;
use libi_launch::exit_trailer::ExitTrailer;
use libi_launch::failure::Exit;
use libi_launch::machine::{Event, LinkId};
use libi_launch::process::{self, Signal};
use zeroize::Zeroize;

use super::{READ_LIMIT, SessionIo, is_waiting};
use crate::engine::Turn;
use crate::engine::fd_sentinel::was_closed;
use crate::engine::link_io::Registered;

/// The most bytes read at once where a long frame is likely to begin.
const HEAD: usize = 1 << 10;
/// How many rounds of reads a closed direct connection gets: more than socket buffers hold.
const MAX_FINAL_READS: usize = 256;
/// How long a remote shell may outlive its program. It ends by itself, unless another process holds
/// its connection.
const SHELL_EXIT_TIMEOUT: Duration = Duration::from_secs(1);

impl SessionIo {
    /// Reads a link; `to_the_end` if no event will report what is left. True if there may be more.
    pub(super) fn read_link(&mut self, link: LinkId, to_the_end: bool, turn: &mut Turn<'_>) -> bool {
        let mut total = 0;
        while total < READ_LIMIT {
            let Some(link_io) = self.links.get_mut(&link).filter(|link_io| !link_io.closed) else {
                return false;
            };
            let Some(Registered { inner: stream, token }) = &link_io.input else { return false };
            let to_the_end = to_the_end || turn.targets.may_end(*token);
            let expects_long = std::mem::take(&mut link_io.expects_long);
            let as_it_is = !link_io.reads_direct && link_io.trailer.is_none() && link_io.delivery.is_none();
            if let Some((place, missing)) = link_io.reader.receive_buffer().filter(|_| as_it_is) {
                let limit = missing.min(READ_LIMIT - total);
                match stream.read_into(place, limit) {
                    Ok(count @ 1..) => {
                        total += count;
                        link_io.expects_long = true;
                        link_io.load.add(count);
                        let borrowed = self.take_fds(link, turn);
                        self.receive(link, &[], turn);
                        if count < limit && !to_the_end && !borrowed {
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
            // The part of a long frame that is read here is copied.
            let limit = if expects_long { HEAD } else { self.buffer.len() };
            match stream.read(&mut self.buffer[..limit]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                // On the channel only the exit trailer may follow its goodbye.
                Ok(count @ 1..) if link_io.reads_direct => {
                    total += count;
                    if link_io.trailer.is_some() {
                        let mut bytes = self.buffer[..count].to_vec();
                        self.scan_trailer(link, &mut bytes, turn);
                    }
                }
                Ok(count @ 1..) => {
                    total += count;
                    link_io.load.add(count);
                    let is_filtered = link_io.trailer.is_some() || link_io.delivery.is_some();
                    let may_be_secret = link == LinkId::PARENT && self.node.may_receive_secrets();
                    let borrowed = self.take_fds(link, turn);
                    // Nothing else is read before the buffer is put back.
                    let mut buffer = std::mem::take(&mut self.buffer);
                    if is_filtered {
                        let mut bytes = buffer[..count].to_vec();
                        self.scan_trailer(link, &mut bytes, turn);
                        self.scan_answer(link, &mut bytes);
                        if !bytes.is_empty() {
                            self.receive(link, &bytes, turn);
                        }
                    } else {
                        self.receive(link, &buffer[..count], turn);
                    }
                    if may_be_secret {
                        buffer[..count].zeroize();
                    }
                    self.buffer = buffer;
                    if count < limit && !to_the_end && !borrowed {
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

    /// Removes the answers of a host that has no agent yet, and sends what it needs.
    fn scan_answer(&mut self, link: LinkId, bytes: &mut Vec<u8>) {
        let Some(link_io) = self.links.get_mut(&link) else { return };
        let Some(delivery) = &mut link_io.delivery else { return };
        match delivery.answers.filter(bytes) {
            Answer::Nothing => return,
            Answer::Ready => link_io.delivery = None,
            Answer::Needed { has_gzip } => self.deliver_agent(link, has_gzip),
        }
        self.unsent.insert(link);
    }

    /// Removes the exit trailer from bytes that arrived on a channel, and notes the exit status.
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

    /// Kills remote shells whose program has ended and that are kept alive by other processes.
    pub(super) fn kill_lingering_shells(&mut self, now: Instant) {
        while let Some(&(due, link)) = self.shell_deadlines.first()
            && due <= now
        {
            self.shell_deadlines.pop_first();
            let link_io = self.links.get_mut(&link).filter(|link_io| !link_io.released);
            if let Some(process) = link_io.and_then(|link_io| link_io.process.as_mut()) {
                process.inner.signal_group(Signal::KILL);
            }
        }
    }

    /// Handles the end of a channel. The last bytes of a child may still arrive on its direct
    /// connection; the exit of the started process bounds the wait. A parent is gone with its
    /// channel.
    pub(super) fn on_channel_end(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        let link_io = self.links.get_mut(&link).filter(|link_io| !link_io.reads_direct);
        let held = link_io.map_or(Vec::new(), |link_io| {
            let before = link_io.delivery.as_mut().map(|delivery| delivery.answers.take_held());
            let after = link_io.trailer.as_mut().map(ExitTrailer::take_held);
            [before.unwrap_or_default(), after.unwrap_or_default()].concat()
        });
        if !held.is_empty() {
            self.receive(link, &held, turn);
        }
        let link_io =
            self.links.get_mut(&link).filter(|link_io| link != LinkId::PARENT && link_io.process.is_some());
        if let Some(link_io) = link_io.filter(|link_io| link_io.reads_direct && link_io.direct.is_some()) {
            return link_io.close_channel(turn.registry, turn.targets);
        }
        // What has arrived there precedes the end, and no later event would report it.
        for _ in 0..MAX_FINAL_READS {
            if !self.read_direct(link, true, turn) {
                break;
            }
        }
        self.close_link(link, turn);
    }

    /// Closes a link whose other end is gone. If the program of a member has closed its descriptors,
    /// nothing is touched any more.
    pub(super) fn close_link(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        let parent = self.links.get(&LinkId::PARENT).and_then(|parent| parent.input.as_ref());
        if parent.is_some_and(|parent| was_closed(turn.fd_sentinel, parent.inner.number())) {
            return;
        }
        let Some(link_io) = self.links.get_mut(&link).filter(|link_io| !link_io.closed) else { return };
        if link == LinkId::PARENT && link_io.is_reopened() {
            return; // the end was that of the connection before
        }
        if link_io.awaits_trailer() {
            // The exit trailer arrives on the channel, behind everything else.
            link_io.reads_direct = true;
            link_io.close_direct(turn.registry, turn.targets);
            return self.tell(Event::Closed(link), turn);
        }
        link_io.close(turn.registry, turn.targets);
        self.unsent.remove(&link);
        self.tell(Event::Closed(link), turn);
        self.remove_if_gone(link, turn);
    }

    /// Reads what a process prints. True if there may be more.
    pub(super) fn read_printed(
        &mut self,
        link: LinkId,
        place: usize,
        limit: usize,
        turn: &mut Turn<'_>,
    ) -> bool {
        let mut total = 0;
        while total < limit {
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
                        if limit == READ_LIMIT && !self.node.reads_output() {
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

    /// Extends the deadline of an incomplete line if its end can already be read, or if it may be what a
    /// remote shell says while it connects. The latter ends with the hello, or when that is overdue.
    pub(super) fn postpone_partial_line(
        &mut self,
        link: LinkId,
        place: usize,
        now: Instant,
    ) -> Option<Instant> {
        let link_io = self.links.get_mut(&link)?;
        let text = link_io.print_pipes.get_mut(place)?.as_mut()?;
        let connects = link_io.trailer.is_some() && !link_io.reader.is_trusted();
        let is_shells = connects && may_be_progress(text.inner.lines.begun());
        (is_shells || is_waiting(&text.inner.pipe)).then(|| text.inner.lines.postpone(now))
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

    /// Handles the exit of a process. What it has sent and printed before is read first.
    pub(super) fn on_process_exit(&mut self, link: LinkId, turn: &mut Turn<'_>) {
        if !self.on_connection(link, turn) {
            return;
        }
        let Some(process) = self.links.get_mut(&link).and_then(|link_io| link_io.process.as_mut()) else {
            return;
        };
        if !process.inner.has_ended() {
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
        let Some(Registered { inner: launched, .. }) = &mut link_io.process else { return };
        if !released {
            // Processes that it has left behind in its group must not outlive it.
            launched.signal_group(Signal::KILL);
        }
        let ended = launched.try_wait();
        let exit = match (&link_io.trailer, ended) {
            (Some(trailer), ended) => trailer.exit().unwrap_or_else(|| shell_exit(ended)),
            (None, ended) => exit_of(ended),
        };
        self.close_launched(link, exit, turn);
    }

    /// Closes what has ended, and tells how.
    pub(super) fn close_launched(&mut self, link: LinkId, exit: Exit, turn: &mut Turn<'_>) {
        if let Some(link_io) = self.links.get_mut(&link) {
            link_io.close_process(turn.registry, turn.targets);
            for place in 0..2 {
                link_io.close_printed(place, turn.registry, turn.targets);
            }
        }
        self.noted.ended(link);
        self.tell(Event::Exited(link, exit), turn);
        self.remove_if_gone(link, turn);
    }
}

/// The exit of a process that this process has started.
pub(super) fn exit_of(ended: Option<process::ExitStatus>) -> Exit {
    match ended {
        Some(process::ExitStatus::Code(code)) => Exit::Code(code),
        Some(process::ExitStatus::Signal { signal, .. }) => Exit::Signal(signal.number()),
        Some(process::ExitStatus::Unknown) | None => Exit::Unknown,
    }
}

/// The exit of a program whose remote shell has ended without an exit trailer.
fn shell_exit(shell: Option<process::ExitStatus>) -> Exit {
    match shell {
        Some(process::ExitStatus::Code(code)) => Exit::Shell(code),
        Some(process::ExitStatus::Signal { signal, .. }) => Exit::Shell(128 + signal.number()),
        Some(process::ExitStatus::Unknown) | None => Exit::Unknown,
    }
}
