//! How a value that is longer than a frame may be travels: behind its message, in parts.
//!
//! All parts of a value are sent at once, so nothing else of this kind is between them on their link.

use std::collections::BTreeMap;

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::Keys;
use crate::contract::Effect;
use crate::message::Message;

/// The longest part.
pub(super) const PART: usize = 128 << 10;

/// Sends a message with a value.
pub(super) fn send(link: LinkId, message: Keys, mut value: Bytes, out: &mut Vec<Effect>) {
    let mut message = message;
    loop {
        let part = value.split_to(value.len().min(PART));
        out.push(Effect::Send(link, Message::Keys(message).frame([part])));
        if value.is_empty() {
            return;
        }
        message = Keys::More;
    }
}

/// Values that have come in part.
#[derive(Debug, Default)]
pub(super) struct Parts {
    begun: BTreeMap<LinkId, Begun>,
}

#[derive(Debug)]
struct Begun {
    message: Keys,
    missing: u64,
    parts: Vec<Bytes>,
}

impl Parts {
    /// What has come with this frame, if it is whole now. What does not fit together is dropped.
    pub(super) fn join(&mut self, link: LinkId, message: Keys, cargo: Bytes) -> Option<(Keys, Bytes)> {
        let begun = self.begun.remove(&link);
        let length = cargo.len() as u64;
        match message {
            Keys::More => {
                let mut begun = begun?;
                begun.missing = begun.missing.checked_sub(length)?;
                if length > 0 {
                    begun.parts.push(cargo);
                }
                if begun.missing == 0 {
                    return Some((begun.message, begun.parts.concat().into()));
                }
                self.begun.insert(link, begun);
                None
            }
            Keys::Put { length: whole, .. } | Keys::Answer { length: whole, .. } => {
                match whole.checked_sub(length)? {
                    0 => Some((message, cargo)),
                    missing => {
                        self.begun.insert(link, Begun { message, missing, parts: vec![cargo] });
                        None
                    }
                }
            }
            message => Some((message, Bytes::new())),
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Nothing more will come over this link.
    pub(super) fn cut(&mut self, link: LinkId) {
        self.begun.remove(&link);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::KeyScope;

    fn put(length: u64) -> Keys {
        Keys::Put { key: "k".into(), spread: KeyScope::Replicated, length }
    }

    #[test]
    fn a_value_of_any_length_comes_as_it_was_sent_in_frames_that_are_short_enough() {
        for length in [0, 1, PART - 1, PART, PART + 1, 3 * PART + 5] {
            let value: Bytes = (0..length).map(|at| (at % 251) as u8).collect::<Vec<_>>().into();
            let mut out = Vec::new();
            send(LinkId(3), put(length as u64), value.clone(), &mut out);
            let mut parts = Parts::default();
            let mut whole = None;
            for effect in out {
                let Effect::Send(LinkId(3), frame) = effect else { panic!("{effect:?}") };
                assert!(whole.is_none() && frame.len() <= PART + 32);
                let Some((Message::Keys(message), cargo)) = Message::take(&frame.concat()) else {
                    panic!("no message")
                };
                whole = parts.join(LinkId(3), message, cargo);
            }
            assert_eq!(whole, Some((put(length as u64), value)));
            assert!(parts.begun.is_empty());
        }
    }

    #[test]
    fn parts_that_do_not_fit_are_dropped_with_what_they_were_parts_of() {
        let (one, other) = (LinkId(1), LinkId(2));
        let mut parts = Parts::default();
        let two = Bytes::from_static(b"ab");
        assert_eq!(parts.join(one, Keys::More, two.clone()), None, "of nothing");
        assert_eq!(parts.join(one, put(1), two.clone()), None, "longer than announced");
        assert_eq!(parts.join(one, put(u64::MAX), two.clone()), None);
        assert_eq!(parts.join(other, Keys::More, two.clone()), None, "of another link");
        let forget = Keys::Forget { key: "k".into(), wait: true };
        assert_eq!(parts.join(one, forget.clone(), two.clone()), Some((forget, Bytes::new())));
        assert_eq!(parts.join(one, Keys::More, two.clone()), None, "something was between");
        assert_eq!(parts.join(one, put(3), two.clone()), None);
        assert_eq!(parts.join(one, Keys::More, two), None, "beyond the end");
        assert!(parts.begun.is_empty());
    }
}
