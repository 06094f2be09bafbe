//! A front end starts a keeper, and attaches to one.

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libi_core::dist::OsBytes;
use libi_launch::options::{CarriedOptions, Detached, KEEPER_ARG};
use libi_launch::process::{Environment, FdSource, Start};

use super::client::Attachment;
use super::message::{Launch, Setup, VERSION};
use super::ticket::{Ticket, is_in_use};
use crate::engine::fd_budget::original_limit;
use crate::front::launching::Plan;
use crate::front::runtime::FrontCommand;
use crate::front::{Error, FrontEnd, Session};

/// How long a keeper may take to start, and to accept its first front end.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a ticket file that is in use is waited for.
const IN_USE_FOR: Duration = Duration::from_secs(1);

/// Whether this program serves as a keeper if it is asked.
static SERVES: AtomicBool = AtomicBool::new(false);

/// This program serves as a keeper if it is asked.
pub(crate) fn serves() {
    SERVES.store(true, Ordering::Relaxed);
}

impl FrontEnd {
    /// Attaches to a [detached](crate::LaunchOptions::detached) session, which this ticket file admits to.
    /// A front end that had the session before has it no more: it gets
    /// [`Event::Revoked`](crate::Event::Revoked).
    ///
    /// Everything about the session is known here as it was there: its report, its ranks, which of them have
    /// ended. Events that the front end before has not taken, messages that it has not received, follow.
    /// A session that is over is found until its time without a front end has passed, once.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use libi::{Detached, Distribution, FrontEnd, LaunchOptions};
    ///
    /// libi::agent::serve_if_asked(); // it is the keeper, too
    /// let front_end = FrontEnd::new()?;
    /// let session = match front_end.attach("daemons.ticket", Duration::from_secs(10)) {
    ///     Ok(session) => session, // they are running
    ///     Err(_) => {
    ///         let detached = Detached::new("daemons.ticket", Duration::from_secs(3600));
    ///         let options = LaunchOptions::new().detached(detached);
    ///         front_end.launch(&Distribution::new("daemon").hosts("node[1-4]"), &options)?
    ///     }
    /// };
    /// # let _ = session;
    /// # Ok::<(), libi::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotAttached`]: the file is missing, is not this user's or can be read by others; nothing
    /// answers where it says; the keeper is of another version of libi; or `timeout` elapsed first.
    pub fn attach(&self, ticket: impl AsRef<Path>, timeout: Duration) -> Result<Session, Error> {
        let path = ticket.as_ref();
        self.attach_to(path, None, timeout).map_err(|why| Error::NotAttached { ticket: path.to_owned(), why })
    }

    fn attach_to(
        &self,
        path: &Path,
        launch: Option<Box<Launch>>,
        timeout: Duration,
    ) -> Result<Session, String> {
        let ticket = Ticket::read(path)?;
        if ticket.host == host_name() && !is_in_use(path) {
            return Err(format!("{}, which kept it, has ended", ticket.place()));
        }
        let (number, place) = (self.next_number(), ticket.place());
        self.runtime.with(|state| state.attaching.insert(number, None));
        let attachment = Attachment { ticket, launch, timeout };
        self.runtime.send(FrontCommand::Attach(number, Box::new(attachment)));
        let answer = self.runtime.wait(timeout, |state| state.attaching.get(&number)?.clone());
        self.runtime.with(|state| state.attaching.remove(&number));
        match answer {
            Some(Ok(layout)) => {
                let runtime = Arc::clone(&self.runtime);
                Ok(Session { runtime, number, layout, is_kept: true })
            }
            Some(Err(why)) => Err(why),
            None => {
                self.runtime.send(FrontCommand::Retire(number));
                Err(format!("{place}, which keeps it, has not answered in time"))
            }
        }
    }

    /// Starts a keeper, and has it launch a session.
    pub(in crate::front) fn start_detached(
        &self,
        plan: &Plan<'_>,
        detached: &Detached,
    ) -> Result<Session, Error> {
        let path = absolute(&detached.ticket).map_err(|why| Error::Keeper(why.to_string()))?;
        // A front end that has left a session that is over need not wait for the end of its keeper.
        let by = Instant::now() + IN_USE_FOR;
        while is_in_use(&path) && Instant::now() < by {
            self.runtime.wait(Duration::from_millis(5), |_| None::<()>);
        }
        start_keeper(&path, detached)?;
        let launch = Launch {
            layout: plan.layout.clone(),
            programs: plan.programs.to_vec(),
            backend: plan.backend.clone(),
            reason: plan.reason.clone(),
            options: CarriedOptions::new(plan.options),
        };
        self.attach_to(&path, Some(Box::new(launch)), START_TIMEOUT).map_err(Error::Keeper)
    }
}

/// Starts a keeper, and waits until its ticket file is there.
fn start_keeper(ticket: &Path, detached: &Detached) -> Result<(), Error> {
    let program = keeper_program(detached)?;
    let system = |what: &'static str| move |why: io::Error| Error::Keeper(format!("{what}: {why}"));
    let (mut ours, its) = UnixStream::pair().map_err(system("a socket"))?;
    let name = program.as_os_str().as_bytes();
    let program_name = OsBytes::new(name).map_err(|why| Error::Keeper(why.to_string()))?;
    let mut start = Start::new(program_name, Environment::inherited()).fd(0, its.as_fd());
    start.args = OsBytes::try_from(KEEPER_ARG).into_iter().collect();
    start.fds.extend([(1, FdSource::Null), (2, FdSource::Null)]);
    start.open_files = original_limit();
    start.guarded = false;
    let mut child = start.start().map_err(|why| Error::Keeper(why.to_string()))?;
    drop(its);
    let setup = Setup {
        version: VERSION.to_owned(),
        ticket: ticket.as_os_str().as_bytes().to_vec(),
        limit: detached.limit,
        reachable: detached.reachable,
    };
    let setup = postcard::to_allocvec(&setup).map_err(|why| Error::Keeper(why.to_string()))?;
    ours.set_read_timeout(Some(START_TIMEOUT)).map_err(system("a socket"))?;
    // A program that has ended at once takes none of it.
    let _ = ours.write_all(&setup).and_then(|()| ours.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    let answered = ours.read_to_end(&mut answer);
    // It has left this process behind, and the process that was started here ends at once; if it has
    // not, it is killed now.
    child.wait_for(Duration::from_secs(1));
    match answered {
        Ok(_) if answer == READY => Ok(()),
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => {
            Err(Error::Keeper(format!("{} has not answered in time", program.display())))
        }
        _ if answer.is_empty() => Err(Error::Keeper(format!(
            "{} has ended at once; does it call libi::agent::serve_if_asked?",
            program.display()
        ))),
        _ => Err(Error::Keeper(String::from_utf8_lossy(&answer).into_owned())),
    }
}

/// What a keeper answers when its ticket file is there; otherwise, why there is none.
pub(super) const READY: &[u8] = b"ready";

fn keeper_program(detached: &Detached) -> Result<PathBuf, Error> {
    match &detached.program {
        Some(program) => Ok(program.clone()),
        None if SERVES.load(Ordering::Relaxed) => {
            std::env::current_exe().map_err(|why| Error::Keeper(why.to_string()))
        }
        None => Err(Error::NoKeeper),
    }
}

/// The name of this machine.
pub(super) fn host_name() -> String {
    nix::unistd::gethostname().map_or_else(|_| String::new(), |name| name.to_string_lossy().into_owned())
}
