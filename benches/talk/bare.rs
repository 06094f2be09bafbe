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

fn run(parents: &[Option<usize>], wire: Wire, what: &str, bytes: usize, times: usize) -> Vec<Duration> {
    let leads = |rank: usize| parents.contains(&Some(rank));
    let mut above: Vec<Option<OwnedFd>> = Vec::new();
    let mut below: Vec<Vec<OwnedFd>> = parents.iter().map(|_| Vec::new()).collect();
    for (rank, parent) in parents.iter().enumerate() {
        let ends = parent.map(|_| pair(if leads(rank) || rank == 0 { wire } else { Wire::Pair }));
        if let (Some(parent), Some((upper, lower))) = (parent, ends) {
            below[*parent].push(upper);
            above.push(Some(lower));
        } else {
            above.push(None);
        }
    }
    let program = std::env::current_exe().unwrap();
    let mut children = Vec::new();
    for (up, down) in above.into_iter().zip(below) {
        let numbers: Vec<RawFd> = up.iter().chain(&down).map(AsRawFd::as_raw_fd).collect();
        let mut command = Command::new(&program);
        command.args([
            ROLE,
            what,
            &bytes.to_string(),
            &times.to_string(),
            if up.is_some() { "below" } else { "first" },
        ]);
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
        children.push(command.spawn().unwrap());
    }
    let mut text = String::new();
    children[0].stdout.take().unwrap().read_to_string(&mut text).unwrap();
    children.iter_mut().for_each(|child| assert!(child.wait().unwrap().success()));
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
    let mut files = words[4..].iter().map(|word| unsafe { File::from_raw_fd(number(word) as RawFd) });
    let mut up = if first { None } else { files.next() };
    let mut down: Vec<File> = files.collect();
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
