//! What peers may say that makes no sense.

use bytes::Bytes;
use libi_core::ids::{LinkId, Rank};
use proptest::prelude::*;

use super::one::{member, place};
use crate::contract::{CallId, KeyScope};
use crate::group::keys::{Answer, Keys, Question, Store, Version};

fn version() -> impl Strategy<Value = Version> {
    let number = || prop_oneof![0..4_u64, Just(u64::MAX)];
    let leader = prop::option::of((0..4_u32).prop_map(Rank));
    (number(), number(), leader).prop_map(|(fences, count, leader)| Version { fences, count, leader })
}

fn anything() -> impl Strategy<Value = Keys> {
    let key = || prop_oneof![Just("a".to_owned()), Just("b".to_owned())];
    let number = || prop_oneof![0..6_u64, Just(u64::MAX)];
    let question = || {
        (key(), any::<bool>(), number(), number()).prop_map(|(key, wait, nth, fences)| Question {
            key,
            wait,
            nth,
            fences,
        })
    };
    let answer = prop_oneof![
        version().prop_map(Answer::Value),
        version().prop_map(Answer::Draft),
        Just(Answer::Nothing),
        version().prop_map(Answer::Lost),
        Just(Answer::CutOff),
    ];
    prop_oneof![
        (key(), any::<bool>(), number()).prop_map(|(key, dense, length)| {
            Keys::Put { key, spread: if dense { KeyScope::Replicated } else { KeyScope::Local }, length }
        }),
        (key(), version()).prop_map(|(key, version)| Keys::Announce { key, version }),
        question().prop_map(Keys::Fetch),
        (key(), any::<bool>()).prop_map(|(key, wait)| Keys::Forget { key, wait }),
        (question(), number(), answer, number()).prop_map(|(to, fences, answer, length)| Keys::Answer {
            to,
            fences,
            answer,
            length
        }),
        (key(), version()).prop_map(|(key, version)| Keys::Gone { key, version }),
        (key(), version()).prop_map(|(key, over)| Keys::Raise { key, over }),
        Just(Keys::More),
    ]
}

proptest! {
    #[test]
    fn whatever_peers_say_nothing_breaks(
        leader: bool,
        top: bool,
        said in prop::collection::vec((0..3_u32, anything(), 0..6_usize, 0..8_u8), 0..60),
    ) {
        let place = place(member(leader || top, top));
        let (mut store, mut out) = (Store::default(), Vec::new());
        for (nth, (link, message, length, act)) in said.into_iter().enumerate() {
            let id = CallId(nth as u64);
            match act {
                0 => store.get(id, "a".into(), length % 2 == 0, &place, &mut out),
                1 => store.put(id, "b".into(), Bytes::from(vec![0; length]), KeyScope::Replicated, &place, &mut out),
                2 => {
                    let cargo = if top { store.fence_decided() } else { store.fence_up() };
                    prop_assert!(store.fence_down(cargo, &place, &mut out).is_ok());
                }
                3 if length == 0 => store.cut(LinkId(link), &place.lost, &place, &mut out),
                _ => store.heard(LinkId(link), message, Bytes::from(vec![1; length]), &place, &mut out),
            }
            // One event has few consequences.
            prop_assert!(out.len() < 500);
            out.clear();
        }
    }

    #[test]
    fn bytes_that_are_no_cargo_of_a_fence_are_refused_or_harmless(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
        cut in 0..40_usize,
    ) {
        let place = place(member(true, false));
        let (mut store, mut out) = (Store::default(), Vec::new());
        let bytes = Bytes::from(bytes);
        let _ = Store::cargo_for(true, &bytes);
        let _ = store.fence_down(bytes.clone(), &place, &mut out);
        let _ = store.fence_from_below(LinkId(2), bytes.clone());
        store.put(CallId(1), "key".into(), "value".into(), KeyScope::Replicated, &place, &mut out);
        let cargo = store.fence_up();
        let cut = cut.min(cargo.len() - 1).max(1);
        let _ = Store::default().fence_down(cargo.slice(..cut), &place, &mut out);
    }
}
