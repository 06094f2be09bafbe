//! Splits values that are longer than a frame into chunks, and joins them.
//!
//! All chunks of a value are sent at once, so no other message about keys is between them on a
//! link.

use std::collections::BTreeMap;

use bytes::Bytes;
use libi_core::ids::LinkId;

use crate::contract::Effect;
use crate::message::Message;
use crate::message::kvs::KvsMessage;

/// The longest chunk.
pub(super) const MAX_CHUNK: usize = 128 << 10;

/// Sends a message with a value.
pub(super) fn send(link: LinkId, message: KvsMessage, mut value: Bytes, out: &mut Vec<Effect>) {
    let mut message = message;
    loop {
        let chunk = value.split_to(value.len().min(MAX_CHUNK));
        out.push(Effect::Send(link, Message::Kvs(message).frame([chunk])));
        if value.is_empty() {
            return;
        }
        message = KvsMessage::Continue;
    }
}

/// Values that have arrived in part.
#[derive(Debug, Default)]
pub(super) struct PartialValues {
    partial: BTreeMap<LinkId, PartialValue>,
}

#[derive(Debug)]
struct PartialValue {
    message: KvsMessage,
    missing: u64,
    chunks: Vec<Bytes>,
}

impl PartialValues {
    /// Adds a frame. Returns the message and its value once complete. Chunks that do not match are
    /// dropped.
    pub(super) fn join(
        &mut self,
        link: LinkId,
        message: KvsMessage,
        payload: Bytes,
    ) -> Option<(KvsMessage, Bytes)> {
        let partial = self.partial.remove(&link);
        let length = payload.len() as u64;
        match message {
            KvsMessage::Continue => {
                let mut partial = partial?;
                partial.missing = partial.missing.checked_sub(length)?;
                if length > 0 {
                    partial.chunks.push(payload);
                }
                if partial.missing == 0 {
                    return Some((partial.message, partial.chunks.concat().into()));
                }
                self.partial.insert(link, partial);
                None
            }
            KvsMessage::Put { length: whole, .. } | KvsMessage::Reply { length: whole, .. } => {
                match whole.checked_sub(length)? {
                    0 => Some((message, payload)),
                    missing => {
                        self.partial.insert(link, PartialValue { message, missing, chunks: vec![payload] });
                        None
                    }
                }
            }
            message => Some((message, Bytes::new())),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }

    /// The link is closed.
    pub(super) fn cut(&mut self, link: LinkId) {
        self.partial.remove(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::KeyScope;

    fn put(length: u64) -> KvsMessage {
        KvsMessage::Put { key: "k".into(), scope: KeyScope::Replicated, length }
    }

    #[test]
    fn a_value_of_any_length_arrives_intact_in_frames_of_limited_length() {
        for length in [0, 1, MAX_CHUNK - 1, MAX_CHUNK, MAX_CHUNK + 1, 3 * MAX_CHUNK + 5] {
            let value: Bytes = (0..length).map(|at| (at % 251) as u8).collect::<Vec<_>>().into();
            let mut out = Vec::new();
            send(LinkId(3), put(length as u64), value.clone(), &mut out);
            let mut chunks = PartialValues::default();
            let mut whole = None;
            for effect in out {
                let Effect::Send(LinkId(3), frame) = effect else { panic!("{effect:?}") };
                assert!(whole.is_none() && frame.len() <= MAX_CHUNK + 32);
                let Some((Message::Kvs(message), payload)) = Message::decode(frame.concat()) else {
                    panic!("no message")
                };
                whole = chunks.join(LinkId(3), message, payload);
            }
            assert_eq!(whole, Some((put(length as u64), value)));
            assert!(chunks.partial.is_empty());
        }
    }

    #[test]
    fn chunks_that_do_not_fit_are_dropped_with_their_message() {
        let (one, other) = (LinkId(1), LinkId(2));
        let mut chunks = PartialValues::default();
        let two = Bytes::from_static(b"ab");
        assert_eq!(chunks.join(one, KvsMessage::Continue, two.clone()), None, "of nothing");
        assert_eq!(chunks.join(one, put(1), two.clone()), None, "longer than announced");
        assert_eq!(chunks.join(one, put(u64::MAX), two.clone()), None);
        assert_eq!(chunks.join(other, KvsMessage::Continue, two.clone()), None, "of another link");
        let cancel_query = KvsMessage::CancelQuery { key: "k".into(), wait: true };
        assert_eq!(chunks.join(one, cancel_query.clone(), two.clone()), Some((cancel_query, Bytes::new())));
        assert_eq!(chunks.join(one, KvsMessage::Continue, two.clone()), None, "something was between");
        assert_eq!(chunks.join(one, put(3), two.clone()), None);
        assert_eq!(chunks.join(one, KvsMessage::Continue, two), None, "beyond the end");
        assert!(chunks.partial.is_empty());
    }
}
