//! `libi run`: launches a program, forwards its input and output, and waits for its end.

use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use libi::plan::Strategy;
use libi::{
    Backend, Distribution, Event, Exit, FrontEnd, HostList, LaunchOptions, OsBytes, Output, Policy, Session,
    Shell, Ssh, SshProfile, Stream,
};
use nix::sys::signal::{SigSet, Signal};

use crate::output::CliError;
use crate::units;

pub(crate) const EXAMPLES: &str = "\
The program has to take its places with libi (Member::init in Rust, libi_init in
C). Its output comes with --tag behind the rank that it is from.

Exit status: 0 all is fine, 1 a member has failed, 3 the launch did not succeed,
4 a host was lost, 128+n ended by signal n.

Examples:
  libi run -n 4 ./tool --verbose
  libi run --hosts 'node[01-64]:2' --shell ssh ./tool
  libi run --hosts 'node[01-64]' --shell ssh --ssh-profile fast \\
      --ssh-option StrictHostKeyChecking=accept-new ./tool
  libi run --hosts 'node[01-64]' --shell rsh --allow-plain ./tool
  libi run --hosts \"$(libi hosts --from-env --fold)\" --shell ssh \\
      --min-hosts 60 --timeline launch.json ./tool";

/// The arguments of `libi run`.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// Where to run, and how many on each; with `local` they are just names
    #[arg(long, value_name = "LIST", default_value = "localhost")]
    hosts: String,
    /// How many processes on each host, instead of what the list says
    #[arg(short = 'n', value_name = "COUNT")]
    count: Option<std::num::NonZeroU32>,
    /// The program that reaches hosts: ssh, rsh, or one that is called as ssh
    /// is; this machine if none
    #[arg(long, value_name = "PROGRAM")]
    shell: Option<String>,
    /// Of ssh: `own` is your configuration, `fast` replaces what costs time
    /// (its key exchange is not safe from quantum computers)
    #[arg(long, value_name = "own|fast", requires = "shell")]
    ssh_profile: Option<SshProfile>,
    /// An option of ssh, as in its configuration; may be given several times
    #[arg(long, value_name = "NAME=VALUE", requires = "shell")]
    ssh_option: Vec<String>,
    /// Go on although others on the network can read and change what goes to
    /// hosts and back, as with rsh; then it is warned of
    #[arg(long)]
    allow_plain: bool,
    /// How many hosts have to join [default: all]
    #[arg(long, value_name = "COUNT")]
    min_hosts: Option<u32>,
    /// Once enough hosts have joined: how long no further host may join or fail
    /// before the session goes up without the others [default: 4 times the
    /// slowest launch, at least 2s]
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    settle: Option<Duration>,
    /// Spare hosts that replace hosts that fail
    #[arg(long, value_name = "LIST")]
    spares: Option<String>,
    /// The launch tree: `late` decides during the launch, others in advance
    #[arg(long, value_name = "TREE", default_value = "late")]
    tree: Strategy,
    /// How long the launch may take
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = units::duration)]
    deadline: Duration,
    /// Give up when the members have not ended after so long
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    time_limit: Option<Duration>,
    /// Prefix each output line with its rank
    #[arg(long)]
    tag: bool,
    /// Write output to RANK.out and RANK.err in this directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "tag")]
    output: Option<PathBuf>,
    /// Write the timeline of the launch, for `libi trace` and Chrome
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Draw the timeline of the launch as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Report how the launch went even if it succeeded
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<std::ffi::OsString>,
}

pub(crate) fn run(arguments: &RunArgs) -> Result<ExitCode, CliError> {
    let distribution = distribution(arguments)?;
    let options = options(arguments)?;
    crate::output::log_warnings_to_stderr();
    let signals = block_termination_signals();
    let front_end = FrontEnd::new().map_err(CliError::Launch)?;
    let session = front_end.start(&distribution, &options).map_err(CliError::Launch)?;
    let mut run =
        RunMonitor { arguments, progress_line: None, failed: false, lost: false, time_limit_at: None };
    let session = std::sync::Arc::new(session);
    forward_stdin(&session);
    let ended = run.follow(&front_end, &session, &signals);
    run.clear_progress();
    if let Some(report) = session.report() {
        let timeline = report.timeline();
        for (path, text) in [(&arguments.timeline, timeline.chrome_json()), (&arguments.svg, timeline.svg())]
        {
            let Some(path) = path else { continue };
            std::fs::write(path, text).map_err(|error| CliError::File(path.clone(), error))?;
        }
    }
    let status = match ended? {
        Some(signal) => 128 + signal as u8, // there are fewer than 65
        None if run.lost => 4,
        None => u8::from(run.failed),
    };
    Ok(ExitCode::from(status))
}

fn distribution(arguments: &RunArgs) -> Result<Distribution, CliError> {
    let hosts = parse_hosts(&arguments.hosts)?;
    if hosts.is_empty() {
        return Err(CliError::NoHosts);
    }
    let hosts = match arguments.count {
        None => hosts,
        Some(count) => {
            let mut counted = HostList::new();
            for host in &hosts {
                let host = libi::hosts::HostRef { count: count.get(), ..host };
                counted.push(host).map_err(|error| CliError::Usage(error.to_string()))?;
            }
            counted
        }
    };
    let (program, args) = arguments
        .program
        .split_first()
        .ok_or_else(|| CliError::Usage("there is no program to launch".to_owned()))?;
    Ok(Distribution::new(program).args(args).hosts(hosts))
}

fn options(arguments: &RunArgs) -> Result<LaunchOptions, CliError> {
    Ok(LaunchOptions::new()
        .backend(backend(arguments)?)
        .strategy(arguments.tree)
        .spares(arguments.spares.as_deref().map_or(Ok(HostList::new()), parse_hosts)?)
        .input(true)
        .allow_plain(arguments.allow_plain)
        .policy(arguments.min_hosts.map_or(Policy::All, Policy::AtLeast))
        .settle(arguments.settle)
        .deadline(arguments.deadline)
        .output(arguments.output.clone().map_or(Output::Events, Output::Files)))
}

fn backend(arguments: &RunArgs) -> Result<Backend, CliError> {
    let os_bytes =
        |text: &String| OsBytes::try_from(text.as_str()).map_err(|why| CliError::Usage(why.to_string()));
    let Some(shell) = &arguments.shell else { return Ok(Backend::default()) };
    if shell.rsplit('/').next() != Some("ssh") {
        if arguments.ssh_profile.is_some() || !arguments.ssh_option.is_empty() {
            let wrong =
                format!("--ssh-profile and --ssh-option are for ssh, and hosts are reached by {shell}");
            return Err(CliError::Usage(wrong));
        }
        let program = os_bytes(shell)?;
        return Ok(crate::rsh::rsh_backend(&program)
            .map_or_else(|| Backend::Shell(Shell::new(program)), Backend::Rsh));
    }
    Ok(Backend::Ssh(Ssh {
        program: os_bytes(shell)?,
        profile: arguments.ssh_profile.unwrap_or_default(),
        options: arguments.ssh_option.iter().map(os_bytes).collect::<Result<_, _>>()?,
        ..Ssh::new()
    }))
}

fn parse_hosts(text: &str) -> Result<HostList, CliError> {
    HostList::parse(text).map_err(|error| CliError::HostList(error, text.to_owned()))
}

/// Blocks the signals that end this program and returns them through a channel instead.
fn block_termination_signals() -> Receiver<Signal> {
    let (sender, receiver) = channel();
    let mut ours = SigSet::empty();
    [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP].into_iter().for_each(|signal| ours.add(signal));
    // Threads that are created from here on inherit the signal mask.
    if ours.thread_block().is_ok() {
        std::thread::spawn(move || while ours.wait().is_ok_and(|signal| sender.send(signal).is_ok()) {});
    }
    receiver
}

/// Forwards standard input to the master.
fn forward_stdin(session: &std::sync::Arc<Session>) {
    let weak = std::sync::Arc::downgrade(session);
    // The thread is never joined: it may block in a read until the program exits.
    std::thread::spawn(move || {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let count = io::stdin().lock().read(&mut buffer).unwrap_or(0);
            let Some(session) = weak.upgrade() else { return };
            if count == 0 {
                let _ = session.wait_up(Duration::MAX);
                return session.close_input();
            }
            if session.write(&buffer[..count], Duration::MAX).is_err() {
                return;
            }
        }
    });
}

/// Follows a session: prints its output and remembers its failures.
struct RunMonitor<'a> {
    arguments: &'a RunArgs,
    progress_line: Option<String>,
    failed: bool,
    lost: bool,
    time_limit_at: Option<Instant>,
}

impl RunMonitor<'_> {
    /// Handles events until the session has ended; returns the signal that ended it, if any.
    fn follow(
        &mut self,
        front_end: &FrontEnd,
        session: &Session,
        signals: &Receiver<Signal>,
    ) -> Result<Option<Signal>, CliError> {
        loop {
            if let Ok(signal) = signals.try_recv() {
                self.message(&format!("{signal}: terminating the session; a second signal kills it"));
                // A second signal stops the wait; dropping the front end kills what is left.
                let kill_grace = Duration::from_secs(2);
                std::thread::scope(|scope| {
                    let end = scope.spawn(|| session.terminate(kill_grace));
                    while !end.is_finished() && signals.recv_timeout(Duration::from_millis(20)).is_err() {
                        while let Some(event) = front_end.next_event(Duration::ZERO) {
                            let _ = self.handle_event(event, session);
                        }
                    }
                });
                return Ok(Some(signal));
            }
            self.show_progress(session);
            if self.time_limit_at.is_some_and(|time_limit_at| Instant::now() >= time_limit_at) {
                self.message("the time limit is over: ending the session");
                self.failed = true;
                let _ = session.terminate(Duration::from_secs(2));
                return Ok(None);
            }
            let Some(event) = front_end.next_event(Duration::from_millis(100)) else { continue };
            if self.handle_event(event, session)? {
                return Ok(None);
            }
        }
    }

    /// Handles one event; returns true when the session has ended.
    fn handle_event(&mut self, event: Event, session: &Session) -> Result<bool, CliError> {
        match event {
            Event::Up { .. } => {
                self.time_limit_at = self.arguments.time_limit.map(|limit| Instant::now() + limit);
                if let Some(report) = session.report()
                    && (self.arguments.verbose || report.failed().next().is_some() || report.flat().is_some())
                {
                    self.message(&report.to_string());
                }
            }
            Event::GivenUp { .. } => return Err(CliError::Launch(not_launched(session))),
            Event::Output { rank, stream, bytes, .. } => {
                self.clear_progress();
                self.print(rank.0, stream, &bytes).map_err(CliError::Output)?;
            }
            Event::Exited { rank, exit, .. } if exit != Exit::Code(0) => {
                // Contact was lost: the process may still be running.
                self.lost |= matches!(exit, Exit::Shell(_));
                self.failed = true;
                let host = session.layout().host_of(rank).and_then(|host| {
                    session.layout().hosts().entry(host.0 as usize).map(|host| host.name.to_owned())
                });
                self.message(&format!("rank {} on {} {exit}", rank.0, host.unwrap_or_default()));
            }
            event @ Event::Lost { .. } => {
                self.lost = true;
                self.message(&event.to_string());
            }
            event @ Event::OutputFailed { .. } => {
                self.failed = true;
                self.message(&event.to_string());
            }
            Event::Done { .. } => return Ok(true),
            _ => {}
        }
        Ok(false)
    }

    fn print(&self, rank: u32, stream: Stream, bytes: &[u8]) -> io::Result<()> {
        let mut text = Vec::new();
        if self.arguments.tag {
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                text.extend_from_slice(format!("[{rank}] ").as_bytes());
                text.extend_from_slice(line);
            }
        } else {
            text.extend_from_slice(bytes);
        }
        match stream {
            Stream::Out => {
                let mut out = io::stdout().lock();
                out.write_all(&text).and_then(|()| out.flush())
            }
            Stream::Err => io::stderr().lock().write_all(&text),
        }
    }

    /// Shows the launch's progress on a terminal.
    fn show_progress(&mut self, session: &Session) {
        if session.stage() != libi::Stage::Launching || !io::stderr().is_terminal() {
            return;
        }
        let libi::LaunchProgress { joined, failed, waiting } = session.progress();
        let line = format!("{joined} joined, {waiting} in flight, {failed} failed");
        if self.progress_line.as_ref() != Some(&line) {
            let _ = write!(io::stderr(), "\r\x1b[K{line}");
            self.progress_line = Some(line);
        }
    }

    fn clear_progress(&mut self) {
        if self.progress_line.take().is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }

    fn message(&mut self, text: &str) {
        self.clear_progress();
        let _ = writeln!(io::stderr(), "libi: {text}");
    }
}

fn not_launched(session: &Session) -> libi::Error {
    session.report().map_or(libi::Error::Closed, libi::Error::NotLaunched)
}
