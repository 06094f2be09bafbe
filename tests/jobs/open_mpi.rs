//! Jobs of Open MPI's `mpirun`, with the program `libi job` as well.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use libi::job::{Job, LauncherKind};
use libi::{Distribution, FrontEnd, LaunchOptions, Rank, Stream};
use libi_testkit::local::Heard;
use libi_testkit::processes::is_traced_or_stopped;
use libi_testkit::programs;

use crate::TIMEOUT;
use crate::launchers::{Mpirun, rank};

#[test]
fn the_table_of_a_running_job_is_what_its_processes_say_of_themselves() {
    let Some(program) = rank() else { return };
    for processes in [2, 16] {
        let mut mpirun = Mpirun::of(processes, program, &[]);
        let said = mpirun.said(processes);
        let pid = mpirun.pid();
        let reads = std::thread::spawn(move || {
            let job = Job::attach(pid, TIMEOUT).unwrap();
            // The table is filled once, and can be read again.
            assert_eq!(Job::attach(pid, TIMEOUT).unwrap().processes(), job.processes());
            job
        });
        while !reads.is_finished() {
            assert!(!said.values().chain([&pid]).any(|pid| is_traced_or_stopped(*pid)));
        }
        let job = reads.join().unwrap();
        assert_eq!((job.kind(), job.processes().len()), (LauncherKind::OpenMpi, processes as usize));
        for (rank, pid) in said {
            let process = job.processes().get(Rank(rank)).unwrap();
            assert_eq!(process.pid, pid, "rank {rank}");
            assert_eq!(process.executable.to_string(), program.to_str().unwrap());
        }
        drop(mpirun);
        assert!(!job.is_running());
    }
}

/// Open MPI fills its table when all processes have called `MPI_Init`. These are found all the same.
#[test]
fn processes_that_use_no_mpi_are_found_by_what_their_launcher_has_told_them() {
    if rank().is_none() {
        return;
    }
    let script = "echo $OMPI_COMM_WORLD_RANK $$; exec sleep 1000";
    let mut mpirun = Mpirun::of(3, Path::new("/bin/sh"), &["-c", script]);
    let said = mpirun.said(3);
    let job = Job::attach(mpirun.pid(), Duration::from_secs(1)).unwrap();
    assert!((job.kind(), job.is_whole()) == (LauncherKind::OpenMpi, true));
    let found = job.processes().iter().map(|process| (process.rank.0, process.pid));
    assert_eq!(found.collect::<BTreeMap<_, _>>(), said);
}

/// All processes of the job are on this machine, and so is the daemon.
#[test]
fn a_daemon_knows_the_processes_of_the_job_on_its_host() {
    let Some(program) = rank() else { return };
    let mut mpirun = Mpirun::of(4, program, &[]);
    let said = mpirun.said(4);
    let job = Job::attach(mpirun.pid(), TIMEOUT).unwrap();
    let front = FrontEnd::new().unwrap();
    let daemon = Distribution::new(programs::member()).args(["join", "targets", "finish:10000"]);
    let session = front.launch_beside(&job, daemon, &LaunchOptions::local()).unwrap();
    let heard = Heard::all(&front);
    let target = |(rank, pid): (&u32, &i32)| format!("{rank} {pid} {}", program.display());
    let expected: Vec<String> = said.iter().map(target).collect();
    assert_eq!((session.size(), heard.out(0).trim_end()), (1, expected.join(";").as_str()));
    assert_eq!(job.slurm_job(), None);
    drop((session, front));
    assert!(job.is_running() && said.values().all(|pid| Path::new(&format!("/proc/{pid}")).exists()));
}

/// Several daemons share the processes of a host.
#[test]
fn there_is_a_daemon_for_each_so_many_processes() {
    let Some(program) = rank() else { return };
    let mut mpirun = Mpirun::of(5, program, &[]);
    let said = mpirun.said(5);
    let job = Job::attach(mpirun.pid(), TIMEOUT).unwrap();
    let front = FrontEnd::new().unwrap();
    let daemon = Distribution::new(programs::member()).args(["join", "targets", "finish:10000"]);
    let each = 2.try_into().unwrap();
    let session = front.launch_beside_each(&job, each, daemon, &LaunchOptions::local()).unwrap();
    let heard = Heard::all(&front);
    let target = |(rank, pid): (&u32, &i32)| format!("{rank} {pid} {}", program.display());
    let expected: Vec<String> = said.iter().map(target).collect();
    let expected: Vec<String> = expected.chunks(2).map(|share| share.join(";")).collect();
    assert_eq!(session.size(), 3);
    assert_eq!((0..3).map(|daemon| heard.out(daemon).trim_end().to_owned()).collect::<Vec<_>>(), expected);
}

/// A front end that launches a daemon beside no job sends no table.
#[test]
fn a_daemon_that_was_launched_otherwise_is_told_so() {
    let front = FrontEnd::new().unwrap();
    let daemon = Distribution::new(programs::member()).args(["join", "targets"]).hosts("n1");
    let session = front.launch(&daemon, &LaunchOptions::local()).unwrap();
    session.send("something else").wait(TIMEOUT).unwrap();
    let heard = Heard::all(&front);
    assert!(heard.text(0, Stream::Err).contains("NoTable"), "{}", heard.described());
}

fn libi(words: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(programs::libi()).arg("job").args(words).output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.code(), out, err)
}

#[test]
fn the_program_prints_the_processes_as_lines_as_a_document_and_as_hosts() {
    let Some(program) = rank() else { return };
    let mut mpirun = Mpirun::of(3, program, &[]);
    let (said, pid) = (mpirun.said(3), mpirun.pid().to_string());
    let (status, lines, _) = libi(&[&pid]);
    assert_eq!(status, Some(0));
    let hosts: Vec<&str> = lines.lines().map(|line| line.split(' ').nth(1).unwrap()).collect();
    let expected: String =
        said.iter().map(|(rank, pid)| format!("{rank} {} {pid} {}\n", hosts[0], program.display())).collect();
    assert_eq!(lines, expected);
    let (_, document, _) = libi(&["--json", &pid]);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["launcher"]["kind"], "mpirun of Open MPI");
    assert_eq!(document["processes"][2]["pid"], said[&2]);
    assert_eq!(libi(&["--hosts", &pid]).1, format!("{}\n", hosts[0]));
    drop(mpirun);
    let own = std::process::id().to_string();
    for (words, status, said) in [
        (&[own.as_str()][..], 3, "is no launcher that keeps a process table"),
        (&["2147483647"], 3, "there is no process 2147483647"),
        (&["srun"], 2, "invalid value"),
    ] {
        let (ended, out, err) = libi(words);
        assert!(ended == Some(status) && out.is_empty() && err.contains(said), "{words:?}: {err}");
    }
}
