//! Whole processes that tests need to be the parent of, because what they do concerns a process as
//! a whole: this test program, executed again for one role.
#![allow(unsafe_code, reason = "plays programs that misuse what libi depends on")]

use std::io::Write;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::AtomicUsize;

use super::super::{Signal, SignalError, WatchMethod};
use super::*;

const ROLE: &str = "LIBI_TEST_ROLE";
const WATCH_METHODS: [WatchMethod; 2] = [WatchMethod::Best, WatchMethod::Thread];

/// The start of this test program in a role. Where it reports, if it does, is descriptor 3.
fn role(name: &str) -> Start<'static> {
    let program = std::env::current_exe().unwrap();
    let mut start =
        start(program.to_str().unwrap(), &["--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    start.args.push(word("process::tests::roles::plays_its_role"));
    start.env = start.env.with([variable(ROLE, name)]);
    start
}

fn plays(role: &Start<'_>) {
    let (seen, exit) = output(role);
    assert_eq!(exit, ExitStatus::Code(0), "{seen}");
    assert!(seen.contains("1 passed"), "{seen}");
}

#[test]
#[ignore = "is played for other tests, in a process of its own"]
fn plays_its_role() {
    match std::env::var(ROLE).as_deref() {
        Ok("collector") => collector(),
        Ok("ignorer") => ignorer(),
        Ok("careless handler") => careless_handler(),
        Ok("mortal") => mortal(),
        Ok("confined") => confined(),
        Ok("crowd") => crowd(),
        _ => {}
    }
}

#[test]
fn a_parent_that_collects_every_child_gets_unknown_instead_of_a_hang() {
    plays(&role("collector"));
}

fn collector() {
    for watch_method in WATCH_METHODS {
        let mut start = shell("read line; exit 3");
        start.watch_method = watch_method;
        let (theirs, gate) = std::io::pipe().unwrap();
        let start = start.fd(0, theirs.as_fd());
        let mut children = [start.start().unwrap(), start.start().unwrap()];
        drop(gate);
        // SAFETY: takes numbers, and no place for a status.
        while unsafe { libc::waitpid(-1, ptr::null_mut(), 0) } != -1 {}
        assert!(!children.iter().any(|child| exists(child.pid())), "taken away");
        assert!(sys::await_readable(children[0].as_fd(), TIMEOUT));
        assert_eq!(children[0].peek(), Some(ExitStatus::Unknown));
        assert_eq!(children[0].try_wait(), Some(ExitStatus::Unknown));
        assert_eq!(children[0].signal(Signal::TERM), Err(SignalError::Ended));
        assert_eq!(children[1].signal(Signal::TERM), Err(SignalError::Ended), "noticed by the signal itself");
        assert_eq!(children[1].signal_group(Signal::TERM), Err(SignalError::Ended));
    }
}

#[test]
fn a_parent_that_ignores_sigchld_gets_unknown_too() {
    plays(&role("ignorer"));
}

fn ignorer() {
    // SAFETY: no handler of ours is installed.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    for watch_method in WATCH_METHODS {
        let (theirs, gate) = std::io::pipe().unwrap();
        let mut start = shell("read line; exit 3").fd(0, theirs.as_fd());
        start.watch_method = watch_method;
        let mut child = start.start().unwrap();
        assert_eq!(child.try_wait(), None);
        drop(gate);
        assert_eq!(ends(&mut child), ExitStatus::Unknown);
        let mut start = shell("");
        start.watch_method = watch_method;
        start.cwd = Some(word("/nonexistent"));
        assert!(start.start().is_err(), "a failure is collected although it cannot be");
    }
}

#[test]
fn a_failed_start_is_invisible_to_the_embedding_program() {
    plays(&role("careless handler"));
}

static CHILDREN_HEARD_OF: AtomicUsize = AtomicUsize::new(0);

extern "C" fn on_sigchld(_: libc::c_int) {
    CHILDREN_HEARD_OF.fetch_add(1, Ordering::Relaxed);
}

fn careless_handler() {
    // SAFETY: the handler does nothing but count.
    unsafe { libc::signal(libc::SIGCHLD, on_sigchld as *const () as libc::sighandler_t) };
    for watch_method in WATCH_METHODS {
        let mut start = start("/nonexistent", &[]);
        start.watch_method = watch_method;
        assert!(start.start().is_err());
        // SAFETY: takes numbers, and no place for a status.
        let left = unsafe { libc::waitpid(-1, ptr::null_mut(), libc::WNOHANG | libc::__WALL) };
        assert_eq!(left, -1, "no child, not even one of the sort that ends silently");
    }
    assert_eq!(CHILDREN_HEARD_OF.load(Ordering::Relaxed), 0);
}

#[test]
fn a_process_bound_to_its_starter_ends_when_the_starter_is_killed() {
    let (mut pipe, theirs) = std::io::pipe().unwrap();
    let mut mortal = role("mortal").fd(3, theirs.as_fd()).start().unwrap();
    drop(theirs);
    assert!(sys::await_readable(pipe.as_fd(), TIMEOUT));
    let mut ready = [0; 1];
    pipe.read_exact(&mut ready).unwrap();
    mortal.signal(Signal::KILL).unwrap();
    // The descendant has the other end, in a group where our signal does not reach it.
    assert_eq!(read(pipe), "");
}

fn mortal() {
    // SAFETY: this process was started with descriptor 3, and nothing else owns it.
    let mut report = unsafe { fs::File::from_raw_fd(3) };
    let mut start = start("sleep", &["1000"]).fd(3, report.as_fd());
    start.parent_death_signal = Some(Signal::KILL);
    let mut child = start.start().unwrap();
    report.write_all(b"!").unwrap();
    child.wait_for(TIMEOUT);
}

#[test]
fn umask_and_limits_are_inherited_and_a_descriptor_above_the_limit_is_named() {
    let role = role("confined");
    let mut confined = shell("umask 027; ulimit -n 500; exec \"$0\" \"$@\"");
    confined.args.push(role.program);
    confined.args.extend(role.args);
    confined.env = role.env;
    plays(&confined);
}

fn confined() {
    assert_eq!(output(&shell("umask; ulimit -n")).0, "0027\n500\n");
    let file = fs::File::open("/dev/null").unwrap();
    let error = shell("").fd(500, file.as_fd()).start().map(drop).unwrap_err();
    assert_eq!(error.to_string(), "cannot pass on file descriptor 500: Bad file descriptor");
}

#[test]
fn a_thousand_processes_run_at_once_started_by_four_threads() {
    plays(&role("crowd"));
}

fn crowd() {
    let limit = sys::open_files_limit(u64::MAX).unwrap();
    // SAFETY: the limit outlives the call.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    let (theirs, gate) = std::io::pipe().unwrap();
    let start = || {
        let start = shell("read line; exit 7").fd(0, theirs.as_fd());
        (0..250).map(|_| start.start().unwrap()).collect::<Vec<_>>()
    };
    let mut children = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(children.iter_mut().all(|child| child.peek().is_none()));
    drop(gate);
    for child in &mut children {
        assert_eq!(ends(child), ExitStatus::Code(7));
    }
}

/// The same descriptor, as a program has it that does not care what its children inherit.
pub(super) fn without_cloexec(fd: OwnedFd) -> OwnedFd {
    let number = fd.into_raw_fd();
    // SAFETY: the number is ours, and is owned again at once.
    unsafe {
        assert_eq!(libc::fcntl(number, libc::F_SETFD, 0), 0);
        OwnedFd::from_raw_fd(number)
    }
}
