//! A command on a host: starts it, copies its streams, and tells how it ended.
//!
//! # Flow control
//! Output that the local readers do not take is held up to [`HELD`] bytes. Beyond that nothing is
//! read from the server, so that its window closes. Input is read only as fast as the server
//! takes it.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use bytes::Bytes;
use russh::client::Msg;
use russh::{ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Disconnect, Sig};

use super::link::Link;
use super::pipes::{Input, Output};
use super::words::{Notes, lost_in_session};
use super::{End, FAILED};
use crate::settings::Settings;

/// As much as the window of `ssh`.
const HELD: usize = 2 * 1024 * 1024;
/// Small chunks take more memory than their bytes.
const CHUNKS: usize = 4096;

/// The stream number of standard error.
const STDERR: u32 = 1;

/// Runs a command until it and its streams have ended.
pub(super) async fn run(
    mut link: Link,
    settings: &Settings,
    command: &[u8],
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: &mut Output,
    notes: &Notes,
) -> End {
    let notes = &notes.of_host(settings.prints);
    let channel = match link.handle.channel_open_session().await {
        Ok(channel) => channel,
        Err(_) => {
            match link.seen.open_failure() {
                Some(reason) => notes.line(&format!("channel 0: open failed: {reason}")),
                None => return lost(&mut link, settings, notes).await,
            }
            return End::Code(FAILED);
        }
    };
    let (mut read, write) = channel.split();
    if !request(&mut read, &write, settings, command).await {
        if link.handle.is_closed() {
            return lost(&mut link, settings, notes).await;
        }
        notes.line("exec request failed on channel 0");
        return End::Code(FAILED);
    }
    stderr.write_all(&notes.take()).await;
    let stdin = Input::new(stdin);
    let mut relay = Relay::new(Output::new(stdout), stderr);
    let is_closed = {
        let (input, output) = (send(&stdin, &write), relay.receive(&mut read));
        tokio::pin!(input, output);
        tokio::select! {
            biased;
            is_closed = &mut output => is_closed,
            () = &mut input => output.await,
        }
    };
    if !is_closed {
        return lost(&mut link, settings, notes).await;
    }
    let end = relay.end.unwrap_or(End::Code(FAILED));
    if link.handle.disconnect(Disconnect::ByApplication, "disconnected by user", "").await.is_ok() {
        link.ended().await;
    }
    end
}

async fn lost(link: &mut Link, settings: &Settings, notes: &Notes) -> End {
    let why = link.ended().await;
    lost_in_session(notes, &settings.host_name, link.peer, &why);
    End::Code(FAILED)
}

/// Returns whether the server has started the command.
async fn request(
    read: &mut ChannelReadHalf,
    write: &ChannelWriteHalf<Msg>,
    settings: &Settings,
    command: &[u8],
) -> bool {
    for (name, value) in &settings.variables {
        if write.set_env(false, name, value).await.is_err() {
            return false;
        }
    }
    if write.exec(true, command).await.is_err() {
        return false;
    }
    loop {
        match read.wait().await {
            Some(ChannelMsg::Success) => return true,
            Some(ChannelMsg::WindowAdjusted { .. }) => {}
            // Nothing else comes before the answer.
            _ => return false,
        }
    }
}

/// Sends standard input.
async fn send(stdin: &Input, write: &ChannelWriteHalf<Msg>) {
    loop {
        let chunk = stdin.read().await;
        if chunk.is_empty() {
            let _ = write.eof().await;
            return;
        }
        if write.data_bytes(chunk).await.is_err() {
            return;
        }
    }
}

/// What comes from the server.
struct Relay<'a> {
    stdout: Output,
    stderr: &'a mut Output,
    out: VecDeque<Bytes>,
    err: VecDeque<Bytes>,
    held: usize,
    end: Option<End>,
}

impl<'a> Relay<'a> {
    fn new(stdout: Output, stderr: &'a mut Output) -> Relay<'a> {
        let (out, err) = (VecDeque::new(), VecDeque::new());
        Relay { stdout, stderr, out, err, held: 0, end: None }
    }

    /// Receives until the channel is closed and all is written. Returns false if the connection
    /// was lost.
    async fn receive(&mut self, read: &mut ChannelReadHalf) -> bool {
        let (mut is_open, mut is_closed, mut is_at_end) = (true, false, false);
        loop {
            if (is_at_end || !is_open) && self.out.is_empty() {
                self.stdout.close();
                self.stderr.do_not_block();
            }
            if !is_open && self.out.is_empty() && self.err.is_empty() {
                return is_closed;
            }
            let written = tokio::select! {
                biased;
                length = self.stdout.write(&mut self.out), if !self.out.is_empty() => length,
                length = self.stderr.write(&mut self.err), if !self.err.is_empty() => length,
                message = read.wait(), if is_open && self.has_room() => {
                    match message {
                        None => is_open = false,
                        Some(ChannelMsg::Close) => (is_open, is_closed) = (false, true),
                        Some(ChannelMsg::Eof) => is_at_end = true,
                        Some(message) => self.take(message),
                    }
                    0
                }
            };
            self.held = self.held.saturating_sub(written);
        }
    }

    fn has_room(&self) -> bool {
        self.held < HELD && self.out.len() + self.err.len() < CHUNKS
    }

    fn take(&mut self, message: ChannelMsg) {
        match message {
            ChannelMsg::Data { data } => {
                self.held += data.len();
                self.out.push_back(data);
            }
            ChannelMsg::ExtendedData { data, ext: STDERR } => {
                self.held += data.len();
                self.err.push_back(data);
            }
            ChannelMsg::ExitStatus { exit_status } => {
                self.end = Some(End::Code(i32::from(exit_status as u8)));
            }
            ChannelMsg::ExitSignal { signal_name, .. } => self.end = Some(End::Signal(name(signal_name))),
            _ => {}
        }
    }
}

fn name(signal: Sig) -> String {
    match signal {
        Sig::Custom(name) => name.chars().take(32).collect(),
        known => format!("{known:?}"),
    }
}
