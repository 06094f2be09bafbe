//! Examines an environment of Slurm: its programs, the job, and each node by one step that runs the
//! probe there.
//!
//! | question | answered by |
//! |---|---|
//! | is there `srun`, and what does it know | `srun --version`, `--help`, `--mpi=list` |
//! | is a node in the job | the variables of the job |
//! | outside a job: is a node known, and can it be used | `sinfo`; the step leaves the others out |
//! | what does the node have, and to which addresses can it connect | the probe |
//! | why does a node give no answer | what `srun` says, read as in a launch |
//!
//! All tasks get the same input. Each puts its number into the tokens that it sends back. A node that
//! cannot be started keeps the input from all others: those are examined again without it.

mod follow;
mod report;
mod site;
mod step;

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use libi::Srun;
use libi::hosts::{HostList, HostRef};
use libi_core::time::Instant;
use libi_launch::backend::{BulkMethod, LaunchMethod};
use libi_launch::process::{ExitStatus, SignalRepeater};

use self::follow::{Input, follow};
use self::report::SlurmReport;
use self::site::Site;
use self::step::{NodeFinding, NodeProblem, StepExam};
use super::callback::{CallbackListener, TASK};
use super::examiner::{Examiner, start_piped};
use super::probe::{self, kept};
use super::{DoctorArgs, remote_shell};
use crate::output::{CliError, print, print_json};

/// How long the examination may take, if the user does not say. `srun` tries for eleven seconds to
/// reach a node.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Has each task put its number into the input, and runs the probe with that.
fn task_script() -> String {
    let digits = TASK.len();
    format!("sed \"s/{TASK}/$(printf %0{digits}d \"$SLURM_PROCID\")/\" | /bin/sh -c \"$0\"")
}

pub(super) fn run(
    arguments: &DoctorArgs,
    mut srun: Srun,
    hosts: &HostList,
    examiner: &mut Examiner,
) -> Result<ExitCode, CliError> {
    let began = examiner.now();
    let until = began + arguments.timeout.unwrap_or(TIMEOUT);
    srun.set_environment(&|name| std::env::var(name).ok().filter(|text| !text.is_empty()));
    let site = Site::ask(examiner, &srun, hosts, until).map_err(CliError::System)?;
    let mut callbacks =
        if arguments.no_direct { None } else { Some(CallbackListener::open().map_err(CliError::System)?) };
    let addresses = callbacks.as_ref().map_or(Vec::new(), |callbacks| callbacks.addresses().to_vec());
    let mut findings: Vec<NodeFinding> =
        hosts.iter().map(|host| before_the_step(host, &srun, &site)).collect();
    let mut places: Vec<usize> =
        (0..hosts.len()).filter(|place| findings[*place].problem.is_none()).collect();
    while !places.is_empty() && examiner.interrupted().is_none() && examiner.now() < until {
        let nodes: Vec<HostRef<'_>> = places.iter().filter_map(|place| hosts.entry(*place)).collect();
        let mut exam = StepExam::new(&srun, &nodes, arguments.program.is_some(), addresses.clone());
        run_step(arguments, &srun, &nodes, callbacks.as_mut(), examiner, until, &mut exam)?;
        let found = exam.conclude(examiner.interrupted().is_some());
        let again = step::again(&found).into_iter().map(|at| places[at]).collect();
        places.into_iter().zip(found).for_each(|(place, found)| findings[place] = found);
        places = again;
    }
    let report = SlurmReport {
        hosts,
        findings: &findings,
        site: &site,
        srun: &srun,
        addresses: &addresses,
        took: examiner.now().since(began),
    };
    match arguments.json {
        true => print_json(&report::document(&report))?,
        false => print(&report::text(&report))?,
    }
    Ok(match examiner.interrupted() {
        Some(signal) => ExitCode::from(128 + signal as u8), // there are fewer than 65
        None if report.is_fine() => ExitCode::SUCCESS,
        None => ExitCode::from(3),
    })
}

/// What is known of a node without a step.
fn before_the_step(host: HostRef<'_>, srun: &Srun, site: &Site) -> NodeFinding {
    if let Err(why) = &site.version {
        return NodeFinding { problem: Some((NodeProblem::Refused, why.clone())), ..NodeFinding::default() };
    }
    let problem = match (srun.refuses(&remote_shell::host_spec(host)), site.state(host.name)) {
        (Some(why), _) => Some((NodeProblem::NotInJob, why)),
        (None, Some(state)) => state.problem(),
        (None, None) => None,
    };
    NodeFinding { problem, ..NodeFinding::default() }
}

/// Runs the probe on these nodes by one step.
fn run_step(
    arguments: &DoctorArgs,
    srun: &Srun,
    nodes: &[HostRef<'_>],
    mut callbacks: Option<&mut CallbackListener>,
    examiner: &mut Examiner,
    until: Instant,
    exam: &mut StepExam<'_>,
) -> Result<(), CliError> {
    let mut input = arguments.program.as_deref().map_or(String::new(), probe::ask_program);
    if let Some(callbacks) = callbacks.as_deref_mut() {
        let tokens = callbacks.issue_common_tokens(nodes.len()).map_err(CliError::System)?;
        for (number, (address, token)) in callbacks.addresses().iter().zip(tokens).enumerate() {
            input += &probe::dial(number, *address, &token);
        }
        input += probe::WAIT;
    }
    input += probe::END;
    let specs: Vec<_> = nodes.iter().map(|node| remote_shell::host_spec(*node)).collect();
    let program = remote_shell::shell_program(&["-c", &task_script(), &probe::script()]);
    let spec = srun.bulk_spec(&specs.iter().collect::<Vec<_>>(), &program, "doctor");
    let spec = spec.map_err(|error| CliError::Usage(error.to_string()))?;
    let signal = srun.death_signal();
    let started = start_piped(spec, signal).and_then(|process| {
        let repeater = SignalRepeater::start(&process.child, signal).map_err(|error| error.to_string())?;
        Ok((process, repeater))
    });
    let (process, _repeater) = match started {
        Ok(started) => started,
        Err(why) => {
            exam.not_started(&why);
            return Ok(());
        }
    };
    let mut is_told = false;
    let end = follow(examiner, process, input.as_bytes(), callbacks, until, |input| match input {
        Input::Line(line) => {
            exam.on_line(&line);
            if let Some(line) = exam.waits().filter(|_| !std::mem::replace(&mut is_told, true)) {
                let _ = writeln!(io::stderr(), "libi: waiting for resources: {}", kept(line));
            }
        }
        Input::Arrived(task, address) => exam.on_arrival(task, address),
    });
    match end.map_err(CliError::System)? {
        None => exam.timed_out(),
        Some(ExitStatus::Code(0)) => {}
        Some(exit) => exam.ended(exit),
    }
    Ok(())
}
