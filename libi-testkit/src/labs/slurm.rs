//! The laboratory of a real Slurm: its controller and one slurmd for each of many nodes.

use std::fs;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use libi::{OsBytes, Srun};

use super::{Alone, Script, are_asked_for, within};
use crate::processes;

const SCRIPT: Script = Script("slurm");
const SERVER: &str = "/usr/sbin/slurmctld";
/// How many nodes there are where a test does not say otherwise.
const NODES: u32 = 32;
/// What the laboratory's processes have in their environment.
const LAB: &str = "LIBI_LAB=slurm";
/// Programs that are there all the time.
const DAEMONS: [&str; 4] = ["munged", "slurmctld", "slurmd", "slurmscriptd"];
/// How long Slurm may take to end jobs: it ends processes with SIGTERM, and 5 s later with SIGKILL.
const ENDING: Duration = Duration::from_secs(20);

/// Nodes `s0001`, `s0002` …, for one test at a time: what another runs on them would be seen in
/// the queue. When this is dropped, every node is idle again.
pub struct Slurm {
    /// Nothing where the laboratory is another process's.
    _lab: Option<Arc<Shared>>,
    is_broken: AtomicBool,
    _turn: Option<MutexGuard<'static, Setup>>,
}

/// What the tests of a process share. It ends with the last of them.
struct Shared {
    number: u32,
    _alone: Alone,
}

/// Which laboratory is up, its nodes, and its lines of `slurm.conf`.
type Setup = Option<(u32, u32, Vec<String>)>;

impl Slurm {
    /// Nothing if laboratories are not asked for.
    pub fn up() -> Option<Self> {
        Self::with(NODES, &[])
    }

    /// So many nodes, and with these lines in `slurm.conf`.
    pub fn with(nodes: u32, lines: &[&str]) -> Option<Self> {
        static TURN: Mutex<Setup> = Mutex::new(None);
        if !are_asked_for() {
            return None;
        }
        let lab = Shared::get();
        let mut turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = (lab.number, nodes, lines.iter().map(|line| (*line).to_owned()).collect());
        if turn.as_ref() != Some(&wanted) {
            *turn = None; // it may fail
            let began = Instant::now();
            SCRIPT.run(&[&["up", nodes.to_string().as_str()], lines].concat());
            SCRIPT.bring_member();
            println!("Slurm has {nodes} idle nodes after {:?}", began.elapsed());
            *turn = Some(wanted);
        }
        Some(Self { _lab: Some(lab), is_broken: AtomicBool::new(false), _turn: Some(turn) })
    }

    /// That of the process that has started this one, which sees to it.
    pub fn of_another_process() -> Self {
        Self { _lab: None, is_broken: AtomicBool::new(false), _turn: None }
    }

    /// How hosts are reached by this Slurm, also where `SLURM_CONF` does not name it.
    pub fn srun(&self) -> Srun {
        Srun { program: OsBytes::new(self.program("srun")).unwrap(), ..Srun::new() }
    }

    /// A program of Slurm, for this Slurm.
    pub fn program(&self, name: &str) -> String {
        SCRIPT.path(&format!("bin/{name}"))
    }

    /// The same, to be run.
    pub fn command(&self, name: &str) -> Command {
        Command::new(self.program(name))
    }

    /// Any program, in the environment that a user of this Slurm has.
    pub fn plain(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", SCRIPT.path("slurm.conf")).env("LIBI_LAB", "slurm");
        command
    }

    /// `salloc` with these options, which runs a program in the allocation that it gets.
    pub fn salloc(&self, options: &[&str], program: &[&str]) -> Command {
        let mut command = self.plain("salloc");
        command.args(options).args(program);
        command
    }

    /// Runs a script as a batch job with these options; gives what it printed. `sbatch` ends as
    /// the script does.
    pub fn sbatch(&self, options: &[&str], script: &str) -> Output {
        let (file, out) = (self.path("script"), self.path("script.out"));
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        let mut command = self.plain("sbatch");
        let output = command.args(["--wait", "--output", &out]).args(options).arg(file).output().unwrap();
        Output { stdout: fs::read(out).unwrap_or_default(), ..output }
    }

    /// Submits a script as a batch job with these options, and does not wait for it. Gives the
    /// number of the job.
    pub fn submit(&self, options: &[&str], script: &str) -> String {
        let (file, out) = (self.path("script"), self.path("script.out"));
        let _ = fs::remove_file(&out); // there may be none
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
        let words = [&["--parsable", "--output", &out], options, &[&file]].concat();
        self.ask("sbatch", &words).trim().to_owned()
    }

    /// What the script has printed up to now.
    pub fn printed_by_script(&self) -> String {
        let printed = fs::read(self.path("script.out")).unwrap_or_default();
        String::from_utf8_lossy(&printed).into_owned()
    }

    /// A batch job ends, and waits to be run again.
    pub fn requeue(&self, job: &str) {
        self.ask("scontrol", &["requeue", job]);
    }

    /// A job that waits for its time begins in two seconds; returns whether Slurm accepts that: not while
    /// the job's last run is being cleaned up. A node refuses a run that begins in the second in which
    /// the last one ended, and the job would fail.
    pub fn start_time_is_soon(&self, job: &str) -> bool {
        let update = ["update", &format!("jobid={job}"), "starttime=now+2"];
        self.command("scontrol").args(update).output().unwrap().status.success()
    }

    /// A job that runs is at its time limit. Slurm refuses that in the second in which it began.
    pub fn end_time_is_now(&self, job: &str) {
        let update = ["update", &format!("jobid={job}"), "endtime=now"];
        let is_accepted = || self.command("scontrol").args(update).output().unwrap().status.success();
        within(Duration::from_secs(20), "Slurm accepts the time limit", is_accepted);
    }

    /// Has a program of Slurm do something that cannot fail; gives what it prints.
    fn ask(&self, program: &str, words: &[&str]) -> String {
        let done = self.command(program).args(words).output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program} {words:?}: {}: {said}", done.status);
        String::from_utf8(done.stdout).unwrap()
    }

    /// The jobs that there are, also those that are ending.
    pub fn jobs(&self) -> Vec<String> {
        self.ask("squeue", &["-h", "-o", "%A %T %N %r"]).lines().map(str::to_owned).collect()
    }

    /// The steps that there are, without that in which this process itself runs.
    pub fn steps(&self) -> Vec<String> {
        let steps = self.ask("squeue", &["-h", "-s"]);
        let own = std::env::var("SLURM_JOB_ID").map(|job| format!("{job}.batch "));
        let is_own = |line: &str| own.as_ref().is_ok_and(|own| line.starts_with(own));
        steps.lines().map(str::trim).filter(|line| !is_own(line)).map(str::to_owned).collect()
    }

    pub fn cancel(&self, job: &str) {
        self.ask("scancel", &[job]);
    }

    /// The state of a node, as sinfo has it: `idle`, `down*`, `drained` …
    pub fn state(&self, node: &str) -> String {
        self.ask("sinfo", &["-h", "-N", "-p", "all", "-n", node, "-o", "%T"]).trim().to_owned()
    }

    /// `down`, `drain`, `resume` …
    pub fn set(&self, node: &str, state: &str) {
        self.is_broken.store(true, Relaxed);
        self.ask("scontrol", &["update", &format!("node={node}"), &format!("state={state}"), "reason=test"]);
    }

    /// Kills the slurmd of a node. What it has started lives on.
    pub fn stop(&self, node: &str) {
        self.breaks(&["stop", node]);
    }

    /// Starts it again.
    pub fn start(&self, node: &str) {
        self.breaks(&["start", node]);
    }

    /// From now on this node and the others do not believe each other.
    pub fn distrust(&self, node: &str) {
        self.breaks(&["distrust", node]);
    }

    /// From now on no job can begin on this node.
    pub fn fail_prolog(&self, node: &str) {
        self.is_broken.store(true, Relaxed);
        fs::write(self.path(&format!("prolog-fails/{node}")), "").unwrap();
    }

    /// From now on this directory is empty on this node.
    pub fn hide(&self, node: &str, directory: &str) {
        self.breaks(&["hide", node, directory]);
    }

    /// Ends slurmctld. What runs goes on.
    pub fn halt_controller(&self) {
        self.breaks(&["halt"]);
    }

    /// Starts it again.
    pub fn resume_controller(&self) {
        self.breaks(&["resume"]);
    }

    fn breaks(&self, words: &[&str]) {
        self.is_broken.store(true, Relaxed);
        SCRIPT.run(words);
    }

    /// Undoes all of that. There may be no jobs.
    pub fn restore(&self) {
        SCRIPT.run(&["restore"]);
        self.is_broken.store(false, Relaxed);
    }

    /// What is left of jobs: processes of the laboratory that are no daemons, Slurm's own included.
    /// This process and those above it are left out.
    pub fn processes(&self) -> Vec<String> {
        let described = |(pid, _): (i32, String)| {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?.replace('\0', " ");
            (!DAEMONS.contains(&name.trim())).then(|| format!("{pid} {} {}", name.trim(), words.trim()))
        };
        let own = processes::with_ancestors(std::process::id().cast_signed());
        let others = processes::bearing(LAB).into_iter().filter(|(pid, _)| !own.contains(pid));
        others.filter_map(described).collect()
    }

    /// No job, no step and no process is left, soon.
    pub fn nothing_is_left(&self) {
        Self::is_empty_soon(|| [self.jobs(), self.steps(), self.processes()].concat());
    }

    /// No step and no process is left, soon. The job of a node that is broken ends when that is not.
    pub fn nothing_runs(&self) {
        Self::is_empty_soon(|| [self.steps(), self.processes()].concat());
    }

    fn is_empty_soon(left: impl Fn() -> Vec<String>) {
        let deadline = Instant::now() + ENDING;
        loop {
            let left = left();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left after {ENDING:?}: {left:#?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Files that slurmds keep for steps and jobs that run.
    pub fn step_files(&self) -> Vec<String> {
        let names = |directory: &str| -> Vec<String> {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
        };
        let spool = self.path("spool");
        let of_node = |node: &String| {
            // Sockets are called `s0001_7.0`, directories of batch jobs `job00007`.
            let is_of_step = |file: &String| file.starts_with(&format!("{node}_")) || file.starts_with("job");
            names(&format!("{spool}/{node}")).into_iter().filter(is_of_step).collect::<Vec<_>>()
        };
        names(&spool).iter().flat_map(of_node).collect()
    }

    /// The process of a node's slurmd.
    pub fn slurmd(&self, node: &str) -> i32 {
        fs::read_to_string(self.path(&format!("slurmd-{node}.pid"))).unwrap().trim().parse().unwrap()
    }

    /// What a daemon has said: `slurmctld`, `slurmd-s0001`.
    pub fn log(&self, daemon: &str) -> String {
        fs::read_to_string(self.path(&format!("log/{daemon}"))).unwrap_or_default()
    }

    /// The program that tests launch.
    pub fn member(&self) -> String {
        SCRIPT.path("member")
    }

    /// A file of the laboratory.
    pub fn path(&self, file: &str) -> String {
        SCRIPT.path(file)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let Some(setup) = &mut self._turn else { return };
        if std::thread::panicking() {
            **setup = None; // the next test begins with another
        } else if self.is_broken.load(Relaxed) {
            SCRIPT.run(&["restore"]);
        }
    }
}

impl Shared {
    fn get() -> Arc<Self> {
        static SHARED: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
        // A test that has failed while it waited for this has done no harm.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lab) = shared.upgrade() {
            return lab;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let lab = Arc::new(Self { number: COUNT.fetch_add(1, Relaxed), _alone: Alone::with(SERVER) });
        *shared = Arc::downgrade(&lab);
        lab
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        SCRIPT.take_down();
    }
}
