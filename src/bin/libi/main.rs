//! The program `libi`: launches programs, examines hosts, plans and simulates launches, expands
//! host lists, and explains recorded launches.
//!
//! Results go to standard output, with `--json` as one document; diagnostics go to standard error.
//! Exit statuses: 0 success, 1 a member failed, 2 the command line or its input is invalid, 3 the
//! launch failed, 4 contact with a host was lost, 124 a time limit expired, 128 + n ended by signal n.

mod backend;
mod doctor;
mod hosts;
mod output;
mod plan;
mod run;
mod simulate;
mod trace;
mod units;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::output::CliError;

/// Launch processes on thousands of hosts, diagnose hosts, plan and simulate
/// launches, expand host lists, and analyse recorded launches.
///
/// The cost of a launch has three parts. SEQ is how long one launch keeps its
/// launcher from starting the next. REM is the time from starting a launch until
/// the new host can launch others. The constant is paid once per launch.
/// Durations have a unit: 7ms, 1.5s, 20us.
#[derive(Parser)]
#[command(name = "libi", version, max_term_width = 80)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Launch a program on hosts, forward its output, and report how it ended
    #[command(after_help = run::EXAMPLES)]
    Run(run::RunArgs),
    /// Check whether a launch on hosts would work, how fast, and if not why
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArgs),
    /// Compute a launch tree and its launch time at constant costs
    #[command(after_help = plan::EXAMPLES)]
    Plan(plan::PlanArgs),
    /// Simulate launches with varying costs and slow or dead hosts
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(simulate::SimulateArgs),
    /// Expand or fold a host list, also that of the surrounding job
    #[command(after_help = hosts::EXAMPLES)]
    Hosts(hosts::HostsArgs),
    /// Explain or draw the recorded timeline of a launch
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
