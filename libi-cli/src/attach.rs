//! `libi attach`: follows a session that was launched with `libi run --detached`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libi::{FrontEnd, Session};
use libi_core::ranks::Ranks;

use crate::output::{CliError, print};
use crate::run::LabelArgs;
use crate::run::forward_stdin;
use crate::run::monitor::{Monitor, Watch, block_termination_signals};
use crate::units;

pub(crate) const EXAMPLES: &str = "\
Prints what the processes have printed since `libi run` has ended, and what they
print from now on. The oldest of more than 1 MiB is left out. When this program
ends, or its terminal hangs up, they go on again for the time that `libi run` was
given; when it is interrupted, they are ended. Standard input goes to them as that
of `libi run` did. Another `libi attach` takes them over.

Exit status: 0 success, 1 a rank has failed since, 2 the command line is invalid,
3 the processes cannot be found, 4 contact with a host was lost, 128+n ended by
signal n.

Examples:
  libi run --detached 8h --ticket job.ticket -w 'node[01-64]' ./tool
  libi attach job.ticket --label
  libi attach job.ticket --status
  libi attach job.ticket --end";

/// How long members may take to end after SIGTERM.
const KILL_GRACE: Duration = Duration::from_secs(2);

/// The arguments of `libi attach`.
#[derive(clap::Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    labels: LabelArgs,
    /// Print how the launch went and which ranks run, and leave again
    #[arg(long)]
    status: bool,
    /// End the processes: SIGTERM, and SIGKILL after two seconds
    #[arg(long, conflicts_with = "status")]
    end: bool,
    /// Leave standard input of the processes as it is
    #[arg(long)]
    no_input: bool,
    /// How long it may take to find the processes
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = units::duration)]
    timeout: Duration,
    /// The ticket file
    ticket: PathBuf,
}

pub(crate) fn run(arguments: &AttachArgs) -> Result<ExitCode, CliError> {
    crate::output::log_warnings_to_stderr();
    let signals = block_termination_signals();
    let front_end = FrontEnd::new().map_err(CliError::Launch)?;
    let session = front_end.attach(&arguments.ticket, arguments.timeout).map_err(CliError::Launch)?;
    if arguments.status {
        print(&status(&session))?;
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.end {
        session.terminate(KILL_GRACE).map_err(CliError::Launch)?;
        return Ok(ExitCode::SUCCESS);
    }
    let session = Arc::new(session);
    if !arguments.no_input {
        forward_stdin(&session);
    }
    let missed = session.missed_output();
    if missed > 0 {
        eprintln!("libi: {missed} bytes of output were dropped meanwhile");
    }
    let watch = Watch {
        style: arguments.labels.style(false),
        to_stderr: false,
        verbose: false,
        time_limit: None,
        is_detached: true,
    };
    let outcome = Monitor::new(watch, &session).follow(&front_end, &signals)?;
    Ok(ExitCode::from(outcome.exit_status()))
}

/// How the launch went, and how many ranks are left.
fn status(session: &Session) -> String {
    let (size, ended, lost) = (session.size(), session.ended(), session.lost());
    let mut running = Ranks::first(size);
    running.remove_all(&ended);
    running.remove_all(&lost);
    if let Some(report) = session.report() {
        let absent = report.hosts().iter().enumerate().filter(|(_, host)| host.failure.is_some());
        for (host, _) in absent {
            let blocks = session.current_layout().blocks(libi::HostIndex(host as u32)).to_vec();
            blocks.iter().flat_map(|block| block.ranks()).for_each(|rank| {
                running.remove_all(&[rank].into_iter().collect());
            });
        }
    }
    let report = session.report().map_or_else(|| "it is being launched\n".to_owned(), |it| format!("{it}\n"));
    let named = |ranks: &Ranks| if ranks.is_empty() { "none".to_owned() } else { ranks.to_string() };
    format!("{report}running: {}\nended: {}\nlost: {}\n", named(&running), named(&ended), named(&lost))
}
