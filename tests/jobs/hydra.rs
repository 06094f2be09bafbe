//! Jobs of Hydra's `mpiexec`, which has no table: their processes are found on their hosts.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

use libi::job::{Job, LauncherKind};
use libi::{FrontEnd, Rank};
use libi_testkit::local::Heard;
use libi_testkit::processes::is_traced_or_stopped;
use libi_testkit::programs;
use libi_testkit::shell::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::TIMEOUT;
use crate::beside::beside;
use crate::launchers::{has_hydra, said};

const SCRIPT: &str = "echo $PMI_RANK $$; exec sleep 1000";

/// A job, which ends with this value.
pub(crate) struct Hydra(Child);

impl Hydra {
    pub(crate) fn of(options: &[&str], command: &mut Command) -> Self {
        command.args(options).args(["/bin/sh", "-c", SCRIPT]);
        Self(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn here(processes: u32) -> Self {
        Self::of(&["-np", &processes.to_string()], &mut Command::new("mpiexec.hydra"))
    }

    pub(crate) fn said(&mut self, processes: u32) -> BTreeMap<u32, i32> {
        said(self.0.stdout.take().unwrap(), processes)
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.id() as i32
    }
}

impl Drop for Hydra {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.pid()), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

#[test]
fn the_processes_of_a_running_job_are_what_they_say_of_themselves() {
    if !has_hydra() {
        return;
    }
    for processes in [2, 16, 64] {
        let mut hydra = Hydra::here(processes);
        let (said, pid) = (hydra.said(processes), hydra.pid());
        let reads = std::thread::spawn(move || Job::attach(pid, TIMEOUT).unwrap());
        while !reads.is_finished() {
            assert!(!said.values().chain([&pid]).any(|pid| is_traced_or_stopped(*pid)));
        }
        let job = reads.join().unwrap();
        assert!(job.is_whole() && job.is_running());
        assert_eq!((job.kind(), job.hosts().len(), job.slurm_job()), (LauncherKind::Hydra, 1, None));
        let found = job.processes().iter().map(|process| (process.rank.0, process.pid));
        assert_eq!(found.collect::<BTreeMap<_, _>>(), said);
        drop(hydra);
        assert!(!job.is_running());
    }
}

/// Hydra starts its daemons by the stand-in shell, as libi does.
#[test]
fn processes_on_other_hosts_are_found_there_by_the_daemons() {
    if !has_hydra() {
        return;
    }
    let lab = Lab::new("");
    for (hosts, processes) in [(2, 3), (8, 16)] {
        let names: Vec<String> = (1..=hosts).map(|host| format!("n{host}")).collect();
        let per_host = (processes as usize).div_ceil(hosts);
        let mut command = lab.command("mpiexec.hydra", &["-launcher", "ssh", "-launcher-exec"]);
        command.args([programs::shell(), "-hosts", &names.join(","), "-ppn", &per_host.to_string()]);
        let mut hydra = Hydra::of(&["-np", &processes.to_string()], &mut command);
        let said = hydra.said(processes);
        let job = Job::attach(hydra.pid(), TIMEOUT).unwrap();
        assert!(!job.is_whole() && job.processes().is_empty());
        assert_eq!(job.hosts(), names);

        let front = FrontEnd::new().unwrap();
        let session = beside(&job, &front, &lab);
        let table = session.processes_of(&job, TIMEOUT).unwrap();
        let found: BTreeMap<u32, i32> = table.iter().map(|process| (process.rank.0, process.pid)).collect();
        assert_eq!(found, said);
        for process in table.iter() {
            let host = process.rank.0 as usize / per_host;
            assert_eq!(
                (process.host, process.executable.to_string()),
                (&*names[host], "/usr/bin/sleep".into())
            );
        }
        // Each daemon knows those of its host.
        let heard = Heard::all(&front);
        for (daemon, host) in (0..).zip(&names) {
            let line = |rank: Rank, pid| format!("{} {pid} /usr/bin/sleep", rank.0);
            let expected: Vec<String> =
                table.on_host(host).map(|process| line(process.rank, process.pid)).collect();
            assert_eq!(heard.out(daemon).trim_end(), expected.join(";"));
        }
    }
}

/// The ranks come when all hosts are there.
#[test]
fn a_job_that_is_starting_is_waited_for() {
    if !has_hydra() {
        return;
    }
    let hydra = Hydra::here(8);
    let job = Job::attach(hydra.pid(), TIMEOUT).unwrap();
    assert_eq!(job.processes().len(), 8);
}
