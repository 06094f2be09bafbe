//! The state machine that examines one host. It reads no clock and owns no file descriptor: input
//! and the current time are arguments, output is a list of [`Effect`]s.
//!
//! ```text
//!   logging in --marker--> identifying --ready--> echoes --> clock --> program
//!     --> dialling --> closing --> finished
//! ```
//!
//! - **logging in**: the remote shell logs in. Standard output is noise until the probe's first
//!   line.
//! - **identifying**: the probe describes its host.
//! - **echoes**: short lines travel there and back, one at a time, on an otherwise idle connection.
//! - **clock**: the remote time is asked for in the same way. The answer with the shortest round
//!   trip is the most exact.
//! - **program**, **dialling**: only if requested.
//! - **closing**: the examination is complete; the remote side has a second to end by itself.
//!
//! An exit or a timeout in a state before *dialling* makes the host unfit for a launch. A host that
//! cannot connect to this machine is fit, and may use all of [`DIAL_TIMEOUT`] for its attempts.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use libi_core::time::Instant;
use libi_launch::process::ExitStatus;
use libi_launch::shell_error::is_login_denial;
use libi_launch::transcript::{LoginError, LoginStage, Transcript};

use super::finding::{Clock, Direct, Finding, Problem};
use super::line_buffer::LineBuffer;
use super::probe::{self, ProgramCheck, Reply};

/// How many echoes are requested.
const ECHO_COUNT: u32 = 5;
/// How often the remote time is requested.
const CLOCK_COUNT: u32 = 3;
/// How long a host may try to connect.
const DIAL_TIMEOUT: Duration = Duration::from_millis(2_500);
/// After one address has worked, how long the others may still take.
const EXTRA_DIAL_WAIT: Duration = Duration::from_millis(500);
/// How long the remote side may take to end by itself.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// What to examine; the same for all hosts.
#[derive(Debug, Default)]
pub(super) struct ExamOptions {
    /// Examine only whether the login works, and its duration.
    pub(super) login_only: bool,
    /// A program that has to be executable on the host.
    pub(super) program: Option<String>,
    /// The addresses that hosts try to connect to.
    pub(super) addresses: Vec<SocketAddr>,
    /// The local wall clock at [`Instant::ZERO`], in nanoseconds since 1970.
    pub(super) epoch_ns: i128,
}

/// An action that the caller carries out for an examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Write this to the probe.
    Send(String),
    /// Close the probe's standard input once everything is written.
    CloseInput,
    /// The examination is finished: kill the remaining processes.
    End,
}

/// The state of the connection attempt to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DialOutcome {
    Pending,
    Failed,
    Connected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExamState {
    LoggingIn,
    Identifying,
    Echoes { number: u32, sent: Instant },
    Clock { number: u32, sent: Instant },
    ProgramCheck,
    Dialling { until: Instant },
    Closing { until: Instant },
    Finished,
}

/// See the [module](self).
pub(super) struct Exam {
    options: Rc<ExamOptions>,
    /// The token that identifies this host's connection, for each address.
    tokens: Vec<String>,
    began: Instant,
    deadline: Instant,
    /// When bytes last arrived.
    last_activity: Instant,
    state: ExamState,
    transcript: Transcript,
    stdout: LineBuffer,
    stderr: LineBuffer,
    /// The connection attempt to each address.
    dialled: Vec<DialOutcome>,
    has_dial_tool: bool,
    finding: Finding,
}

impl Exam {
    pub(super) fn begin(
        options: Rc<ExamOptions>,
        tokens: Vec<String>,
        now: Instant,
        timeout: Duration,
    ) -> Self {
        Self {
            options,
            tokens,
            began: now,
            deadline: now + timeout,
            last_activity: now,
            state: ExamState::LoggingIn,
            transcript: Transcript::begin(now),
            stdout: LineBuffer::default(),
            stderr: LineBuffer::default(),
            dialled: Vec::new(),
            has_dial_tool: false,
            finding: Finding::empty(),
        }
    }

    /// Handles bytes from the host's standard output.
    pub(super) fn on_stdout(&mut self, bytes: &[u8], now: Instant, effects: &mut Vec<Effect>) {
        self.last_activity = now;
        for line in self.stdout.take(bytes) {
            match probe::reply(&line) {
                Some(reply) if self.state != ExamState::LoggingIn => self.reply(reply, now, effects),
                Some(Reply::Marker) => {
                    self.transcript.shell_answered(now);
                    self.state = ExamState::Identifying;
                }
                _ => self.record_noise(&line),
            }
        }
    }

    /// Handles bytes from the remote shell's standard error.
    pub(super) fn on_stderr(&mut self, bytes: &[u8], now: Instant) {
        self.last_activity = now;
        for line in self.stderr.take(bytes) {
            self.transcript.line(&line, now);
        }
    }

    /// Handles a connection that presented the token for this address.
    pub(super) fn on_callback(&mut self, address: usize, now: Instant, effects: &mut Vec<Effect>) {
        let ExamState::Dialling { until } = self.state else { return };
        let Some(outcome) = self.dialled.get_mut(address) else { return };
        *outcome = DialOutcome::Connected;
        // Addresses that work are about equally fast; waiting for blocked ones would take long.
        self.state = ExamState::Dialling { until: until.min(now + EXTRA_DIAL_WAIT) };
        self.finish_dial_if_complete(now, effects);
    }

    /// Handles the exit of the remote shell. All of its output has been passed in before.
    pub(super) fn on_exit(&mut self, exit: ExitStatus, now: Instant, effects: &mut Vec<Effect>) {
        if let Some(line) = self.stderr.rest() {
            self.transcript.line(&line, now);
        }
        if let Some(line) = self.stdout.rest().filter(|_| self.state == ExamState::LoggingIn) {
            self.record_noise(&line);
        }
        let problem = match self.state {
            ExamState::Closing { .. } | ExamState::Finished => None,
            ExamState::LoggingIn => Some(match self.transcript.error() {
                Some((error, _)) => Problem::Login(error),
                // Only an rsh server refuses a login in this way.
                None if is_login_denial(&self.finding.noise.line) => Problem::Login(LoginError::Denied),
                None => Problem::Ended(exit.into()),
            }),
            ExamState::Echoes { number: 0, .. } => Some(Problem::InputLost),
            _ => Some(Problem::ConnectionLost),
        };
        self.conclude(problem, now, effects);
    }

    /// Handles expired timers.
    pub(super) fn on_tick(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match self.state {
            ExamState::Closing { until } if until <= now => self.conclude(None, now, effects),
            ExamState::Dialling { until } if until <= now => self.finish_dial(now, effects),
            ExamState::Closing { .. } | ExamState::Dialling { .. } | ExamState::Finished => {}
            state if self.deadline <= now => {
                let problem = match (state, self.transcript.error()) {
                    (ExamState::LoggingIn, Some((error, _))) => Problem::Login(error),
                    (ExamState::Echoes { number: 0, .. }, _) => Problem::InputLost,
                    _ => Problem::TimedOut(self.transcript.stage()),
                };
                self.conclude(Some(problem), now, effects);
            }
            _ => {}
        }
    }

    /// Ends the examination early.
    pub(super) fn interrupt(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let undecided = !matches!(self.state, ExamState::Closing { .. } | ExamState::Finished);
        self.conclude(undecided.then_some(Problem::Interrupted), now, effects);
    }

    /// When [`Exam::on_tick`] has to be called next.
    pub(super) fn deadline(&self) -> Instant {
        match self.state {
            ExamState::Closing { until } | ExamState::Dialling { until } => until,
            ExamState::Finished => Instant::FAR_FUTURE,
            _ => self.deadline,
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.state == ExamState::Finished
    }

    /// When bytes last arrived; an examination that has been idle since then only waits.
    pub(super) fn last_activity(&self) -> Instant {
        self.last_activity
    }

    /// The result.
    pub(super) fn finding(self) -> Finding {
        self.finding
    }

    fn reply(&mut self, reply: Reply, now: Instant, effects: &mut Vec<Effect>) {
        let finding = &mut self.finding;
        match (self.state, reply) {
            (ExamState::Identifying, Reply::Kernel(text)) => finding.kernel = Some(text),
            (ExamState::Identifying, Reply::Machine(text)) => finding.machine = Some(text),
            (ExamState::Identifying, Reply::Files(text)) => finding.files = Some(text),
            (ExamState::Identifying, Reply::Shell(text)) => finding.shell = Some(text),
            (ExamState::Identifying, Reply::Tool(tool)) => self.has_dial_tool = tool.is_some(),
            (ExamState::Identifying, Reply::Terminal) => self.conclude(Some(Problem::Terminal), now, effects),
            (ExamState::Identifying, Reply::Ready) if self.options.login_only => self.close(now, effects),
            (ExamState::Identifying, Reply::Ready) => {
                self.state = ExamState::Echoes { number: 0, sent: now };
                effects.push(Effect::Send(probe::echo(0)));
            }
            (ExamState::Echoes { number, sent }, Reply::Echo(echoed)) if echoed == number => {
                finding.round_trips.push(now.since(sent));
                let number = number + 1;
                if number < ECHO_COUNT {
                    self.state = ExamState::Echoes { number, sent: now };
                    effects.push(Effect::Send(probe::echo(number)));
                } else {
                    self.state = ExamState::Clock { number: 0, sent: now };
                    effects.push(Effect::Send(probe::ask_clock(0)));
                }
            }
            (ExamState::Clock { number, sent }, Reply::Clock(answered, time, precise))
                if answered == number =>
            {
                self.record_clock(time, precise, sent, now);
                let number = number + 1;
                if number < CLOCK_COUNT {
                    self.state = ExamState::Clock { number, sent: now };
                    effects.push(Effect::Send(probe::ask_clock(number)));
                } else {
                    self.after_clock(now, effects);
                }
            }
            (ExamState::ProgramCheck, Reply::ProgramCheck(program)) => {
                finding.program = Some(program);
                if program == ProgramCheck::Executable {
                    self.dial(now, effects);
                } else {
                    self.finding.problem =
                        Some((Problem::Program(program), self.options.program.clone().unwrap_or_default()));
                    self.close(now, effects);
                }
            }
            (ExamState::Dialling { .. }, Reply::Dialled(address, false)) => {
                if let Some(outcome) =
                    self.dialled.get_mut(address).filter(|outcome| **outcome == DialOutcome::Pending)
                {
                    *outcome = DialOutcome::Failed;
                }
                self.finish_dial_if_complete(now, effects);
            }
            // A reported success counts only when its token arrives.
            _ => {}
        }
    }

    /// Records a remote time that was read between `sent` and `now`.
    fn record_clock(&mut self, time_ns: i128, precise: bool, sent: Instant, now: Instant) {
        let half = now.since(sent) / 2;
        let ours = self.options.epoch_ns + i128::from((sent + half).as_nanos());
        // The fraction was cut off; on average the true time is half a second later.
        let cut = if precise { Duration::ZERO } else { Duration::from_millis(500) };
        let clock = Clock { ahead_ns: time_ns + cut.as_nanos() as i128 - ours, within: half + cut };
        if self.finding.clock.is_none_or(|known| clock.within < known.within) {
            self.finding.clock = Some(clock);
        }
    }

    fn after_clock(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match &self.options.program {
            Some(program) => {
                self.state = ExamState::ProgramCheck;
                effects.push(Effect::Send(probe::ask_program(program)));
            }
            None => self.dial(now, effects),
        }
    }

    fn dial(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.options.addresses.is_empty() {
            return self.close(now, effects);
        }
        if !self.has_dial_tool {
            self.finding.direct = Direct::NoTool;
            return self.close(now, effects);
        }
        self.state = ExamState::Dialling { until: now + DIAL_TIMEOUT };
        self.dialled = vec![DialOutcome::Pending; self.options.addresses.len()];
        for (number, (address, token)) in self.options.addresses.iter().zip(&self.tokens).enumerate() {
            effects.push(Effect::Send(probe::dial(number, *address, token)));
        }
    }

    /// Ends dialling when no attempt is pending.
    fn finish_dial_if_complete(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if !self.dialled.contains(&DialOutcome::Pending) {
            self.finish_dial(now, effects);
        }
    }

    fn finish_dial(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let outcomes = self.options.addresses.iter().zip(&self.dialled);
        let work: Vec<_> = outcomes
            .filter(|(_, outcome)| **outcome == DialOutcome::Connected)
            .map(|(address, _)| *address)
            .collect();
        self.finding.direct = if work.is_empty() { Direct::Blocked } else { Direct::Works(work) };
        self.close(now, effects);
    }

    fn close(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        self.state = ExamState::Closing { until: now + CLOSE_TIMEOUT };
        effects.extend([Effect::Send(probe::END.to_owned()), Effect::CloseInput]);
        self.record_progress(now);
    }

    /// Finishes; an earlier problem takes precedence over this one.
    fn conclude(&mut self, problem: Option<Problem>, now: Instant, effects: &mut Vec<Effect>) {
        if self.state == ExamState::Finished {
            return;
        }
        if !matches!(self.state, ExamState::Closing { .. }) {
            self.record_progress(now);
        }
        self.state = ExamState::Finished;
        if let (None, Some(problem)) = (&self.finding.problem, problem) {
            let text = self.evidence(&problem);
            self.finding.problem = Some((problem, text));
        }
        effects.push(Effect::End);
    }

    /// Copies the login's progress into the result.
    fn record_progress(&mut self, now: Instant) {
        let finding = &mut self.finding;
        (finding.reached, finding.parts) = (self.transcript.stage(), self.transcript.timing());
        (finding.set_up, finding.facts) = (self.transcript.setup_time(), self.transcript.details().clone());
        finding.took = now.since(self.began);
    }

    fn evidence(&self, problem: &Problem) -> String {
        match problem {
            Problem::Login(_) => {
                self.transcript.error().map_or(self.finding.noise.line.as_str(), |(_, line)| line).to_owned()
            }
            Problem::Interrupted | Problem::Terminal => String::new(),
            // The remote shell program printed nothing: quote what the login shell printed.
            _ if self.transcript.last_line().is_empty() && self.transcript.stage() < LoginStage::Shell => {
                self.finding.noise.line.clone()
            }
            _ => self.transcript.last_line().to_owned(),
        }
    }

    fn record_noise(&mut self, line: &str) {
        let noise = &mut self.finding.noise;
        // The probe starts with an empty line in case the noise does not end with a line break.
        if !line.is_empty() {
            noise.bytes += line.len() as u64 + 1;
            if noise.line.is_empty() {
                noise.line = probe::kept(line);
            }
        }
    }
}

#[cfg(test)]
mod tests;
