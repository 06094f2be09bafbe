//! Collective calls go on while members leave or are lost: the commands `talk:leave:BYTES`, see below, and
//! `talk:survive:ROUNDS:SEED:RANK+RANK…`.
//!
//! In each round all members make one call, and check its result against what the members that are not
//! missing in it have given. Each sends a message to another member before the call, and receives that of
//! another after it: between members that are left messages arrive once and in order. The victims kill themselves: each in a round of its own, before or after it
//! makes its call. Members print how each round that synchronizes them has ended: the test compares that.

use std::time::Duration;

use libi::{Bytes, CommError, KeyScope, Op, Pending, Rank, Ranks};

use crate::loss::numbers;
use crate::talk::{ALL, Talk, Wrong, made, same};

/// How long a call may take: much longer than a loss.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The tag of all messages.
const TAG: u32 = 9;

/// What is made of the number of a round, or of a rank, and the seed.
fn mixed(seed: u32, nth: u32) -> u32 {
    let mixed = (u64::from(seed) << 32 | u64::from(nth)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32
}

struct Round<'a> {
    talk: &'a Talk<'a>,
    nth: u32,
    root: u32,
    length: u32,
    /// Whether this member is lost once it has made its call.
    is_last: bool,
}

impl Talk<'_> {
    pub(crate) fn survive(&self, rounds: u32, seed: u32, victims: &str) -> Result<(), Wrong> {
        let is_victim = numbers(victims)?.contains(&self.rank);
        let end = is_victim.then(|| mixed(seed, 1_000_000 + self.rank) % rounds);
        for nth in 0..rounds {
            let drawn = mixed(seed, nth);
            let is_last = end == Some(nth);
            if is_last && mixed(seed, self.rank).is_multiple_of(2) {
                die();
            }
            let length = [0, 5, 3_000, 20_000][drawn as usize / 64 % 4];
            let round = Round { talk: self, nth, root: drawn / 256 % self.size, length, is_last };
            let distance = 1 + drawn / 16 % self.size.saturating_sub(1).max(1);
            let done = round.send(distance).and_then(|()| round.call(drawn % 11));
            done.and_then(|()| round.receive(distance)).map_err(|wrong| format!("round {nth}: {wrong}"))?;
        }
        // A member that ends is lost as well.
        let left = self.member.survivors().wait(TIMEOUT).map_err(|error| error.to_string())?;
        println!("left: {left}");
        let own = left.iter().position(|rank| rank.0 == self.rank);
        same("the place among those left", &own, &Some(left.below(Rank(self.rank)) as usize))
    }
}

impl Talk<'_> {
    /// The last member broadcasts so many bytes and ends; the others make the call later, and miss none.
    pub(crate) fn leave(&self, length: u32) -> Result<(), Wrong> {
        let root = Rank(self.size - 1);
        if self.rank == root.0 {
            let all = self.member.broadcast(root, Some(made(0, root.0, ALL, length)));
            all.wait(TIMEOUT).map_err(|error| error.to_string())?;
            return self.member.drain(TIMEOUT).map_err(|error| error.to_string());
        }
        // What has arrived for a call is forgotten with the loss of its root, unless some member has all.
        std::thread::sleep(Duration::from_millis(100));
        let call = self.member.broadcast(root, None::<Bytes>);
        let (got, missing) = call.wait_with_missing(TIMEOUT).map_err(|error| error.to_string())?;
        same("what was broadcast", &got, &made(0, root.0, ALL, length))?;
        same("the missing members", &missing.len(), &0)?;
        self.member.drain(TIMEOUT).map_err(|error| error.to_string())
    }
}

/// A call that needs this member alone fails at most by its loss.
pub(crate) fn unless_lost(peer: u32, result: Result<(), CommError>) -> Result<(), Wrong> {
    match result {
        Err(CommError::PeerLost { ranks, .. }) if ranks.contains(Rank(peer)) => Ok(()),
        result => result.map_err(|error| error.to_string()),
    }
}

pub(crate) fn die() -> ! {
    // SAFETY: takes a number.
    unsafe { libc::raise(libc::SIGKILL) };
    std::process::abort()
}

impl Round<'_> {
    /// Sends a message to the member at this distance above, which may be lost.
    fn send(&self, distance: u32) -> Result<(), Wrong> {
        let Talk { member, rank, size, .. } = *self.talk;
        let to = (rank + distance) % size;
        let sent = member.send_to(Rank(to), TAG, made(self.nth, rank, to, self.length)).wait(TIMEOUT);
        unless_lost(to, sent)
    }

    /// Receives the message of this round, unless its sender is lost.
    fn receive(&self, distance: u32) -> Result<(), Wrong> {
        let Talk { member, rank, size, .. } = *self.talk;
        let from = (rank + size - distance % size) % size;
        match member.recv_from(Rank(from), TAG).wait(TIMEOUT) {
            Ok(got) => same("the message", &got, &made(self.nth, from, rank, self.length)),
            Err(error) => unless_lost(from, Err(error)),
        }
    }

    fn call(&self, kind: u32) -> Result<(), Wrong> {
        let &Self { talk, nth, root, length, .. } = self;
        let Talk { member, rank, size, .. } = *talk;
        let data = |from: u32, to: u32| made(nth, from, to, length);
        let is_root = rank == root;
        match kind {
            0 => self.agreed(member.barrier(), |(), _| Ok(())),
            1 => {
                let call = member.broadcast(Rank(root), is_root.then(|| data(root, ALL)));
                self.agreed(call, |got, _| same("what was broadcast", &got, &data(root, ALL)))
            }
            2 => {
                let parts = is_root.then(|| (0..size).map(|to| data(root, to)).collect());
                let call = member.scatter(Rank(root), parts);
                self.agreed(call, |got, _| same("what was scattered", &got, &data(root, rank)))
            }
            3 => self.agreed(member.allgather(data(rank, ALL)), |got, missing| {
                same("what was gathered", &got, &self.present(missing, |from| data(from, ALL)))
            }),
            4 => {
                let call = member.alltoallv((0..size).map(|to| data(rank, to)).collect());
                self.agreed(call, |got, missing| {
                    same("what was exchanged", &got, &self.present(missing, |from| data(from, rank)))
                })
            }
            5 => self.agreed(member.allreduce(&[u64::from(rank) + 1], Op::Sum), |got, missing| {
                same("the sum", &got, &vec![self.sum(missing, size)])
            }),
            6 => self.agreed(member.scan(&[u64::from(rank) + 1], Op::Sum), |got, missing| {
                same("the sum of lower ranks", &got, &vec![self.sum(missing, rank + 1)])
            }),
            7 => self.agreed(member.ring(1, "", ""), |place, missing| {
                same("the ring", &place.size, &(size - missing.len() as u32))
            }),
            8 => self.keys(),
            9 => self.at_root(member.gather(Rank(root), data(rank, root)), |got, missing| {
                let all = is_root.then(|| self.present(missing, |from| data(from, root)));
                same("what was gathered", &got, &all)
            }),
            _ => {
                let call = member.reduce(Rank(root), &[u64::from(rank) + 1], Op::Sum);
                self.at_root(call, |got, missing| {
                    same("the sum", &got, &is_root.then(|| vec![self.sum(missing, size)]))
                })
            }
        }
    }

    /// All members put a key, and find those of all that are not missing.
    fn keys(&self) -> Result<(), Wrong> {
        let Talk { member, rank, size, .. } = *self.talk;
        let name = |rank| format!("round {}, {rank}", self.nth);
        let put = member.put(name(rank), made(self.nth, rank, ALL, 9), KeyScope::Replicated);
        put.wait(TIMEOUT).map_err(|error| error.to_string())?;
        self.agreed(member.fence(), |(), missing| {
            (0..size).filter(|rank| !missing.contains(Rank(*rank))).try_for_each(|from| {
                let got = member.find(name(from)).wait(TIMEOUT).map_err(|error| error.to_string())?;
                same(&name(from), &got, &Some(made(self.nth, from, ALL, 9)))
            })
        })
    }

    /// A call that ends in the same way for all members.
    fn agreed<T>(
        &self,
        call: Pending<T>,
        check: impl FnOnce(T, &Ranks) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        let ended = self.at_root_or(call, check)?;
        println!("{}: {ended}", self.nth);
        Ok(())
    }

    /// A call that gives a result only to the root: others need not notice that it is lost.
    fn at_root<T>(
        &self,
        call: Pending<T>,
        check: impl FnOnce(T, &Ranks) -> Result<(), Wrong>,
    ) -> Result<(), Wrong> {
        self.at_root_or(call, check).map(drop)
    }

    fn at_root_or<T>(
        &self,
        call: Pending<T>,
        check: impl FnOnce(T, &Ranks) -> Result<(), Wrong>,
    ) -> Result<String, Wrong> {
        if self.is_last {
            die();
        }
        match call.wait_with_missing(TIMEOUT) {
            Ok((got, missing)) => {
                check(got, &missing)?;
                Ok(format!("without {missing}"))
            }
            Err(CommError::PeerLost { ranks, .. }) if ranks.contains(Rank(self.root)) => {
                Ok(format!("{} is lost", self.root))
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// What the members that are not missing give; nothing from others.
    fn present(&self, missing: &Ranks, of: impl Fn(u32) -> Bytes) -> Vec<Bytes> {
        let of = |rank| if missing.contains(Rank(rank)) { Bytes::new() } else { of(rank) };
        (0..self.talk.size).map(of).collect()
    }

    fn sum(&self, missing: &Ranks, end: u32) -> u64 {
        (0..end).filter(|rank| !missing.contains(Rank(*rank))).map(|rank| u64::from(rank) + 1).sum()
    }
}
