//! `libi run`: launches a program, forwards its input and output, and waits for its end.

mod folded;
mod json;
pub(crate) mod monitor;
mod parts;
pub(crate) mod placement;
pub(crate) mod printer;
mod stage;
pub(crate) mod words;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libi::{Detached, FrontEnd, LaunchReport, OnLoss, Output, Programs, Session, StandardInput};

use self::monitor::{Monitor, Watch};
use self::printer::Style;
use crate::launch::LaunchArgs;
use crate::output::{CliError, print_json};
use crate::units;

pub(crate) const EXAMPLES: &str = "\
The program can be any program. Its place is in LIBI_RANK, LIBI_SIZE,
LIBI_LOCAL_RANK, LIBI_LOCAL_SIZE and LIBI_HOST; a program that uses libi joins
the session with Member::init, in C with libi_member_init(). Standard input goes
to rank 0, or to all with --input all. On each host this program starts the
processes, as an agent, and has to exist there at the same path, or at that of
--agent.

Exit status: 0 success, 1 a rank failed, 2 the command line or a file is
invalid, 3 the launch failed, 4 contact with a host was lost, 124 the time limit
expired, 128+n ended by signal n.

Examples:
  libi run -n 4 hostname
  libi run -n 4 ./tool --verbose
  libi run --hosts 'node[01-64]:2' /opt/tool
  libi run -w 'node[01-64]' -n 1 ./master : -n 63 ./worker
  libi run --hosts 'node[01-64]' --detached 8h --ticket job.ticket ./tool
  libi run --hosts 'node[01-64]' -n 100 --directory /scratch \\
      --env MODE=fast ./tool
  libi run --hosts 'node[01-64]' --ssh-profile fast \\
      --ssh-option StrictHostKeyChecking=accept-new /opt/tool
  libi run --hosts 'node[01-64]' --backend rsh --allow-plain /opt/tool
  libi run --hosts \"$(libi hosts --from-env --fold)\" \\
      --min-hosts 60 --timeline launch.json /opt/tool";

/// The exit status when the time limit expires, as that of timeout(1).
pub(crate) const TIME_LIMIT_STATUS: u8 = 124;

/// The arguments of `libi run`.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    launch: LaunchArgs,
    /// How many processes in total, as of srun and mpirun: fills the hosts in
    /// order up to their counts, and spreads the rest evenly
    #[arg(short = 'n', long, visible_alias = "np", value_name = "COUNT")]
    processes: Option<NonZeroU32>,
    /// How many processes on each host, instead of the counts in the list
    #[arg(long, visible_alias = "ppn", value_name = "COUNT", conflicts_with = "processes")]
    per_host: Option<NonZeroU32>,
    /// The working directory of the processes [default: the home directory on
    /// hosts that are reached by a remote shell, else the current directory]
    #[arg(long, visible_alias = "wdir", value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Set an environment variable of the processes; a NAME alone passes on its
    /// current value. May be given several times
    #[arg(short = 'x', long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// With --on-loss continue: how often a rank that has joined the session is
    /// started again on its host when its process is killed or ends with another
    /// exit status than 0, and on a spare host that is left when its host is lost;
    /// calls go on with the new process
    #[arg(long, value_name = "COUNT", default_value_t = 0, hide_default_value = true)]
    restarts: u32,
    /// Put a file on every host before programs are started, in a private
    /// directory that LIBI_STAGE names; one that is the program is run from
    /// there. Removed at the end. May be given several times
    #[arg(long, value_name = "FILE")]
    stage: Vec<PathBuf>,
    /// Stage the program itself, of each `:` part
    #[arg(long)]
    stage_program: bool,
    /// Stage the shared libraries of staged executables as well, without those
    /// of the C library; without other files, of the program and the program
    #[arg(long)]
    stage_libraries: bool,
    /// Leave staged files on the hosts at the end
    #[arg(long)]
    keep_staged: bool,
    /// Terminate the session if it has not ended after this time
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    time_limit: Option<Duration>,
    /// Have the processes go on for so long when this program ends or its terminal
    /// hangs up; `libi attach` finds them by the ticket file. Interrupting this
    /// program ends them
    #[arg(long, value_name = "DURATION", value_parser = units::duration)]
    detached: Option<Duration>,
    /// The ticket file of --detached, which admits to the processes
    #[arg(long, value_name = "FILE", default_value = "libi.ticket", requires = "detached")]
    ticket: PathBuf,
    /// With --detached: have another host launch and keep the processes, reached by
    /// ssh, so that they outlive this machine; it needs libi at the same path
    #[arg(long, value_name = "HOST", requires = "detached")]
    keeper: Option<String>,
    /// With --detached: accept `libi attach` from other machines
    #[arg(long, requires = "detached")]
    reachable: bool,
    #[command(flatten)]
    labels: LabelArgs,
    /// Print the standard output of a rank when all have ended, and what several
    /// ranks have printed only once, behind their numbers and hosts. Equal lines
    /// are merged on their way here
    #[arg(long, conflicts_with_all = ["tag", "label"])]
    fold: bool,
    /// Which ranks get the standard input of this program, all of it each: 0, all
    /// or none; that of others is empty
    #[arg(value_enum, default_value = "0", hide_possible_values = true)]
    #[arg(long, visible_alias = "stdin", value_name = "RANKS")]
    input: InputChoice,
    /// The same as --input none
    #[arg(long, conflicts_with = "input")]
    no_input: bool,
    /// Write output to the files RANK.out and RANK.err in this directory
    #[arg(long, value_name = "DIR", conflicts_with_all = ["tag", "label", "fold"])]
    output: Option<PathBuf>,
    /// Write the timeline of the launch, for `libi trace` and Chrome
    #[arg(long, value_name = "FILE")]
    timeline: Option<PathBuf>,
    /// Draw the timeline of the launch as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Print one JSON document with the launch report and the exit of each rank
    /// to standard output; the program's output goes to standard error
    #[arg(long)]
    json: bool,
    /// Write the document of --json to a file
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Report how the launch went even if it succeeded
    #[arg(short, long)]
    verbose: bool,
    /// The program and its arguments; further programs follow, each behind a `:`
    /// and its own -n, --per-host, --hosts, --env, --directory
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// How output lines are told apart.
#[derive(clap::Args)]
pub(crate) struct LabelArgs {
    /// Prefix each output line with its rank
    #[arg(long)]
    tag: bool,
    /// Prefix each output line with its host and rank
    #[arg(short, long, conflicts_with = "tag")]
    label: bool,
}

impl LabelArgs {
    /// How output is printed; `is_folded` if ranks that print the same are to be told once.
    pub(crate) fn style(&self, is_folded: bool) -> Style {
        match self {
            Self { tag: true, .. } => Style::Tagged,
            Self { label: true, .. } => Style::Labelled,
            _ if is_folded => Style::Folded,
            _ => Style::Raw,
        }
    }
}

/// Which ranks get standard input.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum InputChoice {
    #[value(name = "0")]
    First,
    All,
    None,
}

impl RunArgs {
    fn watch(&self) -> Watch {
        Watch {
            style: self.labels.style(self.fold),
            // With --json, standard output holds the document only.
            to_stderr: self.json,
            verbose: self.verbose,
            time_limit: self.time_limit,
            is_detached: self.detached.is_some(),
        }
    }

    fn standard_input(&self) -> StandardInput {
        match self.input {
            _ if self.no_input => StandardInput::Empty,
            InputChoice::First => StandardInput::Master,
            InputChoice::All => StandardInput::All,
            InputChoice::None => StandardInput::Empty,
        }
    }
}

pub(crate) fn run(arguments: &RunArgs) -> Result<ExitCode, CliError> {
    let hosts = arguments.launch.hosts(arguments.processes.is_some())?;
    let (distributions, hosts) = parts::distributions(arguments, &hosts)?;
    if arguments.restarts > 0 && arguments.launch.on_loss != OnLoss::Continue {
        return Err(CliError::Usage("--restarts needs --on-loss continue".to_owned()));
    }
    let input = arguments.standard_input();
    let options = arguments.launch.options(&hosts)?;
    let options = options
        .input(input)
        .output(match &arguments.output {
            Some(directory) => Output::Files(directory.clone()),
            None if arguments.fold => Output::folded(),
            None => Output::Events,
        })
        .programs(Programs::Any)
        .restarts(arguments.restarts);
    let options = match arguments.detached {
        Some(limit) => {
            let detached = Detached::new(&arguments.ticket, limit).reachable(arguments.reachable);
            options.detached(match &arguments.keeper {
                Some(host) => detached.host(host),
                None => detached,
            })
        }
        None => options,
    };
    let options = match stage::staging(arguments)? {
        Some(files) => options.stage(files),
        None => options,
    };
    if let Some(directory) = &arguments.output {
        check_output(directory)?;
    }
    let unwritable = |path: &Path, error| CliError::Unwritable("the report", path.to_owned(), error);
    let create = |path: &PathBuf| File::create(path).map_err(|error| unwritable(path, error));
    let report_file = arguments.report.as_ref().map(create).transpose()?;
    crate::output::log_warnings_to_stderr();
    let signals = monitor::block_termination_signals();
    let front_end = FrontEnd::new().map_err(CliError::Launch)?;
    let mut sessions = front_end.start_all(&distributions, &options).map_err(CliError::Launch)?;
    // All programs belong to one session.
    let session = Arc::new(sessions.pop().ok_or(CliError::Launch(libi::Error::Closed))?);
    if input != StandardInput::Empty {
        forward_stdin(&session);
    }
    let outcome = Monitor::new(arguments.watch(), &session).follow(&front_end, &signals);
    let report = session.report();
    if let Some(report) = &report {
        write_timeline(arguments, report)?;
    }
    let outcome = outcome?;
    let status = outcome.exit_status();
    let document = || json::document(&session, report.as_deref(), &outcome, status);
    if arguments.json {
        print_json(&document())?;
    }
    if let (Some(mut file), Some(path)) = (report_file, &arguments.report) {
        writeln!(file, "{:#}", document()).map_err(|error| unwritable(path, error))?;
    }
    if outcome.given_up {
        return Err(CliError::Launch(report.map_or(libi::Error::Closed, libi::Error::NotLaunched)));
    }
    Ok(ExitCode::from(status))
}

fn write_timeline(arguments: &RunArgs, report: &LaunchReport) -> Result<(), CliError> {
    let timeline = report.timeline();
    for (path, text) in [(&arguments.timeline, timeline.chrome_json()), (&arguments.svg, timeline.svg())] {
        let Some(path) = path else { continue };
        std::fs::write(path, text)
            .map_err(|error| CliError::Unwritable("the timeline", path.clone(), error))?;
    }
    Ok(())
}

/// Checks before the launch that files can be created in the directory for output, which is created
/// if it is missing.
fn check_output(directory: &Path) -> Result<(), CliError> {
    let unwritable = |error| CliError::Unwritable("the output directory", directory.to_owned(), error);
    std::fs::create_dir_all(directory).map_err(unwritable)?;
    let probe = directory.join(format!(".libi-run-{}", std::process::id()));
    let created = File::create_new(&probe);
    created.map_err(unwritable)?;
    std::fs::remove_file(&probe).map_err(|error| CliError::File(probe, error))
}

/// Forwards standard input.
pub(crate) fn forward_stdin(session: &Arc<Session>) {
    let weak = Arc::downgrade(session);
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
