//! A session whose members measure what they are told to.

use std::path::PathBuf;
use std::time::Duration;

use libi::{
    Distribution, Engine, FrontEnd, LaunchOptions, LinkPolicy, LinkSecurity, OsBytes, Output, Session, Shell,
};

use libi_testkit::programs;

const TIMEOUT: Duration = Duration::from_secs(300);

/// How hosts are reached.
pub(crate) enum Path {
    /// All hosts are this machine, and links are sockets in it.
    Local,
    /// Through a shell that costs nothing; links between hosts are TCP connections with this
    /// security.
    Direct(LinkSecurity),
}

impl Path {
    /// `local`, `authenticated` or `encrypted`, with `,apart` behind it for an engine of its own on
    /// each host.
    pub(crate) fn named(words: &str) -> (Self, Engine) {
        let (via, engine) = match words.strip_suffix(",apart") {
            Some(via) => (via, Engine::Apart),
            None => (words, Engine::InProgram),
        };
        let path = match via {
            "local" => Self::Local,
            "authenticated" => Self::Direct(LinkSecurity::Authenticated),
            "encrypted" => Self::Direct(LinkSecurity::Encrypted),
            other => panic!("no way {other}"),
        };
        (path, engine)
    }
}

/// See the [module](self).
pub(crate) struct Bench {
    session: Session,
    hosts: u32,
    each: u32,
    lab: Option<PathBuf>,
    has_ended: bool,
    _front_end: FrontEnd,
}

impl Bench {
    pub(crate) fn launch(hosts: u32, each: u32, via: &Path) -> Self {
        Self::launch_with(hosts, each, via, Engine::default())
    }

    pub(crate) fn launch_with(hosts: u32, each: u32, via: &Path, engine: Engine) -> Self {
        Self::launch_by(hosts, each, via, |options| options.engine(engine))
    }

    /// Launches with these options changed.
    pub(crate) fn launch_by(
        hosts: u32,
        each: u32,
        via: &Path,
        changed: impl FnOnce(LaunchOptions) -> LaunchOptions,
    ) -> Self {
        let program = std::env::current_exe().unwrap();
        let distribution = Distribution::new(program).hosts(format!("n[0001-{hosts:04}]:{each}"));
        let mut options = changed(LaunchOptions::local().output(Output::Dropped).loopback(true));
        let mut lab = None;
        if let Path::Direct(mode) = via {
            let directory = std::env::temp_dir().join(format!("libi-bench-{}", std::process::id()));
            std::fs::create_dir_all(directory.join("locks")).unwrap();
            let file = directory.join("shell");
            std::fs::write(&file, "seed 1\nlocks locks\n").unwrap();
            // SAFETY: between launches this process has one thread.
            unsafe { std::env::set_var("LIBI_TEST_SHELL", &file) };
            lab = Some(directory);
            options.backend = Some(Shell::new(OsBytes::try_from(programs::shell()).unwrap()).into());
            (options.links, options.link_security) = (LinkPolicy::Direct, *mode);
        }
        let front_end = FrontEnd::new().unwrap();
        let session = front_end.launch(&distribution, &options).unwrap_or_else(|error| panic!("{error}"));
        Self { session, hosts, each, lab, has_ended: false, _front_end: front_end }
    }

    /// The parent of each rank in the tree of processes, if the first member of each host leads it;
    /// `None` for the master.
    pub(crate) fn parents(&self) -> Vec<Option<usize>> {
        let report = self.session.report().unwrap();
        let each = self.each as usize;
        let leader = |host: usize| host * each;
        (0..self.hosts as usize * each)
            .map(|rank| match rank % each {
                0 => report.hosts()[rank / each].launcher.map(|host| leader(host.0 as usize)),
                _ => Some(leader(rank / each)),
            })
            .collect()
    }

    /// Runs a command in all members. Returns the answer of the master.
    pub(crate) fn words(&self, command: &str) -> Vec<String> {
        self.session.broadcast(command.to_owned()).wait(TIMEOUT).unwrap();
        let answer = self.session.recv().wait(TIMEOUT).unwrap();
        String::from_utf8(answer.into()).unwrap().split_whitespace().map(str::to_owned).collect()
    }

    /// How long a message to the master and back takes, on average.
    pub(crate) fn front(&self, bytes: usize, times: usize) -> Duration {
        let message = "x".repeat(bytes);
        self.session.broadcast(format!("echo {bytes} {times}")).wait(TIMEOUT).unwrap();
        let began = std::time::Instant::now();
        for _ in 0..times {
            self.session.send(message.clone()).wait(TIMEOUT).unwrap();
            self.session.recv().wait(TIMEOUT).unwrap();
        }
        let took = began.elapsed() / times as u32;
        self.session.recv().wait(TIMEOUT).unwrap();
        took
    }

    /// The same for commands that return the duration of each repetition.
    pub(crate) fn run(&self, command: &str) -> Vec<Duration> {
        let nanos = |word: &String| Duration::from_nanos(word.parse().unwrap());
        self.words(command).iter().map(nanos).collect()
    }
}

impl Bench {
    /// Ends the session. Returns how long it took.
    pub(crate) fn end(mut self) -> Duration {
        let began = std::time::Instant::now();
        self.session.broadcast("end").wait(TIMEOUT).unwrap();
        self.session.wait_done(TIMEOUT).unwrap();
        self.has_ended = true;
        began.elapsed()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !self.has_ended {
            self.session.broadcast("end").wait(TIMEOUT).unwrap();
            self.session.wait_done(TIMEOUT).unwrap();
        }
        if let Some(lab) = &self.lab {
            // SAFETY: as above.
            unsafe { std::env::remove_var("LIBI_TEST_SHELL") };
            let _ = std::fs::remove_dir_all(lab);
        }
    }
}
