//! What a line that `srun` prints says.
//!
//! | line | meaning |
//! |---|---|
//! | `3: text` | the fourth host has printed the text |
//! | `srun: error: n[1-3]: tasks 0-2: Exited with exit code 1` | the programs have ended |
//! | `srun: … n1: task 0: Completed` | the program has exited with 0 |
//! | `srun: error: Task launch for StepId=1.0 failed on node n1: …` | the host cannot be started |
//! | the same with `Job credential revoked` | the job ends, for another reason: all programs are ended |
//! | `srun: job 7 queued and waiting for resources` | the start waits in a queue |
//! | `srun: job 7 has been allocated resources` | the start goes on |
//! | `srun: error: … invalid account …` and the like | no start can succeed |
//! | `slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT …` | the same: the job is to end |
//! | `srun: Job step aborted: …`, `srun: Complete StepId=7.0+0 received` | all programs are ended |
//! | `srun: Force Terminated StepId=7.0` | the same |
//! | `srun: job time limit to be reached at …` | all programs will be ended, and why |
//! | any other line of `srun` or `slurmstepd` | evidence for hosts that do not arrive |

use super::StarterLine;
use crate::failure::Exit;

/// What the line says, and about which of these hosts.
pub(super) fn read<'a>(hosts: &'a [String], line: &'a [u8]) -> StarterLine<'a> {
    if let Some((host, text)) = labelled(hosts, line) {
        return of_step(text).unwrap_or(StarterLine::Printed(host, text));
    }
    let text = str::from_utf8(line).unwrap_or_default().trim_end();
    match text.split_once(": ") {
        // Messages about its arguments begin with the path by which it was called.
        Some((program, said)) if program.rsplit('/').next() == Some("srun") => of_srun(said, text),
        _ => of_step(line).unwrap_or(StarterLine::Other),
    }
}

/// The host whose task has printed this line, and the line without its label.
fn labelled<'a>(hosts: &'a [String], line: &'a [u8]) -> Option<(&'a str, &'a [u8])> {
    let at = find(line, b": ")?;
    let label = str::from_utf8(&line[..at]).ok()?.trim_start();
    let is_number = !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit());
    let host = hosts.get(label.parse::<usize>().ok().filter(|_| is_number)?)?;
    Some((host, &line[at + 2..]))
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// What a daemon of Slurm says about the whole step: that it was cancelled, or has no time left. It
/// is evidence for each host. `srun` cancels a step, too, after it has named a host that fails.
fn of_step(text: &[u8]) -> Option<StarterLine<'_>> {
    let is_of_step = text.starts_with(b"slurmstepd") && find(text, b"*** ").is_some();
    let is_over = find(text, b" CANCELLED AT ").is_some() && find(text, b"NODE FAILURE").is_none();
    is_of_step.then_some(if is_over { StarterLine::Refused(text) } else { StarterLine::Other })
}

/// What a message of `srun` itself says, which is a part of `line`.
fn of_srun<'a>(text: &str, line: &'a str) -> StarterLine<'a> {
    let is_error = text.starts_with("error: ") || text.starts_with("fatal: ");
    let body = text.trim_start_matches("error: ").trim_start_matches("fatal: ");
    let plain = body.strip_prefix("launch/slurm: ").unwrap_or(body);
    let plain = plain.strip_prefix("_task_finish: ").unwrap_or(plain);
    if let Some(ended) = ended(plain) {
        return ended;
    }
    if let Some(rest) = plain.strip_prefix("Task launch for ")
        && let Some((_, rest)) = rest.split_once(" failed on node ")
        && let Some((node, why)) = rest.split_once(": ")
    {
        // The job was ended before its launch came to this node, which is not at fault.
        if why == "Job credential revoked" {
            return StarterLine::EndsAll;
        }
        return node.parse().map_or(StarterLine::Other, StarterLine::Failed);
    }
    if let Some(nodes) = plain.strip_prefix("Node failure on ") {
        return nodes.parse().map_or(StarterLine::Other, StarterLine::Failed);
    }
    if WAITS.iter().any(|words| text.contains(words)) {
        return StarterLine::Waits;
    }
    if text.contains("has been allocated resources") || text.starts_with("Step created for") {
        return StarterLine::Proceeds;
    }
    // The line of `slurmstepd` that says why comes later, and is lost if `srun` ends first.
    if ["Job step aborted: ", "Complete ", "Force Terminated "].iter().any(|words| text.starts_with(words)) {
        return StarterLine::EndsAll;
    }
    if text.starts_with("job time limit to be reached at ") {
        return StarterLine::WillEndAll;
    }
    let is_revoked = text.contains("has been revoked");
    let is_usage =
        ["unrecognized option", "invalid option", "option '"].iter().any(|words| text.starts_with(words));
    if is_revoked || is_usage || is_error && HOPELESS.iter().any(|words| text.contains(words)) {
        return StarterLine::Refused(line.as_bytes());
    }
    if !is_error && is_progress(text) { StarterLine::Nothing } else { StarterLine::Other }
}

/// What `srun` prints when it waits; the first line tells most.
const WAITS: [&str; 4] = [
    "Required node not available",
    "Requested partition configuration not available now",
    "queued and waiting for resources",
    "step creation temporarily disabled",
];

/// Errors that do not depend on the hosts: every other start would fail in the same way.
const HOPELESS: [&str; 12] = [
    "Invalid account",
    "invalid account",
    "artition",
    "Invalid qos",
    "Invalid job id",
    "Expired or invalid job",
    "has expired",
    "already completing or completed",
    "Access/permission denied",
    "Job violates",
    "Invalid reservation",
    "Could not establish a configuration source",
];

/// Whether a verbose message tells that all goes as it should.
fn is_progress(text: &str) -> bool {
    let begins = [
        "defined options",
        "end of defined options",
        "-----",
        "jobid ",
        "launching ",
        "launch/slurm: ",
        "route/",
        "topology/",
        "Received task exit notification",
        "Node ",
        "auth plugin",
        "Consumable Resources",
        "select/",
        "Linear node selection",
        "Cray",
        "Nodes ",
        "Waiting for nodes",
        "cluster configuration lacks support",
    ];
    // A row of the table of options.
    let is_option = text.split_once(": ").is_some_and(|(name, _)| name.ends_with(' ') || name == "(null)");
    is_option || begins.iter().any(|words| text.starts_with(words))
}

/// `n[1-3]: tasks 0-2: Exited with exit code 1`
fn ended(text: &str) -> Option<StarterLine<'static>> {
    let (hosts, rest) = text.split_once(": task")?;
    let (_, how) = rest.split_once(": ")?;
    let exit = match how.strip_prefix("Exited with exit code ") {
        Some(code) => Exit::Code(code.parse().ok()?),
        None if how == "Completed" => Exit::Code(0),
        None => {
            let how = how.strip_suffix(" (core dumped)").unwrap_or(how);
            Exit::Signal(SIGNALS.iter().find(|(name, _)| *name == how)?.1)
        }
    };
    Some(StarterLine::Ended(hosts.parse().ok()?, exit))
}

/// Signals as the C library describes them, and the end by the kernel for lack of memory.
const SIGNALS: [(&str, i32); 16] = [
    ("Hangup", 1),
    ("Interrupt", 2),
    ("Quit", 3),
    ("Illegal instruction", 4),
    ("Trace/breakpoint trap", 5),
    ("Aborted", 6),
    ("Bus error", 7),
    ("Floating point exception", 8),
    ("Killed", 9),
    ("Out Of Memory", 9),
    ("User defined signal 1", 10),
    ("Segmentation fault", 11),
    ("User defined signal 2", 12),
    ("Broken pipe", 13),
    ("Alarm clock", 14),
    ("Terminated", 15),
];
