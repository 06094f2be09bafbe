//! Calls of the stand-in shell, and what it did.

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::programs;

/// A directory with a configuration, the locks, the log, and whatever commands leave; they run in
/// it.
pub struct Lab(pub PathBuf);

#[derive(Debug)]
pub struct Ended {
    pub status: i32,
    pub out: Vec<u8>,
    pub err: String,
}

impl Lab {
    pub fn new(config: &str) -> Self {
        Self::with_exactly(&format!("locks .\nlog log\n{config}\n"))
    }

    pub fn with_exactly(config: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("shell-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let lab = Self(programs::scratch().join(name));
        let _ = fs::remove_dir_all(&lab.0); // a run that was killed may have left one
        fs::create_dir_all(&lab.0).unwrap();
        fs::write(lab.0.join("config"), config).unwrap();
        lab
    }

    pub fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(&self.0).env("LIBI_TEST_SHELL", self.0.join("config"));
        command
            .env_remove("LIBI_TEST_SHELL_HOST")
            .env("SHELL_UNDER_TEST", programs::shell())
            .env("USER", "me");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn call(&self, words: &[&str]) -> Ended {
        let output = self.command(programs::shell(), words).output().unwrap();
        Ended {
            status: output.status.code().unwrap(),
            out: output.stdout,
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// A call whose standard input and output this test holds.
    pub fn start(&self, words: &[&str]) -> Started {
        let mut command = self.command(programs::shell(), words);
        Started(command.stdin(Stdio::piped()).stderr(Stdio::null()).process_group(0).spawn().unwrap())
    }

    /// The lines of the log, in the order of their writing.
    pub fn log(&self) -> Vec<HashMap<String, String>> {
        let text = fs::read_to_string(self.0.join("log")).unwrap_or_default();
        let field = |field: &str| field.split_once('=').map(|(k, v)| (k.to_owned(), v.to_owned())).unwrap();
        text.lines().map(|line| line.split(' ').map(field).collect()).collect()
    }

    pub fn fates(&self) -> Vec<String> {
        self.log().into_iter().map(|mut line| line.remove("fate").unwrap()).collect()
    }

    pub fn has(&self, file: &str) -> bool {
        self.0.join(file).exists()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A call that runs; it ends with the test.
pub struct Started(pub Child);

impl Started {
    pub fn write(&mut self, text: &str) -> std::io::Result<()> {
        self.0.stdin.as_mut().unwrap().write_all(text.as_bytes())
    }

    /// Reads exactly so much as this text has, which it has to be.
    pub fn expect(&mut self, text: &str) {
        let mut bytes = vec![0; text.len()];
        self.0.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    /// Reads what is left, to the end.
    pub fn rest(&mut self) -> String {
        let mut text = String::new();
        self.0.stdout.as_mut().unwrap().read_to_string(&mut text).unwrap();
        text
    }

    /// Signals it, with the process group it is in.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -s {name} -- -{}", self.0.id());
        assert!(Command::new("/bin/sh").args(["-c", &kill]).status().unwrap().success());
    }

    pub fn status(&mut self) -> Option<i32> {
        let mut status = None;
        eventually("the call has ended", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap().code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until it has, for less long than a hang lasts by itself.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    const TIMEOUT: Duration = Duration::from_secs(40);
    let deadline = Instant::now() + TIMEOUT;
    while !happened() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}
