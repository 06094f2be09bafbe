//! Daemons beside a job, as the front end has them.
//!
//! | what ends them | the job | the daemons |
//! |---|---|---|
//! | detach | goes on; ranks that are held are let go | go on until they leave, or the front end ends |
//! | shutdown | goes on; ranks that are held are let go | end |
//! | kill | ends: SIGTERM to its launcher, SIGKILL after [`JOB_GRACE`] | end |

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libi::job::{End, Ends, Job, Launched, Target};
use libi::{Bytes, Rank, Session};

use super::codes::{ESYS, ETOUT, talk};
use super::limits::{Deadline, timeout};
use super::mailbox::Mailbox;
use super::messages::Message;
use super::table::Entry;
use crate::compat::output::without_signals;
use crate::compat::this_machine::ThisMachine;
use crate::compat::{CallError, CallResult, lock};

/// How long a launcher has to end its job.
const JOB_GRACE: Duration = Duration::from_secs(5);
/// How long daemons have to finalize before they are ended, as members of 2011.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);
/// Then they get SIGTERM, and SIGKILL after this.
const GRACE: Duration = Duration::from_secs(2);
/// How long ranks have to go on to their programs.
const RELEASE: Duration = Duration::from_secs(30);

pub(super) struct Tool {
    session: Session,
    pub(super) job: Job,
    /// In the order of ranks.
    pub(super) entries: Vec<Entry>,
    /// If it was launched here.
    launched: Option<Mutex<Launched>>,
    is_held: AtomicBool,
    mailbox: Mailbox,
}

impl Tool {
    /// Daemons that are ready. A thread receives what they send.
    pub(super) fn new(
        session: Session,
        job: Job,
        entries: Vec<Entry>,
        launched: Option<Launched>,
    ) -> CallResult<Arc<Self>> {
        let is_held = AtomicBool::new(launched.is_some());
        let launched = launched.map(Mutex::new);
        let tool = Self { session, job, entries, launched, is_held, mailbox: Mailbox::default() };
        let tool = Arc::new(tool);
        let receiver = Arc::clone(&tool);
        thread("libi-mail", move || receiver.receive())?;
        Ok(tool)
    }

    fn receive(&self) {
        loop {
            let received = self.session.recv().wait(Duration::MAX).map_err(talk("receiving from the master"));
            match received.and_then(|message| Message::decoded(&message)) {
                Ok(message) => self.mailbox.put(message),
                Err(error) => return self.mailbox.close(error.text),
            }
        }
    }

    pub(super) fn send(&self, data: Bytes) -> CallResult {
        let message = Message::Data(data).encoded();
        self.session.send(message).wait(timeout()).map_err(talk("sending to the master daemon"))
    }

    pub(super) fn recv(&self) -> CallResult<Bytes> {
        self.mailbox.data(timeout())
    }

    /// Lets ranks that are held go, and waits until they do.
    pub(super) fn let_go(&self, within: Duration) -> CallResult {
        if !self.is_held.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let deadline = Deadline::after(within.min(timeout()));
        let millis = u32::try_from(deadline.left().as_millis()).unwrap_or(u32::MAX);
        let told = self.session.send(Message::Release(millis).encoded()).wait(deadline.left());
        let told = told.map_err(talk("telling the master daemon to let the ranks go"));
        match told.and_then(|()| self.mailbox.answer(deadline.left() + LEAVE_TIMEOUT)) {
            Ok(0) => Ok(()),
            Ok(held) => Err(CallError::new(ETOUT, format!("{held} ranks are still held"))),
            Err(error) => self.let_go_here().then_some(()).ok_or(error),
        }
    }

    /// Lets the ranks of this machine go without daemons. Returns whether none is held then: a
    /// master that has left has let its ranks go before, and told the others.
    fn let_go_here(&self) -> bool {
        let here = ThisMachine::new();
        let is_here = |entry: &&Entry| here.is(&entry.host.to_string_lossy());
        let targets: Vec<Target> = self
            .entries
            .iter()
            .filter(is_here)
            .map(|entry| Target::new(Rank(entry.rank), entry.pid, libi::OsBytes::default()))
            .collect();
        let went = targets.iter().all(|target| target.release(LEAVE_TIMEOUT).is_ok() || !target.is_held());
        let has_left = !self.session.lost().contains(Rank(0)) && !self.session.ended().contains(Rank(0));
        went && (has_left || targets.len() == self.entries.len())
    }

    pub(super) fn detach(&self) -> CallResult {
        self.let_go(RELEASE)
    }

    /// Ends the daemons: those that are about to leave have time to do so, the others end.
    pub(super) fn shut_down(&self) -> CallResult {
        let went = self.let_go(RELEASE);
        self.end_daemons()?;
        went
    }

    fn end_daemons(&self) -> CallResult {
        if self.session.wait_done(LEAVE_TIMEOUT).is_ok() {
            return Ok(());
        }
        let ended = self.session.terminate(GRACE);
        ended.map_err(|error| CallError::new(ESYS, format!("ending the daemons: {error}")))
    }

    pub(super) fn kill(&self) -> CallResult {
        let ended = end_launcher(self.job.launcher_pid(), || self.is_running());
        self.end_daemons()?;
        ended
    }

    /// Whether the launcher runs. Collects its exit status if this process has started it.
    fn is_running(&self) -> bool {
        if let Some(launched) = &self.launched {
            // Where the tool collects it, the process table tells.
            let _ = lock(launched).wait(Duration::ZERO);
        }
        self.job.is_running()
    }

    /// Waits for the end of the job.
    pub(super) fn wait(&self) {
        let mut ends = Ends::of_launcher(&self.job);
        while ends.next(Duration::MAX) != Some(End::Launcher) && !ends.is_empty() {}
        self.is_running();
    }
}

/// Ends a job by its launcher.
pub(super) fn end_launcher(pid: i32, is_running: impl Fn() -> bool) -> CallResult {
    for (signal, grace) in [(libc::SIGTERM, JOB_GRACE), (libc::SIGKILL, JOB_GRACE)] {
        if !is_running() {
            return Ok(());
        }
        // SAFETY: no pointers are involved; the number is that of the launcher, which was running.
        if unsafe { libc::kill(pid, signal) } != 0 && is_running() {
            let why = std::io::Error::last_os_error();
            return Err(CallError::new(ESYS, format!("the launcher, process {pid}, cannot be ended: {why}")));
        }
        let until = Instant::now() + grace;
        while is_running() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let text = || format!("the launcher, process {pid}, has not ended");
    if is_running() { Err(CallError::new(ETOUT, text())) } else { Ok(()) }
}

/// Starts a thread that handles no signals of the program.
pub(super) fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> CallResult {
    let start = || std::thread::Builder::new().name(name.to_owned()).spawn(work);
    let started = without_signals(start);
    started.map(drop).map_err(|error| CallError::new(ESYS, format!("cannot start a thread: {error}")))
}
