//! Operations whose data are one message up and one down on each link. The messages travel with the
//! signs of the call: upwards that all members below have called, downwards that all members have.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::context::CallContext;
use crate::contract::{Effect, Outcome};
use crate::error::CommError;
use crate::message::{CollectiveHeader, Message};

/// How much of a message goes into one frame.
const MAX_PAYLOAD: usize = 512 << 10;

/// What an operation says in its messages.
pub(crate) trait Messages: fmt::Debug + Sync {
    /// The message to the parent, once all members here and below have called.
    fn up(&self, arrived: &mut Arrived, ctx: &mut CallContext<'_>) -> Result<Bytes, CommError>;

    /// All members have called, and this message has come from above; at the top, `None`.
    fn down(
        &self,
        arrived: &mut Arrived,
        above: Option<Bytes>,
        ctx: &mut CallContext<'_>,
    ) -> Result<Downward, CommError>;
}

/// What a process has of the messages of a call.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    /// The number of the call.
    pub(crate) nth: u64,
    /// What this member contributes.
    pub(crate) own: Bytes,
    /// The messages of branches, or what has arrived of them.
    pub(crate) below: BTreeMap<LinkId, Vec<u8>>,
    /// What has arrived of the message of the parent.
    pub(crate) above: Vec<u8>,
}

/// What a process knows once all members have called.
#[derive(Debug)]
pub(crate) struct Downward {
    /// The outcome for this member.
    pub(crate) outcome: Outcome,
    /// The messages to the branches.
    pub(crate) messages: BTreeMap<LinkId, Bytes>,
}

impl Arrived {
    pub(crate) fn of(nth: u64) -> Self {
        Self { nth, ..Self::default() }
    }

    /// Appends a part of a message.
    pub(crate) fn push(&mut self, link: LinkId, part: &[u8]) {
        let message = match link {
            LinkId::PARENT => &mut self.above,
            branch => self.below.entry(branch).or_default(),
        };
        message.extend_from_slice(part);
    }
}

/// Applies a message from above of a call that was aborted here, and passes it on to all branches.
pub(super) fn apply_late(
    messages: &dyn Messages,
    header: &CollectiveHeader,
    above: Bytes,
    ctx: &mut CallContext<'_>,
) {
    // A message that is invalid here is invalid below.
    let Ok(down) = messages.down(&mut Arrived::of(header.nth), Some(above), ctx) else { return };
    for (link, message) in down.messages {
        if !ctx.view.cut.contains(&link) {
            send_message(link, header, message, ctx.out);
        }
    }
}

/// Sends a header with a message in as many frames as it takes.
pub(super) fn send_message(
    link: LinkId,
    header: &CollectiveHeader,
    mut message: Bytes,
    out: &mut Vec<Effect>,
) {
    loop {
        let part = message.split_to(message.len().min(MAX_PAYLOAD));
        let mut header = header.clone();
        header.flags.more = !message.is_empty();
        let more = header.flags.more;
        out.push(Effect::Send(
            link,
            Message::Collective(header).frame(Some(part).filter(|part| !part.is_empty())),
        ));
        if !more {
            return;
        }
    }
}
