//! Signals, groups, and what is left when a child is dropped.

use super::super::{Signal, SignalError, SignalRepeater, WatchMethod};
use super::*;

const KILLED: ExitStatus = ExitStatus::Signal { signal: Signal::KILL, core_dumped: false };

/// A shell with a process in the background that both write to the pipe, when the background
/// process is there.
fn family(watch_method: WatchMethod, last: &str) -> (Child, PipeReader) {
    let (mut pipe, theirs) = std::io::pipe().unwrap();
    let mut start = shell(&format!("sleep 1000 & echo; {last}")).fd(1, theirs.as_fd());
    start.watch_method = watch_method;
    let child = start.start().unwrap();
    drop(theirs);
    assert!(sys::await_readable(pipe.as_fd(), TIMEOUT));
    pipe.read_exact(&mut [0; 1]).unwrap();
    (child, pipe)
}

fn both(check: impl Fn(WatchMethod)) {
    check(WatchMethod::Best);
    check(WatchMethod::Thread);
}

#[test]
fn a_dropped_process_takes_its_group_along() {
    both(|watch_method| {
        let (child, pipe) = family(watch_method, "wait");
        let pid = child.pid();
        drop(child);
        assert_eq!(read(pipe), "", "both are gone");
        assert!(!exists(pid), "nor is there a zombie");
    });
}

#[test]
fn what_a_process_left_running_is_killed_when_it_is_dropped() {
    both(|watch_method| {
        let (child, pipe) = family(watch_method, "exit 0");
        assert!(sys::await_readable(child.as_fd(), TIMEOUT));
        drop(child);
        assert_eq!(read(pipe), "");
    });
}

#[test]
fn what_a_process_left_running_can_be_signalled_until_its_status_is_collected() {
    both(|watch_method| {
        let (mut child, pipe) = family(watch_method, "exit 5");
        assert!(sys::await_readable(child.as_fd(), TIMEOUT));
        assert_eq!(child.peek(), Some(ExitStatus::Code(5)));
        assert_eq!(child.signal(Signal::TERM), Ok(()), "to no effect");
        assert_eq!(child.signal_group(Signal::TERM), Ok(()));
        assert_eq!(read(pipe), "");
        assert_eq!(child.try_wait(), Some(ExitStatus::Code(5)));
        assert_eq!(child.signal(Signal::TERM), Err(SignalError::Ended));
        assert_eq!(child.signal_group(Signal::TERM), Err(SignalError::Ended));
    });
}

#[test]
fn a_signal_to_the_process_spares_its_group() {
    both(|watch_method| {
        let (mut child, pipe) = family(watch_method, "wait");
        child.signal(Signal::KILL).unwrap();
        assert!(sys::await_readable(child.as_fd(), TIMEOUT));
        assert!(!sys::await_readable(pipe.as_fd(), Duration::ZERO), "the other one still has the pipe");
        child.signal_group(Signal::KILL).unwrap();
        assert_eq!(read(pipe), "");
        assert_eq!(ends(&mut child), KILLED);
    });
}

#[test]
fn without_a_group_of_its_own_it_is_signalled_alone() {
    both(|watch_method| {
        let mut start = start("sleep", &["1000"]);
        (start.own_group, start.watch_method) = (false, watch_method);
        let mut child = start.start().unwrap();
        assert_eq!(child.signal_group(Signal::TERM), Err(SignalError::NoGroup));
        let pid = child.pid();
        drop(child);
        assert!(!exists(pid), "and we are still here");
    });
}

#[test]
fn a_stopped_process_is_ended_all_the_same() {
    both(|watch_method| {
        let mut start = start("sleep", &["1000"]);
        start.watch_method = watch_method;
        let mut child = start.start().unwrap();
        child.signal(Signal::new(libc::SIGSTOP).unwrap()).unwrap();
        let pid = child.pid();
        drop(child);
        assert!(!exists(pid));
    });
}

#[test]
fn a_released_process_outlives_its_child() {
    both(|watch_method| {
        let (theirs, gate) = std::io::pipe().unwrap();
        let (pipe, out) = std::io::pipe().unwrap();
        let mut start = shell("read line; echo lives").fd(0, theirs.as_fd()).fd(1, out.as_fd());
        start.watch_method = watch_method;
        let mut child = start.start().unwrap();
        let pid = child.pid();
        child.release();
        drop((child, out, theirs));
        assert!(runs(pid));
        drop(gate);
        assert_eq!(read(pipe), "lives\n");
    });
}

#[test]
fn a_released_process_that_has_ended_leaves_no_zombie() {
    both(|watch_method| {
        let mut start = shell("");
        start.watch_method = watch_method;
        let mut child = start.start().unwrap();
        child.release();
        assert!(sys::await_readable(child.as_fd(), TIMEOUT));
        let pid = child.pid();
        drop(child);
        assert!(!exists(pid));
    });
}

#[test]
fn a_process_bound_to_its_starter_ends_with_the_thread_that_started_it() {
    let mut start = start("sleep", &["1000"]);
    start.parent_death_signal = Some(Signal::TERM);
    let mut child = std::thread::spawn(move || start.start().unwrap()).join().unwrap();
    assert_eq!(ends(&mut child), ExitStatus::Signal { signal: Signal::TERM, core_dumped: false });
}

/// A program that takes note of the first signal, and waits for something else until the second comes.
const MISSES_ONE: &str = "left=2; trap 'left=$((left - 1))' TERM; echo; \
                          while [ $left -gt 0 ]; do read -r never <&3; done; echo ends";

#[test]
fn a_signal_is_repeated_once_its_sender_has_ended_until_the_receiver_has() {
    let (never, _gate) = std::io::pipe().unwrap();
    let (mut pipe, theirs) = std::io::pipe().unwrap();
    let start = shell(MISSES_ONE).fd(1, theirs.as_fd()).fd(3, never.as_fd());
    let mut child = start.start().unwrap();
    drop(theirs);
    pipe.read_exact(&mut [0; 1]).unwrap();
    let mut repeater = SignalRepeater::start(&child, Signal::TERM).unwrap().without_pipe();
    assert_eq!(read(pipe), "ends\n");
    assert_eq!(ends(&mut child), ExitStatus::Code(0));
    assert_eq!(ends(&mut repeater), ExitStatus::Code(0), "it has ended as well");
}

#[test]
fn a_repeater_that_is_dropped_sends_nothing() {
    let mut child = start("sleep", &["1000"]).start().unwrap();
    drop(SignalRepeater::start(&child, Signal::TERM).unwrap());
    assert_eq!(child.peek(), None);
    assert_eq!(child.signal(Signal::KILL), Ok(()));
    assert_eq!(ends(&mut child), KILLED);
}
