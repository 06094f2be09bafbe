//! The I/O of one link: its descriptors, queued output, and the process at its other end.

use std::os::fd::{AsFd, AsRawFd};

use libi_comm::memory::SealedRegion;
use libi_comm::{Bytes, Frame};
use libi_core::wire::{Header, LinkInput};
use libi_launch::exit_trailer::ExitTrailer;
use libi_launch::machine::Stream as StdStream;
use libi_launch::process::Child;
use mio::{Interest, Registry, Token};

use super::NodeId;
use super::agent_delivery::AgentDelivery;
use super::confirmation::Confirmation;
use super::direct_stream::DirectStream;
use super::launched::Launched;
use super::line_buffer::LineBuffer;
use super::link_load::LinkLoad;
use super::send_queue::{self, Flushed, SendQueue};
use super::stream::Stream;
use super::targets::{FdRole, Targets};
use libi_launch::machine::LinkId;

/// A descriptor with its token.
#[derive(Debug)]
pub(super) struct Registered<T> {
    pub(super) inner: T,
    pub(super) token: Token,
}

/// A pipe that a process prints to.
#[derive(Debug)]
pub(super) struct PrintPipe {
    pub(super) pipe: Stream,
    pub(super) stream: StdStream,
    pub(super) lines: LineBuffer,
}

/// See the [module](self).
#[derive(Default)]
pub(super) struct LinkIo {
    pub(super) input: Option<Registered<Stream>>,
    /// Receives output of the channel, if that is another descriptor than `input`.
    pub(super) output: Option<Registered<Stream>>,
    /// The direct connection, once it is authenticated; whether output goes there, and whether
    /// input is read there.
    pub(super) direct: Option<Registered<DirectStream>>,
    pub(super) sends_direct: bool,
    pub(super) reads_direct: bool,
    /// Output that waits for the channel.
    send_queue: SendQueue,
    /// Whether writability is reported for the channel, and for the direct connection.
    write_interest: (bool, bool),
    /// Reads what arrives, in the channel and later on the direct connection.
    pub(super) reader: LinkInput,
    /// The last read was part of a long frame; another one is likely to follow.
    pub(super) expects_long: bool,
    pub(super) process: Option<Registered<Launched>>,
    pub(super) print_pipes: [Option<Registered<PrintPipe>>; 2],
    /// The agent is being delivered to the host: everything queued waits until it runs.
    pub(super) delivery: Option<AgentDelivery>,
    /// Finds the exit trailer of the remote program on the channel.
    pub(super) trailer: Option<ExitTrailer>,
    /// A direct connection may come, for which a descriptor is reserved.
    pub(super) awaits_direct: bool,
    /// Frames of the communication half, and shared memory sent with them, that wait until the program
    /// at the other end joins.
    held: Option<Vec<(Frame, Option<SealedRegion>)>>,
    pub(super) confirmation: Confirmation,
    pub(super) load: LinkLoad,
    /// Nothing is received or sent any more.
    pub(super) closed: bool,
    /// The process has been released.
    pub(super) released: bool,
}

/// The most bytes written to one descriptor in one turn.
pub(super) const WRITE_LIMIT: usize = 512 << 10;

impl LinkIo {
    /// Queues a message.
    pub(super) fn queue(&mut self, message: &[u8]) {
        if !self.closed && !self.has_exited() {
            self.confirmation.sent();
            self.load.add(message.len());
            self.active_queue().queue(message);
        }
    }

    /// Puts bytes before everything queued; nothing has been written yet.
    pub(super) fn put_first(&mut self, first: &[u8]) {
        match &mut self.delivery {
            Some(delivery) => delivery.queue(first.into()),
            None => self.send_queue.put_first(first),
        }
    }

    /// Queues a frame of the communication half, with the shared memory that is sent with it.
    pub(super) fn queue_frame(&mut self, frame: Frame, lent: Option<SealedRegion>) {
        if self.closed || self.has_exited() {
            return;
        }
        self.confirmation.sent();
        if self.load.is_watched() {
            self.load.add(frame.len());
            self.load.add_frame(frame.is_of_a_call());
        }
        match &mut self.held {
            Some(held) => held.push((frame, lent)),
            None => self.active_queue().queue_frame(frame.0, lent),
        }
    }

    /// Queues a frame that may wait behind all messages.
    pub(super) fn queue_bulk(&mut self, header: Header, payload: Bytes) {
        if !self.closed && !self.has_exited() {
            self.confirmation.sent();
            self.active_queue().queue_bulk(header, payload);
        }
    }

    /// Keeps frames of the communication half from now on.
    pub(super) fn hold_frames(&mut self) {
        self.held.get_or_insert_default();
    }

    /// Sends the frames that were kept.
    pub(super) fn release_frames(&mut self) {
        for (frame, lent) in self.held.take().into_iter().flatten() {
            self.queue_frame(frame, lent);
        }
    }

    /// The queue of the connection that is in use for output.
    fn active_queue(&mut self) -> &mut SendQueue {
        match &mut self.direct {
            Some(direct) if self.sends_direct => &mut direct.inner.send_queue,
            _ => &mut self.send_queue,
        }
    }

    /// Sends on the direct connection from now on. The message queued last is the goodbye of the
    /// channel: it is sent there behind all queued frames.
    pub(super) fn switch(&mut self) {
        if self.direct.is_some() && !std::mem::replace(&mut self.sends_direct, true) {
            self.send_queue.end();
        }
    }

    /// The link has no channel: everything, also what is queued, goes through the direct connection.
    pub(super) fn use_direct_only(&mut self) {
        if let Some(direct) = &mut self.direct {
            // At a member, the claim may be queued there, and nothing here.
            if direct.inner.send_queue.is_empty() {
                direct.inner.send_queue = std::mem::take(&mut self.send_queue);
            }
            (self.sends_direct, self.reads_direct) = (true, true);
        }
    }

    /// Whether it has nothing but a direct connection, if that.
    pub(super) fn has_no_channel(&self) -> bool {
        self.input.is_none() && self.output.is_none() && self.process.is_none()
    }

    /// Whether it has been opened anew, and is not connected.
    pub(super) fn is_reopened(&self) -> bool {
        self.has_no_channel() && self.direct.is_none()
    }

    /// Whether bytes sent on the direct connection may not have arrived: the other end has not
    /// confirmed them, and the other system has not acknowledged them.
    pub(super) fn has_unacknowledged(&self) -> bool {
        !self.confirmation.is_given()
            && self.direct.as_ref().is_some_and(|direct| !direct.inner.is_acknowledged())
    }

    /// Whether a confirmation would tell something, and was not asked for.
    pub(super) fn may_ask_for_confirmation(&self) -> bool {
        self.confirmation.may_be_asked() && !self.has_unsent() && self.has_unacknowledged()
    }

    pub(super) fn has_unsent(&self) -> bool {
        !self.send_queue.is_empty() || self.direct.as_ref().is_some_and(|direct| direct.inner.has_unsent())
    }

    /// Whether frames of the communication half are queued.
    pub(super) fn has_frames(&self) -> bool {
        self.send_queue.has_frames() || self.direct.as_ref().is_some_and(|direct| direct.inner.has_frames())
    }

    /// Requests reports of writability only while output is queued. Otherwise every acknowledgement
    /// of the other side would be reported.
    pub(super) fn update_interest(&mut self, registry: &Registry) {
        let waits = !self.send_queue.is_empty();
        if let Some(Registered { inner, token }) = self.input.as_ref().filter(|input| input.inner.is_socket())
        {
            Self::update_one(&mut self.write_interest.0, waits, inner.number(), *token, registry);
        }
        if let Some(Registered { inner, token }) = &self.direct {
            let waits = inner.has_unsent();
            Self::update_one(&mut self.write_interest.1, waits, inner.stream.number(), *token, registry);
        }
    }

    fn update_one(write_interest: &mut bool, waits: bool, number: i32, token: Token, registry: &Registry) {
        if *write_interest != waits {
            let more = if waits { Some(Interest::WRITABLE) } else { None };
            let interest = more.map_or(Interest::READABLE, |more| Interest::READABLE | more);
            if Targets::watch(registry, number, token, interest).is_ok() {
                *write_interest = waits;
            }
        }
    }

    /// Writes queued output as far as the descriptors take it.
    pub(super) fn flush(&mut self) -> Flushed {
        let direct = self.direct.as_mut().map_or(Flushed::Everything, |direct| direct.inner.flush());
        if direct == Flushed::Broken {
            return direct;
        }
        let channel = match self.output.as_ref().or(self.input.as_ref()) {
            Some(Registered { inner: stream, .. }) => match &mut self.delivery {
                Some(delivery) => delivery.flush(stream, WRITE_LIMIT),
                None => send_queue::flush(&mut self.send_queue, stream, WRITE_LIMIT),
            },
            // The channel does not exist yet, or is closed.
            None if self.send_queue.is_empty() => Flushed::Everything,
            None => Flushed::Waits,
        };
        channel.max(direct)
    }

    /// Sets the descriptor for input, and for output if it is a socket.
    pub(super) fn set_input(
        &mut self,
        stream: Stream,
        registry: &Registry,
        targets: &mut Targets,
        (id, link): (NodeId, LinkId),
    ) -> std::io::Result<()> {
        let token = targets.add(registry, stream.number(), Interest::READABLE, (id, link, FdRole::In))?;
        self.input = Some(Registered { inner: stream, token });
        Ok(())
    }

    /// Sets the descriptor for output.
    pub(super) fn set_output(
        &mut self,
        stream: Stream,
        registry: &Registry,
        targets: &mut Targets,
        (id, link): (NodeId, LinkId),
    ) -> std::io::Result<()> {
        let token = targets.add(registry, stream.number(), Interest::WRITABLE, (id, link, FdRole::Out))?;
        self.output = Some(Registered { inner: stream, token });
        Ok(())
    }

    /// Sets the authenticated direct connection.
    pub(super) fn set_direct(
        &mut self,
        direct: DirectStream,
        registry: &Registry,
        targets: &mut Targets,
        (id, link): (NodeId, LinkId),
    ) -> std::io::Result<Token> {
        let at = (id, link, FdRole::Direct);
        let token = targets.add(registry, direct.stream.number(), Interest::READABLE, at)?;
        self.direct = Some(Registered { inner: direct, token });
        self.awaits_direct = false;
        Ok(token)
    }

    /// Sets the process, whose exit is reported.
    pub(super) fn set_process(
        &mut self,
        launched: Launched,
        registry: &Registry,
        targets: &mut Targets,
        (id, link): (NodeId, LinkId),
    ) -> std::io::Result<()> {
        let fd = launched.as_fd().as_raw_fd();
        let token = targets.add(registry, fd, Interest::READABLE, (id, link, FdRole::Process));
        let (token, result) = match token {
            Ok(token) => (token, Ok(())),
            Err(error) => (Token(usize::MAX - 1), Err(error)),
        };
        // Even if its exit is not reported, this link has to end it.
        self.process = Some(Registered { inner: launched, token });
        result
    }

    /// Adds a pipe that the process prints to.
    pub(super) fn set_printed(
        &mut self,
        pipe: Stream,
        stream: StdStream,
        registry: &Registry,
        targets: &mut Targets,
        (id, link): (NodeId, LinkId),
    ) -> std::io::Result<()> {
        let place = self.print_pipes.iter().position(Option::is_none).unwrap_or(0);
        let token =
            targets.add(registry, pipe.number(), Interest::READABLE, (id, link, FdRole::PrintPipe(place)))?;
        self.print_pipes[place] =
            Some(Registered { inner: PrintPipe { pipe, stream, lines: LineBuffer::default() }, token });
        Ok(())
    }

    /// Closes the output of the channel, whose other end waits for that.
    pub(super) fn close_output(&mut self, registry: &Registry, targets: &mut Targets) {
        self.send_queue.clear();
        if let Some(Registered { inner, token }) = self.output.take() {
            targets.remove(registry, inner.number(), token);
        }
    }

    /// Whether the remote program has exited, so that no process reads the channel.
    fn has_exited(&self) -> bool {
        self.trailer.as_ref().is_some_and(|trailer| trailer.exit().is_some())
    }

    /// Whether a bulk start has still to bring up the host of this link.
    pub(super) fn awaits_arrival(&self) -> bool {
        self.awaits_direct && !self.closed && self.process.is_none() && self.direct.is_none()
    }

    /// Whether the direct connection may close before the link does: the exit trailer is still to
    /// arrive on the channel.
    pub(super) fn awaits_trailer(&self) -> bool {
        let unsaid = self.trailer.as_ref().is_some_and(|trailer| trailer.exit().is_none());
        unsaid && self.process.is_some() && self.input.is_some() && self.direct.is_some()
    }

    /// Closes the link. Queued output is written as far as possible at once.
    pub(super) fn close(&mut self, registry: &Registry, targets: &mut Targets) {
        if !std::mem::replace(&mut self.closed, true) {
            self.flush();
        }
        self.held = None;
        self.close_direct(registry, targets);
        self.close_channel(registry, targets);
    }

    /// Closes the channel only.
    pub(super) fn close_channel(&mut self, registry: &Registry, targets: &mut Targets) {
        self.send_queue.clear();
        for Registered { inner, token } in self.input.take().into_iter().chain(self.output.take()) {
            targets.remove(registry, inner.number(), token);
        }
    }

    /// Closes the direct connection only.
    pub(super) fn close_direct(&mut self, registry: &Registry, targets: &mut Targets) {
        if let Some(Registered { inner, token }) = self.direct.take() {
            targets.remove(registry, inner.stream.number(), token);
        }
    }

    /// Closes a pipe that the process printed to.
    pub(super) fn close_printed(&mut self, place: usize, registry: &Registry, targets: &mut Targets) {
        if let Some(Registered { inner, token }) = self.print_pipes.get_mut(place).and_then(Option::take) {
            targets.remove(registry, inner.pipe.number(), token);
        }
    }

    /// Drops the process: kills it unless it has ended or was released.
    pub(super) fn close_process(&mut self, registry: &Registry, targets: &mut Targets) {
        if let Some(Registered { inner: mut child, token }) = self.process.take() {
            if self.released {
                child.release();
            }
            let fd = child.as_fd().as_raw_fd();
            targets.remove(registry, fd, token);
        }
    }

    /// Returns the process if it was released and may still run.
    pub(super) fn take_released_child(
        &mut self,
        registry: &Registry,
        targets: &mut Targets,
    ) -> Option<Child> {
        if !self.released {
            return None;
        }
        let Registered { inner: mut launched, token } = self.process.take()?;
        launched.release();
        targets.remove(registry, launched.as_fd().as_raw_fd(), token);
        launched.into_process()
    }

    /// Closes everything.
    pub(super) fn close_all(&mut self, registry: &Registry, targets: &mut Targets) {
        self.close(registry, targets);
        self.close_process(registry, targets);
        (0..2).for_each(|place| self.close_printed(place, registry, targets));
    }

    /// Whether the link is closed and its process has ended.
    pub(super) fn is_gone(&self) -> bool {
        self.closed && self.process.is_none()
    }
}
