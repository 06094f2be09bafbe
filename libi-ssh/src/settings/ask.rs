//! Asks `ssh -G`, once for each [class](super::classes) of hosts.
//!
//! Askers of one class wait for the first answer; the others are derived from it. Where that is
//! impossible, because the name of the host appears in a value, each host is asked for by itself.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::hash::Hash;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::process::Command;
use tokio::sync::{OnceCell, Semaphore};
use tokio::time::timeout;

use super::classes::{Class, Scan};
use super::{Context, Declined, Dump, HostKeyLists, Role, Settings};

/// A configuration may run commands (`Match exec`) that hang.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Processes at the same time.
const AT_ONCE: usize = 4;

/// What the settings of a host depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    /// `ssh`, as the start names it.
    pub(crate) program: &'a OsStr,
    pub(crate) options: &'a [OsString],
    pub(crate) host: &'a str,
    pub(crate) role: Role,
}

/// Everything that has been asked by this process.
pub(crate) struct Asker {
    context: Context<'static>,
    scans: Cache<Vec<OsString>, Arc<Scan>>,
    dumps: Cache<(OsString, Vec<OsString>, Class), Result<Answer, Declined>>,
    /// `HostKeyAlgorithms` without a configuration, of each program.
    defaults: Cache<OsString, Result<Vec<String>, Declined>>,
    turns: Semaphore,
}

#[derive(Clone, Debug)]
struct Answer {
    /// The host that was asked for.
    host: String,
    dump: Arc<Dump>,
}

/// Values that are made once. Those that ask for one that is being made wait for it.
struct Cache<K, V>(Mutex<HashMap<K, Arc<OnceCell<V>>>>);

impl<K: Eq + Hash, V: Clone> Cache<K, V> {
    fn new() -> Self {
        Self(Mutex::new(HashMap::new()))
    }

    async fn get(&self, key: K, make: impl Future<Output = V>) -> V {
        let cell = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(key).or_default())
        };
        cell.get_or_init(|| make).await.clone()
    }
}

impl Asker {
    pub(crate) fn new(context: Context<'static>) -> Self {
        Self {
            context,
            scans: Cache::new(),
            dumps: Cache::new(),
            defaults: Cache::new(),
            turns: Semaphore::new(AT_ONCE),
        }
    }

    /// The settings of a host, or why it is declined.
    pub(crate) async fn settings(&self, question: Question<'_>) -> Result<Settings, Declined> {
        let Question { program, options, host, role } = question;
        // A few small files.
        let scan =
            self.scans.get(options.to_vec(), async { Arc::new(Scan::of(options, &self.context)) }).await;
        let answer = self.dump(question, scan.class(host)).await?;
        let derived = if answer.host == host {
            Some((*answer.dump).clone())
        } else {
            answer.dump.renamed(&answer.host, host)
        };
        let dump = match derived {
            Some(dump) => dump,
            None => (*self.dump(question, Class::Own(host.to_owned())).await?.dump).clone(),
        };
        let lists = match scan.may_set_host_keys {
            true => HostKeyLists::Configured {
                default: self.default_host_keys(program).await?,
                may_be_shortened: scan.may_shorten_host_keys,
            },
            false => HostKeyLists::Default,
        };
        Settings::from_dump(&dump, host, role, &lists, &self.context)
    }

    async fn default_host_keys(&self, program: &OsStr) -> Result<Vec<String>, Declined> {
        let asked = self.defaults.get(program.to_owned(), async {
            let nothing = [OsString::from("-F"), OsString::from("none")];
            let dump = self.ask(program, &nothing, "localhost").await?;
            dump.list("HostKeyAlgorithms").ok_or(Declined::Missing("HostKeyAlgorithms"))
        });
        asked.await
    }

    async fn dump(&self, question: Question<'_>, class: Class) -> Result<Answer, Declined> {
        let Question { program, options, host, .. } = question;
        let key = (program.to_owned(), options.to_vec(), class);
        let answer = self.dumps.get(key, async {
            let dump = self.ask(program, options, host).await?;
            Ok(Answer { host: host.to_owned(), dump: Arc::new(dump) })
        });
        answer.await
    }

    /// Runs `ssh -G`.
    async fn ask(&self, program: &OsStr, options: &[OsString], host: &str) -> Result<Dump, Declined> {
        let declined = Declined::NotAnswered;
        let _turn = self.turns.acquire().await.map_err(|_| declined("was not asked"))?;
        let mut command = Command::new(program);
        command.arg("-G").args(options).arg(host);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let output =
            timeout(TIMEOUT, command.output()).await.map_err(|_| declined("has not ended in time"))?;
        let output = output.map_err(|_| declined("could not be started"))?;
        if !output.status.success() {
            return Err(refused(&output.stderr));
        }
        let text = String::from_utf8(output.stdout).map_err(|_| declined("prints what is not text"))?;
        Ok(Dump::parse(&text))
    }
}

/// What `ssh -G` has failed at: the first line that it prints is about the cause.
fn refused(printed: &[u8]) -> Declined {
    const LONGEST: usize = 200;
    let printed = String::from_utf8_lossy(printed);
    let line = printed.lines().map(str::trim).find(|line| !line.is_empty());
    match line {
        Some(line) => {
            Declined::Refused(line.chars().filter(|letter| !letter.is_control()).take(LONGEST).collect())
        }
        None => Declined::NotAnswered("has failed"),
    }
}

#[cfg(test)]
mod tests;
