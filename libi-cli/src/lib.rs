//! The program `libi`: launches programs, examines hosts, plans and simulates launches, expands
//! host lists, and explains recorded launches. A library, so that its manual pages are generated from
//! its command line.
//!
//! Results go to standard output, with `--json` as one document; diagnostics go to standard error.
//! Exit statuses: 0 success, 1 a member failed, 2 the command line or its input is invalid, 3 the
//! launch failed, 4 contact with a host was lost, 124 a time limit expired, 128 + n ended by signal n.

mod attach;
mod backend;
mod command;
mod doctor;
mod hosts;
mod job;
mod launch;
mod output;
mod plan;
mod progress;
mod run;
mod shell;
mod simulate;
mod trace;
mod units;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::command::{Cli, Command};
use crate::output::CliError;

/// Runs the program with the arguments of this process.
#[must_use]
pub fn run() -> ExitCode {
    // On each host of `libi run`, this program is the agent.
    libi::agent::serve_if_asked();
    let words = run::words::replace_other_names(std::env::args_os().collect(), &command_line());
    let done = match Cli::parse_from(words).command {
        Command::Run(arguments) => {
            return run::run(&arguments).unwrap_or_else(CliError::report);
        }
        Command::Attach(arguments) => {
            return attach::run(&arguments).unwrap_or_else(CliError::report);
        }
        Command::Shell(arguments) => {
            return shell::run(&arguments).unwrap_or_else(CliError::report);
        }
        Command::Doctor(arguments) => {
            return doctor::run(&arguments).unwrap_or_else(CliError::report);
        }
        Command::Plan(arguments) => plan::run(&arguments),
        Command::Simulate(arguments) => simulate::run(&arguments),
        Command::Hosts(arguments) => hosts::run(&arguments),
        Command::Job(arguments) => job::run(&arguments),
        Command::Trace(arguments) => trace::run(&arguments),
    };
    done.map_or_else(CliError::report, |()| ExitCode::SUCCESS)
}

/// The definition of the command line.
#[must_use]
pub fn command_line() -> clap::Command {
    Cli::command()
}
