//! Commands: programs that run on hosts of a session that is up, without a further launch.

mod report;
mod statuses;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use libi_core::dist;
use libi_core::hosts::{HostList, HostListError, HostRef};
use libi_core::ids::HostIndex;
use libi_launch::machine::{CommandId, CommandOutcome, CommandRequest, Event as Input};

pub use self::report::{CommandReport, ProcessOutcome, ProcessReport};
pub(super) use self::statuses::CommandStatuses;
use super::Error;
use super::distribution::{Distribution, DistributionError};
use super::program::program;
use super::runtime::{FrontCommand, FrontRuntime};
use super::session::{Session, SessionNumber, SessionStatus};

/// What [`Session::spawn`] runs: a program, and the hosts of the session that it runs on.
///
/// ```no_run
/// use std::time::Duration;
/// use libi::{Agent, Command, Distribution, Event, FrontEnd, LaunchOptions, OsBytes, Programs};
///
/// // A session of agents alone; commands are run in it without another launch.
/// libi::agent::serve_if_asked();
/// let own_path = OsBytes::try_from("/opt/tool/bin/tool").unwrap();
/// let options = LaunchOptions::new().agent(Agent::new(own_path)).programs(Programs::None);
/// let front_end = FrontEnd::new()?;
/// let session = front_end.launch(&Distribution::idle("node[1-8]"), &options)?;
///
/// let everywhere = session.spawn(&Command::new("uname").arg("-r"))?;
/// let some = Command::new("df").arg("/scratch").hosts("node[1-2]").timeout(Duration::from_secs(5));
/// let some = session.spawn(&some)?; // both run at the same time
/// while let Some(event) = front_end.next_event(Duration::from_secs(60)) {
///     match event {
///         Event::CommandOutput { host_name, bytes, .. } => {
///             print!("{host_name}: {}", String::from_utf8_lossy(&bytes));
///         }
///         Event::CommandDone { command, .. } if command == everywhere.id() => break,
///         _ => {}
///     }
/// }
/// let report = some.wait(Duration::from_secs(10))?;
/// assert!(report.is_success(), "{report}");
/// # Ok::<(), libi::Error>(())
/// ```
///
/// Invalid values are reported by [`Session::spawn`]; of several the first one.
#[derive(Clone, Debug)]
#[must_use = "a command does nothing until it is spawned"]
pub struct Command {
    program: Distribution,
    hosts: Option<Result<HostList, HostListError>>,
    per_host: NonZeroU16,
    timeout: Option<Duration>,
}

impl Command {
    /// One process of this program, without arguments, on each host of the session. How the program
    /// is found is told at [`Distribution::new`].
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self { program: Distribution::new(program), hosts: None, per_host: NonZeroU16::MIN, timeout: None }
    }

    /// Adds an argument.
    pub fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        Self { program: self.program.arg(arg), ..self }
    }

    /// Adds arguments.
    pub fn args(self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self { program: self.program.args(args), ..self }
    }

    /// Sets a variable in addition to the environment that the host provides.
    ///
    /// Each process also finds `LIBI_HOST`, the name of its host in the host list, `LIBI_LOCAL_RANK`
    /// and `LIBI_LOCAL_SIZE`: its number among the processes of the command on its host, and how many
    /// these are.
    pub fn env(self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        Self { program: self.program.env(name, value), ..self }
    }

    /// Sets the working directory; see [`Distribution::current_dir`].
    pub fn current_dir(self, directory: impl AsRef<Path>) -> Self {
        Self { program: self.program.current_dir(directory), ..self }
    }

    /// Sets the hosts, which have to be hosts of the session: a [`HostList`] or its text. Counts in it
    /// have no meaning. By default it is all hosts that are [left](Session::live_hosts).
    pub fn hosts<H: TryInto<HostList, Error: Into<HostListError>>>(self, hosts: H) -> Self {
        Self { hosts: Some(hosts.try_into().map_err(Into::into)), ..self }
    }

    /// Sets how many processes run on each host: by default one.
    pub fn per_host(self, per_host: NonZeroU16) -> Self {
        Self { per_host, ..self }
    }

    /// Sets the time after which processes that have not ended are killed, and reported as
    /// [late](ProcessOutcome::TimedOut). By default a command has as much time as the session.
    pub fn timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }
}

impl From<dist::Distribution> for Command {
    /// The program of the distribution. Its hosts and its session have no meaning.
    fn from(program: dist::Distribution) -> Self {
        Self { program: program.into(), ..Self::new("") }
    }
}

/// A command that [`Session::spawn`] has started. Dropping it does not end the command.
pub struct Spawned {
    runtime: Arc<FrontRuntime>,
    session: SessionNumber,
    id: CommandId,
    hosts: Vec<HostIndex>,
}

impl Spawned {
    /// The number of the command, which its events carry.
    #[must_use]
    pub fn id(&self) -> CommandId {
        self.id
    }

    /// The hosts that the command runs on, in the order of the session.
    #[must_use]
    pub fn hosts(&self) -> &[HostIndex] {
        &self.hosts
    }

    /// Sends this signal to the processes of the command that have not ended, and to processes that
    /// these have started in their process groups.
    ///
    /// # Errors
    /// The signal number is invalid.
    pub fn kill(&self, signal: i32) -> Result<(), Error> {
        self.send_signal(None, signal)
    }

    /// The same, on these hosts only.
    ///
    /// # Errors
    /// The signal number is invalid.
    pub fn kill_on(&self, hosts: &[HostIndex], signal: i32) -> Result<(), Error> {
        self.send_signal(Some(hosts.to_vec()), signal)
    }

    fn send_signal(&self, hosts: Option<Vec<HostIndex>>, signal: i32) -> Result<(), Error> {
        if !(1..=64).contains(&signal) {
            return Err(Error::NoSignal(signal));
        }
        self.runtime.send(FrontCommand::Tell(self.session, Input::SignalCommand(self.id, hosts, signal)));
        Ok(())
    }

    /// Waits until all processes of the command have ended, or their hosts are lost. A process counts
    /// as ended when its output has been taken with
    /// [`FrontEnd::next_event`](super::FrontEnd::next_event), except for the last of it, at most 64
    /// KiB.
    ///
    /// # Errors
    /// `timeout` elapsed first, or nothing is left of the session.
    pub fn wait(&self, timeout: Duration) -> Result<CommandReport, Error> {
        let report = self.runtime.wait(timeout, |state| {
            let Some(status) = state.sessions.get(&self.session) else { return Some(Err(Error::Closed)) };
            status.commands.report(self.id).map(Ok)
        });
        report.unwrap_or(Err(Error::TimedOut("the command")))
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        let forget = |status: &mut SessionStatus| status.commands.forget(self.id);
        self.runtime.with(|state| state.sessions.get_mut(&self.session).map(forget));
    }
}

impl SessionStatus {
    /// The outcome of a process, in words.
    pub(super) fn process_outcome(&self, outcome: CommandOutcome) -> ProcessOutcome {
        match outcome {
            CommandOutcome::Exited(exit) => ProcessOutcome::Exited(exit),
            CommandOutcome::NotStarted(why) => ProcessOutcome::NotStarted(why),
            CommandOutcome::Lost(failure) => ProcessOutcome::Lost(self.cause(&failure)),
            CommandOutcome::TimedOut => ProcessOutcome::TimedOut,
        }
    }

    /// The hosts of a list, which have to be in the session and not lost.
    fn chosen(&self, list: &HostList) -> Result<Vec<HostIndex>, Error> {
        let live = self.live_hosts();
        let mut by_name: BTreeMap<String, Vec<HostIndex>> = BTreeMap::new();
        for host in &live {
            by_name.entry(self.host_name(*host)).or_default().push(*host);
        }
        let mut chosen = Vec::new();
        for entry in list {
            let named = by_name.get(entry.name).into_iter().flatten();
            let before = chosen.len();
            chosen.extend(named.filter(|host| self.is_entry(**host, entry)));
            if chosen.len() == before {
                return Err(Error::NotInSession(entry.to_string()));
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        Ok(chosen)
    }

    /// Whether an entry of a list, which may name user and port, means this host.
    fn is_entry(&self, host: HostIndex, entry: HostRef<'_>) -> bool {
        let Some(known) = self.layout().hosts().entry(host.0 as usize) else { return false };
        let same_user = entry.user.is_none() || entry.user == known.user;
        same_user && (entry.port.is_none() || entry.port == known.port)
    }
}

impl Session {
    /// Runs a command on hosts of the session, which has to be up and to be led by
    /// [agents](super::LaunchOptions::agent). Nothing is launched: the agents start the processes.
    ///
    /// Returns at once. Output and ends are reported as [events](super::Event::CommandOutput); any
    /// number of commands may run at the same time. The standard input of their processes is empty.
    /// Processes end with the session, and no process outlives its agent.
    ///
    /// # Errors
    /// The command is invalid, or names a host that is not in the session or lost; the session has no
    /// agents, or is not up.
    pub fn spawn(&self, command: &Command) -> Result<Spawned, Error> {
        let checked = command.program.checked()?;
        let list = command.hosts.clone().transpose().map_err(DistributionError::Hosts)?;
        let program = program(&checked);
        let started = self.runtime.with(|state| {
            let status = state.sessions.get_mut(&self.number).ok_or(Error::Closed)?;
            status.check_spawns()?;
            let hosts = list.as_ref().map_or_else(|| Ok(status.live_hosts()), |list| status.chosen(list))?;
            if hosts.is_empty() {
                return Err(Error::NoHostLeft);
            }
            Ok((status.commands.add(), hosts))
        });
        let (id, hosts) = started?;
        let (per_host, timeout) = (command.per_host, command.timeout);
        let request = CommandRequest { command: id, program, hosts: hosts.clone(), per_host, timeout };
        self.runtime.send(FrontCommand::Tell(self.number, Input::Spawn(Box::new(request))));
        Ok(Spawned { runtime: Arc::clone(&self.runtime), session: self.number, id, hosts })
    }

    /// The hosts that are in the session and not lost, which commands can run on.
    #[must_use]
    pub fn live_hosts(&self) -> Vec<HostIndex> {
        self.status(SessionStatus::live_hosts).unwrap_or_default()
    }

    /// The name of a host of the session; if it was replaced, that of the spare.
    #[must_use]
    pub fn host_name(&self, host: HostIndex) -> String {
        self.status(|status| status.host_name(host)).unwrap_or_default()
    }
}
