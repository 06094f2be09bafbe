//! A tool that has its daemons in place before a parallel job begins: the ranks are held in front of their
//! program, until the tool lets them go.
//!
//! ```text
//! $ cargo run --release --example controlled -- mpiexec.hydra -n 3 /bin/echo hello
//! held: rank 0, process 4711 on node1
//! held: rank 1, process 4712 on node1
//! held: rank 2, process 4713 on node1
//! rank 0 was let go
//! hello
//! all were let go
//! hello
//! hello
//! the job has ended: exit status: 0
//! ```
//!
//! The words are the command line of a launcher: `srun`, `mpirun` of Open MPI, `mpiexec` of MPICH. Where the
//! program of the job begins can be said by `--`. Daemons are started by `srun` in its Slurm job, through ssh where ranks
//! are on other machines, and here otherwise. If the tool is killed, the job goes on, after five seconds.
//!
//! The program is two: started by a user it is the tool; started by the tool it is a daemon.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use libi::job::{End, Ends, Job, Launch, LauncherKind, TargetsError};
use libi::{CommError, Distribution, FrontEnd, InitError, LaunchOptions, Member, Rank, Srun, Ssh};
use nix::sys::signal::{SigSet, Signal};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The timeout of every call.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How long the job waits for the tool.
const HOLD: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let done = match Member::init() {
        Ok(member) => serve(&member).map(|()| ExitCode::SUCCESS),
        Err(InitError::StartedByHand) => control(&std::env::args().skip(1).collect::<Vec<_>>()),
        Err(error) => Err(error.into()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("controlled: {error}");
        ExitCode::FAILURE
    })
}

/// The tool. Returns the exit status of the job.
fn control(words: &[String]) -> Done<ExitCode> {
    if words.first().is_none_or(|word| word.starts_with('-')) {
        return Err("usage: controlled LAUNCHER [OPTION...] [--] PROGRAM [WORD...]".into());
    }
    let launch = match words.iter().position(|word| word == "--") {
        Some(at) => Launch::new(&words[..at], &words[at + 1..]),
        None => Launch::command_line(words)?,
    };
    let mut launched = launch.hold(HOLD).start()?;
    // ^C is for the launcher, which ends the job, and the tool ends then.
    let mut interrupt = SigSet::empty();
    interrupt.add(Signal::SIGINT);
    interrupt.thread_block()?;
    let job = launched.attach(TIMEOUT)?;

    let front_end = FrontEnd::new()?;
    let daemons = Distribution::new(std::env::current_exe()?);
    let session = front_end.launch_beside(&job, daemons, &options(&job))?;
    let table = session.processes_of(&job, TIMEOUT)?;
    for process in table.iter() {
        println!("held: {}, process {} on {}", process.rank, process.pid, process.host);
    }
    session.release(&[Rank(0)].into_iter().collect(), TIMEOUT)?;
    println!("rank 0 was let go");
    session.release(&table.iter().map(|process| process.rank).collect(), TIMEOUT)?;
    println!("all were let go");

    let status = launched.wait(Duration::MAX)?.ok_or("the job goes on")?;
    println!("the job has ended: {status}");
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

fn options(job: &Job) -> LaunchOptions {
    let options = LaunchOptions::local();
    match job.kind() {
        LauncherKind::Srun => options.backend(Srun::new()),
        _ if job.is_whole() => options,
        _ => options.backend(Ssh::new()),
    }
}

/// A daemon: lets go what it is told to, and sees how its processes end.
fn serve(member: &Member) -> Done {
    let targets = member.targets(TIMEOUT)?;
    // The tool names rank 0, and then all.
    for _ in 0..2 {
        match member.release_when_told(&targets, TIMEOUT) {
            Ok(_) => {}
            Err(TargetsError::Talk(CommError::FrontEndLost | CommError::Ended)) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
    let mut ends = Ends::of(&targets);
    while let Some(End::Process(rank)) = ends.next(Duration::MAX) {
        log::debug!("{rank} has ended");
    }
    member.drain(TIMEOUT)?;
    Ok(())
}
