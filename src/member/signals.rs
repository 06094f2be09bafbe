//! The effect that a signal would have on this process.

/// Whether the program has a handler for this signal.
pub(super) fn is_handled(signal: i32) -> bool {
    is_among("SigCgt:", signal)
}

/// Whether this signal would end the process.
pub(super) fn is_fatal(signal: i32) -> bool {
    const HARMLESS: [i32; 8] = [
        libc::SIGCHLD,
        libc::SIGCONT,
        libc::SIGSTOP,
        libc::SIGTSTP,
        libc::SIGTTIN,
        libc::SIGTTOU,
        libc::SIGURG,
        libc::SIGWINCH,
    ];
    !HARMLESS.contains(&signal) && !is_handled(signal) && !is_among("SigIgn:", signal)
}

/// Whether a signal is in one of the masks in `/proc/self/status`.
fn is_among(set: &str, signal: i32) -> bool {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let mask = status.lines().find_map(|line| line.strip_prefix(set));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).contains(&signal) && (mask >> (signal - 1)) & 1 == 1
}
