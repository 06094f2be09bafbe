//! `libi shell`: a session of agents, in which one command after another is run.
//!
//! | state | event | what follows |
//! |---|---|---|
//! | launching | the session is up | idle |
//! | | it is given up; a signal | the program ends |
//! | idle | a line with a command | running |
//! | | end of input, `exit`, SIGTERM, SIGHUP | the session ends |
//! | | SIGINT | on a terminal a new prompt, else the session ends |
//! | running | output | it is printed |
//! | | SIGINT | the command gets SIGINT; with the second, SIGKILL |
//! | | SIGTERM, SIGHUP | the session ends |
//! | | the command is done | its failures are summarised; idle |
//! | any | a host is lost | it is named; with the last one the session ends |

mod input;
mod line;
mod status;

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::time::Duration;

use libi::{
    Command, CommandReport, Distribution, Event, FrontEnd, HostIndex, HostList, HostRef, Programs, Session,
    Spawned,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use self::input::Input;
use self::line::Line;
use self::status::Status;
use crate::launch::{LaunchArgs, parse_hosts};
use crate::output::CliError;
use crate::run::placement;
use crate::run::printer::{Printer, Style};
use crate::units;

pub(crate) const EXAMPLES: &str = "\
Lines of standard input are commands: each is run by sh -c on every host, and
ends everywhere before the next one begins. Hosts are connected once; a command
starts no further remote shell. The standard input of commands is empty.

  @LIST COMMAND   runs a command on these hosts
  @hosts          prints the hosts that are left
  exit [STATUS]   ends the session, as the end of input does

Ctrl-C interrupts the command that runs, a second one kills it. A host that is
lost is reported, and the session goes on with the others.

Exit status: that of exit, else 0 if every command has exited with 0 on all of
its hosts, 1 if one has not, 2 the command line or a line is invalid, 3 the
launch failed, 4 a host was lost, 124 a time limit expired, 128+n ended by
signal n; of several the first of 4, 124, 2, 1.

Examples:
  libi shell 'node[1-64]'
  printf 'uname -r\\nuptime\\n' | libi shell -w 'node[1-8]' --fold
  echo '@node[1-3] df /scratch' | libi shell -w 'node[1-8]' --time-limit 10s";

/// How long processes may take to end with the session.
const KILL_GRACE: Duration = Duration::from_secs(2);
/// How long a done command may take until its report is there: it is, when the event is.
const REPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// The arguments of `libi shell`.
#[derive(clap::Args)]
pub(crate) struct ShellArgs {
    #[command(flatten)]
    launch: LaunchArgs,
    /// Kill the processes of a command that have not ended after this time
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    time_limit: Option<Duration>,
    /// Prefix each output line with the number of its host instead of its name
    #[arg(long)]
    tag: bool,
    /// Prefix each output line with its host and the number of that
    #[arg(short, long, conflicts_with = "tag")]
    label: bool,
    /// Print what several hosts have printed only once, behind their names, when
    /// the command has ended
    #[arg(long, conflicts_with_all = ["tag", "label"])]
    fold: bool,
    /// Print output as it comes, without the names of hosts
    #[arg(long, conflicts_with_all = ["tag", "label", "fold"])]
    raw: bool,
    /// Report how the launch went even if it succeeded
    #[arg(short, long)]
    verbose: bool,
    /// The hosts, as --hosts names them
    #[arg(value_name = "LIST", conflicts_with_all = ["hosts", "hostfile"])]
    list: Option<String>,
}

impl ShellArgs {
    /// The hosts, each once.
    fn hosts(&self) -> Result<HostList, CliError> {
        let hosts = match &self.list {
            Some(list) => parse_hosts(list)?,
            None => self.launch.hosts(false)?,
        };
        placement::per_host(&libi_core::dist::distinct(&hosts), std::num::NonZeroU32::MIN)
    }

    fn style(&self) -> Style {
        match self {
            Self { tag: true, .. } => Style::Tagged,
            Self { label: true, .. } => Style::Labelled,
            Self { fold: true, .. } => Style::FoldedByHost,
            Self { raw: true, .. } => Style::Raw,
            _ => Style::ByHost,
        }
    }
}

pub(crate) fn run(arguments: &ShellArgs) -> Result<ExitCode, CliError> {
    let hosts = arguments.hosts()?;
    if hosts.is_empty() {
        return Err(CliError::NoHosts);
    }
    let options = arguments.launch.options(&hosts)?.programs(Programs::None);
    crate::output::log_warnings_to_stderr();
    let signals = signal_descriptor().map_err(CliError::System)?;
    let front_end = FrontEnd::new().map_err(CliError::Launch)?;
    let session = front_end.start(&Distribution::idle(hosts), &options).map_err(CliError::Launch)?;
    let is_interactive = io::stdin().is_terminal() && io::stderr().is_terminal();
    let shell = Shell {
        arguments,
        front_end: &front_end,
        session: &session,
        signals: &signals,
        is_interactive,
        input: Input::default(),
        status: Status::default(),
    };
    shell.follow().map(|status| ExitCode::from(status.exit_status()))
}

/// Blocks the signals that concern the session; the descriptor is readable when one has come.
fn signal_descriptor() -> io::Result<SignalFd> {
    let mut signals = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| signals.add(signal));
    // Threads that are created from here on inherit the signal mask.
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

/// A session and what is known of it.
struct Shell<'a> {
    arguments: &'a ShellArgs,
    front_end: &'a FrontEnd,
    session: &'a Session,
    signals: &'a SignalFd,
    is_interactive: bool,
    input: Input,
    status: Status,
}

impl Shell<'_> {
    /// Launches, runs all commands, and ends the session.
    fn follow(mut self) -> Result<Status, CliError> {
        if self.await_session()? {
            let followed = self.run_lines();
            // A broken pipe of this program's output ends the session, too.
            let ended = self.session.terminate(KILL_GRACE);
            followed?;
            ended.map_err(CliError::Launch)?;
        }
        Ok(self.status)
    }

    /// Waits until the session is up; false if a signal has ended the launch.
    fn await_session(&mut self) -> Result<bool, CliError> {
        loop {
            if let Some(signal) = self.signal() {
                message(&format!("{signal}: giving up the launch"));
                self.status.signalled(signal);
                return Ok(false);
            }
            while let Some(event) = self.front_end.next_event(Duration::ZERO) {
                match event {
                    Event::Waiting { .. } => message(&event.to_string()),
                    Event::Up { .. } => {
                        let report = self.session.report();
                        if let Some(report) = report.filter(|report| {
                            self.arguments.verbose
                                || report.failed().next().is_some()
                                || report.flat().is_some()
                        }) {
                            message(&report.to_string());
                        }
                        return Ok(true);
                    }
                    Event::GivenUp { .. } => {
                        let report = self.session.report();
                        return Err(CliError::Launch(
                            report.map_or(libi::Error::Closed, libi::Error::NotLaunched),
                        ));
                    }
                    _ => {}
                }
            }
            self.wait(None)?;
        }
    }

    /// Waits for an event, a signal, or more input.
    fn wait(&self, input: Option<BorrowedFd<'_>>) -> Result<bool, CliError> {
        let watched = [Some(self.front_end.descriptor()), Some(self.signals.as_fd()), input];
        let mut fds: Vec<_> =
            watched.into_iter().flatten().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(CliError::System(error.into())),
        }
        Ok(fds.get(2).is_some_and(|fd| fd.any() == Some(true)))
    }

    /// A signal that has come.
    fn signal(&self) -> Option<Signal> {
        let info = self.signals.read_signal().ok().flatten()?;
        i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok())
    }

    /// Runs the lines of standard input until the session ends.
    fn run_lines(&mut self) -> Result<(), CliError> {
        let stdin = io::stdin();
        while let Some(line) = self.next_line(&stdin)? {
            let text = String::from_utf8_lossy(&line);
            match Line::parse(&text) {
                Ok(Line::Nothing) => {}
                Ok(Line::Exit(status)) => {
                    self.status.exits(status);
                    break;
                }
                Ok(Line::Hosts) => self.print_hosts()?,
                Ok(Line::Run(hosts, command)) => self.run_command(hosts, command)?,
                Err(error) => {
                    let _ = error.report();
                    self.status.invalid_line();
                }
            }
            if self.status.is_signalled() {
                break;
            }
            if self.session.live_hosts().is_empty() {
                message("no host is left");
                break;
            }
        }
        Ok(())
    }

    /// The next line of input; `None` if the session ends.
    fn next_line(&mut self, stdin: &io::Stdin) -> Result<Option<Vec<u8>>, CliError> {
        let mut is_prompt_due = self.is_interactive;
        loop {
            while let Some(event) = self.front_end.next_event(Duration::ZERO) {
                self.handle_other(&event);
                is_prompt_due = self.is_interactive;
            }
            if self.session.live_hosts().is_empty() {
                message("no host is left");
                return Ok(None);
            }
            match self.signal() {
                Some(Signal::SIGINT) if self.is_interactive => {
                    let _ = writeln!(io::stderr());
                    is_prompt_due = true;
                }
                Some(signal) => {
                    self.status.signalled(signal);
                    return Ok(None);
                }
                None => {}
            }
            if let Some(line) = self.input.line() {
                return Ok(Some(line));
            }
            if self.input.is_over() {
                return Ok(None);
            }
            if std::mem::take(&mut is_prompt_due) {
                let hosts = crate::output::hosts(self.session.live_hosts().len() as u32);
                let _ = write!(io::stderr(), "libi ({hosts})> ");
            }
            let fd = Input::descriptor(stdin);
            if self.wait(Some(fd))? {
                self.input.read(fd).map_err(CliError::Input)?;
            }
        }
    }

    fn print_hosts(&self) -> Result<(), CliError> {
        let hosts = list(self.session, &self.session.live_hosts());
        crate::output::print(&format!("{hosts}\n"))
    }

    fn run_command(&mut self, hosts: Option<HostList>, text: &str) -> Result<(), CliError> {
        let mut command = Command::new("sh").args(["-c", text]);
        if let Some(hosts) = hosts {
            command = command.hosts(hosts);
        }
        if let Some(limit) = self.arguments.time_limit {
            command = command.timeout(limit);
        }
        match self.session.spawn(&command) {
            Ok(spawned) => self.follow_command(&spawned),
            Err(error @ (libi::Error::NotInSession(_) | libi::Error::NoHostLeft)) => {
                message(&error.to_string());
                self.status.invalid_line();
                Ok(())
            }
            Err(error) => Err(CliError::Launch(error)),
        }
    }

    /// Prints what a command prints until it is done, and how it has failed.
    fn follow_command(&mut self, spawned: &Spawned) -> Result<(), CliError> {
        let mut printer = Printer::new(self.arguments.style(), false);
        let mut is_interrupted = false;
        'running: loop {
            match self.signal() {
                Some(Signal::SIGINT) => {
                    let signal = if is_interrupted { Signal::SIGKILL } else { Signal::SIGINT };
                    if !std::mem::replace(&mut is_interrupted, true) {
                        message("interrupting the command; a second Ctrl-C kills it");
                    }
                    spawned.kill(signal as i32).map_err(CliError::Launch)?;
                }
                Some(signal) => {
                    self.status.signalled(signal);
                    return printer.finish(self.session).map_err(CliError::Output);
                }
                None => {}
            }
            while let Some(event) = self.front_end.next_event(Duration::ZERO) {
                match &event {
                    Event::CommandOutput { command, host, stream, bytes, .. } if *command == spawned.id() => {
                        if let Some(rank) = self.session.layout().leader(*host) {
                            printer.print(self.session, rank, *stream, bytes).map_err(CliError::Output)?;
                        }
                    }
                    Event::CommandDone { command, .. } if *command == spawned.id() => break 'running,
                    other => self.handle_other(other),
                }
            }
            self.wait(None)?;
        }
        printer.finish(self.session).map_err(CliError::Output)?;
        let report = spawned.wait(REPORT_TIMEOUT).map_err(CliError::Launch)?;
        self.status.command_done(&report);
        self.summarise(&report);
        Ok(())
    }

    /// Names the hosts on which the command did not exit with 0, with the same end once.
    fn summarise(&self, report: &CommandReport) {
        let mut groups: Vec<(String, Vec<HostIndex>)> = Vec::new();
        for process in report.processes().iter().filter(|process| !process.outcome.is_success()) {
            let text = process.outcome.to_string();
            match groups.iter_mut().find(|(known, _)| *known == text) {
                Some((_, hosts)) => hosts.push(process.host),
                None => groups.push((text, vec![process.host])),
            }
        }
        for (text, hosts) in groups {
            message(&format!("{}: {text}", list(self.session, &hosts)));
        }
    }

    /// Handles an event that is no concern of a command.
    fn handle_other(&mut self, event: &Event) {
        match event {
            Event::Lost { name, reason, .. } => {
                self.status.host_lost();
                let left = crate::output::hosts(self.session.live_hosts().len() as u32);
                message(&format!("{name} is lost: {reason}; {left} left"));
            }
            Event::Revoked { .. } => message(&event.to_string()),
            _ => {}
        }
    }
}

/// The names of these hosts, folded.
fn list(session: &Session, hosts: &[HostIndex]) -> String {
    let mut names = HostList::new();
    for host in hosts {
        // The name comes from a list, so it can be pushed.
        let _ = names.push(HostRef::new(&session.host_name(*host)));
    }
    names.fold()
}

fn message(text: &str) {
    let _ = writeln!(io::stderr(), "libi: {text}");
}
