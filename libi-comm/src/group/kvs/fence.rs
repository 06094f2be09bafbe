//! What a fence does to keys.
//!
//! Upwards go replicated values that were put since the last fence, each key once. The top decides
//! the versions. Downwards go the replicated keys with their values, and the names of local keys
//! that were put again. A node that has missed a fence, because it was aborted after others had
//! passed it, says so with the next fence and gets both then.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::{KeyEntry, KeyStore, KvsRole, ValueLocation, kvs_role};
use crate::contract::Effect;
use crate::group::GroupView;
use crate::message::kvs::Version;

const INVALID: &str = "an invalid fence payload";

/// What the next fence will send, and, at the top, what earlier fences have decided.
#[derive(Debug, Default)]
pub(super) struct FenceState {
    /// Replicated values put here since the last fence.
    fresh: BTreeMap<String, (Version, Bytes)>,
    /// Replicated values from here and below that were sent upwards, and the number of the first fence
    /// with which they were; kept until that is over, or a later one.
    offered: BTreeMap<String, (Version, Bytes, u64)>,
    /// The last fence that all nodes below have passed, as far as they have said.
    passed_below: Option<u64>,
    /// At the top: keys that had a value and were put again.
    again: BTreeSet<String>,
    /// At the top: the last decision on each key.
    decisions: BTreeMap<String, Decision>,
    /// At the top: how many fences have been decided.
    decided: u64,
}

#[derive(Debug)]
struct Decision {
    fence: u64,
    version: Version,
    /// Only for replicated keys.
    value: Option<Bytes>,
}

impl FenceState {
    pub(super) fn put(&mut self, key: String, version: Version, value: Bytes) {
        self.fresh.insert(key, (version, value));
    }

    /// A local value replaces a replicated one that no fence has distributed.
    pub(super) fn supersede(&mut self, key: &str) {
        self.fresh.remove(key);
    }

    /// Whether only nodes that have asked for it can have this value.
    pub(super) fn is_unfenced(&self, key: &str, version: Version) -> bool {
        self.fresh.get(key).is_some_and(|put| put.0 == version)
            || self.offered.get(key).is_some_and(|put| put.0 == version)
    }

    pub(super) fn put_again(&mut self, key: &str) {
        if !self.again.contains(key) {
            self.again.insert(key.to_owned());
        }
    }

    fn offer(&mut self, nth: u64, key: String, version: Version, value: Bytes) {
        if self.offered.get(&key).is_none_or(|&(other, ..)| other < version) {
            self.offered.insert(key, (version, value, nth));
        }
    }

    fn offer_fresh(&mut self, nth: u64) {
        for (key, (version, value)) in std::mem::take(&mut self.fresh) {
            self.offer(nth, key, version, value);
        }
    }

    fn passed(&self, here: u64) -> u64 {
        self.passed_below.map_or(here, |below| below.min(here))
    }

    fn decide(&mut self, key: String, version: Version, value: Option<Bytes>) {
        self.decisions.insert(key, Decision { fence: self.decided, version, value });
    }
}

impl KeyStore {
    /// All nodes below have entered the fence that is this collective call: the payload that goes up,
    /// with the replicated values put here and below since the last. Not for the top.
    pub(crate) fn fence_up(&mut self, nth: u64) -> Bytes {
        self.fence.offer_fresh(nth);
        let puts = self.fence.offered.iter();
        let entries = puts.map(|(key, (version, value, _))| (key.as_str(), *version, Some(value)));
        encode(self.fence.passed(self.fences), entries)
    }

    /// The payload of a branch in a fence.
    pub(crate) fn fence_from_below(&mut self, nth: u64, payload: Bytes) -> Result<(), &'static str> {
        if payload.is_empty() {
            return Ok(());
        }
        let (passed, entries) = decode(payload)?;
        self.fence.passed_below = Some(self.fence.passed(passed));
        for (key, version, value) in entries {
            self.observe(version);
            self.fence.offer(nth, key, version, value.ok_or(INVALID)?);
        }
        Ok(())
    }

    /// At the top, when all members have entered a fence: the payload that goes down. The top
    /// applies it as well. Once decided, it must reach all nodes that are not lost.
    pub(crate) fn fence_decided(&mut self, nth: u64) -> Bytes {
        let fence = &mut self.fence;
        fence.offer_fresh(nth);
        fence.decided = fence.decided.max(self.fences).saturating_add(1);
        for (key, (mut version, value, _)) in std::mem::take(&mut fence.offered) {
            match self.entries.get(&key) {
                Some(KeyEntry { version: lost, at: ValueLocation::Gone, .. }) if *lost >= version => {
                    // A put after a loss must take effect.
                    version =
                        Version { leader: version.leader, count: lost.count.saturating_add(1), ..*lost };
                }
                Some(entry) if entry.version > version => {
                    fence.again.insert(key);
                    continue;
                }
                _ => {}
            }
            self.entries.insert(key.clone(), KeyEntry::new(version, ValueLocation::Here(value.clone())));
            fence.decide(key, version, Some(value));
        }
        for key in std::mem::take(&mut fence.again) {
            let said = fence.decisions.get(&key).map(|decision| decision.version);
            let entry = self.entries.get(&key).map(|entry| entry.version);
            if let Some(version) = entry.filter(|_| entry != said) {
                fence.decide(key, version, None);
            }
        }
        let passed = fence.passed(self.fences);
        let new = fence.decisions.iter().filter(|(_, decision)| decision.fence > passed);
        encode(
            fence.decided,
            new.map(|(key, decision)| (key.as_str(), decision.version, decision.value.as_ref())),
        )
    }

    /// Applies the payload of a fence from above. [`payload_for`](Self::payload_for) gives what goes to
    /// branches.
    pub(crate) fn fence_down(
        &mut self,
        nth: u64,
        payload: Bytes,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) -> Result<(), &'static str> {
        let (fences, entries) = decode(payload)?;
        self.fences = self.fences.max(fences);
        if kvs_role(view) != KvsRole::Server {
            return Ok(());
        }
        // Values that a later fence has sent upwards are sent again if that is aborted, or begins anew.
        self.fence.offered.retain(|_, (.., offered)| *offered > nth);
        self.fence.passed_below = None;
        let mut touched = Vec::new();
        for (key, version, value) in entries {
            self.observe(version);
            let entry = self.entries.get(&key).map(|entry| entry.version);
            match value {
                Some(value) if entry.is_none_or(|entry| entry <= version) => {
                    self.entries.insert(key.clone(), KeyEntry::new(version, ValueLocation::Here(value)));
                }
                None if entry.is_some_and(|entry| entry < version) => {
                    self.entries.remove(&key);
                }
                _ => {}
            }
            touched.push(key);
        }
        for key in touched {
            self.resolve(&key, view, out);
        }
        for (link, query) in std::mem::take(&mut self.early_queries) {
            self.on_query(link, query, view, out);
        }
        Ok(())
    }

    /// The payload for a branch. Another member of this host looks keys up through its leader, and
    /// only needs to know that there was a fence.
    pub(crate) fn payload_for(local: bool, payload: &Bytes) -> Bytes {
        if !local {
            return payload.clone();
        }
        let rest = postcard::take_from_bytes::<u64>(payload).map_or(0, |(_, rest)| rest.len());
        payload.slice(..payload.len() - rest)
    }
}

/// The encoding of a number and of keys.
fn encode<'a>(number: u64, entries: impl Iterator<Item = (&'a str, Version, Option<&'a Bytes>)>) -> Bytes {
    // Serializing these types into a vector cannot fail.
    let mut payload = postcard::to_allocvec(&number).unwrap_or_default();
    for (key, version, value) in entries {
        let length = value.map(|value| value.len() as u64);
        payload.extend(postcard::to_allocvec(&(key, version, length)).unwrap_or_default());
        payload.extend_from_slice(value.map_or(&[], |value| value));
    }
    payload.into()
}

type Entry = (String, Version, Option<Bytes>);

fn decode(mut payload: Bytes) -> Result<(u64, Vec<Entry>), &'static str> {
    let (number, rest) = postcard::take_from_bytes::<u64>(&payload).map_err(|_| INVALID)?;
    payload = payload.slice_ref(rest);
    let mut entries = Vec::new();
    while !payload.is_empty() {
        let ((key, version, length), rest) =
            postcard::take_from_bytes::<(String, Version, Option<u64>)>(&payload).map_err(|_| INVALID)?;
        payload = payload.slice_ref(rest);
        let length = length.map(usize::try_from).transpose().map_err(|_| INVALID)?;
        if length.is_some_and(|length| length > payload.len()) {
            return Err(INVALID);
        }
        entries.push((key, version, length.map(|length| payload.split_to(length))));
    }
    Ok((number, entries))
}
