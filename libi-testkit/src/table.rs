//! Tables of failures: what was done to the way to a host, what the report said, and how long that
//! took.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use libi::{Backend, Error, FrontEnd, LaunchOptions, LaunchReport, LinkPolicy, Rules};

use crate::labs::Marked;

/// How long a host may say nothing.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(4);
/// How long everything else may take, on a machine that does much else.
const SLACK: Duration = Duration::from_secs(8);
const DEADLINE: Duration = Duration::from_secs(60);

/// A launch that fails.
pub struct Row<'a> {
    what: &'a str,
    host: String,
    backend: Backend,
    change: Box<dyn Fn(&mut libi_core::dist::Distribution) + 'a>,
    /// What is done after the report, before the check that nothing is left.
    then: Box<dyn Fn() + 'a>,
    /// Each has to be in the report.
    says: &'a [&'a str],
    within: Duration,
}

impl<'a> Row<'a> {
    pub fn new(what: &'a str, host: &str, backend: Backend, says: &'a [&'a str]) -> Self {
        Self {
            what,
            host: host.to_owned(),
            backend,
            change: Box::new(|_| ()),
            then: Box::new(|| ()),
            says,
            within: SLACK,
        }
    }

    pub fn what(&self) -> &str {
        self.what
    }

    pub fn host(mut self, host: &str) -> Self {
        self.host = host.to_owned();
        self
    }

    pub fn user(self, user: &str) -> Self {
        let host = format!("{user}@{}", self.host);
        self.host(&host)
    }

    pub fn with(mut self, change: impl Fn(&mut libi_core::dist::Distribution) + 'a) -> Self {
        self.change = Box::new(change);
        self
    }

    pub fn then(mut self, then: impl Fn() + 'a) -> Self {
        self.then = Box::new(then);
        self
    }

    /// Only libi itself can know.
    pub fn hangs(mut self) -> Self {
        self.within = HELLO_TIMEOUT + SLACK;
        self
    }

    /// Launches it, and returns the report.
    fn play(&self, member: &str) -> Arc<LaunchReport> {
        let (mark, front) = (Marked::new(), FrontEnd::new().unwrap());
        let mut members = mark.spec(member, &self.host, &["join", "finish:30000"]);
        (self.change)(&mut members);
        let rules = Rules {
            hello_timeout: HELLO_TIMEOUT,
            attempts: 1,
            kill_grace: Duration::from_secs(1),
            ..Rules::default()
        };
        let options = LaunchOptions::local()
            .backend(self.backend.clone())
            .deadline(DEADLINE)
            .rules(rules)
            .links(LinkPolicy::Channel)
            .allow_plain(true);
        let launched = front.launch_all(&[members.into()], &options);
        (self.then)();
        match launched {
            Err(Error::NotLaunched(report)) => report,
            Err(error) => panic!("{}: {error}", self.what),
            Ok(_) => panic!("{} does not keep it from joining", self.what),
        }
    }
}

/// A server that is none: what it does with those who connect. It ends with this.
pub struct Fake {
    pub port: u16,
    is_over: Arc<AtomicBool>,
}

impl Fake {
    pub fn new(serve: impl Fn(TcpStream) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.1.6:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                if over.load(SeqCst) {
                    break;
                }
                serve(caller);
            }
        });
        Self { port, is_over }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.is_over.store(true, SeqCst);
        let _ = TcpStream::connect(("127.0.1.6", self.port));
    }
}

/// Keeps whom it is given until they hang up.
pub fn keep(mut caller: TcpStream) {
    std::thread::spawn(move || while caller.read(&mut [0; 512]).is_ok_and(|count| count > 0) {});
}

/// The longest line of a table's column is this long.
fn cut(text: &str) -> String {
    text.chars().take(150).collect()
}

/// Plays every row, prints the table, and fails where a report says too little or comes too late.
pub fn play(rows: &[Row<'_>], member: &str) {
    let mut wrong = Vec::new();
    for row in rows {
        let began = Instant::now();
        let report = row.play(member);
        let (took, failure) = (began.elapsed(), report.hosts()[0].failure.as_ref().unwrap());
        let text = report.to_string();
        let line = text.lines().nth(1).unwrap_or_default().trim();
        println!("{:48} {:>8.3} s  {}", row.what, took.as_secs_f64(), cut(line));
        let missing: Vec<_> = row.says.iter().filter(|words| !text.contains(**words)).collect();
        if !missing.is_empty() || took > row.within {
            wrong.push(format!("{}: {missing:?} missing, {took:?}:\n{text}\n{failure:?}", row.what));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n\n{}", wrong.len(), rows.len(), wrong.join("\n\n"));
}
