//! Jobs that are launched under control: their ranks are held in front of their programs.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libi::Rank;
use libi::job::{AttachError, Job, Launch, LaunchError, Launched, Target};
use libi_core::sim::rng::Rng;
use libi_testkit::native::scratch;
use libi_testkit::{processes, programs};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::TIMEOUT;
use crate::launchers::{OPEN_MPI, launchers};

const MARK: &str = "LIBI_TEST_MARK";
/// A job whose ranks leave a file when their program begins, and one when it ends, with this status.
struct Scene {
    directory: PathBuf,
    launcher: Vec<String>,
    program: Vec<String>,
}

impl Scene {
    fn new(launcher: &[&str], processes: u32, status: u8) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let directory =
            scratch().join(format!("held-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed)));
        fs::create_dir_all(&directory).unwrap();
        let script = format!(
            "rank=${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}; cd {}; : > began.$rank; sleep 0.05; \
             : > ended.$rank; exit {status}",
            directory.display()
        );
        let launcher = launcher.iter().map(|word| (*word).to_owned()).chain([processes.to_string()]);
        let program = ["/bin/sh", "-c", &script].map(str::to_owned).to_vec();
        Self { directory, launcher: launcher.collect(), program }
    }

    fn launch(&self) -> Launch {
        Launch::new(&self.launcher, &self.program)
    }

    fn start(&self, launch: &Launch) -> (Launched, Job, Vec<Target>) {
        let launched = self.launched(launch);
        let job = launched.attach(TIMEOUT).unwrap();
        let target = |process: libi::job::JobProcess<'_>| {
            Target::new(process.rank, process.pid, process.executable.clone())
        };
        let targets = job.processes().iter().map(target).collect();
        (launched, job, targets)
    }

    fn launched(&self, launch: &Launch) -> Launched {
        let mut command = launch.command().unwrap();
        command.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
        command.env(MARK, &self.directory).stdin(Stdio::null()).stderr(Stdio::null());
        launch.start_as(&mut command).unwrap()
    }

    /// The ranks that have left such files.
    fn ranks(&self, what: &str) -> BTreeSet<u32> {
        let names = fs::read_dir(&self.directory).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.to_str()?.strip_prefix(what)?.parse().ok()).collect()
    }

    fn until(&self, what: &str, ranks: &BTreeSet<u32>) {
        within(&format!("{what} {ranks:?}"), || self.ranks(what) == *ranks);
    }

    /// What all processes of a tool in this scene have in their environment.
    fn mark(&self) -> String {
        format!("{MARK}={}", self.directory.display())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn within(what: &str, mut happens: impl FnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !happens() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn no_rank_begins_before_it_is_released() {
    let times = if std::env::var("LIBI_CASES").is_ok_and(|cases| cases == "all") { 100 } else { 10 };
    for launcher in launchers() {
        // Open MPI ends all ranks when one has another status than 0.
        let status = if launcher == OPEN_MPI { 0 } else { 3 };
        for time in 0..times {
            let scene = Scene::new(launcher, 4, status);
            let (mut launched, job, targets) = scene.start(&scene.launch());
            assert!(targets.len() == 4 && targets.iter().all(Target::is_held), "{launcher:?}, time {time}");
            assert!(job.processes().iter().all(|process| process.executable.to_string() == "/bin/sh"));
            assert!(scene.ranks("began.").is_empty());
            // One alone, and then the others.
            targets[2].release(TIMEOUT).unwrap();
            scene.until("began.", &[2].into());
            let held = targets.iter().filter(|target| target.is_held()).map(|target| target.rank().0);
            assert_eq!(held.collect::<Vec<_>>(), [0, 1, 3]);
            targets.iter().for_each(|target| target.release(TIMEOUT).unwrap());
            let ended = launched.wait(TIMEOUT).unwrap().expect("it ends");
            let (code, ranks) = (ended.code(), scene.ranks("ended."));
            assert_eq!((code, ranks), (Some(status.into()), (0..4).collect()), "{launcher:?}");
        }
    }
}

#[test]
fn what_is_not_released_goes_on_at_the_time_limit() {
    for launcher in launchers() {
        let (scene, began) = (Scene::new(launcher, 3, 0), Instant::now());
        let mut launched = scene.launched(&scene.launch().hold(Duration::from_millis(900)));
        assert!(launched.wait(TIMEOUT).unwrap().expect("it ends").success());
        assert!(began.elapsed() >= Duration::from_secs(1), "it is rounded up");
        assert_eq!(scene.ranks("ended."), (0..3).collect());
    }
}

/// However the launcher ends: a rank of which it was not told any more does not begin.
#[test]
fn what_is_held_ends_with_its_launcher() {
    for launcher in launchers() {
        for signal in [Signal::SIGKILL, Signal::SIGINT, Signal::SIGTERM] {
            let scene = Scene::new(launcher, 2, 0);
            let (mut launched, _, targets) = scene.start(&scene.launch());
            let pid = launched.launcher().id() as i32;
            kill(Pid::from_raw(pid), signal).unwrap();
            launched.wait(TIMEOUT).unwrap().expect("the launcher ends");
            within("the ranks have ended", || !targets.iter().any(Target::is_running));
            within("nothing is left", || processes::bearing(&scene.mark()).is_empty());
            assert!(scene.ranks("began.").is_empty(), "{launcher:?}, {signal}");
        }
    }
}

/// The ranks have what the launcher gives them: input, output, environment, and status.
#[test]
fn the_gate_leaves_nothing_to_the_program() {
    for launcher in launchers() {
        let print = "cat; env; ls /proc/self/fd | wc -l";
        let run = |held: bool| {
            let launch = Launch::new([launcher, &["1"]].concat(), ["/bin/sh", "-c", print]);
            let mut command = Command::new(launcher[0]);
            command.args(&launcher[1..]).args(["1", "/bin/sh", "-c", print]);
            if held {
                command = launch.hold(Duration::from_secs(1)).command().unwrap();
            }
            let input = fs::File::open(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/jobs/rank.c")).unwrap();
            command
                .envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
            let output = command.stdin(input).output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let text = String::from_utf8(output.stdout).unwrap();
            // What is different each time: the numbers of jobs, of processes and of ports.
            let is_same = |line: &&str| {
                !["OMPI_", "PMIX_", "ORTE_", "PMI_FD", "HYDI_"].iter().any(|name| line.starts_with(name))
            };
            let mut lines: Vec<String> = text.lines().filter(is_same).map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(run(true), run(false), "{launcher:?}");
    }
}

#[test]
fn a_launch_that_cannot_be_controlled_says_why() {
    let error = Launch::new(["mpirun", "-n", "1", "a", ":", "-n", "1"], ["b"]).start().unwrap_err();
    assert!(error.to_string().starts_with(": on the launcher's command line"), "{error}");
    let error = Launch::command_line(["mpirun", "-n", "1", "a", ":", "-n", "1", "b"]).unwrap().start();
    assert!(matches!(error, Err(LaunchError::ManyPrograms(_))), "{error:?}");
    let error = Launch::command_line(["aprun", "-n", "4", "a"]).unwrap_err();
    assert!(error.to_string().starts_with("aprun is not known"), "{error}");
    let none: [&str; 0] = [];
    assert!(matches!(Launch::command_line(none), Err(LaunchError::Missing("launcher"))));
    assert!(matches!(Launch::new(none, ["a"]).start(), Err(LaunchError::Missing("launcher"))));
    assert!(matches!(Launch::new(["a"], none).start(), Err(LaunchError::Missing("program"))));
    let error = Launch::new(["/no/such/launcher"], ["a"]).start().unwrap_err();
    assert!(error.to_string().contains("/no/such/launcher cannot be started"), "{error}");
    // A launcher that ends at once, and a program that is none.
    let launched = Launch::new(["true"], ["a"]).start().unwrap();
    let error = launched.attach(TIMEOUT).unwrap_err();
    assert!(matches!(error, AttachError::Ended { .. } | AttachError::NoLauncher { .. }), "{error}");
    for launcher in launchers() {
        let mut scene = Scene::new(launcher, 2, 0);
        scene.program = vec!["/no/such/program".to_owned()];
        let (mut launched, _, targets) = scene.start(&scene.launch());
        targets.iter().for_each(|target| target.release(TIMEOUT).unwrap());
        assert_eq!(launched.wait(TIMEOUT).unwrap().expect("it ends").code(), Some(127), "{launcher:?}");
    }
}

/// The example is the tool: it launches daemons, and lets the ranks go.
#[test]
fn the_job_runs_to_its_end_also_when_the_tool_is_killed() {
    let kills = if std::env::var("LIBI_CASES").is_ok_and(|cases| cases == "all") { 50 } else { 10 };
    let seed = std::env::var("LIBI_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut rng = Rng::new(seed);
    let tool = Path::new(programs::libi()).parent().unwrap().join("examples/controlled");
    for launcher in launchers() {
        let mut killed = 0;
        let scenes: Vec<_> = (0..kills).map(|_| Scene::new(launcher, 2, 0)).collect();
        // Some at a time: each job waits for a tool that was killed.
        for scenes in scenes.chunks(10) {
            for (at, scene) in scenes.iter().enumerate() {
                let mut command = Command::new(&tool);
                command.args(&scene.launcher).args(&scene.program);
                command.envs(
                    ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")),
                );
                command.env(MARK, &scene.directory);
                command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
                let mut tool = command.spawn().unwrap();
                // The first of them is not killed.
                if at > 0 {
                    let mark = scene.mark();
                    // A short job may have ended before it is looked for.
                    within("the launcher is there", || {
                        processes::bearing(&mark).len() > 1 || tool.try_wait().unwrap().is_some()
                    });
                    std::thread::sleep(Duration::from_millis(rng.below(150)));
                    tool.kill().unwrap();
                }
                let ended = tool.wait().unwrap();
                let was_killed = at > 0 && ended.signal() == Some(Signal::SIGKILL as i32);
                assert!(ended.success() || was_killed, "{ended}, seed {seed}");
                killed += usize::from(was_killed);
            }
            for scene in scenes {
                scene.until("ended.", &(0..2).collect());
                within("nothing is left", || processes::bearing(&scene.mark()).is_empty());
            }
        }
        assert!(killed > 0, "each tool was done before it was killed, seed {seed}");
    }
}

/// What is said of a rank that is let go, or not, when it has ended.
#[test]
fn a_rank_that_has_ended_is_not_held() {
    assert!(!Target::gone().is_held() && Target::gone().release(TIMEOUT).is_ok());
    let gone = Target::new(Rank(1), -1, libi::OsBytes::default());
    assert!(!gone.is_running() && gone.release(TIMEOUT).is_ok());
}
