//! A member that ends again and again, and whose place another process takes: `talk:rejoin:RANK:TIMES`.
//!
//! In each round all members find out how often that member was restarted, gather data from all that are not
//! missing, and send a message to the next of these. The member kills itself in its fourth round, until it was
//! restarted so many times; three rounds later all stop, at the same call. They print how each call has ended.
//! Others may be lost meanwhile.

use std::time::Duration;

use libi::{Op, Rank, Ranks};

use crate::survive::{die, unless_lost};
use crate::talk::{ALL, Talk, Wrong, made, same};

/// How long a call may take: much longer than a restart.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The tag of all messages.
const TAG: u32 = 12;
/// The length of what is gathered and sent.
const LENGTH: u32 = 300;

impl Talk<'_> {
    pub(crate) fn rejoin(&self, victim: u32, times: u32) -> Result<(), Wrong> {
        let first = self.member.first_call(TIMEOUT).map_err(|error| error.to_string())?;
        same("whether it begins with the session", &(first == 0), &(self.member.restarts() == 0))?;
        let own = (self.rank == victim).then(|| self.member.restarts());
        let mut stop = None;
        for call in first.. {
            let round = (call / 2) as u32;
            if call % 2 == 0 {
                if own.is_some_and(|own| own < times && call >= first + 6) {
                    die();
                }
                let (got, missing) = self.often(own, call)?;
                if stop.is_none() && got == times && !missing.contains(Rank(victim)) {
                    stop = Some(round + 3);
                }
            } else {
                let missing = self.gather_round(round, call)?;
                self.message_round(round, &missing)?;
                if stop.is_some_and(|stop| round >= stop) {
                    break;
                }
            }
        }
        let left = self.member.survivors().wait(TIMEOUT).map_err(|error| error.to_string())?;
        for rank in [self.rank, victim] {
            same(&format!("whether {rank} is left"), &left.contains(Rank(rank)), &true)?;
        }
        self.member.drain(TIMEOUT).map_err(|error| error.to_string())
    }

    /// How often the member was restarted, as all learn in the same call.
    fn often(&self, own: Option<u32>, call: u64) -> Result<(u32, Ranks), Wrong> {
        let most = self.member.allreduce(&[own.unwrap_or_default()], Op::Max);
        let (got, missing) = most.wait_with_missing(TIMEOUT).map_err(|error| format!("{call}: {error}"))?;
        println!("{call}: {} without {missing}", got[0]);
        Ok((got[0], missing))
    }

    fn gather_round(&self, round: u32, call: u64) -> Result<Ranks, Wrong> {
        let all = self.member.allgather(made(round, self.rank, ALL, LENGTH));
        let (got, missing) = all.wait_with_missing(TIMEOUT).map_err(|error| format!("{call}: {error}"))?;
        let of = |rank| if missing.contains(Rank(rank)) { 0 } else { LENGTH };
        let expected: Vec<_> = (0..self.size).map(|rank| made(round, rank, ALL, of(rank))).collect();
        same("what was gathered", &got, &expected)?;
        println!("{call}: without {missing}");
        Ok(missing)
    }

    /// To the next member that took part, and from the one before; unless that is lost meanwhile.
    fn message_round(&self, round: u32, missing: &Ranks) -> Result<(), Wrong> {
        let present: Vec<u32> = (0..self.size).filter(|rank| !missing.contains(Rank(*rank))).collect();
        let place = present.iter().position(|rank| *rank == self.rank).ok_or("it is missing itself")?;
        let next = present[(place + 1) % present.len()];
        let before = present[(place + present.len() - 1) % present.len()];
        let sent = self.member.send_to(Rank(next), TAG, made(round, self.rank, next, LENGTH)).wait(TIMEOUT);
        unless_lost(next, sent)?;
        match self.member.recv_from(Rank(before), TAG).wait(TIMEOUT) {
            Ok(got) => same("the message", &got, &made(round, before, self.rank, LENGTH)),
            Err(error) => unless_lost(before, Err(error)),
        }
    }
}
