//! Invalid messages from peers.

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use proptest::prelude::*;

use super::one::{member, view};
use crate::contract::{CallId, KeyScope};
use crate::group::kvs::KeyStore;
use crate::message::kvs::{KvsMessage, Query, Reply, Version};

fn version() -> impl Strategy<Value = Version> {
    let number = || prop_oneof![0..4_u64, Just(u64::MAX)];
    let leader = prop::option::of((0..4_u32).prop_map(Rank));
    (number(), number(), leader).prop_map(|(fences, count, leader)| Version { fences, count, leader })
}

fn anything() -> impl Strategy<Value = KvsMessage> {
    let key = || prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    let number = || prop_oneof![0..6_u64, Just(u64::MAX)];
    let query = || {
        (key(), any::<bool>(), number(), number()).prop_map(|(key, wait, nth, fences)| Query {
            key,
            wait,
            nth,
            fences,
        })
    };
    let reply = prop_oneof![
        version().prop_map(Reply::Value),
        version().prop_map(Reply::Unfenced),
        Just(Reply::NotFound),
        version().prop_map(Reply::Lost),
        Just(Reply::Unreachable),
    ];
    prop_oneof![
        (key(), any::<bool>(), number()).prop_map(|(key, dense, length)| {
            KvsMessage::Put { key, scope: if dense { KeyScope::Replicated } else { KeyScope::Local }, length }
        }),
        (key(), version()).prop_map(|(key, version)| KvsMessage::Announce { key, version }),
        query().prop_map(KvsMessage::Query),
        (key(), any::<bool>()).prop_map(|(key, wait)| KvsMessage::CancelQuery { key, wait }),
        (query(), number(), reply, number()).prop_map(|(to, fences, reply, length)| KvsMessage::Reply {
            to,
            fences,
            reply,
            length
        }),
        (key(), version()).prop_map(|(key, version)| KvsMessage::ValueLost { key, version }),
        (key(), version()).prop_map(|(key, over)| KvsMessage::RaiseVersion { key, over }),
        Just(KvsMessage::Continue),
    ]
}

proptest! {
    #[test]
    fn arbitrary_messages_break_nothing(
        leader: bool,
        top: bool,
        said in prop::collection::vec((0..3_u32, anything(), 0..6_usize, 0..8_u8), 0..60),
    ) {
        let view = view(member(leader || top, top));
        let (mut store, mut out) = (KeyStore::default(), Vec::new());
        for (nth, (link, message, length, act)) in said.into_iter().enumerate() {
            let id = CallId(nth as u64);
            match act {
                0 => store.get(id, "a".into(), length % 2 == 0, &view, &mut out),
                1 => store.put(id, "b".into(), Bytes::from(vec![0; length]), KeyScope::Replicated, &view, &mut out),
                2 => {
                    let payload = if top { store.fence_decided(0) } else { store.fence_up(0) };
                    prop_assert!(store.fence_down(0, payload, &view, &mut out).is_ok());
                }
                3 if length == 0 => store.cut(LinkId(link), &view.lost, &view, &mut out),
                _ => store.on_frame(LinkId(link), message, Bytes::from(vec![1; length]), &view, &mut out),
            }
            // One event has few effects.
            prop_assert!(out.len() < 500);
            out.clear();
        }
    }

    #[test]
    fn bytes_that_are_no_fence_payload_are_refused_or_harmless(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        cut in 0..40_usize,
    ) {
        let view = view(member(true, false));
        let (mut store, mut out) = (KeyStore::default(), Vec::new());
        let bytes = Bytes::from(bytes);
        let _ = KeyStore::payload_for(true, &bytes);
        let _ = store.fence_down(0, bytes.clone(), &view, &mut out);
        let _ = store.fence_from_below(0, bytes.clone());
        store.put(CallId(1), "key".into(), "value".into(), KeyScope::Replicated, &view, &mut out);
        let payload = store.fence_up(0);
        let cut = cut.min(payload.len() - 1).max(1);
        let _ = KeyStore::default().fence_down(0, payload.slice(..cut), &view, &mut out);
    }
}
