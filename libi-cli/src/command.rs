//! The command line of the program: its subcommands, and where each is defined.

use clap::{Parser, Subcommand};

use crate::{attach, doctor, hosts, job, plan, run, shell, simulate, trace};

/// Launch processes on thousands of hosts, diagnose hosts, plan and simulate
/// launches, expand host lists, and analyse recorded launches.
///
/// The cost of a launch has three parts. SEQ is how long one launch keeps its
/// launcher from starting the next. REM is the time from starting a launch until
/// the new host can launch others. The constant is paid once per launch.
/// Durations have a unit: 7ms, 1.5s, 20us.
#[derive(Parser)]
#[command(name = "libi", version, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Launch a program on hosts, forward its output, and report how it ended
    #[command(after_help = run::EXAMPLES)]
    Run(Box<run::RunArgs>),
    /// Follow processes that were started with libi run --detached
    #[command(after_help = attach::EXAMPLES)]
    Attach(attach::AttachArgs),
    /// Run one command after another on hosts that are connected once
    #[command(after_help = shell::EXAMPLES)]
    Shell(shell::ShellArgs),
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
    /// Print the processes of a running job of srun, mpirun or mpiexec
    #[command(after_help = job::EXAMPLES, override_usage = "libi job [OPTIONS] <PID | --slurm JOB[.STEP]>")]
    Job(job::JobArgs),
    /// Explain or draw the recorded timeline of a launch
    #[command(after_help = trace::EXAMPLES)]
    Trace(trace::TraceArgs),
}
