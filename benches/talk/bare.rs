//! The baseline: the same tree of processes with the same kinds of sockets, and nothing but reading
//! and writing.
//!
//! Every process is this program again, with the numbers of its descriptors as arguments. The first
//! one measures, and writes the results to its standard output.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The first argument of a process of the baseline.
pub(crate) const ROLE: &str = "bare";
/// How much is read and written at a time.
const PIECE: usize = 256 << 10;

/// What connects hosts. Members of a host are always connected by socket pairs.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Wire {
    Pair,
    Tcp,
}

/// How long it takes until all processes have all bytes and the first one knows it.
pub(crate) fn relay(parents: &[Option<usize>], wire: Wire, bytes: usize, times: usize) -> Vec<Duration> {
    run(parents, wire, "relay", bytes, times)
}

/// How long it takes to collect a byte from each process at the first, and to send one back.
pub(crate) fn token(parents: &[Option<usize>], wire: Wire, times: usize) -> Vec<Duration> {
    run(parents, wire, "token", 0, times)
}

/// How long a call takes, on average over this many, one after the other: `broadcast`, `scatter`,
/// `gather`, `reduce` and `barrier` at the first process; `ping` to the last one and back.
pub(crate) fn call(
    parents: &[Option<usize>],
    wire: Wire,
    what: &str,
    bytes: usize,
    times: usize,
) -> Duration {
    run(parents, wire, what, bytes, times)[0]
}

/// The number of processes at and below each.
fn subtrees(parents: &[Option<usize>]) -> Vec<usize> {
    let mut sizes = vec![1; parents.len()];
    // A process is launched after its parent, but its rank may be lower.
    for rank in 0..parents.len() {
        let mut above = parents[rank];
        while let Some(parent) = above {
            sizes[parent] += 1;
            above = parents[parent];
        }
    }
    sizes
}

fn run(parents: &[Option<usize>], wire: Wire, what: &str, bytes: usize, times: usize) -> Vec<Duration> {
    let sizes = subtrees(parents);
    let last = parents.len() - 1;
    let mut towards_last = vec![false; parents.len()];
    let mut at = Some(last);
    while let Some(rank) = at {
        towards_last[rank] = true;
        at = parents[rank];
    }
    let mut children: Vec<Vec<usize>> = parents.iter().map(|_| Vec::new()).collect();
    let leads = |rank: usize| parents.contains(&Some(rank));
    let mut above: Vec<Option<OwnedFd>> = Vec::new();
    let mut below: Vec<Vec<OwnedFd>> = parents.iter().map(|_| Vec::new()).collect();
    for (rank, parent) in parents.iter().enumerate() {
        let ends = parent.map(|_| pair(if leads(rank) || rank == 0 { wire } else { Wire::Pair }));
        if let (Some(parent), Some((upper, lower))) = (parent, ends) {
            below[*parent].push(upper);
            children[*parent].push(rank);
            above.push(Some(lower));
        } else {
            above.push(None);
        }
    }
    let program = std::env::current_exe().unwrap();
    let mut started = Vec::new();
    for (rank, (up, down)) in above.into_iter().zip(below).enumerate() {
        let numbers: Vec<RawFd> = up.iter().chain(&down).map(AsRawFd::as_raw_fd).collect();
        let mut command = Command::new(&program);
        command.args([
            ROLE,
            what,
            &bytes.to_string(),
            &times.to_string(),
            if up.is_some() { "below" } else { "first" },
        ]);
        let below = &children[rank];
        let sizes = below.iter().map(|child| sizes[*child].to_string()).collect::<Vec<_>>().join(",");
        let next =
            below.iter().position(|child| towards_last[*child]).map_or(String::new(), |at| at.to_string());
        command.args([sizes, next, if rank == last { "last" } else { "" }.to_owned()]);
        command.args(numbers.iter().map(ToString::to_string));
        command.stdout(if up.is_some() { Stdio::null() } else { Stdio::piped() });
        // SAFETY: between fork and exec, only system calls on numbers are made.
        unsafe {
            command.pre_exec(move || {
                for number in &numbers {
                    if libc::fcntl(*number, libc::F_SETFD, 0) == -1 {
                        return Err(std::io::Error::last_os_error());
                    }
                }
                Ok(())
            });
        }
        started.push(command.spawn().unwrap());
    }
    let mut text = String::new();
    started[0].stdout.take().unwrap().read_to_string(&mut text).unwrap();
    started.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
    text.split_whitespace().map(|word| Duration::from_nanos(word.parse().unwrap())).collect()
}

fn pair(wire: Wire) -> (OwnedFd, OwnedFd) {
    if wire == Wire::Pair {
        let (one, other) = UnixStream::pair().unwrap();
        return (one.into(), other.into());
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (other, _) = listener.accept().unwrap();
    one.set_nodelay(true).unwrap();
    other.set_nodelay(true).unwrap();
    (one.into(), other.into())
}

/// A process of the baseline.
pub(crate) fn work(words: &[String]) {
    let number = |word: &String| word.parse::<usize>().unwrap();
    let (bytes, times, first) = (number(&words[1]), number(&words[2]), words[3] == "first");
    // SAFETY: the parent has left these descriptors open for this process.
    let mut files = words[7..].iter().map(|word| unsafe { File::from_raw_fd(number(word) as RawFd) });
    let mut up = if first { None } else { files.next() };
    let mut down: Vec<File> = files.collect();
    if !matches!(words[0].as_str(), "relay" | "token") {
        let sizes = words[4].split(',').filter(|size| !size.is_empty()).map(|size| size.parse().unwrap());
        let (next, is_last) = (words[5].parse().ok(), words[6] == "last");
        let took = Node { up, down, sizes: sizes.collect(), next, is_last }.measure(&words[0], bytes, times);
        if first {
            println!("{}", took.as_nanos());
        }
        return;
    }
    let mut buffer = vec![7; PIECE];
    let mut measured = Vec::new();
    for _ in 0..times {
        let began = Instant::now();
        if words[0] == "relay" {
            let mut left = bytes;
            while left > 0 {
                let most = left.min(PIECE);
                let count = up.as_mut().map_or(most, |up| up.read(&mut buffer[..most]).unwrap());
                assert!(count > 0);
                down.iter_mut().for_each(|child| child.write_all(&buffer[..count]).unwrap());
                left -= count;
            }
        }
        let mut token = [0];
        down.iter_mut().for_each(|child| child.read_exact(&mut token).unwrap());
        if let Some(up) = &mut up {
            up.write_all(&token).unwrap();
        }
        if words[0] == "token" {
            if let Some(up) = &mut up {
                up.read_exact(&mut token).unwrap();
            }
            down.iter_mut().for_each(|child| child.write_all(&token).unwrap());
        }
        measured.push(began.elapsed().as_nanos().to_string());
    }
    if first {
        println!("{}", measured.join(" "));
    }
}

/// A process in the tree, and how many processes are below each link.
struct Node {
    up: Option<File>,
    down: Vec<File>,
    sizes: Vec<usize>,
    /// The child towards the last process.
    next: Option<usize>,
    is_last: bool,
}

impl Node {
    fn measure(mut self, call: &str, bytes: usize, times: usize) -> Duration {
        self.barrier();
        let began = Instant::now();
        for _ in 0..times {
            match call {
                "broadcast" => self.down_only(bytes, |_| bytes, true),
                "scatter" => self.down_only(bytes, |size| size * bytes, false),
                "gather" => self.gather(bytes),
                "reduce" => self.reduce(bytes),
                "barrier" => self.barrier(),
                "ping" => self.ping(bytes),
                other => panic!("no call {other}"),
            }
        }
        if call != "barrier" {
            self.barrier();
        }
        began.elapsed() / times as u32
    }

    /// Reads what is for this process and those below from above, and passes parts of it on.
    fn down_only(&mut self, bytes: usize, length: impl Fn(usize) -> usize, is_same: bool) {
        let below = self.sizes.iter().sum::<usize>();
        let mut data = vec![7; if is_same { bytes } else { length(below + 1) }];
        if let Some(up) = &mut self.up {
            up.read_exact(&mut data).unwrap();
        }
        let mut at = bytes;
        for (child, size) in self.down.iter_mut().zip(&self.sizes) {
            let part = if is_same { 0..bytes } else { at..at + length(*size) };
            at = part.end;
            child.write_all(&data[part]).unwrap();
        }
    }

    /// Sends the data of this process and those below up.
    fn gather(&mut self, bytes: usize) {
        let mut data = vec![7; (self.sizes.iter().sum::<usize>() + 1) * bytes];
        let mut at = bytes;
        for (child, size) in self.down.iter_mut().zip(&self.sizes) {
            child.read_exact(&mut data[at..at + size * bytes]).unwrap();
            at += size * bytes;
        }
        if let Some(up) = &mut self.up {
            up.write_all(&data).unwrap();
        }
    }

    /// Sends the sums of the numbers of this process and those below up.
    fn reduce(&mut self, bytes: usize) {
        let (mut sums, mut data) = (vec![1_u8; bytes], vec![0; bytes]);
        for child in &mut self.down {
            child.read_exact(&mut data).unwrap();
            for (sum, more) in sums.chunks_exact_mut(8).zip(data.chunks_exact(8)) {
                let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
                let total = number(sum).wrapping_add(number(more));
                sum.copy_from_slice(&total.to_ne_bytes());
            }
        }
        if let Some(up) = &mut self.up {
            up.write_all(&sums).unwrap();
        }
    }

    fn barrier(&mut self) {
        let mut token = [0];
        self.down.iter_mut().for_each(|child| child.read_exact(&mut token).unwrap());
        if let Some(up) = &mut self.up {
            up.write_all(&token).unwrap();
            up.read_exact(&mut token).unwrap();
        }
        self.down.iter_mut().for_each(|child| child.write_all(&token).unwrap());
    }

    /// A message to the last process and back.
    fn ping(&mut self, bytes: usize) {
        let mut data = vec![7; bytes];
        if !self.is_last && self.next.is_none() {
            return;
        }
        if let Some(up) = &mut self.up {
            up.read_exact(&mut data).unwrap();
        }
        if let Some(next) = self.next {
            self.down[next].write_all(&data).unwrap();
            self.down[next].read_exact(&mut data).unwrap();
        }
        if let Some(up) = &mut self.up {
            up.write_all(&data).unwrap();
        }
    }
}

/// Raises the soft limit of descriptors to the hard one.
pub(crate) fn raise_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a pointer to a value that lives through them.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_cur = limit.rlim_max;
        libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
    }
}
