//! What processes and the machine have spent of processor time, as `/proc` says.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The processes that launch: this one and members, which have its file, those of the client of ssh,
/// and every ssh that reads the configuration file.
pub(crate) struct Launching {
    files: [PathBuf; 2],
    config: Vec<u8>,
}

impl Launching {
    pub(crate) fn new(client: &str, config: &str) -> Self {
        let files = [std::env::current_exe().unwrap(), fs::canonicalize(client).unwrap()];
        Self { files, config: config.as_bytes().to_vec() }
    }

    /// Their processor time, and that of the children that they have waited for.
    pub(crate) fn spent(&self) -> Duration {
        self.directories().iter().filter_map(|directory| of_process(directory)).sum()
    }

    /// Waits until all but this process have ended.
    pub(crate) fn until_alone(&self) {
        let began = Instant::now();
        while self.directories().len() > 1 {
            assert!(began.elapsed() < Duration::from_secs(60), "processes of a launch do not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn directories(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let processes = all.filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
        processes.map(|entry| entry.path()).filter(|directory| self.has(directory)).collect()
    }

    fn has(&self, directory: &Path) -> bool {
        // A process that only waits to be waited for has no file.
        let Ok(file) = fs::read_link(directory.join("exe")) else { return false };
        let words = || fs::read(directory.join("cmdline")).unwrap_or_default();
        self.files.contains(&file)
            || file.ends_with("ssh") && words().split(|byte| *byte == 0).any(|word| word == self.config)
    }
}

/// The time that all processors have been busy since boot.
pub(crate) fn machine() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap();
    let numbers = stat.lines().next().unwrap().split_whitespace().skip(1);
    let ticks: Vec<u64> = numbers.map(|word| word.parse().unwrap()).collect();
    // The fourth and fifth columns are idle time and waiting for I/O.
    time(ticks.iter().take(7).sum::<u64>() - ticks[3] - ticks[4])
}

/// `None` if it has ended.
fn of_process(directory: &Path) -> Option<Duration> {
    let stat = fs::read_to_string(directory.join("stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |field: usize| fields.get(field)?.parse::<u64>().ok();
    // utime, stime, cutime and cstime, counted from the state.
    let (own, children) = (ticks(11)? + ticks(12)?, ticks(13)? + ticks(14)?);
    // A tick is as long as a whole ssh takes; this is exact, but has only threads that are there.
    let threads = fs::read_dir(directory.join("task")).ok()?.flatten().filter_map(|thread| {
        let spent = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        spent.split(' ').next()?.parse().ok().map(Duration::from_nanos)
    });
    Some(threads.sum::<Duration>().max(time(own)) + time(children))
}

fn time(ticks: u64) -> Duration {
    // SAFETY: returns a number.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
    Duration::from_millis(ticks * 1_000 / a_second)
}
