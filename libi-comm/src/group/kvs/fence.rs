//! What a fence does to keys.
//!
//! Up goes what was put densely, each key once; the top decides; down goes what is in force now: dense keys with their values,
//! and the names of sparse keys that had been put before. Who has missed a fence, because it was broken off when some had
//! already passed it, says so with the next and is told then.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use libi_core::ids::LinkId;

use super::{KeyEntry, KeyStore, KvsRole, ValueLocation, Version, kvs_role};
use crate::contract::Effect;
use crate::group::GroupView;

const INVALID: &str = "what came with a fence";

/// What is to be said with the next fence, and, at the top, what was said with those before.
#[derive(Debug, Default)]
pub(super) struct FenceState {
    /// Dense, and put here since the last.
    fresh: BTreeMap<String, (Version, Bytes)>,
    /// Dense, and said upwards, here and below; until the fence is over.
    offered: BTreeMap<String, (Version, Bytes)>,
    /// The last fence that everybody below has passed, as far as they have said.
    passed_below: Option<u64>,
    /// At the top: known before, and put again since.
    again: BTreeSet<String>,
    /// At the top: what was last said of a key.
    decisions: BTreeMap<String, Decision>,
    /// At the top: how many fences have been decided.
    decided: u64,
}

#[derive(Debug)]
struct Decision {
    fence: u64,
    version: Version,
    /// Of a dense key.
    value: Option<Bytes>,
}

impl FenceState {
    pub(super) fn put(&mut self, key: String, version: Version, value: Bytes) {
        self.fresh.insert(key, (version, value));
    }

    /// A sparse value has taken the place of a dense one that nobody else has seen.
    pub(super) fn supersede(&mut self, key: &str) {
        self.fresh.remove(key);
    }

    /// Whether nobody but those who have asked can have seen this value.
    pub(super) fn is_unfenced(&self, key: &str, version: Version) -> bool {
        let of =
            |puts: &BTreeMap<String, (Version, Bytes)>| puts.get(key).is_some_and(|put| put.0 == version);
        of(&self.fresh) || of(&self.offered)
    }

    pub(super) fn put_again(&mut self, key: &str) {
        if !self.again.contains(key) {
            self.again.insert(key.to_owned());
        }
    }

    fn offer(&mut self, key: String, version: Version, value: Bytes) {
        if self.offered.get(&key).is_none_or(|&(other, _)| other < version) {
            self.offered.insert(key, (version, value));
        }
    }

    fn offer_fresh(&mut self) {
        for (key, (version, value)) in std::mem::take(&mut self.fresh) {
            self.offer(key, version, value);
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
    /// A fence: everybody below has come to it. What goes up: what was put densely here and below since the last. Not for
    /// the top.
    pub(crate) fn fence_up(&mut self) -> Bytes {
        self.fence.offer_fresh();
        let puts = self.fence.offered.iter();
        let entries = puts.map(|(key, (version, value))| (key.as_str(), *version, Some(value)));
        encode(self.fence.passed(self.fences), entries)
    }

    /// What somebody below has sent up with a fence.
    pub(crate) fn fence_from_below(&mut self, _: LinkId, payload: Bytes) -> Result<(), &'static str> {
        if payload.is_empty() {
            return Ok(());
        }
        let (passed, entries) = decode(payload)?;
        self.fence.passed_below = Some(self.fence.passed(passed));
        for (key, version, value) in entries {
            self.observe(version);
            self.fence.offer(key, version, value.ok_or(INVALID)?);
        }
        Ok(())
    }

    /// At the top, when everybody has come to a fence: what goes down to everybody, and is to be applied here as well. Once decided,
    /// it has to reach all who are still there.
    pub(crate) fn fence_decided(&mut self) -> Bytes {
        let fence = &mut self.fence;
        fence.offer_fresh();
        fence.decided = fence.decided.max(self.fences).saturating_add(1);
        for (key, (mut version, value)) in std::mem::take(&mut fence.offered) {
            match self.entries.get(&key) {
                Some(KeyEntry { version: lost, at: ValueLocation::Gone }) if *lost >= version => {
                    // What is put after a loss has to count.
                    version =
                        Version { leader: version.leader, count: lost.count.saturating_add(1), ..*lost };
                }
                Some(entry) if entry.version > version => {
                    fence.again.insert(key);
                    continue;
                }
                _ => {}
            }
            self.entries.insert(key.clone(), KeyEntry { version, at: ValueLocation::Here(value.clone()) });
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

    /// What has come down with a fence is in force now. What goes on to branches is said by [`payload_for`](Self::payload_for).
    pub(crate) fn fence_down(
        &mut self,
        payload: Bytes,
        view: &GroupView,
        out: &mut Vec<Effect>,
    ) -> Result<(), &'static str> {
        let (fences, entries) = decode(payload)?;
        self.fences = self.fences.max(fences);
        if kvs_role(view) != KvsRole::Server {
            return Ok(());
        }
        self.fence.offered.clear();
        self.fence.passed_below = None;
        let mut touched = Vec::new();
        for (key, version, value) in entries {
            self.observe(version);
            let entry = self.entries.get(&key).map(|entry| entry.version);
            match value {
                Some(value) if entry.is_none_or(|entry| entry <= version) => {
                    self.entries.insert(key.clone(), KeyEntry { version, at: ValueLocation::Here(value) });
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

    /// What goes down to a branch of what has come from above: to a further member of this host, who asks for what he wants to
    /// know, only that there was a fence.
    pub(crate) fn payload_for(local: bool, payload: &Bytes) -> Bytes {
        if !local {
            return payload.clone();
        }
        let rest = postcard::take_from_bytes::<u64>(payload).map_or(0, |(_, rest)| rest.len());
        payload.slice(..payload.len() - rest)
    }
}

/// A number and keys, as they travel.
fn encode<'a>(number: u64, entries: impl Iterator<Item = (&'a str, Version, Option<&'a Bytes>)>) -> Bytes {
    // Such things can always be written.
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
