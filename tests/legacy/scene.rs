//! A front end of these tests: on which hosts, in which environment, and what came of it.

use std::fmt;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use libi_testkit::labs::{Sshd, within};
use libi_testkit::native::{self, Ended, Link};
use libi_testkit::programs;

/// How long a front end may take where much else goes on.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);
/// How long what is to happen may take.
const SOON: Duration = Duration::from_secs(40);

/// Where members are launched, and by what.
#[derive(Clone)]
pub(crate) struct Ground {
    name: &'static str,
    hosts: [&'static str; 4],
    program: PathBuf,
    variables: Vec<(String, String)>,
    place: Arc<Place>,
    _lab: Option<Arc<Sshd>>,
}

impl fmt::Debug for Ground {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// All grounds that there are.
pub(crate) fn grounds() -> Vec<Ground> {
    [Some(Ground::local()), Some(Ground::shell("")), Ground::ssh()].into_iter().flatten().collect()
}

impl Ground {
    fn new(name: &'static str, hosts: [&'static str; 4], program: PathBuf) -> Self {
        Self { name, hosts, program, variables: Vec::new(), place: Arc::new(Place::new()), _lab: None }
    }

    /// This machine, by four of its names.
    pub(crate) fn local() -> Self {
        Self::new("local", ["localhost", "127.0.0.1", "127.0.0.2", "::1"], program(Link::Shared))
    }

    /// The stand-in, told this.
    pub(crate) fn shell(config: &str) -> Self {
        let ground = Self::new("shell", ["n0", "n1", "n2", "n3"], program(Link::Static));
        let file = ground.place.0.join("config");
        fs::write(&file, format!("locks .\nlog log\n{config}\n")).unwrap();
        let shell = programs::shell();
        ground.with("LIBI_TEST_SHELL", file.to_str().unwrap()).with("XPLAT_RSH", shell)
    }

    /// Real ssh servers; nothing if laboratories are not asked for.
    pub(crate) fn ssh() -> Option<Self> {
        let lab = Sshd::up()?;
        // Its users may not be let in where it was built.
        let program = PathBuf::from(lab.path("legacy"));
        let fresh = program.with_extension(COUNT.fetch_add(1, Relaxed).to_string());
        fs::copy(self::program(Link::Static), &fresh).unwrap();
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o755)).unwrap();
        let ground = Self::new("ssh", ["n0", "n1", "n2", "n3"], fresh);
        let args = format!("-q -n -F \"{}\"", lab.path("main.config"));
        Some(Self { _lab: Some(lab), ..ground }.with("XPLAT_RSH", "ssh").with("XPLAT_RSH_ARGS", &args))
    }

    /// ssh by default, with these options.
    pub(crate) fn ssh_unnamed(args: &str) -> Self {
        Self::new("unnamed", ["n0", "n1", "n2", "n3"], program(Link::Shared)).with("XPLAT_RSH_ARGS", args)
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|variable| variable.0 != name);
        self
    }

    pub(crate) fn value(&self, name: &str) -> String {
        self.variables.iter().rfind(|variable| variable.0 == name).unwrap().1.clone()
    }

    /// Which host the stand-in has called from which, in the order of the hosts.
    pub(crate) fn calls(&self) -> Vec<String> {
        let log = fs::read_to_string(self.place.0.join("log")).unwrap();
        let field = |line: &str, name: &str| {
            let value = line.split(' ').find_map(|field| field.strip_prefix(&format!("{name}=")));
            value.unwrap().to_owned()
        };
        let mut calls: Vec<_> = log.lines().map(|line| [field(line, "host"), field(line, "from")]).collect();
        calls.sort();
        calls.into_iter().map(|[host, from]| format!("{from} {host}")).collect()
    }
}

static COUNT: AtomicU32 = AtomicU32::new(0);

/// A directory that all users may write to, removed with the test.
struct Place(PathBuf);

impl Place {
    fn new() -> Self {
        let name = format!("libi-legacy-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let place = Self(std::env::temp_dir().join(name));
        fs::create_dir_all(&place.0).unwrap();
        fs::set_permissions(&place.0, fs::Permissions::from_mode(0o777)).unwrap();
        place
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The program, compiled once.
fn program(link: Link) -> PathBuf {
    static SHARED: OnceLock<PathBuf> = OnceLock::new();
    static STATIC: OnceLock<PathBuf> = OnceLock::new();
    let made = if link == Link::Shared { &SHARED } else { &STATIC };
    let sources = ["front", "states", "member", "node"].map(|source| format!("tests/legacy/{source}.cpp"));
    made.get_or_init(|| {
        native::compile("legacy", &sources.each_ref().map(String::as_str), link, &["-std=c++98", "-pthread"])
    })
    .clone()
}

/// A scene of `front.cpp`.
pub(crate) struct Scene {
    ground: Ground,
    scene: &'static str,
    hosts: Vec<String>,
    place: Arc<Place>,
}

impl Scene {
    pub(crate) fn new(ground: &Ground, scene: &'static str) -> Self {
        Self::on(ground, scene, &ground.hosts)
    }

    pub(crate) fn on(ground: &Ground, scene: &'static str, hosts: &[&str]) -> Self {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Self { ground: ground.clone(), scene, hosts, place: Arc::new(Place::new()) }
    }

    /// The same, with this variable.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let (ground, hosts) = (self.ground.clone().with(name, value), self.hosts.clone());
        Self { ground, scene: self.scene, hosts, place: Arc::clone(&self.place) }
    }

    pub(crate) fn directory(&self) -> &str {
        self.place.0.to_str().unwrap()
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.ground.program);
        command.arg(self.scene).arg(&self.place.0).args(&self.hosts);
        // Whoever runs the tests may have settings of their own.
        let is_setting =
            |name: &str| ["LIBI_", "XPLAT_", "SSH_CONNECTION"].iter().any(|start| name.starts_with(start));
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(is_setting) {
                command.env_remove(name);
            }
        }
        command.envs(self.ground.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self) -> Ended {
        native::run_command(&mut self.command(), TIMEOUT)
    }

    /// It ends well, and nothing of it is said on standard error. Gives what it has printed.
    pub(crate) fn is_good(&self) -> String {
        let ended = self.run();
        let (ground, scene) = (&self.ground, self.scene);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{scene} on {ground:?}: {}", ended.out);
        ended.out
    }

    pub(crate) fn start(self) -> Running {
        let mut command = self.command();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Running { child, out, scene: self }
    }

    /// Waits until a member has left this file.
    pub(crate) fn awaits(&self, file: &str) {
        let path = self.place.0.join(file);
        within(SOON, &format!("{file} is there on {:?}", self.ground), || path.exists());
    }

    /// Leaves a file for members to find.
    pub(crate) fn leave(&self, file: &str) {
        fs::write(self.place.0.join(file), "").unwrap();
    }

    /// What is in all files whose names begin so.
    pub(crate) fn read_all(&self, beginning: &str) -> String {
        let files = fs::read_dir(&self.place.0).unwrap().flatten();
        let meant = files.filter(|file| file.file_name().to_str().unwrap().starts_with(beginning));
        meant.map(|file| fs::read_to_string(file.path()).unwrap()).collect()
    }
}

/// A front end that runs. It ends with the test.
pub(crate) struct Running {
    child: Child,
    out: BufReader<std::process::ChildStdout>,
    pub(crate) scene: Scene,
}

impl Running {
    /// The numbers of its members, which it prints first.
    pub(crate) fn pids(&mut self, count: usize) -> Vec<i32> {
        let mut line = || {
            let mut line = String::new();
            self.out.read_line(&mut line).unwrap();
            line.trim().parse().unwrap()
        };
        (0..count).map(|_| line()).collect()
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for its end.
    pub(crate) fn end(&mut self) -> Ended {
        let mut status = None;
        within(TIMEOUT, "the front end has ended", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        Ended { code: status.unwrap().code(), out, err }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether this process is there, and has not ended.
pub(crate) fn is_alive(pid: i32) -> bool {
    let status = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    status
        .is_ok_and(|status| !status.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z')))
}

pub(crate) fn kill(pid: i32, signal: Signal) {
    nix::sys::signal::kill(Pid::from_raw(pid), signal).unwrap();
}

/// Processes that live on by themselves. A test that fails takes them with it.
pub(crate) struct Survivors(pub(crate) Vec<i32>);

impl Drop for Survivors {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for pid in &self.0 {
                let _ = nix::sys::signal::kill(Pid::from_raw(*pid), Signal::SIGKILL);
            }
        }
    }
}

/// Waits until none of these is there.
pub(crate) fn are_gone(pids: &[i32]) {
    within(SOON, "all members have ended", || !pids.iter().any(|pid| is_alive(*pid)));
}
