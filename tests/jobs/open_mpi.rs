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
use libi_testkit::shell::Lab;

use crate::TIMEOUT;
use crate::beside::beside;
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

/// A job on hosts that are reached by the stand-in shell, as `n1:2,n2:1`.
fn on_hosts(lab: &Lab, hosts: &str, program: &Path, words: &[&str]) -> Mpirun {
    let mut mpirun = lab.command("mpirun", &["-mca", "plm_rsh_agent", programs::shell()]);
    // The daemons of all hosts are on this machine, where the shared memory of PMIx would be one for all, and
    // mpirun was killed by a signal in 3 of 23 runs; without it in none of 50.
    mpirun.env("PMIX_MCA_gds", "hash").args(["-x", "PMIX_MCA_gds", "--host", hosts]);
    mpirun.arg(program).args(words);
    Mpirun::started(mpirun)
}

/// On other hosts the daemons find them. Open MPI starts its own by the stand-in shell, as libi does.
#[test]
fn processes_that_use_no_mpi_are_found_on_other_hosts_as_well() {
    if rank().is_none() {
        return;
    }
    let lab = Lab::new("");
    let script = "echo $OMPI_COMM_WORLD_RANK $$; exec sleep 1000";
    let mut mpirun = on_hosts(&lab, "n1:2,n2:1", Path::new("/bin/sh"), &["-c", script]);
    let said = mpirun.said(3);
    let job = Job::attach(mpirun.pid(), Duration::from_secs(1)).unwrap();
    assert!(!job.is_whole() && job.processes().is_empty());
    assert_eq!(job.hosts(), ["n1", "n2"]);
    let front = FrontEnd::new().unwrap();
    let session = beside(&job, &front, &lab);
    let table = session.processes_of(&job, TIMEOUT).unwrap();
    let found: BTreeMap<u32, i32> = table.iter().map(|process| (process.rank.0, process.pid)).collect();
    assert_eq!(found, said);
    assert_eq!(table.iter().map(|process| process.host).collect::<Vec<_>>(), ["n1", "n1", "n2"]);
}

/// Where they use MPI, the table has all of them.
#[test]
fn the_table_of_a_job_on_many_hosts_has_all_of_them() {
    let Some(program) = rank() else { return };
    let lab = Lab::new("");
    let hosts: Vec<String> = (1..=8).map(|host| format!("n{host}:2")).collect();
    let mut mpirun = on_hosts(&lab, &hosts.join(","), program, &[]);
    let said = mpirun.said(16);
    let job = Job::attach(mpirun.pid(), TIMEOUT).unwrap();
    assert_eq!((job.kind(), job.is_whole(), job.hosts().len()), (LauncherKind::OpenMpi, true, 8));
    for process in job.processes().iter() {
        assert_eq!(
            (process.pid, process.host),
            (said[&process.rank.0], &*format!("n{}", process.rank.0 / 2 + 1))
        );
    }
    let front = FrontEnd::new().unwrap();
    let _session = beside(&job, &front, &lab);
    let heard = Heard::all(&front);
    for daemon in 0..8 {
        let pids: Vec<String> = heard.out(daemon).trim_end().split(';').map(str::to_owned).collect();
        let expected =
            [2 * daemon, 2 * daemon + 1].map(|rank| format!("{rank} {} {}", said[&rank], program.display()));
        assert_eq!(pids, expected);
    }
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
