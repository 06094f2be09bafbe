//! What members of a measured session do: the commands of the front end, until `end`.

use std::time::{Duration, Instant};

use libi::{Bytes, CommError, Member, Op, Rank};

const TIMEOUT: Duration = Duration::from_secs(300);
const ROOT: Rank = Rank(0);

pub(crate) fn work() {
    let member = Member::init().unwrap();
    loop {
        let order = member.broadcast_from_front().wait(TIMEOUT).unwrap();
        let order = String::from_utf8(order.into()).unwrap();
        let words: Vec<_> = order.split(' ').collect();
        let number = |nth: usize| words.get(nth).map_or(0, |word| word.parse::<usize>().unwrap());
        let (length, times) = (number(1), number(2));
        let answer = match words[0] {
            "end" => break,
            "chain" => vec![chain(&member, length, times)],
            "flight" => vec![flight(&member, length, times)],
            "memory" => memory(&member, length),
            "row" => vec![in_a_row(&member, words[3], length, times)],
            "echo" => echo(&member, times),
            call => (0..times).map(|_| once(&member, call, length)).collect(),
        };
        if member.is_master() {
            let answer: Vec<_> = answer.iter().map(u128::to_string).collect();
            member.send(answer.join(" ")).wait(TIMEOUT).unwrap();
        }
    }
    member.drain(TIMEOUT).unwrap();
}

/// One call, followed by a barrier unless it is one. Returns its duration here in nanoseconds.
fn once(member: &Member, call: &str, length: usize) -> u128 {
    let size = member.size() as usize;
    let mine = member.is_master();
    // Data that only the root gives must not exist 64 times on one machine.
    let gives = mine || !matches!(call, "broadcast" | "scatter");
    let data = Bytes::from(vec![7; if gives { length } else { 0 }]);
    let parts = || (0..size).map(|_| data.clone()).collect::<Vec<_>>();
    let given = match call {
        "scatter" if mine => parts(),
        "alltoall" => parts(),
        _ => Vec::new(),
    };
    member.barrier().wait(TIMEOUT).unwrap();
    let began = Instant::now();
    if call == "ping" {
        ping(member, 0, data);
        return began.elapsed().as_nanos();
    }
    if call == "pings" {
        std::thread::scope(|scope| {
            for tag in 0..8 {
                let data = data.clone();
                scope.spawn(move || (0..100).for_each(|_| ping(member, tag, data.clone())));
            }
        });
        return began.elapsed().as_nanos();
    }
    let done: Result<(), CommError> = match call {
        "barrier" => member.barrier().wait(TIMEOUT),
        "broadcast" => member.broadcast(ROOT, mine.then_some(data)).wait(TIMEOUT).map(drop),
        "gather" => member.gather(ROOT, data).wait(TIMEOUT).map(drop),
        "scatter" => member.scatter(ROOT, mine.then_some(given)).wait(TIMEOUT).map(drop),
        "allgather" => member.allgather(data).wait(TIMEOUT).map(drop),
        "alltoall" => member.alltoall(given).wait(TIMEOUT).map(drop),
        "allreduce" => member.allreduce(&vec![1_u64; length / 8], Op::Sum).wait(TIMEOUT).map(drop),
        "ring" => member.ring(1, data.clone(), data).wait(TIMEOUT).map(drop),
        other => panic!("no call {other}"),
    };
    done.unwrap();
    if call != "barrier" {
        member.barrier().wait(TIMEOUT).unwrap();
    }
    began.elapsed().as_nanos()
}

/// Calls one after the other, and a barrier at the end. Returns what one takes on average.
fn in_a_row(member: &Member, call: &str, length: usize, times: usize) -> u128 {
    let (mine, size) = (member.is_master(), member.size() as usize);
    let data = Bytes::from(vec![7; length]);
    let numbers = vec![1_u64; length / 8];
    member.barrier().wait(TIMEOUT).unwrap();
    let began = Instant::now();
    for _ in 0..times {
        let data = data.clone();
        let done = match call {
            "broadcast" => member.broadcast(ROOT, mine.then_some(data)).wait(TIMEOUT).map(drop),
            "scatter" => {
                let parts = mine.then(|| vec![data; size]);
                member.scatter(ROOT, parts).wait(TIMEOUT).map(drop)
            }
            "gather" => member.gather(ROOT, data).wait(TIMEOUT).map(drop),
            "reduce" => member.reduce(ROOT, &numbers, Op::Sum).wait(TIMEOUT).map(drop),
            "barrier" => member.barrier().wait(TIMEOUT),
            "ping" => {
                ping(member, 0, data);
                Ok(())
            }
            other => panic!("no call {other}"),
        };
        done.unwrap();
    }
    if call != "barrier" {
        member.barrier().wait(TIMEOUT).unwrap();
    }
    began.elapsed().as_nanos() / times as u128
}

/// The master sends back what the front end sends.
fn echo(member: &Member, times: usize) -> Vec<u128> {
    for _ in 0..times {
        if member.is_master() {
            let message = member.recv().wait(TIMEOUT).unwrap();
            member.send(message).wait(TIMEOUT).unwrap();
        }
    }
    Vec::new()
}

/// A message from the master to the last member and back.
fn ping(member: &Member, tag: u32, data: Bytes) {
    let last = Rank(member.size() - 1);
    if member.is_master() {
        member.send_to(last, tag, data).wait(TIMEOUT).unwrap();
        member.recv_from(last, tag).wait(TIMEOUT).unwrap();
    } else if member.rank() == last {
        let data = member.recv_from(ROOT, tag).wait(TIMEOUT).unwrap();
        member.send_to(ROOT, tag, data).wait(TIMEOUT).unwrap();
    }
}

/// Broadcasts, one after the other, until all members have the last one.
fn chain(member: &Member, length: usize, times: usize) -> u128 {
    let data = Bytes::from(vec![7; length]);
    member.barrier().wait(TIMEOUT).unwrap();
    let began = Instant::now();
    for _ in 0..times {
        member.broadcast(ROOT, member.is_master().then(|| data.clone())).wait(TIMEOUT).unwrap();
    }
    member.barrier().wait(TIMEOUT).unwrap();
    began.elapsed().as_nanos()
}

/// The same, 32 at a time.
fn flight(member: &Member, length: usize, times: usize) -> u128 {
    let data = Bytes::from(vec![7; length]);
    member.barrier().wait(TIMEOUT).unwrap();
    let began = Instant::now();
    let mut pending = std::collections::VecDeque::new();
    for _ in 0..times {
        pending.push_back(member.broadcast(ROOT, member.is_master().then(|| data.clone())));
        if pending.len() == 32 {
            pending.pop_front().unwrap().wait(TIMEOUT).unwrap();
        }
    }
    pending.into_iter().for_each(|one| drop(one.wait(TIMEOUT).unwrap()));
    member.barrier().wait(TIMEOUT).unwrap();
    began.elapsed().as_nanos()
}

/// By how many KiB the memory of each process grew while the root gathered this much from each.
fn memory(member: &Member, length: usize) -> Vec<u128> {
    member.barrier().wait(TIMEOUT).unwrap();
    // The peak is measured from here.
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = kib("VmRSS:");
    let data = Bytes::from(vec![7; length]);
    let all = member.gather(ROOT, data).wait(TIMEOUT).unwrap();
    member.barrier().wait(TIMEOUT).unwrap();
    let grown = kib("VmHWM:").saturating_sub(before);
    drop(all);
    let grown = member.gather(ROOT, grown.to_string()).wait(TIMEOUT).unwrap();
    let text = |part: &Bytes| std::str::from_utf8(part).unwrap().parse().unwrap();
    grown.map_or(Vec::new(), |grown| grown.iter().map(text).collect())
}

/// A value that the system reports for this process, in KiB.
fn kib(what: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
