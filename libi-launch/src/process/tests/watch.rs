//! How the end of a process is noticed, by a pidfd and by a thread.

use super::super::{Signal, WatchMethod};
use super::*;

fn both(mut start: Start<'_>, mut check: impl FnMut(&Start<'_>)) {
    for watch_method in [WatchMethod::Best, WatchMethod::Thread] {
        start.watch_method = watch_method;
        check(&start);
    }
}

#[test]
fn the_descriptor_is_readable_from_the_end_on_and_stays_so() {
    let (theirs, gate) = std::io::pipe().unwrap();
    let mut gate = Some(gate);
    both(shell("read line; exit 3").fd(0, theirs.as_fd()), |start| {
        let mut child = start.start().unwrap();
        if gate.is_some() {
            assert!(!sys::await_readable(child.as_fd(), Duration::ZERO));
            assert_eq!(child.wait_for(Duration::ZERO), None);
        }
        gate = None;
        assert!(sys::await_readable(child.as_fd(), TIMEOUT));
        assert_eq!((child.peek(), child.peek()), (Some(ExitStatus::Code(3)), Some(ExitStatus::Code(3))));
        assert_eq!(
            (child.try_wait(), child.try_wait()),
            (Some(ExitStatus::Code(3)), Some(ExitStatus::Code(3)))
        );
        assert!(sys::await_readable(child.as_fd(), Duration::ZERO));
        assert!(!exists(child.pid()), "its status has been collected");
    });
}

#[test]
fn an_end_by_a_signal_is_told_from_an_exit_with_the_number_a_shell_would_make_of_it() {
    both(shell("kill -TERM $$"), |start| {
        let expected = ExitStatus::Signal { signal: Signal::TERM, core_dumped: false };
        assert_eq!(ends(&mut start.start().unwrap()), expected);
    });
    both(shell("exit 143"), |start| assert_eq!(ends(&mut start.start().unwrap()), ExitStatus::Code(143)));
}

#[test]
fn what_it_leaves_in_the_background_does_not_delay_the_news_of_its_end() {
    both(shell("sleep 1000 & exit 3"), |start| {
        let mut child = start.start().unwrap();
        assert!(sys::await_readable(child.as_fd(), TIMEOUT));
        assert_eq!(child.peek(), Some(ExitStatus::Code(3)));
    });
}

#[test]
fn closing_every_descriptor_is_not_taken_for_an_end() {
    let (theirs, _gate) = std::io::pipe().unwrap();
    // All but the one by which it is kept alive.
    both(shell("exec 0<&- 1>&- 2>&- 3<&- 4<&- 5<&-; read line <&8").fd(8, theirs.as_fd()), |start| {
        let (pipe, up) = std::io::pipe().unwrap();
        let mut child = start.clone().fd(1, up.as_fd()).start().unwrap();
        drop(up);
        assert_eq!(read(pipe), "", "it has closed them");
        assert!(!sys::await_readable(child.as_fd(), Duration::ZERO));
        assert_eq!(child.try_wait(), None);
    });
}

#[test]
fn both_ways_are_what_they_are_called() {
    let thread = |start: &Start<'_>| format!("{:?}", start.start().unwrap()).contains("Thread(");
    let mut start = shell("");
    assert_eq!(thread(&start), !sys::knows_pidfds());
    start.watch_method = WatchMethod::Thread;
    assert!(thread(&start));
}
