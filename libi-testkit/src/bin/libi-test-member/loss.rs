//! The commands `talk:killed:RANK`, `talk:parted:RANK+RANK…` and `talk:drowned:LENGTH:RANK+RANK…`:
//! members lose others, and get the errors for it.
//!
//! - `parted`: the victims print that they wait, and do nothing more. The others print the same,
//!   and enter a barrier. When the test has killed the victims, the barrier has to fail with an
//!   error that names some of them and no other rank. When exactly the victims are known to be
//!   lost, the others communicate among themselves, and print that they know.
//! - `drowned`: the same, but all members broadcast instead, the victims included, and print that
//!   they wait when they have begun.

use std::time::{Duration, Instant};

use libi::{Bytes, CommError, Loss, LossKind, Rank, Ranks};

use crate::talk::{Talk, Wrong, made, same, wait};

/// How long the report of a loss may take: much longer than tests allow.
const TIMEOUT: Duration = Duration::from_secs(60);

impl Talk<'_> {
    pub(crate) fn killed(&self, victim: u32) -> Result<(), Wrong> {
        if self.rank == victim {
            for rank in (0..self.size).filter(|rank| *rank != victim) {
                wait("the sign", self.member.recv_from(Rank(rank), 78))?;
            }
            // SAFETY: takes a number.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        let barrier = self.member.barrier();
        wait("the sign", self.member.send_to(Rank(victim), 78, ""))?;
        match barrier.wait(TIMEOUT) {
            Err(CommError::PeerLost { ranks, why }) if ranks.iter().eq([Rank(victim)]) => {
                let [Loss { ranks: lost, reason }] = &why[..] else {
                    return Err(format!("{victim} was lost once, and not for {why:?}"));
                };
                same("who was lost so", lost, &ranks)?;
                same("how it was lost", &reason.how, &LossKind::Killed(libc::SIGKILL))?;
                same("whether that stays known", &self.member.losses().contains(&why[0]), &true)?;
            }
            other => return Err(format!("a barrier without {victim} gives {other:?}")),
        }
        // Others may have ended already.
        same("whether it is known to be lost", &self.member.lost().contains(Rank(victim)), &true)?;
        self.survivors(&[victim])
    }

    pub(crate) fn parted(&self, victims: &str) -> Result<(), Wrong> {
        let victims = numbers(victims)?;
        println!("{} waits", self.rank);
        if victims.contains(&self.rank) {
            loop {
                std::thread::sleep(Duration::from_secs(3_600));
            }
        }
        self.part(&victims, self.member.barrier().wait(TIMEOUT))
    }

    pub(crate) fn drowned(&self, length: u32, victims: &str) -> Result<(), Wrong> {
        let victims = numbers(victims)?;
        let data = (self.rank == 0).then(|| Bytes::from(vec![7; length as usize]));
        let broadcast = || self.member.broadcast(Rank(0), data.clone()).wait(TIMEOUT);
        broadcast().map_err(|error| error.to_string())?;
        println!("{} waits", self.rank);
        loop {
            if let Err(error) = broadcast() {
                return self.part(&victims, Err(error));
            }
        }
    }

    /// A call has ended that needed the victims.
    fn part(&self, victims: &[u32], outcome: Result<(), CommError>) -> Result<(), Wrong> {
        match outcome {
            Err(CommError::PeerLost { ranks, .. })
                if !ranks.is_empty() && ranks.iter().all(|rank| victims.contains(&rank.0)) => {}
            other => return Err(format!("a call without {victims:?} gives {other:?}")),
        }
        let deadline = Instant::now() + TIMEOUT;
        let all: Ranks = victims.iter().copied().map(Rank).collect();
        while self.member.lost() != all {
            let lost = self.member.lost();
            let more = Instant::now() < deadline && lost.iter().all(|rank| all.contains(rank));
            same("whether exactly these are lost in time", &more, &true)?;
            std::thread::sleep(Duration::from_millis(5));
        }
        self.survivors(victims)?;
        println!("{} knows", self.rank);
        // A member that ends is lost to others, so none does before all know of the loss.
        let first = self.first(victims);
        if self.rank != first {
            return wait("the sign", self.member.recv_from(Rank(first), 80)).map(drop);
        }
        let mut others = (first + 1..self.size).filter(|rank| !victims.contains(rank));
        others.try_for_each(|rank| wait("the sign", self.member.send_to(Rank(rank), 80, "")))
    }

    fn first(&self, victims: &[u32]) -> u32 {
        (0..self.size).find(|rank| !victims.contains(rank)).unwrap_or(0)
    }

    /// What does not need the victims continues.
    fn survivors(&self, victims: &[u32]) -> Result<(), Wrong> {
        let first = self.first(victims);
        if self.rank != first {
            return wait("a survivor", self.member.send_to(Rank(first), 79, made(0, self.rank, 0, 9)));
        }
        let others: Vec<_> = (first + 1..self.size).filter(|rank| !victims.contains(rank)).collect();
        let got = others.iter().map(|rank| wait("a survivor", self.member.recv_from(Rank(*rank), 79)));
        got.zip(&others).try_for_each(|(got, rank)| same("its message", &got?, &made(0, *rank, 0, 9)))
    }
}

pub(crate) fn numbers(words: &str) -> Result<Vec<u32>, Wrong> {
    words.split('+').map(str::parse).collect::<Result<_, _>>().map_err(|error| format!("{words}: {error}"))
}
