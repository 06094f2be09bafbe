//! Jobs of `srun` that run already: their process tables, read while they go on.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use libi::job::{AttachError, Job, JobEvent, JobProcess, Launch, LauncherKind, Target, Watch};
use libi::{Agent, FrontEnd, OsBytes, Rank};
use libi_testkit::labs::{Marked, Slurm, within};
use libi_testkit::local::Heard;
use libi_testkit::processes::{environment, is_traced_or_stopped};
use libi_testkit::{native, programs};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::{TIMEOUT, options};

/// A job, and what its processes say of themselves: node and process ID of each rank.
struct Running {
    srun: Child,
    said: BTreeMap<u32, (String, i32)>,
}

impl Running {
    fn on(lab: &Slurm, nodes: u32, processes: u32) -> Self {
        let script = "echo $SLURM_PROCID $SLURMD_NODENAME $$; exec sleep 1000";
        let mut srun = lab.plain("srun");
        srun.args([format!("-N{nodes}"), format!("-n{processes}"), "-O".to_owned()]);
        srun.args(["/bin/sh", "-c", script]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut srun = srun.spawn().unwrap();
        let mut said = BTreeMap::new();
        let lines = BufReader::new(srun.stdout.take().unwrap()).lines();
        for line in lines.take(processes as usize) {
            let line = line.unwrap();
            let words: Vec<&str> = line.split(' ').collect();
            said.insert(words[0].parse().unwrap(), (words[1].to_owned(), words[2].parse().unwrap()));
        }
        assert_eq!(said.len(), processes as usize);
        Self { srun, said }
    }

    fn attach(&self) -> Job {
        Job::attach(self.srun.id() as i32, TIMEOUT).unwrap()
    }

    /// All its processes here, and those of the launcher.
    fn processes(&self) -> Vec<i32> {
        self.said.values().map(|(_, pid)| *pid).chain([self.srun.id() as i32]).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.srun.id() as i32), Signal::SIGTERM);
        let _ = self.srun.wait();
    }
}

#[test]
fn the_table_of_a_running_job_is_what_its_processes_say_of_themselves() {
    let Some(lab) = Slurm::up() else { return };
    for (nodes, processes) in [(1, 2), (4, 9), (32, 64)] {
        let running = Running::on(&lab, nodes, processes);
        let job = running.attach();
        assert_eq!((job.kind(), job.launcher_pid()), (LauncherKind::Srun, running.srun.id() as i32));
        assert_eq!(job.processes().len(), processes as usize);
        assert_eq!(job.processes().hosts().len(), nodes as usize);
        for (rank, (node, pid)) in &running.said {
            let process = job.processes().get(Rank(*rank)).unwrap();
            assert_eq!((process.host, process.pid), (node.as_str(), *pid), "rank {rank}");
            assert_eq!(process.executable.to_string(), "/bin/sh");
        }
        drop(running);
        assert!(!job.is_running());
    }
    lab.nothing_is_left();
}

/// Each daemon gets the processes of its host; they are in the job's own allocation.
#[test]
fn daemons_are_launched_beside_the_processes_of_a_job() {
    let Some(lab) = Slurm::up() else { return };
    for (nodes, processes) in [(1, 2), (16, 32)] {
        let running = Running::on(&lab, nodes, processes);
        let job = running.attach();
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let daemon = mark.program(&lab.member(), "none", &["join", "targets", "finish:10000"]);
        let session = front.launch_beside(&job, daemon, &options(lab.srun())).unwrap();
        let heard = Heard::all(&front);
        assert_eq!(session.size(), nodes);
        let mut said = BTreeMap::new();
        for (daemon, host) in (0..nodes).zip(job.processes().hosts()) {
            for target in heard.out(daemon).trim_end().split(';') {
                let words: Vec<&str> = target.split(' ').collect();
                assert_eq!(words[2], "/bin/sh", "{target}");
                said.insert(words[0].parse().unwrap(), (host.clone(), words[1].parse().unwrap()));
            }
        }
        assert_eq!(said, running.said);
        let environment = environment(running.said[&0].1).unwrap();
        let id = environment.split('\0').find_map(|variable| variable.strip_prefix("SLURM_JOB_ID="));
        assert_eq!(job.slurm_job(), id);
        drop((session, front));
        mark.nothing_is_left();
        assert!(job.is_running(), "it goes on");
        drop(running);
    }
    lab.nothing_is_left();
}

/// The agents that watch are a step of the job's own allocation.
#[test]
fn the_ends_of_all_processes_and_of_srun_are_told() {
    let Some(lab) = Slurm::up() else { return };
    let running = Running::on(&lab, 4, 8);
    let job = running.attach();
    let agent = Agent::new(OsBytes::try_from(programs::agent()).unwrap());
    let mut watch = Watch::of(&job, &options(lab.srun()).agent(agent)).unwrap();
    kill(Pid::from_raw(running.said[&3].1), Signal::SIGKILL).unwrap();
    let JobEvent::Ended { rank: Rank(3), .. } = watch.next(TIMEOUT).unwrap() else { panic!("another event") };
    drop(running);
    let (mut ended, mut launcher, mut unwatched) = (vec![3], 0, Vec::new());
    while let Some(event) = watch.next(TIMEOUT) {
        match event {
            JobEvent::Ended { rank, .. } => ended.push(rank.0),
            JobEvent::LauncherEnded { .. } => launcher += 1,
            // With the launcher its allocation ends, and all steps in it.
            JobEvent::NotWatched { host, .. } => unwatched.push(host),
            other => panic!("{other:?}"),
        }
    }
    assert!(watch.is_over() && launcher == 1, "{ended:?}, {unwatched:?}");
    for process in job.processes().iter() {
        let is_told = ended.contains(&process.rank.0) || unwatched.iter().any(|host| host == process.host);
        assert!(is_told, "{process:?}: {ended:?}, {unwatched:?}");
    }
    drop(watch);
    lab.nothing_is_left();
}

#[test]
fn no_process_of_a_job_is_stopped_or_traced_while_it_is_read() {
    let Some(lab) = Slurm::up() else { return };
    let running = Running::on(&lab, 4, 8);
    let (processes, pid) = (running.processes(), running.srun.id() as i32);
    let reads = std::thread::spawn(move || {
        for _ in 0..50 {
            Job::attach(pid, Duration::from_secs(60)).unwrap();
        }
    });
    let mut looks = 0;
    while !reads.is_finished() {
        assert!(!processes.iter().any(|pid| is_traced_or_stopped(*pid)), "after {looks} looks");
        looks += 1;
    }
    reads.join().unwrap();
    assert!(looks > 0);
    drop(running);
    lab.nothing_is_left();
}

#[test]
fn a_job_is_found_by_its_number_in_slurm() {
    let Some(lab) = Slurm::up() else { return };
    let (one, two) = (Running::on(&lab, 2, 4), Running::on(&lab, 1, 1));
    let (first, second) = (one.attach(), two.attach());
    let (id, other) = (first.slurm_job().unwrap(), second.slurm_job().unwrap());
    for name in [id.to_owned(), format!("{id}.0")] {
        let job = Job::attach_to_slurm(&name, TIMEOUT).unwrap();
        assert_eq!((job.launcher_pid(), job.processes()), (first.launcher_pid(), first.processes()));
    }
    let short = Duration::from_millis(100);
    let error = Job::attach_to_slurm(&format!("{id}.7"), short).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("no srun on this machine has launched job {id}.7 of Slurm; those here"))
    );
    assert!(error.contains(&format!("{id}.0")) && error.contains(&format!("{other}.0")), "{error}");
    // The program says the same.
    let mut libi = lab.plain(programs::libi());
    let ended = native::run_command(libi.args(["job", "--slurm", other]), TIMEOUT);
    assert!(ended.code == Some(0) && ended.out.starts_with("0 s"), "{}{}", ended.out, ended.err);

    // Two steps of one job.
    let script = "srun -n1 --overlap sleep 1000 & srun -n1 --overlap sleep 1000 & wait";
    let mut both = lab.salloc(&["-Q", "-N1"], &["sh", "-c", script]).spawn().unwrap();
    let mut said = Vec::new();
    within(TIMEOUT, "both steps run", || {
        let here = Job::attach_to_slurm("none", Duration::ZERO).unwrap_err();
        let AttachError::NoStep { here, .. } = here else { panic!("{here}") };
        said =
            here.into_iter().filter(|step| ![id, other].contains(&step.split('.').next().unwrap())).collect();
        said.len() == 2
    });
    let job = said[0].split('.').next().unwrap();
    let error = Job::attach_to_slurm(job, short).unwrap_err();
    assert!(matches!(&error, AttachError::ManySteps { here, .. } if *here == said), "{error}");
    let step = Job::attach_to_slurm(&said[1], TIMEOUT).unwrap();
    assert_eq!(step.processes().get(Rank(0)).unwrap().executable.to_string(), "sleep");
    lab.cancel(job);
    both.wait().unwrap();
    drop((one, two));
    lab.nothing_is_left();
}

/// The ranks of a job are held in front of their programs, wherever they are, until each is let go.
#[test]
fn a_job_is_launched_under_control() {
    let Some(lab) = Slurm::up() else { return };
    for (nodes, processes) in [(1, 2), (16, 32)] {
        let srun = ["srun", &format!("-N{nodes}"), &format!("-n{processes}"), "-O"].map(str::to_owned);
        let launch = Launch::new(srun, ["/bin/sh", "-c", "echo $SLURM_PROCID; exit 7"]);
        let mut command = launch.command().unwrap();
        let plain = lab.plain("srun");
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut launched = launch.start_as(&mut command).unwrap();
        let job = launched.attach(TIMEOUT).unwrap();
        assert_eq!((job.processes().len(), job.hosts().len()), (processes as usize, nodes as usize));
        // All nodes are on this machine.
        let target =
            |process: JobProcess<'_>| Target::new(process.rank, process.pid, process.executable.clone());
        let targets: Vec<Target> = job.processes().iter().map(target).collect();
        within(TIMEOUT, "all are held", || targets.iter().all(Target::is_held));
        targets[1].release(TIMEOUT).unwrap();
        let mut said = BufReader::new(launched.launcher().stdout.take().unwrap()).lines();
        assert_eq!(said.next().unwrap().unwrap(), "1");
        let held = targets.iter().filter(|target| target.is_held());
        assert_eq!(held.count(), processes as usize - 1);
        targets.iter().for_each(|target| target.release(TIMEOUT).unwrap());
        assert_eq!(said.map(Result::unwrap).count(), processes as usize - 1);
        assert_eq!(launched.wait(TIMEOUT).unwrap().expect("it ends").code(), Some(7));
    }
    lab.nothing_is_left();
}

/// The example has its daemons started in the Slurm job of the ranks.
#[test]
fn daemons_are_in_place_before_a_job_begins() {
    let Some(lab) = Slurm::up() else { return };
    let tool = Path::new(programs::libi()).parent().unwrap().join("examples/controlled");
    let mut command = lab.plain(tool.to_str().unwrap());
    command.args(["srun", "-N4", "-n8", "-O", "--", "/bin/sh", "-c", "echo began $SLURM_PROCID"]);
    let ended = native::run_command(&mut command, TIMEOUT);
    assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    let lines: Vec<&str> = ended.out.lines().collect();
    let of = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    assert_eq!((of("held: rank "), of("began ")), (8, 8), "{}", ended.out);
    assert_eq!(lines.last(), Some(&"the job has ended: exit status: 0"));
    lab.nothing_is_left();
}

/// `srun` forks, and the second process has no table.
#[test]
fn the_job_is_found_by_any_process_of_srun() {
    let Some(lab) = Slurm::up() else { return };
    let running = Running::on(&lab, 2, 2);
    let srun = running.srun.id() as i32;
    let children = std::fs::read_to_string(format!("/proc/{srun}/task/{srun}/children")).unwrap();
    let child = children.split_whitespace().next().expect("srun has forked").parse().unwrap();
    let job = Job::attach(child, TIMEOUT).unwrap();
    assert_eq!((job.launcher_pid(), job.processes().len()), (srun, 2));
    drop(running);
    lab.nothing_is_left();
}
