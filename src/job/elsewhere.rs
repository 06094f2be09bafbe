//! Jobs whose launcher is on another host.
//!
//! ```text
//!   front end                                  the launcher's host
//!     | launches the agent there ------------> |
//!     | spawns it again, as what attaches ---> | reads the launcher
//!     | <----- the job, or why there is none - | ends, and the session with it
//! ```
//!
//! | what fails | what follows |
//! |---|---|
//! | the host cannot be launched on | [`AttachOnError::Launch`], with the report of the launch |
//! | the launcher cannot be attached to | [`AttachOnError::Refused`], in the words of the host |
//! | what attaches ends otherwise, or does not answer in time | [`AttachOnError::NoAnswer`] |

use std::io::Write as _;
use std::time::{Duration, Instant};

use libi_launch::failure::Exit;
use libi_launch::options::JOB_ARG;

use serde::{Deserialize, Serialize};

use super::{Job, JobName, Part, deadline, watch};
use crate::{Command, Distribution, Error, Event, FrontEnd, LaunchOptions, ProcessOutcome, Programs, Stream};

/// The program of the agent, for a process that the agent starts.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";
/// The exit status of what cannot attach.
const REFUSED: i32 = 3;
/// What is left of a timeout for the answer.
const FOR_ANSWER: Duration = Duration::from_secs(2);

/// Why a job on another host is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachOnError {
    /// The host cannot be launched on, or the options name no agent.
    #[error("cannot look for the launcher on {host}: {why}")]
    Launch {
        /// The host of the launcher.
        host: String,
        /// Why.
        why: Error,
    },
    /// The job cannot be attached to there.
    #[error("on {host}: {why}")]
    Refused {
        /// The host of the launcher.
        host: String,
        /// What an [`AttachError`](super::AttachError) says there.
        why: String,
    },
    /// The host has not answered.
    #[error("{host} has not told the job: {why}")]
    NoAnswer {
        /// The host of the launcher.
        host: String,
        /// How what attaches there has ended, if it has.
        why: String,
    },
}

/// Attaches to a job whose launcher is on another host. The options say how that is reached, and name the
/// [agent](LaunchOptions::agent), which runs there meanwhile. The processes of the job are as
/// [`Job::attach`] would find them there; daemons are [launched beside](FrontEnd::launch_beside) it from here.
///
/// # Errors
/// See [`AttachOnError`].
///
/// ```no_run
/// use std::time::Duration;
/// use libi::job::{self, JobName};
/// use libi::{Agent, LaunchOptions, OsBytes, Ssh};
///
/// let agent = Agent::new(OsBytes::try_from("/opt/tool/bin/tool").unwrap());
/// let options = LaunchOptions::new().backend(Ssh::new()).agent(agent);
/// let job = job::attach_on("login2", &JobName::Pid(4711), &options, Duration::from_secs(30))?;
/// println!("{} processes", job.processes().len());
/// # Ok::<(), job::AttachOnError>(())
/// ```
pub fn attach_on(
    host: &str,
    name: &JobName,
    options: &LaunchOptions,
    timeout: Duration,
) -> Result<Job, AttachOnError> {
    let until = deadline(timeout);
    let left = || until.saturating_duration_since(Instant::now());
    let cannot = |why| AttachOnError::Launch { host: host.to_owned(), why };
    let no_answer = |why| AttachOnError::NoAnswer { host: host.to_owned(), why };
    let options = options.clone().programs(Programs::None).deadline(options.deadline.min(timeout));
    let front = FrontEnd::new().map_err(cannot)?;
    let session = front.launch(&Distribution::idle(host), &options).map_err(cannot)?;
    let words = [Request::Attach(name.clone(), left()).encoded(), JOB_ARG.to_owned()];
    let command = Command::new(OWN_PROGRAM).args(words).timeout(left().saturating_add(FOR_ANSWER));
    let spawned = session.spawn(&command).map_err(cannot)?;
    let (mut said, mut complaint) = (Vec::new(), Vec::new());
    let (by, mut ended) = (until + FOR_ANSWER * 2, None);
    loop {
        match front.next_event(by.saturating_duration_since(Instant::now())) {
            Some(Event::CommandOutput { command, stream, bytes, .. }) if command == spawned.id() => {
                match stream {
                    Stream::Out => said.extend(bytes),
                    Stream::Err => complaint.extend(bytes),
                }
            }
            Some(Event::CommandEnded { command, outcome, .. }) if command == spawned.id() => {
                ended = Some(outcome);
            }
            Some(Event::CommandDone { command, .. }) if command == spawned.id() => break,
            Some(Event::Done { .. }) | None => break,
            Some(_) => {}
        }
    }
    drop(session);
    let complaint = String::from_utf8_lossy(&complaint).trim_end().to_owned();
    match ended {
        Some(ProcessOutcome::Exited(Exit::Code(0))) => {
            Job::from_host(host, &said).ok_or_else(|| no_answer("it has sent something else".to_owned()))
        }
        Some(ProcessOutcome::Exited(Exit::Code(REFUSED))) => {
            Err(AttachOnError::Refused { host: host.to_owned(), why: complaint })
        }
        Some(outcome) => Err(no_answer(format!("what attaches there {outcome}: {complaint}"))),
        None => Err(no_answer(format!("it has not ended within {timeout:?}: {complaint}"))),
    }
}

/// What the program of an agent is asked to do on its host.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Request {
    /// To attach to a job, in so much time.
    Attach(JobName, Duration),
    /// To watch the processes of the host, and the launcher with this process ID.
    Watch { part: Part, launcher: Option<i32> },
}

impl Request {
    /// As a word of a command line.
    pub(super) fn encoded(&self) -> String {
        // Numbers and texts can always be encoded.
        let bytes = postcard::to_allocvec(self).unwrap_or_default();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn decoded(word: &str) -> Option<Self> {
        let bytes: Option<Vec<u8>> = word
            .as_bytes()
            .chunks(2)
            .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok())
            .collect();
        postcard::from_bytes(&bytes?).ok()
    }
}

/// Does what the last argument but one asks for, and prints the answer for the front end. Returns the exit
/// status.
pub(crate) fn serve() -> i32 {
    // The arguments of a static C program are not known in another way.
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut words = line.strip_suffix(b"\0").unwrap_or(&line).rsplit(|byte| *byte == 0);
    let request = words.nth(1).and_then(|word| Request::decoded(std::str::from_utf8(word).ok()?));
    match request {
        Some(Request::Attach(name, timeout)) => attach(&name, timeout),
        Some(Request::Watch { part, launcher }) => watch::serve(part, launcher),
        None => {
            eprintln!("libi: {JOB_ARG} is for libi alone: no job is named");
            REFUSED
        }
    }
}

fn attach(name: &JobName, timeout: Duration) -> i32 {
    match Job::attach_by(name, timeout) {
        Ok(job) => {
            let mut out = std::io::stdout().lock();
            i32::from(out.write_all(&job.to_bytes()).and_then(|()| out.flush()).is_err())
        }
        Err(error) => {
            eprintln!("{error}");
            REFUSED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_words() {
        for name in [JobName::Pid(4711), JobName::Slurm("12.0".to_owned())] {
            let request = Request::Attach(name, Duration::from_millis(1_500));
            let word = request.encoded();
            assert!(word.bytes().all(|byte| byte.is_ascii_hexdigit()), "{word}");
            assert_eq!(Request::decoded(&word), Some(request));
        }
        for nonsense in ["", "0", "zz", "00ff", "é1"] {
            assert_eq!(Request::decoded(nonsense), None, "{nonsense}");
        }
    }
}
