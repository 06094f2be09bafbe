//! A program that tests launch. It runs the commands in its arguments, one after the other.
//!
//! ```text
//! join             joins the session; commands before it run in a program that has not joined
//! manual           joins, and makes progress only in calls and in `turn`
//! turn             makes progress until it is ended
//! finish:MS        waits until no other member needs this process, at most so long
//! finalize:MS      leaves the session and continues
//! print-to:PATH    sends its output from now on to a file
//! targets          prints the processes of the job on this host that it was launched beside
//! out:TEXT         prints TEXT as a line; {rank}, {size}, {host} and {pid} are replaced
//! err:TEXT         the same to standard error
//! bare:TEXT        prints TEXT without a line end
//! flood:BYTES      prints so many bytes in lines of 100
//! count:N          prints N lines, each with its rank and a number from 0 on
//! env:NAME         prints the value of a variable
//! environment      prints all variables, sorted, one a line
//! cwd              prints its working directory
//! limits           prints its umask and its soft limit of open files
//! read             prints how many bytes it could read from its standard input
//! sleep:MS         sleeps
//! wait             sleeps until it is ended
//! touch:PATH       makes a file; {rank} as above
//! await:PATH       waits until there is such a file
//! obey:PATH        runs the words of a file, one a line; it may be a pipe
//! exit:N           exits with this status
//! _exit:N          exits with this status, without anything that a program registers for its end
//! exec:PROGRAM     executes another program in its place
//! close            closes all descriptors
//! stop:MS          is stopped for so long
//! abort            ends itself by SIGABRT
//! crash            writes where no memory is
//! signal:N         sends itself a signal
//! ignore:N         ignores a signal
//! catch:N:PATH     makes a file on this signal, and continues
//! spawn            starts a process that sleeps for a minute, and does not wait for it
//! spawn-group      the same, in a process group of its own
//! talk:OPERATION   makes calls with the other members, and checks the results: see talk.rs
//! case:FILE:N+N…   runs these sessions of a file of tests/cases/, and checks the results
//! stream:SEED:STEPS:DIR   takes random steps while members may be killed: see stream.rs
//! only:R:WORD      runs WORD only if it is rank R; except:R:WORD only if it is not
//! ```
//!
//! It exits with 0 after the last command. If a call of libi fails or gives a wrong result, it exits
//! with 70 and prints the reason to standard error.
#![allow(unsafe_code, reason = "signals are the operating system's")]
#![allow(clippy::unwrap_used, reason = "a test program fails by panicking")]

mod case;
mod grow;
mod loss;
mod orders;
mod rejoin;
mod survive;
mod talk;

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use libi::job::Target;
use libi::{Member, MemberOptions, Progress};
use libi_testkit::stream;
use nix::sys::resource::{Resource, getrlimit};

fn main() {
    let mut member = None;
    for word in std::env::args().skip(1) {
        obey(&word, &mut member);
    }
}

fn obey(word: &str, member: &mut Option<Member>) {
    let (verb, rest) = word.split_once(':').unwrap_or((word, ""));
    let number = || rest.parse::<u64>().unwrap_or_else(|_| panic!("{word}: {rest:?} is no number"));
    let millis = || Duration::from_millis(number());
    let rank = member.as_ref().map_or(u32::MAX, |member| member.rank().0);
    match verb {
        "join" => *member = Some(or_end("join", Member::init())),
        "manual" => {
            let options = MemberOptions::new().progress(Progress::Manual);
            *member = Some(or_end("manual", Member::with(&options)));
        }
        "turn" => turn(member.as_ref().unwrap()),
        "finish" => or_end("finish", member.as_ref().unwrap().drain(millis())),
        "finalize" => or_end("finalize", member.as_ref().unwrap().detach(millis())),
        "print-to" => {
            let file = std::fs::File::create(filled(rest, member.as_ref())).unwrap();
            // SAFETY: both are numbers. The first is an open file, and no object owns the second.
            assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), 1) }, 1);
        }
        "out" => println!("{}", filled(rest, member.as_ref())),
        "targets" => {
            let targets = member.as_ref().unwrap().targets(Duration::from_secs(60)).unwrap();
            let line =
                |target: &Target| format!("{} {} {}", target.rank().0, target.pid(), target.executable());
            assert!(targets.iter().all(Target::is_running));
            println!("{}", targets.iter().map(line).collect::<Vec<_>>().join(";"));
        }
        "err" => eprintln!("{}", filled(rest, member.as_ref())),
        "bare" => {
            print!("{}", filled(rest, member.as_ref()));
            std::io::stdout().flush().unwrap();
        }
        "flood" => {
            let line = [&[b'x'; 99][..], b"\n"].concat();
            let mut out = std::io::stdout().lock();
            (0..number() / 100).for_each(|_| out.write_all(&line).unwrap());
        }
        "count" => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            (0..number()).for_each(|line| writeln!(out, "{rank} {line}").unwrap());
        }
        "env" => println!("{}", std::env::var(rest).unwrap_or_default()),
        "environment" => {
            let mut all: Vec<String> =
                std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            all.sort_unstable();
            all.iter().for_each(|variable| println!("{variable}"));
        }
        "cwd" => println!("{}", std::env::current_dir().unwrap().display()),
        "limits" => {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let umask = status.lines().find_map(|line| line.strip_prefix("Umask:")).unwrap().trim();
            let open_files = getrlimit(Resource::RLIMIT_NOFILE).unwrap().0;
            println!("{umask} {open_files}");
        }
        "read" => {
            let mut bytes = Vec::new();
            std::io::stdin().read_to_end(&mut bytes).unwrap();
            println!("{}", bytes.len());
        }
        "sleep" => std::thread::sleep(millis()),
        "wait" => loop {
            std::thread::sleep(Duration::from_secs(3_600));
        },
        "touch" => drop(std::fs::File::create(filled(rest, member.as_ref())).unwrap()),
        "await" => {
            while !Path::new(&filled(rest, member.as_ref())).exists() {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        "obey" => {
            let words = std::fs::read_to_string(filled(rest, member.as_ref())).unwrap();
            words.lines().for_each(|word| obey(word, member));
        }
        "exit" => std::process::exit(number() as i32),
        // SAFETY: does not return.
        "_exit" => unsafe { libc::_exit(number() as i32) },
        "exec" => {
            use std::os::unix::process::CommandExt;
            panic!("{}", std::process::Command::new(rest).exec());
        }
        // SAFETY: nothing of this program is used after it but its end.
        "close" => drop(unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) }),
        "stop" => {
            let wake = format!("sleep {}; kill -CONT {}", millis().as_secs_f64(), std::process::id());
            let mut waker = std::process::Command::new("sh").args(["-c", &wake]).spawn().unwrap();
            // SAFETY: a number.
            unsafe { libc::raise(libc::SIGSTOP) };
            waker.wait().unwrap();
        }
        "abort" => std::process::abort(),
        // SAFETY: none. The process ends here.
        "crash" => unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) },
        // SAFETY: the argument is a number.
        "signal" => drop(unsafe { libc::raise(number() as i32) }),
        // SAFETY: ignoring a signal needs no handler.
        "ignore" => drop(unsafe { libc::signal(number() as i32, libc::SIG_IGN) }),
        "catch" => {
            let (signal, path) = rest.split_once(':').unwrap();
            CAUGHT.set(std::ffi::CString::new(filled(path, member.as_ref())).unwrap()).unwrap();
            let handler = caught as extern "C" fn(i32) as libc::sighandler_t;
            // SAFETY: the handler is async-signal-safe.
            unsafe { libc::signal(signal.parse().unwrap(), handler) };
        }
        "spawn" => drop(std::process::Command::new("sleep").arg("60").spawn().unwrap()),
        "spawn-group" => {
            use std::os::unix::process::CommandExt;
            drop(std::process::Command::new("sleep").arg("60").process_group(0).spawn().unwrap());
        }
        "talk" => or_end(word, talk::talk(member.as_ref().unwrap(), rest)),
        "case" => or_end("case", case::case(member.as_ref().unwrap(), rest)),
        "stream" => or_end("stream", stream::stream(member.as_ref().unwrap(), rest)),
        "only" | "except" => {
            let (whom, word) = rest.split_once(':').unwrap();
            if (whom.parse() == Ok(rank)) == (verb == "only") {
                obey(word, member);
            }
        }
        _ => panic!("{word}: see the head of its main.rs"),
    }
}

/// The loop of a program that makes progress itself.
fn turn(member: &Member) -> ! {
    loop {
        let most = member.next_timeout().map_or(-1, |timeout| timeout.as_millis() as i32 + 1);
        let mut fd = libc::pollfd { fd: member.descriptor().as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor, which lives through the call.
        unsafe { libc::poll(&raw mut fd, 1, most) };
        or_end("dispatch", member.dispatch());
    }
}

static CAUGHT: OnceLock<std::ffi::CString> = OnceLock::new();

extern "C" fn caught(_: i32) {
    if let Some(path) = CAUGHT.get() {
        // SAFETY: open and close are async-signal-safe; the path lives as long as the program.
        unsafe { libc::close(libc::open(path.as_ptr(), libc::O_CREAT | libc::O_WRONLY, 0o644)) };
    }
}

fn filled(text: &str, member: Option<&Member>) -> String {
    let Some(member) = member else { return text.to_owned() };
    let text = text.replace("{pid}", &std::process::id().to_string());
    text.replace("{rank}", &member.rank().0.to_string())
        .replace("{size}", &member.size().to_string())
        .replace("{host}", member.host_name())
}

fn or_end<T>(what: &str, result: Result<T, impl std::fmt::Display>) -> T {
    result.unwrap_or_else(|error| {
        eprintln!("{what}: {error}");
        std::process::exit(70)
    })
}
