//! A front end starts a keeper, here or on another host.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf, absolute};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use libi_core::dist::OsBytes;
use libi_core::hosts::HostList;
use libi_core::ids::HostIndex;
use libi_launch::backend::{Backend, Channel, LaunchMethod, Local, SpawnSpec, Ssh};
use libi_launch::machine::{HostSpec, Program};
use libi_launch::options::{CarriedOptions, Detached, KEEPER_ARG, LaunchOptions};
use libi_launch::process::{Environment, FdSource, Start};
use zeroize::Zeroizing;

use super::message::{Launch, READY, REFUSED, Setup, VERSION};
use super::ticket::{IN_USE, Ticket, is_in_use};
use crate::engine::fd_budget::original_limit;
use crate::front::choice::auto_backend;
use crate::front::launching::{Plan, host_spec};
use crate::front::{Error, FrontEnd, Session};

/// How long a keeper on this machine may take to start, and each to accept its first front end.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a ticket file that is in use is waited for.
const IN_USE_FOR: Duration = Duration::from_secs(1);

/// Whether this program serves as a keeper if it is asked.
static SERVES: AtomicBool = AtomicBool::new(false);

/// This program serves as a keeper if it is asked.
pub(crate) fn serves() {
    SERVES.store(true, Ordering::Relaxed);
}

/// The options of a launch that another host makes, if a keeper there does: none of the hosts is this
/// machine for it.
pub(in crate::front) fn launched_elsewhere(
    options: &LaunchOptions,
    hosts: &HostList,
) -> Result<Option<LaunchOptions>, Error> {
    if options.detached.as_ref().is_none_or(|detached| detached.host.is_none()) {
        return Ok(None);
    }
    let mut options = options.clone();
    if options.backend.is_none() && auto_backend(hosts)?.0.is_local() {
        options.backend = Some(Ssh::new().into());
    }
    Ok(Some(options))
}

impl FrontEnd {
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
        let program = keeper_program(detached)?;
        let mut options = plan.options.clone();
        match &detached.host {
            None => start_here(&path, &program, detached)?,
            Some(host) => {
                options.local_hosts = HostList::new();
                start_there(host, plan, &path, &program, detached)?;
            }
        }
        let launch = Launch {
            layout: plan.layout.clone(),
            programs: plan.programs.to_vec(),
            backend: plan.backend.clone(),
            reason: plan.reason.clone(),
            options: CarriedOptions::new(&options),
        };
        self.attach_to(&path, Some(Box::new(launch)), START_TIMEOUT).map_err(Error::Keeper)
    }
}

/// Starts a keeper on this machine, which writes the ticket file.
fn start_here(ticket: &Path, program: &Path, detached: &Detached) -> Result<(), Error> {
    let setup = Setup {
        version: VERSION.to_owned(),
        ticket: Some(ticket.as_os_str().as_bytes().to_vec()),
        limit: detached.limit,
        reachable: detached.reachable,
    };
    let spec = Local::start_unlinked(&to_be_started(program)?);
    started(&spec, &setup, START_TIMEOUT, &program.display().to_string()).map(drop)
}

/// Starts a keeper on another host, and writes the ticket file for it.
fn start_there(
    host: &str,
    plan: &Plan<'_>,
    ticket: &Path,
    program: &Path,
    detached: &Detached,
) -> Result<(), Error> {
    if is_in_use(ticket) {
        return Err(Error::Keeper(format!("cannot write the ticket file {}: {IN_USE}", ticket.display())));
    }
    let list = HostList::parse(host).map_err(|why| Error::Keeper(format!("{host}: {why}")))?;
    let (Some(named), 1) = (list.entry(0), list.len()) else {
        return Err(Error::Keeper(format!("{host} is not one host")));
    };
    let spec = remote_spec(plan.backend, &host_spec(HostIndex(0), named), &to_be_started(program)?)?;
    let setup = Setup { version: VERSION.to_owned(), ticket: None, limit: detached.limit, reachable: true };
    let what = format!("{} on {host}", program.display());
    let text = started(&spec, &setup, plan.options.rules.hello_timeout, &what)?;
    let written = Ticket::parse(&text).ok_or_else(|| Error::Keeper(format!("{what} gives no ticket")))?;
    let unwritable = |why| Error::Keeper(format!("cannot write the ticket file {}: {why}", ticket.display()));
    written.write_for_another(ticket).map_err(unwritable)
}

/// What starts a keeper on a host, through streams that carry nothing else.
fn remote_spec(backend: &Backend, host: &HostSpec, program: &Program) -> Result<SpawnSpec, Error> {
    let unfit = || Error::Keeper(format!("{backend} cannot start a keeper on {}; use ssh", host.name));
    if backend.bulk().is_some() {
        return Err(unfit());
    }
    let spec = backend.spawn_spec(host, program).map_err(|why| Error::Keeper(why.to_string()))?;
    if spec.channel == Channel::Streams && spec.trailer.is_none() { Ok(spec) } else { Err(unfit()) }
}

fn to_be_started(program: &Path) -> Result<Program, Error> {
    let name = OsBytes::new(program.as_os_str().as_bytes()).map_err(|why| Error::Keeper(why.to_string()))?;
    let args = OsBytes::try_from(KEEPER_ARG).into_iter().collect();
    Ok(Program { executable: name, args, env: Vec::new(), cwd: None })
}

/// Starts a keeper, tells it what it keeps, and returns what it answers.
fn started(
    spec: &SpawnSpec,
    setup: &Setup,
    timeout: Duration,
    what: &str,
) -> Result<Zeroizing<String>, Error> {
    let failed = |why: &dyn std::fmt::Display| Error::Keeper(format!("{what}: {why}"));
    let (mut ours, its) = UnixStream::pair().map_err(|why| failed(&why))?;
    let (mut said, its_errors) = UnixStream::pair().map_err(|why| failed(&why))?;
    let environment = Environment::inherited().with(spec.env.iter().cloned());
    let mut start = Start::new(spec.program.clone(), environment).fd(0, its.as_fd()).fd(1, its.as_fd());
    start.fds.insert(2, FdSource::File(its_errors.as_fd()));
    start.args.clone_from(&spec.args);
    start.open_files = original_limit();
    start.guarded = false;
    let mut child = start.start().map_err(|why| failed(&why))?;
    drop(start);
    drop((its, its_errors));
    let setup = postcard::to_allocvec(setup).map_err(|why| failed(&why))?;
    ours.set_read_timeout(Some(timeout)).map_err(|why| failed(&why))?;
    // A program that has ended at once takes none of it.
    let _ = ours.write_all(&spec.initial_input);
    let _ = ours.write_all(&setup).and_then(|()| ours.shutdown(Shutdown::Write));
    // It may have the secret.
    let mut answer = Zeroizing::new(Vec::with_capacity(64 << 10));
    let read = ours.read_to_end(&mut answer);
    // The keeper has left this process, and what was started here ends at once; if it has not, it is
    // killed now.
    child.wait_for(Duration::from_secs(1));
    drop(child);
    let answer = Zeroizing::new(String::from_utf8_lossy(&answer).into_owned());
    if let Some((_, text)) = answer.split_once(READY) {
        return Ok(Zeroizing::new(text.to_owned()));
    }
    if let Some((_, why)) = answer.split_once(REFUSED) {
        return Err(Error::Keeper(why.to_owned()));
    }
    if read.is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock) {
        return Err(failed(&"it has not answered in time"));
    }
    let _ = said.set_nonblocking(true);
    let mut errors = Vec::new();
    let _ = said.read_to_end(&mut errors);
    let errors = String::from_utf8_lossy(&errors);
    match errors.trim() {
        "" => {
            Err(Error::Keeper(format!("{what} has ended at once; does it call libi::agent::serve_if_asked?")))
        }
        errors => Err(failed(&errors)),
    }
}

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
