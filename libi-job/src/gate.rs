//! The gate in front of a program that is launched under control: it holds the program until it is released.
//!
//! It is a shell that takes the place of the program on the launcher's command line, so nothing has to be
//! installed where it runs, and then becomes the program: the process ID, the descriptors and the exit status
//! are those of the program.
//!
//! | state | event | next |
//! |---|---|---|
//! | held | SIGURG | it becomes the program |
//! | held | the time limit is over | the same: a tool that has died holds no job for longer |
//! | held | its parent, a process of the launcher, has ended | it ends within a second |
//! | held | another signal | what the signal does to a shell: most end it, and its timer within a second |
//! | the program | SIGURG | nothing |
//!
//! A process is held as long as its command line is that of the gate; the signal is repeated until it is not.
//! SIGURG does nothing to a program that does not ask for it. (Launchers send SIGCONT to what they are about to
//! end.)

use std::time::Duration;

use libi_core::dist::OsBytes;

use crate::process;

/// What the gate is called, as `ps` shows it.
const NAME: &str = "libi-gate";
const SHELL: &str = "/bin/sh";
/// It looks each second whether its time is over, or its parent has ended.
const SCRIPT: &str = "trap libi_go=1 URG; libi_left=$1; shift; \
                      while [ ! \"$libi_go\" ] && [ $libi_left -gt 0 ]; do \
                      sleep 1 < /dev/null > /dev/null 2>&1 & wait $!; libi_left=$((libi_left - 1)); \
                      read -r libi_a libi_a libi_a libi_up libi_a < /proc/$$/stat; \
                      [ ! \"$libi_up\" ] || [ \"$libi_up\" = $PPID ] || exit 1; done; \
                      kill $! 2> /dev/null; wait $! 2> /dev/null; trap - URG; \
                      unset libi_go libi_left libi_up libi_a; exec \"$@\"";

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
