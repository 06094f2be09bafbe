//! The commands `talk:…`: one operation each, checked against what every member can compute alone.
//!
//! ```text
//! barrier                     broadcast:ROOT:LENGTH         gather:ROOT:LENGTH
//! scatter:ROOT:LENGTH         allgather:LENGTH              alltoall:LENGTH
//! reduce:ROOT:COUNT           allreduce:COUNT               ring
//! pairs:LENGTH                each member sends to both neighbors, and receives in another order
//! threads:COUNT               so many threads do that at the same time
//! flight:COUNT                so many calls are pending at a time; results are taken last to first
//! keys                        puts keys of both scopes, gets those of all, waits for a late one
//! front                       the master returns twice what the front end sends
//! mismatch:RANK               this member calls something else, and all get the error, if the
//!                             member had completed its call in the next one
//! strict-mismatch:RANK        the same, and all get the error of the call itself
//! impatient:RANK:LATE         the first cancels a barrier that the second enters late
//! endless:LENGTH              rank 0 broadcasts until it is ended; the data are not checked
//! lean:LENGTH                 gathers with little additional memory, except at the root
//! beside:RANK:DIRECTORY       the others communicate while this member is stopped, make a file, and
//!                             then continue with it
//! killed:RANK                 this member is killed while others are in a barrier: see loss.rs
//! parted:RANK+RANK…           these do nothing; others wait for them until they are lost: see loss.rs
//! leave:BYTES                 the last member broadcasts these and ends, the others call later
//! survive:ROUNDS:SEED:RANK+RANK…  calls go on while these are lost: see survive.rs
//! rejoin:RANK:TIMES           this member ends, and another process takes its place: see rejoin.rs
//! orders                      the front end gives orders: see orders.rs
//! grow:SIZE                   others join, until there are so many: see grow.rs
//! drowned:LENGTH:RANK+RANK…   all broadcast repeatedly until these are lost: see loss.rs
//! ```
//!
//! Lengths differ from rank to rank where they may. After every failure that was provoked, a barrier
//! succeeds, unless a member has been killed.

mod collectives;

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use libi::{Bytes, CommError, KeyScope, Member, Op, Pending, Rank};

/// How long a call that has to succeed may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// What is wrong, in words.
pub(crate) type Wrong = String;

/// The number of the operation, the same at all members: data of different operations differ.
static NTH: AtomicU32 = AtomicU32::new(0);

/// Runs a command. The error says which result is wrong.
pub(crate) fn talk(member: &Member, word: &str) -> Result<(), Wrong> {
    let mut words = word.split(':');
    let verb = words.next().unwrap_or_default();
    let mut number = || {
        words.next().and_then(|word| word.parse::<u32>().ok()).ok_or(format!("{word}: a number is missing"))
    };
    let it = Talk { member, nth: NTH.fetch_add(1, Relaxed), rank: member.rank().0, size: member.size() };
    match verb {
        "barrier" => it.barrier(),
        "broadcast" => it.broadcast(number()?, number()?),
        "gather" => it.gather(number()?, number()?),
        "scatter" => it.scatter(number()?, number()?),
        "allgather" => it.allgather(number()?),
        "alltoall" => it.alltoall(number()?),
        "reduce" => it.reduce(number()?, number()?),
        "allreduce" => it.allreduce(number()?),
        "ring" => it.ring(),
        "pairs" => it.pairs(0, number()?),
        "threads" => it.threads(number()?),
        "flight" => it.flight(number()?),
        "keys" => it.keys(),
        "front" => it.front(),
        "everyone" => it.everyone(),
        "mismatch" => it.mismatch(number()?, false),
        "strict-mismatch" => it.mismatch(number()?, true),
        "impatient" => it.timeouts(number()?, number()?),
        "endless" => it.endless(number()?),
        "lean" => it.lean(number()?),
        "beside" => it.beside(number()?, words.next().unwrap_or_default()),
        "killed" => it.killed(number()?),
        "parted" => it.parted(words.next().unwrap_or_default()),
        "leave" => it.leave(number()?),
        "survive" => it.survive(number()?, number()?, words.next().unwrap_or_default()),
        "rejoin" => it.rejoin(number()?, number()?),
        "grow" => it.grow(number()?),
        "orders" => it.orders(),
        "drowned" => it.drowned(number()?, words.next().unwrap_or_default()),
        _ => Err(format!("{word}: see the head of talk.rs")),
    }
}

pub(crate) struct Talk<'a> {
    pub(crate) member: &'a Member,
    nth: u32,
    pub(crate) rank: u32,
    pub(crate) size: u32,
}

/// The bytes of a process for another in an operation.
pub(crate) fn made(nth: u32, from: u32, to: u32, length: u32) -> Bytes {
    let seed =
        nth.wrapping_mul(7919).wrapping_add(from.wrapping_mul(104_729)).wrapping_add(to.wrapping_mul(31));
    (0..length).map(|at| (seed.wrapping_add(at.wrapping_mul(2_654_435_761)) >> 13) as u8).collect()
}

/// The receiver of data for all.
pub(crate) const ALL: u32 = u32::MAX;

pub(crate) fn same<T: PartialEq + Debug>(what: &str, is: &T, should: &T) -> Result<(), Wrong> {
    if is == should {
        return Ok(());
    }
    let short = |value: &T| format!("{value:?}").chars().take(300).collect::<String>();
    Err(format!("{what} is {}\n  and should be {}", short(is), short(should)))
}

pub(crate) fn wait<T>(what: &str, pending: Pending<T>) -> Result<T, Wrong> {
    pending.wait(TIMEOUT).map_err(|error| format!("{what}: {error}"))
}

impl Talk<'_> {
    fn mine(&self, to: u32, length: u32) -> Bytes {
        made(self.nth, self.rank, to, length)
    }

    /// The data of all members for one; `more` adds bytes by rank.
    fn all_data(&self, to: u32, length: u32, more: u32) -> Vec<Bytes> {
        (0..self.size).map(|from| made(self.nth, from, to, length + more * from)).collect()
    }

    fn pairs(&self, tag: u32, length: u32) -> Result<(), Wrong> {
        let (next, previous) = ((self.rank + 1) % self.size, (self.rank + self.size - 1) % self.size);
        let data = |from, to, nth| made(self.nth + 1000 * nth + tag, from, to, length + nth);
        let mut sent = Vec::new();
        for (to, tag) in [(next, 2 * tag), (previous, 2 * tag + 1)] {
            sent.extend((0..3).map(|nth| self.member.send_to(Rank(to), tag, data(self.rank, to, nth))));
        }
        for (from, tag) in [(next, 2 * tag + 1), (previous, 2 * tag)] {
            for nth in 0..3 {
                let got = wait("receiving", self.member.recv_from(Rank(from), tag))?;
                same(&format!("message {nth} of {from}"), &got, &data(from, self.rank, nth))?;
            }
        }
        sent.into_iter().try_for_each(|sent| wait("sending", sent))
    }

    fn threads(&self, count: u32) -> Result<(), Wrong> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|tag| scope.spawn(move || (0..20).try_for_each(|_| self.pairs(tag, 10))))
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err("it panicked".into())))
        })
    }

    fn flight(&self, count: u32) -> Result<(), Wrong> {
        let mut pending: Vec<_> = (0..count)
            .map(|nth| {
                let own = [u64::from(self.rank + nth)];
                (nth, self.member.allreduce(&own, Op::Max), self.member.barrier())
            })
            .collect();
        while let Some((nth, most, barrier)) = pending.pop() {
            wait("a barrier in flight", barrier)?;
            same("the most", &wait("a reduction in flight", most)?, &vec![u64::from(self.size - 1 + nth)])?;
        }
        Ok(())
    }

    fn keys(&self) -> Result<(), Wrong> {
        let key = |kind, rank| format!("{kind} {rank} {}", self.nth);
        let value = |rank| made(self.nth, rank, ALL, 5 + rank % 40);
        wait("putting", self.member.put(key("dense", self.rank), value(self.rank), KeyScope::Replicated))?;
        wait("putting", self.member.put(key("sparse", self.rank), value(self.rank), KeyScope::Local))?;
        let late = self.member.get(key("late", 0));
        wait("the fence", self.member.fence())?;
        for rank in 0..self.size {
            same("a dense key", &wait("a dense key", self.member.get(key("dense", rank)))?, &value(rank))?;
        }
        let far = (self.rank + self.size / 2) % self.size;
        same(
            "a sparse key",
            &wait("a sparse key", self.member.find(key("sparse", far)))?,
            &Some(value(far)),
        )?;
        same("no key", &wait("no key", self.member.find(key("no such", 0)))?, &None)?;
        if self.rank == self.size - 1 {
            wait("putting", self.member.put(key("late", 0), value(0), KeyScope::Local))?;
        }
        same("a late key", &wait("a late key", late)?, &value(0))?;
        self.barrier()
    }

    /// Passes on what the front end broadcasts, and gathers: with the next one already begun.
    fn everyone(&self) -> Result<(), Wrong> {
        let first = self.member.broadcast_from_front();
        let barrier = self.member.barrier();
        let second = self.member.broadcast_from_front();
        let first = wait("the first broadcast", first)?;
        wait("a barrier between", barrier)?;
        let second = wait("the second broadcast", second)?;
        for text in [first, second] {
            let answer = [&text[..], format!(" {}", self.rank).as_bytes()].concat();
            wait("the gather", self.member.gather_to_front(answer))?;
        }
        // The front end sends nothing any more: the call fails for all members, and the next succeeds.
        let none = self.member.broadcast_from_front().wait(Duration::from_millis(300));
        if !matches!(none, Err(CommError::TimedOut { .. } | CommError::Cancelled { .. })) {
            return Err(format!("a broadcast of nothing: {none:?}"));
        }
        self.barrier()
    }

    fn front(&self) -> Result<(), Wrong> {
        for _ in 0..2 {
            if !self.member.is_master() {
                let refused = || Err(CommError::NotMaster(self.member.rank()));
                same("receiving elsewhere", &self.member.recv().wait(Duration::ZERO), &refused())?;
                let sent = self.member.send("x").wait(Duration::ZERO);
                same("sending elsewhere", &sent, &refused().map(drop::<Bytes>))?;
                continue;
            }
            let message = wait("receiving of the front end", self.member.recv())?;
            same("whether something came", &!message.is_empty(), &true)?;
            wait("sending to the front end", self.member.send(message))?;
        }
        Ok(())
    }

    fn mismatch(&self, other: u32, is_strict: bool) -> Result<(), Wrong> {
        let is_mismatch = |error: &CommError| {
            matches!(error, CommError::Mismatch { one, other: two, .. }
                if one.1 != two.1 && one.0 != two.0 && [one.0, two.0].contains(&Rank(other)))
        };
        let first = if self.rank == other {
            self.member.gather(Rank(0), "").wait(TIMEOUT).map(drop)
        } else {
            self.member.barrier().wait(TIMEOUT)
        };
        match first {
            Err(error) if is_mismatch(&error) => {}
            // A member that is not the root has done its part in a gather.
            Ok(()) if self.rank == other && other != 0 && !is_strict => {}
            other_result => return Err(format!("a mismatch of {other} gives {other_result:?}")),
        }
        // The member that hears of it late fails here, and members that this call still needs.
        match self.member.barrier().wait(TIMEOUT) {
            Err(error) if !is_mismatch(&error) || is_strict => {
                return Err(format!("the call after a mismatch of {other} gives {error:?}"));
            }
            _ => {}
        }
        self.barrier()
    }

    fn timeouts(&self, first: u32, late: u32) -> Result<(), Wrong> {
        if self.rank == late {
            wait("the sign", self.member.recv_from(Rank(first), 77))?;
        }
        let timeout = if self.rank == first { Duration::from_millis(50) } else { TIMEOUT };
        match self.member.barrier().wait(timeout) {
            Err(CommError::TimedOut { .. }) if self.rank == first => {
                wait("the sign", self.member.send_to(Rank(late), 77, ""))?;
            }
            Err(CommError::Cancelled { by, .. }) if by == Rank(first) && self.rank != first => {}
            other => return Err(format!("a barrier that {first} gives up gives {other:?}")),
        }
        self.barrier()
    }

    fn endless(&self, length: u32) -> Result<(), Wrong> {
        let data = (self.rank == 0).then(|| Bytes::from(vec![7; length as usize]));
        loop {
            let got = wait("a broadcast", self.member.broadcast(Rank(0), data.clone()))?;
            same("how much was broadcast", &got.len(), &(length as usize))?;
        }
    }

    fn lean(&self, length: u32) -> Result<(), Wrong> {
        const WINDOWS: u64 = 4 << 20;
        // What is allocated only once: pages that are read in, and so on.
        const SLACK: u64 = 2 << 20;
        self.gather(0, 1000)?;
        self.barrier()?;
        // The peak is measured from here.
        std::fs::write("/proc/self/clear_refs", "5").map_err(|error| error.to_string())?;
        let before = memory("VmRSS")?;
        let got = wait("the gather", self.member.gather(Rank(0), self.mine(0, length)))?;
        let grown = memory("VmHWM")?.saturating_sub(before);
        self.barrier()?;
        if let Some(got) = got {
            return same("what was gathered", &got, &self.all_data(0, length, 0));
        }
        let most = u64::from(length) + WINDOWS + SLACK;
        if grown <= most { Ok(()) } else { Err(format!("it took {grown} bytes, and {most} are enough")) }
    }

    fn beside(&self, stopped: u32, directory: &str) -> Result<(), Wrong> {
        let long = made(self.nth, 0, stopped, 4_000_000);
        let tag = 80;
        if self.rank == stopped {
            for from in (0..self.size).filter(|from| *from != stopped) {
                let got = wait("a long message", self.member.recv_from(Rank(from), tag))?;
                same("a long message", &got, &long)?;
            }
        }
        let to_it = (self.rank != stopped).then(|| self.member.send_to(Rank(stopped), tag, long.clone()));
        let all = self.member.broadcast(Rank(0), (self.rank == 0).then(|| long.clone()));
        let barrier = self.member.barrier();
        if self.rank != stopped {
            let others: Vec<_> =
                (0..self.size).filter(|other| ![self.rank, stopped].contains(other)).collect();
            for round in 0..20 {
                let length = [10, 100_000][round as usize % 2];
                let data = |from, to| made(self.nth + round, from, to, length);
                let send = |to: &u32| self.member.send_to(Rank(*to), tag + 1, data(self.rank, *to));
                let sent: Vec<_> = others.iter().map(send).collect();
                for from in &others {
                    let got = wait("a message", self.member.recv_from(Rank(*from), tag + 1))?;
                    same("a message", &got, &data(*from, self.rank))?;
                }
                sent.into_iter().try_for_each(|sent| wait("sending", sent))?;
            }
            let file = format!("{directory}/talked-{}", self.rank);
            std::fs::write(file, "").map_err(|error| error.to_string())?;
        }
        same("what was broadcast", &wait("the broadcast", all)?, &long)?;
        to_it.map_or(Ok(()), |sent| wait("sending to the stopped", sent))?;
        wait("the barrier", barrier)
    }
}

/// The memory of this process in bytes, now or at its peak.
fn memory(field: &str) -> Result<u64, Wrong> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib << 10).ok_or_else(|| format!("there is no {field}"))
}

/// The number encoded in four bytes.
fn number(bytes: &[u8]) -> u32 {
    bytes.try_into().map_or(u32::MAX, u32::from_le_bytes)
}
