//! The program `libi`: launches programs, examines hosts, plans and simulates launches, reads host lists, and explains
//! launches that have been recorded.
//!
//! Results go to standard output, with `--json` as one document; whatever is said to people about them goes
//! to standard error. The exit status is 0 if all is fine, 1 if a member has failed, 2 if the command line or its
//! input is wrong, 3 if there was nothing to launch on or the launch did not succeed, 4 if a host was lost, and 128 + n if
//! signal n has ended it.

mod doctor;
mod hosts;
mod output;
mod plan;
mod rsh;
mod run;
mod simulate;
mod trace;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::CliError;

/// Launch processes on thousands of hosts, find out what keeps hosts from being
/// launched on, plan and simulate launches, see which hosts there are, and what
/// a recorded launch spent its time on.
///
/// The costs of a launch are three numbers. SEQ is how long one launch keeps
/// its launcher from starting the next; REM is how long it takes from starting
/// a launch until the new host can launch others; the constant is paid once.
/// Durations are written with a unit: 7ms, 1.5s, 20us.
#[derive(Parser)]
#[command(name = "libi", version, max_term_width = 80)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Launch a program on hosts, pass its output on, and report how it ended
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Check whether hosts can be launched on, how fast they are, and why not
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Show who would launch whom, and how long it would take at constant costs
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Simulate launches in which costs vary and hosts are slow or dead
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateArgs),
    /// Expand a host list or fold it, also that of the surrounding job
    #[command(after_help = hosts::EXAMPLES)]
    Hosts(hosts::HostsArgs),
    /// Explain the recorded timeline of a launch, or draw it
    #[command(after_help = trace::EXAMPLES)]
    Trace(trace::TraceArgs),
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(arguments) => {
            return run::run(&arguments).unwrap_or_else(CliError::report);
        }
        Command::Doctor(arguments) => {
            return doctor::run(&arguments).unwrap_or_else(CliError::report);
        }
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Hosts(arguments) => hosts::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
    };
    done.map_or_else(CliError::report, |()| ExitCode::SUCCESS)
}
