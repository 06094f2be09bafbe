//! The gate in front of a program that is launched under control: it holds the program until it is released.
//!
//! It is a shell that takes the place of the program on the launcher's command line, so nothing has to be
//! installed where it runs, and then becomes the program: the process ID, the descriptors and the exit status
//! are those of the program.
//!
//! | state | event | next |
//! |---|---|---|
//! | held | SIGCONT | it becomes the program |
//! | held | the time limit is over | the same: a tool that has died holds no job for longer |
//! | held | another signal | what the signal does to a shell: most end it |
//! | the program | SIGCONT | nothing |
//!
//! A process is held as long as its command line is that of the gate; the signal is repeated until it is not.

use std::time::Duration;

use libi_core::dist::OsBytes;

use crate::process;

/// What the gate is called, as `ps` shows it.
const NAME: &str = "libi-gate";
const SHELL: &str = "/bin/sh";
/// The time limit is measured by a process that has nothing of the program but its group.
const SCRIPT: &str = "trap libi_go=1 CONT; sleep \"$1\" < /dev/null > /dev/null 2>&1 & \
                      [ \"$libi_go\" ] || wait $!; kill $! 2> /dev/null; wait $! 2> /dev/null; \
                      trap - CONT; unset libi_go; shift; exec \"$@\"";

/// The words in front of a program that is held for no longer than this.
pub(crate) fn words(limit: Duration) -> [String; 5] {
    let seconds = limit.as_secs() + u64::from(limit.subsec_nanos() > 0);
    [SHELL, "-c", SCRIPT, NAME, &seconds.to_string()].map(str::to_owned)
}

/// The program that this process holds.
pub(crate) fn program(pid: i32) -> Option<OsBytes> {
    let words = process::words(pid);
    match &words[..] {
        [_, c, script, name, _, program, ..] if c == "-c" && script == SCRIPT && name == NAME => {
            OsBytes::try_from(&**program).ok()
        }
        _ => None,
    }
}
