//! A front end of these tests, its daemons and its job, which synchronise by files.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use libi_testkit::native::{self, Link, scratch};
use libi_testkit::processes;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// What all processes of a scene have in their environment.
const MARK: &str = "LIBI_TEST_MARK";

/// A program of these tests, compiled once.
fn compiled(name: &'static str, link: Link) -> PathBuf {
    static COMPILED: [OnceLock<PathBuf>; 4] = [const { OnceLock::new() }; 4];
    let at = usize::from(name == "front") * 2 + usize::from(link == Link::Static);
    let compile =
        || native::compile(&format!("launchmon-{name}"), &[&format!("tests/launchmon/{name}.c")], link, &[]);
    COMPILED[at].get_or_init(compile).clone()
}

pub(crate) fn daemon(link: Link) -> PathBuf {
    compiled("daemon", link)
}

/// A directory for the files of a front end, its daemons and its job.
pub(crate) struct Scene {
    directory: PathBuf,
    front: PathBuf,
    daemon: PathBuf,
    variables: Vec<(String, String)>,
    inside: Option<PathBuf>,
}

impl Scene {
    pub(crate) fn new(link: Link) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("launchmon-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let directory = scratch().join(name);
        fs::create_dir_all(&directory).unwrap();
        let (front, daemon) = (compiled("front", link), daemon(link));
        Self { directory, front, daemon, variables: Vec::new(), inside: None }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With another daemon.
    pub(crate) fn daemon(mut self, program: &str) -> Self {
        self.daemon = program.into();
        self
    }

    /// With the front end in this directory.
    pub(crate) fn inside(mut self, directory: &Path) -> Self {
        self.inside = Some(directory.to_owned());
        self
    }

    /// What each rank runs: it leaves a file when it begins, and ends when it may.
    pub(crate) fn script(&self) -> [String; 3] {
        let script = format!(
            "cd {}; : > began.${{SLURM_PROCID:-${{PMI_RANK:-$OMPI_COMM_WORLD_RANK}}}}; while [ ! -e finish ]; do sleep 0.05; done",
            self.directory.display()
        );
        ["/bin/sh".to_owned(), "-c".to_owned(), script]
    }

    /// The words of a job.
    pub(crate) fn job(&self, launcher: &[&str], processes: u32) -> Vec<String> {
        let launcher = launcher.iter().map(|word| (*word).to_owned());
        launcher.chain([processes.to_string()]).chain(self.script()).collect()
    }

    pub(crate) fn start(&self, scene: &str, words: &[&str]) -> Front {
        let mut command = Command::new(&self.front);
        command.arg(scene).arg(&self.daemon).arg(&self.directory).args(words);
        command.envs(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"].map(|name| (name, "1")));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env(MARK, &self.directory).current_dir(self.inside.as_ref().unwrap_or(&self.directory));
        let error = fs::File::create(self.directory.join("error")).unwrap();
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(error).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Front { child, out, error: self.directory.join("error") }
    }

    pub(crate) fn leave(&self, name: &str) {
        fs::write(self.directory.join(name), "").unwrap();
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.directory.join(name).exists()
    }

    pub(crate) fn awaits(&self, name: &str) {
        within(name, || self.has(name));
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.join(name)).unwrap()
    }

    /// The ranks whose programs have begun.
    pub(crate) fn began(&self) -> Vec<u32> {
        let names = fs::read_dir(&self.directory).unwrap().map(|entry| entry.unwrap().file_name());
        let mut ranks: Vec<u32> =
            names.filter_map(|name| name.to_str()?.strip_prefix("began.")?.parse().ok()).collect();
        ranks.sort_unstable();
        ranks
    }

    /// What runs of the scene.
    pub(crate) fn daemons(&self) -> Vec<i32> {
        processes::bearing(&format!("{MARK}={}", self.directory.display()))
            .into_iter()
            .map(|(pid, _)| pid)
            .collect()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.leave("finish");
        self.leave("stop");
        for pid in self.daemons() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A front end that runs.
pub(crate) struct Front {
    child: Child,
    out: BufReader<ChildStdout>,
    error: PathBuf,
}

impl Front {
    /// What it prints up to this line.
    pub(crate) fn until(&mut self, wanted: &str) -> String {
        let mut out = String::new();
        loop {
            let before = out.len();
            let read = self.out.read_line(&mut out).unwrap();
            assert!(read > 0, "it has ended before {wanted:?}\n{out}{}", self.error());
            if out[before..].trim_end() == wanted {
                return out;
            }
        }
    }

    /// What it prints up to its end, which is a success.
    pub(crate) fn end(&mut self) -> String {
        let mut out = String::new();
        self.out.read_to_string(&mut out).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}\n{out}{}", self.error());
        out
    }

    /// The last line is this one.
    pub(crate) fn ends_with(&mut self, line: &str) {
        let out = self.end();
        assert!(out.ends_with(line), "{out}{}", self.error());
    }

    pub(crate) fn error(&self) -> String {
        fs::read_to_string(&self.error).unwrap()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A launcher, which ends with this value.
pub(crate) struct Job(pub(crate) Child);

impl Drop for Job {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.0.id() as i32), Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

pub(crate) fn within(what: &str, mut happens: impl FnMut() -> bool) {
    let until = Instant::now() + TIMEOUT;
    while !happens() {
        assert!(Instant::now() < until, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
