//! A tool that shows where all processes of a running parallel job are: it has gdb print the stack of each on
//! its own host, and merges the stacks on their way up the tree.
//!
//! ```text
//! $ cargo run --release --example stacks -- $(pgrep -o -x mpirun) --svg stacks.svg
//! 8 processes on 1 host
//! main                              ranks 0-7
//!   solve
//!     exchange                      ranks 0-2, 4-7
//!       __libc_pause
//!     read_input                    rank 3
//!       __libc_pause
//! ```
//!
//! The job is named by the process ID of its launcher on this machine: `srun`, `mpirun` of Open
//! MPI, `mpiexec` of MPICH, or another that has a table of its processes. With `--svg FILE` the
//! tree is drawn as well. The hosts need `gdb`, and the right to trace: the same user as the job's,
//! with 0 in `/proc/sys/kernel/yama/ptrace_scope`, or root. Each process is stopped as long as gdb
//! looks at it, and goes on. A process that gdb may not look at is shown with the reason.
//!
//! What it shows of libi: `Job::attach` finds the processes of a job, `FrontEnd::launch_beside`
//! launches a daemon on each of its hosts, `Member::targets` are the processes there, and
//! `Member::reduce_by` merges their stacks. The program is two: started by a user it is the tool;
//! started by the tool it is a daemon.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use libi::job::{Job, LauncherKind, Target};
use libi::{Distribution, FrontEnd, InitError, LaunchOptions, Member, Ranks, Srun, Ssh};
use serde::{Deserialize, Serialize};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The timeout of every call; of reading the table of the job; and of gdb, for one process.
const TIMEOUT: Duration = Duration::from_secs(300);
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);
const GDB_TIMEOUT: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let done = match Member::init() {
        Ok(member) => serve(&member),
        Err(InitError::StartedByHand) => show(&std::env::args().skip(1).collect::<Vec<_>>()),
        Err(error) => Err(error.into()),
    };
    if let Err(error) = &done {
        eprintln!("stacks: {error}");
    }
    ExitCode::from(u8::from(done.is_err()))
}

/// Stacks that begin with the same functions: the processes that have called this one, and what they have
/// called from there.
#[derive(Default, Serialize, Deserialize)]
struct Calls {
    ranks: Ranks,
    below: BTreeMap<String, Calls>,
}

impl Calls {
    /// The stack of a process, from its outermost function on.
    fn of(target: &Target, stack: &[String]) -> Self {
        let below = stack.split_first().map(|(function, rest)| (function.clone(), Self::of(target, rest)));
        Self { ranks: [target.rank()].into_iter().collect(), below: below.into_iter().collect() }
    }

    fn merge(&mut self, other: Self) {
        self.ranks.add_all(&other.ranks);
        for (function, calls) in other.below {
            self.below.entry(function).or_default().merge(calls);
        }
    }

    fn encoded(&self) -> Vec<u8> {
        postcard::to_allocvec(self).unwrap_or_default()
    }

    /// Of bytes that are no stacks, none.
    fn decoded(bytes: &[u8]) -> Self {
        postcard::from_bytes(bytes).unwrap_or_default()
    }

    /// A line for each function, with the processes where they are others than above.
    fn print(&self, depth: usize) {
        for (function, calls) in &self.below {
            let name = format!("{:indent$}{function}", "", indent = 2 * depth);
            if calls.ranks == self.ranks && depth > 0 {
                println!("{name}");
            } else {
                println!("{name:<33} {}", calls.ranks);
            }
            calls.print(depth + 1);
        }
    }

    fn depth(&self) -> usize {
        self.below.values().map(|calls| 1 + calls.depth()).max().unwrap_or(0)
    }

    /// A box for each function, as wide as there are processes in it.
    fn draw(&self, (left, top): (f64, usize), per_process: f64, svg: &mut String) {
        let mut left = left;
        for (function, calls) in &self.below {
            let (width, y) = (calls.ranks.len() as f64 * per_process, top * ROW);
            let hue =
                function.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31) + u32::from(byte)) % 360;
            let (name, letters) = (escaped(function), (width / 7.0) as usize);
            let shown = if name.len() <= letters { &*name } else { "" };
            let _ = writeln!(
                svg,
                r#"<g><title>{name}: {ranks}</title><rect x="{left:.1}" y="{y}" width="{width:.1}" height="{height}" fill="hsl({hue},60%,80%)" stroke="white"/><text x="{text:.1}" y="{base}">{shown}</text></g>"#,
                ranks = calls.ranks,
                height = ROW,
                text = left + 4.0,
                base = y + ROW - 6,
            );
            calls.draw((left, top + 1), per_process, svg);
            left += width;
        }
    }
}

/// The height of a box, and the width of the picture.
const ROW: usize = 20;
const WIDTH: f64 = 1200.0;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The tool.
fn show(words: &[String]) -> Done {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (pid, svg) = match words[..] {
        [pid] => (pid.parse().ok(), None),
        [pid, "--svg", file] | ["--svg", file, pid] => (pid.parse().ok(), Some(file)),
        _ => (None, None),
    };
    let pid = pid.ok_or("usage: stacks PID [--svg FILE], with the process ID of a launcher")?;
    // Before processes are stopped for a picture that cannot be written.
    let file = svg.map(|svg| File::create(svg).map_err(|error| format!("{svg}: {error}"))).transpose()?;
    let job = Job::attach(pid, ATTACH_TIMEOUT)?;
    let front_end = FrontEnd::new()?;
    let daemons = Distribution::new(std::env::current_exe()?);
    let session = front_end.launch_beside(&job, daemons, &options(&job))?;
    let processes = session.processes_of(&job, TIMEOUT)?.len();
    let all = Calls::decoded(&session.recv().wait(TIMEOUT)?);
    let hosts = job.hosts().len();
    println!("{processes} processes on {hosts} host{}", if hosts == 1 { "" } else { "s" });
    all.print(0);
    if let Some(mut file) = file {
        let height = all.depth() * ROW;
        let mut picture = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             font-family=\"monospace\" font-size=\"12\">\n"
        );
        all.draw((0.0, 0), WIDTH / all.ranks.len().max(1) as f64, &mut picture);
        file.write_all((picture + "</svg>\n").as_bytes())?;
    }
    Ok(())
}

fn options(job: &Job) -> LaunchOptions {
    let options = LaunchOptions::local();
    match job.kind() {
        LauncherKind::Srun => options.backend(Srun::new()),
        _ if job.hosts().len() == 1 => options,
        _ => options.backend(Ssh::new()),
    }
}

/// A daemon: has the stacks of its processes collected, a few at a time, and merged with those of others.
fn serve(member: &Member) -> Done {
    let targets = member.targets(TIMEOUT)?;
    let (left, merged) = (Mutex::new(targets.iter()), Mutex::new(Calls::default()));
    let next = || left.lock().ok()?.next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some(target) = next() {
                    let calls = Calls::of(target, &stack(target));
                    if let Ok(mut merged) = merged.lock() {
                        merged.merge(calls);
                    }
                }
            });
        }
    });
    let merge = |own: &mut Vec<u8>, other: &[u8]| {
        let mut calls = Calls::decoded(own);
        calls.merge(Calls::decoded(other));
        *own = calls.encoded();
    };
    let own = merged.into_inner().unwrap_or_default();
    if let Some(all) = member.reduce_by(member.master(), own.encoded(), merge).wait(TIMEOUT)? {
        member.send(all).wait(TIMEOUT)?;
    }
    member.drain(TIMEOUT)?;
    Ok(())
}

/// The functions that a process is in, the outermost first; or why that is not known.
fn stack(target: &Target) -> Vec<String> {
    match debugged(target) {
        Ok((said, _)) if said.contains("\n#") || said.starts_with('#') => {
            said.lines().rev().filter_map(function).map(str::to_owned).collect()
        }
        Ok((_, errors)) => {
            let why = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("gdb says nothing");
            vec![format!("no stack: {why}")]
        }
        Err(error) => vec![format!("no stack: gdb: {error}")],
    }
}

/// What gdb prints of a process, as output and as errors.
fn debugged(target: &Target) -> std::io::Result<(String, String)> {
    let pid = target.pid().to_string();
    let mut gdb = Command::new("gdb");
    gdb.args(["-q", "-nx", "-batch", "-ex", "set width 0", "-ex", "bt", "-p", &pid]);
    let mut gdb = gdb.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (out, errors) = (gdb.stdout.take(), gdb.stderr.take());
    let (out, errors) =
        (std::thread::spawn(move || text_of(out)), std::thread::spawn(move || text_of(errors)));
    let until = Instant::now() + GDB_TIMEOUT;
    while gdb.try_wait()?.is_none() {
        if Instant::now() >= until {
            gdb.kill()?; // the process goes on
            gdb.wait()?;
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok((out.join().unwrap_or_default(), errors.join().unwrap_or_default()))
}

fn text_of(pipe: Option<impl Read>) -> String {
    let mut text = Vec::new();
    // What was read before a failure is shown.
    let _ = pipe.map(|mut pipe| pipe.read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

/// The function in a line of a stack: `#1  0x00007f in poll () from libc.so.6`.
fn function(line: &str) -> Option<&str> {
    let line = line.strip_prefix('#')?.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start();
    let line = if line.starts_with("0x") { line.split_once(" in ")?.1 } else { line };
    Some(line.split(" (").next().unwrap_or(line).trim())
}
