//! Follows a session from its launch to its end: prints output and failures, and records how each
//! rank ended.
//!
//! A detached session is left when the terminal hangs up, and goes on.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use libi::{Event, Exit, FrontEnd, Session};
use libi_core::ranks::Ranks;
use libi_core::time::Rounded;
use nix::sys::signal::{SigSet, Signal};

use super::printer::{self, Printer, Style};
use crate::output::CliError;
use crate::progress::Progress;

/// How long members may take to end after SIGTERM.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// How long a launch may take before a log that shows no progress mentions it.
const LONG_LAUNCH: Duration = Duration::from_secs(15);

const MB: u64 = 1_000_000;

/// How a session ended.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// How each rank ended; `None` if that is not known.
    pub(super) exits: Vec<Option<Exit>>,
    /// Hosts that were lost after the session was up, with the causes.
    pub(super) lost_hosts: Vec<(String, String)>,
    /// Why a resource manager has ended the session, if it has.
    pub(super) revoked: Option<String>,
    /// Ranks that no longer belong to the session.
    gone: Ranks,
    /// Whether this program has left a session that goes on.
    pub(super) left: bool,
    /// Whether the session was given up before it was up.
    pub(super) given_up: bool,
    /// Whether contact with a member was lost.
    pub(super) lost: bool,
    /// The first error in writing output to files.
    pub(super) output_error: Option<String>,
    /// Whether the time limit expired.
    pub(super) timed_out: bool,
    /// The signal that ended this program.
    pub(super) signal: Option<Signal>,
}

impl Outcome {
    /// The exit status: see [`super::EXAMPLES`].
    pub(crate) fn exit_status(&self) -> u8 {
        let failed = self.exits.iter().flatten().any(|exit| *exit != Exit::Code(0));
        match self.signal {
            Some(signal) => 128 + signal as u8, // signal numbers are less than 65
            None if self.given_up => 3,
            None if self.left => 0,
            None if self.timed_out => super::TIME_LIMIT_STATUS,
            None if self.lost => 4,
            None if self.output_error.is_some() => 2,
            None => u8::from(failed),
        }
    }
}

/// How a session is followed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Watch {
    pub(crate) style: Style,
    /// Standard output holds something else.
    pub(crate) to_stderr: bool,
    /// Whether the launch is reported although it has succeeded.
    pub(crate) verbose: bool,
    pub(crate) time_limit: Option<Duration>,
    /// Whether the session goes on without this program.
    pub(crate) is_detached: bool,
}

/// Follows a session; see the [module](self).
pub(crate) struct Monitor<'a> {
    watch: Watch,
    session: &'a Session,
    outcome: Outcome,
    printer: Printer,
    /// How many bytes of staged files have been sent, and how many are to be.
    staged: Option<(u64, u64)>,
    progress: Progress,
    /// When a launch that is still in progress is mentioned where no terminal shows it.
    patient_until: Option<Instant>,
    time_limit_at: Option<Instant>,
    /// Whether the session is being terminated: how its members end is then no news.
    terminating: bool,
}

impl<'a> Monitor<'a> {
    pub(crate) fn new(watch: Watch, session: &'a Session) -> Self {
        let (exits, gone) = (vec![None; session.size() as usize], session.ended());
        let outcome = Outcome { exits, gone, ..Outcome::default() };
        let (time_limit_at, terminating) = (None, false);
        let progress = Progress::of(session.layout().hosts().len());
        let patient_until = Some(Instant::now() + LONG_LAUNCH);
        let printer = Printer::new(watch.style, watch.to_stderr);
        Self {
            watch,
            session,
            outcome,
            printer,
            staged: None,
            progress,
            patient_until,
            time_limit_at,
            terminating,
        }
    }

    /// Handles events until the session has ended.
    pub(crate) fn follow(
        mut self,
        front_end: &FrontEnd,
        signals: &Receiver<Signal>,
    ) -> Result<Outcome, CliError> {
        let result = self.handle_events(front_end, signals);
        self.progress.clear();
        let printed = self.printer.finish(self.session).map_err(CliError::Output);
        result.and(printed).map(|()| self.outcome)
    }

    fn handle_events(&mut self, front_end: &FrontEnd, signals: &Receiver<Signal>) -> Result<(), CliError> {
        loop {
            if let Ok(signal) = signals.try_recv() {
                if signal == Signal::SIGHUP && self.watch.is_detached {
                    self.outcome.left = true;
                    return Ok(());
                }
                let what = match self.session.stage() {
                    libi::Stage::Launching => {
                        let (joined, others) = self.progress();
                        format!("giving up the launch ({joined} joined, {others})")
                    }
                    _ => "terminating the session".to_owned(),
                };
                self.message(&format!("{signal}: {what}; a second signal kills it"));
                self.outcome.signal = Some(signal);
                self.terminate(front_end, signals);
                return Ok(());
            }
            if self.time_limit_at.is_some_and(|at| Instant::now() >= at) {
                self.message(&self.time_limit_message());
                self.outcome.timed_out = true;
                self.terminate(front_end, signals);
                return Ok(());
            }
            self.show_progress();
            let Some(event) = front_end.next_event(Duration::from_millis(100)) else { continue };
            if self.handle_event(&event)? {
                return Ok(());
            }
        }
    }

    /// Ends all members. A signal stops the wait; dropping the front end kills what is left.
    fn terminate(&mut self, front_end: &FrontEnd, signals: &Receiver<Signal>) {
        self.terminating = true;
        let session = self.session;
        std::thread::scope(|scope| {
            let end = scope.spawn(|| session.terminate(KILL_GRACE));
            while !end.is_finished() && signals.recv_timeout(Duration::from_millis(20)).is_err() {
                while let Some(event) = front_end.next_event(Duration::ZERO) {
                    let _ = self.handle_event(&event);
                }
            }
        });
        while let Some(event) = front_end.next_event(Duration::ZERO) {
            let _ = self.handle_event(&event);
        }
    }

    /// Handles one event; returns true when the session has ended.
    fn handle_event(&mut self, event: &Event) -> Result<bool, CliError> {
        match *event {
            Event::Waiting { .. } => {
                self.message(&event.to_string());
                self.patient_until = None;
            }
            Event::Staging { sent, of, .. } => self.staged = Some((sent, of)),
            Event::Revoked { ref reason, .. } if !self.terminating => {
                self.message(&event.to_string());
                self.outcome.revoked.get_or_insert_with(|| reason.clone());
            }
            Event::Up { .. } => {
                self.time_limit_at = self.watch.time_limit.map(|limit| Instant::now() + limit);
                if let Some(report) = self.session.report()
                    && (self.watch.verbose || report.failed().next().is_some() || report.flat().is_some())
                {
                    self.message(&report.to_string());
                }
            }
            Event::GivenUp { .. } => {
                self.outcome.given_up = true;
                return Ok(true);
            }
            Event::Output { rank, stream, ref bytes, .. } => {
                self.progress.clear();
                self.printer.print(self.session, rank, stream, bytes).map_err(CliError::Output)?;
            }
            Event::Folded { ref ranks, stream, ref bytes, .. } => {
                self.progress.clear();
                self.printer.print_folded(self.session, ranks, stream, bytes).map_err(CliError::Output)?;
            }
            Event::Exited { rank, exit, .. } => {
                self.outcome.gone.add(rank);
                if let Some(known) = self.outcome.exits.get_mut(rank.0 as usize) {
                    *known = Some(exit);
                }
                if exit != Exit::Code(0) && !self.terminating {
                    // Without an exit status contact was lost: the process may still be running.
                    self.outcome.lost |= matches!(exit, Exit::Shell(_));
                    self.message(&event.to_string());
                }
            }
            Event::Restarted { rank, .. } => {
                self.outcome.gone.remove_all(&[rank].into_iter().collect());
                if let Some(known) = self.outcome.exits.get_mut(rank.0 as usize) {
                    *known = None;
                }
                self.message(&event.to_string());
            }
            Event::NotRestarted { .. } if !self.terminating => self.message(&event.to_string()),
            Event::Detached { rank, .. } => self.outcome.gone.add(rank),
            Event::Lost { ref name, ref ranks, ref reason, .. } => {
                self.outcome.lost = true;
                self.outcome.gone.add_all(ranks);
                self.message(&event.to_string());
                self.outcome.lost_hosts.push((name.clone(), reason.clone()));
            }
            Event::OutputFailed { .. } => {
                self.message(&event.to_string());
                self.outcome.output_error = Some(event.to_string());
            }
            Event::Done { .. } => {
                // The session may go on elsewhere, or its keeper was killed.
                self.outcome.lost |= self.outcome.revoked.is_some() && !self.running().is_empty();
                return Ok(true);
            }
            _ => {}
        }
        Ok(false)
    }

    /// The ranks whose ends are not known.
    fn running(&self) -> Ranks {
        let mut running = Ranks::first(self.session.size());
        running.remove_all(&self.outcome.gone);
        running
    }

    /// Names the ranks that are still running, and their hosts.
    fn time_limit_message(&self) -> String {
        let running = self.running();
        let limit = Rounded(self.watch.time_limit.unwrap_or_default());
        if running.is_empty() {
            return format!("the time limit of {limit} expired");
        }
        let hosts = shortened(&printer::hosts_of(self.session, &running));
        let ranks = shortened(&running.to_string());
        format!("the time limit of {limit} expired; terminating {ranks} on {hosts}")
    }

    /// Shows the launch's progress on a terminal; elsewhere only once, if the launch takes long.
    fn show_progress(&mut self) {
        if self.session.stage() != libi::Stage::Launching {
            return;
        }
        if io::stderr().is_terminal() {
            let (joined, others) = self.progress();
            self.progress.show(joined as usize, format!("joined, {others}"));
        } else if self.patient_until.take_if(|until| Instant::now() >= *until).is_some() {
            let (joined, others) = self.progress();
            self.message(&format!(
                "still launching after {}: {joined} joined, {others}",
                Rounded(LONG_LAUNCH)
            ));
        }
    }

    /// How many hosts have joined, and what is known of the others.
    fn progress(&self) -> (u32, String) {
        let libi::LaunchProgress { joined, failed, waiting } = self.session.progress();
        let staged = self.staged.map(|(sent, of)| format!(", {} of {} MB sent", sent / MB, of / MB));
        (joined, format!("{waiting} in flight, {failed} failed{}", staged.unwrap_or_default()))
    }

    fn message(&mut self, text: &str) {
        self.progress.clear();
        let _ = writeln!(io::stderr(), "libi: {text}");
    }
}

/// Cuts a long list.
fn shortened(list: &str) -> String {
    const LONGEST: usize = 200;
    match list.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{},…", &list[..list[..end].rfind(',').unwrap_or(end)]),
        None => list.to_owned(),
    }
}

/// Blocks the signals that end this program and returns them through a channel instead.
pub(crate) fn block_termination_signals() -> Receiver<Signal> {
    let (sender, receiver) = channel();
    let mut signals = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| signals.add(signal));
    // Threads that are created from here on inherit the signal mask.
    if signals.thread_block().is_ok() {
        std::thread::spawn(move || while signals.wait().is_ok_and(|signal| sender.send(signal).is_ok()) {});
    }
    receiver
}
