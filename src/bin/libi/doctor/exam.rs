//! The examination of one host, without a clock and without a descriptor: what has come from it, and when, goes in; what is
//! to be sent to it comes out.
//!
//! ```text
//!   calling --marker--> telling --ready--> echoes --> clock --> program --> dialling --> leaving --> over
//! ```
//!
//! - **calling**: the remote shell logs in. What comes on standard output is noise, until the probe's first line.
//! - **telling**: the probe says what it sees.
//! - **echoes**: short lines go there and back, one at a time, on a connection that is idle otherwise.
//! - **clock**: the time over there, as often; the answer with the shortest trip says the most.
//! - **program**, **dialling**: only if that is wanted.
//! - **leaving**: nothing more is to be learnt; the remote side has a second to end by itself.
//!
//! An end, or the deadline, in one of the first is the verdict on the host. Who dials in vain has no problem, and all the time
//! for it.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use libi::time::Instant;
use libi_launch::process::ExitStatus;
use libi_launch::shell_error::is_login_denial;
use libi_launch::transcript::{LoginError, LoginStage, Transcript};

use super::finding::{Clock, Direct, Finding, Problem};
use super::lines::Lines;
use super::probe::{self, Program, Reply};

/// How many echoes are asked for.
const ECHOES: u32 = 5;
/// How often the time is asked for.
const CLOCKS: u32 = 3;
/// How long a host may try to connect.
const DIALLING: Duration = Duration::from_millis(2_500);
/// How much later than the first address another may be that works as well.
const ALIKE: Duration = Duration::from_millis(500);
/// How long it may take to end.
const LEAVING: Duration = Duration::from_secs(1);

/// What all hosts are examined for.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Only whether and how fast one gets in.
    pub(super) login_only: bool,
    /// A program that is to be there.
    pub(super) program: Option<String>,
    /// Where we can be connected to.
    pub(super) addresses: Vec<SocketAddr>,
    /// What our clock says at [`Instant::ZERO`], in nanoseconds since 1970.
    pub(super) epoch_ns: i128,
}

/// What is to be done for an examination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Send this.
    Send(String),
    /// Send no more.
    CloseInput,
    /// It is over: end what is left.
    End,
}

/// What has come of an address that is dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    Open,
    Failed,
    Works,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Calling,
    Telling,
    Echoes { number: u32, sent: Instant },
    Clock { number: u32, sent: Instant },
    Program,
    Dialling { until: Instant },
    Leaving { until: Instant },
    Over,
}

/// See the [module](self).
pub(super) struct Exam {
    wanted: Rc<Wanted>,
    /// What a connection begins with so that it is known for this host's, for each address.
    tokens: Vec<String>,
    began: Instant,
    deadline: Instant,
    /// When something has come last.
    heard: Instant,
    step: Step,
    transcript: Transcript,
    out: Lines,
    err: Lines,
    /// What has come of each address.
    dialled: Vec<Trial>,
    has_tool: bool,
    finding: Finding,
}

impl Exam {
    pub(super) fn begin(wanted: Rc<Wanted>, tokens: Vec<String>, now: Instant, timeout: Duration) -> Self {
        Self {
            wanted,
            tokens,
            began: now,
            deadline: now + timeout,
            heard: now,
            step: Step::Calling,
            transcript: Transcript::begin(now),
            out: Lines::default(),
            err: Lines::default(),
            dialled: Vec::new(),
            has_tool: false,
            finding: Finding::nothing(),
        }
    }

    /// The host's standard output has brought this.
    pub(super) fn out(&mut self, bytes: &[u8], now: Instant, effects: &mut Vec<Effect>) {
        self.heard = now;
        for line in self.out.take(bytes) {
            match probe::reply(&line) {
                Some(reply) if self.step != Step::Calling => self.reply(reply, now, effects),
                Some(Reply::Marker) => {
                    self.transcript.shell_answered(now);
                    self.step = Step::Telling;
                }
                _ => self.noise(&line),
            }
        }
    }

    /// What calls the host has said this on standard error.
    pub(super) fn err(&mut self, bytes: &[u8], now: Instant) {
        self.heard = now;
        for line in self.err.take(bytes) {
            self.transcript.line(&line, now);
        }
    }

    /// Somebody has connected to us and named the token of this address.
    pub(super) fn guest(&mut self, address: usize, now: Instant, effects: &mut Vec<Effect>) {
        let Step::Dialling { until } = self.step else { return };
        let Some(trial) = self.dialled.get_mut(address) else { return };
        *trial = Trial::Works;
        // Those that work are not much slower; those that do not may keep us for long.
        self.step = Step::Dialling { until: until.min(now + ALIKE) };
        self.dialled_all(now, effects);
    }

    /// What calls the host has ended; all that it has said was heard before.
    pub(super) fn ended(&mut self, exit: ExitStatus, now: Instant, effects: &mut Vec<Effect>) {
        if let Some(line) = self.err.rest() {
            self.transcript.line(&line, now);
        }
        if let Some(line) = self.out.rest().filter(|_| self.step == Step::Calling) {
            self.noise(&line);
        }
        let problem = match self.step {
            Step::Leaving { .. } | Step::Over => None,
            Step::Calling => Some(match self.transcript.error() {
                Some((trouble, _)) => Problem::Login(trouble),
                // Only the server of rsh ends like this.
                None if is_login_denial(&self.finding.noise.line) => Problem::Login(LoginError::Denied),
                None => Problem::Ended(exit.into()),
            }),
            Step::Echoes { number: 0, .. } => Some(Problem::Deaf),
            _ => Some(Problem::Broke),
        };
        self.conclude(problem, now, effects);
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match self.step {
            Step::Leaving { until } if until <= now => self.conclude(None, now, effects),
            Step::Dialling { until } if until <= now => self.dialled_enough(now, effects),
            Step::Leaving { .. } | Step::Dialling { .. } | Step::Over => {}
            step if self.deadline <= now => {
                let problem = match (step, self.transcript.error()) {
                    (Step::Calling, Some((trouble, _))) => Problem::Login(trouble),
                    (Step::Echoes { number: 0, .. }, _) => Problem::Deaf,
                    _ => Problem::HeartbeatLost(self.transcript.stage()),
                };
                self.conclude(Some(problem), now, effects);
            }
            _ => {}
        }
    }

    /// Nobody waits for it any more.
    pub(super) fn interrupt(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let undecided = !matches!(self.step, Step::Leaving { .. } | Step::Over);
        self.conclude(undecided.then_some(Problem::Interrupted), now, effects);
    }

    /// When time has to be looked at.
    pub(super) fn deadline(&self) -> Instant {
        match self.step {
            Step::Leaving { until } | Step::Dialling { until } => until,
            Step::Over => Instant::FAR_FUTURE,
            _ => self.deadline,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.step == Step::Over
    }

    /// Whether it only waits: since then nothing has come.
    pub(super) fn heard(&self) -> Instant {
        self.heard
    }

    /// What was found.
    pub(super) fn finding(self) -> Finding {
        self.finding
    }

    fn reply(&mut self, reply: Reply, now: Instant, effects: &mut Vec<Effect>) {
        let finding = &mut self.finding;
        match (self.step, reply) {
            (Step::Telling, Reply::Kernel(text)) => finding.kernel = Some(text),
            (Step::Telling, Reply::Machine(text)) => finding.machine = Some(text),
            (Step::Telling, Reply::Files(text)) => finding.files = Some(text),
            (Step::Telling, Reply::Shell(text)) => finding.shell = Some(text),
            (Step::Telling, Reply::Tool(tool)) => self.has_tool = tool.is_some(),
            (Step::Telling, Reply::Terminal) => self.conclude(Some(Problem::Terminal), now, effects),
            (Step::Telling, Reply::Ready) if self.wanted.login_only => self.leave(now, effects),
            (Step::Telling, Reply::Ready) => {
                self.step = Step::Echoes { number: 0, sent: now };
                effects.push(Effect::Send(probe::echo(0)));
            }
            (Step::Echoes { number, sent }, Reply::Echo(heard)) if heard == number => {
                finding.round_trips.push(now.since(sent));
                let number = number + 1;
                if number < ECHOES {
                    self.step = Step::Echoes { number, sent: now };
                    effects.push(Effect::Send(probe::echo(number)));
                } else {
                    self.step = Step::Clock { number: 0, sent: now };
                    effects.push(Effect::Send(probe::ask_clock(0)));
                }
            }
            (Step::Clock { number, sent }, Reply::Clock(heard, time, precise)) if heard == number => {
                self.compare(time, precise, sent, now);
                let number = number + 1;
                if number < CLOCKS {
                    self.step = Step::Clock { number, sent: now };
                    effects.push(Effect::Send(probe::ask_clock(number)));
                } else {
                    self.after_clock(now, effects);
                }
            }
            (Step::Program, Reply::Program(program)) => {
                finding.program = Some(program);
                if program == Program::Executable {
                    self.dial(now, effects);
                } else {
                    self.finding.problem =
                        Some((Problem::Program(program), self.wanted.program.clone().unwrap_or_default()));
                    self.leave(now, effects);
                }
            }
            (Step::Dialling { .. }, Reply::Dialled(address, false)) => {
                if let Some(trial) = self.dialled.get_mut(address).filter(|trial| **trial == Trial::Open) {
                    *trial = Trial::Failed;
                }
                self.dialled_all(now, effects);
            }
            // One that has come through is believed when its token has arrived.
            _ => {}
        }
    }

    /// The time over there was read somewhere between these two moments of ours.
    fn compare(&mut self, time_ns: i128, precise: bool, sent: Instant, now: Instant) {
        let half = now.since(sent) / 2;
        let ours = self.wanted.epoch_ns + i128::from((sent + half).as_nanos());
        // Whole seconds have been cut off: it was later, by half a second as likely as not.
        let cut = if precise { Duration::ZERO } else { Duration::from_millis(500) };
        let clock = Clock { ahead_ns: time_ns + cut.as_nanos() as i128 - ours, within: half + cut };
        if self.finding.clock.is_none_or(|known| clock.within < known.within) {
            self.finding.clock = Some(clock);
        }
    }

    fn after_clock(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        match &self.wanted.program {
            Some(program) => {
                self.step = Step::Program;
                effects.push(Effect::Send(probe::ask_program(program)));
            }
            None => self.dial(now, effects),
        }
    }

    fn dial(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if self.wanted.addresses.is_empty() {
            return self.leave(now, effects);
        }
        if !self.has_tool {
            self.finding.direct = Direct::NoTool;
            return self.leave(now, effects);
        }
        self.step = Step::Dialling { until: now + DIALLING };
        self.dialled = vec![Trial::Open; self.wanted.addresses.len()];
        for (number, (address, token)) in self.wanted.addresses.iter().zip(&self.tokens).enumerate() {
            effects.push(Effect::Send(probe::dial(number, *address, token)));
        }
    }

    /// Goes on if nothing is open any more.
    fn dialled_all(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        if !self.dialled.contains(&Trial::Open) {
            self.dialled_enough(now, effects);
        }
    }

    fn dialled_enough(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        let trials = self.wanted.addresses.iter().zip(&self.dialled);
        let work: Vec<_> =
            trials.filter(|(_, trial)| **trial == Trial::Works).map(|(address, _)| *address).collect();
        self.finding.direct = if work.is_empty() { Direct::Blocked } else { Direct::Works(work) };
        self.leave(now, effects);
    }

    fn leave(&mut self, now: Instant, effects: &mut Vec<Effect>) {
        self.step = Step::Leaving { until: now + LEAVING };
        effects.extend([Effect::Send(probe::END.to_owned()), Effect::CloseInput]);
        self.note(now);
    }

    /// It is over; with this problem, if there was none before.
    fn conclude(&mut self, problem: Option<Problem>, now: Instant, effects: &mut Vec<Effect>) {
        if self.step == Step::Over {
            return;
        }
        if !matches!(self.step, Step::Leaving { .. }) {
            self.note(now);
        }
        self.step = Step::Over;
        if let (None, Some(problem)) = (&self.finding.problem, problem) {
            let words = self.evidence(&problem);
            self.finding.problem = Some((problem, words));
        }
        effects.push(Effect::End);
    }

    /// Writes down what is known by now.
    fn note(&mut self, now: Instant) {
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
            // What the shell over there has printed, if what calls it has nothing to say.
            _ if self.transcript.last_line().is_empty() && self.transcript.stage() < LoginStage::Shell => {
                self.finding.noise.line.clone()
            }
            _ => self.transcript.last_line().to_owned(),
        }
    }

    fn noise(&mut self, line: &str) {
        let noise = &mut self.finding.noise;
        // The probe begins with an empty line, in case that the noise does not end with one.
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
