//! A session that grows: `talk:grow:SIZE`.
//!
//! Members make the calls of a round again and again: gather what size each knows, scatter parts for all of that
//! size, count, and pass a fence; with messages and keys between those that took part. A new member begins in the
//! round that its first call is in. They stop some rounds after a call of so many ranks, and print how each call
//! has ended. Others may be lost meanwhile.

use std::time::Duration;

use libi::{Bytes, KeyScope, Op, Rank, Ranks};

use crate::survive::unless_lost;
use crate::talk::{ALL, Talk, Wrong, made, same};

/// How long a call may take: much longer than a launch.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The tag of all messages.
const TAG: u32 = 13;
/// The length of parts, messages and values.
const LENGTH: u32 = 200;
/// The calls of a round.
const CALLS: u64 = 4;

impl Talk<'_> {
    pub(crate) fn grow(&self, until: u32) -> Result<(), Wrong> {
        let first = self.member.first_call(TIMEOUT).map_err(|error| error.to_string())?;
        let value = made(0, self.rank, ALL, LENGTH);
        let put = self.member.put(format!("grow {}", self.rank), value, KeyScope::Replicated);
        put.wait(TIMEOUT).map_err(|error| format!("put: {error}"))?;
        let mut stop = None;
        for call in first.. {
            // These hold for the call that is made now.
            let (size, absent) = (self.member.size(), self.member.absent());
            let missing = match call % CALLS {
                0 => self.gather_sizes(call, size, &absent)?,
                1 => self.scatter_parts(call, size)?,
                2 => self.count_all(call, size, &absent)?,
                _ => self.fence_keys(call, size, &absent)?,
            };
            println!("{call}: {size} without {missing}");
            if stop.is_none() && call % CALLS == 0 && size >= until {
                stop = Some(call + 3 * CALLS);
            }
            if stop.is_some_and(|stop| call >= stop) {
                break;
            }
        }
        self.member.drain(TIMEOUT).map_err(|error| error.to_string())
    }

    fn gather_sizes(&self, call: u64, size: u32, absent: &Ranks) -> Result<Ranks, Wrong> {
        let all = self.member.allgather(size.to_le_bytes().to_vec());
        let (got, mut missing) =
            all.wait_with_missing(TIMEOUT).map_err(|error| format!("{call}: {error}"))?;
        missing.add_all(absent);
        let of = |rank| if missing.contains(Rank(rank)) { Vec::new() } else { size.to_le_bytes().to_vec() };
        let expected: Vec<Bytes> = (0..size).map(|rank| of(rank).into()).collect();
        same(&format!("{call}: what sizes are known"), &got, &expected)?;
        self.pass_message(call, size, &missing)?;
        Ok(missing)
    }

    fn scatter_parts(&self, call: u64, size: u32) -> Result<Ranks, Wrong> {
        let nth = call as u32;
        let parts = (self.rank == 0).then(|| (0..size).map(|to| made(nth, 0, to, LENGTH)).collect());
        let mine = self.member.scatter(Rank(0), parts);
        let (got, missing) = mine.wait_with_missing(TIMEOUT).map_err(|error| format!("{call}: {error}"))?;
        same(&format!("{call}: the part"), &got, &made(nth, 0, self.rank, LENGTH))?;
        Ok(missing)
    }

    fn count_all(&self, call: u64, size: u32, absent: &Ranks) -> Result<Ranks, Wrong> {
        let sum = self.member.allreduce(&[1u32], Op::Sum);
        let (got, mut missing) =
            sum.wait_with_missing(TIMEOUT).map_err(|error| format!("{call}: {error}"))?;
        missing.add_all(absent);
        same(&format!("{call}: the number of members"), &got[0], &(size - missing.len() as u32))?;
        Ok(missing)
    }

    fn fence_keys(&self, call: u64, size: u32, absent: &Ranks) -> Result<Ranks, Wrong> {
        let fence = self.member.fence();
        let ((), mut missing) =
            fence.wait_with_missing(TIMEOUT).map_err(|error| format!("{call}: {error}"))?;
        missing.add_all(absent);
        let (next, _) = self.neighbors(size, &missing)?;
        let found = self.member.find(format!("grow {next}")).wait(TIMEOUT);
        let found = found.map_err(|error| format!("{call}: {error}"))?;
        // The host of a member that is lost since may have kept it.
        if found.is_some() || !self.member.lost().contains(Rank(next)) {
            same(&format!("{call}: the value of {next}"), &found, &Some(made(0, next, ALL, LENGTH)))?;
        }
        Ok(missing)
    }

    /// The next member that took part, and the one before.
    fn neighbors(&self, size: u32, missing: &Ranks) -> Result<(u32, u32), Wrong> {
        let present: Vec<u32> = (0..size).filter(|rank| !missing.contains(Rank(*rank))).collect();
        let place = present.iter().position(|rank| *rank == self.rank).ok_or("it is missing itself")?;
        Ok((present[(place + 1) % present.len()], present[(place + present.len() - 1) % present.len()]))
    }

    fn pass_message(&self, call: u64, size: u32, missing: &Ranks) -> Result<(), Wrong> {
        let (nth, (next, before)) = (call as u32, self.neighbors(size, missing)?);
        let sent = self.member.send_to(Rank(next), TAG, made(nth, self.rank, next, LENGTH)).wait(TIMEOUT);
        unless_lost(next, sent)?;
        match self.member.recv_from(Rank(before), TAG).wait(TIMEOUT) {
            Ok(got) => same(&format!("{call}: the message"), &got, &made(nth, before, self.rank, LENGTH)),
            Err(error) => unless_lost(before, Err(error)),
        }
    }
}
