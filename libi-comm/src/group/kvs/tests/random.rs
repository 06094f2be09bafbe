//! Random sessions, checked against a model without a tree: which values a lookup may return.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use super::cluster::{Cluster, Rng, random_shape, with_seeds};
use crate::contract::{CallId, KeyScope, Outcome};
use crate::error::CommError;

/// A put: by which member, after how many fences, which value.
#[derive(Clone)]
struct Put {
    by: usize,
    fences: u64,
    scope: KeyScope,
    value: Bytes,
}

impl fmt::Debug for Put {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = String::from_utf8_lossy(&self.value[..self.value.len().min(20)]);
        write!(f, "[{start} {:?} after {}]", self.scope, self.fences)
    }
}

#[derive(Clone, Debug)]
struct Get {
    by: usize,
    fences: u64,
    key: String,
    wait: bool,
    /// How many puts of the key there were before.
    after: usize,
    checked: bool,
}

#[derive(Default)]
struct Book {
    puts: BTreeMap<String, Vec<Put>>,
    gets: BTreeMap<CallId, Get>,
    /// Which of the puts before a fence has won.
    winners: BTreeMap<(String, u64), usize>,
}

impl Book {
    fn check(&mut self, id: CallId, result: &Result<Outcome, CommError>) {
        let Some(get) = self.gets.get_mut(&id) else { panic!("{id:?} was not called") };
        get.checked = true;
        let none = Vec::new();
        let puts = self.puts.get(&get.key).unwrap_or(&none);
        let last_round = puts.iter().map(|put| put.fences).filter(|&fences| fences < get.fences).max();
        let own = puts[..get.after].iter().rposition(|put| put.by == get.by && put.fences >= get.fences);
        match result {
            Ok(Outcome::Found(None)) => {
                assert!(!get.wait && own.is_none() && last_round.is_none(), "{get:?}: nothing, of {puts:?}");
            }
            Ok(Outcome::Found(Some(value))) => {
                let Some(at) = puts.iter().position(|put| put.value == value) else {
                    panic!("{get:?}: there was no put of {value:?}")
                };
                let put = &puts[at];
                if put.fences >= get.fences {
                    let stale = own.is_some_and(|own| put.by == get.by && at < own);
                    assert!(!stale, "{get:?}: {put:?} is older than one's own");
                    return;
                }
                assert!(own.is_none() && Some(put.fences) == last_round, "{get:?}: {put:?} of {puts:?}");
                let later = puts.iter().rposition(|other| other.by == put.by && other.fences == put.fences);
                assert_eq!(later, Some(at), "{get:?}: {put:?} was put again before the fence: {puts:?}");
                let winner = self.winners.entry((get.key.clone(), put.fences)).or_insert(at);
                assert_eq!(*winner, at, "{get:?}: others have another value: {puts:?}");
            }
            other => panic!("{get:?}: {other:?}"),
        }
    }

    fn check_all(&mut self, cluster: &mut Cluster) {
        for (id, result) in std::mem::take(&mut cluster.results) {
            self.check(id, &result);
        }
    }
}

struct Session {
    cluster: Cluster,
    book: Book,
    rng: Rng,
    keys: usize,
}

impl Session {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let cluster = Cluster::new(&random_shape(&mut rng), seed ^ 0x5555);
        let keys = 1 + rng.below(5);
        Self { cluster, book: Book::default(), rng, keys }
    }

    fn key(&mut self) -> String {
        format!("key{}", self.rng.below(self.keys))
    }

    fn random_member(&mut self) -> usize {
        let members = self.cluster.members();
        members[self.rng.below(members.len())]
    }

    fn put(&mut self, by: usize, key: &str, scope: KeyScope) {
        let puts = self.book.puts.entry(key.to_owned()).or_default();
        let mut value = format!("{key}, {} of {by}, ", puts.len()).into_bytes();
        if self.rng.percent(3) {
            value.resize(200 << 10, b'.');
        }
        let value = Bytes::from(value);
        puts.push(Put { by, fences: self.cluster.nodes[by].passed, scope, value: value.clone() });
        self.cluster.put(by, key, value, scope);
    }

    fn get(&mut self, by: usize, key: &str, wait: bool) {
        let after = self.book.puts.get(key).map_or(0, Vec::len);
        let id = self.cluster.get(by, key, wait);
        let fences = self.cluster.nodes[by].passed;
        let key = key.to_owned();
        self.book.gets.insert(id, Get { by, fences, key, wait, after, checked: false });
    }

    fn act(&mut self) {
        let (by, key) = (self.random_member(), self.key());
        match self.rng.below(10) {
            0..=2 if !self.cluster.in_fence(by) => {
                let scope = if self.rng.percent(50) { KeyScope::Replicated } else { KeyScope::Local };
                self.put(by, &key, scope);
            }
            3 if self.rng.percent(60) => {
                for member in self.cluster.members() {
                    if member > 0 && !self.cluster.in_fence(member) {
                        self.cluster.enter(member);
                    }
                }
            }
            3 if by > 0 && !self.cluster.in_fence(by) => self.cluster.enter(by),
            4 => {
                let open = self.book.gets.iter().filter(|(_, get)| !get.checked && get.by == by);
                let open: Vec<CallId> = open.map(|(id, _)| *id).collect();
                if !open.is_empty() && self.rng.percent(30) {
                    let id = open[self.rng.below(open.len())];
                    let ended = self.cluster.results.contains_key(&id);
                    assert_eq!(self.cluster.cancel(by, id), !ended);
                    if !ended {
                        self.book.gets.remove(&id);
                    }
                }
            }
            5..=7 => {
                let wait = self.rng.percent(50);
                self.get(by, &key, wait);
            }
            _ => {
                for _ in 0..self.rng.below(30) {
                    self.cluster.step();
                }
            }
        }
    }

    /// Puts every key once more, so that all lookups have a value, and fences.
    fn put_all(&mut self) {
        for key in 0..self.keys {
            let scope = if self.rng.percent(50) { KeyScope::Replicated } else { KeyScope::Local };
            let by = self.random_member();
            self.put(by, &format!("key{key}"), scope);
        }
        self.cluster.fence_all();
    }

    /// All members have the last value of every key.
    fn assert_latest(&mut self) {
        for (key, puts) in self.book.puts.clone() {
            for by in self.cluster.members() {
                let id = self.cluster.get(by, &key, true);
                self.cluster.drain();
                assert_eq!(self.cluster.found(id), puts.last().map(|put| put.value.clone()), "{key} at {by}");
            }
        }
        self.cluster.results.clear();
    }
}

#[test]
fn a_get_returns_no_value_older_than_the_last_fence_and_the_same_to_all_members() {
    with_seeds(500, |seed| {
        let mut session = Session::new(seed);
        for _ in 0..session.rng.below(250) {
            session.act();
            session.book.check_all(&mut session.cluster);
        }
        session.cluster.fence_all();
        session.book.check_all(&mut session.cluster);
        for key in 0..session.keys {
            for by in session.cluster.members() {
                session.get(by, &format!("key{key}"), false);
            }
        }
        session.cluster.drain();
        session.put_all();
        session.book.check_all(&mut session.cluster);
        assert!(session.book.gets.values().all(|get| get.checked), "{:?}", session.book.gets);
        session.cluster.assert_no_queries();
        session.assert_latest();
        session.cluster.assert_no_queries();
    });
}

#[test]
fn no_lookup_hangs_after_a_loss_and_later_puts_are_found() {
    with_seeds(500, |seed| {
        let mut session = Session::new(seed);
        for _ in 0..3 {
            for _ in 0..session.rng.below(60) {
                session.act();
            }
            session.cluster.fence_all();
            for _ in 0..session.rng.below(30) {
                let (by, key, wait) = (session.random_member(), session.key(), session.rng.percent(50));
                if session.rng.percent(50) {
                    session.get(by, &key, wait);
                } else {
                    session.put(by, &key, KeyScope::Local);
                }
                for _ in 0..session.rng.below(6) {
                    session.cluster.step();
                }
            }
            let victim = session.random_member();
            if victim > 1 {
                session.cluster.kill(victim);
            }
            let again = session.random_member();
            if session.rng.percent(50) {
                let key = session.key();
                session.put(again, &key, KeyScope::Local);
            }
        }
        session.cluster.fence_all();
        session.put_all();
        for (id, get) in &session.book.gets {
            let result = session.cluster.results.remove(id);
            let dead = session.cluster.nodes[get.by].dead;
            assert!(dead || result.is_some(), "{get:?} hangs");
            match result {
                None | Some(Ok(Outcome::Found(_)) | Err(CommError::PeerLost { .. })) => {}
                other => panic!("{get:?}: {other:?}"),
            }
        }
        session.cluster.results.clear();
        session.cluster.assert_no_queries();
        session.assert_latest();
        session.cluster.assert_no_queries();
    });
}
